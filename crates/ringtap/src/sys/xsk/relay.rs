//! One UMEM for two devices: what a socket received leaves by the other one's transmit ring, without a copy.
//!
//! ```text
//! A: RX ring ──▶ burst ──▶ TX ring of B        each device has rings of its own (XDP_SHARED_UMEM, af_xdp.rst);
//!    fill ring ◀──────── completion ring of B  the frames of A and those of B lie in one region
//! ```
//!
//! Owns the region's place between two sockets, the transmit ring that sends the other socket's frames, and the note of which are out
//! by it. A frame that is out belongs to the kernel until the completion ring names it (invariant 2). Frames come back out of order, so
//! they are whole ones.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Frames, XskConfig};
use crate::error::{Error, Result};
use crate::sys::memory::Region;
use crate::sys::ring::Consumer;
use crate::sys::xsk_transmit::TxQueue;

/// The UMEMs that two devices share, one for each queue, each made by the first socket that opens on it.
#[derive(Debug, Default)]
pub(crate) struct Umems(Mutex<BTreeMap<u32, Shared>>);

impl Umems {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Shared {
    /// The socket that registered it.
    pub(super) fd: Arc<OwnedFd>,
    pub(super) umem: Arc<Region>,
    /// Frames of each port.
    frames: u32,
    frame_size: u32,
    zero_copy: bool,
}

impl Shared {
    pub(super) fn new(fd: Arc<OwnedFd>, umem: Arc<Region>, config: &XskConfig, zero_copy: bool) -> Self {
        Self { fd, umem, frames: config.rx_frames, frame_size: config.frame_size, zero_copy }
    }

    /// # Errors
    /// The second port asks for something else than the first one had.
    pub(super) fn check(&self, config: &XskConfig, object: &str) -> Result<()> {
        let differ = if (self.frames, self.frame_size) != (config.rx_frames, config.frame_size) {
            "its rings and frames are not those of the other port"
        } else if self.zero_copy && config.force_copy {
            "the other port is zero-copy, and this one can only copy"
        } else {
            return Ok(());
        };
        Err(Error::failed("share a UMEM with", object, differ).way_out("use --backend packet"))
    }
}

/// Which frames of a socket are out by another port's transmit ring.
#[derive(Debug, Clone)]
pub(super) struct Lent {
    frames: Frames,
    out: Arc<[AtomicBool]>,
}

impl Lent {
    fn new(frames: Frames) -> Self {
        Self { frames, out: (0..frames.count).map(|_| AtomicBool::new(false)).collect() }
    }

    /// Whether the frame of this number is out.
    pub(super) fn has(&self, frame: u32) -> bool {
        self.out.get(frame as usize).is_some_and(|out| out.load(Ordering::Relaxed))
    }

    /// Notes the frame that holds these bytes as out; `None` where it is no frame of the socket's, or out already.
    fn go_out(&self, offset: usize, len: usize) -> Option<()> {
        let descriptor = libc::xdp_desc { addr: offset as u64, len: u32::try_from(len).ok()?, options: 0 };
        let (frame, _) = self.frames.find(&descriptor)?;
        let out = self.out.get(frame as usize)?;
        (!out.load(Ordering::Relaxed)).then(|| out.store(true, Ordering::Relaxed))
    }

    /// The frame that the kernel gives back by this address; `None` where no such frame was out.
    pub(super) fn come_back(&self, address: u64) -> Option<u32> {
        let (frame, _) = self.frames.find(&libc::xdp_desc { addr: address, len: 0, options: 0 })?;
        let out = self.out.get(frame as usize)?;
        out.load(Ordering::Relaxed).then(|| {
            out.store(false, Ordering::Relaxed);
            frame
        })
    }
}

/// A transmit ring that has no frames of its own: it sends those of another device's socket.
#[derive(Debug)]
pub(crate) struct XskLend {
    queue: TxQueue,
    umem: Arc<Region>,
    /// Until a socket's frames are lent to it, which takes it.
    completion: Option<Consumer<u64>>,
    lent: Option<Lent>,
}

impl XskLend {
    pub(super) fn new(queue: TxQueue, umem: Arc<Region>, completion: Consumer<u64>) -> Self {
        Self { queue, umem, completion: Some(completion), lent: None }
    }

    /// From now on it sends `frames` of this memory. Gives what tells which of them are out, once.
    pub(super) fn accept(&mut self, umem: &Arc<Region>, frames: Frames) -> Option<(Consumer<u64>, Lent)> {
        if !Arc::ptr_eq(umem, &self.umem) {
            return None;
        }
        let completion = self.completion.take()?;
        let lent = Lent::new(frames);
        self.lent = Some(lent.clone());
        Some((completion, lent))
    }

    /// Queues a packet where it lies. `None`: the ring is full, or these are no bytes of a frame that is lent to it.
    pub(crate) fn forward(&mut self, packet: &[u8]) -> Option<usize> {
        let offset = (packet.as_ptr() as usize).checked_sub(self.umem.base().as_ptr() as usize)?;
        if packet.is_empty() || self.queue.tx.free(1) == 0 {
            return None;
        }
        self.lent.as_ref()?.go_out(offset, packet.len())?;
        self.queue.tx.push(libc::xdp_desc { addr: offset as u64, len: packet.len() as u32, options: 0 });
        Some(packet.len())
    }

    pub(crate) fn kick(&mut self) {
        self.queue.kick();
    }

    pub(crate) fn pending(&self) -> u32 {
        self.queue.pending()
    }

    pub(crate) fn refused(&self) -> u64 {
        self.queue.refused()
    }
}

#[cfg(test)]
mod generated;
