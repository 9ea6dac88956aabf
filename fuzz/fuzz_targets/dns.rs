//! Owns: any bytes as a DNS message, as a datagram, and as messages in a TCP stream.
//! The input's first byte says how long the segments are.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::protocol::dns;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"alert dns any any -> any any (dns.query; content:"a"; bsize:>2; sid:1;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    let mut asked = 0;
    dns::queries(bytes, |name| {
        assert!(name.len() <= 255);
        asked += 1;
    });
    assert!(asked <= 16);
    // As records read it.
    if let Some(message) = dns::message(bytes) {
        assert!(message.questions.len() + message.answers.len() + message.authorities.len() <= 3 * 256);
    }
    let mut frames = frames::session(53, bytes, usize::from(*size) + 1);
    frames.push(frames::udp(53, &bytes[..bytes.len().min(1400)]));
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames);
});
