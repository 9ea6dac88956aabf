//! Owns: what a `classtype` means, from a classification.config: its name for people and its priority.
//! Does not: ship any; rule sets bring theirs.

use std::collections::HashMap;

/// One class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// For people: EVE's `alert.category`.
    pub description: String,
    /// 1 (worst) to 255.
    pub priority: u8,
}

/// The classes, by name.
#[derive(Clone, Debug, Default)]
pub struct Classes(HashMap<String, Class>);

impl Classes {
    /// Adds `config classification: NAME,DESCRIPTION,PRIORITY` lines; returns the numbers of the lines that are
    /// something else.
    pub fn add(&mut self, text: &str) -> Vec<usize> {
        let mut bad = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let class = line.strip_prefix("config classification:").and_then(|rest| {
                let mut words = rest.splitn(3, ',').map(str::trim);
                let (name, description, priority) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
                Some((name.to_owned(), Class { description: description.to_owned(), priority }))
            });
            match class {
                Some((name, class)) => drop(self.0.insert(name, class)),
                None => bad.push(index + 1),
            }
        }
        bad
    }

    /// The class of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Class> {
        self.0.get(name)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut classes = Classes::default();
        let bad = classes.add("# x\nconfig classification: a-b,Some thing,2\nnonsense\n");
        assert_eq!(bad, [3]);
        let expected = Class { description: "Some thing".to_owned(), priority: 2 };
        assert_eq!(classes.find("a-b"), Some(&expected));
    }
}
