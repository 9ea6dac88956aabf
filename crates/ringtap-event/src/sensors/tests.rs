//! Promises, gaps, restarts, two with one id, silence, the future; and that nothing takes a promise back.

use proptest::prelude::*;

use super::*;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;
const START: i64 = 1_700_000_000 * SECOND;
const TIMING: Timing = Timing { gap_wait_ns: 20 * MS, silence_ns: 5 * SECOND };

fn at(ms: i64) -> Now {
    Now { wall_ns: START + ms * MS, monotonic_ns: ms * MS }
}

fn beat(epoch: u64, last: u64, ms: i64) -> Beat {
    Beat { epoch, last, h_ns: Some(START + ms * MS), built_ns: START + ms * MS, error_us: Some(100) }
}

fn alarm(sensors: &mut Sensors, sensor: usize, epoch: u64, sequence: u64, ms: i64) -> Arrival {
    sensors.alarm(sensor, &numbered(epoch, sequence, START + ms * MS), at(ms + 1))
}

fn numbered(epoch: u64, sequence: u64, time_ns: i64) -> Numbered {
    Numbered { epoch, sequence, time_ns, built_ns: time_ns, error_us: Some(100) }
}

fn whats(sensors: &mut Sensors) -> Vec<What> {
    sensors.take_notices().into_iter().map(|notice| notice.what).collect()
}

fn ms(least: Least) -> Option<i64> {
    match least {
        Least::At(h) => Some((h - START) / MS),
        _ => None,
    }
}

#[test]
fn the_least_promise_counts_once_all_is_in() {
    let mut sensors = Sensors::new(2, TIMING, at(0));
    sensors.beat(0, &beat(1, 0, 100), at(101));
    sensors.beat(1, &beat(7, 0, 90), at(102));
    // Alarms that were sent before we came may still be on their way.
    sensors.tick(at(121));
    assert_eq!(sensors.least(), Least::Open);
    sensors.tick(at(122));
    assert_eq!(ms(sensors.least()), Some(90));
    // Two alarms are on their way behind a heartbeat.
    sensors.beat(1, &beat(7, 2, 190), at(191));
    sensors.beat(0, &beat(1, 0, 200), at(201));
    assert_eq!((ms(sensors.least()), sensors.due_ns()), (Some(90), Some(211 * MS)));
    assert_eq!(alarm(&mut sensors, 1, 7, 2, 150), Arrival::New);
    assert_eq!(ms(sensors.least()), Some(90));
    assert_eq!(alarm(&mut sensors, 1, 7, 1, 140), Arrival::New);
    assert_eq!(ms(sensors.least()), Some(190));
    assert_eq!(alarm(&mut sensors, 1, 7, 1, 140), Arrival::Duplicate);
    let counts: Vec<SensorState> = sensors.counts().collect();
    assert_eq!((counts[1].duplicates, counts[1].lost, counts[1].beats), (1, 0, 2));
}

#[test]
fn what_does_not_come_is_lost_and_may_come_after_all() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    sensors.beat(0, &beat(1, 0, 0), at(1));
    sensors.take_notices();
    alarm(&mut sensors, 0, 1, 2, 50);
    sensors.beat(0, &beat(1, 4, 100), at(101));
    sensors.tick(at(120));
    assert_eq!(ms(sensors.least()), Some(0));
    sensors.tick(at(121));
    assert_eq!(ms(sensors.least()), Some(100));
    let missing = What::Missing { count: 3, from_ns: START + 1, to_ns: START + 101 * MS };
    assert_eq!(whats(&mut sensors), [missing]);
    assert_eq!(alarm(&mut sensors, 0, 1, 4, 60), Arrival::New);
    assert_eq!(sensors.counts().next().unwrap().lost, 2);
    assert_eq!(alarm(&mut sensors, 0, 1, 4, 60), Arrival::Duplicate);
}

