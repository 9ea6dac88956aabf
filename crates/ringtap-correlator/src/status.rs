//! Owns: the account of a run: what came in, what became of it, and what could not have been seen.
//! Does not: count; each part counts its own.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringtap_run::units::{grouped, shown_size};
use serde_json::{Value as Json, json};

use crate::correlator::{Correlator, SensorCounts};
use crate::input::counts::InputCounts;
use crate::render::{shown_span, shown_time};
use ringtap_output::printable;
use std::sync::Arc;

/// The account.
#[derive(Clone, Debug)]
pub struct Status {
    /// Lines, bad ones, failures to read; by input.
    pub inputs: Vec<(String, u64, u64, u64)>,
    /// Events by sensor.
    pub sensors: Vec<SensorCounts>,
    /// What the correlator counted.
    pub counts: crate::correlator::Counts,
    /// What its engine counted.
    pub engine: crate::engine::Counts,
    /// Keys, their bytes, events that wait.
    pub now: (usize, usize, usize),
    /// Rules with the incidents that opened.
    pub rules: Vec<(String, i64, u64)>,
    /// The watermark, ns; `None` before the first event and after the end.
    pub watermark_ns: Option<i64>,
    /// Bytes of the log, events it could not take, damaged segments.
    pub log: Option<(u64, u64, u64)>,
    /// Announcements that an output could not take.
    pub not_told: u64,
    /// How much disorder was allowed.
    pub disorder: Duration,
}

impl Status {
    /// As of now.
    #[must_use]
    pub fn of(correlator: &Correlator, inputs: &[Arc<InputCounts>], not_told: u64, disorder: Duration) -> Self {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let engine = correlator.engine();
        let rules = engine.automaton().rules().iter().zip(&correlator.counts().incidents);
        let input = |it: &Arc<InputCounts>| (it.name.clone(), load(&it.lines), load(&it.bad), load(&it.failed));
        Self {
            inputs: inputs.iter().map(input).collect(),
            sensors: correlator.counts().sensors.values().cloned().collect(),
            counts: correlator.counts().clone(),
            engine: engine.counts().clone(),
            now: (engine.keys(), engine.bytes(), engine.waiting()),
            rules: rules.map(|(rule, count)| (rule.head.label().to_owned(), rule.timespan_ns, *count)).collect(),
            watermark_ns: Some(engine.watermark()).filter(|at| *at > i64::MIN && *at < i64::MAX),
            log: correlator.log(),
            not_told,
            disorder,
        }
    }

    /// What could not have been seen, a line each; empty: nothing that came in.
    #[must_use]
    pub fn could_not_have_seen(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |count: u64, what: &str| {
            if count > 0 {
                lines.push(format!("{} {what}", grouped(count)));
            }
        };
        add(self.inputs.iter().map(|(_, _, bad, _)| bad).sum(), "lines were no events");
        add(self.inputs.iter().map(|(.., failed)| failed).sum(), "times an input could not be read on");
        let future = self.sensors.iter().map(|sensor| sensor.future).sum();
        add(future, "events had a stamp in the future and were refused");
        add(self.counts.not_judged, "late events were not judged again (that needs --store)");
        add(self.counts.too_old, "events were older than the log reaches back, and not judged");
        add(self.counts.pushed, "times too many events waited: the disorder allowed was shorter then");
        add(self.engine.forced, "events were judged before their time, as too many of their key waited");
        add(self.log.map_or(0, |(_, lost, _)| lost), "events are not in the log: a restart forgets them");
        add(self.log.map_or(0, |(.., damaged)| damaged), "segments of the log were damaged");
        if self.counts.set_back_ns > 0 {
            let ahead = shown_span(self.counts.set_back_ns);
            lines.push(format!("the store had come {ahead} farther than the clock, and was set back"));
        }
        for ((rule, ..), [missing, list, long]) in self.rules.iter().zip(&self.engine.skipped) {
            let mut add = |count: u64, what: &str| {
                if count > 0 {
                    lines.push(format!("{rule}: {} events {what}", grouped(count)));
                }
            };
            add(*missing, "lacked a field of the key");
            add(*list, "had a list where the key needs one value");
            add(*long, "had a value too long for a key");
        }
        for ((rule, ..), count) in self.rules.iter().zip(&self.engine.forgotten).filter(|(_, count)| **count > 0) {
            lines.push(format!("{rule}: {} keys were forgotten before their time (--memory)", grouped(*count)));
        }
        lines
    }

