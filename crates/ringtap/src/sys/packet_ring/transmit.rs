//! The transmit ring of a packet socket: frames that are built in place and handed to the kernel by their status words.
//!
//! Owns which frame is next, how many the kernel still has, and what is done with those that it refuses. Socket and frames are the
//! parent's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::{
    FrameHead, Frames, PACKET_QDISC_BYPASS, PACKET_TX_RING, PACKET_VERSION, PacketConfig, TP_STATUS_KERNEL,
    TP_STATUS_SEND_REQUEST, TP_STATUS_SENDING, TP_STATUS_WRONG_FORMAT, TPACKET_V2, bind, open, setsockopt,
};
use crate::error::{Error, Result};

/// Frames that may be refused one after the other in one kick, each with a system call: the next kick goes on.
const REFUSALS: u32 = 16;
/// Ethernet header (IEEE 802.3 clause 3.2) and the least MTU that a device of Ethernet has (ETH_MIN_MTU): what is refused and is not
/// longer was not too long.
const NEVER_TOO_LONG: usize = 14 + 68;
/// IEEE 802.1Q tag, by which a frame may be longer.
const TAG: usize = 4;

/// The transmit ring of one packet socket.
#[derive(Debug)]
pub(crate) struct PacketTransmit {
    fd: OwnedFd,
    frames: Frames,
    next: usize,
    /// The first that is not known to be taken, and how many there are from it on.
    oldest: usize,
    queued: u32,
    /// How many the kernel found malformed, or longer than the interface allows.
    refused: u64,
    /// Their bytes.
    refused_bytes: u64,
}

impl PacketTransmit {
    /// Where the packet starts in a frame: TPACKET2_HDRLEN − sizeof(struct sockaddr_ll).
    const DATA: usize = size_of::<FrameHead>();

