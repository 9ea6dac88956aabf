//! Hand-built packets, one per protocol and combination: exact offsets, payloads and reasons to stop.

use ringtap_wire::{Header, Ip, IpVersion, Layers, LinkType, Stop, Transport, Tunnel, checksum::Verdict};

/// Joins parts of a packet.
fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ethernet(ether_type: u16) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &ether_type.to_be_bytes()])
}

/// An IPv4 header without options for `payload`, and the payload.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_raw(protocol, 20 + payload.len() as u16, 0, payload)
}

fn ipv4_raw(protocol: u8, total: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let (t, f) = (total.to_be_bytes(), fragment.to_be_bytes());
    join(&[&[0x45, 0, t[0], t[1], 0, 9, f[0], f[1], 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], payload])
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
    header.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    header.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    join(&[&header, payload])
}

fn udp(destination: u16, payload: &[u8]) -> Vec<u8> {
    let (d, l) = (destination.to_be_bytes(), (8 + payload.len() as u16).to_be_bytes());
    join(&[&[0x30, 0x39, d[0], d[1], l[0], l[1], 0, 0], payload])
}

fn tcp(payload: &[u8]) -> Vec<u8> {
    join(&[&[0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 16, 0, 0, 0, 0, 0, 1, 1, 1, 0], payload])
}

fn parse(data: &[u8]) -> Layers {
    Layers::parse(data, LinkType::Ethernet)
}

#[test]
fn layers_are_small() {
    assert!(size_of::<Layers>() <= 96, "{}", size_of::<Layers>());
}

#[test]
fn ethernet_ipv4_udp_with_padding() {
    let mut data = join(&[&ethernet(0x0800), &ipv4(17, &udp(162, b"trap"))]);
    data.resize(60, 0);
    let layers = parse(&data);
    assert_eq!((layers.stop(), layers.stop_at(), layers.is_cut()), (Stop::Complete, 42, false));
    assert_eq!(layers.ethernet(&data).unwrap().source(), [2, 0, 0, 0, 0, 1]);
    assert_eq!(layers.network_at(), 14);
    let ip = layers.outer_ip().unwrap();
    assert_eq!((ip.at(), ip.payload_at(), ip.end(), ip.missing()), (14, 34, 46, 0));
    assert_eq!((ip.version(), ip.protocol(), layers.ip_count()), (IpVersion::V4, 17, 1));
    assert_eq!(layers.inner_ip(), layers.outer_ip());
    assert_eq!(layers.transport(), Some((Transport::Udp, 34)));
    assert_eq!(layers.udp(&data).unwrap().destination_port(), 162);
    assert!(layers.tcp(&data).is_none());
    assert_eq!((layers.payload(&data), layers.payload_range()), (&b"trap"[..], 42..46));
    assert_eq!(layers.verify_transport(&data), Verdict::Absent);
    assert_eq!(layers.verify_ipv4(&data), Verdict::Invalid);
}

#[test]
fn udp_length_limits_the_payload() {
    let mut segment = udp(162, b"trap");
    segment.extend(b"slack");
    let data = join(&[&ethernet(0x0800), &ipv4(17, &segment)]);
    let layers = parse(&data);
    assert_eq!(layers.payload(&data), b"trap");
    assert_eq!(layers.outer_ip().unwrap().end(), 51);

    let mut short = udp(162, b"trap");
    short[5] = 7;
    let data = join(&[&ethernet(0x0800), &ipv4(17, &short)]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::BadLength(Header::Udp), 34));
    assert_eq!(parse(&data).transport(), None);

    short[5] = 200; // claims more than the IP packet holds
    let data = join(&[&ethernet(0x0800), &ipv4(17, &short)]);
    let layers = parse(&data);
    assert_eq!((layers.payload(&data), layers.is_cut()), (&b"trap"[..], true));
    assert_eq!(layers.verify_transport(&data), Verdict::Absent);
}

