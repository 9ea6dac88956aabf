//! What rules find in packets and streams, and what bounds do.

mod support;

use std::sync::Arc;

use ringtap_detect::{Detector, Limits, Policy, Scratch};
use ringtap_wire::LinkType;
use support::{ACK, Count, RST, SYN, Sids, Tagged, detector, handshake, limits, program, sids, tcp, udp};

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
fn a_tunnel_that_passes_is_looked_into() {
    let rules = "pass udp any any -> any 4789 (sid:1;)\n\
                 alert udp any any -> any 9 (content:\"attack\"; sid:2;)";
    let tunnel = |inner: &[u8]| udp(1, 4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat());
    assert_eq!(sids(&mut detector(rules), &[tunnel(&udp(1, 9, b"attack"))]), [2]);
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
    let mut detector = Detector::new(program(rules), Limits { budget: 10_000, ..limits() });
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
    let mut found = Sids::default();
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
    let mut found = Sids::default();
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

/// As `tcp`, from a sequence number of one's own, with a Fast Open cookie and content.
fn fast_open(sequence: u32, data: &[u8]) -> Vec<u8> {
    let plain = tcp(true, sequence, 0, SYN, b"");
    let (ip, segment) = plain[14..].split_at(20);
    let mut segment = segment.to_vec();
    segment[12] = 0x70;
    segment.extend_from_slice(&[34, 6, 1, 2, 3, 4, 1, 1]);
    segment.extend_from_slice(data);
    let mut ip = ip.to_vec();
    ip[2..4].copy_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
    [&plain[..14], &ip, &segment].concat()
}

#[test]
fn a_stream_may_begin_anew_in_the_segment_that_brings_bytes() {
    let mut frames = vec![
        tcp(true, u32::MAX, 0, SYN, b""),
        tcp(false, u32::MAX, 0, SYN | ACK, b""),
        fast_open(5_000_000, &[b'x'; 100]),
        tcp(true, 0, 0, ACK, &[b'y'; 50]),
    ];
    frames.push(tcp(true, 50, 0, ACK, b"..attack"));
    assert_eq!(sids(&mut detector(WORD), &frames), [1]);
}

#[test]
fn what_came_with_a_syn_counts_once_the_server_has_it() {
    let rules = r#"alert http any any -> any any (http.uri; content:"/attack"; sid:5;)"#;
    let decoy = b"GET /harmless HTTP/1.1\r\n\r\n";
    let real = b"GET /attack.. HTTP/1.1\r\n\r\n";
    let taken = decoy.len() as u32;
    let run = |acknowledged: u32, first: &[u8], then: &[(u32, &[u8])]| {
        let mut frames = vec![fast_open(u32::MAX, first), tcp(false, u32::MAX, acknowledged, SYN | ACK, b"")];
        frames.extend(then.iter().map(|(at, bytes)| tcp(true, *at, 0, ACK, bytes)));
        sids(&mut detector(rules), &frames)
    };
    assert_eq!(run(0, decoy, &[(0, real)]), [5], "the server took none of it");
    assert_eq!(run(taken, real, &[(taken, b"")]), [5]);
    assert_eq!(run(taken, decoy, &[(taken, real)]), [5], "one request behind the other");
}

#[test]
fn bytes_with_a_syn_that_the_server_refuses_let_nothing_pass() {
    let rules = "pass tcp any any -> any 80 (content:\"friend\"; sid:4;)\n\
                 alert tcp any any -> any any (flow:established,to_server; content:\"attack\"; sid:1;)";
    let frames = [
        fast_open(u32::MAX, b"friend"),
        tcp(false, u32::MAX, 0, SYN | ACK, b""),
        tcp(true, 0, 0, ACK, b""),
        tcp(true, 0, 0, ACK, b"attack"),
    ];
    assert_eq!(sids(&mut detector(rules), &frames), [1]);
}

/// Anybody can send SYNs: the bytes that they bring take a quarter of the memory at most.
#[test]
fn bytes_with_syns_leave_room_for_segments_out_of_order() {
    let mut detector = Detector::new(program(WORD), Limits { early_bytes: 32 * 512, ..limits() });
    let flood = (0..40u16).map(|number| {
        let mut frame = fast_open(u32::MAX, b"x");
        frame[34..36].copy_from_slice(&(50_000 + number).to_be_bytes());
        frame
    });
    let stream = [tcp(true, 3, 0, ACK, b"ack"), tcp(true, 0, 0, ACK, b"att")];
    let frames: Vec<Vec<u8>> = flood.chain(handshake()).chain(stream).collect();
    assert_eq!(sids(&mut detector, &frames), [1]);
    assert!(detector.counters().segments_refused > 0, "what had no room is counted");
}

#[test]
fn bytes_with_a_syn_go_before_the_server_s_answer_to_them() {
    let rules = r#"
        alert tcp any any -> any any (flow:established,to_server; content:"attack"; flowbits:set,asked; sid:1;)
        alert tcp any any -> any any (flow:established,to_client; flowbits:isset,asked; content:"answer"; sid:2;)
    "#;
    let frames = [
        fast_open(u32::MAX, b"attack"),
        tcp(false, u32::MAX, 6, SYN | ACK, b""),
        // Before the client's next word, as RFC 7413 permits.
        tcp(false, 0, 6, ACK, b"answer"),
        tcp(true, 6, 6, ACK, b""),
    ];
    assert_eq!(sids(&mut detector(rules), &frames), [1, 2]);
}

#[test]
fn a_flow_that_may_pass_leaves_nothing_to_the_next_one() {
    let rules = "pass tcp any any -> any 80 (content:\"friend\"; sid:4;)\n\
                 alert http any any -> any any (http.uri; content:\"/attack\"; sid:5;)";
    let mut frames = stream(&[(0, b"POST /a HTTP/1.1"), (16, b"friend")]);
    frames.push(tcp(true, 22, 0, RST, b""));
    frames.extend(stream(&[(0, b"GET /attack HTTP/1.1\r\n\r\n")]));
    assert_eq!(sids(&mut detector(rules), &frames), [5]);
}

#[test]
fn a_reset_that_died_and_a_syn_end_no_session() {
    let mut frames = stream(&[(0, b"att")]);
    frames.push(tcp(true, 3, 0, RST, b""));
    frames.push(tcp(true, 9_000_000, 0, SYN, b""));
    frames.push(tcp(true, 3, 0, ACK, b"ack"));
    assert_eq!(sids(&mut detector(WORD), &frames), [1]);
    let mut opening = handshake();
    opening.insert(1, tcp(true, 0, 0, RST, b""));
    opening.push(tcp(true, 0, 0, ACK, b"attack"));
    assert_eq!(sids(&mut detector(WORD), &opening), [1], "before the server's answer");
}

#[test]
fn decoys_do_not_push_out_the_syn_that_is_answered() {
    let decoy = |number: u32| tcp(true, number * 1_000_000, 0, SYN, b"");
    let mut frames = vec![decoy(1)];
    frames.push(tcp(true, u32::MAX, 0, SYN, b""));
    frames.extend((2..6).map(decoy));
    frames.extend(stream(&[(0, b"attack")]).split_off(1));
    assert_eq!(sids(&mut detector(WORD), &frames), [1]);
}

#[test]
fn what_is_too_old_to_compare_is_the_same_only_if_acknowledged() {
    let rule = r#"alert tcp any any -> any any (flow:established; content:"attack"; sid:1;)"#;
    let many = vec![b'x'; 1400];
    let mut frames = stream(&[(0, &many), (1400, &many), (2800, &many), (4200, &many)]);
    frames.push(tcp(true, 10, 0, ACK, b"attack"));
    assert_eq!(sids(&mut detector(rule), &frames), [1]);
    frames.insert(7, tcp(false, 0, 5600, ACK, b""));
    assert_eq!(sids(&mut detector(rule), &frames), []);
}

#[test]
fn a_long_line_does_not_end_ftp() {
    let rules = r#"alert tcp any any -> any any (ftpbounce; sid:1;)"#;
    let long = [b"NOOP ".as_slice(), &[b'x'; 600], b"\r\n"].concat();
    let at = 12 + long.len() as u32;
    let frames = stream(&[(0, b"USER a\r\nNOOP"), (12, &long), (at, b"PORT 192,0,2,3,0,80\r\n")]);
    assert_eq!(sids(&mut detector(rules), &frames), [1]);
}

/// Two forms of the same bytes: whichever the receiver has, what an application says in it is read.
#[test]
fn what_applications_say_beside_a_stream_is_read() {
    let rules = r#"
        alert http any any -> any 80 (flow:established,to_server; http.uri; content:"/attack"; http.host; content:"b"; sid:1;)
        alert http any any -> any 80 (http.request_body; content:"secret"; sid:2;)
        alert http any any -> any 80 (http.method; content:"GET"; sid:3;)
    "#;
    let run = |pieces: &[(u32, &[u8])]| {
        let mut found = sids(&mut detector(rules), &stream(pieces));
        found.sort_unstable();
        found
    };
    let (first, head): (&[u8], &[u8]) = (b"GET /harmless", b" HTTP/1.1\r\nHost: b\r\n\r\n");
    assert_eq!(run(&[(0, first), (13, head)]), [3]);
    assert_eq!(run(&[(0, first), (0, b"GET /attack.."), (13, head)]), [1, 3], "before the line's end");
    assert_eq!(run(&[(0, first), (13, head), (0, b"GET /attack..")]), [1, 3], "behind the message's end");
    assert_eq!(run(&[(0, b"not of any pro"), (0, b"GET /attack.. "), (14, &head[1..])]), [1, 3], "another protocol");
    let second = [first, head].concat();
    let at = second.len() as u32;
    let both = [(0, &second[..]), (at, &second), (at + 4, b"/attack..")];
    assert_eq!(run(&both), [1, 3, 3], "in the second request");
    let three = [(0, &second[..]), (at, &second), (2 * at, &second), (at + 4, b"/attack..")];
    assert_eq!(run(&three), [1, 3, 3, 3], "when a third one has begun");
    let post = b"POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 6\r\n\r\npublic";
    assert_eq!(run(&[(0, post), (post.len() as u32 - 6, b"secret")]), [2]);
    // What may not have reached the receiver lets nothing pass.
    let pass = "pass tcp any any -> any 80 (content:\"friend\"; sid:4;)\n\
                alert tcp any any -> any any (flow:established,to_server; content:\"attack\"; sid:1;)";
    let frames = stream(&[(0, b"nobody"), (0, b"friend"), (6, b"attack")]);
    assert_eq!(sids(&mut detector(pass), &frames), [1]);
}

#[test]
fn names_beside_a_stream_are_read() {
    let rules = r#"alert dns any any -> any any (dns.query; content:"attack"; sid:1;)"#;
    let query = |name: &[u8; 6]| {
        let question = [&[6][..], name, &[0, 0, 1, 0, 1]].concat();
        [&[0, 24, 0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &question[..]].concat()
    };
    let on_port = |mut frame: Vec<u8>| {
        let at = if frame[26..30] == [198, 51, 100, 1] { 36 } else { 34 };
        frame[at..at + 2].copy_from_slice(&[0, 53]);
        frame
    };
    let frames = stream(&[(0, &query(b"public")), (26, &query(b"second")), (26, &query(b"attack"))]);
    assert_eq!(sids(&mut detector(rules), &frames.into_iter().map(on_port).collect::<Vec<_>>()), [1]);
}

/// Seconds at which alerts come from packets a second apart, as Suricata 7.0.10 has them.
#[test]
fn a_threshold_file_keeps_alerts_in() {
    use ringtap_detect::rules::{Classes, RuleSet, Variables};
    let alerts = |thresholds: &str| {
        let mut set = RuleSet::default();
        let rule = b"alert udp any any -> any any (content:\"abc\"; sid:1;)";
        set.add("test.rules", rule, &Variables::default(), &Classes::default());
        assert!(set.tune(thresholds.as_bytes(), &Variables::default()).is_empty());
        let (program, _) = ringtap_detect::Program::new(set, &mut Vec::new()).unwrap();
        let mut detector = Detector::new(Arc::new(program), limits());
        let (frame, mut seconds) = (udp(1000, 2000, b"abc"), Vec::new());
        for second in 0..30 {
            let mut found = Sids::default();
            detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, second * 1_000_000_000, &mut found);
            seconds.extend(found.0.iter().map(|_| second));
        }
        assert_eq!(detector.counters().suppressed, 30 - seconds.len() as u64);
        seconds
    };
    let rate = "rate_filter gen_id 1, sig_id 1, track by_src, count 3, seconds 60, new_action pass, timeout 5";
    assert_eq!(alerts(rate), [0, 1, 2, 9, 16, 23]);
    let both = "event_filter gen_id 1, sig_id 1, type both, track by_src, count 4, seconds 10";
    assert_eq!(alerts(both), [3, 14, 25]);
    assert_eq!(alerts("suppress gen_id 1, sig_id 0, track by_either, ip 203.0.113.2"), [] as [u64; 0]);
    assert_eq!(alerts("suppress gen_id 1, sig_id 1, track by_src, ip 203.0.113.2").len(), 30);
}

/// A query for this name.
fn query(name: &[u8]) -> Vec<u8> {
    let head = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let labels: Vec<u8> =
        name.split(|&byte| byte == b'.').flat_map(|label| [&[label.len() as u8], label].concat()).collect();
    udp(5000, 53, &[&head[..], &labels, &[0, 0, 1, 0, 1]].concat())
}

#[test]
fn rules_put_values_into_sets_and_take_them_out() {
    let rules = r#"
        alert dns any any -> any any (dns.query; content:!"end"; dataset:set,seen,type string,hashsize 100; sid:1;)
        alert dns any any -> any any (dns.query; content:"a"; startswith; dataset:isset,seen; sid:2;)
        alert udp any any -> any any (ip.src; dataset:set,hosts,type ip; sid:3;)
        alert dns any any -> any any (dns.query; content:"b"; startswith; dataset:unset,seen; sid:4;)
    "#;
    let mut detector = detector(rules);
    let mut run = |name: &[u8]| {
        let mut found = sids(&mut detector, &[query(name)]);
        found.sort_unstable();
        found
    };
    assert_eq!(run(b"a.example"), [1, 2, 3], "new, and then there");
    assert_eq!(run(b"a.example"), [2], "no longer new");
    assert_eq!(run(b"b.example"), [1, 4]);
    assert_eq!(run(b"b.example"), [1, 4], "it was taken out again");
    assert_eq!(detector.counters().datasets_evicted, 0);
}

/// What a SYN brings is that packet's, too, for rules that ask for one.
#[test]
fn bytes_with_a_syn_are_the_packet_s() {
    let rules = r#"alert tcp any any -> any any (flags:S; content:"attack"; sid:1;)
        alert tcp any any -> any any (content:"attack"; sid:2;)"#;
    let frames = [fast_open(u32::MAX, b"attack"), tcp(false, u32::MAX, 6, SYN | ACK, b""), tcp(true, 6, 0, ACK, b"")];
    assert_eq!(sids(&mut detector(rules), &frames), [1, 2]);
    assert_eq!(sids(&mut detector(rules), &frames[..1]), [1, 2], "the second at the flow's end");
}

#[test]
fn rules_ask_whether_something_is_in_a_list() {
    use ringtap_detect::rules::{Classes, Lists, RuleSet, Variables};
    let mut lists = Lists::new(|file| match file {
        // "evil.example", and the client.
        "rules/names" => Ok(b"ZXZpbC5leGFtcGxl\n".to_vec()),
        "rules/hosts" => Ok(b"198.51.100.1\n".to_vec()),
        "categories" => Ok(b"1,CnC,servers of commands\n".to_vec()),
        "scores" => Ok(b"203.0.113.0/24,1,30\n".to_vec()),
        _ => Err("no such file".to_owned()),
    });
    lists.read_reputations("categories", &["scores".to_owned()]).unwrap();
    let rules = r#"
        alert dns any any -> any any (dns.query; dataset:isset,bad,type string,load names; sid:1;)
        alert dns any any -> any any (dns.query; dataset:isnotset,bad,type string,load names,memcap 10mb; sid:2;)
        alert udp any any -> any any (ip.src; dataset:isset,hosts,type ip,load hosts; sid:3;)
        alert udp any any -> any any (ip.dst; dataset:isset,hosts,type ipv4,load hosts; sid:4;)
        alert udp any any -> any any (iprep:dst,CnC,>,20; sid:5;)
        alert udp any any -> any any (iprep:both,CnC,>,20; sid:6;)
        alert udp any any -> any any (iprep:src,CnC,isnotset; iprep:any,CnC,=,30; sid:7;)
        alert udp any any -> any any (iprep:any,CnC,<,30; sid:8;)
        alert dns any any -> any any (dns.query; dataset:set,seen,type string,state names; sid:20;)
        alert dns any any -> any any (dns.query; dataset:isset,worse,type string,load nowhere; sid:21;)
        alert udp any any -> any any (iprep:any,Spam,>,1; sid:22;)
    "#;
    let mut set = RuleSet::default();
    set.lists = lists;
    set.add("rules/my.rules", rules.as_bytes(), &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = ringtap_detect::Program::new(set, &mut rejected).unwrap();
    let told: Vec<String> = rejected.iter().map(ToString::to_string).collect();
    let sid = |number: u32| told.iter().find(|text| text.contains(&format!("sid {number}:"))).unwrap();
    assert!(told.len() == 3 && sid(20).ends_with("dataset: state is not supported"), "{told:?}");
    assert!(sid(21).ends_with("dataset: rules/nowhere: no such file"), "{told:?}");
    assert!(sid(22).ends_with("iprep: there is no category 'Spam'"), "{told:?}");
    let mut detector = Detector::new(Arc::new(program), limits());
    let mut found = sids(&mut detector, &[query(b"evil.example")]);
    found.sort_unstable();
    assert_eq!(found, [1, 3, 5, 7]);
    assert!(sids(&mut detector, &[query(b"good.example")]).contains(&2));
}

/// Of several SYNs in the middle of a session the one counts that is answered.
#[test]
fn decoys_do_not_push_out_the_syn_that_begins_anew() {
    let decoys = |numbers: std::ops::Range<u32>| numbers.map(|number| tcp(true, number << 24, 0, SYN, b""));
    for (before, behind) in [(0, 1), (1, 0), (1, 1), (4, 4)] {
        let mut frames = stream(&[(0, b"...")]);
        frames.push(tcp(true, 3, 0, RST, b""));
        frames.extend(decoys(1..1 + before));
        frames.push(tcp(true, 8_999_999, 0, SYN, b""));
        frames.extend(decoys(10..10 + behind));
        frames.push(tcp(false, 700_000, 9_000_000, SYN | ACK, b""));
        frames.push(tcp(true, 9_000_000, 700_001, ACK, b"att"));
        frames.push(tcp(true, 9_000_003, 700_001, ACK, b"ack"));
        assert_eq!(sids(&mut detector(WORD), &frames), [1], "{before} before, {behind} behind");
    }
}
