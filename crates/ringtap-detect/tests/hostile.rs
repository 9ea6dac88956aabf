//! Packets of every protocol, well-formed and damaged, through a detector with a rule for every keyword: nothing panics, and the
//! bounds hold; packets cut anywhere too.

mod hostile_support;
mod support;

use hostile_support::{LinkedPacket, feed};
use ringtap_detect::rules::{Classes, Coverage, RuleSet, Variables};
use ringtap_detect::{Detector, Limits, LinkType, Program, protocol};
use ringtap_samples::{damaged, rules, samples};

fn our_rules() -> RuleSet {
    let mut set = RuleSet::default();
    let files =
        [("keywords.rules", rules::KEYWORDS), ("own.rules", rules::OWN), ("application.rules", rules::APPLICATION)];
    for (name, text) in files {
        set.add(name, text.as_bytes(), &Variables::default(), &Classes::default());
    }
    set
}

/// The part of each of the reader's files in which options and the header's words are told apart; words behind it are values.
const READER: [(&str, &str); 5] = [
    (include_str!("../src/rules/parse/mod.rs"), "\0"),
    (include_str!("../src/rules/parse/headers.rs"), "fn event("),
    (include_str!("../src/rules/parse/bytes.rs"), "fn data_at("),
    (include_str!("../src/rules/parse/meta.rs"), "\0"),
    (include_str!("../src/rules/parse/state.rs"), "fn bits("),
];

/// Every one is used, and every keyword that the reader of rules knows is in one of them.
#[test]
fn our_rules_are_used_and_have_every_keyword() {
    /// A word of the reader that is an action like another.
    const OTHERS: [&str; 1] = ["rejectdst"];
    let mut rejected = Vec::new();
    let (program, _) = Program::new(our_rules(), &mut rejected).unwrap();
    let coverage = Coverage::of(&rejected, program.rules().len());
    assert!(rejected.is_empty() && coverage.broken.is_empty(), "{rejected:?}");
    let text = [rules::KEYWORDS, rules::OWN, rules::APPLICATION].concat();
    let lines = READER.iter().flat_map(|(file, end)| file.split(end).next().unwrap().lines()).map(str::trim);
    let arms = lines.filter(|line| line.starts_with('"') && line.contains("=>"));
    let words = arms.flat_map(|arm| arm.split("=>").next().unwrap().split('"').skip(1).step_by(2));
    let words: Vec<&str> = words.chain(protocol::rule_words()).collect();
    assert!(words.len() > 80, "{words:?}");
    let is_there = |word: &str| {
        let ends = [format!("{word}:"), format!("{word};"), format!("{word} ")];
        let starts = [" ", "(", "\n"];
        starts.iter().any(|start| ends.iter().any(|end| text.contains(&format!("{start}{end}"))))
    };
    let missing: Vec<&&str> = words.iter().filter(|word| !OTHERS.contains(word) && !is_there(word)).collect();
    assert!(missing.is_empty(), "in no rule: {missing:?}");
}

#[test]
fn samples_break_nothing() {
    let mut rejected = Vec::new();
    let (program, _) = Program::new(our_rules(), &mut rejected).unwrap();
    let all = samples().into_iter().chain(damaged());
    let packets = all.flat_map(|sample| {
        let link = sample.link;
        sample.packets.into_iter().map(move |data| LinkedPacket { link, data })
    });
    let fed = feed(program, packets);
    assert!(fed.packets > 50_000 && fed.invalid > 1000 && fed.alerts > 1000, "{fed:?}");
}

