//! The engine: alarms and their clears in, incidents out, in event time.
//!
//! Owns what is held, until when, and what becomes of incidents as evidence comes. Which causes explain what was observed is the
//! codebook's. All waiting is a timer that [`Engine::advance`] passes, so a restart or a replay gives the same as an uninterrupted run.

mod beside;
mod decide;
mod index;
mod learn;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::episode::Episodes;
use crate::explain::Codebook;
use crate::incident::{Incident, Output, Root};
use crate::problem::{Element, Problem};
use crate::symptom::{Subject, Symptom, place};
use crate::topology::Topology;
use crate::why::{Step, path};

const SECOND_NS: u64 = 1_000_000_000;
/// What was resolved still explains restarts for so long.
const RECENT_NS: u64 = 600 * SECOND_NS;

/// What is due so soon is decided with what is due now.
const GRAIN_NS: u64 = SECOND_NS / 100;
const MOST_RECENT: usize = 65_536;
/// Some seconds of a core.
const MOST_WORK: u64 = 1_000_000_000;
/// One decision may do so much of it.
const SHARE: u64 = 8;
/// A longer episode gets new work after this.
const WORK_NS: u64 = 60 * SECOND_NS;

/// How long things are waited for. Nanoseconds of event time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// An alarm is decided at the latest after this; one that was cleared before is never announced.
    pub hold_ns: u64,
    /// An explanation of which nine tenths were seen is decided when nothing came for this long.
    pub settle_ns: u64,
    /// An episode ends with a gap of this.
    pub gap_ns: u64,
    /// A decision can be revised for this long.
    pub revise_ns: u64,
    /// When a part of an incident's alarms is cleared, what is left after this has another cause.
    pub recovery_ns: u64,
    /// An event that nothing clears counts as cleared after this.
    pub event_ns: u64,
    /// Most alarms held and in open incidents.
    pub most_alarms: usize,
    /// Most work on an episode, and on each minute of a long one: nodes, links and adjacencies looked at.
    pub most_work: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold_ns: 2 * SECOND_NS,
            settle_ns: SECOND_NS / 2,
            gap_ns: 2 * SECOND_NS,
            revise_ns: 60 * SECOND_NS,
            recovery_ns: 60 * SECOND_NS,
            event_ns: 300 * SECOND_NS,
            most_alarms: 200_000,
            most_work: MOST_WORK,
        }
    }
}

/// An alarm that is held or in an open incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Tracked {
    subject: Subject,
    raised_ns: u64,
    /// Nothing clears it.
    event: bool,
    cleared: bool,
    /// `None`: held.
    incident: Option<u64>,
    /// Anybody may have said it: it teaches nothing of the network.
    #[serde(default)]
    is_doubtful: bool,
    #[serde(skip)]
    symptom: Option<u32>,
}

/// All that the engine knows besides topology and settings: what a restart goes on from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    now_ns: u64,
    /// Number of the latest incident.
    last_incident: u64,
    alarms: BTreeMap<u64, Tracked>,
    incidents: BTreeMap<u64, Incident>,
    /// Roots of incidents resolved lately, and until when they count.
    recent: Vec<(u64, u64, Element)>,
    episodes: Episodes,
    /// When the latest alarm came that is held.
    latest_held_ns: u64,
    /// When was decided last.
    looked_ns: u64,
    transients: u64,
    untracked: u64,
    /// What the file lacks.
    #[serde(default)]
    learnt: Vec<learn::Learnt>,
}

/// The work on an episode, or on a part of it.
#[derive(Debug, Default)]
struct Work {
    episode: u64,
    since_ns: u64,
    done: u64,
}

/// Counts, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Alarms held and in open incidents.
    pub alarms: usize,
    /// Alarms held until they are decided.
    pub held: usize,
    /// Open incidents.
    pub incidents: usize,
    /// Alarms that were cleared while they were held, and so never announced.
    pub transients: u64,
    /// Alarms that found no room: the caller announces them by themselves.
    pub untracked: u64,
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    topology: Topology,
    codebook: Codebook,
    settings: Settings,
    state: State,
    /// Held alarms, by when they are decided at the latest.
    held: BTreeSet<(u64, u64)>,
    /// Members that count as cleared at a time.
    events: BTreeSet<(u64, u64)>,
    index: index::Index,
    /// What each open incident's class is in this topology, the first of it first.
    problems: BTreeMap<u64, Vec<Problem>>,
    /// Symptoms of all open incidents' causes together, and restarts of whatever is in their classes.
    predicted: Vec<u32>,
    outputs: Vec<Output>,
    /// Not in the state: what was predicted once is quick the second time, so after a restart it is other work.
    work: Work,
}

