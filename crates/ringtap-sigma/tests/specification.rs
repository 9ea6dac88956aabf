//! Every form that the Sigma specification's and pySigma's examples of correlations have, in rules of our own: all are
//! used, and find what they say.

mod support;

use ringtap_sigma::{Output, Row, Run, Value, key_parts};
use support::{automaton, everything, mark, rejected, values};

const SECOND: i64 = 1_000_000_000;

/// Three single events, with all that a rule's head may have.
const BASE: &str = "
title: Door knocked at
id: 3f0c6a52-11d4-4a7e-9c5b-0d2f6f1f7a01
name: knocked
status: stable
description: Somebody knocks.
references:
    - https://example.org/doors
author: The porter
date: 2026-01-31
modified: 2026-02-01
tags: [attack.reconnaissance]
logsource: {product: doors, service: porch, definition: the porch logs all}
fields: [who, door]
falsepositives:
    - Guests
level: informational
detection:
    selection:
        act: knock
    condition: selection
---
title: Door opened
id: 3f0c6a52-11d4-4a7e-9c5b-0d2f6f1f7a02
name: opened
logsource: {product: doors}
detection:
    selection:
        act: open
    condition: selection
---
title: Room entered
name: entered
logsource: {product: rooms}
detection:
    selection:
        act: enter
        ok: true
    condition: selection
---
";

