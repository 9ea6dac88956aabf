//! The descriptor rings of one queue of an Intel gigabit card, and the frames behind them, in memory shared with the card.
//!
//! Owns which descriptors are the card's and which are ours. The layouts are those that 82574 and 82576 have in common: extended
//! (82574) and advanced (82576) receive descriptors are written back alike, and of legacy (82574) and advanced (82576)
//! transmit descriptors the bits in use lie in the same places (data sheets, sections 7.1 and 7.2). Frame n belongs to descriptor n for ever.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::memory::{Region, Slot};
use super::vfio::VfioDevice;
use crate::error::Result;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: usize = 16;

/// Receive descriptor as written back: status at byte 8, length in the lower half of byte 12 on.
const RX_STATUS: usize = 8;
const RX_LENGTH: usize = 12;
const RX_DONE: u32 = 1;
const RX_END_OF_PACKET: u32 = 1 << 1;

/// Transmit descriptor: length and command at byte 8, status at byte 12.
const TX_COMMAND: usize = 8;
const TX_STATUS: usize = 12;
const TX_DONE: u32 = 1;
/// End of packet, insert the frame check sequence, report status.
const TX_WHOLE_PACKET: u32 = 1 << 24 | 1 << 25 | 1 << 27;
/// Data descriptor of the advanced format.
const TX_ADVANCED: u32 = 3 << 20 | 1 << 29;
const TX_PAYLOAD_SHIFT: u32 = 14;
/// Shortest frame, without its check sequence.
const ETHERNET_MINIMUM: usize = 60;

/// The registers of a card, by which it is told of a ring's end.
pub(crate) trait Registers: std::fmt::Debug + Send + Sync {
    /// Writes the register at byte `offset`, no earlier than what was written to memory before.
    fn write(&self, offset: usize, value: u32);
}

impl Registers for VfioDevice {
    fn write(&self, offset: usize, value: u32) {
        VfioDevice::write(self, offset, value);
    }
}

/// A ring's place in the shared memory, and how the card is told of its end.
#[derive(Debug)]
struct Descriptors {
    registers: Arc<dyn Registers>,
    memory: Arc<Region>,
    /// Of the first descriptor in the memory, bytes.
    ring: usize,
    /// Of the first frame in the memory, bytes.
    frames: usize,
    /// Of the memory's first byte, for the card.
    card_address: u64,
    frame_size: usize,
    count: usize,
    tail_register: usize,
}

/// The memory of a queue, before the card knows of it.
#[derive(Debug)]
pub(crate) struct QueueMemory {
    memory: Arc<Region>,
    card_address: u64,
    receive: usize,
    transmit: usize,
    frame_size: usize,
}

impl QueueMemory {
    /// Takes and shares memory for `receive` and `transmit` descriptors (multiples of 8, as the card wants) with a frame each.
    ///
    /// # Errors
    /// Not enough memory, or than may be pinned.
    pub(crate) fn new(
        device: &mut VfioDevice,
        receive: usize,
        transmit: usize,
        frame_size: usize,
        huge_pages: bool,
    ) -> Result<Self> {
        let len = Self::bytes(receive + transmit, frame_size);
        let memory = Arc::new(Region::anonymous(len, huge_pages, "rings and frames")?);
        let card_address = device.share(&memory)?;
        Ok(Self::over(memory, card_address, (receive, transmit), frame_size))
    }

    /// Memory that the card finds at `card_address`, for so many descriptors of both kinds.
    pub(crate) fn over(memory: Arc<Region>, card_address: u64, descriptors: (usize, usize), frame_size: usize) -> Self {
        let (receive, transmit) = descriptors;
        Self { memory, card_address, receive, transmit, frame_size }
    }

    /// Bytes of memory that so many descriptors take.
    pub(crate) fn bytes(descriptors: usize, frame_size: usize) -> usize {
        descriptors * (DESCRIPTOR + frame_size) + frame_size
    }

    /// Where the card finds its receive and its transmit descriptors.
    pub(crate) fn card_addresses(&self) -> (u64, u64) {
        (self.card_address, self.card_address + (self.receive * DESCRIPTOR) as u64)
    }

    pub(crate) fn memory(&self) -> &Arc<Region> {
        &self.memory
    }

