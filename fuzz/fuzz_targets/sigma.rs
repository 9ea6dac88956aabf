//! Owns: any text as a file of Sigma rules: refused with a reason, or an automaton whose bytes are read as what was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_sigma::{Automaton, Limits, RuleSet};

fuzz_target!(|input: &[u8]| {
    // A hundred hostile expressions take seconds to compile, which is no fault.
    let Ok(text) = std::str::from_utf8(&input[..input.len().min(4096)]) else { return };
    let mut rules = RuleSet::new();
    rules.add("fuzz.yml", text);
    let (automaton, rejected) = rules.compile(Limits::default());
    for rejected in &rejected {
        assert!(!rejected.to_string().is_empty());
    }
    let bytes = automaton.encode();
    let again = Automaton::decode(&bytes).expect("what was encoded");
    assert!(again.encode() == bytes);
});
