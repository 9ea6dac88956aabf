//! Packets of every protocol that we have a parser for, well-formed and damaged, and every prefix of their first bytes:
//! nothing panics, well-formed ones come apart, and etherparse agrees.

#[path = "oracle/mod.rs"]
mod etherparse_oracle;
mod packets;

use packets::Tally;
use ringtap_samples::{Sample, damaged, sample, samples};
use ringtap_wire::{Header, IpVersion, Layers, LinkType, Stop, Tunnel};

fn tally(samples: &[Sample]) -> Tally {
    let mut tally = Tally::default();
    for sample in samples {
        sample.packets.iter().for_each(|packet| tally.add(sample.link, packet));
    }
    println!("{tally:#?}");
    tally
}

#[test]
fn every_packet_and_every_prefix() {
    let tally = tally(&samples());
    let total = tally.total;
    assert!(total >= 900, "only {total} packets");
    assert!(tally.skipped > 0);
    assert!(tally.complete * 100 >= total * 70, "only {} of {total} packets parsed to the end", tally.complete);
    // Some samples are broken on purpose.
    assert!(tally.faults > 10 && tally.faults * 100 <= total * 5, "{} of {total} packets are faulty", tally.faults);
    for stop in ["LaterFragment", "NoNextHeader", "OtherEtherType", "OtherProtocol(50)", "OtherPpp", "OtherLlc"] {
        assert!(tally.stopped(stop) > 0, "no packet ends in {stop}");
    }
    let compared = tally.compared;
    assert!(compared.ip * 100 >= total * 70, "only {} of {total} compared with etherparse", compared.ip);
    assert!(compared.transport * 100 >= total * 55 && compared.arp > 40 && compared.tags > 20, "{compared:?}");
}

#[test]
fn every_damaged_packet_and_every_prefix() {
    let tally = tally(&damaged());
    assert!(tally.total >= 4500 && tally.faults * 10 >= tally.total, "{} of {}", tally.faults, tally.total);
    for stop in ["Truncated(", "BadVersion(", "BadLength("] {
        assert!(tally.stopped(stop) > 10, "{stop}");
    }
}

/// Some packets whose content we know.
#[test]
fn known_packets() {
    let all = |name: &str| {
        let Sample { link, packets, .. } = sample(name);
        let link = LinkType::from_number(link).expect("a known link type");
        packets.into_iter().map(|data| (Layers::parse(&data, link), data)).collect::<Vec<_>>()
    };
    let tunnels = all("tunnels");
    for (kind, times) in [(Tunnel::Vxlan, 8), (Tunnel::Geneve, 8)] {
        for version in [IpVersion::V4, IpVersion::V6] {
            let found = tunnels.iter().filter(|(layers, data)| {
                let inner = layers.inner_ip().and_then(|span| span.view(data)).expect("an inner header").version();
                layers.tunnel().map(|(kind, _)| kind) == Some(kind) && inner == version
            });
            for (layers, _) in found.clone() {
                assert_eq!((layers.stop(), layers.ip_count()), (Stop::Complete, 2), "{layers:?}");
            }
            assert_eq!(found.count(), times / 2, "{kind:?} {version:?}");
        }
    }
    for (layers, data) in &all("big") {
        assert!(layers.payload(data).len() >= 40_000 && !layers.is_cut(), "{layers:?}");
    }
    assert!(all("big").iter().any(|(layers, data)| layers.payload(data).len() > 65_535));
    let tags: Vec<usize> = all("vlan").iter().map(|(layers, data)| layers.vlan_tags(data).count()).collect();
    assert!([1, 2, 3].iter().all(|count| tags.contains(count)), "{tags:?}");
    assert!(all("pppoe").iter().any(|(layers, _)| (layers.stop(), layers.stop_at()) == (Stop::OtherPpp(0xc021), 22)));
    let stops: Vec<Stop> = all("broken-on-purpose").iter().map(|(layers, _)| layers.stop()).collect();
    for stop in [
        Stop::BadVersion(Header::Ipv4),
        Stop::BadLength(Header::Ipv4),
        Stop::BadVersion(Header::Ipv6),
        Stop::BadLength(Header::Udp),
        Stop::BadLength(Header::Tcp),
    ] {
        assert!(stops.contains(&stop), "{stop:?} in {stops:?}");
    }
}
