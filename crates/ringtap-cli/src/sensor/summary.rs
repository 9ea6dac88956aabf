//! Owns: what a run tells at its end: counts, latency, loss, and what rules cost.
//! Does not: count.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringtap::histogram::{HistogramSnapshot, Quantiles};
use ringtap::ledger::{Cause, Ledger};
use ringtap_alarm::output::Counts;
use ringtap_detect::{Counters, Profile, Program};
use serde_json::{Value, json};

use super::output::stats;
use super::rules::Used;
use crate::units::grouped;

/// Rules shown by their cost.
const SHOWN: usize = 20;

/// What a run tells.
pub(super) struct Summary {
    pub(super) object: String,
    pub(super) ending: &'static str,
    pub(super) elapsed_s: f64,
    pub(super) rules: Used,
    pub(super) counters: Vec<Counters>,
    /// Of a live run.
    pub(super) ledger: Option<Ledger>,
    /// Packets that were inspected as far as they came: shorter than on the wire.
    pub(super) cut: u64,
    /// Where the records of alarms, flows, anomalies and statistics went.
    pub(super) records: Ledger,
    pub(super) alarms_in_ring: u64,
    pub(super) alarms_refused: u64,
    pub(super) outputs: Arc<Counts>,
    pub(super) latency_us: Option<Quantiles>,
    /// From the arrival stamp to the alarm, of each alarm.
    pub(super) detection: Option<HistogramSnapshot>,
    pub(super) reloads: u64,
    /// Of the detectors' tables, what was used before it had its pages.
    pub(super) late_bytes: u64,
    pub(super) warnings: Vec<String>,
    /// What rules cost: program and profile.
    pub(super) profile: Option<(Arc<Program>, Vec<Profile>)>,
}

/// The ledger of records: made by engines, taken by the output thread, or lost because the queue between was full.
pub(super) fn records(made: u64, taken: u64, lost: u64) -> Ledger {
    let mut ledger = Ledger { offered: Some(made), delivered: taken, filtered: Some(0), ..Ledger::default() };
    ledger.drop(Cause::SlowOutput, Some(lost));
    ledger
}

