//! Owns: what must hold for any bytes ([`check`]), and the comparison with etherparse ([`agree`]).
//! Does not: make packets. Shared by the tests and by the fuzz target.

use etherparse::{
    LaxIpv4Slice, LaxIpv6Slice, LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket, LinkSlice, TransportSlice,
};
use ringtap_wire::{
    Direction, FlowKey, Header, Ip, IpSpan, IpVersion, Layers, LinkType, MAX_IP_HEADERS, MAX_MPLS_LABELS,
    MAX_VLAN_TAGS, Stop, TcpOption, Transport, is_extension, protocol,
};

/// Parses `data`, uses every accessor, and checks what must hold for any bytes.
pub(crate) fn check(data: &[u8], link: LinkType) -> Layers {
    let layers = Layers::parse(data, link);
    let payload = layers.payload_range();
    assert!(payload.start <= payload.end && payload.end <= data.len(), "{layers:?}");
    assert_eq!(layers.payload(data), &data[payload.clone()]);
    assert_eq!(layers.stop_at(), payload.start);
    assert!(layers.network_at() <= layers.stop_at());
    assert!(layers.ip_count() <= MAX_IP_HEADERS);
    let tags = layers.vlan_tags(data).map(|tag| (tag.id(), tag.priority(), tag.drop_eligible(), tag.ether_type()));
    assert!(tags.count() <= MAX_VLAN_TAGS);
    let labels = layers.mpls_labels(data).map(|entry| (entry.label(), entry.traffic_class(), entry.ttl()));
    assert!(labels.count() <= MAX_MPLS_LABELS);
    if let Some(arp) = layers.arp(data) {
        let _ = (arp.sender_hardware(), arp.sender_protocol(), arp.target_hardware(), arp.target_protocol());
        let _ = (arp.ipv4(), arp.operation(), arp.hardware_type());
    }
    for span in [layers.outer_ip(), layers.inner_ip()].into_iter().flatten() {
        assert!(span.at() < span.payload_at() && span.payload_at() <= span.end() && span.end() <= data.len());
        assert!(span.missing() == 0 || layers.is_cut());
        assert!(span.is_fragment() || !span.is_later_fragment());
        let view = span.view(data).expect("a recorded header reads again");
        assert_eq!(view.version(), span.version());
        match view {
            Ip::V4(header) => {
                assert!(header.options().count() <= 40);
                assert!(header.payload().len() <= data.len());
            }
            Ip::V6(header) => {
                for extension in header.extensions().flatten() {
                    let _ = (extension.fragment(), extension.routing(), extension.authentication());
                    assert!(extension.options().count() <= extension.header_len());
                }
            }
        }
    }
    let inner = layers.inner_ip();
    assert_eq!(inner.is_some(), layers.outer_ip().is_some());
    if let Some((kind, at)) = layers.transport() {
        assert!(inner.is_some_and(|span| span.payload_at() == at), "{layers:?}");
        let read = match kind {
            Transport::Tcp => layers.tcp(data).map(|header| {
                assert!(header.options().count() <= 40);
                header.options().flatten().map(TcpOption::from).count()
            }),
            Transport::Udp => layers.udp(data).map(|header| header.payload().len()),
            Transport::Icmpv4 => layers.icmpv4(data).map(|header| header.payload().len()),
            Transport::Icmpv6 => layers.icmpv6(data).map(|header| header.payload().len()),
            Transport::Sctp => layers.sctp(data).map(|header| header.chunks().count()),
        };
        assert!(read.is_some(), "a recorded header reads again: {layers:?}");
        assert!(payload.start > at);
    }
    let _ = (layers.verify_ipv4(data), layers.verify_transport(data));
    for key in [FlowKey::outer(&layers, data), FlowKey::inner(&layers, data)] {
        assert_eq!(key.is_some(), inner.is_some());
        let Some((key, direction)) = key else { continue };
        assert!(key.addresses().0 <= key.addresses().1);
        let _ = (key.stable_hash(0), key.hosts(), direction == Direction::Forward);
    }
    layers
}

/// Parses `data`, the first bytes of a packet that parsed to `whole`. A prefix never shows more than the whole packet, and what it shows is the same.
pub(crate) fn prefix(data: &[u8], link: LinkType, whole: &Layers) {
    let layers = check(data, link);
    assert!(layers.stop_at() <= whole.stop_at() || whole.stop().is_fault(), "{layers:?} {whole:?}");
    assert!(layers.ip_count() <= whole.ip_count());
    if let (Some(short), Some(long)) = (layers.outer_ip(), whole.outer_ip()) {
        assert_eq!((short.at(), short.version()), (long.at(), long.version()));
        if !short.is_length_unknown() {
            assert_eq!(short.end() + short.missing(), long.end() + long.missing());
        }
    }
    if let (Some(short), Some(long)) = (layers.transport(), whole.transport())
        && layers.ip_count() == whole.ip_count()
    {
        assert_eq!(short, long);
    }
    if layers.stop_at() < whole.stop_at() {
        // Behind MPLS, the first byte of what follows decides; without it the payload is unknown.
        let expected = layers.stop().is_fault() || layers.stop() == Stop::OtherPayload(Header::Mpls);
        assert!(expected, "a prefix ends earlier, but not for want of bytes: {layers:?} {whole:?}");
    }
}

