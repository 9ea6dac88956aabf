//! Owns: the fixed IPv6 header (RFC 8200 §3) and the jumbo payload length (RFC 2675).
//! Does not: walk extension headers; [`Extensions`] does.

use core::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, within};
use crate::error::{Header, HeaderError, at_least};
use crate::extension::{Extension, Extensions};
use crate::ip::protocol;

mod field {
    use core::ops::Range;
    pub(super) const FIRST_WORD: Range<usize> = 0..4;
    pub(super) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: Range<usize> = 8..24;
    pub(super) const DESTINATION: Range<usize> = 24..40;
}

/// Type of the jumbo payload option (RFC 2675 §2).
const JUMBO_PAYLOAD: u8 = 0xc2;

/// An IPv6 fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Length of the fixed header in bytes.
    pub const LEN: usize = 40;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the payload, as far as it was captured,
    /// and possibly link padding behind it.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 40 bytes,
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) when the version is not 6.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Ipv6, bytes, 1)?;
        let version = bytes[0] >> 4;
        if version != 6 {
            return Err(HeaderError::version(Header::Ipv6, version));
        }
        at_least(Header::Ipv6, bytes, Self::LEN)?;
        Ok(Self { bytes })
    }

    /// Traffic class: differentiated services and congestion notification.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (be32(self.bytes, field::FIRST_WORD) >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        be32(self.bytes, field::FIRST_WORD) & 0x000f_ffff
    }

    /// Payload length field: everything behind the fixed header, in bytes. 0 in jumbograms and with segmentation
    /// offload, see [`declared_length`](Self::declared_length).
    #[inline]
    #[must_use]
    pub fn payload_length(&self) -> u16 {
        be16(self.bytes, field::PAYLOAD_LENGTH)
    }

    /// Number of the header that follows ([`protocol`]).
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.bytes[field::NEXT_HEADER]
    }

    /// Hop limit, in hops.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.bytes[field::HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes, field::SOURCE))
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.bytes, field::DESTINATION))
    }

    /// The payload length in bytes that the packet declares: the field; where that is 0, the jumbo payload option of
    /// a hop-by-hop header (RFC 2675); 0 when the next header is "none"; otherwise `None`: it comes from segmentation
    /// offload and says nothing, so everything captured counts.
    ///
    /// # Errors
    /// [`Fault::BadLength`](crate::Fault::BadLength) for a jumbo payload length of 65535 or less (RFC 2675 §3).
    pub fn declared_length(&self) -> Result<Option<u32>, HeaderError> {
        if self.payload_length() != 0 {
            return Ok(Some(u32::from(self.payload_length())));
        }
        match self.next_header() {
            protocol::NO_NEXT => Ok(Some(0)),
            protocol::HOP_BY_HOP => self.jumbo_length(),
            _ => Ok(None),
        }
    }

    fn jumbo_length(&self) -> Result<Option<u32>, HeaderError> {
        let Ok(extension) = Extension::new(protocol::HOP_BY_HOP, &self.bytes[Self::LEN..]) else {
            return Ok(None); // the walk over the extension headers reports it
        };
        let jumbo = extension.options().filter_map(Result::ok).find(|option| option.kind == JUMBO_PAYLOAD);
        let Some(length) = jumbo.and_then(|option| option.data.try_into().ok()).map(u32::from_be_bytes) else {
            return Ok(None);
        };
        if length <= u32::from(u16::MAX) {
            return Err(HeaderError::length(Header::Extension, length as usize));
        }
        Ok(Some(length))
    }

    /// Everything behind the fixed header, limited by the declared length and by what was captured.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let end = match self.declared_length() {
            Ok(Some(length)) => Self::LEN.saturating_add(length as usize),
            _ => self.bytes.len(),
        };
        within(self.bytes, Self::LEN, end)
    }

    /// The extension headers, in order.
    #[inline]
    #[must_use]
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions::new(self.next_header(), self.payload())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    fn header(length: u16, next: u8) -> [u8; 60] {
        let mut bytes = [0u8; 60];
        bytes[..4].copy_from_slice(&[0x6a, 0xbc, 0xde, 0xf0]);
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        bytes[6..8].copy_from_slice(&[next, 63]);
        bytes[8..10].copy_from_slice(&[0xfe, 0x80]);
        bytes[24..26].copy_from_slice(&[0xff, 0x02]);
        bytes
    }

    #[test]
    fn fields() {
        let bytes = header(12, 17);
        let view = Ipv6::new(&bytes).unwrap();
        assert_eq!((view.traffic_class(), view.flow_label()), (0xab, 0xcdef0));
        assert_eq!((view.payload_length(), view.next_header(), view.hop_limit()), (12, 17, 63));
        assert_eq!(view.source(), "fe80::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(view.destination(), "ff02::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(view.payload().len(), 12);
        assert_eq!(Ipv6::new(&bytes[..39]).unwrap_err().fault, Fault::Truncated { need: 40, have: 39 });
        assert_eq!(Ipv6::new(&[0x45]).unwrap_err().fault, Fault::BadVersion { found: 4 });
    }

    #[test]
    fn declared_lengths() {
        assert_eq!(Ipv6::new(&header(0, 59)).unwrap().declared_length(), Ok(Some(0)));
        assert_eq!(Ipv6::new(&header(0, 6)).unwrap().declared_length(), Ok(None));
        assert_eq!(Ipv6::new(&header(0, 6)).unwrap().payload().len(), 20);
        let mut bytes = header(0, 0);
        bytes[40..48].copy_from_slice(&[6, 0, 0xc2, 4, 0, 1, 0, 0]);
        assert_eq!(Ipv6::new(&bytes).unwrap().declared_length(), Ok(Some(65536)));
        bytes[45] = 0;
        assert_eq!(Ipv6::new(&bytes).unwrap().declared_length().unwrap_err().fault, Fault::BadLength { found: 0 });
        bytes[42] = 5; // another option
        assert_eq!(Ipv6::new(&bytes).unwrap().declared_length(), Ok(None));
    }
}
