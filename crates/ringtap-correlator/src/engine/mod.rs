//! Owns: all keys of all rules within a bound of memory: matches events, steps states, hands hits up, keeps timers.
//! Does not: decide the watermark, read or write anything.
//!
//! It does what `ringtap_sigma::Run` does, with tables for millions of keys, and says what follows in an order of its
//! own: by time, level, rule and id. So what is told depends on the events and not on how they came.

mod calendar;
mod foresight;
mod key;
mod keys;
mod slab;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use ringtap_sigma::limits::MAX_CHAIN;
use ringtap_sigma::{
    Automaton, Certain, Filling, Identity, IncidentId, Matcher, Matches, Output, Rule, State, Version, Why,
};

use crate::event::Event;
use foresight::Foresight;
pub use keys::{Bounds, Forgotten};
use keys::{Groups, Keys};
use ringtap_event::scopes::Scopes;

/// Something that became certain.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// An incident opened, went on, or closed.
    Incident(Output),
    /// A detection that is told by itself matched an event.
    Match {
        /// Number of the detection.
        detection: u16,
        /// Time of the event, ns.
        at_ns: i64,
        /// Which event.
        identity: Identity,
    },
}

/// A match that the watermark will confirm, told before it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Provisional {
    /// Number of the rule.
    pub rule: u16,
    /// Key.
    pub key: Arc<[u8]>,
    /// The match.
    pub certain: Certain,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was judged, or waits for the watermark.
    InTime,
    /// It came before the watermark, and behind an event of its key that had to be judged before its time, as too many
    /// waited: one rule or several did not take it.
    Overtaken,
    /// It came behind the watermark.
    Late,
}

/// What an engine counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that matched a detection.
    pub matched: u64,
    /// Late events, by rule whose step they fill.
    pub late: Vec<u64>,
    /// Events that matched and could not be correlated, by rule: a field of the key is missing, a list, or too long.
    pub skipped: Vec<[u64; 3]>,
    /// Events that were there before.
    pub duplicates: u64,
    /// Events that were judged before their time, as too many waited.
    pub forced: u64,
    /// Keys that were forgotten before their time, by rule.
    pub forgotten: Vec<u64>,
}

/// How an incident that a store knows goes on in a state that is built again.
pub trait Known {
    /// The incident of this rule and key that was open at a time: its id, when it opened, members told and matches.
    fn open_at(&self, version: &Version, key: &[u8], at_ns: i64) -> Option<(IncidentId, i64, u32, u64)>;
}

/// Rules at work on any number of keys.
pub struct Engine {
    automaton: Arc<Automaton>,
    /// How far back an event can matter, ns.
    horizon_ns: i64,
    matcher: Matcher,
    matches: Matches,
    scopes: Scopes,
    keys: Keys,
    /// The keys that an event goes to.
    groups: Groups,
    watermark: i64,
    out: Vec<Output>,
    /// Matches that are told by themselves, until the watermark has passed them.
    told: BTreeSet<(i64, Identity, u16)>,
    /// Matches of late events that are told by themselves.
    late_matches: Vec<Finding>,
    provisional: Option<Vec<Provisional>>,
    foresight: Foresight,
    counts: Counts,
}

impl Engine {
    /// Nothing has happened yet. With `early`, certain matches are collected for [`take_provisional`](Self::take_provisional).
    #[must_use]
    pub fn new(automaton: Arc<Automaton>, bounds: Bounds, early: bool) -> Self {
        let rules = automaton.rules().len();
        let counts = Counts {
            late: vec![0; rules],
            skipped: vec![[0; 3]; rules],
            forgotten: vec![0; rules],
            ..Counts::default()
        };
        Self {
            horizon_ns: automaton.horizon_ns(),
            matcher: Matcher::new(&automaton),
            scopes: Scopes::new(&automaton),
            keys: Keys::new(rules, bounds),
            groups: Groups::default(),
            automaton,
            matches: Matches::default(),
            watermark: i64::MIN,
            out: Vec::new(),
            told: BTreeSet::new(),
            late_matches: Vec::new(),
            provisional: early.then(Vec::new),
            foresight: Foresight::default(),
            counts,
        }
    }

    /// The rules.
    #[must_use]
    pub fn automaton(&self) -> &Arc<Automaton> {
        &self.automaton
    }

    /// How far back an event can matter, ns: [`Automaton::horizon_ns`], found once.
    #[must_use]
    pub fn horizon_ns(&self) -> i64 {
        self.horizon_ns
    }