#[test]
fn a_cut_capture_is_reported() {
    let whole = join(&[&ethernet(0x0800), &ipv4(6, &tcp(&[7; 100]))]);
    let data = &whole[..64];
    let layers = parse(data);
    assert_eq!((layers.stop(), layers.is_cut()), (Stop::Complete, true));
    let ip = layers.outer_ip().unwrap();
    assert_eq!((ip.end(), ip.missing()), (64, 94));
    assert_eq!((layers.transport(), layers.payload_range()), (Some((Transport::Tcp, 34)), 58..64));
    assert_eq!(layers.verify_transport(data), Verdict::Unknown);

    let layers = parse(&whole[..50]);
    assert_eq!((layers.stop(), layers.stop_at()), (Stop::Truncated(Header::Tcp), 34));
    assert!(layers.is_cut() && layers.stop().is_fault());
    assert_eq!((layers.transport(), layers.payload_range()), (None, 34..50));

    // The same header cut off by the IP length: nothing is missing, the packet itself is wrong.
    let mut data = join(&[&ethernet(0x0800), &ipv4_raw(6, 30, 0, &tcp(b""))]);
    data.resize(60, 0);
    assert_eq!((parse(&data).stop(), parse(&data).is_cut()), (Stop::Truncated(Header::Tcp), false));
}

#[test]
fn every_prefix_names_the_header_that_is_missing() {
    let data = join(&[&ethernet(0x8100), &[0, 7, 0x08, 0], &ipv4(6, &tcp(b"x"))]);
    for len in 0..data.len() {
        let expected = match len {
            0..14 => (Stop::Truncated(Header::Ethernet), 0),
            14..18 => (Stop::Truncated(Header::Vlan), 14),
            18..38 => (Stop::Truncated(Header::Ipv4), 18),
            38..62 => (Stop::Truncated(Header::Tcp), 38),
            _ => (Stop::Complete, 62),
        };
        let layers = parse(&data[..len]);
        assert_eq!((layers.stop(), layers.stop_at()), expected, "{len}");
        assert_eq!(layers.payload_range(), expected.1..len);
    }
}

#[test]
fn offloaded_packets_have_no_length() {
    let data = join(&[&ethernet(0x0800), &ipv4_raw(6, 0, 0, &tcp(&[1; 3000]))]);
    let layers = parse(&data);
    let ip = layers.outer_ip().unwrap();
    assert!(ip.is_length_unknown() && !layers.is_cut());
    assert_eq!(layers.payload(&data).len(), 3000);
    assert_eq!(layers.verify_transport(&data), Verdict::Unknown);
}

#[test]
fn bad_ip_headers() {
    let mut data = join(&[&ethernet(0x0800), &ipv4(17, &udp(1, b""))]);
    data[14] = 0x44;
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::BadLength(Header::Ipv4), 14));
    assert!(parse(&data).outer_ip().is_none());
    assert_eq!(parse(&data).network_at(), 14);
    data[14] = 0x65;
    assert_eq!(parse(&data).stop(), Stop::BadVersion(Header::Ipv4));
    data[13] = 0xdd;
    data[12] = 0x86;
    data[14] = 0x45;
    assert_eq!(parse(&data).stop(), Stop::BadVersion(Header::Ipv6));
}

#[test]
fn ipv4_fragments() {
    let segment = udp(162, &[0; 1000]);
    let first = join(&[&ethernet(0x0800), &ipv4_raw(17, 20 + 64, 0x2000, &segment[..64])]);
    let layers = parse(&first);
    let ip = layers.outer_ip().unwrap();
    assert!(ip.is_fragment() && !ip.is_later_fragment());
    assert_eq!((layers.stop(), layers.is_cut()), (Stop::Complete, false));
    assert_eq!((layers.ports(&first), layers.payload(&first).len()), (Some((12345, 162)), 56));
    assert_eq!(layers.verify_transport(&first), Verdict::Unknown);

    let later = join(&[&ethernet(0x0800), &ipv4_raw(17, 20 + 64, 8, &segment[64..128])]);
    let layers = parse(&later);
    assert!(layers.outer_ip().unwrap().is_later_fragment());
    assert_eq!((layers.stop(), layers.stop_at()), (Stop::LaterFragment, 34));
    assert_eq!((layers.transport(), layers.payload(&later).len()), (None, 64));
}