impl State {
    /// How far it goes, nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Alarms that are held or in open incidents.
    pub fn alarms(&self) -> impl Iterator<Item = u64> {
        self.alarms.keys().copied()
    }
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(topology: Topology, settings: Settings) -> Self {
        Self::restore(topology, settings, State::default())
    }

    /// Goes on from a state, perhaps with another topology: roots that it no longer has stay as they were announced.
    pub fn restore(mut topology: Topology, settings: Settings, mut state: State) -> Self {
        state.learnt.iter().for_each(|it| it.add_to(&mut topology));
        let codebook = Codebook::new(&topology);
        let mut events = BTreeSet::new();
        for (&id, alarm) in &mut state.alarms {
            alarm.symptom = place(&topology, &alarm.subject).1;
            if alarm.incident.is_some() && alarm.event && !alarm.cleared {
                events.insert((alarm.raised_ns + settings.event_ns, id));
            }
        }
        let mut wanted: HashMap<&Element, Vec<u64>> = HashMap::new();
        for it in state.incidents.values() {
            let Root::Class(elements) = &it.root else { continue };
            // What the alarms alone told of a link is no cause of the topology: ports, of which nothing is expected.
            if it.expected == 0 && elements.iter().all(|element| element.0.starts_with("port:")) {
                continue;
            }
            for element in elements {
                wanted.entry(element).or_default().push(it.id);
            }
        }
        let mut problems: BTreeMap<u64, Vec<Problem>> = BTreeMap::new();
        for problem in all(&topology).filter(|_| !wanted.is_empty()) {
            for &id in problem.elements(&topology).first().and_then(|element| wanted.get(element)).into_iter().flatten()
            {
                problems.entry(id).or_default().push(problem);
            }
        }
        let mut this = Self {
            topology,
            codebook,
            settings,
            state,
            held: BTreeSet::new(),
            events,
            index: index::Index::default(),
            problems,
            predicted: Vec::new(),
            outputs: Vec::new(),
            work: Work::default(),
        };
        this.index();
        this.predict();
        this
    }

    /// What a restart goes on from. Outputs that were not taken are not in it.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Open incidents by number.
    pub fn incidents(&self) -> &BTreeMap<u64, Incident> {
        &self.state.incidents
    }

    /// The incident that an alarm belongs to.
    pub fn incident_of(&self, alarm: u64) -> Option<u64> {
        self.state.alarms.get(&alarm)?.incident
    }

    /// Whether an alarm is held or in an open incident, and if so whether it was cleared there.
    pub fn is_cleared(&self, alarm: u64) -> Option<bool> {
        self.state.alarms.get(&alarm).map(|alarm| alarm.cleared)
    }

    /// What an alarm is about that is held or in an open incident, when it was raised, and the way to it from its incident's cause (empty:
    /// it has none, or is explained by nothing in the topology).
    pub fn why(&self, alarm: u64) -> Option<(&Subject, u64, Vec<Step>)> {
        let it = self.state.alarms.get(&alarm)?;
        let cause = it.incident.and_then(|id| self.problems.get(&id)).and_then(|class| class.first());
        let symptom = it.symptom.map(|at| self.topology.symptoms[at as usize]);
        let path = cause.zip(symptom).map(|(&cause, symptom)| path(&self.topology, cause, symptom));
        Some((&it.subject, it.raised_ns, path.unwrap_or_default()))
    }

    /// Counts.
    pub fn counts(&self) -> Counts {
        Counts {
            alarms: self.state.alarms.len(),
            held: self.held.len(),
            incidents: self.state.incidents.len(),
            transients: self.state.transients,
            untracked: self.state.untracked,
        }
    }

    /// An alarm was raised, or raised again; `event`: nothing clears it. `false`: there is no room for it, so it is nowhere here.
    ///
    /// Times that lie behind what was seen count as now.
    pub fn raise(&mut self, id: u64, subject: &Subject, event: bool, at_ns: u64) -> bool {
        self.advance(at_ns);
        let now = self.state.now_ns;
        if let Some(alarm) = self.state.alarms.get_mut(&id) {
            if alarm.cleared {
                alarm.raised_ns = now;
                if alarm.event {
                    self.events.insert((now + self.settings.event_ns, id));
                }
                let incident = alarm.incident;
                self.set_cleared(id, false);
                self.raised_again(incident);
            }
            return true;
        }
        if self.state.alarms.len() >= self.settings.most_alarms {
            self.state.untracked += 1;
            return false;
        }
        if self.state.episodes.alarm(now, self.settings.gap_ns) {
            self.tell_storm(true);
        }
        let (_, symptom) = place(&self.topology, subject);
        let alarm = Tracked {
            subject: subject.clone(),
            raised_ns: now,
            event,
            cleared: false,
            incident: None,
            is_doubtful: false,
            symptom,
        };
        if let Some(incident) = self.known_cause(&alarm) {
            self.outputs.push(Output::Joined { incident, alarm: id });
            if self.state.incidents.contains_key(&incident) {
                self.track(id, alarm);
                self.join(id, incident);
            }
            return true;
        }
        self.state.latest_held_ns = now;
        self.track(id, alarm);
        self.hold(id);
        true
    }

