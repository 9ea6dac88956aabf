//! libpcap's C types, as its headers (pcap/pcap.h, pcap/bpf.h of 1.10) declare them, and its codes.

use libc::{c_char, c_int, c_uchar, c_uint, c_ushort, timeval};

/// A `pcap_t` of the libpcap inside; only pointers to it exist.
#[repr(C)]
pub struct RealPcap {
    _private: [u8; 0],
}

/// struct pcap_dumper, pcap_if, hostent's like: passed through unseen.
#[repr(C)]
pub struct Opaque {
    _private: [u8; 0],
}

/// struct pcap_pkthdr.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PacketHeader {
    /// Microseconds, or nanoseconds in `tv_usec`, by the precision chosen.
    pub ts: timeval,
    pub caplen: c_uint,
    pub len: c_uint,
}

/// struct bpf_insn.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: c_ushort,
    pub jt: c_uchar,
    pub jf: c_uchar,
    pub k: c_uint,
}

/// struct bpf_program.
#[repr(C)]
pub struct BpfProgram {
    pub len: c_uint,
    pub instructions: *mut Instruction,
}

/// struct pcap_stat.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stat {
    pub received: c_uint,
    pub dropped: c_uint,
    pub dropped_by_interface: c_uint,
}

/// struct eproto of pcap/nametoaddr.h's neighbourhood: an Ethernet type and its name.
#[repr(C)]
pub struct Protocol {
    name: *const c_char,
    number: c_ushort,
}

// SAFETY: the name is a constant string.
unsafe impl Sync for Protocol {}

impl Protocol {
    pub const END: Self = Self { name: std::ptr::null(), number: 0 };

    pub const fn new(name: &'static std::ffi::CStr, number: c_ushort) -> Self {
        Self { name: name.as_ptr(), number }
    }
}

/// pcap_handler; the thread may end in it, or leave it by longjmp(3).
pub type Callback = unsafe extern "C-unwind" fn(*mut c_uchar, *const PacketHeader, *const c_uchar);

pub const ERRBUF_SIZE: usize = 256;
pub const PCAP_ERROR: c_int = -1;
pub const PCAP_ERROR_BREAK: c_int = -2;
pub const PCAP_ERROR_NOT_ACTIVATED: c_int = -3;
pub const PCAP_ERROR_NO_SUCH_DEVICE: c_int = -5;
pub const PCAP_ERROR_PERM_DENIED: c_int = -8;
pub const PCAP_ERROR_PROMISC_PERM_DENIED: c_int = -11;
pub const PCAP_WARNING: c_int = 1;
pub const DLT_EN10MB: c_int = 1;
pub const DLT_DOCSIS: c_int = 143;
/// MAXIMUM_SNAPLEN of libpcap's pcap-int.h: what an unset or senseless snapshot length becomes.
pub const MAXIMUM_SNAPLEN: c_int = 262_144;
pub const PCAP_D_INOUT: c_int = 0;
pub const PCAP_D_IN: c_int = 1;
pub const PCAP_D_OUT: c_int = 2;
pub const PCAP_TSTAMP_HOST: c_int = 0;
pub const PCAP_TSTAMP_HOST_HIPREC: c_int = 2;
pub const PCAP_TSTAMP_PRECISION_NANO: c_int = 1;

/// BPF_LD | BPF_B | BPF_ABS.
pub const BPF_LOAD_BYTE: c_ushort = 0x30;
/// BPF_LD | BPF_H | BPF_ABS.
pub const BPF_LOAD_HALF: c_ushort = 0x28;
/// BPF_JMP | BPF_JEQ | BPF_K.
pub const BPF_JUMP_EQUAL: c_ushort = 0x15;
/// BPF_RET | BPF_K.
pub const BPF_RETURN: c_ushort = 0x06;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<PacketHeader>(), 24);
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(size_of::<BpfProgram>(), 16);
        assert_eq!(size_of::<Stat>(), 12);
        assert_eq!(size_of::<Protocol>(), 16);
    }
}
