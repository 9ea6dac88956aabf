//! Packet sockets with rings shared with the kernel: TPACKET_V2 (Documentation/networking/packet_mmap.rst, packet(7)).
//!
//! Owns the socket, its frames, each with a status word that says who owns it, the receive ring, and the check of what the kernel
//! writes into a frame's head. The transmit ring is `transmit`'s. V3's blocks would hide packets until the block is retired, in whole
//! milliseconds.

mod transmit;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::available::available_memory_bytes;
use super::fanout;
use super::memory::{Region, Slot};
use super::oversize::{Fetch, Oversize, POOL_BYTES};
use super::{getsockopt, setsockopt};
use crate::burst::BURST_MAX;
use crate::error::{Error, Result};

pub(crate) use transmit::PacketTransmit;

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_RESERVE: libc::c_int = 12;
const PACKET_TX_RING: libc::c_int = 13;
const PACKET_FANOUT: libc::c_int = 18;
const PACKET_FANOUT_DATA: libc::c_int = 22;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_MR_PROMISC: u16 = 1;
const PACKET_FANOUT_HASH: u32 = 0;
const PACKET_FANOUT_CBPF: u32 = 6;
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;
const TPACKET_V2: libc::c_int = 1;

pub(crate) const TP_STATUS_KERNEL: u32 = 0;
pub(crate) const TP_STATUS_USER: u32 = 1;
pub(crate) const TP_STATUS_COPY: u32 = 1 << 1;
pub(crate) const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
pub(crate) const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
pub(crate) const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
pub(crate) const TP_STATUS_SEND_REQUEST: u32 = 1;
pub(crate) const TP_STATUS_SENDING: u32 = 2;
pub(crate) const TP_STATUS_WRONG_FORMAT: u32 = 1 << 2;

/// Bytes of an 802.1Q tag, kept free in front of each frame so that the tag can be put back.
pub(crate) const VLAN_TAG_BYTES: usize = 4;
/// Both MAC addresses: a tag comes after them (IEEE 802.1Q clause 9).
const MAC_ADDRESSES: usize = 12;
const DEFAULT_TPID: u16 = 0x8100;

/// struct tpacket_req of linux/if_packet.h.
#[repr(C)]
struct RingRequest {
    block_size: u32,
    block_nr: u32,
    frame_size: u32,
    frame_nr: u32,
}

/// struct tpacket2_hdr of linux/if_packet.h.
#[repr(C)]
struct FrameHead {
    status: AtomicU32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    sec: u32,
    nsec: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    padding: [u8; 4],
}

/// A classic BPF program (linux/filter.h), as pcap_compile(3) makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its instructions: code, jump if true, jump if false, operand.
    pub instructions: Vec<(u16, u8, u8, u32)>,
}

/// How to open a packet socket.
#[derive(Debug, Clone)]
pub(crate) struct PacketConfig {
    pub(crate) interface: String,
    pub(crate) ifindex: u32,
    pub(crate) incoming_only: bool,
    pub(crate) fetch_oversize: bool,
    pub(crate) filter: Option<Filter>,
}

impl PacketConfig {
    /// Everything an interface receives and sends, as far as it fits the frames.
    fn plain(interface: &str, ifindex: u32) -> Self {
        Self { interface: interface.to_owned(), ifindex, incoming_only: false, fetch_oversize: false, filter: None }
    }
}

/// A fanout group to join.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    /// Its identifier; `None` for the first socket, which gets one that nobody else uses.
    pub(crate) id: Option<u16>,
    /// One socket gets all packets between two addresses; else those of a flow, without fragments.
    pub(crate) by_addresses: bool,
}

/// Lets nothing through.
const NOTHING: (u16, u8, u8, u32) = ((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);

/// Opens a packet socket that receives nothing yet: it is bound by [`bind`] once its ring is there. Opened `shut`, it
/// also waits for [`admit`].
pub(super) fn open(config: &PacketConfig, shut: bool) -> Result<OwnedFd> {
    let object = &config.interface;
    // SAFETY: plain system call, the result is checked and owned once.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        let error = io::Error::last_os_error();
        return Err(Error::os("open packet socket for", object, &error).way_out("run as root or with CAP_NET_RAW"));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    if config.incoming_only {
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)
            .map_err(|error| Error::os("leave out sent packets of", object, &error).way_out("use --direction inout"))?;
    }
    if shut {
        attach_filter(fd.as_fd(), &[NOTHING]).map_err(|error| Error::os("attach a filter to", object, &error))?;
    } else if config.filter.is_some() {
        admit(fd.as_fd(), object, config.filter.as_ref())?;
    }
    Ok(fd)
}

