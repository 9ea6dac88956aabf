//! Owns: one VLAN tag (IEEE 802.1Q §9, 802.1ad) and one MPLS label stack entry (RFC 3032 §2.1, RFC 5462).
//! Does not: walk stacks; [`Layers`](crate::Layers) does, within fixed bounds.

use crate::bytes::{be16, be32};
use crate::error::{Header, HeaderError, at_least};

mod field {
    use core::ops::Range;
    pub(super) const CONTROL: Range<usize> = 0..2;
    pub(super) const ETHER_TYPE: Range<usize> = 2..4;
}

/// A VLAN tag as it follows its TPID: control information, then the type of what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag<'a> {
    bytes: &'a [u8],
}

impl<'a> VlanTag<'a> {
    /// Length in bytes of the control information and the next type.
    pub const LEN: usize = 4;

    /// A view of the tag; `bytes` starts behind the TPID that announced it.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 4 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Vlan, bytes, Self::LEN)?;
        Ok(Self { bytes })
    }

    /// Tag control information: priority (3 bits), drop eligible (1), identifier (12).
    #[inline]
    #[must_use]
    pub fn control(&self) -> u16 {
        be16(self.bytes, field::CONTROL)
    }

    /// VLAN identifier, 0 to 4095; 0 means that only the priority counts.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u16 {
        self.control() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> u8 {
        (self.control() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    #[must_use]
    pub fn drop_eligible(&self) -> bool {
        self.control() & 0x1000 != 0
    }

    /// Type of what follows: an EtherType, or an IEEE 802.3 length up to 1500.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> u16 {
        be16(self.bytes, field::ETHER_TYPE)
    }
}

/// One MPLS label stack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MplsEntry<'a> {
    bytes: &'a [u8],
}

impl<'a> MplsEntry<'a> {
    /// Length in bytes.
    pub const LEN: usize = 4;
    /// "IPv4 explicit null": at the bottom, IPv4 follows (RFC 3032 §2.1).
    pub const IPV4_NULL: u32 = 0;
    /// "IPv6 explicit null": at the bottom, IPv6 follows (RFC 3032 §2.1).
    pub const IPV6_NULL: u32 = 2;

    /// A view of the entry at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 4 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Mpls, bytes, Self::LEN)?;
        Ok(Self { bytes })
    }

    #[inline]
    fn word(&self) -> u32 {
        be32(self.bytes, 0..4)
    }

    /// Label, 20 bits.
    #[inline]
    #[must_use]
    pub fn label(&self) -> u32 {
        self.word() >> 12
    }

    /// Traffic class, 0 to 7.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (self.word() >> 9 & 7) as u8
    }

    /// Whether this is the last entry of the stack.
    #[inline]
    #[must_use]
    pub fn is_bottom(&self) -> bool {
        self.word() & 0x100 != 0
    }

    /// Time to live, in hops.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.word() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_fields() {
        let tag = VlanTag::new(&[0xb1, 0x23, 0x86, 0xdd]).unwrap();
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (5, true, 0x123));
        assert_eq!(tag.ether_type(), 0x86dd);
        assert!(VlanTag::new(&[0; 3]).is_err());
    }

    #[test]
    fn label_fields() {
        // label 0x12345, class 5, bottom, ttl 64
        let entry = MplsEntry::new(&[0x12, 0x34, 0x5b, 0x40]).unwrap();
        assert_eq!((entry.label(), entry.traffic_class(), entry.is_bottom(), entry.ttl()), (0x12345, 5, true, 64));
        assert!(MplsEntry::new(&[0; 3]).is_err());
    }
}
