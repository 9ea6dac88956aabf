//! What the demo shows: the acts as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use ringtap::calibrate::Plan;
use ringtap::histogram::Quantiles;
use ringtap::ledger::Ledger;
use ringtap_testbed::TestbedConfig;
use ringtap_testbed::trial::TrialReport;
use serde::Serialize;
use serde_json::{Value, json};

/// One act with Ringtap as the receiver. Field names are the demo's promise (`--json`).
#[derive(Debug, Serialize)]
pub struct Act {
    offered: u64,
    delivered: u64,
    lost: u64,
    unaccounted: Option<i64>,
    drops: Value,
    duplicates: u64,
    reordered: u64,
    longest_loss_burst: u64,
    offered_pps: f64,
    generator_shortfall: Option<String>,
    receiver_core_use_percent: f64,
    core_meter: Value,
    others_percent: Option<f64>,
    steal_percent: Option<f64>,
    latency_us: Quantiles,
    delivery_us: Quantiles,
    poll_period_us: Quantiles,
    tick_lateness_us: Quantiles,
    mode_switches: u64,
    packets_per_poll: f64,
    interrupts_per_packet: f64,
    backend: &'static str,
    xdp_mode: Option<&'static str>,
    zero_copy: Option<bool>,
    busy_poll: bool,
    ring_slots: usize,
    ring_memory_bytes: usize,
    period_us: f64,
    threshold_pps: Option<f64>,
    warnings: Vec<String>,
    #[serde(skip)]
    ledger: Ledger,
}

impl Act {
    pub fn new(trial: &TrialReport, plan: &Plan) -> Self {
        let drops: serde_json::Map<String, Value> =
            trial.truth.drops.iter().map(|(cause, count)| (cause.name().to_owned(), json!(count))).collect();
        Self {
            offered: trial.generator.stamped,
            delivered: trial.sequence.received - trial.sequence.duplicates,
            lost: trial.sequence.lost,
            unaccounted: trial.truth.unaccounted(),
            drops: Value::Object(drops),
            duplicates: trial.sequence.duplicates,
            reordered: trial.sequence.reordered,
            longest_loss_burst: trial.sequence.longest_loss(),
            offered_pps: trial.generator.achieved_pps,
            generator_shortfall: trial.generator.shortfall.clone(),
            receiver_core_use_percent: trial.core.used_percent,
            core_meter: json!(trial.core.headline),
            others_percent: trial.core.others_percent,
            steal_percent: trial.core.steal_percent,
            latency_us: trial.latency_us,
            delivery_us: trial.delivery_us,
            poll_period_us: trial.poll_period_us,
            tick_lateness_us: trial.tick_lateness_us,
            mode_switches: trial.counters.mode_switches,
            packets_per_poll: trial.counters.packets_per_poll(),
            interrupts_per_packet: trial.counters.interrupts_per_packet(),
            backend: trial.source.backend,
            xdp_mode: trial.source.xdp_mode,
            zero_copy: trial.source.zero_copy,
            busy_poll: trial.source.busy_poll,
            ring_slots: trial.source.ring_slots,
            ring_memory_bytes: trial.source.memory_bytes,
            period_us: plan.period_ns as f64 / 1000.0,
            threshold_pps: plan.threshold_pps.is_finite().then_some(plan.threshold_pps),
            warnings: trial.warnings.iter().cloned().chain(trial.core.warning()).collect(),
            ledger: trial.truth.clone(),
        }
    }

    /// Nothing lost, and nothing that no counter explains.
    pub fn is_proven(&self) -> bool {
        self.lost == 0 && self.unaccounted == Some(0) && self.duplicates == 0
    }

    pub fn to_text(&self, title: &str) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<14} {value}");
        };
        line("ledger", self.ledger.to_string());
        line(
            "sequence",
            format!(
                "{} lost, {} duplicated, {} reordered, by the packets' own numbers",
                self.lost, self.duplicates, self.reordered
            ),
        );
        line(
            "core use",
            format!(
                "{:.1} % of the receiver's core{}{}, {:.1} packets per poll, {:.5} interrupts per packet, {} mode switches",
                self.receiver_core_use_percent,
                self.others_percent.map_or(" (other programs included: nothing tells them apart here)", |_| ""),
                self.steal_percent.map_or_else(String::new, |steal| format!(" (host took {steal:.1} %)")),
                self.packets_per_poll,
                self.interrupts_per_packet,
                self.mode_switches
            ),
        );
        line("arrival→us", figures(&self.latency_us));
        line("sender→us", figures(&self.delivery_us));
        if self.tick_lateness_us.count > 0 {
            line("timer late by", figures(&self.tick_lateness_us));
        }
        if let Some(shortfall) = &self.generator_shortfall {
            line("generator", shortfall.clone());
        }
        for warning in &self.warnings {
            line("note", warning.clone());
        }
        format!("{title}: {:.1} kpps sent\n{text}", self.offered_pps / 1e3)
    }
}

fn figures(q: &Quantiles) -> String {
    format!("p50 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs", q.p50, q.p99, q.p999, q.max)
}

/// One receiver of the comparison.
#[derive(Debug, Serialize)]
pub struct SideBySide {
    pub receiver: &'static str,
    pub sent: u64,
    pub sent_pps: f64,
    pub received: u64,
    pub lost_before_receiver: Option<u64>,
    pub says_lost: Option<u64>,
    /// `None` for receivers that keep no ledger.
    pub unaccounted: Option<i64>,
    pub core_use_percent: f64,
    /// What other programs used of that core, which is not in `core_use_percent`; `None`: unknown, and in it.
    pub others_percent: Option<f64>,
    #[serde(skip)]
    pub warning: Option<String>,
}

pub fn opening(max_latency: Duration, plan: &Plan, testbed: &TestbedConfig) -> String {
    format!(
        "Two private hosts joined by a veth pair; sender on CPU {}, receiver on CPU {}. Bound {:?}:\n{plan}",
        testbed.generator_core, testbed.receiver_core, max_latency
    )
}

pub fn side_text(rows: &[SideBySide], pps: f64, seconds: u64) -> String {
    let mut text = format!(
        "{seconds} s at {:.0} kpps each, topology host (kernel's receive path and receiver on one core)\n  {:<20} {:>9} {:>9} {:>7} {:>12} {:>12} {:>9}\n",
        pps / 1e3,
        "",
        "sent",
        "got",
        "got, %",
        "says it lost",
        "unaccounted",
        "core, %"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "  {:<20} {:>9} {:>9} {:>7.2} {:>12} {:>12} {:>9.1}",
            row.receiver,
            row.sent,
            row.received,
            row.received as f64 / row.sent.max(1) as f64 * 100.0,
            row.says_lost.map_or_else(|| "nothing".to_owned(), |lost| lost.to_string()),
            row.unaccounted.map_or_else(|| "no ledger".to_owned(), |count| count.to_string()),
            row.core_use_percent
        );
    }
    for (row, warning) in rows.iter().filter_map(|row| Some((row, row.warning.as_ref()?))) {
        let _ = writeln!(text, "  note           {}: {warning}", row.receiver);
    }
    text
}

/// The main act's figures at the top, the others beside them.
pub fn json(main: &Act, ramp: &Act, side: &[SideBySide], proven: bool, lasted: Duration) -> Value {
    let mut whole = json!(main);
    whole["proven"] = json!(proven);
    whole["seconds"] = json!(lasted.as_secs_f64());
    whole["ramp"] = json!(ramp);
    whole["side_by_side"] = json!(side);
    whole
}
