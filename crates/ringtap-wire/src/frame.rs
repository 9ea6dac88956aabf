//! Owns: building an Ethernet frame with a UDP datagram over IPv4 or IPv6, in place, in the caller's memory.
//! Does not: fragment, resolve addresses, or pad to the Ethernet minimum (drivers do).

use core::fmt;
use core::net::SocketAddr;

use crate::checksum;
use crate::ethernet::{Ethernet, ether_type};
use crate::ip::protocol;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::udp::Udp;
use crate::vlan::VlanTag;

/// Why a frame could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The memory is too small for the frame.
    NoRoom {
        /// Bytes needed.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The payload does not fit into one IP packet.
    PayloadTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes that fit: 65507 (IPv4) or 65527 (IPv6).
        max: usize,
    },
    /// Source and destination are of different IP versions.
    MixedVersions,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { need, have } => write!(f, "the frame needs {need} bytes, the buffer has {have}"),
            Self::PayloadTooLong { len, max } => write!(f, "a payload of {len} bytes, at most {max} fit"),
            Self::MixedVersions => f.write_str("source and destination address are of different IP versions"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Everything in a UDP frame except its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Ethernet source.
    pub source_mac: [u8; 6],
    /// Ethernet destination.
    pub destination_mac: [u8; 6],
    /// Control information of an IEEE 802.1Q tag (priority, drop eligible, identifier), if there shall be one.
    pub vlan: Option<u16>,
    /// IP source and UDP source port. An IPv6 address's flow information is used as flow label (20 bits).
    pub source: SocketAddr,
    /// IP destination and UDP destination port; of the same version as `source`.
    pub destination: SocketAddr,
    /// Time to live or hop limit, in hops.
    pub hop_limit: u8,
    /// Type of service or traffic class byte: differentiated services (6 bits) and congestion notification (2 bits).
    pub traffic_class: u8,
    /// IPv4 identification; not used over IPv6. "Don't fragment" is always set.
    pub identification: u16,
}

impl UdpFrame {
    /// Length of all headers in bytes, which is the offset of the payload: 42 (IPv4) or 62 (IPv6), and 4 with a tag.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        let tag = if self.vlan.is_some() { VlanTag::LEN } else { 0 };
        let ip = if self.source.is_ipv4() { Ipv4::MIN_LEN } else { Ipv6::LEN };
        Ethernet::LEN + tag + ip + Udp::LEN
    }

    /// Writes the frame with `payload` to the start of `frame`, checksums included; returns its length in bytes.
    ///
    /// # Errors
    /// All of [`FrameError`]; `frame` is unchanged then.
    pub fn write(&self, frame: &mut [u8], payload: &[u8]) -> Result<usize, FrameError> {
        let len = self.check(frame.len(), payload.len())?;
        frame[self.header_len()..len].copy_from_slice(payload);
        self.finish(frame, payload.len())
    }

    /// Writes the headers around a payload of `payload_len` bytes that already stands at
    /// [`header_len`](Self::header_len) of `frame`; returns the frame's length in bytes.
    ///
    /// # Errors
    /// All of [`FrameError`]; `frame` is unchanged then.
    pub fn finish(&self, frame: &mut [u8], payload_len: usize) -> Result<usize, FrameError> {
        let len = self.check(frame.len(), payload_len)?;
        let (headers, _) = frame.split_at_mut(len);
        let mut out = Writer { bytes: headers, at: 0 };
        out.put(&self.destination_mac);
        out.put(&self.source_mac);
        if let Some(control) = self.vlan {
            out.put16(ether_type::VLAN);
            out.put16(control);
        }
        let udp_len = (Udp::LEN + payload_len) as u16; // `check` has seen that it fits
        match (self.source, self.destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
                out.put16(ether_type::IPV4);
                let ip_at = out.at;
                out.put(&[0x45, self.traffic_class]);
                out.put16(Ipv4::MIN_LEN as u16 + udp_len);
                out.put16(self.identification);
                out.put16(0x4000); // don't fragment
                out.put(&[self.hop_limit, protocol::UDP, 0, 0]);
                out.put(&source.ip().octets());
                out.put(&destination.ip().octets());
                let checksum = checksum::ipv4_header(&out.bytes[ip_at..out.at]);
                out.bytes[ip_at + 10..ip_at + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
                out.put16(ether_type::IPV6);
                let word = 6 << 28 | u32::from(self.traffic_class) << 20 | source.flowinfo() & 0x000f_ffff;
                out.put(&word.to_be_bytes());
                out.put16(udp_len);
                out.put(&[protocol::UDP, self.hop_limit]);
                out.put(&source.ip().octets());
                out.put(&destination.ip().octets());
            }
            _ => return Err(FrameError::MixedVersions),
        }
        let udp_at = out.at;
        out.put16(self.source.port());
        out.put16(self.destination.port());
        out.put16(udp_len);
        out.put16(0);
        let checksum = checksum::udp(self.source.ip(), self.destination.ip(), &out.bytes[udp_at..])
            .ok_or(FrameError::MixedVersions)?;
        out.bytes[udp_at + 6..udp_at + 8].copy_from_slice(&checksum.to_be_bytes());
        Ok(len)
    }

    /// The length of the frame, if it can be built.
    fn check(&self, have: usize, payload_len: usize) -> Result<usize, FrameError> {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(FrameError::MixedVersions);
        }
        // The IPv4 total length counts the header (RFC 791), the IPv6 payload length does not (RFC 8200 §3).
        let counted = if self.source.is_ipv4() { Ipv4::MIN_LEN } else { 0 };
        let max = usize::from(u16::MAX) - counted - Udp::LEN;
        if payload_len > max {
            return Err(FrameError::PayloadTooLong { len: payload_len, max });
        }
        let need = self.header_len() + payload_len;
        if need > have { Err(FrameError::NoRoom { need, have }) } else { Ok(need) }
    }
}

