//! States beyond single matches: doubts of clocks, incidents that go on after a restart, rules that change.

mod support;

use ringtap_sigma::{
    Automaton, Clock, Fill, Filling, IncidentId, Mark, Matcher, Matches, Opened, Output, Row, State, Value,
};
use support::{automaton, everything, mark, values};

const KINDS: &str = include_str!("vectors/kinds.yml");

fn filling(automaton: &Automaton, rule: &str, letter: &str, mark: Mark) -> Filling {
    let fields = [("kind", Value::Text(letter)), ("user", Value::Text("u")), ("host", Value::Text("h"))];
    let (values, mut matches) = (values(automaton, &fields), Matches::default());
    let row = Row { values: &values, message: "" };
    Matcher::new(automaton).matches(automaton, &everything(automaton), &row, mark, &mut matches);
    let wanted = |filling: &&Filling| automaton.rules()[usize::from(filling.rule)].head.name == rule;
    matches.fillings().iter().find(wanted).expect("a filling").clone()
}

/// Runs one rule over events and gives what opened.
fn opened(rule: &str, events: &[(&str, Mark)]) -> Opened {
    let automaton = automaton(KINDS);
    let fillings: Vec<_> = events.iter().map(|(letter, mark)| filling(&automaton, rule, letter, *mark)).collect();
    let rule = &automaton.rules()[usize::from(fillings[0].rule)];
    let (mut state, mut out) = (State::new(rule), Vec::new());
    for filling in &fillings {
        state.step(rule, &filling.key, Some(filling), -1, &mut out);
    }
    state.step(rule, &fillings[0].key, None, i64::MAX, &mut out);
    out.into_iter()
        .find_map(|output| if let Output::Opened(it) = output { Some(it) } else { None })
        .expect("an incident")
}

fn stamped(time_ns: i64, domain: u64, error_us: Option<u32>) -> Mark {
    Mark { clock: Clock { domain, error_us }, ..mark(time_ns, domain, time_ns as u64) }
}

#[test]
fn an_order_within_the_errors_of_two_clocks_is_not_proven() {
    for (b, order, timespan) in [
        (stamped(3000, 2, Some(2)), true, true),
        (stamped(2999, 2, Some(2)), false, true),
        (stamped(2999, 1, Some(2)), true, true),
        (stamped(2999, 1, None), true, true),
        (stamped(9000, 2, None), false, false),
    ] {
        let doubt =
            opened("ordered", &[("a", stamped(0, 1, Some(1))), ("b", b), ("c", stamped(10_000, 1, Some(1)))]).doubt;
        assert_eq!((!doubt.order, !doubt.timespan), (order, timespan), "{b:?}");
    }
    let doubt =
        opened("count", &[("a", stamped(1, 1, None)), ("a", stamped(2, 2, None)), ("a", stamped(3, 1, None))]).doubt;
    assert_eq!((doubt.order, doubt.timespan), (false, true));
}

#[test]
fn an_open_incident_keeps_its_identity_when_its_state_is_rebuilt() {
    let automaton = automaton(KINDS);
    let events: Vec<_> =
        (0..20).map(|n| filling(&automaton, "count", "a", mark(1_000_000 + n * 2000, 1, n as u64))).collect();
    let rule = &automaton.rules()[usize::from(events[0].rule)];
    let give = |state: &mut State, events: &[Filling], out: &mut Vec<Output>| {
        for event in events {
            state.step(rule, &event.key, Some(event), event.mark.time_ns - 1, out);
            state.step(rule, &event.key, None, event.mark.time_ns, out);
        }
    };
    let (mut whole, mut expected) = (State::new(rule), Vec::new());
    give(&mut whole, &events, &mut expected);
    // Rebuilt from the last timespan before the thirteenth event.
    let (mut rebuilt, mut dropped, mut found) = (State::new(rule), Vec::new(), Vec::new());
    give(&mut rebuilt, &events[7..12], &mut dropped);
    assert!(rebuilt.incident().is_some_and(|id| Some(id) != whole.incident()));
    let Output::Opened(first) = &expected[0] else { panic!() };
    assert!(rebuilt.resume(first.id, first.at_ns, 12, 10));
    give(&mut rebuilt, &events[12..], &mut found);
    assert_eq!(found, expected[expected.len() - found.len()..]);
    let bytes = |state: &State| {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        bytes
    };
    assert_eq!(bytes(&rebuilt), bytes(&whole));
    assert!(!State::new(rule).resume(IncidentId::default(), 0, 0, 0));
    assert_eq!(whole.remembered(rule).len(), 3);
    assert_eq!(whole.expires_ns(rule), Some(events[19].mark.time_ns + rule.timespan_ns + 1));
}