impl Summary {
    fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.counters.iter().map(of).sum()
    }

    /// One JSON object.
    pub(super) fn object(&self) -> Value {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "kind": "summary",
            "object": self.object,
            "ending": self.ending,
            "elapsed_s": self.elapsed_s,
            "rules": self.rules.rules,
            "rules_idle": self.rules.idle,
            "rules_left_out": self.rules.left_out,
            "packets": self.sum(|counters| counters.packets),
            "bytes": self.sum(|counters| counters.bytes),
            "alerts": self.sum(|counters| counters.alerts),
            "shed": self.sum(|counters| counters.shed),
            "engines": self.counters.iter().map(stats).collect::<Vec<_>>(),
            "ledger": self.ledger.as_ref().map(|ledger| json!({
                "offered": ledger.offered, "delivered": ledger.delivered, "filtered": ledger.filtered,
                "drops": ledger.drops, "lost": ledger.lost(), "unaccounted": ledger.unaccounted(),
            })),
            "cut": self.cut,
            "records": {
                "offered": self.records.offered, "delivered": self.records.delivered, "drops": self.records.drops,
                "unaccounted": self.records.unaccounted(),
            },
            "outputs": {
                "written": count(&self.outputs.written), "failed": count(&self.outputs.failed),
                "lost_in_queue": self.records.lost(), "in_transmit_ring": self.alarms_in_ring,
                "refused_by_transmit_ring": self.alarms_refused,
            },
            "latency_us": self.latency_us,
            "detection_us": self.detection.as_ref().map(distribution),
            "reloads": self.reloads,
            "tables_late_bytes": self.late_bytes,
            "warnings": self.warnings,
            "profile": self.profile.as_ref().map(|(program, profile)| {
                costly(program, profile).into_iter().map(|(sid, profile)| json!({
                    "sid": sid, "checks": profile.checks, "matches": profile.matches, "steps": profile.steps,
                    "nanoseconds": profile.elapsed_ns,
                })).collect::<Vec<_>>()
            }),
        })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<18}{value}");
        };
        line("source", self.object.clone());
        line("ended by", self.ending.to_owned());
        let rules = &self.rules;
        line("rules", format!("{} used, {} not", grouped(rules.rules as u64), grouped(rules.left_out as u64)));
        if rules.idle > 0 {
            line("", format!("{} of those used can't match: nothing sets their flowbits", grouped(rules.idle as u64)));
        }
        line("packets", grouped(self.sum(|counters| counters.packets)));
        line("alarms", grouped(self.sum(|counters| counters.alerts)));
        let named: [(&str, u64); 10] = [
            ("cut packets", self.cut),
            ("shed packets", self.sum(|counters| counters.shed)),
            ("invalid packets", self.sum(|counters| counters.invalid)),
            ("budget hits", self.sum(|counters| counters.budget_hits)),
            ("stream gaps", self.sum(|counters| counters.gaps)),
            ("segments refused", self.sum(|counters| counters.segments_refused)),
            ("flows evicted", self.sum(|counters| counters.flows.evicted)),
            ("windows evicted", self.sum(|counters| counters.windows_evicted)),
            ("bad checksums", self.sum(|counters| counters.bad_checksums)),
            ("alarms over bound", self.sum(|counters| counters.alerts_over)),
        ];
        for (name, value) in named.into_iter().filter(|(_, value)| *value > 0) {
            line(name, grouped(value));
        }
        if let Some(ledger) = &self.ledger {
            let unaccounted = ledger.unaccounted().map_or_else(|| "unknown".to_owned(), |count| count.to_string());
            line("lost, unaccounted", format!("{}, {unaccounted}", grouped(ledger.lost())));
        }
        let failed = self.outputs.failed.load(Ordering::Relaxed);
        line(
            "records",
            format!(
                "{} written, {} failed, {} lost in the queue",
                grouped(self.outputs.written.load(Ordering::Relaxed)),
                grouped(failed),
                grouped(self.records.lost())
            ),
        );
        if self.alarms_in_ring + self.alarms_refused > 0 {
            line(
                "alarm datagrams",
                format!("{} sent, {} refused", grouped(self.alarms_in_ring), grouped(self.alarms_refused)),
            );
        }
        let detection = self.detection.as_ref().map(HistogramSnapshot::quantiles_us);
        for (name, quantiles) in [("latency, µs", self.latency_us), ("detection, µs", detection)] {
            if let Some(q) = quantiles.filter(|quantiles| quantiles.count > 0) {
                line(name, format!("p50 {:.0}, p99 {:.0}, p99.9 {:.0}, worst {:.0}", q.p50, q.p99, q.p999, q.max));
            }
        }
        if self.reloads > 0 {
            line("rules reloaded", grouped(self.reloads));
        }
        if self.late_bytes > 0 {
            line("tables, late", format!("{} KiB in pages that were not there yet", grouped(self.late_bytes >> 10)));
        }
        for warning in &self.warnings {
            line("warning", warning.clone());
        }
        if let Some((program, profile)) = &self.profile {
            let _ = writeln!(
                text,
                "\n{:>10} {:>12} {:>12} {:>12} {:>10} {:>10}",
                "sid", "checks", "matches", "steps", "µs", "ns/check"
            );
            for (sid, profile) in costly(program, profile) {
                let (micros, each) = (profile.elapsed_ns / 1000, profile.elapsed_ns / profile.checks.max(1));
                let _ = writeln!(
                    text,
                    "{sid:>10} {:>12} {:>12} {:>12} {micros:>10} {each:>10}",
                    profile.checks, profile.matches, profile.steps
                );
            }
        }
        text
    }
}

/// Quantiles in µs and, as `histogram`, pairs of a bucket's upper edge (µs) and its count, empty buckets left out.
fn distribution(delays: &HistogramSnapshot) -> Value {
    let mut object = json!(delays.quantiles_us());
    object["histogram"] = delays.buckets().map(|(upper_ns, count)| json!([upper_ns as f64 / 1e3, count])).collect();
    object
}

/// The rules that cost most.
fn costly(program: &Program, profile: &[Profile]) -> Vec<(u32, Profile)> {
    let mut list: Vec<(u32, Profile)> =
        program.rules().zip(profile).filter(|(_, p)| p.checks > 0).map(|(rule, p)| (rule.meta.sid, *p)).collect();
    list.sort_by_key(|(sid, profile)| (std::cmp::Reverse((profile.elapsed_ns, profile.steps)), *sid));
    list.truncate(SHOWN);
    list
}
