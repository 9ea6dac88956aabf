//! Owns: samples of IP and what lies directly on it: options, extension headers, fragments, ICMP, SCTP, tunnels, routing.

use crate::Sample;
use crate::apps::dns_query;
use crate::frames::{Ends, V4, checksum, ethernet, flag, join};

pub(crate) fn samples() -> Vec<Sample> {
    vec![
        Sample::ethernet("ipv4-options", options()),
        Sample::ethernet("ipv4-protocols", protocols()),
        Sample::ethernet("ipv4-fragments", fragments()),
        Sample::ethernet("ipv6-extensions", extensions()),
        Sample::ethernet("ipv6-fragments", fragments_of_v6()),
        Sample::ethernet("icmp", icmp()),
        Sample::ethernet("icmpv6", icmpv6()),
        Sample::ethernet("sctp", sctp()),
        Sample::ethernet("tunnels", tunnels()),
        Sample::ethernet("tcp-flags", segments()),
        Sample::ethernet("broken-on-purpose", broken()),
        Sample::ethernet("big", big()),
    ]
}

fn v4_ends() -> Ends {
    Ends::new("192.168.1.10", "192.168.2.20")
}

fn v6_ends() -> Ends {
    Ends::new("2001:db8:1::10", "2001:db8:2::20")
}

fn options() -> Vec<Vec<u8>> {
    let kinds: [&[u8]; 14] = [
        &[1, 1, 1, 0],
        &[7, 11, 4, 192, 0, 2, 1, 192, 0, 2, 2, 0],
        &[68, 12, 5, 0, 0, 0, 0, 1, 0, 0, 0, 2],
        &[68, 12, 5, 1, 192, 0, 2, 1, 0, 0, 0, 2],
        &[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[131, 7, 4, 192, 0, 2, 9, 0],
        &[133, 3, 0, 0],
        &[134, 6, 0, 0, 0, 1, 0, 0],
        &[136, 4, 0, 9],
        &[137, 7, 4, 192, 0, 2, 9, 0],
        &[148, 4, 0, 0],
        &[25, 8, 1, 1, 0, 0, 0, 0],
        &[94, 8, 1, 2, 3, 4, 5, 6],
        &[1; 40],
    ];
    let segment = v4_ends().udp([4000, 4001], b"options");
    let with = |options: &&[u8]| ethernet(0x0800, &V4 { options, ..V4::default() }.packet(17, &segment));
    kinds.iter().map(with).collect()
}

/// One packet of each protocol number, most without meaning to anybody here.
fn protocols() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = (0..=255u8)
        .filter(|protocol| protocol % 3 == 0 || matches!(protocol, 2 | 50 | 89 | 103 | 112))
        .filter(|protocol| !matches!(protocol, 6 | 51 | 132))
        .map(|protocol| v4_ends().frame(protocol, &[0x11; 40]))
        .collect();
    let sum = |mut message: Vec<u8>, at: usize| {
        let sum = checksum(&[&message]).to_be_bytes();
        message[at..at + 2].copy_from_slice(&sum);
        message
    };
    let to = |group: &str, protocol: u8, message: &[u8]| Ends::new("192.168.1.1", group).frame(protocol, message);
    for kind in [0x11, 0x12, 0x16, 0x17] {
        frames.push(to("224.0.0.1", 2, &sum(vec![kind, 0, 0, 0, 239, 1, 2, 3], 2)));
    }
    frames.push(to("224.0.0.22", 2, &sum(vec![0x22, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 2, 3], 2)));
    let hello = [
        &[2, 1, 0, 44, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0; 8],
        &[255, 255, 255, 0, 0, 10, 2, 1, 0, 0, 0, 40],
        &[0; 8],
    ];
    frames.push(to("224.0.0.5", 89, &sum(hello.concat(), 12)));
    frames.push(to(
        "224.0.0.18",
        112,
        &sum(vec![0x21, 7, 100, 1, 0, 1, 0, 0, 192, 168, 1, 254, 0, 0, 0, 0, 0, 0, 0, 0], 6),
    ));
    frames.push(to("224.0.0.13", 103, &sum(vec![0x20, 0, 0, 0, 0, 1, 0, 2, 0, 105, 0, 20, 0, 4, 1, 2, 3, 4], 2)));
    frames.push(to(
        "224.0.0.10",
        88,
        &sum([&[2, 5, 0, 0][..], &[0; 12], &[0, 0, 0, 1, 0, 1, 0, 12, 1, 0, 1, 0, 0, 0, 0, 15]].concat(), 2),
    ));
    // The land attack: to itself.
    frames.push(Ends::new("192.0.2.9", "192.0.2.9").udp_frame([7, 7], b"land"));
    // AH in front of TCP; ESP.
    let ah = join(&[
        &[6, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1],
        &[0xaa; 12],
        &v4_ends().tcp([1, 2], [3, 4], flag::ACK, &[], b"authentic"),
    ]);
    frames.push(v4_ends().frame(51, &ah));
    frames.push(v4_ends().frame(50, &join(&[&[0, 0, 1, 1, 0, 0, 0, 1], &[0x5a; 64]])));
    frames
}