#[test]
fn ipv6_extension_headers() {
    let mut chain = vec![43, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop, PadN
    chain.extend([60, 2, 0, 0, 0, 0, 0, 0]); // routing type 0, nothing left
    chain.extend([0; 16]);
    chain.extend([44, 0, 1, 4, 0, 0, 0, 0]); // destination options
    chain.extend([51, 0, 0, 0, 0, 0, 0, 5]); // atomic fragment
    chain.extend([135, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]); // authentication
    chain.extend([17, 0, 0, 0, 0, 0, 0, 0]); // mobility
    let at = 14 + 40 + chain.len();
    let data = join(&[&ethernet(0x86dd), &ipv6(0, &join(&[&chain, &udp(162, b"six")]))]);
    let layers = parse(&data);
    let ip = layers.outer_ip().unwrap();
    assert_eq!((ip.at(), ip.payload_at(), ip.protocol()), (14, at, 17));
    assert!(!ip.is_fragment() && !ip.is_source_routed());
    assert_eq!((layers.transport(), layers.payload(&data)), (Some((Transport::Udp, at)), &b"six"[..]));
    let Some(Ip::V6(view)) = ip.view(&data) else { panic!("not IPv6") };
    let kinds: Vec<u8> = view.extensions().map(|extension| extension.unwrap().kind()).collect();
    assert_eq!(kinds, [0, 43, 60, 44, 51, 135]);
}

#[test]
fn ipv6_ends() {
    let data = join(&[&ethernet(0x86dd), &ipv6(59, b"")]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::NoNextHeader, 54));
    let data = join(&[&ethernet(0x86dd), &ipv6(50, &[0; 16])]);
    assert_eq!(parse(&data).stop(), Stop::OtherProtocol(50));
    let data = join(&[&ethernet(0x86dd), &ipv6(44, &[17, 0, 0, 9, 0, 0, 0, 1, 0xff])]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::LaterFragment, 62));
    let data = join(&[&ethernet(0x86dd), &ipv6(43, &[17, 1, 0, 0, 0, 0, 0, 0])]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::Truncated(Header::Extension), 54));
    let data = join(&[&ethernet(0x86dd), &ipv6(0, &[0; 400])]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::TooDeep(Header::Extension), 54 + 128));
}

#[test]
fn ipv6_routing_changes_the_pseudo_header() {
    let mut chain = vec![6, 0, 4, 1, 0, 0, 0, 0];
    chain.extend(tcp(b""));
    let data = join(&[&ethernet(0x86dd), &ipv6(43, &chain)]);
    let layers = parse(&data);
    assert!(layers.outer_ip().unwrap().is_source_routed());
    assert_eq!(layers.verify_transport(&data), Verdict::Unknown);
}

