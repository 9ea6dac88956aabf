//! What alarms say of the network that the file lacks: an address of a node, a link, a neighbour.
//!
//! Owns when that is certain enough, and what then changes. Learnt from held alarms that are nothing in the topology, each by what they
//! say themselves; where two answers fit, nothing is learnt. It is in the state, so a restart knows it too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Engine;
use crate::explain::Codebook;
use crate::symptom::{Symptom, first_number, peer, place};
use crate::topology::{Protocol, Topology};

/// Most that is learnt.
const MOST: usize = 1000;

/// Something that the file lacks. Nodes are by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Learnt {
    /// A node has this address.
    Address { node: String, address: IpAddr },
    /// Two nodes are joined, OSPF neighbours over it; ifIndexes where they are known.
    Link { ends: [(String, Option<u32>); 2] },
    /// Two nodes are neighbours.
    Adjacency { protocol: String, ends: [String; 2] },
}

impl Learnt {
    /// Adds it to a topology; nothing is done when it does not fit there (any more).
    pub(super) fn add_to(&self, topology: &mut Topology) {
        match self {
            Self::Address { node, address } => {
                if let Some(node) = topology.find(node) {
                    topology.add_address(node, *address);
                }
            }
            Self::Link { ends } => {
                let [Some(a), Some(b)] = [0, 1].map(|side: usize| topology.find(&ends[side].0)) else { return };
                if a == b || topology.links_between(a, b).next().is_some() {
                    return;
                }
                let ports = [(a, ends[0].1), (b, ends[1].1)].map(|(node, index)| match index {
                    Some(index) => (node, index),
                    None => (node, topology.add_unknown_interface(node)),
                });
                let link = topology.add_link(ports, [None; 2]);
                topology.add_adjacency(Protocol::Ospf, [a, b], Some(link));
            }
            Self::Adjacency { protocol, ends } => {
                let [Some(a), Some(b)] = [0, 1].map(|side: usize| topology.find(&ends[side])) else { return };
                let protocol = if protocol == Protocol::Bgp.name() { Protocol::Bgp } else { Protocol::Ospf };
                if a == b || topology.number(Symptom::Adjacency { node: a, protocol, peer: b }).is_some() {
                    return;
                }
                let only = {
                    let mut links = topology.links_between(a, b);
                    links.next().filter(|_| protocol == Protocol::Ospf && links.next().is_none())
                };
                topology.add_adjacency(protocol, [a, b], only);
            }
        }
    }
}

/// A held alarm of a lost neighbour that is nothing in the topology.
struct Loss {
    speaker: String,
    /// The speaker, if it is known.
    node: Option<u32>,
    protocol: Protocol,
    address: IpAddr,
    /// Whom it lost, if that is known.
    peer: Option<u32>,
}

/// What is held and may teach something.
#[derive(Default)]
struct Lesson {
    losses: Vec<Loss>,
    /// Ports that are down, of speakers, whether these are known or not; those that are nothing in the topology apart.
    ports: BTreeMap<String, BTreeSet<u32>>,
    stray_ports: BTreeMap<u32, BTreeSet<u32>>,
    /// Symptoms that are there, and nodes that were heard.
    there: BTreeSet<u32>,
    spoke: BTreeSet<u32>,
}

impl Engine {
    /// Learns what held alarms say that is not in the topology. Work is bounded as that of a search is.
    pub(super) fn learn(&mut self) {
        if self.state.learnt.len() >= MOST || self.is_exhausted() {
            return;
        }
        let lesson = self.lesson();
        if lesson.losses.is_empty() {
            return;
        }
        let addresses: Vec<Learnt> = lesson.addresses(&self.topology);
        let mut news = if addresses.is_empty() { lesson.neighbours(&self.topology) } else { addresses };
        news.truncate(MOST - self.state.learnt.len());
        if news.is_empty() {
            return;
        }
        for it in &news {
            it.add_to(&mut self.topology);
        }
        let is_whole = !news.iter().any(|it| matches!(it, Learnt::Address { .. }));
        self.state.learnt.extend(news);
        self.codebook = Codebook::new(&self.topology);
        self.work.done += self.codebook.size() + self.state.alarms.len() as u64;
        self.place_again();
        self.predict();
        if !is_whole {
            // With the addresses, neighbours are known.
            self.learn();
        }
    }

    fn lesson(&self) -> Lesson {
        let mut lesson = Lesson::default();
        let index = |object: &str, node: Option<u32>| {
            first_number(object).or_else(|| node.and_then(|node| self.topology.interface(node, object)))
        };
        for (_, id) in &self.held {
            let alarm = &self.state.alarms[id];
            if alarm.is_doubtful {
                continue;
            }
            let subject = &alarm.subject;
            let node = self.topology.find(&subject.resource);
            if let Some(symptom) = alarm.symptom {
                lesson.there.insert(symptom);
            }
            lesson.spoke.extend(node);
            match subject.condition.as_str() {
                "linkDown" => {
                    let Some(port) = index(&subject.object, node) else { continue };
                    lesson.ports.entry(subject.resource.clone()).or_default().insert(port);
                    if let Some(node) = node.filter(|_| alarm.symptom.is_none()) {
                        lesson.stray_ports.entry(node).or_default().insert(port);
                    }
                }
                condition if alarm.symptom.is_none() => {
                    let Some(address) = peer(subject) else { continue };
                    let protocol = if condition.starts_with("bgp") { Protocol::Bgp } else { Protocol::Ospf };
                    let (speaker, peer) = (subject.resource.clone(), self.topology.at(address));
                    lesson.losses.push(Loss { speaker, node, protocol, address, peer });
                }
                _ => {}
            }
        }
        lesson
    }

