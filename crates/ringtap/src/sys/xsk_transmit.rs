//! The transmit side of an AF_XDP socket: TX and completion ring over frames that the receive side never touches.
//!
//! Owns which of these frames is free, being built, or out with the kernel.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use super::memory::Region;
use super::ring::{Consumer, Producer};

/// Frames that the kernel copies for one send(2) at most (TX_BATCH_SIZE in net/xdp/xsk.c; 6.17 lets a socket ask for more).
const BATCH: u32 = 32;

/// The rings and the frames behind them.
#[derive(Debug)]
pub(crate) struct XskTransmit {
    pub(super) queue: TxQueue,
    umem: Arc<Region>,
    completion: Consumer<u64>,
    frame_size: u32,
    /// Address of the first transmit frame.
    first: u64,
    free: Vec<u64>,
    /// Which frames the kernel has.
    out: Box<[bool]>,
}

/// A socket's TX ring, and how the kernel is told of what is in it.
#[derive(Debug)]
pub(super) struct TxQueue {
    fd: Arc<OwnedFd>,
    pub(super) tx: Producer<libc::xdp_desc>,
    slots: u32,
    /// Whether the device takes frames from here without a copy.
    pub(super) zero_copy: bool,
}

impl XskTransmit {
    /// `frames` frames of `frame_size` bytes from address `first` of the UMEM on, which must hold them.
    pub(crate) fn new(
        fd: Arc<OwnedFd>,
        umem: Arc<Region>,
        tx: Producer<libc::xdp_desc>,
        completion: Consumer<u64>,
        frame_size: u32,
        first: u64,
        frames: u32,
    ) -> Self {
        let free: Vec<u64> = (0..u64::from(frames)).map(|i| first + i * u64::from(frame_size)).collect();
        assert!(first + u64::from(frames) * u64::from(frame_size) <= umem.len() as u64, "frames beyond the UMEM");
        let queue = TxQueue::new(fd, tx, frames);
        Self { queue, umem, completion, frame_size, first, free, out: vec![false; frames as usize].into() }
    }

    /// Takes back the frames the device has sent; returns how many.
    pub(crate) fn reclaim(&mut self) -> u32 {
        let mut count = 0;
        while let Some(address) = self.completion.pop() {
            // Checked like every value from the kernel: only frames that are out come back, each once.
            let frame_size = u64::from(self.frame_size);
            let frame = address & !(frame_size - 1);
            let out = frame.checked_sub(self.first).and_then(|inside| self.out.get_mut((inside / frame_size) as usize));
            if let Some(out) = out.filter(|out| **out) {
                *out = false;
                self.free.push(frame);
                count += 1;
            }
        }
        self.completion.release();
        count
    }

    /// Lends a free frame to `build`, which returns the frame's length (0: nothing to send), and queues it.
    ///
    /// `None` when no frame is free; `Some(len)` is what was queued.
    pub(crate) fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.queue.tx.free(1) == 0 {
            return None;
        }
        let address = self.free.pop()?;
        // SAFETY: the frame came off the free list, so neither the kernel nor anybody else refers to it; it lies inside
        // the UMEM by construction.
        let frame = unsafe {
            std::slice::from_raw_parts_mut(self.umem.base().as_ptr().add(address as usize), self.frame_size as usize)
        };
        let len = build(frame).min(self.frame_size as usize);
        if len == 0 {
            self.free.push(address);
            return Some(0);
        }
        self.out[((address - self.first) / u64::from(self.frame_size)) as usize] = true;
        self.queue.tx.push(libc::xdp_desc { addr: address, len: len as u32, options: 0 });
        Some(len)
    }

    /// As [`TxQueue::refused`].
    pub(crate) fn refused(&self) -> u64 {
        self.queue.refused()
    }

    /// Its ring, without its frames.
    #[cfg(test)]
    pub(super) fn into_parts(self) -> (TxQueue, Arc<Region>, Consumer<u64>) {
        (self.queue, self.umem, self.completion)
    }

    /// As [`TxQueue::kick`].
    pub(crate) fn kick(&mut self) {
        self.queue.kick();
    }

    /// Frames queued that the kernel has not taken yet.
    pub(crate) fn pending(&self) -> u32 {
        self.queue.pending()
    }
}

impl TxQueue {
    /// A ring of so many slots; the kernel copies until it is known not to.
    pub(super) fn new(fd: Arc<OwnedFd>, tx: Producer<libc::xdp_desc>, slots: u32) -> Self {
        Self { fd, tx, slots, zero_copy: false }
    }

    /// Publishes what was queued and wakes the kernel if it asked for that. Where it copies, one system call for each [`BATCH`]
    /// frames, for as long as it takes some; else one, or two where that one does not reach the transmit queue.
    ///
    /// On a socket that prefers busy polling, send(2) runs the *receive* queue's NAPI and wakes nobody (`xsk_no_wakeup`
    /// in net/xdp/xsk.c). Where the transmit queue has a NAPI of its own (igb with few queues), frames would stay for
    /// ever; poll(2) wakes the driver in any case.
    pub(super) fn kick(&mut self) {
        self.tx.publish();
        if !self.wants_kick() {
            return;
        }
        let send = || {
            // SAFETY: no buffer is passed; EAGAIN, EBUSY and ENOBUFS mean that the kernel is at it (af_xdp.rst).
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        };
        if !self.zero_copy {
            let most = self.slots.div_ceil(BATCH);
            offer(most, || if self.tx.needs_wakeup() { self.tx.pending() } else { 0 }, send);
            return;
        }
        send();
        if self.wants_kick() {
            let mut socket = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one descriptor, writable for the result, and no time to wait.
            unsafe { libc::poll(&raw mut socket, 1, 0) };
        }
    }

    /// Frames that the kernel took and did not send, as their descriptors made no sense to it.
    pub(super) fn refused(&self) -> u64 {
        super::xsk::statistics(self.fd.as_fd()).map_or(0, |counted| counted.tx_invalid_descs)
    }

    fn wants_kick(&self) -> bool {
        self.tx.needs_wakeup() && self.tx.pending() > 0
    }

    /// Frames queued that the kernel has not taken yet.
    pub(super) fn pending(&self) -> u32 {
        self.tx.pending()
    }
}

/// Has the kernel take what is `left`, again as long as it takes some, and `most` times at most.
fn offer(most: u32, left: impl Fn() -> u32, send: impl Fn()) {
    let mut before = left();
    for _ in 0..most {
        send();
        let now = left();
        if now == 0 || now >= before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Offers so many frames to a kernel that takes 32 at a time until it has `room` no more: how many stay, and the calls.
    fn offered(frames: u32, room: u32) -> (u32, u32) {
        let (left, room, calls) = (Cell::new(frames), Cell::new(room), Cell::new(0));
        let send = || {
            let taken = left.get().min(BATCH).min(room.get());
            left.set(left.get() - taken);
            room.set(room.get() - taken);
            calls.set(calls.get() + 1);
        };
        offer(256u32.div_ceil(BATCH), || left.get(), send);
        (left.get(), calls.get())
    }

    #[test]
    fn all_are_offered_where_the_kernel_takes_few_at_a_time() {
        assert_eq!(offered(64, 1000), (0, 2));
        assert_eq!(offered(256, 1000), (0, 8));
        assert_eq!(offered(1, 1000), (0, 1));
        // A queue that is full, and a link that is down.
        assert_eq!(offered(256, 40), (216, 3));
        assert_eq!(offered(256, 0), (256, 1));
        // More than a ring holds.
        assert_eq!(offered(1000, 1000), (744, 8));
    }
}
