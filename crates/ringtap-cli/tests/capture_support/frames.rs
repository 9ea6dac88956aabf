//! Frames of many kinds, as a sender would build them by hand. Checksums are left out: a capture does not look at them.
#![allow(dead_code)]

const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&RECEIVER[..], &SENDER, &kind.to_be_bytes(), payload].concat()
}

/// Puts a tag behind the addresses.
pub fn tagged(tpid: u16, vlan: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &tpid.to_be_bytes(), &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// `fragment` is the word of flags and offset.
pub fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let head =
        [&[0x45, 0][..], &length.to_be_bytes(), &[0, 7], &fragment.to_be_bytes(), &[64, protocol, 0, 0]].concat();
    ethernet(0x0800, &[&head[..], &source, &destination, payload].concat())
}

pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |last: u8| [&[0x20, 1, 0, 2][..], &[0; 11], &[last]].concat();
    let head = [&[0x60, 0, 0, 0][..], &(payload.len() as u16).to_be_bytes(), &[next, 64]].concat();
    ethernet(0x86dd, &[&head[..], &address(1), &address(2), payload].concat())
}

pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

pub fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]]
        .concat()
}

pub fn arp() -> Vec<u8> {
    let addresses = [&SENDER[..], &[198, 18, 0, 1], &[0; 6], &[198, 18, 0, 2]].concat();
    ethernet(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &addresses, &[0; 18]].concat())
}

/// Mixed traffic: `rounds` times all kinds, no two frames alike.
pub fn mixed(rounds: u8) -> Vec<Vec<u8>> {
    let (a, b, c) = ([198, 18, 0, 1], [198, 18, 0, 2], [10, 1, 2, 3]);
    (0..rounds)
        .flat_map(|round| {
            let marked = |length: usize| [&[1, 2, 3, 4, round][..], &vec![round; length]].concat();
            let dns = ipv4(17, a, b, 0, &udp(5000 + u16::from(round), 53, &marked(20)));
            let far = ipv4(17, c, b, 0, &udp(53, 6000, &marked(300)));
            vec![
                tagged(0x8100, 5, &dns),
                tagged(0x8100, 6, &far),
                tagged(0x88a8, 9, &tagged(0x8100, 5, &dns)),
                ipv4(6, a, b, 0, &tcp(40_000 + u16::from(round), 80, 0x02)),
                ipv4(6, a, b, 0, &tcp(22, 40_000, 0x10 + (round & 1))),
                ipv4(1, a, b, 0, &marked(16)),
                ipv4(17, a, b, 0x2000, &udp(1, 53, &marked(64))),
                ipv4(17, a, b, 0x0009, &marked(64)),
                ipv4(47, c, b, 0, &marked(30)),
                ipv4(132, a, b, 0, &[&[0, 99, 0, 53, round][..], &[0; 20]].concat()),
                ipv6(17, &udp(7, 53, &marked(40))),
                ipv6(58, &marked(40)),
                ipv6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(7, 53, &marked(9))].concat()),
                arp(),
                ethernet(0x88cc, &marked(50)),
                dns,
                far,
            ]
        })
        .collect()
}
