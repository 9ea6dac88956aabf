//! One AF_XDP socket with its UMEM and four rings (Documentation/networking/af_xdp.rst, linux/if_xdp.h).
//!
//! Owns the set-up calls, the frames' ownership and the check of every descriptor the kernel gives. Which packets come
//! here is the steering's business (steer.rs); when to look is the engine's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::refused::Refused;
use super::memory::{Region, Slot};
use super::ring::{Consumer, Layout, Producer};
use super::xsk_transmit::XskTransmit;
use super::{getsockopt, setsockopt};
use crate::error::{Error, Result};

mod refused;

/// What the steering program puts before a packet: arrival time and the run's cookie (struct stamp in steer.bpf.c).
pub(crate) const STAMP_BYTES: u32 = 16;
/// XDP_PACKET_HEADROOM, always kept by the kernel in front of what it delivers.
pub(crate) const XDP_PACKET_HEADROOM: u32 = 256;
/// Bytes of a packed frame: the least that a kernel accepts which wants room for a short packet and struct skb_shared_info in each
/// chunk (seen on 6.18.44 with cache lines of 64 bytes). An odd number of lines, so that packets' beginnings use all sets of a cache.
pub(crate) const PACKED_FRAME: u32 = 448;
/// Chunk of the UMEM that a packed frame ends.
const PACKED_CHUNK: u32 = 2048;
/// Longest packet from Linux's segmentation offload with header, tags and stamp, and the chunk it begins in; whole pages.
const PACKED_TAIL: usize = 68 << 10;
/// Bind flag: packets may come in several pieces (XDP_USE_SG, Linux 6.6).
const XDP_USE_SG: u16 = 1 << 4;
/// In unaligned mode an address has the chunk's in its low 48 bits and the packet's place in it above.
pub(crate) const UNALIGNED_SHIFT: u32 = 48;
/// A descriptor's option: the frame goes on in the next one.
pub(crate) const XDP_PKT_CONTD: u32 = 1;
/// Socket option: descriptors one send call may take in copy mode (32 where the kernel lacks it).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Packets one NAPI pass may take when this thread runs it (SO_BUSY_POLL_BUDGET); the kernel's own default weight.
const BUSY_POLL_BUDGET: i32 = 64;
/// How long a queue's former socket may take to let go of it: the kernel's worker that does it is an ordinary thread, which on
/// a machine with two busy real-time cores did not get its turn for more than two seconds. Who finds the queue taken by
/// another program waits as long for the error.
const RELEASE: Duration = Duration::from_secs(5);

/// What to make; every number checked by [`XskSocket::open`].
#[derive(Debug, Clone)]
pub(crate) struct XskConfig {
    pub(crate) interface: String,
    pub(crate) ifindex: u32,
    pub(crate) queue: u32,
    /// Frames for receiving = slots of RX and fill ring; a power of two.
    pub(crate) rx_frames: u32,
    /// Frames for transmitting = slots of TX and completion ring; a power of two, or 0 for none.
    pub(crate) tx_frames: u32,
    /// Bytes per frame: 2048 or 4096 (UMEM chunk size in aligned mode), or [`PACKED_FRAME`].
    pub(crate) frame_size: u32,
    pub(crate) huge_pages: bool,
    pub(crate) across_fork: bool,
    /// Refuse zero-copy even where the driver gives it (generic mode has none).
    pub(crate) force_copy: bool,
    pub(crate) cookie: u64,
}

impl XskConfig {
    /// The longest packet that fits, bytes from the link-layer header on: one UMEM chunk, or as many packed frames as there are.
    ///
    /// Some of Intel's controllers are told their buffers' size in KiB (SRRCTL.BSIZEPACKET, 82576 data sheet section
    /// 8.10.2), and their drivers round down in zero-copy mode: what a 2 KiB chunk leaves becomes 1 KiB, and a longer
    /// packet would come in two pieces that nobody puts together.
    pub(crate) fn longest_frame(frame_size: u32, rx_frames: u32, driver: Option<&str>) -> u32 {
        if frame_size == PACKED_FRAME {
            return rx_frames.saturating_mul(PACKED_FRAME).min(1 << 16) - STAMP_BYTES;
        }
        let room = frame_size - XDP_PACKET_HEADROOM - STAMP_BYTES;
        if driver.is_some_and(|name| ["igb", "igc", "ixgbe"].contains(&name)) { room & !1023 } else { room }
    }
}

