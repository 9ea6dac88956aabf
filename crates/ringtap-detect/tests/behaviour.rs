//! What rules find in packets and streams, and what bounds do.

mod support;

use std::sync::Arc;

use ringtap_detect::{Detector, Limits, Policy, Scratch};
use ringtap_wire::LinkType;
use support::{ACK, Count, RST, SYN, Tagged, detector, handshake, limits, program, sids, tcp, udp};

const WORD: &str = r#"alert tcp any any -> any 80 (flow:established,to_server; content:"attack"; sid:1;)"#;

fn stream(segments: &[(u32, &[u8])]) -> Vec<Vec<u8>> {
    let mut frames = handshake();
    frames.extend(segments.iter().map(|(at, bytes)| tcp(true, *at, 0, ACK, bytes)));
    frames
}

#[test]
fn a_pattern_across_segments_is_found_once() {
    let word = b"xxattackyy";
    for cut in 1..word.len() {
        let (first, second) = word.split_at(cut);
        let frames = stream(&[(0, first), (cut as u32, second), (10, b"more"), (14, b"and more")]);
        assert_eq!(sids(&mut detector(WORD), &frames), [1], "cut at {cut}");
        let early = stream(&[(cut as u32, second), (0, first), (0, first)]);
        assert_eq!(sids(&mut detector(WORD), &early), [1], "out of order, cut at {cut}");
    }
    let single: Vec<(u32, &[u8])> =
        word.iter().enumerate().map(|(at, byte)| (at as u32, std::slice::from_ref(byte))).collect();
    assert_eq!(sids(&mut detector(WORD), &stream(&single)), [1]);
    let twice = stream(&[(0, b"attack"), (6, b"..attack")]);
    assert_eq!(sids(&mut detector(WORD), &twice), [1, 1], "two attacks are two");
}

#[test]
fn without_a_handshake_nothing_is_established() {
    assert!(sids(&mut detector(WORD), &[tcp(true, 0, 0, ACK, b"attack")]).is_empty());
    let any = r#"alert tcp any any -> any any (content:"attack"; sid:2;)"#;
    assert_eq!(sids(&mut detector(any), &[tcp(true, 0, 0, ACK, b"attack")]), [2]);
}

#[test]
fn a_gap_is_crossed_when_the_receiver_has_what_we_have_not() {
    let rules = format!("{WORD}\nalert pkthdr any any -> any any (stream-event:reassembly_seq_gap; sid:3;)");
    let mut frames = stream(&[(0, b"ab"), (5, b"attack")]);
    let mut without = detector(&rules);
    assert_eq!(sids(&mut without, &frames), [1], "at the end of the flow");
    assert_eq!(without.counters().gaps, 0);
    frames.push(tcp(false, 0, 11, ACK, b""));
    let mut with = detector(&rules);
    assert_eq!(sids(&mut with, &frames), [3, 1]);
    assert_eq!(with.counters().gaps, 1);
}

#[test]
fn a_reset_ends_the_session_and_a_forged_one_does_not() {
    let mut forged = stream(&[]);
    forged.push(tcp(true, 3_000_000_000, 0, RST, b""));
    forged.push(tcp(true, 0, 0, ACK, b"attack"));
    assert_eq!(sids(&mut detector(WORD), &forged), [1]);
    let mut anew = stream(&[(0, b"att")]);
    anew.push(tcp(true, 3, 0, RST, b""));
    anew.extend(stream(&[(0, b"ack")]));
    assert!(sids(&mut detector(WORD), &anew).is_empty(), "two sessions");
}

#[test]
fn the_overlap_policy_decides() {
    // Both cover positions 2 to 8 before position 0 is there; the later one begins first.
    let frames = stream(&[(2, b"attack"), (1, b"-harmless"), (0, b"x")]);
    for (policy, expected) in [(Policy::First, 1), (Policy::Last, 0), (Policy::Bsd, 0), (Policy::Windows, 0)] {
        let mut detector = Detector::new(program(WORD), Limits { policies: policy.into(), ..limits() });
        assert_eq!(sids(&mut detector, &frames).len(), expected, "{policy:?}");
    }
}

#[test]
fn pass_rules_silence_their_flow() {
    let rules = format!("{WORD}\npass tcp any any -> any 80 (content:\"friend\"; sid:4;)");
    assert!(sids(&mut detector(&rules), &stream(&[(0, b"friend"), (6, b"attack")])).is_empty());
    assert_eq!(sids(&mut detector(&rules), &stream(&[(0, b"attack"), (6, b"friend")])), [1]);
}

#[test]
fn flowbits_pass_from_rule_to_rule() {
    let rules = "alert udp any any -> any any (content:\"one\"; flowbits:set,a; noalert; sid:1;)\n\
                 alert udp any any -> any any (content:\"two\"; flowbits:isset,a; sid:2;)\n\
                 alert udp any any -> any any (content:\"three\"; flowbits:isset,a|b; flowbits:unset,a; sid:3;)";
    let frames: Vec<_> = ["two", "one", "two", "three", "two"].iter().map(|word| udp(1, 2, word.as_bytes())).collect();
    assert_eq!(sids(&mut detector(rules), &frames), [2, 3]);
}

