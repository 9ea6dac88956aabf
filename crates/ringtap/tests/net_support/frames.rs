//! Frames made by hand, each with what is true of it, and the naive judgement of a rule over these facts.

use std::net::IpAddr;

use ringtap::steer::{Rule, Side};

pub const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MARK: &[u8; 8] = b"ringtap!";

/// A frame and the truth about it.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    vlan: Option<u16>,
    family: Option<u8>,
    protocol: Option<u8>,
    addresses: Option<(IpAddr, IpAddr)>,
    ports: Option<(u16, u16)>,
}

impl Sample {
    /// What the rule says of this frame, clause by clause.
    pub fn wanted(&self, rule: &Rule) -> bool {
        let inside = |address: IpAddr, (net, length): (IpAddr, u8)| {
            let bits = |address: IpAddr| match address {
                IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
                IpAddr::V6(v6) => (v6.to_bits(), false),
            };
            let ((a, a4), (b, b4)) = (bits(address), bits(net));
            a4 == b4 && (length == 0 || a >> (128 - u32::from(length)) == b >> (128 - u32::from(length)))
        };
        let side = |source: bool| {
            rule.prefix.is_none_or(|prefix| {
                self.addresses.is_some_and(|(from, to)| inside(if source { from } else { to }, prefix))
            }) && rule.ports.is_none_or(|(low, high)| {
                self.ports.is_some_and(|(from, to)| (low..=high).contains(if source { &from } else { &to }))
            })
        };
        !(rule.whole && self.name.contains("fragment"))
            && rule.vlan.is_none_or(|vlan| self.vlan == Some(vlan))
            && rule.family.is_none_or(|family| self.family == Some(family))
            && rule.protocol.is_none_or(|protocol| self.protocol == Some(protocol))
            && match rule.side {
                Side::Source => side(true),
                Side::Destination => side(false),
                Side::Any => side(true) || side(false),
            }
    }
}

/// Which sample a received frame is, by the mark and the number behind it.
pub fn number(frame: &[u8]) -> Option<usize> {
    frame.windows(9).find(|bytes| &bytes[..8] == MARK).map(|bytes| usize::from(bytes[8]))
}

fn payload(number: usize) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.push(number as u8);
    bytes.resize(24, 0);
    bytes
}

