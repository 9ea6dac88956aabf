//! Crashes, restarts, files that are read again, late events, silence, other rules.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::input::parse::{Parser, Wanted};
use crate::samples::{RULES, automaton, event};
use crate::store::{Incident, MemberRow};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;
/// Later than all events.
const NOW: i64 = START + 1_000_000 * SECOND;

fn at(wall_ns: i64) -> Now {
    Now { wall_ns, monotonic_ns: wall_ns }
}

/// All that a store says.
type Content = BTreeMap<[u8; 16], (Incident, Vec<MemberRow>)>;

fn content(folder: &Path) -> Content {
    let store = Store::open_beside(folder).unwrap();
    let with_members = |incident: Incident| (incident.id.0, (incident.clone(), store.members(incident.id).unwrap()));
    store.incidents().unwrap().into_iter().map(with_members).collect()
}

fn whole(rules: &str, events: &[Event], folder: &Path) -> Content {
    let mut correlator = Correlator::open(automaton(rules), Settings::default(), Some(folder), at(NOW)).unwrap();
    events.iter().for_each(|event| correlator.event(event.clone(), Way::File, NOW));
    correlator.end().unwrap();
    content(folder)
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![Just(0), Just(SECOND), Just(3 * SECOND), Just(10 * SECOND), Just(40 * SECOND)];
    let kind = prop_oneof![Just("a"), Just("b"), Just("c")];
    proptest::collection::vec((gap, kind, 0..2u8, 0..3u8), 0..60).prop_map(|list| {
        let mut time = START;
        let event = |(gap, kind, user, value): (i64, &str, u8, u8)| {
            time += gap;
            event(time, kind, ["alice", "bob"][usize::from(user)], value)
        };
        list.into_iter().map(event).collect()
    })
}

/// From a stream that says where it is, from that place on, until a number of events; synced each so many.
fn from_stream(events: &[Event], folder: &Path, count: usize, every: usize) -> Correlator {
    const STREAM: u64 = 7;
    let settings = Settings { reads_again: false, ..Settings::default() };
    let mut correlator = Correlator::open(automaton(RULES), settings, Some(folder), at(NOW)).unwrap();
    let from = correlator.read_up_to(STREAM).unwrap_or(0) as usize;
    for (number, event) in events.iter().enumerate().skip(from).take(count) {
        // A record between any two that comes to nothing.
        correlator.reads(STREAM, number as i64);
        correlator.reads(STREAM, number as i64 + 1);
        correlator.event(event.clone(), Way::Stream, NOW);
        if every > 0 && number % every == 0 {
            correlator.sync().unwrap();
        }
    }
    correlator
}

#[test]
fn a_stream_that_begins_again_is_not_read_from_where_it_had_come_to() {
    const STREAM: u64 = 7;
    let folder = tempfile::tempdir().unwrap();
    let open = || Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    let mut correlator = open();
    let read = |correlator: &mut Correlator, next: i64| {
        correlator.reads(STREAM, next);
        correlator.event(event(START + next * SECOND, "a", "alice", 0), Way::Stream, NOW);
    };
    read(&mut correlator, 100);
    correlator.sync().unwrap();
    // Another topic has the name.
    correlator.begins_again(STREAM, 3);
    correlator.sync().unwrap();
    drop(correlator);
    let mut correlator = open();
    assert_eq!(correlator.read_up_to(STREAM), Some(3));
    read(&mut correlator, 4);
    correlator.sync().unwrap();
    drop(correlator);
    assert_eq!(open().read_up_to(STREAM), Some(4));
}

