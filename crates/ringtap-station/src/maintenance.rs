//! Maintenance windows: whose alarms are not announced, and from when to when.
//!
//! Owns which alarms a window covers. What becomes of those is the table's: they are stored and marked, and when the window is over, what
//! is still raised is announced. Windows lie in the store, where operators put them beside a running station.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use ringtap_rootcause::Topology;
use serde::{Deserialize, Serialize};

use crate::filter;
use crate::pattern::Pattern;

/// What a window covers: each of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Nodes by the name that alarms or the topology have for them.
    pub nodes: Vec<Pattern>,
    /// Networks: nodes with an address there, and whoever sends from there.
    pub networks: Vec<IpNet>,
}

impl Scope {
    /// Whether it covers nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.networks.is_empty()
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.iter().map(ToString::to_string);
        f.write_str(&nodes.chain(self.networks.iter().map(ToString::to_string)).collect::<Vec<_>>().join(", "))
    }
}

/// A window. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Its number; 0: the store has not given one yet.
    pub id: u64,
    /// What it covers.
    #[serde(flatten)]
    pub scope: Scope,
    /// From this on.
    pub from_ns: u64,
    /// To this.
    pub until_ns: u64,
    /// Who made it.
    pub operator: String,
    /// Why.
    pub comment: Option<String>,
    /// When somebody ended it before its time, and who.
    pub ended: Option<(u64, String)>,
}

impl Window {
    /// When it is over.
    pub fn end_ns(&self) -> u64 {
        self.ended.as_ref().map_or(self.until_ns, |(at_ns, _)| self.until_ns.min(*at_ns))
    }
}

/// The windows that are not over, and the nodes of the topology.
#[derive(Debug, Default)]
pub struct Windows {
    windows: Vec<(Window, HashSet<IpAddr>)>,
    /// Names and addresses.
    nodes: Vec<(String, Vec<IpAddr>)>,
}

impl Windows {
    /// Other windows from now on.
    pub fn replace(&mut self, windows: Vec<Window>) {
        let addresses = |window: &Window| {
            let is_named = |name: &str| window.scope.nodes.iter().any(|pattern| pattern.matches(name));
            let named = self.nodes.iter().filter(|(name, _)| is_named(name));
            named.flat_map(|(_, addresses)| addresses.iter().map(IpAddr::to_canonical)).collect()
        };
        self.windows = windows.into_iter().map(|window| (addresses(&window), window)).map(|(a, w)| (w, a)).collect();
    }

    /// Another topology from now on, by whose names windows may call nodes.
    pub fn replace_nodes(&mut self, topology: &Topology) {
        self.nodes = topology.nodes().iter().map(|node| (node.name.clone(), node.addresses.clone())).collect();
        let windows = std::mem::take(&mut self.windows).into_iter().map(|(window, _)| window).collect();
        self.replace(windows);
    }

    /// Whether a node's alarms are in maintenance at `at_ns`; `source`: who sends its notifications.
    pub fn cover(&self, resource: &str, source: Option<IpAddr>, at_ns: u64) -> bool {
        self.windows.iter().any(|(window, addresses)| {
            let is_now = window.from_ns <= at_ns && at_ns < window.end_ns();
            let is_its = || {
                window.scope.nodes.iter().any(|pattern| pattern.matches(resource))
                    || filter::is_within(&window.scope.networks, resource, source)
                    || !addresses.is_empty()
                        && resource.parse::<IpAddr>().is_ok_and(|node| addresses.contains(&node.to_canonical()))
            };
            is_now && is_its()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(nodes: &[&str], networks: &[&str], from_ns: u64, until_ns: u64) -> Window {
        let scope = Scope {
            nodes: nodes.iter().map(|node| Pattern::new(node)).collect(),
            networks: networks.iter().map(|net| net.parse().unwrap()).collect(),
        };
        Window { id: 1, scope, from_ns, until_ns, operator: "alice".to_owned(), comment: None, ended: None }
    }

    #[test]
    fn a_window_covers_nodes_by_name_and_network_and_senders_from_there_in_its_time() {
        let mut windows = Windows::default();
        let by = |text: &str| Some(text.parse().unwrap());
        assert!(!windows.cover("core1", by("192.0.2.1"), 5));
        windows.replace(vec![window(&["core*"], &[], 5, 10), window(&[], &["198.51.100.0/24"], 8, 20)]);
        for (resource, source, at_ns, is_covered) in [
            ("core1", "192.0.2.1", 4, false),
            ("core1", "192.0.2.1", 5, true),
            ("Core1", "192.0.2.1", 9, true),
            ("core1", "192.0.2.1", 10, false),
            ("edge1", "192.0.2.1", 9, false),
            ("edge1", "198.51.100.9", 9, true),
            ("198.51.100.7", "192.0.2.1", 19, true),
            ("198.51.101.7", "192.0.2.1", 19, false),
        ] {
            assert_eq!(windows.cover(resource, by(source), at_ns), is_covered, "{resource} {source} {at_ns}");
        }
        windows.replace(vec![Window { ended: Some((7, "bob".to_owned())), ..window(&["core1"], &[], 5, 10) }]);
        assert!(windows.cover("core1", None, 6) && !windows.cover("core1", None, 7), "somebody ended it");
    }

    #[test]
    fn a_node_is_known_by_each_address_that_the_topology_has() {
        let text = "node = [{ name = 'core1', addresses = ['192.0.2.1', '2001:db8::1'] }, { name = 'edge', addresses = ['192.0.2.2'] }]";
        let topology = ringtap_rootcause::topology::file::read(text).unwrap();
        let mut windows = Windows::default();
        windows.replace(vec![window(&["core1"], &[], 0, 10)]);
        assert!(!windows.cover("192.0.2.1", None, 5));
        windows.replace_nodes(&topology);
        for (resource, is_covered) in [("192.0.2.1", true), ("2001:db8::1", true), ("192.0.2.2", false)] {
            assert_eq!(windows.cover(resource, None, 5), is_covered, "{resource}");
        }
    }
}