/// What [`agree`] could compare, so that a test can show that it was not nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// VLAN tags.
    pub(crate) tags: usize,
    /// ARP messages.
    pub(crate) arp: usize,
    /// IP headers, with the extent of their payload.
    pub(crate) ip: usize,
    /// Transport headers, with the extent of theirs.
    pub(crate) transport: usize,
}

impl core::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.tags += other.tags;
        self.arp += other.arp;
        self.ip += other.ip;
        self.transport += other.transport;
    }
}

/// Where `part`, a slice of `data`, starts in it.
fn offset(data: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - data.as_ptr().addr()
}

/// Parses `data` with etherparse's lax slicing as well, and checks that both say the same wherever both claim success;
/// and that whatever one of them finds, the other finds too, but for the differences that are stated here. Tunnels,
/// MPLS, PPPoE, IEEE 802.3 and SCTP are not known to etherparse: what is compared is the outermost packet.
pub(crate) fn agree(data: &[u8], link: LinkType) -> Compared {
    let ours = check(data, link);
    let mut compared = Compared::default();
    let theirs = match link {
        LinkType::Ethernet => LaxSlicedPacket::from_ethernet(data).ok(),
        LinkType::RawIp => LaxSlicedPacket::from_ip(data).ok(),
        _ => return compared,
    };
    let Some(theirs) = theirs else {
        assert!(ours.stop().is_fault(), "etherparse refuses what we accept: {ours:?}");
        return compared;
    };
    if let (Some(LinkSlice::Ethernet2(link)), Some(header)) = (&theirs.link, ours.ethernet(data)) {
        assert_eq!((link.source(), link.destination()), (header.source(), header.destination()));
        assert_eq!(link.ether_type().0, header.ether_type());
    }
    let mut tags = ours.vlan_tags(data);
    for extension in &theirs.link_exts {
        let LaxLinkExtSlice::Vlan(tag) = extension else { return compared }; // MACsec: we don't look behind it
        let found = tags.next().expect("etherparse finds one more tag");
        assert_eq!(found.id(), tag.vlan_identifier().value());
        assert_eq!(found.priority(), tag.priority_code_point().value());
        assert_eq!(found.drop_eligible(), tag.drop_eligible_indicator());
        assert_eq!(found.ether_type(), tag.ether_type().0);
        compared.tags += 1;
    }
    if matches!(ours.stop(), Stop::BadVersion(Header::Ipv4 | Header::Ipv6)) && ours.ip_count() == 0 {
        return compared; // the EtherType says one version and the header the other: etherparse believes the header
    }
    let (ip, payload) = match &theirs.net {
        None => {
            // An IP header that we found straight behind Ethernet and no more tags than etherparse reads.
            let plain = if link == LinkType::Ethernet { 14 + 4 * theirs.link_exts.len() } else { 0 };
            assert!(ours.outer_ip().is_none_or(|span| span.at() != plain), "{ours:?} {theirs:?}");
            return compared;
        }
        Some(LaxNetSlice::Arp(arp)) => {
            let found = ours.arp(data).expect("etherparse finds an ARP message");
            assert_eq!(offset(data, arp.slice()), ours.network_at());
            assert_eq!(arp.operation().0, found.operation());
            assert_eq!(arp.sender_hw_addr(), found.sender_hardware());
            assert_eq!(arp.target_protocol_addr(), found.target_protocol());
            compared.arp += 1;
            return compared;
        }
        Some(LaxNetSlice::Ipv4(ip)) => match same_ipv4(&ours, ip, data) {
            Some(span) => (span, ip.payload()),
            None => return compared,
        },
        Some(LaxNetSlice::Ipv6(ip)) => match same_ipv6(&ours, ip, data) {
            Some(span) => (span, ip.payload()),
            None => return compared,
        },
    };
    compared.ip += 1;
    let end = offset(data, payload.payload) + payload.payload.len();
    if ours.payload_range().end == end || !is_802_3(&ours, data) {
        assert_eq!((ip.end(), ip.missing() > 0), (end, payload.incomplete), "{ours:?} {theirs:?}");
    }
    // etherparse reads each extension header once, in the order of RFC 8200; we read up to a fixed number of them.
    let more = match ip.version() {
        IpVersion::V4 => payload.ip_number.0 == protocol::AH,
        IpVersion::V6 => is_extension(payload.ip_number.0),
    };
    if more || theirs.stop_err.is_some() && theirs.transport.is_none() {
        return compared;
    }
    assert_eq!(payload.fragmented, ip.is_fragment());
    if ip.is_later_fragment() {
        return compared; // etherparse looks for extension headers there as well, where the middle of a payload is
    }
    assert_eq!(offset(data, payload.payload), ip.payload_at(), "{ours:?} {theirs:?}");
    assert_eq!(payload.ip_number.0, ip.protocol());
    compare_transport(&ours, &theirs, data, &mut compared);
    compared
}

