//! The kernel of a packet socket's rings, played over memory of our own (TPACKET_V2, packet_mmap.rst).
//!
//! Owns the kernel's place in each ring and what it writes into frames' heads, true and otherwise. It writes only to frames that are
//! the kernel's by their status word.

use std::sync::Arc;

use super::{Calls, arrival};
use crate::sys::event::Event;
use crate::sys::far_side::FarSide;
use crate::sys::memory::Region;
use crate::sys::oversize::POOL_BYTES;
use crate::sys::packet_ring::{
    Frames, PacketReceive, PacketTransmit, TP_STATUS_COPY, TP_STATUS_KERNEL, TP_STATUS_SEND_REQUEST, TP_STATUS_SENDING,
    TP_STATUS_USER, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, TP_STATUS_WRONG_FORMAT,
};

/// Where a packet begins in its frame, with 4 bytes reserved: TPACKET_ALIGN(TPACKET2_HDRLEN + 16) + 4, less an Ethernet header.
const MAC: u16 = 80 + 4 - 14;
/// Where it begins in a frame to be sent.
const SEND_DATA: usize = 32;

/// What the kernel says of a frame (struct tpacket2_hdr), but for the status word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) len: u32,
    pub(crate) snaplen: u32,
    pub(crate) mac: u16,
    pub(crate) time: (u32, u32),
    pub(crate) tci: u16,
    pub(crate) tpid: u16,
}

/// A VLAN tag that the device took off: its control information, and its protocol where the kernel tells that.
pub type Tag = (u16, Option<u16>);

/// The kernel's side of a socket's receive ring or transmit ring.
#[derive(Debug)]
pub struct PacketKernel {
    memory: FarSide,
    pub(crate) frame_size: usize,
    count: usize,
    /// The next frame to fill, or to send.
    next: usize,
    calls: Calls,
    pub(crate) arrival: Arc<Event>,
}

/// A receive ring of `count` frames of `frame_size` bytes. What does not fit a frame is fetched, but for Miri.
pub(crate) fn receive(count: usize, frame_size: usize) -> (PacketReceive, PacketKernel) {
    let fetch = !cfg!(miri);
    let (kernel, frames, fd) = ring(count, frame_size, if fetch { POOL_BYTES } else { 0 });
    (PacketReceive::over(Arc::new(fd), frames, fetch), kernel)
}

/// A transmit ring of `count` frames of `frame_size` bytes.
pub(crate) fn transmit(count: usize, frame_size: usize) -> (PacketTransmit, PacketKernel) {
    let (kernel, frames, fd) = ring(count, frame_size, 0);
    (PacketTransmit::over(fd, frames), kernel)
}

fn ring(count: usize, frame_size: usize, behind: usize) -> (PacketKernel, Frames, std::os::fd::OwnedFd) {
    let region = Region::anonymous(count * frame_size + behind, false, "ring").expect("memory for a ring");
    let region = Arc::new(region);
    let (fd, calls) = Calls::new();
    let memory = FarSide::of(&region);
    (
        PacketKernel { memory, frame_size, count, next: 0, calls, arrival: arrival() },
        Frames::over(region, frame_size, count),
        fd,
    )
}

impl PacketKernel {
    fn at(&self, frame: usize) -> usize {
        frame * self.frame_size
    }

    pub(crate) fn status(&self, frame: usize) -> u32 {
        self.memory.load(self.at(frame))
    }

    /// Whether the next frame is the kernel's to fill.
    pub(crate) fn has_room(&self) -> bool {
        self.status(self.next) == TP_STATUS_KERNEL
    }

    /// Delivers a packet, from which the device took `tag`; `None` where the ring is full. Else the captured bytes, the tag not
    /// among them: of a packet that fits no frame all, where the socket's queue takes it, or as many as fit.
    pub fn deliver(&mut self, packet: &[u8], tag: Option<Tag>, time: (u32, u32)) -> Option<usize> {
        if !self.has_room() {
            return None;
        }
        let held = packet.len().min(self.frame_size - usize::from(MAC));
        let is_queued = held < packet.len() && self.calls.queue(packet);
        let (tci, tpid) = tag.unwrap_or_default();
        self.memory.write(self.at(self.next) + usize::from(MAC), &packet[..held]);
        let head = Head {
            len: packet.len() as u32,
            snaplen: held as u32,
            mac: MAC,
            time,
            tci,
            tpid: tpid.unwrap_or_default(),
        };
        let mut status = if is_queued { TP_STATUS_COPY } else { 0 };
        if let Some((_, tpid)) = tag {
            status |= TP_STATUS_VLAN_VALID | if tpid.is_some() { TP_STATUS_VLAN_TPID_VALID } else { 0 };
        }
        self.show(status, head);
        self.arrival.signal();
        Some(if is_queued { packet.len() } else { held })
    }

    /// Shows the next frame, which must be the kernel's, with any head; its index.
    pub(crate) fn show(&mut self, status: u32, head: Head) -> usize {
        assert!(self.has_room());
        let frame = self.next;
        let words = [head.len, head.snaplen, u32::from(head.mac), head.time.0, head.time.1];
        let tag = [head.tci.to_ne_bytes(), head.tpid.to_ne_bytes()].concat();
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).chain(tag).collect();
        self.memory.write(self.at(frame) + 4, &bytes);
        self.memory.store(self.at(frame), status | TP_STATUS_USER);
        self.next = (frame + 1) % self.count;
        frame
    }

    /// Bytes of a frame.
    pub(crate) fn read(&self, frame: usize, from: usize, len: usize) -> Vec<u8> {
        self.memory.read(self.at(frame) + from, len)
    }

    /// The next frame.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Sends up to `most` of the packets in a transmit ring.
    pub fn send(&mut self, most: usize) -> Vec<Vec<u8>> {
        let taken: Vec<_> = std::iter::from_fn(|| self.take_sent()).take(most).collect();
        taken
            .into_iter()
            .map(|(frame, packet)| {
                self.complete(frame, TP_STATUS_KERNEL);
                packet
            })
            .collect()
    }

    /// Takes a packet off a transmit ring; its frame stays the kernel's.
    pub(crate) fn take_sent(&mut self) -> Option<(usize, Vec<u8>)> {
        let frame = self.next;
        if self.status(frame) != TP_STATUS_SEND_REQUEST {
            return None;
        }
        self.memory.store(self.at(frame), TP_STATUS_SENDING);
        let len = self.memory.load(self.at(frame) + 4) as usize;
        self.next = (frame + 1) % self.count;
        Some((frame, self.read(frame, SEND_DATA, len)))
    }

    /// Refuses the next packet of a transmit ring, and stays there; its frame, if there is one.
    pub fn refuse(&mut self) -> Option<usize> {
        let is_offered = self.status(self.next) == TP_STATUS_SEND_REQUEST;
        is_offered.then(|| {
            self.memory.store(self.at(self.next), TP_STATUS_WRONG_FORMAT);
            self.next
        })
    }

    /// Gives a frame of a transmit ring back with any status.
    pub(crate) fn complete(&mut self, frame: usize, status: u32) {
        self.memory.store(self.at(frame), status);
    }

    /// Calls to send since the last time.
    pub(crate) fn kicks(&self) -> usize {
        self.calls.sends()
    }
}
