//! What is told before the watermark is never taken back, and in order of arrival it is told at once.

mod support;

use proptest::prelude::*;
use ringtap_sigma::{Matcher, Matches, Output, Row, State, Value};
use support::{automaton, everything, mark, values};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_certain_match_is_confirmed(
        events in proptest::collection::vec((0..25_000i64, 0..3usize, 0..4u8), 0..16),
        sorted in any::<bool>(),
        handed in any::<bool>(),
    ) {
        let automaton = automaton(include_str!("vectors/kinds.yml"));
        let (mut matcher, scope) = (Matcher::new(&automaton), everything(&automaton));
        let mut events = events;
        if sorted {
            events.sort_unstable();
        }
        for rule in automaton.rules().iter().filter(|rule| rule.level == 0) {
            let (mut state, mut out, mut certain, mut key) = (State::new(rule), Vec::new(), Vec::new(), Vec::new());
            for (sequence, (time, letter, value)) in events.iter().enumerate() {
                let fields = [
                    ("kind", Value::Text(["a", "b", "c"][*letter])),
                    ("user", Value::Text("u")),
                    ("host", Value::Text("h")),
                    ("value", Value::Text(["v", "w", "x", "y"][usize::from(*value)])),
                ];
                let values = values(&automaton, &fields);
                let mut matches = Matches::default();
                let row = Row { values: &values, message: "" };
                matcher.matches(&automaton, &scope, &row, mark(*time, 1, sequence as u64), &mut matches);
                let Some(filling) = matches.fillings().iter().find(|filling| filling.rule == rule.number) else { continue };
                key = filling.key.clone();
                // Before the state has it, or after: the same is certain.
                let before = handed.then(|| state.preview(rule, std::slice::from_ref(filling)));
                state.step(rule, &key, Some(filling), -1, &mut out);
                let after = state.preview(rule, &[]);
                if let Some(before) = before {
                    prop_assert_eq!(&before, &after);
                }
                certain.push((*time, after));
            }
            prop_assert!(out.is_empty());
            state.step(rule, &key, None, i64::MAX, &mut out);
            let open = |at: i64| {
                let opened = |o: &Output| matches!(o, Output::Opened(it) if it.at_ns <= at);
                let closed = |o: &Output| matches!(o, Output::Closed(it) if it.at_ns <= at);
                out.iter().filter(|o| opened(o)).count() > out.iter().filter(|o| closed(o)).count()
            };
            for found in certain.iter().filter_map(|(_, found)| found.as_ref()) {
                prop_assert!(open(found.at_ns), "{} {:?} {:?}", rule.head.name, found, out);
            }
            let first = out.iter().find_map(|o| if let Output::Opened(it) = o { Some(it.at_ns) } else { None });
            if sorted && rule.monotone {
                let found = certain.iter().find(|(_, found)| found.is_some()).map(|(time, _)| *time);
                prop_assert_eq!(found, first, "{}", rule.head.name);
            }
        }
    }
}
