//! Registered sensors at a correlator: any order of arrival, losses, restarts, and what no key proves.

use proptest::prelude::*;
use ringtap_sigma::{Clock, Limits, RuleSet};

use super::*;
use crate::input::parse::{Parser, Wanted};
use crate::log::Record;
use crate::render;
use crate::sensors::Beat;

const RULES: &str = include_str!("../../tests/rules/kinds.yml");
const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;
const START: i64 = 1_700_000_000 * SECOND;

fn automaton(rules: &str) -> Arc<Automaton> {
    let mut set = RuleSet::new();
    set.add("test", rules);
    Arc::new(set.compile(Limits::default()).0)
}

fn now(ms: i64) -> Now {
    Now { wall_ns: START + ms * MS, monotonic_ns: ms * MS }
}

fn settings() -> Settings {
    let sensor = |number: u64| Registered { number, name: format!("s{number}").into() };
    Settings {
        sensors: vec![sensor(1), sensor(2)],
        timing: Timing { gap_wait_ns: 20 * MS, silence_ns: 10 * SECOND },
        early: true,
        reads_again: false,
        ..Settings::default()
    }
}

fn open(folder: Option<&Path>, ms: i64) -> Correlator {
    Correlator::open(automaton(RULES), settings(), folder, now(ms)).unwrap()
}

fn event(sensor: u64, sequence: u64, ms: i64, kind: &str) -> Event {
    let line = format!(r#"{{"time":{},"kind":"{kind}","user":"alice","value":"v{sequence}"}}"#, START + ms * MS);
    let mut event = Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap();
    event.mark.identity = Identity { sensor, epoch: 1, sequence };
    event.mark.clock = Clock { domain: sensor, error_us: Some(100) };
    event
}

fn beat(last: u64, ms: i64) -> Beat {
    Beat { epoch: 1, last, h_ns: Some(START + ms * MS), built_ns: START + ms * MS, error_us: Some(100) }
}

/// What a sensor sends, and when.
#[derive(Clone, Debug)]
enum Said {
    Alarm(usize, Event),
    Beat(usize, Beat),
}

/// Alarms of two sensors and a heartbeat of each every 100 ms, with when they were sent, ms.
fn said() -> impl Strategy<Value = Vec<(i64, Said)>> {
    let kind = prop_oneof![Just("a"), Just("b"), Just("c")];
    proptest::collection::vec((0..4000i64, 0..2usize, kind), 0..60).prop_map(|mut list| {
        list.sort_by_key(|(ms, ..)| *ms);
        let (mut said, mut last, mut next) = (Vec::new(), [0, 0], 0);
        for (ms, sensor, kind) in list {
            while next <= ms {
                (0..2).for_each(|sensor| said.push((next, Said::Beat(sensor, beat(last[sensor], next - 1)))));
                next += 100;
            }
            last[sensor] += 1;
            said.push((ms, Said::Alarm(sensor, event(sensor as u64 + 1, last[sensor], ms, kind))));
        }
        (0..2).for_each(|sensor| said.push((5000, Said::Beat(sensor, beat(last[sensor], 60_000)))));
        said
    })
}

/// What is told for good, as text.
fn run(said: &[(i64, Said)]) -> Vec<String> {
    let mut correlator = open(None, 0);
    let (mut told, mut watermark) = (Vec::new(), i64::MIN);
    let mut tell = |correlator: &mut Correlator| {
        for it in correlator.take_told() {
            if !matches!(it, Report::Provisional(_) | Report::Sensor(..)) {
                told.push(render::json(&it, correlator.automaton(), &correlator.counts().sensors).to_string());
            }
        }
    };
    for (arrives, said) in said {
        correlator.tick(now(*arrives));
        match said {
            Said::Alarm(sensor, event) => {
                correlator.alarm(*sensor, event.clone(), event.mark.time_ns, now(*arrives));
            }
            // The last one promises for later than now: the clock there is as far.
            Said::Beat(sensor, beat) => correlator.beat(*sensor, beat, now(*arrives + 60_000)),
        }
        assert!(correlator.engine().watermark() >= watermark, "it went back");
        watermark = correlator.engine().watermark();
        tell(&mut correlator);
    }
    assert_eq!(correlator.counts().sensors.values().map(|it| it.late).sum::<u64>(), 0);
    correlator.end().unwrap();
    tell(&mut correlator);
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_arrival_within_the_wait_gives_the_same_bytes(
        said in said(),
        delays in proptest::collection::vec(0..19i64, 200),
    ) {
        let expected = run(&said);
        let mut arrived: Vec<(i64, Said)> =
            said.iter().zip(&delays).map(|((sent, said), delay)| (sent + delay, said.clone())).collect();
        arrived.sort_by_key(|(arrives, _)| *arrives);
        prop_assert_eq!(run(&arrived), expected);
    }
}

fn opened(correlator: &mut Correlator) -> Vec<(String, Found)> {
    let told = correlator.take_told();
    let opened = told.into_iter().filter_map(|told| match told {
        Report::Incident(Output::Opened(it), found) => {
            Some((correlator.automaton().rules()[usize::from(it.rule)].head.label().to_owned(), found))
        }
        _ => None,
    });
    opened.collect()
}

/// One of each kind, a second apart, from the first sensor; both promise 10 ms behind the last.
fn abc(correlator: &mut Correlator, sequence: u64, ms: i64) {
    for (number, kind) in ["a", "b", "c"].into_iter().enumerate() {
        let at = ms + number as i64 * 1000;
        let event = event(1, sequence + number as u64, at, kind);
        correlator.alarm(0, event.clone(), event.mark.time_ns, now(at + 1));
    }
    correlator.beat(0, &beat(sequence + 2, ms + 2010), now(ms + 2011));
    correlator.beat(1, &beat(0, ms + 2010), now(ms + 2011));
    correlator.tick(now(ms + 2040));
}

#[test]
fn it_is_told_as_soon_as_all_have_promised() {
    let mut correlator = open(None, 0);
    abc(&mut correlator, 1, 100);
    let found = opened(&mut correlator);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["together", "ordered"]);
    assert!(found.iter().all(|(_, found)| !found.late && !found.incomplete));
}

