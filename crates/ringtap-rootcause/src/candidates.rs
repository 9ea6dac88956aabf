//! Which causes are worth a look for a symptom: what it names, what that stands on, and what alone can part two nodes.

use std::collections::BTreeSet;

use crate::problem::Problem;
use crate::symptom::Symptom;
use crate::topology::Topology;

/// Most steps towards the root of a tree, and most that are taken from them, for one symptom.
const CLIMB: usize = 4096;
const TAKE: usize = 64;
const NONE: u32 = u32::MAX;

/// A spanning forest, and which links and nodes alone hold the network together (Tarjan's low-link).
#[derive(Debug)]
pub(crate) struct Cuts {
    /// The link towards the root; `NONE` at roots.
    up: Vec<u32>,
    depth: Vec<u32>,
    bridge: Vec<bool>,
    joint: Vec<bool>,
}

impl Cuts {
    pub fn new(topology: &Topology) -> Self {
        let (nodes, links) = (topology.nodes.len(), topology.links.len());
        let mut this = Self {
            up: vec![NONE; nodes],
            depth: vec![0; nodes],
            bridge: vec![false; links],
            joint: vec![false; nodes],
        };
        let (mut order, mut low) = (vec![NONE; nodes], vec![0; nodes]);
        let mut count = 0;
        // The trees grow from the station, so that what is above is what is nearer to it.
        let starts = topology.attached.iter().copied().chain(0..nodes as u32);
        for start in starts {
            if order[start as usize] == NONE {
                this.tree(topology, start, &mut order, &mut low, &mut count);
            }
        }
        this
    }

    fn tree(&mut self, topology: &Topology, start: u32, order: &mut [u32], low: &mut [u32], count: &mut u32) {
        let mut children_of_start = 0;
        let mut path = vec![(start, 0)];
        order[start as usize] = *count;
        low[start as usize] = *count;
        *count += 1;
        while let Some((node, next)) = path.last_mut() {
            let at = *node as usize;
            if let Some(&link) = topology.nodes[at].links.get(*next) {
                *next += 1;
                let other = topology.other_end(link, at as u32) as usize;
                if order[other] == NONE {
                    order[other] = *count;
                    low[other] = *count;
                    *count += 1;
                    self.up[other] = link;
                    self.depth[other] = self.depth[at] + 1;
                    path.push((other as u32, 0));
                } else if link != self.up[at] {
                    low[at] = low[at].min(order[other]);
                }
                continue;
            }
            path.pop();
            let Some(&(parent, _)) = path.last() else { break };
            let above = parent as usize;
            low[above] = low[above].min(low[at]);
            self.bridge[self.up[at] as usize] |= low[at] > order[above];
            if parent == start {
                children_of_start += 1;
                self.joint[above] |= children_of_start > 1;
            } else {
                self.joint[above] |= low[at] >= order[above];
            }
        }
    }

    /// Links and nodes that alone part `a` from `b`: each lies on the way between them in the tree.
    fn between(&self, topology: &Topology, mut a: u32, mut b: u32, into: &mut BTreeSet<Problem>) {
        let mut taken = 0;
        for _ in 0..CLIMB {
            if a == b || taken >= TAKE {
                break;
            }
            if self.depth[a as usize] < self.depth[b as usize] {
                std::mem::swap(&mut a, &mut b);
            }
            let link = self.up[a as usize];
            if link == NONE {
                break;
            }
            a = topology.other_end(link, a);
            if self.bridge[link as usize] {
                into.insert(Problem::Link(link));
                taken += 1;
            }
            if self.joint[a as usize] {
                into.insert(Problem::Node(a));
                taken += 1;
            }
        }
    }
}

/// Adds what could cause this symptom.
pub(crate) fn candidates(topology: &Topology, cuts: &Cuts, symptom: u32, into: &mut BTreeSet<Problem>) {
    match topology.symptoms[symptom as usize] {
        Symptom::Interface { node, .. } => {
            for &at in &topology.node(node).links {
                let link = topology.link(at);
                if let Some(side) = link.symptoms.iter().position(|&of| of == symptom) {
                    into.insert(Problem::Link(at));
                    into.extend(link.cards.iter().flatten().map(|&card| Problem::Card(card)));
                    dead(topology, link.ends[1 - side].0, into);
                }
            }
        }
        Symptom::Adjacency { node, protocol, peer } => {
            for &at in &topology.node(node).adjacencies {
                let it = &topology.adjacencies[at as usize];
                if !it.symptoms.contains(&symptom) {
                    continue;
                }
                into.insert(Problem::Session(at));
                into.extend(it.ends.map(|end| Problem::Process(end, protocol)));
                match it.link {
                    Some(link) => {
                        into.insert(Problem::Link(link));
                        into.extend(topology.link(link).cards.iter().flatten().map(|&card| Problem::Card(card)));
                    }
                    None => cuts.between(topology, node, peer, into),
                }
            }
            dead(topology, peer, into);
        }
        Symptom::Card { node, .. } => {
            let of = |card: &u32| topology.cards[*card as usize].symptom == Some(symptom);
            into.extend(topology.node(node).cards.iter().copied().filter(of).map(Problem::Card));
        }
        Symptom::Power { .. } => {
            let of = |at: &u32| topology.power[*at as usize].symptom == Some(symptom);
            into.extend((0..topology.power.len() as u32).filter(of).map(Problem::Power));
        }
        Symptom::Restart { node } => dead(topology, node, into),
    }
}

/// What makes a node dead.
fn dead(topology: &Topology, node: u32, into: &mut BTreeSet<Problem>) {
    let it = topology.node(node);
    into.insert(Problem::Node(node));
    into.extend(it.power.iter().map(|&power| Problem::Power(power)));
    into.extend(it.site.map(Problem::Site));
    for need in &it.needs {
        let (crate::topology::Need::Any(nodes) | crate::topology::Need::All(nodes)) = need;
        into.extend(nodes.iter().take(TAKE).map(|&node| Problem::Node(node)));
    }
}
