//! Owns: an event's values, as a host has taken them from its input.
//! Does not: know where they came from. What a field is called, its case and the canonical form of an address are the
//! host's, by its field table; here texts are compared as they are.

use alloc::string::String;
use core::fmt::Write as _;

use crate::limits::MAX_FIELD_BYTES;

/// The value of one field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value<'a> {
    /// The event has no such field.
    #[default]
    Missing,
    /// It has, and says null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, or beyond 64 bits, as it was written (`-1.5`); no exponent.
    Number(&'a str),
    /// A text.
    Text(&'a str),
    /// Several values, of which one has to match. Lists inside are skipped.
    List(&'a [Value<'a>]),
}

/// One event: a value for each of [`Automaton::fields`](crate::Automaton::fields), in that order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// Values; fields beyond the end are missing.
    pub values: &'a [Value<'a>],
    /// The message as it came, for searches without a field.
    pub message: &'a str,
}

impl<'a> Row<'a> {
    pub(crate) fn value(&self, field: Option<u16>) -> Value<'a> {
        match field {
            None => Value::Text(self.message),
            Some(field) => self.values.get(usize::from(field)).copied().unwrap_or_default(),
        }
    }
}

impl<'a> Value<'a> {
    /// The value as the text that rules compare; `scratch` holds it where it has to be written first.
    pub(crate) fn text<'s>(self, scratch: &'s mut String) -> Option<&'s str>
    where
        'a: 's,
    {
        match self {
            Self::Missing | Self::Null | Self::List(_) => None,
            Self::Bool(value) => Some(if value { "true" } else { "false" }),
            Self::Integer(value) => {
                scratch.clear();
                let _ = write!(scratch, "{value}");
                Some(scratch)
            }
            Self::Number(text) | Self::Text(text) => Some(cut(text)),
        }
    }

    /// Compares with a whole number: the integer part, and whether something follows it.
    pub(crate) fn compared_to(self, number: i64) -> Option<core::cmp::Ordering> {
        use core::cmp::Ordering::{Equal, Greater, Less};
        let text = match self {
            Self::Integer(value) => return Some(value.cmp(&number)),
            Self::Number(text) | Self::Text(text) => text,
            _ => return None,
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = whole.strip_prefix('-').unwrap_or(whole);
        if digits.is_empty() || !digits.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let negative = whole.starts_with('-');
        let Ok(value) = whole.parse::<i64>() else { return Some(if negative { Less } else { Greater }) };
        let more = fraction.bytes().any(|byte| byte != b'0');
        Some(value.cmp(&number).then(match (more, negative) {
            (false, _) => Equal,
            (true, true) => Less,
            (true, false) => Greater,
        }))
    }
}

/// What is looked at of a text.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary_at(MAX_FIELD_BYTES)]
}

trait FloorCharBoundary {
    fn floor_char_boundary_at(&self, at: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_at(&self, at: usize) -> usize {
        if at >= self.len() { self.len() } else { (0..=at).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0) }
    }
}

/// Appends the lower-case form that patterns were given, too.
pub(crate) fn fold(text: &str, into: &mut String) {
    into.clear();
    if text.is_ascii() {
        into.push_str(text);
        into.make_ascii_lowercase();
    } else {
        into.extend(text.chars().flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn numbers_compare_without_floats() {
        for (text, number, order) in [
            ("3", 3, Some(Equal)),
            ("3.0", 3, Some(Equal)),
            ("3.1", 3, Some(Greater)),
            ("-3.1", -3, Some(Less)),
            ("-0.5", 0, Some(Less)),
            ("99999999999999999999", i64::MAX, Some(Greater)),
            ("-99999999999999999999", i64::MIN, Some(Less)),
            ("x", 0, None),
            ("", 0, None),
            ("1e3", 0, None),
        ] {
            assert_eq!(Value::Text(text).compared_to(number), order, "{text}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(MAX_FIELD_BYTES);
        let mut scratch = String::new();
        let text = Value::Text(&long).text(&mut scratch).unwrap();
        assert_eq!(text.len(), MAX_FIELD_BYTES);
        assert!(cut(&format!("x{long}")).len() == MAX_FIELD_BYTES - 1);
    }
}