#[test]
fn jumbograms() {
    let hop_by_hop = |length: u32| join(&[&[6, 0, 0xc2, 4], &length.to_be_bytes(), &tcp(&vec![0; 70_000])]);
    let mut data = join(&[&ethernet(0x86dd), &ipv6(0, &hop_by_hop(70_032)), &[0; 5]]);
    data[18..20].copy_from_slice(&[0, 0]);
    let layers = parse(&data);
    assert_eq!((layers.stop(), layers.payload(&data).len()), (Stop::Complete, 70_000));
    assert_eq!(layers.outer_ip().unwrap().end(), 14 + 40 + 70_032);

    let mut data = join(&[&ethernet(0x86dd), &ipv6(0, &hop_by_hop(65_535))]);
    data[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(parse(&data).stop(), Stop::BadLength(Header::Extension));
    assert_eq!(parse(&data).ip_count(), 1);
}

#[test]
fn vlan_tags() {
    let tail = ipv4(1, &[8, 0, 0, 0, 0, 7, 0, 1]);
    let data = join(&[&ethernet(0x88a8), &[0x20, 5, 0x91, 0], &[0, 6, 0x81, 0], &[0, 7, 0x08, 0], &tail]);
    let layers = parse(&data);
    assert_eq!(layers.vlan_tags(&data).map(|tag| tag.id()).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!((layers.network_at(), layers.transport()), (26, Some((Transport::Icmpv4, 46))));
    assert_eq!(layers.icmpv4(&data).unwrap().query(), Some((7, 1)));

    let deep = join(&[&ethernet(0x8100), &[0, 1, 0x81, 0].repeat(9), &tail]);
    assert_eq!((parse(&deep).stop(), parse(&deep).stop_at()), (Stop::TooDeep(Header::Vlan), 30));
    assert_eq!(parse(&deep).vlan_tags(&deep).count(), 4);
}

#[test]
fn ieee_802_3_and_snap() {
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let mut data = join(&[&ethernet(36), &[0xaa, 0xaa, 3, 0, 0, 0, 8, 6], &arp]);
    data.resize(60, 0xee);
    let layers = parse(&data);
    assert_eq!((layers.stop(), layers.stop_at(), layers.network_at()), (Stop::Complete, 50, 22));
    assert_eq!(layers.arp(&data).unwrap().operation(), 1);
    assert!(layers.payload(&data).is_empty());

    let stp = join(&[&ethernet(38), &[0x42, 0x42, 3], &[0; 43]]);
    let layers = parse(&stp);
    assert_eq!((layers.stop(), layers.payload_range()), (Stop::OtherLlc(0x42, 0x42), 14..52));
    let cdp = join(&[&ethernet(10), &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0, 1, 2]]);
    assert_eq!(parse(&cdp).stop(), Stop::OtherLlc(0xaa, 0xaa));
    let nested = join(&[&ethernet(10), &[0xaa, 0xaa, 3, 0, 0, 0, 0, 9, 1, 2]]);
    assert_eq!(parse(&nested).stop(), Stop::OtherEtherType(9));
    let short = join(&[&ethernet(100), &[0x42, 0x42, 3]]);
    assert!(parse(&short).is_cut());
    assert_eq!(parse(&ethernet(0x88cc)).stop(), Stop::OtherEtherType(0x88cc));
    assert_eq!(parse(&ethernet(1501)).stop(), Stop::OtherEtherType(1501));
}

#[test]
fn arp_padding_is_no_payload() {
    let arp = [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let mut data = join(&[&ethernet(0x0806), &arp]);
    assert_eq!(parse(&data[..41]).stop(), Stop::Truncated(Header::Arp));
    assert!(parse(&data[..41]).arp(&data).is_none());
    data.resize(60, 0);
    assert!(parse(&data).payload(&data).is_empty());
    assert_eq!(parse(&data).arp(&data).unwrap().ipv4().unwrap().0.octets(), [10, 0, 0, 1]);
}

#[test]
fn mpls_labels() {
    let data = join(&[&ethernet(0x8847), &[0, 1, 0, 64], &[0, 2, 1, 64], &ipv6(58, &[128, 0, 0, 0, 0, 1, 0, 2])]);
    let layers = parse(&data);
    assert_eq!(layers.mpls_labels(&data).map(|entry| entry.label()).collect::<Vec<_>>(), [16, 32]);
    assert_eq!((layers.network_at(), layers.transport()), (22, Some((Transport::Icmpv6, 62))));
    assert_eq!(layers.icmpv6(&data).unwrap().query(), Some((1, 2)));

    let pseudowire = join(&[&ethernet(0x8847), &[0, 1, 1, 64], &[0, 0, 0, 0], &ethernet(0x0800)]);
    assert_eq!((parse(&pseudowire).stop(), parse(&pseudowire).stop_at()), (Stop::OtherPayload(Header::Mpls), 18));
    let deep = join(&[&ethernet(0x8848), &[0, 1, 0, 64].repeat(40)]);
    assert_eq!((parse(&deep).stop(), parse(&deep).stop_at()), (Stop::TooDeep(Header::Mpls), 14 + 64));
    let null = join(&[&ethernet(0x8847), &[0, 0, 1, 64], &[0x60; 20]]);
    assert_eq!(parse(&null).stop(), Stop::BadVersion(Header::Ipv4));
}

#[test]
fn sctp() {
    let data = join(&[&ethernet(0x0800), &ipv4(132, &[0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 4])]);
    let layers = parse(&data);
    assert_eq!((layers.transport(), layers.ports(&data)), (Some((Transport::Sctp, 34)), Some((7, 9))));
    assert_eq!(layers.sctp(&data).unwrap().chunks().count(), 1);
    assert_eq!(layers.payload(&data), [1, 0, 0, 4]);
}

#[test]
fn ip_in_ip() {
    for (outer_version, inner_version) in [(4, 4), (4, 6), (6, 4), (6, 6)] {
        let inner = if inner_version == 4 { ipv4(6, &tcp(b"in")) } else { ipv6(6, &tcp(b"in")) };
        let number = if inner_version == 4 { 4 } else { 41 };
        let (outer, inner_at) =
            if outer_version == 4 { (ipv4(number, &inner), 34) } else { (ipv6(number, &inner), 54) };
        let data = join(&[&ethernet(if outer_version == 4 { 0x0800 } else { 0x86dd }), &outer]);
        let layers = parse(&data);
        assert_eq!((layers.outer_ip().unwrap().at(), layers.inner_ip().unwrap().at()), (14, inner_at));
        assert_eq!((layers.outer_ip().unwrap().protocol(), layers.inner_ip().unwrap().protocol()), (number, 6));
        assert_eq!((layers.ip_count(), layers.tunnel()), (2, Some((Tunnel::Ip, inner_at))));
        assert_eq!((layers.network_at(), layers.payload(&data)), (14, &b"in"[..]));
        assert_eq!(layers.transport().unwrap().0, Transport::Tcp);
    }
}

#[test]
fn tunnel_depth_is_bounded() {
    let mut packet = udp(1, b"");
    for _ in 0..6 {
        packet = ipv4(if packet.len() == 8 { 17 } else { 4 }, &packet);
    }
    let layers = Layers::parse(&packet, LinkType::RawIp);
    assert_eq!((layers.stop(), layers.stop_at(), layers.ip_count()), (Stop::TooDeep(Header::Ipv4), 80, 4));
    assert_eq!((layers.outer_ip().unwrap().at(), layers.inner_ip().unwrap().at()), (0, 60));
}

#[test]
fn an_inner_packet_stays_inside_the_outer_one() {
    let inner = ipv4_raw(17, 500, 0, &udp(1, b"abc"));
    let data = join(&[&ethernet(0x0800), &ipv4(4, &inner), b"padding"]);
    let layers = parse(&data);
    let span = layers.inner_ip().unwrap();
    assert_eq!((span.end(), span.missing()), (layers.outer_ip().unwrap().end(), 500 - 31));
    assert!(layers.is_cut());
    assert_eq!(layers.payload(&data), b"abc");
}

#[test]
fn gre() {
    let inner = ipv4(17, &udp(5, b"gre"));
    let data = join(&[&ethernet(0x0800), &ipv4(47, &join(&[&[0x20, 0, 8, 0, 0, 0, 0, 9], &inner]))]);
    let layers = parse(&data);
    assert_eq!((layers.tunnel(), layers.inner_ip().unwrap().at()), (Some((Tunnel::Gre, 34)), 42));
    assert_eq!(layers.payload(&data), b"gre");

    let bridged = join(&[&[0, 0, 0x65, 0x58], &ethernet(0x8100), &[0, 9, 8, 0], &inner]);
    let data = join(&[&ethernet(0x0800), &ipv4(47, &bridged)]);
    let layers = parse(&data);
    assert_eq!((layers.inner_ip().unwrap().at(), layers.payload(&data)), (56, &b"gre"[..]));
    assert_eq!(layers.vlan_tags(&data).count(), 0);

    let pptp = join(&[&[0x30, 1, 0x88, 0x0b, 0, 35, 0, 1, 0, 0, 0, 1], &[0xff, 3, 0, 0x21], &inner]);
    let data = join(&[&ethernet(0x0800), &ipv4(47, &pptp)]);
    let layers = parse(&data);
    assert_eq!((layers.inner_ip().unwrap().at(), layers.payload(&data)), (50, &b"gre"[..]));

    let acknowledgment = [0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 1, 0, 0, 0, 1];
    let data = join(&[&ethernet(0x0800), &ipv4(47, &acknowledgment)]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::Complete, 46));

    for (header, stop) in [
        ([0x40, 0, 8, 0], Stop::BadFlags(Header::Gre)),
        ([0, 3, 8, 0], Stop::BadVersion(Header::Gre)),
        ([0, 0, 0x88, 0xbe], Stop::OtherEtherType(0x88be)),
        ([0, 0, 0, 0], Stop::OtherEtherType(0)),
    ] {
        let data = join(&[&ethernet(0x0800), &ipv4(47, &header)]);
        assert_eq!(parse(&data).stop(), stop);
    }
}

#[test]
fn vxlan() {
    let inner = join(&[&ethernet(0x0800), &ipv4(6, &tcp(b"vx"))]);
    for port in [4789, 8472] {
        let data = join(&[&ethernet(0x86dd), &ipv6(17, &udp(port, &join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &inner])))]);
        let layers = parse(&data);
        assert_eq!((layers.tunnel(), layers.ip_count()), (Some((Tunnel::Vxlan, 62)), 2));
        assert_eq!((layers.inner_ip().unwrap().at(), layers.transport()), (84, Some((Transport::Tcp, 104))));
        assert_eq!(layers.payload(&data), b"vx");
    }
    // Something else on that port: the datagram stands.
    let data = join(&[&ethernet(0x0800), &ipv4(17, &udp(4789, &[0; 30]))]);
    let layers = parse(&data);
    assert_eq!((layers.stop(), layers.stop_at()), (Stop::BadFlags(Header::Vxlan), 42));
    assert_eq!((layers.transport(), layers.payload(&data)), (Some((Transport::Udp, 34)), &[0u8; 30][..]));
    assert_eq!(layers.udp(&data).unwrap().payload(), [0; 30]);
}