    /// One object.
    #[must_use]
    pub fn json(&self, event: &str) -> Json {
        let inputs = self
            .inputs
            .iter()
            .map(|(name, lines, bad, failed)| json!({"name": name, "lines": lines, "bad": bad, "failed": failed}));
        let sensors = self.sensors.iter().map(|it| {
            json!({"name": &*it.name, "events": it.events, "late": it.late, "future": it.future, "last_ns": it.last_ns})
        });
        let rules = self.rules.iter().enumerate().map(|(number, (rule, timespan_ns, incidents))| {
            json!({
                "rule": rule, "timespan_ns": timespan_ns, "incidents": incidents, "late": self.engine.late[number],
                "skipped": self.engine.skipped[number].iter().sum::<u64>(), "forgotten": self.engine.forgotten[number],
            })
        });
        json!({
            "event": event,
            "events": self.counts.events,
            "known": self.counts.known,
            "matched": self.engine.matched,
            "duplicates": self.engine.duplicates,
            "judged_again": self.counts.judged_again,
            "keys": self.now.0, "bytes": self.now.1, "waiting": self.now.2,
            "watermark_ns": self.watermark_ns,
            "log_bytes": self.log.map(|(bytes, ..)| bytes),
            "not_told": self.not_told,
            "inputs": inputs.collect::<Vec<_>>(),
            "sensors": sensors.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
            "disorder_ns": self.disorder.as_nanos() as u64,
            "could_not_have_seen": self.could_not_have_seen(),
        })
    }

    /// One line of how far it is.
    #[must_use]
    pub fn line(&self) -> String {
        let (keys, bytes, waiting) = self.now;
        let incidents: u64 = self.rules.iter().map(|(.., count)| count).sum();
        let until = self.watermark_ns.map_or_else(|| "the beginning".to_owned(), shown_time);
        format!(
            "{} events, {} incidents; certain until {until}; {} keys in {}, {} events wait",
            grouped(self.counts.events),
            grouped(incidents),
            grouped(keys as u64),
            shown_size(bytes as u64),
            grouped(waiting as u64),
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incidents: u64 = self.rules.iter().map(|(.., count)| count).sum();
        writeln!(f, "{} events, {} incidents", grouped(self.counts.events), grouped(incidents))?;
        for (name, lines, bad, _) in &self.inputs {
            writeln!(f, "  input {}: {} lines, {} no events", printable(name), grouped(*lines), grouped(*bad))?;
        }
        for SensorCounts { name, events, late, .. } in &self.sensors {
            writeln!(f, "  sensor {}: {} events, {} late", printable(name), grouped(*events), grouped(*late))?;
        }
        if self.counts.known > 0 {
            writeln!(f, "  {} events were in the log already", grouped(self.counts.known))?;
        }
        if self.counts.judged_again > 0 {
            writeln!(f, "  {} late events were judged again", grouped(self.counts.judged_again))?;
        }
        for (rule, _, count) in self.rules.iter().filter(|(.., count)| *count > 0) {
            writeln!(f, "  rule {}: {} incidents", printable(rule), grouped(*count))?;
        }
        writeln!(
            f,
            "Seen for certain: whatever the rules say of events that came at most {:?} behind the latest.",
            self.disorder
        )?;
        let unseen = self.could_not_have_seen();
        if unseen.is_empty() {
            return writeln!(f, "Could not have seen: what no input told.");
        }
        writeln!(f, "Could not have seen: what no input told, and what rests on these:")?;
        unseen.iter().try_for_each(|line| writeln!(f, "  {}", printable(line)))
    }
}

#[cfg(test)]
mod tests {
    use ringtap_sigma::{Limits, RuleSet};

    use super::*;
    use crate::correlator::{Settings, Way};
    use crate::input::parse::{Parser, Wanted};

    #[test]
    fn senders_do_not_write_to_the_terminal() {
        let (automaton, _) = RuleSet::new().compile(Limits::default());
        let mut correlator = Correlator::open(Arc::new(automaton), Settings::default(), None, 10).unwrap();
        let line = r#"{"time":1,"sensor":"\u001b]0;x\u0007\nCould not have seen: what no input told.\u202e"}"#;
        let event = Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap();
        correlator.event(event, Way::Stream, i64::MAX);
        let inputs = [InputCounts::new("a\u{1b}[2J")];
        let text = Status::of(&correlator, &inputs, 0, Duration::ZERO).to_string();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
        assert_eq!(text.matches("\nCould not have seen").count(), 1, "{text}");
    }
}
