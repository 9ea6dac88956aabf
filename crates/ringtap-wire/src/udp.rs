//! Owns: the UDP header (RFC 768) and the port numbers behind which tunnels are looked for.
//! Does not: verify the checksum on its own ([`checksum`](crate::checksum) does on request).

use crate::bytes::{be16, within};
use crate::error::{Header, HeaderError, at_least};

/// Destination ports of UDP tunnels.
pub mod port {
    /// VXLAN (RFC 7348 §5).
    pub const VXLAN: u16 = 4789;
    /// VXLAN as Linux had it before the port was assigned (kernel documentation, networking/vxlan).
    pub const VXLAN_LINUX: u16 = 8472;
    /// GENEVE (RFC 8926 §3.3).
    pub const GENEVE: u16 = 6081;
}

mod field {
    use core::ops::Range;
    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
}

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    bytes: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 8;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the payload.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 8 bytes,
    /// [`Fault::BadLength`](crate::Fault::BadLength) when the length field is 1 to 7.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Udp, bytes, Self::LEN)?;
        let header = Self { bytes };
        let length = usize::from(header.length());
        if length != 0 && length < Self::LEN {
            return Err(HeaderError::length(Header::Udp, length));
        }
        Ok(header)
    }

    /// Source port; 0 when unused.
    #[inline]
    #[must_use]
    pub fn source_port(&self) -> u16 {
        be16(self.bytes, field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes, field::DESTINATION_PORT)
    }

    /// Length field: header and payload in bytes. 0 in jumbograms (RFC 2675 §4): the IP length counts then.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u16 {
        be16(self.bytes, field::LENGTH)
    }

    /// Checksum field; 0 means that the sender computed none.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes, field::CHECKSUM)
    }

    /// The payload, limited by the length field and by what is there.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let end = match self.length() {
            0 => self.bytes.len(),
            length => usize::from(length),
        };
        within(self.bytes, Self::LEN, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn fields() {
        let mut bytes = [0x30, 0x39, 0, 162, 0, 10, 0xab, 0xcd, 1, 2, 3, 4];
        let view = Udp::new(&bytes).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (12345, 162));
        assert_eq!((view.length(), view.checksum(), view.payload()), (10, 0xabcd, &[1u8, 2][..]));
        bytes[5] = 0;
        assert_eq!(Udp::new(&bytes).unwrap().payload().len(), 4);
        bytes[5] = 100;
        assert_eq!(Udp::new(&bytes).unwrap().payload().len(), 4);
        bytes[5] = 7;
        assert_eq!(Udp::new(&bytes).unwrap_err().fault, Fault::BadLength { found: 7 });
        assert!(Udp::new(&bytes[..7]).is_err());
    }
}
