//! Owns: the IPv4 header (RFC 791 §3.1, RFC 2474, RFC 3168) with its options.
//! Does not: reassemble fragments; verify the checksum on its own ([`checksum`](crate::checksum) does on request).

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, within};
use crate::error::{Header, HeaderError, at_least};
use crate::options::{Options, RawOption};

mod field {
    use core::ops::Range;
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TRAFFIC_CLASS: usize = 1;
    pub(super) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(super) const IDENTIFICATION: Range<usize> = 4..6;
    pub(super) const FRAGMENT: Range<usize> = 6..8;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const SOURCE: Range<usize> = 12..16;
    pub(super) const DESTINATION: Range<usize> = 16..20;
}

/// Option types with their copied flag and class (RFC 791 §3.1).
mod option {
    pub(super) const LOOSE_SOURCE_ROUTE: u8 = 131;
    pub(super) const STRICT_SOURCE_ROUTE: u8 = 137;
}

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Length of a header without options, in bytes.
    pub const MIN_LEN: usize = 20;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the payload, as far as it was captured,
    /// and possibly link padding behind it.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when the header with its options is not all there,
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) when the version is not 4,
    /// [`Fault::BadLength`](crate::Fault::BadLength) for a header length below 20 bytes, or a total length below the
    /// header length (a total length of 0 is admitted, see [`total_length`](Self::total_length)).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Ipv4, bytes, 1)?;
        let version = bytes[field::VERSION_IHL] >> 4;
        if version != 4 {
            return Err(HeaderError::version(Header::Ipv4, version));
        }
        at_least(Header::Ipv4, bytes, Self::MIN_LEN)?;
        let header = Self { bytes };
        let header_len = header.header_len();
        if header_len < Self::MIN_LEN {
            return Err(HeaderError::length(Header::Ipv4, header_len));
        }
        at_least(Header::Ipv4, bytes, header_len)?;
        let total = usize::from(header.total_length());
        if total != 0 && total < header_len {
            return Err(HeaderError::length(Header::Ipv4, total));
        }
        Ok(header)
    }

    /// Length of the header with options, 20 to 60 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes[field::VERSION_IHL] & 0x0f) * 4
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.bytes[field::TRAFFIC_CLASS] >> 2
    }

    /// Explicit congestion notification (RFC 3168), 0 to 3.
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.bytes[field::TRAFFIC_CLASS] & 3
    }

    /// Total length field: header and payload in bytes. 0 comes from segmentation offload, where the packet was
    /// captured before it was cut up: the field can't say the length then, and everything captured counts.
    #[inline]
    #[must_use]
    pub fn total_length(&self) -> u16 {
        be16(self.bytes, field::TOTAL_LENGTH)
    }

    /// Identification, common to the fragments of one packet.
    #[inline]
    #[must_use]
    pub fn identification(&self) -> u16 {
        be16(self.bytes, field::IDENTIFICATION)
    }

    #[inline]
    fn fragment_word(&self) -> u16 {
        be16(self.bytes, field::FRAGMENT)
    }

    /// "Don't fragment".
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.fragment_word() & 0x4000 != 0
    }

    /// "More fragments".
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.fragment_word() & 0x2000 != 0
    }

    /// Where this fragment's payload belongs, in bytes (a multiple of 8, up to 65528).
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_word() & 0x1fff) * 8
    }

    /// Whether this is a part of a packet, the first one or a later one.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment_word() & 0x3fff != 0
    }

    /// Time to live, in hops.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.bytes[field::TTL]
    }

    /// Number of the protocol that follows ([`protocol`](crate::protocol)).
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.bytes[field::PROTOCOL]
    }

    /// Header checksum field.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes, field::CHECKSUM)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes, field::SOURCE))
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes, field::DESTINATION))
    }

    /// The header's own bytes, options included.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..self.header_len()]
    }

    /// The options; kinds carry the copied flag and class (RFC 791 §3.1).
    #[inline]
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options::new(&self.header()[Self::MIN_LEN..])
    }

    /// Whether a source route with stops to go is among the options: the destination address is then not the last one.
    #[must_use]
    pub fn is_source_routed(&self) -> bool {
        // RFC 791: the route is done when the pointer (from 1, counting kind and length) is past the option's length.
        let pending = |RawOption { kind, data }: RawOption<'_>| {
            matches!(kind, option::LOOSE_SOURCE_ROUTE | option::STRICT_SOURCE_ROUTE)
                && data.first().is_some_and(|&pointer| usize::from(pointer) <= data.len() + 2)
        };
        self.header_len() > Self::MIN_LEN && self.options().filter_map(Result::ok).any(pending)
    }

    /// The payload, limited by the total length and by what was captured.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let end = match self.total_length() {
            0 => self.bytes.len(),
            total => usize::from(total),
        };
        within(self.bytes, self.header_len(), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    fn header(ihl: u8, total: u16) -> [u8; 64] {
        let mut bytes = [0u8; 64];
        bytes[0] = 0x40 | ihl;
        bytes[1] = 0xb9;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[4..6].copy_from_slice(&[0x12, 0x34]);
        bytes[6..8].copy_from_slice(&[0x60, 0x03]);
        bytes[8..12].copy_from_slice(&[64, 17, 0xab, 0xcd]);
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes
    }

    #[test]
    fn fields() {
        let bytes = header(5, 28);
        let view = Ipv4::new(&bytes).unwrap();
        assert_eq!((view.header_len(), view.dscp(), view.ecn(), view.total_length()), (20, 46, 1, 28));
        assert_eq!((view.identification(), view.ttl(), view.protocol(), view.checksum()), (0x1234, 64, 17, 0xabcd));
        assert!(view.dont_fragment() && view.more_fragments() && view.is_fragment());
        assert_eq!(view.fragment_offset(), 24);
        assert_eq!(view.source(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(view.destination(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(view.payload().len(), 8);
    }

    #[test]
    fn lengths() {
        assert_eq!(Ipv4::new(&header(4, 28)).unwrap_err().fault, Fault::BadLength { found: 16 });
        assert_eq!(Ipv4::new(&header(6, 23)).unwrap_err().fault, Fault::BadLength { found: 23 });
        assert_eq!(Ipv4::new(&header(15, 60)[..59]).unwrap_err().fault, Fault::Truncated { need: 60, have: 59 });
        assert_eq!(Ipv4::new(&header(5, 0)).unwrap().payload().len(), 44);
        assert_eq!(Ipv4::new(&header(5, 1500)).unwrap().payload().len(), 44);
        assert_eq!(Ipv4::new(&[0x60]).unwrap_err().fault, Fault::BadVersion { found: 6 });
        assert!(Ipv4::new(&[]).is_err());
    }

    #[test]
    fn source_route() {
        let mut bytes = header(7, 28);
        bytes[20..27].copy_from_slice(&[131, 7, 4, 192, 0, 2, 1]);
        assert!(Ipv4::new(&bytes).unwrap().is_source_routed());
        bytes[22] = 8;
        assert!(!Ipv4::new(&bytes).unwrap().is_source_routed());
    }
}
