//! What a sender can make the correlator spend: memory and work, counted by the allocator.

mod counting;

use std::sync::Arc;

use counting::{CALLS, LIVE};
use ringtap_correlator::engine::{Bounds, Engine};
use ringtap_correlator::event::Event;
use ringtap_correlator::input::parse::{Parser, Wanted};
use ringtap_sigma::{Automaton, Limits, RuleSet};

const START: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// Five steps in order, five in any order, and a count of this many.
fn rules(count: usize) -> String {
    let mut text = String::new();
    for kind in ["a", "b", "c", "d", "e"] {
        text += &format!(
            "title: {kind}\nname: {kind}\nlogsource: {{product: test}}\ndetection: {{s: {{kind: {kind}}}, condition: s}}\n---\n"
        );
    }
    let correlation = |name: &str, what: &str| {
        format!("title: {name}\nname: {name}\ncorrelation: {{{what}, group-by: user, timespan: 1h}}\n")
    };
    text += &correlation("ordered", "type: temporal_ordered, rules: [a, b, c, d, e]");
    text += "---\n";
    text += &correlation("together", "type: temporal, rules: [a, b, c, d, e]");
    text += "---\n";
    text += &correlation("count", &format!("type: event_count, rules: a, condition: {{gte: {count}}}"));
    text
}

fn automaton(count: usize) -> Arc<Automaton> {
    let mut set = RuleSet::new();
    set.add("test", &rules(count));
    let (automaton, rejected) = set.compile(Limits::default());
    assert!(rejected.is_empty(), "{rejected:?}");
    Arc::new(automaton)
}

fn event(number: usize, time_ns: i64, kind: &str, user: &str) -> Event {
    let line = format!(r#"{{"time":{time_ns},"kind":"{kind}","user":"{user}"}}"#);
    let mut event = Parser::new(Wanted::Json, "in").event(line.as_bytes()).unwrap();
    event.mark.identity.sequence = number as u64;
    event
}

/// Allocations for the events of one key: sixty of each step before the next one's, the worst for who tracks back.
fn allocations(count: usize, rounds: usize) -> f64 {
    let automaton = automaton(count);
    let mut engine = Engine::new(automaton, Bounds::default(), false);
    let mut findings = Vec::new();
    let events: Vec<Event> = (0..rounds * 300)
        .map(|number| {
            let kind = ["a", "b", "c", "d", "e"][number / 60 % 5];
            event(number, START + number as i64 * SECOND / 10, kind, "alice")
        })
        .collect();
    let before = CALLS.get();
    for event in &events {
        engine.event(event);
        engine.advance(event.mark.time_ns - 1, &mut findings);
        findings.clear();
    }
    (CALLS.get() - before) as f64 / events.len() as f64
}

#[test]
fn work_for_an_event_depends_on_the_rule_s_steps_alone() {
    // Neither on how much was said before, nor on how many events a count remembers.
    let short = allocations(100, 5);
    let (long, many) = (allocations(100, 50), allocations(1000, 50));
    assert!(long <= short * 1.2 && many <= short * 1.2, "{short} {long} {many}");
}

#[test]
fn memory_stays_what_was_allowed_whoever_sends() {
    const ALLOWED: usize = 2 << 20;
    let before = LIVE.get();
    let mut engine = Engine::new(automaton(1000), Bounds { bytes: ALLOWED }, true);
    let empty = LIVE.get() - before;
    let (mut findings, mut most) = (Vec::new(), 0);
    for number in 0..60_000 {
        let kind = ["a", "b", "c", "d", "e"][number % 5];
        // Many keys, one key with many events, keys as long as they may be; and stamps that are far apart.
        let user = match number % 3 {
            0 => format!("user{number}"),
            1 => "one".to_owned(),
            _ => format!("{number:0>1000}"),
        };
        engine.event(&event(number, START + (number as i64 * 7_919) % 10_000 * SECOND / 1000, kind, &user));
        if number % 64 == 0 {
            engine.advance(START - SECOND + number as i64, &mut findings);
            findings.clear();
            engine.take_provisional();
            engine.take_forgotten();
            most = most.max(LIVE.get() - before - empty);
        }
    }
    assert!(engine.counts().forgotten.iter().sum::<u64>() > 1000);
    assert!(engine.bytes() <= ALLOWED + 8192);
    // Accounted near enough: the allocator's own view is hardly more.
    assert!(most <= (ALLOWED + ALLOWED / 8) as i64, "{most} bytes at most, {ALLOWED} allowed");
}

#[test]
fn what_is_over_leaves_nothing_behind() {
    // Ten keys that speak again and again, each event long before the last one of its key is too old; and keys that come
    // and have to go while their timers lie far ahead.
    const ALLOWED: usize = 1 << 20;
    let before = LIVE.get();
    let mut engine = Engine::new(automaton(3), Bounds { bytes: ALLOWED }, false);
    let (mut findings, mut early, mut most) = (Vec::new(), 0, 0);
    for number in 0..60_000 {
        let time = START + number as i64 * SECOND / 100;
        let user = if number < 30_000 { format!("user{}", number % 10) } else { format!("user{number}") };
        engine.event(&event(number, time, "a", &user));
        engine.advance(time, &mut findings);
        findings.clear();
        engine.take_forgotten();
        let live = LIVE.get() - before;
        match number {
            0..3_000 => early = early.max(live),
            3_000..30_000 => assert!(live <= early + 8192, "{live} bytes, {early} after the first events"),
            _ => most = most.max(live),
        }
    }
    assert!(engine.counts().forgotten.iter().sum::<u64>() > 20_000);
    assert!(most <= (ALLOWED + ALLOWED / 8) as i64, "{most} bytes at most, {ALLOWED} allowed");
}
