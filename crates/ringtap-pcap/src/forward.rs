//! Exported names that take no `pcap_t`: passed on to the libpcap inside as they are, and its two variables.
//!
//! Nothing of ours runs in between, so there is nothing to catch, and a thread may be cancelled in them (see `unwind`).

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::{FILE, c_char, c_int, c_long, c_uchar, c_uint};

use crate::abi::{BpfProgram, Instruction, Opaque, PacketHeader, Protocol};
use crate::real;

include!(concat!(env!("OUT_DIR"), "/data.rs"));

macro_rules! forward {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod renamed {
            use super::*;
            unsafe extern "C-unwind" {
                $(
                    #[link_name = concat!("ringtap_real_", stringify!($name))]
                    pub fn $name($($argument: $type),*) $(-> $result)?;
                )*
            }
        }
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the same contract as the function's own, kept by the caller.
                unsafe { renamed::$name($($argument),*) }
            }
        )*
    };
}

forward! {
    fn bpf_dump(program: *const BpfProgram, option: c_int);
    fn bpf_filter(program: *const Instruction, packet: *const c_uchar, wire_len: c_uint, len: c_uint) -> c_uint;
    fn bpf_image(instruction: *const Instruction, at: c_int) -> *mut c_char;
    fn bpf_validate(program: *const Instruction, len: c_int) -> c_int;
    fn pcap_compile_nopcap(snaplen: c_int, link_type: c_int, program: *mut BpfProgram, text: *const c_char, optimize: c_int, netmask: c_uint) -> c_int;
    fn pcap_datalink_name_to_val(name: *const c_char) -> c_int;
    fn pcap_datalink_val_to_description(link_type: c_int) -> *const c_char;
    fn pcap_datalink_val_to_description_or_dlt(link_type: c_int) -> *const c_char;
    fn pcap_datalink_val_to_name(link_type: c_int) -> *const c_char;
    fn pcap_dump(user: *mut c_uchar, header: *const PacketHeader, data: *const c_uchar);
    fn pcap_dump_close(dumper: *mut Opaque);
    fn pcap_dump_file(dumper: *mut Opaque) -> *mut FILE;
    fn pcap_dump_flush(dumper: *mut Opaque) -> c_int;
    fn pcap_dump_ftell(dumper: *mut Opaque) -> c_long;
    fn pcap_dump_ftell64(dumper: *mut Opaque) -> i64;
    fn pcap_ether_aton(text: *const c_char) -> *mut c_uchar;
    fn pcap_ether_hostton(name: *const c_char) -> *mut c_uchar;
    fn pcap_findalldevs(list: *mut *mut Opaque, errbuf: *mut c_char) -> c_int;
    fn pcap_free_datalinks(list: *mut c_int);
    fn pcap_free_tstamp_types(list: *mut c_int);
    fn pcap_freealldevs(list: *mut Opaque);
    fn pcap_freecode(program: *mut BpfProgram);
    fn pcap_init(options: c_uint, errbuf: *mut c_char) -> c_int;
    fn pcap_lookupdev(errbuf: *mut c_char) -> *mut c_char;
    fn pcap_nametoaddr(name: *const c_char) -> *mut *mut c_uint;
    fn pcap_nametoaddrinfo(name: *const c_char) -> *mut Opaque;
    fn pcap_nametoeproto(name: *const c_char) -> c_int;
    fn pcap_nametollc(name: *const c_char) -> c_int;
    fn pcap_nametonetaddr(name: *const c_char) -> c_uint;
    fn pcap_nametoport(name: *const c_char, port: *mut c_int, protocol: *mut c_int) -> c_int;
    fn pcap_nametoportrange(name: *const c_char, first: *mut c_int, last: *mut c_int, protocol: *mut c_int) -> c_int;
    fn pcap_nametoproto(name: *const c_char) -> c_int;
    fn pcap_next_etherent(file: *mut FILE) -> *mut Opaque;
    fn pcap_offline_filter(program: *const BpfProgram, header: *const PacketHeader, data: *const c_uchar) -> c_int;
    fn pcap_statustostr(status: c_int) -> *const c_char;
    fn pcap_strerror(error: c_int) -> *mut c_char;
    fn pcap_tstamp_type_name_to_val(name: *const c_char) -> c_int;
    fn pcap_tstamp_type_val_to_description(kind: c_int) -> *const c_char;
    fn pcap_tstamp_type_val_to_name(kind: c_int) -> *const c_char;
}

/// The real one's words, and ours behind them, so that `tcpdump --version` tells which library runs.
#[unsafe(no_mangle)]
extern "C" fn pcap_lib_version() -> *const c_char {
    static TEXT: OnceLock<std::ffi::CString> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        // SAFETY: the function takes nothing and returns a constant string.
        let real = unsafe { CStr::from_ptr(real::pcap_lib_version()) };
        let ours = format!("{}, live capture by Ringtap {}\0", real.to_string_lossy(), env!("CARGO_PKG_VERSION"));
        CStr::from_bytes_until_nul(ours.as_bytes()).map(CStr::to_owned).unwrap_or_default()
    });
    text.as_ptr()
}

/// The net and mask of an interface; `ringtap:` names and their options are those of the interface itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcap_lookupnet(
    device: *const c_char,
    net: *mut c_uint,
    mask: *mut c_uint,
    errbuf: *mut c_char,
) -> c_int {
    unsafe extern "C" {
        #[link_name = "ringtap_real_pcap_lookupnet"]
        fn lookupnet(device: *const c_char, net: *mut c_uint, mask: *mut c_uint, errbuf: *mut c_char) -> c_int;
    }
    // SAFETY: null or the caller's string.
    let plain = unsafe { crate::settings::plain_name(device) };
    let device = plain.as_ref().map_or(device, |name| name.as_ptr());
    // SAFETY: the caller keeps the function's contract; the name lives through the call.
    unsafe { lookupnet(device, net, mask, errbuf) }
}
