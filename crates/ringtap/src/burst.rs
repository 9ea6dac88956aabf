//! What the engine hands to a handler: packets, lent for the length of one burst.
//!
//! Owns the borrowing rule (invariant 2): a burst mutably borrows its source, dropping it returns the frames. It knows
//! no ring; the source that made it does.

mod buffer;

use crate::meters::EngineMeters;
use crate::sys::memory::{Region, Slot};

pub use buffer::PacketBuffer;

/// Most packets in one burst; bounds how long the engine goes without a look at its stop flag.
pub const BURST_MAX: usize = 64;

/// One captured packet, borrowed from the ring it lies in.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'b> {
    /// The captured bytes, from the link-layer header on.
    pub data: &'b [u8],
    /// Length on the wire in bytes; more than `data.len()` when the capture was cut (snaplen).
    pub wire_len: u32,
    /// Arrival stamp in nanoseconds of the source's clock ([`crate::source::StampClock`]); 0 when the frame bore none.
    pub arrival_ns: u64,
    /// Its transport checksum is still to be computed: this host sends it or has merged it (TP_STATUS_CSUMNOTREADY).
    pub checksum_pending: bool,
    /// Which of the two devices that one engine serves it came by ([`Devices::open_relay`](crate::receiver::Devices::open_relay)); 0
    /// for all others.
    pub port: u8,
}

impl<'b> Packet<'b> {
    /// A whole packet without a stamp.
    pub fn of(data: &'b [u8]) -> Self {
        let wire_len = data.len().try_into().unwrap_or(u32::MAX);
        Self { data, wire_len, arrival_ns: 0, checksum_pending: false, port: 0 }
    }
}

/// Takes frames back when their burst ends. One per source; not for other users.
pub(crate) trait FrameOwner {
    /// The frames of these slots may be reused.
    fn give_back(&mut self, slots: &[Slot]);
}

/// Packets that user space owns for the moment. Dropping the burst returns the frames to the source.
pub struct Burst<'s> {
    slots: &'s mut Vec<Slot>,
    region: &'s Region,
    owner: &'s mut dyn FrameOwner,
    handled: usize,
    port: u8,
    meters: Option<&'s EngineMeters>,
}

impl<'s> Burst<'s> {
    pub(crate) fn new(slots: &'s mut Vec<Slot>, region: &'s Region, owner: &'s mut dyn FrameOwner) -> Self {
        Self { slots, region, owner, handled: usize::MAX, port: 0, meters: None }
    }

    /// The burst of an engine's second device, whose packets `meters` count.
    pub(crate) fn of_second_port(mut self, meters: &'s EngineMeters) -> Self {
        (self.port, self.meters) = (1, Some(meters));
        self
    }

    /// What counts its packets in the engine's place.
    pub(crate) fn meters(&self) -> Option<&'s EngineMeters> {
        self.meters
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the ring was found empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Ends the burst after its first `handled` packets: the others stay with the source, whose next burst is they.
    pub fn end_after(mut self, handled: usize) {
        self.handled = handled;
    }

    /// The packets in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Packet<'_>> {
        self.slots.iter().map(|slot| Packet {
            data: self.region.bytes(slot),
            wire_len: slot.wire_len,
            arrival_ns: slot.arrival_ns,
            checksum_pending: slot.checksum_pending,
            port: self.port,
        })
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        let handled = self.handled.min(self.slots.len());
        if handled > 0 {
            self.owner.give_back(&self.slots[..handled]);
            self.slots.drain(..handled);
        }
    }
}
