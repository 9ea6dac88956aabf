//! A plain packet socket read with recvmmsg(2): the naive baseline, and what is left where rings are not permitted.
//!
//! Owns the message vectors, made once. Every packet is copied by the kernel into our arena.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use super::memory::{Arena, Region, Slot};
use super::oversize::LONGEST_PACKET;
use super::packet_ring::{
    Group, PacketConfig, TP_STATUS_CSUMNOTREADY, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, VLAN_TAG_BYTES, bind,
    enable_auxdata, join_fanout, open, put_tag_back,
};
use super::setsockopt;
use crate::burst::BURST_MAX;
use crate::error::{Error, Result};

const PACKET_AUXDATA: libc::c_int = 8;
/// A packet's buffer. Three lines of the CPU's cache more than whole pages: the first lines of all buffers would share a few
/// of its sets.
const BUFFER_BYTES: usize = LONGEST_PACKET + 3 * 64;
/// Room for a time stamp and the auxiliary data of one packet, with their headers.
const CONTROL_BYTES: usize = 128;

/// struct tpacket_auxdata of linux/if_packet.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct AuxData {
    status: u32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
struct ControlBytes([u8; CONTROL_BYTES]);

/// What the kernel says beside a packet.
#[derive(Debug, Clone, Copy, Default)]
struct Control {
    /// 0: no stamp.
    arrival_ns: u64,
    checksum_pending: bool,
    /// A VLAN tag's TCI and TPID.
    tag: Option<(u16, Option<u16>)>,
}

/// The socket and its buffers.
pub(crate) struct PlainSocket {
    fd: Arc<OwnedFd>,
    arena: Arena,
    controls: Box<[ControlBytes]>,
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers in `vectors` and `messages` lead into boxes and mappings that the value owns and that do not
// move with it.
unsafe impl Send for PlainSocket {}

impl PlainSocket {
    pub(crate) fn open(config: &PacketConfig, buffer_bytes: u32, fanout: Option<Group>) -> Result<(Self, Option<u16>)> {
        let fd = open(config, fanout.is_some())?;
        let failed = |error: io::Error| Error::os("set up the packet socket of", &config.interface, &error);
        enable_auxdata(fd.as_fd()).map_err(failed)?;
        setsockopt(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).map_err(failed)?;
        // FORCE needs CAP_NET_ADMIN; without it the limit net.core.rmem_max applies.
        if setsockopt(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &buffer_bytes).is_err() {
            setsockopt(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &buffer_bytes).map_err(failed)?;
        }
        let mut arena = Arena::new(BURST_MAX, BUFFER_BYTES, "socket buffers")?;
        let mut controls = vec![ControlBytes([0; CONTROL_BYTES]); BURST_MAX].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = (0..BURST_MAX)
            .map(|index| {
                let frame = &mut arena.frame_mut(index)[VLAN_TAG_BYTES..];
                libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() }
            })
            .collect();
        let messages = (0..BURST_MAX)
            .map(|index| {
                // SAFETY: all zeroes is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = &raw mut vectors[index];
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = controls[index].0.as_mut_ptr().cast();
                message
            })
            .collect();
        bind(fd.as_fd(), &config.interface, config.ifindex, libc::ETH_P_ALL)?;
        let group = fanout.map(|group| join_fanout(fd.as_fd(), config, group)).transpose()?;
        Ok((Self { fd: Arc::new(fd), arena, controls, vectors, messages }, group))
    }

    /// One recvmmsg(2): up to [`BURST_MAX`] packets into `slots` (which has room for them and is empty).
    pub(crate) fn receive(&mut self, slots: &mut Vec<Slot>) {
        for message in &mut self.messages {
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: every message refers to a vector and a control buffer that this value owns; the arena is not borrowed
        // (`&mut self`).
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                BURST_MAX as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        for index in 0..usize::try_from(count).unwrap_or(0) {
            if let Some(slot) = self.slot(index) {
                slots.push(slot);
            }
        }
    }

    fn slot(&mut self, index: usize) -> Option<Slot> {
        // With MSG_TRUNC the length is the packet's, even where the buffer was shorter (packet(7)).
        let wire = self.messages[index].msg_len as usize;
        let captured = wire.min(self.vectors[index].iov_len);
        let Control { arrival_ns, checksum_pending, tag } = self.control(index);
        let mut slot = match tag {
            Some((tci, tpid))
                if put_tag_back(&mut self.arena.frame_mut(index)[..captured + VLAN_TAG_BYTES], tci, tpid) =>
            {
                let mut slot = self.arena.slot(index, (captured + VLAN_TAG_BYTES) as u32)?;
                slot.wire_len = (wire + VLAN_TAG_BYTES) as u32;
                slot
            }
            _ => {
                let mut slot = self.arena.slot_within(index, VLAN_TAG_BYTES, captured as u32)?;
                slot.wire_len = wire as u32;
                slot
            }
        };
        slot.arrival_ns = arrival_ns;
        slot.checksum_pending = checksum_pending;
        Some(slot)
    }

    fn control(&self, index: usize) -> Control {
        let header = &self.messages[index].msg_hdr;
        let mut says = Control::default();
        // SAFETY: the header's control buffer is owned, aligned, and the kernel set its length; CMSG_NXTHDR ends with null.
        let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !control.is_null() {
            // SAFETY: a non-null cmsghdr lies wholly in the control buffer.
            let (level, kind) = unsafe { ((*control).cmsg_level, (*control).cmsg_type) };
            if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
                // SAFETY: this message carries a timespec; unaligned reading asks nothing of its place.
                let time: libc::timespec =
                    unsafe { libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned() };
                says.arrival_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            } else if level == libc::SOL_PACKET && kind == PACKET_AUXDATA {
                // SAFETY: as above, with struct tpacket_auxdata.
                let aux: AuxData = unsafe { libc::CMSG_DATA(control).cast::<AuxData>().read_unaligned() };
                says.checksum_pending = aux.status & TP_STATUS_CSUMNOTREADY != 0;
                if aux.status & TP_STATUS_VLAN_VALID != 0 {
                    says.tag =
                        Some((aux.vlan_tci, (aux.status & TP_STATUS_VLAN_TPID_VALID != 0).then_some(aux.vlan_tpid)));
                }
            }
            // SAFETY: header and control belong together.
            control = unsafe { libc::CMSG_NXTHDR(header, control) };
        }
        says
    }

    pub(crate) fn region(&self) -> &Region {
        self.arena.region()
    }

    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Bytes of our own buffers; the kernel's receive buffer comes on top.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.arena.region().len() + size_of_val(&*self.controls)
    }
}
