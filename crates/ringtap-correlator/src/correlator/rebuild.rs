//! Owns: states built again from the log, after a restart and for new rules.
//! Does not: tell what was told before: the store says how far that goes.

use std::sync::Arc;

use ringtap::Result;
use ringtap_sigma::{Automaton, Output};

use super::Correlator;
use crate::engine::{Engine, Finding, Known as _};
use crate::log::Record;
use crate::store::{Found, KnownIncidents};

impl Correlator {
    /// Goes through the log: up to the stored watermark without telling anything, from there on as if it came now.
    pub(super) fn rebuild(&mut self) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let judged = disk.judged;
        let oldest = judged.watermark.saturating_sub(self.engine.automaton().horizon_ns());
        let known = disk.store.known(oldest, Found::InTime)?;
        if judged.watermark > i64::MIN {
            self.log_begins = oldest;
            self.watermark.push(judged.watermark);
            if judged.greatest_ns > i64::MIN {
                self.watermark.event(judged.greatest_ns);
            }
        }
        let mut before = Vec::new();
        let mut has_crossed = false;
        for (place, record) in disk.log.read_from(oldest) {
            match record {
                Record::Event { event, late } => {
                    let mark = event.mark;
                    if mark.time_ns < oldest {
                        continue;
                    }
                    self.in_log.insert((mark.time_ns, mark.identity));
                    self.log_ends = self.log_ends.max(mark.time_ns);
                    if late {
                        if place >= judged.late {
                            self.late.push(event);
                        }
                        continue;
                    }
                    self.engine.event(&event);
                    self.watermark.event(mark.time_ns.min(self.now_ns));
                    if mark.time_ns > judged.watermark {
                        self.numbers.note(&mark);
                    }
                }
                Record::Watermark(at) if at <= judged.watermark => {
                    self.engine.advance_knowing(at, &known, &mut before);
                }
                Record::Watermark(at) => {
                    let at = at.min(self.now_ns);
                    if !std::mem::replace(&mut has_crossed, true) {
                        cross(&mut self.engine, judged.watermark, &known, &mut before, &mut self.findings);
                    }
                    self.engine.advance(at, &mut self.findings);
                    self.watermark.push(at);
                }
                Record::Silence { .. } | Record::End(_) => {}
            }
        }
        if !has_crossed {
            cross(&mut self.engine, judged.watermark, &known, &mut before, &mut self.findings);
        }
        self.engine.take_provisional();
        self.engine.take_forgotten();
        self.collect();
        Ok(())
    }

    /// Goes on with other rules. What means the same goes on as it is; what is new is built from the log, where there is
    /// one, and incidents that are open by that are told now.
    ///
    /// # Errors
    /// Log or store can't be read or written; the rules stay what they were.
    pub fn reload(&mut self, automaton: Arc<Automaton>) -> Result<()> {
        self.sync()?;
        let watermark = self.engine.watermark();
        let mut engine = Engine::new(Arc::clone(&automaton), self.settings.bounds, self.settings.early);
        if let Some(disk) = &mut self.disk {
            let oldest = watermark.saturating_sub(automaton.horizon_ns());
            let known = disk.store.known(oldest, Found::InTime)?;
            let mut before = Vec::new();
            for (_, record) in disk.log.read_from(oldest) {
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
        let mut incidents = vec![0; automaton.rules().len()];
        for (rule, count) in automaton.rules().iter().zip(&mut incidents) {
            let same = old.automaton().rules().iter().find(|other| other.version == rule.version);
            *count = same.map_or(0, |same| self.counts.incidents[usize::from(same.number)]);
        }
        self.counts.incidents = incidents;
        self.engine.adopt(old);
        self.collect();
        Ok(())
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
