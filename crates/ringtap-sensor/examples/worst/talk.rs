//! Owns: talks between two hosts, where new ones come from and how they are changed.

use std::fmt;

use super::brotli;
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::{Ends, Random};
use ringtap_samples::{damaged, samples};

const CLIENT: &str = "192.0.2.7";
const SERVER: &str = "198.51.100.9";
/// Ports of what rules ask for most.
const PORTS: [u16; 14] = [80, 443, 25, 21, 22, 53, 445, 139, 1883, 5060, 3389, 8080, 135, 1024];
/// Most bytes of either side.
const MOST: usize = 256 << 10;
/// Segments of a side.
const MOST_SEGMENTS: usize = 300;
/// Segments that may come in a row in the wrong order.
const MOST_EARLY: usize = 250;

/// In which order a side's segments come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AsSent,
    /// The first one comes last, so it brings all of them.
    FirstLast,
    /// Each comes again with other bytes.
    Twice,
    /// Each as fragments.
    Fragments,
}

#[derive(Clone, Debug)]
enum Kind {
    Tcp {
        size: usize,
        order: Order,
    },
    Udp,
    /// As they are.
    Frames(Vec<Vec<u8>>),
}

/// What both sides say.
#[derive(Clone, Debug)]
pub struct Talk {
    kind: Kind,
    port: u16,
    sides: [Vec<u8>; 2],
    name: String,
}

impl fmt::Display for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = |side: &[u8]| String::from_utf8_lossy(&side[..side.len().min(24)]).escape_default().to_string();
        let [client, server] = &self.sides;
        match &self.kind {
            Kind::Frames(frames) => write!(f, "{}, {} frames", self.name, frames.len()),
            Kind::Udp => write!(f, "UDP port {}, {} bytes \"{}\"", self.port, client.len(), begin(client)),
            Kind::Tcp { size, order } => write!(
                f,
                "TCP port {}, {order:?}, segments of {size}: {} bytes \"{}\" and {} bytes \"{}\"",
                self.port,
                client.len(),
                begin(client),
                server.len(),
                begin(server)
            ),
        }
    }
}

impl Talk {
    /// Its content is Brotli.
    pub fn is_packed(&self) -> bool {
        self.sides[1].starts_with(PACKED)
    }

    pub fn frames(&self) -> Vec<Vec<u8>> {
        let ends = Ends::new(CLIENT, SERVER);
        match &self.kind {
            Kind::Frames(frames) => frames.clone(),
            Kind::Udp => vec![ends.udp_frame([40_000, self.port], &self.sides[0])],
            Kind::Tcp { size, order } => self.session(*size, *order),
        }
    }

    fn session(&self, size: usize, order: Order) -> Vec<Vec<u8>> {
        let mut talk = Conversation::open(CLIENT, SERVER, [40_000, self.port], &[2, 4, 5, 180, 1, 3, 3, 14]);
        for (side, said) in self.sides.iter().enumerate() {
            let size = size.max(said.len() / MOST_SEGMENTS);
            let by_client = side == 0;
            let answered = if by_client { 0 } else { self.sides[0].len() as i64 };
            let segment = |at: usize, bytes: &[u8]| Packet {
                by_client,
                acknowledges: answered,
                window: 65_535,
                ..Packet::data(at as i64, bytes)
            };
            let mut parts: Vec<(usize, &[u8])> =
                said.chunks(size).enumerate().map(|(at, part)| (at * size, part)).collect();
            if order == Order::FirstLast && !parts.is_empty() {
                let most = parts.len().min(MOST_EARLY);
                parts[..most].rotate_left(1);
            }
            for (at, part) in parts {
                talk.send(&segment(at, part));
                if order == Order::Twice {
                    let other: Vec<u8> = part.iter().rev().copied().collect();
                    talk.send(&segment(at, &other));
                }
            }
        }
        if order == Order::Fragments {
            let whole = talk.frames.split_off(3);
            let packets = whole.iter().map(|frame| &frame[14..]);
            talk.frames.extend(packets.flat_map(|packet| ringtap_samples::evasions::fragments(packet, 1400)));
        }
        talk.frames
    }
}

/// Where talks come from.
pub struct Seeds {
    texts: Vec<Vec<u8>>,
    frames: Vec<(String, Vec<Vec<u8>>)>,
    /// Contents of the rules.
    words: Vec<Vec<u8>>,
    largest: usize,
}

