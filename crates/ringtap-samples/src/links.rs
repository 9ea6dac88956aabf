//! Owns: samples of link layers: Ethernet with tags and labels, LLC, PPPoE, and captures without Ethernet.

use crate::Sample;
use crate::apps::{dns_query, radius};
use crate::frames::{Ends, ethernet, ethernet_to, join, tag};

const STP: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 0];
const CISCO: [u8; 6] = [1, 0, 0x0c, 0xcc, 0xcc, 0xcc];

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = vec![
        Sample::ethernet("arp", arps()),
        Sample::ethernet("vlan", tagged()),
        Sample::ethernet("mpls", labelled()),
        Sample::ethernet("pppoe", pppoe()),
        Sample::ethernet("llc", llc()),
        Sample::ethernet("slow", other_ether_types()),
    ];
    samples.extend(without_ethernet());
    samples
}

/// Two IP packets of each family, by their datagram.
fn inner() -> Vec<(u16, Vec<u8>)> {
    let ends = [Ends::new("10.1.0.1", "10.1.0.2"), Ends::new("2001:db8::1", "2001:db8::2")];
    let packets = ends.into_iter().flat_map(|ends| {
        let payloads = [dns_query(1, "inner.example.org", 1), b"inside".to_vec()];
        payloads.map(|payload| (ends.ether_type(), ends.packet(17, &ends.udp([5353, 53], &payload))))
    });
    packets.collect()
}

/// An ARP message over Ethernet and IPv4.
pub(crate) fn arp(operation: u16, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let head = [1u16, 0x0800, 0x0604, operation].map(u16::to_be_bytes).concat();
    join(&[&head, &[2, 0, 0, 0, 0, 0x11], &sender, &[0; 6], &target])
}

/// Stations of one network, some that don't belong to it, and addresses of other lengths.
fn arps() -> Vec<Vec<u8>> {
    let broadcast = |message: &[u8]| ethernet_to([0xff; 6], 0x0806, message);
    // Each host has a hardware address of its own, as the frame's source and as the sender's.
    let of_host = |mut frame: Vec<u8>, host: u8| {
        (frame[11], frame[27]) = (host, host);
        frame
    };
    let mut frames = Vec::new();
    for host in 1..=12 {
        frames.push(of_host(broadcast(&arp(1, [192, 168, 1, host], [192, 168, 1, 254])), host));
        frames.push(of_host(ethernet(0x0806, &arp(2, [192, 168, 1, 100 + host], [192, 168, 1, host])), 100 + host));
        frames.push(of_host(broadcast(&arp(1, [172, 20, 5, host], [172, 20, 5, 1])), host));
        frames.push(of_host(broadcast(&arp(1, [1, 0, 2, host], [1, 0, 2, host])), host));
    }
    for operation in [3, 4, 8, 9] {
        frames.push(ethernet(0x8035, &arp(operation, [0; 4], [192, 168, 1, 9])));
    }
    // Hardware addresses of eight and of no bytes.
    frames
        .push(ethernet(0x0806, &join(&[&[0, 32, 8, 0, 8, 4, 0, 1], &[7; 8], &[10, 0, 0, 1], &[0; 8], &[10, 0, 0, 2]])));
    frames.push(ethernet(0x0806, &join(&[&[0, 1, 8, 0, 0, 4, 0, 1], &[10, 0, 0, 1], &[10, 0, 0, 2]])));
    frames
}

fn tagged() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (number, (kind, packet)) in (1..).zip(inner()) {
        for tpid in [0x8100, 0x88a8, 0x9100] {
            frames.push(ethernet(tpid, &tag(number as u8, 100 + number, kind, &packet)));
            frames.push(ethernet(tpid, &tag(7, 4095, 0x8100, &tag(0, number, kind, &packet))));
        }
        frames.push(ethernet(0x88a8, &tag(3, 10, 0x88a8, &tag(2, 20, 0x8100, &tag(1, 30, kind, &packet)))));
    }
    frames.push(ethernet(0x8100, &tag(1, 5, 0x0806, &arp(1, [10, 0, 0, 5], [10, 0, 0, 6]))));
    // A tag in front of a length, and one of another organisation's protocol.
    frames.push(ethernet(0x8100, &tag(1, 5, 43, &join(&[&[0x42, 0x42, 3], &[0; 40]]))));
    frames.push(ethernet(0x8100, &tag(0, 7, 0x88cc, &lldp())));
    frames
}

fn labels(numbers: &[u32]) -> Vec<u8> {
    let last = numbers.len() - 1;
    let entry = |(index, number): (usize, &u32)| (number << 12 | u32::from(index == last) << 8 | 64).to_be_bytes();
    numbers.iter().enumerate().flat_map(entry).collect()
}