/// Datagrams in pieces, in order, backwards, with a hole, and with pieces that overlap.
fn fragments() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let piece = |id: u16, offset: usize, more: bool, bytes: &[u8]| {
        let fragment = (offset / 8) as u16 | u16::from(more) << 13;
        ethernet(0x0800, &V4 { id, fragment, ..V4::default() }.packet(17, bytes))
    };
    for (id, size) in (100..).zip([8, 16, 64, 256, 600]) {
        let datagram = v4_ends().udp([3000, 3001], &[b'f'; 700]);
        let pieces = datagram.chunks(size).enumerate();
        let mut made: Vec<_> =
            pieces.map(|(n, part)| piece(id, n * size, (n + 1) * size < datagram.len(), part)).collect();
        match id {
            101 => made.reverse(),
            102 => _ = made.remove(1),
            103 => made.insert(1, piece(id, 128, true, &[b'o'; 256])),
            _ => {}
        }
        frames.extend(made);
    }
    frames
}

fn fragments_of_v6() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (id, size) in (7u32..).zip([64, 400]) {
        let datagram = v6_ends().udp([3000, 3001], &[b'6'; 900]);
        for (n, part) in datagram.chunks(size).enumerate() {
            let more = u16::from((n + 1) * size < datagram.len());
            let head = join(&[&[17, 0], &((n * size) as u16 | more).to_be_bytes(), &id.to_be_bytes()]);
            frames.push(v6_ends().frame(44, &join(&[&head, part])));
        }
    }
    // An atomic one.
    let whole = v6_ends().udp([1, 2], b"atomic");
    frames.push(v6_ends().frame(44, &join(&[&[17, 0, 0, 0, 0, 0, 0, 9], &whole])));
    frames
}

fn extensions() -> Vec<Vec<u8>> {
    let last = |protocol: u8| match protocol {
        6 => v6_ends().tcp([5000, 80], [1, 0], flag::SYN, &[2, 4, 5, 0xa0], b""),
        17 => v6_ends().udp([5000, 53], &dns_query(3, "six.example.org", 28)),
        _ => v6_ends().icmp(128, 0, [0, 1, 0, 2], b"echo"),
    };
    let head = |kind: u8, next: u8| -> Vec<u8> {
        match kind {
            0 => vec![next, 0, 5, 2, 0, 0, 1, 0],
            60 => vec![next, 1, 1, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0],
            43 => [&[next, 2, 4, 0, 0, 0, 0, 0][..], &[0xfc; 16]].concat(),
            51 => [&[next, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0x77; 12]].concat(),
            135 => vec![next, 0, 1, 0, 0, 0, 0, 0],
            _ => vec![next, 0, 0, 0, 0, 0, 0, 0],
        }
    };
    let chains: [&[u8]; 9] =
        [&[0], &[60], &[43], &[51], &[0, 60, 43], &[0, 43, 51, 60], &[135], &[0, 60, 43, 44, 51, 60], &[60, 60]];
    let mut frames = Vec::new();
    for chain in chains {
        for protocol in [6, 17, 58] {
            let mut next = protocol;
            let mut packet = last(protocol);
            for &kind in chain.iter().rev() {
                packet = join(&[&head(kind, next), &packet]);
                next = kind;
            }
            frames.push(v6_ends().frame(next, &packet));
        }
    }
    // Nothing behind it.
    frames.push(v6_ends().frame(59, b""));
    frames.push(v6_ends().frame(0, &head(0, 59)));
    frames
}

fn icmp() -> Vec<Vec<u8>> {
    let ends = v4_ends();
    let refused = &ends.packet(17, &ends.udp([9, 9999], b"nobody there"))[..];
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for (kind, code) in [
        (0, 0),
        (8, 0),
        (3, 0),
        (3, 1),
        (3, 3),
        (3, 4),
        (3, 13),
        (4, 0),
        (5, 1),
        (9, 0),
        (10, 0),
        (11, 0),
        (11, 1),
        (12, 0),
        (13, 0),
        (14, 0),
        (17, 0),
        (18, 0),
        (42, 0),
        (200, 9),
    ] {
        let body = if matches!(kind, 3 | 4 | 5 | 11 | 12) { refused } else { &b"abcdefghijklmnopqrstuvwabcdefghi"[..] };
        frames.push(ends.frame(1, &ends.icmp(kind, code, [0, kind, 0, code], body)));
    }
    frames
}