/// Lets packets in by the user's filter, or all.
pub(crate) fn admit(fd: BorrowedFd<'_>, interface: &str, filter: Option<&Filter>) -> Result<()> {
    let done = match filter {
        Some(filter) => attach_filter(fd, &filter.instructions),
        None => match setsockopt(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32) {
            // There was none.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        },
    };
    done.map_err(|error| Error::os("attach the filter to", interface, &error).way_out("use a shorter filter"))
}

/// Lets nothing in any more; when it returns, ring and counters stand still.
pub(crate) fn shut(fd: BorrowedFd<'_>) {
    // Refused only when there is no memory; then the accounts may be off by what comes meanwhile.
    let _ = attach_filter(fd, &[NOTHING]);
    super::grace_period();
}

/// SO_ATTACH_FILTER (socket(7)).
fn attach_filter(fd: BorrowedFd<'_>, instructions: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    set_program(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, instructions)
}

/// setsockopt(2) with a classic BPF program.
fn set_program(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    instructions: &[(u16, u8, u8, u32)],
) -> io::Result<()> {
    let instructions: Vec<libc::sock_filter> =
        instructions.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let len = u16::try_from(instructions.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // The kernel copies the program during the call and does not write to it.
    let program = libc::sock_fprog { len, filter: instructions.as_ptr().cast_mut() };
    setsockopt(fd, level, name, &program)
}

/// From now on packets of the interface reach the socket (all protocols).
pub(super) fn bind(fd: BorrowedFd<'_>, interface: &str, ifindex: u32, protocol: libc::c_int) -> Result<()> {
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: the address is valid for reading and its size is given.
    let result = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(Error::os("bind packet socket to", interface, &error).way_out("bring the interface up: ip link set dev IF up"))
}

/// Keeps an interface in promiscuous mode as long as the socket lives, also after a crash (packet(7)).
#[derive(Debug)]
pub(crate) struct Promiscuous {
    _fd: OwnedFd,
}

impl Promiscuous {
    pub(crate) fn on(interface: &str, ifindex: u32) -> Result<Self> {
        #[repr(C)]
        struct Membership {
            ifindex: i32,
            kind: u16,
            address_len: u16,
            address: [u8; 8],
        }
        let fd = open(&PacketConfig::plain(interface, ifindex), false)?;
        let membership =
            Membership { ifindex: ifindex as i32, kind: PACKET_MR_PROMISC, address_len: 0, address: [0; 8] };
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership)
            .map_err(|error| Error::os("set promiscuous mode of", interface, &error).way_out("use --no-promiscuous"))?;
        Ok(Self { _fd: fd })
    }
}

/// PACKET_STATISTICS, which the kernel resets at each reading: received (with the dropped ones) and dropped since then.
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let [packets, drops]: [u32; 2] = getsockopt(fd, libc::SOL_PACKET, PACKET_STATISTICS)?;
    Ok((packets, drops))
}

