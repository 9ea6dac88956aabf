//! Owns: Sigma's text patterns: `*`, `?`, backslashes, and what of them is a plain comparison.
//! Does not: compare.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Letter(char),
    /// `*`
    Any,
    /// `?`
    One,
    /// Any of the dashes that `windash` takes for each other.
    Dash,
}

/// What has to be done for a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Equals(String),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    /// As a regular expression over bytes, from beginning to end.
    Expression(String),
}

/// Reads a value as Sigma writes it: a backslash makes a wildcard after it plain, and itself before a wildcard.
pub(crate) fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        parts.push(match (letter, letters.peek()) {
            ('*', _) => Part::Any,
            ('?', _) => Part::One,
            ('\\', Some(&next @ ('*' | '?' | '\\'))) => {
                letters.next();
                Part::Letter(next)
            }
            (letter, _) => Part::Letter(letter),
        });
    }
    parts
}

/// The text, where there is no wildcard in it.
pub(crate) fn plain(parts: &[Part]) -> Option<String> {
    parts.iter().map(|part| if let Part::Letter(letter) = part { Some(*letter) } else { None }).collect()
}

/// `windash`: a `-` or `/` that begins a word stands for any of the dashes.
pub(crate) fn dashes(parts: &mut [Part]) {
    let word = |part: Option<&Part>| matches!(part, Some(Part::Letter(l)) if l.is_alphanumeric() || *l == '_');
    for at in 0..parts.len() {
        let dash = matches!(parts[at], Part::Letter('-' | '/' | '–' | '—' | '―'));
        let before = at.checked_sub(1).and_then(|before| parts.get(before));
        if dash && !word(before) && word(parts.get(at + 1)) {
            parts[at] = Part::Dash;
        }
    }
}

/// The cheapest comparison that means the pattern.
pub(crate) fn form(parts: &[Part]) -> Form {
    let first = parts.iter().position(|part| *part != Part::Any).unwrap_or(parts.len());
    let last = parts.iter().rposition(|part| *part != Part::Any).map_or(first, |last| last + 1);
    match (plain(&parts[first..last]), first > 0, last < parts.len()) {
        (Some(text), false, false) => Form::Equals(text),
        (Some(text), false, true) => Form::StartsWith(text),
        (Some(text), true, false) if last > first => Form::EndsWith(text),
        (Some(text), true, _) => Form::Contains(text),
        (None, ..) => Form::Expression(expression(parts)),
    }
}

fn expression(parts: &[Part]) -> String {
    let mut text = String::from(r"\A");
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Letter(letter) => literal(*letter, &mut text),
            Part::Any if at > 0 && parts[at - 1] == Part::Any => {}
            Part::Any => text.push_str(r"(?s:.*)"),
            // One character of UTF-8; bytes that are none count each.
            Part::One => text.push_str(r"(?:[\xc0-\xff][\x80-\xbf]+|(?s:.))"),
            Part::Dash => text.push_str(r"(?:-|/|\xe2\x80[\x93-\x95])"),
        }
    }
    text.push_str(r"\z");
    text
}

/// One character in an expression over bytes.
pub(super) fn literal(letter: char, text: &mut String) {
    if letter.is_ascii() {
        if letter.is_ascii_punctuation() {
            text.push('\\');
        }
        return text.push(letter);
    }
    text.push_str("(?:");
    for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
        text.push_str(&format!(r"\x{byte:02x}"));
    }
    text.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes() {
        for (text, meaning) in [(r"C:\x", r"C:\x"), (r"a\\b", r"a\b"), (r"a\*", "a*"), (r"\\\*", r"\*"), (r"a\", r"a\")]
        {
            assert_eq!(plain(&parse(text)).as_deref(), Some(meaning), "{text}");
        }
        assert_eq!(parse(r"\\*"), [Part::Letter('\\'), Part::Any]);
        // Three and four are two.
        assert_eq!(plain(&parse(r"\\\a")).as_deref(), Some(r"\\a"));
        assert_eq!(plain(&parse(r"\\\\")).as_deref(), Some(r"\\"));
    }

    #[test]
    fn forms() {
        for (text, expected) in [
            ("a", Form::Equals("a".into())),
            ("", Form::Equals(String::new())),
            ("a*", Form::StartsWith("a".into())),
            ("**a", Form::EndsWith("a".into())),
            ("*a*", Form::Contains("a".into())),
            ("*", Form::Contains(String::new())),
        ] {
            assert_eq!(form(&parse(text)), expected, "{text}");
        }
        assert!(matches!(form(&parse("a*b")), Form::Expression(_)));
        assert!(matches!(form(&parse("a?")), Form::Expression(_)));
        let mut parts = parse("x -a a-b /c");
        dashes(&mut parts);
        assert_eq!(parts.iter().filter(|part| **part == Part::Dash).count(), 2);
    }
}
