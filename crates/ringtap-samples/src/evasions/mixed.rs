//! Owns: any number of cases from a seed: a stream cut into segments in some order, and between them what its receiver discards.
//! Does not: have tricks that need a stream of their own (`tricks.rs`).

use super::packets::{Conversation, Packet, fragments};
use super::{ATTACK, Evasion, stream_rule};
use crate::frames::{Random, V4, ethernet, flag, join};

/// Who gets them.
pub const SERVER: &str = "203.0.113.2";
/// The port that it listens at.
pub const PORT: u16 = 8000;
/// With this each stream ends.
pub const LAST_WORDS: &[u8] = b"the end of it";

/// The cases with these numbers; each is the same in every run, whichever others there are.
#[must_use]
pub fn mixed(numbers: std::ops::Range<u32>) -> Vec<Evasion> {
    numbers.map(|number| case(number, None)).collect()
}

/// One of them, to a server whose sequence numbers begin with this one: a real receiver chooses its own.
#[must_use]
pub fn mixed_to(number: u32, first: u32) -> Evasion {
    case(number, Some(first))
}

fn case(number: u32, first: Option<u32>) -> Evasion {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15 ^ (u64::from(number) << 17 | 1));
    (0..8).for_each(|_| _ = random.byte());
    let client = format!("10.{}.{}.{}", 128 + (number >> 16), number >> 8 & 255, number & 255);
    let ports = [20_000 + (number % 30_000) as u16, PORT];
    let stamps = random.below(2) == 0;
    let is_hidden = random.below(8) == 0;
    let options = |stamp: u32| if stamps { join(&[&[1, 1, 8, 10], &stamp.to_be_bytes(), &[0; 4]]) } else { Vec::new() };
    let mut talk = Conversation::new(&client, SERVER, ports);
    talk.first[1] = first.unwrap_or(talk.first[1]);
    let mut talk = talk.begin(&options(1000));
    let mut name = format!("{number}:");
    let filler = |random: &mut Random, most: usize| {
        (0..random.below(most)).map(|_| b'a' + random.below(20) as u8).collect::<Vec<_>>()
    };
    let mut stream = filler(&mut random, 120);
    if !is_hidden {
        stream.extend(ATTACK);
    }
    stream.extend(filler(&mut random, 120));
    stream.extend(LAST_WORDS);
    // Cut anywhere; sometimes in very small pieces.
    let most = [1, 3, 9, 40][random.below(4)];
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let len = (1 + random.below(most)).min(stream.len() - at);
        pieces.push((at, len));
        at += len;
    }
    let disorder = random.below(4);
    if disorder > 0 {
        for index in 1..pieces.len() {
            pieces.swap(index, index - random.below(disorder + 1).min(index));
        }
    }
    let tricks: Vec<usize> = (0..random.below(4)).map(|_| random.below(TRICKS.len())).collect();
    for trick in &tricks {
        name.push_str(&format!(" {}", TRICKS[*trick]));
    }
    let mut stamp = 1001;
    let mut next = 0;
    for (index, &(at, len)) in pieces.iter().enumerate() {
        let real = Packet { options: options(stamp), ..Packet::data(at as i64, &stream[at..at + len]) };
        for trick in &tricks {
            if random.below(3) == 0 {
                play(*trick, &mut talk, &real, &mut random, stamps);
            }
        }
        if random.below(12) == 0 && len >= 16 {
            let packet = whole(&talk, &real, (number & 0xff) as u16 * 64 + index as u16);
            talk.frames.extend(fragments(&packet, 8 * (1 + random.below(3))));
        } else {
            talk.send(&real);
        }
        stamp += random.below(3) as u32;
        next = next.max(at + len);
        // The receiver acknowledges what it has without a gap.
        let have = contiguous(&pieces[..=index]);
        if random.below(3) == 0 {
            talk.send(&Packet { options: options(stamp), ..Packet::server(have as i64) });
        }
    }
    talk.send(&Packet { options: options(stamp), ..Packet::server(stream.len() as i64) });
    let (rules, sid) = (stream_rule(&client, number + 1), number + 1);
    Evasion { name, client, rules, frames: talk.frames, sid, delivered: !is_hidden }
}

/// The end of what these pieces make without a gap.
fn contiguous(pieces: &[(usize, usize)]) -> usize {
    let mut sorted = pieces.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().fold(0, |end, (at, len)| if at <= end { end.max(at + len) } else { end })
}

fn whole(talk: &Conversation, packet: &Packet, id: u16) -> Vec<u8> {
    let plain = talk.packet(packet);
    let address = |at: usize| [plain[at], plain[at + 1], plain[at + 2], plain[at + 3]];
    V4 { ends: [address(12), address(16)], id, ..V4::default() }.packet(6, &plain[20..])
}

/// Names of what is played.
const TRICKS: [&str; 12] = [
    "wrong-checksum",
    "no-ack-flag",
    "ack-beyond-window",
    "old-stamp",
    "signature",
    "beyond-window",
    "reset-in-window",
    "reset-far",
    "syn",
    "ack-of-unsent",
    "in-tunnel",
    "twice",
];

/// Something that the receiver discards, in the place of `real`.
fn play(trick: usize, talk: &mut Conversation, real: &Packet, random: &mut Random, stamps: bool) {
    let decoy: Vec<u8> = real.payload.iter().map(|_| b'A' + random.below(20) as u8).collect();
    let false_one = Packet { payload: decoy, ..real.clone() };
    let reset = |at: i64| Packet { at, flags: flag::RST, options: Vec::new(), payload: Vec::new(), ..real.clone() };
    let far = real.at + 3_000_000;
    match TRICKS[trick] {
        "wrong-checksum" => talk.send(&Packet { is_summed: false, ..false_one }),
        "no-ack-flag" => talk.send(&Packet { flags: flag::PSH, ..false_one }),
        "ack-beyond-window" => talk.send(&Packet { acknowledges: 1_000_000, ..false_one }),
        "old-stamp" if stamps => {
            let options = join(&[&[1, 1, 8, 10], &500u32.to_be_bytes(), &[0; 4]]);
            talk.send(&Packet { options, ..false_one });
        }
        "signature" => {
            let options = join(&[&real.options, &[19, 18], &[7; 16], &[1, 1]]);
            talk.send(&Packet { options, ..false_one });
        }
        "beyond-window" => talk.send(&Packet { at: real.at + 20_000, ..false_one }),
        "reset-in-window" => talk.send(&reset(real.at + 1000)),
        "reset-far" => talk.send(&reset(far)),
        "syn" => talk.send(&Packet { flags: flag::SYN, payload: Vec::new(), at: real.at + 700, ..false_one }),
        "ack-of-unsent" => talk.send(&Packet { options: real.options.clone(), ..Packet::server(real.at + 2_000) }),
        "in-tunnel" => {
            let inner = talk.packet(&false_one);
            let routers = crate::frames::Ends::new("192.0.2.1", "192.0.2.2");
            talk.frames.push(ethernet(0x0800, &routers.packet(4, &inner)));
        }
        "twice" => talk.send(real),
        _ => {}
    }
}
