//! Owns: any bytes as a TLS hello, at once and in segments.
//! The input's first byte says how long the segments are.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::protocol::tls;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"alert tls any any -> any any (tls.sni; content:"a"; endswith; sid:1;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    if let tls::Hello::Name(name) = tls::hello(bytes) {
        assert!(name.len() <= bytes.len());
        // What a whole hello says, its beginning does not deny.
        let cut = usize::from(*size).min(bytes.len());
        let begun = tls::hello(&bytes[..cut]);
        assert!(matches!(begun, tls::Hello::Incomplete) || begun == tls::Hello::Name(name), "{begun:?}");
    }
    let frames = frames::session(443, bytes, usize::from(*size) + 1);
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames);
});
