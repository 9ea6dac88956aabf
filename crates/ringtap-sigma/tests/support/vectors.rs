//! Owns: what a file of vectors (see `tests/vectors.rs`) makes rules say, natively and inside wasm.
//! Does not: read or compare files.

use std::fmt::Write as _;

use ringtap_sigma::{Automaton, Clock, Identity, Mark, Output, Row, Run, Value};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::{ByteHost, automaton, everything, lines};

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

/// What the two hosts say of a file of vectors whose rules are these: its lines as they should be.
pub fn written(rules: &str, vectors: &str) -> Vec<String> {
    let first: Json = serde_json::from_str(vectors.lines().next().expect("a line")).expect("JSON");
    let automaton: Automaton = automaton(rules);
    let fingerprint = hex(&automaton.fingerprint());
    let (mut run, mut host) = (Run::new(automaton.clone()), ByteHost::new(&automaton));
    let mut written = vec![format!("{{\"rules\":{},\"automaton\":\"{fingerprint}\"}}", first["rules"])];
    for line in vectors.lines().skip(1) {
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
    written
}
