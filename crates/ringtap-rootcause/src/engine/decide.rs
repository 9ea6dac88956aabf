//! Decisions: what the codebook found becomes new incidents, revisions and mergers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Engine, GRAIN_NS, Incident, Output, Root, Tracked, deadline};
use crate::explain::{Cause, Seen};
use crate::incident::confidence;
use crate::problem::{Element, Problem};
use crate::symptom::Symptom;

/// What one decision works on.
pub(super) struct Scope<'a> {
    /// Incidents that may become others, or whose rest is to be explained anew.
    open: BTreeSet<u64>,
    /// Those of them whose recovery is over: what is left has to have a cause.
    released: &'a BTreeSet<u64>,
    /// Alarms that a cause may take, by symptom.
    pub(super) free: BTreeMap<u32, Vec<u64>>,
}

impl Engine {
    /// Explains what is held, and what may still be revised, anew.
    pub(super) fn decide(&mut self, released: &BTreeSet<u64>) {
        self.begin_work();
        self.learn();
        let now = self.state.now_ns;
        let is_open = |it: &Incident| it.decided_ns + self.settings.revise_ns >= now && it.clearing_ns.is_none();
        // What has no alarm of the topology, no cause of it becomes.
        let of_alarms = self.index.placed.iter().filter_map(|id| self.state.alarms[id].incident);
        let mut open: BTreeSet<u64> = of_alarms.chain(self.problems.keys().copied()).collect();
        open.retain(|id| self.state.incidents.get(id).is_some_and(is_open));
        open.extend(released);
        let fixed: Vec<Problem> = self
            .problems
            .iter()
            .filter(|(id, _)| !open.contains(id))
            .filter_map(|(_, of)| of.first().copied())
            .collect();
        let before: Vec<Problem> = self
            .problems
            .iter()
            .filter(|(id, _)| open.contains(id) && !released.contains(id))
            .filter_map(|(_, of)| of.first().copied())
            .collect();
        let mut scope = Scope { open, released, free: BTreeMap::new() };
        let mut seen = Seen::default();
        self.index.look(self.index.placed.len());
        for &id in &self.index.placed {
            let alarm = &self.state.alarms[&id];
            let Some(symptom) = alarm.symptom else { continue };
            let is_free = alarm.incident.is_none_or(|id| scope.open.contains(&id)) && !alarm.cleared;
            if is_free {
                scope.free.entry(symptom).or_default().push(id);
            }
            // What has a cause that is known is not asked for again; what was cleared counts as seen while its incident recovers.
            let is_seen = alarm.incident.is_some_and(|id| self.problems.contains_key(&id) && !released.contains(&id));
            if is_free || is_seen {
                seen.there.insert(symptom);
                if !matches!(self.topology.symptoms[symptom as usize], Symptom::Restart { .. }) {
                    seen.spoke.insert(self.topology.symptoms[symptom as usize].node());
                }
                if alarm.incident.is_some_and(|id| released.contains(&id)) {
                    seen.left.insert(symptom);
                }
            } else if alarm.cleared && !alarm.event {
                seen.cleared.insert(symptom);
            }
        }
        seen.islands = self.codebook.islands(&seen.there);
        self.begin_work();
        let mut found = self.codebook.explain(&self.topology, &fixed, &before, &seen);
        self.end_work();
        super::beside::fold_into_power(&self.topology, &mut found.causes);
        let explained = |symptom: &&u32| found.predicted.binary_search(symptom).is_ok();
        let most = seen.there.iter().filter(explained).count() * 10 >= seen.there.len() * 9;
        let mut done = BTreeSet::new();
        for cause in &found.causes {
            if !self.is_of_another(cause, &scope) {
                self.apply(cause, &mut scope, &mut done, most);
            }
        }
        self.predict();
        self.release(released, &done);
        self.adopt();
        self.join_beside();
        self.alone();
    }