/// Lets several sockets share an interface's packets by flow hash (PACKET_FANOUT_HASH) or, where flows are to stay together with
/// their fragments, by a program that knows addresses alone ([`fanout::by_addresses`]).
///
/// Returns the group's identifier, for the others. A group is shown sent packets whatever its members ignore, unless it ignores them itself (Linux 5.15 and newer).
pub(super) fn join_fanout(fd: BorrowedFd<'_>, config: &PacketConfig, group: Group) -> Result<u16> {
    let interface = &config.interface;
    let flags = if group.id.is_none() { PACKET_FANOUT_FLAG_UNIQUEID } else { 0 }
        | if config.incoming_only { PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
    let mode = if group.by_addresses { PACKET_FANOUT_CBPF } else { PACKET_FANOUT_HASH };
    let argument = u32::from(group.id.unwrap_or(0)) | (mode | flags) << 16;
    let failed = |error: io::Error| Error::os("join the fanout group of", interface, &error).way_out("use --queues 1");
    setsockopt(fd, libc::SOL_PACKET, PACKET_FANOUT, &argument).map_err(failed)?;
    if group.by_addresses && group.id.is_none() {
        set_program(fd, libc::SOL_PACKET, PACKET_FANOUT_DATA, &fanout::by_addresses(fanout::secret()))
            .map_err(failed)?;
    }
    let joined: u32 = getsockopt(fd, libc::SOL_PACKET, PACKET_FANOUT).map_err(failed)?;
    Ok((joined & 0xffff) as u16)
}

/// PACKET_AUXDATA: VLAN tags beside the packet, for plain receive calls.
pub(super) fn enable_auxdata(fd: BorrowedFd<'_>) -> io::Result<()> {
    setsockopt(fd, libc::SOL_PACKET, PACKET_AUXDATA, &1i32)
}

/// Writes a VLAN tag behind the MAC addresses of the frame at `data`, into the room in front of it; returns whether the
/// frame was long enough to have one. `frame` starts [`VLAN_TAG_BYTES`] before the packet.
pub(super) fn put_tag_back(frame: &mut [u8], tci: u16, tpid: Option<u16>) -> bool {
    if frame.len() < VLAN_TAG_BYTES + MAC_ADDRESSES {
        return false;
    }
    frame.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + MAC_ADDRESSES, 0);
    frame[MAC_ADDRESSES..MAC_ADDRESSES + 2].copy_from_slice(&tpid.unwrap_or(DEFAULT_TPID).to_be_bytes());
    frame[MAC_ADDRESSES + 2..MAC_ADDRESSES + 4].copy_from_slice(&tci.to_be_bytes());
    true
}

/// A mapped ring of equal frames.
#[derive(Debug)]
pub(crate) struct Frames {
    region: Arc<Region>,
    frame_size: usize,
    count: usize,
    /// Where our own memory behind the ring begins.
    end: usize,
}

impl Frames {
    /// With `tail` bytes of memory of our own in the same region.
    fn new(
        fd: BorrowedFd<'_>,
        ring: libc::c_int,
        interface: &str,
        count: u32,
        frame_size: u32,
        tail: usize,
    ) -> Result<Self> {
        /// Contiguous kernel memory asked for at a time; the kernel falls back to vmalloc when it has none.
        const BLOCK: u32 = 256 * 1024;
        const PAGE: u32 = 4096;
        let failed = |error: &io::Error| {
            Error::os("make a packet ring of", format!("{interface} ({count} frames of {frame_size} bytes)"), error)
                .way_out("use a smaller --ring")
        };
        // A small ring is one block, of whole pages.
        let small = u64::from(count).saturating_mul(frame_size.into()).next_power_of_two().max(PAGE.into());
        let block_size = u32::try_from(small).unwrap_or(BLOCK).min(BLOCK).max(frame_size);
        let per_block = block_size / frame_size;
        let blocks = count.div_ceil(per_block);
        let count = blocks * per_block;
        let bytes = u64::from(block_size) * u64::from(blocks);
        // The kernel would go on allocating until the OOM killer comes; and it counts a ring's bytes in 32 bits.
        let available = available_memory_bytes().unwrap_or(u64::MAX).min(u32::MAX.into());
        if bytes > available {
            let object = format!("{interface} ({count} frames of {frame_size} bytes)");
            let cause = format!("{} MiB asked for, {} MiB available", bytes >> 20, available >> 20);
            return Err(
                Error::failed("make a packet ring of", object, cause).way_out("use a smaller --ring or --frame-size")
            );
        }
        let request = RingRequest { block_size, block_nr: blocks, frame_size, frame_nr: count };
        setsockopt(fd, libc::SOL_PACKET, ring, &request).map_err(|error| failed(&error))?;
        let len = block_size as usize * blocks as usize;
        let region = Region::of_fd_with_tail(fd, len, tail).map_err(|error| failed(&error))?;
        Ok(Self { region: Arc::new(region), frame_size: frame_size as usize, count: count as usize, end: len })
    }

    /// Frames in memory of our own, for a kernel that is played.
    pub(crate) fn over(region: Arc<Region>, frame_size: usize, count: usize) -> Self {
        Self { region, frame_size, count, end: frame_size * count }
    }

