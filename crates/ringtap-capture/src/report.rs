//! What a running capture says: notes, a progress line on a terminal, one JSON object per interval where asked for.
//!
//! Owns who hears what: results go one way, everything else the other. The end is in `summary`.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use ringtap::ledger::Ledger;
use serde_json::Value;

use crate::Capture;
use crate::object::{DeviceSpan, Facts, Span};
use crate::supervise::Look;
use ringtap_run::units::{grouped, shown_rate, shown_size};

/// Interval unless told otherwise.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where a running capture speaks.
pub struct Streams {
    results: Box<dyn Write>,
    notes: Box<dyn Write>,
    /// Notes are read on a terminal, whose last line may be written anew.
    is_terminal: bool,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

impl Streams {
    /// Results to standard output, notes to standard error.
    pub fn standard() -> Self {
        Self { results: Box::new(io::stdout()), notes: Box::new(io::stderr()), is_terminal: io::stderr().is_terminal() }
    }

    /// Results and notes to these, of which neither is a terminal.
    pub fn new(results: impl Write + 'static, notes: impl Write + 'static) -> Self {
        Self { results: Box::new(results), notes: Box::new(notes), is_terminal: false }
    }

    /// Nobody may be left to read notes, which is no reason to end.
    fn note(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.notes.write_fmt(text).and_then(|()| self.notes.flush());
    }
}

/// Speaks for one capture.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    facts: &'a Facts,
    streams: &'a mut Streams,
    interval: Duration,
    /// An object per interval.
    objects: bool,
    /// Rewrite one line of a terminal.
    rewrites: bool,
    /// A line per interval, as asked for where there is no terminal.
    appends: bool,
    /// How it waits when it does not wait for interrupts.
    timer: &'static str,
    started: Instant,
    has_line: bool,
}

impl<'a> Reporter<'a> {
    /// `timer` describes the timer mode.
    pub(crate) fn new(capture: &Capture, facts: &'a Facts, streams: &'a mut Streams, timer: &'static str) -> Self {
        let stats = capture.stats;
        let objects = capture.objects && stats.is_some();
        let rewrites = !objects && streams.is_terminal;
        Self {
            facts,
            streams,
            interval: stats.unwrap_or(INTERVAL),
            objects,
            rewrites,
            appends: !objects && !rewrites && stats.is_some(),
            timer,
            started: Instant::now(),
            has_line: false,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// One line to the user, beside the results.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        self.streams.note(format_args!("ringtap: {text}\n"));
    }

    /// Takes the progress line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            self.streams.note(format_args!("\r\x1b[K"));
        }
    }

    /// Tells what happened between two looks.
    ///
    /// # Errors
    /// Results can't be written, as when their reader has gone.
    pub(crate) fn interval_passed(&mut self, now: &Look, before: &Look) -> io::Result<()> {
        if self.objects {
            let object = self.object(now, before);
            writeln!(self.streams.results, "{object}")?;
            return self.streams.results.flush();
        }
        if self.rewrites {
            // Without automatic wrap a long line is cut at the edge instead of filling the screen.
            let line = self.line(now, before);
            self.streams.note(format_args!("\r\x1b[?7l{line}\x1b[K\x1b[?7h"));
            self.has_line = true;
        } else if self.appends {
            let line = self.line(now, before);
            self.streams.note(format_args!("{line}\n"));
        }
        Ok(())
    }

    fn line(&self, now: &Look, before: &Look) -> String {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let elapsed = now.at.duration_since(self.started).as_secs();
        let pps = (now.tally.packets - before.tally.packets) as f64 / seconds;
        let bits = (now.tally.bytes - before.tally.bytes) as f64 * 8.0 / seconds;
        let mode = if now.counters.timer_mode { self.timer } else { "interrupt" };
        let mut line = format!(
            "{}:{:02}  {}  {:.1} Mbit/s  {} packets  lost {}  {mode}",
            elapsed / 60,
            elapsed % 60,
            shown_rate(pps),
            bits / 1e6,
            grouped(now.ledger.delivered),
            lost(&now.ledger)
        );
        if self.facts.interfaces.len() > 1 {
            for (name, (now, before)) in self.facts.interfaces.iter().zip(now.devices.iter().zip(&before.devices)) {
                let pps = (now.0.packets - before.0.packets) as f64 / seconds;
                line.push_str(&format!("  {name} {}", shown_rate(pps)));
            }
        }
        if now.ledger.cut > 0 {
            line.push_str(&format!("  cut {}", grouped(now.ledger.cut)));
        }
        if let (Some(file), Some((_, bytes))) = (&now.file, now.written) {
            line.push_str(&format!("  {file} {}", shown_size(bytes)));
        }
        line
    }

    fn object(&self, now: &Look, before: &Look) -> Value {
        Span {
            facts: self.facts,
            elapsed: now.at.duration_since(self.started),
            lasted: now.at.duration_since(before.at),
            tally: now.tally.since(before.tally),
            ledger: now.ledger.since(&before.ledger),
            total: now.ledger.clone(),
            devices: now
                .devices
                .iter()
                .zip(&before.devices)
                .map(|(now, before)| DeviceSpan {
                    tally: now.0.since(before.0),
                    ledger: now.1.since(&before.1),
                    total: now.1.clone(),
                })
                .collect(),
            counters: &now.counters.since(&before.counters),
            written: now.written,
            file: now.file.clone(),
            summary: None,
        }
        .object()
    }
}

/// What was lost: `0`, or `12 (ring_full 10, nic 2)`.
pub(crate) fn lost(ledger: &Ledger) -> String {
    let causes: Vec<String> = ledger
        .drops
        .iter()
        .filter(|(_, count)| **count != Some(0))
        .map(|(cause, count)| format!("{} {}", cause.name(), count.map_or("unknown".to_owned(), grouped)))
        .collect();
    if causes.is_empty() { "0".to_owned() } else { format!("{} ({})", grouped(ledger.lost()), causes.join(", ")) }
}

#[cfg(test)]
mod tests {
    use ringtap::ledger::Cause;

    use super::*;

    #[test]
    fn losses_are_told_with_their_causes() {
        let mut ledger = Ledger::default();
        ledger.drop(Cause::Nic, Some(0));
        assert_eq!(lost(&ledger), "0");
        ledger.drop(Cause::RingFull, Some(1200));
        ledger.drop(Cause::Softnet, None);
        assert_eq!(lost(&ledger), "1,200 (softnet unknown, ring_full 1,200)");
    }
}