#[test]
fn a_lost_alarm_marks_the_windows_that_may_lack_it() {
    let mut correlator = open(None, 0);
    correlator.beat(0, &beat(0, 50), now(51));
    correlator.beat(1, &beat(0, 50), now(51));
    // The first two are lost.
    abc(&mut correlator, 3, 100);
    correlator.tick(now(2200));
    assert!(opened(&mut correlator).iter().all(|(_, found)| found.incomplete));
    assert_eq!(correlator.registered().map(|(_, state)| state.lost).collect::<Vec<_>>(), [2, 0]);
    // Long after it nothing is missing.
    correlator.beat(0, &beat(5, 60_000), now(60_001));
    correlator.beat(1, &beat(0, 60_000), now(60_001));
    opened(&mut correlator);
    abc(&mut correlator, 6, 60_100);
    let found = opened(&mut correlator);
    assert!(found.len() == 2 && found.iter().all(|(_, found)| !found.incomplete), "{found:?}");
}

#[test]
fn a_restart_knows_what_it_had_and_counts_what_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = open(Some(folder.path()), 0);
    abc(&mut correlator, 1, 100);
    assert_eq!(opened(&mut correlator).len(), 2);
    correlator.sync().unwrap();
    drop(correlator);
    let mut again = open(Some(folder.path()), 5000);
    let first = event(1, 1, 100, "a");
    again.alarm(0, first.clone(), first.mark.time_ns, now(5000));
    again.beat(0, &beat(7, 5000), now(5001));
    again.beat(1, &beat(0, 5000), now(5001));
    again.tick(now(5100));
    let states: Vec<SensorState> = again.registered().map(|(_, state)| state).collect();
    assert_eq!((states[0].duplicates, states[0].lost), (1, 4));
    assert!(opened(&mut again).is_empty() && again.counts().sensors[&1].late == 0);
    // They were sent after what the first run was certain of.
    let gap = |ms: i64| again.gaps.touch(START + ms * MS, START + ms * MS);
    assert!(!gap(2000) && gap(2500) && gap(4900));
}

