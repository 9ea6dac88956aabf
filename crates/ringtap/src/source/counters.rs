//! What a device counts for one source, readable by any thread while the engine runs.
//!
//! Owns the shape of these counts and the one way of counting that two back ends share: a packet socket's. What they come to in
//! the ledger is the receiver's business.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::sys::packet_ring;

/// The counters that kernel or device keep for one source.
pub trait DeviceCounters: Send {
    /// The counts since the source was opened; `None` when they can't be read.
    fn read(&mut self) -> Option<DeviceCounts>;

    /// Whether packets are left out after they were counted, and nobody says how many.
    fn leaves_out(&self) -> bool {
        false
    }
}

/// Packets that one source was given and lost, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Packets the source was given, dropped ones included; `None` where nobody counts them.
    pub offered: Option<u64>,
    /// No free slot in the receive ring.
    pub ring_full: u64,
    /// No free frame in the fill ring.
    pub fill_ring_empty: u64,
    /// Longer than a frame.
    pub oversize: u64,
    /// Lost before the ring, on a device of which only this source knows.
    pub nic: u64,
}

impl DeviceCounts {
    /// Packets that the ring refused.
    pub(crate) fn refused(&self) -> u64 {
        self.ring_full + self.fill_ring_empty + self.oversize
    }
}

/// PACKET_STATISTICS of one socket (packet(7)), which the kernel resets at each reading.
pub(super) struct PacketCounters {
    fd: Arc<OwnedFd>,
    received: u64,
    dropped: u64,
}

impl PacketCounters {
    pub(super) fn new(fd: Arc<OwnedFd>) -> Self {
        Self { fd, received: 0, dropped: 0 }
    }
}

impl DeviceCounters for PacketCounters {
    fn read(&mut self) -> Option<DeviceCounts> {
        let (packets, drops) = packet_ring::statistics(self.fd.as_fd()).ok()?;
        self.received += u64::from(packets);
        self.dropped += u64::from(drops);
        Some(DeviceCounts { offered: Some(self.received), ring_full: self.dropped, ..DeviceCounts::default() })
    }
}
