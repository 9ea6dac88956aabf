//! Owns: one case for each known trick.
//! Does not: mix them (`mixed.rs`).

use super::packets::{Conversation, Packet, fragments};
use super::{ATTACK, Evasion, stream_rule};
use crate::apps::client_hello;
use crate::frames::{Ends, V4, ethernet, flag, join};

/// URG; the other flags are the frames'.
const URG: u8 = 32;
const SERVER: &str = "203.0.113.2";
const PORTS: [u16; 2] = [40_000, 8080];
/// As long as the attack, and harmless.
const DECOY: &[u8] = b"well-meant.";
const END: i64 = ATTACK.len() as i64;

/// Makes the cases, each with an address of its own.
struct Maker {
    cases: Vec<Evasion>,
}

impl Maker {
    fn client(&self) -> String {
        format!("10.64.0.{}", self.cases.len() + 1)
    }

    fn sid(&self) -> u32 {
        self.cases.len() as u32 * 10 + 1
    }

    fn add(&mut self, name: &str, rules: String, frames: Vec<Vec<u8>>) {
        let (client, sid) = (self.client(), self.sid());
        self.cases.push(Evasion { name: name.to_owned(), client, rules, frames, sid, delivered: true });
    }

    /// The usual rule.
    fn stream(&mut self, name: &str, conversation: Conversation) {
        let rules = stream_rule(&self.client(), self.sid());
        self.add(name, rules, conversation.frames);
    }

    fn open(&self, options: &[u8]) -> Conversation {
        Conversation::open(&self.client(), SERVER, PORTS, options)
    }

    /// Between the handshake and the attack these packets pass.
    fn between(&mut self, name: &str, packets: &[Packet]) {
        let mut talk = self.open(&[]);
        packets.iter().for_each(|packet| talk.send(packet));
        talk.say(0, ATTACK, &Packet::data(0, b""));
        self.stream(name, talk);
    }

    /// A rule of one's own about what the client says in these segments.
    fn words(&mut self, name: &str, options: &str, segments: &[&[u8]]) {
        let rule = self.rule(&format!("flow:established,to_server; {options}"), 0);
        let mut talk = self.open(&[]);
        let mut at = 0;
        for segment in segments {
            talk.send(&Packet::data(at, segment));
            at += segment.len() as i64;
            talk.send(&Packet::server(at));
        }
        self.add(name, rule, talk.frames);
    }

    fn rule(&self, options: &str, more: u32) -> String {
        let (client, sid) = (self.client(), self.sid() + more);
        format!("alert ip {client} any -> any any (msg:\"{sid}\"; {options} sid:{sid};)\n").replacen(
            "ip",
            if options.contains("flow:established") { "tcp" } else { "ip" },
            1,
        )
    }
}

/// All of them.
#[must_use]
pub fn tricks() -> Vec<Evasion> {
    let mut maker = Maker { cases: Vec::new() };
    acknowledgements(&mut maker);
    handshakes(&mut maker);
    resets(&mut maker);
    options(&mut maker);
    windows(&mut maker);
    other_bytes(&mut maker);
    limits(&mut maker);
    new_bytes(&mut maker);
    tunnels(&mut maker);
    applications(&mut maker);
    maker.cases
}

fn acknowledgements(maker: &mut Maker) {
    maker.between("ack-beyond-window", &[Packet::server(1_000_000)]);
    maker.between("ack-of-unsent", &[Packet::server(5000)]);
    maker.between("ack-of-unsent-by-a-few", &[Packet::server(20)]);
    maker.between("data-without-ack-flag", &[Packet { flags: flag::PSH, ..Packet::data(0, DECOY) }]);
    maker.between("data-with-ack-beyond-window", &[Packet { acknowledges: 1_000_000, ..Packet::data(0, DECOY) }]);
    maker.between("data-with-ack-of-long-ago", &[Packet { acknowledges: -1_000_000, ..Packet::data(0, DECOY) }]);
}

