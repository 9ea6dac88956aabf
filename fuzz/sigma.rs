//! Owns: the rules that the targets of `ringtap-sigma` begin with, and the fingerprint that ends an automaton's bytes.
#![allow(dead_code)]

use ringtap_sigma::{Automaton, Limits, RuleSet};
use sha2::{Digest, Sha256};

/// One rule of each kind.
pub const KINDS: &str = include_str!("../crates/ringtap-sigma/tests/vectors/kinds.yml");

/// Rules that must all be taken, with little memory for each key.
pub fn automaton(text: &str) -> Automaton {
    let mut rules = RuleSet::new();
    rules.add("fuzz.yml", text);
    let (automaton, rejected) = rules.compile(Limits { waiting: 8, members: 4, ..Limits::default() });
    assert!(rejected.is_empty());
    automaton
}

/// What [`Automaton::encode`] writes, from what stands before the fingerprint: no fuzzer would guess that.
pub fn sealed(content: &[u8]) -> Vec<u8> {
    const OF: &str = "ringtap sigma automaton";
    let hash = Sha256::new().chain_update((OF.len() as u32).to_le_bytes()).chain_update(OF).chain_update(content);
    [content, &hash.finalize()].concat()
}
