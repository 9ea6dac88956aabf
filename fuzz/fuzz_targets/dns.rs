//! Owns: any bytes as a DNS message, as a datagram, and as messages in a TCP stream.
//! The input's first byte says how long the segments are.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::app::dns;
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
    let mut at = 0;
    let segments = bytes.chunks(usize::from(*size) + 1).map(|chunk| {
        let position = at;
        at += chunk.len() as u32;
        frames::tcp(true, 53, position, frames::ACK, chunk)
    });
    let mut detector = detector::small(&PROGRAM, Policy::Bsd);
    detector::run(&mut detector, frames::handshake(53).into_iter().chain(segments).chain([frames::udp(53, &bytes[..bytes.len().min(1400)])]));
});
