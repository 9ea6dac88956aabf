//! Owns: ARP messages (RFC 826), of any hardware and protocol address length.
//! Does not: keep tables or judge who may claim an address.

use core::net::Ipv4Addr;

use crate::bytes::be16;
use crate::error::{Header, HeaderError, at_least};

mod field {
    use core::ops::Range;
    pub(super) const HARDWARE_TYPE: Range<usize> = 0..2;
    pub(super) const PROTOCOL_TYPE: Range<usize> = 2..4;
    pub(super) const HARDWARE_LEN: usize = 4;
    pub(super) const PROTOCOL_LEN: usize = 5;
    pub(super) const OPERATION: Range<usize> = 6..8;
    pub(super) const ADDRESSES: usize = 8;
}

/// An ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp<'a> {
    bytes: &'a [u8],
}

impl<'a> Arp<'a> {
    /// Length of the fixed part in bytes; four addresses follow.
    pub const MIN_LEN: usize = field::ADDRESSES;

    /// A view of the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) when the fixed part or one of the four addresses is not all there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Arp, bytes, Self::MIN_LEN)?;
        let arp = Self { bytes };
        at_least(Header::Arp, bytes, arp.message_len())?;
        Ok(arp)
    }

    /// Length of the whole message in bytes, 8 to 1028.
    #[inline]
    #[must_use]
    pub fn message_len(&self) -> usize {
        field::ADDRESSES + 2 * (self.hardware_len() + self.protocol_len())
    }

    #[inline]
    fn hardware_len(&self) -> usize {
        usize::from(self.bytes[field::HARDWARE_LEN])
    }

    #[inline]
    fn protocol_len(&self) -> usize {
        usize::from(self.bytes[field::PROTOCOL_LEN])
    }

    /// Hardware type; 1 is Ethernet.
    #[inline]
    #[must_use]
    pub fn hardware_type(&self) -> u16 {
        be16(self.bytes, field::HARDWARE_TYPE)
    }

    /// EtherType of the protocol whose addresses are asked for.
    #[inline]
    #[must_use]
    pub fn protocol_type(&self) -> u16 {
        be16(self.bytes, field::PROTOCOL_TYPE)
    }

    /// Operation: 1 request, 2 reply; others are RARP, InARP and the like.
    #[inline]
    #[must_use]
    pub fn operation(&self) -> u16 {
        be16(self.bytes, field::OPERATION)
    }

    #[inline]
    fn address(&self, skip: usize, len: usize) -> &'a [u8] {
        let from = field::ADDRESSES + skip;
        &self.bytes[from..from + len]
    }

    /// Hardware address of the sender, 0 to 255 bytes.
    #[inline]
    #[must_use]
    pub fn sender_hardware(&self) -> &'a [u8] {
        self.address(0, self.hardware_len())
    }

    /// Protocol address of the sender, 0 to 255 bytes.
    #[inline]
    #[must_use]
    pub fn sender_protocol(&self) -> &'a [u8] {
        self.address(self.hardware_len(), self.protocol_len())
    }

    /// Hardware address of the target, 0 to 255 bytes.
    #[inline]
    #[must_use]
    pub fn target_hardware(&self) -> &'a [u8] {
        self.address(self.hardware_len() + self.protocol_len(), self.hardware_len())
    }

    /// Protocol address of the target, 0 to 255 bytes.
    #[inline]
    #[must_use]
    pub fn target_protocol(&self) -> &'a [u8] {
        self.address(2 * self.hardware_len() + self.protocol_len(), self.protocol_len())
    }

    /// Sender and target, when the message asks for IPv4 addresses (type 0x0800, 4 bytes).
    #[inline]
    #[must_use]
    pub fn ipv4(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        if self.protocol_type() != crate::ether_type::IPV4 {
            return None;
        }
        let sender: [u8; 4] = self.sender_protocol().try_into().ok()?;
        let target: [u8; 4] = self.target_protocol().try_into().ok()?;
        Some((sender.into(), target.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [u8; 28] = [
        0, 1, 8, 0, 6, 4, 0, 1, // fixed part
        2, 0, 0, 0, 0, 1, 10, 0, 0, 1, // sender
        0, 0, 0, 0, 0, 0, 10, 0, 0, 2, // target
    ];

    #[test]
    fn fields() {
        let arp = Arp::new(&REQUEST).unwrap();
        assert_eq!((arp.hardware_type(), arp.protocol_type(), arp.operation()), (1, 0x0800, 1));
        assert_eq!(arp.message_len(), 28);
        assert_eq!(arp.sender_hardware(), [2, 0, 0, 0, 0, 1]);
        assert_eq!(arp.target_hardware(), [0; 6]);
        assert_eq!(arp.ipv4(), Some((Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))));
    }

    #[test]
    fn every_address_must_be_there() {
        for len in 0..REQUEST.len() {
            assert!(Arp::new(&REQUEST[..len]).is_err(), "{len}");
        }
        let mut long = REQUEST;
        long[5] = 5;
        assert_eq!(Arp::new(&long).unwrap_err(), HeaderError::truncated(Header::Arp, 30, 28));
    }
}
