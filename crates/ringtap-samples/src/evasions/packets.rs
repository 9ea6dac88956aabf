//! Owns: packets of one TCP conversation with every field at hand.
//! Does not: decide what to send.

use crate::frames::{Ends, checksum, ethernet, flag, join};

/// A segment and what is around it. Positions count from each side's first byte.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who sends it.
    pub by_client: bool,
    /// Position of its first byte.
    pub at: i64,
    /// What it acknowledges of the other side, if it has the flag.
    pub acknowledges: i64,
    /// Flags.
    pub flags: u8,
    /// Window, before scaling.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options in whole words.
    pub options: Vec<u8>,
    /// Payload.
    pub payload: Vec<u8>,
    /// Time to live.
    pub ttl: u8,
    /// The checksum of TCP is right.
    pub is_summed: bool,
}

/// Both sides' numbers.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// Client and server.
    pub ends: Ends,
    /// Their ports.
    pub ports: [u16; 2],
    /// Their initial sequence numbers.
    pub first: [u32; 2],
    /// What passed.
    pub frames: Vec<Vec<u8>>,
}

impl Packet {
    /// Data of the client.
    #[must_use]
    pub fn data(at: i64, payload: &[u8]) -> Self {
        Self { at, flags: flag::ACK | flag::PSH, payload: payload.to_vec(), ..Self::client() }
    }

    /// An empty one of the client.
    #[must_use]
    pub fn client() -> Self {
        Self {
            by_client: true,
            at: 0,
            acknowledges: 0,
            flags: flag::ACK,
            window: 8192,
            urgent: 0,
            options: Vec::new(),
            payload: Vec::new(),
            ttl: 64,
            is_summed: true,
        }
    }

    /// The server acknowledges so much.
    #[must_use]
    pub fn server(acknowledges: i64) -> Self {
        Self { by_client: false, acknowledges, ..Self::client() }
    }
}

impl Conversation {
    /// Before its first packet.
    #[must_use]
    pub fn new(client: &str, server: &str, ports: [u16; 2]) -> Self {
        Self { ends: Ends::new(client, server), ports, first: [1_000_000, u32::MAX - 300], frames: Vec::new() }
    }

    /// With its handshake; both sides send these options with it.
    #[must_use]
    pub fn open(client: &str, server: &str, ports: [u16; 2], options: &[u8]) -> Self {
        Self::new(client, server, ports).begin(options)
    }

    /// Goes through its handshake; both sides send these options with it.
    #[must_use]
    pub fn begin(self, options: &[u8]) -> Self {
        let mut this = self;
        this.send(&Packet { at: -1, flags: flag::SYN, options: options.to_vec(), ..Packet::client() });
        this.answer(options);
        this.send(&Packet::client());
        this
    }

    /// The server's SYN.
    pub fn answer(&mut self, options: &[u8]) {
        self.send(&Packet { at: -1, flags: flag::SYN | flag::ACK, options: options.to_vec(), ..Packet::server(0) });
    }

    /// The IP packet.
    #[must_use]
    pub fn packet(&self, packet: &Packet) -> Vec<u8> {
        let (own, other) = if packet.by_client { (0, 1) } else { (1, 0) };
        let ends = if packet.by_client { self.ends } else { self.ends.back() };
        let number = |side: usize, at: i64| self.first[side].wrapping_add(1).wrapping_add(at as u32);
        let acknowledgment = if packet.flags & flag::ACK == 0 { 0 } else { number(other, packet.acknowledges) };
        let numbers = [number(own, packet.at), acknowledgment];
        let ports = [self.ports[own], self.ports[other]];
        let mut segment = ends.tcp(ports, numbers, packet.flags, &packet.options, &packet.payload);
        segment[14..16].copy_from_slice(&packet.window.to_be_bytes());
        segment[18..20].copy_from_slice(&packet.urgent.to_be_bytes());
        ends.sum_again(6, &mut segment, 16);
        if !packet.is_summed {
            segment[16] ^= 0x55;
        }
        let mut whole = ends.packet(6, &segment);
        if ends.from.is_ipv4() {
            whole[8] = packet.ttl;
            whole[10..12].fill(0);
            let sum = checksum(&[&whole[..20]]).to_be_bytes();
            whole[10..12].copy_from_slice(&sum);
        }
        whole
    }

    /// A packet passes.
    pub fn send(&mut self, packet: &Packet) {
        let whole = self.packet(packet);
        self.frames.push(ethernet(self.ends.ether_type(), &whole));
    }

    /// The client's words, at this position, in two segments that each have half of them, and the server's acknowledgement.
    pub fn say(&mut self, at: i64, words: &[u8], with: &Packet) {
        let (first, second) = words.split_at(words.len() / 2);
        self.send(&Packet { at, payload: first.to_vec(), ..with.clone() });
        self.send(&Packet { at: at + first.len() as i64, payload: second.to_vec(), ..with.clone() });
        self.send(&Packet { options: with.options.clone(), ..Packet::server(at + words.len() as i64) });
    }
}

/// The fragments of an IPv4 packet, each with at most so many bytes; a multiple of eight.
#[must_use]
pub fn fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (head, payload) = packet.split_at(20);
    let parts = payload.chunks(size).enumerate();
    parts
        .map(|(index, part)| {
            let more = (index + 1) * size < payload.len();
            let word = (index * size / 8) as u16 | u16::from(more) << 13;
            let mut head = head.to_vec();
            head[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
            head[6..8].copy_from_slice(&word.to_be_bytes());
            head[10..12].fill(0);
            let sum = checksum(&[&head]).to_be_bytes();
            head[10..12].copy_from_slice(&sum);
            ethernet(0x0800, &join(&[&head, part]))
        })
        .collect()
}
