//! Rules in Sigma's language: files into typed rules, and a reason for each rule that is not used.
//!
//! Owns the language. What is not supported disables the rule that uses it, and the rules that rest on that rule, and no
//! other; so does a mistake. Does not resolve what rules say of each other, nor run anything: that is
//! [`compile`](RuleSet::compile)'s and [`Matcher`](crate::Matcher)'s.

pub(crate) mod condition;
pub(crate) mod correlation;
pub(crate) mod detection;
mod encoding;
pub(crate) mod field;
mod formula;
mod head;
pub(crate) mod wildcard;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use head::{Head, Level};

use crate::automaton::{Automaton, Logsource};
use crate::limits::{Limits, MAX_FILE_BYTES};
use crate::yaml::{self, Node, Yaml};

/// Why a rule is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Sigma has it, this crate does not.
    Unsupported {
        /// Attribute, modifier or word.
        option: String,
        /// Which form of it, where only that.
        detail: String,
    },
    /// A mistake.
    Broken {
        /// Attribute, modifier or word; empty where it is the document itself.
        option: String,
        /// What is wrong, and what was expected.
        detail: String,
    },
}

/// A rule that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// File.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Title, name or id; empty where it has none.
    pub rule: String,
    /// Why.
    pub reason: Reason,
}

/// File, rule and reason have the file's own words, control characters too: who shows them to a terminal makes them harmless.
impl core::fmt::Display for Rejected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.rule.is_empty() {
            write!(f, "{}: ", self.rule)?;
        }
        self.reason.fmt(f)
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unsupported { option, detail } if detail.is_empty() => write!(f, "{option} is not supported"),
            Self::Unsupported { option, detail } => write!(f, "{option}: {detail} is not supported"),
            Self::Broken { option, detail } if option.is_empty() => f.write_str(detail),
            Self::Broken { option, detail } => write!(f, "{option}: {detail}"),
        }
    }
}

/// A reason and the line it was found at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: u32,
    pub(crate) reason: Reason,
}

impl Fault {
    pub(crate) fn broken(line: u32, option: &str, detail: impl Into<String>) -> Self {
        Self { line, reason: Reason::Broken { option: option.to_owned(), detail: detail.into() } }
    }

    pub(crate) fn unsupported(line: u32, option: &str, detail: impl Into<String>) -> Self {
        Self { line, reason: Reason::Unsupported { option: option.to_owned(), detail: detail.into() } }
    }
}

/// Names of fields and their numbers, in the order in which rules first name them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    names: Vec<String>,
    numbers: alloc::collections::BTreeMap<String, u16>,
}

impl Fields {
    /// The number of a name; `None` when there are too many.
    pub(crate) fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        if self.names.len() >= crate::limits::MAX_FIELDS {
            return None;
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Forgets the names after the first so many: those of a rule that is not used.
    fn truncate(&mut self, len: usize) {
        for name in self.names.drain(len..) {
            self.numbers.remove(&name);
        }
    }

    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// Where a rule came from, and the rule.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) head: Head,
    pub(crate) rule: T,
}

/// Rules from any number of files.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub(crate) fields: Fields,
    pub(crate) detections: Vec<Placed<detection::Detection>>,
    pub(crate) correlations: Vec<Placed<correlation::Correlation>>,
    pub(crate) rejected: Vec<Rejected>,
}

impl RuleSet {
    /// No rules yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rules of one file, which may hold several documents.
    pub fn add(&mut self, file: &str, text: &str) {
        let file: Arc<str> = file.into();
        if text.len() > MAX_FILE_BYTES {
            let fault = Fault::broken(1, "", format!("the file is longer than {MAX_FILE_BYTES} bytes"));
            return self.reject(&file, String::new(), fault);
        }
        for document in yaml::documents(text) {
            match document {
                Err(broken) => self.reject(&file, String::new(), Fault::broken(broken.line, "", broken.detail)),
                Ok(document) => {
                    let fields = self.fields.names().len();
                    if let Err(fault) = self.document(&file, &document) {
                        self.fields.truncate(fields);
                        self.reject(&file, head::label(&document), fault);
                    }
                }
            }
        }
    }

    fn document(&mut self, file: &Arc<str>, document: &Node) -> Result<(), Fault> {
        let line = document.line;
        let Yaml::Map(_) = document.value else {
            return Err(Fault::broken(line, "", format!("a rule is a mapping, not {}", document.kind())));
        };
        if let Some(action) = document.find("action") {
            return Err(Fault::unsupported(action.line, "action", "the collection of an earlier version"));
        }
        let head = Head::read(document)?;
        let of = |key| document.find(key);
        match (of("detection"), of("correlation"), of("filter")) {
            (Some(node), None, None) => {
                let logsource = Logsource::read(document)?;
                let rule = detection::read(node, logsource, &mut self.fields)?;
                self.detections.push(Placed { file: file.clone(), line, head, rule });
            }
            (None, Some(node), None) => {
                let rule = correlation::read(document, node)?;
                self.correlations.push(Placed { file: file.clone(), line, head, rule });
            }
            (None, None, Some(filter)) => return Err(Fault::unsupported(filter.line, "filter", "")),
            (None, None, None) => {
                return Err(Fault::broken(line, "", "expected one of 'detection' and 'correlation'"));
            }
            _ => return Err(Fault::broken(line, "", "expected only one of 'detection', 'correlation', 'filter'")),
        }
        Ok(())
    }

    pub(crate) fn reject(&mut self, file: &Arc<str>, rule: String, fault: Fault) {
        self.rejected.push(Rejected { file: file.clone(), line: fault.line, rule, reason: fault.reason });
    }

    /// The automaton of all rules that can be used, and the others with their reasons, by file and line.
    #[must_use]
    pub fn compile(self, limits: Limits) -> (Automaton, Vec<Rejected>) {
        crate::compile::compile(self, limits)
    }
}