    fn head(&self, index: usize) -> *mut FrameHead {
        debug_assert!(index < self.count);
        // SAFETY: `index` is below the number of frames in the mapping.
        unsafe { self.region.base().as_ptr().add(index * self.frame_size).cast() }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the head lies in the mapping and is aligned (frames are multiples of 16 bytes); only the status word,
        // which both sides access atomically, is referred to.
        unsafe { &(*self.head(index)).status }
    }
}

/// The receive ring of one packet socket.
#[derive(Debug)]
pub(crate) struct PacketReceive {
    fd: Arc<OwnedFd>,
    frames: Frames,
    next: usize,
    /// `None`: what does not fit a frame is cut.
    oversize: Option<Oversize>,
    /// Frames whose head named bytes outside the frame.
    pub(crate) invalid_descriptors: u64,
}

impl PacketReceive {
    /// Opens socket and ring and binds; joins `fanout` when given (see [`join_fanout`]) and returns the group.
    pub(crate) fn open(
        config: &PacketConfig,
        ring_frames: u32,
        frame_size: u32,
        fanout: Option<Group>,
    ) -> Result<(Self, Option<u16>)> {
        let fd = open(config, fanout.is_some())?;
        let object = &config.interface;
        let failed = |error: io::Error| Error::os("set up the packet ring of", object, &error);
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2).map_err(failed)?;
        setsockopt(fd.as_fd(), libc::SOL_PACKET, PACKET_RESERVE, &(VLAN_TAG_BYTES as u32)).map_err(failed)?;
        let tail = if config.fetch_oversize { POOL_BYTES } else { 0 };
        if config.fetch_oversize {
            Oversize::enable(fd.as_fd(), u64::from(ring_frames) * u64::from(frame_size)).map_err(failed)?;
        }
        let frames = Frames::new(fd.as_fd(), PACKET_RX_RING, object, ring_frames, frame_size, tail)?;
        bind(fd.as_fd(), object, config.ifindex, libc::ETH_P_ALL)?;
        let group = fanout.map(|group| join_fanout(fd.as_fd(), config, group)).transpose()?;
        Ok((Self::over(Arc::new(fd), frames, config.fetch_oversize), group))
    }

    /// A ring that is mapped; to fetch what does not fit a frame, [`POOL_BYTES`] of our own memory lie behind it.
    pub(crate) fn over(fd: Arc<OwnedFd>, frames: Frames, fetch_oversize: bool) -> Self {
        let oversize = fetch_oversize.then(|| Oversize::new(frames.end));
        Self { fd, frames, next: 0, oversize, invalid_descriptors: 0 }
    }

    /// Takes up to `max` packets, [`BURST_MAX`] at most, off the ring into `slots`, which is empty and has room for them.
    pub(crate) fn receive(&mut self, slots: &mut Vec<Slot>, max: usize) {
        debug_assert!(slots.is_empty() && slots.capacity() >= max && max <= BURST_MAX);
        if let Some(oversize) = &mut self.oversize {
            oversize.begin_burst();
        }
        // `max` also bounds the walk over frames with bad heads.
        for _ in 0..max {
            let index = self.next;
            let status = self.frames.status(index).load(Ordering::Acquire);
            if status & TP_STATUS_USER == 0 {
                return;
            }
            let whole = if status & TP_STATUS_COPY == 0 {
                None
            } else {
                match self.fetch(index) {
                    Fetch::NoRoom => return,
                    Fetch::Whole(start) => Some(start),
                    Fetch::Missing => None,
                }
            };
            self.next = if index + 1 == self.frames.count { 0 } else { index + 1 };
            match self.slot(index, status, whole) {
                Some(slot) => slots.push(slot),
                None => {
                    self.invalid_descriptors += 1;
                    self.frames.status(index).store(TP_STATUS_KERNEL, Ordering::Release);
                }
            }
        }
    }

    /// Takes a packet that did not fit its frame off the socket's queue, into our own memory behind the ring. Also where the
    /// frame's head is bad: the next packet would find this one in its way.
    fn fetch(&mut self, index: usize) -> Fetch {
        let Some(oversize) = &mut self.oversize else { return Fetch::Missing };
        let head = self.frames.head(index);
        // SAFETY: the status word gave the frame to us (acquire); the head lies in the mapping. Copies, no references.
        let (len, snaplen, mac) = unsafe {
            ((&raw const (*head).len).read(), (&raw const (*head).snaplen).read(), (&raw const (*head).mac).read())
        };
        let (mac, held) = (usize::from(mac), snaplen as usize);
        let held = if mac.saturating_add(held) <= self.frames.frame_size { held } else { 0 };
        let region = &self.frames.region;
        // SAFETY: the range lies inside the frame, which user space owns. What lies behind the ring is the queue's alone, and
        // bursts do not overlap (`receive` is called without slots).
        unsafe {
            let at = region.base().as_ptr().add(index * self.frames.frame_size + mac);
            oversize.fetch(self.fd.as_fd(), region, len as usize, std::slice::from_raw_parts(at, held))
        }
    }

    /// Checks the frame's head and puts the VLAN tag back. `whole`: where all of the packet is, if it did not fit the frame.
    fn slot(&mut self, index: usize, status: u32, whole: Option<usize>) -> Option<Slot> {
        let head = self.frames.head(index);
        // SAFETY: the status word gave the frame to us (acquire); the head lies in the mapping. Copies, no references.
        let (len, snaplen, mac, sec, nsec, tci, tpid) = unsafe {
            (
                (&raw const (*head).len).read(),
                (&raw const (*head).snaplen).read(),
                (&raw const (*head).mac).read(),
                (&raw const (*head).sec).read(),
                (&raw const (*head).nsec).read(),
                (&raw const (*head).vlan_tci).read(),
                (&raw const (*head).vlan_tpid).read(),
            )
        };
        let mac = usize::from(mac);
        let (mut from, mut captured, mut wire_len) = (index * self.frames.frame_size + mac, snaplen as usize, len);
        if mac < size_of::<FrameHead>() + VLAN_TAG_BYTES || mac.checked_add(captured)? > self.frames.frame_size {
            return None;
        }
        if let Some(start) = whole {
            (from, captured) = (start, len as usize);
        }
        if status & TP_STATUS_VLAN_VALID != 0 {
            let start = from - VLAN_TAG_BYTES;
            // SAFETY: the range lies inside this frame (checked above) or in memory of our own with room in front; user space
            // owns either, and nothing refers to it.
            let frame = unsafe {
                std::slice::from_raw_parts_mut(self.frames.region.base().as_ptr().add(start), captured + VLAN_TAG_BYTES)
            };
            if put_tag_back(frame, tci, (status & TP_STATUS_VLAN_TPID_VALID != 0).then_some(tpid)) {
                from -= VLAN_TAG_BYTES;
                captured += VLAN_TAG_BYTES;
                wire_len = wire_len.saturating_add(VLAN_TAG_BYTES as u32);
            }
        }
        let mut slot = Slot::new(&self.frames.region, from, captured as u32)?;
        slot.wire_len = wire_len.max(captured as u32);
        slot.arrival_ns = u64::from(sec) * 1_000_000_000 + u64::from(nsec);
        slot.checksum_pending = status & TP_STATUS_CSUMNOTREADY != 0;
        slot.token = index as u64;
        Some(slot)
    }

    /// Returns frames to the kernel.
    pub(crate) fn give_back(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.frames.status(slot.token as usize).store(TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    /// Whether a packet is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.status(self.next).load(Ordering::Acquire) & TP_STATUS_USER == 0
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.frames.region
    }

    pub(crate) fn slots(&self) -> usize {
        self.frames.count
    }

    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_mac_addresses() {
        let mut frame: Vec<u8> = vec![0xaa; VLAN_TAG_BYTES];
        frame.extend((0..12u8).chain([0x08, 0x00, 0x45]));
        assert!(put_tag_back(&mut frame, 0x2005, Some(0x88a8)));
        assert_eq!(frame[..12], (0..12u8).collect::<Vec<_>>()[..]);
        assert_eq!(frame[12..], [0x88, 0xa8, 0x20, 0x05, 0x08, 0x00, 0x45]);
        assert!(!put_tag_back(&mut [0; 8], 1, None), "too short to hold MAC addresses");
    }

    #[test]
    fn the_frame_head_is_the_kernels() {
        assert_eq!(size_of::<FrameHead>(), 32);
        assert_eq!(std::mem::offset_of!(FrameHead, mac), 12);
        assert_eq!(std::mem::offset_of!(FrameHead, vlan_tci), 24);
    }
}