#[test]
fn contents_are_found_with_back_tracking() {
    let rules = "alert udp any any -> any any (content:\"a\"; content:\"b\"; distance:0; within:2; content:\"c\"; distance:0; within:1; sid:1;)\n\
                 alert udp any any -> any any (content:\"len\"; byte_extract:1,0,n,relative; content:\"|ff|\"; distance:n; within:1; sid:2;)\n\
                 alert udp any any -> any any (content:\"HELLO\"; nocase; startswith; content:!\"bye\"; sid:3;)";
    let found = |payload: &[u8]| sids(&mut detector(rules), &[udp(1, 2, payload)]);
    assert_eq!(found(b"a.b a b. abc"), [1]);
    assert_eq!(found(b"a..b ab.c"), []);
    assert_eq!(found(b"len\x02..\xff"), [2]);
    assert_eq!(found(b"hello there"), [3]);
    assert_eq!(found(b"hello, bye"), []);
    assert_eq!(found(b" hello"), []);
}

#[test]
fn the_budget_bounds_hostile_matches_and_is_counted() {
    let rules = r#"alert udp any any -> any any (content:"a"; content:"a"; distance:0; content:"a"; distance:0; content:"a"; distance:0; content:"b"; distance:0; sid:1;)
        alert udp any any -> any any (content:"zz"; priority:9; sid:2;)"#;
    let mut detector = Detector::new(program(rules), Limits { budget: 1000, ..limits() });
    let mut payload = vec![b'a'; 1000];
    payload.splice(0..0, *b"b");
    assert!(sids(&mut detector, &[udp(1, 2, &payload)]).is_empty());
    assert_eq!(detector.counters().budget_hits, 1);
}

#[test]
fn tables_are_bounded_and_say_so() {
    let rules =
        r#"alert udp any any -> any any (content:"x"; threshold:type limit,track by_src,count 1,seconds 60; sid:1;)"#;
    let mut detector = Detector::new(program(rules), Limits { flows: 16, ..limits() });
    let mut count = Count::default();
    for number in 0..10_000u16 {
        let frame = udp(number, 9, b"y");
        detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, 1, &mut count);
    }
    let counters = detector.counters();
    assert_eq!((counters.flows_now, counters.flows.evicted), (16, 10_000 - 16));
    assert!(counters.flows.emergencies > 0);
    // Segments too early, of many streams: no more than the memory there is.
    let mut detector = Detector::new(program(WORD), Limits { early_bytes: 4096, ..limits() });
    let mut frames = stream(&[]);
    for number in 1..100 {
        frames.push(tcp(true, number * 200, 0, ACK, &[b'z'; 100]));
    }
    sids(&mut detector, &frames);
    assert!(detector.counters().segments_refused > 0);
}

#[test]
fn rules_are_swapped_and_state_stays() {
    let first = program("alert udp any any -> any any (content:\"one\"; sid:1;)");
    let second = program(
        "alert udp any any -> any any (content:\"two\"; sid:2;)\nalert udp any any -> any any (content:\"one\"; sid:3;)",
    );
    let mut detector = Detector::new(first, limits());
    let mut found = support::Sids::default();
    let frame = udp(1, 2, b"one two");
    detector.packet(&frame, LinkType::Ethernet, 50, 1, &mut found);
    let spare = Scratch::new(&second);
    assert!(detector.swap(Arc::clone(&second), spare).is_ok());
    detector.packet(&frame, LinkType::Ethernet, 50, 2, &mut found);
    assert_eq!(found.0, [1, 2, 3]);
    assert_eq!((detector.counters().flows_now, detector.counters().packets), (1, 2));
    let wrong = Scratch::new(&program("alert ip any any -> any any (sid:1;)"));
    assert!(detector.swap(second, wrong).is_err(), "memory for other rules");
}

#[test]
fn rules_that_are_loaded_later_may_name_other_bits() {
    let naming = |count: usize| {
        let rule = |i| format!("alert udp any any -> any any (flowbits:set,b{i}; flowbits:noalert; sid:{};)\n", i + 1);
        program(&(0..count).map(rule).collect::<String>())
    };
    let mut detector = Detector::new(naming(100), Limits { bits: 64, ..limits() });
    let later = naming(300);
    assert!(detector.swap(Arc::clone(&later), Scratch::new(&later)).is_ok());
    let too_many = naming(400);
    assert!(detector.swap(Arc::clone(&too_many), Scratch::new(&too_many)).is_err());
}

#[test]
fn a_syn_alone_does_not_begin_a_stream_for_long() {
    let mut frames = vec![tcp(true, u32::MAX, 0, SYN, b"")];
    frames.push(tcp(true, 0, 0, ACK, b"attack"));
    assert!(sids(&mut detector(WORD), &frames).is_empty());
}