#[test]
fn who_has_no_key_holds_nothing_back_and_pushes_nothing() {
    let mut correlator =
        Correlator::open(automaton(RULES), Settings { waiting: 100, ..settings() }, None, now(0)).unwrap();
    let other = |ms: i64, value: usize| {
        let line = format!(r#"{{"time":{},"kind":"a","user":"u{value}"}}"#, START + ms * MS);
        Parser::new(Wanted::Json, "other").event(line.as_bytes()).unwrap()
    };
    correlator.tick(now(0));
    // An hour old, again and again, while the sensors promise.
    for step in 1..400 {
        let ms = step * 100;
        correlator.tick(now(ms));
        correlator.event(other(-3_600_000, 0), Way::Stream, now(ms).wall_ns);
        correlator.beat(0, &beat(0, ms), now(ms));
        correlator.beat(1, &beat(0, ms), now(ms));
    }
    let behind_ms = (now(39_900).wall_ns - correlator.engine().watermark()) / MS;
    assert!(behind_ms <= 15_000, "{behind_ms}");
    // A flood with the stamps of now: what finds no room is refused, and nothing goes on beyond what the sensors promised.
    (0..1000).for_each(|value| correlator.event(other(39_900, value), Way::Stream, now(39_900).wall_ns));
    assert_eq!(correlator.counts().pushed, 0);
    assert!(correlator.counts().no_room > 500 && correlator.engine().watermark() <= now(39_900).wall_ns);
}

/// A log may take a minute to read: until then nobody could be heard.
#[test]
fn the_time_that_a_start_takes_is_nobody_s_silence() {
    let mut correlator = open(None, 0);
    let silences = |correlator: &mut Correlator| {
        let is_silence = |told: &Report| matches!(told, Report::Sensor(_, What::SilentSince { .. }));
        correlator.take_told().iter().filter(|told| is_silence(told)).count()
    };
    correlator.begin(now(60_000));
    correlator.tick(now(60_020));
    assert_eq!(silences(&mut correlator), 0);
    correlator.tick(now(75_000));
    assert_eq!(silences(&mut correlator), 2, "both were silent since");
}

#[test]
fn a_silent_sensor_is_told_and_what_it_sends_on_its_return_is_late() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = open(Some(folder.path()), 0);
    correlator.beat(0, &beat(0, 100), now(101));
    correlator.beat(1, &beat(0, 100), now(101));
    for step in 2..200 {
        correlator.beat(0, &beat(0, step * 100), now(step * 100 + 1));
        correlator.tick(now(step * 100 + 2));
    }
    let silent = Report::Sensor(2, What::SilentSince { h_ns: Some(START + 100 * MS) });
    assert!(correlator.take_told().contains(&silent));
    for (number, kind) in ["a", "b", "c"].into_iter().enumerate() {
        let event = event(2, number as u64 + 1, 5000 + number as i64, kind);
        correlator.alarm(1, event.clone(), event.mark.time_ns, now(20_000));
    }
    correlator.beat(1, &beat(3, 19_950), now(20_001));
    correlator.sync().unwrap();
    let found = opened(&mut correlator);
    assert!(found.len() == 2 && found.iter().all(|(_, found)| found.late), "{found:?}");
    assert_eq!(correlator.counts().sensors[&2].late, 3);
}

/// The second sensor says nothing from 100 ms on, the first one does until 20 s.
fn with_a_silent_one(folder: &Path) -> Correlator {
    let mut correlator = open(Some(folder), 0);
    correlator.beat(1, &beat(0, 100), now(101));
    for step in 1..200 {
        correlator.beat(0, &beat(0, step * 100), now(step * 100 + 1));
        correlator.tick(now(step * 100 + 2));
    }
    assert_eq!(silences(&mut correlator), [Some(START + 100 * MS)]);
    correlator
}

/// Silences that were told, with the last promise.
fn silences(correlator: &mut Correlator) -> Vec<Option<i64>> {
    let silence = |told| match told {
        Report::Sensor(_, What::SilentSince { h_ns }) => Some(h_ns),
        _ => None,
    };
    correlator.take_told().into_iter().filter_map(silence).collect()
}

#[test]
fn who_was_silent_is_not_waited_for_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = with_a_silent_one(folder.path());
    correlator.sync().unwrap();
    drop(correlator);
    let mut again = open(Some(folder.path()), 21_000);
    again.begin(now(21_000));
    for (number, kind) in (0..).zip(["a", "b", "c"]) {
        let event = event(1, number + 1, 21_000 + number as i64, kind);
        again.alarm(0, event.clone(), event.mark.time_ns, now(21_010));
    }
    again.beat(0, &beat(3, 21_100), now(21_101));
    again.tick(now(21_150));
    // Certain without it, which could have told something.
    let found = opened(&mut again);
    assert!(found.len() == 2 && found.iter().all(|(_, found)| found.incomplete && !found.late), "{found:?}");
    let states = |correlator: &Correlator| correlator.registered().map(|(_, it)| it.is_silent).collect::<Vec<_>>();
    assert_eq!(states(&again), [false, true]);
    again.beat(1, &beat(0, 21_200), now(21_201));
    again.sync().unwrap();
    let gap = |ms: i64| again.gaps.touch(START + ms * MS, START + ms * MS);
    assert!(!gap(100) && gap(101) && gap(20_000) && gap(21_200) && !gap(21_201), "since its last promise");
    drop(again);
    // And so the log says.
    assert_eq!(states(&open(Some(folder.path()), 24_000)), [false, false]);
}

