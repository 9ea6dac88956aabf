//! Owns: the condition of a detection: words and brackets into and, or, not over selections.
//! Does not: know what a selection tests.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Fault;
use crate::automaton::Expression;
use crate::limits::{MAX_CONDITION_DEPTH, MAX_CONDITION_TERMS, MAX_CONDITION_WORDS};

/// Words and brackets of a condition, also of a correlation's.
///
/// # Errors
/// There are too many, or a character that no condition has.
pub(super) fn words(text: &str, line: u32) -> Result<Vec<String>, Fault> {
    let fault = |detail: String| Err(Fault::broken(line, "condition", detail));
    let mut words: Vec<String> = Vec::new();
    let mut inside = false;
    for letter in text.chars() {
        match letter {
            '(' | ')' => words.push(letter.into()),
            _ if letter.is_whitespace() => {}
            '|' => {
                let detail = "an aggregation after '|' (write a correlation)";
                return Err(Fault::unsupported(line, "condition", detail));
            }
            _ if letter.is_alphanumeric() || matches!(letter, '_' | '-' | '*' | '.' | '?') => {
                match words.last_mut() {
                    Some(word) if inside => word.push(letter),
                    _ => words.push(letter.into()),
                }
                inside = true;
                continue;
            }
            _ => return fault(format!("{letter:?} is not expected")),
        }
        inside = false;
        if words.len() > MAX_CONDITION_WORDS {
            return fault(format!("has more than {MAX_CONDITION_WORDS} words"));
        }
    }
    if words.len() > MAX_CONDITION_WORDS {
        fault(format!("has more than {MAX_CONDITION_WORDS} words"))
    } else {
        Ok(words)
    }
}

/// Reads a condition over the named selections. `terms` counts what it comes to: a few words with patterns can name
/// every selection many times.
pub(crate) fn parse<T>(
    text: &str,
    line: u32,
    selections: &[String],
    terms: &mut usize,
) -> Result<Expression<T>, Fault> {
    let words = words(text, line)?;
    let mut parser = Parser { words: &words, at: 0, depth: 0, line, selections, terms };
    let expression = parser.or()?;
    match parser.peek() {
        None => Ok(expression),
        Some(word) => Err(parser.fault(format!("expected 'and', 'or' or the end, not {word:?}"))),
    }
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    depth: usize,
    line: u32,
    selections: &'a [String],
    terms: &'a mut usize,
}

impl<'a> Parser<'a> {
    fn fault(&self, detail: impl Into<String>) -> Fault {
        Fault::broken(self.line, "condition", detail)
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn or<T>(&mut self) -> Result<Expression<T>, Fault> {
        let first = self.and()?;
        let mut all = Vec::from([first]);
        while self.takes("or") {
            all.push(self.and()?);
        }
        Ok(one_or(all, Expression::Any))
    }

    fn and<T>(&mut self) -> Result<Expression<T>, Fault> {
        let first = self.not()?;
        let mut all = Vec::from([first]);
        while self.takes("and") {
            all.push(self.not()?);
        }
        Ok(one_or(all, Expression::All))
    }

    fn not<T>(&mut self) -> Result<Expression<T>, Fault> {
        self.depth += 1;
        if self.depth > MAX_CONDITION_DEPTH {
            return Err(self.fault(format!("is nested deeper than {MAX_CONDITION_DEPTH}")));
        }
        let expression = if self.takes("not") {
            Expression::Not(Box::new(self.not()?))
        } else if self.takes("(") {
            let inner = self.or()?;
            if !self.takes(")") {
                return Err(self.fault("expected ')'"));
            }
            inner
        } else {
            self.term()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn named<T>(&mut self, index: usize) -> Result<Expression<T>, Fault> {
        *self.terms += 1;
        if *self.terms > MAX_CONDITION_TERMS {
            return Err(self.fault(format!("names selections more than {MAX_CONDITION_TERMS} times")));
        }
        Ok(Expression::Selection(index as u16))
    }

    fn term<T>(&mut self) -> Result<Expression<T>, Fault> {
        let Some(word) = self.peek() else { return Err(self.fault("expected a selection, not the end")) };
        self.at += 1;
        let quantified = self.peek().is_some_and(|next| next.eq_ignore_ascii_case("of"));
        if !quantified {
            return match self.selections.iter().position(|name| name == word) {
                Some(index) => self.named(index),
                None => Err(self.fault(format!("there is no selection {word:?}"))),
            };
        }
        self.at += 1;
        let join = match word.to_ascii_lowercase().as_str() {
            "1" | "any" => Expression::Any,
            "all" => Expression::All,
            _ => return Err(Fault::unsupported(self.line, "condition", format!("'{word} of'"))),
        };
        let Some(pattern) = self.peek().map(ToOwned::to_owned) else {
            return Err(self.fault("expected 'them' or a pattern after 'of'"));
        };
        self.at += 1;
        let them = pattern.eq_ignore_ascii_case("them");
        let named = |name: &str| if them { !name.starts_with('_') } else { matches(&pattern, name) };
        let of: Vec<_> = self.selections.iter().enumerate().filter(|(_, name)| named(name)).collect();
        if of.is_empty() {
            return Err(self.fault(format!("no selection is named {pattern}")));
        }
        let of = of.into_iter().map(|(index, _)| self.named(index)).collect::<Result<_, _>>()?;
        Ok(join(of))
    }
}

fn one_or<T>(mut all: Vec<Expression<T>>, join: impl FnOnce(Vec<Expression<T>>) -> Expression<T>) -> Expression<T> {
    match all.len() {
        1 => all.remove(0),
        _ => join(all),
    }
}

/// `*` in names of selections.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        let names: Vec<String> = ["sel", "sel_b", "filter", "_hidden"].map(Into::into).into();
        fn show(expression: &Expression<()>) -> String {
            let join = |list: &[Expression<()>], with: &str| {
                format!("({})", list.iter().map(show).collect::<Vec<_>>().join(with))
            };
            match expression {
                Expression::All(list) => join(list, "&"),
                Expression::Any(list) => join(list, "|"),
                Expression::Not(inner) => format!("!{}", show(inner)),
                Expression::Selection(index) => format!("{index}"),
                Expression::Test(()) => "?".into(),
            }
        }
        parse(text, 1, &names, &mut 0).map(|expression| show(&expression)).map_err(|fault| format!("{}", fault.reason))
    }

    #[test]
    fn precedence() {
        assert_eq!(shown("sel or sel_b and not filter").unwrap(), "(0|(1&!2))");
        assert_eq!(shown("(sel or sel_b) AND not 1 of filter*").unwrap(), "((0|1)&!(2))");
        assert_eq!(shown("all of sel*").unwrap(), "(0&1)");
        assert_eq!(shown("1 of them").unwrap(), "(0|1|2)");
        assert_eq!(shown("not not sel").unwrap(), "!!0");
    }

    #[test]
    fn mistakes() {
        for text in
            ["", "sel and", "sel sel_b", "(sel", "sel)", "nothing", "1 of", "1 of x*", "2 of them", "sel | count()"]
        {
            assert!(shown(text).is_err(), "{text}");
        }
        assert!(shown(&"(".repeat(400)).is_err());
        assert!(shown(&"not ".repeat(400)).is_err());
        assert!(shown(&"sel or ".repeat(100_000)).is_err());
        let many: Vec<String> = (0..1000).map(|number| format!("s{number}")).collect();
        assert!(parse::<()>("1 of s* or all of them", 1, &many, &mut 0).is_ok());
        assert!(parse::<()>("1 of s* or 1 of s* or 1 of s*", 1, &many, &mut 0).is_err());
    }
}