/// How receive frames lie in the UMEM, from its beginning on.
///
/// Whole frames are the UMEM's chunks, which the kernel wants to be of 2 KiB at least. **Packed** frames are smaller: chunks
/// that overlap (XDP_UMEM_UNALIGNED_CHUNK_FLAG), each 448 bytes behind the one before, with so much headroom that the
/// kernel writes to the last 448 bytes of each and to nothing else. A longer packet comes in several pieces, and as frames are
/// used and given back in the order of their addresses, these lie one behind the other: one packet again, without a copy.
/// The memory goes on at its own beginning ([`Region::endless`]), so that holds for the last frame too. Only in copy mode, where
/// it is the kernel that writes: a device would fill its buffers to the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// A power of two.
    pub(crate) count: u32,
    pub(crate) size: u32,
}

impl Frames {
    pub(crate) fn packed(self) -> bool {
        self.size == PACKED_FRAME
    }

    pub(crate) fn chunk_size(self) -> u32 {
        if self.packed() { PACKED_CHUNK } else { self.size }
    }

    pub(crate) fn headroom(self) -> u32 {
        if self.packed() { PACKED_CHUNK - XDP_PACKET_HEADROOM - PACKED_FRAME } else { 0 }
    }

    pub(crate) fn bytes(self) -> usize {
        self.count as usize * self.size as usize
    }

    /// Memory that shows its beginning once more behind its end.
    pub(crate) fn tail(self) -> usize {
        if self.packed() { PACKED_TAIL } else { 0 }
    }

    /// What the fill ring calls a frame.
    fn address(self, frame: u32) -> u64 {
        u64::from(frame) * u64::from(self.size)
    }

    /// The frame that a descriptor names, and where in the UMEM its bytes are; `None` when it names none, or bytes outside.
    fn find(self, descriptor: &libc::xdp_desc) -> Option<(u32, usize)> {
        let size = u64::from(self.size);
        let (chunk, inside, room) = if self.packed() {
            let inside = descriptor.addr >> UNALIGNED_SHIFT;
            let lead = u64::from(PACKED_CHUNK - PACKED_FRAME);
            (descriptor.addr & ((1 << UNALIGNED_SHIFT) - 1), inside, (inside == lead).then_some(size)?)
        } else {
            let inside = descriptor.addr & (size - 1);
            (descriptor.addr - inside, inside, size - inside)
        };
        let frame = u32::try_from(chunk).ok()? / if self.packed() { PACKED_FRAME } else { self.size };
        let fits = frame < self.count && self.address(frame) == chunk && u64::from(descriptor.len) <= room;
        fits.then_some((frame, (chunk + inside) as usize))
    }
}

/// The socket's receive side.
#[derive(Debug)]
pub(crate) struct XskSocket {
    fd: Arc<OwnedFd>,
    umem: Arc<Region>,
    rx: Consumer<libc::xdp_desc>,
    fill: Producer<u64>,
    frames: Frames,
    cookie: u64,
    zero_copy: bool,
    ring_bytes: usize,
    /// Packets since this thread last ran the device's poll; `None` while that is left to the kernel.
    polled: Option<usize>,
    /// Packets taken off the RX ring, and given back.
    taken: u64,
    given: u64,
    refused: Refused,
    /// Packets whose descriptors did not name receive frames, or in packed frames not one behind the other. Frames that were named
    /// rightly are used again.
    pub(crate) invalid_descriptors: u64,
}