fn labelled() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (_, packet) in inner() {
        for stack in [&[16][..], &[100, 200], &[1, 2, 3, 4]] {
            frames.push(ethernet(0x8847, &join(&[&labels(stack), &packet])));
        }
        frames.push(ethernet(0x8848, &join(&[&labels(&[77]), &packet])));
        // A pseudowire with its control word, and one without.
        let within = ethernet(0x0800, &packet);
        frames.push(ethernet(0x8847, &join(&[&labels(&[5000]), &[0; 4], &within])));
    }
    frames
}

fn pppoe() -> Vec<Vec<u8>> {
    let session = |payload: &[u8]| join(&[&[0x11, 0, 0, 9], &(payload.len() as u16).to_be_bytes(), payload]);
    let mut frames = Vec::new();
    for (kind, packet) in inner() {
        let protocol: [u8; 2] = if kind == 0x0800 { [0, 0x21] } else { [0, 0x57] };
        frames.push(ethernet(0x8864, &session(&join(&[&protocol, &packet]))));
    }
    for protocol in [0xc021u16, 0xc023, 0x8021, 0xc223, 0x80fd] {
        let body = join(&[&protocol.to_be_bytes(), &[1, 1, 0, 10, 5, 6, 1, 2, 3, 4]]);
        frames.push(ethernet(0x8864, &session(&body)));
    }
    for code in [9, 7, 0x19, 0x65, 0xa7] {
        frames.push(ethernet(0x8863, &[0x11, code, 0, 0, 0, 8, 1, 1, 0, 4, b'i', b's', b'p', b'0']));
    }
    frames
}

fn llc() -> Vec<Vec<u8>> {
    let with_length = |to: [u8; 6], body: &[u8]| {
        let mut frame = ethernet_to(to, body.len() as u16, body);
        frame.resize(frame.len().max(60), 0);
        frame
    };
    let stp = [
        &[0x42, 0x42, 3, 0, 0, 0, 0, 0][..],
        &[0x80, 0, 2, 0, 0, 0, 0, 1],
        &[0, 0, 0, 4],
        &[0x80, 0, 2, 0, 0, 0, 0, 2],
        &[0x80, 1, 0, 0, 20, 0, 2, 0, 15, 0],
    ]
    .concat();
    let rstp = [&[0x42, 0x42, 3, 0, 0, 2, 2, 0x3c][..], &stp[8..], &[0]].concat();
    let snap = |organisation: [u8; 3], kind: u16, body: &[u8]| {
        join(&[&[0xaa, 0xaa, 3], &organisation, &kind.to_be_bytes(), body])
    };
    let element =
        |kind: u16, value: &[u8]| join(&[&kind.to_be_bytes(), &(4 + value.len() as u16).to_be_bytes(), value]);
    let cdp = [&[2, 180, 0, 0][..], &element(1, b"switch7"), &element(3, b"Gi0/1"), &element(5, b"version")].concat();
    let udld = [&[0x21, 0, 0, 0][..], &element(1, b"switch7"), &element(2, b"Gi0/1")].concat();
    let isis = [
        &[0xfe, 0xfe, 3, 0x83, 27, 1, 0, 15, 1, 0, 0][..],
        &[1, 2, 0, 0, 0, 0, 9, 0, 30, 0, 33, 64],
        &[2, 0, 0, 0, 0, 9, 1],
        &[129, 1, 0xcc, 1, 2, 1, 0x49],
    ]
    .concat();
    let mut frames = vec![
        with_length(STP, &stp),
        with_length(STP, &rstp),
        with_length(CISCO, &snap([0, 0, 0x0c], 0x2000, &cdp)),
        with_length(CISCO, &snap([0, 0, 0x0c], 0x0111, &udld)),
        with_length(CISCO, &snap([0, 0, 0x0c], 0x2004, &[1, 0, 1, 0, 5, 0, 0, 2, 0, 5, 3])),
        with_length([1, 0x80, 0xc2, 0, 0, 0x15], &isis),
        with_length([9, 0, 7, 0xff, 0xff, 0xff], &snap([8, 0, 7], 0x809b, &[0; 30])),
        // IPX as it was before LLC.
        with_length([0xff; 6], &join(&[&[0xff, 0xff], &30u16.to_be_bytes(), &[0; 26]])),
    ];
    for (kind, packet) in inner() {
        frames.push(with_length([2, 0, 0, 0, 0, 0x22], &snap([0, 0, 0], kind, &packet)));
    }
    frames
}

fn lldp() -> Vec<u8> {
    [&[2, 7, 4, 2, 0, 0, 0, 0, 9][..], &[4, 6, 5], b"Gi0/1", &[6, 2, 0, 120, 10, 7], b"switch7", &[0, 0]].concat()
}

