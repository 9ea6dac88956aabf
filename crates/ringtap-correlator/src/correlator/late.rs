//! Owns: late events, and judging them again: over the log of their time, each in its place.
//! Does not: change what the engine remembers.

use std::collections::HashSet;
use std::sync::Arc;

use ringtap::Result;
use ringtap_sigma::{Extended, Identity, IncidentId, Member, Opened, Output};

use super::Correlator;
use crate::engine::{Engine, Finding};
use crate::event::Event;
use crate::log::Record;
use crate::store::{KnownIncidents, Which};

/// Late events that wait to be judged again, bytes of their lines.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of the log that may be read for one judgement while events come as they happen: half a second or so.
const READ_LIVE: u64 = 64 << 20;
/// The same where nobody waits for anything else.
const READ_FILES: u64 = 4 << 30;
/// Bytes of events in the log that can matter to one judgement.
const KEPT: usize = 256 << 20;
/// Bytes of the log that may be read between two times that late events are looked at: who sends late ones does not get
/// more of the processor than this.
const CREDIT: u64 = 2 << 20;

/// Late events that wait to be judged again.
#[derive(Debug, Default)]
pub struct Late {
    events: Vec<Event>,
    bytes: usize,
    /// What was read of the log beyond what there was credit for.
    debt: u64,
}

impl Late {
    /// Keeps an event; false when too many wait.
    pub(super) fn push(&mut self, event: Event) -> bool {
        let bytes = self.bytes + event.weight();
        if bytes > MOST_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.events.push(event);
        true
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether one waits that the watermark has passed. Others were overtaken: what can still come may matter to them.
    fn is_due(&self, watermark: i64) -> bool {
        self.events.iter().any(|event| event.mark.time_ns <= watermark)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Takes the earliest and those that lie at most so much behind it, up to the watermark.
    fn take(&mut self, within_ns: i64, watermark: i64) -> Vec<Event> {
        self.events.sort_by_key(|event| (event.mark.time_ns, event.mark.identity));
        let first_ns = self.events.first().map_or(0, |event| event.mark.time_ns);
        let last_ns = first_ns.saturating_add(within_ns).min(watermark);
        let count = self.events.partition_point(|event| event.mark.time_ns <= last_ns);
        let rest = self.events.split_off(count);
        let taken = std::mem::replace(&mut self.events, rest);
        self.bytes = self.events.iter().map(Event::weight).sum();
        taken
    }
}

impl Correlator {
    /// Judges late events again: with all events of the log that can matter to them. `all`: whatever it takes; else as much
    /// as there is credit for.
    pub(super) fn judge_late(&mut self, all: bool) -> Result<()> {
        if self.disk.is_none() {
            return Ok(());
        }
        self.late.debt = self.late.debt.saturating_sub(CREDIT);
        while self.late.is_due(self.engine.watermark()) && (all || self.late.debt < CREDIT) {
            // What is known so far, also what is not written yet. If that fails they wait.
            self.write(self.engine.watermark())?;
            self.judge_again()?;
        }
        Ok(())
    }

    fn judge_again(&mut self) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let automaton = Arc::clone(self.engine.automaton());
        let horizon = automaton.horizon_ns();
        let late = self.late.take(horizon, self.engine.watermark());
        let times = late.iter().map(|event| event.mark.time_ns);
        let (first, last) = (times.clone().min().unwrap_or_default(), times.max().unwrap_or_default());
        let (from, to) = (first.saturating_sub(horizon), last.saturating_add(horizon));
        let known = match disk.store.known(from, Which::Ever) {
            Ok(known) => known,
            Err(error) => {
                // They had room before.
                late.into_iter().for_each(|event| {
                    self.late.push(event);
                });
                return Err(error);
            }
        };
        let mut engine = Engine::new(automaton, self.settings.bounds, false);
        let (mut events, mut kept) = (Vec::new(), 0);
        let most = if self.settings.early { READ_LIVE } else { READ_FILES };
        let mut records = disk.log.read_between(from, to);
        let mut is_too_much = false;
        while !is_too_much && let Some((_, record)) = records.next() {
            if let Record::Event { event, .. } = record
                && (from..=to).contains(&event.mark.time_ns)
                && engine.is_wanted(&event)
            {
                kept += event.weight();
                events.push(event);
            }
            is_too_much = records.bytes() > most || kept > KEPT;
        }
        self.late.debt += records.bytes();
        if is_too_much {
            self.counts.not_judged += late.len() as u64;
            return Ok(());
        }
        self.counts.judged_again += late.len() as u64;
        events.sort_by_key(|event| (event.mark.time_ns, event.mark.identity));
        let mut findings = Vec::new();
        for event in &events {
            engine.advance(event.mark.time_ns.saturating_sub(1), &mut findings);
            engine.event(event);
        }
        engine.advance(to.min(self.engine.watermark()), &mut findings);
        let identities = late.iter().map(|event| event.mark.identity).collect();
        for output in news(&engine, findings, identities, &known) {
            self.incident(output, true);
        }
        Ok(())
    }
}

/// What the late events bring: incidents that nobody knew, and further members of known ones.
fn news(engine: &Engine, findings: Vec<Finding>, late: HashSet<Identity>, known: &KnownIncidents) -> Vec<Output> {
    let (mut news, mut new): (Vec<Output>, HashSet<IncidentId>) = (Vec::new(), HashSet::new());
    let is_late = |new: &HashSet<IncidentId>, member: &Member| {
        late.contains(&member.identity) || member.via.is_some_and(|via| new.contains(&via))
    };
    let mut renamed = std::collections::HashMap::new();
    for finding in findings {
        let Finding::Incident(output) = finding else { continue };
        match output {
            Output::Opened(opened) => {
                let Opened { id, rule, at_ns, start_ns, ref key, ref members, .. } = opened;
                let version = &engine.automaton().rules()[usize::from(rule)].version;
                if let Some(same) = known.meets(version, key, start_ns, at_ns) {
                    renamed.insert(id, same);
                    let members: Vec<Member> = members.iter().filter(|member| is_late(&new, member)).copied().collect();
                    if !members.is_empty() {
                        news.push(Output::Extended(Extended { id: same, rule, at_ns, members }));
                    }
                } else if members.iter().any(|member| is_late(&new, member)) {
                    new.insert(id);
                    news.push(Output::Opened(opened));
                }
            }
            Output::Extended(mut it) => {
                if let Some(same) = renamed.get(&it.id) {
                    it.id = *same;
                    it.members.retain(|member| is_late(&new, member));
                } else if !new.contains(&it.id) {
                    continue;
                }
                if !it.members.is_empty() {
                    news.push(Output::Extended(it));
                }
            }
            Output::Closed(it) if new.contains(&it.id) => news.push(Output::Closed(it)),
            _ => {}
        }
    }
    news
}
