//! A one-engine simulation that drives a [`Pacer`] with a fake clock (shared by `tests/pacer_behaviour.rs` and
//! `examples/forecast_sweep.rs`).
//!
//! Owns: arrival patterns, the engine's cycle and its costs. Does not own: what is asserted or scored.

#![allow(dead_code, reason = "each of the two programs uses its own part")]

pub(crate) mod scenario;

use ringtap::pacer::{Pacer, Wait};

/// xorshift64*: small, deterministic, good enough for arrivals.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Spread small seeds; the state must not be 0.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// Appends arrivals from `start_ns` (exclusive) to `end_ns` at `rate_pps(t)`: evenly spaced, or Poisson if `random`.
pub(crate) fn arrive(
    arrivals: &mut Vec<u64>,
    (start_ns, end_ns): (u64, u64),
    rate_pps: impl Fn(u64) -> f64,
    mut random: Option<&mut Random>,
) {
    let mut at = start_ns as f64;
    loop {
        let rate = rate_pps(at as u64);
        if rate <= 0.0 {
            return;
        }
        let gap = 1e9 / rate;
        at += match random.as_deref_mut() {
            Some(random) => -gap * random.unit().ln(),
            None => gap,
        };
        if at >= end_ns as f64 {
            return;
        }
        arrivals.push(at as u64);
    }
}

/// What things cost the engine's thread, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// From the arrival that raises the interrupt until the thread looks at the ring.
    pub(crate) interrupt_ns: u64,
    /// From the tick until the thread looks at the ring.
    pub(crate) timer_ns: u64,
    /// Handling one packet.
    pub(crate) packet_ns: u64,
    /// Arming the interrupt and finding, on the re-check, that a packet is there already.
    pub(crate) rearm_ns: u64,
}

/// One cycle of the engine, as handed to the observer.
pub(crate) struct Cycle<'a> {
    /// How the thread waited before it.
    pub(crate) waited: Wait,
    /// When the wait began and when it ended.
    pub(crate) from_ns: u64,
    pub(crate) woke_ns: u64,
    /// When the ring was found empty: the `now` given to the pacer.
    pub(crate) now_ns: u64,
    /// Cost of the wake-up, without the packets.
    pub(crate) cost_ns: u64,
    /// Arrival times of the packets handled.
    pub(crate) packets: &'a [u64],
    /// The pacer, after its decision.
    pub(crate) pacer: &'a Pacer,
}

/// Runs the engine's loop over sorted `arrivals` until `end_ns`, or until it sleeps with nothing left to come.
pub(crate) fn simulate(
    pacer: &mut Pacer,
    arrivals: &[u64],
    end_ns: u64,
    costs: &Costs,
    mut observe: impl FnMut(&Cycle<'_>),
) {
    let mut now_ns = 0;
    let mut taken = 0;
    let mut wait = pacer.next(now_ns, 0);
    while now_ns < end_ns {
        let (woke_ns, cost_ns) = match wait {
            Wait::Interrupt => match arrivals.get(taken) {
                Some(&arrival) if arrival > now_ns => (arrival, costs.interrupt_ns),
                Some(_) => (now_ns, costs.rearm_ns),
                None => return,
            },
            Wait::Timer(instant_ns) => (instant_ns.max(now_ns), costs.timer_ns),
            Wait::Poll => (now_ns, costs.rearm_ns),
        };
        let from_ns = now_ns;
        let first = taken;
        now_ns = woke_ns + cost_ns;
        while arrivals.get(taken).is_some_and(|&arrival| arrival <= now_ns) {
            taken += 1;
            now_ns += costs.packet_ns;
        }
        let packets = &arrivals[first..taken];
        let waited = wait;
        wait = pacer.next(now_ns, packets.len() as u64);
        observe(&Cycle { waited, from_ns, woke_ns, now_ns, cost_ns, packets, pacer });
    }
}
