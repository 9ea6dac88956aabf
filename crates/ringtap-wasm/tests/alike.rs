//! The module tells what `ringtap correlate` tells of the same alarms, and both tell what `tests/vectors` has: hosts that
//! are not written in Rust are held against these files.
//!
//! `storm.records` has a record a line: sensor, time of receipt (ns), what it says, with tabs between, and `storm.end` those
//! that bring time past all windows; `storm.incidents` the lines that are told, sorted. With `WRITE_VECTORS=1` they are written anew.

mod support;

use std::path::Path;
use std::sync::Arc;

use ringtap_correlator::correlator::{Correlator, Report, Settings, Way};
use ringtap_correlator::render;
use ringtap_correlator::sensors::{Beat, Now, Registered, Timing};
use ringtap_datagram::Message;
use ringtap_datagram::line::Line;
use ringtap_event::alarm::{Alarm, error_us, ns};
use ringtap_event::parse::{Parser, Wanted, hash};
use ringtap_sigma::{Limits, RuleSet};
use ringtap_wasm::Call;
use support::{DISORDER, Engine, RULES, Record, SOURCES, START, configuration, storm, storm_and_end};

/// What `ringtap correlate` tells.
fn natively(records: &[Record]) -> Vec<String> {
    let mut set = RuleSet::new();
    set.add("storm.yml", RULES);
    let (automaton, rejected) = set.compile(Limits::default());
    assert!(rejected.is_empty(), "{rejected:?}");
    let automaton = Arc::new(automaton);
    let names = ["north", "south"];
    let registered = names.map(|name| Registered { number: hash(name.as_bytes()), name: name.into() });
    let settings = Settings {
        disorder_ns: DISORDER,
        sensors: registered.into(),
        timing: Timing { gap_wait_ns: 0, silence_ns: i64::MAX / 4 },
        ..Settings::default()
    };
    let at = |wall_ns| Now { wall_ns, monotonic_ns: wall_ns - START };
    let mut correlator = Correlator::open(Arc::clone(&automaton), settings, None, at(START)).expect("no disk");
    for record in records {
        let (now, place) = (at(record.received_ns), names.iter().position(|name| *name == record.sensor));
        match (place, Line::parse(record.value.as_bytes()).map(|line| *line.unverified())) {
            (Some(place), Ok(Message::Alert(alert))) => {
                let built_ns = ns(alert.built_ns);
                let event = Alarm { alert, texts: None }.event(record.sensor.into());
                correlator.alarm(place, event, built_ns, now);
            }
            (Some(place), Ok(Message::Heartbeat(it))) => {
                let beat = Beat {
                    epoch: it.origin.epoch,
                    last: it.last_sequence,
                    h_ns: Some(ns(it.horizon_ns)),
                    built_ns: ns(it.sent_ns),
                    error_us: error_us(it.error_ns),
                };
                correlator.beat(place, &beat, now);
            }
            _ => {
                let event = Parser::new(Wanted::Auto, record.sensor).event(record.value.as_bytes()).expect("an event");
                correlator.event(event, Way::Stream, record.received_ns);
            }
        }
    }
    correlator.end().expect("no disk");
    let told = correlator.take_told();
    let counts = correlator.counts();
    assert!(counts.sensors.values().all(|sensor| sensor.late == 0 && sensor.future == 0), "{counts:?}");
    let told = told.iter().filter(|told| matches!(told, Report::Incident(..) | Report::Match(..)));
    sorted(told.map(|told| render::json(told, &automaton, &counts.sensors).to_string()).collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

/// Says the first line that differs.
fn assert_same(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

fn in_the_module(records: &[Record]) -> Engine {
    let mut engine = Engine::new(&configuration(None, RULES));
    records.iter().for_each(|record| engine.take(record));
    engine.advance(i64::MAX);
    assert!(engine.is_empty());
    engine
}

#[test]
fn module_and_correlator_tell_the_same_as_the_vectors() {
    let (records, end) = storm_and_end(500, SOURCES);
    let expected = natively(&records);
    let engine = in_the_module(&records);
    assert!(
        !engine.asides.is_empty() && engine.asides.iter().all(|aside| aside.contains("\"lost\"")),
        "{:?}",
        engine.asides
    );
    assert_same(&sorted(engine.lines), &expected);
    for mark in ["\"incomplete\":true", "\"incomplete\":false"] {
        assert!(expected.iter().any(|line| line.contains(mark)), "nothing with {mark}");
    }
    let mut to_the_end = Engine::new(&configuration(None, RULES));
    records.iter().chain(&end).for_each(|record| to_the_end.take(record));
    assert!(to_the_end.is_empty(), "the end closes all");
    assert_same(&sorted(to_the_end.lines), &expected);
    for rule in ["few", "together", "ordered", "above", "told"] {
        assert!(expected.iter().any(|line| line.contains(&format!("\"rule\":\"{rule}\""))), "nothing of {rule}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let text = |lines: Vec<String>| lines.join("\n") + "\n";
    let rows = |records: &[Record]| {
        text(records.iter().map(|it| format!("{}\t{}\t{}", it.sensor, it.received_ns, it.value)).collect())
    };
    let files = [
        ("storm.records", rows(&records)),
        ("storm.end", rows(&end)),
        ("storm.incidents", text(expected)),
        ("storm.config", text(vec![configuration(None, RULES)])),
    ];
    for (name, content) in files {
        if std::env::var_os("WRITE_VECTORS").is_some() {
            std::fs::write(folder.join(name), &content).expect("to write");
        }
        let kept = std::fs::read_to_string(folder.join(name)).expect("a file of vectors");
        for (number, (kept, now)) in kept.lines().zip(content.lines()).enumerate() {
            assert_eq!(kept, now, "{name}:{}", number + 1);
        }
        assert_eq!(kept.len(), content.len(), "{name}");
    }
}

#[test]
fn copies_and_other_orders_change_nothing() {
    let records = storm(500);
    let expected = sorted(in_the_module(&records).lines);
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..5 {
        // The order of each sensor stays, as a partition keeps it; some numbered alarms come twice.
        let mut queues = ["north", "south", "web"].map(|sensor| {
            let own = records.iter().filter(|record| record.sensor == sensor);
            let twice = own.flat_map(|it| {
                let copies = if it.value.contains("\"sequence\"") && random.u8(..50) == 0 { 2 } else { 1 };
                std::iter::repeat_n(it.clone(), copies)
            });
            twice.rev().collect::<Vec<_>>()
        });
        let mut mixed = Vec::new();
        while let Some(queue) = random.choice(queues.iter_mut().filter(|queue| !queue.is_empty()).collect::<Vec<_>>()) {
            mixed.extend(queue.pop());
        }
        let engine = in_the_module(&mixed);
        assert!(
            engine.asides.iter().any(|aside| aside.contains("\"duplicate\""))
                && engine.asides.iter().all(|aside| aside.contains("\"duplicate\"") || aside.contains("\"lost\"")),
            "{:?}",
            engine.asides
        );
        assert_same(&sorted(engine.lines), &expected);
    }
}

#[test]
fn little_room_for_states_and_restarts_change_nothing() {
    let records = storm(500);
    let expected = in_the_module(&records);
    assert_eq!(expected.wanted, 0, "all states have room");
    for room in [0, 2_000, 20_000, 32 << 20] {
        let rules = configuration(None, RULES);
        let mut engine = Engine::new(&rules);
        engine.call(Call::Room { bytes: room }, &[7; 16]);
        for (number, record) in records.iter().enumerate() {
            engine.take(record);
            if number % 97 == 96 {
                engine.restart(room, &rules);
            }
        }
        engine.advance(i64::MAX);
        assert!(engine.is_empty() && engine.wanted > 10, "{room}: {}", engine.wanted);
        assert_same(&sorted(engine.lines), &sorted(expected.lines.clone()));
    }
}
