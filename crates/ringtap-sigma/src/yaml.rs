//! Owns: YAML documents as trees in which every node knows its line.
//! Does not: know Sigma. Aliases are refused (they are how a small file becomes a large tree), and so are two equal keys
//! of one mapping (which of them counts would be a guess).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use granit_parser::{Event, Parser, ScalarStyle};

use crate::limits::MAX_DEPTH;

/// A node and the line it begins at, from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) value: Yaml,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Yaml {
    Null,
    Bool(bool),
    Integer(i64),
    /// Everything else; a number with a fraction or an exponent stays as it was written.
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One line of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: u32,
    pub(crate) node: Node,
}

/// A document that is not used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Broken {
    pub(crate) line: u32,
    pub(crate) detail: String,
}

impl Node {
    /// What it is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Yaml::Null => "nothing",
            Yaml::Bool(_) => "true or false",
            Yaml::Integer(_) => "a number",
            Yaml::Text(_) => "text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a mapping",
        }
    }

    /// A scalar as the text that Sigma compares; `None` for null, lists and mappings.
    pub(crate) fn scalar(&self) -> Option<String> {
        match &self.value {
            Yaml::Bool(value) => Some(value.to_string()),
            Yaml::Integer(value) => Some(value.to_string()),
            Yaml::Text(text) => Some(text.clone()),
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => None,
        }
    }

    pub(crate) fn find(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Yaml::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }
}

/// The documents of a file in their order; a broken one does not touch the others.
pub(crate) fn documents(text: &str) -> Vec<Result<Node, Broken>> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    options.set_emit_comments(false);
    let mut parser = Parser::new_from_str_with_options(text, options);
    let (mut found, mut tree) = (Vec::new(), Tree::default());
    while let Some(event) = parser.next_event() {
        let broken = match event {
            Ok((event, span)) => match tree.take(event, line(span.start.line())) {
                Ok(Some(document)) => {
                    found.push(Ok(document));
                    continue;
                }
                Ok(None) => continue,
                Err(broken) => broken,
            },
            Err(error) => Broken { line: line(error.marker().line()), detail: error.kind().to_string() },
        };
        found.push(Err(broken));
        tree = Tree::default();
        if !matches!(parser.proceed_next_document(), Ok(true)) {
            break;
        }
    }
    found
}

fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A tree while it grows.
#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
}

enum Open {
    List(u32, Vec<Node>),
    /// Line, lines so far, the key that waits for its value.
    Map(u32, Vec<Entry>, Option<(String, u32)>),
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: u32) -> Result<Option<Node>, Broken> {
        let broken = |detail: &str| Broken { line, detail: detail.to_owned() };
        let deep = self.open.len() >= MAX_DEPTH;
        match event {
            Event::DocumentEnd => return Ok(self.root.take().filter(|root| root.value != Yaml::Null)),
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                let value = if plain { resolve(&text) } else { Yaml::Text(text.into_owned()) };
                self.add(Node { line, value })?;
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if deep => {
                return Err(broken(&format!("nested deeper than {MAX_DEPTH} levels")));
            }
            Event::SequenceStart(..) => self.open.push(Open::List(line, Vec::new())),
            Event::MappingStart(..) => self.open.push(Open::Map(line, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.open.pop() {
                    Some(Open::List(line, list)) => Node { line, value: Yaml::List(list) },
                    Some(Open::Map(line, entries, _)) => {
                        unique(&entries)?;
                        Node { line, value: Yaml::Map(entries) }
                    }
                    None => return Err(broken("an end without a beginning")),
                };
                self.add(node)?;
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => return Err(broken("aliases (*name) are not supported")),
            _ => {}
        }
        Ok(None)
    }

    fn add(&mut self, node: Node) -> Result<(), Broken> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, list)) => list.push(node),
            Some(Open::Map(_, entries, waiting)) => match waiting.take() {
                Some((key, line)) => entries.push(Entry { key, line, node }),
                None => {
                    let line = node.line;
                    let Some(key) = node.scalar() else {
                        return Err(Broken { line, detail: format!("a key is {}, expected text", node.kind()) });
                    };
                    *waiting = Some((key, line));
                }
            },
        }
        Ok(())
    }
}

fn unique(entries: &[Entry]) -> Result<(), Broken> {
    let mut keys: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.line)).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(Broken {
            line: pair[1].1,
            detail: format!("the key {:?} is there a second time (first in line {})", pair[1].0, pair[0].1),
        }),
    }
}

/// A plain scalar by YAML 1.2's core schema, as far as it matters here: a number with leading zeros stays text, as
/// Sigma compares texts.
fn resolve(text: &str) -> Yaml {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Yaml::Null,
        "true" | "True" | "TRUE" => return Yaml::Bool(true),
        "false" | "False" | "FALSE" => return Yaml::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if number => Yaml::Integer(value),
        _ => Yaml::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_their_lines() {
        let found = documents("a: 1\nb:\n  - x\n  - '2'\n---\nc: null\n");
        let first = found[0].as_ref().unwrap();
        assert_eq!(first.find("a").unwrap().value, Yaml::Integer(1));
        let Yaml::List(list) = &first.find("b").unwrap().value else { panic!() };
        assert_eq!((list[1].line, &list[1].value), (4, &Yaml::Text("2".into())));
        assert_eq!(found[1].as_ref().unwrap().find("c").unwrap().line, 6);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_broken_document_leaves_the_others() {
        let found = documents("a: 1\n---\nb: [1, 2\n---\nc: 3\n");
        assert_eq!(found.len(), 3);
        assert!(found[1].is_err() && found[2].is_ok());
    }

    #[test]
    fn what_is_refused() {
        for (text, line) in [("a: &x 1\nb: *x\n", 2), ("a: 1\nb: 2\na: 3\n", 3), ("[a]: 1\n", 1)] {
            let found = documents(text);
            assert_eq!(found[0].as_ref().unwrap_err().line, line, "{text}");
        }
        assert!(documents(&"[".repeat(100_000))[0].is_err());
        assert!(documents(&"- ".repeat(100_000))[0].is_err());
    }

    #[test]
    fn scalars() {
        for (text, value) in [
            ("007", Yaml::Text("007".into())),
            ("-3", Yaml::Integer(-3)),
            ("1.5", Yaml::Text("1.5".into())),
            ("+5", Yaml::Text("+5".into())),
            ("~", Yaml::Null),
            ("yes", Yaml::Text("yes".into())),
            ("99999999999999999999", Yaml::Text("99999999999999999999".into())),
        ] {
            assert_eq!(resolve(text), value, "{text}");
        }
    }
}
