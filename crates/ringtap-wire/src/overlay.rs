//! Owns: the two overlays that run over UDP: VXLAN (RFC 7348 §5) and GENEVE (RFC 8926 §3.4).
//! Does not: decide by the UDP port that one follows ([`Layers`](crate::Layers) does), or read GENEVE options.

use crate::bytes::{be16, be24};
use crate::error::{Header, HeaderError, at_least};

mod vxlan_field {
    use core::ops::Range;
    pub(super) const FLAGS: usize = 0;
    pub(super) const VNI: Range<usize> = 4..7;
    /// The identifier is valid; always set (RFC 7348 §5).
    pub(super) const VNI_FLAG: u8 = 0x08;
}

/// A VXLAN header; an Ethernet frame follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan<'a> {
    bytes: &'a [u8],
}

impl<'a> Vxlan<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 8;

    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 8 bytes,
    /// [`Fault::BadFlags`](crate::Fault::BadFlags) when the flag for a valid identifier is not set.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Vxlan, bytes, Self::LEN)?;
        let flags = bytes[vxlan_field::FLAGS];
        if flags & vxlan_field::VNI_FLAG == 0 {
            return Err(HeaderError::flags(Header::Vxlan, u16::from(flags)));
        }
        Ok(Self { bytes })
    }

    /// Network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        be24(self.bytes, vxlan_field::VNI)
    }

    /// The Ethernet frame inside.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::LEN..]
    }
}

mod geneve_field {
    use core::ops::Range;
    pub(super) const VERSION_OPTIONS: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const PROTOCOL: Range<usize> = 2..4;
    pub(super) const VNI: Range<usize> = 4..7;
}

/// A GENEVE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geneve<'a> {
    bytes: &'a [u8],
}

impl<'a> Geneve<'a> {
    /// Length of a header without options, in bytes.
    pub const MIN_LEN: usize = 8;

    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when the header with its options is not all there,
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) when the version is not 0.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Geneve, bytes, Self::MIN_LEN)?;
        let version = bytes[geneve_field::VERSION_OPTIONS] >> 6;
        if version != 0 {
            return Err(HeaderError::version(Header::Geneve, version));
        }
        let header = Self { bytes };
        at_least(Header::Geneve, bytes, header.header_len())?;
        Ok(header)
    }

    /// Length of the header with options, 8 to 260 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        Self::MIN_LEN + usize::from(self.bytes[geneve_field::VERSION_OPTIONS] & 0x3f) * 4
    }

    /// Whether this is a control message between tunnel endpoints.
    #[inline]
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.bytes[geneve_field::FLAGS] & 0x80 != 0
    }

    /// Whether some option must be understood.
    #[inline]
    #[must_use]
    pub fn has_critical_options(&self) -> bool {
        self.bytes[geneve_field::FLAGS] & 0x40 != 0
    }

    /// EtherType of what follows; 0x6558 for an Ethernet frame.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u16 {
        be16(self.bytes, geneve_field::PROTOCOL)
    }

    /// Network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        be24(self.bytes, geneve_field::VNI)
    }

    /// The options as they stand, 0 to 252 bytes.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[Self::MIN_LEN..self.header_len()]
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
    fn vxlan() {
        let view = Vxlan::new(&[8, 0, 0, 0, 1, 2, 3, 0, 0xee]).unwrap();
        assert_eq!((view.vni(), view.payload()), (0x01_0203, &[0xee][..]));
        assert_eq!(Vxlan::new(&[0; 8]).unwrap_err().fault, Fault::BadFlags { found: 0 });
        assert!(Vxlan::new(&[8; 7]).is_err());
    }

    #[test]
    fn geneve() {
        let bytes = [0x01, 0xc0, 0x65, 0x58, 1, 2, 3, 0, 9, 9, 9, 9, 0xee];
        let view = Geneve::new(&bytes).unwrap();
        assert_eq!((view.header_len(), view.protocol(), view.vni()), (12, 0x6558, 0x01_0203));
        assert!(view.is_control() && view.has_critical_options());
        assert_eq!((view.options(), view.payload()), (&[9u8; 4][..], &[0xee][..]));
        assert_eq!(Geneve::new(&bytes[..11]).unwrap_err().fault, Fault::Truncated { need: 12, have: 11 });
        assert_eq!(Geneve::new(&[0x40; 8]).unwrap_err().fault, Fault::BadVersion { found: 1 });
    }
}