#[test]
fn each_segment_of_the_log_says_who_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = with_a_silent_one(folder.path());
    correlator.sync().unwrap();
    let log = Log::with_segments(folder.path(), 1000).unwrap();
    correlator.disk.as_mut().unwrap().log = log;
    for sequence in 1..100 {
        let at = 20_000 + sequence as i64;
        let event = event(1, sequence, at, "a");
        correlator.alarm(0, event.clone(), event.mark.time_ns, now(at + 1));
        correlator.sync().unwrap();
    }
    let disk = correlator.disk.as_mut().unwrap();
    let last = disk.log.place().segment;
    assert!(last > 3);
    let records = disk.log.read_from_segment(i64::MAX, last);
    let silent =
        records.filter(|(_, record)| matches!(record, Record::Sensor { number: 2, what: What::SilentSince { .. } }));
    assert_eq!(silent.count(), 1);
}

#[test]
fn while_inputs_bring_the_past_the_clock_makes_nothing_late() {
    let mut correlator = open(None, 0);
    for sensor in 0..2 {
        correlator.beat(sensor, &beat(0, 100), now(101));
    }
    correlator.tick(now(20_000));
    assert_eq!(silences(&mut correlator).len(), 2);
    // The way was broken for an hour; what waited there comes now.
    correlator.hold(now(20_001));
    correlator.tick(now(3_600_000));
    abc(&mut correlator, 1, 30_000);
    correlator.hold(now(3_600_000));
    assert_eq!(correlator.counts().sensors[&1].late, 0);
    assert_eq!(opened(&mut correlator).len(), 2);
    // From then on nobody is waited for for ever.
    correlator.let_go();
    correlator.tick(now(3_700_000));
    correlator.tick(now(3_800_000));
    assert!(silences(&mut correlator).len() == 2 && correlator.engine().watermark() > now(3_700_000).wall_ns);
}

#[test]
fn incidents_of_rules_that_are_gone_are_closed() {
    let only_detections = RULES.split("---\ntitle: Three of A").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let removed = |correlator: &mut Correlator| {
        let told = correlator.take_told();
        told.iter().filter(|told| matches!(told, Report::Removed(_))).count()
    };
    let open_now = || {
        let incidents = Store::open_beside(folder.path()).unwrap().incidents().unwrap();
        incidents.iter().filter(|it| it.closed_ns.is_none()).count()
    };
    let mut correlator = open(Some(folder.path()), 0);
    abc(&mut correlator, 1, 100);
    correlator.sync().unwrap();
    assert!(removed(&mut correlator) == 0 && open_now() == 2);
    correlator.reload(automaton(only_detections), &mut || {}).unwrap();
    correlator.sync().unwrap();
    assert_eq!((removed(&mut correlator), open_now(), correlator.counts().removed), (2, 0, 2));
    drop(correlator);
    // The same over a restart.
    let mut correlator = open(Some(folder.path()), 3000);
    abc(&mut correlator, 4, 30_000);
    correlator.sync().unwrap();
    drop(correlator);
    assert_eq!(open_now(), 2);
    let mut correlator =
        Correlator::open(automaton(only_detections), settings(), Some(folder.path()), now(33_000)).unwrap();
    correlator.sync().unwrap();
    assert_eq!((removed(&mut correlator), open_now()), (2, 0));
}

