//! No input makes a step cost more than its rule's steps, nor grows memory beyond the rule's bound: work is counted as
//! what is allocated and told, by one who knows rules and paces events as it likes.
//!
//! Time is not measured: what a step does beside this is one pass over what it was given, and what it tells.
#![allow(unsafe_code)] // A global allocator can't be had without.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use ringtap_sigma::{Automaton, Limits, Matcher, Matches, Output, Row, RuleSet, State, Value};
use support::{everything, mark, values};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|bytes| bytes.set(bytes.get() + layout.size()));
        LIVE.with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TIMESPAN: i64 = 1_000_000;
/// Members that an incident tells: less than the counts ask for.
const MEMBERS: u32 = 20;
const WAITING: u32 = 50;
/// Bytes that one event, member, step or output may allocate: a few copies of the largest of them, and a growing list's
/// room to double.
const UNIT: usize = 2048;
/// Bytes to look at one waiting event early: less than a copy of what a count remembers for each event that may wait.
const LOOKED_AT: usize = 512;
/// Bytes of a list of all that a count of [`N`] keeps, once more as it doubles.
const DOUBLED: usize = 256 << 10;
/// What counts ask for.
const N: i64 = 500;

fn rules() -> Automaton {
    let mut text = String::new();
    for letter in ["a", "b", "c", "d"] {
        text += &format!(
            "title: {letter}\nname: {letter}\nlogsource: {{product: p}}\ndetection: {{s: {{kind: {letter}}}, condition: s}}\n---\n"
        );
    }
    let counts = ["{gte: N}", "{gt: N}", "{lt: N}", "{lte: N}", "{eq: N}", "{gte: 490, lte: N}"];
    for (number, condition) in counts.into_iter().enumerate() {
        let condition = condition.replace('N', &N.to_string());
        text += &format!(
            "title: C{number}\ncorrelation: {{type: event_count, rules: [a, b], timespan: 1ms, condition: {condition}}}\n---\n"
        );
        let condition = condition.replace('}', ", field: value}");
        text += &format!(
            "title: V{number}\ncorrelation: {{type: value_count, rules: [a, b], timespan: 1ms, condition: {condition}}}\n---\n"
        );
    }
    for kind in ["temporal", "temporal_ordered"] {
        text += &format!("title: {kind}\ncorrelation: {{type: {kind}, rules: [a, b, c, d], timespan: 1ms}}\n---\n");
    }
    let mut rules = RuleSet::new();
    rules.add("adversary.yml", text.trim_end_matches("---\n"));
    let limits = Limits { members: MEMBERS, waiting: WAITING, ..Limits::default() };
    let (automaton, rejected) = rules.compile(limits);
    assert!(rejected.is_empty(), "{rejected:?}");
    automaton
}

/// An event: how long after the one before it, the kinds it is of, its value; and how far the watermark is behind.
type Given = (i64, u8, u16, i64);

/// What pleases an attacker: paces that open and close an incident with each event, floods of a stamp, and any other.
fn given() -> impl Strategy<Value = Vec<Given>> {
    let gap = prop_oneof![
        1 => Just(0i64),
        1 => Just(1),
        // So many of these fill a timespan, and the oldest leaves before the next comes.
        4 => Just(TIMESPAN / (N - 1) - 1),
        4 => Just(TIMESPAN / (N - 1)),
        2 => Just(TIMESPAN / N + 1),
        1 => Just(TIMESPAN),
        1 => Just(TIMESPAN + 1),
        1 => 0..TIMESPAN,
    ];
    let value = prop_oneof![0..3u16, 0..2000u16];
    let lag = prop_oneof![4 => Just(0i64), 1 => Just(1), 1 => 0..TIMESPAN];
    // One pace for long, as it takes many events to come to the edge.
    let runs = (gap, 1..16u8, prop_oneof![value.prop_map(Some), Just(None)], lag, 1..1200usize);
    proptest::collection::vec(runs, 1..6).prop_map(|runs| {
        let mut list = Vec::new();
        for (gap, kinds, value, lag, len) in runs {
            let of = |at: usize| (gap, kinds, value.unwrap_or(at as u16), lag);
            list.extend((0..len).map(of));
        }
        list
    })
}

/// Members that outputs tell.
fn told(outputs: &[Output]) -> usize {
    let members = |output: &Output| match output {
        Output::Opened(it) => it.members.len(),
        Output::Extended(it) => it.members.len(),
        _ => 0,
    };
    outputs.iter().map(members).sum()
}

