//! The step function against what the words mean: for generated events the oracle looks at every instant, takes all
//! events of the timespan that ends there, and asks by definition whether the condition holds.
//!
//! It shares no code with the crate: windows are lists that are searched from the beginning each time.

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use ringtap_sigma::{Automaton, Output, Row, Run, Value};
use support::{ByteHost, automaton, everything, lines, mark, values};

const RULES: &str = include_str!("vectors/kinds.yml");
/// All rules' timespan, ns.
const TIMESPAN: i64 = 10_000;

/// An event: the steps it matches, key, host, value.
#[derive(Clone, Debug)]
struct Event {
    time: i64,
    sensor: u64,
    sequence: u64,
    letters: Vec<&'static str>,
    user: u8,
    host: u8,
    value: u8,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let letters = proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_filter("some", |l| !l.is_empty());
    // Mostly one step an event. Steps of time that make boundaries, ties and T + 1 common.
    let letters = prop_oneof![4 => prop_oneof![Just(vec!["a"]), Just(vec!["b"]), Just(vec!["c"])], 1 => letters];
    let gap = prop_oneof![Just(0i64), Just(1), Just(999), Just(1000), Just(5000), Just(TIMESPAN), Just(TIMESPAN + 1)];
    let event = (gap, 0..3u64, letters, 0..2u8, 0..2u8, 0..4u8);
    proptest::collection::vec(event, 0..40).prop_map(|list| {
        let mut time = 1_000_000;
        let event = |(sequence, (gap, sensor, letters, user, host, value)): (usize, (i64, u64, _, u8, u8, u8))| {
            time += gap;
            Event { time, sensor, sequence: sequence as u64, letters, user, host, value }
        };
        list.into_iter().enumerate().map(event).collect()
    })
}

/// An event as the oracle's rule sees it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    time: i64,
    places: Vec<usize>,
    identity: (u64, u64),
    value: u8,
    host: u8,
}

/// What a rule means, said once more.
enum Meaning {
    Count(fn(usize) -> bool),
    Values(fn(usize) -> bool),
    Together(fn(&dyn Fn(usize) -> bool) -> bool),
    Ordered(usize),
}

impl Meaning {
    fn bounded(&self) -> bool {
        matches!(self, Self::Count(holds) | Self::Values(holds) if !holds(1000))
    }

    /// Whether it holds for the events of one timespan, which are in their order.
    fn holds(&self, window: &[Seen]) -> bool {
        match self {
            Self::Count(holds) => !window.is_empty() && holds(window.len()),
            Self::Values(holds) => {
                !window.is_empty() && holds(window.iter().map(|seen| seen.value).collect::<BTreeSet<_>>().len())
            }
            Self::Together(holds) => holds(&|place| window.iter().any(|seen| seen.places.contains(&place))),
            Self::Ordered(steps) => chain(window, 0, *steps),
        }
    }

    /// Whether the last event of the window completes a match.
    fn completes(&self, window: &[Seen]) -> bool {
        let Some((last, before)) = window.split_last() else { return false };
        match self {
            Self::Ordered(steps) => last.places.contains(&(steps - 1)) && chain(before, 0, steps - 1),
            _ => self.holds(window),
        }
    }
}

/// Whether there are different events for all steps from `place` on, one after the other.
fn chain(window: &[Seen], place: usize, steps: usize) -> bool {
    place >= steps
        || (0..window.len()).any(|at| window[at].places.contains(&place) && chain(&window[at + 1..], place + 1, steps))
}

/// The instants at which an incident opens and closes, and the events that are hits.
fn expected(meaning: &Meaning, seen: &[Seen]) -> (Vec<(bool, i64)>, Vec<Seen>) {
    let mut instants: BTreeSet<i64> = seen.iter().map(|seen| seen.time).collect();
    instants.extend(seen.iter().map(|seen| seen.time + TIMESPAN + 1));
    let (mut edges, mut hits, mut open) = (Vec::new(), Vec::new(), false);
    for at in instants {
        let inside = |seen: &&Seen| (at - TIMESPAN..=at).contains(&seen.time);
        let window: Vec<Seen> = seen.iter().filter(inside).cloned().collect();
        let holds = meaning.holds(&window);
        if holds != open {
            edges.push((holds, at));
            open = holds;
        }
        let now = window.iter().filter(|seen| seen.time == at).count();
        if meaning.bounded() {
            hits.extend(window.last().filter(|last| holds && last.time == at).cloned());
        } else {
            let ends = (window.len() - now..window.len()).filter(|end| meaning.completes(&window[..=*end]));
            hits.extend(ends.map(|end| window[end].clone()));
        }
    }
    (edges, hits)
}

