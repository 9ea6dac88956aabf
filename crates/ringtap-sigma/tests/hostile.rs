//! Rules, bytes and events that mean harm: they are refused with a reason, and cost no more than their length.

mod support;

use proptest::prelude::*;
use ringtap_sigma::{Automaton, Filling, Limits, Output, Row, RuleSet, Run, State, Value, limits};
use support::{automaton, everything, mark, rejected, values};

const RULES: &str = include_str!("vectors/kinds.yml");

/// Time, step and identity of the event applied last, as a state has them.
const ORDER_BYTES: usize = 8 + 1 + 3 * 8;

/// A detection whose selection has these lines.
fn detection(lines: &str) -> String {
    format!("title: T\nlogsource: {{product: p}}\ndetection:\n    s:\n        {lines}\n    condition: s\n")
}

#[test]
fn rules_beyond_their_bounds_are_refused() {
    let list = |count: usize, item: &str| format!("f: [{}]", vec![item; count].join(","));
    for (text, expected) in [
        (detection(&list(limits::MAX_VALUES + 1, "x")), "more than 10000 values"),
        (detection(&list(limits::MAX_EXPRESSIONS + 1, "'a?b'")), "expressions"),
        (detection(&format!("f: {}", "x".repeat(limits::MAX_VALUE_BYTES + 1))), "longer than"),
        (detection("f|re: 'a{500}{500}'"), "an expression that takes more than"),
        (detection(&format!("f|re: '{}'", "(".repeat(2000))), "re: "),
        (detection(&format!("f: {}", "[".repeat(60_000))), "recursion limit"),
        (format!("title: {}\n", "x".repeat(300)), "longer than 256"),
        ("a".repeat(limits::MAX_FILE_BYTES + 1), "longer than"),
        (
            format!(
                "title: T\nlogsource: {{product: p}}\ndetection:\n    s: {{f: x}}\n    condition: {}s",
                "not ".repeat(5000)
            ),
            "condition",
        ),
        (
            "title: T\ncorrelation: {type: event_count, rules: x, timespan: 1m, condition: {gte: 99999999999}}\n"
                .into(),
            "whole number",
        ),
    ] {
        let found = rejected(&text);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

#[test]
fn chains_are_bounded() {
    let mut text = "title: D\nname: r0\nlogsource: {product: p}\ndetection: {s: {f: x}, condition: s}\n".to_owned();
    for level in 1..=12 {
        let below = level - 1;
        text += &format!(
            "---\ntitle: R\nname: r{level}\ncorrelation:\n    type: temporal\n    rules: r{below}\n    timespan: 1s\n"
        );
    }
    let found = rejected(&text);
    assert_eq!(found.len(), 12 - limits::MAX_CHAIN, "{found:#?}");
}

#[test]
fn a_flood_under_one_key_is_bounded_and_said() {
    let mut rules = RuleSet::new();
    rules.add("test.yml", RULES);
    let (automaton, _) = rules.compile(Limits { waiting: 100, members: 50, ..Limits::default() });
    let fields = [
        ("kind", Value::Text("a")),
        ("user", Value::Text("u")),
        ("host", Value::Text("h")),
        ("value", Value::Text("v")),
    ];
    let values = values(&automaton, &fields);
    let row = Row { values: &values, message: "" };
    let (mut run, scope, mut out) = (Run::new(automaton.clone()), everything(&automaton), Vec::new());
    for sequence in 0..1000 {
        run.event(&scope, &row, mark(1_000_000 + sequence as i64, 1, sequence), &mut out);
        for (number, _, state) in run.states() {
            let rule = &automaton.rules()[usize::from(number)];
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            assert!(state.waiting() <= 100 && bytes.len() as u64 <= rule.window_bytes() + 100 * rule.waiting_bytes());
        }
    }
    run.advance(i64::MAX, &mut out);
    let count = automaton.rules().iter().find(|rule| rule.head.name == "count").expect("the rule").number;
    let of = |output: &&Output| matches!(output, Output::Forced { rule, .. } if *rule == count);
    assert_eq!(out.iter().filter(of).count(), 900);
    let members = |output: &Output| match output {
        Output::Opened(it) if it.rule == count => it.members.len(),
        Output::Extended(it) if it.rule == count => it.members.len(),
        _ => 0,
    };
    assert_eq!(out.iter().map(members).sum::<usize>(), 50);
    let all = out.iter().any(|output| matches!(output, Output::Closed(it) if it.rule == count && it.matches == 998));
    assert!(all, "matches that are not told are counted");
    // What comes before a forced event is late.
    let (mut run, mut out) = (Run::new(automaton.clone()), Vec::new());
    for sequence in 0..102 {
        run.event(&scope, &row, mark(1_000_000 + sequence as i64, 1, sequence), &mut out);
    }
    out.clear();
    run.event(&scope, &row, mark(1_000_000, 2, 7), &mut out);
    assert!(out.iter().any(|output| matches!(output, Output::Late { rule, .. } if *rule == count)));
}

#[test]
fn times_at_the_ends_of_the_scale() {
    let automaton = automaton(RULES);
    let fields = [
        ("kind", Value::Text("a")),
        ("user", Value::Text("u")),
        ("host", Value::Text("h")),
        ("value", Value::Text("v")),
    ];
    let values = values(&automaton, &fields);
    let row = Row { values: &values, message: "" };
    for time in [i64::MIN, i64::MIN + 1, -(1 << 62), -1, 0, 1 << 62, i64::MAX - 1, i64::MAX] {
        let (mut run, mut out) = (Run::new(automaton.clone()), Vec::new());
        run.event(&everything(&automaton), &row, mark(time, 1, 1), &mut out);
        run.advance(i64::MAX, &mut out);
        assert_eq!(run.keys(), 0);
        assert!(!out.is_empty(), "{time}");
    }
}

#[test]
fn keys_that_are_no_keys_are_said() {
    let automaton = automaton(RULES);
    let long = "x".repeat(limits::MAX_KEY_BYTES + 1);
    let list = [Value::Text("u")];
    for user in [Value::Missing, Value::Null, Value::List(&list), Value::Text(&long)] {
        let values = values(&automaton, &[("kind", Value::Text("a")), ("user", user), ("host", Value::Text("h"))]);
        let (mut run, mut out) = (Run::new(automaton.clone()), Vec::new());
        let matches =
            run.event(&everything(&automaton), &Row { values: &values, message: "" }, mark(0, 1, 1), &mut out);
        assert!(matches.fillings().is_empty() && !matches.skipped.is_empty());
        assert_eq!(run.keys(), 0);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in "[ -~\n\t|*&\\[\\]{}:éß]{0,400}") {
        rejected(&text);
        rejected(&detection(&text));
        rejected(&format!("title: T\ncorrelation:\n    {text}\n"));
    }

    #[test]
    fn damaged_automata_are_refused_or_sound(at in 0usize..4000, byte in any::<u8>(), cut in 0usize..4000) {
        let bytes = automaton(RULES).encode();
        prop_assert!(Automaton::decode(&bytes[..cut.min(bytes.len() - 1)]).is_err());
        let mut damaged = bytes.clone();
        let at = at % damaged.len();
        damaged[at] ^= byte;
        prop_assert_eq!(Automaton::decode(&damaged).is_err(), byte != 0);
    }

    #[test]
    fn damaged_states_do_no_harm(changes in proptest::collection::vec((0usize..2000, any::<u8>()), 0..4), user in 0..9u64) {
        let automaton = automaton(RULES);
        let fields = [("user", Value::Text("u")), ("host", Value::Text("h")), ("value", Value::Text("v"))];
        let (mut run, scope, mut out) = (Run::new(automaton.clone()), everything(&automaton), Vec::new());
        for (sequence, letter) in ["a", "b", "c", "a", "b"].into_iter().enumerate() {
            let mut fields = fields.to_vec();
            fields.push(("kind", Value::Text(letter)));
            let values = values(&automaton, &fields);
            run.event(&scope, &Row { values: &values, message: "" }, mark(1000 + sequence as i64, 1, user), &mut out);
            if sequence == 3 {
                run.advance(1002, &mut out);
            }
        }
        for (number, key, state) in run.states() {
            let rule = &automaton.rules()[usize::from(number)];
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            let mut again = Vec::new();
            State::decode(rule, &bytes).expect("what was encoded").encode(&mut again);
            prop_assert_eq!(&again, &bytes);
            if bytes[1] == 1 {
                // The format, and no event that was applied: the window would be ahead of it.
                let headless = [&[bytes[0], 0], &bytes[2 + ORDER_BYTES..]].concat();
                prop_assert!(State::decode(rule, &headless).is_err() || state.remembered(rule).is_empty());
            }
            for (at, byte) in &changes {
                let at = at % bytes.len();
                bytes[at] ^= byte;
            }
            if let Ok(mut state) = State::decode(rule, &bytes) {
                let mut out = Vec::new();
                prop_assert_eq!(state.step(rule, key, None, i64::MAX, &mut out), None);
            }
        }
        let _ = Filling::decode(&[0; 7]);
    }
}