/// Writes one field behind the other; `UdpFrame::check` has seen that all of them fit.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    #[inline]
    fn put16(&mut self, field: u16) {
        self.put(&field.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Verdict;
    use crate::layers::{Layers, Transport};
    use crate::link::LinkType;
    use crate::stop::Stop;

    fn frame(source: &str, destination: &str, vlan: Option<u16>) -> UdpFrame {
        UdpFrame {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hop_limit: 9,
            traffic_class: 0xb8,
            identification: 0x1234,
        }
    }

    #[test]
    fn built_frames_parse_and_verify() {
        for (source, destination, vlan, header_len) in [
            ("192.0.2.1:1000", "192.0.2.2:162", None, 42),
            ("192.0.2.1:1000", "192.0.2.2:162", Some(0x6005), 46),
            ("[2001:db8::1]:1000", "[2001:db8::2]:162", None, 62),
            ("[2001:db8::1]:1000", "[2001:db8::2]:162", Some(5), 66),
        ] {
            let udp = frame(source, destination, vlan);
            assert_eq!(udp.header_len(), header_len);
            for payload in [&b""[..], b"x", b"alarm!"] {
                let mut memory = [0xee_u8; 128];
                let len = udp.write(&mut memory, payload).unwrap();
                assert_eq!(len, header_len + payload.len());
                assert!(memory[len..].iter().all(|&byte| byte == 0xee));
                let data = &memory[..len];
                let layers = Layers::parse(data, LinkType::Ethernet);
                assert_eq!(layers.stop(), Stop::Complete);
                assert_eq!(layers.transport(), Some((Transport::Udp, header_len - 8)));
                assert_eq!(layers.payload(data), payload);
                assert_eq!(layers.verify_transport(data), Verdict::Valid);
                let ip = layers.inner_ip().unwrap().view(data).unwrap();
                assert_eq!((ip.source(), ip.destination()), (udp.source.ip(), udp.destination.ip()));
                assert_eq!(ip.hop_limit(), 9);
                assert_eq!(layers.ports(data), Some((1000, 162)));
                assert_eq!(
                    layers.verify_ipv4(data),
                    if udp.source.is_ipv4() { Verdict::Valid } else { Verdict::Unknown }
                );
                assert_eq!(layers.vlan_tags(data).next().map(|tag| tag.control()), vlan);
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        let mut memory = [0xee_u8; 66000];
        let v4 = frame("192.0.2.1:1", "192.0.2.2:2", None);
        let v6 = frame("[::1]:1", "[::2]:2", None);
        assert_eq!(v4.write(&mut memory[..42], b"x"), Err(FrameError::NoRoom { need: 43, have: 42 }));
        assert_eq!(v4.finish(&mut memory, 65508), Err(FrameError::PayloadTooLong { len: 65508, max: 65507 }));
        assert_eq!(v6.finish(&mut memory, 65528), Err(FrameError::PayloadTooLong { len: 65528, max: 65527 }));
        assert_eq!(frame("192.0.2.1:1", "[::2]:2", None).write(&mut memory, b""), Err(FrameError::MixedVersions));
        assert!(memory.iter().all(|&byte| byte == 0xee));
        assert_eq!(v4.finish(&mut memory, 65507), Ok(65549));
        assert_eq!(v6.finish(&mut memory, 65527), Ok(65589));
    }
}