    /// Finds the place of alarms that had none.
    fn place_again(&mut self) {
        let lost: Vec<u64> =
            self.state.alarms.iter().filter(|(_, alarm)| alarm.symptom.is_none()).map(|(&id, _)| id).collect();
        for id in lost {
            let Some(symptom) = place(&self.topology, &self.state.alarms[&id].subject).1 else { continue };
            let is_held = self.state.alarms[&id].incident.is_none();
            if is_held {
                self.let_go(id);
            }
            if let Some(alarm) = self.state.alarms.get_mut(&id) {
                alarm.symptom = Some(symptom);
            }
            self.index.placed.insert(id);
            if is_held {
                self.hold(id);
            }
        }
    }
}

impl Lesson {
    /// Addresses of nodes that the file has under others: who lost an unknown neighbour over a link is told by the link, and who is unknown
    /// itself by the port at which it lost a known one.
    fn addresses(&self, topology: &Topology) -> Vec<Learnt> {
        let mut told: BTreeMap<IpAddr, BTreeSet<u32>> = BTreeMap::new();
        for loss in self.losses.iter().filter(|loss| loss.protocol == Protocol::Ospf) {
            match (loss.node, loss.peer) {
                (Some(node), None) => {
                    let links = topology.node(node).links.iter().filter_map(|&at| self.silent_end(topology, node, at));
                    told.entry(loss.address).or_default().extend(links);
                }
                (None, Some(peer)) => {
                    let Ok(address) = loss.speaker.parse::<IpAddr>() else { continue };
                    let ports = self.ports.get(&loss.speaker);
                    let is_its = |end: &(u32, u32)| end.0 != peer && ports.is_some_and(|ports| ports.contains(&end.1));
                    let ends = topology.node(peer).links.iter().flat_map(|&at| topology.link(at).ends);
                    told.entry(address.to_canonical()).or_default().extend(ends.filter(is_its).map(|end| end.0));
                }
                _ => {}
            }
        }
        let mut taken = BTreeSet::new();
        let of = |(address, nodes): (IpAddr, BTreeSet<u32>)| {
            let node = nodes.first().copied().filter(|node| nodes.len() == 1 && !self.spoke.contains(node))?;
            taken.insert(node).then(|| Learnt::Address { node: topology.node(node).name.clone(), address })
        };
        told.into_iter().filter_map(of).collect()
    }

    /// The other end of a link that is down at this node, if that end was not heard, and this one has lost no neighbour there that the
    /// file knows.
    fn silent_end(&self, topology: &Topology, node: u32, link: u32) -> Option<u32> {
        let it = topology.link(link);
        let side = usize::from(it.ends[0].0 != node);
        let other = it.ends[1 - side].0;
        let symptom = Symptom::Adjacency { node, protocol: Protocol::Ospf, peer: other };
        let has_lost = topology.number(symptom).is_some_and(|at| self.there.contains(&at));
        (self.there.contains(&it.symptoms[side]) && !has_lost && !self.spoke.contains(&other)).then_some(other)
    }

    /// Links and neighbours between known nodes.
    fn neighbours(&self, topology: &Topology) -> Vec<Learnt> {
        let name = |node: u32| topology.node(node).name.clone();
        let mut pairs: BTreeSet<[u32; 2]> = BTreeSet::new();
        let mut unjoined: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut news = Vec::new();
        for loss in &self.losses {
            let (Some(node), Some(peer)) = (loss.node, loss.peer) else { continue };
            if node == peer {
                continue;
            }
            if loss.protocol == Protocol::Ospf && topology.links_between(node, peer).next().is_none() {
                unjoined.entry(node).or_default().insert(peer);
                pairs.insert([node.min(peer), node.max(peer)]);
            } else {
                let learnt =
                    Learnt::Adjacency { protocol: loss.protocol.name().to_owned(), ends: [name(node), name(peer)] };
                let other =
                    Learnt::Adjacency { protocol: loss.protocol.name().to_owned(), ends: [name(peer), name(node)] };
                if !news.contains(&learnt) && !news.contains(&other) {
                    news.push(learnt);
                }
            }
        }
        for pair in pairs {
            // One port that leads nowhere, and one neighbour that is behind none: they belong together.
            let port = |side: usize| {
                let (node, peer) = (pair[side], pair[1 - side]);
                let ports = self.stray_ports.get(&node).filter(|ports| ports.len() == 1)?;
                let is_only = unjoined.get(&node).is_none_or(|peers| peers.len() == 1 && peers.contains(&peer));
                ports.first().copied().filter(|_| is_only)
            };
            let ports = [port(0), port(1)];
            let is_told = |side: usize| ports[side].is_some() && unjoined.contains_key(&pair[side]);
            if is_told(0) || is_told(1) {
                news.push(Learnt::Link { ends: [(name(pair[0]), ports[0]), (name(pair[1]), ports[1])] });
            }
        }
        news
    }
}
