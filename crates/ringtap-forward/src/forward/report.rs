//! What a run says: a progress line, one JSON object per interval where asked for, and the summary.
//!
//! Owns the words. It counts nothing.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use ringtap::histogram::{Histogram, HistogramSnapshot};
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::source::Description;
use ringtap_run::notes;
use ringtap_run::units::{grouped, shown_rate, shown_us};
use serde_json::{Value, json};

use super::Ending;
use super::accounts::Tally;
use crate::counts::Cause;

/// What is known from the start on.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// The interfaces.
    pub(crate) names: [String; 2],
    /// One direction, or two.
    pub(crate) directions: usize,
    /// Packets are handed over by descriptor.
    pub(crate) lends: bool,
    pub(crate) sources: Vec<Description>,
}

impl Facts {
    pub(crate) fn backend(&self) -> &'static str {
        self.sources.first().map_or("", |source| source.backend)
    }

    /// Names of where a direction's packets come from and go to.
    pub(crate) fn ends(&self, direction: usize) -> (&str, &str) {
        (&self.names[direction], &self.names[1 - direction])
    }

    /// `a → b`, or both ways.
    pub(crate) fn wire(&self) -> String {
        let [first, second] = &self.names;
        if self.directions == 2 { format!("{first} <-> {second}") } else { format!("{first} -> {second}") }
    }

    pub(crate) fn manner(&self) -> &'static str {
        if self.lends { "by descriptor" } else { "one copy" }
    }
}

/// One look at everything that counts.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) elapsed: Duration,
    /// Of each direction.
    pub(crate) tallies: Vec<Tally>,
    /// Of each direction's reception.
    pub(crate) ledgers: Vec<Ledger>,
    /// Of each direction's packets; the engines' own are with the first.
    pub(crate) counters: Vec<EngineSnapshot>,
    /// What each interface says it dropped on the way out since the start, of whoever sent there.
    pub(crate) device_dropped: [Option<u64>; 2],
    /// Which interfaces are up; `None`: of what is none of the kernel's it is not known.
    pub(crate) up: [Option<bool>; 2],
}

impl Look {
    pub(crate) fn received(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.received).sum()
    }

    /// From arrival to handling, of both directions.
    pub(crate) fn latency(&self) -> HistogramSnapshot {
        let none = Histogram::default().snapshot();
        self.counters.iter().fold(none, |sum, counters| sum.merged(&counters.latency))
    }

    /// Frames of a direction that the other port's device gave back as sent and that were not out.
    pub(crate) fn invalid_completions(&self, direction: usize) -> u64 {
        self.counters.get(direction).map_or(0, |counters| counters.invalid_completions)
    }

    fn lost(&self) -> u64 {
        let before: u64 = self.ledgers.iter().map(Ledger::lost).sum();
        before + self.tallies.iter().map(|tally| tally.output.lost()).sum::<u64>()
    }

    fn object(&self, facts: &Facts, kind: &str, pps: f64) -> Value {
        let ended = kind == "summary";
        let directions = self.tallies.iter().zip(&self.ledgers).enumerate().map(|(direction, (tally, ledger))| {
            let (from, to) = facts.ends(direction);
            json!({
                "from": from,
                "to": to,
                "up": self.up[1 - direction],
                "packets": tally.received,
                "bytes": tally.bytes,
                "account": tally.object(ledger, ended),
                "drops": tally.output.causes(),
                "device_dropped": self.device_dropped[1 - direction],
                "checksums_completed": tally.output.completed,
                "invalid_completions": self.invalid_completions(direction),
                "time_inside_us": tally.inside.quantiles_us(),
                "time_inside_histogram_ns":
                    if ended { json!(tally.inside.buckets().collect::<Vec<_>>()) } else { Value::Null },
                "ledger": ledger,
            })
        });
        json!({
            "kind": kind,
            "ports": facts.names,
            "backend": facts.backend(),
            "by_descriptor": facts.lends,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "packets": self.received(),
            "packets_per_second": pps,
            "directions": directions.collect::<Vec<_>>(),
            "latency_us": self.latency().quantiles_us(),
            "sources": facts.sources,
        })
    }
}

/// Speaks while it runs: progress on standard error, objects on standard output.
pub(crate) struct Reporter {
    pub(crate) interval: Duration,
    objects: bool,
    appends: bool,
}

impl Reporter {
    pub(crate) fn new(stats: Option<Duration>, objects: bool) -> Self {
        let objects = objects && stats.is_some();
        let appends = !objects && stats.is_some() && !io::stderr().is_terminal();
        Self { interval: stats.unwrap_or(Duration::from_secs(1)), objects, appends }
    }

    /// Tells what happened between two looks. Nobody may be left to read it, which is no failure.
    pub(crate) fn interval_passed(&self, facts: &Facts, now: &Look, before: &Look) {
        let seconds = (now.elapsed - before.elapsed).as_secs_f64().max(1e-9);
        let pps = (now.received() - before.received()) as f64 / seconds;
        if self.objects {
            let _ = writeln!(io::stdout(), "{}", now.object(facts, "interval", pps));
        } else if self.appends {
            let _ = writeln!(io::stderr(), "{}", line(facts, now, before, pps));
        } else {
            notes::progress(&line(facts, now, before, pps));
        }
    }
}