/// Times of tagged packets, each a millisecond after the one before, in milliseconds.
fn tagged(rules: &str, frames: &[Vec<u8>]) -> Vec<u64> {
    let mut detector = detector(rules);
    let mut found = Tagged::default();
    for (index, frame) in frames.iter().enumerate() {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64 * 1_000_000, &mut found);
    }
    assert_eq!(detector.counters().tagged, found.0.len() as u64);
    assert!(found.0.iter().all(|(_, sid)| *sid == 1));
    found.0.into_iter().map(|(ns, _)| ns / 1_000_000).collect()
}

#[test]
fn a_tag_takes_what_comes_after_its_alert_and_no_more() {
    let rule = |tag: &str| format!(r#"alert udp any any -> any 53 (content:"attack"; tag:{tag}; sid:1;)"#);
    let other = udp(9, 9, b"of another session, the same hosts");
    let mut frames = vec![udp(7, 53, b"before"), udp(7, 53, b"attack")];
    frames.extend((0..4).map(|_| udp(7, 53, b"after")));
    frames.insert(4, other);
    // 0 before, 1 the alert, 2 and 3 after, 4 another session, 5 and 6 after.
    assert_eq!(tagged(&rule("session,3,packets"), &frames), [2, 3], "its own packet is the first of three");
    assert_eq!(tagged(&rule("session,1,packets"), &frames), []);
    assert_eq!(tagged(&rule("session"), &frames), [2, 3, 5, 6]);
    assert_eq!(tagged(&rule("host,4,packets,src"), &frames), [2, 3, 4]);
    assert_eq!(tagged(&rule("host,9,packets,dst"), &frames), [2, 3, 4, 5, 6]);
    let sizes = udp(7, 53, b"attack").len() + 2 * udp(7, 53, b"after").len();
    assert_eq!(tagged(&rule(&format!("session,{sizes},bytes")), &frames), [2, 3]);
    assert_eq!(tagged(&rule(&format!("session,{},bytes", sizes - 1)), &frames), [2]);
    let mut long = vec![udp(7, 53, b"attack")];
    long.extend((0..2500).map(|_| udp(7, 53, b"after")));
    assert_eq!(tagged(&rule("session,2,seconds"), &long).len(), 2000);
}

#[test]
fn tags_are_bounded_and_the_oldest_goes() {
    let rule = r#"alert udp any any -> any any (content:"attack"; tag:session,100,packets; sid:1;)"#;
    let mut detector = Detector::new(program(rule), Limits { tags: 8, ..limits() });
    let mut found = Tagged::default();
    for port in 1..=60u16 {
        let frame = udp(port, 53, b"attack");
        detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, u64::from(port), &mut found);
    }
    let counters = detector.counters();
    assert!(counters.tags_evicted >= 60 - 8, "{}", counters.tags_evicted);
    let frame = udp(60, 53, b"after");
    detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, 100, &mut found);
    assert_eq!(found.0.len(), 1, "the newest is there");
}

/// A segment as BIG TCP merges it: 200,000 bytes behind a jumbo payload option (RFC 2675), or an IPv4 total length of 0.
fn merged(v6: bool) -> Vec<u8> {
    let mut payload = vec![b'.'; 200_000];
    payload[199_990..199_996].copy_from_slice(b"attack");
    let v4 = tcp(true, 0, 0, ACK, b"");
    let (link, header, segment) = (&v4[..12], &v4[14..34], [&v4[34..], &payload].concat());
    if v6 {
        let length = (8 + segment.len() as u32).to_be_bytes();
        let addresses = [[0xfd; 16], [0xfc; 16]].concat();
        let jumbo = [&[6, 0, 0xc2, 4][..], &length].concat();
        [link, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64], &addresses, &jumbo, &segment].concat()
    } else {
        [link, &[8, 0], &header[..2], &[0, 0], &header[4..], &segment].concat()
    }
}

#[test]
fn a_merged_packet_is_inspected_to_its_end() {
    let in_stream = [handshake(), vec![merged(false)]].concat();
    assert_eq!(sids(&mut detector(WORD), &in_stream), [1]);
    let any = r#"alert tcp any any -> any 80 (content:"attack"; sid:1;)"#;
    assert_eq!(sids(&mut detector(any), &[merged(true)]), [1]);
}

#[test]
fn what_has_no_checksum_yet_is_part_of_its_stream() {
    let mut found = support::Sids::default();
    for (unchecked, expected) in [(false, 0), (true, 1)] {
        let mut detector = Detector::new(program(WORD), Limits { checksums: true, ..limits() });
        for frame in stream(&[(0, b"attack")]) {
            let (link, len) = (LinkType::Ethernet, frame.len() as u32);
            if unchecked {
                detector.packet_unchecked(&frame, link, len, 0, &mut found);
            } else {
                detector.packet(&frame, link, len, 0, &mut found);
            }
        }
        assert_eq!((found.0.len(), detector.counters().bad_checksums > 0), (expected, !unchecked));
    }
}