    /// An alarm that was raised came from somebody who is not known: it is explained as others are, and nothing is learnt from it that
    /// the file lacks.
    pub fn doubt(&mut self, id: u64) {
        if let Some(alarm) = self.state.alarms.get_mut(&id) {
            alarm.is_doubtful = true;
        }
    }

    /// An alarm was cleared.
    pub fn clear(&mut self, id: u64, at_ns: u64) {
        self.advance(at_ns);
        let now = self.state.now_ns;
        let Some(alarm) = self.state.alarms.get(&id) else { return };
        match alarm.incident {
            None => {
                self.let_go(id);
                self.forget(id);
                self.state.transients += 1;
            }
            Some(incident) => {
                self.set_cleared(id, true);
                self.look_at_clears(incident, now, true);
            }
        }
    }

    /// Time passes.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(at) = self.next_timer().filter(|&at| at <= now_ns) {
            self.state.now_ns = self.state.now_ns.max(at);
            self.timers();
        }
        self.state.now_ns = self.state.now_ns.max(now_ns);
    }

    /// When [`Engine::advance`] has something to do.
    pub fn next_timer(&self) -> Option<u64> {
        let held = self.held.first().map(|&(at, _)| at);
        let settled = self.state.latest_held_ns + self.settings.settle_ns;
        let settled = (!self.held.is_empty() && self.state.looked_ns < settled).then_some(settled);
        let recovery = self.index.recovering.first().map(|&(at, _)| at);
        let event = self.events.first().map(|&(at, _)| at);
        let storm = self.state.episodes.ends_ns(self.settings.gap_ns);
        [held, settled, recovery, event, storm].into_iter().flatten().min()
    }

    /// What became of incidents since the last call.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn timers(&mut self) {
        let now = self.state.now_ns;
        if self.state.episodes.ends_ns(self.settings.gap_ns).is_some_and(|at| at <= now) {
            self.state.episodes.end();
            self.tell_storm(false);
        }
        while let Some(&(at, id)) = self.events.first().filter(|(at, _)| *at <= now) {
            self.events.remove(&(at, id));
            self.set_cleared(id, true);
            if let Some(incident) = self.incident_of(id) {
                self.look_at_clears(incident, now, false);
            }
        }
        self.state.recent.retain(|&(until, ..)| until > now);
        let released: BTreeSet<u64> = self.index.recovering.range(..=(now, u64::MAX)).map(|&(_, id)| id).collect();
        let is_due = self.held.first().is_some_and(|&(at, _)| at <= now);
        let is_settled = !self.held.is_empty() && self.state.latest_held_ns + self.settings.settle_ns <= now;
        if is_due || !released.is_empty() || (is_settled && self.state.looked_ns < now) {
            self.decide(&released);
            self.state.looked_ns = now;
        }
    }

    fn tell_storm(&mut self, began: bool) {
        let (episode, alarms) = (self.state.episodes.number, self.state.episodes.alarms);
        self.outputs.push(Output::Storm { episode, alarms, began });
    }

    /// The open incident, or for restarts the one resolved lately, that explains this alarm.
    fn known_cause(&mut self, alarm: &Tracked) -> Option<u64> {
        let Some(symptom) = alarm.symptom else {
            return self.index.group_with(&self.nodes_of(alarm));
        };
        if self.predicted.binary_search(&symptom).is_ok() {
            return self.owner(symptom);
        }
        let Symptom::Restart { node } = self.topology.symptoms[symptom as usize] else { return None };
        let element = Problem::Node(node).elements(&self.topology).pop()?;
        self.state.recent.iter().find(|(.., dead)| *dead == element).map(|&(_, id, _)| id)
    }

    /// Which of the open incidents has this symptom: by itself, else together with others.
    fn owner(&mut self, symptom: u32) -> Option<u64> {
        let is_restart = matches!(self.topology.symptoms[symptom as usize], Symptom::Restart { .. });
        for (&id, class) in &self.problems {
            for &problem in class.iter().take(if is_restart { usize::MAX } else { 1 }) {
                if self.codebook.column(&self.topology, problem).binary_search(&symptom).is_ok() {
                    return Some(id);
                }
            }
        }
        self.problems.keys().next_back().copied()
    }

    /// Its alarm is there again: it recovers no longer, unless others are still cleared.
    fn raised_again(&mut self, incident: Option<u64>) {
        if let Some(id) = incident.filter(|&id| self.index.tally(id).recovered() == 0) {
            self.set_clearing(id, None);
        }
    }

    fn track(&mut self, id: u64, alarm: Tracked) {
        if alarm.symptom.is_some() {
            self.index.placed.insert(id);
        }
        self.state.alarms.insert(id, alarm);
    }

    fn join(&mut self, id: u64, incident: u64) {
        let Some(it) = self.state.incidents.get_mut(&incident) else { return };
        let is_new = it.members.insert(id);
        if let Some(alarm) = self.state.alarms.get_mut(&id) {
            alarm.incident = Some(incident);
            if is_new {
                self.index.count(incident, alarm);
            }
            if alarm.event && !alarm.cleared {
                self.events.insert((alarm.raised_ns + self.settings.event_ns, id));
            }
        }
    }

    /// Some of an incident's alarms are cleared: perhaps all are. What only expired is no sign of a recovery.
    fn look_at_clears(&mut self, id: u64, now: u64, is_sign: bool) {
        self.index.look(1);
        let tally = self.index.tally(id);
        if tally.left() == 0 && (!tally.is_of_events() || tally.waiting() == 0) {
            self.resolve(id);
        } else if is_sign {
            self.set_clearing(id, Some(now));
        }
    }

    /// Closes an incident; its alarms are tracked no longer.
    fn resolve(&mut self, id: u64) {
        let Some(incident) = self.close(id) else { return };
        let now = self.state.now_ns;
        if let Some(class) = self.problems.remove(&id) {
            let restarts = self.restarts(&class);
            for symptom in restarts {
                let node = self.topology.symptoms[symptom as usize].node();
                let element = Problem::Node(node).elements(&self.topology).remove(0);
                self.state.recent.push((now + RECENT_NS, id, element));
            }
            let surplus = self.state.recent.len().saturating_sub(MOST_RECENT);
            self.state.recent.drain(..surplus);
            self.predict();
        }
        for member in &incident.members {
            if let Some(alarm) = self.forget(*member) {
                self.events.remove(&(alarm.raised_ns + self.settings.event_ns, *member));
            }
        }
        self.outputs.push(Output::Resolved(incident));
    }

    /// What may be told of restarts when these are mended.
    fn restarts(&mut self, class: &[Problem]) -> BTreeSet<u32> {
        let mut restarts = BTreeSet::new();
        for &problem in class {
            let column = self.codebook.column(&self.topology, problem);
            let is_restart = |at: &&u32| matches!(self.topology.symptoms[**at as usize], Symptom::Restart { .. });
            restarts.extend(column.iter().filter(is_restart));
        }
        restarts
    }

    fn predict(&mut self) {
        let mut problems: Vec<Problem> = self.problems.values().filter_map(|class| class.first().copied()).collect();
        problems.sort_unstable();
        problems.dedup();
        let mut predicted = self.codebook.together(&self.topology, &problems);
        let classes: Vec<Problem> = self.problems.values().flatten().copied().collect();
        predicted.extend(self.restarts(&classes));
        predicted.sort_unstable();
        predicted.dedup();
        self.predicted = predicted;
    }
}

fn deadline(alarm: &Tracked, settings: &Settings) -> u64 {
    alarm.raised_ns + settings.hold_ns
}

/// Everything that can break.
fn all(topology: &Topology) -> impl Iterator<Item = Problem> {
    use crate::topology::Protocol;
    let count = |count: usize| 0..count as u32;
    let processes = count(topology.nodes.len())
        .flat_map(|node| [Problem::Process(node, Protocol::Bgp), Problem::Process(node, Protocol::Ospf)]);
    count(topology.links.len())
        .map(Problem::Link)
        .chain(count(topology.adjacencies.len()).map(Problem::Session))
        .chain(count(topology.cards.len()).map(Problem::Card))
        .chain(processes)
        .chain(count(topology.nodes.len()).map(Problem::Node))
        .chain(count(topology.power.len()).map(Problem::Power))
        .chain(count(topology.sites.len()).map(Problem::Site))
}
