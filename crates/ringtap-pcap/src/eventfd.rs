//! The libpcap inside makes an eventfd(2) in pcap_create and closes it only after an activation. Our live captures take a
//! handle's place without activating it, so we see to it.
//!
//! Owns the call (build.rs sends the archive's calls here) and who closes the descriptor.

use std::arch::global_asm;
use std::cell::Cell;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{c_int, c_uint};

thread_local! {
    /// The descriptor made last on this thread.
    static LATEST: Cell<Option<c_int>> = const { Cell::new(None) };
}

// Hidden, so that it is not among the exported names.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl ringtap_real_eventfd",
    ".hidden ringtap_real_eventfd",
    "ringtap_real_eventfd: jmp {eventfd}",
    eventfd = sym eventfd,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl ringtap_real_eventfd",
    ".hidden ringtap_real_eventfd",
    "ringtap_real_eventfd: b {eventfd}",
    eventfd = sym eventfd,
);

extern "C" fn eventfd(start: c_uint, flags: c_int) -> c_int {
    // SAFETY: plain system call.
    let fd = unsafe { libc::eventfd(start, flags) };
    LATEST.with(|latest| latest.set((fd >= 0).then_some(fd)));
    fd
}

/// A descriptor that libpcap made and may forget. Dropping this leaves it alone.
#[derive(Debug)]
pub struct Eventfd(Cell<Option<c_int>>);

impl Eventfd {
    /// Runs `make` and keeps what it leaves.
    pub fn of<T>(make: impl FnOnce() -> T) -> (T, Self) {
        LATEST.with(|latest| latest.set(None));
        let made = make();
        (made, Self(Cell::new(LATEST.with(Cell::take))))
    }

    /// libpcap activates the handle: from here on it closes the descriptor.
    pub fn leave_to_libpcap(&self) {
        self.0.set(None);
    }

    /// The handle was closed without having been activated.
    pub fn close(&self) {
        if let Some(fd) = self.0.take() {
            // SAFETY: libpcap made it and has forgotten it; taken once.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}
