//! Owns: PPPoE (RFC 2516 §4) and the PPP protocol field with its compressed forms (RFC 1661 §2 and §6.5, RFC 1662 §3).
//! Does not: unescape HDLC-like framing, decompress, or read control protocols.

use crate::bytes::{be16, within};
use crate::error::{Header, HeaderError, at_least};

/// PPP protocol numbers the parser acts on (IANA "PPP DLL Protocol Numbers").
pub mod ppp_protocol {
    /// IPv4 (RFC 1332).
    pub const IPV4: u16 = 0x0021;
    /// IPv6 (RFC 5072).
    pub const IPV6: u16 = 0x0057;
    /// MPLS (RFC 3032 §4.3).
    pub const MPLS: u16 = 0x0281;
}

mod field {
    use core::ops::Range;
    pub(super) const VERSION_TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const SESSION: Range<usize> = 2..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
}

/// A PPPoE header, of discovery or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pppoe<'a> {
    bytes: &'a [u8],
}

impl<'a> Pppoe<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 6;

    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 6 bytes,
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) when version and type are not 1 and 1.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Pppoe, bytes, Self::LEN)?;
        let version_type = bytes[field::VERSION_TYPE];
        if version_type != 0x11 {
            return Err(HeaderError::version(Header::Pppoe, version_type));
        }
        Ok(Self { bytes })
    }

    /// Code: 0 for session data, otherwise a discovery message.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u8 {
        self.bytes[field::CODE]
    }

    /// Session identifier.
    #[inline]
    #[must_use]
    pub fn session(&self) -> u16 {
        be16(self.bytes, field::SESSION)
    }

    /// Length of the payload in bytes, as the header has it.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u16 {
        be16(self.bytes, field::LENGTH)
    }

    /// The payload, limited by the length field and by what is there.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        within(self.bytes, Self::LEN, Self::LEN + usize::from(self.length()))
    }
}

/// A PPP header: address and control (unless compressed away), and the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ppp<'a> {
    bytes: &'a [u8],
    header_len: usize,
    protocol: u16,
}

impl<'a> Ppp<'a> {
    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when not all of it is there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        // RFC 1662 §3.1: address 0xff and control 0x03 may be there; 0xff is no protocol's first byte, so that one byte
        // alone can't be told from a cut address.
        let at = if bytes.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
        if bytes == [0xff] {
            return Err(HeaderError::truncated(Header::Ppp, 2, 1));
        }
        at_least(Header::Ppp, bytes, at + 1)?;
        let first = bytes[at];
        // RFC 1661 §2: the last byte of a protocol is odd, the others even; §6.5: a leading zero byte may be left out.
        if first & 1 != 0 {
            return Ok(Self { bytes, header_len: at + 1, protocol: u16::from(first) });
        }
        at_least(Header::Ppp, bytes, at + 2)?;
        Ok(Self { bytes, header_len: at + 2, protocol: be16(bytes, at..at + 2) })
    }

    /// Length of the header, 1 to 4 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Protocol of what follows ([`ppp_protocol`]).
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn pppoe() {
        let view = Pppoe::new(&[0x11, 0, 0, 7, 0, 2, 0xc0, 0x21, 0xff]).unwrap();
        assert_eq!((view.code(), view.session(), view.length()), (0, 7, 2));
        assert_eq!(view.payload(), [0xc0, 0x21]);
        assert_eq!(Pppoe::new(&[0x12; 6]).unwrap_err().fault, Fault::BadVersion { found: 0x12 });
        assert!(Pppoe::new(&[0x11; 5]).is_err());
    }

    #[test]
    fn ppp_forms() {
        for (bytes, len, protocol) in [
            (&[0xff, 0x03, 0x00, 0x21][..], 4, 0x21),
            (&[0x00, 0x57], 2, 0x57),
            (&[0xff, 0x03, 0x21], 3, 0x21),
            (&[0x57], 1, 0x57),
            (&[0xc0, 0x21], 2, 0xc021),
        ] {
            let view = Ppp::new(bytes).unwrap();
            assert_eq!((view.header_len(), view.protocol(), view.payload().len()), (len, protocol, 0), "{bytes:?}");
        }
        for short in [&[][..], &[0xff], &[0xff, 0x03], &[0xff, 0x03, 0x00], &[0x00]] {
            assert!(Ppp::new(short).is_err(), "{short:?}");
        }
    }
}
