//! Owns: Ethernet II and IEEE 802.3 headers, LLC/SNAP, and the EtherType numbers the parser acts on.
//! Does not: read tags (`vlan.rs`) or the frame check sequence, which captures don't hold.

use crate::bytes::{array, be16, be24, within};
use crate::error::{Header, HeaderError, at_least};

/// EtherType numbers (IANA "IEEE 802 Numbers").
pub mod ether_type {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// Transparent Ethernet bridging: a whole Ethernet frame follows (RFC 7637 §3.2).
    pub const ETHERNET: u16 = 0x6558;
    /// IEEE 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// PPP, used by GRE version 1 (RFC 2637 §4.1).
    pub const PPP: u16 = 0x880b;
    /// MPLS with downstream-assigned labels (RFC 3032 §5, RFC 5332).
    pub const MPLS: u16 = 0x8847;
    /// MPLS with upstream-assigned labels (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// PPPoE discovery (RFC 2516 §4).
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    /// PPPoE session (RFC 2516 §4).
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// IEEE 802.1ad service tag (QinQ).
    pub const QINQ: u16 = 0x88a8;
    /// Service tag as older switches write it.
    pub const QINQ_OLD: u16 = 0x9100;

    /// The largest value that is an IEEE 802.3 length rather than a type (IEEE 802.3 §3.2.6).
    pub const MAX_LENGTH: u16 = 1500;

    /// Whether `value` announces a VLAN tag: 0x8100, 0x88a8 or 0x9100.
    #[inline]
    #[must_use]
    pub const fn is_vlan(value: u16) -> bool {
        matches!(value, VLAN | QINQ | QINQ_OLD)
    }
}

mod field {
    use core::ops::Range;
    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHER_TYPE: Range<usize> = 12..14;
}

/// An Ethernet header: destination, source, and type or length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet<'a> {
    bytes: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 14;

    /// A view of the header at the start of `bytes`; the rest of `bytes` is the frame.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 14 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Ethernet, bytes, Self::LEN)?;
        Ok(Self { bytes })
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> [u8; 6] {
        array(self.bytes, field::DESTINATION)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> [u8; 6] {
        array(self.bytes, field::SOURCE)
    }

    /// The type field as it stands: an EtherType from 0x0600 up, an IEEE 802.3 length up to 1500.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> u16 {
        be16(self.bytes, field::ETHER_TYPE)
    }

    /// The IEEE 802.3 length in bytes, when the type field holds one (0 to 1500).
    #[inline]
    #[must_use]
    pub fn length(&self) -> Option<u16> {
        Some(self.ether_type()).filter(|&value| value <= ether_type::MAX_LENGTH)
    }

    /// What follows the header, cut to the IEEE 802.3 length where there is one (the rest is padding).
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        match self.length() {
            Some(length) => within(self.bytes, Self::LEN, Self::LEN + usize::from(length)),
            None => &self.bytes[Self::LEN..],
        }
    }
}

mod llc_field {
    use core::ops::Range;
    pub(super) const DSAP: usize = 0;
    pub(super) const SSAP: usize = 1;
    pub(super) const CONTROL: usize = 2;
    pub(super) const OUI: Range<usize> = 3..6;
    pub(super) const PROTOCOL: Range<usize> = 6..8;
}

/// An IEEE 802.2 LLC header, with its SNAP extension where there is one (RFC 1042).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Llc<'a> {
    bytes: &'a [u8],
}

impl<'a> Llc<'a> {
    /// Length of an LLC header with a one-byte control field.
    pub const LEN: usize = 3;
    /// Length of LLC and SNAP together.
    pub const SNAP_LEN: usize = 8;

    /// A view of the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 3 bytes, or below 8 when the header announces SNAP.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Llc, bytes, Self::LEN)?;
        let llc = Self { bytes };
        if llc.is_snap() {
            at_least(Header::Llc, bytes, Self::SNAP_LEN)?;
        }
        Ok(llc)
    }

    /// Destination service access point.
    #[inline]
    #[must_use]
    pub fn dsap(&self) -> u8 {
        self.bytes[llc_field::DSAP]
    }

    /// Source service access point.
    #[inline]
    #[must_use]
    pub fn ssap(&self) -> u8 {
        self.bytes[llc_field::SSAP]
    }

    /// First byte of the control field.
    #[inline]
    #[must_use]
    pub fn control(&self) -> u8 {
        self.bytes[llc_field::CONTROL]
    }

    /// Whether a SNAP extension follows: both access points 0xAA, unnumbered information.
    #[inline]
    #[must_use]
    pub fn is_snap(&self) -> bool {
        self.bytes.starts_with(&[0xaa, 0xaa, 0x03])
    }

    /// Organisation (24 bits) and protocol of the SNAP extension.
    #[inline]
    #[must_use]
    pub fn snap(&self) -> Option<(u32, u16)> {
        self.is_snap().then(|| (be24(self.bytes, llc_field::OUI), be16(self.bytes, llc_field::PROTOCOL)))
    }

    /// The EtherType carried in SNAP, when the organisation is 00-00-00 (RFC 1042).
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        self.snap().and_then(|(oui, protocol)| (oui == 0).then_some(protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_fields() {
        let frame = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0xff];
        let view = Ethernet::new(&frame).unwrap();
        assert_eq!(view.destination(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(view.source(), [7, 8, 9, 10, 11, 12]);
        assert_eq!((view.ether_type(), view.length()), (0x0800, None));
        assert_eq!(view.payload(), [0xff]);
        assert_eq!(Ethernet::new(&frame[..13]).unwrap_err(), HeaderError::truncated(Header::Ethernet, 14, 13));
    }

    #[test]
    fn length_cuts_padding_and_snap_gives_a_type() {
        let mut frame = [0u8; 60];
        frame[13] = 10;
        frame[14..22].copy_from_slice(&[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x06]);
        let view = Ethernet::new(&frame).unwrap();
        assert_eq!(view.length(), Some(10));
        assert_eq!(view.payload().len(), 10);
        let llc = Llc::new(view.payload()).unwrap();
        assert_eq!((llc.dsap(), llc.ssap(), llc.control()), (0xaa, 0xaa, 3));
        assert_eq!(llc.ether_type(), Some(ether_type::ARP));
        assert!(Llc::new(&frame[14..20]).is_err());
        assert_eq!(Llc::new(&[0x42, 0x42, 3]).unwrap().ether_type(), None);
    }
}
