//! A hostile stream without end, made as it is needed: what is spoofed, what is inside tunnels, and connections that are real.
//! Shared by the tests of what it must not hide.

use std::collections::VecDeque;

use ringtap_samples::apps::{client_hello, dns_query};
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::{Ends, Random, V4, ethernet, flag};

/// TCP Fast Open's option with a cookie (RFC 7413 §4.1.1).
const COOKIE: [u8; 12] = [34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];

/// What one of the hostile connections goes on saying, and never ends.
#[derive(Clone, Copy)]
enum Speech {
    /// A head of HTTP.
    Head,
    /// A line of mail.
    Mail,
    /// A handshake of TLS.
    Hello,
    /// Bytes whose first one is missing.
    Early,
}

impl Speech {
    const ALL: [Self; 4] = [Self::Head, Self::Mail, Self::Hello, Self::Early];

    fn port(self) -> u16 {
        match self {
            Self::Head => 80,
            Self::Mail => 25,
            Self::Hello => 443,
            Self::Early => 8080,
        }
    }

    /// What follows `at` bytes.
    fn next(self, at: i64) -> Vec<u8> {
        match (self, at) {
            (Self::Head, 0) => b"GET /evil HTTP/1.1\r\nHost: a\r\n".to_vec(),
            (Self::Head, _) => [b"X-Evil: ", &[b'a'; 400][..], b"\r\n"].concat(),
            (Self::Mail, 0) => b"EHLO a\r\nMAIL FROM:<evil".to_vec(),
            (Self::Mail, _) => vec![b'a'; 700],
            // A record and a message of 60,000 bytes are promised.
            (Self::Hello, 0) => {
                [&[22, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60][..], &client_hello("evil.example")[9..60]].concat()
            }
            (Self::Hello, _) => vec![0; 900],
            (Self::Early, _) => b"attack, but of another".to_vec(),
        }
    }
}

/// A connection of the flood and how much it has said.
struct Hostile {
    talk: Conversation,
    speech: Speech,
    at: i64,
}

impl Hostile {
    fn new(client: [u8; 4], port: u16, speech: Speech) -> Self {
        let [a, b, c, d] = client;
        let talk = Conversation::open(&format!("{a}.{b}.{c}.{d}"), "198.51.100.9", [port, speech.port()], &[]);
        Self { talk, speech, at: 0 }
    }

    /// The next segment.
    fn speak(&mut self) -> Vec<u8> {
        let said = self.speech.next(self.at);
        // Room for a first byte that never comes, and gaps behind.
        let is_early = matches!(self.speech, Speech::Early);
        let place = if is_early { 1 + 2 * self.at % 8000 } else { self.at };
        self.at += said.len() as i64;
        self.talk.packet(&Packet::data(place, &said))
    }
}

/// Frames from a seed, each kind as often as any other.
pub struct Flood {
    random: Random,
    /// What belongs to what was begun.
    waiting: VecDeque<Vec<u8>>,
    /// Connections with a handshake.
    hostile: Vec<Hostile>,
    /// How many there may be.
    connections: usize,
}

impl Flood {
    pub fn new(seed: u64, connections: usize) -> Self {
        Self { random: Random::new(seed), waiting: VecDeque::new(), hostile: Vec::new(), connections }
    }

    fn host(&mut self) -> [u8; 4] {
        [10, self.random.byte(), self.random.byte(), self.random.byte()]
    }

    fn ends(&mut self) -> (Ends, u16) {
        let (from, to) = (self.host(), self.host());
        (Ends { from: from.into(), to: to.into() }, 1024 + self.random.below(60_000) as u16)
    }

    pub fn frame(&mut self) -> Vec<u8> {
        if let Some(frame) = self.waiting.pop_front() {
            return frame;
        }
        match self.random.below(10) {
            0 | 1 => self.syn(),
            2 => self.fragment(),
            3 => self.tunnel(),
            4 => self.datagrams(),
            5 => self.half_open(),
            6 => self.message(),
            7 => self.stray(),
            _ => self.connection(),
        }
        self.waiting.pop_front().unwrap_or_default()
    }

