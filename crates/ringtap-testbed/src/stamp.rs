//! The stamp that numbers every packet of the generator.
//!
//! Owns the layout of the first 22 bytes of the UDP payload, all big-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic [`MAGIC`], "RTap" |
//! | 4 | 2 | stream: tells several generators apart |
//! | 6 | 8 | sequence number, counted from the generator's first |
//! | 14 | 8 | transmit time, CLOCK_MONOTONIC in nanoseconds |
//!
//! `struct stamp` in bpf/generate.bpf.c writes it. Does not own the headers in front (`generate::frame`).

/// First four bytes of every stamped payload.
pub const MAGIC: u32 = 0x5254_6170;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 22;

/// Where the UDP payload starts in an untagged IPv4 frame without options.
pub const OFFSET_IPV4: usize = 42;
/// As [`OFFSET_IPV4`], with one VLAN tag.
pub const OFFSET_IPV4_VLAN: usize = 46;
/// Where the UDP payload starts in an untagged IPv6 frame without extension headers.
pub const OFFSET_IPV6: usize = 62;
/// As [`OFFSET_IPV6`], with one VLAN tag.
pub const OFFSET_IPV6_VLAN: usize = 66;

/// A packet's number and time of departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which generator sent it.
    pub stream: u16,
    /// Which packet it is.
    pub seq: u64,
    /// CLOCK_MONOTONIC when it was stamped, in nanoseconds.
    pub time_ns: u64,
}

impl Stamp {
    /// The stamp of an Ethernet frame that a generator sent: UDP over IPv4 or IPv6, with or without a VLAN tag, without IP
    /// options. `None` for every other frame.
    #[inline]
    pub fn from_frame(frame: &[u8]) -> Option<Self> {
        let ethertype = |at: usize| Some([*frame.get(at)?, *frame.get(at + 1)?]);
        let (kind, tag) = match ethertype(12)? {
            [0x81, 0x00] => (ethertype(16)?, 4),
            kind => (kind, 0),
        };
        let (protocol, payload) = match kind {
            [0x08, 0x00] => (*frame.get(tag + 23)?, tag + OFFSET_IPV4),
            [0x86, 0xdd] => (*frame.get(tag + 20)?, tag + OFFSET_IPV6),
            _ => return None,
        };
        if protocol != 17 {
            return None;
        }
        Self::from_payload(frame.get(payload..)?)
    }

    /// The stamp at the start of a UDP payload, as an ordinary socket sees it.
    #[inline]
    pub fn from_payload(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<STAMP_BYTES>()?;
        let [m0, m1, m2, m3, s0, s1, rest @ ..] = bytes;
        if u32::from_be_bytes([*m0, *m1, *m2, *m3]) != MAGIC {
            return None;
        }
        let (seq, time) = rest.split_first_chunk::<8>()?;
        Some(Self {
            stream: u16::from_be_bytes([*s0, *s1]),
            seq: u64::from_be_bytes(*seq),
            time_ns: u64::from_be_bytes(*time.first_chunk::<8>()?),
        })
    }

    /// The stamp as bytes, as the generator writes it.
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.stream.to_be_bytes());
        bytes[6..14].copy_from_slice(&self.seq.to_be_bytes());
        bytes[14..].copy_from_slice(&self.time_ns.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { stream: 0x1234, seq: 0x0102_0304_0506_0708, time_ns: 0x1112_1314_1516_1718 };

    #[test]
    fn layout_is_the_documented_one() {
        let bytes = STAMP.to_bytes();
        assert_eq!(&bytes[..4], b"RTap");
        assert_eq!(bytes[4..6], [0x12, 0x34]);
        assert_eq!(bytes[6..14], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[14..22], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(Stamp::from_payload(&bytes), Some(STAMP));
        // struct stamp of the BPF program names the same fields in the same order.
        let source = include_str!("../../../bpf/generate.bpf.c");
        let body = source.split("struct stamp {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or("");
        let fields: Vec<&str> = body.split(';').map(str::trim).filter(|field| !field.is_empty()).collect();
        assert_eq!(fields, ["__be32 magic", "__be16 stream", "__be64 seq", "__be64 time_ns"]);
    }

    #[test]
    fn short_or_foreign_payloads_have_no_stamp() {
        let bytes = STAMP.to_bytes();
        for length in 0..STAMP_BYTES {
            assert_eq!(Stamp::from_payload(&bytes[..length]), None);
        }
        assert_eq!(Stamp::from_payload(&[0; 64]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..128)) {
            let _ = Stamp::from_frame(&bytes);
        }
    }
}
