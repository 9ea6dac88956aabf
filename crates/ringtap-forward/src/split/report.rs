//! What a run says: a progress line, one JSON object per interval where asked for, and the summary.
//!
//! Owns the words. It counts nothing.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use ringtap::histogram::Quantiles;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::source::Description;
use ringtap_run::notes;
use ringtap_run::units::{grouped, shown_rate, shown_us};
use serde_json::{Value, json};

use super::Ending;
use super::accounts::Tally;
use crate::counts::{Cause, OutputTally};

/// What is known from the start on.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) input: String,
    pub(crate) by: String,
    /// Name and back end of each output.
    pub(crate) outputs: Vec<(String, &'static str)>,
    pub(crate) classes: Vec<String>,
    pub(crate) sources: Vec<Description>,
}

/// One look at everything that counts.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) elapsed: Duration,
    pub(crate) tally: Tally,
    /// Of the input.
    pub(crate) ledger: Ledger,
    /// Of the engines.
    pub(crate) counters: EngineSnapshot,
    /// What the devices of outputs say they dropped since the start, of whoever sent there.
    pub(crate) device_dropped: Vec<Option<u64>>,
    /// Which outputs are up.
    pub(crate) up: Vec<bool>,
}

impl Look {
    fn object(&self, facts: &Facts, kind: &str, pps: f64) -> Value {
        let Self { tally, ledger, counters, .. } = self;
        let ended = kind == "summary";
        let outputs =
            facts.outputs.iter().zip(&tally.outputs).enumerate().map(|(number, ((name, backend), output))| {
                json!({
                    "name": name,
                    "backend": backend,
                    "up": self.up.get(number),
                    "packets": output.packets,
                    "bytes": output.bytes,
                    "dropped": output.lost(),
                    "drops": output.causes(),
                    "moved": output.moved,
                    "device_dropped": self.device_dropped.get(number).copied().flatten(),
                    "checksums_completed": output.completed,
                })
            });
        let classes = facts.classes.iter().zip(&tally.classes);
        json!({
            "kind": kind,
            "object": facts.input,
            "by": facts.by,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "packets": tally.received,
            "bytes": tally.bytes,
            "packets_per_second": pps,
            "account": tally.object(ledger, ended),
            "outputs": outputs.collect::<Vec<_>>(),
            "classes": classes.map(|(name, packets)| json!({ "name": name, "packets": packets })).collect::<Vec<_>>(),
            "time_inside_us": tally.inside.quantiles_us(),
            "time_inside_histogram_ns": if ended { json!(tally.inside.buckets().collect::<Vec<_>>()) } else { Value::Null },
            "latency_us": counters.latency.quantiles_us(),
            "ledger": ledger,
            "sources": facts.sources,
        })
    }
}

/// Speaks while it runs: notes and progress on standard error, objects on standard output, if that is free.
pub(crate) struct Reporter {
    interval: Duration,
    rewrites: bool,
    objects: bool,
    appends: bool,
    has_line: bool,
    stdout_is_taken: bool,
}

