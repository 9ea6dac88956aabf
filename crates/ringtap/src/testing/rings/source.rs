//! A source over any of the rings: what an engine needs to run on a kernel that a test plays.
//!
//! Owns waiting for that kernel. Rings and frames are the same code that captures.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use super::{CardDevice, PacketKernel, XdpKernel, card, packet, xdp};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::source::{Description, Source, StampClock, Wake};
use crate::sys::card_ring::CardReceive;
use crate::sys::event::{Event, PollEnd, Stop};
use crate::sys::memory::{Region, Slot};
use crate::sys::packet_ring::PacketReceive;
use crate::sys::xsk::XskSocket;
use crate::transmit::TransmitRing;

/// Bytes of a frame, where they are not packed.
const FRAME_SIZE: u32 = 2048;

trait Ring: FrameOwner + Send {
    fn take(&mut self, slots: &mut Vec<Slot>);
    fn is_empty(&self) -> bool;
    fn invalid(&self) -> u64;
}

impl FrameOwner for XskSocket {
    fn give_back(&mut self, slots: &[Slot]) {
        XskSocket::give_back(self, slots);
    }
}

impl Ring for XskSocket {
    fn take(&mut self, slots: &mut Vec<Slot>) {
        self.receive(slots, BURST_MAX);
    }

    fn is_empty(&self) -> bool {
        XskSocket::is_empty(self)
    }

    fn invalid(&self) -> u64 {
        self.invalid_descriptors
    }
}

impl FrameOwner for PacketReceive {
    fn give_back(&mut self, slots: &[Slot]) {
        PacketReceive::give_back(self, slots);
    }
}

impl Ring for PacketReceive {
    fn take(&mut self, slots: &mut Vec<Slot>) {
        self.receive(slots, BURST_MAX);
    }

    fn is_empty(&self) -> bool {
        PacketReceive::is_empty(self)
    }

    fn invalid(&self) -> u64 {
        self.invalid_descriptors
    }
}

impl Ring for CardReceive {
    fn take(&mut self, slots: &mut Vec<Slot>) {
        CardReceive::take(self, slots, BURST_MAX, || 0);
    }

    fn is_empty(&self) -> bool {
        CardReceive::is_empty(self)
    }

    fn invalid(&self) -> u64 {
        self.invalid
    }
}

/// One ring as a source.
pub struct RingSource {
    ring: Box<dyn Ring>,
    region: Arc<Region>,
    slots: Vec<Slot>,
    arrival: Arc<Event>,
    stamps: StampClock,
    description: Description,
}

impl RingSource {
    fn over(ring: Box<dyn Ring>, region: Arc<Region>, arrival: Arc<Event>, stamps: StampClock, slots: usize) -> Self {
        let description = Description {
            backend: "testing",
            object: "memory".to_owned(),
            queue: None,
            zero_copy: None,
            xdp_mode: None,
            busy_poll: false,
            ring_slots: slots,
            memory_bytes: region.len(),
            library: None,
        };
        Self { ring, region, slots: Vec::with_capacity(BURST_MAX), arrival, stamps, description }
    }

    /// An AF_XDP socket with `slots` receive frames, a power of two, packed or whole, and as many to send.
    ///
    /// # Panics
    /// There is no memory, or no descriptor is left.
    pub fn xdp(slots: u32, packed: bool) -> (Self, TransmitRing, XdpKernel) {
        let size = if packed { crate::sys::xsk::PACKED_FRAME } else { FRAME_SIZE };
        // Indices that wrap soon.
        let (socket, transmit, kernel) = xdp::socket(slots, size, slots, u32::MAX - slots);
        let region = Arc::clone(socket.region());
        let arrival = Arc::clone(&kernel.arrival);
        let source = Self::over(Box::new(socket), region, arrival, StampClock::Monotonic, slots as usize);
        (source, TransmitRing::of_xsk(transmit), kernel)
    }

    /// A packet socket with a receive ring and a transmit ring of `slots` frames, and the kernel's side of each.
    ///
    /// # Panics
    /// There is no memory, or no descriptor is left.
    pub fn packet(slots: usize) -> (Self, TransmitRing, PacketKernel, PacketKernel) {
        let (ring, kernel) = packet::receive(slots, FRAME_SIZE as usize);
        let (transmit, sender) = packet::transmit(slots, FRAME_SIZE as usize);
        let region = Arc::clone(ring.region());
        let arrival = Arc::clone(&kernel.arrival);
        let source = Self::over(Box::new(ring), region, arrival, StampClock::Realtime, slots);
        (source, TransmitRing::of_packet(transmit), kernel, sender)
    }

    /// A queue of a card with `slots` receive and transmit descriptors, a multiple of 8.
    ///
    /// # Panics
    /// There is no memory, or no descriptor is left.
    pub fn card(slots: usize) -> (Self, TransmitRing, CardDevice) {
        let (ring, transmit, card) = card::queue(slots, slots, FRAME_SIZE as usize);
        let region = Arc::clone(ring.memory());
        let arrival = Arc::clone(&card.arrival);
        let source = Self::over(Box::new(ring), region, arrival, StampClock::Taken, slots);
        (source, TransmitRing::of_card(transmit), card)
    }
}

impl FrameOwner for Box<dyn Ring> {
    fn give_back(&mut self, slots: &[Slot]) {
        (**self).give_back(slots);
    }
}

impl Source for RingSource {
    fn receive(&mut self) -> Burst<'_> {
        if self.slots.is_empty() {
            self.ring.take(&mut self.slots);
        }
        Burst::new(&mut self.slots, &self.region, &mut self.ring)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        self.arrival.clear();
        if !self.slots.is_empty() || !self.ring.is_empty() {
            return Wake::Ready;
        }
        match stop.wait_readable(self.arrival.as_fd(), limit) {
            PollEnd::Readable => Wake::Ready,
            PollEnd::TimedOut => Wake::TimedOut,
            PollEnd::Stopped => Wake::Stopped,
            PollEnd::Failed => Wake::Gone,
        }
    }

    fn quiesce(&mut self) -> bool {
        true
    }

    fn stamp_clock(&self) -> StampClock {
        self.stamps
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn invalid_descriptors(&self) -> u64 {
        self.ring.invalid()
    }
}
