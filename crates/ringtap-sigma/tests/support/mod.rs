//! What the tests share: rules from text, events, and a host that keeps states as bytes.
#![allow(dead_code)] // Each test file uses its part.

pub mod vectors;

use std::collections::{BTreeMap, BTreeSet};

use ringtap_sigma::{
    Automaton, Clock, Filling, Identity, Limits, Mark, Matcher, Matches, Output, Row, RuleSet, Scope, State, Value,
};

/// Compiles rules that all have to be usable.
pub fn automaton(text: &str) -> Automaton {
    let mut rules = RuleSet::new();
    rules.add("test.yml", text);
    let (automaton, rejected) = rules.compile(Limits::default());
    let rejected: Vec<_> = rejected.iter().map(ToString::to_string).collect();
    assert!(rejected.is_empty(), "{rejected:#?}");
    automaton
}

/// What is said of rules that are not usable.
pub fn rejected(text: &str) -> Vec<String> {
    let mut rules = RuleSet::new();
    rules.add("test.yml", text);
    rules.compile(Limits::default()).1.iter().map(ToString::to_string).collect()
}

/// All detections.
pub fn everything(automaton: &Automaton) -> Scope {
    automaton.scope(|_| true)
}

/// A reference to an event of a clock with an error of 1 µs.
pub fn mark(time_ns: i64, sensor: u64, sequence: u64) -> Mark {
    let clock = Clock { domain: sensor, error_us: Some(1) };
    Mark { time_ns, identity: Identity { sensor, epoch: 1, sequence }, clock }
}

/// The values of a row by the names of fields.
pub fn values<'a>(automaton: &Automaton, fields: &[(&str, Value<'a>)]) -> Vec<Value<'a>> {
    let of = |name: &String| fields.iter().find(|(field, _)| field == name).map_or(Value::Missing, |(_, value)| *value);
    automaton.fields().iter().map(of).collect()
}

/// Lines of JSON.
pub fn lines(automaton: &Automaton, outputs: &[Output]) -> Vec<String> {
    let line = |output: &Output| {
        let mut line = String::new();
        output.write_json(automaton, &mut line);
        line
    };
    outputs.iter().map(line).collect()
}

/// A host that knows states only as bytes, as a distributed engine does, and sends fillings as bytes, too.
pub struct ByteHost {
    automaton: Automaton,
    matcher: Matcher,
    watermark: i64,
    states: BTreeMap<(u16, Vec<u8>), Vec<u8>>,
    timers: BTreeSet<(u8, i64, u16, Vec<u8>)>,
    /// The longest state so far, by rule.
    pub longest: BTreeMap<u16, usize>,
}

impl ByteHost {
    pub fn new(automaton: &Automaton) -> Self {
        let automaton = Automaton::decode(&automaton.encode()).expect("what was encoded");
        let matcher = Matcher::new(&automaton);
        let (states, timers, longest) = Default::default();
        Self { automaton, matcher, watermark: i64::MIN, states, timers, longest }
    }

    pub fn event(&mut self, row: &Row<'_>, mark: Mark, out: &mut Vec<Output>) {
        let (scope, mut matches) = (everything(&self.automaton), Matches::default());
        self.matcher.matches(&self.automaton, &scope, row, mark, &mut matches);
        for filling in matches.fillings() {
            self.send(filling, self.watermark, out);
        }
    }

    pub fn advance(&mut self, watermark: i64, out: &mut Vec<Output>) {
        let before = std::mem::replace(&mut self.watermark, watermark);
        for level in 0..8 {
            let due = |timer: &&(u8, i64, u16, Vec<u8>)| timer.0 == level && timer.1 <= watermark;
            while let Some(timer) = self.timers.iter().find(due).cloned() {
                self.call(timer.2, &timer.3, None, watermark, before, out);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.timers.is_empty()
    }

    fn send(&mut self, filling: &Filling, watermark: i64, out: &mut Vec<Output>) {
        let mut bytes = Vec::new();
        filling.encode(&mut bytes);
        let filling = Filling::decode(&bytes).expect("what was encoded");
        self.call(filling.rule, &filling.key, Some(&filling), watermark, watermark, out);
    }

    fn call(
        &mut self,
        number: u16,
        key: &[u8],
        event: Option<&Filling>,
        watermark: i64,
        above: i64,
        out: &mut Vec<Output>,
    ) {
        let rule = &self.automaton.rules()[usize::from(number)];
        let at = (number, key.to_vec());
        let mut state = match self.states.remove(&at) {
            Some(bytes) => State::decode(rule, &bytes).expect("what was encoded"),
            None => State::new(rule),
        };
        let from = out.len();
        let timer = state.step(rule, key, event, watermark, out);
        self.timers.retain(|timer| (timer.2, &timer.3) != (at.0, &at.1));
        assert_eq!(timer.is_none(), state.is_empty());
        if let Some(time) = timer {
            assert!(time > watermark, "a timer behind the watermark");
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            let most = rule.window_bytes() + rule.waiting_bytes() * state.waiting() as u64;
            assert!(bytes.len() as u64 <= most, "{} > {most}", bytes.len());
            self.timers.insert((rule.level, time, number, key.to_vec()));
            self.states.insert(at, bytes);
        }
        let mut matches = Matches::default();
        for at in from..out.len() {
            let Output::Hit(hit) = out[at].clone() else { continue };
            self.automaton.rise(&hit, &mut matches);
            for filling in matches.fillings() {
                self.send(filling, above, out);
            }
        }
    }
}
