//! The transmit ring of a packet socket: frames that are built in place and handed to the kernel by their status words.
//!
//! Owns which frame is next, and how many the kernel still has. Socket and frames are the parent's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::{
    FrameHead, Frames, PACKET_LOSS, PACKET_QDISC_BYPASS, PACKET_TX_RING, PACKET_VERSION, PacketConfig,
    TP_STATUS_SEND_REQUEST, TP_STATUS_SENDING, TPACKET_V2, bind, open, setsockopt,
};
use crate::error::{Error, Result};

/// The transmit ring of one packet socket.
#[derive(Debug)]
pub(crate) struct PacketTransmit {
    fd: OwnedFd,
    frames: Frames,
    next: usize,
    /// The first that is not known to be taken, and how many there are from it on.
    oldest: usize,
    queued: u32,
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
        // A frame the kernel finds malformed is skipped instead of stopping the ring.
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_LOSS, &1i32).map_err(failed)?;
        let frames = Frames::new(fd.as_fd(), PACKET_TX_RING, interface, ring_frames, frame_size, 0)?;
        // Protocol 0: this socket receives nothing.
        bind(fd.as_fd(), interface, ifindex, 0)?;
        Ok(Self::over(fd, frames))
    }

    /// A ring that is mapped.
    pub(crate) fn over(fd: OwnedFd, frames: Frames) -> Self {
        Self { fd, frames, next: 0, oldest: 0, queued: 0 }
    }

    /// As [`crate::sys::xsk_transmit::XskTransmit::send`].
    pub(crate) fn send(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        if self.frames.status(self.next).load(Ordering::Acquire) & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING) != 0 {
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
        self.next = if self.next + 1 == self.frames.count { 0 } else { self.next + 1 };
        self.queued += 1;
        Some(len)
    }

    /// Has the kernel send what was queued: one system call.
    pub(crate) fn kick(&mut self) {
        // SAFETY: no buffer is passed; the kernel takes the frames from the ring.
        unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    }

    /// Frames handed over that the kernel has not taken yet, which it does in order. One that it has taken is the device's (and the
    /// kernel's still, TP_STATUS_SENDING): it leaves when its turn comes, also after this ring's end.
    pub(crate) fn pending(&mut self) -> u32 {
        while self.queued > 0 {
            let status = self.frames.status(self.oldest).load(Ordering::Acquire);
            if status & TP_STATUS_SEND_REQUEST != 0 {
                break;
            }
            self.oldest = if self.oldest + 1 == self.frames.count { 0 } else { self.oldest + 1 };
            self.queued -= 1;
        }
        self.queued
    }
}