fn handshakes(maker: &mut Maker) {
    let syn = |payload: &[u8]| Packet { at: -1, flags: flag::SYN, payload: payload.to_vec(), ..Packet::client() };
    let begin = |maker: &Maker| Conversation::new(&maker.client(), SERVER, PORTS);
    let end = |mut talk: Conversation| {
        talk.answer(&[]);
        talk.send(&Packet::client());
        talk.say(0, ATTACK, &Packet::data(0, b""));
        talk
    };
    let mut talk = begin(maker);
    talk.send(&syn(DECOY));
    maker.stream("data-in-syn", end(talk));

    let mut talk = begin(maker);
    talk.send(&syn(b""));
    talk.send(&Packet { at: 77_777, ..syn(b"") });
    maker.stream("second-syn", end(talk));

    let mut talk = begin(maker);
    talk.send(&Packet { at: 77_777, ttl: 1, ..syn(b"") });
    talk.send(&syn(b""));
    maker.stream("second-syn-counts", end(talk));

    let mut talk = begin(maker);
    talk.send(&syn(b""));
    talk.send(&Packet { at: 999_999, acknowledges: 55_555, flags: flag::SYN | flag::ACK, ..Packet::server(0) });
    maker.stream("syn-ack-of-another", end(talk));

    let mut talk = begin(maker);
    talk.send(&syn(b""));
    talk.answer(&[]);
    talk.send(&Packet { at: 999_999, flags: flag::SYN | flag::ACK, ttl: 1, ..Packet::server(0) });
    talk.send(&Packet::client());
    talk.say(0, ATTACK, &Packet::data(0, b""));
    maker.stream("second-syn-ack", talk);

    let mut talk = begin(maker);
    talk.send(&Packet { payload: b"hello".to_vec(), ..Packet::server(0) });
    talk.send(&syn(b""));
    maker.stream("server-first", end(talk));

    maker.between("syn-in-session", &[Packet { at: 5000, flags: flag::SYN, ..Packet::client() }]);
    maker.between("syn-at-next-in-session", &[Packet { at: 0, flags: flag::SYN, ..Packet::data(0, DECOY) }]);
}

fn resets(maker: &mut Maker) {
    let reset = |at: i64| Packet { at, flags: flag::RST, ..Packet::client() };
    let server = |at: i64| Packet { by_client: false, ..reset(at) };
    maker.between("reset-in-window", &[reset(1)]);
    maker.between("reset-before-next", &[reset(-1)]);
    maker.between("reset-far-away", &[reset(100_000)]);
    maker.between("reset-by-server-in-window", &[server(7)]);
    let fin = |at: i64| Packet { at, flags: flag::FIN | flag::ACK, ..Packet::client() };
    let fins = [fin(9000), Packet { by_client: false, ..fin(9000) }];
    maker.between("fin-outside-window", &fins);
    // Then a SYN: if the session had ended, another one would begin.
    let syn = Packet { at: 9100, flags: flag::SYN, ..Packet::client() };
    maker.between("fin-outside-window-and-syn", &[fins[0].clone(), fins[1].clone(), syn.clone()]);
    maker.between("reset-in-window-and-syn", &[reset(1), syn]);
    // Its receiver is too far away for it.
    maker.between("reset-that-dies-on-its-way", &[Packet { ttl: 1, ..reset(0) }, Packet::server(0)]);
}

fn stamp(value: u32) -> Vec<u8> {
    join(&[&[1, 1, 8, 10], &value.to_be_bytes(), &[0; 4]])
}