#[test]
fn an_event_that_waited_elsewhere_is_what_it_is_to_a_state_that_it_waited_in() {
    let automaton = automaton(KINDS);
    let (mut matcher, mut matches, scope) = (Matcher::new(&automaton), Matches::default(), everything(&automaton));
    let bytes = |state: &State| {
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        bytes
    };
    let mut told = 0;
    // At once, within the timespan, beyond it; steps in and out of their order, and the same event twice.
    for (letters, gap) in [("abcabc", 0), ("aabbccabc", 1000), ("cbaabcc", 3000), ("aaaaaaaa", 1), ("abcabcab", 20_000)]
    {
        let new = || automaton.rules().iter().map(State::new).collect::<Vec<_>>();
        let (mut waited, mut elsewhere) = (new(), new());
        let mut outputs = [Vec::new(), Vec::new()];
        let numbers = letters.chars().enumerate().flat_map(|event| [event, event]);
        for (number, letter) in numbers {
            let letter = letter.to_string();
            let fields = [("kind", Value::Text(&letter)), ("user", Value::Text("u")), ("host", Value::Text("h"))];
            let at = 1_000_000 + number as i64 * gap;
            let values = values(&automaton, &fields);
            let row = Row { values: &values, message: "" };
            matcher.matches(&automaton, &scope, &row, mark(at, 1, number as u64), &mut matches);
            for event in matches.fillings() {
                let place = usize::from(event.rule);
                let (rule, [out, other]) = (&automaton.rules()[place], &mut outputs);
                waited[place].step(rule, &event.key, Some(event), at - 1, out);
                let timer = waited[place].step(rule, &event.key, None, at, out);
                let passed = elsewhere[place].pass_fill(rule, &event.key, (event.mark, Fill::of(event)), at, other);
                assert_eq!((timer, bytes(&waited[place])), (passed, bytes(&elsewhere[place])), "{letters} {number}");
            }
        }
        assert_eq!(outputs[0], outputs[1]);
        told += outputs[0].iter().filter(|output| matches!(output, Output::Opened(_))).count();
    }
    assert!(told > 5, "{told}");
}

#[test]
fn versions_say_what_a_change_of_rules_touches() {
    let version = |automaton: &Automaton, name: &str| {
        let rule = automaton.rules().iter().find(|rule| rule.head.name == name).expect("a rule");
        (rule.version, rule.state_version())
    };
    let before = automaton(KINDS);
    assert_eq!(before, automaton(KINDS));
    assert_eq!(before, Automaton::decode(&before.encode()).expect("what was encoded"));
    // Another rule, and a field that all numbers come after, change nothing.
    let first = "title: New\nname: new\nlogsource: {product: p}\ndetection: {s: {another: x}, condition: s}\n---\n";
    let more = automaton(&format!("{first}{KINDS}"));
    assert_ne!(before.fingerprint(), more.fingerprint());
    // A detection beneath changes all that rests on it.
    let other = automaton(&KINDS.replace("kind: b", "kind: B2"));
    // A rule above another asks for a further field: ids stay, states do not.
    let above = automaton(&KINDS.replace("group-by: [host]", "group-by: [host, port]"));
    for rule in before.rules() {
        let name = rule.head.name.as_str();
        assert_eq!(version(&before, name), version(&more, name), "{name}");
        assert_eq!(version(&before, name).0 == version(&other, name).0, name == "ordered_one", "{name}");
        let (same, same_state) =
            (version(&before, name).0 == version(&above, name).0, version(&before, name).1 == version(&above, name).1);
        assert_eq!((same, same_state), (!name.starts_with("chain"), !name.starts_with("chain") && name != "base"));
    }
}
