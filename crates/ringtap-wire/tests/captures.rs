//! Every packet of the shared capture files, and every prefix of its first bytes: nothing panics, most packets come
//! apart, and etherparse agrees. The files are deliberately nasty: many are crash cases of other decoders.

mod corpus;
#[path = "oracle/mod.rs"]
mod etherparse_oracle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corpus::packets;
use etherparse_oracle::{Compared, agree, check, prefix};
use ringtap_wire::{Header, IpVersion, Layers, LinkType, Stop, Tunnel};

/// Where the files are, relative to the crate; they are not part of the repository.
const CAPTURES: &str = "../../../shared/data/decode";

/// Prefixes up to this length are parsed, each on its own.
const PREFIX: usize = 200;

/// The capture files. Fails the test when there are none, unless `ALLOW_MISSING=1`.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CAPTURES);
    match corpus::files(&folder) {
        Ok(files) => {
            assert!(files.len() >= 300, "only {} capture files in {}", files.len(), folder.display());
            files
        }
        Err(error) => {
            let message = format!(
                "no capture files to test against: {}: {error} (ALLOW_MISSING=1 turns this into a warning)",
                folder.display()
            );
            assert!(std::env::var("ALLOW_MISSING").is_ok_and(|value| value == "1"), "{message}");
            eprintln!("warning: {message}");
            Vec::new()
        }
    }
}

#[test]
fn every_packet_and_every_prefix() {
    let (mut total, mut skipped, mut unreadable) = (0usize, 0usize, Vec::new());
    let mut stops: BTreeMap<String, usize> = BTreeMap::new();
    let (mut complete, mut ends, mut faults) = (0usize, 0usize, 0usize);
    let mut compared = Compared::default();
    let files = files();
    if files.is_empty() {
        return;
    }
    for path in &files {
        let (packets, whole) = packets(path);
        if !whole {
            unreadable.push(path.file_name().unwrap_or_default().to_owned());
        }
        for packet in packets {
            let Some(link) = LinkType::from_number(packet.link) else {
                skipped += 1;
                continue;
            };
            total += 1;
            let layers = check(&packet.data, link);
            match layers.stop() {
                Stop::Complete => complete += 1,
                stop if stop.is_fault() => faults += 1,
                _ => ends += 1,
            }
            *stops.entry(format!("{:?}", layers.stop())).or_default() += 1;
            compared += agree(&packet.data, link);
            for len in 0..packet.data.len().min(PREFIX) {
                prefix(&packet.data[..len], link, &layers);
                agree(&packet.data[..len], link);
            }
        }
    }
    println!(
        "{} files, {total} packets ({skipped} more of other link types; not all readable: {unreadable:?})\n\
         complete {complete}, other ends {ends}, faults {faults}; compared {compared:?}\n{stops:#?}",
        files.len()
    );
    assert!(total >= 2500, "only {total} packets");
    // The rest is mostly routing and link protocols that we have no parser for, each with its reason.
    assert!(complete * 100 >= total * 55, "only {complete} of {total} packets parsed to the end");
    assert!(faults * 100 <= total * 3, "{faults} of {total} packets are taken for faulty");
    assert!(compared.ip * 100 >= total * 50, "only {} of {total} compared with etherparse", compared.ip);
    assert!(compared.transport * 100 >= total * 40 && compared.arp > 0 && compared.tags > 0, "{compared:?}");
}

/// Some files whose name says what is in them.
#[test]
fn known_packets() {
    let files = files();
    let first = |name: &str| {
        let path = files.iter().find(|path| path.ends_with(name)).unwrap_or_else(|| panic!("{name} is missing"));
        let packet = packets(path).0.into_iter().next().unwrap_or_else(|| panic!("{name} has no packet"));
        (Layers::parse(&packet.data, LinkType::from_number(packet.link).expect("a known link type")), packet.data)
    };
    if files.is_empty() {
        return;
    }
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
