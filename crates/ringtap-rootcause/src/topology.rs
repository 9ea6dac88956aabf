//! The network as the engine knows it: nodes, links, adjacencies, cards, power, sites, and what of it alarms tell.
//!
//! Owns the model and the numbers of its symptoms. How it is written in a file is [`mod@file`]'s, how it is shown [`draw`]'s.

pub mod draft;
pub mod draw;
pub mod file;
pub mod lldp;
pub mod netbox;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::symptom::Symptom;

/// Protocols whose neighbours are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// BGP (RFC 4271): sessions may go over many links.
    Bgp,
    /// OSPF (RFC 2328): neighbours share a link.
    Ospf,
}

impl Protocol {
    /// Its name in files and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bgp => "bgp",
            Self::Ospf => "ospf",
        }
    }
}

/// A node: whatever sends notifications or is connected.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name; unique.
    pub name: String,
    /// All its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it says comes over the network it is a part of, not over a network of its own.
    pub in_band: bool,
    /// The site it stands in.
    pub site: Option<u32>,
    /// Its power; it is dead when none of these is left. Empty: unknown, and always there.
    pub power: Vec<u32>,
    /// What it needs to live.
    pub needs: Vec<Need>,
    /// Links that end here.
    pub links: Vec<u32>,
    /// Adjacencies that end here.
    pub adjacencies: Vec<u32>,
    /// Its cards.
    pub cards: Vec<u32>,
}

/// What a node needs of others.
#[derive(Debug, Clone)]
pub enum Need {
    /// One of these nodes.
    Any(Vec<u32>),
    /// Each of these nodes.
    All(Vec<u32>),
}

/// A link between two interfaces.
#[derive(Debug, Clone)]
pub struct Link {
    /// Node and ifIndex of each end.
    pub ends: [(u32, u32); 2],
    /// The card of each end.
    pub cards: [Option<u32>; 2],
    /// Adjacencies that live on it alone.
    pub adjacencies: Vec<u32>,
    /// Symptoms: the interface at each end is down.
    pub symptoms: [u32; 2],
}

/// A session or adjacency of a routing protocol.
#[derive(Debug, Clone)]
pub struct Adjacency {
    /// Which protocol.
    pub protocol: Protocol,
    /// The nodes.
    pub ends: [u32; 2],
    /// The link it lives on; without one it lives while there is any way.
    pub link: Option<u32>,
    /// Symptoms: each end has lost the other.
    pub symptoms: [u32; 2],
}

/// A card (line card, module) with some of a node's interfaces.
#[derive(Debug, Clone)]
pub struct Card {
    /// Where it is.
    pub node: u32,
    /// Its name within the node.
    pub name: String,
    /// Links at its ports.
    pub links: Vec<u32>,
    /// The node's own word about it, where entPhysicalIndex is known.
    pub symptom: Option<u32>,
}

/// A group of nodes with common power, or at one site.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name; unique in its kind.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<u32>,
    /// What a node that watches it (an uninterruptible power supply) says.
    pub symptom: Option<u32>,
}

/// A network.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) adjacencies: Vec<Adjacency>,
    pub(crate) cards: Vec<Card>,
    pub(crate) power: Vec<Group>,
    pub(crate) sites: Vec<Group>,
    /// Where the station is attached; empty: what every node says arrives.
    pub(crate) attached: Vec<u32>,
    pub(crate) symptoms: Vec<Symptom>,
    /// Those of adjacencies that live while there is any way.
    pub(crate) is_far: Vec<bool>,
    by_symptom: HashMap<Symptom, u32>,
    by_name: HashMap<String, u32>,
    by_address: HashMap<IpAddr, u32>,
    /// By host name in lower case.
    by_host: HashMap<String, u32>,
    /// Interfaces that have names: numbers by node and name, names by node and number.
    by_interface: HashMap<(u32, String), u32>,
    interfaces: HashMap<(u32, u32), String>,
}

/// From here on numbers stand for interfaces of which only the name is known: no ifIndex is as great (RFC 2863: InterfaceIndex).
const NAMED: u32 = 0x8000_0000;

impl Topology {
    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Its links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Its adjacencies.
    pub fn adjacencies(&self) -> &[Adjacency] {
        &self.adjacencies
    }

    /// Its cards.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Its power groups.
    pub fn power(&self) -> &[Group] {
        &self.power
    }

    /// Its sites.
    pub fn sites(&self) -> &[Group] {
        &self.sites
    }

    /// Where the station is attached.
    pub fn attached(&self) -> &[u32] {
        &self.attached
    }

    /// The node of this address or host name, as it stands in alarms: a name in any case, and of one with a domain what stands before it,
    /// if there is no node with the whole.
    pub fn find(&self, resource: &str) -> Option<u32> {
        if let Ok(address) = resource.parse::<IpAddr>() {
            return self.at(address);
        }
        let host = resource.to_lowercase();
        let by_host = |name: &str| self.by_host.get(name).copied();
        let exact = self.by_name.get(resource).copied();
        exact.or_else(|| by_host(&host)).or_else(|| by_host(host.split_once('.')?.0))
    }

    /// The number of a node's interface with this name (ifName, in any case).
    pub fn interface(&self, node: u32, name: &str) -> Option<u32> {
        self.by_interface.get(&(node, name.to_lowercase())).copied()
    }

