//! A topology that is being gathered from elsewhere, and the file it becomes.
//!
//! Owns what sources have in common: nodes by name, interfaces by name with an ifIndex where it is known, links between two of them. Each
//! interface has one link: a second one is left out, and said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

/// A node so far.
#[derive(Debug, Clone, Default)]
pub struct DraftNode {
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Its site.
    pub site: Option<String>,
    /// Its interfaces: names, and ifIndexes where they are known.
    pub interfaces: BTreeMap<String, Option<u32>>,
}

/// An end of a link: node and interface, by name.
pub type End = (String, String);

/// What was gathered so far.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Nodes by name.
    pub nodes: BTreeMap<String, DraftNode>,
    links: BTreeSet<[End; 2]>,
    /// The link of each end.
    ends: BTreeMap<End, [End; 2]>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

impl Draft {
    /// A node, made if it is not there.
    pub fn node(&mut self, name: &str) -> &mut DraftNode {
        self.nodes.entry(name.to_owned()).or_default()
    }

    /// An interface of a node, with its ifIndex where that is known.
    pub fn interface(&mut self, node: &str, name: &str, index: Option<u32>) {
        let known = self.node(node).interfaces.entry(name.to_owned()).or_default();
        *known = known.or(index.filter(|index| (1..1 << 31).contains(index)));
    }

    /// A link, which both ends may tell.
    pub fn link(&mut self, a: End, b: End) {
        if a.0 == b.0 {
            self.notes.push(format!("left out: a link of {} with itself ({} and {})", a.0, a.1, b.1));
            return;
        }
        let link = if a < b { [a, b] } else { [b, a] };
        for end in &link {
            if let Some(other) = self.ends.get(end).filter(|other| **other != link) {
                let text = |[(a, i), (b, j)]: &[End; 2]| format!("{a}:{i} – {b}:{j}");
                self.notes.push(format!("left out: {}, as there is {} already", text(&link), text(other)));
                return;
            }
        }
        for end in &link {
            self.interface(&end.0, &end.1, None);
            self.ends.insert(end.clone(), link.clone());
        }
        self.links.insert(link);
    }

    /// Ends of links whose ifIndex is not known.
    #[must_use]
    pub fn without_index(&self) -> usize {
        let index = |(node, name): &End| self.nodes.get(node).and_then(|node| *node.interfaces.get(name)?);
        self.ends.keys().filter(|end| index(end).is_none()).count()
    }

    /// How many links.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// The topology file. Interfaces without a link and without an ifIndex are left out: no alarm is about them.
    #[must_use]
    pub fn toml(&self) -> String {
        let mut out = String::from(
            "# [station]\n# attached = ['…']    # the node that the station is connected to; without it all is thought to be reached\n",
        );
        let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let _ = writeln!(out, "\n[[node]]\nname = {}", quoted(name));
            let own: Vec<String> = node
                .addresses
                .iter()
                .filter(|address| owners.entry(address.to_canonical()).or_insert(name) == name)
                .map(|address| quoted(&address.to_string()))
                .collect();
            if !own.is_empty() {
                let _ = writeln!(out, "addresses = [{}]", own.join(", "));
            }
            if let Some(site) = &node.site {
                let _ = writeln!(out, "site = {}", quoted(site));
            }
            let mut taken = BTreeSet::new();
            let mut names = BTreeSet::new();
            for (interface, index) in &node.interfaces {
                let has_link = self.ends.contains_key(&(name.clone(), interface.clone()));
                let index = index.filter(|index| taken.insert(*index));
                let is_number = interface.parse::<u32>().is_ok();
                if is_number || !(has_link || index.is_some()) || !names.insert(interface.to_lowercase()) {
                    continue;
                }
                let index = index.map_or(String::new(), |index| format!("index = {index}\n"));
                let _ = write!(out, "[[node.interface]]\nname = {}\n{index}", quoted(interface));
            }
        }
        for [(a, i), (b, j)] in &self.links {
            let _ =
                writeln!(out, "\n[[link]]\nends = [{}, {}]", quoted(&format!("{a}:{i}")), quoted(&format!("{b}:{j}")));
        }
        out
    }
}

/// As a basic string of TOML: JSON's, in which DEL needs no escape.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::file;

    fn end(node: &str, interface: &str) -> End {
        (node.to_owned(), interface.to_owned())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut draft = Draft::default();
        draft.node("a\"b:c\n").addresses.insert([192, 0, 2, 1].into());
        draft.node("d").addresses.extend([[192, 0, 2, 1].into(), IpAddr::from([192, 0, 2, 2])]);
        draft.nodes.remove("a\"b:c\n");
        draft.node("a\"b:c").addresses.insert([192, 0, 2, 1].into());
        draft.interface("d", "xe-0/0/1:3", Some(7));
        draft.interface("d", "unused", None);
        draft.link(end("d", "xe-0/0/1:3"), end("a\"b:c", "Eth 1"));
        draft.link(end("a\"b:c", "Eth 1"), end("d", "xe-0/0/1:3"));
        draft.link(end("d", "xe-0/0/1:3"), end("e", "1"));
        draft.link(end("d", "x"), end("d", "y"));
        draft.link(end("e", "5"), end("d", "2"));
        assert_eq!((draft.links(), draft.notes.len()), (2, 2), "{:?}", draft.notes);
        let topology = file::read(&draft.toml()).unwrap_or_else(|faults| panic!("{faults:?} in\n{}", draft.toml()));
        assert_eq!((topology.nodes().len(), topology.links().len()), (3, 2));
        assert_eq!(topology.find("192.0.2.1"), topology.find("a\"b:c"), "the first has an address that two have");
        let names: Vec<String> = (0..2).map(|at| topology.link_name(at)).collect();
        assert_eq!(names, ["a\"b:c:Eth 1-d:xe-0/0/1:3", "d:2-e:5"]);
        assert_eq!(topology.interface(topology.find("d").unwrap(), "XE-0/0/1:3"), Some(7));
    }
}