/// Seconds, act, who, door.
type Happened = (i64, &'static str, &'static str, &'static str);

/// Keys of the incidents that open, as texts.
fn found(correlation: &str, events: &[Happened]) -> Vec<String> {
    let automaton = automaton(&format!("{BASE}{correlation}"));
    let (mut run, scope, mut out) = (Run::new(automaton.clone()), everything(&automaton), Vec::new());
    for (sequence, (time, act, who, door)) in events.iter().enumerate() {
        let fields = [
            ("act", Value::Text(act)),
            ("ok", Value::Bool(true)),
            ("who", Value::Text(who)),
            ("visitor.name", Value::Text(who)),
            ("door", Value::Text(door)),
        ];
        let values = values(&automaton, &fields);
        run.event(&scope, &Row { values: &values, message: "" }, mark(time * SECOND, 1, sequence as u64), &mut out);
    }
    run.advance(i64::MAX, &mut out);
    let mut keys: Vec<String> = out
        .iter()
        .filter_map(|output| match output {
            Output::Opened(it) if automaton.rules()[usize::from(it.rule)].announces => {
                Some(key_parts(&it.key).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        })
        .collect();
    keys.sort();
    keys
}

#[test]
fn counts_by_id_and_by_name_with_lists_and_single_words() {
    let knocks = [(0, "knock", "ann", "a"), (1, "knock", "bob", "a"), (3600, "knock", "ann", "b")];
    for (rules, group) in [
        ("\n        - 3f0c6a52-11d4-4a7e-9c5b-0d2f6f1f7a01", "\n        - who"),
        ("knocked", "who"),
        ("[knocked, opened]", "[who]"),
    ] {
        let rule = format!(
            "title: Many knocks\nid: 3f0c6a52-11d4-4a7e-9c5b-0d2f6f1f7a03\nlevel: high\ncorrelation:\n    type: event_count\n    rules: {rules}\n    group-by: {group}\n    timespan: 1h\n    condition:\n        gte: 2\n"
        );
        assert_eq!(found(&rule, &knocks), ["ann"], "{rule}");
    }
}

#[test]
fn a_range_is_two_bounds() {
    let rule = "title: R\ncorrelation: {type: event_count, rules: [knocked], group-by: [who], timespan: 1m, condition: {gt: 1, lte: 2}}\n";
    let knocks = |count: i64| (0..count).map(|at| (at, "knock", "ann", "a")).collect::<Vec<Happened>>();
    assert_eq!(found(rule, &knocks(1)), [""; 0]);
    assert_eq!(found(rule, &knocks(2)), ["ann"]);
    for (bound, count) in [("lt: 2", 1), ("eq: 2", 2), ("lte: 1", 1)] {
        let rule = format!(
            "title: R\ncorrelation: {{type: event_count, rules: knocked, group-by: who, timespan: 1m, condition: {{{bound}}}}}\n"
        );
        assert_eq!(found(&rule, &knocks(count)), ["ann"], "{bound}");
    }
}

#[test]
fn values_of_a_field_or_of_several() {
    let events =
        [(0, "knock", "ann", "a"), (1, "knock", "ann", "b"), (2, "knock", "bob", "a"), (3, "knock", "bob", "a")];
    for field in ["door", "[door]", "[door, act]"] {
        let rule = format!(
            "title: V\ncorrelation:\n    type: value_count\n    rules: [knocked]\n    group-by: [who]\n    timespan: 1d\n    condition:\n        field: {field}\n        gte: 2\n"
        );
        assert_eq!(found(&rule, &events), ["ann"], "{field}");
    }
}

#[test]
fn temporal_in_any_order_and_in_order() {
    let events = [
        (0, "knock", "ann", "a"),
        (1, "open", "ann", "a"),
        (2, "enter", "ann", "a"),
        (0, "enter", "bob", "a"),
        (1, "open", "bob", "a"),
        (2, "knock", "bob", "a"),
    ];
    for (kind, condition, expected) in [
        ("temporal", "", &["ann a", "bob a"][..]),
        ("temporal_ordered", "", &["ann a"]),
        ("temporal", "    condition: {gte: 2}\n", &["ann a", "bob a"]),
        ("temporal", "    condition: knocked and (opened or entered)\n", &["ann a", "bob a"]),
        ("temporal_ordered", "    condition: knocked and (opened or entered)\n", &["ann a"]),
    ] {
        let rule = format!(
            "title: T\ncorrelation:\n    type: {kind}\n    rules:\n        - knocked\n        - opened\n        - entered\n    group-by:\n        - who\n        - door\n    timespan: 5m\n{condition}"
        );
        assert_eq!(found(&rule, &events), expected, "{rule}");
    }
}

#[test]
fn aliases_give_fields_one_name() {
    let rule = "
title: A
correlation:
    type: temporal
    rules: [knocked, opened]
    group-by: [visitor, way]
    timespan: 10s
    aliases:
        visitor:
            knocked: who
            opened: visitor.name
        way:
            knocked: door
            opened: door
";
    assert_eq!(found(rule, &[(0, "knock", "ann", "a"), (10, "open", "ann", "a"), (10, "open", "bob", "a")]), ["ann a"]);
}

/// Many failures, then a success, of one user on whichever host: each level has its own key.
#[test]
fn a_chain_keys_each_level_anew_and_may_come_first_in_its_file() {
    let rule = "
title: Many knocks, then the door opens
status: test
level: high
correlation:
    type: temporal_ordered
    rules: [many_knocks, opened]
    group-by: [who]
    timespan: 1h
---
title: Many knocks at a door
name: many_knocks
correlation:
    type: event_count
    rules: [knocked]
    group-by: [who, door]
    timespan: 5m
    condition: {gte: 3}
";
    let mut events = vec![(0, "knock", "ann", "a"), (1, "knock", "ann", "a"), (2, "knock", "ann", "b")];
    events.push((4, "open", "ann", "c"));
    assert_eq!(found(rule, &events), [""; 0], "three knocks, at two doors");
    events.insert(3, (3, "knock", "ann", "a"));
    assert_eq!(found(rule, &events), ["ann"]);
    let generating = rule.replacen("    timespan: 1h\n", "    timespan: 1h\n    generate: true\n", 1);
    assert_eq!(found(&generating, &events), ["ann", "ann a"], "the rule beneath is told as well");
}

/// What examples have and is not used is refused by line and reason; the others go on.
#[test]
fn what_is_not_used_is_said() {
    for (lines, why) in [
        ("type: value_sum\n    rules: knocked\n    timespan: 1h\n    condition: {field: size, gte: 5}", "value_sum"),
        (
            "type: temporal\n    rules: [knocked, opened]\n    timespan: 1h\n    condition: knocked and not opened",
            "not",
        ),
        ("type: event_count\n    rules: nobody\n    timespan: 1h\n    condition: {gte: 5}", "nobody"),
        ("type: event_count\n    rules: knocked\n    timespan: 1M\n    condition: {gte: 5}", "timespan"),
    ] {
        let found = rejected(&format!("{BASE}title: R\ncorrelation:\n    {lines}\n"));
        assert!(found.len() == 1 && found[0].contains(why) && found[0].starts_with("test.yml:"), "{why}: {found:?}");
    }
}
