//! Rules in Suricata's language: files into rules, and a reason for each rule that is not used.
//!
//! Owns the language. An option that is not supported disables its rule and no other; so does a mistake.
//! Does not match anything: that is [`crate::Detector`]'s.

mod classes;
mod coverage;
mod dataset;
mod idle;
mod lines;
mod lists;
pub mod network;
mod numbers;
mod parse;
mod ranges;
pub mod rule;
mod tuning;

use std::collections::HashMap;
use std::sync::Arc;

pub use classes::{Class, Classes};
pub use coverage::Coverage;
pub use dataset::{Dataset, Wrote};
pub use idle::idle;
pub use lists::{Lists, Reputation};
pub use network::Variables;
pub(crate) use numbers::{MAX_VARIABLES, compare};
pub use parse::{BitNames, MAX_BITS, Reason};

pub use ranges::{Ranges, address_number};
pub use rule::Rule;
pub use tuning::Ineffective;

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

/// File and reason have the rule's own words, control characters too: who shows them to a terminal makes them harmless.
impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if self.sid != 0 {
            write!(f, "sid {}: ", self.sid)?;
        }
        self.reason.fmt(f)
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
    lists: Lists,
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
    /// Lists they may name.
    pub lists: Lists,
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
        let (bits, lists) = (std::mem::take(&mut self.bits), std::mem::take(&mut self.lists));
        let mut context = Context { variables, classes, bits, lists };
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
        (self.bits, self.lists) = (context.bits, context.lists);
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
    fn a_bad_rule_takes_nothing_with_it() {
        let set = set("alert tcp any any -> any any (content:\"a\"; sid:1;)\n\
             alert tcp any any -> any any (content:\"a\"; lua:x; sid:2;)\n\
             alert modbus any any -> any any (sid:3;)\n\
             alert tcp any any -> any any (content:\"a|4\"; sid:4;)\n\
             nonsense\n\
             alert tcp $NOWHERE any -> any any (sid:5;)\n\
             alert udp any any -> any any (sid:1; rev:1;)\n");
        assert_eq!(set.rules.len(), 1);
        assert!(matches!(set.rules[0].protocol, rule::Protocol::Udp), "the higher revision");
        let told: Vec<String> = set.rejected.iter().map(ToString::to_string).collect();
        assert_eq!(told[0], "test.rules:2: sid 2: lua is not supported");
        assert_eq!(told[1], "test.rules:3: sid 3: protocol modbus is not supported");
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
