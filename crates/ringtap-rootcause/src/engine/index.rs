//! By what alarms and incidents are found, so that one more costs the same however many there are.
//!
//! Owns the indexes and what changes them. They say nothing that the state does not, and are made from it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Engine, Incident, Root, Tracked, deadline};
use crate::symptom::peer;

/// The indexes.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Alarms that are something in the topology.
    pub(super) placed: BTreeSet<u64>,
    /// Held ones that are not, by each node that they are about.
    strays: HashMap<String, BTreeSet<u64>>,
    /// Open incidents of nodes, by node.
    groups: HashMap<String, BTreeSet<u64>>,
    /// Open incidents that recover, by when that is over.
    pub(super) recovering: BTreeSet<(u64, u64)>,
    tallies: HashMap<u64, Tally>,
    /// Alarms and incidents looked at.
    #[cfg(test)]
    pub(super) looked: std::cell::Cell<u64>,
}

/// Members of an incident: whether nothing clears them, and whether they are cleared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally([[usize; 2]; 2]);

impl Tally {
    fn of(&mut self, alarm: &Tracked) -> &mut usize {
        &mut self.0[usize::from(alarm.event)][usize::from(alarm.cleared)]
    }

    /// Members of which a clear is still to come.
    pub(super) fn left(self) -> usize {
        self.0[0][0]
    }

    /// Members that are not cleared, events among them.
    pub(super) fn waiting(self) -> usize {
        self.0[0][0] + self.0[1][0]
    }

    /// Members of which a clear came.
    pub(super) fn recovered(self) -> usize {
        self.0[0][1]
    }

    /// Whether nothing clears any of them.
    pub(super) fn is_of_events(self) -> bool {
        self.0[0] == [0, 0]
    }
}

impl Index {
    /// Says that so many were looked at.
    pub(super) fn look(&self, _count: usize) {
        #[cfg(test)]
        self.looked.set(self.looked.get() + _count as u64);
    }

    pub(super) fn tally(&self, incident: u64) -> Tally {
        self.tallies.get(&incident).copied().unwrap_or_default()
    }

    /// The incident has this alarm from now on.
    pub(super) fn count(&mut self, incident: u64, alarm: &Tracked) {
        *self.tallies.entry(incident).or_default().of(alarm) += 1;
    }

    /// It has it no longer.
    pub(super) fn discount(&mut self, incident: u64, alarm: &Tracked) {
        if let Some(tally) = self.tallies.get_mut(&incident) {
            *tally.of(alarm) -= 1;
        }
    }

    /// An open incident is about these nodes.
    pub(super) fn group(&mut self, incident: u64, nodes: &BTreeSet<String>) {
        for node in nodes {
            self.groups.entry(node.clone()).or_default().insert(incident);
        }
    }

    /// It is about none of them any more.
    pub(super) fn ungroup(&mut self, incident: u64, root: &Root) {
        let Root::Nodes(nodes) = root else { return };
        for node in nodes {
            drop_from(&mut self.groups, node, incident);
        }
    }

    /// The first of the open incidents that is about all of these nodes.
    pub(super) fn group_with(&self, nodes: &BTreeSet<String>) -> Option<u64> {
        let has = |node: &String, id: &u64| self.groups.get(node).is_some_and(|of| of.contains(id));
        let mut of_first = self.groups.get(nodes.first()?)?.iter().inspect(|_| self.look(1));
        of_first.find(|id| nodes.iter().all(|node| has(node, id))).copied()
    }

    /// Open incidents that are about one of these nodes at least.
    pub(super) fn groups_beside(&self, nodes: &BTreeSet<String>) -> BTreeSet<u64> {
        nodes.iter().filter_map(|node| self.groups.get(node)).flatten().inspect(|_| self.look(1)).copied().collect()
    }
}

#[cfg(test)]
impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.placed.clone(), it.strays.clone(), it.groups.clone(), it.recovering.clone());
        of(self) == of(other) && self.tallies == other.tallies
    }
}

fn drop_from(map: &mut HashMap<String, BTreeSet<u64>>, key: &str, id: u64) {
    let is_last = map.get_mut(key).is_some_and(|of| of.remove(&id) && of.is_empty());
    if is_last {
        map.remove(key);
    }
}

impl Engine {
    /// Makes all indexes from the state.
    pub(super) fn index(&mut self) {
        self.index = Index::default();
        let ids: Vec<u64> = self.state.alarms.keys().copied().collect();
        for id in ids {
            let alarm = &self.state.alarms[&id];
            if alarm.symptom.is_some() {
                self.index.placed.insert(id);
            }
            match alarm.incident {
                None => self.hold(id),
                Some(incident) => self.index.count(incident, alarm),
            }
        }
        for it in self.state.incidents.values() {
            if let Root::Nodes(nodes) = &it.root {
                self.index.group(it.id, nodes);
            }
            self.index.recovering.extend(it.clearing_ns.map(|at| (at + self.settings.recovery_ns, it.id)));
        }
    }

