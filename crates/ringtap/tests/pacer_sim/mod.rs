//! The engine itself in simulated time, with costs for what its thread does (shared by `tests/pacer_behaviour.rs` and
//! `examples/forecast_sweep.rs`).
//!
//! Owns: arrival patterns, the costs, and what is seen of each cycle. Does not own: what is asserted or scored.

#![allow(dead_code, reason = "each of the two programs uses its own part")]

pub(crate) mod scenario;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use ringtap::clock::Clock;
use ringtap::meters::EngineMeters;
use ringtap::pacer::Wait;
use ringtap::testing::{Arrival, MemorySource, Script, SimulatedClock, WakeCosts};
use ringtap::{Engine, Handler, Outbox, Pacer, Packet, Stop};

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

/// Takes its time for each packet, and counts.
struct Work {
    clock: SimulatedClock,
    packet_ns: u64,
    handled: Rc<Cell<usize>>,
}

impl Handler for Work {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.clock.advance(self.packet_ns);
        self.handled.set(self.handled.get() + 1);
    }
}

/// Runs an engine over sorted `arrivals` until `end_ns`, or until it sleeps with nothing left to come. Packets that come at 0 are
/// no cycle's: the engine did not wait for them.
pub(crate) fn simulate(
    pacer: &mut Pacer,
    arrivals: &[u64],
    end_ns: u64,
    costs: &Costs,
    mut observe: impl FnMut(&Cycle<'_>),
) {
    let clock = SimulatedClock::with_costs(0, WakeCosts { timer_ns: costs.timer_ns, interrupt_ns: costs.interrupt_ns });
    let script = Script::of(arrivals.iter().map(|&at_ns| Arrival::at(at_ns, &[])));
    let source = MemorySource::new("arrivals", clock.clone(), script).unwrap_or_else(|error| panic!("{error}"));
    let stop = Arc::new(Stop::new().unwrap_or_else(|error| panic!("{error}")));
    let handled = Rc::new(Cell::new(0));
    let mut engine = Engine {
        source,
        handler: Work { clock: clock.clone(), packet_ns: costs.packet_ns, handled: Rc::clone(&handled) },
        pacer: pacer.clone(),
        transmit: None,
        stop: Arc::clone(&stop),
        meters: Arc::new(EngineMeters::default()),
        packet_limit: None,
    };
    // How the engine waits, since when, and how many packets it had handled by then.
    let mut waiting: Option<(Wait, u64, usize)> = None;
    engine.run_by(&clock, |pacer, wait| {
        let (now_ns, taken) = (clock.monotonic_ns(), handled.get());
        if let Some((waited, from_ns, first)) = waiting.replace((wait, now_ns, taken)) {
            let packets = &arrivals[first..taken];
            let cost_ns = if matches!(waited, Wait::Timer(_)) { costs.timer_ns } else { costs.interrupt_ns };
            let woke_ns = now_ns - costs.packet_ns * packets.len() as u64 - cost_ns;
            observe(&Cycle { waited, from_ns, woke_ns, now_ns, cost_ns, packets, pacer });
        }
        if now_ns >= end_ns {
            stop.pull();
        }
    });
    *pacer = engine.pacer;
}