    /// The watermark.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Keys that something is remembered of.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that keys take, near enough.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
    }

    /// Keys that were looked at to find those which are forgotten: the work that forgetting takes.
    #[must_use]
    pub fn looked_at(&self) -> u64 {
        self.keys.looked_at()
    }

    /// Events that wait for the watermark, once for each key they go to.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.keys.waiting() + self.told.len()
    }

    /// Whether an event goes to any correlation. It is not taken.
    pub fn is_wanted(&mut self, event: &Event) -> bool {
        self.look(event);
        self.went_to_a_rule()
    }

    /// Whether taking an event would judge another of one of its keys before its time, as too many wait there already.
    pub fn would_force(&mut self, event: &Event) -> bool {
        self.look(event);
        let Self { matches, keys, automaton, .. } = self;
        let is_full = |it: &Filling| keys.is_full(&automaton.rules()[usize::from(it.rule)], &it.key);
        matches.fillings().iter().any(is_full)
    }

    /// Finds what an event matches.
    fn look(&mut self, event: &Event) {
        let scope = self.scopes.of(&self.automaton, event);
        let Self { matcher, matches, automaton, .. } = self;
        self.scopes.columns(event.format).with_row(event, |row| {
            matcher.matches(automaton, &scope, row, event.mark, matches);
        });
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) -> Taken {
        self.look(event);
        let matches = std::mem::take(&mut self.matches);
        self.counts.matched += u64::from(!matches.detections.is_empty());
        for skipped in &matches.skipped {
            let why = match skipped.why {
                Why::Missing => 0,
                Why::List => 1,
                Why::TooLong => 2,
            };
            self.counts.skipped[usize::from(skipped.rule)][why] += 1;
        }
        let taken = if event.mark.time_ns <= self.watermark {
            let of_rules = matches.fillings().iter().map(|filling| usize::from(filling.rule));
            of_rules.for_each(|rule| self.counts.late[rule] += 1);
            Taken::Late
        } else {
            self.give(matches.fillings())
        };
        let (at_ns, identity) = (event.mark.time_ns, event.mark.identity);
        for &detection in &matches.detections {
            if !self.automaton.detections()[usize::from(detection)].announces {
                continue;
            }
            match taken {
                Taken::InTime | Taken::Overtaken => drop(self.told.insert((at_ns, identity, detection))),
                Taken::Late => self.late_matches.push(Finding::Match { detection, at_ns, identity }),
            }
        }
        self.matches = matches;
        taken
    }

    /// Gives an event that is in time to the keys that it goes to.
    fn give(&mut self, fillings: &[Filling]) -> Taken {
        let (mut taken, watermark) = (Taken::InTime, self.watermark);
        let mut groups = std::mem::take(&mut self.groups);
        self.keys.groups(&self.automaton, fillings, &mut groups);
        self.keys.defer(&self.automaton, fillings, &mut groups, self.provisional.is_some());
        for (number, filling) in fillings.iter().enumerate() {
            if groups.is_deferred(number) {
                continue;
            }
            let from = self.out.len();
            let rule = &self.automaton.rules()[usize::from(filling.rule)];
            let place = self.keys.place_of(rule, &filling.key, groups.hash(number));
            self.step(place, filling, watermark);
            if self.out[from..]
                .iter()
                .any(|output| matches!(output, Output::Late { mark, .. } if *mark == filling.mark))
            {
                taken = Taken::Overtaken;
            }
            self.settle(from, watermark);
            self.look_ahead(filling, place);
        }
        self.groups = groups;
        taken
    }

    /// Whether the event that was taken last goes to any correlation.
    #[must_use]
    pub fn went_to_a_rule(&self) -> bool {
        !self.matches.fillings().is_empty()
    }

    /// Moves the watermark, and appends what became certain. It never goes back.
    pub fn advance(&mut self, watermark: i64, findings: &mut Vec<Finding>) {
        if watermark <= self.watermark {
            return;
        }
        let before = std::mem::replace(&mut self.watermark, watermark);
        self.foresight.advance(watermark);
        for level in 0..MAX_CHAIN as u8 {
            while let Some(place) = self.keys.due(level, watermark) {
                let from = self.out.len();
                self.pass(place, before);
                // What is handed up belongs to the time that is passing now: above, it is not late.
                self.settle(from, before);
            }
        }
        let from = findings.len();
        let later = match watermark.checked_add(1) {
            Some(next) => self.told.split_off(&(next, Identity::default(), 0)),
            None => BTreeSet::new(),
        };
        for (at_ns, identity, detection) in std::mem::replace(&mut self.told, later) {
            findings.push(Finding::Match { detection, at_ns, identity });
        }
        findings.extend(self.out.drain(..).map(Finding::Incident));
        let automaton = &self.automaton;
        findings[from..].sort_by_cached_key(|finding| order(automaton, finding));
    }

    /// The earliest time at which something would happen if the watermark came to it.
    #[must_use]
    pub fn next_ns(&mut self) -> Option<i64> {
        [self.keys.next_ns(), self.told.first().map(|first| first.0)].into_iter().flatten().min()
    }

    /// Matches that are certain before the watermark, since this was asked last.
    pub fn take_provisional(&mut self) -> Vec<Provisional> {
        self.provisional.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Matches of late events since this was asked last.
    pub fn take_late_matches(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.late_matches)
    }

    /// Keys that were forgotten since this was asked last; a few of each rule with all that is to be said.
    pub fn take_forgotten(&mut self) -> Vec<Forgotten> {
        self.keys.take_forgotten()
    }

    /// Incidents that went on since this was asked last, with the members told and the matches of each.
    pub fn take_progress(&mut self) -> Vec<(IncidentId, u32, u64)> {
        self.keys.take_progress()
    }

    /// States by rule and key.
    pub fn states(&self) -> impl Iterator<Item = (u16, &[u8], &State)> {
        self.keys.states()
    }

    /// Gives incidents that are open in rebuilt states the identity that the store knows.
    pub fn resume(&mut self, known: &dyn Known) {
        let Self { keys, automaton, watermark, .. } = self;
        keys.resume(automaton, known, *watermark);
    }

    /// Takes over the states of rules that mean the same in both, from an engine with other rules.
    pub fn adopt(&mut self, mut other: Self) {
        let watermark = self.watermark;
        for engine in [&mut *self, &mut other] {
            engine.keys.hand_all_over(&engine.automaton, watermark, &mut engine.out);
        }
        let versions: Vec<Version> = self.automaton.rules().iter().map(|rule| rule.state_version()).collect();
        let own_of = |rule: &Rule| versions.iter().position(|version| *version == rule.state_version());
        let owns: Vec<Option<usize>> = other.automaton.rules().iter().map(own_of).collect();
        self.keys.drop_rules(|rule| owns.contains(&Some(usize::from(rule))));
        for (number, key, state) in other.keys.states() {
            let Some(own) = owns[usize::from(number)] else { continue };
            let rule = &self.automaton.rules()[own];
            // Nothing is due: both have the same watermark.
            let mut state = state.clone();
            let timer = state.step(rule, key, None, watermark, &mut self.out);
            self.keys.put(rule, key, state, timer);
        }
        for (number, own) in owns.into_iter().enumerate().filter_map(|(number, own)| Some((number, own?))) {
            self.counts.late[own] = other.counts.late[number];
            self.counts.skipped[own] = other.counts.skipped[number];
            self.counts.forgotten[own] = other.counts.forgotten[number];
        }
        let own: Vec<Version> = self.automaton.detections().iter().map(|it| it.version).collect();
        for (at_ns, identity, detection) in other.told {
            let version = other.automaton.detections()[usize::from(detection)].version;
            let same = (0u16..).zip(&own).find(|(_, own)| **own == version);
            self.told.extend(same.map(|(number, _)| (at_ns, identity, number)));
        }
        self.counts.matched = other.counts.matched;
        self.counts.duplicates = other.counts.duplicates;
        self.counts.forced = other.counts.forced;
    }

    /// The incidents of this call get the identity that `known` has of them: during a replay.
    pub fn advance_knowing(&mut self, watermark: i64, known: &dyn Known, findings: &mut Vec<Finding>) {
        // Level by level, as an id from below is part of those above.
        if watermark > self.watermark {
            let before = std::mem::replace(&mut self.watermark, watermark);
            self.foresight.advance(watermark);
            for level in 0..MAX_CHAIN as u8 {
                while let Some(place) = self.keys.due(level, watermark) {
                    self.call_knowing(place, before, known);
                }
            }
            findings.extend(self.out.drain(..).map(Finding::Incident));
            self.told = self.told.split_off(&(watermark.saturating_add(1), Identity::default(), 0));
        }
    }

    fn call_knowing(&mut self, place: u32, above: i64, known: &dyn Known) {
        let from = self.out.len();
        let key = self.keys.key(place).to_vec();
        self.pass(place, above);
        // A state may open and close several incidents in one step.
        let mut real: Vec<(IncidentId, IncidentId)> = Vec::new();
        for output in &mut self.out[from..] {
            match output {
                Output::Opened(opened) => {
                    let version = &self.automaton.rules()[usize::from(opened.rule)].version;
                    if let Some((id, ..)) = known.open_at(version, &key, opened.at_ns) {
                        real.push((opened.id, id));
                        opened.id = id;
                    }
                }
                Output::Extended(it) => it.id = renamed(&real, it.id),
                Output::Closed(it) => it.id = renamed(&real, it.id),
                Output::Hit(it) => it.incident = renamed(&real, it.incident),
                _ => {}
            }
        }
        self.keys.rename(place, &real, self.watermark);
        self.settle(from, above);
    }

    /// Steps the state that an event goes to.
    fn step(&mut self, place: u32, event: &Filling, watermark: i64) {
        let Self { automaton, keys, out, .. } = self;
        let gone = keys.give(automaton, place, event, watermark, out);
        self.forgot(gone);
    }

    /// Does what is due of a key.
    fn pass(&mut self, place: u32, before: i64) {
        let Self { automaton, keys, out, watermark, .. } = self;
        let gone = keys.pass(automaton, place, (before, *watermark), out);
        self.forgot(gone);
    }

    fn forgot(&mut self, rules: Option<Vec<u16>>) {
        rules.into_iter().flatten().for_each(|rule| self.counts.forgotten[usize::from(rule)] += 1);
    }

    /// Counts what is only counted, hands hits up, and keeps the rest.
    fn settle(&mut self, from: usize, above: i64) {
        if self.out.len() == from {
            return;
        }
        let mut rising = Matches::default();
        for output in self.out.split_off(from) {
            match output {
                Output::Hit(hit) => {
                    self.automaton.rise(&hit, &mut rising);
                    for filling in rising.fillings() {
                        let from = self.out.len();
                        let place = self.keys.place(&self.automaton.rules()[usize::from(filling.rule)], &filling.key);
                        self.step(place, filling, above);
                        self.settle(from, above);
                    }
                }
                Output::Late { rule, .. } => self.counts.late[usize::from(rule)] += 1,
                Output::Forced { .. } => self.counts.forced += 1,
                Output::Duplicate { .. } => self.counts.duplicates += 1,
                kept => self.out.push(kept),
            }
        }
    }

    /// Tells what an event makes certain, and what that makes certain above. `place`: of its key.
    fn look_ahead(&mut self, filling: &Filling, place: u32) {
        let Some(provisional) = &mut self.provisional else { return };
        let Self { automaton, keys, foresight, .. } = self;
        let it = &automaton.rules()[usize::from(filling.rule)];
        if it.announces
            && let Some((key, certain)) = keys.preview(it, place)
        {
            provisional.push(Provisional { rule: filling.rule, key, certain });
        }
        if !it.is_consumed() {
            return;
        }
        let (mut rising, mut hits) = (Matches::default(), vec![filling.clone()]);
        while let Some(filling) = hits.pop() {
            let rule = &automaton.rules()[usize::from(filling.rule)];
            let ahead = foresight.of(filling.rule, &filling.key);
            let Some(hit) = state_of(keys, rule, &filling.key).foresee(rule, ahead, &filling) else { continue };
            automaton.rise(&hit, &mut rising);
            for above in rising.fillings() {
                if !foresight.add(above) {
                    continue;
                }
                let rule = &automaton.rules()[usize::from(above.rule)];
                let ahead = foresight.of(above.rule, &above.key);
                let certain = rule.announces.then(|| state_of(keys, rule, &above.key).preview(rule, ahead)).flatten();
                if let Some(mut certain) = certain
                    && foresight.is_first(above.rule, &above.key)
                {
                    // Incidents beneath that are not open yet have no id.
                    let unknown = Some(IncidentId::default());
                    certain.members.iter_mut().filter(|it| it.via == unknown).for_each(|it| it.via = None);
                    provisional.push(Provisional { rule: above.rule, key: above.key.as_slice().into(), certain });
                }
                if rule.is_consumed() {
                    hits.push(above.clone());
                }
            }
        }
    }
}

