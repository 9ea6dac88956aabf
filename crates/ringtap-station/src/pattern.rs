//! Names as operators write them: in full, or with `*` for any number of characters; upper and lower case are the same.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// Of this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it is this name's.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut in_name) = (0, 0);
        // Where the last star is, and how much of the name it has: the only place to go back to.
        let mut star = None;
        while in_name < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, in_name));
                    at += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&name[in_name]) => {
                    at += 1;
                    in_name += 1;
                }
                _ => {
                    let Some((of_star, has)) = star else { return false };
                    star = Some((of_star, has + 1));
                    (at, in_name) = (of_star + 1, has + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_are_any_number_of_characters() {
        for (pattern, name, is_it) in [
            ("core1", "CORE1", true),
            ("core1", "core10", false),
            ("core*", "core", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*.example", "a.example", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**x", "aax", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), is_it, "{pattern} {name}");
        }
    }

    /// By trying everything.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|at| naive(rest, &name[at..])),
            [first, rest @ ..] => name.first() == Some(first) && naive(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn as_by_trying_everything(pattern in "[ab*]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(Pattern::new(&pattern).matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