/// SYNs, datagrams, fragments and tunnels from anywhere, many more than there are places: a connection that was there before and
/// one that begins in the middle are followed to their attacks.
#[test]
fn a_flood_hides_no_established_connection() {
    use ringtap_samples::evasions::{Conversation, Packet};
    use ringtap_samples::frames::{Ends, Random, V4, ethernet, flag};
    let rule = r#"alert tcp any any -> any any (flow:established,to_server; content:"evil-attack"; sid:1;)"#;
    let limits = Limits { flows: 512, windows: 32, fragmented: 64, fragment_bytes: 64 << 10, ..Limits::default() };
    let mut detector = Detector::new(support::program(rule), limits);
    let (mut found, mut now_ns, mut random) = (support::Sids::default(), 1, Random::new(7));
    let mut flood = |detector: &mut Detector, found: &mut support::Sids, count: usize| {
        for _ in 0..count {
            let host = |random: &mut Random| [10, random.byte(), random.byte(), random.byte()];
            let (from, to) = (host(&mut random), host(&mut random));
            let ends = Ends { from: from.into(), to: to.into() };
            let port = 1000 + random.below(60_000) as u16;
            let syn = ends.tcp([port, 80], [random.below(1 << 30) as u32, 0], flag::SYN, &[], b"");
            let frame = match random.below(5) {
                0 => ends.udp_frame([port, 9], b"evil-"),
                1 => ethernet(0x0800, &V4 { ends: [from, to], fragment: 0x2000, ..V4::default() }.packet(17, &[0; 64])),
                2 => ends.back().frame(4, &ends.packet(6, &syn)),
                3 => ends.frame(6, &ends.tcp([port, 80], [5, 5], flag::ACK, &[], b"without a handshake")),
                _ => ends.frame(6, &syn),
            };
            now_ns += 1000;
            detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, now_ns, found);
        }
    };
    let mut talks: Vec<Conversation> = Vec::new();
    for number in 0..20u16 {
        let before = Conversation::open("192.0.2.7", "203.0.113.9", [2000 + number, 8080], &[]);
        talks.push(before);
    }
    let feed = |detector: &mut Detector, found: &mut support::Sids, talk: &mut Conversation| {
        for frame in talk.frames.drain(..) {
            detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, 1, found);
        }
    };
    talks[..10].iter_mut().for_each(|talk| feed(&mut detector, &mut found, talk));
    for talk in &mut talks[..10] {
        talk.send(&Packet::data(0, b"evil-"));
        feed(&mut detector, &mut found, talk);
    }
    flood(&mut detector, &mut found, 20_000);
    talks[10..].iter_mut().for_each(|talk| feed(&mut detector, &mut found, talk));
    for talk in &mut talks[10..] {
        talk.send(&Packet::data(0, b"evil-"));
        feed(&mut detector, &mut found, talk);
    }
    flood(&mut detector, &mut found, 20_000);
    assert!(found.0.is_empty() && detector.counters().flows.evicted > 10_000);
    for talk in &mut talks {
        talk.send(&Packet::data(5, b"attack"));
        feed(&mut detector, &mut found, talk);
    }
    assert_eq!(found.0, [1; 20]);
}

/// Whoever sends datagrams to a tunnel's end writes both sides of what is inside: three of them make an answered flow, but none that
/// takes the place of a connection beside tunnels.
#[test]
fn whole_handshakes_within_tunnels_hide_no_connection() {
    use ringtap_samples::evasions::{Conversation, Packet};
    use ringtap_samples::frames::{Ends, flag};
    let rule = r#"alert tcp any any -> any any (flow:established,to_server; content:"evil-attack"; sid:1;)"#;
    let mut detector = Detector::new(support::program(rule), Limits { flows: 256, windows: 32, ..Limits::default() });
    let mut found = support::Sids::default();
    let mut talk = Conversation::open("192.0.2.7", "203.0.113.9", [2000, 8080], &[]);
    talk.send(&Packet::data(0, b"evil-"));
    let mut feed = |detector: &mut Detector, frame: &[u8]| {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, 1, &mut found);
    };
    talk.frames.drain(..).for_each(|frame| feed(&mut detector, &frame));
    for number in 0..2000u16 {
        let [high, low] = number.to_be_bytes();
        let inner = Ends { from: [10, 0, high, low].into(), to: [10, 9, 9, 9].into() };
        let outer = Ends { from: [198, 51, 100, 1].into(), to: [198, 51, 100, 2].into() };
        let handshake = [
            inner.packet(6, &inner.tcp([1000, 80], [5, 0], flag::SYN, &[], b"")),
            inner.back().packet(6, &inner.back().tcp([80, 1000], [9, 6], flag::SYN | flag::ACK, &[], b"")),
            inner.packet(6, &inner.tcp([1000, 80], [6, 10], flag::ACK, &[], b"")),
        ];
        handshake.iter().for_each(|packet| feed(&mut detector, &outer.frame(4, packet)));
    }
    talk.send(&Packet::data(5, b"attack"));
    talk.frames.drain(..).for_each(|frame| feed(&mut detector, &frame));
    assert!(detector.counters().flows.evicted > 1000);
    assert_eq!(found.0, [1]);
}
