//! Owns: regular expressions of rules: a linear-time engine where it takes the expression, PCRE2 with match limits where
//! it does not.
//! Does not: choose where to look.

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, meta};

use crate::rules::rule::Expression;

/// PCRE2 gives up after so many internal steps: about a tenth of a millisecond.
const MATCH_LIMIT: u32 = 3500;
/// And at so many nested ones.
const DEPTH_LIMIT: u32 = 1500;
/// Compiled size of one linear-time expression, bytes.
const SIZE_LIMIT: usize = 1 << 20;
/// Its cache, bytes.
const CACHE_LIMIT: usize = 256 << 10;

/// A compiled expression.
pub(crate) struct Compiled {
    engine: Engine,
}

enum Engine {
    Linear(meta::Regex),
    Limited(pcre2::bytes::Regex),
}

/// What became of a search.
pub(crate) enum Found {
    /// Start and end in bytes.
    At(usize, usize),
    /// Not there.
    Nowhere,
    /// The limit was hit: unknown.
    GaveUp,
}

impl Compiled {
    /// Compiles.
    ///
    /// # Errors
    /// Neither engine takes it.
    pub(crate) fn new(expression: &Expression) -> Result<Self, String> {
        let pattern = std::str::from_utf8(&expression.pattern).map_err(|_| "is not UTF-8".to_owned())?;
        let engine = match linear(pattern, &expression.flags, WhichCaptures::Implicit) {
            Some(regex) => Engine::Linear(regex),
            None => Engine::Limited(limited(pattern, &expression.flags)?),
        };
        let this = Self { engine };
        // A first search shows that it can run. Each thread's working memory comes with its own first search, and that of
        // the linear engine grows with use, to CACHE_LIMIT.
        this.find(b"", 0);
        Ok(this)
    }

    /// The first match that begins at `from` or later.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Found {
        match &self.engine {
            Engine::Linear(regex) => match regex.find(Input::new(bytes).range(from..)) {
                Some(found) => Found::At(found.start(), found.end()),
                None => Found::Nowhere,
            },
            Engine::Limited(regex) => match regex.find_at(bytes, from) {
                Ok(Some(found)) => Found::At(found.start(), found.end()),
                Ok(None) => Found::Nowhere,
                Err(_) => Found::GaveUp,
            },
        }
    }

    /// Whether it runs in linear time.
    #[cfg(test)]
    fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }
}

/// An expression whose groups can be found.
///
/// # Errors
/// The linear-time engine does not take it.
pub(super) fn with_groups(expression: &Expression) -> Result<meta::Regex, String> {
    let pattern = std::str::from_utf8(&expression.pattern).map_err(|_| "is not UTF-8".to_owned())?;
    let regex = linear(pattern, &expression.flags, WhichCaptures::All);
    let regex = regex.ok_or_else(|| "takes more than linear time".to_owned())?;
    // A first search takes its working memory.
    regex.search_slots(&Input::new(b"").range(0..0), &mut [None; 4]);
    Ok(regex)
}

/// The linear-time engine, for expressions that mean the same to both.
fn linear(pattern: &str, flags: &str, groups: WhichCaptures) -> Option<meta::Regex> {
    if flags.contains(['x', 'G']) || means_something_else(pattern) {
        return None;
    }
    let mut translated = String::with_capacity(pattern.len() + 16);
    if flags.contains('A') {
        translated.push_str(r"\A(?:");
    }
    let (mut letters, mut in_class) = (pattern.chars(), false);
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                translated.push('\\');
                translated.extend(letters.next());
            }
            // To PCRE the end is also before a last line feed.
            '$' if !in_class && !flags.contains('m') && !flags.contains('E') => translated.push_str(r"(?:\n?\z)"),
            '$' if !in_class && !flags.contains('m') => translated.push_str(r"\z"),
            letter => {
                in_class = match letter {
                    '[' => true,
                    ']' => false,
                    _ => in_class,
                };
                translated.push(letter);
            }
        }
    }
    if flags.contains('A') {
        translated.push(')');
    }
    // Only where a match lies is asked, not where its groups are: without them, and without the engine that finds them
    // in one pass, an expression takes half of the memory.
    let how = meta::Config::new()
        .utf8_empty(false)
        .which_captures(groups)
        .onepass(false)
        .nfa_size_limit(Some(SIZE_LIMIT))
        .hybrid_cache_capacity(CACHE_LIMIT);
    let means = syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'));
    meta::Builder::new().configure(how).syntax(means).build(&translated).ok()
}

