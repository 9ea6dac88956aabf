//! The functions that C programs call. Their comments are the header's.
//!
//! Owns what is checked before anything is done: handles, pointers, sizes; that a panic becomes a code; and where the words of an error
//! are kept.
//!
//! What each of them relies on, and the comments do not repeat: a handle is null or open (or readable memory, which is refused), every
//! other pointer null or valid for its type, a name ends with a NUL.

#![allow(unreachable_pub)] // Exported to C.
#![allow(clippy::missing_safety_doc)] // The comments are the header's; the contract is above.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use libc::{c_char, c_int};

use crate::abi::{
    Drop, Ledger, Options, Packet, RINGTAP_CAUSES, RINGTAP_ERROR_ARGUMENT, RINGTAP_ERROR_BUSY, RINGTAP_ERROR_FAILED,
    RINGTAP_ERROR_INTERNAL, RINGTAP_OK, RINGTAP_UNACCOUNTED_UNKNOWN, RINGTAP_UNKNOWN,
};
use crate::capture::Capture;
use crate::options::Wanted;
use crate::text::{self, Refusal};

/// In every open handle; another value means that the pointer is none of ours.
const MAGIC: u64 = 0x5249_4e47_5441_5043;

/// An open capture.
pub struct Handle {
    magic: AtomicU64,
    /// Calls that are under way.
    calls: AtomicUsize,
    capture: Capture,
}

/// A call that is under way: until it ends, the handle can't be closed.
struct InCall<'a>(&'a Handle);

impl std::ops::Deref for InCall<'_> {
    type Target = Capture;

    fn deref(&self) -> &Capture {
        &self.0.capture
    }
}

impl std::ops::Drop for InCall<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

// The header allows calls of several threads with one handle.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Capture>();
};

/// The capture behind a client's pointer; `None` for null and for what is no open handle.
///
/// # Safety
/// `handle` is null, an open handle, or at least readable for the size of a magic number.
unsafe fn capture_of<'a>(handle: *const Handle) -> Option<InCall<'a>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: by contract. What is none of ours is only read.
    let is_open = || unsafe { (*handle).magic.load(Ordering::SeqCst) == MAGIC };
    if !is_open() {
        return None;
    }
    // SAFETY: it is ours.
    let call = unsafe { &*handle };
    call.calls.fetch_add(1, Ordering::SeqCst);
    // Whoever closes looks at the calls after it has taken the magic number away, so that one of both sees the other.
    let call = InCall(call);
    is_open().then_some(call)
}

/// Runs what a call does; a panic (which has said its words on standard error) becomes RINGTAP_ERROR_INTERNAL.
fn guard(body: impl FnOnce() -> Result<c_int, Refusal>) -> Result<c_int, Refusal> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Refusal::of(RINGTAP_ERROR_INTERNAL)))
}

/// Runs a call with a handle, and keeps the words of its error there.
///
/// # Safety
/// As [`capture_of`].
unsafe fn call(handle: *const Handle, body: impl FnOnce(&Capture) -> Result<c_int, Refusal>) -> c_int {
    // SAFETY: by contract.
    let Some(capture) = (unsafe { capture_of(handle) }) else { return RINGTAP_ERROR_ARGUMENT };
    guard(|| body(&capture)).unwrap_or_else(|refusal| {
        capture.keep_error(&refusal.text);
        refusal.code
    })
}

/// A structure whose size a caller tells: it is of this version, as there has been no other.
fn check_size(what: &str, told: usize, ours: usize) -> Result<(), Refusal> {
    if told == ours {
        return Ok(());
    }
    Err(Refusal::argument(format!("{what} of {told} bytes, where this library has {ours}: header and library differ")))
}

/// Fills in the defaults. `size` is sizeof(struct ringtap_options).
///
/// Returns RINGTAP_OK, or RINGTAP_ERROR_ARGUMENT for a null pointer or a size that this library does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_options_init(options: *mut Options, size: usize) -> c_int {
    if options.is_null() || size != size_of::<Options>() {
        return RINGTAP_ERROR_ARGUMENT;
    }
    // SAFETY: writable for this size by contract.
    unsafe { options.write_unaligned(Options::new()) };
    RINGTAP_OK
}

/// Opens a capture. Packets are received from here on, and kept in the rings until ringtap_next_burst() gives them. Only packets that come
/// in are captured, none that this host sends.
///
/// Returns RINGTAP_OK and sets `*handle`, or an error and sets it to NULL; ringtap_error(NULL) has the words then, on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_open(options: *const Options, handle: *mut *mut Handle) -> c_int {
    let opened = guard(|| {
        if handle.is_null() {
            return Err(Refusal::argument("ringtap_open: no place for the handle"));
        }
        // SAFETY: writable by contract.
        unsafe { handle.write(ptr::null_mut()) };
        if options.is_null() {
            return Err(Refusal::argument("ringtap_open: no options"));
        }
        // SAFETY: the size comes first in every version.
        let size = unsafe { (&raw const (*options).size).read_unaligned() };
        check_size("ringtap_options", size, size_of::<Options>())?;
        // SAFETY: as large as it says, and the name in it ends with a NUL, by contract.
        let wanted = unsafe { Wanted::read(&options.read_unaligned())? };
        let capture = Capture::open(&wanted)?;
        let opened =
            Box::into_raw(Box::new(Handle { magic: AtomicU64::new(MAGIC), calls: AtomicUsize::new(0), capture }));
        // SAFETY: as above.
        unsafe { handle.write(opened) };
        Ok(RINGTAP_OK)
    });
    opened.unwrap_or_else(|refusal| {
        text::keep_unopened(&refusal.text);
        refusal.code
    })
}

