//! Owns: the flow key: addresses, ports, protocol and VLAN in one direction-independent form, with a stable hash.
//! Does not: keep flows.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, within};
use crate::icmp::{Icmpv4, Icmpv6};
use crate::ip::{IpVersion, protocol};
use crate::layers::{IpSpan, Layers, ports_at};

/// Which way a packet goes in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the key's first endpoint to its second.
    Forward,
    /// From the key's second endpoint to its first.
    Reverse,
}

/// What the packets of one flow have in common, both ways: two endpoints (address and port; the lower one first),
/// protocol, and up to two VLAN identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// IPv4 addresses fill the first four bytes.
    addresses: [[u8; 16]; 2],
    ports: [u16; 2],
    vlan: [u16; 2],
    protocol: u8,
    version: IpVersion,
}

impl FlowKey {
    /// The key of the innermost IP packet, and the packet's direction. `None` without an IP header.
    ///
    /// Ports are those of TCP, UDP and SCTP; ICMP queries have their identifier in place of both, so that request and
    /// reply share a key. Both ports are 0 for everything else, for later fragments ([`IpSpan::is_later_fragment`];
    /// [`hosts`](Self::hosts) is what all fragments of a packet share), and where the ports were not captured.
    ///
    /// The VLAN identifiers are those of the outermost frame, also for a packet inside a tunnel; the identifier of the
    /// tunnel itself (VXLAN, GENEVE, GRE key) is not part of the key.
    #[inline]
    #[must_use]
    pub fn inner(layers: &Layers, data: &[u8]) -> Option<(Self, Direction)> {
        Self::of(layers.inner_ip()?, layers, data)
    }

    /// The key of the outermost IP packet, and the packet's direction; as [`inner`](Self::inner) otherwise.
    #[inline]
    #[must_use]
    pub fn outer(layers: &Layers, data: &[u8]) -> Option<(Self, Direction)> {
        Self::of(layers.outer_ip()?, layers, data)
    }

    fn of(span: &IpSpan, layers: &Layers, data: &[u8]) -> Option<(Self, Direction)> {
        let (source, destination) = addresses(span, data)?;
        let (source_port, destination_port) = ports(span, data).unwrap_or((0, 0));
        // As numbers: comparing arrays is a call.
        let place = |address, port| (u128::from_be_bytes(address), port);
        let forward = place(source, source_port) <= place(destination, destination_port);
        let key = Self {
            addresses: if forward { [source, destination] } else { [destination, source] },
            ports: if forward { [source_port, destination_port] } else { [destination_port, source_port] },
            vlan: layers.vlan_ids(data),
            protocol: span.protocol(),
            version: span.version(),
        };
        Some((key, if forward { Direction::Forward } else { Direction::Reverse }))
    }

    /// The same key without ports: shared by all flows of one protocol between two hosts, and by all fragments of a
    /// packet.
    #[inline]
    #[must_use]
    pub fn hosts(mut self) -> Self {
        self.ports = [0; 2];
        // With equal addresses the order was by port, and both addresses are the same: it stands either way.
        self
    }

    /// IP version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// Addresses of the first and the second endpoint.
    #[inline]
    #[must_use]
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        let address = |bytes: &[u8; 16]| match self.version {
            IpVersion::V4 => Ipv4Addr::from(array::<4>(bytes, 0..4)).into(),
            IpVersion::V6 => Ipv6Addr::from(*bytes).into(),
        };
        (address(&self.addresses[0]), address(&self.addresses[1]))
    }

    /// Ports of the first and the second endpoint, in the order of [`addresses`](Self::addresses).
    #[inline]
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (self.ports[0], self.ports[1])
    }

    /// IP protocol number ([`protocol`]), that of the transport behind extension headers.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Identifiers of the two outermost VLAN tags, 0 for none (and for priority tags, which name no VLAN).
    #[inline]
    #[must_use]
    pub fn vlan(&self) -> [u16; 2] {
        self.vlan
    }

    /// A hash of the key, the same on every machine and in every version of this crate: for choosing a worker or a
    /// queue, or splitting traffic between sensors. Not cryptographic; where senders could aim at one bucket, use a
    /// secret `seed`.
    #[inline]
    #[must_use]
    pub fn stable_hash(&self, seed: u64) -> u64 {
        // Digits of pi, as nothing-up-my-sleeve numbers.
        const MIX: [u64; 4] =
            [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
        let word = |bytes: &[u8; 16], at: usize| u64::from_be_bytes(array(bytes, at..at + 8));
        let [first, second] = &self.addresses;
        let numbers = u64::from(self.ports[0]) << 48
            | u64::from(self.ports[1]) << 32
            | u64::from(self.vlan[0]) << 16
            | u64::from(self.vlan[1]);
        let kind = u64::from(self.protocol) << 8 | u64::from(self.version == IpVersion::V6);
        let mut hash = seed ^ MIX[0];
        hash = fold(hash ^ word(first, 0), seed ^ MIX[1] ^ word(first, 8));
        hash = fold(hash ^ word(second, 0), seed ^ MIX[2] ^ word(second, 8));
        hash = fold(hash ^ numbers, seed ^ MIX[3] ^ kind);
        fold(hash ^ MIX[1], MIX[0])
    }
}