impl Reporter {
    pub(crate) fn new(stats: Option<Duration>, objects: bool, stdout_is_taken: bool) -> Self {
        let objects = objects && stats.is_some();
        let rewrites = !objects && io::stderr().is_terminal();
        let interval = stats.unwrap_or(Duration::from_secs(1));
        Self {
            interval,
            rewrites,
            objects,
            appends: !objects && !rewrites && stats.is_some(),
            has_line: false,
            stdout_is_taken,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// One line beside the results.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        notes::say(text);
    }

    /// Takes the progress line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Tells what happened between two looks. Nobody may be left to read it, which is no failure.
    pub(crate) fn interval_passed(&mut self, facts: &Facts, now: &Look, before: &Look) {
        let seconds = (now.elapsed - before.elapsed).as_secs_f64().max(1e-9);
        let pps = (now.tally.received - before.tally.received) as f64 / seconds;
        if self.objects {
            let object = now.object(facts, "interval", pps);
            let _ = if self.stdout_is_taken {
                writeln!(io::stderr(), "{object}")
            } else {
                writeln!(io::stdout(), "{object}")
            };
        } else if self.rewrites {
            let _ = write!(io::stderr(), "\r\x1b[K{}", line(facts, now, before, pps));
            self.has_line = true;
        } else if self.appends {
            let _ = writeln!(io::stderr(), "{}", line(facts, now, before, pps));
        }
    }
}

fn line(facts: &Facts, now: &Look, before: &Look, pps: f64) -> String {
    let seconds = now.elapsed.as_secs();
    let lost = now.tally.lost() + now.ledger.lost();
    let mut line = format!("{}:{:02}  {}", seconds / 60, seconds % 60, shown_rate(pps));
    for (number, (name, _)) in facts.outputs.iter().enumerate() {
        let state = if now.up.get(number) == Some(&false) { " (down)" } else { "" };
        let _ = write!(line, "  {name} {}{state}", grouped(now.tally.outputs[number].packets));
    }
    let inside = now.tally.inside.since(&before.tally.inside);
    let _ = write!(line, "  lost {}  inside p99 {}", grouped(lost), shown_us(inside.quantiles_us().p99));
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
    /// The JSON object of the whole run.
    pub fn object(&self) -> Value {
        let pps = self.look.tally.received as f64 / self.look.elapsed.as_secs_f64().max(1e-9);
        let mut object = self.look.object(&self.facts, "summary", pps);
        object["ending"] = json!(self.ending);
        object["engine_percent"] = json!(self.engine_percent);
        object["advice"] = json!(self.advice());
        object["warnings"] = json!(self.warnings);
        object
    }

    /// What would help against loss.
    fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        for ((name, _), output) in self.facts.outputs.iter().zip(&self.look.tally.outputs) {
            if output.lost_by(Cause::TooLong) > 0 {
                advice.push(format!(
                    "{name}: packets were longer than its MTU allows: raise that, or, where the kernel merged them, ethtool -K {} gro off",
                    self.facts.input
                ));
            }
            if output.lost_by(Cause::RingFull) > 0 {
                advice.push(format!("{name}: it took frames more slowly than they came: raise --out-ring"));
            }
            if output.lost_by(Cause::SlowOutput) > 0 {
                advice.push(format!("{name}: its reader or disk was too slow: raise --spool"));
            }
        }
        advice
    }
}

fn quantile_words(quantiles: &Quantiles) -> String {
    let Quantiles { p50, p99, p999, max, .. } = *quantiles;
    format!("p50 {}  p99 {}  p99.9 {}  max {}", shown_us(p50), shown_us(p99), shown_us(p999), shown_us(max))
}

fn causes(output: &OutputTally) -> String {
    let causes: Vec<String> =
        output.causes().iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    if causes.is_empty() { "0".to_owned() } else { format!("{} ({})", grouped(output.lost()), causes.join(", ")) }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facts, look, .. } = self;
        let Look { tally, ledger, counters, elapsed, .. } = look;
        let seconds = elapsed.as_secs_f64();
        let mut line = |name: &str, text: String| writeln!(f, "{name:<14}{text}");
        let pps = tally.received as f64 / seconds.max(1e-9);
        line("split", format!("{} by {}, {seconds:.1} s, {}", facts.input, facts.by, shown_rate(pps)))?;
        line("input", ledger.to_string())?;
        for (number, ((name, backend), output)) in facts.outputs.iter().zip(&tally.outputs).enumerate() {
            let share = output.packets as f64 * 100.0 / (tally.received.max(1)) as f64;
            let mut words =
                format!("{} packets ({share:.1} %), {backend}, lost {}", grouped(output.packets), causes(output));
            if output.moved > 0 {
                let _ = write!(words, ", moved away while it was down {}", grouped(output.moved));
            }
            if let Some(dropped) = look.device_dropped.get(number).copied().flatten().filter(|count| *count > 0) {
                let _ = write!(words, ", of what was sent there its device dropped {}", grouped(dropped));
            }
            if output.completed > 0 {
                let _ = write!(words, ", checksums completed {}", grouped(output.completed));
            }
            line(name, words)?;
        }
        if facts.classes.len() > 1 {
            let named = facts.classes.iter().zip(&tally.classes);
            let classes: Vec<String> = named.map(|(name, packets)| format!("{name} {}", grouped(*packets))).collect();
            line("classes", classes.join(", "))?;
        }
        let unaccounted = tally.unaccounted(ledger).map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        line(
            "account",
            format!(
                "received {} + copies {} = forwarded {} + lost {} + not wanted {}; unaccounted {unaccounted}",
                grouped(tally.received),
                grouped(tally.copies),
                grouped(tally.forwarded()),
                grouped(tally.lost()),
                grouped(tally.unwanted),
            ),
        )?;
        line("time inside", quantile_words(&tally.inside.quantiles_us()))?;
        line("until handled", quantile_words(&counters.latency.quantiles_us()))?;
        let shares: Vec<String> = self.engine_percent.iter().map(|share| format!("{share:.1} %")).collect();
        line("engines", shares.join(", "))?;
        for advice in self.advice() {
            line("advice", advice)?;
        }
        Ok(())
    }
}