/// Gives the next packets, in order of their arrival by one queue, at most 64. Those given before go back to the ring first.
///
/// Waits until packets come, for `timeout_ms` milliseconds at most: 0 only looks, below 0 waits for good.
///
/// Returns how many there are and sets `*packets` to the first of them, or 0 and NULL when the time has passed, or an error, RINGTAP_BROKEN
/// or RINGTAP_END.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_next_burst(
    handle: *mut Handle,
    timeout_ms: c_int,
    packets: *mut *const Packet,
) -> c_int {
    if !packets.is_null() {
        // SAFETY: writable by contract.
        unsafe { packets.write(ptr::null()) };
    }
    let give = |capture: &Capture| {
        if packets.is_null() {
            return Err(Refusal::argument("ringtap_next_burst: no place for the packets"));
        }
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let (first, count) = capture.next_burst(timeout)?;
        // SAFETY: as above.
        unsafe { packets.write(first) };
        Ok(count as c_int)
    };
    // SAFETY: by contract.
    unsafe { call(handle, give) }
}

/// Gives the packets of the last burst back before the next call of ringtap_next_burst(), which does it otherwise.
///
/// Returns RINGTAP_OK, RINGTAP_ERROR_ARGUMENT or RINGTAP_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_release(handle: *mut Handle) -> c_int {
    // SAFETY: by contract.
    unsafe { call(handle, |capture| capture.release().map(|()| RINGTAP_OK)) }
}

/// Ends the call of ringtap_next_burst() that is under way, or else the next one, with RINGTAP_BROKEN. For any thread and for signal
/// handlers: async-signal-safe, and errno stays what it was.
///
/// Returns RINGTAP_OK or RINGTAP_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_break(handle: *mut Handle) -> c_int {
    // SAFETY: by contract; errno is the thread's own. Nothing in here allocates, locks or panics.
    unsafe {
        let Some(capture) = capture_of(handle) else { return RINGTAP_ERROR_ARGUMENT };
        let errno = *libc::__errno_location();
        capture.break_off();
        *libc::__errno_location() = errno;
    }
    RINGTAP_OK
}

/// Ends the flow of packets: they stay with the host from now on. ringtap_next_burst() gives what had come, then RINGTAP_END, and the
/// ledger is exact then. Packets of the last burst go back.
///
/// Returns RINGTAP_OK, also when it was called before, RINGTAP_ERROR_ARGUMENT or RINGTAP_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_stop(handle: *mut Handle) -> c_int {
    // SAFETY: by contract.
    unsafe { call(handle, |capture| capture.stop().map(|()| RINGTAP_OK)) }
}

/// Tells where the packets went since ringtap_open(). For any thread, also while another is in ringtap_next_burst(); not for signal
/// handlers. `size` is sizeof(struct ringtap_ledger).
///
/// Returns RINGTAP_OK or RINGTAP_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_ledger(handle: *mut Handle, ledger: *mut Ledger, size: usize) -> c_int {
    let read = |capture: &Capture| {
        check_size("ringtap_ledger", size, size_of::<Ledger>())?;
        if ledger.is_null() {
            return Err(Refusal::argument("ringtap_ledger: no place for the ledger"));
        }
        let told = as_told(&capture.ledger());
        // SAFETY: writable for this size by contract.
        unsafe { ledger.write_unaligned(told) };
        Ok(RINGTAP_OK)
    };
    // SAFETY: by contract.
    unsafe { call(handle, read) }
}

const _: () = assert!(ringtap::Cause::ALL.len() <= RINGTAP_CAUSES, "each cause has room in a ledger");

/// The core's ledger as the header has it.
fn as_told(ledger: &ringtap::Ledger) -> Ledger {
    let causes = text::causes();
    let mut drops = [Drop { cause: ptr::null(), packets: RINGTAP_UNKNOWN }; RINGTAP_CAUSES];
    for (told, (cause, name)) in drops.iter_mut().zip(causes) {
        // What is not in it can't happen here.
        let packets = ledger.drops.get(cause).copied().unwrap_or(Some(0));
        *told = Drop { cause: name.as_ptr(), packets: packets.unwrap_or(RINGTAP_UNKNOWN) };
    }
    Ledger {
        offered: ledger.offered.unwrap_or(RINGTAP_UNKNOWN),
        delivered: ledger.delivered,
        filtered: ledger.filtered.unwrap_or(RINGTAP_UNKNOWN),
        lost: ledger.lost(),
        cut: ledger.cut,
        unaccounted: ledger.unaccounted().unwrap_or(RINGTAP_UNACCOUNTED_UNKNOWN),
        causes: causes.len(),
        drops,
    }
}

