//! Owns: Ethernet frames around fuzzed bytes: TCP segments, UDP datagrams and IPv4 fragments between two hosts.
//! Shared by the targets of the detector. Checksums are left out: the detectors here don't look at them.
#![allow(dead_code)]

/// Where every client's stream begins.
pub const ISN: u32 = u32::MAX - 100;

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;

/// An IPv4 packet; `fragment` is the word of flags and offset (RFC 791 §3.1).
pub fn ipv4(from_client: bool, protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let hosts = [[198, 51, 100, 1], [203, 0, 113, 2]];
    let (source, destination) = if from_client { (hosts[0], hosts[1]) } else { (hosts[1], hosts[0]) };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    frame.extend(source);
    frame.extend(destination);
    frame.extend(payload);
    frame
}

/// A segment of the one session to `port`; `position` counts from its side's first byte.
pub fn tcp(from_client: bool, port: u16, position: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports = if from_client { [40_000, port] } else { [port, 40_000] };
    let mut segment = Vec::new();
    ports.iter().for_each(|port| segment.extend(port.to_be_bytes()));
    segment.extend(ISN.wrapping_add(1).wrapping_add(position).to_be_bytes());
    segment.extend(ISN.wrapping_add(1).to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    ipv4(from_client, 6, 7, 0, &segment)
}

/// A datagram to `port`.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(40_000u16.to_be_bytes());
    datagram.extend(port.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ipv4(true, 17, 7, 0, &datagram)
}

/// The handshake of the session to `port`.
pub fn handshake(port: u16) -> [Vec<u8>; 3] {
    [tcp(true, port, u32::MAX, SYN, b""), tcp(false, port, u32::MAX, SYN | ACK, b""), tcp(true, port, 0, ACK, b"")]
}

/// A session to `port` whose client sends these bytes, in segments of up to `size`.
pub fn session(port: u16, bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = handshake(port).into();
    for (number, chunk) in bytes.chunks(size).enumerate() {
        frames.push(tcp(true, port, (number * size) as u32, ACK, chunk));
    }
    frames
}