fn options(maker: &mut Maker) {
    let with = |stamp_now: u32| Packet { options: stamp(stamp_now), ..Packet::data(0, b"") };
    let mut talk = maker.open(&stamp(1000));
    talk.send(&Packet { payload: DECOY.to_vec(), ..with(500) });
    talk.say(0, ATTACK, &with(1001));
    maker.stream("old-time-stamp", talk);

    let mut talk = maker.open(&stamp(1000));
    talk.send(&Packet { ttl: 1, ..with(4_000_000) });
    talk.say(0, ATTACK, &with(1001));
    maker.stream("new-time-stamp-that-dies-on-its-way", talk);

    let signature = join(&[&[19, 18], &[7; 16], &[1, 1]]);
    maker.between("unexpected-signature", &[Packet { options: signature, ..Packet::data(0, DECOY) }]);

    let mut talk = maker.open(&[]);
    talk.send(&Packet { flags: flag::ACK | URG, urgent: 5, ..Packet::data(0, b"evilX-a") });
    talk.send(&Packet::data(7, b"ttack"));
    talk.send(&Packet::server(12));
    maker.stream("urgent-byte", talk);
}

fn windows(maker: &mut Maker) {
    // Far ahead, where the stream comes to be later.
    let mut talk = maker.open(&[]);
    let fill = vec![b'.'; 1000];
    talk.send(&Packet::data(9000, DECOY));
    for at in (0..9000).step_by(1000) {
        talk.send(&Packet::data(at, &fill));
        talk.send(&Packet::server(at + 1000));
    }
    talk.say(9000, ATTACK, &Packet::data(0, b""));
    maker.stream("beyond-window", talk);
    maker.between("wrong-checksum", &[Packet { is_summed: false, ..Packet::data(0, DECOY) }]);
    maker.between("short-time-to-live", &[Packet { ttl: 1, ..Packet::data(0, DECOY) }]);
}

fn other_bytes(maker: &mut Maker) {
    // Two halves that never reach the receiver, and then byte by byte what does.
    let mut talk = maker.open(&[]);
    let (first, second) = DECOY.split_at(4);
    talk.send(&Packet { ttl: 1, ..Packet::data(0, first) });
    talk.send(&Packet { ttl: 1, ..Packet::data(4, second) });
    for (at, byte) in ATTACK.iter().enumerate() {
        talk.send(&Packet::data(at as i64, &[*byte]));
    }
    talk.send(&Packet::server(END));
    maker.stream("again-in-single-bytes", talk);

    // Only the beginning is sent again.
    let mut talk = maker.open(&[]);
    talk.send(&Packet { ttl: 1, ..Packet::data(0, &DECOY[..6]) });
    talk.send(&Packet::data(0, &ATTACK[..6]));
    talk.send(&Packet::data(6, &ATTACK[6..]));
    talk.send(&Packet::server(END));
    maker.stream("again-and-on", talk);

    // A gap that a forged acknowledgement makes, filled in single bytes.
    let mut talk = maker.open(&[]);
    talk.send(&Packet::data(END, b"and more"));
    talk.send(&Packet::server(END + 8));
    talk.send(&Packet::data(END + 8, b"and more"));
    for (at, byte) in ATTACK.iter().enumerate() {
        talk.send(&Packet::data(at as i64, &[*byte]));
    }
    talk.send(&Packet::server(END + 16));
    maker.stream("forged-gap", talk);
}

