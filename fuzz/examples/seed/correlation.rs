//! Owns: the seeds of the correlation's targets: rules, the bytes of automata, states with events.

use ringtap_sigma::{Automaton, Clock, Identity, Mark, Matcher, Matches, Row, State, Value};

use crate::{Seeds, sigma};

/// Rules by the file, and each by itself.
pub fn rules() -> Seeds {
    let each = sigma::KINDS.split("---\n").enumerate();
    let mut seeds: Seeds = each.map(|(number, text)| (format!("rule-{number:02}"), text.into())).collect();
    let pairs = "title: D\nname: d\nlogsource: {product: p}\ndetection:\n    s:\n        f|contains|all: [a, 'b*c']\n        g|re|i: '^x.y'\n        h|cidr: 192.0.2.0/24\n        i|gte: 5\n    t: [word, 'other ?']\n    condition: 1 of s* or not t\n---\ntitle: C\ncorrelation:\n    type: value_count\n    rules: d\n    group-by: [f, g]\n    timespan: 5m\n    condition: {gte: 3, field: i}\n";
    seeds.push(("modifiers".to_owned(), pairs.into()));
    seeds
}

/// What stands before the fingerprint.
pub fn automata() -> Seeds {
    let of = |text: &str| {
        let mut bytes = sigma::automaton(text).encode();
        bytes.truncate(bytes.len() - 32);
        bytes
    };
    let modifiers = rules().pop().map(|(_, text)| String::from_utf8(text).expect("text")).expect("a seed");
    vec![("kinds".to_owned(), of(sigma::KINDS)), ("modifiers".to_owned(), of(&modifiers))]
}

/// For each rule a state that has seen some events, and events to come.
pub fn steps() -> Seeds {
    let automaton = sigma::automaton(sigma::KINDS);
    let fillings = fillings(&automaton);
    let rules = automaton.rules().iter();
    rules.map(|rule| {
        let of: Vec<_> = fillings.iter().filter(|filling| filling.rule == rule.number).collect();
        let (mut state, mut out) = (State::new(rule), Vec::new());
        for filling in &of[..of.len() / 2] {
            state.step(rule, &filling.key, Some(filling), filling.mark.time_ns - 2, &mut out);
        }
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        let mut seed = vec![rule.number as u8];
        add(&mut seed, &bytes);
        for filling in &of[of.len() / 2..] {
            let mut bytes = Vec::new();
            filling.encode(&mut bytes);
            add(&mut seed, &bytes);
        }
        (format!("rule-{:02}", rule.number), seed)
    }).collect()
}

fn add(seed: &mut Vec<u8>, part: &[u8]) {
    seed.extend((part.len() as u16).to_be_bytes());
    seed.extend(part);
}

fn fillings(automaton: &Automaton) -> Vec<ringtap_sigma::Filling> {
    let (mut matcher, scope) = (Matcher::new(automaton), automaton.scope(|_| true));
    let mut all = Vec::new();
    for (sequence, kind) in ["a", "b", "a", "c", "b", "a", "c"].into_iter().enumerate() {
        let value = |name: &String| match name.as_str() {
            "kind" => Value::Text(kind),
            _ => Value::Text("x"),
        };
        let values: Vec<Value<'_>> = automaton.fields().iter().map(value).collect();
        let identity = Identity { sensor: 1, epoch: 1, sequence: sequence as u64 };
        let mark = Mark { time_ns: 1000 + sequence as i64, identity, clock: Clock { domain: 1, error_us: Some(1) } };
        let mut matches = Matches::default();
        matcher.matches(automaton, &scope, &Row { values: &values, message: "" }, mark, &mut matches);
        all.extend_from_slice(matches.fillings());
    }
    all
}
