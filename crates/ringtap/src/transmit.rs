//! Frames out: built in place in the transmit ring by the engine's thread (\[2] §4), one kick per cycle.
//!
//! Owns the choice of ring and its counters. What a frame says is the handler's business.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::histogram::add;
use crate::meters::EngineMeters;
use crate::sys::card_ring::CardTransmit;
use crate::sys::dpdk::Sender;
use crate::sys::packet_ring::PacketTransmit;
use crate::sys::xsk::{XskConfig, XskLend, XskSocket};
use crate::sys::xsk_transmit::XskTransmit;

/// After how long frames that the kernel left in the ring are offered to it again, at first: the device may just be busy.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// The same after many offers in vain: the link is down, and each offer wakes the engine.
const LAST_RETRY: Duration = Duration::from_millis(128);

/// The transmit side of a source.
#[derive(Debug)]
pub struct TransmitRing {
    ring: Ring,
    /// Frames were queued since the last kick.
    fresh: bool,
    left: Left,
}

/// What the last kick left in the ring.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    frames: u32,
    /// When to kick again; `None` where nothing is left.
    retry: Option<Duration>,
}

impl Left {
    /// What is left now that `frames` are: the wait doubles as long as none of them leave.
    fn after(self, frames: u32, fresh: bool) -> Self {
        let retry = match self.retry {
            _ if frames == 0 => None,
            Some(last) if !fresh && frames >= self.frames => Some((last * 2).min(LAST_RETRY)),
            _ => Some(FIRST_RETRY),
        };
        Self { frames, retry }
    }
}

#[derive(Debug)]
enum Ring {
    Xdp(XskTransmit),
    Lend(XskLend),
    Packet(PacketTransmit),
    Card(CardTransmit),
    Dpdk(Box<Sender>),
}

impl TransmitRing {
    fn of(ring: Ring) -> Self {
        Self { ring, fresh: false, left: Left::default() }
    }

    pub(crate) fn of_xsk(ring: XskTransmit) -> Self {
        Self::of(Ring::Xdp(ring))
    }

    pub(crate) fn of_lend(ring: XskLend) -> Self {
        Self::of(Ring::Lend(ring))
    }

    pub(crate) fn as_lend(&mut self) -> Option<&mut XskLend> {
        match &mut self.ring {
            Ring::Lend(ring) => Some(ring),
            Ring::Xdp(_) | Ring::Packet(_) | Ring::Card(_) | Ring::Dpdk(_) => None,
        }
    }

    pub(crate) fn of_packet(ring: PacketTransmit) -> Self {
        Self::of(Ring::Packet(ring))
    }

    pub(crate) fn of_card(ring: CardTransmit) -> Self {
        Self::of(Ring::Card(ring))
    }

    pub(crate) fn of_dpdk(ring: Sender) -> Self {
        Self::of(Ring::Dpdk(Box::new(ring)))
    }

    /// A ring of its own, without a source: a packet socket that receives nothing and sends on one interface, past its
    /// queueing discipline. `slots` frames of `frame_size` bytes, a power of two of which the kernel takes 32.
    ///
    /// # Errors
    /// Memory, privileges, the interface gone or down.
    pub fn open_packet(interface: &str, ifindex: u32, slots: u32, frame_size: u32) -> Result<Self> {
        Ok(Self::of_packet(PacketTransmit::open(interface, ifindex, slots, frame_size)?))
    }

    /// As [`TransmitRing::open_packet`], by an AF_XDP socket on one of the interface's queues that no other has. The kernel copies
    /// each frame (XDP_COPY), so that neither the interface's own reception nor its settings change. `slots` is a power of two,
    /// `frame_size` 2048 or 4096.
    ///
    /// # Errors
    /// Memory, privileges, the interface gone or down, no such queue, or another program's socket on it.
    pub fn open_xdp(interface: &str, ifindex: u32, queue: u32, slots: u32, frame_size: u32) -> Result<Self> {
        let config = XskConfig {
            interface: interface.to_owned(),
            ifindex,
            queue,
            // A UMEM needs a fill ring, and one that a receive ring goes with; nothing is steered here.
            rx_frames: 64,
            tx_frames: slots,
            frame_size,
            huge_pages: false,
            across_fork: false,
            force_copy: true,
            cookie: 0,
        };
        let (_, transmit) = XskSocket::open(&config)?;
        let none = || Error::usage("send by AF_XDP on", interface, "0 transmit slots").way_out("use at least 1");
        transmit.map(Self::of_xsk).ok_or_else(none)
    }

