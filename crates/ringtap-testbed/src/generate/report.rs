//! What a generator did: counts, rates, and how late it was against its own schedule.
//!
//! Owns the words and numbers of the report. Does not own how they come about (`run`, bpf/generate.bpf.c).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::GeneratorBackend;
use super::program::State;
use super::replay::Replayed;

/// Buckets of the lateness histogram; `LATENESS_BUCKETS` in bpf/generate.bpf.c.
pub(crate) const LATENESS_BUCKETS: usize = 40;

/// A core has not reached its rate when it stays below by more than this share.
pub const RATE_TOLERANCE: f64 = 0.01;

/// How late packets were stamped against the schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// The worst packet, in nanoseconds.
    pub max_ns: u64,
    /// Packets late by more than 100 µs.
    pub over_100_us: u64,
    /// Entry 0: packets exactly on time; entry n: packets late by 2^(n−1) up to but not including 2^n ns.
    pub histogram: Vec<u64>,
}

impl Lateness {
    /// Upper bound in nanoseconds for the packet at `share` (0–1) of all: the bucket's, or the worst packet.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let all: u64 = self.histogram.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.histogram.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return ((1u64 << bucket) - 1).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// What became of a run of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// Which generator it was; never `Auto`.
    pub backend: GeneratorBackend,
    /// All that was asked for has been handed to the device: it was not stopped before.
    pub complete: bool,
    /// Packets stamped and handed to the device: the sequence numbers used.
    pub stamped: u64,
    /// Packets the device took; `None` when the driver does not count that.
    pub accepted: Option<u64>,
    /// Packets the device refused because its queue was full.
    pub queue_full: Option<u64>,
    /// Packets the device refused without counting them: the other end of a veth had no NAPI, or the link was down.
    pub not_ready: Option<u64>,
    /// Bytes stamped, without frame check sequences.
    pub bytes: u64,
    /// Mean rate asked for, in packets per second; 0 for "as fast as possible".
    pub asked_pps: f64,
    /// Mean rate from the first packet to the last.
    pub achieved_pps: f64,
    /// By how much the packets came faster (+) or slower (−) than the schedule, as a share: −0.01 is 1 % too slow.
    pub rate_error: f64,
    /// Time from the first packet to the last, in nanoseconds.
    pub duration_ns: u64,
    /// CLOCK_MONOTONIC of the first packet, in nanoseconds.
    pub first_ns: u64,
    /// Lateness against the schedule.
    pub lateness: Lateness,
    /// Time by which the schedule was moved because it could not be caught up, in nanoseconds.
    pub slipped_ns: u64,
    /// How often it was moved.
    pub slips: u64,
    /// Calls into the kernel.
    pub calls: u64,
    /// What was found in the files of a replay.
    pub replay: Option<Replayed>,
    /// Not enough scheduling rights and the like.
    pub warnings: Vec<String>,
    /// The core could not reach the rate; says by how much. `None` when it did.
    pub shortfall: Option<String>,
}

impl GeneratorReport {
    pub(crate) fn new(state: &State, lateness: Vec<u64>, asked_pps: f64) -> Self {
        let span_ns = state.last_ns.saturating_sub(state.first_ns);
        let due_ns = state.last_due_q16.saturating_sub(state.first_due_q16) as f64 / 65536.0;
        let per_second = |count: u64| if span_ns == 0 { 0.0 } else { count as f64 * 1e9 / span_ns as f64 };
        let rate_error = if span_ns == 0 || due_ns == 0.0 { 0.0 } else { due_ns / span_ns as f64 - 1.0 };
        let mut this = Self {
            backend: GeneratorBackend::Kernel,
            complete: false,
            stamped: state.sent,
            accepted: None,
            queue_full: None,
            not_ready: None,
            bytes: state.bytes,
            asked_pps,
            achieved_pps: per_second(state.sent.saturating_sub(1)),
            rate_error,
            duration_ns: span_ns,
            first_ns: state.first_ns,
            lateness: Lateness { max_ns: state.late_max_ns, over_100_us: state.late, histogram: lateness },
            slipped_ns: state.slipped_ns,
            slips: state.slips,
            calls: 0,
            replay: None,
            warnings: Vec::new(),
            shortfall: None,
        };
        if rate_error < -RATE_TOLERANCE {
            this.shortfall = Some(format!(
                "the generator's core could not reach the rate: {:.0} packets/s instead of {:.0} ({:+.1} %); it was late \
                 by up to {:.1} ms and gave up {:.1} ms of its schedule",
                this.achieved_pps,
                this.achieved_pps / (1.0 + rate_error),
                rate_error * 100.0,
                state.late_max_ns as f64 / 1e6,
                state.slipped_ns as f64 / 1e6,
            ));
        }
        this
    }

    /// Packets the device is known to have refused.
    pub fn refused(&self) -> u64 {
        self.queue_full.unwrap_or(0) + self.not_ready.unwrap_or(0)
    }

    /// Packets that went onto the wire as far as is known: accepted, or stamped where the driver does not count.
    pub fn sent(&self) -> u64 {
        self.accepted.unwrap_or(self.stamped)
    }

    /// Time from the first packet to the last.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

impl fmt::Display for GeneratorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sent {} packets in {:.3} s: ", self.sent(), self.duration_ns as f64 / 1e9)?;
        if self.asked_pps > 0.0 {
            write!(f, "{:.0} packets/s asked, ", self.asked_pps)?;
        }
        write!(
            f,
            "{:.0} achieved (pacing {:+.3} %), worst lateness {:.1} µs, {} later than 100 µs",
            self.achieved_pps,
            self.rate_error * 100.0,
            self.lateness.max_ns as f64 / 1e3,
            self.lateness.over_100_us,
        )?;
        for (count, cause) in [(self.queue_full, "device queue full"), (self.not_ready, "device not ready")] {
            if let Some(count) = count.filter(|&count| count > 0) {
                write!(f, "; {count} refused: {cause}")?;
            }
        }
        for line in self.warnings.iter().chain(&self.shortfall) {
            write!(f, "; {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_slow_is_said_plainly() {
        let state =
            State { sent: 1001, first_ns: 1, last_ns: 2_000_001, last_due_q16: 1_000_000 << 16, ..State::default() };
        let report = GeneratorReport::new(&state, vec![1001], 1e6);
        assert!((report.rate_error + 0.5).abs() < 1e-9);
        assert!((report.achieved_pps - 500_000.0).abs() < 1.0);
        assert!(report.shortfall.unwrap().contains("instead of 1000000"));
    }

    #[test]
    fn nothing_sent_is_no_shortfall() {
        let report = GeneratorReport::new(&State::default(), vec![0; LATENESS_BUCKETS], 1e3);
        assert_eq!((report.stamped, report.rate_error, report.shortfall), (0, 0.0, None));
    }

    #[test]
    fn quantiles_are_bucket_bounds() {
        let lateness = Lateness { max_ns: 9, over_100_us: 0, histogram: vec![50, 49, 0, 0, 1] };
        assert_eq!((lateness.quantile_ns(0.5), lateness.quantile_ns(0.99), lateness.quantile_ns(1.0)), (0, 1, 9));
    }
}
