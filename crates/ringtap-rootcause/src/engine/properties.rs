//! What holds for any alarms: none is dropped, none is in two incidents, none is held for ever, and a restart changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::tests::{subject, topology};
use super::*;

const MS: u64 = 1_000_000;

/// Milliseconds since the last, which alarm, and whether it is raised.
type Step = (u64, usize, bool);

fn alarms() -> Vec<Subject> {
    let nodes = ["core", "d1", "d2", "a1", "a2", "a3", "stranger"];
    let mut alarms = Vec::new();
    for node in nodes {
        for port in 1..5 {
            alarms.push(subject(node, "linkDown", &port.to_string()));
        }
        for peer in 1..7 {
            alarms.push(subject(node, "bgpBackwardTransition", &format!("10.0.0.{peer}")));
            alarms.push(subject(node, "ospfNbrStateChange", &format!("10.0.0.{peer}.0")));
        }
        alarms.push(subject(node, "entStateOperDisabled", "9"));
        alarms.push(subject(node, "coldStart", ""));
        alarms.push(subject(node, "risingAlarm", "1"));
    }
    alarms
}

fn step(engine: &mut Engine, now: &mut u64, (after_ms, alarm, raises): Step, subjects: &[Subject]) {
    *now += after_ms * MS;
    let subject = &subjects[alarm % subjects.len()];
    let id = (alarm % subjects.len()) as u64 + 1;
    if raises {
        engine.raise(id, subject, subject.condition == "coldStart", *now);
    } else {
        engine.clear(id, *now);
    }
}

/// Every alarm is held or in the one incident it names; every member of an incident is an alarm that names it.
fn check(engine: &Engine) {
    let mut members = BTreeMap::new();
    for it in engine.incidents().values() {
        assert!(!it.members.is_empty(), "{it:?}");
        for member in &it.members {
            assert_eq!(members.insert(*member, it.id), None, "{member} is in two incidents");
        }
    }
    for (id, alarm) in &engine.state.alarms {
        assert_eq!(alarm.incident, members.remove(id), "alarm {id}");
        let is_held = engine.held.contains(&(deadline(alarm, &engine.settings), *id));
        assert_eq!(is_held, alarm.incident.is_none(), "alarm {id}");
    }
    assert!(members.is_empty(), "members that are no alarms: {members:?}");
    let late = engine.held.first().is_some_and(|&(at, _)| at <= engine.state.now_ns);
    assert!(!late, "held for too long");
    let again = Engine::restore(topology(), engine.settings.clone(), engine.state.clone());
    assert!(engine.index == again.index, "{:?} is not {:?}", engine.index, again.index);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_dropped_or_doubled_and_a_restart_changes_nothing(
        steps in proptest::collection::vec((0u64..4000, 0usize..150, proptest::bool::weighted(0.7)), 1..60),
        cut in 0usize..60,
    ) {
        let subjects = alarms();
        let mut engine = Engine::new(topology(), Settings::default());
        let mut other = Engine::new(topology(), Settings::default());
        let (mut now, mut other_now) = (1000 * MS, 1000 * MS);
        for (at, &one) in steps.iter().enumerate() {
            step(&mut engine, &mut now, one, &subjects);
            check(&engine);
            if at == cut {
                let text = serde_json::to_string(other.state()).unwrap();
                let told = other.take_outputs();
                other = Engine::restore(topology(), Settings::default(), serde_json::from_str(&text).unwrap());
                other.outputs = told;
            }
            step(&mut other, &mut other_now, one, &subjects);
        }
        engine.advance(now + 10_000 * MS);
        other.advance(now + 10_000 * MS);
        check(&engine);
        prop_assert_eq!(engine.counts().held, 0);
        prop_assert_eq!(engine.state(), other.state());
        prop_assert_eq!(engine.take_outputs(), other.take_outputs());
    }
}