/// Gives all events to one rule; the most that one call cost in units, and how often an incident opened.
fn attack(automaton: &Automaton, number: usize, events: &[Given]) -> (usize, usize) {
    let rule = &automaton.rules()[number];
    let (mut matcher, scope, mut matches) = (Matcher::new(automaton), everything(automaton), Matches::default());
    let (mut state, mut time, mut opened, mut worst, mut watermark) = (State::new(rule), TIMESPAN, 0, 0, 0);
    let (mut all_stepped, mut all_allowed) = (0, 0);
    let before = LIVE.with(Cell::get);
    for (sequence, (gap, kinds, value, lag)) in events.iter().enumerate() {
        time += gap;
        let kinds: Vec<_> =
            (0..4).filter(|bit| kinds >> bit & 1 == 1).map(|bit| Value::Text(["a", "b", "c", "d"][bit])).collect();
        let value = value.to_string();
        let values = values(automaton, &[("kind", Value::List(&kinds)), ("value", Value::Text(&value))]);
        let row = Row { values: &values, message: "" };
        matcher.matches(automaton, &scope, &row, mark(time, 1, sequence as u64), &mut matches);
        let Some(filling) = matches.fillings().iter().find(|it| it.rule == rule.number) else { continue };
        let waited = state.waiting();
        watermark = watermark.max(time - 1 - lag);
        let mut out = Vec::new();
        let from = ALLOCATED.with(Cell::get);
        let certain = state.preview(rule, std::slice::from_ref(filling));
        let previewed = ALLOCATED.with(Cell::get) - from;
        state.step(rule, &filling.key, Some(filling), watermark, &mut out);
        let stepped = ALLOCATED.with(Cell::get) - from - previewed;
        // Events that waited may all be due, each at a stamp of its own; what is told of each is bounded.
        let applied = waited + 1 - state.waiting().min(waited + 1);
        let steps = rule.steps(automaton).count().max(1);
        let allowed = (1 + applied) * steps + out.len() + told(&out);
        assert!(stepped <= UNIT * allowed + DOUBLED, "{}: {stepped} bytes for {allowed} units", rule.head.title);
        (all_stepped, all_allowed) = (all_stepped + stepped, all_allowed + allowed);
        // A list doubles once for each of its lengths, so what it takes for that is no part of each step.
        assert!(
            all_stepped <= UNIT * all_allowed + 2 * DOUBLED,
            "{}: {all_stepped} bytes for {all_allowed} units",
            rule.head.title
        );
        // Told once for each incident; until then nothing that grows with what is remembered.
        let looked_at = (WAITING as usize + 2) * steps;
        let copied = certain.map_or(0, |_| rule.window_bytes() as usize * 4);
        assert!(previewed <= LOOKED_AT * looked_at + copied, "{}: {previewed} bytes to look ahead", rule.head.title);
        for output in &out {
            if let Output::Opened(it) = output {
                opened += 1;
                assert!(it.members.len() <= (MEMBERS as usize).max(steps), "{}", rule.head.title);
            }
        }
        worst = worst.max(allowed);
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        assert!(bytes.len() as u64 <= rule.window_bytes() + rule.waiting_bytes() * u64::from(WAITING));
        drop((bytes, out, values));
        // In memory as well: what stays allocated is what the state says of itself, near enough.
        let kept = LIVE.with(Cell::get) - before;
        assert!(kept <= (3 * state.weight() + DOUBLED) as isize, "{}: {kept} > {}", rule.head.title, state.weight());
    }
    (worst, opened)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_step_costs_what_its_rule_asks_for(events in given()) {
        let automaton = rules();
        for number in 0..automaton.rules().len() {
            attack(&automaton, number, &events);
        }
    }
}

/// The worst that there is: each event opens an incident, as the one before has just closed. It costs what an incident
/// tells, however many events the rule counts.
#[test]
fn an_incident_that_flaps_tells_a_bounded_number_of_members() {
    let automaton = rules();
    for (title, pace) in [("C0", N - 1), ("C1", N), ("C4", N - 1), ("V0", N - 1), ("V4", N - 1)] {
        let events: Vec<Given> = (0..3000).map(|at| (TIMESPAN / pace, 1, at, 0)).collect();
        let number = automaton.rules().iter().position(|rule| rule.head.title == title).unwrap();
        let (worst, opened) = attack(&automaton, number, &events);
        assert!(opened > 2400 || opened == 1, "{title}: {opened}");
        assert!(worst <= 8 + 2 * MEMBERS as usize, "{title}: {worst}");
    }
}