/// The two halves of a full product, folded into one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Source and destination, from a header that was measured when the span was made.
#[inline]
fn addresses(span: &IpSpan, data: &[u8]) -> Option<([u8; 16], [u8; 16])> {
    let header = within(data, span.at(), span.end());
    match span.version() {
        IpVersion::V4 => {
            let [source, destination] = header.get(12..20)?.as_chunks().0 else { return None };
            Some((widen(source), widen(destination)))
        }
        IpVersion::V6 => {
            let [source, destination] = header.get(8..40)?.as_chunks().0 else { return None };
            Some((*source, *destination))
        }
    }
}

#[inline]
fn widen(address: &[u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(address);
    bytes
}

#[inline]
fn ports(span: &IpSpan, data: &[u8]) -> Option<(u16, u16)> {
    if span.is_later_fragment() {
        return None;
    }
    let payload = within(data, span.payload_at(), span.end());
    let query = match span.protocol() {
        protocol::TCP | protocol::UDP | protocol::SCTP => return ports_at(payload, 0),
        protocol::ICMP => Icmpv4::new(payload).ok()?.query(),
        protocol::ICMPV6 => Icmpv6::new(payload).ok()?.query(),
        _ => None,
    };
    query.map(|(identifier, _)| (identifier, identifier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::UdpFrame;
    use crate::link::LinkType;
    use std::vec::Vec;

    fn key(source: &str, destination: &str, vlan: Option<u16>) -> (FlowKey, Direction) {
        let mut frame = [0u8; 128];
        let udp = UdpFrame {
            source_mac: [2; 6],
            destination_mac: [4; 6],
            vlan,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hop_limit: 64,
            traffic_class: 0,
            identification: 0,
        };
        let len = udp.write(&mut frame, b"x").unwrap();
        let layers = Layers::parse(&frame[..len], LinkType::Ethernet);
        FlowKey::inner(&layers, &frame[..len]).unwrap()
    }

    #[test]
    fn both_ways_share_a_key() {
        for (a, b) in [("10.0.0.1:5", "10.0.0.2:4"), ("[fe80::1]:9", "[fe80::2]:1"), ("10.0.0.1:5", "10.0.0.1:6")] {
            let (there, forward) = key(a, b, Some(0x2007));
            let (back, reverse) = key(b, a, Some(0x0007));
            assert_eq!(there, back);
            assert_eq!((forward, reverse), (Direction::Forward, Direction::Reverse));
            assert_eq!(there.vlan(), [7, 0]);
            assert_eq!(there.stable_hash(1), back.stable_hash(1));
            assert_ne!(there.stable_hash(1), there.stable_hash(2));
            assert_eq!(there.hosts(), back.hosts());
            assert_ne!(there, key(a, b, None).0);
        }
    }

    #[test]
    fn fields() {
        let (key, direction) = key("10.0.0.2:53", "10.0.0.1:40000", None);
        assert_eq!(direction, Direction::Reverse);
        assert_eq!(key.addresses(), (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()));
        assert_eq!((key.ports(), key.protocol(), key.version()), ((40000, 53), 17, IpVersion::V4));
    }

    /// The hash is promised to stay: these values must never change.
    #[test]
    fn hash_is_stable() {
        let v4 = key("10.0.0.1:5", "10.0.0.2:4", None).0;
        let v6 = key("[fe80::1]:9", "[fe80::2]:1", Some(7)).0;
        let found = [v4.stable_hash(0), v4.stable_hash(1), v6.stable_hash(0)];
        assert_eq!(found, [0xb7c9_f347_6bab_598d, 0x209f_2e4b_5e78_a930, 0x00dc_c322_f5ae_ee5b]);
    }

    /// 65536 neighbouring flows in 256 buckets: the chi-squared statistic, 255 degrees of freedom, stays below its
    /// 99.99 % point (347) whichever byte chooses the bucket.
    #[test]
    fn hash_spreads() {
        let mut base = key("10.0.0.1:1", "10.0.0.2:1", None).0;
        for shift in [0u32, 24, 56] {
            let mut buckets: Vec<f64> = std::vec![0.0; 256];
            for number in 0..=u16::MAX {
                base.addresses[0][3] = number as u8;
                base.ports[0] = 1024 + (number >> 8);
                buckets[usize::from((base.stable_hash(0) >> shift) as u8)] += 1.0;
            }
            let chi: f64 = buckets.iter().map(|count| (count - 256.0).powi(2) / 256.0).sum();
            assert!(chi < 347.0, "shift {shift}: {chi}");
        }
    }
}
