//! The engine against `ringtap_sigma::Run`, which is held against an oracle that applies the definition; arrival in any
//! order within the disorder bound; and what is forgotten when memory ends.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ringtap_sigma::Run;

use super::*;
use crate::samples::{self, RULES, automaton};

const SECOND: i64 = 1_000_000_000;
const DISORDER: i64 = 5 * SECOND;

fn event(time_ns: i64, kind: &str, user: &str, value: u8, sequence: u64) -> Event {
    let mut event = samples::event(time_ns, kind, user, value);
    event.mark.identity.sequence = sequence;
    event.mark.time_ns = time_ns;
    event
}

/// What is told of events that come in this order, as text.
fn told(automaton: &Arc<Automaton>, events: &[Event], each: bool) -> Vec<String> {
    let mut engine = Engine::new(Arc::clone(automaton), Bounds::default(), false);
    let (mut findings, mut greatest) = (Vec::new(), i64::MIN);
    for event in events {
        assert_eq!(engine.event(event), Taken::InTime);
        greatest = greatest.max(event.mark.time_ns);
        if each {
            engine.advance(greatest - DISORDER - 1, &mut findings);
        }
    }
    engine.advance(i64::MAX, &mut findings);
    assert_eq!((engine.keys(), engine.waiting(), engine.bytes()), (0, 0, 0));
    findings.iter().map(|finding| text(automaton, finding)).collect()
}

