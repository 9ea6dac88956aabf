//! The ways out of Rust that are no return: panics, a client's cancelled thread (pthread_cancel(3)), longjmp(3) from its callback.
//!
//! glibc cancels a thread by unwinding its stack, in a system call of its choice. A frame of ours with a destructor pending would
//! end the program there. So a client's thread can be cancelled, or jump away, at these places only, and the frames that
//! are on the stack then hold plain data and are `extern "C-unwind"`:
//!
//! - in the client's callback;
//! - in [`sleep_on`] and [`sleep_until`], which a call without packets spends its time in;
//! - in [`cancel_here`], before each look at the rings;
//! - in the libpcap inside, where it captures.
//!
//! Everywhere else cancellation waits: [`guard`] holds it off. That is deferred cancellation, the default; a thread that chose
//! PTHREAD_CANCEL_ASYNCHRONOUS may call no library but those that say they can bear it (pthreads(7)).

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, clockid_t, nfds_t, pollfd, sigset_t, timespec};

/// PTHREAD_CANCEL_DISABLE of pthread.h, the same in glibc and musl.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

// Cancellation points: they may unwind, which the libc crate's declarations rule out.
unsafe extern "C-unwind" {
    fn clock_nanosleep(clock: clockid_t, flags: c_int, until: *const timespec, left: *mut timespec) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn pthread_testcancel();
}

/// Runs what a C entry point does, with cancellation held off; a panic (which has said its words on standard error) becomes
/// `otherwise`.
pub fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: a valid state and an integer for the old one; it can't fail then, and glibc does it by atomics alone.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    let done = calmly(otherwise, body);
    // SAFETY: the state that was.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    done
}

/// [`guard`] without the price of holding cancellation off, for what makes no system call.
pub fn calmly<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Ends this thread here if it was cancelled.
pub fn cancel_here() {
    // SAFETY: takes nothing; the frames above are made for it.
    unsafe { pthread_testcancel() };
}

/// ppoll(2), a cancellation point.
pub fn sleep_on(fds: &mut [pollfd], timeout: Option<&timespec>) -> c_int {
    let timeout = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as many valid entries as it says, and a timeout that is null or valid for the call.
    unsafe { ppoll(fds.as_mut_ptr(), fds.len() as nfds_t, timeout, std::ptr::null()) }
}

/// Sleeps until CLOCK_MONOTONIC reaches `instant_ns`, or a signal comes; a cancellation point.
pub fn sleep_until(instant_ns: u64) {
    let until = timespec_of(instant_ns);
    // SAFETY: a valid instant; what is left of it is not asked for.
    unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut()) };
}

/// Nanoseconds in the kernel's form.
pub fn timespec_of(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_entrys_error() {
        assert_eq!(guard(-1, || 5), 5);
        assert_eq!(guard(-1, || panic!("said on standard error")), -1);
    }
}