#[test]
fn arp_in_vxlan_leaves_the_outer_flow() {
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let inner = join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(0x0806), &arp]);
    let data = join(&[&ethernet(0x0800), &ipv4(17, &udp(4789, &inner))]);
    let layers = parse(&data);
    assert_eq!((layers.stop(), layers.ip_count(), layers.network_at()), (Stop::Complete, 1, 14));
    assert_eq!(layers.arp(&data).unwrap().operation(), 1);
    assert_eq!(layers.ports(&data), Some((12345, 4789)));
}

#[test]
fn geneve() {
    let packet = ipv6(17, &udp(5, b"gn"));
    let framed = join(&[&ethernet(0x86dd), &packet]);
    for (protocol, inner) in [([0x65, 0x58], &framed), ([0x86, 0xdd], &packet)] {
        let header = [1, 0, protocol[0], protocol[1], 0, 0, 7, 0, 0, 0, 0, 0];
        let data = join(&[&ethernet(0x0800), &ipv4(17, &udp(6081, &join(&[&header, inner])))]);
        let layers = parse(&data);
        assert_eq!((layers.tunnel(), layers.ip_count()), (Some((Tunnel::Geneve, 42)), 2));
        assert_eq!((layers.payload(&data), layers.stop()), (&b"gn"[..], Stop::Complete));
    }
    let data = join(&[&ethernet(0x0800), &ipv4(17, &udp(6081, &[0xc0; 8]))]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::BadVersion(Header::Geneve), 42));
}

