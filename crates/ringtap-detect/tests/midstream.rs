//! Connections without their handshake, or of which one direction alone is seen: what is inspected by default and with `midstream`,
//! and that it is told.

mod support;

use ringtap_detect::{Counters, Detector, Limits};
use ringtap_samples::evasions::{Conversation, Packet};
use ringtap_samples::frames::flag;
use ringtap_wire::LinkType;
use support::{Sids, limits, program};

const RULES: &str = r#"alert tcp any any -> any any (flow:established,to_server; content:"evil-attack"; sid:1;)
    alert tcp any any -> any any (flow:established,to_client; content:"evil-answer"; sid:2;)
    alert http any any -> any any (flow:to_server; http.uri; content:"/evil"; sid:3;)
    alert http any any -> any any (flow:to_client; file.data; content:"evil-answer"; sid:4;)
    alert tcp any any -> any any (content:"attack|0a|"; sid:5;)"#;

fn feed(detector: &mut Detector, found: &mut Sids, frames: &[Vec<u8>]) {
    for (index, frame) in frames.iter().enumerate() {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, 1_000_000 * (1 + index as u64), found);
    }
}

fn run(midstream: bool, frames: &[Vec<u8>]) -> (Vec<u32>, Counters) {
    let mut detector = Detector::new(program(RULES), Limits { midstream, ..limits() });
    let mut found = Sids::default();
    feed(&mut detector, &mut found, frames);
    detector.finish(1 << 40, &mut found);
    found.0.sort_unstable();
    (found.0, detector.counters())
}

fn says(by_client: bool, at: usize, acknowledges: usize, bytes: &[u8]) -> Packet {
    Packet { by_client, acknowledges: acknowledges as i64, ..Packet::data(at as i64, bytes) }
}

/// Handshake, a request in two segments, an answer in two; frames of the handshake: the first three.
fn talk() -> Vec<Vec<u8>> {
    let mut talk = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 80], &[]);
    let request = b"GET /evil HTTP/1.0\r\nX: evil-attack\n\r\n\r\n";
    let answer = b"HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\nevil-answer";
    talk.send(&says(true, 0, 0, &request[..27]));
    talk.send(&says(false, 0, 27, b""));
    talk.send(&says(true, 27, 0, &request[27..]));
    talk.send(&says(false, 0, request.len(), &answer[..45]));
    talk.send(&says(true, request.len(), 45, b""));
    talk.send(&says(false, 45, request.len(), &answer[45..]));
    talk.frames
}

fn of_side(frames: &[Vec<u8>], client: bool) -> Vec<Vec<u8>> {
    frames.iter().filter(|frame| (frame[26..30] == [192, 0, 2, 7]) == client).cloned().collect()
}

#[test]
fn a_handshake_that_was_not_seen() {
    let all = talk();
    let (found, counters) = run(false, &all);
    assert_eq!((found, counters.flows_without_handshake, counters.flows_one_sided), (vec![1, 2, 3, 4, 5], 0, 0));
    for first in 1..=3 {
        let (found, counters) = run(false, &all[first..]);
        assert_eq!((found, counters.flows_without_handshake), (vec![5], 1), "from {first} on: packets alone");
        let (found, counters) = run(true, &all[first..]);
        assert_eq!((found, counters.flows_without_handshake), (vec![1, 2, 3, 4, 5], 1), "from {first} on");
        assert_eq!((counters.gaps, counters.segments_discarded), (0, 0));
    }
    assert_eq!(run(true, &all).0, [1, 2, 3, 4, 5], "nothing is missing");
}

#[test]
fn one_direction_alone() {
    for (client, expected, without) in [(true, &[1, 3, 5][..], &[5][..]), (false, &[2, 4], &[])] {
        for first in 0..2 {
            let frames = of_side(&talk(), client)[first..].to_vec();
            let (found, counters) = run(false, &frames);
            assert_eq!((&found[..], counters.flows_one_sided), (without, 1), "{client} {first}");
            let (found, counters) = run(true, &frames);
            assert_eq!((&found[..], counters.flows_one_sided), (expected, 1), "{client} {first}");
            assert_eq!((counters.gaps, counters.segments_discarded), (0, 0), "{client} {first}");
        }
    }
    // A SYN that nobody answers is no such connection.
    let (_, counters) = run(false, &talk()[..1]);
    assert_eq!((counters.flows_one_sided, counters.flows_without_handshake), (0, 0));
}