/// Says why the last call with this handle failed that did; with NULL, why this thread's last ringtap_open() failed.
///
/// Returns a text of one line in UTF-8, empty where nothing failed. It is the calling thread's until that calls ringtap_error() again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_error(handle: *const Handle) -> *const c_char {
    // SAFETY: by contract.
    let text = || match unsafe { capture_of(handle) } {
        Some(capture) => capture.error(),
        None if handle.is_null() => text::unopened(),
        None => "the handle is not open".to_owned(),
    };
    catch_unwind(AssertUnwindSafe(|| text::to_read(&text()))).unwrap_or(c"".as_ptr())
}

/// Says in words what a code means. The text stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn ringtap_strerror(code: c_int) -> *const c_char {
    text::of_code(code).as_ptr()
}

/// Says what could not be had when the capture was opened and goes on without, one sentence for each `index` from 0 on; NULL behind the
/// last one, and for a handle that is null. Valid until ringtap_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_warning(handle: *const Handle, index: usize) -> *const c_char {
    // SAFETY: by contract.
    let capture = unsafe { capture_of(handle) };
    // They stay where they are until the handle is closed.
    capture.and_then(|capture| capture.warnings.get(index).map(|warning| warning.as_ptr())).unwrap_or(ptr::null())
}

/// Names the back end that is used: "xdp" or "packet"; NULL for a handle that is null. Valid until ringtap_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_backend(handle: *const Handle) -> *const c_char {
    // SAFETY: by contract.
    unsafe { capture_of(handle) }.map_or(ptr::null(), |capture| capture.backend.as_ptr())
}

/// Tells of which kind the packets are, as capture files say it: 1 is Ethernet (LINKTYPE_ of www.tcpdump.org/linktypes.html).
///
/// Returns the value, RINGTAP_ERROR_FAILED where capture files know no such kind, or RINGTAP_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_link_type(handle: *const Handle) -> c_int {
    // SAFETY: by contract.
    let capture = unsafe { capture_of(handle) };
    capture.map_or(RINGTAP_ERROR_ARGUMENT, |capture| capture.link_type.map_or(RINGTAP_ERROR_FAILED, c_int::from))
}

/// Ends the capture, puts back what was set on the host for it, and frees everything, packets that are still lent included. The handle is
/// no longer valid then, for no thread.
///
/// Returns RINGTAP_OK; RINGTAP_ERROR_ARGUMENT for a null handle; RINGTAP_ERROR_BUSY, with everything as it was, while another thread is in
/// a call with it: break that off first, and wait for its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringtap_close(handle: *mut Handle) -> c_int {
    // SAFETY: null, open, or at least readable, by contract. What is none of ours is only read.
    let is_open = !handle.is_null() && unsafe { (*handle).magic.load(Ordering::SeqCst) == MAGIC };
    if !is_open {
        return RINGTAP_ERROR_ARGUMENT;
    }
    {
        // SAFETY: it is ours.
        let open = unsafe { &*handle };
        // Of two that close, one does.
        if open.magic.compare_exchange(MAGIC, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return RINGTAP_ERROR_ARGUMENT;
        }
        if open.calls.load(Ordering::SeqCst) > 0 {
            open.capture.keep_error(&Refusal::of(RINGTAP_ERROR_BUSY).text);
            open.magic.store(MAGIC, Ordering::SeqCst);
            return RINGTAP_ERROR_BUSY;
        }
    }
    // SAFETY: Box::into_raw made it; its magic number is gone, and no call is under way.
    let closed = guard(|| unsafe {
        drop(Box::from_raw(handle));
        Ok(RINGTAP_OK)
    });
    closed.unwrap_or(RINGTAP_ERROR_INTERNAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{open, queue};

    #[test]
    fn nothing_is_closed_beneath_a_call_and_a_closed_handle_is_refused() {
        let capture = open("closing", vec![queue(1)]);
        let handle =
            Box::into_raw(Box::new(Handle { magic: AtomicU64::new(MAGIC), calls: AtomicUsize::new(0), capture }));
        // SAFETY: open.
        unsafe {
            let call = capture_of(handle).unwrap();
            assert_eq!(ringtap_close(handle), RINGTAP_ERROR_BUSY);
            assert!(capture_of(handle).is_some(), "it is as it was");
            drop(call);
            // As after a close whose memory nobody has used since.
            (*handle).magic.store(0, Ordering::SeqCst);
            assert_eq!(ringtap_close(handle), RINGTAP_ERROR_ARGUMENT);
            assert!(capture_of(handle).is_none());
            (*handle).magic.store(MAGIC, Ordering::SeqCst);
            assert_eq!(ringtap_close(handle), RINGTAP_OK);
        }
    }
}
