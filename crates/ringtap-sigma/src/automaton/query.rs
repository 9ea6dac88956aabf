//! Owns: what whoever runs an automaton asks of it.
//! Does not: change it.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Automaton, Base, Detection, Expression, Logsource, Rule, Shape, Test, Version, version};
use crate::bytes::Writer;
use crate::limits::Limits;
use crate::step::{ENTRY_BYTES, STATE_BYTES, VALUE_BYTES, VIA_BYTES};

/// Detections that a kind of input is for; made once for each input by [`Automaton::scope`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(pub(crate) Vec<u16>);

impl Automaton {
    /// Names of the fields that rules look at; a [`Row`](crate::Row) has one value for each, in this order.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Detections; their numbers are places in this list.
    #[must_use]
    pub fn detections(&self) -> &[Detection] {
        &self.detections
    }

    /// Correlations, each after those it rests on; their numbers are places in this list.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a detection looks at the whole message: [`Row::message`](crate::Row::message).
    #[must_use]
    pub fn searches_messages(&self) -> bool {
        self.detections.iter().any(|it| it.selections.iter().chain([&it.condition]).any(searches_message))
    }

    /// Bounds it was compiled with.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The detections for events of one input: those whose logsource `belongs` says yes to.
    #[must_use]
    pub fn scope(&self, mut belongs: impl FnMut(&Logsource) -> bool) -> Scope {
        let yes: Vec<bool> = self.logsources.iter().map(&mut belongs).collect();
        let in_scope = |(number, detection): (u16, &Detection)| yes[usize::from(detection.logsource)].then_some(number);
        Scope((0u16..).zip(&self.detections).filter_map(in_scope).collect())
    }

    /// Longest time that an event can matter, ns: a log that reaches back so far rebuilds every state.
    #[must_use]
    pub fn horizon_ns(&self) -> i64 {
        self.rules.iter().map(|rule| rule.reach_ns).max().unwrap_or(0)
    }

    /// The same rules with `factor` times the timespan: what they find more is what came too late. Their ids, and
    /// [`Rule::version`], stay, so what they find is not for a store.
    #[must_use]
    pub fn widened(&self, factor: u32) -> Self {
        let mut wide = self.clone();
        for rule in &mut wide.rules {
            rule.timespan_ns = rule.timespan_ns.saturating_mul(factor.into());
            rule.reach_ns = rule.reach_ns.saturating_mul(factor.into());
        }
        wide
    }

    /// The logsource of a detection.
    #[must_use]
    pub fn logsource(&self, detection: &Detection) -> &Logsource {
        &self.logsources[usize::from(detection.logsource)]
    }
}

fn searches_message(expression: &Expression<Test>) -> bool {
    match expression {
        Expression::All(list) | Expression::Any(list) => list.iter().any(searches_message),
        Expression::Not(inner) => searches_message(inner),
        Expression::Selection(_) => false,
        Expression::Test(test) => test.field.is_none(),
    }
}

impl Rule {
    /// Bytes that the window of one key takes at most, as [`State::encode`](crate::State::encode) writes it. Events
    /// that wait for the watermark come on top: [`Limits::waiting`] times [`waiting_bytes`](Self::waiting_bytes).
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        let entry = self.entry_bytes();
        let places = u64::from(self.places);
        let window = match &self.shape {
            Shape::Count(range) => u64::from(range.keep()) * entry,
            Shape::Values(range) => u64::from(range.keep()) * (entry + VALUE_BYTES),
            Shape::Together(_) => places * (entry + 1),
            // A chain for each step, and the one that was told.
            Shape::Ordered => (places * (places + 1) / 2 + places) * entry + 2 * (places + 1),
        };
        STATE_BYTES + window
    }

    /// Bytes of one waiting event at most.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        let value = if matches!(self.shape, Shape::Values(_)) { VALUE_BYTES } else { 0 };
        let slot = crate::limits::MAX_KEY_BYTES as u64 + 3;
        self.entry_bytes() + value + 9 + slot * self.slots.len() as u64
    }

    fn entry_bytes(&self) -> u64 {
        let chained = self.inputs.iter().any(|input| matches!(input.base, Base::Rule(_)));
        ENTRY_BYTES + if chained { VIA_BYTES } else { 0 }
    }

    /// Whether the condition has an upper bound, so that a further event can end it.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(self.shape, Shape::Count(range) | Shape::Values(range) if range.most.is_some())
    }

    /// Hash of what states and fillings of the rule depend on: its version, and what it has to know of events for the
    /// rules above it. Where only that has changed, ids stay and states have to be rebuilt.
    #[must_use]
    pub fn state_version(&self) -> Version {
        let mut bytes = Vec::from(self.version);
        Writer(&mut bytes).list(&self.slots, |w, name| w.text(name));
        version(&bytes)
    }

    /// Whether hits of the rule go to rules above it.
    #[must_use]
    pub fn is_consumed(&self) -> bool {
        !self.feeds.is_empty()
    }

    /// What each step rests on: its label, in the order of the rule.
    pub fn steps<'a>(&'a self, automaton: &'a Automaton) -> impl Iterator<Item = (u8, &'a str)> {
        self.inputs.iter().map(|input| {
            let head = match input.base {
                Base::Detection(number) => &automaton.detections[usize::from(number)].head,
                Base::Rule(number) => &automaton.rules[usize::from(number)].head,
            };
            (input.place, head.label())
        })
    }
}
