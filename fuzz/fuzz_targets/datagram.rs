//! Owns: any bytes as a sensor's datagram, as one that its key has sealed, and as a line.
//! The input's first byte says which.
#![no_main]

use std::sync::LazyLock;

use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::line::{Line, MAX_LINE};
use ringtap_datagram::{Key, MAX_LEN, Message};

const SECRET: &[u8; 16] = b"a secret of ours";
static KEY: LazyLock<Key> = LazyLock::new(|| Key::new(7, SECRET).expect("a good key"));

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    match mode % 3 {
        0 => {
            if let Ok(sealed) = Sealed::parse(bytes) {
                let _ = sealed.open(&KEY);
            }
        }
        1 => {
            let mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET).expect("any length");
            let tag = mac.chain_update(bytes).finalize().into_bytes();
            let payload = [bytes, &tag[..16]].concat();
            if let Ok(message) = Sealed::parse(&payload).and_then(|sealed| sealed.open(&KEY)) {
                assert!(encoded(&message) == payload, "what is read is what is written");
                as_line(&message);
            }
        }
        _ => {
            if let Ok(line) = Line::parse(bytes) {
                let _ = line.open(&KEY);
                let message = line.unverified();
                assert_eq!(Sealed::parse(&encoded(message)).and_then(|sealed| sealed.open(&KEY)), Ok(*message));
                as_line(message);
            }
        }
    }
});

fn encoded(message: &Message) -> Vec<u8> {
    let mut payload = vec![0; MAX_LEN];
    let len = message.encode(&KEY, &mut payload).expect("room for any");
    payload.truncate(len);
    payload
}

fn as_line(message: &Message) {
    let mut line = Vec::new();
    message.write_line(Some(&KEY), &mut line);
    assert!(line.len() <= MAX_LINE);
    assert_eq!(Line::parse(&line).and_then(|line| line.open(&KEY)), Ok(*message));
}
