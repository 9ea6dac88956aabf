//! An Intel gigabit card's queue, played over memory of our own (data sheets of the 82574 and 82576, sections 7.1 and 7.2).
//!
//! Owns the card's heads, its tail registers, and what it writes back. It writes only to descriptors that are its own, short of the
//! tail, unless it is told to lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::arrival;
use crate::sys::card_ring::{CardReceive, CardTransmit, DESCRIPTOR, QueueMemory, Registers};
use crate::sys::event::Event;
use crate::sys::far_side::FarSide;
use crate::sys::memory::Region;

/// Where the card finds the memory.
const CARD_ADDRESS: u64 = 0x1_2340_0000;
const RECEIVE_TAIL: usize = 0;
const TRANSMIT_TAIL: usize = 4;
const STATUS: usize = 8;
const LENGTH: usize = 12;
/// Of a transmit descriptor.
const COMMAND: usize = 8;
const TRANSMIT_STATUS: usize = 12;
pub(crate) const DONE: u32 = 1;
pub(crate) const END_OF_PACKET: u32 = 2;

/// Both tail registers.
#[derive(Debug, Default)]
struct Tails([AtomicU32; 2]);

impl Registers for Tails {
    fn write(&self, offset: usize, value: u32) {
        self.0[offset / 4].store(value, Ordering::Release);
    }
}

/// The card's side of a queue.
#[derive(Debug)]
pub struct CardDevice {
    memory: FarSide,
    tails: Arc<Tails>,
    receive: usize,
    transmit: usize,
    frame_size: usize,
    /// The next descriptors to write back.
    pub(crate) head: usize,
    sent: usize,
    pub(crate) arrival: Arc<Event>,
}

/// A queue of so many descriptors with frames of `frame_size` bytes.
pub(crate) fn queue(receive: usize, transmit: usize, frame_size: usize) -> (CardReceive, CardTransmit, CardDevice) {
    let bytes = QueueMemory::bytes(receive + transmit, frame_size);
    let region = Arc::new(Region::anonymous(bytes, false, "queue").expect("memory for a queue"));
    let memory = FarSide::of(&region);
    let tails = Arc::new(Tails::default());
    let rings = QueueMemory::over(region, CARD_ADDRESS, (receive, transmit), frame_size);
    let (mut ring, out) = rings.rings(&tails, (RECEIVE_TAIL, TRANSMIT_TAIL), false);
    ring.fill();
    let card = CardDevice { memory, tails, receive, transmit, frame_size, head: 0, sent: 0, arrival: arrival() };
    (ring, out.expect("transmit descriptors"), card)
}

impl CardDevice {
    fn tail(&self, register: usize) -> usize {
        self.tails.0[register / 4].load(Ordering::Acquire) as usize
    }

    /// Where the frame is that a descriptor tells the card of.
    ///
    /// # Panics
    /// It is outside the memory that is shared.
    fn frame(&self, descriptor: usize) -> usize {
        let [low, high] = [0, 4].map(|half| u64::from(u32::from_le(self.memory.load(descriptor + half))));
        usize::try_from((high << 32 | low) - CARD_ADDRESS).expect("an address in the memory")
    }

    /// The next receive descriptor, unless the card has none.
    pub(crate) fn next(&self) -> Option<usize> {
        let is_free = self.memory.load(self.head * DESCRIPTOR + STATUS) == 0;
        (self.head != self.tail(RECEIVE_TAIL) && is_free).then_some(self.head)
    }

    /// Delivers a packet, in as many descriptors as it takes; `false` where there are too few, and the card drops it.
    pub fn deliver(&mut self, packet: &[u8]) -> bool {
        let pieces: Vec<&[u8]> = packet.chunks(self.frame_size).collect();
        let free = (0..pieces.len()).all(|ahead| {
            let at = (self.head + ahead) % self.receive;
            let before_tail = (self.tail(RECEIVE_TAIL) + self.receive - self.head) % self.receive > ahead;
            before_tail && self.memory.load(at * DESCRIPTOR + STATUS) == 0
        });
        if free {
            for (i, piece) in pieces.iter().enumerate() {
                self.memory.write(self.frame(self.head * DESCRIPTOR), piece);
                let end = if i + 1 == pieces.len() { END_OF_PACKET } else { 0 };
                self.write_back(DONE | end, piece.len() as u32);
            }
            self.arrival.signal();
        }
        free
    }

    /// Writes the next descriptor back with any status and length.
    pub(crate) fn write_back(&mut self, status: u32, len: u32) {
        self.claim(self.head, status, len);
        self.head = (self.head + 1) % self.receive;
    }

    /// Writes any receive descriptor.
    pub(crate) fn claim(&self, index: usize, status: u32, len: u32) {
        self.memory.store(index * DESCRIPTOR + LENGTH, len);
        self.memory.store(index * DESCRIPTOR + STATUS, status);
    }

    /// Sends up to `most` of the packets that were kicked off.
    pub fn send(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while self.sent != self.tail(TRANSMIT_TAIL) && packets.len() < most {
            let at = (self.receive + self.sent) * DESCRIPTOR;
            let len = (self.memory.load(at + COMMAND) & 0xffff) as usize;
            packets.push(self.memory.read(self.frame(at), len));
            self.memory.store(at + TRANSMIT_STATUS, self.memory.load(at + TRANSMIT_STATUS) | DONE);
            self.sent = (self.sent + 1) % self.transmit;
        }
        packets
    }
}