pub fn ethernet(tags: &[(u16, u16)], kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = [TO, FROM].concat();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(rest);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, fragment: u16, options: &[u8], rest: &[u8]) -> Vec<u8> {
    let head = 20 + options.len();
    let mut ip = vec![0x40 | (head / 4) as u8, 0];
    ip.extend(((head + rest.len()) as u16).to_be_bytes());
    ip.extend([0x12, 0x34]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([64, protocol, 0, 0]);
    ip.extend(from);
    ip.extend(to);
    ip.extend(options);
    let checksum = sum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip.extend(rest);
    ip
}

fn ipv6(from: u8, to: u8, next: u8, rest: &[u8]) -> Vec<u8> {
    let address = |last: u8| [0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((rest.len() as u16).to_be_bytes());
    ip.extend([next, 64]);
    ip.extend(address(from));
    ip.extend(address(to));
    ip.extend(rest);
    ip
}

/// Ports and what follows them, with a UDP checksum of "none".
pub fn udp(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
    let mut udp = [from.to_be_bytes(), to.to_be_bytes(), ((data.len() + 8) as u16).to_be_bytes(), [0, 0]].concat();
    udp.extend(data);
    udp
}

/// A frame of every kind the steering program tells apart.
// A list with an entry for each kind: two lists would be no easier to read.
#[allow(clippy::too_many_lines)]
pub fn samples() -> Vec<Sample> {
    const NEAR: [u8; 4] = [198, 18, 0, 1];
    const HERE: [u8; 4] = [198, 18, 0, 2];
    const FAR: [u8; 4] = [10, 1, 2, 3];
    let mut all: Vec<Sample> = Vec::new();
    let v4 = |from: [u8; 4], to: [u8; 4]| Some((IpAddr::from(from), IpAddr::from(to)));
    let v6 = |from: u16, to: u16| {
        let address = |last| IpAddr::from([0x2001, 2, 0, 0, 0, 0, 0, last]);
        Some((address(from), address(to)))
    };
    let mut add = |name, vlan, family, protocol, addresses, ports, build: &dyn Fn(&[u8]) -> Vec<u8>| {
        let bytes = build(&payload(all.len()));
        all.push(Sample { name, bytes, vlan, family, protocol, addresses, ports });
    };
    let plain = |ip: Vec<u8>| ethernet(&[], 0x0800, &ip);
    let plain6 = |ip: Vec<u8>| ethernet(&[], 0x86dd, &ip);
    add("udp4", None, Some(4), Some(17), v4(NEAR, HERE), Some((1000, 2000)), &|data| {
        plain(ipv4(NEAR, HERE, 17, 0x4000, &[], &udp(1000, 2000, data)))
    });
    add("tcp4", None, Some(4), Some(6), v4(FAR, HERE), Some((5000, 80)), &|data| {
        // A reset, which nobody answers.
        let tcp = [&[0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 4, 0, 0, 0, 0, 0, 0][..], data].concat();
        plain(ipv4(FAR, HERE, 6, 0x4000, &[], &tcp))
    });
    add("udp4 to port 162", None, Some(4), Some(17), v4(FAR, [203, 0, 113, 7]), Some((2000, 162)), &|data| {
        plain(ipv4(FAR, [203, 0, 113, 7], 17, 0x4000, &[], &udp(2000, 162, data)))
    });
    add("sctp4", None, Some(4), Some(132), v4(NEAR, HERE), Some((2904, 2905)), &|data| {
        plain(ipv4(
            NEAR,
            HERE,
            132,
            0x4000,
            &[],
            &[&[0x0b, 0x58, 0x0b, 0x59, 0, 0, 0, 0, 0, 0, 0, 0][..], data].concat(),
        ))
    });
    add("icmp4", None, Some(4), Some(1), v4(NEAR, HERE), None, &|data| {
        // An echo reply whose first words would be ports 1000 → 2000 if it had any.
        plain(ipv4(NEAR, HERE, 1, 0x4000, &[], &[&[0, 0, 0x07, 0xd0, 0x03, 0xe8, 0x07, 0xd0][..], data].concat()))
    });
    add("udp4 with options", None, Some(4), Some(17), v4(NEAR, HERE), Some((1000, 2000)), &|data| {
        // Four no-operations (RFC 791).
        plain(ipv4(NEAR, HERE, 17, 0x4000, &[1, 1, 1, 1], &udp(1000, 2000, data)))
    });
    add("first fragment", None, Some(4), Some(17), v4(NEAR, HERE), Some((1000, 2000)), &|data| {
        plain(ipv4(NEAR, HERE, 17, 0x2000, &[], &udp(1000, 2000, data)))
    });
    add("later fragment", None, Some(4), Some(17), v4(NEAR, HERE), None, &|data| {
        plain(ipv4(NEAR, HERE, 17, 0x0064, &[], &udp(1000, 2000, data)))
    });
    add("udp6", None, Some(6), Some(17), v6(1, 2), Some((1000, 2000)), &|data| {
        plain6(ipv6(1, 2, 17, &udp(1000, 2000, data)))
    });
    add("tcp6", None, Some(6), Some(6), v6(9, 2), Some((5000, 80)), &|data| {
        let tcp = [&[0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 4, 0, 0, 0, 0, 0, 0][..], data].concat();
        plain6(ipv6(9, 2, 6, &tcp))
    });
    add("udp6 behind three extension headers", None, Some(6), Some(17), v6(1, 2), Some((1000, 2000)), &|data| {
        // Hop-by-hop (8 bytes), routing (24 bytes, no segments left), destination options (16 bytes): RFC 8200 section 4.
        let mut rest = vec![43, 0, 1, 4, 0, 0, 0, 0, 60, 2, 4, 0];
        rest.extend([0; 20]);
        rest.extend([17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend(udp(1000, 2000, data));
        plain6(ipv6(1, 2, 0, &rest))
    });
    add("udp6 behind eight extension headers", None, Some(6), Some(17), v6(1, 2), Some((1000, 2000)), &|data| {
        // Hop-by-hop, routing, and six times destination options, each of 8 bytes with padding: the most a host need take.
        let mut rest = vec![43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0, 0, 0];
        (0..6).for_each(|number| rest.extend([if number < 5 { 60 } else { 17 }, 0, 1, 4, 0, 0, 0, 0]));
        rest.extend(udp(1000, 2000, data));
        plain6(ipv6(1, 2, 0, &rest))
    });
    add("first fragment of udp6", None, Some(6), Some(17), v6(1, 2), Some((1000, 2000)), &|data| {
        plain6(ipv6(1, 2, 44, &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &udp(1000, 2000, data)].concat()))
    });
    add("later fragment of udp6", None, Some(6), Some(17), v6(1, 2), None, &|data| {
        plain6(ipv6(1, 2, 44, &[&[17, 0, 0x03, 0x20, 0, 0, 0, 2][..], &udp(1000, 2000, data)].concat()))
    });
    add("udp4 in VLAN 5", Some(5), Some(4), Some(17), v4(NEAR, HERE), Some((1000, 2000)), &|data| {
        // With a priority, which is not part of the identifier.
        ethernet(&[(0x8100, 0xa005)], 0x0800, &ipv4(NEAR, HERE, 17, 0x4000, &[], &udp(1000, 2000, data)))
    });
    add("udp4 in VLAN 7 outside, 5 inside", Some(7), Some(4), Some(17), v4(NEAR, HERE), Some((1000, 2000)), &|data| {
        ethernet(&[(0x88a8, 7), (0x8100, 5)], 0x0800, &ipv4(NEAR, HERE, 17, 0x4000, &[], &udp(1000, 2000, data)))
    });
    add("arp", None, None, None, None, None, &|data| {
        // An announcement (RFC 5227) for an address nobody has.
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 2];
        arp.extend(FROM);
        arp.extend([192, 0, 2, 1]);
        arp.extend(TO);
        arp.extend([192, 0, 2, 1]);
        arp.extend(data);
        ethernet(&[], 0x0806, &arp)
    });
    add("experimental type", None, None, None, None, None, &|data| ethernet(&[], 0x88b5, data));
    add("no IP although it says so", None, None, None, None, None, &|data| {
        ethernet(&[], 0x0800, &[&[0x95; 28][..], data].concat())
    });
    add("IPv4 header cut short", None, Some(4), Some(17), v4(NEAR, HERE), None, &|data| {
        // A header length of 16 bytes can't be: addresses are there, ports can't be found.
        let mut ip = ipv4(NEAR, HERE, 17, 0x4000, &[], &udp(1000, 2000, data));
        ip[0] = 0x44;
        plain(ip)
    });
    all
}
