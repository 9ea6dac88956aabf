//! What a host is told beside incidents: rules that come later than their events, versions that nobody needs any more, and
//! what sensors could not tell.

mod support;

use ringtap_wasm::Call;
use ringtap_wasm::frames::{Frames, Kind, frames};
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
        let answer = intake.call(Call::Intake { received_ns: record.received_ns, is_given: true }, &request);
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

/// As a configuration that was changed where it stood would leave it.
#[test]
fn another_configuration_from_the_same_time_is_refused() {
    let mut engine = Engine::new(&configuration(None, RULES));
    let mut answer = |configuration: &str| {
        let mut out = Frames::default();
        engine.host.answer(Call::Configure { levels: LEVELS }, configuration.as_bytes(), &mut out);
        let answer: Vec<_> = frames(out.bytes()).map(|(kind, bytes)| (kind, bytes.to_vec())).collect();
        of(&answer, Kind::Failed).pop().map(|why| String::from_utf8(why).unwrap())
    };
    assert_eq!(answer(&format!("{}\n", configuration(None, RULES))), None, "the same");
    let why = answer(&configuration(None, OTHERS)).expect("refused");
    assert!(why.contains("from the beginning on") && why.contains("a later \"from_ns\""), "{why}");
    assert_eq!(answer(&configuration(Some(START), OTHERS)), None);
    let why = answer(&configuration(Some(START), RULES)).expect("refused");
    assert!(why.contains(&START.to_string()), "{why}");
    storm(50).iter().for_each(|record| engine.take(record));
    // One that is forgotten here may live on elsewhere: it is not taken anew.
    assert_eq!(versions(&mut engine, START + 1000 * SECOND), [START]);
    assert_eq!(configure(&mut engine, START - SECOND, RULES).iter().filter(|it| it.0 == Kind::Note as u8).count(), 0);
    assert_eq!(versions(&mut engine, START + 1000 * SECOND), [START]);
}

/// A call that fails would be made again after each restart.
#[test]
fn a_state_whose_rules_are_gone_is_dropped_and_told() {
    let mut engine = Engine::new(&configuration(None, RULES));
    let call = Call::Step { watermark: START, is_given: true };
    let answer = engine.call(call, &request(&[&[9; 20], &[1; 30], &[]]));
    let kinds: Vec<u8> = answer.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Kind::State as u8, Kind::Aside as u8]);
    assert!(answer[0].1.is_empty(), "nothing is kept of it");
}

#[test]
fn an_aside_fits_into_a_record_of_a_topic_whatever_came() {
    let mut engine = Engine::new(&configuration(None, RULES));
    let foreign = format!(r#"{{"time":{START},"sensor":"other","much":"{}"}}"#, "\\u0001".repeat(100_000));
    for (sensor, record) in [("web", vec![1; 350_000]), ("web", vec![0xff; 2 << 20]), ("web", foreign.into_bytes())] {
        let call = Call::Intake { received_ns: START, is_given: true };
        let answer = engine.call(call, &request(&[sensor.as_bytes(), &[], &record]));
        let asides = of(&answer, Kind::Aside);
        let aside: serde_json::Value = serde_json::from_slice(&asides[0]).unwrap();
        assert!(asides.len() == 1 && asides[0].len() < 200_000, "{} bytes", asides[0].len());
        assert_eq!(aside["record_bytes"], record.len());
    }
    // An event that a line would tell of, with its sensor.
    let event = format!(r#"{{"time":{START},"alert":{{"signature_id":3}},"dest_port":81}}"#);
    for (name, kind) in [("x".repeat(1 << 20), Kind::Aside), ("x".repeat(255), Kind::Line)] {
        let call = Call::Intake { received_ns: START, is_given: true };
        let told = of(&engine.call(call, &request(&[name.as_bytes(), &[], event.as_bytes()])), kind);
        assert!(told.len() == 1 && told[0].len() < 200_000, "{kind:?}");
    }
}

/// As an event without a number it would count twice.
#[test]
fn a_sensor_s_line_that_is_not_whole_is_no_event() {
    let mut engine = Engine::new(&configuration(None, RULES));
    let records = storm(20);
    let mut alarm = records.iter().find(|it| it.value.contains("\"sequence\"")).expect("an alarm").clone();
    alarm.value = alarm.value.replace("\"epoch\"", "\"epoch_of_tomorrow\"");
    engine.take(&alarm);
    assert!(engine.asides.len() == 1 && engine.asides[0].contains("a sensor's numbers"), "{:?}", engine.asides);
    // As a sensor's log has them.
    let value = format!(
        r#"{{"time":{START},"host":"web","alert":{{"signature_id":3}},"dest_port":81,"ringtap":{{"sequence":7}}}}"#
    );
    engine.take(&support::Record { sensor: "web", received_ns: START, value });
    assert_eq!((engine.asides.len(), engine.lines.len()), (1, 1));
}

/// A sender that nobody waits for has no watermark of its own by which its stamps could be forgotten.
#[test]
fn of_a_sender_s_stamps_the_latest_are_remembered() {
    const EVENTS: i64 = 20_000;
    let mut engine = Engine::default();
    let registered = r#"{"rules":{"storm.yml":RULES},"sensors":{}}"#;
    engine.configure(&registered.replace("RULES", &serde_json::to_string(RULES).unwrap()));
    let event = |number: i64| support::Record {
        sensor: "web",
        received_ns: START + EVENTS,
        value: format!(r#"{{"time":{},"sensor":"web","alert":{{"signature_id":99}}}}"#, START + number),
    };
    (0..EVENTS).for_each(|number| engine.take(&event(number)));
    let stored = of(&engine.call(Call::Keep, &[]), Kind::Stored);
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].len(), 4 + "web".len() + 8 + 24 * 16_384);
}

#[test]
fn what_a_silent_sensor_without_heartbeats_could_have_seen_is_marked() {
    let records = storm(300);
    let mut engine = Engine::new(&configuration(None, RULES));
    let half = records.len() / 2;
    records[..half].iter().for_each(|record| engine.take(record));
    let at = records[half].received_ns;
    let value = format!(r#"{{"event_type":"silent","host":"web","since_ns":{at}}}"#);
    engine.take(&support::Record { sensor: "web", received_ns: at, value });
    let told = engine.lines.len();
    records[half..].iter().filter(|record| record.sensor != "web").for_each(|record| engine.take(record));
    // It is back with what it had to say before: that does not fill the time since.
    engine.take(records.iter().find(|record| record.sensor == "web").expect("one"));
    engine.advance(i64::MAX);
    let lines = engine.lines[told..].iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let opened: Vec<_> = lines.filter(|line| line["opened_ns"].as_i64().is_some_and(|ns| ns > at)).collect();
    assert!(opened.len() > 5 && opened.iter().all(|line| line["incomplete"] == true), "{opened:?}");
}
