//! Detections: what fields, modifiers and conditions mean, over single events.

mod support;

use ringtap_sigma::{Matcher, Matches, Row, Value};
use support::{automaton, everything, mark, rejected, values};

/// Whether a selection of these lines, indented by eight, matches an event.
fn holds(lines: &str, fields: &[(&str, Value<'_>)]) -> bool {
    let text = format!(
        "title: T\nlogsource: {{product: p}}\ndetection:\n    s:\n{}\n    condition: s\n",
        lines.lines().map(|line| format!("        {line}\n")).collect::<String>()
    );
    matches(&text, fields, "")
}

fn matches(rules: &str, fields: &[(&str, Value<'_>)], message: &str) -> bool {
    let automaton = automaton(rules);
    let (mut matcher, mut matches) = (Matcher::new(&automaton), Matches::default());
    let values = values(&automaton, fields);
    let row = Row { values: &values, message };
    matcher.matches(&automaton, &everything(&automaton), &row, mark(0, 1, 1), &mut matches);
    !matches.detections.is_empty()
}

fn text(text: &str) -> [(&str, Value<'_>); 1] {
    [("f", Value::Text(text))]
}

#[test]
fn texts() {
    for (line, value, expected) in [
        ("f: Abc", "aBC", true),
        ("f: abc", "abcd", false),
        ("f|cased: Abc", "abc", false),
        ("f: a*c", "aXXc", true),
        ("f: a?c", "aéc", true),
        ("f: a?c", "ac", false),
        (r"f: 'a\*c'", "a*c", true),
        (r"f: 'a\*c'", "abc", false),
        (r"f: 'C:\Windows\*'", r"c:\windows\x", false),
        (r"f: 'C:\Windows\\*'", r"c:\windows\x", true),
        ("f|contains: ÄB", "xäbx", true),
        ("f|startswith: ab", "ABc", true),
        ("f|endswith: bc", "abC", true),
        ("f|contains|all: [a, b]", "xbxa", true),
        ("f|contains|all: [a, b]", "xa", false),
        ("f|contains: [q, a]", "xa", true),
        ("f|neq: a", "b", true),
        ("f|neq: a", "A", false),
        ("f|re: '^a[0-9]+$'", "a12", true),
        ("f|re: '^A'", "a12", false),
        ("f|re|i: '^A'", "a12", true),
        ("f|cidr: 10.0.0.0/8", "10.255.0.1", true),
        ("f|cidr: 10.0.0.0/8", "11.0.0.1", false),
        ("f|cidr: 0.0.0.0/0", "11.0.0.1", true),
        ("f|cidr: 0.0.0.0/0", "::1", false),
        ("f|cidr: ['fe80::/10', 192.0.2.0/24]", "fe80::1", true),
        ("f|windash|contains: ' -x'", "cmd /x", true),
        ("f|windash|contains: ' -x'", "cmd –x", true),
        ("f|base64offset|contains: attack", "eHhhdHRhY2t5", true),
        ("f|wide|base64: ab", "YQBiAA==", true),
        ("f: ''", "", true),
        ("f: '*'", "", true),
        ("f: 4625", "4625", true),
    ] {
        assert_eq!(holds(line, &text(value)), expected, "{line} and {value}");
    }
}

#[test]
fn other_values() {
    let list = [Value::Text("a"), Value::Integer(7), Value::List(&[])];
    for (line, value, expected) in [
        ("f: 4625", Value::Integer(4625), true),
        ("f: true", Value::Bool(true), true),
        ("f|gte: 5", Value::Integer(5), true),
        ("f|gt: 5", Value::Number("5.5"), true),
        ("f|lt: -1", Value::Number("-1.0"), false),
        ("f|lte: 5", Value::Text("x"), false),
        ("f: null", Value::Missing, true),
        ("f: null", Value::Null, true),
        ("f: null", Value::Text(""), false),
        ("f|exists: true", Value::Null, true),
        ("f|exists: false", Value::Missing, true),
        ("f|exists: false", Value::Text(""), false),
        ("f: '*'", Value::Missing, false),
        ("f|neq: a", Value::Missing, true),
        ("f: a", Value::List(&list), true),
        ("f|gt: 6", Value::List(&list), true),
        ("f: b", Value::List(&list), false),
    ] {
        assert_eq!(holds(line, &[("f", value)]), expected, "{line} and {value:?}");
    }
    let two = [("f", Value::Text("abc")), ("g", Value::Text("B"))];
    assert!(holds("f|fieldref|contains: g", &two));
    assert!(!holds("f|fieldref: g", &two));
    assert!(holds("f|fieldref|neq: g", &two));
}

#[test]
fn selections_and_conditions() {
    let rule = |selections: &str, condition: &str| {
        format!("title: T\nlogsource: {{product: p}}\ndetection:\n{selections}\n    condition: {condition}\n")
    };
    let ab = "    a: {f: x}\n    b: [{f: y}, {g: z}]";
    assert!(matches(&rule(ab, "a or b"), &text("y"), ""));
    assert!(matches(&rule(ab, "b and not a"), &[("g", Value::Text("z"))], ""));
    assert!(matches(&rule(ab, "[a, b]"), &text("y"), ""));
    assert!(!matches(&rule(ab, "all of them"), &text("y"), ""));
    let words = "    a: [EVIL, ser*ice]\n    b:\n        '|all': [one, two]";
    assert!(matches(&rule(words, "a"), &[], "an evil thing"));
    assert!(matches(&rule(words, "a"), &[], "a service"));
    assert!(matches(&rule(words, "b"), &[], "two and one"));
    assert!(!matches(&rule(words, "b"), &[], "one"));
}

#[test]
fn logsources_choose_the_inputs() {
    let automaton = automaton(
        "title: A\nlogsource: {product: suricata}\ndetection: {s: {f: x}, condition: s}\n---\n\
         title: B\nlogsource: {product: linux, service: sshd}\ndetection: {s: {f: x}, condition: s}\n",
    );
    let scope = automaton.scope(|logsource| logsource.service == "sshd");
    let (mut matcher, mut matches) = (Matcher::new(&automaton), Matches::default());
    let row = Row { values: &[Value::Text("x")], message: "" };
    matcher.matches(&automaton, &scope, &row, mark(0, 1, 1), &mut matches);
    assert_eq!(matches.detections, [1]);
    assert!(automaton.detections()[1].announces);
    assert_eq!(automaton.logsource(&automaton.detections()[1]).product, "linux");
}

#[test]
fn what_is_not_used_is_named_with_line_and_reason() {
    let base = "title: A\nname: a\nlogsource: {product: p}\ndetection:\n    s:\n        f: x\n    condition: s\n---\n";
    for (text, expected) in [
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s:\n        f|expand: '%x%'\n    condition: s\n",
            "test.yml:5: T: expand: placeholders is not supported",
        ),
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s:\n        f|re: 'a(?=b)'\n    condition: s\n",
            "test.yml:5: T: re: look-around",
        ),
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s:\n        f|hour: 3\n    condition: s\n",
            "test.yml:5: T: hour is not supported",
        ),
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s:\n        f|contians: x\n    condition: s\n",
            "test.yml:5: T: contians: there is no such modifier",
        ),
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s: {f: x}\n    condition: s | count() > 5\n",
            "test.yml:5: T: condition: an aggregation",
        ),
        (
            "title: T\nlogsource: {product: p}\ndetection:\n    s: {f: x}\n    timeframe: 5m\n    condition: s\n",
            "test.yml:5: T: timeframe",
        ),
        ("title: T\ndetection:\n    s: {f: x}\n    condition: s\n", "test.yml:1: T: logsource: is missing"),
        ("title: T\nname: t\nlevel: grave\nlogsource: {product: p}\n", "test.yml:3: T: level: expected informational"),
        ("title: T\nfilter: {}\n", "test.yml:2: T: filter is not supported"),
        (
            "title: T\ncorrelation:\n    type: value_avg\n    rules: a\n    group-by: f\n    timespan: 1m\n",
            "test.yml:3: T: value_avg is not supported",
        ),
        (
            "title: T\ncorrelation:\n    type: temporal\n    rules: [a, b]\n    timespan: 1m\n    condition: a and not b\n",
            "test.yml:6: T: condition: 'not' is not supported",
        ),
        (
            "title: T\ncorrelation:\n    type: event_count\n    rules: a\n    groupby: f\n    timespan: 1m\n    condition: {gte: 2}\n",
            "test.yml:5: T: groupby: no correlation has this",
        ),
        (
            "title: T\ncorrelation:\n    type: event_count\n    rules: nobody\n    timespan: 1m\n    condition: {gte: 2}\n",
            "there is no usable rule \"nobody\"",
        ),
        (
            "title: T\ncorrelation:\n    type: event_count\n    rules: a\n    timespan: 1m\n    condition: {gte: 100000}\n",
            "one key could need",
        ),
        (
            "title: T\ncorrelation:\n    type: temporal\n    rules: [a]\n    group-by: x\n    timespan: 1m\n    aliases: {x: {b: f}}\n",
            "\"x\" has no field for the rule \"a\"",
        ),
        ("- a\n", "test.yml:1: a rule is a mapping, not a list"),
        ("title: T\nx: &a 1\ny: *a\n", "test.yml:3: aliases"),
        (
            "title: A\nname: a\nlogsource: {product: p}\ndetection: {s: {f: x}, condition: s}\n",
            "another rule is called \"a\"",
        ),
    ] {
        let alone = rejected(text);
        let found = if expected.starts_with("test.yml") { alone } else { rejected(&format!("{base}{text}")) };
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}\n{found:#?}");
    }
}

#[test]
fn rules_that_rest_on_a_refused_one_are_refused_and_others_are_not() {
    let correlation = |name: &str, rules: &str| {
        format!(
            "title: {name}\nname: {name}\ncorrelation:\n    type: temporal\n    rules: [{rules}]\n    timespan: 1m\n---\n"
        )
    };
    let text = [
        "title: A\nname: a\nlogsource: {product: p}\ndetection: {s: {f: x}, condition: s}\n---\n".to_owned(),
        correlation("good", "a"),
        correlation("bad", "nobody"),
        correlation("above", "bad, a"),
        correlation("ring", "ring_two"),
        correlation("ring_two", "ring"),
        correlation("on_ring", "ring, a"),
        correlation("top", "good, a"),
    ]
    .concat();
    let found = rejected(&text);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(found.iter().any(|line| line.contains("above: rules: rests on \"bad\"")));
    assert!(found.iter().filter(|line| line.contains("the rules rest on each other")).count() >= 2);
}