/// A segment before the answer to the SYN, which its receiver refuses, takes no connection that is seen whole for one that is not.
#[test]
fn a_handshake_goes_before_what_came_within_it() {
    const SIGNED: [u8; 20] = [1, 1, 19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let all = talk();
    let before = |packets: &[Packet], at: usize| {
        let mut false_ones = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 80]);
        packets.iter().for_each(|packet| false_ones.send(packet));
        let mut frames = all.clone();
        frames.splice(at..at, false_ones.frames);
        frames
    };
    let signed = |packet: Packet| Packet { options: SIGNED.to_vec(), ..packet };
    let cases = [
        vec![says(true, 0, 70_000, b"")],
        vec![says(true, 0, 70_000, b"GET /other HTTP/1.0\r\n\r\n")],
        vec![says(true, 5000, 70_000, b"nothing"), says(true, 9000, 70_000, b"early")],
        vec![signed(says(true, 0, 70_000, b"GET /other HTTP/1.0\r\n\r\n"))],
        vec![says(true, 0, 70_000, b""), Packet { flags: flag::RST, ..says(true, 0, 0, b"") }],
        vec![Packet { flags: flag::ACK | flag::FIN, ..says(true, 0, 70_000, b"x") }],
    ];
    for (number, case) in cases.iter().enumerate() {
        for at in 0..=1 {
            let (found, counters) = run(true, &before(case, at));
            assert_eq!(found, [1, 2, 3, 4, 5], "{number}, before {at}");
            // Where it came before the SYN it was a connection of its own.
            assert_eq!(counters.flows_without_handshake, u64::from(at == 0), "{number}, before {at}");
        }
    }
    // The same numbers: the answer was only seen late.
    let mut late = all.clone();
    late[1..5].rotate_left(1);
    let (found, counters) = run(true, &late);
    assert_eq!((found, counters.flows_without_handshake, counters.gaps), (vec![1, 2, 3, 4, 5], 0, 0));
    // What was agreed on is not known of a connection that was picked up: a signature says nothing of the next segment.
    let mut frames = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 80]);
    frames.send(&signed(says(true, 0, 0, b"....")));
    frames.send(&says(true, 4, 0, b"evil-"));
    frames.send(&says(true, 9, 0, b"attack"));
    assert_eq!(run(true, &frames.frames).0, [1]);
}

/// The server's own words before its answer to the SYN: the client takes none of them, whatever their numbers.
#[test]
fn a_decoy_before_the_answer_is_none_of_the_stream() {
    let mut number = 1u32;
    let mut noise = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b' ' + (number >> 26) as u8
    };
    let content: Vec<u8> = (0..20_000).map(|_| noise()).chain(*b"evil-answer").collect();
    let packed = miniz_oxide::deflate::compress_to_vec(&content, 6);
    let answer = [&b"HTTP/1.0 200 OK\r\nContent-Encoding: deflate\r\n\r\n"[..], &packed].concat();
    let request = b"GET / HTTP/1.0\r\n\r\n";
    let mut talk = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 80], &[]);
    talk.send(&says(true, 0, 0, request));
    for (number, part) in answer.chunks(1000).enumerate() {
        talk.send(&says(false, number * 1000, request.len(), part));
        talk.send(&says(true, request.len(), number * 1000 + part.len(), b""));
    }
    let mut decoy = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 80]);
    let other = [b"HTTP/1.0 200 OK\r\n\r\n", &vec![b'.'; answer.len() - 19][..]].concat();
    let (first, second) = other.split_at(12_000);
    decoy.send(&says(false, 0, 0, first));
    decoy.send(&says(false, first.len(), 0, second));
    talk.frames.splice(1..1, decoy.frames);
    let (found, counters) = run(true, &talk.frames);
    assert_eq!((found, counters.flows_without_handshake, counters.gaps), (vec![4], 0, 0));
}

