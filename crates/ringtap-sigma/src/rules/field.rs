//! Owns: one line of a selection: a field's name, its modifiers and its values, as tests.
//! Does not: compare.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::encoding::{self, Encoding};
use super::wildcard::{self, Form, Part};
use super::{Fault, Fields};
use crate::automaton::{Compare, Expression, How, Kind, Regex, Test};
use crate::limits::{MAX_EXPRESSIONS, MAX_VALUE_BYTES, MAX_VALUES};
use crate::matcher::search;
use crate::yaml::{Node, Yaml};

/// What a rule has asked for so far.
#[derive(Default)]
pub(crate) struct Budget {
    values: usize,
    expressions: usize,
}

/// Modifiers after a field's name.
#[derive(Default)]
struct Modifiers {
    how: Option<How>,
    cased: bool,
    all: bool,
    negated: bool,
    windash: bool,
    encodings: Vec<Encoding>,
    kind: Type,
}

/// What the values are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Type {
    #[default]
    Text,
    Exists,
    Network,
    Field,
    Number(Compare),
    Expression {
        insensitive: bool,
        multi_line: bool,
        dot_all: bool,
    },
}

impl Modifiers {
    fn read<'a>(words: impl Iterator<Item = &'a str>, line: u32) -> Result<Self, Fault> {
        let mut this = Self::default();
        let plain = Type::Expression { insensitive: false, multi_line: false, dot_all: false };
        for word in words {
            let how = match word {
                "startswith" => Some(How::StartsWith),
                "endswith" => Some(How::EndsWith),
                "contains" => Some(How::Contains),
                _ => None,
            };
            let kind = match word {
                "exists" => Some(Type::Exists),
                "cidr" => Some(Type::Network),
                "fieldref" => Some(Type::Field),
                "re" => Some(plain),
                "lt" => Some(Type::Number(Compare::Less)),
                "lte" => Some(Type::Number(Compare::LessOrEqual)),
                "gt" => Some(Type::Number(Compare::Greater)),
                "gte" => Some(Type::Number(Compare::GreaterOrEqual)),
                _ => None,
            };
            if let Some(kind) = kind {
                if this.kind != Type::Text {
                    return Err(Fault::broken(line, word, "does not go with the modifier before it"));
                }
                this.kind = kind;
            } else if how.is_some() {
                this.how = how;
            } else if let Some(encoding) = Encoding::named(word) {
                this.encodings.push(encoding);
            } else {
                this.other(word, line)?;
            }
        }
        this.check(line)
    }

    fn other(&mut self, word: &str, line: u32) -> Result<(), Fault> {
        match (word, &mut self.kind) {
            ("cased", _) => self.cased = true,
            ("all", _) => self.all = true,
            ("neq", _) => self.negated = true,
            ("windash", _) => self.windash = true,
            ("i" | "ignorecase", Type::Expression { insensitive, .. }) => *insensitive = true,
            ("m" | "multiline", Type::Expression { multi_line, .. }) => *multi_line = true,
            ("s" | "dotall", Type::Expression { dot_all, .. }) => *dot_all = true,
            ("i" | "m" | "s", _) => return Err(Fault::broken(line, word, "is a modifier of 're' and comes after it")),
            ("expand", _) => return Err(Fault::unsupported(line, word, "placeholders")),
            ("minute" | "hour" | "day" | "week" | "month" | "year", _) => {
                return Err(Fault::unsupported(line, word, ""));
            }
            ("", _) => return Err(Fault::broken(line, "", "a modifier without a name")),
            _ => return Err(Fault::broken(line, word, "there is no such modifier")),
        }
        Ok(())
    }

    fn check(self, line: u32) -> Result<Self, Fault> {
        let texts = self.how.is_some() && !matches!(self.kind, Type::Text | Type::Field);
        if texts || (self.windash || !self.encodings.is_empty()) && self.kind != Type::Text {
            return Err(Fault::broken(line, "", "the modifiers of this field do not go together"));
        }
        Ok(self)
    }
}

