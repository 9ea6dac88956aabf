//! What a pattern means: the segments and tables the in-kernel program paces itself by.
//!
//! Owns the translation of rates into intervals and the expected numbers of packets. Does not own the pacing itself
//! (bpf/generate.bpf.c).

use std::time::Duration;

use ringtap::{Error, Result};

/// Largest number of segments; `SEGMENTS` in bpf/generate.bpf.c.
pub const MAX_SEGMENTS: usize = 256;
/// Entries of the table of random intervals; `FACTORS` in bpf/generate.bpf.c.
pub(crate) const FACTORS: usize = 4096;
/// Rates that may be asked for, in packets per second.
pub const RATE_PPS: std::ops::RangeInclusive<f64> = 1.0..=20e6;

/// How packets follow each other. Rates are packets per second.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Equal intervals.
    Constant {
        /// Rate.
        pps: f64,
    },
    /// Independent, exponentially distributed intervals.
    Poisson {
        /// Mean rate.
        pps: f64,
    },
    /// Bursts of equal length at equal distances.
    OnOffBurst {
        /// Mean rate over bursts and pauses.
        pps: f64,
        /// Packets of a burst.
        burst_len: u64,
        /// Rate inside a burst.
        burst_pps: f64,
    },
    /// A rate that changes linearly with time over the segment's duration.
    Ramp {
        /// Rate at the start.
        from_pps: f64,
        /// Rate at the end.
        to_pps: f64,
    },
    /// Nothing.
    Silence,
}

/// A pattern and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Segment {
    /// How packets follow each other.
    pub pattern: Pattern,
    /// For how long; `None`: until the packet count is reached or the generator is stopped. A ramp needs one.
    pub duration: Option<Duration>,
}

/// Segments one after the other.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Profile {
    /// The segments; only the last may be endless.
    pub segments: Vec<Segment>,
}

impl Profile {
    /// One pattern without end.
    pub fn endless(pattern: Pattern) -> Self {
        Self { segments: vec![Segment { pattern, duration: None }] }
    }

    /// One pattern for `duration`.
    pub fn lasting(pattern: Pattern, duration: Duration) -> Self {
        Self { segments: vec![Segment { pattern, duration: Some(duration) }] }
    }

    /// Adds a segment.
    #[must_use]
    pub fn then(mut self, pattern: Pattern, duration: Duration) -> Self {
        self.segments.push(Segment { pattern, duration: Some(duration) });
        self
    }

    /// Mean rate asked for, over all segments that end, or of the last, endless one.
    pub fn mean_pps(&self) -> f64 {
        let endless = self.segments.iter().find(|segment| segment.duration.is_none());
        if let Some(segment) = endless {
            return segment.pattern.mean_pps();
        }
        let seconds: f64 = self.segments.iter().map(Segment::seconds).sum();
        if seconds == 0.0 { 0.0 } else { self.expected_packets().unwrap_or(0.0) / seconds }
    }

    /// Packets asked for when all segments end.
    pub fn expected_packets(&self) -> Option<f64> {
        self.segments
            .iter()
            .map(|segment| segment.duration.map(|_| segment.pattern.mean_pps() * segment.seconds()))
            .sum()
    }

    /// The highest rate anywhere in it; chooses the batch.
    pub fn peak_pps(&self) -> f64 {
        self.segments.iter().map(|segment| segment.pattern.peak_pps()).fold(0.0, f64::max)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Error::usage("plan", "traffic", what);
        if self.segments.is_empty() || self.segments.len() > MAX_SEGMENTS {
            return Err(wrong(format!("{} segments", self.segments.len())).way_out(format!("give 1 to {MAX_SEGMENTS}")));
        }
        for (position, segment) in self.segments.iter().enumerate() {
            segment.check()?;
            if segment.duration.is_none() && position + 1 < self.segments.len() {
                return Err(wrong(format!("segment {} never ends", position + 1)).way_out("give it a duration"));
            }
        }
        Ok(())
    }

    /// `struct segment` of bpf/generate.bpf.c for each segment.
    pub(crate) fn table(&self) -> Vec<[u64; 5]> {
        self.segments.iter().map(Segment::entry).collect()
    }
}

impl Segment {
    fn seconds(&self) -> f64 {
        self.duration.map_or(0.0, |duration| duration.as_secs_f64())
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String, way_out: &str| Err(Error::usage("plan", "traffic", what).way_out(way_out));
        for pps in self.pattern.rates() {
            if !RATE_PPS.contains(&pps) {
                return wrong(format!("{pps} packets per second"), "use 1 to 20M");
            }
        }
        match self.pattern {
            Pattern::OnOffBurst { burst_len: 0, .. } => return wrong("bursts of 0 packets".into(), "use at least 1"),
            Pattern::OnOffBurst { pps, burst_pps, .. } if burst_pps < pps => {
                return wrong(
                    format!("burst rate {burst_pps} below mean rate {pps}"),
                    "give the higher rate to the burst",
                );
            }
            Pattern::Ramp { .. } | Pattern::Silence if self.duration.is_none() => {
                return wrong(format!("{:?} without an end", self.pattern), "give it a duration");
            }
            _ => {}
        }
        // 2^47 ns is 39 hours: the schedule has to fit 2^64 q16.
        if self.duration.is_some_and(|duration| duration.is_zero() || duration.as_nanos() >= 1 << 47) {
            return wrong(format!("segment of {:?}", self.duration.unwrap_or_default()), "use up to 39 hours");
        }
        Ok(())
    }

