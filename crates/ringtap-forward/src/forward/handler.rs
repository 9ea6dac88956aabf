//! What an engine does with each packet: to the other interface's ring, or count why not.
//!
//! Owns the engine's two rings. No allocation, lock or log; a system call for each ring at a cycle's end, and for each
//! [`BATCH`](crate::port::BATCH) frames of a long one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::source::StampClock;
use ringtap::transmit::Outbox;

use super::accounts::LaneCounts;
use crate::counts::{Cause, add};
use crate::port::{BATCH, Port};

/// Packets after which both rings are flushed, for a port that never runs empty: what the other one gets does not wait for it.
const ROUND: usize = 4 * BATCH;

/// How many packets are forwarded, by all engines together.
#[derive(Debug)]
pub(crate) struct Limit {
    most: u64,
    taken: AtomicU64,
}

impl Limit {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, taken: AtomicU64::new(0) }
    }

    /// Whether one more is asked for.
    fn take(&self) -> bool {
        !self.is_reached() && self.taken.fetch_add(1, Ordering::Relaxed) < self.most
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }
}

/// One direction.
pub(crate) struct Lane {
    pub(crate) port: Port,
    pub(crate) counts: Arc<LaneCounts>,
    /// Number of the interface that it leaves by.
    pub(crate) output: usize,
}

/// The handler of one engine.
pub(crate) struct Forwarder {
    /// By the port that a packet came by; the second is there with both directions.
    pub(crate) lanes: Vec<Lane>,
    /// Which interfaces are up.
    pub(crate) up: Arc<AtomicU64>,
    pub(crate) limit: Option<Arc<Limit>>,
    pub(crate) stamps: StampClock,
    /// When frames that a device left are to be offered again.
    pub(crate) again: Option<Duration>,
    /// Packets since both rings were flushed.
    pub(crate) since_flush: usize,
}

impl Forwarder {
    /// Waits until both devices have taken what is in their rings, or the time has come; how many frames of each direction did not leave,
    /// and why.
    pub(crate) fn settle(&mut self, until: Instant) -> Vec<[(Cause, u64); 2]> {
        self.lanes.iter_mut().map(|lane| lane.port.settle(until)).collect()
    }
}

impl Handler for Forwarder {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let Some(lane) = self.lanes.get_mut(usize::from(packet.port)) else { return };
        let counts = &lane.counts;
        add(&counts.received, 1);
        add(&counts.bytes, packet.wire_len.into());
        if self.limit.as_ref().is_some_and(|limit| !limit.take()) {
            add(&counts.beyond, 1);
        } else if self.up.load(Ordering::Relaxed) >> lane.output & 1 == 0 {
            counts.port.drop(Cause::LinkDown);
        } else if lane.port.send(packet, &counts.port) {
            lane.port.flush(self.stamps, &counts.port, &counts.inside);
        }
        self.since_flush += 1;
        if self.since_flush == ROUND {
            self.since_flush = 0;
            for lane in self.lanes.iter_mut().filter(|lane| lane.port.has_waiting()) {
                lane.port.flush(self.stamps, &lane.counts.port, &lane.counts.inside);
            }
        }
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.since_flush = 0;
        let stamps = self.stamps;
        let flushed =
            self.lanes.iter_mut().filter_map(|lane| lane.port.flush(stamps, &lane.counts.port, &lane.counts.inside));
        self.again = flushed.min();
    }

    fn next_turn(&self) -> Option<Duration> {
        self.again
    }
}
