//! Every packet of third-party capture files, and every prefix of its first bytes: nothing panics, most packets come
//! apart, and etherparse agrees. The files are deliberately nasty: many are crash cases of other decoders.

#[path = "oracle/mod.rs"]
mod etherparse_oracle;
mod packets;

use packets::Tally;
use ringtap_samples::{conformance, read};
use ringtap_wire::{Header, IpVersion, Layers, LinkType, Stop, Tunnel};

#[test]
fn every_packet_and_every_prefix() {
    let (mut tally, mut unreadable) = (Tally::default(), Vec::new());
    for path in conformance::captures("every_packet_and_every_prefix") {
        let (packets, whole) = read::packets(&path);
        if !whole {
            unreadable.push(path.file_name().unwrap_or_default().to_owned());
        }
        packets.iter().for_each(|packet| tally.add(packet.link, &packet.data));
    }
    println!("not all readable: {unreadable:?}\n{tally:#?}");
    let total = tally.total;
    assert!(total >= 2500, "only {total} packets");
    // The rest is mostly routing and link protocols that we have no parser for, each with its reason.
    assert!(tally.complete * 100 >= total * 55, "only {} of {total} packets parsed to the end", tally.complete);
    assert!(tally.faults * 100 <= total * 3, "{} of {total} packets are taken for faulty", tally.faults);
    let compared = tally.compared;
    assert!(compared.ip * 100 >= total * 50, "only {} of {total} compared with etherparse", compared.ip);
    assert!(compared.transport * 100 >= total * 40 && compared.arp > 0 && compared.tags > 0, "{compared:?}");
}

/// Some files whose name says what is in them.
#[test]
fn known_packets() {
    let files = conformance::captures("known_packets");
    let first = |name: &str| {
        let path = files.iter().find(|path| path.ends_with(name)).unwrap_or_else(|| panic!("{name} is missing"));
        let packet = read::packets(path).0.into_iter().next().unwrap_or_else(|| panic!("{name} has no packet"));
        (Layers::parse(&packet.data, LinkType::from_number(packet.link).expect("a known link type")), packet.data)
    };
    for (name, tunnel, inner) in [
        ("bigtcp-ipv4-geneve-ipv6.pcap", Tunnel::Geneve, 6),
        ("bigtcp-ipv6-vxlan-ipv4.pcap", Tunnel::Vxlan, 4),
        ("gso-ipv6-vxlan-ipv6.pcap", Tunnel::Vxlan, 6),
        ("vxlan_port_8472.pcap", Tunnel::Vxlan, 4),
    ] {
        let (layers, data) = first(name);
        assert_eq!(layers.tunnel().map(|(kind, _)| kind), Some(tunnel), "{name} {layers:?}");
        assert_eq!((layers.stop(), layers.ip_count()), (Stop::Complete, 2), "{name} {layers:?}");
        let version = layers.inner_ip().and_then(|span| span.view(&data)).expect("an inner header").version();
        assert_eq!(version == IpVersion::V6, inner == 6, "{name}");
    }
    let (layers, data) = first("bigtcp-ipv6-hbh.pcap");
    assert!(layers.payload(&data).len() > 65_535 && !layers.is_cut(), "{layers:?}");
    let (layers, data) = first("802.1ad_QinQ.pcap");
    assert_eq!(layers.vlan_tags(&data).count(), 2);
    let (layers, _) = first("pppoes.pcap");
    assert_eq!((layers.stop(), layers.stop_at()), (Stop::OtherPpp(0xc021), 22)); // LCP
    assert_eq!(first("LINKTYPE_IPV4_invalid.pcap").0.stop(), Stop::BadVersion(Header::Ipv4));
}
