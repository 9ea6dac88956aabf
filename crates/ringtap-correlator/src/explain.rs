//! Owns: near misses: what the rules would have found had their timespans been longer, and by how much it came too late.
//! Does not: change what is found.

use std::collections::HashSet;
use std::sync::Arc;

use ringtap_sigma::{Automaton, Opened, Output, key_parts};

use crate::engine::{Bounds, Engine, Finding};
use crate::event::Event;
use crate::render::{shown_span, shown_time};
use ringtap_output::printable;

/// How much longer than its timespan a match may take to be told as a near miss.
const FACTOR: u32 = 4;
/// Near misses that are told.
const MOST: usize = 1000;

/// Runs the rules a second time, as they are and with longer timespans.
pub struct Explainer {
    exact: Engine,
    wide: Engine,
    disorder_ns: i64,
    greatest_ns: i64,
    found: HashSet<(u16, Vec<u8>)>,
    missed: Vec<Opened>,
}

impl Explainer {
    /// For these rules; `disorder_ns`: events may come so much later than the latest.
    #[must_use]
    pub fn new(automaton: &Arc<Automaton>, bounds: Bounds, disorder_ns: i64) -> Self {
        let wide = Arc::new(automaton.widened(FACTOR));
        Self {
            exact: Engine::new(Arc::clone(automaton), bounds, false),
            wide: Engine::new(wide, bounds, false),
            disorder_ns,
            greatest_ns: i64::MIN,
            found: HashSet::new(),
            missed: Vec::new(),
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        self.exact.event(event);
        self.wide.event(event);
        self.greatest_ns = self.greatest_ns.max(event.mark.time_ns);
        self.advance(self.greatest_ns.saturating_sub(self.disorder_ns).saturating_sub(1));
    }

    fn advance(&mut self, watermark: i64) {
        let (mut exact, mut wide) = (Vec::new(), Vec::new());
        self.exact.advance(watermark, &mut exact);
        self.wide.advance(watermark, &mut wide);
        for finding in exact {
            if let Finding::Incident(Output::Opened(it)) = finding
                && self.found.len() < MOST
            {
                self.found.insert((it.rule, it.key));
            }
        }
        for finding in wide {
            if let Finding::Incident(Output::Opened(it)) = finding
                && self.missed.len() < MOST
            {
                self.missed.push(it);
            }
        }
    }

    /// The near misses, a line each: of rules and keys that found nothing.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        self.advance(i64::MAX);
        let automaton = Arc::clone(self.exact.automaton());
        let missed = std::mem::take(&mut self.missed);
        missed
            .iter()
            .filter(|it| !self.found.contains(&(it.rule, it.key.clone())))
            .filter_map(|it| {
                let rule = &automaton.rules()[usize::from(it.rule)];
                let too_late = it.at_ns.saturating_sub(it.start_ns).saturating_sub(rule.timespan_ns);
                let last = it.members.last()?;
                let step = rule.steps(&automaton).find(|(place, _)| *place == last.place).map_or("", |(_, step)| step);
                let key: Vec<&str> = key_parts(&it.key).collect();
                // A chain whose own span fits was late in a rule beneath, which has a line of its own.
                (too_late > 0).then(|| {
                    printable(&format!(
                        "near miss: {}: {}: step {} ({step}) at {} came {} after the timespan",
                        rule.head.label(),
                        key.join(", "),
                        last.place + 1,
                        shown_time(last.time_ns),
                        shown_span(too_late),
                    ))
                })
            })
            .collect()
    }
}
