//! AF_XDP as a source: one queue's ring, fed by the steering program.
//!
//! Owns the socket of one queue and its place in the steering's socket map. The steering itself is shared by all queues
//! of an interface and belongs to whoever opened them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::backend::Opener;
use super::counters::{DeviceCounters, DeviceCounts};
use super::{Description, Source, StampClock, Wake, device_wake};
use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::receiver::Relay;
use crate::steer::{Attach, Gates, Steering};
use crate::sys::event::Stop;
use crate::sys::memory::{Region, Slot};
use crate::sys::xsk::{self, PACKED_FRAME, STAMP_BYTES, XskConfig, XskSocket};
use crate::transmit::TransmitRing;

mod open;

pub(crate) use open::{frame_sizes, queue_ids, refuse_bond};

pub(super) const OPENER: Opener =
    Opener { name: NAME, find: Interface::find_up, most_slots: u32::MAX, rings: open::rings, open: open::open };
const NAME: &str = "xdp";

/// How to open an AF_XDP queue.
#[derive(Debug, Clone)]
pub struct XdpConfig {
    /// Interface name.
    pub interface: String,
    /// Its index.
    pub ifindex: u32,
    /// Its MTU in bytes; with the link-layer header and two VLAN tags it must fit one frame, or the ring when frames are packed.
    pub mtu: u32,
    /// Its driver's name, which may leave less room in a frame.
    pub driver: Option<String>,
    /// Receive queue, from 0.
    pub queue: u32,
    /// Ring slots, a power of two from 64 to 2^20. A packed frame holds packets of up to 432 bytes, longer ones take several.
    pub ring_slots: u32,
    /// Transmit slots, a power of two, or 0 for no transmit ring.
    pub transmit_slots: u32,
    /// Bytes per frame: 2048 or 4096, or 448 for packed frames ([`XdpSource::PACKED`]).
    pub frame_size: u32,
    /// Keep the frames in huge pages.
    pub huge_pages: bool,
    /// A process that forks may receive in its child: frames in shared memory, in small pages.
    pub across_fork: bool,
    /// It is one of two ports that lend each other frames.
    pub relay: Option<Relay>,
}

/// One AF_XDP queue.
pub struct XdpSource {
    rings: Rings,
    umem: Arc<Region>,
    slots: Vec<Slot>,
    description: Description,
    ifindex: u32,
    queue: u32,
    packed: bool,
    gates: Arc<Gates>,
}

/// What frames are given back to.
struct Rings {
    socket: XskSocket,
}

impl FrameOwner for Rings {
    fn give_back(&mut self, slots: &[Slot]) {
        self.socket.give_back(slots);
    }
}

impl XdpSource {
    /// Link-layer header with two VLAN tags, bytes.
    const LINK_HEADER: u32 = 14 + 2 * 4;

    /// Size of packed frames, bytes. They need Linux 6.6, and a queue that the kernel copies from.
    pub const PACKED: u32 = PACKED_FRAME;

    /// The smallest frame size that holds a whole packet of this MTU from this driver, if there is one.
    pub fn frame_size_for(mtu: u32, driver: Option<&str>) -> Option<u32> {
        [2048, 4096].into_iter().find(|&size| mtu + Self::LINK_HEADER <= XskConfig::longest_frame(size, 1, driver))
    }

    /// Packed frames that a packet as long as this MTU allows takes, with a VLAN tag and its stamp.
    pub fn packed_frames(mtu: u32) -> u32 {
        const BESIDE: u32 = 14 + 4 + STAMP_BYTES;
        mtu.saturating_add(BESIDE).div_ceil(PACKED_FRAME)
    }

    /// Opens the queue and has the steering feed it once its gates are open ([`Steering::open`]).
    ///
    /// # Errors
    /// A number out of range, an MTU that does not fit a frame, memory, privileges, the queue taken by another program.
    pub fn open(config: &XdpConfig, steering: &mut Steering) -> Result<(Self, Option<TransmitRing>)> {
        config.check()?;
        let xsk = XskConfig {
            interface: config.interface.clone(),
            ifindex: config.ifindex,
            queue: config.queue,
            rx_frames: config.ring_slots,
            tx_frames: config.transmit_slots,
            frame_size: config.frame_size,
            huge_pages: config.huge_pages,
            across_fork: config.across_fork,
            force_copy: steering.attached() == Attach::Generic,
            cookie: steering.cookie(),
        };
        let (socket, transmit) = match &config.relay {
            Some(relay) => {
                let (socket, ring) = XskSocket::open_port(&relay.port(xsk), relay.umems())?;
                (socket, Some(TransmitRing::of_lend(ring)))
            }
            None => {
                let (socket, ring) = XskSocket::open(&xsk)?;
                (socket, ring.map(TransmitRing::of_xsk))
            }
        };
        let busy_poll = socket.enable_busy_poll();
        let description = Description {
            backend: NAME,
            object: config.interface.clone(),
            queue: Some(config.queue),
            zero_copy: Some(socket.zero_copy()),
            xdp_mode: Some(steering.attached().name()),
            busy_poll,
            ring_slots: socket.frame_count(),
            memory_bytes: socket.memory_bytes(),
            library: None,
        };
        steering.set_socket(config.queue, &**socket.fd())?;
        let umem = Arc::clone(socket.region());
        let source = Self {
            rings: Rings { socket },
            umem,
            slots: Vec::with_capacity(BURST_MAX),
            description,
            ifindex: config.ifindex,
            queue: config.queue,
            packed: config.frame_size == PACKED_FRAME,
            gates: steering.gates(),
        };
        Ok((source, transmit))
    }
}

