//! A plain packet socket read with recvmmsg(2) as a source: the naive baseline, with a copy and a system call per burst.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::packet::{Fanout, Filter, PacketRingConfig};
use super::{Description, Source, StampClock, Wake, device_wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::Result;
use crate::sys::event::Stop;
use crate::sys::memory::Slot;
use crate::sys::packet_ring;
use crate::sys::recvmmsg::PlainSocket;

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
            backend: "socket",
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

    /// As [`super::packet::PacketSource::admit`].
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn admit(&self) -> Result<()> {
        packet_ring::admit(self.socket.fd().as_fd(), &self.description.object, self.filter.as_ref())
    }

    /// Whether packets of an earlier burst are there; what the kernel holds, its descriptor tells.
    pub(crate) fn is_ready(&self) -> bool {
        !self.slots.is_empty()
    }

    /// The socket, for reading its counters from another thread.
    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(self.socket.fd())
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
        if self.is_ready() {
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
}
