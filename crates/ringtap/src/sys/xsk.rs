//! One AF_XDP socket with its UMEM and four rings (Documentation/networking/af_xdp.rst, linux/if_xdp.h).
//!
//! Owns the set-up calls, the frames' ownership and the check of every descriptor the kernel gives. Which packets come
//! here is the steering's business (steer.rs); when to look is the engine's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

pub(crate) use self::frames::Frames;
#[cfg(test)]
use self::frames::{PACKED_CHUNK, PACKED_TAIL};
use self::refused::Refused;
use self::relay::Lent;
pub(crate) use self::relay::{Umems, XskLend};
use super::memory::{Region, Slot};
use super::ring::{Consumer, Producer};
use super::xsk_transmit::{TxQueue, XskTransmit};
use super::{getsockopt, setsockopt};
use crate::error::{Error, Result};

mod frames;
mod refused;
mod relay;
mod set_up;

/// What the steering program puts before a packet: arrival time and the run's cookie (struct stamp in steer.bpf.c).
pub(crate) const STAMP_BYTES: u32 = 16;
/// XDP_PACKET_HEADROOM, always kept by the kernel in front of what it delivers.
pub(crate) const XDP_PACKET_HEADROOM: u32 = 256;
/// Bytes of a packed frame: the least that a kernel accepts which wants room for a short packet and struct skb_shared_info in each
/// chunk (seen on 6.18.44 with cache lines of 64 bytes). An odd number of lines, so that packets' beginnings use all sets of a cache.
pub(crate) const PACKED_FRAME: u32 = 448;
/// In unaligned mode an address has the chunk's in its low 48 bits and the packet's place in it above.
pub(crate) const UNALIGNED_SHIFT: u32 = 48;
/// A descriptor's option: the frame goes on in the next one.
pub(crate) const XDP_PKT_CONTD: u32 = 1;
/// Packets one NAPI pass may take when this thread runs it (SO_BUSY_POLL_BUDGET); the kernel's own default weight.
const BUSY_POLL_BUDGET: i32 = 64;

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
    fn object(&self) -> String {
        format!("{} queue {}", self.interface, self.queue)
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
    /// Where frames come back that another port sends, and which those are.
    lending: Option<(Consumer<u64>, Lent)>,
    /// Packets whose descriptors did not name receive frames, or in packed frames not one behind the other. Frames that were named
    /// rightly are used again.
    pub(crate) invalid_descriptors: u64,
    /// Addresses in the other port's completion ring that named no frame which was out.
    pub(crate) invalid_completions: u64,
}

impl XskSocket {
    /// Opens, registers, maps and binds; frames are in the fill ring when it returns.
    ///
    /// # Errors
    /// Each step's error with interface and queue; EBUSY when another program owns the queue.
    pub(crate) fn open(config: &XskConfig) -> Result<(Self, Option<XskTransmit>)> {
        let object = config.object();
        let fd = set_up::socket(&object)?;
        let frames = Frames { before: 0, count: config.rx_frames, size: config.frame_size };
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
        set_up::register(&fd, &umem, bytes, frames, &object)?;
        let rings = set_up::Rings::map(&fd, config.rx_frames, config.tx_frames, &object)?;
        let umem = Arc::new(umem);
        let mut this = Self::over(Arc::clone(&fd), Arc::clone(&umem), rings.rx, rings.fill, frames, config.cookie);
        this.ring_bytes = rings.bytes + umem.len() - frames.tail();
        this.bind(config, None)?;
        let first = (frames.bytes() + frames.tail()) as u64;
        let transmit = rings.tx.map(|tx| {
            let mut ring =
                XskTransmit::new(fd, umem, tx, rings.completion, frames.chunk_size(), first, config.tx_frames);
            ring.queue.zero_copy = this.zero_copy;
            ring
        });
        Ok((this, transmit))
    }