#[test]
fn late_events_outlive_a_store_that_can_t_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut correlator = open(Some(folder.path()), 0);
    for sensor in 0..2 {
        correlator.beat(sensor, &beat(0, 60_000), now(60_001));
    }
    correlator.tick(now(60_050));
    for (number, kind) in ["a", "b", "c"].into_iter().enumerate() {
        let event = event(1, number as u64 + 1, 100 + number as i64, kind);
        correlator.alarm(0, event.clone(), event.mark.time_ns, now(60_060));
    }
    let other = rusqlite::Connection::open(folder.path().join("ringtap-correlate.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(correlator.sync().is_err());
    assert_eq!((correlator.counts().judged_again, opened(&mut correlator).len()), (0, 0));
    other.execute_batch("ROLLBACK").unwrap();
    correlator.sync().unwrap();
    assert_eq!((correlator.counts().judged_again, opened(&mut correlator).len()), (3, 2));
}

/// So that a key has room for four events.
fn with_small_keys(folder: Option<&Path>) -> Correlator {
    let mut set = RuleSet::new();
    set.add("test", RULES);
    let rules = Arc::new(set.compile(Limits { waiting: 4, ..Limits::default() }).0);
    Correlator::open(rules, settings(), folder, now(0)).unwrap()
}

/// Of somebody without a key.
fn stranger(ms: i64, value: usize) -> Event {
    let line = format!(r#"{{"time":{},"kind":"a","user":"alice","value":"s{value}"}}"#, START + ms * MS);
    Parser::new(Wanted::Json, "other").event(line.as_bytes()).unwrap()
}

#[test]
fn who_has_no_key_blinds_no_key_of_a_rule() {
    let mut correlator = with_small_keys(None);
    for (value, ms) in [60_000, 60_000, 60_000, 60_000, 59_000, 59_000].into_iter().enumerate() {
        correlator.event(stranger(ms, value), Way::Stream, now(0).wall_ns);
    }
    assert_eq!((correlator.counts().no_room, correlator.engine().counts().forced), (2, 0));
}

#[test]
fn what_is_overtaken_is_judged_again_once_its_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    for is_restarted in [false, true] {
        let folder = folder.path().join(is_restarted.to_string());
        let mut correlator = with_small_keys(Some(&folder));
        // All in the past, so that each is taken: the fifth lets time pass for alice, up to 3000.
        (0..5).for_each(|value| correlator.event(stranger(3000, value), Way::Stream, now(3000).wall_ns));
        assert_eq!(correlator.engine().counts().forced, 4, "four rules look at A");
        abc(&mut correlator, 1, 500);
        assert!(opened(&mut correlator).is_empty() && correlator.counts().sensors[&1].late == 3);
        correlator.sync().unwrap();
        assert!(opened(&mut correlator).is_empty());
        if is_restarted {
            drop(correlator);
            correlator = with_small_keys(Some(&folder));
        }
        for sensor in 0..2 {
            correlator.beat(sensor, &beat([3, 0][sensor], 9000), now(9001));
        }
        correlator.tick(now(30_000));
        correlator.sync().unwrap();
        let names: Vec<String> =
            opened(&mut correlator).into_iter().filter(|(_, found)| found.late).map(|(name, _)| name).collect();
        assert!(names.contains(&"together".into()) && names.contains(&"ordered".into()), "{is_restarted}: {names:?}");
    }
}

#[test]
fn a_flood_without_key_and_a_copy_move_nothing() {
    let settings = Settings { waiting: 100, ..settings() };
    let mut correlator = Correlator::open(automaton(RULES), settings, None, now(0)).unwrap();
    let alarm = event(1, 1, 1, "a");
    correlator.alarm(0, alarm.clone(), alarm.mark.time_ns, now(2));
    for value in 0..1000 {
        correlator.event(stranger(60_000, value), Way::Stream, now(2).wall_ns);
    }
    assert!(correlator.counts().no_room > 900 && correlator.engine().waiting() < 60);
    for sequence in 2..100 {
        let alarm = event(1, sequence, 2, "a");
        correlator.alarm(0, alarm.clone(), alarm.mark.time_ns, now(3));
    }
    let pushed = correlator.counts().pushed;
    for _ in 0..100 {
        correlator.alarm(0, alarm.clone(), alarm.mark.time_ns, now(4));
    }
    assert_eq!(correlator.counts().pushed, pushed, "copies");
    assert!(pushed > 0 && correlator.engine().watermark() <= now(4).wall_ns);
}

#[test]
fn who_has_no_key_takes_no_sensor_s_name() {
    let number = Parser::new(Wanted::Json, "north.1").event(br#"{"time":1}"#).unwrap().mark.identity.sensor;
    let settings = Settings { sensors: vec![Registered { number, name: "north.1".into() }], ..settings() };
    let mut correlator = Correlator::open(automaton(RULES), settings, None, now(0)).unwrap();
    for name in ["north.1", "north.2"] {
        let line = format!(r#"{{"time":{START},"kind":"a","user":"u","sensor":"{name}"}}"#);
        let event = Parser::new(Wanted::Json, "other").event(line.as_bytes()).unwrap();
        correlator.event(event, Way::Stream, now(1).wall_ns);
    }
    let counts = correlator.counts();
    assert_eq!((counts.unsealed, counts.sensors[&number].events, correlator.engine().counts().matched), (1, 0, 1));
}