    /// The rings; `tails` are the card's tail registers of the two.
    pub(crate) fn rings(
        self,
        registers: &Arc<impl Registers + 'static>,
        tails: (usize, usize),
        advanced: bool,
    ) -> (CardReceive, Option<CardTransmit>) {
        let frames = ((self.receive + self.transmit) * DESCRIPTOR).next_multiple_of(self.frame_size);
        let registers: Arc<dyn Registers> = Arc::clone(registers) as _;
        let descriptors = |ring, frames, count, tail_register| Descriptors {
            registers: Arc::clone(&registers),
            memory: Arc::clone(&self.memory),
            ring,
            frames,
            card_address: self.card_address,
            frame_size: self.frame_size,
            count,
            tail_register,
        };
        let receive = CardReceive {
            ring: descriptors(0, frames, self.receive, tails.0),
            next: 0,
            given: 0,
            inside_long: false,
            invalid: 0,
        };
        let behind = frames + self.receive * self.frame_size;
        let transmit = (self.transmit > 0).then(|| CardTransmit {
            ring: descriptors(self.receive * DESCRIPTOR, behind, self.transmit, tails.1),
            advanced,
            next: 0,
            clean: 0,
        });
        (receive, transmit)
    }
}

impl Descriptors {
    fn at<T>(&self, index: usize, byte: usize) -> NonNull<T> {
        assert!(index < self.count && byte + size_of::<T>() <= DESCRIPTOR, "descriptor {index} of {}", self.count);
        // SAFETY: inside the ring, which lies in the memory by construction; descriptors are aligned to their size.
        unsafe { self.memory.base().add(self.ring + index * DESCRIPTOR + byte).cast() }
    }

    fn read(&self, index: usize, byte: usize) -> u32 {
        // SAFETY: aligned and inside the memory, by `at`; the card writes whole words.
        u32::from_le(unsafe { self.at::<u32>(index, byte).read_volatile() })
    }

    fn write(&self, index: usize, words: [u64; 2]) {
        for (word, byte) in words.into_iter().zip([0, 8]) {
            // SAFETY: aligned and inside the memory, by `at`; the descriptor is ours until the tail has passed it.
            unsafe { self.at::<u64>(index, byte).write_volatile(word.to_le()) };
        }
    }

    /// Byte `index × frame_size` of the frames, in our memory and for the card.
    fn frame(&self, index: usize) -> (usize, u64) {
        let offset = self.frames + index * self.frame_size;
        (offset, self.card_address + offset as u64)
    }

    fn set_tail(&self, index: usize) {
        self.registers.write(self.tail_register, index as u32);
    }

    fn after(&self, index: usize) -> usize {
        if index + 1 == self.count { 0 } else { index + 1 }
    }
}

/// The receive side of a queue.
#[derive(Debug)]
pub(crate) struct CardReceive {
    ring: Descriptors,
    /// Where the card writes the next packet that was not taken yet.
    next: usize,
    /// The first descriptor that is not the card's again.
    given: usize,
    /// The packet at `next` began in an earlier descriptor.
    inside_long: bool,
    /// Packets that made no sense.
    pub(crate) invalid: u64,
}

impl CardReceive {
    /// Gives all descriptors but one to the card; the queue must be enabled.
    pub(crate) fn fill(&mut self) {
        (0..self.ring.count).for_each(|index| self.arm(index));
        self.ring.set_tail(self.ring.count - 1);
    }

    fn arm(&self, index: usize) {
        let (_, card_address) = self.ring.frame(index);
        self.ring.write(index, [card_address, 0]);
    }

