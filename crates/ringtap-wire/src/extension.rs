//! Owns: IPv6 extension headers: hop-by-hop, routing, destination options, fragment (RFC 8200 §4), authentication
//! (RFC 4302; also over IPv4), mobility (RFC 6275), HIP (RFC 7401), shim6 (RFC 5533).
//! Does not: look into ESP, which is encrypted, or into the protocols that follow.

use crate::bytes::{be16, be32};
use crate::error::{Header, HeaderError, at_least};
use crate::ip::protocol;
use crate::options::Ipv6Options;

/// More extension headers than this in one packet are not walked.
pub const MAX_EXTENSIONS: usize = 16;

mod field {
    use core::ops::Range;
    pub(super) const NEXT_HEADER: usize = 0;
    pub(super) const LENGTH: usize = 1;
    pub(super) const OPTIONS: usize = 2;
    pub(super) const ROUTING_TYPE: usize = 2;
    pub(super) const SEGMENTS_LEFT: usize = 3;
    pub(super) const FRAGMENT: Range<usize> = 2..4;
    pub(super) const IDENTIFICATION: Range<usize> = 4..8;
    pub(super) const SPI: Range<usize> = 4..8;
    pub(super) const SEQUENCE: Range<usize> = 8..12;
}

/// The shortest authentication header: all fixed fields, no check value (RFC 4302 §2).
const MIN_AH_LEN: usize = 12;

/// Whether `next_header` announces an extension header that [`Extension`] can read.
#[inline]
#[must_use]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

/// What a fragment header says (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where this fragment's payload belongs, in bytes (a multiple of 8, up to 65528).
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// Common to the fragments of one packet.
    pub identification: u32,
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    kind: u8,
    header: &'a [u8],
}

impl<'a> Extension<'a> {
    /// A view of the header of the given `kind` at the start of `bytes`. A kind that is not an extension header
    /// ([`is_extension`]) is read in the common form of RFC 6564.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when not all of it is there,
    /// [`Fault::BadLength`](crate::Fault::BadLength) for an authentication header below 12 bytes.
    #[inline]
    pub fn new(kind: u8, bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Extension, bytes, 8)?;
        let length = usize::from(bytes[field::LENGTH]);
        let header_len = match kind {
            protocol::FRAGMENT => 8, // the byte is reserved
            protocol::AH => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
        if kind == protocol::AH && header_len < MIN_AH_LEN {
            return Err(HeaderError::length(Header::Extension, header_len));
        }
        at_least(Header::Extension, bytes, header_len)?;
        Ok(Self { kind, header: &bytes[..header_len] })
    }

    /// The number that announced this header ([`protocol`]).
    #[inline]
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Length in bytes, 8 to 2048.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Number of the header that follows.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.header[field::NEXT_HEADER]
    }

    /// The options of a hop-by-hop or destination header; none for other kinds.
    #[inline]
    #[must_use]
    pub fn options(&self) -> Ipv6Options<'a> {
        match self.kind {
            protocol::HOP_BY_HOP | protocol::DESTINATION => Ipv6Options::new(&self.header[field::OPTIONS..]),
            _ => Ipv6Options::new(&[]),
        }
    }

    /// What a fragment header says.
    #[inline]
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        if self.kind != protocol::FRAGMENT {
            return None;
        }
        let word = be16(self.header, field::FRAGMENT);
        Some(Fragment {
            offset: usize::from(word & 0xfff8),
            more: word & 1 != 0,
            identification: be32(self.header, field::IDENTIFICATION),
        })
    }

    /// Routing type and segments left of a routing header (RFC 8200 §4.4; type 4 is segment routing, RFC 8754).
    #[inline]
    #[must_use]
    pub fn routing(&self) -> Option<(u8, u8)> {
        (self.kind == protocol::ROUTING).then(|| (self.header[field::ROUTING_TYPE], self.header[field::SEGMENTS_LEFT]))
    }

    /// Security parameters index and sequence number of an authentication header (RFC 4302 §2).
    #[inline]
    #[must_use]
    pub fn authentication(&self) -> Option<(u32, u32)> {
        (self.kind == protocol::AH).then(|| (be32(self.header, field::SPI), be32(self.header, field::SEQUENCE)))
    }

    /// The header's own bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.header
    }
}

