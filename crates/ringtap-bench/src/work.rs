//! The handler of a measured engine: checks every packet, and does what the study adds to it.
//!
//! Owns the calibrated event processing of \[1] §6 and \[4] §8 (a fixed number of turns of a loop for each packet, so that it costs
//! cycles and not wall time; the loop itself is `ringtap::cycles`) and the ablations' copy and allocation.

use std::collections::VecDeque;
use std::hint::black_box;

use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::cycles;
use ringtap::engine::Handler;
use ringtap::transmit::Outbox;
use ringtap_testbed::trial::TruthHandler;

use crate::catalogue::Extra;

/// Packets whose copies are kept before the oldest is freed or overwritten, as a queue to another thread would.
const KEPT: usize = 1024;
const BUFFER: usize = 2048;

/// How long turns of the work loop take on a core, in cycles of its time stamp counter.
#[derive(Debug, Clone)]
pub struct LoadCalibration {
    /// Cycles of a second.
    pub tsc_hz: f64,
    /// Cycles of a turn.
    pub slope: f64,
    /// Cycles of a call with no turn at all.
    pub intercept: f64,
    /// Greatest deviation from that line of what was measured, share of it.
    pub residual: f64,
    /// Turns, and the cycles that were measured.
    pub points: Vec<(u64, f64)>,
}

impl LoadCalibration {
    /// Wait values in rounds of [`cycles::TURNS_AT_ONCE`] turns: about 25 to 4,000 cycles.
    const ROUNDS: [u64; 19] = [2, 3, 5, 8, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 150, 200, 260, 330, 410];

    /// Measured on the calling thread's core: the lower quartile of many, as anything else on the core only makes it slower. Where the
    /// line does not hold, it is measured again, a few times: the core's clock may have changed meanwhile.
    pub fn measure() -> Self {
        const ATTEMPTS: usize = 5;
        let tsc_hz = tsc_hz();
        let mut best = Self::once(tsc_hz);
        for _ in 1..ATTEMPTS {
            if best.residual <= LINEAR {
                break;
            }
            let again = Self::once(tsc_hz);
            if again.residual < best.residual {
                best = again;
            }
        }
        best
    }

    fn once(tsc_hz: f64) -> Self {
        let points: Vec<(u64, f64)> = Self::ROUNDS
            .map(|rounds| {
                let turns = rounds * cycles::TURNS_AT_ONCE;
                (turns, measured(turns))
            })
            .into();
        let (intercept, slope, residual) = line(&points);
        Self { tsc_hz, slope, intercept, residual, points }
    }

    /// Turns that take `load_ns`.
    pub fn turns(&self, load_ns: f64) -> u64 {
        self.turns_of(load_ns * self.tsc_hz / 1e9)
    }

    /// Turns that take so many cycles, as near as there are; 0 for none.
    pub fn turns_of(&self, cycles: f64) -> u64 {
        if cycles <= 0.0 {
            return 0;
        }
        let rounds = (cycles - self.intercept) / self.slope / cycles::TURNS_AT_ONCE as f64;
        rounds.round().max(1.0) as u64 * cycles::TURNS_AT_ONCE
    }

    /// Cycles that so many turns take.
    pub fn cycles_of(&self, turns: u64) -> f64 {
        if turns == 0 { 0.0 } else { self.intercept + self.slope * turns as f64 }
    }
}

/// A calibration whose points are nearer to its line than this share is taken at once.
pub(crate) const LINEAR: f64 = 0.02;

/// Cycles of the time stamp counter in a second.
fn tsc_hz() -> f64 {
    const LONG_NS: u64 = 50_000_000;
    let (begun_ns, begun) = (clock::monotonic_ns(), cycles::timestamp());
    while clock::monotonic_ns() - begun_ns < LONG_NS {
        std::hint::spin_loop();
    }
    let (ended_ns, ended) = (clock::monotonic_ns(), cycles::timestamp());
    (ended - begun) as f64 / (ended_ns - begun_ns) as f64 * 1e9
}

/// Cycles of a call. Several are taken together, as the counter's own steps are coarse on some processors.
fn measured(turns: u64) -> f64 {
    const TOGETHER: u64 = 32;
    const TIMES: usize = 1001;
    let mut took: Vec<u64> = (0..TIMES)
        .map(|_| {
            let begun = cycles::timestamp();
            for _ in 0..TOGETHER {
                cycles::spend(black_box(turns));
            }
            cycles::timestamp() - begun
        })
        .collect();
    took.sort_unstable();
    took[TIMES / 4] as f64 / TOGETHER as f64
}

