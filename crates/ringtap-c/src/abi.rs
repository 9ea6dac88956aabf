//! What C programs see: numbers and structures. Their comments are the header's.
//!
//! Owns the layout. A number keeps its meaning and a field its place for as long as the library's name has the number it has; a new
//! field goes behind the last one, and the size that a caller tells says which of them it knows.

#![allow(unreachable_pub)] // The header's, not other crates'.

use libc::{c_char, c_int};

/// It is done.
pub const RINGTAP_OK: c_int = 0;
/// A null or closed handle, a null pointer, a value out of range, a structure of an unknown size.
pub const RINGTAP_ERROR_ARGUMENT: c_int = -1;
/// The system refused, or there is no such interface; ringtap_error() has the words.
pub const RINGTAP_ERROR_FAILED: c_int = -2;
/// The system refused for want of a privilege: CAP_NET_RAW for packet sockets, CAP_NET_ADMIN and CAP_BPF for AF_XDP.
pub const RINGTAP_ERROR_PERMISSION: c_int = -3;
/// No packets can come any more: the interface was removed or moved, or the host uses it now. All that had come was given before.
pub const RINGTAP_ERROR_GONE: c_int = -4;
/// Another call with this handle is under way, in another thread.
pub const RINGTAP_ERROR_BUSY: c_int = -5;
/// A fault of the library's own. The handle can only be closed.
pub const RINGTAP_ERROR_INTERNAL: c_int = -6;
/// ringtap_break() was called. No error: the next call goes on.
pub const RINGTAP_BROKEN: c_int = -7;
/// ringtap_stop() was called, and all that had come was given.
pub const RINGTAP_END: c_int = -8;

/// AF_XDP where that takes nothing from the host against its will, else the packet ring.
pub const RINGTAP_BACKEND_AUTO: u32 = 0;
/// AF_XDP: packets leave the host's stack.
pub const RINGTAP_BACKEND_XDP: u32 = 1;
/// A packet socket's ring: packets are copied beside the host's stack.
pub const RINGTAP_BACKEND_PACKET: u32 = 2;

/// In place of a count that can't be read, or that counts other things as well.
pub const RINGTAP_UNKNOWN: u64 = 0xffff_ffff_ffff_ffff;
/// In place of unaccounted packets where a part of the sum is unknown.
pub const RINGTAP_UNACCOUNTED_UNKNOWN: i64 = 0x7fff_ffff_ffff_ffff;
/// Room for causes of loss in a ledger.
pub const RINGTAP_CAUSES: usize = 32;

/// In ringtap_packet.flags: its transport checksum is still to be computed, as this host sends it or has merged it.
pub const RINGTAP_CHECKSUM_PENDING: u32 = 1;

/// What to capture and how. ringtap_options_init() fills in the defaults; then change what should be otherwise.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Of this structure in bytes, as ringtap_options_init() was told.
    pub size: usize,
    /// Name of an interface in the calling thread's network namespace, which is up. It is copied. No default.
    pub interface: *const c_char,
    /// RINGTAP_BACKEND_…; default AUTO.
    pub backend: u32,
    /// 1 (default): take frames that are addressed to others, too.
    pub promiscuous: u32,
    /// 1: with AUTO, packets may be taken away from the host's stack on an interface that the host uses itself. Default 0.
    pub take: u32,
    /// Bytes given of a packet at most, up to 262144; 0 (default): all.
    pub snaplen: u32,
    /// Nanoseconds from a packet's arrival to its delivery at most, as long as the caller is waiting in ringtap_next_burst():
    /// 10000 to 1000000000; default 1000000. The longer, the less CPU is used.
    pub max_latency_ns: u64,
    /// Bytes that the rings of all queues may take together, 1 MiB to 16 GiB; default 32 MiB. A ring holds what comes while the caller is
    /// at work.
    pub ring_bytes: u64,
}

/// A packet, lent until the next call of ringtap_next_burst(), ringtap_release(), ringtap_stop() or ringtap_close().
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// The captured bytes, from the link-layer header on.
    pub data: *const u8,
    /// When it arrived, nanoseconds since 1970 (CLOCK_REALTIME); 0: the device did not say.
    pub arrival_ns: u64,
    /// How many bytes there are.
    pub captured_len: u32,
    /// How many there were on the wire; more than captured_len where the packet was cut.
    pub wire_len: u32,
    /// RINGTAP_CHECKSUM_PENDING or 0.
    pub flags: u32,
    /// Which of the receive queues that are read it came by, from 0 on.
    pub queue: u32,
}

/// Packets lost for one cause.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Drop {
    /// Its name, which stays valid and the same: "ring_full".
    pub cause: *const c_char,
    /// How many, or RINGTAP_UNKNOWN.
    pub packets: u64,
}

/// Where every packet went since ringtap_open(): offered = delivered + filtered + all drops + unaccounted.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Ledger {
    /// Packets that came to the device for this capture, or RINGTAP_UNKNOWN.
    pub offered: u64,
    /// Packets given by ringtap_next_burst().
    pub delivered: u64,
    /// Packets left to the host, or RINGTAP_UNKNOWN.
    pub filtered: u64,
    /// Packets known to be lost: the sum of the drops that are known.
    pub lost: u64,
    /// Delivered packets shorter than on the wire; no term of the sum.
    pub cut: u64,
    /// What no counter explains, or RINGTAP_UNACCOUNTED_UNKNOWN. Until ringtap_stop() packets that wait in a ring are in it; it is below
    /// 0 where more came out than was counted.
    pub unaccounted: i64,
    /// How many of the drops below are set.
    pub causes: usize,
    /// Each cause of loss, also those that lost nothing.
    pub drops: [Drop; RINGTAP_CAUSES],
}