impl XskSocket {
    /// Opens, registers, maps and binds; frames are in the fill ring when it returns.
    ///
    /// # Errors
    /// Each step's error with interface and queue; EBUSY when another program owns the queue.
    // The kernel's steps in the kernel's order, each with what its error means.
    #[allow(clippy::too_many_lines)]
    pub(crate) fn open(config: &XskConfig) -> Result<(Self, Option<XskTransmit>)> {
        let object = format!("{} queue {}", config.interface, config.queue);
        let failed = |operation: &str, error: &io::Error| Error::os(operation, object.clone(), error);
        // SAFETY: plain system call, the result is checked and owned once.
        let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            let error = io::Error::last_os_error();
            let way_out = match error.raw_os_error() {
                Some(libc::EPERM) => "run as root or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
                _ => "this kernel lacks CONFIG_XDP_SOCKETS; use --backend packet",
            };
            return Err(failed("open AF_XDP socket for", &error).way_out(way_out));
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = Arc::new(unsafe { OwnedFd::from_raw_fd(raw) });

        let frames = Frames { count: config.rx_frames, size: config.frame_size };
        let transmit_bytes = config.tx_frames as usize * frames.chunk_size() as usize;
        let bytes = frames.bytes() + frames.tail() + transmit_bytes;
        let what = format!("UMEM of {object}");
        let umem = if frames.packed() {
            Region::endless(frames.bytes(), frames.tail(), transmit_bytes, &what)?
        } else if config.across_fork {
            Region::shared(bytes, &what)?
        } else {
            Region::anonymous(bytes, config.huge_pages, &what)?
        };
        register_umem(fd.as_fd(), &umem, bytes, frames).map_err(|e| {
            failed("register UMEM of", &e).way_out(if frames.packed() && e.raw_os_error() == Some(libc::EINVAL) {
                "this kernel has no packed frames: use --backend packet, or an MTU that fits a --frame-size of 4096"
            } else {
                "use a smaller --ring, or raise RLIMIT_MEMLOCK (ulimit -l)"
            })
        })?;
        let tx_slots = config.tx_frames.max(1).next_power_of_two();
        let ring_sizes = [
            (libc::XDP_UMEM_FILL_RING, config.rx_frames),
            (libc::XDP_UMEM_COMPLETION_RING, tx_slots),
            (libc::XDP_RX_RING, config.rx_frames),
            (libc::XDP_TX_RING, if config.tx_frames == 0 { 0 } else { tx_slots }),
        ];
        for (ring, size) in ring_sizes {
            if size > 0 {
                setsockopt(fd.as_fd(), libc::SOL_XDP, ring, &size)
                    .map_err(|e| failed("size the rings of", &e).way_out("use a smaller --ring (a power of two)"))?;
            }
        }
        let offsets: libc::xdp_mmap_offsets = getsockopt(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(|e| failed("read ring offsets of", &e))?;
        let mut ring_bytes = 0;
        let mut map = |at: &libc::xdp_ring_offset, page_offset, size: u32, entry: usize| {
            let len = at.desc as usize + size as usize * entry;
            ring_bytes += len;
            let layout = Layout {
                producer: at.producer as usize,
                consumer: at.consumer as usize,
                flags: at.flags as usize,
                entries: at.desc as usize,
            };
            Region::of_fd(fd.as_fd(), len, page_offset)
                .map(|region| (Arc::new(region), layout))
                .map_err(|e| failed("map the rings of", &e))
        };
        let impossible =
            || Error::failed("map the rings of", object.clone(), "the kernel's offsets don't fit the mapping");
        let (region, layout) =
            map(&offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, config.rx_frames, size_of::<u64>())?;
        let fill = Producer::new(region, layout, config.rx_frames).ok_or_else(impossible)?;
        let (region, layout) =
            map(&offsets.rx, libc::XDP_PGOFF_RX_RING, config.rx_frames, size_of::<libc::xdp_desc>())?;
        let rx = Consumer::new(region, layout, config.rx_frames).ok_or_else(impossible)?;
        let (region, layout) =
            map(&offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, tx_slots, size_of::<u64>())?;
        let completion = Consumer::new(region, layout, tx_slots).ok_or_else(impossible)?;
        let tx = if config.tx_frames == 0 {
            None
        } else {
            let (region, layout) = map(&offsets.tx, libc::XDP_PGOFF_TX_RING, tx_slots, size_of::<libc::xdp_desc>())?;
            Some(Producer::new(region, layout, tx_slots).ok_or_else(impossible)?)
        };

        let umem = Arc::new(umem);
        let mut this = Self::over(Arc::clone(&fd), Arc::clone(&umem), rx, fill, frames, config.cookie);
        this.ring_bytes = ring_bytes + umem.len() - frames.tail();
        if config.tx_frames > 0 {
            // Without it the kick of a long cycle would leave frames for the next one.
            let _ = setsockopt(fd.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &tx_slots);
        }
        // A closed socket's queue is given up by a worker of the kernel (xp_release_deferred), so right after another
        // run it may be taken for a moment.
        let since = Instant::now();
        let mut bound = this.bind(config);
        while matches!(&bound, Err(e) if e.raw_os_error() == Some(libc::EBUSY)) && since.elapsed() < RELEASE {
            std::thread::sleep(Duration::from_millis(5));
            bound = this.bind(config);
        }
        bound.map_err(|e| {
            let error = failed("bind AF_XDP socket on", &e);
            match e.raw_os_error() {
                Some(libc::EBUSY) => error
                    .way_out("another AF_XDP program owns the queue: stop it, or choose another queue with --queues"),
                Some(libc::EINVAL) => {
                    error.way_out("the interface has no such receive queue (ethtool -l), or its MTU exceeds a frame")
                }
                Some(libc::ENETDOWN) => error.way_out("bring the interface up: ip link set dev IF up"),
                _ => error.way_out("use --backend packet"),
            }
        })?;
        let options: libc::xdp_options =
            getsockopt(fd.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS).map_err(|e| failed("read XDP_OPTIONS of", &e))?;
        this.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        let first = (frames.bytes() + frames.tail()) as u64;
        let transmit = tx.map(|tx| {
            let mut ring = XskTransmit::new(fd, umem, tx, completion, frames.chunk_size(), first, config.tx_frames);
            ring.zero_copy = this.zero_copy;
            ring
        });
        Ok((this, transmit))
    }

    /// A socket over rings that are mapped, with all its frames in the fill ring.
    pub(crate) fn over(
        fd: Arc<OwnedFd>,
        umem: Arc<Region>,
        rx: Consumer<libc::xdp_desc>,
        mut fill: Producer<u64>,
        frames: Frames,
        cookie: u64,
    ) -> Self {
        (0..frames.count).for_each(|frame| fill.put(frames.address(frame)));
        fill.publish();
        Self {
            fd,
            umem,
            rx,
            fill,
            frames,
            cookie,
            zero_copy: false,
            ring_bytes: 0,
            polled: None,
            taken: 0,
            given: 0,
            refused: Refused::new(),
            invalid_descriptors: 0,
        }
    }

    fn bind(&self, config: &XskConfig) -> io::Result<()> {
        let pieces = if self.frames.packed() { XDP_USE_SG | libc::XDP_COPY } else { 0 };
        let copy = if config.force_copy { libc::XDP_COPY } else { 0 };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy | pieces,
            sxdp_ifindex: config.ifindex,
            sxdp_queue_id: config.queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the address is valid for reading and its size is given.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes up to `max` packets off the RX ring into `slots` (which has room for them).
    ///
    /// The frames were written by a device or another CPU: their first lines are asked for all at once, so that the
    /// handler does not wait for them one by one.
    ///
    /// After [`XskSocket::run_poll`]: a poll ends when its budget is used up, and the device's interrupt is masked, so what it
    /// left behind would lie in the device's own ring until the next tick, or overflow it. So it is run again.
    pub(crate) fn receive(&mut self, slots: &mut Vec<Slot>, max: usize) {
        self.take(slots, max);
        if slots.is_empty() && self.polled.is_some_and(|count| count >= BUSY_POLL_BUDGET as usize) {
            self.run_poll();
            self.take(slots, max);
        }
        if let Some(count) = &mut self.polled {
            *count += slots.len();
        }
    }

    fn take(&mut self, slots: &mut Vec<Slot>, max: usize) {
        debug_assert!(slots.capacity() >= max);
        let (mut taken, before) = (false, slots.len());
        while slots.len() < max {
            let Some(descriptor) = self.rx.pop() else { break };
            taken = true;
            match self.slot(descriptor) {
                Some(slot) => {
                    self.umem.prefetch(&slot);
                    slots.push(slot);
                    self.taken += 1;
                }
                None => self.invalid_descriptors += 1,
            }
        }
        // Bad descriptors too: their slots belong to the kernel again, even when there was no good one among them.
        if taken {
            self.rx.release();
        }
        for slot in &mut slots[before..] {
            self.unstamp(slot);
        }
        // Nobody has a packet to give back, with which they would go too.
        if self.taken == self.given && !self.refused.is_empty() {
            self.give_back(&[]);
        }
    }

    /// The packet that begins with this descriptor, whose further pieces it takes off the ring.
    ///
    /// Checked against the receive frames: a descriptor that names something else makes no packet.
    fn slot(&mut self, mut piece: libc::xdp_desc) -> Option<Slot> {
        let frames = self.frames;
        let found = frames.find(&piece);
        let (mut len, mut count, mut whole) = (piece.len, 1u32, true);
        if piece.options & XDP_PKT_CONTD != 0 {
            self.refused.begin();
            self.note_refused(found);
        }
        while piece.options & XDP_PKT_CONTD != 0 {
            // The kernel shows a packet when all its pieces are there.
            let next = self.rx.pop()?;
            let follower = frames.find(&next);
            self.note_refused(follower);
            // It must go on where the last one ends, and that at the end of a frame.
            let follows = |(first, _): (u32, usize)| {
                follower.is_some_and(|(frame, _)| frame == (first + count) & (frames.count - 1))
            };
            whole &= frames.packed() && piece.len == PACKED_FRAME && found.is_some_and(follows);
            (len, count, piece) = (len.saturating_add(next.len), count + 1, next);
        }
        let (first, offset) = found.filter(|_| whole)?;
        let end = frames.bytes() + frames.tail();
        let mut slot = Slot::new(&self.umem, offset, len).filter(|_| offset + len as usize <= end)?;
        slot.token = u64::from(first) << 32 | u64::from(count);
        if count > 1 {
            self.refused.accept();
        }
        Some(slot)
    }

    fn note_refused(&mut self, found: Option<(u32, usize)>) {
        if let Some((frame, _)) = found {
            self.refused.note(self.taken, frame, self.frames.count - 1);
        }
    }

    /// Takes the stamp off a packet; one that bears none of this run has no arrival time.
    fn unstamp(&self, slot: &mut Slot) {
        let Some(stamp) = self.umem.bytes(slot).first_chunk::<{ STAMP_BYTES as usize }>() else { return };
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| stamp[at + i]));
        if word(8) == self.cookie {
            slot.arrival_ns = word(0);
            slot.skip(STAMP_BYTES);
        }
    }

