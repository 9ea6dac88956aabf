//! Owns: states built again from the log, after a restart and for new rules.
//! Does not: tell what was told before: the store says how far that goes.

use std::sync::Arc;

use ringtap::Result;
use ringtap_run::service_manager::Starting;
use ringtap_sigma::{Automaton, Identity, Output, Version};

use super::streams::Streams;
use super::{Correlator, Removed, Report};
use crate::engine::{Engine, Finding, Known as _, Taken};
use crate::log::Record;
use crate::sensors::{Sensors, What};
use crate::store::{KnownIncidents, Which};

impl Correlator {
    /// Goes through the log: up to the stored watermark without telling anything, from there on as if it came now.
    pub(super) fn rebuild(&mut self) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let judged = disk.judged;
        let oldest = judged.watermark.saturating_sub(self.engine.automaton().horizon_ns());
        let known = disk.store.known(oldest, Which::InTime)?;
        self.streams = Streams::of(disk.store.read_up_to()?);
        if judged.watermark > i64::MIN {
            self.log_begins = oldest;
            self.watermark.push(judged.watermark);
            if judged.greatest_ns > i64::MIN {
                self.watermark.event(judged.greatest_ns);
            }
        }
        let mut before = Vec::new();
        let mut has_crossed = false;
        let mut reached = i64::MIN;
        let mut read = None;
        let mut start = Starting::begin();
        for (at, record) in disk.log.read_from_segment(oldest, judged.late.segment) {
            start.alive();
            let read_with_it = read.take();
            match record {
                Record::Read { stream, next } => read = Some((stream, next)),
                Record::BeginsAgain { stream, next } => self.streams.set(stream, next),
                Record::Event { event, late } => {
                    let mark = event.mark;
                    read_with_it.inspect(|&(stream, next)| self.streams.note(stream, next));
                    let place = self.places.get(&mark.identity.sensor).copied();
                    let Identity { epoch, sequence, .. } = mark.identity;
                    note(&mut self.sensors, place, epoch, Some(sequence), mark.time_ns);
                    if mark.time_ns < oldest {
                        continue;
                    }
                    // What is told of it names its sensor, whether that says anything from now on or not.
                    self.sensor(&event);
                    if self.settings.reads_again {
                        self.in_log.insert((mark.time_ns, mark.identity));
                    }
                    self.log_ends = self.log_ends.max(mark.time_ns);
                    let is_behind = late || self.engine.event(&event) == Taken::Overtaken;
                    if is_behind && at >= judged.late && !self.late.push(event) {
                        self.counts.not_judged += 1;
                    }
                    if late || place.is_some() {
                        continue;
                    }
                    self.watermark.event(mark.time_ns.min(self.now.wall_ns));
                    if mark.time_ns > judged.watermark {
                        self.numbers.note(&mark);
                    }
                }
                Record::Watermark(at) if at <= judged.watermark => {
                    reached = at;
                    self.engine.advance_knowing(at, &known, &mut before);
                }
                Record::Watermark(at) => {
                    let at = at.min(self.now.wall_ns);
                    reached = at;
                    if !std::mem::replace(&mut has_crossed, true) {
                        cross(&mut self.engine, judged.watermark, &known, &mut before, &mut self.findings);
                    }
                    self.engine.advance(at, &mut self.findings);
                    self.watermark.push(at);
                }
                Record::Sensor { number, what } => self.note_sensor(number, what, reached),
                Record::Silence { .. } | Record::End(_) => {}
            }
        }
        if !has_crossed {
            cross(&mut self.engine, judged.watermark, &known, &mut before, &mut self.findings);
        }
        self.streams.are_logged();
        self.engine.take_provisional();
        self.engine.take_forgotten();
        if let Some(sensors) = self.sensors.as_mut().filter(|_| self.engine.watermark() > i64::MIN) {
            sensors.go_on_from(self.engine.watermark());
        }
        self.remove_of_old_rules(self.engine.watermark().max(judged.watermark))?;
        self.collect();
        self.count_open();
        Ok(())
    }

    /// Notes what the log says of a registered sensor; its time: `reached_ns` at least.
    fn note_sensor(&mut self, number: u64, what: What, reached_ns: i64) {
        let place = self.places.get(&number).copied();
        match what {
            What::Missing { from_ns, to_ns, .. } => self.gaps.add(from_ns, to_ns),
            What::Began { epoch } => note(&mut self.sensors, place, epoch, None, reached_ns),
            what => {
                if let Some((sensors, place)) = self.sensors.as_mut().zip(place) {
                    sensors.note_left_out(place, what);
                }
            }
        }
    }

    /// Closes what the store has open, up to this watermark, of rules that are used no longer.
    fn remove_of_old_rules(&mut self, watermark: i64) -> Result<()> {
        let versions: Vec<Version> = self.engine.automaton().rules().iter().map(|rule| rule.version).collect();
        let Some(disk) = &self.disk else { return Ok(()) };
        let removed = disk.store.open_of_others(&versions, watermark)?;
        self.remove(removed);
        Ok(())
    }

    /// Closes incidents of rules that are used no longer.
    fn remove(&mut self, removed: Vec<Removed>) {
        self.counts.removed += removed.len() as u64;
        if self.disk.is_some() {
            self.batch.removed.extend(removed.iter().map(|it| (it.id, it.at_ns)));
        }
        self.told.extend(removed.into_iter().filter(|it| it.announces).map(Report::Removed));
    }

    /// Goes on with other rules. What means the same goes on as it is; what is new is built from the log, where there is
    /// one, and incidents that are open by that are told now. `alive` is called at each step of that.
    ///
    /// # Errors
    /// Log or store can't be read or written; the rules stay what they were.
    pub fn reload(&mut self, automaton: Arc<Automaton>, alive: &mut dyn FnMut()) -> Result<()> {
        // Late events that wait are judged by the new rules: what is told belongs to the rules that are used then.
        let watermark = self.engine.watermark();
        self.write(watermark)?;
        let mut engine = Engine::new(Arc::clone(&automaton), self.settings.bounds, self.settings.early);
        if let Some(disk) = &mut self.disk {
            let oldest = watermark.saturating_sub(automaton.horizon_ns());
            let known = disk.store.known(oldest, Which::InTime)?;
            let mut before = Vec::new();
            for (_, record) in disk.log.read_from(oldest) {
                alive();
                match record {
                    Record::Event { event, late: false } if event.mark.time_ns >= oldest => {
                        engine.event(&event);
                    }
                    Record::Watermark(at) => engine.advance_knowing(at.min(watermark), &known, &mut before),
                    _ => {}
                }
            }
            cross(&mut engine, watermark, &known, &mut before, &mut self.findings);
        } else {
            engine.advance(watermark, &mut Vec::new());
        }
        engine.take_provisional();
        engine.take_forgotten();
        let old = std::mem::replace(&mut self.engine, engine);
        let is_gone = |version: &Version| !automaton.rules().iter().any(|rule| rule.version == *version);
        let removed = old.states().filter_map(|(number, _, state)| {
            let rule = &old.automaton().rules()[usize::from(number)];
            let (id, announces) = (state.incident().filter(|_| is_gone(&rule.version))?, rule.announces);
            Some(Removed { id, rule: rule.head.label().to_owned(), announces, at_ns: watermark })
        });
        let removed = removed.collect();
        let mut incidents = vec![0; automaton.rules().len()];
        for (rule, count) in automaton.rules().iter().zip(&mut incidents) {
            let same = old.automaton().rules().iter().find(|other| other.version == rule.version);
            *count = same.map_or(0, |same| self.counts.incidents[usize::from(same.number)]);
        }
        self.counts.incidents = incidents;
        self.engine.adopt(old);
        self.remove(removed);
        self.collect();
        self.count_open();
        Ok(())
    }
}

/// Notes what the log says of a registered sensor, if it is one still.
fn note(sensors: &mut Option<Sensors>, place: Option<usize>, epoch: u64, sequence: Option<u64>, time_ns: i64) {
    if let Some((sensors, place)) = sensors.as_mut().zip(place) {
        sensors.note(place, epoch, sequence, time_ns);
    }
}

/// From here on is told what is found: gives open incidents what the store knows of them. An open one that the store
/// does not know is of a new rule, and is told.
fn cross(
    engine: &mut Engine,
    watermark: i64,
    known: &KnownIncidents,
    before: &mut Vec<Finding>,
    findings: &mut Vec<Finding>,
) {
    engine.advance_knowing(watermark, known, before);
    engine.resume(known);
    engine.take_progress();
    let is_new = |engine: &Engine, finding: &Finding| {
        let Finding::Incident(Output::Opened(it)) = finding else { return false };
        let rule = &engine.automaton().rules()[usize::from(it.rule)];
        known.open_at(&rule.version, &it.key, it.at_ns).is_none()
            && engine.states().any(|(_, _, state)| state.incident() == Some(it.id))
    };
    findings.extend(before.drain(..).filter(|finding| is_new(engine, finding)));
}