    /// Whether nothing has come that was not taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.read(self.next, RX_STATUS) & RX_DONE == 0
    }

    /// Takes up to `most` packets that are there into `slots`, which is empty, as are all that were taken before given back.
    pub(crate) fn take(&mut self, slots: &mut Vec<Slot>, most: usize, now_ns: impl FnOnce() -> u64) {
        debug_assert!(slots.is_empty());
        let first = self.next;
        while slots.len() < most {
            let status = self.ring.read(self.next, RX_STATUS);
            // The descriptor before the first one that was not given back is never the card's.
            if status & RX_DONE == 0 || self.ring.after(self.next) == self.given {
                break;
            }
            // The card writes the length, and the frame before it, no later than the status.
            fence(Ordering::Acquire);
            let len = self.ring.read(self.next, RX_LENGTH) & 0xffff;
            let (is_end, is_first) = (status & RX_END_OF_PACKET != 0, !self.inside_long);
            let (offset, _) = self.ring.frame(self.next);
            let fits = is_end && is_first && len > 0 && len as usize <= self.ring.frame_size;
            match Slot::new(&self.ring.memory, offset, len).filter(|_| fits) {
                Some(mut slot) => {
                    slot.token = self.next as u64;
                    self.ring.memory.prefetch(&slot);
                    slots.push(slot);
                }
                None => self.invalid += u64::from(is_end),
            }
            self.inside_long = !is_end;
            self.next = self.ring.after(self.next);
        }
        if !slots.is_empty() {
            let now_ns = now_ns();
            slots.iter_mut().for_each(|slot| slot.arrival_ns = now_ns);
        } else if self.next != first {
            self.give_until(self.next);
        }
    }

    /// Gives these and what made no sense before them back to the card.
    pub(crate) fn give_back(&mut self, slots: &[Slot]) {
        if let Some(last) = slots.last() {
            self.give_until(self.ring.after(last.token as usize));
        }
    }

    pub(crate) fn memory(&self) -> &Arc<Region> {
        &self.ring.memory
    }

    fn give_until(&mut self, end: usize) {
        while self.given != end {
            self.arm(self.given);
            self.given = self.ring.after(self.given);
        }
        // The card stops short of the tail (data sheet of the 82574, section 7.1.8), so one descriptor is always kept.
        self.ring.set_tail(if self.given == 0 { self.ring.count - 1 } else { self.given - 1 });
    }
}

/// The transmit side of a queue.
#[derive(Debug)]
pub(crate) struct CardTransmit {
    ring: Descriptors,
    advanced: bool,
    /// Where the next frame is built.
    next: usize,
    /// The first frame that the card may not have sent yet.
    clean: usize,
}

impl CardTransmit {
    /// As [`crate::transmit::TransmitRing::send`].
    pub(crate) fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        if self.ring.after(self.next) == self.clean {
            self.reclaim();
            if self.ring.after(self.next) == self.clean {
                return None;
            }
        }
        let (offset, card_address) = self.ring.frame(self.next);
        // SAFETY: the frame lies in the memory by construction; the card has sent it, or never had it, and `&mut self` excludes
        // other references to it.
        let frame = unsafe {
            std::slice::from_raw_parts_mut(self.ring.memory.base().as_ptr().add(offset), self.ring.frame_size)
        };
        let len = build(frame).min(self.ring.frame_size);
        if len == 0 {
            return Some(0);
        }
        // The card pads to the minimum of Ethernet, but takes nothing of less than 17 bytes; nor must old bytes leave.
        let sent = len.max(ETHERNET_MINIMUM);
        frame[len..sent].fill(0);
        let command = sent as u32 | TX_WHOLE_PACKET | if self.advanced { TX_ADVANCED } else { 0 };
        let payload = if self.advanced { (sent as u64) << TX_PAYLOAD_SHIFT } else { 0 };
        debug_assert_eq!((TX_COMMAND, TX_STATUS), (8, 12));
        self.ring.write(self.next, [card_address, u64::from(command) | payload << 32]);
        self.next = self.ring.after(self.next);
        Some(len)
    }

    /// Tells the card of what was queued.
    pub(crate) fn kick(&self) {
        self.ring.set_tail(self.next);
    }

    fn reclaim(&mut self) {
        while self.clean != self.next && self.ring.read(self.clean, TX_STATUS) & TX_DONE != 0 {
            self.clean = self.ring.after(self.clean);
        }
    }

    /// Frames that the card has not sent yet.
    pub(crate) fn pending(&mut self) -> u32 {
        self.reclaim();
        ((self.next + self.ring.count - self.clean) % self.ring.count) as u32
    }
}

impl Drop for CardTransmit {
    /// What was handed over is sent before the card is reset.
    fn drop(&mut self) {
        const LIMIT: Duration = Duration::from_millis(100);
        let since = Instant::now();
        while self.pending() > 0 && since.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod generated;
