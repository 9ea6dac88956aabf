//! The codebook: which symptoms a set of causes has, generated from the topology.
//!
//! A column is made when it is asked for. Causes are taken together, not one by one: two cuts of a ring part it though neither does alone,
//! and what is behind a cut can't tell of its own faults.

use std::collections::{BTreeMap, BTreeSet};

use crate::problem::Problem;
use crate::topology::{Need, Protocol, Topology};

const NOWHERE: u32 = u32::MAX;

/// What is down when some causes are there.
pub(crate) struct Down<'t> {
    topology: &'t Topology,
    dead: Vec<bool>,
    dead_nodes: Vec<u32>,
    links: BTreeSet<u32>,
    /// Failed by themselves: sessions and what processes keep.
    adjacencies: BTreeSet<u32>,
    cards: Vec<u32>,
    power: Vec<u32>,
}

/// Which part of the network each node is in while nothing is down.
#[derive(Debug)]
pub(crate) struct Whole {
    part: Vec<u32>,
    station: BTreeSet<u32>,
    /// Whose needs can make others die.
    has_needs: bool,
}

impl Whole {
    pub fn new(topology: &Topology) -> Self {
        let part = parts(topology, &vec![false; topology.nodes.len()], &BTreeSet::new());
        let station = topology.attached.iter().map(|&at| part[at as usize]).collect();
        Self { part, station, has_needs: topology.nodes.iter().any(|node| !node.needs.is_empty()) }
    }
}

impl Whole {
    /// Symptoms of sessions whose ends are in different parts.
    pub fn sessions_without_way(&self, topology: &Topology) -> BTreeSet<u32> {
        let is_without = |[a, b]: [u32; 2]| self.part[a as usize] != self.part[b as usize];
        let sessions = topology.adjacencies.iter().filter(|it| it.link.is_none() && is_without(it.ends));
        sessions.flat_map(|it| it.symptoms).collect()
    }
}

/// What some causes have.
#[derive(Debug, Default)]
pub(crate) struct Predicted {
    /// Their symptoms together, in order, each once. Those of restarts may come and needn't.
    pub symptoms: Vec<u32>,
    /// Parts of the network that have a way to the station which the file lacks: who is there was heard.
    pub ways: u64,
    /// Who is heard depends on ways that the file may lack.
    pub is_cut: bool,
}

/// What these causes have. `spoke` are nodes that were heard: where the file has no way from them to the station, it lacks one. Without
/// it (`None`) only the file counts.
pub(crate) fn predict(
    topology: &Topology,
    whole: &Whole,
    causes: &[Problem],
    spoke: Option<&BTreeSet<u32>>,
) -> Predicted {
    let mut down = Down {
        topology,
        dead: vec![false; topology.nodes.len()],
        dead_nodes: Vec::new(),
        links: BTreeSet::new(),
        adjacencies: BTreeSet::new(),
        cards: Vec::new(),
        power: Vec::new(),
    };
    for &cause in causes {
        down.add(cause);
    }
    down.settle(whole);
    down.symptoms(whole, spoke)
}

