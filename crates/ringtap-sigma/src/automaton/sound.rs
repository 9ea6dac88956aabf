//! Owns: whether the parts of an automaton fit each other, so that nothing that runs it can be led out of bounds.
//! Does not: read it, or say what is wrong: a sound compiler makes no other, so damage is all there is to say.

use super::{Automaton, Base, Expression, Feed, Formula, Input, Kind, Rule, Shape, Test};
use crate::limits::{MAX_FIELDS, MAX_INPUTS, MAX_ORDERED, MAX_RULES};

impl Automaton {
    /// Every number refers to something, and no rule to itself or a later one.
    pub(super) fn is_sound(&self) -> bool {
        let field = |number: &u16| usize::from(*number) < self.fields.len();
        let feeds = |feeds: &[Feed], base| {
            feeds.iter().all(|feed| {
                let rule = self.rules.get(usize::from(feed.rule));
                rule.and_then(|rule| rule.inputs.get(usize::from(feed.input))).is_some_and(|input| input.base == base)
            })
        };
        let sizes = self.fields.len() <= MAX_FIELDS && self.detections.len().max(self.rules.len()) <= MAX_RULES;
        let detections = (0u16..).zip(&self.detections).all(|(number, detection)| {
            usize::from(detection.logsource) < self.logsources.len()
                && detection.selections.iter().all(|selection| expression_is_sound(selection, self.fields.len(), 0))
                && expression_is_sound(&detection.condition, self.fields.len(), detection.selections.len())
                && feeds(&detection.feeds, Base::Detection(number))
        });
        let rules = (0u16..).zip(&self.rules).all(|(number, rule)| {
            let input = |input: &Input| {
                let sources = [&input.key, &input.value, &input.slots].into_iter().flatten();
                let known = match input.base {
                    Base::Detection(base) => {
                        usize::from(base) < self.detections.len() && sources.copied().all(|s| field(&s))
                    }
                    Base::Rule(base) => {
                        let slots = |base: &Rule| sources.copied().all(|slot| usize::from(slot) < base.slots.len());
                        base < number && self.rules.get(usize::from(base)).is_some_and(slots)
                    }
                };
                known
                    && input.place < rule.places
                    && input.key.len() == rule.group_by.len()
                    && input.slots.len() == rule.slots.len()
                    && matches!(rule.shape, Shape::Values(_)) != input.value.is_empty()
            };
            rule.timespan_ns > 0
                && (1..=MAX_INPUTS).contains(&rule.inputs.len())
                && usize::from(rule.places) <= MAX_INPUTS
                && rule.inputs.iter().all(input)
                && rule.window_bytes() <= u64::from(self.limits.window_bytes)
                && feeds(&rule.feeds, Base::Rule(number))
                && shape_is_sound(&rule.shape, rule.places)
        });
        sizes && detections && rules
    }
}

fn expression_is_sound(expression: &Expression<Test>, fields: usize, selections: usize) -> bool {
    let field = |number: u16| usize::from(number) < fields;
    match expression {
        Expression::All(list) | Expression::Any(list) => {
            list.iter().all(|item| expression_is_sound(item, fields, selections))
        }
        Expression::Not(inner) => expression_is_sound(inner, fields, selections),
        Expression::Selection(number) => usize::from(*number) < selections,
        Expression::Test(test) => {
            let prefix = match test.kind {
                Kind::Network { version6, prefix, .. } => prefix <= if version6 { 128 } else { 32 },
                Kind::Field { other, .. } => field(other),
                _ => true,
            };
            prefix && test.field.is_none_or(field)
        }
    }
}

fn shape_is_sound(shape: &Shape, places: u8) -> bool {
    fn formula(it: &Formula, places: u8) -> bool {
        match it {
            Formula::All(list) | Formula::Any(list) => {
                !list.is_empty() && list.iter().all(|item| formula(item, places))
            }
            Formula::Place(place) => *place < places,
            Formula::AtLeast(least) => (1..=places).contains(least),
        }
    }
    match shape {
        Shape::Count(range) | Shape::Values(range) => {
            range.least > 0 && range.most.is_none_or(|most| most >= range.least)
        }
        Shape::Together(it) => formula(it, places),
        Shape::Ordered => usize::from(places) <= MAX_ORDERED,
    }
}
