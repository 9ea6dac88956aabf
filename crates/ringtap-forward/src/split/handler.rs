//! What an engine does with each packet: decide, copy, count.
//!
//! Owns the engine's ports. No allocation, lock or log; a system call for each output at a cycle's end, and for each
//! [`BATCH`](crate::port::BATCH) frames of a long one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::source::StampClock;
use ringtap::transmit::Outbox;

use super::accounts::EngineCounts;
use super::rule::Rule;
use crate::counts::{Cause, add};
use crate::port::{BATCH, Port};

/// Packets after which all outputs are flushed, for a ring that does not run empty: what goes to one that gets few of them does not
/// wait for the end of a flood to others.
const ROUND: usize = 4 * BATCH;

/// The handler of one engine.
pub(crate) struct Splitter {
    pub(crate) rule: Arc<Rule>,
    /// Which outputs are up.
    pub(crate) up: Arc<AtomicU64>,
    /// One for each output.
    pub(crate) ports: Vec<Port>,
    pub(crate) counts: Arc<EngineCounts>,
    pub(crate) stamps: StampClock,
    /// When frames that a device left are to be offered again.
    pub(crate) again: Option<Duration>,
    /// Packets since all outputs were flushed.
    pub(crate) since_flush: usize,
}

impl Splitter {
    /// Waits until all devices have taken what is in their rings, or the time has come; how many frames of each output did not
    /// leave, and why.
    pub(crate) fn settle(&mut self, until: Instant) -> Vec<[(Cause, u64); 2]> {
        self.ports.iter_mut().map(|port| port.settle(until)).collect()
    }
}

/// The numbers in a set.
fn each(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(number)
    })
}

impl Handler for Splitter {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let Self { rule, up, ports, counts, stamps, .. } = self;
        let decision = rule.decide(packet, up.load(Ordering::Relaxed));
        add(&counts.received, 1);
        add(&counts.bytes, packet.wire_len.into());
        match (decision.to | decision.down).count_ones() {
            0 => add(&counts.unwanted, 1),
            outputs => add(&counts.copies, u64::from(outputs - 1)),
        }
        each(decision.classes).for_each(|class| add(&counts.classes[class], 1));
        each(decision.moved).for_each(|output| counts.ports[output].moved());
        each(decision.down).for_each(|output| counts.ports[output].drop(Cause::LinkDown));
        for output in each(decision.to) {
            if ports[output].send(packet, &counts.ports[output]) {
                ports[output].flush(*stamps, &counts.ports[output], &counts.inside);
            }
        }
        self.since_flush += 1;
        if self.since_flush == ROUND {
            self.since_flush = 0;
            for (port, counts) in self.ports.iter_mut().zip(&self.counts.ports).filter(|(port, _)| port.has_waiting()) {
                port.flush(self.stamps, counts, &self.counts.inside);
            }
        }
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.since_flush = 0;
        let ports = self.ports.iter_mut().zip(&self.counts.ports);
        let flushed = ports.filter_map(|(port, counts)| port.flush(self.stamps, counts, &self.counts.inside));
        self.again = flushed.min();
    }

    /// Other engines still hand packets to this one.
    fn retired(&mut self, outbox: &mut Outbox<'_>) {
        self.cycle_end(outbox);
    }

    fn next_turn(&self) -> Option<Duration> {
        self.again
    }
}