/// The events that a rule over these detections sees under one key, in their order.
fn seen(events: &[Event], places: &[(&str, usize)], user: u8) -> Vec<Seen> {
    let mut seen: Vec<Seen> = events
        .iter()
        .filter(|event| event.user == user)
        .map(|event| {
            let mut filled: Vec<_> =
                places.iter().filter(|(l, _)| event.letters.contains(l)).map(|(_, place)| *place).collect();
            filled.sort_unstable();
            let (time, identity) = (event.time, (event.sensor, event.sequence));
            Seen { time, places: filled, identity, value: event.value, host: event.host }
        })
        .filter(|seen| !seen.places.is_empty())
        .collect();
    seen.sort_by_key(|seen| (seen.time, seen.places[0], seen.identity));
    seen
}

/// The step that each letter is.
type Steps = Vec<(&'static str, usize)>;

/// Rules of the file, what each means, and the step that each letter is.
fn meanings() -> Vec<(&'static str, Meaning, Steps)> {
    let one = || vec![("a", 0), ("b", 0)];
    let each = || vec![("a", 0), ("b", 1), ("c", 2)];
    vec![
        ("count", Meaning::Count(|n| n >= 3), one()),
        ("count_more", Meaning::Count(|n| n > 2), one()),
        ("count_exactly", Meaning::Count(|n| n == 2), one()),
        ("count_range", Meaning::Count(|n| (2..=3).contains(&n)), one()),
        ("count_few", Meaning::Count(|n| n < 3), one()),
        ("values", Meaning::Values(|n| n >= 3), one()),
        ("values_exactly", Meaning::Values(|n| n == 2), one()),
        ("together", Meaning::Together(|has| has(0) && has(1) && has(2)), each()),
        ("together_either", Meaning::Together(|has| has(0) && (has(1) || has(2))), each()),
        ("together_two", Meaning::Together(|has| (0..3).filter(|p| has(*p)).count() >= 2), each()),
        ("ordered", Meaning::Ordered(3), each()),
        ("ordered_either", Meaning::Ordered(2), vec![("a", 0), ("b", 0), ("c", 1)]),
        ("ordered_one", Meaning::Ordered(1), vec![("a", 0)]),
    ]
}

/// Gives the events in an order of arrival, the watermark as far as that order allows.
fn run(automaton: &Automaton, events: &[Event], arrival: &[usize], bytes: bool, lazy: bool) -> Vec<Output> {
    let (mut whole, mut host) = (Run::new(automaton.clone()), ByteHost::new(automaton));
    let (scope, mut out) = (everything(automaton), Vec::new());
    for (at, index) in arrival.iter().enumerate() {
        let event = &events[*index];
        let (user, host_name) = (format!("u{}", event.user), format!("h{}", event.host));
        let value = format!("{}", event.value).repeat(1 + usize::from(event.value) * 20);
        let letters: Vec<_> = event.letters.iter().map(|letter| Value::Text(letter)).collect();
        let fields = [
            ("kind", Value::List(&letters)),
            ("user", Value::Text(&user)),
            ("host", Value::Text(&host_name)),
            ("value", Value::Text(&value)),
        ];
        let values = values(automaton, &fields);
        let row = Row { values: &values, message: "" };
        let mark = mark(event.time, event.sensor, event.sequence);
        // All that comes later is later.
        let rest = arrival[at + 1..].iter().map(|index| events[*index].time).min();
        let watermark = rest.map_or(event.time, |time| time - 1);
        if bytes {
            host.event(&row, mark, &mut out);
        } else {
            whole.event(&scope, &row, mark, &mut out);
        }
        if lazy && at % 3 != 0 {
            continue;
        }
        if bytes { host.advance(watermark.max(1), &mut out) } else { whole.advance(watermark.max(1), &mut out) }
    }
    if bytes {
        host.advance(i64::MAX, &mut out);
        assert!(host.is_empty());
    } else {
        whole.advance(i64::MAX, &mut out);
        assert_eq!(whole.keys(), 0);
    }
    out
}

/// Edges of one rule under one key.
fn edges(automaton: &Automaton, outputs: &[Output], rule: &str, part: &str) -> Vec<(bool, i64)> {
    let number = automaton.rules().iter().find(|it| it.head.name == rule).expect("the rule").number;
    let mut open = None;
    let mut edges = Vec::new();
    for output in outputs {
        match output {
            Output::Opened(it) if it.rule == number && ringtap_sigma::key_parts(&it.key).eq([part]) => {
                assert_eq!(open.replace(it.id), None);
                edges.push((true, it.at_ns));
            }
            Output::Closed(it) if open == Some(it.id) => {
                open = None;
                edges.push((false, it.at_ns));
            }
            _ => {}
        }
    }
    edges
}

/// A permutation in which no event comes after one that is more than `disorder` later.
fn arrival(events: &[Event], delays: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|index| (events[*index].time + delays.get(*index).copied().unwrap_or(0), *index));
    order
}

