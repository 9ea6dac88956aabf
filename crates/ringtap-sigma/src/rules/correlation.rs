//! Owns: the `correlation` section.
//! Does not: look up the rules it names.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Fault, formula, head};
use crate::automaton::{Formula, Range, Shape};
use crate::limits::{MAX_GROUP, MAX_INPUTS, MAX_ORDERED};
use crate::yaml::{Entry, Node, Yaml};

/// Longest timespan, days: stamps and sums of timespans stay far inside 64 bits of nanoseconds.
const MAX_DAYS: i64 = 366;
const SECOND: i64 = 1_000_000_000;

/// A correlation rule as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Correlation {
    /// Names or ids.
    pub(crate) rules: Vec<String>,
    /// Which step each of them fills.
    pub(crate) places: Vec<u8>,
    pub(crate) group_by: Vec<String>,
    pub(crate) timespan_ns: i64,
    pub(crate) shape: Shape,
    /// Fields whose values are counted.
    pub(crate) value: Vec<String>,
    pub(crate) aliases: Vec<Alias>,
    pub(crate) generate: bool,
    pub(crate) line: u32,
}

/// One name for fields that events of different rules call differently.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    pub(crate) name: String,
    /// Rule and field.
    pub(crate) of: Vec<(String, String)>,
}

/// Keys of the section.
const KEYS: [&str; 7] = ["type", "rules", "group-by", "timespan", "condition", "aliases", "generate"];

pub(crate) fn read(document: &Node, node: &Node) -> Result<Correlation, Fault> {
    let Yaml::Map(entries) = &node.value else {
        return Err(Fault::broken(node.line, "correlation", format!("is {}, expected a mapping", node.kind())));
    };
    if let Some(entry) = entries.iter().find(|entry| !KEYS.contains(&entry.key.as_str())) {
        let detail = format!("no correlation has this; expected one of {}", KEYS.join(", "));
        return Err(Fault::broken(entry.line, &entry.key, detail));
    }
    let part = |key| node.find(key).ok_or_else(|| Fault::broken(node.line, key, "is missing"));
    let names = part("rules")?;
    let rules = head::strings(names, "rules", MAX_INPUTS)?;
    let mut sorted = rules.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if rules.is_empty() || sorted.len() < rules.len() {
        return Err(Fault::broken(names.line, "rules", "expected one or more different rules"));
    }
    let group_by = match node.find("group-by") {
        None => Vec::new(),
        Some(node) => head::strings(node, "group-by", MAX_GROUP)?,
    };
    let timespan_ns = timespan(part("timespan")?)?;
    let (shape, places, value) = shape(part("type")?, node.find("condition"), &rules, node.line)?;
    let aliases = match node.find("aliases") {
        None => Vec::new(),
        Some(node) => aliases(node)?,
    };
    let generate = match node.find("generate").or_else(|| document.find("generate")) {
        None => false,
        Some(Node { value: Yaml::Bool(generate), .. }) => *generate,
        Some(node) => return Err(Fault::broken(node.line, "generate", "expected true or false")),
    };
    Ok(Correlation { rules, places, group_by, timespan_ns, shape, value, aliases, generate, line: node.line })
}

type Shaped = (Shape, Vec<u8>, Vec<String>);

fn shape(kind: &Node, condition: Option<&Node>, rules: &[String], line: u32) -> Result<Shaped, Fault> {
    let word = kind.scalar().unwrap_or_default();
    let needed = || condition.ok_or_else(|| Fault::broken(line, "condition", "is missing"));
    let every = (0u8..).take(rules.len()).collect::<Vec<_>>();
    match word.as_str() {
        "event_count" => {
            let (range, fields) = range(needed()?)?;
            if fields.is_empty() {
                return Ok((Shape::Count(range), alloc::vec![0; rules.len()], fields));
            }
            Err(Fault::broken(line, "field", "an event_count counts no values (value_count does)"))
        }
        "value_count" => {
            let (range, fields) = range(needed()?)?;
            if fields.is_empty() {
                return Err(Fault::broken(line, "field", "a value_count needs 'field' in its condition"));
            }
            Ok((Shape::Values(range), alloc::vec![0; rules.len()], fields))
        }
        "temporal" => {
            let formula = match condition {
                None => Formula::All(every.iter().map(|place| Formula::Place(*place)).collect()),
                Some(Node { line, value: Yaml::Text(text) }) => formula::read(text, *line, rules)?,
                Some(node) => formula::at_least(range(node)?, rules.len(), node.line)?,
            };
            Ok((Shape::Together(formula), every, Vec::new()))
        }
        "temporal_ordered" => {
            let places = match condition {
                None => every,
                Some(Node { line, value: Yaml::Text(text) }) => {
                    formula::ordered(&formula::read(text, *line, rules)?, rules.len(), *line)?
                }
                Some(node) => match formula::at_least(range(node)?, rules.len(), node.line)? {
                    Formula::AtLeast(least) if usize::from(least) == rules.len() => every,
                    _ => return Err(Fault::unsupported(node.line, "condition", "a part of the steps, in order")),
                },
            };
            if places.iter().any(|place| usize::from(*place) >= MAX_ORDERED) {
                return Err(Fault::broken(line, "rules", format!("more than {MAX_ORDERED} steps in order")));
            }
            Ok((Shape::Ordered, places, Vec::new()))
        }
        "value_sum" | "value_avg" | "value_percentile" | "value_median" | "value_min" | "value_max" => {
            Err(Fault::unsupported(kind.line, &word, ""))
        }
        "temporal_extended" | "temporal_ordered_extended" => {
            Err(Fault::unsupported(kind.line, &word, "(the same condition goes with temporal)"))
        }
        _ => {
            let detail = format!("{word:?}; expected event_count, value_count, temporal or temporal_ordered");
            Err(Fault::broken(kind.line, "type", detail))
        }
    }
}

