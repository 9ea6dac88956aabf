//! The exported functions that receive: pcap_loop, pcap_dispatch, pcap_next, pcap_next_ex.
//!
//! Owns the stack beneath a client's callback and beneath a sleep: no destructor is pending there, so that the thread may be
//! cancelled and the callback may jump away (`unwind`). Where a call stands is in `call`.

use libc::{c_int, c_uchar};

use crate::abi::{Callback, PCAP_ERROR, PCAP_ERROR_BREAK, PacketHeader};
use crate::call::{Call, Next};
use crate::handle::Handle;
use crate::live::{End, Live};
use crate::real;
use crate::unwind::{self, guard};

/// How a call on a live capture ended: libpcap's code, its error in place.
fn ended(handle: &Handle, end: End) -> c_int {
    match end {
        End::Broken => PCAP_ERROR_BREAK,
        End::Failed(text) => {
            handle.set_error(&text);
            PCAP_ERROR
        }
    }
}

/// What a call on a live capture comes to: a packet, or its end.
#[derive(Clone, Copy)]
enum Come {
    Packet(PacketHeader, *const c_uchar),
    End(c_int),
}

/// The next packet of a call; sleeps as the mode says. The thread may be cancelled here (`unwind`): plain data only.
fn come(handle: &Handle, live: &Live, call: &mut Call) -> Come {
    loop {
        // No system call, so nothing to hold cancellation off from.
        if let Some((header, data)) = unwind::calmly(None, || live.next_packet(call)) {
            return Come::Packet(header, data);
        }
        unwind::cancel_here();
        let failed = Err(PCAP_ERROR);
        match guard(failed, || live.proceed(call).map_err(|end| ended(handle, end))) {
            Ok(Next::Packets) => {}
            Ok(Next::Sleep(sleep)) => live.sleep(call, sleep),
            Ok(Next::Done(count)) => return Come::End(c_int::try_from(count).unwrap_or(c_int::MAX)),
            Err(code) => return Come::End(code),
        }
    }
}

/// pcap_loop and pcap_dispatch. The thread may be cancelled here, and in the callback, which may also jump away.
///
/// # Safety
/// By pcap_loop(3PCAP): an open handle, and a callback that takes `user`.
unsafe fn process(p: *mut Handle, count: c_int, callback: Callback, user: *mut c_uchar, endless: bool) -> c_int {
    // SAFETY: by contract.
    let Some(handle) = (unsafe { Handle::of(p) }) else { return PCAP_ERROR };
    let Some(live) = handle.live() else {
        // SAFETY: by contract; the inner handle is valid as long as the handle.
        return unsafe {
            if endless {
                real::pcap_loop(handle.inner(), count, callback, user)
            } else {
                real::pcap_dispatch(handle.inner(), count, callback, user)
            }
        };
    };
    let mut call = live.begin(u64::try_from(count).ok().filter(|&count| count > 0), endless);
    loop {
        match come(handle, live, &mut call) {
            // SAFETY: by contract; header and data are valid until the next step.
            Come::Packet(header, data) => live.call_back(|| unsafe { callback(user, &header, data) }),
            Come::End(code) if endless => return code.min(0),
            Come::End(code) => return code,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_loop(
    p: *mut Handle,
    count: c_int,
    callback: Option<Callback>,
    user: *mut c_uchar,
) -> c_int {
    // SAFETY: the caller keeps pcap_loop's contract.
    callback.map_or(PCAP_ERROR, |callback| unsafe { process(p, count, callback, user, true) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_dispatch(
    p: *mut Handle,
    count: c_int,
    callback: Option<Callback>,
    user: *mut c_uchar,
) -> c_int {
    // SAFETY: the caller keeps pcap_dispatch's contract.
    callback.map_or(PCAP_ERROR, |callback| unsafe { process(p, count, callback, user, false) })
}

/// One packet of a live capture, kept until the next call; its code is 1 then.
fn kept(handle: &Handle, live: &Live) -> (c_int, *mut PacketHeader, *const c_uchar) {
    let nothing = (std::ptr::null_mut(), std::ptr::null());
    let mut call = live.begin(Some(1), false);
    let (header, data) = match come(handle, live, &mut call) {
        // SAFETY: the data is valid until the next step.
        Come::Packet(header, data) => guard(nothing, || unsafe { live.keep(header, data) }),
        Come::End(code) => return (code, nothing.0, nothing.1),
    };
    // Gives the frame back; the call is done by its number.
    match come(handle, live, &mut call) {
        Come::End(code) if code >= 0 && !header.is_null() => (1, header, data),
        Come::End(code) => (code.min(PCAP_ERROR), nothing.0, nothing.1),
        Come::Packet(..) => (PCAP_ERROR, nothing.0, nothing.1),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_next_ex(
    p: *mut Handle,
    header: *mut *mut PacketHeader,
    data: *mut *const c_uchar,
) -> c_int {
    // SAFETY: the caller keeps pcap_next_ex's contract.
    let Some(handle) = (unsafe { Handle::of(p) }) else { return PCAP_ERROR };
    let Some(live) = handle.live() else {
        // SAFETY: as above; the inner handle is valid as long as the handle.
        return unsafe { real::pcap_next_ex(handle.inner(), header, data) };
    };
    let (code, kept_header, kept_data) = kept(handle, live);
    if code == 1 {
        // SAFETY: both are writable by contract, and point to what the live capture keeps until the next call.
        unsafe {
            *header = kept_header;
            *data = kept_data;
        }
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pcap_next(p: *mut Handle, header: *mut PacketHeader) -> *const c_uchar {
    // SAFETY: the caller keeps pcap_next's contract.
    let Some(handle) = (unsafe { Handle::of(p) }) else { return std::ptr::null() };
    let Some(live) = handle.live() else {
        // SAFETY: as above; the inner handle is valid as long as the handle.
        return unsafe { real::pcap_next(handle.inner(), header) };
    };
    let (code, kept_header, data) = kept(handle, live);
    if code != 1 {
        return std::ptr::null();
    }
    // SAFETY: the caller's header is writable; the kept one is valid until the next call.
    unsafe { *header = *kept_header };
    data
}