fn sorted(automaton: &Automaton, outputs: &[Output]) -> Vec<String> {
    let mut lines = lines(automaton, outputs);
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn incidents_are_what_the_words_mean(events in events()) {
        let automaton = automaton(RULES);
        let in_order: Vec<usize> = (0..events.len()).collect();
        let outputs = run(&automaton, &events, &in_order, false, false);
        for (rule, meaning, places) in meanings() {
            for user in 0..2 {
                let seen = seen(&events, &places, user);
                let (expected, _) = expected(&meaning, &seen);
                let found = edges(&automaton, &outputs, rule, &format!("u{user}"));
                prop_assert_eq!(&found, &expected, "{} of u{}: {:#?}", rule, user, seen);
            }
        }
    }

    #[test]
    fn chains_consume_every_hit(events in events()) {
        let automaton = automaton(RULES);
        let in_order: Vec<usize> = (0..events.len()).collect();
        let outputs = run(&automaton, &events, &in_order, false, false);
        // Beneath: `base` by user; above: `base`, then c, by host; and so many hits by host.
        for host in 0..2 {
            let mut beneath: Vec<Seen> = Vec::new();
            for user in 0..2 {
                let seen = seen(&events, &[("a", 0), ("b", 0)], user);
                beneath.extend(expected(&Meaning::Count(|n| n >= 2), &seen).1.into_iter().filter(|hit| hit.host == host));
            }
            beneath.iter_mut().for_each(|hit| hit.places = vec![0]);
            let order = |seen: &Seen| (seen.time, seen.places[0], seen.identity);
            beneath.sort_by_key(order);
            let part = format!("h{host}");
            let (counted, _) = expected(&Meaning::Count(|n| n >= 3), &beneath);
            prop_assert_eq!(edges(&automaton, &outputs, "chain_count", &part), counted);
            let mut all = beneath;
            for user in 0..2 {
                all.extend(seen(&events, &[("c", 1)], user).into_iter().filter(|seen| seen.host == host));
            }
            all.sort_by_key(order);
            let (then, _) = expected(&Meaning::Ordered(2), &all);
            prop_assert_eq!(edges(&automaton, &outputs, "chain_ordered", &part), then, "{:#?}", all);
        }
    }

    #[test]
    fn the_order_of_arrival_changes_nothing(
        events in events(),
        delays in proptest::collection::vec(prop_oneof![Just(0i64), 0..3 * TIMESPAN], 40),
    ) {
        let automaton = automaton(RULES);
        let in_order: Vec<usize> = (0..events.len()).collect();
        let expected = sorted(&automaton, &run(&automaton, &events, &in_order, false, false));
        let arrival = arrival(&events, &delays);
        prop_assert_eq!(&sorted(&automaton, &run(&automaton, &events, &arrival, false, false)), &expected);
        prop_assert_eq!(&sorted(&automaton, &run(&automaton, &events, &arrival, false, true)), &expected);
        prop_assert_eq!(&sorted(&automaton, &run(&automaton, &events, &arrival, true, false)), &expected);
    }

    #[test]
    fn no_event_is_lost_or_told_twice_for_a_step(events in events()) {
        told_once_a_step(&events);
    }
}

