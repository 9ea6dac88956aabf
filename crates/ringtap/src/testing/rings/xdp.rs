//! The kernel of an AF_XDP socket, played over memory of our own (Documentation/networking/af_xdp.rst).
//!
//! Owns which frames the kernel has, what it writes into them, and the descriptors it shows, true ones and others. A frame that
//! user space may still look at is not written to, whatever was said of it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::index::{KernelRing, LAYOUT};
use super::{Calls, arrival};
use crate::sys::event::Event;
use crate::sys::far_side::FarSide;
use crate::sys::memory::Region;
use crate::sys::ring::{Consumer, Producer};
use crate::sys::xsk::{Frames, UNALIGNED_SHIFT, XDP_PACKET_HEADROOM, XDP_PKT_CONTD, XskSocket};
use crate::sys::xsk_transmit::XskTransmit;

/// Cookie of the stamps that are believed.
pub(crate) const COOKIE: u64 = 0x1234_5678_9abc_def0;

/// The kernel's side of one socket.
#[derive(Debug)]
pub struct XdpKernel {
    umem: FarSide,
    chunk_size: u32,
    /// Bytes before a packet in its chunk.
    lead: u32,
    unaligned: bool,
    pub(crate) fill: KernelRing<u64>,
    pub(crate) rx: KernelRing<libc::xdp_desc>,
    pub(crate) tx: KernelRing<libc::xdp_desc>,
    pub(crate) completion: KernelRing<u64>,
    /// Frames from the fill ring, in the order in which they came.
    frames: VecDeque<u64>,
    /// How many shown descriptors name a frame that did not come back since.
    named: HashMap<u64, u32>,
    pub(crate) calls: Calls,
    pub(crate) arrival: Arc<Event>,
}

/// A socket with `count` receive frames of `size` bytes and `transmit` transmit frames, whose kernel is the caller. All indices begin
/// at `start`.
pub(crate) fn socket(count: u32, size: u32, transmit: u32, start: u32) -> (XskSocket, XskTransmit, XdpKernel) {
    let frames = Frames { before: 0, count, size };
    let transmit_bytes = (transmit * frames.chunk_size()) as usize;
    let umem = if frames.packed() {
        Region::endless(frames.bytes(), frames.tail(), transmit_bytes, "UMEM")
    } else {
        Region::anonymous(frames.bytes() + transmit_bytes, false, "UMEM")
    };
    let umem = Arc::new(umem.expect("memory for a UMEM"));
    let (fd, calls) = Calls::new();
    let fd = Arc::new(fd);
    let (fill, fill_memory) = KernelRing::new(count, start);
    let (rx, rx_memory) = KernelRing::new(count, start);
    let (tx, tx_memory) = KernelRing::new(transmit, start);
    let (completion, completion_memory) = KernelRing::new(transmit, start);
    let fits = "the ring fits its memory";
    let receive = XskSocket::over(
        Arc::clone(&fd),
        Arc::clone(&umem),
        Consumer::new(rx_memory, LAYOUT, count).expect(fits),
        Producer::new(fill_memory, LAYOUT, count).expect(fits),
        frames,
        COOKIE,
    );
    let first = frames.bytes() + frames.tail();
    let transmit = XskTransmit::new(
        fd,
        Arc::clone(&umem),
        Producer::new(tx_memory, LAYOUT, transmit).expect(fits),
        Consumer::new(completion_memory, LAYOUT, transmit).expect(fits),
        frames.chunk_size(),
        first as u64,
        transmit,
    );
    let far =
        if frames.packed() { FarSide::of_endless(&umem, frames.bytes(), frames.tail()) } else { FarSide::of(&umem) };
    let kernel = XdpKernel {
        umem: far,
        chunk_size: frames.chunk_size(),
        lead: XDP_PACKET_HEADROOM + frames.headroom(),
        unaligned: frames.packed(),
        fill,
        rx,
        tx,
        completion,
        frames: VecDeque::new(),
        named: HashMap::new(),
        calls,
        arrival: arrival(),
    };
    (receive, transmit, kernel)
}

/// A packet as the steering program delivers it.
pub(crate) fn stamped(time_ns: u64, cookie: u64, packet: &[u8]) -> Vec<u8> {
    [&time_ns.to_ne_bytes(), &cookie.to_ne_bytes(), packet].concat()
}

impl XdpKernel {
    /// Bytes of a packet that one frame takes.
    pub(crate) fn room(&self) -> usize {
        (self.chunk_size - self.lead) as usize
    }

