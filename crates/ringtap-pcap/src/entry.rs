//! The exported functions that take or make a `pcap_t`, but those that receive (`receive`): each finds the handle, asks the live capture of ours or passes the
//! inner handle to the real libpcap.
//!
//! Null and foreign pointers get PCAP_ERROR (or what the function says for "nothing"), never a crash.

use std::ffi::CStr;

use libc::{FILE, c_char, c_int, c_uchar, c_uint, c_void, timeval};

use crate::abi::{
    BpfProgram, DLT_DOCSIS, DLT_EN10MB, Opaque, PCAP_ERROR, PCAP_ERROR_NO_SUCH_DEVICE, PCAP_ERROR_NOT_ACTIVATED,
    PCAP_ERROR_PERM_DENIED, PCAP_ERROR_PROMISC_PERM_DENIED, RealPcap, Stat,
};
use crate::eventfd::Eventfd;
use crate::handle::{Handle, Wanted, write_error};
use crate::live::Live;
use crate::settings::{self, Device};
use crate::unwind::guard;
use crate::{activate, filter, real};

/// Functions that act on the inner handle alone, whatever the handle is.
macro_rules! on_inner {
    ($(fn $name:ident($p:ident $(, $argument:ident: $type:ty)*) -> $result:ty, else $otherwise:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($p: *mut Handle $(, $argument: $type)*) -> $result {
                // SAFETY: the caller's pointers are what pcap(3PCAP) says; the inner handle is valid as long as the handle.
                guard($otherwise, || unsafe {
                    Handle::of($p).map_or($otherwise, |handle| real::$name(handle.inner() $(, $argument)*))
                })
            }
        )*
    };
}

on_inner! {
    fn pcap_bufsize(p) -> c_int, else PCAP_ERROR;
    fn pcap_compile(p, program: *mut BpfProgram, text: *const c_char, optimize: c_int, netmask: c_uint) -> c_int, else PCAP_ERROR;
    fn pcap_datalink(p) -> c_int, else PCAP_ERROR;
    fn pcap_datalink_ext(p) -> c_int, else PCAP_ERROR;
    fn pcap_dump_fopen(p, file: *mut FILE) -> *mut Opaque, else std::ptr::null_mut();
    fn pcap_dump_open(p, path: *const c_char) -> *mut Opaque, else std::ptr::null_mut();
    fn pcap_dump_open_append(p, path: *const c_char) -> *mut Opaque, else std::ptr::null_mut();
    fn pcap_file(p) -> *mut FILE, else std::ptr::null_mut();
    fn pcap_get_tstamp_precision(p) -> c_int, else PCAP_ERROR;
    fn pcap_geterr(p) -> *mut c_char, else NO_HANDLE.as_ptr().cast_mut();
    fn pcap_is_swapped(p) -> c_int, else PCAP_ERROR;
    fn pcap_major_version(p) -> c_int, else PCAP_ERROR;
    fn pcap_minor_version(p) -> c_int, else PCAP_ERROR;
    fn pcap_perror(p, prefix: *const c_char) -> (), else ();
    fn pcap_snapshot(p) -> c_int, else PCAP_ERROR;
}

/// What pcap_geterr says of a pointer that is no handle.
const NO_HANDLE: &CStr = c"this is not an open pcap_t";

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_can_set_rfmon(p: *mut Handle) -> c_int {
    // SAFETY: the caller's pointer is what pcap(3PCAP) says; the inner handle is valid as long as the handle.
    guard(PCAP_ERROR, || unsafe {
        let handle = Handle::of(p).filter(|handle| !handle.is_spent());
        handle.map_or(PCAP_ERROR, |handle| real::pcap_can_set_rfmon(handle.inner()))
    })
}

/// Options: the real libpcap checks them and refuses activated handles; what it accepts is remembered.
macro_rules! option {
    ($(fn $name:ident($value:ident) sets $field:ident to $kept:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(p: *mut Handle, $value: c_int) -> c_int {
                guard(PCAP_ERROR, || {
                    // SAFETY: the caller's pointer is what pcap(3PCAP) says.
                    let Some(handle) = (unsafe { Handle::of(p) }) else { return PCAP_ERROR };
                    // SAFETY: the inner handle is valid as long as the handle.
                    let result = unsafe { real::$name(handle.inner(), $value) };
                    if result >= 0 && let Some(wanted) = &handle.wanted {
                        wanted.$field.set($kept);
                    }
                    result
                })
            }
        )*
    };
}

