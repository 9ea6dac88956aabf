//! Packets copied into memory of our own: how a source that has no ring of frames to lend makes its bursts.
//!
//! Owns the frames and their order. Where packets come from is the source's business.

use super::{BURST_MAX, Burst, FrameOwner, Packet};
use crate::error::Result;
use crate::sys::memory::{Arena, Slot};

/// Room for one burst of packets, for a [`Source`](crate::Source) of any crate: packets are copied in once, lent in order, and
/// their frames are free again when the burst is dropped. Allocates at construction only.
///
/// A source that counts up, with all that a source must have:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use ringtap::meters::EngineMeters;
/// use ringtap::source::{Description, StampClock, Wake};
/// use ringtap::{Burst, End, Engine, Handler, Outbox, Packet, PacketBuffer, Pacer, Policy, Source, Stop};
///
/// struct Counter {
///     next: u16,
///     buffer: PacketBuffer,
/// }
///
/// impl Source for Counter {
///     fn receive(&mut self) -> Burst<'_> {
///         while self.next < 1000 && self.buffer.push(&Packet::of(&self.next.to_be_bytes())) {
///             self.next += 1;
///         }
///         self.buffer.burst()
///     }
///
///     fn wait_for_interrupt(&mut self, _stop: &Stop, _limit: Option<Duration>) -> Wake {
///         Wake::End
///     }
///
///     fn stamp_clock(&self) -> StampClock {
///         StampClock::Recorded
///     }
///
///     fn description(&self) -> Description {
///         Description::new("counter", "0 to 999")
///     }
/// }
///
/// struct Sum(u64);
///
/// impl Handler for Sum {
///     fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
///         self.0 += u64::from(packet.data[0]) << 8 | u64::from(packet.data[1]);
///     }
/// }
///
/// let mut engine = Engine {
///     source: Counter { next: 0, buffer: PacketBuffer::new(2)? },
///     handler: Sum(0),
///     pacer: Pacer::new(&Policy::Interrupt)?,
///     transmit: None,
///     stop: Arc::new(Stop::new()?),
///     meters: Arc::new(EngineMeters::default()),
///     packet_limit: None,
/// };
/// assert_eq!(engine.run(), End::EndOfFile);
/// assert_eq!(engine.handler.0, 499_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PacketBuffer {
    arena: Arena,
    /// The packets that are in, oldest first.
    slots: Vec<Slot>,
    /// Frame of the next packet: frames are used in turn, and those in use follow each other.
    next: usize,
    frame_bytes: usize,
    owner: FreeAgain,
}

/// A frame is free as soon as its slot is gone.
#[derive(Debug)]
struct FreeAgain;

impl FrameOwner for FreeAgain {
    fn give_back(&mut self, _slots: &[Slot]) {}
}

impl PacketBuffer {
    /// Room for [`BURST_MAX`] packets of at most `frame_bytes` captured bytes (0 counts as 1).
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(frame_bytes: usize) -> Result<Self> {
        let frame_bytes = frame_bytes.clamp(1, u32::MAX as usize);
        Ok(Self {
            arena: Arena::new(BURST_MAX, frame_bytes, "memory for packets")?,
            slots: Vec::with_capacity(BURST_MAX),
            next: 0,
            frame_bytes,
            owner: FreeAgain,
        })
    }

    /// Copies a packet in behind the others; what is longer than a frame is cut there. `false`, and nothing is done, when there is
    /// no room.
    #[must_use]
    pub fn push(&mut self, packet: &Packet<'_>) -> bool {
        if self.is_full() {
            return false;
        }
        let kept = &packet.data[..packet.data.len().min(self.frame_bytes)];
        self.arena.frame_mut(self.next)[..kept.len()].copy_from_slice(kept);
        let Some(mut slot) = self.arena.slot(self.next, kept.len() as u32) else { return false };
        slot.wire_len = packet.wire_len.max(packet.data.len().try_into().unwrap_or(u32::MAX));
        slot.arrival_ns = packet.arrival_ns;
        slot.checksum_pending = packet.checksum_pending;
        self.slots.push(slot);
        self.next = (self.next + 1) % BURST_MAX;
        true
    }

    /// Whether there is no room for another packet.
    pub fn is_full(&self) -> bool {
        self.slots.len() == BURST_MAX
    }

    /// Whether no packet is in it.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.arena.region().len()
    }

    /// Lends all packets that are in it.
    pub fn burst(&mut self) -> Burst<'_> {
        Burst::new(&mut self.slots, self.arena.region(), &mut self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(buffer: &mut PacketBuffer, most: usize) -> Vec<u8> {
        let burst = buffer.burst();
        let numbers = burst.iter().take(most).map(|packet| packet.data[0]).collect();
        burst.end_after(most);
        numbers
    }

    #[test]
    fn packets_come_in_order_and_their_frames_are_free_when_they_are_given_back() {
        let mut buffer = PacketBuffer::new(1).unwrap();
        let (mut pushed, mut taken) = (0u8, 0u8);
        // Steps that don't divide the number of frames: a burst begins in any frame, and goes on at the first.
        for most in [1, 63, 7, 30, 64, 5, 64, 33] {
            while buffer.push(&Packet::of(&[pushed])) {
                pushed = pushed.wrapping_add(1);
            }
            assert!(buffer.is_full());
            let seen = numbers(&mut buffer, most);
            let expected: Vec<u8> = (0..most as u8).map(|step| taken.wrapping_add(step)).collect();
            assert_eq!(seen, expected);
            taken = taken.wrapping_add(most as u8);
            assert_eq!((buffer.is_full(), buffer.is_empty()), (false, most == BURST_MAX));
        }
        assert_eq!(buffer.burst().len(), BURST_MAX - 33);
        assert!(buffer.is_empty(), "a burst that is dropped takes all with it");
    }

    #[test]
    fn a_packet_longer_than_a_frame_is_cut_and_says_so() {
        let mut buffer = PacketBuffer::new(4).unwrap();
        let long = Packet { arrival_ns: 7, checksum_pending: true, ..Packet::of(b"longer") };
        assert!(buffer.push(&long) && buffer.push(&Packet { wire_len: 1500, ..Packet::of(b"cut") }));
        let burst = buffer.burst();
        let seen: Vec<_> = burst.iter().map(|packet| (packet.data, packet.wire_len, packet.arrival_ns)).collect();
        assert_eq!(seen, [(&b"long"[..], 6, 7), (&b"cut"[..], 1500, 0)]);
        assert!(burst.iter().next().unwrap().checksum_pending);
    }
}
