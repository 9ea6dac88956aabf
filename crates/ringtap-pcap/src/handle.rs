//! What a `pcap_t` is here: our own box around a handle of the real libpcap, and around a live capture of ours if it is one.
//!
//! Every `pcap_t` we hand out is a [`Handle`], so the two kinds are never told apart by looking into memory that isn't ours.
//! The inner handle is always there: before activation it holds and checks the options; a live capture of ours has a "dead"
//! one of the same link type, snapshot length and precision, which compiles filters, opens dump files and keeps the error
//! text.

use std::cell::{Cell, OnceCell};
use std::ffi::CString;

use libc::{c_char, c_int};

use crate::abi::{ERRBUF_SIZE, RealPcap};
use crate::eventfd::Eventfd;
use crate::live::Live;
use crate::real;
use crate::settings::{Device, Settings};

/// In every live handle; another value means that the pointer is none of ours.
const MAGIC: u64 = 0x5249_4e47_5441_5031;

/// What `pcap_t *` points to.
pub struct Handle {
    magic: Cell<u64>,
    inner: Cell<*mut RealPcap>,
    /// The device and what was set, of a handle that pcap_create made.
    pub wanted: Option<Wanted>,
    live: OnceCell<Live>,
}

/// What a client asked for before activation; the real libpcap has accepted each value.
#[derive(Debug)]
pub struct Wanted {
    pub device: CString,
    pub settings: Settings,
    pub eventfd: Eventfd,
    pub snaplen: Cell<c_int>,
    pub promiscuous: Cell<bool>,
    pub monitor: Cell<bool>,
    pub nonblocking: Cell<bool>,
    pub timeout_ms: Cell<c_int>,
    pub immediate: Cell<bool>,
    pub buffer_bytes: Cell<c_int>,
    pub stamp_type: Cell<c_int>,
    pub protocol: Cell<c_int>,
    /// What the real libpcap's pcap_activate said, if it was asked.
    pub real_status: Cell<Option<c_int>>,
}

impl Wanted {
    pub fn new(device: Device, eventfd: Eventfd) -> Self {
        Self {
            device: device.name,
            settings: device.settings,
            eventfd,
            snaplen: Cell::new(crate::abi::MAXIMUM_SNAPLEN),
            promiscuous: Cell::new(false),
            monitor: Cell::new(false),
            nonblocking: Cell::new(false),
            timeout_ms: Cell::new(0),
            immediate: Cell::new(false),
            buffer_bytes: Cell::new(0),
            stamp_type: Cell::new(crate::abi::PCAP_TSTAMP_HOST),
            protocol: Cell::new(0),
            real_status: Cell::new(None),
        }
    }
}

impl Handle {
    /// A box around `inner`, which it owns from here on; null stays null.
    pub fn wrap(inner: *mut RealPcap, wanted: Option<Wanted>) -> *mut Self {
        if inner.is_null() {
            return std::ptr::null_mut();
        }
        let handle = Self { magic: Cell::new(MAGIC), inner: Cell::new(inner), wanted, live: OnceCell::new() };
        Box::into_raw(Box::new(handle))
    }

    /// The handle behind a client's pointer; `None` for null and for what we never handed out.
    ///
    /// # Safety
    /// `p` is null, a pointer we handed out that is not closed, or at least readable for the size of a magic number.
    pub unsafe fn of<'a>(p: *mut Self) -> Option<&'a Self> {
        // SAFETY: by contract; a null pointer is not read.
        unsafe { (!p.is_null() && (*p).magic.get() == MAGIC).then(|| &*p) }
    }

    /// Ends the capture and frees everything.
    ///
    /// # Safety
    /// As [`Handle::of`]; nobody uses `p` afterwards, as pcap_close(3PCAP) demands.
    pub unsafe fn close(p: *mut Self) {
        // SAFETY: by contract.
        if unsafe { Self::of(p) }.is_some() {
            // SAFETY: it was made by Box::into_raw and is not closed yet.
            let handle = unsafe { Box::from_raw(p) };
            handle.magic.set(0);
        }
    }

    /// The handle of the real libpcap; never null.
    pub fn inner(&self) -> *mut RealPcap {
        self.inner.get()
    }

    /// Puts another one in its place and closes the old one.
    pub fn replace_inner(&self, inner: *mut RealPcap) {
        let old = self.inner.replace(inner);
        // SAFETY: we owned it, and nothing of it is in use: clients get its error text and lists, which are not kept.
        unsafe { real::pcap_close(old) };
        if let Some(wanted) = &self.wanted {
            wanted.eventfd.close();
        }
    }

    /// Whether the real libpcap failed to activate it. It has forgotten the device then, and reads its name all the same when
    /// asked again.
    pub fn is_spent(&self) -> bool {
        self.wanted.as_ref().and_then(|wanted| wanted.real_status.get()).is_some_and(|status| status < 0)
    }

    /// The live capture, if this handle is one of ours and active.
    pub fn live(&self) -> Option<&Live> {
        self.live.get()
    }

    /// Makes it one.
    pub fn set_live(&self, live: Live) {
        // pcap_activate refuses a second time before it comes here.
        let _ = self.live.set(live);
    }

    /// Puts a text where pcap_geterr(3PCAP) finds it.
    pub fn set_error(&self, text: &str) {
        // SAFETY: the inner handle's error buffer is PCAP_ERRBUF_SIZE bytes long and lives as long as the handle.
        unsafe { write_error(real::pcap_geterr(self.inner()), text) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: owned, and closed once.
        unsafe { real::pcap_close(self.inner.get()) };
        if let Some(wanted) = &self.wanted {
            wanted.eventfd.close();
        }
    }
}

/// Copies `text`, cut to fit, into an error buffer; a null buffer is left alone.
///
/// # Safety
/// `buffer` is null or writable for PCAP_ERRBUF_SIZE bytes.
pub unsafe fn write_error(buffer: *mut c_char, text: &str) {
    if buffer.is_null() {
        return;
    }
    let end = (0..ERRBUF_SIZE.min(text.len() + 1)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let text = &text.as_bytes()[..end];
    // SAFETY: by contract; the text and its end fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
        *buffer.add(text.len()) = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_too_long_is_cut_between_two_characters() {
        let mut buffer = [1 as c_char; ERRBUF_SIZE + 1];
        let text = "x".to_owned() + &"é".repeat(ERRBUF_SIZE);
        // SAFETY: the buffer is longer than an error buffer.
        unsafe { write_error(buffer.as_mut_ptr(), &text) };
        let end = buffer.iter().position(|&byte| byte == 0).unwrap();
        assert_eq!((end, buffer[ERRBUF_SIZE]), (ERRBUF_SIZE - 1, 1));
        // SAFETY: null is left alone.
        unsafe { write_error(std::ptr::null_mut(), &text) };
    }
}
