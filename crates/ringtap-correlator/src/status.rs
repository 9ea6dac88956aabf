//! Owns: the account of a run: what came in, what became of it, and what could not have been seen.
//! Does not: count; each part counts its own.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringtap_run::units::{grouped, shown_size};
use serde_json::{Value as Json, json};

use crate::correlator::{Correlator, SensorCounts};
use crate::input::counts::InputCounts;
use crate::input::keyring::Keyring;
use crate::render::{shown_span, shown_time};
use crate::sensors::SensorState;
use ringtap_output::printable;
use std::sync::Arc;

/// What came by one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Lines, or datagrams.
    pub lines: u64,
    /// Lines that were no event, among them.
    pub bad: u64,
    /// Times that it could not be read.
    pub failed: u64,
    /// Datagrams that the kernel dropped.
    pub dropped: u64,
}

/// The account.
#[derive(Clone, Debug)]
pub struct Status {
    /// By input.
    pub inputs: Vec<Input>,
    /// Registered sensors by name.
    pub registered: Vec<(Arc<str>, SensorState)>,
    /// Datagrams and lines without a seal that is known: no message, of an unknown sensor, of a wrong key.
    pub refused: [u64; 3],
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
    pub fn of(
        correlator: &Correlator,
        inputs: &[Arc<InputCounts>],
        keyring: &Keyring,
        not_told: u64,
        disorder: Duration,
    ) -> Self {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let engine = correlator.engine();
        let rules = engine.automaton().rules().iter().zip(&correlator.counts().incidents);
        let input = |it: &Arc<InputCounts>| Input {
            name: it.name.clone(),
            lines: load(&it.lines),
            bad: load(&it.bad),
            failed: load(&it.failed),
            dropped: load(&it.dropped),
        };
        let refused = keyring.counts();
        Self {
            registered: correlator.registered().map(|(it, state)| (Arc::clone(&it.name), state)).collect(),
            refused: [load(&refused.foreign), load(&refused.unknown), load(&refused.forged)],
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
        add(self.inputs.iter().map(|input| input.bad).sum(), "lines were no events");
        add(self.inputs.iter().map(|input| input.failed).sum(), "times an input could not be read on");
        add(
            self.inputs.iter().map(|input| input.dropped).sum(),
            "datagrams were dropped by the kernel for want of room",
        );
        let future = self.sensors.iter().map(|sensor| sensor.future).sum();
        add(future, "events had a stamp in the future and were refused");
        add(self.counts.not_judged, "late events were not judged again (that needs --store)");
        add(self.counts.too_old, "events were older than the log reaches back, and not judged");
        add(self.counts.unsealed, "events without a seal named a registered sensor and were refused");
        add(self.counts.no_room, "events of senders without a key found no room");
        add(self.counts.log_cut, "segments of the log went for its size: a restart or a late event misses them");
        add(self.counts.not_stored, "changes of incidents are not in the store, which could not be written");
        add(self.counts.pushed, "times too many events waited: the disorder allowed was shorter then");
        add(self.engine.forced, "events were judged before their time, as too many of their key waited");
        add(self.log.map_or(0, |(_, lost, _)| lost), "events are not in the log: a restart forgets them");
        add(self.log.map_or(0, |(.., damaged)| damaged), "segments of the log were damaged");
        for (name, state) in &self.registered {
            lines.extend(sensor_lines(name, state));
        }
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
        let inputs = self.inputs.iter().map(|it| {
            let Input { name, lines, bad, failed, dropped } = it;
            json!({"name": name, "lines": lines, "bad": bad, "failed": failed, "dropped": dropped})
        });
        let registered = self.registered.iter().map(|(name, it)| {
            json!({
                "sensor": &**name, "h_ns": it.h_ns, "heartbeats": it.beats, "old_heartbeats": it.old_beats,
                "duplicates": it.duplicates, "lost": it.lost, "future": it.future, "old": it.old,
                "silences": it.silences, "silent": it.is_silent, "quarantined": it.is_quarantined, "twice": it.is_twice,
                "registered": !it.is_removed,
            })
        });
        let [foreign, unknown, forged] = self.refused;
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
            "open": self.counts.open,
            "keys": self.now.0, "bytes": self.now.1, "waiting": self.now.2,
            "watermark_ns": self.watermark_ns,
            "log_bytes": self.log.map(|(bytes, ..)| bytes),
            "not_told": self.not_told,
            "inputs": inputs.collect::<Vec<_>>(),
            "registered": registered.collect::<Vec<_>>(),
            "refused": {"foreign": foreign, "unknown": unknown, "forged": forged},
            "no_room": self.counts.no_room, "unsealed": self.counts.unsealed, "removed": self.counts.removed,
            "sensors": sensors.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
            "disorder_ns": self.disorder.as_nanos() as u64,
            "could_not_have_seen": self.could_not_have_seen(),
        })
    }

    /// One short line of how far it is at this time, for a terminal; `rate`: events a second.
    #[must_use]
    pub fn progress(&self, rate: f64, now_ns: i64) -> String {
        let late = self.sensors.iter().map(|sensor| sensor.late).sum();
        let quarantined = self.registered.iter().filter(|(_, state)| state.is_quarantined).count();
        let lag = match self.watermark_ns.map(|at| (at, now_ns.saturating_sub(at).max(0))) {
            None => "nothing certain yet".to_owned(),
            // Of files: how long that is ago says nothing.
            Some((at, behind)) if behind > 3_600_000_000_000 => format!("certain until {}", shown_time(at)),
            Some((_, behind)) => format!("certain until {} ago", shown_span(behind)),
        };
        format!(
            "{rate:.0} events/s, {} late, {quarantined} quarantined, {} incidents open, {lag}",
            grouped(late),
            grouped(self.counts.open),
        )
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
        for Input { name, lines, bad, .. } in &self.inputs {
            writeln!(f, "  input {}: {} lines, {} no events", printable(name), grouped(*lines), grouped(*bad))?;
        }
        for SensorCounts { name, events, late, .. } in &self.sensors {
            writeln!(f, "  sensor {}: {} events, {} late", printable(name), grouped(*events), grouped(*late))?;
        }
        let [foreign, unknown, forged] = self.refused.map(grouped);
        if self.refused != [0; 3] {
            writeln!(f, "  refused: {foreign} no message of a sensor, {unknown} of unknown sensors, {forged} forged")?;
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
        if !self.registered.is_empty() {
            writeln!(
                f,
                "Seen for certain: whatever the rules say of what registered sensors promised to be complete."
            )?;
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

/// What a registered sensor could not tell, a line each.
fn sensor_lines(name: &str, state: &SensorState) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |is_so: bool, what: String| {
        if is_so {
            lines.push(format!("sensor {name} {what}"));
        }
    };
    let when = state
        .lost_within_ns
        .map_or(String::new(), |(from, to)| format!(", of {} to {}", shown_time(from), shown_time(to)));
    add(state.lost > 0, format!("lost {} alarms on the way{when}", grouped(state.lost)));
    add(state.silences > 0, format!("was silent {} times", grouped(state.silences)));
    add(state.is_silent, "is silent".to_owned());
    add(state.future > 0, format!("told {} times of the future, which was refused", grouped(state.future)));
    add(state.is_quarantined, "is in quarantine".to_owned());
    add(state.old > 0, format!("seems to have sent {} messages of long ago, which were refused", grouped(state.old)));
    add(state.is_twice, "is there twice".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use ringtap_sigma::{Limits, RuleSet};

    use super::*;
    use crate::correlator::{Settings, Way};
    use crate::input::parse::{Parser, Wanted};
    use crate::sensors::Now;

    #[test]
    fn a_progress_line_is_short() {
        let (automaton, _) = RuleSet::new().compile(Limits::default());
        let correlator = Correlator::open(Arc::new(automaton), Settings::default(), None, Now::default()).unwrap();
        let mut status = Status::of(&correlator, &[], &Keyring::default(), 0, Duration::ZERO);
        let expected = "1235 events/s, 0 late, 0 quarantined, 0 incidents open, nothing certain yet";
        assert_eq!(status.progress(1234.6, 0), expected);
        let now_ns = 1_700_000_000_000_000_000;
        status.watermark_ns = Some(now_ns - 120_000_000);
        status.registered = vec![("a".into(), SensorState { is_quarantined: true, ..SensorState::default() })];
        assert!(status.progress(0.0, now_ns).ends_with("1 quarantined, 0 incidents open, certain until 120.000ms ago"));
        assert!(status.progress(0.0, i64::MAX).contains("certain until 2023-11-14"));
    }

    #[test]
    fn senders_do_not_write_to_the_terminal() {
        let (automaton, _) = RuleSet::new().compile(Limits::default());
        let mut correlator = Correlator::open(Arc::new(automaton), Settings::default(), None, Now::default()).unwrap();
        let line = r#"{"time":1,"sensor":"\u001b]0;x\u0007\nCould not have seen: what no input told.\u202e"}"#;
        let event = Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap();
        correlator.event(event, Way::Stream, i64::MAX);
        let inputs = [InputCounts::new("a\u{1b}[2J")];
        let text = Status::of(&correlator, &inputs, &Keyring::default(), 0, Duration::ZERO).to_string();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
        assert_eq!(text.matches("\nCould not have seen").count(), 1, "{text}");
    }
}
