//! What can break, its name, how low it stands in the containment tree, and how likely it is.

use serde::{Deserialize, Serialize};

use crate::topology::{Protocol, Topology};

/// Something that can break. Numbers are of the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Problem {
    /// A link, or a port at either end of it: nothing tells these apart.
    Link(u32),
    /// A session between two nodes that are well.
    Session(u32),
    /// A card.
    Card(u32),
    /// All of a protocol's adjacencies of a node: its process.
    Process(u32, Protocol),
    /// A node.
    Node(u32),
    /// A power group.
    Power(u32),
    /// A site.
    Site(u32),
}

/// An element as it stands in answers and state: its kind and name, such as `link:A:1-B:2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Element(pub String);

impl Problem {
    /// Its place in the containment tree, lowest first.
    pub fn rank(self) -> u8 {
        match self {
            Self::Link(_) => 0,
            Self::Session(_) => 1,
            Self::Card(_) => 2,
            Self::Process(..) => 3,
            Self::Node(_) => 4,
            Self::Power(_) => 5,
            Self::Site(_) => 6,
        }
    }

    /// −1000 · ln of how likely it is within one episode: links break most, sites least.
    pub fn cost(self) -> u64 {
        match self {
            Self::Link(_) => 4600,
            Self::Node(_) => 5300,
            Self::Card(_) => 5600,
            Self::Power(_) => 6000,
            Self::Process(..) => 6200,
            Self::Session(_) => 6500,
            Self::Site(_) => 7000,
        }
    }

    /// The names of what it stands for, itself first.
    pub fn elements(self, topology: &Topology) -> Vec<Element> {
        let named = |kind: &str, name: &str| Element(format!("{kind}:{name}"));
        let node = |at: u32| topology.node(at).name.as_str();
        match self {
            Self::Link(at) => {
                let port = |end, index| format!("{}:{}", node(end), topology.interface_name(end, index));
                let ports = topology.link(at).ends.map(|(end, index)| named("port", &port(end, index)));
                std::iter::once(named("link", &topology.link_name(at))).chain(ports).collect()
            }
            Self::Session(at) => vec![named("session", &topology.adjacency_name(at))],
            Self::Card(at) => {
                let card = &topology.cards[at as usize];
                vec![named("card", &format!("{}/{}", node(card.node), card.name))]
            }
            Self::Process(at, protocol) => vec![named("process", &format!("{}/{}", node(at), protocol.name()))],
            Self::Node(at) => vec![named("node", node(at))],
            Self::Power(at) => vec![named("power", &topology.power[at as usize].name)],
            Self::Site(at) => vec![named("site", &topology.sites[at as usize].name)],
        }
    }
}
