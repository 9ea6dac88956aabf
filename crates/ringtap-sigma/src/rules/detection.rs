//! Owns: the `detection` section: selections as lists and mappings, and the condition over them.
//! Does not: read a field's modifiers and values, nor the condition's words.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Fault, Fields, condition, field};
use crate::automaton::{Expression, Logsource, Test};
use crate::limits::MAX_VALUES;
use crate::yaml::{Node, Yaml};

/// Selections of one rule.
const MAX_SELECTIONS: usize = 1024;

/// A detection rule as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Detection {
    pub(crate) logsource: Logsource,
    pub(crate) selections: Vec<Expression<Test>>,
    pub(crate) condition: Expression<Test>,
}

pub(crate) fn read(node: &Node, logsource: Logsource, fields: &mut Fields) -> Result<Detection, Fault> {
    let Yaml::Map(entries) = &node.value else {
        return Err(Fault::broken(node.line, "detection", format!("is {}, expected a mapping", node.kind())));
    };
    if entries.len() > MAX_SELECTIONS {
        return Err(Fault::broken(node.line, "detection", format!("has more than {MAX_SELECTIONS} selections")));
    }
    let (mut names, mut selections) = (Vec::new(), Vec::new());
    let mut budget = field::Budget::default();
    for entry in entries {
        match entry.key.as_str() {
            "condition" => {}
            "timeframe" => {
                return Err(Fault::unsupported(entry.line, "timeframe", "a time in a detection (write a correlation)"));
            }
            name => {
                names.push(String::from(name));
                selections.push(selection(name, &entry.node, fields, &mut budget)?);
            }
        }
    }
    let Some(text) = node.find("condition") else {
        return Err(Fault::broken(node.line, "condition", "is missing"));
    };
    let conditions = super::head::strings_long(text, "condition", MAX_SELECTIONS)?;
    let (mut any, mut terms) = (Vec::new(), 0);
    for (text, line) in conditions {
        any.push(condition::parse(&text, line, &names, &mut terms)?);
    }
    let condition = if any.len() == 1 { any.remove(0) } else { Expression::Any(any) };
    Ok(Detection { logsource, selections, condition })
}

fn selection(
    name: &str,
    node: &Node,
    fields: &mut Fields,
    budget: &mut field::Budget,
) -> Result<Expression<Test>, Fault> {
    match &node.value {
        Yaml::Map(_) => mapping(node, fields, budget),
        Yaml::List(list) if list.len() > MAX_VALUES => {
            Err(Fault::broken(node.line, name, format!("has more than {MAX_VALUES} entries")))
        }
        Yaml::List(list) => {
            let mut any = Vec::new();
            for item in list {
                any.push(match &item.value {
                    Yaml::Map(_) => mapping(item, fields, budget)?,
                    Yaml::List(_) => return Err(Fault::broken(item.line, name, "a list inside a list")),
                    _ => field::read("", item.line, item, fields, budget)?,
                });
            }
            if any.is_empty() {
                return Err(Fault::broken(node.line, name, "is empty"));
            }
            Ok(Expression::Any(any))
        }
        Yaml::Null => Err(Fault::broken(node.line, name, "is empty")),
        _ => field::read("", node.line, node, fields, budget),
    }
}

/// All lines of a mapping have to hold.
fn mapping(node: &Node, fields: &mut Fields, budget: &mut field::Budget) -> Result<Expression<Test>, Fault> {
    let Yaml::Map(entries) = &node.value else { return Err(Fault::broken(node.line, "", "expected a mapping")) };
    if entries.is_empty() {
        return Err(Fault::broken(node.line, "detection", "an empty mapping"));
    }
    let mut all = Vec::new();
    for entry in entries {
        all.push(field::read(&entry.key, entry.line, &entry.node, fields, budget)?);
    }
    Ok(if all.len() == 1 { all.remove(0) } else { Expression::All(all) })
}
