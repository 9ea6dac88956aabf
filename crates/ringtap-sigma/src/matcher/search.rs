//! Owns: regular expressions: what of PCRE's language means the same here, and searches in linear time and bounded
//! memory.
//! Does not: look around or back; such an expression is refused when the rule is read.

use alloc::format;
use alloc::string::{String, ToString};

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, meta};

use crate::automaton::Regex;
use crate::limits::MAX_EXPRESSION_BYTES;

/// A compiled expression and its working memory, which grows to a bound with use.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    regex: meta::Regex,
    cache: meta::Cache,
}

impl Search {
    /// Compiles.
    ///
    /// # Errors
    /// Not this language, or too large.
    pub(crate) fn new(regex: &Regex) -> Result<Self, String> {
        // Bytes, not characters: so it means the same with and without tables of Unicode.
        let means = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .nest_limit(64)
            .case_insensitive(regex.insensitive)
            .multi_line(regex.multi_line)
            .dot_matches_new_line(regex.dot_all);
        let how = meta::Config::new()
            .utf8_empty(false)
            .which_captures(WhichCaptures::Implicit)
            .nfa_size_limit(Some(MAX_EXPRESSION_BYTES))
            .hybrid_cache_capacity(MAX_EXPRESSION_BYTES);
        let regex =
            meta::Builder::new().configure(how).syntax(means).build(&regex.pattern).map_err(|error| {
                match (error.size_limit(), error.syntax_error()) {
                    (Some(limit), _) => format!("an expression that takes more than {limit} bytes"),
                    (None, Some(error)) => one_line(&error.to_string()),
                    (None, None) => one_line(&error.to_string()),
                }
            })?;
        let cache = regex.create_cache();
        Ok(Self { regex, cache })
    }

    pub(crate) fn is_match(&mut self, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        self.regex.search_half_with(&mut self.cache, &input).is_some()
    }
}

/// Whether it can be compiled.
///
/// # Errors
/// Why not.
pub(crate) fn check(regex: &Regex) -> Result<(), String> {
    Search::new(regex).map(|_| ())
}

/// The last line of a message says what is wrong, those before it draw a picture.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or(message);
    last.strip_prefix("error: ").unwrap_or(last).to_string()
}

/// A rule's expression in the engine's language: characters beyond ASCII as their bytes.
///
/// # Errors
/// What cannot be said over bytes.
pub(crate) fn translate(pattern: &str) -> Result<String, String> {
    let mut translated = String::with_capacity(pattern.len());
    let (mut letters, mut class) = (pattern.char_indices(), 0usize);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            translated.push('\\');
            if let Some((_, next)) = letters.next() {
                if !next.is_ascii() {
                    return Err(format!("an escaped {next:?}"));
                }
                translated.push(next);
            }
            continue;
        }
        match letter {
            '[' => class += 1,
            ']' => class = class.saturating_sub(1),
            // `(?u)` would need tables that not every build has.
            '(' if class == 0 && unicode_flag(&pattern[at..]) => return Err("the flag 'u'".to_string()),
            _ => {}
        }
        match (letter.is_ascii(), class) {
            (true, _) => translated.push(letter),
            (false, 0) => {
                translated.push_str("(?:");
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    translated.push_str(&format!(r"\x{byte:02x}"));
                }
                translated.push(')');
            }
            (false, _) => return Err(format!("{letter:?} in a class")),
        }
    }
    Ok(translated)
}

fn unicode_flag(group: &str) -> bool {
    let Some(flags) = group.strip_prefix("(?") else { return false };
    let end = flags.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '-').unwrap_or(flags.len());
    flags[..end].contains('u')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Result<Search, String> {
        let pattern = translate(pattern)?;
        Search::new(&Regex { pattern, insensitive: false, multi_line: false, dot_all: false, folded: false })
    }

    #[test]
    fn what_matches() {
        for (pattern, text, found) in [
            ("^a.*z$", "abcz", true),
            ("b+", "a", false),
            ("é{2}", "xéé", true),
            (r"\d{3}-\d", "call 123-4", true),
            ("(?i)ABC", "xabc", true),
        ] {
            assert_eq!(regex(pattern).unwrap().is_match(text), found, "{pattern}");
        }
    }

    #[test]
    fn what_is_refused() {
        for pattern in
            ["a(?=b)", r"(a)\1", "(?u)a", "(?iu:a)", "[é]", r"\p{L}", "a{1000}{1000}{1000}", "(", &"(".repeat(5000)]
        {
            let refused = regex(pattern).map(|_| ()).unwrap_err();
            assert!(refused.lines().count() == 1 && refused.len() < 200, "{refused}");
        }
    }

    #[test]
    fn no_expression_backtracks() {
        let mut search = regex("(a+)+$").unwrap();
        assert!(!search.is_match(&("a".repeat(60_000) + "b")));
    }
}
