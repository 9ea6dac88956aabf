//! Owns: any bytes as an SSH banner, at once and in segments.
//! The input's first byte says how long the segments are.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::protocol::ssh;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"alert ssh any any -> any any (ssh.software; content:"a"; sid:1;)
alert ssh any any -> any any (ssh.proto; content:"2"; sid:2;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    if let ssh::Banner::Line { protocol, software } = ssh::banner(bytes) {
        assert!(protocol.len() + software.len() < 255);
        assert!(!protocol.contains(&b'-') && !software.contains(&b' '));
    }
    let frames = frames::session(22, bytes, usize::from(*size) + 1);
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames);
});
