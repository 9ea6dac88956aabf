//! A plan in words: the answer first, then the sums behind it.
//!
//! Owns how a plan reads for people. The numbers and their sums are `plan`'s.

use std::fmt;

use super::plan::{Plan, Verdict};
use crate::source::xdp::XdpSource;

/// Bytes of a whole AF_XDP frame at the usual MTU.
const WHOLE_FRAME_BYTES: u64 = 2048;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = format!("A bound of {} at up to {}", time(self.max_latency_ns), rate(self.peak_pps));
        let full = rate(self.no_loss_bound_pps);
        match self.verdict {
            Verdict::Kept => writeln!(f, "{wanted} can be kept.")?,
            Verdict::WakesTooLate { nearest_ns } => {
                let late = time(self.jitter_p99_ns);
                writeln!(f, "{wanted} cannot be kept: 1 of 100 wake-ups on this host comes {late} late or later.")?;
                writeln!(f, "The tightest bound that can be kept here is {}.", time(nearest_ns))?;
            }
            Verdict::CoreTooSlow => {
                writeln!(f, "{wanted} cannot be kept by one core: it is full, and losses begin, at {full}.")?;
                writeln!(f, "Several queues, one core each, share a higher rate.")?;
            }
        }
        let has_timer = self.period_ns > 0 && self.threshold_pps.is_finite();
        let none = || "none".to_owned();
        let (period, threshold) =
            if has_timer { (time(self.period_ns), rate(self.threshold_pps)) } else { (none(), none()) };
        let (below, look) = if has_timer {
            ("below it packets wake the engine, above it the timer does", "between two looks at the ring, by the timer")
        } else {
            ("packets wake the engine at every rate", "no timer")
        };
        let packed = mebibytes(u64::from(self.packed_slots) * u64::from(XdpSource::PACKED));
        let whole = mebibytes(u64::from(self.ring_slots) * WHOLE_FRAME_BYTES);
        let waiting = if has_timer { self.timer_share * 100.0 } else { 0.0 };
        for (name, value, meaning) in [
            ("period", period, look.to_owned()),
            ("threshold", threshold, below.to_owned()),
            ("ring", format!("{} slots", self.ring_slots), "of each queue".to_owned()),
            ("memory", packed, format!("of each queue where AF_XDP copies (packed frames), {whole} in whole frames")),
            (
                "core",
                format!("{:.1} %", self.peak_share * 100.0),
                format!("at the peak ({waiting:.1} % is waiting); full at {full}"),
            ),
        ] {
            writeln!(f, "  {name:<10} {value:<13} {meaning}")?;
        }
        writeln!(f, "Why:")?;
        self.sums.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// In µs below 10 ms, which is what bounds are given in.
pub(super) fn time(ns: u64) -> String {
    match ns {
        ns if ns > 0 && ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        ns if ns >= 10_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        ns if ns % 1000 == 0 => format!("{} µs", ns / 1000),
        ns => format!("{:.1} µs", ns as f64 / 1e3),
    }
}

pub(super) fn rate(pps: f64) -> String {
    match pps {
        pps if pps >= 1e6 => format!("{:.2} Mpps", pps / 1e6),
        pps if pps >= 1e3 => format!("{:.1} kpps", pps / 1e3),
        pps => format!("{pps:.0} pps"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}