#[test]
fn who_comes_in_the_middle_has_lost_nothing() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    alarm(&mut sensors, 0, 1, 1001, 5);
    sensors.beat(0, &beat(1, 1002, 10), at(11));
    assert_eq!(sensors.least(), Least::Open, "1002 is on its way");
    alarm(&mut sensors, 0, 1, 1002, 8);
    sensors.tick(at(31));
    assert_eq!((ms(sensors.least()), sensors.counts().next().unwrap().lost), (Some(10), 0));
    // What was noted from the log was here before.
    let mut again = Sensors::new(1, TIMING, at(20));
    [1001, 1002].into_iter().for_each(|sequence| again.note(0, 1, Some(sequence), START + 7 * MS));
    assert_eq!(alarm(&mut again, 0, 1, 1002, 8), Arrival::Duplicate);
    again.beat(0, &beat(1, 1004, 30), at(31));
    again.tick(at(60));
    assert_eq!((ms(again.least()), again.counts().next().unwrap().lost), (Some(30), 2), "sent while nobody listened");
}

#[test]
fn what_was_seen_by_nobody_while_both_were_started_again_may_be_missing() {
    let mut again = Sensors::new(1, TIMING, at(0));
    again.note(0, 1, Some(1), START);
    again.go_on_from(START + 50 * MS);
    again.beat(0, &beat(2, 0, 400), at(401));
    let missing = What::Missing { count: 0, from_ns: START + 50 * MS + 1, to_ns: START + 400 * MS };
    assert_eq!(whats(&mut again), [missing, What::Began { epoch: 2 }]);
    // Who is heard for the first time ever lacks nothing.
    let mut first = Sensors::new(1, TIMING, at(0));
    first.beat(0, &beat(2, 0, 400), at(401));
    assert_eq!(whats(&mut first), [What::Began { epoch: 2 }]);
}

#[test]
fn a_sensor_that_starts_again_begins_with_its_first_sequence() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    sensors.beat(0, &beat(1, 0, 100), at(101));
    sensors.tick(at(200));
    sensors.take_notices();
    sensors.beat(0, &beat(2, 1, 900), at(901));
    sensors.tick(at(1000));
    let blind = What::Missing { count: 0, from_ns: START + 100 * MS + 1, to_ns: START + 900 * MS };
    let lost = What::Missing { count: 1, from_ns: START + 100 * MS + 1, to_ns: START + 901 * MS };
    assert_eq!(whats(&mut sensors), [blind, What::Began { epoch: 2 }, lost]);
    assert_eq!(ms(sensors.least()), Some(900));
    // What was overtaken by the new start changes nothing, nor does a copy of it.
    sensors.beat(0, &beat(1, 0, 150), at(905));
    sensors.beat(0, &beat(1, 0, 150), at(9000));
    // Nor does one that somebody held back until now, also when it is silent.
    sensors.tick(at(9050));
    assert!(matches!(whats(&mut sensors)[..], [What::SilentSince { .. }]));
    sensors.beat(0, &beat(1, 0, 160), at(9100));
    assert_eq!((sensors.least(), whats(&mut sensors)), (Least::Nobody, vec![]));
}

#[test]
fn two_with_one_id_are_told_and_both_hold_the_watermark() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    for step in 0..30 {
        sensors.beat(0, &beat(1, 0, step * 100), at(step * 100 + 1));
        sensors.beat(0, &beat(2, 0, step * 100 - 40), at(step * 100 + 2));
    }
    assert_eq!(whats(&mut sensors).iter().filter(|what| **what == What::Twice).count(), 1);
    assert_eq!(ms(sensors.least()), Some(2860));
    assert!(sensors.counts().next().unwrap().is_twice);
    // The second one ends.
    for step in 30..100 {
        sensors.beat(0, &beat(1, 0, step * 100), at(step * 100 + 1));
        sensors.tick(at(step * 100 + 50));
    }
    assert_eq!((ms(sensors.least()), sensors.counts().next().unwrap().is_twice), (Some(9900), false));
}