#[test]
fn what_the_log_has_lost_is_read_again() {
    const STREAM: u64 = 7;
    let folder = tempfile::tempdir().unwrap();
    let open = || Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    let mut correlator = open();
    let read = |correlator: &mut Correlator, next: i64| {
        correlator.reads(STREAM, next);
        correlator.event(event(START + next * 100 * SECOND, "a", "alice", 0), Way::Stream, NOW);
    };
    read(&mut correlator, 1);
    correlator.sync().unwrap();
    // From now on nothing can be written there, but the store can.
    correlator.disk.as_mut().unwrap().log.break_file();
    read(&mut correlator, 2);
    assert!(correlator.sync().is_err());
    let store = correlator.disk.as_mut().unwrap();
    let judged = store.judged;
    store.store.write(correlator.engine.automaton(), &Batch::default(), judged, correlator.streams.logged()).unwrap();
    drop(correlator);
    assert_eq!(open().read_up_to(STREAM), Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A process that dies, also between an event and what is said of its place, takes each event of a stream once.
    #[test]
    fn a_stream_goes_on_where_log_and_store_have_come_to(
        events in events(),
        cuts in proptest::collection::vec((0..30usize, 0..6usize, 0..80u64), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let expected = whole(RULES, &events, &folder.path().join("whole"));
        let path = folder.path().join("cut");
        let log = path.join("log-00000001");
        for (count, every, torn) in cuts {
            // What was there before is on the disk.
            let before = std::fs::metadata(&log).map_or(8, |found| found.len());
            let mut correlator = from_stream(&events, &path, count, every);
            // What is in memory alone goes with it; of the log's end some bytes were not written.
            if count % 2 == 0 {
                correlator.disk.as_mut().unwrap().log.sync().unwrap();
            }
            drop(correlator);
            if every == 0 {
                let len = std::fs::metadata(&log).unwrap().len();
                let len = len.saturating_sub(torn).max(before);
                std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(len).unwrap();
            }
        }
        let mut correlator = from_stream(&events, &path, usize::MAX, 3);
        correlator.end().unwrap();
        prop_assert_eq!(content(&path), expected);
    }

    /// A process that dies keeps what it wrote; the next one reads the files from the beginning.
    #[test]
    fn a_restart_in_the_middle_gives_the_same_incidents(events in events(), cuts in proptest::collection::vec((0..60usize, 0..12usize), 0..3)) {
        let folder = tempfile::tempdir().unwrap();
        let expected = whole(RULES, &events, &folder.path().join("whole"));
        let path = folder.path().join("cut");
        for (cut, every) in cuts {
            let mut correlator = Correlator::open(automaton(RULES), Settings::default(), Some(&path), at(NOW)).unwrap();
            for (number, event) in events.iter().take(cut).enumerate() {
                correlator.event(event.clone(), Way::File, NOW);
                if number % 12 == every {
                    correlator.sync().unwrap();
                }
            }
            // Dropped as it is: what is in the buffers is lost.
        }
        prop_assert_eq!(whole(RULES, &events, &path), expected);
    }

    /// One file after the other is as one file.
    #[test]
    fn a_run_goes_on_where_the_last_one_ended(events in events(), cut in 0..60usize) {
        let folder = tempfile::tempdir().unwrap();
        // Only rules that further events can't take anything from: the end of a file says that there are none.
        let rules = RULES.replace("{eq: 2}", "{gte: 2}");
        let expected = whole(&rules, &events, &folder.path().join("whole"));
        let path = folder.path().join("cut");
        // Not within one stamp: what has the stamp of the last event is late in the next file.
        let mut cut = cut.min(events.len());
        while cut > 0 && cut < events.len() && events[cut].mark.time_ns == events[cut - 1].mark.time_ns {
            cut -= 1;
        }
        whole(&rules, &events[..cut], &path);
        prop_assert_eq!(whole(&rules, &events[cut..], &path), expected);
    }
}

#[test]
fn equal_records_are_several_and_read_again_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let events = vec![event(START, "a", "alice", 0); 3];
    let first = whole(RULES, &events, folder.path());
    assert_eq!(first.values().filter(|(incident, _)| incident.rule == "three").count(), 1);
    let mut again = Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    events.iter().for_each(|event| again.event(event.clone(), Way::File, NOW));
    again.end().unwrap();
    assert_eq!((again.counts().known, content(folder.path())), (3, first));
}

#[test]
fn what_is_told_of_the_log_names_its_sensors() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    let lines = |correlator: &mut Correlator| {
        correlator.end().unwrap();
        let told = correlator.take_told();
        let line = |told| crate::render::json(told, correlator.automaton(), &correlator.counts().sensors).to_string();
        told.iter().map(line).collect::<Vec<String>>()
    };
    let events = [(0, "a"), (1, "b"), (2, "c")].map(|(at, kind)| event(START + at * SECOND, kind, "alice", 0));
    let mut crashed = open();
    events.iter().for_each(|event| crashed.event(event.clone(), Way::File, NOW));
    crashed.sync().unwrap();
    assert!(crashed.take_told().is_empty());
    drop(crashed);
    // Nothing more comes from the sensor.
    let again = lines(&mut open());
    let mut whole = Correlator::open(automaton(RULES), Settings::default(), None, at(NOW)).unwrap();
    events.iter().for_each(|event| whole.event(event.clone(), Way::File, NOW));
    assert_eq!(again, lines(&mut whole));
    assert!(again.iter().any(|line| line.contains("\"opened\"")), "{again:?}");
}