/// A connection whose handshake was found behind its first segment keeps its place as others do.
#[test]
fn a_handshake_that_was_found_late_proves() {
    let mut detector = Detector::new(program(RULES), Limits { midstream: true, flows: 64, ..limits() });
    let mut found = Sids::default();
    let mut real = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 8080], &[]);
    let mut before = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    before.send(&says(true, 0, 70_000, b"x"));
    before.send(&says(false, 70_000, 1, b""));
    real.frames.splice(1..1, before.frames);
    real.send(&says(true, 0, 0, b"evil-"));
    feed(&mut detector, &mut found, &real.frames);
    for port in 0..200u16 {
        let ends = ringtap_samples::frames::Ends::new("192.0.2.8", "198.51.100.9");
        let back = ringtap_samples::frames::Ends::new("198.51.100.9", "192.0.2.8");
        feed(
            &mut detector,
            &mut found,
            &[ends.udp_frame([3000 + port, 9], b"a"), back.udp_frame([9, 3000 + port], b"b")],
        );
    }
    real.frames.clear();
    real.send(&says(true, 5, 0, b"attack"));
    feed(&mut detector, &mut found, &real.frames);
    assert_eq!(found.0, [1]);
}

/// Segments of the client from `at` on, of nine bytes each.
fn send_all(talk: &mut Conversation, at: usize, count: usize) {
    (0..count).for_each(|number| talk.send(&says(true, at + 9 * number, 0, b".........")));
}

/// A gap is passed without an acknowledgement only where for a second nobody could have given one.
#[test]
fn who_is_there_acknowledges() {
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    talk.send(&says(true, 0, 0, b"evil-"));
    send_all(&mut talk, 11, 100);
    // The server says that something is missing; then it comes.
    talk.send(&says(false, 0, 5, b""));
    send_all(&mut talk, 911, 50);
    talk.send(&says(true, 5, 0, b"attack"));
    let (found, counters) = run(true, &talk.frames);
    assert_eq!((found, counters.gaps), (vec![1], 0), "155 milliseconds");
    // Within a second of the server's last word; it waits for what is missing.
    let mut detector = Detector::new(program(RULES), Limits { midstream: true, ..limits() });
    let mut found = Sids::default();
    let mut at_ms = |ms: u64, packet: Packet| {
        let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
        talk.send(&packet);
        let frame = &talk.frames[0];
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, (1 << 40) + ms * 1_000_000, &mut found);
        detector.counters().gaps
    };
    assert_eq!(at_ms(0, says(true, 0, 0, b"evil-")), 0);
    assert_eq!(at_ms(1, says(true, 11, 0, b"....")), 0);
    assert_eq!(at_ms(900, says(false, 0, 5, b"")), 0);
    assert_eq!(at_ms(1500, says(true, 15, 0, b"....")), 0);
    assert_eq!(at_ms(1899, says(true, 19, 0, b"....")), 0);
    // What fills it passes nothing.
    assert_eq!(at_ms(2500, says(true, 5, 0, b"att")), 0);
    assert_eq!(at_ms(2501, says(true, 8, 0, b"ack")), 0);
    // Another one, and nobody says anything.
    assert_eq!(at_ms(3000, says(true, 30, 0, b"evil-")), 0);
    assert_eq!(at_ms(3999, says(true, 35, 0, b"att")), 0);
    assert_eq!(at_ms(4000, says(true, 38, 0, b"ack")), 1);
    assert_eq!(found.0, [1, 1]);
}

/// Who has acknowledged has nothing to say as long as nothing comes; nor is a gap passed for want of room, where it does.
#[test]
fn a_silence_of_both_sides_passes_nothing() {
    let mut detector = Detector::new(program(RULES), Limits { midstream: true, early_segments: 100, ..limits() });
    let mut found = Sids::default();
    let mut at_ms = |ms: u64, talk: &Conversation| {
        for frame in &talk.frames {
            detector.packet(frame, LinkType::Ethernet, frame.len() as u32, (1 << 40) + ms * 1_000_000, &mut found);
        }
        detector.counters().gaps
    };
    let one = |packet: Packet| {
        let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
        talk.send(&packet);
        talk
    };
    assert_eq!(at_ms(0, &one(says(true, 0, 0, b"evil-"))), 0);
    assert_eq!(at_ms(0, &one(says(true, 11, 0, b"...."))), 0);
    assert_eq!(at_ms(1, &one(says(false, 0, 5, b""))), 0);
    assert_eq!(at_ms(1200, &one(says(true, 15, 0, b"...."))), 0);
    assert_eq!(at_ms(1201, &one(says(true, 5, 0, b"attack"))), 0);
    // More pieces than there may be.
    assert_eq!(at_ms(1202, &one(says(true, 19, 0, b"evil-"))), 0);
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    (0..300).for_each(|number| talk.send(&says(true, 32 + 10 * number, 0, b".")));
    assert_eq!(at_ms(1203, &talk), 0);
    assert_eq!(at_ms(1204, &one(says(true, 24, 0, b"attack"))), 0);
    assert_eq!(found.0, [1, 1]);
}