/// Reads `name|modifier|…: values`; without a name the whole message is searched.
pub(super) fn read(
    key: &str,
    line: u32,
    node: &Node,
    fields: &mut Fields,
    budget: &mut Budget,
) -> Result<Expression<Test>, Fault> {
    let mut words = key.split('|');
    let name = words.next().unwrap_or_default();
    let modifiers = Modifiers::read(words, line)?;
    let mut number = |name: &str| {
        fields.number(name).ok_or_else(|| Fault::broken(line, name, "too many different fields in all rules"))
    };
    let field = match name {
        "" if matches!(modifiers.kind, Type::Text | Type::Expression { .. }) => None,
        "" => return Err(Fault::broken(line, "", "a search without a field knows texts and 're' only")),
        name => Some(number(name)?),
    };
    let values = match &node.value {
        Yaml::List(list) => list.as_slice(),
        _ => core::slice::from_ref(node),
    };
    budget.values += values.len();
    if values.is_empty() || budget.values > MAX_VALUES {
        let detail = if values.is_empty() { "has no value".into() } else { format!("more than {MAX_VALUES} values") };
        return Err(Fault::broken(node.line, name, detail));
    }
    let mut kinds = Vec::new();
    for value in values {
        one(value, field, &modifiers, &mut number, &mut kinds).map_err(|fault| named(fault, name))?;
    }
    budget.expressions += kinds.iter().filter(|(kind, _)| matches!(kind, Kind::Expression(_))).count();
    if budget.expressions > MAX_EXPRESSIONS {
        let detail =
            format!("the rule has more than {MAX_EXPRESSIONS} expressions, patterns with '?' or inner '*' too");
        return Err(Fault::broken(node.line, name, detail));
    }
    let joined = join(field, kinds, modifiers.all);
    Ok(if modifiers.negated { Expression::Not(Box::new(joined)) } else { joined })
}

fn named(fault: Fault, name: &str) -> Fault {
    match fault.reason {
        super::Reason::Broken { option, detail } if option.is_empty() => Fault::broken(fault.line, name, detail),
        _ => fault,
    }
}

/// The test of one value, and whether it is negated.
fn one(
    node: &Node,
    field: Option<u16>,
    modifiers: &Modifiers,
    number: &mut impl FnMut(&str) -> Result<u16, Fault>,
    kinds: &mut Vec<(Kind, bool)>,
) -> Result<(), Fault> {
    let fault = |detail: String| Err(Fault::broken(node.line, "", detail));
    let text = match (&node.value, modifiers.kind) {
        (Yaml::Bool(wanted), Type::Exists) => {
            kinds.push((Kind::Exists, !wanted));
            return Ok(());
        }
        (_, Type::Exists) => return fault(format!("'exists' expects true or false, not {}", node.kind())),
        (Yaml::Integer(value), Type::Number(how)) => {
            kinds.push((Kind::Number { how, value: *value }, false));
            return Ok(());
        }
        (_, Type::Number(_)) => return fault(format!("a comparison expects a whole number, not {}", node.kind())),
        (Yaml::Null, Type::Text) if field.is_some() && modifiers.how.is_none() => {
            kinds.push((Kind::Null, false));
            return Ok(());
        }
        _ => match node.scalar() {
            Some(text) => text,
            None => return fault(format!("expected a value, not {}", node.kind())),
        },
    };
    if text.len() > MAX_VALUE_BYTES {
        return fault(format!("a value is longer than {MAX_VALUE_BYTES} bytes"));
    }
    let how = modifiers.how.unwrap_or(How::Equals);
    match modifiers.kind {
        Type::Network => kinds.push((network(&text, node.line)?, false)),
        Type::Field => kinds.push((Kind::Field { how, cased: modifiers.cased, other: number(&text)? }, false)),
        Type::Expression { insensitive, multi_line, dot_all } => {
            let pattern = search::translate(&text).map_err(|detail| Fault::unsupported(node.line, "re", detail))?;
            let regex = Regex { pattern, insensitive, multi_line, dot_all, folded: false };
            search::check(&regex).map_err(|detail| Fault::unsupported(node.line, "re", detail))?;
            kinds.push((Kind::Expression(regex), false));
        }
        _ => {
            let mut patterns = Vec::from([wildcard::parse(&text)]);
            if !modifiers.encodings.is_empty() {
                let Some(plain) = wildcard::plain(&patterns[0]) else {
                    return fault("a wildcard in a value that is to be encoded".into());
                };
                let Some(forms) = encoding::encode(&plain, &modifiers.encodings) else {
                    let detail = "UTF-16 without base64 or base64offset after it";
                    return Err(Fault::unsupported(node.line, "wide", detail));
                };
                patterns = forms.iter().map(|form| form.chars().map(Part::Letter).collect()).collect();
            }
            // A keyword is looked for anywhere in the message.
            let how = if field.is_none() { modifiers.how.unwrap_or(How::Contains) } else { how };
            // The encoded forms of one value stand for each other, also where all values are asked for.
            let mut forms: Option<Kind> = None;
            for parts in patterns {
                match (&mut forms, pattern(parts, how, modifiers, node.line)?) {
                    (Some(Kind::Text { values, .. }), Kind::Text { values: more, .. }) => values.extend(more),
                    (forms, kind) => *forms = Some(kind),
                }
            }
            kinds.extend(forms.map(|kind| (kind, false)));
        }
    }
    Ok(())
}

