//! Frames out: built in place in the transmit ring by the engine's thread (spec S6), one kick per cycle.
//!
//! Owns the choice of ring and its counters. What a frame says is the handler's business.

use crate::error::Result;
use crate::histogram::add;
use crate::meters::EngineMeters;
use crate::sys::card_ring::CardTransmit;
use crate::sys::packet_ring::PacketTransmit;
use crate::sys::xsk_transmit::XskTransmit;

/// The transmit side of a source.
#[derive(Debug)]
pub struct TransmitRing {
    ring: Ring,
    queued: bool,
}

#[derive(Debug)]
enum Ring {
    Xdp(XskTransmit),
    Packet(PacketTransmit),
    Card(CardTransmit),
}

impl TransmitRing {
    pub(crate) fn of_xsk(ring: XskTransmit) -> Self {
        Self { ring: Ring::Xdp(ring), queued: false }
    }

    pub(crate) fn of_packet(ring: PacketTransmit) -> Self {
        Self { ring: Ring::Packet(ring), queued: false }
    }

    pub(crate) fn of_card(ring: CardTransmit) -> Self {
        Self { ring: Ring::Card(ring), queued: false }
    }

    /// A ring of its own, without a source: a packet socket that receives nothing and sends on one interface, past its
    /// queueing discipline. `slots` frames of `frame_size` bytes, a power of two of which the kernel takes 32.
    ///
    /// # Errors
    /// Memory, privileges, the interface gone or down.
    pub fn open_packet(interface: &str, ifindex: u32, slots: u32, frame_size: u32) -> Result<Self> {
        Ok(Self::of_packet(PacketTransmit::open(interface, ifindex, slots, frame_size)?))
    }

    /// Lends a free frame of the ring to `build`, which writes a packet from its link-layer header on and returns the
    /// length (0: nothing to send after all). Returns the length queued, or `None` when no frame is free.
    pub fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        let sent = match &mut self.ring {
            Ring::Xdp(ring) => ring.send(build),
            Ring::Packet(ring) => ring.send(build),
            Ring::Card(ring) => ring.send(build),
        };
        self.queued |= sent.is_some_and(|len| len > 0);
        sent
    }

    /// Hands what was queued to the device: at most one system call, none when nothing is queued. Returns whether the
    /// kernel left some for the next kick.
    pub fn kick(&mut self) -> bool {
        if self.queued {
            match &mut self.ring {
                Ring::Xdp(ring) => ring.kick(),
                Ring::Packet(ring) => ring.kick(),
                Ring::Card(ring) => ring.kick(),
            }
            // A card that knows of them needs no second word.
            self.queued = !matches!(self.ring, Ring::Card(_)) && self.pending() > 0;
        }
        self.queued
    }

    /// As [`TransmitRing::kick`], also when nothing new was queued: for frames that the device refused, which a packet
    /// socket's ring keeps and offers again at the next call (`tpacket_snd` in net/packet/af_packet.c).
    pub fn kick_again(&mut self) {
        self.queued = true;
        self.kick();
    }

    /// Frames handed over that the device has not sent yet.
    pub fn pending(&mut self) -> u32 {
        match &mut self.ring {
            Ring::Xdp(ring) => ring.pending(),
            Ring::Packet(ring) => ring.pending(),
            Ring::Card(ring) => ring.pending(),
        }
    }
}

/// What a handler sends through: the source's transmit ring, if it has one, with its losses counted.
pub struct Outbox<'e> {
    pub(crate) ring: Option<&'e mut TransmitRing>,
    pub(crate) meters: &'e EngineMeters,
}

impl Outbox<'_> {
    /// As [`TransmitRing::send`]; `false` (and counted) when there is no ring or no free frame.
    pub fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> bool {
        match self.ring.as_mut().and_then(|ring| ring.send(build)) {
            Some(0) => true,
            Some(len) => {
                add(&self.meters.transmitted, 1);
                add(&self.meters.transmitted_bytes, len as u64);
                true
            }
            None => {
                add(&self.meters.transmit_refused, 1);
                false
            }
        }
    }
}