    /// An interface as it is shown: by its name, else its ifIndex.
    pub fn interface_name(&self, node: u32, index: u32) -> String {
        self.interfaces.get(&(node, index)).cloned().unwrap_or_else(|| index.to_string())
    }

    /// Gives a node's interface a name; without its ifIndex it is known by that alone. `false` when name or ifIndex is taken.
    pub(crate) fn add_interface(&mut self, node: u32, name: &str, index: Option<u32>) -> bool {
        let index = index.unwrap_or(NAMED + self.interfaces.len() as u32);
        let is_new = self.by_interface.insert((node, name.to_lowercase()), index).is_none();
        is_new & self.interfaces.insert((node, index), name.to_owned()).is_none()
    }

    /// Gives a node's interface of which nothing is known a number, and a name that shows it.
    pub(crate) fn add_unknown_interface(&mut self, node: u32) -> u32 {
        let index = NAMED + self.interfaces.len() as u32;
        self.interfaces.insert((node, index), "?".to_owned());
        index
    }

    /// Links between two nodes.
    pub(crate) fn links_between(&self, a: u32, b: u32) -> impl Iterator<Item = u32> {
        self.node(a).links.iter().copied().filter(move |&link| self.other_end(link, a) == b)
    }

    /// The node with this address.
    pub(crate) fn at(&self, address: IpAddr) -> Option<u32> {
        self.by_address.get(&address.to_canonical()).copied()
    }

    /// The number of a symptom that something can cause.
    pub(crate) fn number(&self, symptom: Symptom) -> Option<u32> {
        self.by_symptom.get(&symptom).copied()
    }

    pub(crate) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    pub(crate) fn link(&self, at: u32) -> &Link {
        &self.links[at as usize]
    }

    /// The name of a link: `A:1-B:2`.
    pub fn link_name(&self, at: u32) -> String {
        let [(a, i), (b, j)] = self.link(at).ends;
        let (i, j) = (self.interface_name(a, i), self.interface_name(b, j));
        format!("{}:{i}-{}:{j}", self.node(a).name, self.node(b).name)
    }

    /// The name of an adjacency: `bgp:A-B`.
    pub fn adjacency_name(&self, at: u32) -> String {
        let it = &self.adjacencies[at as usize];
        format!("{}:{}-{}", it.protocol.name(), self.node(it.ends[0]).name, self.node(it.ends[1]).name)
    }

    /// Where this end of the link leads to.
    pub(crate) fn other_end(&self, link: u32, node: u32) -> u32 {
        let ends = self.link(link).ends;
        if ends[0].0 == node { ends[1].0 } else { ends[0].0 }
    }

    fn intern(&mut self, symptom: Symptom) -> u32 {
        let next = self.symptoms.len() as u32;
        let number = *self.by_symptom.entry(symptom).or_insert(next);
        if number == next {
            self.symptoms.push(symptom);
            self.is_far.push(false);
        }
        number
    }

    /// Adds a node; `false` when its name is taken.
    pub(crate) fn add_node(&mut self, node: Node) -> bool {
        let at = self.nodes.len() as u32;
        if self.by_name.insert(node.name.clone(), at).is_some() {
            return false;
        }
        self.by_host.entry(node.name.to_lowercase()).or_insert(at);
        self.nodes.push(node);
        self.intern(Symptom::Restart { node: at });
        true
    }

    /// Gives a node an address; `false` when another node has it.
    pub(crate) fn add_address(&mut self, node: u32, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_new = *self.by_address.entry(address).or_insert(node) == node;
        if is_new {
            self.nodes[node as usize].addresses.push(address);
        }
        is_new
    }

    pub(crate) fn add_link(&mut self, ends: [(u32, u32); 2], cards: [Option<u32>; 2]) -> u32 {
        let at = self.links.len() as u32;
        let symptoms = ends.map(|(node, index)| self.intern(Symptom::Interface { node, index }));
        self.links.push(Link { ends, cards, adjacencies: Vec::new(), symptoms });
        for (side, (node, _)) in ends.into_iter().enumerate() {
            self.nodes[node as usize].links.push(at);
            if let Some(card) = cards[side] {
                self.cards[card as usize].links.push(at);
            }
        }
        at
    }

    pub(crate) fn add_adjacency(&mut self, protocol: Protocol, ends: [u32; 2], link: Option<u32>) {
        let at = self.adjacencies.len() as u32;
        let symptoms = [(ends[0], ends[1]), (ends[1], ends[0])]
            .map(|(node, peer)| self.intern(Symptom::Adjacency { node, protocol, peer }));
        for symptom in symptoms {
            self.is_far[symptom as usize] |= link.is_none();
        }
        self.adjacencies.push(Adjacency { protocol, ends, link, symptoms });
        for node in ends {
            self.nodes[node as usize].adjacencies.push(at);
        }
        if let Some(link) = link {
            self.links[link as usize].adjacencies.push(at);
        }
    }

    pub(crate) fn add_card(&mut self, node: u32, name: String, entity: Option<u32>) -> u32 {
        let at = self.cards.len() as u32;
        let symptom = entity.map(|entity| self.intern(Symptom::Card { node, entity }));
        self.cards.push(Card { node, name, links: Vec::new(), symptom });
        self.nodes[node as usize].cards.push(at);
        at
    }

    pub(crate) fn add_power(&mut self, name: String, watched_by: Option<u32>) {
        let symptom = watched_by.map(|node| self.intern(Symptom::Power { node }));
        self.power.push(Group { name, nodes: Vec::new(), symptom });
    }
}
