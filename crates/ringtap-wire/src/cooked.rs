//! Owns: the headers that a capture puts in place of a link header: Linux cooked version 1 and 2
//! (LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2), and the BSD family word (LINKTYPE_NULL, LINKTYPE_LOOP).
//! Does not: read what hardware types other than Ethernet-like put behind a cooked header.

use crate::bytes::{array, be16, be32};
use crate::error::{Header, HeaderError, at_least};
use crate::ip::IpVersion;

/// Hardware types (Linux `if_arp.h`) behind which the protocol field is not an EtherType
/// (<https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>).
mod hardware {
    pub(super) const FRAD: u16 = 770;
    pub(super) const IPGRE: u16 = 778;
    pub(super) const RADIOTAP: u16 = 803;
    pub(super) const NETLINK: u16 = 824;
}

/// The protocol value for "an IEEE 802.2 LLC header follows" (`ETH_P_802_2` in Linux `if_ether.h`).
const LLC_FOLLOWS: u16 = 0x0004;

/// What a cooked header says about what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookedPayload {
    /// An EtherType.
    EtherType(u16),
    /// An LLC header.
    Llc,
    /// Something that is neither; the protocol field is given.
    Other(u16),
}

/// A Linux cooked header, version 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooked<'a> {
    bytes: &'a [u8],
    second: bool,
}

impl<'a> Cooked<'a> {
    /// Length of a version 1 header in bytes.
    pub const LEN: usize = 16;
    /// Length of a version 2 header in bytes.
    pub const LEN_2: usize = 20;

    /// A view of the version 1 header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 16 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Cooked, bytes, Self::LEN)?;
        Ok(Self { bytes, second: false })
    }

    /// A view of the version 2 header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Fault::Truncated`](crate::Fault::Truncated) below 20 bytes.
    #[inline]
    pub fn new_2(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Cooked, bytes, Self::LEN_2)?;
        Ok(Self { bytes, second: true })
    }

    /// Length of the header, 16 or 20 bytes.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.second { Self::LEN_2 } else { Self::LEN }
    }

    /// Packet type: 0 to us, 1 broadcast, 2 multicast, 3 between others, 4 sent by us.
    #[inline]
    #[must_use]
    pub fn packet_type(&self) -> u16 {
        if self.second { u16::from(self.bytes[10]) } else { be16(self.bytes, 0..2) }
    }

    /// Hardware type of the interface (`ARPHRD_…`); 1 is Ethernet.
    #[inline]
    #[must_use]
    pub fn hardware_type(&self) -> u16 {
        if self.second { be16(self.bytes, 8..10) } else { be16(self.bytes, 2..4) }
    }

    /// Link address of the sender: up to 8 bytes, of which the header says how many count.
    #[inline]
    #[must_use]
    pub fn address(&self) -> &'a [u8] {
        let (len, at) =
            if self.second { (usize::from(self.bytes[11]), 12) } else { (usize::from(be16(self.bytes, 4..6)), 6) };
        &self.bytes[at..at + len.min(8)]
    }

    /// Index of the interface (version 2).
    #[inline]
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        self.second.then(|| be32(self.bytes, 4..8))
    }

    /// What follows.
    #[inline]
    #[must_use]
    pub fn follows(&self) -> CookedPayload {
        let protocol = if self.second { be16(self.bytes, 0..2) } else { be16(self.bytes, 14..16) };
        match (self.hardware_type(), protocol) {
            (hardware::FRAD | hardware::RADIOTAP | hardware::NETLINK, _) => CookedPayload::Other(protocol),
            (hardware::IPGRE, _) => CookedPayload::EtherType(protocol),
            (_, LLC_FOLLOWS) => CookedPayload::Llc,
            (_, 0..0x0600) => CookedPayload::Other(protocol),
            _ => CookedPayload::EtherType(protocol),
        }
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// Length of the family word of null and loopback captures, in bytes.
pub const FAMILY_LEN: usize = 4;

/// The IP version that the family word at the start of `bytes` names, `None` for other families.
///
/// The word is in the byte order of the capturing machine (null) or of the network (loopback); both are accepted.
/// IPv4 is 2 everywhere; IPv6 is 10 (Linux), 24 (NetBSD, OpenBSD), 28 (FreeBSD) or 30 (Darwin).
///
/// # Errors
/// [`Fault::Truncated`](crate::Fault::Truncated) below 4 bytes.
#[inline]
pub fn family(bytes: &[u8]) -> Result<Option<IpVersion>, HeaderError> {
    at_least(Header::Null, bytes, FAMILY_LEN)?;
    let word: [u8; FAMILY_LEN] = array(bytes, 0..FAMILY_LEN);
    let value = match word {
        [low, 0, 0, 0] | [0, 0, 0, low] => low,
        _ => return Ok(None),
    };
    Ok(match value {
        2 => Some(IpVersion::V4),
        10 | 24 | 28 | 30 => Some(IpVersion::V6),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1() {
        let bytes = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0, 0x45];
        let view = Cooked::new(&bytes).unwrap();
        assert_eq!((view.packet_type(), view.hardware_type(), view.address()), (4, 1, &[1u8, 2, 3, 4, 5, 6][..]));
        assert_eq!((view.follows(), view.interface_index()), (CookedPayload::EtherType(0x0800), None));
        assert_eq!((view.header_len(), view.payload()), (16, &[0x45u8][..]));
        assert!(Cooked::new(&bytes[..15]).is_err());
    }

    #[test]
    fn version_2() {
        let bytes = [0, 4, 0, 0, 0, 0, 0, 9, 0, 1, 2, 200, 1, 2, 3, 4, 5, 6, 7, 8];
        let view = Cooked::new_2(&bytes).unwrap();
        assert_eq!((view.packet_type(), view.hardware_type(), view.interface_index()), (2, 1, Some(9)));
        assert_eq!((view.address(), view.follows()), (&[1u8, 2, 3, 4, 5, 6, 7, 8][..], CookedPayload::Llc));
        assert!(Cooked::new_2(&bytes[..19]).is_err());
    }

    #[test]
    fn netlink_is_not_an_ether_type() {
        let mut bytes = [0u8; 16];
        bytes[2..4].copy_from_slice(&824u16.to_be_bytes());
        bytes[14] = 8;
        assert_eq!(Cooked::new(&bytes).unwrap().follows(), CookedPayload::Other(0x0800));
    }

    #[test]
    fn families() {
        assert_eq!(family(&[2, 0, 0, 0]), Ok(Some(IpVersion::V4)));
        assert_eq!(family(&[0, 0, 0, 30]), Ok(Some(IpVersion::V6)));
        assert_eq!(family(&[0, 0, 0, 0]), Ok(None));
        assert_eq!(family(&[2, 0, 0, 2]), Ok(None));
        assert!(family(&[2, 0, 0]).is_err());
    }
}
