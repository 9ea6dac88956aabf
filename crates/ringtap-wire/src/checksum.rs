//! Owns: the Internet checksum (RFC 1071) over headers and pseudo headers, SCTP's CRC32c (RFC 9260 appendix A), and
//! the verdict on a parsed packet's checksums.
//! Does not: correct packets. Packets captured on the host that sent them usually carry unfinished checksums, because
//! the network card finishes them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::within;
use crate::ip::{Ip, protocol};
use crate::layers::{Layers, Transport};

/// A running one's complement sum over 16-bit words (RFC 1071).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// An odd number of bytes was added: the next byte is the low half of a word.
    odd: bool,
}

impl Sum {
    /// The empty sum.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { total: 0, odd: false }
    }

    /// The sum over the pseudo header of TCP (RFC 9293 §3.1) and UDP (RFC 768) over IPv4. `length` is that of
    /// transport header and payload, in bytes.
    #[inline]
    #[must_use]
    pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u32) -> Self {
        Self::new().with(&source.octets()).with(&destination.octets()).with_numbers(protocol, length)
    }

    /// The sum over the pseudo header of RFC 8200 §8.1. `length` is that of transport header and payload, in bytes;
    /// `destination` is the last one, where a routing header lists several.
    #[inline]
    #[must_use]
    pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Self {
        Self::new().with(&source.octets()).with(&destination.octets()).with_numbers(protocol, length)
    }

    fn with_numbers(self, protocol: u8, length: u32) -> Self {
        self.with(&[0, protocol]).with(&length.to_be_bytes())
    }

    /// The sum with `bytes` added. Slices may be of any length, and follow each other as if they were one.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let mut total = 0u64;
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        }
        total += match *words.remainder() {
            [a] => u64::from(a) << 8,
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c] => u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
            _ => 0,
        };
        // RFC 1071 §2(B): a sum over swapped bytes is the swapped sum.
        let folded = if self.odd { fold(total).swap_bytes() } else { fold(total) };
        Self { total: self.total + u64::from(folded), odd: self.odd ^ (!bytes.len().is_multiple_of(2)) }
    }

    /// The checksum: the complement of the sum. Over data that includes a right checksum, it is 0.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        !fold(self.total)
    }
}

#[inline]
fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// The Internet checksum over `bytes`, whose own checksum field, if any, must be 0.
#[inline]
#[must_use]
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::new().with(bytes).finish()
}

/// The checksum for an IPv4 header; its checksum field is taken as 0. `header` is 20 to 60 bytes long.
#[inline]
#[must_use]
pub fn ipv4_header(header: &[u8]) -> u16 {
    Sum::new().with(within(header, 0, 10)).with(within(header, 12, header.len())).finish()
}

/// The sum over the pseudo header for either IP version; `None` when the versions differ.
fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Option<Sum> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Sum::pseudo_v4(source, destination, protocol, length)),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Sum::pseudo_v6(source, destination, protocol, length)),
        _ => None,
    }
}

/// The checksum for a UDP datagram (`segment`: header and payload, checksum field 0) as it goes into the field: never
/// 0, which would mean "none" (RFC 768). `None` when the addresses are of different versions.
#[must_use]
pub fn udp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Option<u16> {
    let sum = pseudo(source, destination, protocol::UDP, u32::try_from(segment.len()).ok()?)?;
    Some(match sum.with(segment).finish() {
        0 => 0xffff,
        checksum => checksum,
    })
}

/// The checksum for a TCP segment (header and payload, checksum field 0). `None` when the addresses are of different
/// versions.
#[must_use]
pub fn tcp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Option<u16> {
    let sum = pseudo(source, destination, protocol::TCP, u32::try_from(segment.len()).ok()?)?;
    Some(sum.with(segment).finish())
}

/// The checksum for an ICMP message (RFC 792; checksum field 0), which has no pseudo header.
#[inline]
#[must_use]
pub fn icmpv4(message: &[u8]) -> u16 {
    internet(message)
}