#[test]
fn pppoe() {
    let inner = ipv4(17, &udp(5, b"ppp"));
    let length = (inner.len() as u16 + 2).to_be_bytes();
    let mut data = join(&[&ethernet(0x8864), &[0x11, 0, 0, 1, length[0], length[1], 0, 0x21], &inner]);
    data.resize(80, 0);
    let layers = parse(&data);
    assert_eq!((layers.network_at(), layers.payload(&data)), (22, &b"ppp"[..]));
    data[21] = 0x57;
    assert_eq!(parse(&data).stop(), Stop::BadVersion(Header::Ipv6));
    data[20..22].copy_from_slice(&[0xc0, 0x21]);
    assert_eq!((parse(&data).stop(), parse(&data).stop_at()), (Stop::OtherPpp(0xc021), 22));
    data[14] = 0x21;
    assert_eq!(parse(&data).stop(), Stop::BadVersion(Header::Pppoe));
    data[13] = 0x63;
    assert_eq!(parse(&data).stop(), Stop::OtherEtherType(0x8863));
}

#[test]
fn ethernet_and_mpls_directly_in_ip() {
    let frame = join(&[&ethernet(0x0800), &ipv4(6, &tcp(b"srv6"))]);
    let data = join(&[&ethernet(0x86dd), &ipv6(143, &frame)]);
    assert_eq!((parse(&data).tunnel(), parse(&data).payload(&data)), (Some((Tunnel::Ethernet, 54)), &b"srv6"[..]));
    let labelled = join(&[&[0, 1, 1, 64], &ipv4(6, &tcp(b"mpls"))]);
    let data = join(&[&ethernet(0x0800), &ipv4(137, &labelled)]);
    assert_eq!((parse(&data).tunnel(), parse(&data).payload(&data)), (Some((Tunnel::Mpls, 34)), &b"mpls"[..]));
    assert_eq!(parse(&data).mpls_labels(&data).count(), 0);
}