    /// A ring of `ring_frames` frames of `frame_size` bytes that sends on one interface, past its queueing discipline.
    pub(crate) fn open(interface: &str, ifindex: u32, ring_frames: u32, frame_size: u32) -> Result<Self> {
        let fd = open(&PacketConfig::plain(interface, ifindex), false)?;
        let failed = |error: io::Error| Error::os("set up the transmit ring of", interface, &error);
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2).map_err(failed)?;
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32).map_err(failed)?;
        // Without PACKET_LOSS, by which the kernel would skip what it refuses without a word.
        let frames = Frames::new(fd.as_fd(), PACKET_TX_RING, interface, ring_frames, frame_size, 0)?;
        // Protocol 0: this socket receives nothing.
        bind(fd.as_fd(), interface, ifindex, 0)?;
        Ok(Self::over(fd, frames))
    }

    /// A ring that is mapped.
    pub(crate) fn over(fd: OwnedFd, frames: Frames) -> Self {
        Self { fd, frames, next: 0, oldest: 0, queued: 0, refused: 0, refused_bytes: 0 }
    }

    /// As [`crate::sys::xsk_transmit::XskTransmit::send`].
    pub(crate) fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        let status = self.frames.status(self.next).load(Ordering::Acquire);
        if status & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING) != 0 || self.queued as usize == self.frames.count {
            return None;
        }
        let room = self.frames.frame_size - Self::DATA;
        let start = self.next * self.frames.frame_size + Self::DATA;
        // SAFETY: the status word says that the kernel has done with this frame; the range lies inside it.
        let data = unsafe { std::slice::from_raw_parts_mut(self.frames.region.base().as_ptr().add(start), room) };
        let len = build(data).min(room);
        if len == 0 {
            return Some(0);
        }
        let head = self.frames.head(self.next);
        // SAFETY: as above; only plain words of the head are written.
        unsafe {
            (&raw mut (*head).len).write(len as u32);
            (&raw mut (*head).snaplen).write(len as u32);
        }
        self.frames.status(self.next).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = self.after(self.next);
        self.queued += 1;
        Some(len)
    }

    /// Has the kernel send what was queued: one system call, and one more for each frame that it refuses, which stops the ring
    /// (TP_STATUS_WRONG_FORMAT, `tpacket_snd` in net/packet/af_packet.c) until it is taken out.
    pub(crate) fn kick(&mut self) {
        for _ in 0..REFUSALS {
            // SAFETY: no buffer is passed; the kernel takes the frames from the ring.
            unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
            if !self.take_refused_out() {
                return;
            }
        }
    }

    /// Frames that the kernel refused, which are not in the ring any more.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of those.
    pub(crate) fn refused_bytes(&self) -> u64 {
        self.refused_bytes
    }

    /// Frames handed over that the kernel has not taken yet, which it does in order. One that it has taken is the device's (and the
    /// kernel's still, TP_STATUS_SENDING): it leaves when its turn comes, also after this ring's end.
    pub(crate) fn pending(&mut self) -> u32 {
        while self.queued > 0 {
            let status = self.frames.status(self.oldest).load(Ordering::Acquire);
            if status & (TP_STATUS_SEND_REQUEST | TP_STATUS_WRONG_FORMAT) != 0 {
                break;
            }
            self.oldest = self.after(self.oldest);
            self.queued -= 1;
        }
        self.queued
    }

    /// Takes the frame that stopped the ring out of it, if one did, with all behind it that are as long: the others move up, as the
    /// kernel waits at that place. It looks at the ring only while we call it.
    pub(super) fn take_refused_out(&mut self) -> bool {
        let queued = self.pending();
        if queued == 0 || self.frames.status(self.oldest).load(Ordering::Acquire) & TP_STATUS_WRONG_FORMAT == 0 {
            return false;
        }
        let limit = Some(length_by_mtu(self.waiting(self.oldest))).filter(|len| *len > NEVER_TOO_LONG);
        let (mut from, mut to, mut kept) = (self.oldest, self.oldest, 0);
        for place in 0..queued {
            let frame = self.waiting(from);
            let is_refused = place == 0 || limit.is_some_and(|limit| length_by_mtu(frame) >= limit);
            if is_refused {
                self.refused_bytes += frame.len() as u64;
            } else {
                self.move_up(from, to);
                self.frames.status(to).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
                to = self.after(to);
                kept += 1;
            }
            from = self.after(from);
        }
        self.next = to;
        for _ in kept..queued {
            self.frames.status(to).store(TP_STATUS_KERNEL, Ordering::Release);
            to = self.after(to);
        }
        self.refused += u64::from(queued - kept);
        self.queued = kept;
        true
    }

    fn after(&self, frame: usize) -> usize {
        if frame + 1 == self.frames.count { 0 } else { frame + 1 }
    }

    /// What was written into a frame that the kernel has not taken.
    fn waiting(&self, frame: usize) -> &[u8] {
        let room = self.frames.frame_size - Self::DATA;
        // SAFETY: the kernel does not touch a frame that it was offered but during a call of ours, and we write to none while this
        // lives; head and data lie inside the frame.
        unsafe {
            let len = (&raw const (*self.frames.head(frame)).len).read() as usize;
            let data = self.frames.region.base().as_ptr().add(frame * self.frames.frame_size + Self::DATA);
            std::slice::from_raw_parts(data, len.min(room))
        }
    }

    /// Copies what waits in one frame into another.
    fn move_up(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let len = self.waiting(from).len();
        let size = self.frames.frame_size;
        let base = self.frames.region.base().as_ptr();
        // SAFETY: as for `waiting`; `to` is a frame whose packet was taken out or moved, another one than `from`.
        unsafe {
            base.add(to * size + Self::DATA).copy_from_nonoverlapping(base.add(from * size + Self::DATA), len);
            let head = self.frames.head(to);
            (&raw mut (*head).len).write(len as u32);
            (&raw mut (*head).snaplen).write(len as u32);
        }
    }
}

/// Length of a frame as its interface's MTU counts: one with an 802.1Q tag may be so much longer (`packet_extra_vlan_len_allowed`).
fn length_by_mtu(frame: &[u8]) -> usize {
    let is_tagged = frame.get(12..14) == Some(&[0x81, 0x00]);
    frame.len() - if is_tagged { TAG } else { 0 }
}
