//! Owns: what a rule says of itself: title, id, name, level, tags; and its logsource.
//! Does not: judge what it detects. Attributes that only people read are left where they are.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Fault;
use crate::automaton::Logsource;
use crate::yaml::{Node, Yaml};

/// Characters of a title, as Sigma bounds it; the same for id and name.
const MAX_TITLE: usize = 256;
/// Tags of one rule.
const MAX_TAGS: usize = 64;

/// How grave it is, in Sigma's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to act upon.
    Informational,
    /// Seldom an incident by itself.
    Low,
    /// To be looked at. What a rule has that names none.
    #[default]
    Medium,
    /// To be looked at promptly.
    High,
    /// An incident.
    Critical,
}

impl Level {
    /// All, from the least grave.
    pub const ALL: [Self; 5] = [Self::Informational, Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Sigma's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Informational => "informational",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What a rule says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Title.
    pub title: String,
    /// Identifier, often a UUID; empty where it has none.
    pub id: String,
    /// The name that correlations may use; empty where it has none.
    pub name: String,
    /// Level.
    pub level: Level,
    /// Tags, such as `attack.t1110`.
    pub tags: Vec<String>,
}

impl Head {
    pub(crate) fn read(document: &Node) -> Result<Self, Fault> {
        let text = |key| text(document, key, MAX_TITLE);
        let title = text("title")?;
        if title.is_empty() {
            return Err(Fault::broken(document.line, "title", "is missing"));
        }
        let level = match document.find("level") {
            None => Level::default(),
            Some(node) => {
                let word = node.scalar().unwrap_or_default();
                Level::ALL.into_iter().find(|level| level.name() == word).ok_or_else(|| {
                    Fault::broken(node.line, "level", "expected informational, low, medium, high or critical")
                })?
            }
        };
        let tags = match document.find("tags") {
            None => Vec::new(),
            Some(node) => strings(node, "tags", MAX_TAGS)?,
        };
        Ok(Self { title, id: text("id")?, name: text("name")?, level, tags })
    }

    /// What correlations and messages call it.
    #[must_use]
    pub fn label(&self) -> &str {
        [&self.name, &self.id].into_iter().find(|text| !text.is_empty()).unwrap_or(&self.title)
    }
}

/// What a document that could not be read calls itself.
pub(super) fn label(document: &Node) -> String {
    ["title", "name", "id"].iter().find_map(|key| document.find(key)?.scalar()).unwrap_or_default()
}

fn text(document: &Node, key: &str, most: usize) -> Result<String, Fault> {
    let Some(node) = document.find(key) else { return Ok(String::new()) };
    match node.scalar() {
        Some(text) if text.chars().count() <= most => Ok(text),
        Some(_) => Err(Fault::broken(node.line, key, format!("is longer than {most} characters"))),
        None => Err(Fault::broken(node.line, key, format!("is {}, expected text", node.kind()))),
    }
}

/// One text or a list of texts.
pub(super) fn strings(node: &Node, option: &str, most: usize) -> Result<Vec<String>, Fault> {
    let list = match &node.value {
        Yaml::List(list) => list.as_slice(),
        _ => core::slice::from_ref(node),
    };
    if list.len() > most {
        return Err(Fault::broken(node.line, option, format!("has more than {most} entries")));
    }
    let one = |node: &Node| match node.scalar() {
        Some(text) if !text.is_empty() && text.len() <= MAX_TITLE => Ok(text),
        _ => Err(Fault::broken(
            node.line,
            option,
            format!("expected text of 1 to {MAX_TITLE} bytes, not {}", node.kind()),
        )),
    };
    list.iter().map(one).collect()
}

/// One text or a list of texts, each with its line; as long as a condition may be.
pub(super) fn strings_long(node: &Node, option: &str, most: usize) -> Result<Vec<(String, u32)>, Fault> {
    let list = match &node.value {
        Yaml::List(list) if list.is_empty() || list.len() > most => {
            return Err(Fault::broken(node.line, option, format!("expected 1 to {most} entries")));
        }
        Yaml::List(list) => list.as_slice(),
        _ => core::slice::from_ref(node),
    };
    let one = |node: &Node| match &node.value {
        Yaml::Text(text) => Ok((text.clone(), node.line)),
        _ => Err(Fault::broken(node.line, option, format!("is {}, expected text", node.kind()))),
    };
    list.iter().map(one).collect()
}

impl Logsource {
    pub(crate) fn read(document: &Node) -> Result<Self, Fault> {
        let Some(node) = document.find("logsource") else {
            return Err(Fault::broken(document.line, "logsource", "is missing"));
        };
        if !matches!(node.value, Yaml::Map(_)) {
            return Err(Fault::broken(node.line, "logsource", format!("is {}, expected a mapping", node.kind())));
        }
        let part = |key| text(node, key, MAX_TITLE).map(|text| text.to_ascii_lowercase().trim().to_owned());
        Ok(Self { category: part("category")?, product: part("product")?, service: part("service")? })
    }
}
