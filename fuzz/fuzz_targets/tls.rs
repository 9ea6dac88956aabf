//! Owns: any bytes as TLS hellos and certificates, and as the stream of a client in segments.
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

const RULES: &[u8] = br#"alert tls any any -> any any (tls.sni; content:"a"; endswith; ja3.hash; content:"0"; sid:1;)
alert tls any any -> any any (tls.cert_subject; content:"CN="; tls.cert_serial; content:":"; sid:2;)"#;

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| detector::program(RULES));

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    for hello in [tls::client_hello(bytes), tls::server_hello(bytes)].into_iter().flatten() {
        assert!(hello.server_name().is_none_or(|name| name.len() <= bytes.len()));
        let mut text = Vec::with_capacity(256);
        hello.ja3(&mut tls::Text(&mut text));
        assert!(text.len() <= 256);
    }
    for der in tls::certificates(bytes).chain([bytes]) {
        if let Some(certificate) = tls::certificate(der) {
            certificate.subject(&mut |part| assert!(part.len() <= der.len()));
        }
    }
    let frames = frames::session(443, bytes, usize::from(*size) + 1);
    detector::run(&mut detector::small(&PROGRAM, Policy::Bsd), frames);
});
