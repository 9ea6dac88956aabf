//! The schedule in user space: when each packet of a profile is due, to the same 1/65536 ns as the in-kernel program.
//!
//! Owns the walk over the table that `schedule` makes, a mirror of `advance` in bpf/generate.bpf.c. Does not own clocks or
//! sending (`sender`).

use super::schedule::{Profile, exponential_factors};

const RANDOM: u64 = 1;
const BURST: u64 = 2;
const RAMP: u64 = 3;
const SILENCE: u64 = 4;

/// Where a profile is.
#[derive(Debug)]
pub(crate) struct Pace {
    /// `struct segment` of bpf/generate.bpf.c: kind, duration, a, b, c.
    segments: Vec<[u64; 5]>,
    factors: Vec<u64>,
    segment: usize,
    start_q16: u64,
    next_q16: u64,
    gap_q16: u64,
    burst_position: u64,
    random: u64,
}

impl Pace {
    /// The beginning of `profile`; the same seed gives the same random intervals.
    pub(crate) fn new(profile: &Profile, seed: u64) -> Self {
        Self {
            segments: profile.table(),
            factors: exponential_factors(),
            segment: 0,
            start_q16: 0,
            next_q16: 0,
            gap_q16: 0,
            burst_position: 0,
            random: seed | 1,
        }
    }

    /// When the next packet is due since the start, in 1/65536 ns; `None` when the profile is over.
    pub(crate) fn due_q16(&mut self) -> Option<u64> {
        while self.segments.get(self.segment)?[0] == SILENCE {
            self.next_segment();
        }
        Some(self.next_q16)
    }

    /// Interval between the last packet and the next, in 1/65536 ns.
    pub(crate) fn gap_q16(&self) -> u64 {
        self.gap_q16
    }

    /// The packet that was due has been sent.
    pub(crate) fn advance(&mut self) {
        let Some(&[kind, duration_q16, a, b, c]) = self.segments.get(self.segment) else { return };
        let gap = match kind {
            RANDOM => {
                let position = (self.next_random() >> 20) as usize % self.factors.len();
                let factor = self.factors[position];
                ((a >> 4) * (factor >> 4)) >> 8
            }
            BURST => {
                self.burst_position = (self.burst_position + 1) % c;
                if self.burst_position == 0 { b } else { a }
            }
            RAMP => self.ramp_gap(duration_q16, a, b),
            _ => a,
        };
        self.gap_q16 = gap;
        self.next_q16 += gap;
        if duration_q16 != 0 && self.next_q16 - self.start_q16 >= duration_q16 {
            self.next_segment();
        }
    }

    fn next_segment(&mut self) {
        self.start_q16 += self.segments[self.segment][1];
        self.next_q16 = self.start_q16;
        self.segment += 1;
        self.burst_position = 0;
    }

    /// The rate in 1/1000 packet/s at this point of a linear change from `from` to `to`, as an interval.
    fn ramp_gap(&self, duration_q16: u64, from: u64, to: u64) -> u64 {
        let us = |q16: u64| i128::from(q16 / (65_536 * 1_000));
        let (at, length) = (us(self.next_q16 - self.start_q16), us(duration_q16).max(1));
        let change = (i128::from(to) - i128::from(from)).abs() * at / length;
        let rate = if to >= from { i128::from(from) + change } else { i128::from(from) - change };
        (1_000_000_000_000 << 16) / rate.max(1) as u64
    }

    /// xorshift64 (Marsaglia 2003).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Pattern;
    use super::super::oracle::due_times_ns;
    use super::*;

    #[test]
    fn agrees_with_the_schedule_in_floating_point() {
        let part = Duration::from_millis(300);
        let bursts = Pattern::OnOffBurst { pps: 20e3, burst_len: 32, burst_pps: 500e3 };
        let ramp = |from_pps, to_pps| Pattern::Ramp { from_pps, to_pps };
        let several = Profile::lasting(bursts, part)
            .then(Pattern::Silence, part)
            .then(Pattern::Constant { pps: 705.0 }, part)
            .then(Pattern::Poisson { pps: 20e3 }, part);
        // A ramp is computed in whole microseconds and thousandths of packets per second.
        for (profile, tolerance) in [
            (Profile::endless(Pattern::Constant { pps: 148e3 }), 10.0),
            (Profile::endless(Pattern::Poisson { pps: 50e3 }), 10.0),
            (Profile::endless(bursts), 10.0),
            (several, 10.0),
            (Profile::lasting(ramp(1e3, 50e3), part), 50_000.0),
            (Profile::lasting(ramp(50e3, 1e3), part), 50_000.0),
        ] {
            let wanted = due_times_ns(&profile, 7, 30_000);
            let mut pace = Pace::new(&profile, 7);
            let mut got = Vec::new();
            while let Some(due) = pace.due_q16().filter(|_| got.len() < 30_000) {
                got.push(due as f64 / 65_536.0);
                pace.advance();
            }
            assert!(got.len().abs_diff(wanted.len()) <= 2, "{} for {}", got.len(), wanted.len());
            for (number, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                assert!((got - wanted).abs() < tolerance, "packet {number} of {profile:?}: {got} for {wanted}");
            }
        }
    }

    #[test]
    fn a_profile_of_silence_ends() {
        let silence = Profile { segments: vec![] }.then(Pattern::Silence, Duration::from_secs(1));
        assert_eq!(Pace::new(&silence, 1).due_q16(), None);
    }
}