#[test]
fn a_silent_sensor_is_left_out_and_taken_in_again() {
    let mut sensors = Sensors::new(2, TIMING, at(0));
    sensors.beat(0, &beat(1, 0, 100), at(101));
    sensors.beat(1, &beat(1, 0, 100), at(101));
    sensors.take_notices();
    for step in 2..60 {
        sensors.beat(0, &beat(1, 0, step * 100), at(step * 100 + 1));
        sensors.tick(at(step * 100 + 2));
    }
    assert_eq!(whats(&mut sensors), [What::SilentSince { h_ns: Some(START + 100 * MS) }]);
    assert!(ms(sensors.least()) == Some(5900) && sensors.are_blind(START + 101 * MS));
    // Its alarms alone don't bring it back, and neither does a copy of what it said.
    alarm(&mut sensors, 1, 1, 1, 200);
    sensors.beat(1, &beat(1, 0, 100), at(5950));
    assert_eq!(ms(sensors.least()), Some(5900));
    sensors.beat(1, &beat(1, 1, 5800), at(5960));
    let missing = What::Missing { count: 0, from_ns: START + 100 * MS + 1, to_ns: START + 5800 * MS };
    assert_eq!(whats(&mut sensors), [missing, What::Back { h_ns: Some(START + 5800 * MS) }]);
    assert!(ms(sensors.least()) == Some(5800) && !sensors.are_blind(i64::MAX));
    sensors.tick(at(60_000));
    assert_eq!(sensors.least(), Least::Nobody);
}

#[test]
fn copies_of_an_epoch_that_nobody_remembers_are_refused() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    sensors.beat(0, &beat(9, 5, 50_000), at(50_001));
    sensors.tick(at(50_050));
    sensors.take_notices();
    assert_eq!(alarm(&mut sensors, 0, 8, 1, 40_000), Arrival::Old);
    sensors.beat(0, &beat(8, 1, 41_000), at(50_100));
    assert_eq!(
        (whats(&mut sensors), ms(sensors.least()), sensors.counts().next().unwrap().old),
        (vec![], Some(50_000), 2)
    );
    // One that goes on now is no copy.
    sensors.beat(0, &beat(8, 1, 50_200), at(50_201));
    assert_eq!(sensors.counts().next().unwrap().old, 2);
}

#[test]
fn only_the_future_brings_into_quarantine_never_lateness() {
    let mut sensors = Sensors::new(2, TIMING, at(0));
    sensors.beat(0, &beat(1, 0, 0), at(1));
    sensors.beat(1, &beat(1, 0, 0), at(1));
    sensors.take_notices();
    // Flooded: what it tells of is old, and it is heard seldom.
    for step in 1..100_i64 {
        sensors.beat(0, &beat(1, step as u64, step * 10), at(step * 4000));
        sensors.beat(1, &beat(1, 0, step * 4000), at(step * 4000));
        assert_eq!(alarm(&mut sensors, 0, 1, step as u64 * 2, step * 10), Arrival::New);
        sensors.tick(at(step * 4000 + 500));
    }
    let quarantined = |what: &What| matches!(what, What::Quarantined { .. } | What::SilentSince { .. });
    assert!(!whats(&mut sensors).iter().any(quarantined));
    // Error 0.1 ms and a second are allowed.
    let now = at(400_000);
    let limit = now.wall_ns + SECOND + 100_000;
    assert_eq!(sensors.alarm(0, &numbered(1, 1001, limit), now), Arrival::New);
    assert_eq!(sensors.alarm(0, &numbered(1, 1003, limit + 1), now), Arrival::Future);
    assert_eq!(whats(&mut sensors).last(), Some(&What::Quarantined { ahead_ns: SECOND + 100_001 }));
    assert_eq!(ms(sensors.least()), Some(396_000), "the other one alone");
    sensors.beat(0, &beat(1, 1001, 400_000), at(400_001));
    assert_eq!(whats(&mut sensors).last(), Some(&What::Released));
}

#[test]
fn nobody_is_silent_whose_words_wait() {
    let mut sensors = Sensors::new(2, TIMING, at(0));
    (0..2).for_each(|sensor| sensors.beat(sensor, &beat(1, 0, 100), at(101)));
    sensors.take_notices();
    // Whoever judges was held up for six seconds.
    let mut looks = 0;
    let mut waits = || {
        looks += 1;
        true
    };
    sensors.tick_unless(at(5000), &mut waits);
    sensors.tick_unless(at(6000), &mut waits);
    assert_eq!((whats(&mut sensors), looks), (vec![], 2), "looked at for both, once it is time");
    sensors.beat(0, &beat(1, 0, 5900), at(6001));
    sensors.tick_unless(at(6002), || false);
    let silent = |ms: i64| vec![What::SilentSince { h_ns: Some(START + ms * MS) }];
    assert_eq!(whats(&mut sensors), silent(100), "of the other one nothing waited");
    // A flood is no way to hold time back.
    sensors.tick_unless(at(16_000), || true);
    assert_eq!(whats(&mut sensors), []);
    sensors.tick_unless(at(16_001), || true);
    assert_eq!(whats(&mut sensors), silent(5900));
}