impl Down<'_> {
    fn add(&mut self, cause: Problem) {
        let topology = self.topology;
        match cause {
            Problem::Link(at) => {
                self.links.insert(at);
            }
            Problem::Session(at) => {
                self.adjacencies.insert(at);
            }
            Problem::Process(node, protocol) => {
                self.adjacencies.extend(process(topology, node, protocol));
            }
            Problem::Card(at) => {
                self.cards.push(at);
                self.links.extend(&topology.cards[at as usize].links);
            }
            Problem::Node(at) => self.kill(at),
            Problem::Power(at) => self.power.push(at),
            Problem::Site(at) => {
                for &node in &topology.sites[at as usize].nodes {
                    self.kill(node);
                }
            }
        }
    }

    fn kill(&mut self, node: u32) {
        if !std::mem::replace(&mut self.dead[node as usize], true) {
            self.dead_nodes.push(node);
        }
    }

    /// Kills what lives by what is dead, until nothing more dies.
    fn settle(&mut self, whole: &Whole) {
        let topology = self.topology;
        for group in self.power.clone() {
            for &node in &topology.power[group as usize].nodes {
                if topology.node(node).power.iter().all(|feed| self.power.contains(feed)) {
                    self.kill(node);
                }
            }
        }
        let mut before = 0;
        while whole.has_needs && before != self.dead_nodes.len() {
            before = self.dead_nodes.len();
            let is_dead = |at: &u32| self.dead[*at as usize];
            let die: Vec<u32> = (0..topology.nodes.len() as u32)
                .filter(|at| {
                    topology.node(*at).needs.iter().any(|need| match need {
                        Need::Any(nodes) => nodes.iter().all(is_dead),
                        Need::All(nodes) => nodes.iter().any(is_dead),
                    })
                })
                .collect();
            for node in die {
                self.kill(node);
            }
        }
        for &node in &self.dead_nodes {
            self.links.extend(&topology.node(node).links);
        }
    }

    fn symptoms(&self, whole: &Whole, spoke: Option<&BTreeSet<u32>>) -> Predicted {
        let topology = self.topology;
        let cut = (!self.links.is_empty()).then(|| parts(topology, &self.dead, &self.links));
        let mut view = View::new(topology, whole, cut);
        if let Some(spoke) = spoke {
            view.listen(topology, whole, &self.dead, spoke);
        }
        let is_heard =
            |node: u32| !self.dead[node as usize] && (!topology.node(node).in_band || view.is_reached(whole, node));
        let mut symptoms = Vec::new();
        let mut say = |node: u32, symptom: u32| {
            if is_heard(node) {
                symptoms.push(symptom);
            }
        };
        for &link in &self.links {
            let link = topology.link(link);
            (0..2).for_each(|side| say(link.ends[side].0, link.symptoms[side]));
        }
        for &at in &self.cards {
            let card = &topology.cards[at as usize];
            if let Some(symptom) = card.symptom {
                say(card.node, symptom);
            }
        }
        for &at in &self.power {
            if let Some(symptom) = topology.power[at as usize].symptom {
                say(topology.symptoms[symptom as usize].node(), symptom);
            }
        }
        for at in self.lost_adjacencies(whole, &view) {
            let it = &topology.adjacencies[at as usize];
            (0..2).for_each(|side| say(it.ends[side], it.symptoms[side]));
        }
        for &node in &self.dead_nodes {
            symptoms.extend(topology.number(crate::symptom::Symptom::Restart { node }));
        }
        symptoms.sort_unstable();
        symptoms.dedup();
        Predicted { symptoms, ways: view.ways, is_cut: view.is_cut }
    }

    fn lost_adjacencies(&self, whole: &Whole, view: &View<'_>) -> BTreeSet<u32> {
        let topology = self.topology;
        let mut lost = self.adjacencies.clone();
        for &node in &self.dead_nodes {
            lost.extend(&topology.node(node).adjacencies);
        }
        for &link in &self.links {
            lost.extend(&topology.link(link).adjacencies);
        }
        if self.links.is_empty() {
            return lost;
        }
        for (at, it) in topology.adjacencies.iter().enumerate() {
            if it.link.is_none() && view.are_parted(whole, it.ends) {
                lost.insert(at as u32);
            }
        }
        lost
    }
}

/// Who reaches whom, while some links are down.
struct View<'w> {
    part: std::borrow::Cow<'w, [u32]>,
    station: BTreeSet<u32>,
    /// Parts of what the file joins to nothing of the station's, and which causes divide: those that are heard, and those that are not.
    heard: BTreeSet<u32>,
    silent: BTreeSet<u32>,
    ways: u64,
    is_cut: bool,
}

impl<'w> View<'w> {
    fn new(topology: &Topology, whole: &'w Whole, cut: Option<Vec<u32>>) -> Self {
        let is_cut = cut.is_some() && !topology.attached.is_empty();
        let part = cut.map_or(std::borrow::Cow::Borrowed(&whole.part[..]), std::borrow::Cow::Owned);
        let station = topology.attached.iter().map(|&at| part[at as usize]).collect();
        Self { part, station, heard: BTreeSet::new(), silent: BTreeSet::new(), ways: 0, is_cut }
    }

