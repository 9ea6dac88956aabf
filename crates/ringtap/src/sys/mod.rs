//! Where the kernel's contracts live: mappings, rings shared with the kernel, sockets, scheduling, clocks.
//!
//! The only module of this crate that may use `unsafe`; each block says why it holds. Everything above it is safe code.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) mod addresses;
pub(crate) mod available;
pub(crate) mod card_ring;
pub mod clock;
pub mod cycles;
pub(crate) mod disk;
pub(crate) mod dpdk;
pub(crate) mod ethtool;
pub(crate) mod event;
pub(crate) mod fanout;
pub(crate) mod far_side;
pub(crate) mod file_lock;
mod huge_pages;
pub mod keeper;
mod loaded;
pub mod local;
pub(crate) mod memory;
pub mod netdev;
pub mod netlink;
pub(crate) mod oversize;
pub(crate) mod packet_ring;
pub(crate) mod pcap;
pub mod perf;
pub mod privileges;
pub(crate) mod recvmmsg;
pub(crate) mod ring;
pub mod sched;
pub(crate) mod spare_pages;
pub(crate) mod uses;
pub(crate) mod vfio;
pub(crate) mod write_right;
pub(crate) mod xsk;
pub(crate) mod xsk_transmit;

pub use huge_pages::prefer_huge_pages;

/// Returns when every packet that is in the kernel's receive path at the moment has come out of it: into a ring, with its
/// counters, or elsewhere.
///
/// Receive paths run with softirqs off from the poll of the device to the flush of redirected frames, which is an RCU
/// read-side section; membarrier(2) with MEMBARRIER_CMD_GLOBAL waits for the end of all that have begun.
pub(crate) fn grace_period() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
    // SAFETY: plain system calls without memory.
    let (cpus, result) = unsafe {
        (libc::sysconf(libc::_SC_NPROCESSORS_ONLN), libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
    };
    // Refused with nohz_full, and without effect on a single CPU: a poll of the device never lasts as long as this.
    if result != 0 || cpus < 2 {
        std::thread::sleep(PAUSE);
    }
}

/// The user whose rights on files this process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: a plain system call that can't fail.
    unsafe { libc::geteuid() }
}

/// setsockopt(2) with a plain value.
fn setsockopt<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is valid for reading `size_of::<T>()` bytes, which is the length given.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// getsockopt(2) of a plain structure of integers; what an older kernel does not fill stays zero.
fn getsockopt<T: Copy>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: only integer structures of the kernel's interface are asked for, for which all zeroes is a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for writing `len` bytes, and the kernel writes no more than `len`.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// The pending error of a socket, which reading clears (SO_ERROR, socket(7)).
pub(crate) fn socket_error(fd: BorrowedFd<'_>) -> io::Result<i32> {
    getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR)
}