/// What a sensor may say, in any order and any number of times.
fn said() -> impl Strategy<Value = Vec<(usize, u8, u64, u64, i64, i64)>> {
    let one = (0..2usize, 0..4u8, 1..4u64, 0..30u64, 0..20_000i64, 0..3000i64);
    proptest::collection::vec(one, 0..200)
}

#[test]
fn after_a_restart_a_copy_of_an_epoch_before_stalls_nothing() {
    let mut sensors = Sensors::new(1, TIMING, at(10_000));
    sensors.note(0, 5, None, START + 1000 * MS);
    sensors.beat(0, &beat(4, 3, 900), at(10_000));
    assert_eq!(sensors.counts().next().unwrap().old, 1);
    assert_eq!(whats(&mut sensors), []);
    sensors.beat(0, &beat(5, 3, 10_001), at(10_002));
    // Sent between the log's time and the start of the epoch.
    sensors.beat(0, &beat(4, 3, 1100), at(10_003));
    sensors.beat(0, &beat(5, 3, 10_100), at(10_101));
    sensors.tick(at(10_200));
    assert_eq!((ms(sensors.least()), sensors.counts().next().unwrap().old), (Some(10_100), 2));
    assert_eq!(whats(&mut sensors), [What::Began { epoch: 5 }]);
}

#[test]
fn the_end_of_a_file_and_copies_of_another_time_are_no_reason_for_quarantine() {
    let mut sensors = Sensors::new(1, TIMING, at(0));
    sensors.beat(0, &beat(5, 0, 100), at(101));
    sensors.tick(at(150));
    sensors.beat(0, &Beat { h_ns: Some(i64::MAX), ..beat(5, 0, 200) }, at(201));
    assert_eq!(ms(sensors.least()), Some(200));
    // The sensor's clock was ahead when it began before.
    sensors.beat(0, &beat(4, 0, 900_000), at(300));
    assert_eq!(alarm_of_the_future(&mut sensors, 4), Arrival::Old);
    let state = sensors.counts().next().unwrap();
    assert_eq!((state.is_quarantined, state.old, ms(sensors.least())), (false, 2, Some(200)));
    assert_eq!(alarm_of_the_future(&mut sensors, 5), Arrival::Future);
    assert!(sensors.counts().next().unwrap().is_quarantined);
}

fn alarm_of_the_future(sensors: &mut Sensors, epoch: u64) -> Arrival {
    sensors.alarm(0, &numbered(epoch, 1, START + 900_000 * MS), at(300))
}

#[test]
fn a_long_wait_for_gaps_ends() {
    let timing = Timing { gap_wait_ns: 10 * SECOND, silence_ns: 60 * SECOND };
    let mut sensors = Sensors::new(1, timing, at(0));
    sensors.beat(0, &beat(1, 0, 0), at(1));
    // The first alarm never comes.
    for step in 1..300 {
        sensors.beat(0, &beat(1, 1, step * 100), at(step * 100 + 1));
        sensors.tick(at(step * 100 + 2));
    }
    let behind = 29_900 - ms(sensors.least()).unwrap_or(i64::MIN / 2);
    assert!(behind <= 10_000, "{behind} ms");
}

