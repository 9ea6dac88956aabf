//! Owns: headers in front of a payload, lengths and checksums right; sessions of TCP.
//! Does not: know applications ([`crate::apps`]).

use std::net::IpAddr;

/// xorshift64*: the same in each run.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// `seed` is not 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

/// Joins parts of a packet.
#[must_use]
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// An Ethernet frame between two stations that are not the test's.
#[must_use]
pub fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    ethernet_to([2, 0, 0, 0, 0, 0x22], ether_type, payload)
}

/// An Ethernet frame to this address; or with a length in place of the EtherType.
#[must_use]
pub fn ethernet_to(to: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&to, &[2, 0, 0, 0, 0, 0x11], &ether_type.to_be_bytes(), payload])
}

/// What follows an EtherType of a VLAN tag.
#[must_use]
pub fn tag(priority: u8, id: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&(u16::from(priority) << 13 | id).to_be_bytes(), &ether_type.to_be_bytes(), payload])
}

/// The sum of RFC 1071 over all parts, each but the last of an even length.
#[must_use]
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for pair in parts.concat().chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IPv4 header with all that varies, checksum right.
#[derive(Clone, Copy, Debug)]
pub struct V4<'a> {
    /// Source and destination.
    pub ends: [[u8; 4]; 2],
    /// Type of service.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Flags and offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Whole words.
    pub options: &'a [u8],
}

impl Default for V4<'_> {
    fn default() -> Self {
        Self { ends: [[192, 168, 1, 10], [192, 168, 2, 20]], tos: 0, id: 7, fragment: 0, ttl: 64, options: &[] }
    }
}

impl V4<'_> {
    /// The packet.
    #[must_use]
    pub fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let total = (20 + self.options.len() + payload.len()) as u16;
        let words = 5 + (self.options.len() / 4) as u8;
        let mut head = vec![0x40 | words, self.tos];
        for field in [total, self.id, self.fragment] {
            head.extend(field.to_be_bytes());
        }
        head.extend([self.ttl, protocol, 0, 0]);
        head.extend(self.ends.concat());
        head.extend(self.options);
        let sum = checksum(&[&head]).to_be_bytes();
        head[10..12].copy_from_slice(&sum);
        join(&[&head, payload])
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The sender.
    pub from: IpAddr,
    /// The receiver, of the same family.
    pub to: IpAddr,
}

impl Ends {
    /// From their texts.
    ///
    /// # Panics
    ///
    /// Where these are no addresses.
    #[must_use]
    pub fn new(from: &str, to: &str) -> Self {
        let address = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        Self { from: address(from), to: address(to) }
    }