#[test]
fn authentication_header_over_ipv4() {
    let ah = join(&[&[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2], &tcp(b"ah")]);
    let data = join(&[&ethernet(0x0800), &ipv4(51, &ah)]);
    let layers = parse(&data);
    assert_eq!((layers.transport(), layers.payload(&data)), (Some((Transport::Tcp, 46)), &b"ah"[..]));
    assert_eq!(layers.outer_ip().unwrap().protocol(), 6);
}

#[test]
fn link_types() {
    let v4 = ipv4(17, &udp(5, b"x"));
    let v6 = ipv6(17, &udp(5, b"x"));
    let cooked = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0];
    let cooked_2 = [0x86, 0xdd, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    for (link, prefix, packet) in [
        (LinkType::RawIp, &[][..], &v4),
        (LinkType::RawIp, &[], &v6),
        (LinkType::Ipv4, &[], &v4),
        (LinkType::Ipv6, &[], &v6),
        (LinkType::Null, &[2, 0, 0, 0], &v4),
        (LinkType::Null, &[0, 0, 0, 2], &v4),
        (LinkType::Null, &[24, 0, 0, 0], &v6),
        (LinkType::Null, &[0, 0, 0, 28], &v6),
        (LinkType::Null, &[30, 0, 0, 0], &v6),
        (LinkType::Ppp, &[0xff, 3, 0, 0x21], &v4),
        (LinkType::Ppp, &[0x57], &v6),
        (LinkType::Cooked, &cooked, &v4),
        (LinkType::Cooked2, &cooked_2, &v6),
    ] {
        let data = join(&[prefix, packet]);
        let layers = Layers::parse(&data, link);
        assert_eq!((layers.network_at(), layers.payload(&data)), (prefix.len(), &b"x"[..]), "{link:?} {prefix:?}");
        assert_eq!((layers.stop(), layers.link()), (Stop::Complete, link));
        assert!(layers.ethernet(&data).is_none());
    }
    assert_eq!(Layers::parse(&v6, LinkType::Ipv4).stop(), Stop::BadVersion(Header::Ipv4));
    assert_eq!(Layers::parse(&[0, 0, 0, 9], LinkType::Null).stop(), Stop::OtherPayload(Header::Null));
    assert_eq!(Layers::parse(&[], LinkType::RawIp).stop(), Stop::Truncated(Header::Ipv4));
    assert_eq!(LinkType::from_number(1), Some(LinkType::Ethernet));
    assert_eq!(LinkType::from_number(127), None);
}

/// A tagged cooked packet: the tag stands behind the cooked header.
#[test]
fn tags_behind_a_cooked_header() {
    let data = join(&[&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0], &[0, 42, 8, 0], &ipv4(17, &udp(5, b"x"))]);
    let layers = Layers::parse(&data, LinkType::Cooked);
    assert_eq!(layers.vlan_tags(&data).map(|tag| tag.id()).collect::<Vec<_>>(), [42]);
    assert_eq!(layers.network_at(), 20);
}

/// Accessors given another packet than the one parsed answer something, and don't panic.
#[test]
fn other_bytes_than_those_parsed() {
    let data = join(&[&ethernet(0x8100), &[0, 7, 0x08, 0], &ipv4(6, &tcp(b"payload"))]);
    let layers = parse(&data);
    for len in 0..data.len() {
        let other = vec![0xff; len];
        for bytes in [&data[..len], &other] {
            let _ = (layers.tcp(bytes), layers.ports(bytes), layers.payload(bytes), layers.ethernet(bytes));
            let _ = (layers.vlan_tags(bytes).count(), layers.verify_transport(bytes), layers.verify_ipv4(bytes));
            let _ = ringtap_wire::FlowKey::inner(&layers, bytes);
        }
    }
}