/// The checksum for an ICMPv6 message (RFC 4443 §2.3; checksum field 0), which has one. `None` above 4 GiB.
#[must_use]
pub fn icmpv6(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Option<u16> {
    let length = u32::try_from(message.len()).ok()?;
    Some(Sum::pseudo_v6(source, destination, protocol::ICMPV6, length).with(message).finish())
}

/// CRC32c table for one byte, reflected polynomial 0x82f63b78.
const CRC32C: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The checksum for an SCTP packet (common header and chunks); its checksum field is taken as 0. As it compares with
/// [`Sctp::checksum`](crate::Sctp::checksum).
#[must_use]
pub fn sctp(packet: &[u8]) -> u32 {
    let mut crc = !0u32;
    for part in [within(packet, 0, 8), &[0; 4], within(packet, 12, packet.len())] {
        for byte in part {
            crc = crc >> 8 ^ CRC32C[usize::from(crc as u8 ^ byte)];
        }
    }
    (!crc).swap_bytes()
}

/// What can be said about a packet's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is right.
    Valid,
    /// It is wrong (or unfinished, when captured on the sending host).
    Invalid,
    /// The sender computed none (UDP checksum 0).
    Absent,
    /// There is no such checksum, or not all that it covers is there: a cut packet, a fragment, source routing under
    /// way, segmentation offload.
    Unknown,
}

impl From<bool> for Verdict {
    fn from(right: bool) -> Self {
        if right { Self::Valid } else { Self::Invalid }
    }
}

impl Layers {
    /// The verdict on the innermost IPv4 header's checksum; [`Verdict::Unknown`] for IPv6, which has none.
    #[must_use]
    pub fn verify_ipv4(&self, data: &[u8]) -> Verdict {
        match self.inner_ip().and_then(|span| span.view(data)) {
            Some(Ip::V4(header)) => (internet(header.header()) == 0).into(),
            _ => Verdict::Unknown,
        }
    }

    /// The verdict on the transport checksum of [`transport`](Self::transport). The work is linear in the payload.
    ///
    /// A home address option (RFC 6275 §6.3), which replaces the source address in the pseudo header, is not looked
    /// for: such packets come out as [`Verdict::Invalid`].
    #[must_use]
    pub fn verify_transport(&self, data: &[u8]) -> Verdict {
        self.transport_verdict(data).unwrap_or(Verdict::Unknown)
    }

    fn transport_verdict(&self, data: &[u8]) -> Option<Verdict> {
        let (kind, at) = self.transport()?;
        let span = self.inner_ip()?;
        if span.missing() > 0 || span.is_fragment() || span.is_source_routed() || span.is_length_unknown() {
            return None;
        }
        let mut segment = within(data, at, span.end());
        if kind == Transport::Udp {
            let header = self.udp(data)?;
            if header.checksum() == 0 {
                return Some(Verdict::Absent);
            }
            let length = usize::from(header.length());
            if length != 0 {
                segment = segment.get(..length)?;
            }
        }
        let length = u32::try_from(segment.len()).ok()?;
        let sum = match kind {
            Transport::Sctp => return Some((sctp(segment) == self.sctp(data)?.checksum()).into()),
            Transport::Icmpv4 => Sum::new(),
            Transport::Tcp | Transport::Udp | Transport::Icmpv6 => {
                let header = span.view(data)?;
                pseudo(header.source(), header.destination(), span.protocol(), length)?
            }
        };
        Some((sum.with(segment).finish() == 0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_example() {
        // RFC 1071 §3: the sum is 0xddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet(&bytes), !0xddf2);
    }

    #[test]
    fn any_split_gives_the_same_sum() {
        let bytes: [u8; 37] = core::array::from_fn(|index| (index * 71 + 200) as u8);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let sum = Sum::new().with(&bytes[..first]).with(&bytes[first..second]).with(&bytes[second..]);
                assert_eq!(sum.finish(), internet(&bytes), "{first} {second}");
            }
        }
    }

    #[test]
    fn ipv4_header_ignores_its_field() {
        // A widely printed example header; its checksum is 0xb861.
        let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(ipv4_header(&header), 0xb861);
        assert_eq!(internet(&header), 0);
        assert_eq!(ipv4_header(&[]), 0xffff);
    }

    #[test]
    fn crc32c_check_value() {
        // The common check value of CRC-32C is that of "123456789"; SCTP's field (bytes 8 to 11) is 0 here, so compare
        // with RFC 3720 appendix B.4: 32 bytes of zero give 0x8a9136aa.
        assert_eq!(sctp(&[0; 32]), 0x8a91_36aa_u32.swap_bytes());
    }

    #[test]
    fn udp_never_zero() {
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        // The pseudo header sums to 17 + 8, the header to its length 8: choose the port so that the sum is 0xffff.
        let mut segment = [0u8; 8];
        segment[5] = 8;
        segment[..2].copy_from_slice(&(0xffff_u16 - 17 - 16).to_be_bytes());
        assert_eq!(udp(address, address, &segment), Some(0xffff));
        assert_eq!(udp(address, Ipv6Addr::LOCALHOST.into(), &segment), None);
    }
}