    /// The other direction.
    #[must_use]
    pub fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// An IP packet of their family.
    #[must_use]
    pub fn packet(self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                V4 { ends: [from.octets(), to.octets()], ..V4::default() }.packet(protocol, payload)
            }
            (from, to) => {
                let mut head = vec![0x60, 0, 0, 0];
                head.extend((payload.len() as u16).to_be_bytes());
                head.extend([protocol, 64]);
                head.extend(octets(from));
                head.extend(octets(to));
                join(&[&head, payload])
            }
        }
    }

    /// EtherType of their family.
    #[must_use]
    pub fn ether_type(self) -> u16 {
        if self.from.is_ipv4() { 0x0800 } else { 0x86dd }
    }

    /// An Ethernet frame with an IP packet.
    #[must_use]
    pub fn frame(self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        ethernet(self.ether_type(), &self.packet(protocol, payload))
    }

    fn pseudo(self, protocol: u8, len: usize) -> Vec<u8> {
        join(&[&octets(self.from), &octets(self.to), &(len as u32).to_be_bytes(), &[0, 0, 0, protocol]])
    }

    /// `segment` with its checksum at byte `at`, over the pseudo header too.
    fn summed(self, protocol: u8, mut segment: Vec<u8>, at: usize) -> Vec<u8> {
        self.sum_again(protocol, &mut segment, at);
        segment
    }

    /// Puts the right checksum at byte `at` of a segment that has another one.
    pub(crate) fn sum_again(self, protocol: u8, segment: &mut [u8], at: usize) {
        segment[at..at + 2].fill(0);
        let sum = checksum(&[&self.pseudo(protocol, segment.len()), segment]);
        // 0 says that there is none (RFC 768).
        let sum = if sum == 0 && protocol == 17 { 0xffff } else { sum };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(self, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len()) as u16;
        let head = [ports[0], ports[1], length, 0].map(u16::to_be_bytes).concat();
        self.summed(17, join(&[&head, payload]), 6)
    }

    /// A TCP segment; options in whole words.
    #[must_use]
    pub fn tcp(self, ports: [u16; 2], numbers: [u32; 2], flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut head = ports.map(u16::to_be_bytes).concat();
        head.extend(numbers.map(u32::to_be_bytes).concat());
        head.extend([((5 + options.len() / 4) << 4) as u8, flags, 0x20, 0, 0, 0, 0, 0]);
        self.summed(6, join(&[&head, options, payload]), 16)
    }

    /// An ICMP or ICMPv6 message: type, code, the rest of the header, payload.
    #[must_use]
    pub fn icmp(self, kind: u8, code: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut message = join(&[&[kind, code, 0, 0], &rest, payload]);
        if self.from.is_ipv6() {
            return self.summed(58, message, 2);
        }
        let sum = checksum(&[&message]).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        message
    }

    /// A frame with a datagram.
    #[must_use]
    pub fn udp_frame(self, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        self.frame(17, &self.udp(ports, payload))
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// TCP flags.
pub mod flag {
    /// FIN.
    pub const FIN: u8 = 1;
    /// SYN.
    pub const SYN: u8 = 2;
    /// RST.
    pub const RST: u8 = 4;
    /// PSH.
    pub const PSH: u8 = 8;
    /// ACK.
    pub const ACK: u8 = 16;
}

/// A TCP connection, as the frames that pass.
#[derive(Clone, Debug)]
pub struct Session {
    ends: Ends,
    ports: [u16; 2],
    /// The next number of the client and of the server.
    next: [u32; 2],
    /// What passed so far.
    pub frames: Vec<Vec<u8>>,
}

impl Session {
    /// With its handshake. The server's numbers pass through zero soon.
    #[must_use]
    pub fn open(ends: Ends, ports: [u16; 2]) -> Self {
        let mut this = Self { ends, ports, next: [1_000_000, u32::MAX - 5], frames: Vec::new() };
        let mss = [2, 4, 5, 0xb4, 1, 3, 3, 7];
        this.segment(true, flag::SYN, &mss, b"");
        this.segment(false, flag::SYN | flag::ACK, &mss, b"");
        this.segment(true, flag::ACK, &[], b"");
        this
    }

    fn segment(&mut self, from_client: bool, flags: u8, options: &[u8], payload: &[u8]) {
        let (own, other) = if from_client { (0, 1) } else { (1, 0) };
        let ends = if from_client { self.ends } else { self.ends.back() };
        let acknowledged = if flags & flag::ACK == 0 { 0 } else { self.next[other] };
        let ports = [self.ports[own], self.ports[other]];
        let segment = ends.tcp(ports, [self.next[own], acknowledged], flags, options, payload);
        self.frames.push(ends.frame(6, &segment));
        let counted = u32::from(flags & (flag::SYN | flag::FIN) != 0);
        self.next[own] = self.next[own].wrapping_add(payload.len() as u32 + counted);
    }

    /// What the client says, in segments of at most `most` bytes, and the server's acknowledgment.
    #[must_use]
    pub fn client(self, data: &[u8], most: usize) -> Self {
        self.said(true, data, most)
    }

    /// What the server says, likewise.
    #[must_use]
    pub fn server(self, data: &[u8], most: usize) -> Self {
        self.said(false, data, most)
    }

    fn said(mut self, by_client: bool, data: &[u8], most: usize) -> Self {
        for part in data.chunks(most) {
            self.segment(by_client, flag::PSH | flag::ACK, &[], part);
        }
        self.segment(!by_client, flag::ACK, &[], b"");
        self
    }

    /// Ends in order; what passed.
    #[must_use]
    pub fn close(mut self) -> Vec<Vec<u8>> {
        self.segment(true, flag::FIN | flag::ACK, &[], b"");
        self.segment(false, flag::FIN | flag::ACK, &[], b"");
        self.segment(true, flag::ACK, &[], b"");
        self.frames
    }

    /// The server refuses to go on; what passed.
    #[must_use]
    pub fn reset(mut self) -> Vec<Vec<u8>> {
        self.segment(false, flag::RST | flag::ACK, &[], b"");
        self.frames
    }
}
