//! Owns: any bytes as the state of a rule, and as events that are given to it.
//! The input: the rule's number, two bytes of length and a state, then two bytes of length and a filling, as often as there are.
#![no_main]

#[path = "../sigma.rs"]
mod sigma;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ringtap_sigma::{Automaton, Filling, Matches, Output, State};

static AUTOMATON: LazyLock<Automaton> = LazyLock::new(|| sigma::automaton(sigma::KINDS));

fn part<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = input.split_first_chunk()?;
    let (part, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)).min(rest.len()));
    *input = rest;
    Some(part)
}

fuzz_target!(|input: &[u8]| {
    let Some((&number, mut input)) = input.split_first() else { return };
    let rules = AUTOMATON.rules();
    let rule = &rules[usize::from(number) % rules.len()];
    let decoded = State::decode(rule, part(&mut input).unwrap_or_default());
    let mut state = decoded.unwrap_or_else(|_| State::new(rule));
    let (mut above, mut out) = (Matches::default(), Vec::new());
    let mut watermark = i64::MIN;
    while let Some(bytes) = part(&mut input) {
        let Ok(filling) = Filling::decode(bytes) else { continue };
        let mut again = Vec::new();
        filling.encode(&mut again);
        assert!(again == bytes, "what is read is what is written");
        let _ = state.preview(rule, std::slice::from_ref(&filling));
        watermark = watermark.max(filling.mark.time_ns.saturating_sub(5_000_000_000));
        state.step(rule, b"key", Some(&filling), watermark, &mut out);
        let mut encoded = Vec::new();
        state.encode(&mut encoded);
        State::decode(rule, &encoded).expect("what was encoded");
        let _ = (state.incident(), state.remembered(rule).len(), state.expires_ns(rule), state.waiting());
    }
    assert_eq!(state.step(rule, b"key", None, i64::MAX, &mut out), None, "nothing is left at the end of time");
    for output in &out {
        output.write_json(&AUTOMATON, &mut String::new());
        if let Output::Hit(hit) = output {
            AUTOMATON.rise(hit, &mut above);
        }
    }
});
