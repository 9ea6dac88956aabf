//! Owns: ICMP for IPv4 (RFC 792, RFC 950) and for IPv6 (RFC 4443): type, code, identifier, quoted packet.
//! Does not: read neighbour discovery or multicast listener messages beyond their first eight bytes.

use crate::bytes::{array, be16};
use crate::error::{Header, HeaderError, at_least};

mod field {
    use core::ops::Range;
    pub(super) const TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: Range<usize> = 2..4;
    pub(super) const REST: Range<usize> = 4..8;
    pub(super) const IDENTIFIER: Range<usize> = 4..6;
    pub(super) const SEQUENCE: Range<usize> = 6..8;
}

/// Defines one of the two; they differ in name, and in which types carry an identifier or quote a packet.
macro_rules! icmp_view {
    ($(#[$doc:meta])* $name:ident, queries: $queries:pat, errors: $errors:pat) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> {
            bytes: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// Length in bytes of the part that all defined messages have.
            pub const LEN: usize = 8;

            /// A view of the message in `bytes`.
            ///
            /// # Errors
            /// [`Fault::Truncated`](crate::Fault::Truncated) below 8 bytes.
            #[inline]
            pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
                at_least(Header::$name, bytes, Self::LEN)?;
                Ok(Self { bytes })
            }

            /// Type.
            #[inline]
            #[must_use]
            pub fn message_type(&self) -> u8 {
                self.bytes[field::TYPE]
            }

            /// Code, which refines the type.
            #[inline]
            #[must_use]
            pub fn code(&self) -> u8 {
                self.bytes[field::CODE]
            }

            /// Checksum field.
            #[inline]
            #[must_use]
            pub fn checksum(&self) -> u16 {
                be16(self.bytes, field::CHECKSUM)
            }

            /// Bytes 4 to 7, whose meaning depends on the type.
            #[inline]
            #[must_use]
            pub fn rest(&self) -> [u8; 4] {
                array(self.bytes, field::REST)
            }

            /// Identifier and sequence number of a query or its reply (echo and the like).
            #[inline]
            #[must_use]
            pub fn query(&self) -> Option<(u16, u16)> {
                matches!(self.message_type(), $queries)
                    .then(|| (be16(self.bytes, field::IDENTIFIER), be16(self.bytes, field::SEQUENCE)))
            }

            /// Whether this reports an error and quotes the packet it is about in its payload.
            #[inline]
            #[must_use]
            pub fn is_error(&self) -> bool {
                matches!(self.message_type(), $errors)
            }

            /// What follows the first eight bytes.
            #[inline]
            #[must_use]
            pub fn payload(&self) -> &'a [u8] {
                &self.bytes[Self::LEN..]
            }
        }
    };
}

icmp_view!(
    /// An ICMP message (RFC 792). Queries are echo (8, 0), time stamp (13, 14), information (15, 16) and
    /// address mask (17, 18); errors are types 3, 4, 5, 11 and 12.
    Icmpv4, queries: 0 | 8 | 13..=18, errors: 3 | 4 | 5 | 11 | 12
);
icmp_view!(
    /// An ICMPv6 message (RFC 4443). Queries are echo (128, 129); errors are all types below 128.
    Icmpv6, queries: 128 | 129, errors: 0..=127
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4() {
        let echo = [8, 0, 0xab, 0xcd, 0, 7, 0, 9, 1];
        let view = Icmpv4::new(&echo).unwrap();
        assert_eq!((view.message_type(), view.code(), view.checksum()), (8, 0, 0xabcd));
        assert_eq!((view.query(), view.rest(), view.is_error()), (Some((7, 9)), [0, 7, 0, 9], false));
        assert_eq!(view.payload(), [1]);
        let unreachable = [3, 1, 0, 0, 0, 0, 0, 0];
        assert!(Icmpv4::new(&unreachable).unwrap().is_error());
        assert_eq!(Icmpv4::new(&unreachable).unwrap().query(), None);
        assert!(Icmpv4::new(&echo[..7]).is_err());
    }

    #[test]
    fn v6() {
        assert_eq!(Icmpv6::new(&[129, 0, 0, 0, 0, 7, 0, 9]).unwrap().query(), Some((7, 9)));
        assert!(Icmpv6::new(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap().is_error());
        assert!(!Icmpv6::new(&[135, 0, 0, 0, 0, 0, 0, 0]).unwrap().is_error());
    }
}
