//! Owns: any bytes as requests and as responses, in segments.
//! The input's first byte says how long the segments are, and whose bytes they are.
#![no_main]

#[path = "../detector.rs"]
mod detector;
#[path = "../frames.rs"]
mod frames;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ringtap_detect::protocol::http;
use ringtap_detect::{Policy, Program};

const RULES: &[u8] = br#"alert http any any -> any any (http.uri; content:"a"; http.host; content:"b"; http.header; content:"c"; sid:1;)
alert http any any -> any any (http.stat_code; content:"2"; http.cookie; content:!"d"; file.data; content:"e"; sid:2;)
alert http any any -> any any (http.request_body; content:"f"; http.header_names; content:"g"; http.start; content:"h"; sid:3;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    let line = http::request_line(bytes);
    let target = http::target(line.target, size % 2 == 0);
    let mut path = target.path.to_vec();
    assert!(http::normalise_path(&mut path) <= target.path.len());
    for field in http::fields(bytes, size % 2 == 1) {
        assert!(field.name.len() + field.value.len() <= bytes.len());
    }
    let _ = (http::status_line(bytes).code(), http::chunk_length(bytes), http::content_length(bytes));
    let stream = if size % 2 == 0 { bytes.to_vec() } else { [&b"HTTP/1.1 200 OK\r\n"[..], bytes].concat() };
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames::session(80, &stream, usize::from(*size) + 1));
});
