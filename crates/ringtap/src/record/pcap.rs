//! Encodes the classic capture format with nanosecond stamps (draft-ietf-opsawg-pcap), in native byte order.
//!
//! Owns the bytes of the file header and of records. It writes into memory only.

use super::LONGEST_READABLE;

/// Magic of files with nanosecond stamps.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Length of what precedes each packet.
pub const RECORD_HEADER_LEN: usize = 16;

/// Appends a file header; `snaplen` 0 for no limit.
pub fn file_header(out: &mut Vec<u8>, link_type: u16, snaplen: u32) {
    out.extend_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
    out.extend_from_slice(&2_u16.to_ne_bytes());
    out.extend_from_slice(&4_u16.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    // Some readers refuse 0.
    let snaplen = if snaplen == 0 { LONGEST_READABLE as u32 } else { snaplen };
    out.extend_from_slice(&snaplen.to_ne_bytes());
    out.extend_from_slice(&u32::from(link_type).to_ne_bytes());
}

/// Appends a record: a packet in two parts, as it lies in a ring, with its stamp in nanoseconds since 1970.
///
/// The format's seconds have 32 bits: from 2106 on they wrap.
pub fn record(out: &mut Vec<u8>, stamp_ns: u64, wire_len: u32, data: (&[u8], &[u8])) {
    let len = (data.0.len() + data.1.len()) as u32;
    out.extend_from_slice(&((stamp_ns / 1_000_000_000) as u32).to_ne_bytes());
    out.extend_from_slice(&((stamp_ns % 1_000_000_000) as u32).to_ne_bytes());
    out.extend_from_slice(&len.to_ne_bytes());
    out.extend_from_slice(&wire_len.to_ne_bytes());
    out.extend_from_slice(data.0);
    out.extend_from_slice(data.1);
}
