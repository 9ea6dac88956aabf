//! Any datagram to the SNMP decoder: refused or read, rendered, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_trap::decode::SnmpDecoder;
use ringtap_trap::names::Names;
use ringtap_trap::render;
use ringtap_trap::usm::{LocalEngine, User, Usm};

fuzz_target!(|bytes: &[u8]| {
    let local = LocalEngine { id: b"\x80station".to_vec(), boots: 1, started_ns: 0 };
    // Without secrets, so that most of a v3 message is reached.
    let users = User::new("u", None, None).into_iter().collect();
    let mut decoder = SnmpDecoder::new(Vec::new(), Usm::new(local, users, 1));
    if let Ok(received) = decoder.decode(([192, 0, 2, 1], 162).into(), bytes, 1) {
        let _ = render::snmp_object(&received.notification, &Names::default()).to_string();
        // An answer is as long as the question, but for the head of a v3 message.
        if let Some(answer) = received.answer {
            assert!(answer.len() <= bytes.len() + 64);
        }
    }
});
