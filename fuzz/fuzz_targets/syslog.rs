//! Any bytes as a syslog message and as a stream in pieces: read or counted, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_station::syslog::{Framer, parse};

fuzz_target!(|bytes: &[u8]| {
    let _ = parse(bytes);
    let size = bytes.first().map_or(1, |&byte| usize::from(byte) + 1);
    let mut framer = Framer::default();
    for chunk in bytes.chunks(size) {
        framer.push(chunk, |message| assert!(message.len() <= bytes.len()), |_| {});
    }
    framer.finish(|_| {}, |_| {});
});