    /// Whether the work on this episode is done, whatever is left to find.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work.done >= self.settings.most_work
    }

    /// Lets the search do what is left for this episode, and no more than its share of it.
    fn begin_work(&mut self) {
        let (now, episode) = (self.state.now_ns, self.state.episodes.number);
        let work = &mut self.work;
        if work.episode != episode || now >= work.since_ns + super::WORK_NS {
            *work = super::Work { episode, since_ns: now, done: 0 };
        }
        let most = self.settings.most_work;
        self.codebook.allow(most.saturating_sub(work.done).min(most / super::SHARE));
    }

    fn end_work(&mut self) {
        let (done, _) = self.codebook.spent();
        let most = self.settings.most_work;
        let was_left = self.work.done < most;
        self.work.done += done;
        if was_left && self.work.done >= most {
            self.outputs.push(Output::Exhausted { episode: self.work.episode });
        }
    }

    /// What is held may be explained by what is open now.
    fn adopt(&mut self) {
        let is_held = |id: &u64| self.state.alarms[id].incident.is_none();
        let held: Vec<u64> = self.index.placed.iter().copied().filter(is_held).collect();
        for id in held {
            let symptom = self.state.alarms[&id].symptom;
            if let Some(symptom) = symptom.filter(|symptom| self.predicted.binary_search(symptom).is_ok())
                && let Some(owner) = self.owner(symptom)
            {
                self.take(id, owner);
                self.outputs.push(Output::Joined { incident: owner, alarm: id });
            }
        }
    }

    /// A cause that was found: the incident of it goes on, another's becomes it, or a new one opens; unless it has time to wait.
    fn apply(&mut self, cause: &Cause, scope: &mut Scope<'_>, done: &mut BTreeSet<u64>, most_explained: bool) {
        let now = self.state.now_ns;
        let members: Vec<u64> =
            cause.explains.iter().filter_map(|symptom| scope.free.get(symptom)).flatten().copied().collect();
        let held: Vec<&Tracked> =
            members.iter().map(|id| &self.state.alarms[id]).filter(|alarm| alarm.incident.is_none()).collect();
        let is_due = held.iter().any(|alarm| deadline(alarm, &self.settings) <= now + GRAIN_NS);
        let is_settled = most_explained
            && self.state.latest_held_ns + self.settings.settle_ns <= now
            && u64::from(cause.seen) * 10 >= u64::from(cause.expected) * 9;
        let is_released = members.iter().any(|id| self.is_of(*id, scope.released));
        let same = scope.open.iter().copied().find(|id| {
            !done.contains(id) && matches!(&self.state.incidents[id].root, Root::Class(of) if *of == cause.class)
        });
        if same.is_none()
            && (cause.doubtful || members.is_empty() || !(is_released || (!held.is_empty() && (is_due || is_settled))))
        {
            return;
        }
        let id = same.or_else(|| self.most_of(&members, scope, done));
        let is_new = id.is_none();
        let id = id.unwrap_or_else(|| self.open(Root::Class(Vec::new()), &members));
        done.insert(id);
        self.problems.insert(id, cause.problems.clone());
        for &member in &members {
            let is_new = self.state.alarms[&member].incident != Some(id);
            self.take(member, id);
            if same.is_some() && is_new {
                self.outputs.push(Output::Joined { incident: id, alarm: member });
            }
        }
        for symptom in &cause.explains {
            scope.free.remove(symptom);
        }
        if same.is_some() && scope.released.contains(&id) {
            self.set_clearing(id, None);
        }
        let Some(it) = self.state.incidents.get_mut(&id) else { return };
        (it.expected, it.seen, it.confidence) = (cause.expected, cause.seen, confidence(cause.margin));
        if same.is_some() {
            self.merge(scope, done, id);
            return;
        }
        let before = std::mem::replace(&mut it.root, Root::Class(cause.class.clone()));
        self.index.ungroup(id, &before);
        it.decided_ns = now;
        if is_new {
            self.outputs.push(Output::Opened(it.clone()));
        } else {
            it.revisions += 1;
            self.outputs.push(Output::Revised(it.clone()));
        }
        self.merge(scope, done, id);
    }

    fn is_of(&self, alarm: u64, incidents: &BTreeSet<u64>) -> bool {
        self.state.alarms[&alarm].incident.is_some_and(|id| incidents.contains(&id))
    }

    /// Of the incidents that may become another, the one that has most of these alarms. One that recovered does not: it is resolved.
    fn most_of(&self, members: &[u64], scope: &Scope<'_>, done: &BTreeSet<u64>) -> Option<u64> {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for id in members.iter().filter_map(|id| self.state.alarms[id].incident) {
            if scope.open.contains(&id) && !done.contains(&id) && !scope.released.contains(&id) {
                *counts.entry(id).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|&(id, count)| (count, std::cmp::Reverse(id))).map(|(id, _)| id)
    }

    /// Incidents that lost all that is not cleared to this one are one with it.
    fn merge(&mut self, scope: &mut Scope<'_>, done: &BTreeSet<u64>, into: u64) {
        let gone: Vec<u64> = (scope.open.iter().copied())
            .filter(|id| *id != into && !done.contains(id) && !scope.released.contains(id))
            .filter(|id| self.state.incidents.contains_key(id) && self.index.tally(*id).waiting() == 0)
            .collect();
        for id in gone {
            scope.open.remove(&id);
            self.problems.remove(&id);
            let Some(it) = self.close(id) else { continue };
            for member in it.members {
                self.take(member, into);
            }
            self.outputs.push(Output::Merged { incident: id, into });
        }
    }

    fn open(&mut self, root: Root, members: &[u64]) -> u64 {
        self.state.last_incident += 1;
        let id = self.state.last_incident;
        let now = self.state.now_ns;
        let raised = members.iter().map(|id| self.state.alarms[id].raised_ns);
        let incident = Incident {
            id,
            root,
            first_ns: raised.min().unwrap_or(now),
            decided_ns: now,
            members: BTreeSet::new(),
            expected: 0,
            seen: 0,
            confidence: 0,
            revisions: 0,
            episode: self.state.episodes.number,
            clearing_ns: None,
        };
        if let Root::Nodes(nodes) = &incident.root {
            self.index.group(id, nodes);
        }
        self.state.incidents.insert(id, incident);
        id
    }

    /// An alarm becomes a member of this incident, whatever it was before.
    pub(super) fn take(&mut self, alarm: u64, incident: u64) {
        self.let_go(alarm);
        let Some(it) = self.state.alarms.get(&alarm) else { return };
        if let Some(before) = it.incident.filter(|before| *before != incident)
            && self.state.incidents.get_mut(&before).is_some_and(|before| before.members.remove(&alarm))
        {
            self.index.discount(before, it);
        }
        self.join(alarm, incident);
    }

    /// Incidents whose recovery is over and whose cause is found no more: they are resolved, and what stayed is told, together.
    fn release(&mut self, released: &BTreeSet<u64>, done: &BTreeSet<u64>) {
        for &id in released.iter().filter(|id| !done.contains(id)) {
            self.set_clearing(id, None);
            let Some(it) = self.state.incidents.get_mut(&id) else { continue };
            if !matches!(it.root, Root::Class(_)) {
                continue;
            }
            let is_left = |id: &u64| self.state.alarms.get(id).is_some_and(|alarm| !alarm.cleared && !alarm.event);
            let left: Vec<u64> = it.members.iter().copied().filter(is_left).collect();
            for member in &left {
                it.members.remove(member);
            }
            self.resolve(id);
            let mut rest = Vec::new();
            for member in left {
                let symptom = self.state.alarms[&member].symptom;
                match symptom.filter(|at| self.predicted.binary_search(at).is_ok()).and_then(|at| self.owner(at)) {
                    Some(owner) => {
                        self.take(member, owner);
                        self.outputs.push(Output::Joined { incident: owner, alarm: member });
                    }
                    None => rest.push(member),
                }
            }
            if !rest.is_empty() {
                let id = self.open(Root::Left { resolved: id }, &rest);
                self.fill(id, &rest);
            }
        }
    }

    /// What nothing explains and has waited long enough stands for itself; alarms of the same nodes stand together.
    fn alone(&mut self) {
        for (nodes, ids) in self.groups_of_due() {
            if let Some(id) = self.group_of(&nodes) {
                for alarm in ids {
                    self.take(alarm, id);
                    self.outputs.push(Output::Joined { incident: id, alarm });
                }
            } else if let Some(ports) = self.unknown_link(&ids).filter(|ports| !ports.is_empty()) {
                let id = self.open(Root::Class(ports), &ids);
                self.fill(id, &ids);
            } else if let [alarm] = ids[..] {
                let root =
                    Root::Alarm { subject: self.state.alarms[&alarm].subject.clone(), element: self.element(alarm) };
                let id = self.open(root, &ids);
                self.fill(id, &ids);
            } else {
                let id = self.open(Root::Nodes(nodes), &ids);
                self.fill(id, &ids);
            }
        }
    }

    /// The incident of nodes that these belong to: told a short while ago, so that what trickles in is not told alarm by alarm.
    fn group_of(&mut self, nodes: &BTreeSet<String>) -> Option<u64> {
        let oldest = self.state.now_ns.saturating_sub(self.settings.revise_ns);
        let is_recent = |id: &u64| self.state.incidents[id].decided_ns >= oldest;
        let id = self.index.groups_beside(nodes).into_iter().find(is_recent)?;
        if let Some(Root::Nodes(of)) = self.state.incidents.get_mut(&id).map(|it| &mut it.root) {
            of.extend(nodes.iter().cloned());
        }
        self.index.group(id, nodes);
        Some(id)
    }

    fn fill(&mut self, id: u64, members: &[u64]) {
        for &member in members {
            self.take(member, id);
        }
        self.outputs.extend(self.state.incidents.get(&id).cloned().map(Output::Opened));
    }

    /// The topology's name of what an alarm by itself is about.
    pub(super) fn element(&self, alarm: u64) -> Option<Element> {
        let subject = &self.state.alarms[&alarm].subject;
        let name = &self.topology.node(self.topology.find(&subject.resource)?).name;
        let symptom = self.state.alarms[&alarm].symptom.map(|at| self.topology.symptoms[at as usize]);
        Some(match (symptom, subject.condition.as_str()) {
            (Some(Symptom::Interface { node, index }), _) => {
                Element(format!("port:{name}:{}", self.topology.interface_name(node, index)))
            }
            (None, "linkDown") => Element(format!("port:{name}:{}", subject.object)),
            _ => Element(format!("node:{name}")),
        })
    }
}