    fn entry(&self) -> [u64; 5] {
        let duration_q16 = self.duration.map_or(0, |duration| (duration.as_nanos() as u64) << 16);
        let millipps = |pps: f64| (pps * 1e3).round() as u64;
        match self.pattern {
            Pattern::Constant { pps } => [0, duration_q16, gap_q16(pps), 0, 0],
            Pattern::Poisson { pps } => [1, duration_q16, gap_q16(pps), 0, 0],
            Pattern::OnOffBurst { pps, burst_len, burst_pps } => {
                let inside = gap_q16(burst_pps);
                let period = (gap_q16(pps) as f64 * burst_len as f64).round() as u64;
                [2, duration_q16, inside, period.saturating_sub(inside * (burst_len - 1)), burst_len]
            }
            Pattern::Ramp { from_pps, to_pps } => [3, duration_q16, millipps(from_pps), millipps(to_pps), 0],
            Pattern::Silence => [4, duration_q16, 0, 0, 0],
        }
    }
}

impl Pattern {
    /// Mean rate over its duration.
    pub fn mean_pps(&self) -> f64 {
        match *self {
            Self::Constant { pps } | Self::Poisson { pps } | Self::OnOffBurst { pps, .. } => pps,
            Self::Ramp { from_pps, to_pps } => (from_pps + to_pps) / 2.0,
            Self::Silence => 0.0,
        }
    }

    /// Highest rate it holds for several packets.
    pub fn peak_pps(&self) -> f64 {
        self.rates().into_iter().fold(0.0, f64::max)
    }

    fn rates(&self) -> Vec<f64> {
        match *self {
            Self::Constant { pps } | Self::Poisson { pps } => vec![pps],
            Self::OnOffBurst { pps, burst_pps, .. } => vec![pps, burst_pps],
            Self::Ramp { from_pps, to_pps } => vec![from_pps, to_pps],
            Self::Silence => vec![],
        }
    }
}

/// Interval in 1/65536 ns.
pub(crate) fn gap_q16(pps: f64) -> u64 {
    (1e9 * 65536.0 / pps).round() as u64
}

/// Quantiles of the exponential distribution in 1/65536, scaled so that their mean is 1.
pub(crate) fn exponential_factors() -> Vec<u64> {
    let raw: Vec<f64> = (0..FACTORS).map(|index| -(1.0 - (index as f64 + 0.5) / FACTORS as f64).ln()).collect();
    let mean = raw.iter().sum::<f64>() / FACTORS as f64;
    // The program drops the lowest 4 bits before it multiplies.
    raw.iter().map(|factor| ((factor / mean * 4096.0).round() as u64) << 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_exact_to_a_millionth() {
        assert_eq!(gap_q16(1e6), 1000 << 16);
        let gap = gap_q16(148_000.0) as f64 / 65536.0;
        assert!((gap * 148_000.0 / 1e9 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn bursts_keep_the_mean_rate() {
        let pattern = Pattern::OnOffBurst { pps: 10_000.0, burst_len: 32, burst_pps: 1e6 };
        let [kind, _, inside, pause, length] = Segment { pattern, duration: None }.entry();
        assert_eq!((kind, inside, length), (2, 1000 << 16, 32));
        assert_eq!(inside * 31 + pause, 32 * gap_q16(10_000.0));
    }

    #[test]
    fn factors_have_mean_one_and_variance_near_one() {
        let factors: Vec<f64> = exponential_factors().iter().map(|&factor| factor as f64 / 65536.0).collect();
        let mean = factors.iter().sum::<f64>() / FACTORS as f64;
        let variance = factors.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / FACTORS as f64;
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn profiles_know_how_many_packets_they_mean() {
        let ramp = |from_pps, to_pps| Pattern::Ramp { from_pps, to_pps };
        let profile =
            Profile::lasting(ramp(1e3, 1e6), Duration::from_secs(2)).then(ramp(1e6, 1e3), Duration::from_secs(2));
        assert_eq!(profile.expected_packets(), Some(2_002_000.0));
        assert_eq!(profile.mean_pps(), 500_500.0);
        assert_eq!(Profile::endless(Pattern::Poisson { pps: 5.0 }).expected_packets(), None);
    }

    #[test]
    fn absurd_profiles_are_refused() {
        let second = Duration::from_secs(1);
        for profile in [
            Profile { segments: vec![] },
            Profile::endless(Pattern::Constant { pps: 0.0 }),
            Profile::endless(Pattern::Constant { pps: f64::NAN }),
            Profile::endless(Pattern::Ramp { from_pps: 1e3, to_pps: 1e6 }),
            Profile::endless(Pattern::OnOffBurst { pps: 1e6, burst_len: 4, burst_pps: 1e5 }),
            Profile::endless(Pattern::OnOffBurst { pps: 1e5, burst_len: 0, burst_pps: 1e6 }),
            Profile::lasting(Pattern::Constant { pps: 1e3 }, Duration::ZERO),
            Profile::endless(Pattern::Constant { pps: 1e3 }).then(Pattern::Silence, second),
        ] {
            assert!(profile.check().is_err(), "{profile:?}");
        }
    }
}
