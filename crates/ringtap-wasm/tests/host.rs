//! What a host is told beside incidents: rules that come later than their events, versions that nobody needs any more, and
//! what sensors could not tell.

mod support;

use ringtap_wasm::Call;
use ringtap_wasm::frames::Kind;
use support::{Engine, LEVELS, RULES, SECOND, START, configuration, of, request, storm};

/// Rules that no event of a storm is for.
const OTHERS: &str =
    "title: Z\nname: z\nlogsource: {product: suricata}\ndetection: {s: {alert.signature_id: 99}, condition: s}\n";

fn configure(engine: &mut Engine, from_ns: i64, rules: &str) -> Vec<(u8, Vec<u8>)> {
    engine.call(Call::Configure { levels: LEVELS }, configuration(Some(from_ns), rules).as_bytes())
}

fn versions(engine: &mut Engine, watermark: i64) -> Vec<i64> {
    let answer = engine.call(Call::Snapshot { watermark }, &[]);
    of(&answer, Kind::Version).into_iter().map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn an_event_for_rules_that_are_not_here_waits_for_them() {
    // The first event that goes to a rule, as an operator before this one would send it.
    let mut intake = Engine::new(&configuration(None, RULES));
    let filling = storm(50).iter().find_map(|record| {
        let request = request(&[record.sensor.as_bytes(), &[], record.value.as_bytes()]);
        let answer = intake.call(Call::Intake { received_ns: record.received_ns }, &request);
        of(&answer, Kind::Filling).pop()
    });
    let filling = filling.expect("an event that matches");
    let len = u32::from_le_bytes(filling[1..5].try_into().unwrap()) as usize;
    let (key, event) = filling[5..].split_at(len);
    let mut engine = Engine::new(&configuration(None, OTHERS));
    let step = |engine: &mut Engine, watermark, event: &[u8]| {
        let call = Call::Step { watermark, is_given: true };
        engine.call(call, &request(&[key, &[], event])).into_iter().map(|(kind, _)| kind).collect()
    };
    let early: Vec<u8> = step(&mut engine, i64::MIN, event);
    assert_eq!(early, [Kind::Early as u8]);
    // Behind the watermark it would be late by any rules.
    let late: Vec<u8> = step(&mut engine, i64::MAX - 1, event);
    assert_eq!(late, [Kind::Aside as u8]);
    configure(&mut engine, START - SECOND, RULES);
    let known: Vec<u8> = step(&mut engine, i64::MIN, event);
    assert_eq!(known, [Kind::Timer as u8]);
}

#[test]
fn a_configuration_that_came_too_late_says_so() {
    let mut engine = Engine::new(&configuration(None, RULES));
    storm(50).iter().for_each(|record| engine.take(record));
    let mut notes = |from_ns| of(&configure(&mut engine, from_ns, RULES), Kind::Note);
    assert!(notes(START + 1000 * SECOND).is_empty());
    let late = String::from_utf8(notes(START).concat()).unwrap();
    assert!(late.contains("announce it earlier"), "{late}");
}

#[test]
fn versions_go_once_their_windows_have() {
    let mut engine = Engine::new(&configuration(None, RULES));
    configure(&mut engine, START, RULES);
    configure(&mut engine, START + 10 * SECOND, OTHERS);
    let all = [i64::MIN, START, START + 10 * SECOND];
    // The longest chain reaches 90 s back.
    assert_eq!(versions(&mut engine, START + 181 * SECOND), all);
    assert_eq!(versions(&mut engine, START + 182 * SECOND), all[1..]);
    assert_eq!(versions(&mut engine, START + 191 * SECOND), all[1..]);
    assert_eq!(versions(&mut engine, START + 192 * SECOND), all[2..]);
    assert_eq!(versions(&mut engine, i64::MAX), all[2..]);
}

#[test]
fn what_a_silent_sensor_could_have_seen_is_marked() {
    let records = storm(300);
    let mut engine = Engine::new(&configuration(None, RULES));
    let half = records.len() / 2;
    records[..half].iter().for_each(|record| engine.take(record));
    let silent = support::Record {
        sensor: "north",
        received_ns: records[half].received_ns,
        value: format!(r#"{{"event_type":"silent","host":"north","since_ns":{START}}}"#),
    };
    engine.take(&silent);
    records[half..].iter().filter(|record| record.sensor != "north").for_each(|record| engine.take(record));
    engine.advance(i64::MAX);
    let lines = engine.lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let since = |line: &serde_json::Value| line["opened_ns"].as_i64().is_some_and(|at| at > silent.received_ns);
    let opened: Vec<_> = lines.filter(since).collect();
    assert!(opened.len() > 5 && opened.iter().all(|line| line["incomplete"] == true), "{opened:?}");
    // It is known again after a restart, by all who run rules.
    let kept = of(&engine.call(Call::Snapshot { watermark: START }, &[]), Kind::State).remove(0);
    let mut again = Engine::new(&configuration(None, RULES));
    again.call(Call::Restore, &kept);
    let twice = of(&again.call(Call::Snapshot { watermark: START }, &[]), Kind::State).remove(0);
    let losses = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap()["losses"].clone();
    assert_eq!(losses(&kept), losses(&twice));
    assert!(losses(&kept)["blind"].as_object().is_some_and(|blind| blind.len() == 1), "{}", losses(&kept));
}