fn limits(maker: &mut Maker) {
    let mut talk = maker.open(&[]);
    for at in 0..320 {
        talk.send(&Packet::data(100 + 2 * at, b"x"));
    }
    talk.send(&Packet::data(5, &ATTACK[5..]));
    talk.send(&Packet::data(0, &ATTACK[..5]));
    talk.send(&Packet::server(END));
    maker.stream("many-early-segments", talk);

    let payload = join(&[&[b'.'; 4400], ATTACK]);
    let datagram = |maker: &Maker, id| {
        let [from, to] = [maker.client(), SERVER.to_owned()].map(|text| match text.parse() {
            Ok(std::net::IpAddr::V4(address)) => address.octets(),
            other => panic!("{text}: {other:?}"),
        });
        let ends = Ends::new(&maker.client(), SERVER);
        V4 { ends: [from, to], id, ..V4::default() }.packet(17, &ends.udp([5000, 5001], &payload))
    };
    let rule = |maker: &Maker| maker.rule("content:\"evil-attack\";", 0);
    maker.add("tiny-fragments", rule(maker), fragments(&datagram(maker, 21), 8));
    let mut frames = fragments(&datagram(maker, 22), 8);
    frames.reverse();
    maker.add("tiny-fragments-from-the-end", rule(maker), frames);
    let frames = fragments(&datagram(maker, 23), 8);
    let (even, odd): (Vec<_>, Vec<_>) = frames.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    let frames = even.into_iter().chain(odd).map(|(_, frame)| frame).collect();
    maker.add("tiny-fragments-every-other", rule(maker), frames);

    let hostile = [&[b'a'; 1300][..], b"!", ATTACK].concat();
    let rules = maker.rule("pcre:\"/^(?=((a+)+)+$)b/\"; priority:1;", 1)
        + &maker.rule("content:\"evil-attack\"; priority:2;", 0);
    let frame = Ends::new(&maker.client(), SERVER).udp_frame([5000, 5001], &hostile);
    maker.add("endless-expression", rules, vec![frame]);

    let silent = |number: u32| {
        let (client, sid) = (maker.client(), maker.sid() * 1000 + number);
        format!("alert ip {client} any -> any any (content:\"evil\"; noalert; priority:1; sid:{sid};)\n")
    };
    let rules = (0..20).map(silent).collect::<String>() + &maker.rule("content:\"evil-attack\"; priority:2;", 0);
    let frame = Ends::new(&maker.client(), SERVER).udp_frame([5000, 5001], ATTACK);
    maker.add("many-silent-rules", rules, vec![frame]);
}

fn new_bytes(maker: &mut Maker) {
    let long = [b'x'; 60];
    maker.words("data-at-in-next-segment", "content:\"USER \"; isdataat:50,relative;", &[b"USER ", &long]);
    maker.words("test-in-next-segment", "content:\"size=\"; byte_test:1,>,5,0,relative,string,dec;", &[b"size=", b"9"]);
    maker.words("jump-in-next-segment", "content:\"size=\"; byte_jump:1,0,relative;", &[b"size=", b"\x02", b"abc"]);
    maker.words(
        "negated-in-next-segment",
        "content:\"USER \"; isdataat:50,relative; content:!\"|0a|\"; within:50;",
        &[b"USER abc", &long],
    );
    maker.words(
        "extract-in-next-segment",
        "content:\"n=\"; byte_extract:1,0,n,relative; byte_test:1,=,n,0,relative;",
        &[b"n=", b"\x07", b"\x07"],
    );
}

/// What a tunnel between two routers carries.
fn wrapped(kind: &str, inner: &[u8]) -> Vec<u8> {
    let routers = Ends::new("192.0.2.1", "192.0.2.2");
    let framed = ethernet(0x0800, inner);
    match kind {
        "ip-in-ip" => routers.frame(4, inner),
        "gre" => routers.frame(47, &join(&[&[0, 0, 8, 0], inner])),
        "vxlan" => routers.udp_frame([4999, 4789], &join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &framed])),
        _ => routers.udp_frame([4999, 6081], &join(&[&[0, 0, 0x65, 0x58, 0, 0, 7, 0], &framed])),
    }
}