proptest! {
    /// Whatever comes: nothing panics, memory is bounded, and what was taken once is not taken again.
    #[test]
    fn anything_at_all(said in said()) {
        let mut sensors = Sensors::new(2, TIMING, at(0));
        let (mut now, mut taken) = (0, std::collections::HashSet::new());
        for (sensor, kind, epoch, number, ms, later) in said {
            now += later;
            match kind {
                0 => sensors.beat(sensor, &beat(epoch, number, ms), at(now)),
                1 => sensors.tick(at(now)),
                _ => {
                    let arrival = sensors.alarm(sensor, &numbered(epoch, number, START + ms * MS), at(now));
                    let is_new = taken.insert((sensor, epoch, number));
                    match arrival {
                        Arrival::New => prop_assert!(is_new),
                        Arrival::Duplicate => prop_assert!(!is_new),
                        Arrival::Future | Arrival::Old => drop(is_new && taken.remove(&(sensor, epoch, number))),
                    }
                }
            }
            prop_assert!(sensors.due_ns().is_none_or(|due| due > now * MS) || kind != 1);
        }
    }

    /// An alarm that comes within the wait is never behind the least promise, in whatever order things come.
    #[test]
    fn no_promise_is_broken(
        gaps in proptest::collection::vec((0..2usize, 0..40i64, 0..19i64), 1..60),
        delays in proptest::collection::vec(0..19i64, 60),
    ) {
        // What two sensors say: alarms, and a heartbeat each 50 ms.
        let mut sent: Vec<(i64, usize, Option<u64>, Beat)> = Vec::new();
        let mut time = [0, 0];
        let mut last = [0, 0];
        for ((sensor, gap, delay), other) in gaps.iter().zip(&delays) {
            let before = time[*sensor];
            time[*sensor] += gap;
            if before / 50 != time[*sensor] / 50 {
                let h = time[*sensor] / 50 * 50 - 1;
                sent.push((h + 1 + other, *sensor, None, beat(1, last[*sensor], h)));
            }
            last[*sensor] += 1;
            sent.push((time[*sensor] + delay, *sensor, Some(last[*sensor]), beat(1, 0, time[*sensor])));
        }
        sent.sort_by_key(|(arrives, ..)| *arrives);
        let mut sensors = Sensors::new(2, TIMING, at(0));
        let mut watermark = i64::MIN;
        for (arrives, sensor, sequence, beat) in sent {
            sensors.tick(at(arrives));
            if let Least::At(h) = sensors.least() {
                watermark = watermark.max(h);
            }
            match sequence {
                Some(sequence) => {
                    prop_assert!(beat.built_ns > watermark, "{} is behind", beat.built_ns);
                    let arrival = sensors.alarm(sensor, &numbered(1, sequence, beat.built_ns), at(arrives));
                    prop_assert_eq!(arrival, Arrival::New);
                }
                None => sensors.beat(sensor, &beat, at(arrives)),
            }
        }
        prop_assert_eq!(sensors.counts().map(|counts| counts.lost).sum::<u64>(), 0);
    }
}

#[test]
fn who_is_registered_while_others_go_on() {
    let mut sensors = Sensors::new(2, TIMING, at(0));
    (0..2).for_each(|sensor| sensors.beat(sensor, &beat(1, 0, 100), at(101)));
    sensors.tick(at(150));
    assert_eq!(ms(sensors.least()), Some(100));
    sensors.take_notices();
    // The first goes on alone: its numbers and promises stay, and nobody is said to be silent.
    sensors.keep(2, |place| place == 0, at(200));
    (1..50).for_each(|step| sensors.beat(0, &beat(1, 0, 200 * step), at(200 * step + 1)));
    sensors.tick(at(10_250));
    assert_eq!((ms(sensors.least()), whats(&mut sensors)), (Some(9800), vec![]));
    assert!(!sensors.are_blind(START + 10_000 * MS));
    // A new one is waited for until it is heard; from then on all count.
    sensors.keep(3, |place| place != 1, at(10_300));
    assert_eq!(sensors.least(), Least::Open);
    (10_310..10_400).for_each(|time| sensors.tick(at(time)));
    assert_eq!(whats(&mut sensors), [], "its silence begins when it is registered");
    sensors.beat(2, &beat(1, 0, 10_350), at(10_400));
    sensors.beat(0, &beat(1, 0, 10_390), at(10_401));
    sensors.tick(at(10_450));
    assert_eq!(ms(sensors.least()), Some(10_350));
    sensors.take_notices();
    // What the second saw while its words were refused is not known.
    sensors.keep(3, |_| true, at(10_500));
    assert_eq!(ms(sensors.least()), Some(10_350));
    sensors.beat(1, &beat(1, 4, 10_600), at(10_601));
    let missing = What::Missing { count: 0, from_ns: START + 100 * MS + 1, to_ns: START + 10_600 * MS };
    assert_eq!(whats(&mut sensors)[..2], [missing, What::Back { h_ns: Some(START + 10_600 * MS) }]);
}