    /// Lends a free frame of the ring to `build`, which writes a packet from its link-layer header on and returns the
    /// length (0: nothing to send after all). Returns the length queued, or `None` when no frame is free; a ring that sends another
    /// device's frames ([`TransmitRing::lends`]) has none.
    pub fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        let sent = match &mut self.ring {
            Ring::Xdp(ring) => ring.send(build),
            Ring::Lend(_) => None,
            Ring::Packet(ring) => ring.send(build),
            Ring::Card(ring) => ring.send(build),
            Ring::Dpdk(ring) => ring.send(build),
        };
        self.fresh |= sent.is_some_and(|len| len > 0);
        sent
    }

    /// Whether it sends packets of another device where they lie, without a copy: by [`TransmitRing::forward`] and in no other way.
    pub fn lends(&self) -> bool {
        matches!(self.ring, Ring::Lend(_))
    }

    /// Sends a packet of the device whose frames are lent to this ring, where it lies: its frame goes back to that device once it is
    /// sent. Returns the length queued, or `None` when the ring is full, or `packet` lies in no such frame.
    pub fn forward(&mut self, packet: &[u8]) -> Option<usize> {
        let sent = self.as_lend()?.forward(packet);
        self.fresh |= sent.is_some();
        sent
    }

    /// Hands what was queued to the device: at most one system call, none when nothing is queued. Returns when to do so again
    /// at the latest, where the kernel left some: soon at first, ever more seldom while it takes none (a link that is down).
    pub fn kick(&mut self) -> Option<Duration> {
        if self.fresh || self.left.frames > 0 {
            self.offer();
        }
        self.left.retry
    }

    /// As [`TransmitRing::kick`], also when nothing new was queued: for frames that the device refused, which a packet
    /// socket's ring keeps and offers again at the next call (`tpacket_snd` in net/packet/af_packet.c).
    pub fn kick_again(&mut self) {
        self.offer();
    }

    fn offer(&mut self) {
        match &mut self.ring {
            Ring::Xdp(ring) => ring.kick(),
            Ring::Lend(ring) => ring.kick(),
            Ring::Packet(ring) => ring.kick(),
            Ring::Card(ring) => ring.kick(),
            Ring::Dpdk(ring) => ring.kick(),
        }
        let frames = match &self.ring {
            // A device that knows of them needs no second word.
            Ring::Card(_) => 0,
            _ => self.pending(),
        };
        self.left = self.left.after(frames, std::mem::take(&mut self.fresh));
    }

    /// Frames that the kernel refused, which are not in the ring any more: on AF_XDP, those whose descriptors made no sense to it
    /// (tx_invalid_descs of XDP_STATISTICS, af_xdp.rst; asked by a system call; a frame that was lent then does not come back), on a
    /// packet socket those that were longer than the interface's MTU allows, or malformed. 0 on a card, and by DPDK.
    pub fn refused(&self) -> u64 {
        match &self.ring {
            Ring::Xdp(ring) => ring.refused(),
            Ring::Lend(ring) => ring.refused(),
            Ring::Packet(ring) => ring.refused(),
            Ring::Card(_) | Ring::Dpdk(_) => 0,
        }
    }

    /// Bytes of the frames that a packet socket's kernel refused; 0 elsewhere, where nobody tells.
    pub fn refused_bytes(&self) -> u64 {
        if let Ring::Packet(ring) = &self.ring { ring.refused_bytes() } else { 0 }
    }

    /// Whether it is a packet socket's.
    pub fn is_packet(&self) -> bool {
        matches!(self.ring, Ring::Packet(_))
    }

    /// Whether nobody tells when frames that the device took have left it: some of DPDK's drivers do, and others give them back twice
    /// when they are asked. Whoever closes the device at once loses them.
    pub fn is_silent(&self) -> bool {
        matches!(self.ring, Ring::Dpdk(_))
    }

    /// Frames handed over that the device has not taken yet.
    pub fn pending(&mut self) -> u32 {
        match &mut self.ring {
            Ring::Xdp(ring) => ring.pending(),
            Ring::Lend(ring) => ring.pending(),
            Ring::Packet(ring) => ring.pending(),
            Ring::Card(ring) => ring.pending(),
            Ring::Dpdk(ring) => ring.held(),
        }
    }
}

/// What a handler sends through: the source's transmit ring, if it has one, with its losses counted.
pub struct Outbox<'e> {
    pub(crate) ring: Option<&'e mut TransmitRing>,
    pub(crate) meters: &'e EngineMeters,
}

impl<'e> Outbox<'e> {
    /// Without a ring: what is sent is refused, and counted here.
    pub fn nowhere(meters: &'e EngineMeters) -> Self {
        Self { ring: None, meters }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_nobody_takes_are_offered_ever_more_seldom() {
        let millis = |left: Left| left.retry.map(|retry| retry.as_millis());
        let mut left = Left::default().after(5, true);
        assert_eq!(millis(left), Some(1));
        let waits: Vec<_> = (0..9)
            .map(|_| {
                left = left.after(5, false);
                millis(left).unwrap()
            })
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
        assert_eq!(millis(left.after(4, false)), Some(1), "one left the ring");
        assert_eq!(millis(left.after(6, true)), Some(1), "a new one");
        assert_eq!(millis(left.after(0, false)), None);
        assert_eq!(millis(Left::default().after(0, true)), None);
    }
}
