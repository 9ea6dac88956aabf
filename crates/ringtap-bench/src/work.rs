//! The handler of a measured engine: checks every packet, and does what the study adds to it.
//!
//! Owns the calibrated event processing of \[1] §6 and \[4] §8 (a fixed number of dependent multiplications a packet, so that
//! it costs cycles and not wall time) and the ablations' copy and allocation.

use std::collections::VecDeque;
use std::hint::black_box;

use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::engine::Handler;
use ringtap::transmit::Outbox;
use ringtap_testbed::trial::TruthHandler;

use crate::catalogue::Extra;

/// Packets whose copies are kept before the oldest is freed or overwritten, as a queue to another thread would.
const KEPT: usize = 1024;
const BUFFER: usize = 2048;

/// So many turns of the loop take a nanosecond of this core.
#[derive(Debug, Clone, Copy)]
pub struct LoadCalibration {
    turns_per_ns: f64,
}

impl LoadCalibration {
    /// Measured on the calling thread's core: the best of several, as anything else on the core only makes it slower.
    pub fn measure() -> Self {
        const TURNS: u64 = 2_000_000;
        let best_ns = (0..10)
            .map(|_| {
                let start = clock::monotonic_ns();
                burn(TURNS);
                clock::monotonic_ns() - start
            })
            .min()
            .unwrap_or(1);
        Self { turns_per_ns: TURNS as f64 / best_ns.max(1) as f64 }
    }

    /// Turns that take `load_ns`.
    pub fn turns(&self, load_ns: f64) -> u64 {
        (load_ns * self.turns_per_ns).round().max(0.0) as u64
    }
}

/// Each turn waits for the one before, so that no processor can overlap them.
#[inline(never)]
fn burn(turns: u64) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..turns {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(value);
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
        if self.turns > 0 {
            burn(self.turns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_load_is_twice_the_turns_and_takes_longer() {
        let calibration = LoadCalibration::measure();
        let turns = calibration.turns(10_000.0);
        assert!(turns > 100, "{turns}");
        assert!(calibration.turns(20_000.0).abs_diff(2 * turns) <= 1);
        assert_eq!(calibration.turns(0.0), 0);
        let start = clock::monotonic_ns();
        burn(calibration.turns(1e6));
        // The best of ten calibrations can't be beaten by much.
        assert!(clock::monotonic_ns() - start > 500_000);
    }
}