fn icmpv6() -> Vec<Vec<u8>> {
    let ends = Ends::new("fe80::1", "ff02::1");
    let refused = v6_ends().packet(17, &v6_ends().udp([9, 9999], b"nobody there"));
    let address = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let link = [1, 1, 2, 0, 0, 0, 0, 0x11];
    let prefix =
        [&[3, 4, 64, 0xc0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0][..], &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0], &[0; 8]]
            .concat();
    let bodies: [(u8, u8, [u8; 4], Vec<u8>); 12] = [
        (128, 0, [0, 1, 0, 1], b"echo".to_vec()),
        (129, 0, [0, 1, 0, 1], b"echo".to_vec()),
        (1, 4, [0; 4], refused.clone()),
        (2, 0, [0, 0, 5, 0], refused.clone()),
        (3, 0, [0; 4], refused.clone()),
        (4, 1, [0, 0, 0, 6], refused),
        (130, 0, [0; 4], vec![0; 16]),
        (133, 0, [0; 4], link.to_vec()),
        (134, 0, [64, 0, 7, 8], [&[0; 8][..], &prefix].concat()),
        (135, 0, [0; 4], [&address[..], &link].concat()),
        (136, 0, [0x60, 0, 0, 0], [&address[..], &[2, 1, 2, 0, 0, 0, 0, 0x11]].concat()),
        (143, 0, [0, 0, 0, 1], [&[4, 0, 0, 0][..], &[0xff; 16]].concat()),
    ];
    bodies.iter().map(|(kind, code, rest, body)| ends.frame(58, &ends.icmp(*kind, *code, *rest, body))).collect()
}

fn sctp() -> Vec<Vec<u8>> {
    let chunk = |kind: u8, body: &[u8]| {
        let mut chunk = join(&[&[kind, 3], &(4 + body.len() as u16).to_be_bytes(), body]);
        chunk.resize(chunk.len().next_multiple_of(4), 0);
        chunk
    };
    let data = chunk(0, &join(&[&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], b"data of odd lengt"]));
    let init = chunk(1, &[0, 0, 0, 9, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 5]);
    let sack = chunk(3, &[0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    let mut frames = Vec::new();
    for chunks in [
        init.clone(),
        chunk(10, b"cookie"),
        chunk(11, b""),
        data.clone(),
        [sack, data].concat(),
        chunk(4, b"\0\x01\0\x08beat"),
        chunk(6, b""),
        init,
    ] {
        let packet = join(&[&[0x0b, 0x59, 0x0b, 0x5a, 0, 0, 0, 7, 0, 0, 0, 0], &chunks]);
        frames.push(v4_ends().frame(132, &packet));
        frames.push(v6_ends().frame(132, &packet));
    }
    frames
}

/// What is inside, in each tunnel there is a parser for, over both families.
fn tunnels() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for outer in [v4_ends(), v6_ends()] {
        for (kind, inner) in
            [Ends::new("10.5.0.1", "10.5.0.2"), Ends::new("2001:db8:5::1", "2001:db8:5::2")].map(|ends| {
                (ends.ether_type(), ends.packet(17, &ends.udp([4500, 53], &dns_query(2, "inside.example.net", 1))))
            })
        {
            let within = ethernet(kind, &inner);
            let protocol = kind.to_be_bytes();
            frames.push(outer.frame(if kind == 0x0800 { 4 } else { 41 }, &inner));
            frames.push(outer.frame(47, &join(&[&[0, 0], &protocol, &inner])));
            // With checksum, key and sequence number.
            frames
                .push(outer.frame(47, &join(&[&[0xb0, 0], &protocol, &[0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 1], &inner])));
            frames.push(outer.frame(47, &join(&[&[0, 0, 0x65, 0x58], &within])));
            // ERSPAN of type II.
            frames.push(
                outer.frame(47, &join(&[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 5, 0x10, 5, 0, 9, 0, 0, 0, 1], &within])),
            );
            frames.push(outer.udp_frame([49_152, 4789], &join(&[&[8, 0, 0, 0, 0, 0, 99, 0], &within])));
            frames.push(outer.udp_frame([49_152, 8472], &join(&[&[8, 0, 0, 0, 0, 0, 99, 0], &within])));
            frames.push(outer.udp_frame([49_153, 6081], &join(&[&[0, 0, 0x65, 0x58, 0, 0, 77, 0], &within])));
            frames.push(outer.udp_frame(
                [49_153, 6081],
                &join(&[&[2, 0], &protocol, &[0, 0, 77, 0, 1, 2, 3, 1, 9, 9, 9, 9], &inner]),
            ));
            let gtp = join(&[&[0x30, 0xff], &(inner.len() as u16).to_be_bytes(), &[0, 0, 0, 7], &inner]);
            frames.push(outer.udp_frame([2152, 2152], &gtp));
        }
    }
    frames
}

