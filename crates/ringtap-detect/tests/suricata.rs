//! Hidden attacks, by us and by Suricata 7: a disagreement that is not in `evasions.txt` fails, and so does a line there that is no
//! longer so.

mod evasion_support;
mod support;

use std::sync::Arc;

use evasion_support::by_both::{compare, expected, mixed_names, sids_there};
use evasion_support::{START_NS, STEP_NS};
use ringtap_detect::{Detector, Limits, LinkType, Program};
use ringtap_samples::evasions::{Conversation, Packet, mixed, tricks};
use ringtap_samples::frames::{Ends, V4, ethernet};

#[test]
fn known_tricks_by_both() {
    let used = compare("known_tricks_by_both", &tricks(), |name| vec![name.to_owned()]);
    assert_eq!(used, expected(false), "lines of the table that are no longer so");
}

#[test]
fn mixed_tricks_by_both() {
    let used = compare("mixed_tricks_by_both", &mixed(0..400), mixed_names);
    assert_eq!(used, expected(true), "lines of the table that are no longer so");
}

/// What rules mean between packets: each with its frames and the time between them.
struct Meaning {
    name: &'static str,
    rules: &'static str,
    frames: Vec<Vec<u8>>,
    step_ns: u64,
}

fn ends() -> Ends {
    Ends::new("10.1.0.1", "10.2.0.1")
}

fn words(count: usize) -> Vec<Vec<u8>> {
    vec![ends().udp_frame([5000, 5001], b"an evil-attack"); count]
}

/// A connection in which the attack is sent in two segments.
fn attack() -> Vec<Vec<u8>> {
    let mut talk = Conversation::open("10.1.0.1", "10.2.0.1", [5000, 8080], &[]);
    talk.say(0, b"an evil-attack", &Packet::data(0, b""));
    talk.frames
}

fn meaning(name: &'static str, rules: &'static str, frames: Vec<Vec<u8>>) -> Meaning {
    Meaning { name, rules, frames, step_ns: STEP_NS }
}

/// What passes, and how far; whose rules go first.
fn passing() -> Vec<Meaning> {
    vec![
        meaning(
            "pass by packet",
            "pass tcp any any -> any any (flags:S; sid:1;)
             alert tcp any any -> any any (content:\"evil-attack\"; sid:2;)",
            attack(),
        ),
        meaning(
            "pass by stream",
            "pass tcp any any -> any any (content:\"evil-\"; sid:1;)
             alert tcp any any -> any any (content:\"attack\"; sid:2;)",
            attack(),
        ),
        meaning(
            "pass by size",
            "pass tcp any any -> any any (dsize:7; sid:1;)
             alert tcp any any -> any any (content:\"attack\"; sid:2;)",
            attack(),
        ),
        meaning(
            "pass by address",
            "pass ip 10.1.0.1 any -> any any (sid:1;)
             alert tcp any any -> any any (content:\"attack\"; sid:2;)",
            attack(),
        ),
        meaning(
            "pass of datagrams",
            "pass udp any any -> any any (content:\"friend\"; sid:1;)
             alert udp any any -> any any (content:\"evil-attack\"; sid:2;)",
            [vec![ends().udp_frame([5000, 5001], b"a friend")], words(2)].concat(),
        ),
        meaning(
            "addresses alone",
            "alert ip 10.1.0.1 any -> any any (sid:1;)
             alert tcp any any -> 10.2.0.1 any (sid:2;)",
            attack(),
        ),
        meaning(
            "drop and reject beside alert",
            "drop udp any any -> any any (content:\"evil-\"; sid:1;)
             reject udp any any -> any any (content:\"attack\"; sid:2;)
             alert udp any any -> any any (content:\"an\"; sid:3;)",
            words(2),
        ),
    ]
}

/// What goes on for a time, and options of headers.
fn lasting() -> Vec<Meaning> {
    const SECOND_NS: u64 = 1_000_000_000;
    vec![
        Meaning {
            step_ns: 7 * SECOND_NS,
            ..meaning(
                "thresholds",
                "alert udp any any -> any any (content:\"evil\"; threshold:type limit,track by_src,count 1,seconds 14; sid:1;)
                 alert udp any any -> any any (content:\"evil\"; threshold:type threshold,track by_src,count 3,seconds 20; sid:2;)
                 alert udp any any -> any any (content:\"evil\"; threshold:type both,track by_src,count 2,seconds 20; sid:3;)
                 alert udp any any -> any any (content:\"evil\"; detection_filter:track by_src,count 2,seconds 20; sid:4;)
                 alert udp any any -> any any (content:\"evil\"; threshold:type threshold,track by_src,count 3,seconds 100; sid:5;)",
                words(24),
            )
        },
        Meaning {
            step_ns: 10 * SECOND_NS,
            ..meaning(
                "bits that end",
                "alert udp any 5000 -> any any (content:\"set\"; xbits:set,a,track ip_src; sid:1;)
                 alert udp any any -> any any (content:\"evil\"; xbits:isset,a,track ip_src; sid:2;)
                 alert udp any 5000 -> any any (content:\"set\"; hostbits:set,b; sid:3;)
                 alert udp any any -> any any (content:\"evil\"; hostbits:isset,b; sid:4;)",
                [vec![ends().udp_frame([5000, 5001], b"set")], words(40)].concat(),
            )
        },
        meaning(
            "options of IP",
            "alert ip any any -> any any (ipopts:rr; sid:1;)
             alert ip any any -> any any (ipopts:ts; sid:3;)
             alert ip any any -> any any (ipopts:eol; sid:4;)
             alert ip any any -> any any (ipopts:nop; sid:5;)",
            [&[7u8, 3, 4, 0][..], &[1, 1, 1, 0], &[68, 8, 5, 0, 0, 0, 0, 0], &[1, 7, 3, 4]]
                .iter()
                .map(|options| {
                    let header = V4 { ends: [[10, 1, 0, 1], [10, 2, 0, 1]], options, ..V4::default() };
                    ethernet(0x0800, &header.packet(17, &ends().udp([5000, 5001], b"evil-attack")))
                })
                .collect(),
        ),
    ]
}

#[test]
fn rules_mean_the_same_to_both() {
    let mut wrong = Vec::new();
    for Meaning { name, rules, frames, step_ns } in passing().into_iter().chain(lasting()) {
        let (mut here, mut there) = (
            sids(&support::program(rules), &frames, step_ns),
            sids_there("rules_mean_the_same_to_both", rules, frames.iter(), step_ns),
        );
        here.sort_unstable();
        there.sort_unstable();
        if here != there {
            wrong.push(format!("{name}: {here:?} here, {there:?} there"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What our detector tells of these frames.
fn sids(program: &Arc<Program>, frames: &[Vec<u8>], step_ns: u64) -> Vec<u32> {
    let mut detector = Detector::new(Arc::clone(program), Limits::default());
    let (mut found, mut now_ns) = (support::Sids::default(), START_NS);
    for frame in frames {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, now_ns, &mut found);
        now_ns += step_ns;
    }
    detector.finish(now_ns, &mut found);
    found.0
}
