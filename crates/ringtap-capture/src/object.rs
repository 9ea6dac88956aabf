//! One JSON object: an interval of a capture, or all of it.
//!
//! Owns the fields, which are the same in both; what is known only at the end is null in an interval. It measures nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::pacer::Policy;
use ringtap::source::Description;
use serde_json::{Value, json};

use crate::accounts::{Shown, Tally};
use crate::summary::Summary;

/// What is known from the start on and stays as it is.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Interfaces or files.
    pub(crate) object: String,
    /// Names of the interfaces; none of a replay.
    pub(crate) interfaces: Vec<String>,
    /// How it waits; `None` for a replay.
    pub(crate) policy: Option<Policy>,
    pub(crate) max_latency: Option<Duration>,
    pub(crate) sources: Vec<Description>,
    pub(crate) filter: Option<String>,
}

impl Facts {
    /// Packets whose handling began later than the bound, to the resolution of the histogram; unknown where packets bear no stamp
    /// of their arrival.
    pub(crate) fn late_packets(&self, counters: &EngineSnapshot) -> Option<u64> {
        let is_known = counters.packets == counters.backlog || counters.latency.quantiles_us().count > 0;
        is_known.then_some(())?;
        let bound = u64::try_from(self.max_latency?.as_nanos()).ok()?;
        Some(counters.latency.count_above(bound))
    }
}

/// What one device gave in a stretch of time.
#[derive(Debug)]
pub(crate) struct DeviceSpan {
    pub(crate) tally: Tally,
    pub(crate) ledger: Ledger,
    /// Since the start of the capture.
    pub(crate) total: Ledger,
}

/// A stretch of time and what happened in it.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    pub(crate) facts: &'a Facts,
    /// From the start of the capture to the end of this stretch.
    pub(crate) elapsed: Duration,
    pub(crate) lasted: Duration,
    pub(crate) tally: Tally,
    pub(crate) ledger: Ledger,
    /// The ledger since the start of the capture.
    pub(crate) total: Ledger,
    /// Of each interface.
    pub(crate) devices: Vec<DeviceSpan>,
    pub(crate) counters: &'a EngineSnapshot,
    /// Packets and bytes in the file.
    pub(crate) written: Option<(u64, u64)>,
    pub(crate) file: Option<String>,
    /// At the end of the capture.
    pub(crate) summary: Option<&'a Summary>,
}

impl Span<'_> {
    /// Its JSON object.
    pub(crate) fn object(&self) -> Value {
        let Self { facts, counters, tally, summary, .. } = self;
        let seconds = self.lasted.as_secs_f64().max(1e-9);
        let (period_ns, threshold_pps) = facts.policy.as_ref().map_or((None, None), numbers);
        let first = facts.sources.first();
        // In three parts: the macro takes no more fields at once.
        let counts = json!({
            "kind": if summary.is_some() { "summary" } else { "interval" },
            "time": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            "object": facts.object,
            "ending": summary.map(|summary| summary.ending),
            "elapsed_s": self.elapsed.as_secs_f64(),
            "interval_s": self.lasted.as_secs_f64(),
            "packets": tally.packets,
            "bytes": tally.bytes,
            "packets_per_second": tally.packets as f64 / seconds,
            "bits_per_second": tally.bytes as f64 * 8.0 / seconds,
            "ledger": Shown::from(self.ledger.clone()),
            "total": Shown::from(self.total.clone()),
            "latency_us": counters.latency.quantiles_us(),
            "late_packets": facts.late_packets(counters),
            "backlog": json!({ "packets": counters.backlog, "oldest_us": counters.backlog_oldest_ns as f64 / 1e3 }),
            "max_latency_us": facts.max_latency.map(|bound| bound.as_secs_f64() * 1e6),
            "poll_period_us": counters.poll_period.quantiles_us(),
            "tick_lateness_us": counters.tick_lateness.quantiles_us(),
            "missed_ticks": counters.missed_ticks,
            "packets_per_poll": counters.packets_per_poll(),
            "interrupts_per_packet": counters.interrupts_per_packet(),
            "interrupt_wakes": counters.interrupt_wakes,
            "timer_wakes": counters.timer_wakes,
            "empty_wakes": counters.empty_wakes,
        });
        let setting = json!({
            "mode": if counters.timer_mode { "timer" } else { "interrupt" },
            "mode_switches": counters.mode_switches,
            "policy": facts.policy,
            "period_us": period_ns.map(|ns| ns as f64 / 1e3),
            "threshold_pps": threshold_pps,
            "backend": first.map(|source| source.backend),
            "zero_copy": first.and_then(|source| source.zero_copy),
            "busy_poll": first.map(|source| source.busy_poll),
            "sources": facts.sources,
            "filter": facts.filter,
            "interfaces": self.interfaces(),
            "packets_written": self.written.map(|(packets, _)| packets),
            "bytes_written": self.written.map(|(_, bytes)| bytes),
            "file": self.file,
        });
        let end = json!({
            "cpus": summary.map(|summary| &summary.cpus),
            "driver_counters": summary.map(|summary| summary.driver_counters.iter().cloned().collect::<BTreeMap<_, _>>()),
            "record": summary.and_then(|summary| summary.record.as_ref()),
            "in_memory": summary.and_then(|summary| summary.in_memory),
            "advice": summary.map(|summary| &summary.advice),
            "warnings": summary.map(|summary| &summary.warnings),
            "error": summary.and_then(|summary| summary.error.as_ref()),
        });
        let fields = [counts, setting, end].into_iter().filter_map(|part| match part {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        Value::Object(fields.flatten().collect())
    }

    fn interfaces(&self) -> Vec<Value> {
        let ending = |number: usize| self.summary.and_then(|summary| summary.devices.get(number)?.ending);
        let ports = |number: usize| {
            let ports = self.summary.and_then(|summary| Some(&summary.devices.get(number)?.ports));
            let object =
                |(name, ledger): &(String, Ledger)| json!({ "name": name, "ledger": Shown::from(ledger.clone()) });
            ports.map(|ports| ports.iter().map(object).collect::<Vec<_>>())
        };
        let devices = self.facts.interfaces.iter().zip(&self.devices).enumerate();
        devices
            .map(|(number, (name, device))| {
                json!({
                    "name": name,
                    "ending": ending(number),
                    "packets": device.tally.packets,
                    "bytes": device.tally.bytes,
                    "ledger": Shown::from(device.ledger.clone()),
                    "total": Shown::from(device.total.clone()),
                    "ports": ports(number),
                })
            })
            .collect()
    }
}

/// Period and threshold of the lowest rung, where there are some.
fn numbers(policy: &Policy) -> (Option<u64>, Option<f64>) {
    match policy {
        Policy::Hybrid(hybrid) => {
            let rung = hybrid.rungs.first();
            (rung.map(|rung| rung.period_ns), rung.map(|rung| rung.threshold_pps))
        }
        Policy::Windowed(windowed) => (Some(windowed.period_ns), Some(windowed.cliff_pps)),
        Policy::Timer { period_ns } => (Some(*period_ns), None),
        Policy::Interrupt | Policy::Busy => (None, None),
    }
}