fn segments() -> Vec<Vec<u8>> {
    let options: [&[u8]; 7] = [
        &[],
        &[2, 4, 5, 0xb4],
        &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7],
        &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9],
        &[30, 12, 0, 0x81, 1, 2, 3, 4, 5, 6, 7, 8],
        &[1; 40],
        &[19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0],
    ];
    let mut frames = Vec::new();
    for (index, flags) in (0..=255u8).step_by(5).enumerate() {
        let ends = if index % 2 == 0 { v4_ends() } else { v6_ends() };
        let segment = ends.tcp([20_000 + index as u16, 80], [index as u32, 7], flags, options[index % 7], b"segment");
        frames.push(ends.frame(6, &segment));
    }
    for host in 0..60u8 {
        // What fingerprints look at: clients that connect, each from its own address.
        let ends = Ends::new(&format!("192.0.2.{}", 1 + host), "198.51.100.1");
        let known = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, host, 0, 0, 0, 0, 1, 3, 3, 7];
        frames.push(ends.frame(6, &ends.tcp([30_000, 80], [1, 0], flag::SYN, &known, b"")));
    }
    frames
}

/// Lengths, versions and numbers that contradict each other, one to a packet.
fn broken() -> Vec<Vec<u8>> {
    let whole = v4_ends().udp_frame([1000, 2000], b"payload of a good packet");
    let of_v6 = v6_ends().udp_frame([1000, 2000], b"payload of a good packet");
    let segment = v4_ends().frame(6, &v4_ends().tcp([1, 2], [3, 4], flag::ACK, &[2, 4, 5, 0xb4], b"x"));
    let with = |frame: &[u8], changes: &[(usize, u8)]| {
        let mut frame = frame.to_vec();
        changes.iter().for_each(|&(at, value)| frame[at] = value);
        frame
    };
    vec![
        // IPv4: version, header too short, header longer than the packet, total length too short and too long, no total length.
        with(&whole, &[(14, 0x65)]),
        with(&whole, &[(14, 0x44)]),
        with(&whole, &[(14, 0x4f)]),
        with(&whole, &[(16, 0), (17, 19)]),
        with(&whole, &[(16, 0), (17, 25)]),
        with(&whole, &[(16, 0xff), (17, 0xff)]),
        with(&whole, &[(16, 0), (17, 0)]),
        with(&whole, &[(24, 0), (25, 0)]),
        // UDP: lengths.
        with(&whole, &[(38, 0), (39, 7)]),
        with(&whole, &[(38, 0), (39, 0)]),
        with(&whole, &[(38, 0xff), (39, 0xff)]),
        with(&whole, &[(40, 0x12), (41, 0x34)]),
        // TCP: offset, options.
        with(&segment, &[(46, 0x40)]),
        with(&segment, &[(46, 0xf0)]),
        with(&segment, &[(55, 0)]),
        with(&segment, &[(55, 200)]),
        // IPv6: version, lengths, a next header that leads nowhere.
        with(&of_v6, &[(14, 0x40)]),
        with(&of_v6, &[(18, 0xff), (19, 0xff)]),
        with(&of_v6, &[(18, 0), (19, 0)]),
        with(&of_v6, &[(20, 0)]),
        with(&of_v6, &[(20, 43), (55, 200)]),
        // The EtherType says one version and the header the other.
        with(&whole, &[(12, 0x86), (13, 0xdd)]),
        with(&of_v6, &[(12, 8), (13, 0)]),
    ]
}

/// Longer than what an Ethernet carries: merged by offloads, and a jumbogram.
fn big() -> Vec<Vec<u8>> {
    let merged = v4_ends().frame(6, &v4_ends().tcp([1, 2], [3, 4], flag::ACK, &[], &[b'm'; 40_000]));
    let payload = vec![b'j'; 70_000];
    let udp = join(&[&[0, 1, 0, 2, 0, 0, 0, 1], &payload]);
    let length = (8 + udp.len() as u32).to_be_bytes();
    let mut jumbo = v6_ends().packet(0, &join(&[&[17, 0, 0xc2, 4], &length, &udp]));
    jumbo[4..6].fill(0);
    // Total length 0: the kernel's, where it is more than fits the field.
    let mut without = v4_ends().packet(6, &v4_ends().tcp([1, 2], [3, 4], flag::ACK, &[], &[b'b'; 70_000]));
    without[2..4].fill(0);
    without[10..12].fill(0);
    let sum = checksum(&[&without[..20]]).to_be_bytes();
    without[10..12].copy_from_slice(&sum);
    vec![merged, ethernet(0x86dd, &jumbo), ethernet(0x0800, &without)]
}