option! {
    fn pcap_set_buffer_size(bytes) sets buffer_bytes to bytes;
    fn pcap_set_immediate_mode(on) sets immediate to on != 0;
    fn pcap_set_promisc(on) sets promiscuous to on != 0;
    fn pcap_set_protocol_linux(protocol) sets protocol to protocol;
    fn pcap_set_rfmon(on) sets monitor to on != 0;
    fn pcap_set_snaplen(bytes) sets snaplen to bytes;
    fn pcap_set_timeout(ms) sets timeout_ms to ms;
    fn pcap_set_tstamp_type(kind) sets stamp_type to kind;
}

/// The precision is asked of the inner handle at activation.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_set_tstamp_precision(p: *mut Handle, precision: c_int) -> c_int {
    // SAFETY: the caller's pointer is what pcap(3PCAP) says; the inner handle is valid as long as the handle.
    guard(PCAP_ERROR, || unsafe {
        Handle::of(p).map_or(PCAP_ERROR, |handle| real::pcap_set_tstamp_precision(handle.inner(), precision))
    })
}

/// Handles the real libpcap makes, which stay its own.
macro_rules! made_by_real {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> *mut Handle {
                // SAFETY: the caller keeps the function's contract; the result is null or a handle that is ours now.
                guard(std::ptr::null_mut(), || unsafe { Handle::wrap(real::$name($($argument),*), None) })
            }
        )*
    };
}

