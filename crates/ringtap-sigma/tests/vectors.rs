//! Vectors: rules and events in files, and the bytes that every host has to give for them.
//!
//! A file is JSON lines. The first names the rules. A line with `event` or `watermark` is an input; the lines after it,
//! with `output`, are what it makes the rules say; `states` is the SHA-256 of all states after a watermark, each as
//! number of the rule, length of the key, key, length and bytes of the state. `automaton` is the automaton's
//! fingerprint. With `WRITE_VECTORS=1` outputs are written anew: look at the difference before it is kept.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringtap_sigma::{Automaton, Clock, Identity, Mark, Output, Row, Run, Value};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use support::{ByteHost, automaton, everything, lines};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text");
        text
    })
}

fn states(run: &Run) -> String {
    let mut hash = Sha256::new();
    for (rule, key, state) in run.states() {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        hash.update(rule.to_le_bytes());
        for part in [key, &bytes] {
            hash.update((part.len() as u32).to_le_bytes());
            hash.update(part);
        }
    }
    hex(&hash.finalize())
}

fn value<'a>(json: &'a Json, list: &'a [Value<'a>], number: &'a str) -> Value<'a> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(value) => value.as_i64().map_or(Value::Number(number), Value::Integer),
        Json::String(text) => Value::Text(text),
        Json::Array(_) => Value::List(list),
        Json::Object(_) => panic!("fields are flat: {json}"),
    }
}

/// Gives one event to both hosts.
fn give(run: &mut Run, host: &mut ByteHost, json: &Json, out: &mut Vec<Output>, other: &mut Vec<Output>) {
    let automaton = run.automaton().clone();
    let number = |key: &str| json[key].as_u64().unwrap_or(0);
    let mark = Mark {
        time_ns: json["time"].as_i64().expect("a time"),
        identity: Identity { sensor: number("sensor"), epoch: number("epoch"), sequence: number("sequence") },
        clock: Clock { domain: number("clock"), error_us: json["error_us"].as_u64().map(|error| error as u32) },
    };
    let fields = &json["event"];
    let text = |json: &Json| json.to_string();
    let numbers: Vec<String> = automaton.fields().iter().map(|name| text(&fields[name])).collect();
    let lists: Vec<Vec<Value<'_>>> = automaton
        .fields()
        .iter()
        .map(|name| fields[name].as_array().into_iter().flatten().map(|item| value(item, &[], "")).collect())
        .collect();
    let of = |(name, (list, number))| match fields.get::<&String>(name) {
        Some(json) => value(json, list, number),
        None => Value::Missing,
    };
    let columns = lists.iter().map(Vec::as_slice).zip(numbers.iter().map(String::as_str));
    let values: Vec<Value<'_>> = automaton.fields().iter().zip(columns).map(of).collect();
    let row = Row { values: &values, message: json["message"].as_str().unwrap_or("") };
    run.event(&everything(&automaton), &row, mark, out);
    host.event(&row, mark, other);
}

fn check(name: &str) {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).expect("a vector file");
    let first: Json = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let rules = first["rules"].as_str().expect("a file of rules");
    let automaton: Automaton = automaton(&std::fs::read_to_string(folder().join(rules)).expect("rules"));
    let fingerprint = hex(&automaton.fingerprint());
    let (mut run, mut host) = (Run::new(automaton.clone()), ByteHost::new(&automaton));
    let mut written = vec![format!("{{\"rules\":\"{rules}\",\"automaton\":\"{fingerprint}\"}}")];
    for line in text.lines().skip(1) {
        let json: Json = serde_json::from_str(line).expect("JSON");
        let (mut out, mut other) = (Vec::new(), Vec::new());
        let mut after = None;
        if json.get("event").is_some() {
            give(&mut run, &mut host, &json, &mut out, &mut other);
        } else if let Some(watermark) = json.get("watermark") {
            let watermark = watermark.as_i64().expect("a time");
            run.advance(watermark, &mut out);
            host.advance(watermark, &mut other);
            after = Some(format!("{{\"states\":\"{}\"}}", states(&run)));
        } else {
            continue;
        }
        assert_eq!(lines(&automaton, &out), lines(&automaton, &other), "two hosts, {line}");
        written.push(line.to_owned());
        written.extend(lines(&automaton, &out));
        written.extend(after);
    }
    if std::env::var_os("WRITE_VECTORS").is_some() {
        std::fs::write(&path, written.join("\n") + "\n").expect("to write");
    }
    let expected: Vec<&str> = text.lines().collect();
    for (number, (found, expected)) in written.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{name}:{}", number + 1);
    }
    assert_eq!(written.len(), expected.len(), "{name}");
}

#[test]
fn boundaries() {
    check("boundaries.jsonl");
}

#[test]
fn attack() {
    check("attack.jsonl");
}

#[test]
fn mixed() {
    check("mixed.jsonl");
}