    /// A SYN, empty, with data, or with data and a cookie.
    fn syn(&mut self) {
        let (ends, port) = self.ends();
        let number = self.random.below(1 << 31) as u32;
        let (options, data): (&[u8], &[u8]) = match self.random.below(3) {
            0 => (&[], b""),
            1 => (&[], b"GET /evil HTTP/1.1\r\n"),
            _ => (&COOKIE, &[b'e'; 1200]),
        };
        self.waiting.push_back(ends.frame(6, &ends.tcp([port, 80], [number, 0], flag::SYN, options, data)));
    }

    /// A fragment of a packet that never becomes whole: its first, one of the middle, or the last.
    fn fragment(&mut self) {
        let hosts = [self.host(), self.host()];
        let word = [0x2000, 0x2000 | self.random.below(4000) as u16, 7000][self.random.below(3)];
        let header = V4 { ends: hosts, id: self.random.below(65536) as u16, fragment: word, ..V4::default() };
        let payload = [0x45; 1400];
        let len = [8, 64, 1400][self.random.below(3)];
        let protocol = [6, 17][self.random.below(2)];
        self.waiting.push_back(ethernet(0x0800, &header.packet(protocol, &payload[..len])));
    }

    /// A whole session inside a tunnel, both sides by one sender.
    fn tunnel(&mut self) {
        let (client, speech) = (self.host(), Speech::ALL[self.random.below(4)]);
        let mut hostile = Hostile::new(client, 1024 + self.random.below(60_000) as u16, speech);
        let outer = Ends { from: [192, 0, 2, 1].into(), to: [192, 0, 2, 2].into() };
        let said = [hostile.speak(), hostile.speak()];
        let inner = hostile.talk.frames.iter().map(|frame| &frame[14..]).chain(said.iter().map(Vec::as_slice));
        self.waiting.extend(inner.map(|packet| outer.frame(4, packet)));
    }

    /// A datagram, or one and its answer.
    fn datagrams(&mut self) {
        let (ends, port) = self.ends();
        self.waiting.push_back(ends.udp_frame([port, 9], b"evil-attack"));
        if self.random.below(2) == 0 {
            self.waiting.push_back(ends.back().udp_frame([9, port], b"evil-attack"));
        }
    }

    /// A stream that nobody answers.
    fn half_open(&mut self) {
        let (client, speech) = (self.host(), Speech::ALL[self.random.below(4)]);
        let mut hostile = Hostile::new(client, 1024 + self.random.below(60_000) as u16, speech);
        self.waiting.extend(hostile.talk.frames.drain(..).take(1));
        for _ in 0..2 {
            let said = hostile.speak();
            self.waiting.push_back(ethernet(0x0800, &said));
        }
    }

    fn message(&mut self) {
        let (ends, port) = self.ends();
        let name = format!("evil{}.example.org", self.random.below(1 << 20));
        self.waiting.push_back(ends.udp_frame([port, 53], &dns_query(port, &name, 1)));
    }

    /// A segment of no session.
    fn stray(&mut self) {
        let (ends, port) = self.ends();
        let flags = [flag::ACK, flag::RST, flag::FIN | flag::ACK, flag::SYN | flag::ACK][self.random.below(4)];
        self.waiting.push_back(ends.frame(6, &ends.tcp([port, 80], [5, 5], flags, &[], b"evil-attack")));
    }

    /// A real connection says more, or a new one begins.
    fn connection(&mut self) {
        if self.hostile.len() < self.connections {
            let number = self.hostile.len();
            let client = [172, 16, (number >> 8) as u8, number as u8];
            let mut hostile = Hostile::new(client, 1024, Speech::ALL[number % 4]);
            self.waiting.extend(hostile.talk.frames.drain(..));
            self.hostile.push(hostile);
        } else if !self.hostile.is_empty() {
            let number = self.random.below(self.hostile.len());
            let hostile = &mut self.hostile[number];
            // Pieces with gaps between them take most of the memory for the least bytes.
            let count = if matches!(hostile.speech, Speech::Early) { 6 } else { 1 };
            self.waiting.extend((0..count).map(|_| ethernet(0x0800, &hostile.speak())));
        } else {
            self.syn();
        }
    }
}