/// Bounds of a count and the fields whose values are counted.
fn range(node: &Node) -> Result<(Range, Vec<String>), Fault> {
    let Yaml::Map(entries) = &node.value else {
        return Err(Fault::broken(node.line, "condition", format!("is {}, expected such as gte: 10", node.kind())));
    };
    let (mut least, mut most, mut fields, mut bounded) = (1, None, Vec::new(), false);
    for Entry { key, line, node } in entries {
        if key == "field" {
            fields = head::strings(node, "field", MAX_GROUP)?;
            continue;
        }
        let number = match node.value {
            Yaml::Integer(number) => u32::try_from(number).ok().filter(|number| *number < 1 << 24),
            _ => None,
        };
        let Some(number) = number else {
            return Err(Fault::broken(*line, key, format!("expected a whole number from 0 to {}", (1 << 24) - 1)));
        };
        let mut at_most = |number: u32| most = Some(most.map_or(number, |most: u32| most.min(number)));
        match key.as_str() {
            "gte" => least = least.max(number),
            "gt" => least = least.max(number + 1),
            "lte" => at_most(number),
            "lt" => at_most(number.saturating_sub(1)),
            "eq" => {
                least = least.max(number);
                at_most(number);
            }
            "neq" | "percentile" => return Err(Fault::unsupported(*line, key, "")),
            _ => return Err(Fault::broken(*line, key, "expected gt, gte, lt, lte, eq or field")),
        }
        bounded = true;
    }
    if !bounded {
        return Err(Fault::broken(node.line, "condition", "expected gt, gte, lt, lte or eq"));
    }
    if most.is_some_and(|most| most < least) {
        let detail = "can never hold: a key is judged when it has at least one event in the timespan";
        return Err(Fault::broken(node.line, "condition", detail));
    }
    Ok((Range { least, most }, fields))
}

/// `90m`; beside Sigma's s, m, h and d also ms and us.
fn timespan(node: &Node) -> Result<i64, Fault> {
    let text = node.scalar().unwrap_or_default();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => 0,
    };
    match number.parse::<i64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(span) if span > 0 && span <= MAX_DAYS * 86_400 * SECOND => Ok(span),
        _ => {
            let detail = format!("{text:?}; expected a number and s, m, h or d, {MAX_DAYS}d at most");
            Err(Fault::broken(node.line, "timespan", detail))
        }
    }
}

fn aliases(node: &Node) -> Result<Vec<Alias>, Fault> {
    let fault = |node: &Node| {
        Fault::broken(node.line, "aliases", format!("is {}, expected names, and for each rule: field", node.kind()))
    };
    let Yaml::Map(entries) = &node.value else { return Err(fault(node)) };
    let mut aliases = Vec::new();
    for entry in entries {
        let Yaml::Map(of) = &entry.node.value else { return Err(fault(&entry.node)) };
        let one = |entry: &Entry| match entry.node.scalar() {
            Some(field) if !field.is_empty() => Ok((entry.key.clone(), field)),
            _ => Err(fault(&entry.node)),
        };
        let of = of.iter().map(one).collect::<Result<_, _>>()?;
        aliases.push(Alias { name: entry.key.to_owned(), of });
    }
    Ok(aliases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        crate::yaml::documents(text).remove(0).unwrap()
    }

    #[test]
    fn timespans() {
        for (text, ns) in [("10m", Some(600 * SECOND)), ("5ms", Some(5_000_000)), ("366d", Some(366 * 86_400 * SECOND))]
        {
            assert_eq!(timespan(&node(text)).ok(), ns, "{text}");
        }
        for text in ["0s", "10", "m", "-1s", "1.5h", "367d", "99999999999999999999s", "1M", "[1s]"] {
            assert!(timespan(&node(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges() {
        for (text, least, most) in [
            ("gte: 3", 3, None),
            ("gt: 3", 4, None),
            ("eq: 2", 2, Some(2)),
            ("lt: 5", 1, Some(4)),
            ("{gt: 100, lte: 200}", 101, Some(200)),
            ("gte: 0", 1, None),
        ] {
            assert_eq!(range(&node(text)).unwrap().0, Range { least, most }, "{text}");
        }
        for text in ["lt: 1", "{gt: 5, lt: 3}", "gte: -1", "gte: 1.5", "gte: x", "field: a", "neq: 3", "eq: 0"] {
            assert!(range(&node(text)).is_err(), "{text}");
        }
    }
}