    /// Takes what is in the fill ring; the frames that came.
    pub(crate) fn refill(&mut self) -> Vec<u64> {
        let came = self.fill.take(u32::MAX);
        for frame in &came {
            if let Some(named) = self.named.get_mut(frame) {
                *named = named.saturating_sub(1);
            }
        }
        self.frames.extend(&came);
        came
    }

    /// The frames that the kernel has, oldest first.
    pub(crate) fn frames(&mut self) -> &VecDeque<u64> {
        self.refill();
        &self.frames
    }

    /// The oldest frame that user space can't look at.
    pub(crate) fn frame(&mut self) -> Option<u64> {
        self.refill();
        let at = self.frames.iter().position(|frame| self.named.get(frame).is_none_or(|&named| named == 0))?;
        self.frames.remove(at)
    }

    /// Puts a frame away, as if it had never been taken.
    pub(crate) fn put_back(&mut self, frame: u64) {
        self.frames.push_front(frame);
    }

    /// What a descriptor calls the beginning of a packet in a frame.
    pub(crate) fn address(&self, frame: u64) -> u64 {
        if self.unaligned { frame | u64::from(self.lead) << UNALIGNED_SHIFT } else { frame + u64::from(self.lead) }
    }

    /// Writes a packet, stamp included, into the oldest frames and puts its descriptors into the RX ring; returns them. None, and
    /// nothing happens, where frames or slots do not last.
    pub(crate) fn write(&mut self, packet: &[u8]) -> Option<Vec<libc::xdp_desc>> {
        let pieces = packet.chunks(self.room());
        let count = pieces.len();
        let frames: Vec<u64> = std::iter::from_fn(|| self.frame()).take(count).collect();
        if frames.len() < count || (self.rx.room() as usize) < count {
            frames.into_iter().rev().for_each(|frame| self.put_back(frame));
            return None;
        }
        let mut descriptors = Vec::new();
        for (i, (piece, frame)) in pieces.zip(frames).enumerate() {
            self.umem.write((frame + u64::from(self.lead)) as usize, piece);
            let options = if i + 1 < count { XDP_PKT_CONTD } else { 0 };
            let descriptor = libc::xdp_desc { addr: self.address(frame), len: piece.len() as u32, options };
            self.describe(descriptor);
            descriptors.push(descriptor);
        }
        Some(descriptors)
    }

    /// Puts any descriptor into the RX ring; `false` when there is no slot.
    pub(crate) fn describe(&mut self, descriptor: libc::xdp_desc) -> bool {
        let has_room = self.rx.put(descriptor);
        if has_room {
            let chunk = if self.unaligned {
                descriptor.addr & ((1 << UNALIGNED_SHIFT) - 1)
            } else {
                descriptor.addr - descriptor.addr % u64::from(self.chunk_size)
            };
            *self.named.entry(chunk).or_default() += 1;
        }
        has_room
    }

    /// Shows user space what was put into the RX ring, and after that how far the fill ring was read (`xsk_flush`).
    pub(crate) fn show(&self) {
        self.rx.show_put();
        self.fill.show_taken();
    }

    /// Delivers a packet whose stamp says that it came at `time_ns`; `false` where frames or slots do not last.
    pub fn deliver(&mut self, packet: &[u8], time_ns: u64) -> bool {
        let written = self.write(&stamped(time_ns, COOKIE, packet)).is_some();
        self.show();
        self.arrival.signal();
        written
    }

    /// Sends up to `most` of the packets that were kicked off, and gives their frames back.
    pub fn send(&mut self, most: u32) -> Vec<Vec<u8>> {
        let taken = self.take_sent(most);
        taken
            .into_iter()
            .map(|(address, packet)| {
                self.complete(address);
                packet
            })
            .collect()
    }

    /// Takes up to `most` descriptors off the TX ring: addresses and packets.
    ///
    /// # Panics
    /// One names bytes outside the UMEM.
    pub(crate) fn take_sent(&mut self, most: u32) -> Vec<(u64, Vec<u8>)> {
        let taken = self.tx.take(most);
        self.tx.show_taken();
        taken.iter().map(|sent| (sent.addr, self.umem.read(sent.addr as usize, sent.len as usize))).collect()
    }

    /// Gives any address back as sent; `false` when the completion ring is full.
    pub(crate) fn complete(&mut self, address: u64) -> bool {
        let has_room = self.completion.put(address);
        self.completion.show_put();
        has_room
    }
}