    /// Takes what was heard into account.
    fn listen(&mut self, topology: &Topology, whole: &Whole, dead: &[bool], spoke: &BTreeSet<u32>) {
        if !self.is_cut {
            return;
        }
        // Parts of islands: what the file joins to the station nowhere has a way all the same, from one part of it at least.
        let mut islands: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (at, &part) in self.part.iter().enumerate().filter(|(at, _)| !dead[*at]) {
            if !whole.station.contains(&whole.part[at]) {
                islands.entry(whole.part[at]).or_default().insert(part);
            }
        }
        // Parts that were heard, and whether the file joins them to the station while nothing is down.
        let loud: BTreeMap<u32, bool> = spoke
            .iter()
            .filter(|&&node| topology.node(node).in_band && !dead[node as usize])
            .map(|&node| (self.part[node as usize], whole.station.contains(&whole.part[node as usize])))
            .filter(|(part, _)| !self.station.contains(part))
            .collect();
        for parts in islands.into_values().filter(|parts| parts.len() > 1) {
            let (heard, silent): (BTreeSet<u32>, BTreeSet<u32>) =
                parts.into_iter().partition(|part| loud.contains_key(part));
            if !heard.is_empty() {
                self.heard.extend(heard);
                self.silent.extend(silent);
            }
        }
        let found = loud.into_iter().filter(|&(_, was_joined)| was_joined).map(|(part, _)| part);
        let before = self.station.len();
        self.station.extend(found);
        self.ways = (self.station.len() - before) as u64;
    }

    fn is_reached(&self, whole: &Whole, node: u32) -> bool {
        let (part, of) = (self.part[node as usize], whole.part[node as usize]);
        if whole.station.contains(&of) { self.station.contains(&part) } else { !self.silent.contains(&part) }
    }

    /// Whether two nodes have lost each other.
    fn are_parted(&self, whole: &Whole, ends: [u32; 2]) -> bool {
        let [a, b] = ends.map(|node| self.part[node as usize]);
        let [whole_a, whole_b] = ends.map(|node| whole.part[node as usize]);
        let is_of_station = |part: &u32| self.station.contains(part) || self.heard.contains(part);
        if whole_a == whole_b {
            a != b && !(is_of_station(&a) && is_of_station(&b))
        } else {
            let is_silent = |part: &u32| self.silent.contains(part);
            (is_silent(&a) && is_of_station(&b)) || (is_of_station(&a) && is_silent(&b))
        }
    }
}

/// The adjacencies that a node's process keeps.
pub(crate) fn process(topology: &Topology, node: u32, protocol: Protocol) -> impl Iterator<Item = u32> {
    let of = move |at: &u32| topology.adjacencies[*at as usize].protocol == protocol;
    topology.node(node).adjacencies.iter().copied().filter(of)
}

/// Numbers the parts that the network falls into; dead nodes are in none.
fn parts(topology: &Topology, dead: &[bool], down: &BTreeSet<u32>) -> Vec<u32> {
    let mut is_down = vec![false; topology.links.len()];
    for &link in down {
        is_down[link as usize] = true;
    }
    let mut part = vec![NOWHERE; topology.nodes.len()];
    let mut next = Vec::new();
    let mut number = 0;
    for start in 0..topology.nodes.len() as u32 {
        if dead[start as usize] || part[start as usize] != NOWHERE {
            continue;
        }
        part[start as usize] = number;
        next.push(start);
        while let Some(node) = next.pop() {
            for &link in &topology.node(node).links {
                let other = topology.other_end(link, node);
                if !is_down[link as usize] && !dead[other as usize] && part[other as usize] == NOWHERE {
                    part[other as usize] = number;
                    next.push(other);
                }
            }
        }
        number += 1;
    }
    part
}
