//! The libpcap inside, under the names build.rs gave it: the functions that need more than being passed on. A thread may be
//! cancelled in those that wait for packets (see `unwind`).

use libc::{FILE, c_char, c_int, c_uchar, c_uint};

use crate::abi::{BpfProgram, Callback, Instruction, Opaque, PacketHeader, RealPcap, Stat};

macro_rules! real {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C-unwind" {
            $(
                #[link_name = concat!("ringtap_real_", stringify!($name))]
                pub fn $name($($argument: $type),*) $(-> $result)?;
            )*
        }
    };
}

real! {
    fn pcap_dispatch(p: *mut RealPcap, count: c_int, callback: Callback, user: *mut c_uchar) -> c_int;
    fn pcap_loop(p: *mut RealPcap, count: c_int, callback: Callback, user: *mut c_uchar) -> c_int;
    fn pcap_next(p: *mut RealPcap, header: *mut PacketHeader) -> *const c_uchar;
    fn pcap_next_ex(p: *mut RealPcap, header: *mut *mut PacketHeader, data: *mut *const c_uchar) -> c_int;
    fn bpf_filter(program: *const Instruction, packet: *const c_uchar, wire_len: c_uint, len: c_uint) -> c_uint;
    fn bpf_validate(program: *const Instruction, len: c_int) -> c_int;
    fn pcap_activate(p: *mut RealPcap) -> c_int;
    fn pcap_breakloop(p: *mut RealPcap);
    fn pcap_close(p: *mut RealPcap);
    fn pcap_create(device: *const c_char, errbuf: *mut c_char) -> *mut RealPcap;
    fn pcap_fileno(p: *mut RealPcap) -> c_int;
    fn pcap_fopen_offline(file: *mut FILE, errbuf: *mut c_char) -> *mut RealPcap;
    fn pcap_fopen_offline_with_tstamp_precision(file: *mut FILE, precision: c_uint, errbuf: *mut c_char) -> *mut RealPcap;
    fn pcap_free_tstamp_types(list: *mut c_int);
    fn pcap_get_required_select_timeout(p: *mut RealPcap) -> *const libc::timeval;
    fn pcap_get_selectable_fd(p: *mut RealPcap) -> c_int;
    fn pcap_get_tstamp_precision(p: *mut RealPcap) -> c_int;
    fn pcap_geterr(p: *mut RealPcap) -> *mut c_char;
    fn pcap_getnonblock(p: *mut RealPcap, errbuf: *mut c_char) -> c_int;
    fn pcap_inject(p: *mut RealPcap, data: *const libc::c_void, len: usize) -> c_int;
    fn pcap_lib_version() -> *const c_char;
    fn pcap_list_datalinks(p: *mut RealPcap, list: *mut *mut c_int) -> c_int;
    fn pcap_list_tstamp_types(p: *mut RealPcap, list: *mut *mut c_int) -> c_int;
    fn pcap_open_dead(link_type: c_int, snaplen: c_int) -> *mut RealPcap;
    fn pcap_open_dead_with_tstamp_precision(link_type: c_int, snaplen: c_int, precision: c_uint) -> *mut RealPcap;
    fn pcap_open_offline(path: *const c_char, errbuf: *mut c_char) -> *mut RealPcap;
    fn pcap_open_offline_with_tstamp_precision(path: *const c_char, precision: c_uint, errbuf: *mut c_char) -> *mut RealPcap;
    fn pcap_set_buffer_size(p: *mut RealPcap, bytes: c_int) -> c_int;
    fn pcap_set_datalink(p: *mut RealPcap, link_type: c_int) -> c_int;
    fn pcap_set_immediate_mode(p: *mut RealPcap, on: c_int) -> c_int;
    fn pcap_set_promisc(p: *mut RealPcap, on: c_int) -> c_int;
    fn pcap_set_protocol_linux(p: *mut RealPcap, protocol: c_int) -> c_int;
    fn pcap_set_rfmon(p: *mut RealPcap, on: c_int) -> c_int;
    fn pcap_set_snaplen(p: *mut RealPcap, bytes: c_int) -> c_int;
    fn pcap_set_timeout(p: *mut RealPcap, ms: c_int) -> c_int;
    fn pcap_set_tstamp_precision(p: *mut RealPcap, precision: c_int) -> c_int;
    fn pcap_set_tstamp_type(p: *mut RealPcap, kind: c_int) -> c_int;
    fn pcap_setdirection(p: *mut RealPcap, direction: c_int) -> c_int;
    fn pcap_setfilter(p: *mut RealPcap, program: *mut BpfProgram) -> c_int;
    fn pcap_setnonblock(p: *mut RealPcap, on: c_int, errbuf: *mut c_char) -> c_int;
    fn pcap_stats(p: *mut RealPcap, stat: *mut Stat) -> c_int;
    fn pcap_statustostr(status: c_int) -> *const c_char;
    // Taken by the functions that hand over a handle's own libpcap handle and nothing else (entry.rs).
    fn pcap_bufsize(p: *mut RealPcap) -> c_int;
    fn pcap_can_set_rfmon(p: *mut RealPcap) -> c_int;
    fn pcap_compile(p: *mut RealPcap, program: *mut BpfProgram, text: *const c_char, optimize: c_int, netmask: c_uint) -> c_int;
    fn pcap_datalink(p: *mut RealPcap) -> c_int;
    fn pcap_datalink_ext(p: *mut RealPcap) -> c_int;
    fn pcap_dump_fopen(p: *mut RealPcap, file: *mut FILE) -> *mut Opaque;
    fn pcap_dump_open(p: *mut RealPcap, path: *const c_char) -> *mut Opaque;
    fn pcap_dump_open_append(p: *mut RealPcap, path: *const c_char) -> *mut Opaque;
    fn pcap_file(p: *mut RealPcap) -> *mut FILE;
    fn pcap_is_swapped(p: *mut RealPcap) -> c_int;
    fn pcap_major_version(p: *mut RealPcap) -> c_int;
    fn pcap_minor_version(p: *mut RealPcap) -> c_int;
    fn pcap_perror(p: *mut RealPcap, prefix: *const c_char);
    fn pcap_snapshot(p: *mut RealPcap) -> c_int;
}