fn pattern(mut parts: Vec<Part>, how: How, modifiers: &Modifiers, line: u32) -> Result<Kind, Fault> {
    if modifiers.windash {
        wildcard::dashes(&mut parts);
    }
    if matches!(how, How::EndsWith | How::Contains) {
        parts.insert(0, Part::Any);
    }
    if matches!(how, How::StartsWith | How::Contains) {
        parts.push(Part::Any);
    }
    let cased = modifiers.cased;
    if !cased {
        let lower = |part| match part {
            Part::Letter(letter) => letter.to_lowercase().map(Part::Letter).collect(),
            part => Vec::from([part]),
        };
        parts = parts.into_iter().flat_map(lower).collect();
    }
    let (how, value) = match wildcard::form(&parts) {
        Form::Equals(text) => (How::Equals, text),
        Form::StartsWith(text) => (How::StartsWith, text),
        Form::EndsWith(text) => (How::EndsWith, text),
        Form::Contains(text) => (How::Contains, text),
        Form::Expression(pattern) => {
            let regex = Regex { pattern, insensitive: false, multi_line: false, dot_all: false, folded: !cased };
            search::check(&regex).map_err(|detail| Fault::broken(line, "", detail))?;
            return Ok(Kind::Expression(regex));
        }
    };
    Ok(Kind::Text { how, cased, values: Vec::from([value]) })
}

/// Values as one expression; texts that are compared alike become one test.
fn join(field: Option<u16>, kinds: Vec<(Kind, bool)>, all: bool) -> Expression<Test> {
    let mut tests: Vec<(Kind, bool)> = Vec::new();
    for (kind, negated) in kinds {
        let mut kind = Some(kind);
        if !all && let Some(Kind::Text { how, cased, values }) = &mut kind {
            let (how, cased) = (*how, *cased);
            let alike = tests.iter_mut().find_map(|(test, _)| match test {
                Kind::Text { how: h, cased: c, values } if (*h, *c) == (how, cased) => Some(values),
                _ => None,
            });
            if let Some(into) = alike {
                into.append(values);
                kind = None;
            }
        }
        tests.extend(kind.map(|kind| (kind, negated)));
    }
    let expression = |(mut kind, negated): (Kind, bool)| {
        if let Kind::Text { values, .. } = &mut kind {
            values.sort_unstable();
            values.dedup();
        }
        let test = Expression::Test(Test { field, kind });
        if negated { Expression::Not(Box::new(test)) } else { test }
    };
    let mut list: Vec<_> = tests.into_iter().map(expression).collect();
    match (list.len(), all) {
        (1, _) => list.remove(0),
        (_, true) => Expression::All(list),
        (_, false) => Expression::Any(list),
    }
}

fn network(text: &str, line: u32) -> Result<Kind, Fault> {
    let fault = || Fault::broken(line, "cidr", format!("{text:?} is no network (expected such as 10.0.0.0/8)"));
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().map_err(|_| fault())?;
    let bits = if address.is_ipv6() { 128 } else { 32 };
    let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| fault())?;
    if prefix > bits {
        return Err(fault());
    }
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    Ok(Kind::Network { version6: bits == 128, address: bytes, prefix })
}