fn other_ether_types() -> Vec<Vec<u8>> {
    let lacp = [
        &[1, 1, 1, 20][..],
        &[0x80, 0, 2, 0, 0, 0, 0, 1, 0, 1, 0x80, 0, 0, 1, 0x3d, 0, 0, 0, 2, 20],
        &[0; 18],
        &[3, 16],
        &[0; 14],
        &[0; 52],
    ]
    .concat();
    vec![
        ethernet_to([1, 0x80, 0xc2, 0, 0, 2], 0x8809, &lacp),
        ethernet_to([1, 0x80, 0xc2, 0, 0, 14], 0x88cc, &lldp()),
        ethernet_to([1, 0x80, 0xc2, 0, 0, 3], 0x888e, &[1, 0, 0, 5, 1, 1, 0, 5, 1]),
        ethernet_to([1, 0x80, 0xc2, 0, 0, 1], 0x8808, &join(&[&[0, 1, 0xff, 0xff], &[0; 42]])),
        ethernet_to(
            [1, 0x1b, 0x19, 0, 0, 0],
            0x88f7,
            &join(&[
                &[0, 2, 0, 44, 0, 0, 2, 0],
                &[0; 12],
                &[2, 0, 0, 0xff, 0xfe, 0, 0, 1],
                &[0, 1, 0, 7, 0, 0],
                &[1; 10],
            ]),
        ),
        ethernet(0x88e5, &join(&[&[0x2c, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, 0x11, 0, 1], &[0x99; 48]])),
        ethernet(0x88a2, &join(&[&[0x10, 0, 0, 1, 2, 1, 0, 0, 0, 9], &[0; 40]])),
        ethernet(0x9000, &[0; 46]),
    ]
}

fn without_ethernet() -> Vec<Sample> {
    let of = |family: u16| inner().into_iter().filter(move |(kind, _)| *kind == family).map(|(_, packet)| packet);
    let cooked =
        |kind: u16, packet: &[u8]| join(&[&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 0x11, 0, 0], &kind.to_be_bytes(), packet]);
    let cooked2 = |kind: u16, packet: &[u8]| {
        join(&[&kind.to_be_bytes(), &[0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 0x11, 0, 0], packet])
    };
    let ppp = |kind: u16, packet: &[u8]| {
        let protocol: [u8; 2] = if kind == 0x0800 { [0, 0x21] } else { [0, 0x57] };
        join(&[&[0xff, 3], &protocol, packet])
    };
    let null = |kind: u16, packet: &[u8]| {
        let family: u32 = if kind == 0x0800 { 2 } else { 10 };
        join(&[&family.to_le_bytes(), packet])
    };
    let with = |head: &dyn Fn(u16, &[u8]) -> Vec<u8>| {
        inner().iter().map(|(kind, packet)| head(*kind, packet)).collect::<Vec<_>>()
    };
    let arp = arp(1, [10, 0, 0, 1], [10, 0, 0, 2]);
    let mut in_cooked = with(&cooked);
    in_cooked.push(cooked(0x0806, &arp));
    in_cooked.push(cooked(0x8100, &tag(0, 9, 0x0806, &arp)));
    let mut in_cooked2 = with(&cooked2);
    in_cooked2.push(cooked2(0x0806, &arp));
    let mut in_ppp = with(&ppp);
    in_ppp.push(vec![0xff, 3, 0xc0, 0x21, 1, 1, 0, 4]);
    // A link type that Ringtap reads from files and does not take apart: IEEE 802.11 beacons.
    let wireless = join(&[
        &[0x80, 0, 0, 0],
        &[0xff; 6],
        &[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 9, 0x10, 0],
        &[0; 10],
        &[1, 0, 0, 3, b'l', b'a', b'b'],
    ]);
    vec![
        Sample::new("raw", 101, inner().into_iter().map(|(_, packet)| packet).collect()),
        Sample::new("raw-ipv4", 228, of(0x0800).collect()),
        Sample::new("raw-ipv6", 229, of(0x86dd).collect()),
        Sample::new("cooked", 113, in_cooked),
        Sample::new("cooked2", 276, in_cooked2),
        Sample::new("ppp", 9, in_ppp),
        Sample::new("null", 0, with(&null)),
        Sample::new("wireless", 105, vec![wireless; 4]),
        Sample::new(
            "radius-raw",
            101,
            (0..4)
                .map(|id| {
                    let ends = Ends::new("10.9.0.1", "10.9.0.2");
                    ends.packet(17, &ends.udp([50_000, 1812], &radius(1, id)))
                })
                .collect(),
        ),
    ]
}
