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
use crate::store::{Found, KnownIncidents};

/// Late events that wait to be judged again.
const MOST: usize = 10_000;
/// Events of the log that are looked at for them at once.
const LOOKED_AT: usize = 1_000_000;

/// Late events that wait to be judged again.
#[derive(Debug, Default)]
pub struct Late(Vec<Event>);

impl Late {
    /// Keeps an event; false when too many wait.
    pub(super) fn push(&mut self, event: Event) -> bool {
        let has_room = self.0.len() < MOST;
        if has_room {
            self.0.push(event);
        }
        has_room
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Correlator {
    /// Judges late events again: with all events of the log that can matter to them.
    pub(super) fn judge_late(&mut self) -> Result<()> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if self.late.0.is_empty() {
            return Ok(());
        }
        let late = std::mem::take(&mut self.late.0);
        let automaton = Arc::clone(self.engine.automaton());
        let horizon = automaton.horizon_ns();
        let times = late.iter().map(|event| event.mark.time_ns);
        let (first, last) = (times.clone().min().unwrap_or_default(), times.max().unwrap_or_default());
        let (from, to) = (first.saturating_sub(horizon), last.saturating_add(horizon));
        let mut events = Vec::new();
        for (_, record) in disk.log.read_from(from) {
            if let Record::Event { event, .. } = record
                && (from..=to).contains(&event.mark.time_ns)
            {
                events.push(event);
                if events.len() > LOOKED_AT {
                    self.counts.not_judged += late.len() as u64;
                    return Ok(());
                }
            }
        }
        self.counts.judged_again += late.len() as u64;
        events.sort_by_key(|event| (event.mark.time_ns, event.mark.identity));
        let mut engine = Engine::new(Arc::clone(&automaton), self.settings.bounds, false);
        let mut findings = Vec::new();
        for event in &events {
            engine.advance(event.mark.time_ns.saturating_sub(1), &mut findings);
            engine.event(event);
        }
        engine.advance(to.min(self.engine.watermark()), &mut findings);
        // What is known so far: also what is not written yet.
        self.write(self.engine.watermark())?;
        let Some(disk) = &self.disk else { return Ok(()) };
        let known = disk.store.known(from, Found::Ever)?;
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