impl Seeds {
    pub fn new(rules: &[u8], corpus: Vec<Vec<u8>>, largest: usize) -> Self {
        let all = samples().into_iter().chain(damaged()).filter(|sample| sample.link == 1);
        let frames = all.map(|sample| (sample.name.to_string(), sample.packets)).collect();
        let mut texts = corpus;
        texts.extend(TEXTS.iter().map(|text| text.as_bytes().to_vec()));
        Self { texts, frames, words: contents(rules), largest }
    }

    fn text(&self, random: &mut Random) -> Vec<u8> {
        self.texts[random.below(self.texts.len())].clone()
    }

    fn word(&self, random: &mut Random) -> &[u8] {
        if self.words.is_empty() { b"a" } else { &self.words[random.below(self.words.len())] }
    }

    /// Talks of kinds that are known to cost much: gaps that are filled at last, forms with many files, heads with many fields, many
    /// messages in a packet.
    pub fn known(&self, random: &mut Random) -> Vec<Talk> {
        let mut talks = Vec::new();
        let mut add = |port, order, sides: [Vec<u8>; 2]| {
            let kind = Kind::Tcp { size: self.largest, order };
            talks.push(Talk { kind, port, sides, name: String::new() });
        };
        let mut words = |bytes: usize| {
            let mut text = Vec::new();
            while text.len() < bytes {
                text.extend_from_slice(self.word(random));
            }
            text
        };
        for port in PORTS {
            add(port, Order::FirstLast, [b"GET / HTTP/1.1\r\n\r\n".to_vec(), words(MOST)]);
            add(port, Order::FirstLast, [words(1000), b"a b c 1 2 3 <script>".repeat(MOST / 20)]);
        }
        for content in brotli::known(&words(200_000)) {
            let response = [PACKED, &content].concat();
            add(80, Order::AsSent, [TEXTS[0].as_bytes().to_vec(), response.clone()]);
            add(80, Order::FirstLast, [TEXTS[0].as_bytes().to_vec(), response]);
        }
        for beginning in [TEXTS[2], TEXTS[3]] {
            let response = [beginning.as_bytes(), &words(200_000)].concat();
            add(80, Order::FirstLast, [TEXTS[0].as_bytes().to_vec(), response.clone()]);
            add(80, Order::AsSent, [TEXTS[0].as_bytes().to_vec(), response]);
        }
        let files: Vec<u8> = (0..60)
            .flat_map(|_| {
                [&b"--b\r\nContent-Disposition: a; filename=\"x\"\r\n\r\n"[..], &words(800), b"\r\n"].concat()
            })
            .collect();
        let fields =
            |count: usize| (0..count).flat_map(|number| format!("X-{number}: a\r\n").into_bytes()).collect::<Vec<u8>>();
        for count in [0, 250] {
            let head =
                [&b"POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 60000\r\n"[..]];
            let form = [head[0], &fields(count), b"\r\n", &files].concat();
            add(80, Order::AsSent, [form, Vec::new()]);
        }
        add(80, Order::AsSent, [[b"GET / HTTP/1.1\r\n", &fields(255)[..], b"\r\n"].concat(), Vec::new()]);
        let many = |text: &[u8]| text.repeat(20_000 / text.len());
        add(
            80,
            Order::AsSent,
            [many(b"GET /a HTTP/1.1\r\n\r\n"), many(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")],
        );
        add(25, Order::AsSent, [many(b"EHLO a\r\nMAIL FROM:<a@b>\r\nRSET\r\n"), many(b"250 ok\r\n")]);
        add(445, Order::AsSent, [b"\0\0\0\x40\xffSMBr\0\0\0\0\x18".repeat(2000), Vec::new()]);
        talks
    }

    /// A talk of its own.
    pub fn fresh(&self, random: &mut Random) -> Talk {
        let kind = match random.below(8) {
            0 => {
                let (name, frames) = &self.frames[random.below(self.frames.len())];
                return Talk {
                    kind: Kind::Frames(frames.clone()),
                    port: 0,
                    sides: [const { Vec::new() }; 2],
                    name: name.clone(),
                };
            }
            1 | 2 => Kind::Udp,
            _ => Kind::Tcp { size: self.size(random), order: Self::order(random) },
        };
        if matches!(kind, Kind::Tcp { .. }) && random.below(4) == 0 {
            let words: Vec<u8> = (0..2000).flat_map(|_| self.word(random).to_vec()).collect();
            let response = [PACKED, &brotli::fresh(&words, MOST, random)].concat();
            let sides = [TEXTS[0].as_bytes().to_vec(), response];
            return Talk { kind, port: 80, sides, name: String::new() };
        }
        let port = PORTS[random.below(PORTS.len())];
        let sides = [(); 2].map(|()| {
            let mut text = self.text(random);
            // Long ones, of little or of many words, each as often as short ones.
            let part = match random.below(4) {
                0 => self.text(random),
                1 => self.word(random).to_vec(),
                2 => (0..1 + random.below(2000)).flat_map(|_| self.word(random).to_vec()).collect(),
                _ => Vec::new(),
            };
            let most = random.below(MOST);
            while !part.is_empty() && text.len() < most {
                text.extend_from_slice(&part);
            }
            text
        });
        self.changed(&Talk { kind, port, sides, name: String::new() }, random)
    }

    fn size(&self, random: &mut Random) -> usize {
        [1, 7, 100, self.largest.min(1460), self.largest, self.largest][random.below(6)]
    }

    fn order(random: &mut Random) -> Order {
        [Order::AsSent, Order::AsSent, Order::FirstLast, Order::Twice, Order::Fragments][random.below(5)]
    }

    /// One that differs a little.
    pub fn changed(&self, talk: &Talk, random: &mut Random) -> Talk {
        let mut talk = talk.clone();
        for _ in 0..1 + random.below(4) {
            if let Kind::Frames(frames) = &mut talk.kind {
                let at = random.below(frames.len());
                let frame = &mut frames[at];
                if frame.len() > 14 {
                    let place = 14 + random.below(frame.len() - 14);
                    frame[place] ^= 1 << random.below(8);
                }
                continue;
            }
            match random.below(12) {
                0 => talk.port = PORTS[random.below(PORTS.len())],
                1 | 2 => {
                    if let Kind::Tcp { size, order } = &mut talk.kind {
                        (*size, *order) = (self.size(random), Self::order(random));
                    }
                }
                _ => self.change_text(&mut talk.sides[random.below(2)], random),
            }
            let most = if matches!(talk.kind, Kind::Udp) { self.largest } else { MOST };
            talk.sides.iter_mut().for_each(|side| side.truncate(most));
        }
        talk
    }

    fn change_text(&self, text: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(text.len() + 1);
        match random.below(8) {
            0 => {
                let end = (at + random.below(64)).min(text.len());
                text.drain(at..end);
            }
            1 => {
                // The same again and again.
                let end = (at + 1 + random.below(60)).min(text.len());
                let part = text[at..end].repeat(1 + random.below(400));
                text.splice(at..at, part);
            }
            2 => {
                let part = self.word(random).repeat(1 + random.below(300));
                text.splice(at..at, part);
            }
            3 => {
                // Many rules at once.
                let words: Vec<u8> = (0..random.below(200)).flat_map(|_| self.word(random).to_vec()).collect();
                text.splice(at..at, words);
            }
            4 => text.splice(at..at, self.text(random)).for_each(drop),
            5 => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            6 => {
                let part = vec![random.byte(); random.below(3000)];
                text.splice(at..at, part);
            }
            _ => {
                let word = self.word(random).to_vec();
                text.splice(at..at, word);
            }
        }
    }
}

/// Before a content in Brotli.
const PACKED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: br\r\n\r\n";

/// How talks of some protocols begin.
const TEXTS: [&str; 8] = [
    "GET /index.php?id=1 HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/4.0\r\nCookie: a=b\r\n\r\n",
    "POST /gate.php HTTP/1.0\r\nHost: a\r\nContent-Length: 200000\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 200000\r\n\r\n<html><script>",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    "EHLO a\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n",
    "USER anonymous\r\nPASS x\r\n",
    "220 mail ESMTP\r\n250 ok\r\n354 go on\r\n",
    "SSH-2.0-OpenSSH_9.9\r\n",
];

/// Each `content` of these rules.
fn contents(rules: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(rules);
    let parts = text.split("content:\"").skip(1);
    let mut words: Vec<Vec<u8>> = parts.filter_map(|rest| Some(unescaped(rest.split('"').next()?))).collect();
    words.retain(|word| !word.is_empty());
    words.sort_unstable();
    words.dedup();
    words
}

/// A content's bytes: `|` puts them in hexadecimal digits, `\` before others.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('|').enumerate() {
        if index % 2 == 0 {
            bytes.extend(part.bytes().filter(|&byte| byte != b'\\'));
        } else {
            bytes.extend(part.split_whitespace().filter_map(|digits| u8::from_str_radix(digits, 16).ok()));
        }
    }
    bytes
}