fn line(facts: &Facts, now: &Look, before: &Look, pps: f64) -> String {
    let seconds = now.elapsed.as_secs();
    let mut line = format!("{}:{:02}  {}", seconds / 60, seconds % 60, shown_rate(pps));
    for (direction, (tally, earlier)) in now.tallies.iter().zip(&before.tallies).enumerate() {
        let (from, to) = facts.ends(direction);
        let state = if now.up[1 - direction] == Some(false) { " (down)" } else { "" };
        let _ = write!(line, "  {from} -> {to}{state} {}", grouped(tally.output.packets));
        // A port of DPDK's stamps nothing.
        if tally.inside.count() > 0 {
            let inside = tally.inside.since(&earlier.inside).quantiles_us();
            let _ = write!(line, " p99 {}", shown_us(inside.p99));
        }
    }
    let _ = write!(line, "  lost {}", grouped(now.lost()));
    line
}

/// Everything the end tells: text for people, an object for programs.
#[derive(Debug)]
pub struct Summary {
    pub(crate) facts: Facts,
    pub(crate) ending: Ending,
    pub(crate) look: Look,
    /// Share of its CPU that each engine's thread took, percent.
    pub(crate) engine_percent: Vec<f64>,
    pub(crate) warnings: Vec<String>,
}

impl Summary {
    fn pps(&self) -> f64 {
        self.look.received() as f64 / self.look.elapsed.as_secs_f64().max(1e-9)
    }

    /// The JSON object of the whole run.
    pub fn object(&self) -> Value {
        let mut object = self.look.object(&self.facts, "summary", self.pps());
        object["ending"] = json!(self.ending);
        object["engine_percent"] = json!(self.engine_percent);
        object["advice"] = json!(self.advice());
        object["warnings"] = json!(self.warnings);
        object
    }

    /// What would help against loss.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        for (direction, tally) in self.look.tallies.iter().enumerate() {
            let (from, to) = self.facts.ends(direction);
            if tally.output.lost_by(Cause::TooLong) > 0 && self.look.up[1 - direction].is_none() {
                advice.push(format!(
                    "{to}: packets were longer than the 1,500 bytes that it may send: lower the senders' MTU"
                ));
            } else if tally.output.lost_by(Cause::TooLong) > 0 {
                advice.push(format!(
                    "{to}: packets were longer than its MTU allows: raise that (ip link set dev {to} mtu N), or, where the kernel merged \
                     them, ethtool -K {from} gro off"
                ));
            }
            if tally.output.lost_by(Cause::RingFull) > 0 {
                advice.push(format!("{to}: it took frames more slowly than they came: raise --out-ring"));
            }
        }
        advice
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facts, look, .. } = self;
        let mut line = |name: &str, text: String| writeln!(f, "{name:<14}{text}");
        let seconds = look.elapsed.as_secs_f64();
        let what = format!("{}, {} ({}), {seconds:.1} s", facts.wire(), facts.backend(), facts.manner());
        line("forwarded", format!("{what}, {}", shown_rate(self.pps())))?;
        for (direction, (tally, ledger)) in look.tallies.iter().zip(&look.ledgers).enumerate() {
            let (from, to) = facts.ends(direction);
            line(from, ledger.to_string())?;
            let causes: Vec<String> =
                tally.output.causes().iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
            let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
            let unaccounted = tally.unaccounted(ledger).map_or_else(|| "unknown".to_owned(), |count| count.to_string());
            let mut words = format!(
                "received {} = forwarded {} + lost {}{causes} + beyond --count {}; unaccounted {unaccounted}",
                grouped(tally.received),
                grouped(tally.output.packets),
                grouped(tally.output.lost()),
                grouped(tally.beyond),
            );
            if let Some(dropped) = look.device_dropped[1 - direction].filter(|count| *count > 0) {
                let _ = write!(words, ", of what was sent there its device dropped {}", grouped(dropped));
            }
            if tally.output.completed > 0 {
                let _ = write!(words, ", checksums completed {}", grouped(tally.output.completed));
            }
            let invalid = look.invalid_completions(direction);
            if invalid > 0 {
                let _ = write!(words, ", completions that named no frame of ours {}", grouped(invalid));
            }
            line(&format!("-> {to}"), words)?;
            let inside = tally.inside.quantiles_us();
            if inside.count > 0 {
                let [p50, p99, p999, max] = [inside.p50, inside.p99, inside.p999, inside.max].map(shown_us);
                line("time inside", format!("p50 {p50}  p99 {p99}  p99.9 {p999}  max {max}"))?;
            }
        }
        let shares: Vec<String> = self.engine_percent.iter().map(|share| format!("{share:.1} %")).collect();
        line("engines", shares.join(", "))?;
        for advice in self.advice() {
            line("advice", advice)?;
        }
        Ok(())
    }
}