/// Where nobody acknowledges and there is no room to wait, gaps are passed at once, and nothing is lost.
#[test]
fn gaps_are_passed_when_there_is_no_room() {
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    talk.send(&says(true, 0, 0, b"...."));
    send_all(&mut talk, 13, 600);
    talk.send(&says(true, 13 + 5400, 0, b"evil-"));
    talk.send(&says(true, 13 + 5405, 0, b"attack"));
    let mut detector = Detector::new(program(RULES), Limits { midstream: true, early_segments: 100, ..limits() });
    let mut found = Sids::default();
    feed(&mut detector, &mut found, &talk.frames);
    let counters = detector.counters();
    assert_eq!((found.0, counters.gaps, counters.segments_refused), (vec![1], 1, 0));
}

/// What is lost of a direction that nobody acknowledges does not end its inspection, and segments may come in any order.
#[test]
fn gaps_that_nobody_acknowledges_are_passed() {
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    let mut at = 0;
    for number in 0..1500 {
        let bytes = if number == 1480 {
            b"-evil-att"
        } else if number == 1481 {
            b"ack......"
        } else {
            b"........."
        };
        // One is missing, two are turned.
        if number != 20 {
            talk.send(&says(true, at, 0, bytes));
        }
        at += bytes.len();
    }
    talk.frames.swap(60, 61);
    let (found, counters) = run(true, &talk.frames);
    assert_eq!((found, counters.gaps), (vec![1], 1));
}

/// A SYN told where the bytes begin, though its answer was not seen: those that come first are early, however far they are ahead.
#[test]
fn what_comes_before_the_beginning_that_a_syn_told() {
    for ahead in [5, 100_000] {
        let mut talk = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 8080], &[]);
        talk.send(&says(true, ahead, 0, &b"attack........"[..if ahead == 5 { 6 } else { 1 }]));
        talk.send(&says(true, 0, 0, b"evil-"));
        talk.send(&says(true, 5, 0, b"attack"));
        assert_eq!(run(true, &of_side(&talk.frames, true)).0, [1], "{ahead} ahead");
    }
    // Where none did, they are inspected by themselves at least.
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    talk.send(&says(true, 100, 0, b"first"));
    talk.send(&says(true, 10, 0, b"an attack\n"));
    assert_eq!(run(true, &talk.frames).0, [5]);
}

/// The other side's bytes are many and not seen: their numbers go round.
#[test]
fn acknowledgements_of_what_is_not_seen_say_nothing() {
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    for (number, bytes) in [&b"...."[..], b"evil", b"-att", b"ack."].into_iter().enumerate() {
        talk.send(&says(true, number * 4, number * 1_900_000_000, bytes));
    }
    assert_eq!(run(true, &talk.frames).0, [1]);
}

/// Anybody can send a segment: connections that were picked up take the place of no other.
#[test]
fn segments_from_anywhere_hide_no_connection() {
    let mut detector = Detector::new(program(RULES), Limits { midstream: true, flows: 64, ..limits() });
    let mut found = Sids::default();
    let mut real = Conversation::open("192.0.2.7", "198.51.100.9", [2000, 8080], &[]);
    real.send(&says(true, 0, 0, b"evil-"));
    feed(&mut detector, &mut found, &real.frames);
    for port in 0..5000u16 {
        let mut other = Conversation::new("192.0.2.8", "198.51.100.9", [3000 + port, 8080]);
        other.send(&says(true, 100, 7, b"nothing"));
        other.send(&says(true, 200, 7, b"early"));
        feed(&mut detector, &mut found, &other.frames);
    }
    real.frames.clear();
    real.send(&says(true, 5, 0, b"attack"));
    feed(&mut detector, &mut found, &real.frames);
    assert_eq!(found.0, [1]);
    assert!(detector.counters().flows.evicted > 4000);
}

/// Resets and ends count as they do elsewhere.
#[test]
fn a_picked_up_connection_ends() {
    let mut frames = talk()[3..].to_vec();
    let mut rest = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 80]);
    rest.send(&Packet { flags: flag::ACK | flag::FIN, ..says(true, 40, 49, b"") });
    rest.send(&Packet { flags: flag::ACK | flag::FIN, ..says(false, 49, 41, b"") });
    frames.append(&mut rest.frames);
    assert_eq!(run(true, &frames).0, [1, 2, 3, 4, 5]);
}