/// Intercept and slope with the least relative errors, and the greatest of these.
fn line(points: &[(u64, f64)]) -> (f64, f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(turns, took) in points {
        let (x, weight) = (turns as f64, 1.0 / (took * took).max(1.0));
        w += weight;
        wx += weight * x;
        wy += weight * took;
        wxx += weight * x * x;
        wxy += weight * x * took;
    }
    let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    let intercept = (wy - slope * wx) / w;
    let off = |&(turns, took): &(u64, f64)| (took / (intercept + slope * turns as f64) - 1.0).abs();
    (intercept, slope, points.iter().map(off).fold(0.0, f64::max))
}

/// What a measured engine does with each packet.
pub struct Work {
    truth: TruthHandler,
    turns: u64,
    extra: Extra,
    copies: Vec<u8>,
    position: usize,
    owned: VecDeque<Box<[u8]>>,
}

impl Work {
    /// Room for `expected` packets; `turns` of load each.
    pub fn new(expected: u64, turns: u64, extra: Extra) -> Self {
        let copies = if extra == Extra::Copy { vec![1; KEPT * BUFFER] } else { Vec::new() };
        Self {
            truth: TruthHandler::new(expected),
            turns,
            extra,
            copies,
            position: 0,
            owned: VecDeque::with_capacity(KEPT + 1),
        }
    }
}

impl AsRef<TruthHandler> for Work {
    fn as_ref(&self) -> &TruthHandler {
        &self.truth
    }
}

impl Handler for Work {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        match self.extra {
            Extra::None => {}
            Extra::Copy => {
                let len = packet.data.len().min(BUFFER);
                self.copies[self.position..self.position + len].copy_from_slice(&packet.data[..len]);
                black_box(&self.copies[self.position]);
                self.position = (self.position + BUFFER) % (KEPT * BUFFER);
            }
            Extra::CopyAndAllocate => {
                self.owned.push_back(Box::from(packet.data));
                if self.owned.len() > KEPT {
                    self.owned.pop_front();
                }
            }
        }
        self.truth.packet(packet, outbox);
        cycles::spend(self.turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_what_is_off_it_is_told() {
        let points: Vec<(u64, f64)> = (1..20).map(|n| (n * 16, 10.0 + 0.6 * (n * 16) as f64)).collect();
        let (intercept, slope, residual) = line(&points);
        assert!((intercept - 10.0).abs() < 1e-6 && (slope - 0.6).abs() < 1e-9 && residual < 1e-9);
        let mut bent = points.clone();
        bent[4].1 *= 1.1;
        assert!(line(&bent).2 > 0.05);
    }

    #[test]
    fn turns_and_cycles_are_each_others_inverse() {
        let points = vec![(16, 20.0), (1600, 970.0)];
        let calibration = LoadCalibration { tsc_hz: 2e9, slope: 0.6, intercept: 10.0, residual: 0.0, points };
        assert_eq!((calibration.turns(0.0), calibration.turns_of(-1.0), calibration.turns_of(1.0)), (0, 0, 16));
        assert_eq!(calibration.cycles_of(0), 0.0);
        // 500 ns at 2 GHz.
        assert_eq!((calibration.turns(500.0), calibration.cycles_of(1648)), (1648, 998.8));
        assert_eq!(calibration.turns_of(calibration.cycles_of(3200)), 3200);
    }

    #[test]
    fn the_loop_takes_about_what_was_measured() {
        let calibration = LoadCalibration::measure();
        assert!(calibration.slope > 0.0 && calibration.tsc_hz > 1e8, "{calibration:?}");
        assert_eq!(calibration.points.len(), LoadCalibration::ROUNDS.len());
        // Nothing takes less than its work; whatever else the machine does makes it longer.
        let turns = calibration.turns_of(1e6);
        let least = (0..20)
            .map(|_| {
                let begun = cycles::timestamp();
                cycles::spend(turns);
                cycles::timestamp() - begun
            })
            .min();
        assert!(least.unwrap_or(0) > 300_000, "{least:?}, {calibration:?}");
    }
}
