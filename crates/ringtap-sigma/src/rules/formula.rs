//! Owns: conditions of correlations over the rules they name: `a and (b or c)`, and so many of them.
//! Does not: take a negation: whether something did not happen is known only when its time is over.

use alloc::vec::Vec;

use super::{Fault, condition};
use crate::automaton::{Expression, Formula, Range};
use alloc::string::String;

pub(super) fn read(text: &str, line: u32, rules: &[String]) -> Result<Formula, Fault> {
    let formula = convert(&condition::parse::<()>(text, line, rules, &mut 0)?, line)?;
    let mut named = alloc::vec![false; rules.len()];
    mark(&formula, &mut named);
    match named.iter().position(|named| !named) {
        None => Ok(formula),
        Some(index) => {
            Err(Fault::broken(line, "condition", alloc::format!("does not name {:?} of 'rules'", rules[index])))
        }
    }
}

fn convert(expression: &Expression<()>, line: u32) -> Result<Formula, Fault> {
    let list = |list: &[Expression<()>]| list.iter().map(|item| convert(item, line)).collect::<Result<Vec<_>, _>>();
    Ok(match expression {
        Expression::All(items) => Formula::All(list(items)?),
        Expression::Any(items) => Formula::Any(list(items)?),
        Expression::Selection(index) => Formula::Place(*index as u8),
        Expression::Not(_) | Expression::Test(()) => return Err(Fault::unsupported(line, "condition", "'not'")),
    })
}

fn mark(formula: &Formula, named: &mut [bool]) {
    match formula {
        Formula::All(list) | Formula::Any(list) => list.iter().for_each(|item| mark(item, named)),
        Formula::Place(place) => named[usize::from(*place)] = true,
        Formula::AtLeast(_) => named.fill(true),
    }
}

/// So many different rules of those named.
pub(super) fn at_least((range, fields): (Range, Vec<String>), rules: usize, line: u32) -> Result<Formula, Fault> {
    if !fields.is_empty() {
        return Err(Fault::broken(line, "field", "goes with value_count only"));
    }
    match (range.most, u8::try_from(range.least)) {
        (None, Ok(least)) if usize::from(least) <= rules => Ok(Formula::AtLeast(least)),
        (None, _) => Err(Fault::broken(line, "condition", alloc::format!("can never hold: there are {rules} rules"))),
        (Some(most), Ok(least)) if most as usize == rules && usize::from(least) == rules => Ok(Formula::AtLeast(least)),
        (Some(_), _) => Err(Fault::unsupported(line, "condition", "an upper bound of different rules")),
    }
}

/// The step that each rule fills: steps are joined by `and`, the rules of one step by `or`, in the order of `rules`.
pub(super) fn ordered(formula: &Formula, rules: usize, line: u32) -> Result<Vec<u8>, Fault> {
    let steps = match formula {
        Formula::All(list) => list.as_slice(),
        other => core::slice::from_ref(other),
    };
    let mut named = Vec::new();
    for (step, formula) in (0u8..).zip(steps) {
        let alternatives = match formula {
            Formula::Any(list) => list.as_slice(),
            other => core::slice::from_ref(other),
        };
        for alternative in alternatives {
            let Formula::Place(place) = alternative else {
                return Err(Fault::unsupported(line, "condition", "of ordered rules, 'and' inside 'or',"));
            };
            named.push((*place, step));
        }
    }
    if !named.iter().map(|(place, _)| usize::from(*place)).eq(0..rules) {
        let detail = "of ordered rules names each once, in the order of 'rules'";
        return Err(Fault::broken(line, "condition", detail));
    }
    Ok(named.into_iter().map(|(_, step)| step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(Into::into).into()
    }

    #[test]
    fn steps_with_alternatives() {
        let steps = |text| ordered(&read(text, 1, &names())?, 3, 1);
        assert_eq!(steps("(a or b) and c").unwrap(), [0, 0, 1]);
        assert_eq!(steps("a and b and c").unwrap(), [0, 1, 2]);
        assert_eq!(steps("a or b or c").unwrap(), [0, 0, 0]);
        assert!(steps("b and a and c").is_err());
        assert!(steps("(a and b) or c").is_err());
    }

    #[test]
    fn no_negation_and_no_rule_without_a_part() {
        assert!(read("a and not b and c", 1, &names()).is_err());
        assert!(read("a and b", 1, &names()).is_err());
        assert!(read("a and b and d", 1, &names()).is_err());
        assert!(read("1 of them", 1, &names()).is_ok());
    }
}
