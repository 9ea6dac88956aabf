//! Owns: any bytes as a line of EVE, of the station's alarms, or of JSON with a time, and what the correlator's engine makes
//! of it. The input's first byte says how the line is to be understood.
#![no_main]

#[path = "../sigma.rs"]
mod sigma;

use std::cell::RefCell;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use ringtap_correlator::engine::{Bounds, Engine};
use ringtap_correlator::input::parse::{Parser, Wanted};

/// Bytes that all keys may take.
const BYTES: usize = 1 << 20;

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new(
        Arc::new(sigma::automaton(sigma::KINDS)), Bounds { bytes: BYTES }, true,
    ));
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, line)) = input.split_first() else { return };
    let wanted = [Wanted::Auto, Wanted::Eve, Wanted::Json][usize::from(mode % 3)];
    let Ok(event) = Parser::new(wanted, "in").event(line) else { return };
    // The log keeps the line, and reads it again after a restart.
    let again = Parser::new(wanted, "in").event(event.line().as_bytes()).expect("what was read once");
    assert_eq!(again, event);
    ENGINE.with_borrow_mut(|engine| {
        engine.event(&event);
        assert!(engine.bytes() <= BYTES + (64 << 10), "{}", engine.bytes());
        for provisional in engine.take_provisional() {
            assert!(!provisional.certain.members.is_empty());
        }
        engine.take_forgotten();
        engine.take_late_matches();
        if mode & 0x80 != 0 {
            engine.advance(event.mark.time_ns, &mut Vec::new());
        }
    });
});