impl XdpConfig {
    pub(crate) fn check(&self) -> Result<()> {
        let usage = |cause: String, way_out: &str| {
            Err(Error::usage("open AF_XDP queue on", &self.interface, cause).way_out(way_out))
        };
        if !self.ring_slots.is_power_of_two() || !(64..=1 << 20).contains(&self.ring_slots) {
            return usage(format!("{} ring slots", self.ring_slots), "use a power of two from 64 to 1048576");
        }
        if self.transmit_slots != 0 && (!self.transmit_slots.is_power_of_two() || self.transmit_slots > 1 << 20) {
            return usage(format!("{} transmit slots", self.transmit_slots), "use a power of two up to 1048576, or 0");
        }
        if ![PACKED_FRAME, 2048, 4096].contains(&self.frame_size) {
            return usage(format!("frame size {}", self.frame_size), "use 448 (packed frames), 2048 or 4096");
        }
        if self.frame_size == PACKED_FRAME && self.huge_pages {
            return usage("packed frames in huge pages".to_owned(), "leave --huge-pages out, or use --frame-size 2048");
        }
        let driver = self.driver.as_deref();
        let longest = XskConfig::longest_frame(self.frame_size, self.ring_slots, driver);
        if self.mtu + XdpSource::LINK_HEADER > longest {
            return Err(Error::failed(
                "open AF_XDP queue on",
                &self.interface,
                format!(
                    "MTU {} does not fit a frame of {} bytes ({longest} are left for the packet)",
                    self.mtu, self.frame_size
                ),
            )
            .way_out(match XdpSource::frame_size_for(self.mtu, driver) {
                Some(size) => format!("use --frame-size {size}"),
                None => format!(
                    "use --backend packet, or lower the MTU: ip link set dev {} mtu {}",
                    self.interface,
                    XskConfig::longest_frame(4096, 1, driver) - XdpSource::LINK_HEADER
                ),
            }));
        }
        Ok(())
    }
}

impl Source for XdpSource {
    fn receive(&mut self) -> Burst<'_> {
        if self.slots.is_empty() {
            self.rings.socket.receive(&mut self.slots, BURST_MAX);
        }
        Burst::new(&mut self.slots, &self.umem, &mut self.rings)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        // poll(2) arms and looks at the ring again itself, so a packet that comes in between ends it at once.
        if self.arm() {
            return Wake::Ready;
        }
        let fd = self.rings.socket.fd();
        device_wake(stop.wait_readable(fd.as_fd(), limit), fd.as_fd(), self.ifindex, stop)
    }

    fn poll_device(&mut self) {
        if self.description.busy_poll {
            self.rings.socket.run_poll();
        } else if self.rings.socket.fill_needs_wakeup() {
            self.rings.socket.kick();
        }
    }

    fn quiesce(&mut self) -> bool {
        self.gates.shut_queue(self.queue);
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Monotonic
    }

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        Some(Box::new(XdpCounters { fd: Arc::clone(self.rings.socket.fd()), packed: self.packed }))
    }

    fn uses_huge_pages(&self) -> bool {
        true
    }

    fn wait_fd(&self) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(self.rings.socket.fd()))
    }

    /// Answers the fill ring's wish for a wake-up before the socket is waited on.
    fn arm(&mut self) -> bool {
        self.rings.socket.leave_to_kernel();
        if self.rings.socket.fill_needs_wakeup() {
            self.rings.socket.kick();
        }
        !self.slots.is_empty() || !self.rings.socket.is_empty()
    }

    fn lend_to(&mut self, ring: &mut TransmitRing) -> bool {
        ring.as_lend().is_some_and(|ring| self.rings.socket.lend_to(ring))
    }

    /// Descriptors from the kernel that did not name a receive frame.
    fn invalid_descriptors(&self) -> u64 {
        self.rings.socket.invalid_descriptors
    }

    fn invalid_completions(&self) -> u64 {
        self.rings.socket.invalid_completions
    }
}

/// XDP_STATISTICS of one socket.
struct XdpCounters {
    fd: Arc<OwnedFd>,
    packed: bool,
}

impl DeviceCounters for XdpCounters {
    fn read(&mut self) -> Option<DeviceCounts> {
        let counted = xsk::statistics(self.fd.as_fd()).ok()?;
        // rx_dropped counts packets that found no frame or did not fit one; the empty fill ring is counted beside it.
        // Packets of up to 64 KiB fit enough packed frames, but a fill ring with too few for one is not called empty. (A ring of
        // 64 or 128 of them is smaller than that, and the two causes can't be told apart.)
        let fill_ring_empty =
            if self.packed { counted.rx_dropped } else { counted.rx_dropped.min(counted.rx_fill_ring_empty_descs) };
        Some(DeviceCounts {
            offered: None,
            ring_full: counted.rx_ring_full,
            fill_ring_empty,
            oversize: counted.rx_dropped - fill_ring_empty,
            nic: 0,
        })
    }
}
