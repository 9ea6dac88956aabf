//! Owns: an event against all detections, and what of it goes to which correlation under which key.
//! Does not: keep anything from one event to the next but memory.

mod parts;
pub(crate) mod search;
mod test;
mod value;

use alloc::boxed::Box;
use alloc::vec::Vec;

pub use parts::{Filling, Matches, Skipped, Why, key_parts};
pub use value::{Row, Value};

use crate::automaton::{Automaton, Expression, Feed, Scope};
use crate::output::Hit;
use crate::step::Mark;
use test::{Compiled, Scratch};

/// Detections, ready to search.
///
/// It owns its working memory, so that events need none once it has grown: one per thread.
#[derive(Clone, Debug)]
pub struct Matcher {
    detections: Vec<Prepared>,
    scratch: Scratch,
    feeds: Vec<Feed>,
}

#[derive(Clone, Debug)]
struct Prepared {
    selections: Vec<Expression<Compiled>>,
    condition: Expression<Compiled>,
}

impl Matcher {
    /// Prepares the detections of an automaton.
    #[must_use]
    pub fn new(automaton: &Automaton) -> Self {
        let detections = automaton.detections.iter().map(|detection| {
            let selections: Vec<Expression<Compiled>> =
                detection.selections.iter().map(|it| sorted(prepare(it), &[])).collect();
            let condition = sorted(prepare(&detection.condition), &selections);
            Prepared { selections, condition }
        });
        Self { detections: detections.collect(), scratch: Scratch::default(), feeds: Vec::new() }
    }

    /// Which detections match an event, and what it hands to which correlation. `out` is emptied first.
    ///
    /// `automaton` must be the one that the matcher was made from.
    pub fn matches(&mut self, automaton: &Automaton, scope: &Scope, row: &Row<'_>, mark: Mark, out: &mut Matches) {
        out.clear();
        self.feeds.clear();
        self.scratch.next(automaton.fields.len());
        for &number in &scope.0 {
            let Some(prepared) = self.detections.get_mut(usize::from(number)) else { continue };
            let Prepared { selections, condition } = prepared;
            if holds(condition, selections, row, &mut self.scratch) {
                out.detections.push(number);
                self.feeds.extend_from_slice(&automaton.detections[usize::from(number)].feeds);
            }
        }
        self.feeds.sort_unstable();
        for feed in &self.feeds {
            out.add(automaton, *feed, row, mark, None);
        }
    }
}

impl Automaton {
    /// What a hit of one correlation hands to those above it. `out` is emptied first.
    pub fn rise(&self, hit: &Hit, out: &mut Matches) {
        out.clear();
        let Some(rule) = self.rules.get(usize::from(hit.rule)) else { return };
        let carry = parts::Carry::read(&hit.carry);
        for feed in &rule.feeds {
            out.add(self, *feed, &carry, hit.mark, Some(hit.incident));
        }
    }
}

fn prepare(expression: &Expression<crate::automaton::Test>) -> Expression<Compiled> {
    match expression {
        Expression::All(list) => Expression::All(list.iter().map(prepare).collect()),
        Expression::Any(list) => Expression::Any(list.iter().map(prepare).collect()),
        Expression::Not(inner) => Expression::Not(Box::new(prepare(inner))),
        Expression::Selection(number) => Expression::Selection(*number),
        Expression::Test(test) => Expression::Test(Compiled::new(test)),
    }
}

/// Lists with what costs least at their beginning: often that says enough. What they mean does not depend on the order.
fn sorted(expression: Expression<Compiled>, selections: &[Expression<Compiled>]) -> Expression<Compiled> {
    let list = |list: Vec<Expression<Compiled>>| {
        let mut list: Vec<_> = list.into_iter().map(|item| sorted(item, selections)).collect();
        list.sort_by_cached_key(|item| cost(item, selections));
        list
    };
    match expression {
        Expression::All(items) => Expression::All(list(items)),
        Expression::Any(items) => Expression::Any(list(items)),
        Expression::Not(inner) => Expression::Not(Box::new(sorted(*inner, selections))),
        other => other,
    }
}

fn cost(expression: &Expression<Compiled>, selections: &[Expression<Compiled>]) -> usize {
    match expression {
        Expression::All(list) | Expression::Any(list) => list.iter().map(|item| cost(item, selections)).sum(),
        Expression::Not(inner) => cost(inner, selections),
        // A selection holds no selections.
        Expression::Selection(number) => selections.get(usize::from(*number)).map_or(0, |it| cost(it, &[])),
        Expression::Test(test) => test.cost(),
    }
}

fn holds(
    expression: &mut Expression<Compiled>,
    selections: &mut [Expression<Compiled>],
    row: &Row<'_>,
    scratch: &mut Scratch,
) -> bool {
    match expression {
        Expression::All(list) => list.iter_mut().all(|item| holds(item, selections, row, scratch)),
        Expression::Any(list) => list.iter_mut().any(|item| holds(item, selections, row, scratch)),
        Expression::Not(inner) => !holds(inner, selections, row, scratch),
        Expression::Selection(number) => {
            // A selection holds no selections.
            selections.get_mut(usize::from(*number)).is_some_and(|selection| holds(selection, &mut [], row, scratch))
        }
        Expression::Test(test) => test.holds(row, scratch),
    }
}