#[test]
fn a_late_event_is_judged_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    for (seconds, kind) in [(0, "a"), (2, "c"), (60, "b")] {
        correlator.event(event(START + seconds * SECOND, kind, "alice", 0), Way::File, NOW);
    }
    assert!(correlator.take_told().is_empty());
    correlator.event(event(START + SECOND, "b", "alice", 0), Way::File, NOW);
    correlator.sync().unwrap();
    let told: Vec<String> = correlator
        .take_told()
        .iter()
        .filter_map(|told| match told {
            Report::Incident(Output::Opened(it), Found { late: true, .. }) => {
                Some(correlator.automaton().rules()[usize::from(it.rule)].head.label().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(told, ["together", "ordered"]);
    assert_eq!(correlator.counts().judged_again, 1);
    assert!(content(folder.path()).values().filter(|(incident, _)| incident.late).count() == 2);
    // Once more changes nothing, and neither does a restart.
    correlator.event(event(START + SECOND, "b", "alice", 0), Way::File, NOW);
    correlator.sync().unwrap();
    assert!(!correlator.take_told().iter().any(|told| matches!(told, Report::Incident(Output::Opened(_), _))));
    let before = content(folder.path());
    drop(correlator);
    drop(Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap());
    assert_eq!(content(folder.path()), before);
}

#[test]
fn without_a_log_late_events_are_only_counted() {
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), None, at(NOW)).unwrap();
    correlator.event(event(START + 60 * SECOND, "a", "alice", 0), Way::File, NOW);
    correlator.event(event(START, "a", "alice", 0), Way::File, NOW);
    correlator.sync().unwrap();
    assert_eq!((correlator.counts().not_judged, correlator.counts().judged_again), (1, 0));
    assert_eq!(correlator.counts().sensors.values().map(|sensor| sensor.late).sum::<u64>(), 1);
}

#[test]
fn silence_lets_the_watermark_go_on_and_the_future_is_refused() {
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), None, at(NOW)).unwrap();
    for kind in ["a", "b", "c"] {
        correlator.event(event(START, kind, "alice", 0), Way::Stream, START);
    }
    correlator.event(event(START + 3600 * SECOND, "a", "alice", 0), Way::Stream, START);
    assert!(correlator.take_told().is_empty());
    correlator.silent_for(60 * SECOND);
    assert_eq!(correlator.take_told().len(), 4, "two rules, opened and closed");
    assert_eq!(correlator.counts().sensors.values().map(|sensor| sensor.future).sum::<u64>(), 1);
}

#[test]
fn other_rules_lose_no_window() {
    const OTHER: &str = "
---
title: Two of A
name: two
correlation: {type: event_count, rules: a, group-by: user, timespan: 10s, condition: {gte: 2}}
";
    let folder = tempfile::tempdir().unwrap();
    for (path, expected) in
        [(Some(folder.path()), vec!["two", "together", "ordered"]), (None, vec!["together", "ordered"])]
    {
        let mut correlator = Correlator::open(automaton(RULES), Settings::default(), path, at(NOW)).unwrap();
        for value in 0..2 {
            correlator.event(event(START, "a", "alice", value), Way::File, NOW);
        }
        // So that the watermark passes them.
        correlator.event(event(START + SECOND, "b", "alice", 0), Way::File, NOW);
        correlator.event(event(START + 7 * SECOND, "c", "bob", 0), Way::File, NOW);
        correlator.sync().unwrap();
        assert!(correlator.take_told().is_empty());
        let mut signs = 0;
        correlator.reload(automaton(&format!("{RULES}{OTHER}")), &mut || signs += 1).unwrap();
        // However long the log is, the watchdog hears of each record.
        assert_eq!(signs >= 3, path.is_some(), "{signs} {path:?}");
        correlator.event(event(START + 8 * SECOND, "c", "alice", 0), Way::File, NOW);
        correlator.end().unwrap();
        let told: Vec<String> = correlator
            .take_told()
            .iter()
            .filter_map(|told| match told {
                Report::Incident(Output::Opened(it), Found { late: false, .. }) => {
                    Some(correlator.automaton().rules()[usize::from(it.rule)].head.label().to_owned())
                }
                _ => None,
            })
            .collect();
        assert_eq!(told, expected);
    }
}

