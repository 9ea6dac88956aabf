//! What the topology does not explain and still belongs to something: files are wrong in places.
//!
//! Owns three rules for alarms that have waited long enough, each by what the alarms themselves say: one that names a node which is dead
//! by an open incident belongs to that; a lost session belongs to an incident that has other lost sessions of the same speaker; ports of
//! two nodes that lost each other are a link that the file does not have. And two for causes that belong to an open incident: a node
//! without power in the file that died as a power group did, and a start of a node whose loss the incident explains.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::Scope;
use super::{Engine, GRAIN_NS, Output};
use crate::explain::Cause;
use crate::problem::{Element, Problem};
use crate::symptom::Symptom;
use crate::topology::Topology;

/// Two alarms so far apart have nothing to do with each other.
const NEAR_NS: u64 = 5_000_000_000;
/// … and its sessions end within this: BGP's hold time is 180 s at most where nobody set it (RFC 4271 §10 has 90 s), and lateness.
const SESSIONS_NS: u64 = 300_000_000_000;

/// A node of which the file says no power dies with a power group that fails in the same moment: its line lacks that. What such a cause
/// explains goes to the group's.
pub(super) fn fold_into_power(topology: &Topology, causes: &mut Vec<Cause>) {
    let is_power = |cause: &Cause| matches!(cause.problems.first(), Some(Problem::Power(_)));
    let Some(power) = causes.iter().position(is_power) else { return };
    let mut folded = Vec::new();
    let mut at = 0;
    causes.retain(|cause| {
        let is_kept = at == power || !cause.problems.iter().any(|it| is_powerless(topology, it));
        if !is_kept {
            folded.extend(cause.explains.iter().copied());
        }
        at += 1;
        is_kept
    });
    if let Some(cause) = causes.iter_mut().find(|cause| is_power(cause)) {
        cause.explains.extend(folded);
        cause.explains.sort_unstable();
        cause.explains.dedup();
    }
}

/// Whether the file says of no power of this node.
fn is_powerless(topology: &Topology, problem: &Problem) -> bool {
    matches!(*problem, Problem::Node(node) if topology.node(node).power.is_empty())
}

impl Engine {
    /// Whether an open incident has what this cause would explain; it takes it then.
    pub(super) fn is_of_another(&mut self, cause: &Cause, scope: &Scope<'_>) -> bool {
        let free = |symptom: &u32| scope.free.get(symptom).into_iter().flatten().copied();
        let held: Vec<u64> =
            cause.explains.iter().flat_map(free).filter(|id| self.state.alarms[id].incident.is_none()).collect();
        let Some(first_ns) = held.iter().map(|id| self.state.alarms[id].raised_ns).min() else { return false };
        let Some(Problem::Node(_)) = cause.problems.iter().find(|it| matches!(it, Problem::Node(_))) else {
            return false;
        };
        let is_restart = |id: &u64| {
            let symptom = self.state.alarms[id].symptom.map(|at| self.topology.symptoms[at as usize]);
            matches!(symptom, Some(Symptom::Restart { .. }))
        };
        let owner = if held.iter().all(is_restart) {
            self.owner_of_most(&cause.explains)
        } else if cause.problems.iter().any(|it| is_powerless(&self.topology, it)) {
            self.power_cut(first_ns).or_else(|| self.power_that_had(&cause.explains, first_ns))
        } else {
            None
        };
        let Some(owner) = owner else { return false };
        for id in held {
            self.join_held(id, owner);
        }
        true
    }

