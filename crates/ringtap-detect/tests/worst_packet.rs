//! What the work of one packet is bounded by: steps of its budget, whatever it brings; and that the same bytes are walked once.

mod support;

use ringtap_detect::{Counters, Detector, Limits, LinkType};
use support::{ACK, Sids, handshake, limits, program, tcp};

/// Small enough that each of the talks below would take more.
const BUDGET: u32 = 2000;

/// Rules about contents, of as many patterns in each of these buffers.
fn rules(buffers: &[&str], patterns: u32) -> String {
    let of = |(place, buffer): (u32, &&str)| {
        let rule = |number: u32| {
            let sid = place * 10_000 + number + 1;
            format!("alert http any any -> any any ({buffer}; content:\"pattern-{place}-{number:04}\"; sid:{sid};)\n")
        };
        (0..patterns).map(rule).collect::<String>()
    };
    (0..).zip(buffers).map(of).collect()
}

/// A request and its response, both with content, in segments of this size; the last segment of each side brings all of its content
/// where `is_late`.
fn exchange(contents: [&[u8]; 2], size: usize, is_late: bool) -> Vec<Vec<u8>> {
    let [asked, answered] = contents.map(<[u8]>::len);
    let request = [format!("POST / HTTP/1.1\r\nContent-Length: {asked}\r\n\r\n").as_bytes(), contents[0]].concat();
    let response = [format!("HTTP/1.1 200 OK\r\nContent-Length: {answered}\r\n\r\n").as_bytes(), contents[1]].concat();
    let mut frames = handshake();
    for (from_client, text, other) in [(true, &request, 0), (false, &response, request.len())] {
        let mut parts: Vec<(usize, &[u8])> =
            text.chunks(size).enumerate().map(|(at, part)| (at * size, part)).collect();
        if is_late {
            parts.rotate_left(1);
        }
        frames.extend(parts.into_iter().map(|(at, part)| tcp(from_client, at as u32, other as u32, ACK, part)));
    }
    frames
}

/// What a detector counts of these frames, and what it finds.
fn fed(rules: &str, limits: Limits, frames: &[Vec<u8>]) -> (Counters, Vec<u32>) {
    let mut detector = Detector::new(program(rules), limits);
    let (mut found, mut now_ns) = (Sids::default(), 1);
    for frame in frames {
        now_ns += 1_000_000;
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, now_ns, &mut found);
    }
    let counted = detector.counters();
    detector.finish(now_ns, &mut found);
    found.0.sort_unstable();
    (counted, found.0)
}

#[test]
fn content_that_is_in_two_buffers_is_walked_once() {
    // A pattern of each at the beginning, so that nothing behind them is passed over.
    let content = [&b"pattern-0-0001 pattern-1-0001 "[..], &b"pattern-x".repeat(2000)].concat();
    let frames = exchange([b"", &content], 1400, false);
    let [one, both] = [&["file.data"][..], &["file.data", "http.response_body"]]
        .map(|buffers| fed(&rules(buffers, 3000), limits(), &frames).0.most_steps);
    // A walk of 18,000 bytes takes 4,500 steps.
    assert!(one > 3000 && both < one + one / 10, "{one} steps of a packet, {both} with both buffers");
}

#[test]
fn patterns_of_either_buffer_are_found_in_both_directions() {
    let list = rules(&["file.data", "http.response_body", "http.request_body"], 3000);
    let said = b"... pattern-0-0007 pattern-1-0008 pattern-2-0009 ...";
    let (_, found) = fed(&list, limits(), &exchange([said, b"none"], 1400, false));
    assert_eq!(found, [8, 20_010], "in a request");
    let (_, found) = fed(&list, limits(), &exchange([b"none", said], 1400, false));
    assert_eq!(found, [8, 10_009], "in a response");
    // A form's files are other values than its content.
    let form = b"POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 94\r\n\r\n\
        --b\r\n\r\npattern-2-0001\r\n--b\r\nContent-Disposition: a; filename=\"x\"\r\n\r\npattern-0-0002\r\n--b--\r\n";
    let frames: Vec<Vec<u8>> = handshake().into_iter().chain([tcp(true, 0, 0, ACK, form)]).collect();
    assert_eq!(fed(&list, limits(), &frames).1, [3, 20_002], "in a form");
}

/// Three budgets: its own, and a half for each of: another flow's end before it, room that it needs, what is its own behind that, a push
/// of what waits. Some packets here have more than their own; none is pushed, of which catch_up.rs has tests.
#[test]
fn no_packet_takes_more_steps_than_are_its_own() {
    let list = rules(&["file.data", "http.response_body", "http.request_body", "http.uri", "http.header"], 1000);
    let tcp_rules = (0..500)
        .map(|number| format!("alert tcp any any -> any any (content:\"pattern-3-{number:04}\"; pcre:\"/x[a-z]+{number}$/\"; sid:{};)\n", 90_001 + number))
        .collect::<String>();
    let list = list + &tcp_rules;
    let words: Vec<u8> = (0..6000)
        .flat_map(|number| format!("pattern-{}-{:04} x{number} ", number % 5, number % 1000).into_bytes())
        .collect();
    let mut most = 0;
    for size in [100, 1400, 60_000] {
        for is_late in [false, true] {
            let contents: [&[u8]; 2] = [&words[..words.len().min(250 * size)], &words[..words.len().min(250 * size)]];
            let frames = exchange(contents, size, is_late);
            let (counted, _) = fed(&list, Limits { budget: BUDGET, ..limits() }, &frames);
            let own = u64::from(BUDGET) + frames.iter().map(Vec::len).max().unwrap_or(0) as u64 / 2;
            assert!(counted.most_steps <= own + 2 * u64::from(BUDGET), "{size} {is_late}: {counted:?}");
            assert!(counted.budget_hits > 0, "{size} {is_late}: it is the bound that held: {counted:?}");
            most = most.max(counted.most_steps.saturating_sub(own));
        }
    }
    assert!(most > 0, "no packet had more than its own");
}