/// A detection that no correlation uses.
const ALONE: &str = "
---
title: D
name: d
logsource: {product: test}
detection: {s: {kind: d}, condition: s}
";

fn matches(correlator: &mut Correlator, late: bool) -> usize {
    correlator.take_told().iter().filter(|told| matches!(told, Report::Match(_, of) if *of == late)).count()
}

#[test]
fn a_late_match_is_told_as_one() {
    let rules = automaton(&format!("{RULES}{ALONE}"));
    let mut correlator = Correlator::open(rules, Settings::default(), None, at(NOW)).unwrap();
    correlator.event(event(START + 60 * SECOND, "a", "alice", 0), Way::File, NOW);
    correlator.event(event(START, "d", "alice", 0), Way::File, NOW);
    assert_eq!(matches(&mut correlator, true), 1);
}

#[test]
fn matches_that_wait_outlive_other_rules() {
    let folder = tempfile::tempdir().unwrap();
    for path in [Some(folder.path()), None] {
        let rules = automaton(&format!("{RULES}{ALONE}"));
        let mut correlator = Correlator::open(rules, Settings::default(), path, at(NOW)).unwrap();
        correlator.event(event(START, "d", "alice", 0), Way::File, NOW);
        // The same detection by another number.
        correlator
            .reload(
                automaton(&format!("{}{RULES}", ALONE.trim_start_matches("\n---\n").to_owned() + "---\n")),
                &mut || {},
            )
            .unwrap();
        correlator.end().unwrap();
        assert_eq!(matches(&mut correlator, false), 1, "{path:?}");
    }
}

#[test]
fn stamps_from_the_future_are_refused_in_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator =
        Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(START)).unwrap();
    for time in [START, i64::MAX, START + 3600 * SECOND, START] {
        correlator.event(event(time, "a", "alice", 0), Way::File, START);
    }
    correlator.end().unwrap();
    let future = |correlator: &Correlator| correlator.counts().sensors.values().map(|it| it.future).sum::<u64>();
    let late = |correlator: &Correlator| correlator.counts().sensors.values().map(|it| it.late).sum::<u64>();
    assert_eq!((future(&correlator), late(&correlator)), (2, 0));
    drop(correlator);
    let mut next = Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    next.event(event(START + SECOND, "b", "alice", 0), Way::Stream, START + SECOND);
    assert_eq!((future(&next), late(&next), next.counts().set_back_ns), (0, 0, 0));
}

#[test]
fn a_sender_ahead_of_time_makes_nobody_late() {
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), None, at(START)).unwrap();
    correlator.event(event(START + 60 * SECOND, "c", "mallory", 0), Way::Stream, START);
    for seconds in 0..10 {
        let time = START + seconds * SECOND;
        correlator.event(event(time - 4 * SECOND, "a", "alice", 0), Way::Stream, time);
    }
    assert_eq!(correlator.counts().sensors.values().map(|it| (it.late, it.future)).max(), Some((0, 0)));
}

/// The clock of the host was set wrong while a run wrote its store.
#[test]
fn a_store_from_the_future_is_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut ahead = Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(NOW)).unwrap();
    ahead.event(event(NOW, "a", "alice", 0), Way::Stream, NOW);
    ahead.end().unwrap();
    drop(ahead);
    let now = START + 10 * SECOND;
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), Some(folder.path()), at(now)).unwrap();
    assert_eq!(correlator.counts().set_back_ns, NOW - now);
    for kind in ["a", "b", "c"] {
        correlator.event(event(now + SECOND, kind, "bob", 0), Way::Stream, now + SECOND);
    }
    assert_eq!(correlator.counts().sensors.values().map(|it| it.late).sum::<u64>(), 0);
}

#[test]
fn names_that_anybody_makes_up_take_no_memory() {
    let mut correlator = Correlator::open(automaton(RULES), Settings::default(), None, at(NOW)).unwrap();
    let mut parser = Parser::new(Wanted::Json, "in");
    for number in 0..3 * MAX_SENSORS {
        let line = format!(r#"{{"time":{START},"kind":"x","sensor":"s{}"}}"#, number.min(2 * MAX_SENSORS));
        correlator.event(parser.event(line.as_bytes()).unwrap(), Way::Stream, START);
    }
    assert_eq!((correlator.counts().sensors.len(), correlator.batch.sensors.len()), (MAX_SENSORS + 1, 0));
}