/// The extension headers of a packet: at most [`MAX_EXTENSIONS`]. Ends at the first header that is not one, behind a
/// later fragment's fragment header (what follows is not a header), or behind the first error.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a> {
    next: Option<u8>,
    rest: &'a [u8],
    left: usize,
}

impl<'a> Extensions<'a> {
    /// Walks `bytes`, whose first header is of kind `next_header`.
    #[inline]
    #[must_use]
    pub const fn new(next_header: u8, bytes: &'a [u8]) -> Self {
        Self { next: Some(next_header), rest: bytes, left: MAX_EXTENSIONS }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, HeaderError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.next.take().filter(|&kind| is_extension(kind))?;
        self.left = self.left.checked_sub(1)?;
        let extension = Extension::new(kind, self.rest);
        if let Ok(header) = extension {
            self.rest = &self.rest[header.header_len()..];
            if header.fragment().is_none_or(|fragment| fragment.offset == 0) {
                self.next = Some(header.next_header());
            }
        }
        Some(extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use std::vec::Vec;

    #[test]
    fn each_kind_has_its_length() {
        let mut bytes = [0u8; 64];
        bytes[1] = 2;
        assert_eq!(Extension::new(protocol::HOP_BY_HOP, &bytes).unwrap().header_len(), 24);
        assert_eq!(Extension::new(protocol::MOBILITY, &bytes).unwrap().header_len(), 24);
        assert_eq!(Extension::new(protocol::AH, &bytes).unwrap().header_len(), 16);
        assert_eq!(Extension::new(protocol::FRAGMENT, &bytes).unwrap().header_len(), 8);
        assert_eq!(
            Extension::new(protocol::ROUTING, &bytes[..23]).unwrap_err().fault,
            Fault::Truncated { need: 24, have: 23 }
        );
        assert_eq!(Extension::new(protocol::AH, &[0; 8]).unwrap_err().fault, Fault::BadLength { found: 8 });
        assert!(Extension::new(protocol::ROUTING, &[0; 7]).is_err());
    }

    #[test]
    fn contents() {
        let fragment = Extension::new(protocol::FRAGMENT, &[17, 9, 0x01, 0x09, 0, 0, 0, 7]).unwrap();
        assert_eq!(fragment.fragment(), Some(Fragment { offset: 264, more: true, identification: 7 }));
        let routing = Extension::new(protocol::ROUTING, &[6, 0, 4, 2, 0, 0, 0, 0]).unwrap();
        assert_eq!(routing.routing(), Some((4, 2)));
        assert_eq!(routing.options().count(), 0);
        let ah = Extension::new(protocol::AH, &[6, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 9]).unwrap();
        assert_eq!(ah.authentication(), Some((5, 9)));
    }

    #[test]
    fn walk_ends_where_it_should() {
        let mut bytes = [0u8; 24];
        bytes[0] = protocol::FRAGMENT;
        bytes[8] = protocol::ROUTING;
        bytes[11] = 8; // a later fragment: the routing header is not one
        let kinds: Vec<_> = Extensions::new(protocol::HOP_BY_HOP, &bytes).map(|e| e.unwrap().kind()).collect();
        assert_eq!(kinds, [protocol::HOP_BY_HOP, protocol::FRAGMENT]);
        assert_eq!(Extensions::new(protocol::TCP, &bytes).count(), 0);
        assert_eq!(Extensions::new(protocol::HOP_BY_HOP, &[0; 1024]).count(), MAX_EXTENSIONS);
    }
}
