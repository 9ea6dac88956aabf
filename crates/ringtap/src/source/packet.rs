//! A packet socket's TPACKET_V2 ring as a source: the per-frame ring on any interface, beside the host stack.
//!
//! Owns one socket and its ring; several on one interface share its packets by PACKET_FANOUT.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::backend::Opener;
use super::counters::{DeviceCounters, PacketCounters};
use super::{Description, Source, StampClock, Wake, device_wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::sys::event::Stop;
use crate::sys::memory::{Region, Slot};
use crate::sys::packet_ring::{self, Group, PacketConfig, PacketReceive, PacketTransmit};
use crate::transmit::TransmitRing;

mod open;

pub use crate::sys::packet_ring::Filter;
pub(super) use open::{fanout_count, open_members, ring_config};

pub(super) const OPENER: Opener =
    Opener { name: NAME, find: Interface::find_up, most_slots: u32::MAX, rings: open::rings, open: open::open };
const NAME: &str = "packet";

/// How to open a packet socket with a ring.
#[derive(Debug, Clone)]
pub struct PacketRingConfig {
    /// Interface name.
    pub interface: String,
    /// Its index.
    pub ifindex: u32,
    /// Ring slots, 64 to 2^20; rounded up to whole blocks.
    pub ring_slots: u32,
    /// Transmit slots, or 0 for no transmit ring.
    pub transmit_slots: u32,
    /// Bytes per frame, a power of two from 256 (2048 where the kernel copies each packet by a call) to 65536. A ring's frame
    /// begins with some 80 bytes of its own; longer packets are fetched, or cut.
    pub frame_size: u32,
    /// Fetch packets that exceed a frame (merged ones: GRO, TSO) whole, at the price of a system call each.
    pub fetch_oversize: bool,
    /// Leave out what this host sends.
    pub incoming_only: bool,
    /// Decides in the kernel which packets are taken.
    pub filter: Option<Filter>,
}

/// Share of an interface's packets among several sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fanout {
    /// Alone.
    None,
    /// The first of several: the kernel gives it a group of its own.
    First(Spread),
    /// Another member of this group.
    Join(Spread, u16),
}

/// What one of several sockets gets of an interface's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Flows, both directions; their fragments may come to another one.
    ByFlow,
    /// All between two addresses: flows with their fragments.
    ByAddresses,
}

impl Fanout {
    pub(super) fn argument(self) -> Option<Group> {
        let group = |spread, id| Group { id, by_addresses: spread == Spread::ByAddresses };
        match self {
            Self::None => None,
            Self::First(spread) => Some(group(spread, None)),
            Self::Join(spread, id) => Some(group(spread, Some(id))),
        }
    }
}

/// One packet socket with a ring.
pub struct PacketSource {
    ring: PacketReceiveOwner,
    slots: Vec<Slot>,
    description: Description,
    ifindex: u32,
    region: Arc<Region>,
    filter: Option<Filter>,
}

struct PacketReceiveOwner(PacketReceive);

impl FrameOwner for PacketReceiveOwner {
    fn give_back(&mut self, slots: &[Slot]) {
        self.0.give_back(slots);
    }
}

impl PacketRingConfig {
    pub(super) fn check(&self, operation: &str, least_frame: u32) -> Result<()> {
        let usage =
            |cause: String, way_out: &str| Err(Error::usage(operation, &self.interface, cause).way_out(way_out));
        if !(64..=1 << 20).contains(&self.ring_slots) {
            return usage(format!("{} ring slots", self.ring_slots), "use 64 to 1048576");
        }
        if !self.frame_size.is_power_of_two() || !(least_frame..=65536).contains(&self.frame_size) {
            let way_out = format!("use a power of two from {least_frame} to 65536");
            return usage(format!("frame size {}", self.frame_size), &way_out);
        }
        Ok(())
    }

    pub(super) fn socket(&self) -> PacketConfig {
        PacketConfig {
            interface: self.interface.clone(),
            ifindex: self.ifindex,
            incoming_only: self.incoming_only,
            fetch_oversize: self.fetch_oversize,
            filter: self.filter.clone(),
        }
    }
}

impl PacketSource {
    /// Opens the ring; returns the fanout group joined, for the next one to join. A member of a group gets nothing before
    /// [`Source::admit`].
    ///
    /// # Errors
    /// A number out of range, memory, privileges, the interface down.
    pub fn open(config: &PacketRingConfig, fanout: Fanout) -> Result<(Self, Option<TransmitRing>, Option<u16>)> {
        config.check("open packet ring on", 256)?;
        let (ring, group) =
            PacketReceive::open(&config.socket(), config.ring_slots, config.frame_size, fanout.argument())?;
        let transmit = match config.transmit_slots {
            0 => None,
            slots => {
                let ring = PacketTransmit::open(&config.interface, config.ifindex, slots, config.frame_size)?;
                Some(TransmitRing::of_packet(ring))
            }
        };
        let region = Arc::clone(ring.region());
        let description = Description {
            backend: NAME,
            object: config.interface.clone(),
            queue: None,
            zero_copy: None,
            xdp_mode: None,
            busy_poll: false,
            ring_slots: ring.slots(),
            memory_bytes: region.len(),
            library: None,
        };
        let source = Self {
            ring: PacketReceiveOwner(ring),
            slots: Vec::with_capacity(BURST_MAX),
            description,
            ifindex: config.ifindex,
            region,
            filter: config.filter.clone(),
        };
        Ok((source, transmit, group))
    }
}

impl Source for PacketSource {
    fn receive(&mut self) -> Burst<'_> {
        if self.slots.is_empty() {
            self.ring.0.receive(&mut self.slots, BURST_MAX);
        }
        Burst::new(&mut self.slots, &self.region, &mut self.ring)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        if self.arm() {
            return Wake::Ready;
        }
        let fd = self.ring.0.fd();
        device_wake(stop.wait_readable(fd.as_fd(), limit), fd.as_fd(), self.ifindex, stop)
    }

    fn quiesce(&mut self) -> bool {
        packet_ring::shut(self.ring.0.fd().as_fd());
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Realtime
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn admit(&self) -> Result<()> {
        packet_ring::admit(self.ring.0.fd().as_fd(), &self.description.object, self.filter.as_ref())
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        Some(Box::new(PacketCounters::new(Arc::clone(self.ring.0.fd()))))
    }

    fn filters_before_counting(&self) -> bool {
        self.filter.is_some()
    }

    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(self.ring.0.fd()))
    }

    fn arm(&mut self) -> bool {
        !self.slots.is_empty() || !self.ring.0.is_empty()
    }

    /// Frames whose head named bytes outside the frame.
    fn invalid_descriptors(&self) -> u64 {
        self.ring.0.invalid_descriptors
    }
}
