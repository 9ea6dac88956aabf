//! Owns: one test of one value, compiled.
//! Does not: join tests.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::net::IpAddr;

use memchr::memmem::Finder;

use super::search::Search;
use super::value::{Row, Value, fold};
use crate::automaton::{Compare, How, Kind, Test};

/// A test with its searchers.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) field: Option<u16>,
    kind: Check,
}

#[derive(Clone, Debug)]
enum Check {
    Exists,
    Null,
    /// Sorted.
    Equals(bool, Vec<String>),
    StartsWith(bool, Vec<String>),
    EndsWith(bool, Vec<String>),
    Contains(bool, Vec<Finder<'static>>),
    Number(Compare, i64),
    Expression(bool, alloc::boxed::Box<Search>),
    Network(bool, u128, u8),
    Field(How, bool, u16),
    /// An expression that could not be compiled: only in an automaton that this crate did not compile.
    Never,
}

/// Texts while they are compared; kept so that events need no memory of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    text: String,
    other: String,
    folded: String,
    folded_other: String,
    /// Lower-case form of each field of this event, the message last; told apart by the event's number.
    cache: Vec<(u64, String)>,
    event: u64,
}

impl Scratch {
    /// Begins a new event.
    pub(super) fn next(&mut self, fields: usize) {
        self.event += 1;
        self.cache.resize_with(fields + 1, Default::default);
    }
}

impl Compiled {
    pub(super) fn new(test: &Test) -> Self {
        let kind = match &test.kind {
            Kind::Exists => Check::Exists,
            Kind::Null => Check::Null,
            Kind::Text { how: How::Equals, cased, values } => {
                let mut values = values.clone();
                values.sort_unstable();
                Check::Equals(*cased, values)
            }
            Kind::Text { how: How::StartsWith, cased, values } => Check::StartsWith(*cased, values.clone()),
            Kind::Text { how: How::EndsWith, cased, values } => Check::EndsWith(*cased, values.clone()),
            Kind::Text { how: How::Contains, cased, values } => {
                let finders = values.iter().map(|value| Finder::new(value.as_bytes()).into_owned());
                Check::Contains(*cased, finders.collect())
            }
            Kind::Number { how, value } => Check::Number(*how, *value),
            Kind::Expression(regex) => match Search::new(regex) {
                Ok(search) => Check::Expression(!regex.folded, search.into()),
                Err(_) => Check::Never,
            },
            Kind::Network { version6, address, prefix } => {
                Check::Network(*version6, u128::from_be_bytes(*address), *prefix)
            }
            Kind::Field { how, cased, other } => Check::Field(*how, *cased, *other),
        };
        Self { field: test.field, kind }
    }

    /// What it takes, roughly, in comparisons of short texts.
    pub(super) fn cost(&self) -> usize {
        match &self.kind {
            Check::Exists | Check::Null | Check::Never | Check::Number(..) => 0,
            Check::Equals(..) => 1,
            Check::StartsWith(_, values) | Check::EndsWith(_, values) => values.len(),
            Check::Contains(_, finders) => 3 * finders.len(),
            Check::Network(..) => 4,
            Check::Field(..) => 5,
            Check::Expression(..) => 20,
        }
    }

    pub(super) fn holds(&mut self, row: &Row<'_>, scratch: &mut Scratch) -> bool {
        let value = row.value(self.field);
        match (&self.kind, value) {
            (Check::Exists, _) => value != Value::Missing,
            (Check::Null, _) => matches!(value, Value::Missing | Value::Null),
            (_, Value::List(list)) => {
                list.iter().any(|item| !matches!(item, Value::List(_)) && self.one(*item, row, scratch, None))
            }
            _ => {
                let at = self.field.map_or(scratch.cache.len() - 1, usize::from);
                self.one(value, row, scratch, Some(at))
            }
        }
    }

    /// Tests one value; `at` is where its lower-case form is kept.
    fn one(&mut self, value: Value<'_>, row: &Row<'_>, scratch: &mut Scratch, at: Option<usize>) -> bool {
        match &mut self.kind {
            Check::Number(how, number) => value.compared_to(*number).is_some_and(|order| how.holds(order)),
            Check::Network(version6, address, prefix) => {
                value.text(&mut scratch.text).is_some_and(|text| inside(text, *version6, *address, *prefix))
            }
            Check::Field(how, cased, other) => fields_match(*how, *cased, value, row.value(Some(*other)), scratch),
            Check::Equals(cased, values) => with(value, *cased, scratch, at, |text| {
                values.binary_search_by(|value| value.as_str().cmp(text)).is_ok()
            }),
            Check::StartsWith(cased, values) => {
                with(value, *cased, scratch, at, |text| values.iter().any(|value| text.starts_with(value.as_str())))
            }
            Check::EndsWith(cased, values) => {
                with(value, *cased, scratch, at, |text| values.iter().any(|value| text.ends_with(value.as_str())))
            }
            Check::Contains(cased, finders) => with(value, *cased, scratch, at, |text| {
                finders.iter().any(|finder| finder.find(text.as_bytes()).is_some())
            }),
            Check::Expression(cased, search) => with(value, *cased, scratch, at, |text| search.is_match(text)),
            Check::Exists | Check::Null | Check::Never => false,
        }
    }
}

impl Compare {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Hands the value's text over, in lower case unless `cased`.
fn with(
    value: Value<'_>,
    cased: bool,
    scratch: &mut Scratch,
    at: Option<usize>,
    mut test: impl FnMut(&str) -> bool,
) -> bool {
    let Scratch { text, folded, cache, event, .. } = scratch;
    let Some(text) = value.text(text) else { return false };
    if cased {
        return test(text);
    }
    let Some((of, kept)) = at.and_then(|at| cache.get_mut(at)) else {
        fold(text, folded);
        return test(folded);
    };
    if of != event {
        fold(text, kept);
        *of = *event;
    }
    test(kept)
}

fn inside(text: &str, version6: bool, address: u128, prefix: u8) -> bool {
    let mut bytes = [0; 16];
    match text.parse() {
        Ok(IpAddr::V4(v4)) if !version6 => bytes[..4].copy_from_slice(&v4.octets()),
        Ok(IpAddr::V6(v6)) if version6 => bytes = v6.octets(),
        _ => return false,
    }
    let different = u128::from_be_bytes(bytes) ^ address;
    prefix == 0 || different.leading_zeros() >= u32::from(prefix)
}

/// Compares the texts of two fields. Of a list it is enough that one value matches.
fn fields_match(how: How, cased: bool, value: Value<'_>, other: Value<'_>, scratch: &mut Scratch) -> bool {
    if let Value::List(list) = other {
        return list
            .iter()
            .any(|item| !matches!(item, Value::List(_)) && fields_match(how, cased, value, *item, scratch));
    }
    let Scratch { text, other: other_text, folded, folded_other, .. } = scratch;
    let (Some(mut a), Some(mut b)) = (value.text(text), other.text(other_text)) else { return false };
    if !cased {
        fold(a, folded);
        fold(b, folded_other);
        (a, b) = (folded, folded_other);
    }
    match how {
        How::Equals => a == b,
        How::StartsWith => a.starts_with(b),
        How::EndsWith => a.ends_with(b),
        How::Contains => memchr::memmem::find(a.as_bytes(), b.as_bytes()).is_some(),
    }
}