made_by_real! {
    fn pcap_fopen_offline(file: *mut FILE, errbuf: *mut c_char);
    fn pcap_fopen_offline_with_tstamp_precision(file: *mut FILE, precision: c_uint, errbuf: *mut c_char);
    fn pcap_open_dead(link_type: c_int, snaplen: c_int);
    fn pcap_open_dead_with_tstamp_precision(link_type: c_int, snaplen: c_int, precision: c_uint);
    fn pcap_open_offline(path: *const c_char, errbuf: *mut c_char);
    fn pcap_open_offline_with_tstamp_precision(path: *const c_char, precision: c_uint, errbuf: *mut c_char);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_create(device: *const c_char, errbuf: *mut c_char) -> *mut Handle {
    guard(std::ptr::null_mut(), || {
        // SAFETY: null (which means "any") or a string, by pcap_create(3PCAP).
        let given = if device.is_null() { c"any" } else { unsafe { CStr::from_ptr(device) } };
        match Device::parse(given, settings::environment) {
            Ok(device) => {
                // SAFETY: a string, and the caller's error buffer.
                let (inner, eventfd) = Eventfd::of(|| unsafe { real::pcap_create(device.name.as_ptr(), errbuf) });
                Handle::wrap(inner, Some(Wanted::new(device, eventfd)))
            }
            Err(text) => {
                // SAFETY: the caller's error buffer has PCAP_ERRBUF_SIZE bytes.
                unsafe { write_error(errbuf, &text) };
                std::ptr::null_mut()
            }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_activate(p: *mut Handle) -> c_int {
    // SAFETY: the caller's pointer is what pcap(3PCAP) says.
    guard(PCAP_ERROR, || unsafe { Handle::of(p) }.map_or(PCAP_ERROR, activate::activate))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_open_live(
    device: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout_ms: c_int,
    errbuf: *mut c_char,
) -> *mut Handle {
    // SAFETY: the caller keeps pcap_open_live's contract, which is that of the functions it is made of.
    guard(std::ptr::null_mut(), || unsafe {
        let p = pcap_create(device, errbuf);
        if p.is_null() {
            return p;
        }
        let set = [pcap_set_snaplen(p, snaplen), pcap_set_promisc(p, promiscuous), pcap_set_timeout(p, timeout_ms)];
        let status = set.into_iter().find(|&status| status < 0).unwrap_or_else(|| pcap_activate(p));
        if status >= 0 {
            return p;
        }
        let name = if device.is_null() { c"any" } else { CStr::from_ptr(device) }.to_string_lossy().into_owned();
        let said = CStr::from_ptr(pcap_geterr(p)).to_string_lossy().into_owned();
        let meaning = CStr::from_ptr(real::pcap_statustostr(status)).to_string_lossy().into_owned();
        let text = match status {
            PCAP_ERROR => format!("{name}: {said}"),
            PCAP_ERROR_NO_SUCH_DEVICE | PCAP_ERROR_PERM_DENIED | PCAP_ERROR_PROMISC_PERM_DENIED if !said.is_empty() => {
                format!("{name}: {meaning} ({said})")
            }
            _ => format!("{name}: {meaning}"),
        };
        write_error(errbuf, &text);
        Handle::close(p);
        std::ptr::null_mut()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_close(p: *mut Handle) {
    // SAFETY: by pcap_close(3PCAP) nobody uses the handle any more.
    guard((), || unsafe { Handle::close(p) });
}

/// Safe in signal handlers and from other threads: a flag and one system call.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_breakloop(p: *mut Handle) {
    // SAFETY: the caller's pointer is what pcap(3PCAP) says.
    let Some(handle) = (unsafe { Handle::of(p) }) else { return };
    match handle.live() {
        Some(live) => live.break_loop(),
        // SAFETY: the inner handle is valid as long as the handle.
        None => unsafe { real::pcap_breakloop(handle.inner()) },
    }
}

/// A function of which live captures have their own form: `real` for the others.
fn choose<T>(
    p: *mut Handle,
    otherwise: T,
    live: impl FnOnce(&Handle, &Live) -> T,
    real: impl FnOnce(*mut RealPcap) -> T,
) -> T
where
    T: Copy,
{
    guard(otherwise, || {
        // SAFETY: the caller of the exported function gave what pcap(3PCAP) says.
        let Some(handle) = (unsafe { Handle::of(p) }) else { return otherwise };
        match handle.live() {
            Some(ours) => live(handle, ours),
            None => real(handle.inner()),
        }
    })
}

/// 0, or the error's text in its place and PCAP_ERROR.
fn report(handle: &Handle, result: Result<(), String>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(text) => {
            handle.set_error(&text);
            PCAP_ERROR
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_setfilter(p: *mut Handle, program: *mut BpfProgram) -> c_int {
    guard(PCAP_ERROR, || {
        // SAFETY: the caller's pointer is what pcap(3PCAP) says.
        let Some(handle) = (unsafe { Handle::of(p) }) else { return PCAP_ERROR };
        // SAFETY: null or a program as pcap_compile(3PCAP) made it.
        let given = unsafe { program.as_ref() }.filter(|program| !program.instructions.is_null());
        match (handle.live(), given) {
            (Some(live), Some(given)) => {
                // SAFETY: as many instructions as it says, by the same contract.
                let instructions = unsafe { std::slice::from_raw_parts(given.instructions, given.len as usize) };
                report(handle, live.set_filter(instructions))
            }
            // What the real libpcap would read or run all the same, it does not get to see.
            // SAFETY: the caller keeps pcap_setfilter's contract; the inner handle is valid as long as the handle.
            (None, given) => unsafe {
                let sound = given.is_some_and(|given| {
                    filter::is_sound(std::slice::from_raw_parts(given.instructions, given.len as usize))
                });
                match real::pcap_snapshot(handle.inner()) {
                    PCAP_ERROR_NOT_ACTIVATED => real::pcap_setfilter(handle.inner(), program),
                    _ if sound => real::pcap_setfilter(handle.inner(), program),
                    _ if given.is_some() => report(handle, Err("setfilter: bogus program".to_owned())),
                    _ => report(handle, Err("setfilter: No filter specified".to_owned())),
                }
            },
            (Some(_), None) => report(handle, Err("setfilter: No filter specified".to_owned())),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_setdirection(p: *mut Handle, direction: c_int) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |handle, live| report(handle, live.set_direction(direction)),
        // SAFETY: the inner handle is valid as long as the handle.
        |inner| unsafe { real::pcap_setdirection(inner, direction) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_stats(p: *mut Handle, stat: *mut Stat) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |handle, live| {
            let Some(now) = live.stats() else {
                handle.set_error("pcap_stats: the kernel's counters can't be read");
                return PCAP_ERROR;
            };
            // SAFETY: writable by pcap_stats's contract.
            unsafe { *stat = now };
            0
        },
        // SAFETY: the caller keeps pcap_stats's contract.
        |inner| unsafe { real::pcap_stats(inner, stat) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_getnonblock(p: *mut Handle, errbuf: *mut c_char) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |_, live| c_int::from(live.nonblocking()),
        // SAFETY: the caller keeps pcap_getnonblock's contract.
        |inner| unsafe { real::pcap_getnonblock(inner, errbuf) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_setnonblock(p: *mut Handle, on: c_int, errbuf: *mut c_char) -> c_int {
    guard(PCAP_ERROR, || {
        // SAFETY: the caller's pointer is what pcap(3PCAP) says.
        let Some(handle) = (unsafe { Handle::of(p) }) else { return PCAP_ERROR };
        if let Some(live) = handle.live() {
            live.set_nonblocking(on != 0);
            return 0;
        }
        // SAFETY: the caller keeps pcap_setnonblock's contract; the inner handle is valid as long as the handle.
        let result = unsafe { real::pcap_setnonblock(handle.inner(), on, errbuf) };
        // Before activation libpcap takes it for an option.
        if result == 0
            && let Some(wanted) = &handle.wanted
        {
            wanted.nonblocking.set(on != 0);
        }
        result
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_get_selectable_fd(p: *mut Handle) -> c_int {
    // SAFETY: the inner handle is valid as long as the handle.
    choose(p, PCAP_ERROR, |_, live| live.descriptor(), |inner| unsafe { real::pcap_get_selectable_fd(inner) })
}

/// Clients poll this one too (p0f, Zeek), so it is the selectable one.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_fileno(p: *mut Handle) -> c_int {
    // SAFETY: the inner handle is valid as long as the handle.
    choose(p, PCAP_ERROR, |_, live| live.descriptor(), |inner| unsafe { real::pcap_fileno(inner) })
}

/// Our descriptor tells everything by itself, so no timeout is required.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_get_required_select_timeout(p: *mut Handle) -> *const timeval {
    choose(
        p,
        std::ptr::null(),
        |_, _| std::ptr::null(),
        // SAFETY: the inner handle is valid as long as the handle.
        |inner| unsafe { real::pcap_get_required_select_timeout(inner) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_inject(p: *mut Handle, data: *const c_void, len: usize) -> c_int {
    if len > c_int::MAX as usize {
        // SAFETY: the caller's pointer is what pcap(3PCAP) says.
        if let Some(handle) = unsafe { Handle::of(p) } {
            handle.set_error(&format!("More than {} bytes cannot be injected", c_int::MAX));
        }
        return PCAP_ERROR;
    }
    choose(
        p,
        PCAP_ERROR,
        |handle, live| {
            // SAFETY: readable for `len` bytes by pcap_inject's contract.
            match live.send(unsafe { std::slice::from_raw_parts(data.cast(), len) }) {
                Ok(sent) => c_int::try_from(sent).unwrap_or(c_int::MAX),
                Err(text) => report(handle, Err(text)),
            }
        },
        // SAFETY: the caller keeps pcap_inject's contract.
        |inner| unsafe { real::pcap_inject(inner, data, len) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_sendpacket(p: *mut Handle, data: *const c_uchar, len: c_int) -> c_int {
    let Ok(len) = usize::try_from(len) else { return PCAP_ERROR };
    // SAFETY: the caller keeps pcap_sendpacket's contract, which is pcap_inject's.
    if unsafe { pcap_inject(p, data.cast(), len) } == PCAP_ERROR { PCAP_ERROR } else { 0 }
}

/// A list as libpcap gives it: malloc(3)ed, to be freed by the function of libpcap's that frees such lists.
fn give_list(values: &[c_int], list: *mut *mut c_int) -> c_int {
    // SAFETY: the memory is checked and has room for all values; `list` is writable by the caller's contract.
    unsafe {
        let memory: *mut c_int = libc::malloc(size_of_val(values)).cast();
        if memory.is_null() {
            return PCAP_ERROR;
        }
        std::ptr::copy_nonoverlapping(values.as_ptr(), memory, values.len());
        *list = memory;
    }
    values.len() as c_int
}

/// As libpcap has it: an Ethernet interface may carry DOCSIS frames, the loopback interface not.
fn link_types(live: &Live) -> &'static [c_int] {
    if live.is_loopback() { &[DLT_EN10MB] } else { &[DLT_EN10MB, DLT_DOCSIS] }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_list_datalinks(p: *mut Handle, list: *mut *mut c_int) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |_, live| give_list(link_types(live), list),
        // SAFETY: the caller keeps pcap_list_datalinks's contract.
        |inner| unsafe { real::pcap_list_datalinks(inner, list) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_set_datalink(p: *mut Handle, link_type: c_int) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |handle, live| {
            // SAFETY: the inner handle is a dead one, valid as long as the handle; a new one takes its place.
            unsafe {
                if !link_types(live).contains(&link_type) {
                    // Says by its own words that this link type is not one of the device's.
                    return real::pcap_set_datalink(handle.inner(), link_type);
                }
                let precision = real::pcap_get_tstamp_precision(handle.inner()) as c_uint;
                let snaplen = real::pcap_snapshot(handle.inner());
                let dead = real::pcap_open_dead_with_tstamp_precision(link_type, snaplen, precision);
                if dead.is_null() {
                    return PCAP_ERROR;
                }
                handle.replace_inner(dead);
            }
            0
        },
        // SAFETY: the inner handle is valid as long as the handle.
        |inner| unsafe { real::pcap_set_datalink(inner, link_type) },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_list_tstamp_types(p: *mut Handle, list: *mut *mut c_int) -> c_int {
    choose(
        p,
        PCAP_ERROR,
        |_, live| give_list(live.stamp_types(), list),
        // SAFETY: the caller keeps pcap_list_tstamp_types's contract.
        |inner| unsafe { real::pcap_list_tstamp_types(inner, list) },
    )
}
