//! The kernel's steps to an AF_XDP socket, in the kernel's order, each with what its error means.
//!
//! Owns the system calls. What lies in the rings afterwards is the socket's business.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Frames, XskConfig, XskSocket};
use crate::error::{Error, Result};
use crate::sys::memory::Region;
use crate::sys::ring::{Consumer, Layout, Producer};
use crate::sys::{getsockopt, setsockopt};

/// Bind flag: packets may come in several pieces (XDP_USE_SG, Linux 6.6).
const XDP_USE_SG: u16 = 1 << 4;
/// Socket option: descriptors one send call may take in copy mode (32 where the kernel lacks it).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// How long a queue's former socket may take to let go of it: the kernel's worker that does it is an ordinary thread, which on
/// a machine with two busy real-time cores did not get its turn for more than two seconds. Who finds the queue taken by
/// another program waits as long for the error.
const RELEASE: Duration = Duration::from_secs(5);

/// A socket without anything.
pub(super) fn socket(object: &str) -> Result<Arc<OwnedFd>> {
    // SAFETY: plain system call, the result is checked and owned once.
    let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        let error = io::Error::last_os_error();
        let way_out = match error.raw_os_error() {
            Some(libc::EPERM) => "run as root or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF",
            _ => "this kernel lacks CONFIG_XDP_SOCKETS; use --backend packet",
        };
        return Err(Error::os("open AF_XDP socket for", object, &error).way_out(way_out));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(Arc::new(unsafe { OwnedFd::from_raw_fd(raw) }))
}

/// Registers the memory of `frames`, and what lies behind them, as the socket's UMEM.
pub(super) fn register(fd: &OwnedFd, umem: &Region, bytes: usize, frames: Frames, object: &str) -> Result<()> {
    register_umem(fd.as_fd(), umem, bytes, frames).map_err(|error| {
        let is_old = frames.packed() && error.raw_os_error() == Some(libc::EINVAL);
        Error::os("register UMEM of", object, &error).way_out(if is_old {
            "this kernel has no packed frames: use --backend packet, or an MTU that fits a --frame-size of 4096"
        } else {
            "use a smaller --ring, or raise RLIMIT_MEMLOCK (ulimit -l)"
        })
    })
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

/// The four rings, mapped.
pub(super) struct Rings {
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) rx: Consumer<libc::xdp_desc>,
    pub(super) tx: Option<Producer<libc::xdp_desc>>,
    /// What they take.
    pub(super) bytes: usize,
}

impl Rings {
    /// `receive` and `transmit` slots, powers of two; no TX ring for 0.
    pub(super) fn map(fd: &OwnedFd, receive: u32, transmit: u32, object: &str) -> Result<Self> {
        let failed = |operation: &str, error: &io::Error| Error::os(operation, object, error);
        let tx_slots = transmit.max(1).next_power_of_two();
        let ring_sizes = [
            (libc::XDP_UMEM_FILL_RING, receive),
            (libc::XDP_UMEM_COMPLETION_RING, tx_slots),
            (libc::XDP_RX_RING, receive),
            (libc::XDP_TX_RING, if transmit == 0 { 0 } else { tx_slots }),
        ];
        for (ring, size) in ring_sizes {
            if size > 0 {
                setsockopt(fd.as_fd(), libc::SOL_XDP, ring, &size)
                    .map_err(|e| failed("size the rings of", &e).way_out("use a smaller --ring (a power of two)"))?;
            }
        }
        if transmit > 0 {
            // Without it the kick of a long cycle would leave frames for the next one.
            let _ = setsockopt(fd.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &tx_slots);
        }
        let offsets: libc::xdp_mmap_offsets = getsockopt(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(|e| failed("read ring offsets of", &e))?;
        let mut bytes = 0;
        let mut map = |at: &libc::xdp_ring_offset, page_offset, size: u32, entry: usize| {
            let len = at.desc as usize + size as usize * entry;
            bytes += len;
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
        let impossible = || Error::failed("map the rings of", object, "the kernel's offsets don't fit the mapping");
        let (region, layout) =
            map(&offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, receive, size_of::<u64>())?;
        let fill = Producer::new(region, layout, receive).ok_or_else(impossible)?;
        let (region, layout) = map(&offsets.rx, libc::XDP_PGOFF_RX_RING, receive, size_of::<libc::xdp_desc>())?;
        let rx = Consumer::new(region, layout, receive).ok_or_else(impossible)?;
        let (region, layout) =
            map(&offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, tx_slots, size_of::<u64>())?;
        let completion = Consumer::new(region, layout, tx_slots).ok_or_else(impossible)?;
        let tx = if transmit == 0 {
            None
        } else {
            let (region, layout) = map(&offsets.tx, libc::XDP_PGOFF_TX_RING, tx_slots, size_of::<libc::xdp_desc>())?;
            Some(Producer::new(region, layout, tx_slots).ok_or_else(impossible)?)
        };
        Ok(Self { fill, completion, rx, tx, bytes })
    }
}

impl XskSocket {
    /// Binds to its queue, with the UMEM of `owner` where that is another's, and learns whether the kernel copies.
    ///
    /// A closed socket's queue is given up by a worker of the kernel (xp_release_deferred), so right after another run it may be
    /// taken for a moment.
    pub(super) fn bind(&mut self, config: &XskConfig, owner: Option<&OwnedFd>) -> Result<()> {
        let since = Instant::now();
        let mut bound = self.try_bind(config, owner);
        while matches!(&bound, Err(e) if e.raw_os_error() == Some(libc::EBUSY)) && since.elapsed() < RELEASE {
            std::thread::sleep(Duration::from_millis(5));
            bound = self.try_bind(config, owner);
        }
        bound.map_err(|e| {
            let error = Error::os("bind AF_XDP socket on", config.object(), &e);
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
        let options: libc::xdp_options = getsockopt(self.fd.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS)
            .map_err(|e| Error::os("read XDP_OPTIONS of", config.object(), &e))?;
        self.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(())
    }

    fn try_bind(&self, config: &XskConfig, owner: Option<&OwnedFd>) -> io::Result<()> {
        let pieces = if self.frames.packed() { XDP_USE_SG | libc::XDP_COPY } else { 0 };
        let copy = if config.force_copy { libc::XDP_COPY } else { 0 };
        // Who shares a UMEM shares the owner's other flags as well, and may name none (xsk_bind in net/xdp/xsk.c).
        let flags = if owner.is_some() { libc::XDP_SHARED_UMEM } else { libc::XDP_USE_NEED_WAKEUP | copy | pieces };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: config.ifindex,
            sxdp_queue_id: config.queue,
            sxdp_shared_umem_fd: owner.map_or(0, |fd| fd.as_raw_fd() as u32),
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
}