/// Forms that both engines take and understand differently: class arithmetic, nested classes, `\<`, `]` first in a class,
/// options inside, possessive quantifiers, and escapes of one only.
fn means_something_else(pattern: &str) -> bool {
    if pattern.contains("(?") && !pattern.contains("(?:") || pattern.contains("(?P") || pattern.contains("(*") {
        return true;
    }
    let bytes = pattern.as_bytes();
    let (mut at, mut class_from) = (0, None);
    while at < bytes.len() {
        match (bytes[at], class_from) {
            (b'\\', _) => {
                if matches!(
                    bytes.get(at + 1),
                    Some(
                        b'<' | b'>' | b'h' | b'H' | b'R' | b'K' | b'Z' | b'G' | b'c' | b'e' | b'0'
                            ..=b'9' | b'p' | b'P' | b'X' | b'N' | b'o' | b'u' | b'U'
                    )
                ) {
                    return true;
                }
                at += 1;
            }
            (b'[', None) => {
                class_from = Some(at);
                let first = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'^'));
                if bytes.get(first) == Some(&b']') {
                    return true;
                }
            }
            (b'[', Some(_)) => return true,
            // Possessive.
            (b'+' | b'*' | b'?' | b'}', None) if bytes.get(at + 1) == Some(&b'+') => return true,
            (b']', Some(_)) => class_from = None,
            (letter @ (b'&' | b'~' | b'-'), Some(_)) if bytes.get(at + 1) == Some(&letter) => return true,
            _ => {}
        }
        at += 1;
    }
    false
}

fn limited(pattern: &str, flags: &str) -> Result<pcre2::bytes::Regex, String> {
    let mut text = format!("(*LIMIT_MATCH={MATCH_LIMIT})(*LIMIT_DEPTH={DEPTH_LIMIT})");
    let inner = if flags.contains('G') { format!("(?U){pattern}") } else { pattern.to_owned() };
    if flags.contains('A') {
        text.push_str(&format!(r"\A(?:{inner})"));
    } else {
        text.push_str(&inner);
    }
    pcre2::bytes::RegexBuilder::new()
        .utf(false)
        .ucp(false)
        .caseless(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dotall(flags.contains('s'))
        .extended(flags.contains('x'))
        .jit_if_available(true)
        .build(&text)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str, flags: &str) -> Compiled {
        let expression = Expression {
            pattern: pattern.as_bytes().to_vec(),
            flags: flags.to_owned(),
            negated: false,
            relative: false,
        };
        Compiled::new(&expression).unwrap()
    }

    fn find(pattern: &str, flags: &str, text: &[u8]) -> Option<(usize, usize)> {
        match compile(pattern, flags).find(text, 0) {
            Found::At(start, end) => Some((start, end)),
            _ => None,
        }
    }

    #[test]
    fn engines() {
        assert!(compile(r"a+\x00[^\r\n]{4}", "i").is_linear());
        for pattern in [r"(a)\1", r"a(?=b)", r"[a&&b]", r"\<a", r"[]a]", r"a++"] {
            assert!(!compile(pattern, "").is_linear(), "{pattern}");
        }
        assert_eq!(find("A\\xffb", "i", b"xa\xffB"), Some((1, 4)));
        assert_eq!(find("b$", "", b"ab\n"), Some((1, 3)));
        assert_eq!(find("b$", "E", b"ab\n"), None);
        assert_eq!(find("^b", "m", b"a\nb"), Some((2, 3)));
        assert_eq!(find("b", "A", b"ab"), None);
    }

    #[test]
    fn endless_expressions_give_up() {
        let hostile = compile(r"(a+)+\1[xz]", "");
        let text = [b'a'; 4000];
        assert!(matches!(hostile.find(&text, 0), Found::GaveUp));
    }
}
