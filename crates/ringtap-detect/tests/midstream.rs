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

/// What is lost of a direction that nobody acknowledges does not end its inspection, and segments may come in any order.
#[test]
fn gaps_that_nobody_acknowledges_are_passed() {
    let mut talk = Conversation::new("192.0.2.7", "198.51.100.9", [2000, 8080]);
    let mut at = 0;
    for number in 0..120 {
        let bytes = if number == 80 {
            b"-evil-att"
        } else if number == 81 {
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
