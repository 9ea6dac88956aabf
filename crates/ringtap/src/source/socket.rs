//! A plain packet socket read with recvmmsg(2) as a source: the naive baseline, with a copy and a system call per burst.
//!
//! Owns everything about this back end but its system calls (`sys/recvmmsg`) and its line in the table (`backend`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::backend::{Opened, Opener};
use super::counters::{DeviceCounters, PacketCounters};
use super::packet::{self, Fanout, Filter, PacketRingConfig};
use super::{AnySource, Description, Source, StampClock, Wake, device_wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::Result;
use crate::interface::Interface;
use crate::receiver::ReceiverConfig;
use crate::sys::event::Stop;
use crate::sys::memory::Slot;
use crate::sys::packet_ring;
use crate::sys::recvmmsg::PlainSocket;

pub(super) const OPENER: Opener =
    Opener { name: NAME, find: Interface::find_up, most_slots: u32::MAX, rings: |_, _| None, open };
const NAME: &str = "socket";

fn open(config: &ReceiverConfig, interface: &Interface, _warnings: &mut Vec<String>) -> Result<Opened> {
    let ring = packet::ring_config(config, interface);
    let sources = packet::open_members(config, |fanout| {
        let (source, group) = SocketSource::open(&ring, fanout)?;
        Ok(((Box::new(source) as AnySource, None), group))
    })?;
    Ok(Opened::unsteered(sources))
}

/// One plain packet socket.
pub struct SocketSource {
    socket: PlainSocket,
    owner: OwnFrames,
    slots: Vec<Slot>,
    description: Description,
    ifindex: u32,
    filter: Option<Filter>,
}

/// The arena's frames belong to user space all the time: nothing is given back.
struct OwnFrames;

impl FrameOwner for OwnFrames {
    fn give_back(&mut self, _slots: &[Slot]) {}
}

impl SocketSource {
    /// Opens the socket with a receive buffer of `ring_slots` × `frame_size` bytes, 32 MiB at least, as merged packets take
    /// 100 KiB each; returns the fanout group joined.
    ///
    /// # Errors
    /// A number out of range, memory, privileges, the interface down.
    pub fn open(config: &PacketRingConfig, fanout: Fanout) -> Result<(Self, Option<u16>)> {
        config.check("open packet socket on", 2048)?;
        const LEAST: u32 = 32 << 20;
        let buffer_bytes = config.ring_slots.saturating_mul(config.frame_size).clamp(LEAST, i32::MAX as u32);
        let (socket, group) = PlainSocket::open(&config.socket(), buffer_bytes, fanout.argument())?;
        let description = Description {
            backend: NAME,
            object: config.interface.clone(),
            queue: None,
            zero_copy: None,
            xdp_mode: None,
            busy_poll: false,
            ring_slots: config.ring_slots as usize,
            memory_bytes: socket.memory_bytes() + buffer_bytes as usize,
            library: None,
        };
        Ok((
            Self {
                socket,
                owner: OwnFrames,
                slots: Vec::with_capacity(BURST_MAX),
                description,
                ifindex: config.ifindex,
                filter: config.filter.clone(),
            },
            group,
        ))
    }
}

impl Source for SocketSource {
    fn receive(&mut self) -> Burst<'_> {
        if self.slots.is_empty() {
            self.socket.receive(&mut self.slots);
        }
        Burst::new(&mut self.slots, self.socket.region(), &mut self.owner)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        if self.arm() {
            return Wake::Ready;
        }
        let fd = self.socket.fd();
        device_wake(stop.wait_readable(fd.as_fd(), limit), fd.as_fd(), self.ifindex, stop)
    }

    fn quiesce(&mut self) -> bool {
        packet_ring::shut(self.socket.fd().as_fd());
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Realtime
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn admit(&self) -> Result<()> {
        packet_ring::admit(self.socket.fd().as_fd(), &self.description.object, self.filter.as_ref())
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        Some(Box::new(PacketCounters::new(Arc::clone(self.socket.fd()))))
    }

    fn filters_before_counting(&self) -> bool {
        self.filter.is_some()
    }

    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(self.socket.fd()))
    }

    /// Packets of an earlier burst; what the kernel holds, its descriptor tells.
    fn arm(&mut self) -> bool {
        !self.slots.is_empty()
    }
}