fn text(automaton: &Automaton, finding: &Finding) -> String {
    match finding {
        Finding::Incident(output) => {
            let mut text = String::new();
            output.write_json(automaton, &mut text);
            text
        }
        other => format!("{other:?}"),
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![Just(0), Just(1), Just(SECOND), Just(4 * SECOND), Just(10 * SECOND), Just(10 * SECOND + 1)];
    let kind = prop_oneof![Just("a"), Just("b"), Just("c")];
    proptest::collection::vec((gap, kind, 0..2u8, 0..4u8), 0..40).prop_map(|list| {
        let mut time = 1_700_000_000 * SECOND;
        let event = |(sequence, (gap, kind, user, value)): (usize, (i64, &str, u8, u8))| {
            time += gap;
            event(time, kind, ["alice", "bob"][usize::from(user)], value, sequence as u64)
        };
        list.into_iter().enumerate().map(event).collect()
    })
}

/// Events with the order of arrival: each is late by less than the disorder.
fn shuffled() -> impl Strategy<Value = (Vec<Event>, Vec<Event>)> {
    events().prop_flat_map(|events| {
        let delays = proptest::collection::vec(0..=DISORDER, events.len());
        delays.prop_map(move |delays| {
            let mut order: Vec<(i64, Event)> =
                delays.iter().zip(&events).map(|(delay, event)| (event.mark.time_ns + delay, event.clone())).collect();
            order.sort_by_key(|(arrival, _)| *arrival);
            (events.clone(), order.into_iter().map(|(_, event)| event).collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_arrival_within_the_disorder_gives_the_same_bytes((sorted, arrived) in shuffled(), each in any::<bool>()) {
        let automaton = automaton(RULES);
        let expected = told(&automaton, &sorted, true);
        prop_assert_eq!(&told(&automaton, &arrived, each), &expected);
        // The same as the model of hosts tells, which has its own order of keys.
        let mut run = Run::new((*automaton).clone());
        let (mut out, scope) = (Vec::new(), automaton.scope(|_| true));
        let columns = crate::fields::Columns::new(automaton.fields(), crate::event::Format::Json);
        for event in &sorted {
            columns.with_row(event, |row| {
                run.event(&scope, row, event.mark, &mut out);
            });
        }
        run.advance(i64::MAX, &mut out);
        let model: BTreeSet<String> = out
            .iter()
            .filter(|output| matches!(output, Output::Opened(_) | Output::Extended(_) | Output::Closed(_)))
            .map(|output| text(&automaton, &Finding::Incident(output.clone())))
            .collect();
        prop_assert_eq!(expected.iter().cloned().collect::<BTreeSet<_>>(), model);
    }

    #[test]
    fn what_is_told_early_is_told_again((_, arrived) in shuffled(), goes_on in any::<bool>()) {
        let automaton = automaton(RULES);
        let mut engine = Engine::new(Arc::clone(&automaton), Bounds::default(), true);
        let (mut early, mut findings, mut greatest) = (Vec::new(), Vec::new(), i64::MIN);
        for event in &arrived {
            engine.event(event);
            early.extend(engine.take_provisional());
            greatest = greatest.max(event.mark.time_ns);
            if goes_on {
                engine.advance(greatest - DISORDER - 1, &mut findings);
            }
        }
        engine.advance(i64::MAX, &mut findings);
        for provisional in early {
            let is_open_then = |finding: &Finding| matches!(finding, Finding::Incident(Output::Opened(it))
                if it.rule == provisional.rule && it.key[..] == provisional.key[..] && it.at_ns <= provisional.certain.at_ns);
            prop_assert!(findings.iter().any(is_open_then), "{:?}", provisional);
        }
    }
}

/// Wherever the watermark is: a chain is told with the event that completes its last stage, once.
#[test]
fn a_chain_is_told_at_its_last_stages_event() {
    let automaton = automaton(RULES);
    let chain = automaton.rules().iter().find(|rule| rule.head.name == "chain").unwrap().number;
    let start = 1_700_000_000 * SECOND;
    let told = |watermarks: [Option<i64>; 6], last: bool| {
        let mut engine = Engine::new(Arc::clone(&automaton), Bounds::default(), true);
        let (mut findings, mut told) = (Vec::new(), Vec::new());
        let events = [("a", 0), ("a", 0), ("a", 0), ("b", 1), if last { ("b", 2) } else { ("b", 1) }, ("b", 3)];
        for (number, (kind, value)) in events.into_iter().enumerate() {
            let at = number as i64 * SECOND;
            engine.event(&event(start + at, kind, "alice", value, number as u64));
            let of = engine.take_provisional().into_iter().filter(|it| it.rule == chain);
            told.extend(of.map(|it| (number, it.certain.at_ns - start, it.certain.start_ns - start)));
            if let Some(watermark) = watermarks[number] {
                engine.advance(start + watermark, &mut findings);
            }
        }
        engine.advance(i64::MAX, &mut findings);
        let opened = findings.iter().filter_map(|finding| match finding {
            Finding::Incident(Output::Opened(it)) if it.rule == chain => Some((it.at_ns - start, it.start_ns - start)),
            _ => None,
        });
        (told, opened.collect::<Vec<_>>())
    };
    let found = (4 * SECOND, 2 * SECOND);
    let (early, opened) = (vec![(4, found.0, found.1)], vec![found]);
    for watermarks in [
        [None; 6],
        // Behind the first stage; in the middle of it; just before the last event; behind all of them.
        [None, None, None, Some(2 * SECOND), None, None],
        [None, Some(SECOND), None, None, None, None],
        [None, None, None, Some(4 * SECOND - 1), None, None],
        [None, None, None, None, Some(4 * SECOND), None],
    ] {
        assert_eq!(told(watermarks, true), (early.clone(), opened.clone()), "{watermarks:?}");
    }
    assert_eq!(told([None; 6], false).0, [(5, 5 * SECOND, 2 * SECOND)]);
}

#[test]
fn memory_ends_and_the_nearest_to_its_expiry_goes() {
    let automaton = automaton(RULES);
    let mut engine = Engine::new(Arc::clone(&automaton), Bounds { bytes: 1 << 20 }, false);
    let mut findings = Vec::new();
    let start = 1_700_000_000 * SECOND;
    for number in 0..20_000 {
        engine.event(&event(start + number, "a", &format!("user{number}"), 0, 0));
        engine.advance(start + number - 10, &mut findings);
        assert!(engine.bytes() <= (1 << 20) + 4096, "{}", engine.bytes());
    }
    assert!(engine.counts().forgotten.iter().sum::<u64>() > 10_000);
    let forgotten = engine.take_forgotten();
    assert!(!forgotten.is_empty() && forgotten.len() <= 16 && forgotten[0].members.len() <= 1);
    // The newest keys are still there.
    let names: BTreeSet<&str> =
        engine.states().map(|(_, key, _)| ringtap_sigma::key_parts(key).next().unwrap()).collect();
    assert!(names.contains("user19999") && !names.contains("user0"), "{}", names.len());
}

#[test]
fn late_and_impossible_events_change_nothing() {
    let automaton = automaton(RULES);
    let mut engine = Engine::new(automaton, Bounds::default(), false);
    let mut findings = Vec::new();
    engine.advance(100, &mut findings);
    assert_eq!(engine.event(&event(100, "a", "alice", 0, 0)), Taken::Late);
    assert_eq!(engine.event(&event(i64::MIN, "a", "alice", 0, 0)), Taken::Late);
    assert!(engine.counts().late.iter().sum::<u64>() > 0 && engine.keys() == 0 && findings.is_empty());
    // Beyond what any clock says: the state machine refuses it, and nothing is left behind.
    engine.event(&event(i64::MAX, "a", "alice", 0, 0));
    engine.advance(i64::MAX, &mut findings);
    assert_eq!(engine.keys(), 0);
}

#[test]
fn forgetting_looks_at_few_keys_also_when_all_of_them_wait() {
    let automaton = automaton(RULES);
    let mut engine = Engine::new(Arc::clone(&automaton), Bounds { bytes: 1 << 20 }, false);
    let mut findings = Vec::new();
    let start = 1_700_000_000 * SECOND;
    for number in 0..10_000 {
        engine.event(&event(start + number, "a", &format!("user{number}"), 0, 0));
        // Time goes on, and passes none of them.
        engine.advance(start - 20_000 + number, &mut findings);
    }
    let forgotten = engine.counts().forgotten.iter().sum::<u64>();
    assert!(forgotten > 10_000 && engine.waiting() > 1000, "{forgotten}");
    // Each once when it is put into its place, and once when it goes.
    assert!(engine.looked_at() <= 3 * forgotten + 20_000, "{} for {forgotten}", engine.looked_at());
}