    /// The open incident that has most alarms of these symptoms.
    fn owner_of_most(&self, symptoms: &[u32]) -> Option<u64> {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        self.index.look(self.index.placed.len());
        for id in &self.index.placed {
            let alarm = &self.state.alarms[id];
            if let Some(incident) = alarm.incident.filter(|incident| self.problems.contains_key(incident))
                && alarm.symptom.is_some_and(|symptom| symptoms.contains(&symptom))
            {
                *counts.entry(incident).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|&(id, count)| (count, std::cmp::Reverse(id))).map(|(id, _)| id)
    }

    /// The open incident of a power group that an alarm of these symptoms went to as it began, not long before: sessions are lost up to
    /// minutes after their node. One that was raised again since is of another fault.
    fn power_that_had(&self, symptoms: &[u32], at_ns: u64) -> Option<u64> {
        self.index.look(self.index.placed.len());
        let of_power = |id: &u64| {
            let alarm = &self.state.alarms[id];
            let id = alarm.incident?;
            let began_ns = self.state.incidents.get(&id)?.first_ns;
            let is_power = matches!(self.problems.get(&id)?.first(), Some(Problem::Power(_)));
            let is_of_it = alarm.symptom.is_some_and(|symptom| symptoms.contains(&symptom))
                && alarm.raised_ns.abs_diff(began_ns) <= NEAR_NS
                && at_ns.saturating_sub(began_ns) <= SESSIONS_NS;
            (is_power && is_of_it).then_some(id)
        };
        self.index.placed.iter().filter_map(of_power).min()
    }

    /// The open incident of a power group that failed at about this time.
    fn power_cut(&self, at_ns: u64) -> Option<u64> {
        let is_power = |(_, class): &(&u64, &Vec<Problem>)| matches!(class.first(), Some(Problem::Power(_)));
        let mut cuts = self.problems.iter().filter(is_power).map(|(&id, _)| id);
        cuts.find(|id| self.state.incidents.get(id).is_some_and(|it| it.first_ns.abs_diff(at_ns) <= NEAR_NS))
    }

    /// Takes due alarms that belong to an open incident by what they say.
    pub(super) fn join_beside(&mut self) {
        let dead = self.dead();
        let sessions = self.told_sessions();
        let mut speakers: Vec<(u32, u64, u64)> = Vec::new();
        for id in self.due() {
            let alarm = &self.state.alarms[&id];
            let (subject, raised_ns) = (alarm.subject.clone(), alarm.raised_ns);
            let Some(peer) = crate::symptom::peer(&subject) else { continue };
            let of_dead = self.topology.at(peer).and_then(|node| dead.get(&node)).copied();
            let of_speaker = sessions.get(&(subject.resource.clone(), subject.condition.clone())).copied();
            if let (Some(incident), Some(speaker)) = (of_dead, self.topology.find(&subject.resource)) {
                speakers.push((speaker, raised_ns, incident));
            }
            if let Some(incident) = of_dead.or(of_speaker) {
                self.join_held(id, incident);
            }
        }
        // The port that leads to the dead node, if the file has no link there.
        for id in self.due() {
            let alarm = &self.state.alarms[&id];
            if alarm.subject.condition != "linkDown" || alarm.symptom.is_some() {
                continue;
            }
            let node = self.topology.find(&alarm.subject.resource);
            let is_its =
                |(speaker, at, _): &&(u32, u64, u64)| Some(*speaker) == node && at.abs_diff(alarm.raised_ns) <= NEAR_NS;
            if let Some(&(.., incident)) = speakers.iter().find(is_its) {
                self.join_held(id, incident);
            }
        }
    }

    /// Held alarms that have waited long enough.
    pub(super) fn due(&self) -> Vec<u64> {
        let until = self.state.now_ns + GRAIN_NS;
        self.held.iter().take_while(|(at, _)| *at <= until).map(|&(_, id)| id).collect()
    }

    fn join_held(&mut self, alarm: u64, incident: u64) {
        self.take(alarm, incident);
        self.outputs.push(Output::Joined { incident, alarm });
    }

    /// Nodes that are dead by open incidents of which evidence may still come.
    fn dead(&mut self) -> BTreeMap<u32, u64> {
        let mut dead = BTreeMap::new();
        let classes: Vec<(u64, Vec<Problem>)> = self
            .problems
            .iter()
            .filter(|(id, _)| self.is_recent(**id))
            .map(|(id, class)| (*id, class.clone()))
            .collect();
        for (id, class) in classes {
            for symptom in self.restarts(&class) {
                dead.insert(self.topology.symptoms[symptom as usize].node(), id);
            }
        }
        dead
    }

    /// Who lost sessions in such incidents, by speaker and condition.
    fn told_sessions(&self) -> BTreeMap<(String, String), u64> {
        let mut told = BTreeMap::new();
        for (&id, _) in self.problems.iter().filter(|(id, _)| self.is_recent(**id)) {
            for member in &self.state.incidents[&id].members {
                let Some(alarm) = self.state.alarms.get(member) else { continue };
                if matches!(
                    alarm.symptom.map(|at| self.topology.symptoms[at as usize]),
                    Some(Symptom::Adjacency { .. })
                ) {
                    told.insert((alarm.subject.resource.clone(), alarm.subject.condition.clone()), id);
                }
            }
        }
        told
    }

    fn is_recent(&self, id: u64) -> bool {
        let since = self.state.incidents.get(&id).map(|it| it.decided_ns + self.settings.revise_ns);
        since.is_some_and(|until| until >= self.state.now_ns)
    }

    /// The ports of a link that the file does not have: those that are down of two nodes, of which one says that it lost the
    /// other. `None`: there is no such pair, or more than one.
    pub(super) fn unknown_link(&self, alarms: &[u64]) -> Option<Vec<Element>> {
        let node_of = |id: &u64| self.topology.find(&self.state.alarms[id].subject.resource);
        let mut ports: BTreeMap<u32, Vec<&u64>> = BTreeMap::new();
        let mut pairs: BTreeSet<[u32; 2]> = BTreeSet::new();
        for id in alarms {
            let subject = &self.state.alarms[id].subject;
            let Some(node) = node_of(id) else { continue };
            if subject.condition == "linkDown" {
                ports.entry(node).or_default().push(id);
            } else if subject.condition == "ospfNbrStateChange"
                && let Some(peer) = crate::symptom::peer(subject).and_then(|address| self.topology.at(address))
            {
                pairs.insert([node.min(peer), node.max(peer)]);
            }
        }
        pairs.retain(|pair| pair.iter().all(|node| ports.contains_key(node)));
        let pair = pairs.pop_first().filter(|_| pairs.is_empty())?;
        let class =
            pair.iter().filter_map(|node| ports.get(node)).flatten().filter_map(|id| self.element(**id)).collect();
        Some(class)
    }
}
