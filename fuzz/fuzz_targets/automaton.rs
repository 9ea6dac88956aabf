//! Owns: any bytes as an automaton, behind a fingerprint that is right: refused, or an automaton that can be asked and run.
#![no_main]

#[path = "../sigma.rs"]
mod sigma;

use libfuzzer_sys::fuzz_target;
use ringtap_sigma::{Automaton, Clock, Identity, Mark, Row, Run, Value};

fuzz_target!(|content: &[u8]| {
    let bytes = sigma::sealed(content);
    let Ok(automaton) = Automaton::decode(&bytes) else { return };
    assert!(automaton.encode() == bytes, "what is read is what is written");
    let _ = automaton.horizon_ns();
    for rule in automaton.rules() {
        let _ = (rule.window_bytes(), rule.waiting_bytes(), rule.state_version(), rule.is_consumed());
        assert!(rule.steps(&automaton).count() <= usize::from(u8::MAX) + 1);
    }
    let scope = automaton.scope(|_| true);
    let values = vec![Value::Text("a"); automaton.fields().len()];
    let (mut run, mut out) = (Run::new(automaton), Vec::new());
    for sequence in 0..4 {
        let identity = Identity { sensor: 1, epoch: 1, sequence };
        let mark = Mark { time_ns: sequence as i64, identity, clock: Clock { domain: 1, error_us: None } };
        run.event(&scope, &Row { values: &values, message: "a" }, mark, &mut out);
    }
    run.advance(i64::MAX, &mut out);
    for output in &out {
        output.write_json(run.automaton(), &mut String::new());
    }
});