    /// Returns frames to the fill ring.
    pub(crate) fn give_back(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.put_refused();
            self.put((slot.token >> 32) as u32, slot.token as u32);
            self.given += 1;
        }
        self.put_refused();
        self.fill.publish();
    }

    fn put_refused(&mut self) {
        while let Some((first, count)) = self.refused.next(self.given) {
            self.put(first, count);
        }
    }

    fn put(&mut self, first: u32, count: u32) {
        for frame in first..first + count {
            self.fill.put(self.frames.address(frame & (self.frames.count - 1)));
        }
    }

    /// Whether a packet is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.rx.is_empty()
    }

    /// Whether the driver waits for a kick before it takes frames from the fill ring.
    pub(crate) fn fill_needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }

    /// Runs the device's poll on this thread.
    pub(crate) fn run_poll(&mut self) {
        self.polled = Some(0);
        self.kick();
    }

    /// From now on the kernel runs the device's poll, on its interrupt.
    pub(crate) fn leave_to_kernel(&mut self) {
        self.polled = None;
    }

    /// Runs one NAPI pass (busy poll) or just answers need_wakeup: recvfrom(2) with MSG_DONTWAIT, as af_xdp.rst says.
    pub(crate) fn kick(&self) {
        // SAFETY: no buffer is passed; the call only enters the socket's receive path.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Asks for NAPI busy poll by this thread; `true` when the socket really is tied to a NAPI instance.
    ///
    /// Linux sets a socket's NAPI id only for zero-copy queues since 5.11 or so; elsewhere the options are accepted and
    /// have no effect, so the id is what tells.
    pub(crate) fn enable_busy_poll(&self) -> bool {
        const SO_PREFER_BUSY_POLL: libc::c_int = 69;
        const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
        const MICROSECONDS: i32 = 20;
        let set = |name, value: i32| setsockopt(self.fd.as_fd(), libc::SOL_SOCKET, name, &value).is_ok();
        let accepted = set(SO_PREFER_BUSY_POLL, 1)
            && set(libc::SO_BUSY_POLL, MICROSECONDS)
            && set(SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET);
        accepted
            && self.zero_copy
            && getsockopt::<u32>(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID).is_ok_and(|id| id != 0)
    }

    pub(crate) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Bytes of UMEM and rings, all mapped and prefaulted.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ring_bytes
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.umem
    }

    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

fn register_umem(fd: BorrowedFd<'_>, umem: &Region, bytes: usize, frames: Frames) -> io::Result<()> {
    // The first layout of struct xdp_umem_reg (24 bytes + flags) is understood by every kernel that has need_wakeup.
    #[repr(C)]
    struct UmemReg {
        addr: u64,
        len: u64,
        chunk_size: u32,
        headroom: u32,
        flags: u32,
        padding: u32,
    }
    let registration = UmemReg {
        addr: umem.base().as_ptr() as u64,
        len: bytes as u64,
        chunk_size: frames.chunk_size(),
        headroom: frames.headroom(),
        flags: if frames.packed() { libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 },
        padding: 0,
    };
    setsockopt(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// The kernel's own counters of one AF_XDP socket (XDP_STATISTICS), readable from any thread.
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS)
}

#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests;