/// What is remembered of a key, if that is nothing too.
fn state_of<'k>(keys: &'k Keys, rule: &Rule, key: &[u8]) -> std::borrow::Cow<'k, State> {
    use std::borrow::Cow;
    keys.state(rule, key).map_or_else(|| Cow::Owned(State::new(rule)), Cow::Borrowed)
}

fn renamed(real: &[(IncidentId, IncidentId)], id: IncidentId) -> IncidentId {
    real.iter().rev().find(|(old, _)| *old == id).map_or(id, |(_, new)| *new)
}

/// Time, level, rule, id, and opening before closing.
fn order(automaton: &Automaton, finding: &Finding) -> (i64, u8, u16, IncidentId, u8, Identity) {
    let level = |rule: u16| automaton.rules().get(usize::from(rule)).map_or(0, |rule| rule.level + 1);
    match finding {
        Finding::Match { detection, at_ns, identity } => (*at_ns, 0, *detection, IncidentId::default(), 0, *identity),
        Finding::Incident(output) => {
            let (at, rule, id, kind) = match output {
                Output::Opened(it) => (it.at_ns, it.rule, it.id, 0),
                Output::Extended(it) => (it.at_ns, it.rule, it.id, 1),
                Output::Closed(it) => (it.at_ns, it.rule, it.id, 2),
                Output::Hit(_) | Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => {
                    (0, 0, IncidentId::default(), 3)
                }
            };
            (at, level(rule), rule, id, kind, Identity::default())
        }
    }
}
