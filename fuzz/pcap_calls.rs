//! Owns: the C functions of libpcap that the `pcap` target calls, as libpcap's headers declare them.
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

pub const PCAP_ERROR: c_int = -1;
pub const PCAP_ERROR_NOT_ACTIVATED: c_int = -3;
pub const CLONE_NEWNET: c_int = 0x4000_0000;

#[repr(C)]
pub struct Pcap {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Default)]
pub struct Header {
    pub ts: [i64; 2],
    pub caplen: c_uint,
    pub len: c_uint,
}

#[repr(C)]
#[derive(Default)]
pub struct Stat {
    pub counts: [c_uint; 3],
}

#[repr(C)]
pub struct Program {
    pub len: c_uint,
    pub instructions: *mut c_void,
}

pub type Callback = extern "C" fn(*mut c_uchar, *const Header, *const c_uchar);

unsafe extern "C" {
    pub fn unshare(flags: c_int) -> c_int;
    pub fn fmemopen(buffer: *mut c_void, len: usize, mode: *const c_char) -> *mut c_void;
    pub fn fclose(file: *mut c_void) -> c_int;

    pub fn pcap_activate(p: *mut Pcap) -> c_int;
    pub fn pcap_breakloop(p: *mut Pcap);
    pub fn pcap_bufsize(p: *mut Pcap) -> c_int;
    pub fn pcap_can_set_rfmon(p: *mut Pcap) -> c_int;
    pub fn pcap_close(p: *mut Pcap);
    pub fn pcap_compile(
        p: *mut Pcap,
        program: *mut Program,
        text: *const c_char,
        optimize: c_int,
        mask: c_uint,
    ) -> c_int;
    pub fn pcap_create(device: *const c_char, errbuf: *mut c_char) -> *mut Pcap;
    pub fn pcap_datalink(p: *mut Pcap) -> c_int;
    pub fn pcap_datalink_ext(p: *mut Pcap) -> c_int;
    pub fn pcap_dispatch(p: *mut Pcap, count: c_int, callback: Option<Callback>, user: *mut c_uchar) -> c_int;
    pub fn pcap_dump(user: *mut c_uchar, header: *const Header, data: *const c_uchar);
    pub fn pcap_dump_close(dumper: *mut c_void);
    pub fn pcap_dump_open(p: *mut Pcap, path: *const c_char) -> *mut c_void;
    pub fn pcap_fileno(p: *mut Pcap) -> c_int;
    pub fn pcap_fopen_offline_with_tstamp_precision(
        file: *mut c_void,
        precision: c_uint,
        errbuf: *mut c_char,
    ) -> *mut Pcap;
    pub fn pcap_free_datalinks(list: *mut c_int);
    pub fn pcap_free_tstamp_types(list: *mut c_int);
    pub fn pcap_freecode(program: *mut Program);
    pub fn pcap_get_required_select_timeout(p: *mut Pcap) -> *const c_void;
    pub fn pcap_get_selectable_fd(p: *mut Pcap) -> c_int;
    pub fn pcap_get_tstamp_precision(p: *mut Pcap) -> c_int;
    pub fn pcap_geterr(p: *mut Pcap) -> *mut c_char;
    pub fn pcap_getnonblock(p: *mut Pcap, errbuf: *mut c_char) -> c_int;
    pub fn pcap_inject(p: *mut Pcap, data: *const c_void, len: usize) -> c_int;
    pub fn pcap_is_swapped(p: *mut Pcap) -> c_int;
    pub fn pcap_list_datalinks(p: *mut Pcap, list: *mut *mut c_int) -> c_int;
    pub fn pcap_list_tstamp_types(p: *mut Pcap, list: *mut *mut c_int) -> c_int;
    pub fn pcap_lookupnet(device: *const c_char, net: *mut c_uint, mask: *mut c_uint, errbuf: *mut c_char) -> c_int;
    pub fn pcap_loop(p: *mut Pcap, count: c_int, callback: Option<Callback>, user: *mut c_uchar) -> c_int;
    pub fn pcap_major_version(p: *mut Pcap) -> c_int;
    pub fn pcap_minor_version(p: *mut Pcap) -> c_int;
    pub fn pcap_next(p: *mut Pcap, header: *mut Header) -> *const c_uchar;
    pub fn pcap_next_ex(p: *mut Pcap, header: *mut *mut Header, data: *mut *const c_uchar) -> c_int;
    pub fn pcap_open_dead(link_type: c_int, snaplen: c_int) -> *mut Pcap;
    pub fn pcap_open_live(
        device: *const c_char,
        snaplen: c_int,
        promisc: c_int,
        ms: c_int,
        errbuf: *mut c_char,
    ) -> *mut Pcap;
    pub fn pcap_sendpacket(p: *mut Pcap, data: *const c_uchar, len: c_int) -> c_int;
    pub fn pcap_set_buffer_size(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_datalink(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_immediate_mode(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_promisc(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_protocol_linux(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_rfmon(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_snaplen(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_timeout(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_tstamp_precision(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_set_tstamp_type(p: *mut Pcap, value: c_int) -> c_int;
    pub fn pcap_setdirection(p: *mut Pcap, direction: c_int) -> c_int;
    pub fn pcap_setfilter(p: *mut Pcap, program: *mut Program) -> c_int;
    pub fn pcap_setnonblock(p: *mut Pcap, on: c_int, errbuf: *mut c_char) -> c_int;
    pub fn pcap_snapshot(p: *mut Pcap) -> c_int;
    pub fn pcap_stats(p: *mut Pcap, stat: *mut Stat) -> c_int;
}