    /// The alarm waits until it is decided.
    pub(super) fn hold(&mut self, id: u64) {
        let alarm = &self.state.alarms[&id];
        self.held.insert((deadline(alarm, &self.settings), id));
        if alarm.symptom.is_none() {
            for node in self.nodes_of(alarm) {
                self.index.strays.entry(node).or_default().insert(id);
            }
        }
    }

    /// It does no longer, if it did.
    pub(super) fn let_go(&mut self, id: u64) {
        let Some(alarm) = self.state.alarms.get(&id) else { return };
        if self.held.remove(&(deadline(alarm, &self.settings), id)) && alarm.symptom.is_none() {
            for node in self.nodes_of(alarm) {
                drop_from(&mut self.index.strays, &node, id);
            }
        }
    }

    /// The alarm is tracked no longer.
    pub(super) fn forget(&mut self, id: u64) -> Option<Tracked> {
        self.index.placed.remove(&id);
        self.state.alarms.remove(&id)
    }

    /// Whether the alarm is cleared.
    pub(super) fn set_cleared(&mut self, id: u64, cleared: bool) {
        let Some(alarm) = self.state.alarms.get_mut(&id).filter(|alarm| alarm.cleared != cleared) else { return };
        if let Some(incident) = alarm.incident {
            self.index.discount(incident, alarm);
        }
        alarm.cleared = cleared;
        if let Some(incident) = alarm.incident {
            self.index.count(incident, alarm);
        }
    }

    /// Since when the incident recovers, if it does.
    pub(super) fn set_clearing(&mut self, id: u64, since_ns: Option<u64>) {
        let Some(it) = self.state.incidents.get_mut(&id) else { return };
        let over = |at: u64| (at + self.settings.recovery_ns, id);
        if let Some(before) = std::mem::replace(&mut it.clearing_ns, since_ns) {
            self.index.recovering.remove(&over(before));
        }
        self.index.recovering.extend(since_ns.map(over));
    }

    /// The incident is open no longer.
    pub(super) fn close(&mut self, id: u64) -> Option<Incident> {
        let it = self.state.incidents.remove(&id)?;
        self.index.ungroup(id, &it.root);
        self.index.tallies.remove(&id);
        if let Some(at) = it.clearing_ns {
            self.index.recovering.remove(&(at + self.settings.recovery_ns, id));
        }
        Some(it)
    }

    /// Who an alarm is about: its node, and whom it names.
    pub(super) fn nodes_of(&self, alarm: &Tracked) -> BTreeSet<String> {
        let name = |resource: &str| match self.topology.find(resource) {
            Some(node) => self.topology.node(node).name.clone(),
            None => resource.to_owned(),
        };
        let subject = &alarm.subject;
        let peer = peer(subject).map(|address| name(&address.to_string()));
        std::iter::once(name(&subject.resource)).chain(peer).collect()
    }

    /// Due alarms, and held ones that are nothing in the topology and belong to them: nodes that name each other are one group; so is
    /// what a node says of several objects.
    pub(super) fn groups_of_due(&self) -> Vec<(BTreeSet<String>, Vec<u64>)> {
        let due = self.due();
        let mut placed: HashMap<String, Vec<u64>> = HashMap::new();
        for &id in due.iter().filter(|id| self.index.placed.contains(id)) {
            for node in self.nodes_of(&self.state.alarms[&id]) {
                placed.entry(node).or_default().push(id);
            }
        }
        let mut grouped: HashSet<u64> = HashSet::new();
        let mut groups = Vec::new();
        self.index.look(due.len());
        for first in due {
            if !grouped.insert(first) {
                continue;
            }
            let (mut nodes, mut ids, mut at) = (BTreeSet::new(), vec![first], 0);
            while let Some(id) = ids.get(at) {
                at += 1;
                for node in self.nodes_of(&self.state.alarms[id]) {
                    if nodes.contains(&node) {
                        continue;
                    }
                    let of_node = self
                        .index
                        .strays
                        .get(&node)
                        .into_iter()
                        .flatten()
                        .chain(placed.get(&node).into_iter().flatten());
                    ids.extend(of_node.inspect(|_| self.index.look(1)).filter(|id| grouped.insert(**id)));
                    nodes.insert(node);
                }
            }
            ids.sort_unstable();
            groups.push((nodes, ids));
        }
        groups
    }
}
