//! Owns: any order, overlap and loss of TCP segments and IP fragments, under every policy, with little memory; with the handshake, and
//! without it where connections are followed midstream.
//! The input is a policy and a list of pieces: kind, position (two bytes), length, the bytes.
//!
//! Besides "no panic and bounds hold": an attack in bytes that came once, in order and without a gap is found, once.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"
alert tcp-stream any any -> any any (content:"needle"; sid:1;)
alert udp any any -> any any (content:"needle"; sid:2;)
alert tcp any any -> any any (content:"a"; content:"b"; distance:1; isdataat:3,relative; sid:3;)
alert tcp-stream any any -> any any (pcre:"/x[^y]{3}y/"; stream_size:both,>,3; sid:4;)
"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));
static ONLY_NEEDLES: LazyLock<Arc<Program>> =
    LazyLock::new(|| detector::program(br#"alert tcp-stream any any -> any any (content:"needle"; sid:1;)"#));

fuzz_target!(|input: &[u8]| {
    let [policy, rest @ ..] = input else { return };
    let (_, policy) = Policy::NAMES[usize::from(*policy) % Policy::NAMES.len()];
    let mut sent: Vec<Vec<u8>> = frames::handshake(80).into();
    let mut rest = rest;
    while let [kind, high, low, len, more @ ..] = rest {
        let (bytes, after) = more.split_at(usize::from(*len).min(more.len()));
        let position = u16::from_be_bytes([*high, *low]);
        sent.push(match kind % 4 {
            // TCP: the upper bits are flags, SYN and RST among them.
            0 | 1 => frames::tcp(kind % 4 == 0, 80, position.into(), frames::ACK | kind >> 2 & 7, bytes),
            // Fragments of eight packets: more fragments or not, small offsets.
            _ => frames::ipv4(true, 17, u16::from(kind >> 5), u16::from(*high & 1) << 13 | (position & 0x3f), bytes),
        });
        rest = after;
    }
    let mut detector = detector::small(&PROGRAM, policy);
    let without_handshake = sent.split_off(frames::handshake(80).len());
    sent.extend_from_slice(&without_handshake);
    detector::run(&mut detector, sent);
    detector::run(&mut detector::small_midstream(&PROGRAM, policy), without_handshake);

    // The same bytes cut where the input says, in order: an attack that the stream ends with is found, once.
    let body: Vec<u8> = rest.iter().chain(input).map(|byte| byte & 0x5f).chain(*b"needle").collect();
    let mut sent: Vec<Vec<u8>> = frames::handshake(80).into();
    let (mut at, mut cuts) = (0usize, input.iter());
    while at < body.len() {
        let len = cuts.next().map_or(body.len(), |&cut| usize::from(cut % 60) + 1).min(body.len() - at);
        sent.push(frames::tcp(true, 80, at as u32, frames::ACK, &body[at..at + len]));
        at += len;
    }
    let mut detector = detector::small(&ONLY_NEEDLES, policy);
    assert_eq!(detector::run(&mut detector, sent), 1);
});