fn tunnels(maker: &mut Maker) {
    for kind in ["ip-in-ip", "gre", "vxlan", "geneve"] {
        for (what, packet) in
            [("reset", Packet { flags: flag::RST, ..Packet::client() }), ("data", Packet::data(0, DECOY))]
        {
            let mut talk = maker.open(&[]);
            let inner = talk.packet(&packet);
            talk.frames.push(wrapped(kind, &inner));
            talk.say(0, ATTACK, &Packet::data(0, b""));
            maker.stream(&format!("{what}-in-{kind}"), talk);
        }
    }
    let client = "fd00:64::1";
    let mut talk = Conversation::open(client, "fd00:65::1", PORTS, &[]);
    let inner = talk.packet(&Packet { flags: flag::RST, ..Packet::client() });
    talk.frames.push(Ends::new("192.0.2.1", "192.0.2.2").udp_frame([3544, 5000], &inner));
    talk.say(0, ATTACK, &Packet::data(0, b""));
    let (rules, sid) = (stream_rule(client, maker.sid()), maker.sid());
    let (client, frames) = (client.to_owned(), talk.frames);
    maker.cases.push(Evasion { name: "reset-in-teredo".to_owned(), client, rules, frames, sid, delivered: true });
}

fn applications(maker: &mut Maker) {
    let mut talk = maker.open(&[]);
    talk.say(0, ATTACK, &Packet::data(0, b""));
    let (client, sid) = (maker.client(), maker.sid());
    let pass = format!("pass tcp {client} any -> any any (flags:S; sid:{};)\n", sid + 1);
    maker.add("passed-handshake", stream_rule(&client, sid) + &pass, talk.frames);

    let sni = |maker: &Maker| {
        let (client, sid) = (maker.client(), maker.sid());
        format!("alert tls {client} any -> any any (msg:\"{sid}\"; tls.sni; content:\"evil.example\"; sid:{sid};)\n")
    };
    let hello = client_hello("evil.example");
    let said = |maker: &Maker, ports: [u16; 2], words: &[u8]| {
        let mut talk = Conversation::open(&maker.client(), SERVER, ports, &[]);
        for (index, part) in words.chunks(1000).enumerate() {
            talk.send(&Packet::data(index as i64 * 1000, part));
            talk.send(&Packet::server(index as i64 * 1000 + part.len() as i64));
        }
        talk.frames
    };
    maker.add("tls-from-port-53", sni(maker), said(maker, [53, 443], &hello));
    // The same handshake message in records of sixty bytes.
    let records: Vec<u8> = hello[5..]
        .chunks(60)
        .flat_map(|part| [&hello[..3], &(part.len() as u16).to_be_bytes()[..], part].concat())
        .collect();
    maker.add("tls-in-many-records", sni(maker), said(maker, [40_000, 443], &records));
    maker.add("tls-name-far-behind", sni(maker), said(maker, [40_000, 443], &late_name()));
    let query = crate::apps::dns_query(9, "evil.example", 1);
    let framed = join(&[&(query.len() as u16).to_be_bytes(), &query]);
    let mut talk = Conversation::open(&maker.client(), SERVER, [40_000, 53], &[]);
    for (at, byte) in framed.iter().enumerate() {
        talk.send(&Packet::data(at as i64, &[*byte]));
    }
    talk.send(&Packet::server(framed.len() as i64));
    let (client, sid) = (maker.client(), maker.sid());
    let rule =
        format!("alert dns {client} any -> any any (msg:\"{sid}\"; dns.query; content:\"evil.example\"; sid:{sid};)\n");
    maker.add("dns-in-single-bytes", rule, talk.frames);
}

/// A hello whose name comes behind 3,000 bytes of padding (RFC 7685).
fn late_name() -> Vec<u8> {
    let hello = client_hello("evil.example");
    // Record, handshake header, version, random, session, ciphers, compression.
    let at = 5 + 4 + 2 + 32 + 1 + 8 + 2;
    let padding = join(&[&[0, 21], &3000u16.to_be_bytes(), &[0; 3000]]);
    let mut long = join(&[&hello[..at + 2], &padding, &hello[at + 2..]]);
    let add = |long: &mut Vec<u8>, at: usize| {
        let number = u16::from_be_bytes([long[at], long[at + 1]]) + padding.len() as u16;
        long[at..at + 2].copy_from_slice(&number.to_be_bytes());
    };
    for place in [3, 7, at] {
        add(&mut long, place);
    }
    long
}
