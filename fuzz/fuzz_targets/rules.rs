//! Owns: feeding any bytes to the rules' parser and, where rules come out, to the compiler.
//! Does not: match; the target `sensor` does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_detect::Program;
use ringtap_detect::rules::{Classes, RuleSet, Variables};

fuzz_target!(|input: &[u8]| {
    // A thousand hostile expressions take seconds to compile, which is no fault.
    if input.len() > 4096 {
        return;
    }
    let mut set = RuleSet::default();
    set.add("fuzz.rules", input, &Variables::default(), &Classes::default());
    for rejected in &set.rejected {
        assert!(!rejected.to_string().is_empty());
    }
    let mut rejected = Vec::new();
    let _ = Program::new(set, &mut rejected);
});