    /// As [`XskSocket::open`], as a port of `umems`: its frames lie in memory that another device's socket shares, and its transmit
    /// ring sends that one's frames.
    ///
    /// # Errors
    /// As of [`XskSocket::open`]; the two ports are not alike.
    pub(crate) fn open_port(config: &XskConfig, umems: &Umems) -> Result<(Self, XskLend)> {
        let object = config.object();
        let fd = set_up::socket(&object)?;
        let mut held = umems.lock();
        let (umem, owner, before) = match held.get(&config.queue) {
            Some(shared) => {
                shared.check(config, &object)?;
                (Arc::clone(&shared.umem), Some(Arc::clone(&shared.fd)), config.rx_frames)
            }
            None => {
                let bytes = 2 * config.rx_frames as usize * config.frame_size as usize;
                let umem = Region::anonymous(bytes, config.huge_pages, &format!("UMEM of {object}"))?;
                let frames = Frames { before: 0, count: 2 * config.rx_frames, size: config.frame_size };
                set_up::register(&fd, &umem, bytes, frames, &object)?;
                (Arc::new(umem), None, 0)
            }
        };
        let frames = Frames { before, count: config.rx_frames, size: config.frame_size };
        let rings = set_up::Rings::map(&fd, config.rx_frames, config.tx_frames, &object)?;
        let tx = rings.tx.ok_or_else(|| Error::usage("open a port on", &object, "0 transmit slots"))?;
        let mut this = Self::over(Arc::clone(&fd), Arc::clone(&umem), rings.rx, rings.fill, frames, config.cookie);
        this.ring_bytes = rings.bytes + frames.bytes();
        this.bind(config, owner.as_deref())?;
        let mut queue = TxQueue::new(Arc::clone(&fd), tx, config.tx_frames);
        queue.zero_copy = this.zero_copy;
        let ring = XskLend::new(queue, Arc::clone(&umem), rings.completion);
        if owner.is_none() {
            held.insert(config.queue, relay::Shared::new(fd, umem, config, this.zero_copy));
        }
        Ok((this, ring))
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
            lending: None,
            invalid_descriptors: 0,
            invalid_completions: 0,
        }
    }

    /// From now on frames go out by that ring, too: what it took is not given back before the kernel has sent it. `false`: it sends
    /// frames of other memory, or already those of another socket.
    pub(crate) fn lend_to(&mut self, ring: &mut XskLend) -> bool {
        self.lending = ring.accept(&self.umem, self.frames).or_else(|| self.lending.take());
        self.lending.is_some()
    }

    /// Takes back the frames that the other port has sent.
    fn reclaim(&mut self) {
        let Some((completion, lent)) = &mut self.lending else { return };
        let mut any = false;
        while let Some(address) = completion.pop() {
            any = true;
            match lent.come_back(address) {
                Some(frame) => self.fill.put(self.frames.address(frame)),
                None => self.invalid_completions += 1,
            }
        }
        if any {
            completion.release();
            self.fill.publish();
        }
    }

    /// Takes up to `max` packets off the RX ring into `slots` (which has room for them).
    ///
    /// The frames were written by a device or another CPU: their first lines are asked for all at once, so that the
    /// handler does not wait for them one by one.
    ///
    /// After [`XskSocket::run_poll`]: a poll ends when its budget is used up, and the device's interrupt is masked, so what it
    /// left behind would lie in the device's own ring until the next tick, or overflow it. So it is run again.
    pub(crate) fn receive(&mut self, slots: &mut Vec<Slot>, max: usize) {
        self.reclaim();
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
        let end = frames.end() + frames.tail();
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
            let first = (slot.token >> 32) as u32;
            if !self.lending.as_ref().is_some_and(|(_, lent)| lent.has(first)) {
                self.put(first, slot.token as u32);
            }
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

    /// Frames for receiving.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.count as usize
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

/// The kernel's own counters of one AF_XDP socket (XDP_STATISTICS), readable from any thread.
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS)
}

#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests;
