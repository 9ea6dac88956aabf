//! Rules in Suricata's language: files into rules, and a reason for each rule that is not used.
//!
//! Owns the language. An option that is not supported disables its rule and no other; so does a mistake.
//! Does not match anything: that is [`crate::Detector`]'s.

mod classes;
mod coverage;
mod idle;
mod lines;
pub mod network;
mod numbers;
mod parse;
mod ranges;
pub mod rule;

use std::collections::HashMap;
use std::sync::Arc;

pub use classes::{Class, Classes};
pub use coverage::Coverage;
pub use idle::idle;
pub use network::Variables;
pub(crate) use numbers::MAX_VARIABLES;
pub use parse::{BitNames, MAX_BITS, Reason};

pub use ranges::{Ranges, address_number};
pub use rule::Rule;

/// A rule that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// File.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Signature identifier; 0 where it has none.
    pub sid: u32,
    /// Why.
    pub reason: Reason,
}

/// Words of a rule file for a terminal or a log: control characters would be obeyed there.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", printable(&self.file), self.line)?;
        if self.sid != 0 {
            write!(f, "sid {}: ", self.sid)?;
        }
        f.write_str(&printable(&self.reason.to_string()))
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported { option, detail } if detail.is_empty() => write!(f, "{option} is not supported"),
            Self::Unsupported { option, detail } => write!(f, "{option}: {detail} is not supported"),
            Self::Broken { option, detail } if option.is_empty() => f.write_str(detail),
            Self::Broken { option, detail } => write!(f, "{option}: {detail}"),
        }
    }
}

/// What rules refer to outside themselves.
struct Context<'v> {
    variables: &'v Variables,
    classes: &'v Classes,
    bits: BitNames,
}

/// Rules from any number of files.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// Those that are used, in order of files and lines.
    pub rules: Vec<Rule>,
    /// Those that are not.
    pub rejected: Vec<Rejected>,
    /// Bits they name.
    pub bits: BitNames,
    seen: HashMap<(u32, u32), usize>,
}

impl RuleSet {
    /// No rules yet; bits that an earlier set names keep their numbers.
    #[must_use]
    pub fn with_bits(bits: BitNames) -> Self {
        Self { bits, ..Self::default() }
    }

    /// Adds the rules of one file. Of two rules with the same gid and sid the one with the higher revision is used, of
    /// equal ones the first.
    pub fn add(&mut self, file: &str, text: &[u8], variables: &Variables, classes: &Classes) {
        let file: Arc<str> = file.into();
        let mut context = Context { variables, classes, bits: std::mem::take(&mut self.bits) };
        for line in lines::rules(text) {
            let (sid, rule) = match &line.text {
                Ok(text) => parse::rule(text, line.number, &file, &mut context),
                Err(detail) => (0, Err(Reason::Broken { option: String::new(), detail: detail.clone() })),
            };
            let reject = |sid, reason| Rejected { file: Arc::clone(&file), line: line.number, sid, reason };
            match rule {
                Err(reason) => self.rejected.push(reject(sid, reason)),
                Ok(rule) => {
                    let key = (rule.meta.gid, rule.meta.sid);
                    match self.seen.get(&key) {
                        Some(&index) if self.rules[index].meta.rev < rule.meta.rev => self.rules[index] = rule,
                        Some(_) => {
                            let detail = "another rule with this sid is in use".to_owned();
                            self.rejected.push(reject(sid, Reason::Broken { option: "sid".to_owned(), detail }));
                        }
                        None => {
                            self.seen.insert(key, self.rules.len());
                            self.rules.push(rule);
                        }
                    }
                }
            }
        }
        self.bits = context.bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> RuleSet {
        let mut set = RuleSet::default();
        set.add("test.rules", text.as_bytes(), &Variables::default(), &Classes::default());
        set
    }

    #[test]
    fn a_rule_s_control_characters_reach_no_terminal() {
        let set = set("alert tcp any any -> any any (\x1b[31mred; sid:1;)\n");
        let coverage = Coverage::of(&set.rejected, 0);
        assert!(!set.rejected[0].to_string().contains('\x1b') && !coverage.unsupported[0].0.contains('\x1b'));
    }

    #[test]
    fn a_bad_rule_takes_nothing_with_it() {
        let set = set("alert tcp any any -> any any (content:\"a\"; sid:1;)\n\
             alert tcp any any -> any any (content:\"a\"; http_uri; sid:2;)\n\
             alert http any any -> any any (sid:3;)\n\
             alert tcp any any -> any any (content:\"a|4\"; sid:4;)\n\
             nonsense\n\
             alert tcp $NOWHERE any -> any any (sid:5;)\n\
             alert udp any any -> any any (sid:1; rev:1;)\n");
        assert_eq!(set.rules.len(), 1);
        assert!(matches!(set.rules[0].protocol, rule::Protocol::Udp), "the higher revision");
        let told: Vec<String> = set.rejected.iter().map(ToString::to_string).collect();
        assert_eq!(told[0], "test.rules:2: sid 2: http_uri is not supported");
        assert_eq!(told[1], "test.rules:3: sid 3: protocol http is not supported");
        assert_eq!(told[2], "test.rules:4: sid 4: content: hex is not closed");
        assert!(told[3].starts_with("test.rules:5: "), "{}", told[3]);
        assert_eq!(told[4], "test.rules:6: sid 5: address: variable $NOWHERE is not defined");
    }

    #[test]
    fn options_find_their_place() {
        let set = set(
            r#"alert tcp any any -> any any (msg:"m"; content:"|41|b\;"; nocase; offset:1; depth:9; content:!"x"; within:5; pcre:"/a+/Ri"; dsize:>3; ipv4.hdr; content:"|45|"; startswith; classtype:x; priority:1; sid:9;)"#,
        );
        let rule = &set.rules[0];
        assert_eq!(rule.buffers.len(), 2, "{:?}", set.rejected);
        assert_eq!(rule.buffers[0].1.len(), 3);
        let rule::Test::Content(content) = &rule.buffers[0].1[0] else { panic!() };
        assert_eq!((&content.bytes[..], content.nocase), (&b"Ab;"[..], true));
        assert_eq!((rule.meta.priority, rule.headers.len()), (1, 1));
    }
}
