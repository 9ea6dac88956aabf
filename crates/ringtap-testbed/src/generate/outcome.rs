//! What a run of the generator came to: as text, as JSON (`ringtap generate`), and whether it did what was asked.

use std::fmt::Write;

use ringtap_run::units::{grouped, shown_rate, shown_size, shown_us};
use serde_json::{Value, json};

use super::{GeneratorBackend, GeneratorReport};

/// A finished run.
#[derive(Debug)]
pub struct Outcome {
    /// What the generator says.
    pub report: GeneratorReport,
    /// Where it sent.
    pub interface: String,
    /// Packets asked for by number.
    pub asked: Option<u64>,
    /// Ended by a signal.
    pub interrupted: bool,
    /// Ended because its time was over before its packets were sent.
    pub timed_out: bool,
}

impl Outcome {
    /// Everything asked for was sent, or a signal said that this was enough. Skipped records of a replay are as asked;
    /// a faulty file is not.
    pub fn succeeded(&self) -> bool {
        let report = &self.report;
        let faulty = report.replay.as_ref().is_some_and(|replay| !replay.faults.is_empty());
        let all =
            report.complete && report.sent() == report.stamped && self.asked.is_none_or(|asked| report.sent() >= asked);
        !faulty && (all || self.interrupted)
    }

    /// For people. `told`: a warning they have read already.
    pub fn to_text(&self, told: Option<&str>) -> String {
        let report = &self.report;
        let mut text = String::new();
        // Writing to a String never fails.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<10} {value}");
        };
        let by = match report.backend {
            GeneratorBackend::Ring => "from a transmit ring",
            _ => "by the in-kernel generator",
        };
        let of = self.asked.map_or(String::new(), |asked| format!(" of {}", grouped(asked)));
        line(
            "sent",
            format!(
                "{}{of} packets ({}) in {:.3} s on {}, {by}",
                grouped(report.sent()),
                shown_size(report.bytes),
                report.duration_ns as f64 / 1e9,
                self.interface
            ),
        );
        line("accepted", report.accepted.map_or("unknown: the driver does not count it".to_owned(), grouped));
        line("refused", refusals(report));
        let achieved = shown_rate(report.achieved_pps);
        if report.asked_pps > 0.0 {
            let (asked, error) = (shown_rate(report.asked_pps), report.rate_error * 100.0);
            line("rate", format!("{asked} asked, {achieved} achieved, error {error:+.3} %"));
            let [p50, p99, max] = lateness_us(report).map(shown_us);
            let late = grouped(report.lateness.over_100_us);
            line("lateness", format!("p50 {p50}, p99 {p99}, max {max}; {late} packets later than 100 us"));
        } else {
            line("rate", format!("{achieved}, without a rate to keep"));
        }
        if let Some(replay) = &report.replay {
            line("replay", format!("{replay}; {} times through", grouped(replay.passes)));
        }
        let ended = [
            (self.interrupted, "ended by a signal"),
            (self.timed_out, "the time was over before all packets were sent"),
        ];
        for (_, why) in ended.iter().filter(|(it, _)| *it) {
            line("note", (*why).to_owned());
        }
        let warnings = report.warnings.iter().filter(|warning| Some(warning.as_str()) != told);
        for warning in warnings.chain(&report.shortfall) {
            line("warning", warning.clone());
        }
        text
    }

    /// For machines: one object.
    pub fn to_json(&self) -> Value {
        let report = &self.report;
        let [p50, p99, max] = lateness_us(report);
        json!({
            "interface": self.interface,
            "backend": report.backend,
            "asked": self.asked,
            "sent": report.stamped,
            "accepted": report.accepted,
            "refused": { "queue_full": report.queue_full, "not_ready": report.not_ready },
            "bytes": report.bytes,
            "duration_s": report.duration_ns as f64 / 1e9,
            "asked_pps": (report.asked_pps > 0.0).then_some(report.asked_pps),
            "achieved_pps": report.achieved_pps,
            "rate_error_percent": (report.asked_pps > 0.0).then_some(report.rate_error * 100.0),
            "lateness_us": { "p50": p50, "p99": p99, "max": max },
            "later_than_100_us": report.lateness.over_100_us,
            "slipped_us": report.slipped_ns as f64 / 1e3,
            "complete": report.complete,
            "interrupted": self.interrupted,
            "shortfall": report.shortfall,
            "warnings": report.warnings,
            "replay": report.replay,
        })
    }
}

/// Median, 99th percentile and maximum in microseconds; the first two are upper bounds within a factor of two.
fn lateness_us(report: &GeneratorReport) -> [f64; 3] {
    let lateness = &report.lateness;
    [lateness.quantile_ns(0.5), lateness.quantile_ns(0.99), lateness.max_ns].map(|ns| ns as f64 / 1e3)
}

fn refusals(report: &GeneratorReport) -> String {
    let not_ready = match report.backend {
        GeneratorBackend::Ring => "the link does not take them",
        _ => {
            "the device was not ready (the other end of a veth needs an XDP program or `ethtool -K PEER gro on`; \
             --backend ring needs neither)"
        }
    };
    let causes: Vec<String> = [(report.queue_full, "the device's queue was full"), (report.not_ready, not_ready)]
        .into_iter()
        .filter_map(|(count, cause)| {
            count.filter(|&count| count > 0).map(|count| format!("{}: {cause}", grouped(count)))
        })
        .collect();
    if causes.is_empty() {
        // Without the driver's counts nothing is known.
        return if report.queue_full.is_some() { "0".to_owned() } else { "unknown".to_owned() };
    }
    causes.join("; ")
}