/// Of each incident every event is told once; one that fills several steps of a chain perhaps again, as an earlier step of a
/// later chain, and never twice in one output.
fn told_once_a_step(events: &[Event]) -> Vec<Output> {
    let automaton = automaton(RULES);
    let in_order: Vec<usize> = (0..events.len()).collect();
    let outputs = run(&automaton, events, &in_order, false, false);
    let mut told = std::collections::BTreeMap::new();
    for output in &outputs {
        let (id, members, at) = match output {
            Output::Opened(it) => (it.id, &it.members, it.at_ns),
            Output::Extended(it) => (it.id, &it.members, it.at_ns),
            Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => panic!("{output:?}"),
            Output::Closed(_) | Output::Hit(_) => continue,
        };
        assert!(matches!(output, Output::Opened(_)) || !members.is_empty());
        let known: &mut std::collections::BTreeMap<_, u8> = told.entry(id).or_default();
        let mut here = BTreeSet::new();
        for member in members {
            let event = (member.identity, member.via, member.time_ns);
            assert!((at - TIMESPAN..=at).contains(&member.time_ns) && here.insert(event), "{output:?}");
            let before = known.insert(event, member.place);
            assert!(before.is_none_or(|place| place > member.place), "{output:?}");
        }
    }
    outputs
}

/// One case in some ten thousand generated ones: the event that ends the first chain begins a later one.
#[test]
fn an_event_of_two_steps_is_told_for_each() {
    let letters: [(i64, &[&'static str]); 6] =
        [(0, &["a"]), (0, &["a", "b"]), (0, &["a", "c"]), (1, &["c"]), (2, &["b"]), (2, &["c"])];
    let event = |(sequence, (time, letters)): (usize, &(i64, &[&'static str]))| Event {
        time: 1_000_000 + time,
        sensor: 0,
        sequence: sequence as u64,
        letters: letters.to_vec(),
        user: 0,
        host: 0,
        value: 0,
    };
    let events: Vec<Event> = letters.iter().enumerate().map(event).collect();
    let ordered = automaton(RULES).rules().iter().find(|rule| rule.head.name == "ordered").unwrap().number;
    let mut places = Vec::new();
    for output in told_once_a_step(&events) {
        match output {
            Output::Opened(it) if it.rule == ordered => places.extend(it.members),
            Output::Extended(it) if it.rule == ordered => places.extend(it.members),
            _ => {}
        }
    }
    places.retain(|member| member.identity.sequence == 2);
    assert_eq!(places.iter().map(|member| member.place).collect::<Vec<_>>(), [2, 0]);
}

/// All orders of arrival of a few events, not only some: bounds, ties and T + 1 among them.
#[test]
fn every_permutation_gives_the_same_bytes() {
    let event = |(sequence, (time, letters, value)): (usize, &(i64, &[&'static str], u8))| Event {
        time: 1_000_000 + time,
        sensor: sequence as u64 % 2,
        sequence: sequence as u64,
        letters: letters.to_vec(),
        user: 0,
        host: value % 2,
        value: *value,
    };
    let automaton = automaton(RULES);
    let sets: [&[(i64, &[&'static str], u8)]; 4] = [
        // Ties at both ends of a timespan, and 1 ns beyond it.
        &[(0, &["a"], 0), (0, &["b"], 1), (TIMESPAN, &["c"], 2), (TIMESPAN, &["a"], 3), (TIMESPAN + 1, &["b"], 0)],
        &[(0, &["a"], 0), (1, &["b"], 1), (2, &["a", "b"], 2), (TIMESPAN + 1, &["c"], 0), (TIMESPAN + 2, &["c"], 1)],
        // All at one stamp: the order is that of steps and sensors.
        &[(5, &["c"], 0), (5, &["b"], 1), (5, &["a"], 2), (5, &["a", "b", "c"], 3), (5, &["a"], 2)],
        &[
            (0, &["a"], 0),
            (5000, &["b"], 1),
            (5000, &["c"], 2),
            (TIMESPAN, &["b", "c"], 2),
            (2 * TIMESPAN, &["a"], 1),
            (2 * TIMESPAN + 1, &["c"], 3),
        ],
    ];
    let mut permutations = 0;
    for set in sets {
        let events: Vec<Event> = set.iter().enumerate().map(event).collect();
        let mut order: Vec<usize> = (0..events.len()).collect();
        let expected = sorted(&automaton, &run(&automaton, &events, &order, false, false));
        assert!(expected.len() > 10);
        while next(&mut order) {
            for bytes in [false, true] {
                assert_eq!(sorted(&automaton, &run(&automaton, &events, &order, bytes, false)), expected, "{order:?}");
            }
            permutations += 1;
        }
    }
    assert_eq!(permutations, 3 * (120 - 1) + 720 - 1);
}

/// The next permutation in the order of the alphabet.
fn next(order: &mut [usize]) -> bool {
    let Some(at) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let with = order.iter().rposition(|it| *it > order[at]).expect("one behind it");
    order.swap(at, with);
    order[at + 1..].reverse();
    true
}
