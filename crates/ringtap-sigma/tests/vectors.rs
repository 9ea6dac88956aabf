//! Vectors: rules and events in files, and the bytes that every host has to give for them.
//!
//! A file is JSON lines. The first names the rules. A line with `event` or `watermark` is an input; the lines after it,
//! with `output`, are what it makes the rules say; `states` is the SHA-256 of all states after a watermark, each as
//! number of the rule, length of the key, key, length and bytes of the state. `automaton` is the automaton's
//! fingerprint. With `WRITE_VECTORS=1` outputs are written anew: look at the difference before it is kept.

mod support;

use std::path::{Path, PathBuf};

use support::vectors;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("a file of vectors or rules")
}

fn check(name: &str, rules: &str) {
    let text = read(name);
    let written = vectors::written(&read(rules), &text);
    if std::env::var_os("WRITE_VECTORS").is_some() {
        std::fs::write(folder().join(name), written.join("\n") + "\n").expect("to write");
    }
    let expected: Vec<&str> = text.lines().collect();
    for (number, (found, expected)) in written.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{name}:{}", number + 1);
    }
    assert_eq!(written.len(), expected.len(), "{name}");
}

#[test]
fn attack() {
    check("attack.jsonl", "attack.yml");
}

#[test]
fn boundaries() {
    check("boundaries.jsonl", "kinds.yml");
}

#[test]
fn mixed() {
    check("mixed.jsonl", "kinds.yml");
}
