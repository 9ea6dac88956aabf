//! Owns: GRE headers: version 0 with checksum, key and sequence number (RFC 2784, RFC 2890), and the version 1 of
//! PPTP (RFC 2637 §4.1).
//! Does not: read source routes (RFC 1701 §2; deprecated by RFC 2784) or ERSPAN behind the header.

use crate::bytes::{be16, be32};
use crate::error::{Header, HeaderError, at_least};

mod field {
    use core::ops::Range;
    pub(super) const FLAGS: Range<usize> = 0..2;
    pub(super) const PROTOCOL: Range<usize> = 2..4;
    pub(super) const OPTIONAL: usize = 4;
    /// Version 1 splits the key in two.
    pub(super) const PPTP_LENGTH: Range<usize> = 4..6;
    pub(super) const PPTP_CALL: Range<usize> = 6..8;
}

mod flag {
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const ROUTING: u16 = 0x4000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    /// "Strict source route" and the first bit of "recursion control": with ROUTING, the bits that RFC 2784 §2.3
    /// has a receiver refuse.
    pub(super) const OBSOLETE: u16 = 0x0c00;
    /// Version 1 only.
    pub(super) const ACKNOWLEDGMENT: u16 = 0x0080;
    pub(super) const VERSION: u16 = 0x0007;
}

/// A GRE header of version 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre<'a> {
    bytes: &'a [u8],
}

impl<'a> Gre<'a> {
    /// Length of a header without optional fields, in bytes.
    pub const MIN_LEN: usize = 4;

    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when the header with its optional fields is not all there,
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) for versions above 1,
    /// [`Fault::BadFlags`](crate::Fault::BadFlags) for source routes, and for a version 1 without key or with checksum.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Gre, bytes, Self::MIN_LEN)?;
        let header = Self { bytes };
        let flags = header.flags();
        let refused = match header.version() {
            0 => flags & (flag::ROUTING | flag::OBSOLETE) != 0,
            1 => flags & (flag::CHECKSUM | flag::ROUTING | flag::OBSOLETE | flag::KEY) != flag::KEY,
            version => return Err(HeaderError::version(Header::Gre, version)),
        };
        if refused {
            return Err(HeaderError::flags(Header::Gre, flags));
        }
        at_least(Header::Gre, bytes, header.header_len())?;
        Ok(header)
    }

    #[inline]
    fn flags(&self) -> u16 {
        be16(self.bytes, field::FLAGS)
    }

    #[inline]
    fn has(&self, bit: u16) -> bool {
        self.flags() & bit != 0
    }

    /// Version: 0, or 1 for PPTP.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        (self.flags() & flag::VERSION) as u8
    }

    /// EtherType of what follows; 0x880b (PPP) in version 1.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u16 {
        be16(self.bytes, field::PROTOCOL)
    }

    /// Length of the header with its optional fields, 4 to 16 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        let acknowledgment = self.version() == 1 && self.has(flag::ACKNOWLEDGMENT);
        self.optional(flag::SEQUENCE) + 4 * (usize::from(self.has(flag::SEQUENCE)) + usize::from(acknowledgment))
    }

    /// Where the optional field of `bit` stands, or would stand: checksum, key, sequence number, in this order.
    #[inline]
    fn optional(&self, bit: u16) -> usize {
        let before = |other: u16| if other > bit && self.has(other) { 4 } else { 0 };
        field::OPTIONAL + before(flag::CHECKSUM) + before(flag::KEY)
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        be32(self.bytes, at..at + 4)
    }

    /// Checksum over header and payload, where there is one (version 0).
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> Option<u16> {
        self.has(flag::CHECKSUM).then(|| (self.word(self.optional(flag::CHECKSUM)) >> 16) as u16)
    }

    /// Key (version 0, RFC 2890 §2.1), where there is one.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<u32> {
        (self.version() == 0 && self.has(flag::KEY)).then(|| self.word(self.optional(flag::KEY)))
    }

    /// Payload length in bytes and call identifier (version 1).
    #[inline]
    #[must_use]
    pub fn call(&self) -> Option<(u16, u16)> {
        (self.version() == 1).then(|| (be16(self.bytes, field::PPTP_LENGTH), be16(self.bytes, field::PPTP_CALL)))
    }

    /// Sequence number, where there is one.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> Option<u32> {
        self.has(flag::SEQUENCE).then(|| self.word(self.optional(flag::SEQUENCE)))
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn version_0() {
        let plain = Gre::new(&[0, 0, 8, 0, 0x45]).unwrap();
        assert_eq!((plain.version(), plain.protocol(), plain.header_len()), (0, 0x0800, 4));
        assert_eq!((plain.checksum(), plain.key(), plain.sequence(), plain.call()), (None, None, None, None));
        assert_eq!(plain.payload(), [0x45]);

        let full = [0xb0, 0, 0x65, 0x58, 0xab, 0xcd, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9];
        let view = Gre::new(&full).unwrap();
        assert_eq!((view.checksum(), view.key(), view.sequence()), (Some(0xabcd), Some(7), Some(9)));
        assert_eq!((view.header_len(), view.payload().len()), (16, 0));
        assert_eq!(Gre::new(&full[..15]).unwrap_err().fault, Fault::Truncated { need: 16, have: 15 });

        let sequence = Gre::new(&[0x10, 0, 8, 0, 0, 0, 0, 5]).unwrap();
        assert_eq!((sequence.key(), sequence.sequence(), sequence.header_len()), (None, Some(5), 8));
    }

    #[test]
    fn version_1() {
        let both = [0x30, 0x81, 0x88, 0x0b, 0, 4, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 3, 0, 0x21];
        let view = Gre::new(&both).unwrap();
        assert_eq!((view.version(), view.header_len(), view.call()), (1, 16, Some((4, 7))));
        assert_eq!((view.sequence(), view.key(), view.payload().len()), (Some(1), None, 4));
        let ack_only = Gre::new(&[0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 7, 0, 0, 0, 2]).unwrap();
        assert_eq!((ack_only.header_len(), ack_only.sequence()), (12, None));
        assert_eq!(Gre::new(&[0, 1, 0x88, 0x0b]).unwrap_err().fault, Fault::BadFlags { found: 1 });
    }

    #[test]
    fn refused() {
        assert_eq!(Gre::new(&[0x40, 0, 8, 0]).unwrap_err().fault, Fault::BadFlags { found: 0x4000 });
        assert_eq!(Gre::new(&[0, 2, 8, 0]).unwrap_err().fault, Fault::BadVersion { found: 2 });
        assert!(Gre::new(&[0, 0, 8]).is_err());
    }
}
