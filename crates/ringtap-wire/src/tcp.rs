//! Owns: the TCP header (RFC 9293 §3.1) and the meaning of the usual options (RFC 9293, 7323, 2018).
//! Does not: follow connections or reassemble streams.

use crate::bytes::{be16, be32};
use crate::error::{Header, HeaderError, at_least};
use crate::options::{Options, RawOption};

mod field {
    use core::ops::Range;
    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const SEQUENCE: Range<usize> = 4..8;
    pub(super) const ACKNOWLEDGMENT: Range<usize> = 8..12;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: Range<usize> = 14..16;
    pub(super) const CHECKSUM: Range<usize> = 16..18;
    pub(super) const URGENT: Range<usize> = 18..20;
}

/// TCP flag bits.
pub mod tcp_flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// A TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    bytes: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Length of a header without options, in bytes.
    pub const MIN_LEN: usize = 20;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the payload.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when the header with its options is not all there,
    /// [`Fault::BadLength`](crate::Fault::BadLength) for a data offset below 20 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Tcp, bytes, Self::MIN_LEN)?;
        let header = Self { bytes };
        let header_len = header.header_len();
        if header_len < Self::MIN_LEN {
            return Err(HeaderError::length(Header::Tcp, header_len));
        }
        at_least(Header::Tcp, bytes, header_len)?;
        Ok(header)
    }

    /// Length of the header with options, 20 to 60 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes[field::DATA_OFFSET] >> 4) * 4
    }

    /// Source port.
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

    /// Sequence number.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> u32 {
        be32(self.bytes, field::SEQUENCE)
    }

    /// Acknowledgment number; counts when [`tcp_flag::ACK`] is set.
    #[inline]
    #[must_use]
    pub fn acknowledgment(&self) -> u32 {
        be32(self.bytes, field::ACKNOWLEDGMENT)
    }

    /// Flags ([`tcp_flag`]).
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[field::FLAGS]
    }

    /// Window, before scaling.
    #[inline]
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(self.bytes, field::WINDOW)
    }

    /// Checksum field.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes, field::CHECKSUM)
    }

    /// Urgent pointer; counts when [`tcp_flag::URG`] is set.
    #[inline]
    #[must_use]
    pub fn urgent_pointer(&self) -> u16 {
        be16(self.bytes, field::URGENT)
    }

    /// The options.
    #[inline]
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        Options::new(&self.bytes[Self::MIN_LEN..self.header_len()])
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// A TCP option with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// No operation: padding between options.
    Nop,
    /// Maximum segment size in bytes (RFC 9293 §3.7.1).
    MaximumSegment(u16),
    /// Window scale, a shift (RFC 7323 §2.2); values above 14 are to be taken as 14.
    WindowScale(u8),
    /// Selective acknowledgment permitted (RFC 2018 §2).
    SackPermitted,
    /// Selective acknowledgment (RFC 2018 §3): pairs of left and right edge, 8 bytes per pair.
    Sack(&'a [u8]),
    /// Time stamp value and echo reply (RFC 7323 §3.2).
    Timestamps(u32, u32),
    /// Any other kind, and the kinds above with a length that their specification does not allow.
    Other(RawOption<'a>),
}

impl<'a> From<RawOption<'a>> for TcpOption<'a> {
    fn from(raw: RawOption<'a>) -> Self {
        match (raw.kind, raw.data) {
            (1, []) => Self::Nop,
            (2, &[high, low]) => Self::MaximumSegment(u16::from_be_bytes([high, low])),
            (3, &[shift]) => Self::WindowScale(shift),
            (4, []) => Self::SackPermitted,
            (5, edges) if !edges.is_empty() && edges.len() % 8 == 0 => Self::Sack(edges),
            (8, stamps) if stamps.len() == 8 => Self::Timestamps(be32(stamps, 0..4), be32(stamps, 4..8)),
            _ => Self::Other(raw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use std::vec::Vec;

    #[test]
    fn fields_and_options() {
        let mut bytes = [0u8; 48];
        bytes[..20]
            .copy_from_slice(&[0x04, 0xd2, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0xb0, 0x12, 0x10, 0, 0xab, 0xcd, 0, 3]);
        bytes[20..44].copy_from_slice(&[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 2, 3, 9, 0]);
        let view = Tcp::new(&bytes).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (1234, 80));
        assert_eq!((view.sequence(), view.acknowledgment(), view.window()), (1, 2, 4096));
        assert_eq!((view.checksum(), view.urgent_pointer()), (0xabcd, 3));
        assert_eq!(view.flags(), tcp_flag::SYN | tcp_flag::ACK);
        assert_eq!((view.header_len(), view.payload().len()), (44, 4));
        let options: Vec<_> = view.options().map(|o| TcpOption::from(o.unwrap())).collect();
        assert_eq!(
            options,
            [
                TcpOption::MaximumSegment(1460),
                TcpOption::Nop,
                TcpOption::WindowScale(7),
                TcpOption::SackPermitted,
                TcpOption::Timestamps(5, 6),
                TcpOption::Other(RawOption { kind: 2, data: &[9] }),
            ]
        );
    }

    #[test]
    fn lengths() {
        let mut bytes = [0u8; 20];
        assert_eq!(Tcp::new(&bytes).unwrap_err().fault, Fault::BadLength { found: 0 });
        bytes[12] = 0x60;
        assert_eq!(Tcp::new(&bytes).unwrap_err().fault, Fault::Truncated { need: 24, have: 20 });
        assert_eq!(Tcp::new(&bytes[..19]).unwrap_err().fault, Fault::Truncated { need: 20, have: 19 });
    }
}