/// The IPv4 header that both find. `None`: its length is too short for itself, which etherparse bears.
fn same_ipv4<'a>(ours: &'a Layers, ip: &LaxIpv4Slice<'_>, data: &[u8]) -> Option<&'a IpSpan> {
    let header = ip.header();
    let total = usize::from(header.total_len());
    if total != 0 && total < header.slice().len() {
        // etherparse's lax form falls back to the slice, we stop.
        assert_eq!(ours.stop(), Stop::BadLength(Header::Ipv4));
        return None;
    }
    let span = ours.outer_ip().expect("etherparse finds an IPv4 header");
    let Some(Ip::V4(view)) = span.view(data) else { panic!("not IPv4: {ours:?}") };
    assert_eq!(offset(data, header.slice()), span.at());
    assert_eq!(header.slice(), view.header());
    assert_eq!((header.source_addr(), header.destination_addr()), (view.source(), view.destination()));
    assert_eq!((header.ttl(), header.protocol().0), (view.ttl(), view.protocol()));
    assert_eq!((header.dcp().value(), header.ecn().value()), (view.dscp(), view.ecn()));
    assert_eq!(usize::from(header.fragments_offset().value()) * 8, view.fragment_offset());
    assert_eq!(header.more_fragments(), view.more_fragments());
    Some(span)
}

/// The IPv6 header that both find. `None`: where its payload ends is understood in two ways.
fn same_ipv6<'a>(ours: &'a Layers, ip: &LaxIpv6Slice<'_>, data: &[u8]) -> Option<&'a IpSpan> {
    let header = ip.header();
    let span = ours.outer_ip().expect("etherparse finds an IPv6 header");
    let Some(Ip::V6(view)) = span.view(data) else { panic!("not IPv6: {ours:?}") };
    assert_eq!(offset(data, header.slice()), span.at());
    assert_eq!((header.source_addr(), header.destination_addr()), (view.source(), view.destination()));
    assert_eq!((header.hop_limit(), header.next_header().0), (view.hop_limit(), view.next_header()));
    assert_eq!((header.traffic_class(), header.flow_label().value()), (view.traffic_class(), view.flow_label()));
    // etherparse takes a length of 0 for unknown in all cases.
    let jumbo_or_none = matches!(header.next_header().0, protocol::HOP_BY_HOP | protocol::NO_NEXT);
    (header.payload_length() != 0 || !jumbo_or_none).then_some(span)
}

/// Whether the frame has an IEEE 802.3 length, which may end the packet before etherparse does.
fn is_802_3(ours: &Layers, data: &[u8]) -> bool {
    ours.ethernet(data).is_some_and(|header| header.length().is_some())
        || ours.vlan_tags(data).any(|tag| tag.ether_type() <= 1500)
}

fn compare_transport(ours: &Layers, theirs: &LaxSlicedPacket<'_>, data: &[u8], compared: &mut Compared) {
    let ip = ours.outer_ip().expect("compared before");
    let ports = || {
        FlowKey::outer(ours, data).map(|(key, direction)| match (direction, key.ports()) {
            (Direction::Forward, ports) => ports,
            (Direction::Reverse, (first, second)) => (second, first),
        })
    };
    let (kind, payload) = match &theirs.transport {
        None => {
            // etherparse reads no transport header from a first fragment; and it wants 20 bytes of some ICMP types.
            let known = matches!(ours.transport(), Some((Transport::Tcp | Transport::Udp, _)));
            assert!(ours.ip_count() > 1 || ip.is_fragment() || !known, "{ours:?} {theirs:?}");
            return;
        }
        Some(TransportSlice::Igmp(_)) => {
            assert_eq!(ours.stop(), Stop::OtherProtocol(2));
            return;
        }
        Some(TransportSlice::Udp(header)) => {
            if ours.stop() == Stop::BadLength(Header::Udp) {
                return; // etherparse's lax form falls back to the slice
            }
            assert_eq!(ports(), Some((header.source_port(), header.destination_port())));
            (Transport::Udp, header.payload())
        }
        Some(TransportSlice::Tcp(header)) => {
            assert_eq!(ports(), Some((header.source_port(), header.destination_port())));
            let view = ours.tcp(data).expect("etherparse finds a TCP header");
            assert_eq!(
                (view.sequence(), view.acknowledgment()),
                (header.sequence_number(), header.acknowledgment_number())
            );
            assert_eq!((view.window(), view.checksum()), (header.window_size(), header.checksum()));
            assert_eq!(view.urgent_pointer(), header.urgent_pointer());
            (Transport::Tcp, header.payload())
        }
        Some(TransportSlice::Icmpv4(header)) => (Transport::Icmpv4, &header.slice()[8..]),
        Some(TransportSlice::Icmpv6(header)) => (Transport::Icmpv6, &header.slice()[8..]),
    };
    if ours.tunnel().is_none() {
        assert_eq!(ours.transport(), Some((kind, ip.payload_at())));
        assert_eq!(ours.payload_range().start, offset(data, payload), "{ours:?} {theirs:?}");
        assert_eq!(ours.payload(data), payload, "{ours:?} {theirs:?}");
        compared.transport += 1;
    }
}
