//! Owns: all keys of all rules in memory: the whole of an automaton in the order that hosts have to keep.
//! Does not: bound the number of keys, forget one before its time, or store anything: that is a host's, which knows its
//! memory. Tests, rule tests and hosts of few keys run this as it is; others do the same with their own tables.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::automaton::{Automaton, Scope};
use crate::limits::MAX_CHAIN;
use crate::matcher::{Filling, Matcher, Matches, Row};
use crate::output::Output;
use crate::step::{Mark, State};

/// Rules at work.
#[derive(Clone, Debug)]
pub struct Run {
    automaton: Automaton,
    matcher: Matcher,
    matches: Matches,
    watermark: i64,
    keys: BTreeMap<(u16, Vec<u8>), Key>,
    /// Level of the rule, watermark, rule, key: a level is done before what it hands up is looked at.
    timers: BTreeSet<(u8, i64, u16, Vec<u8>)>,
}

#[derive(Clone, Debug)]
struct Key {
    state: State,
    timer: Option<i64>,
}

impl Run {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(automaton: Automaton) -> Self {
        Self {
            matcher: Matcher::new(&automaton),
            automaton,
            matches: Matches::default(),
            watermark: i64::MIN,
            keys: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }

    /// The automaton.
    #[must_use]
    pub fn automaton(&self) -> &Automaton {
        &self.automaton
    }

    /// The watermark.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Keys of all rules that something is remembered of.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The states, by rule and key.
    pub fn states(&self) -> impl Iterator<Item = (u16, &[u8], &State)> {
        self.keys.iter().map(|((rule, key), kept)| (*rule, key.as_slice(), &kept.state))
    }

    /// Takes an event. What the watermark allows to say is appended; what matched is returned until the next call.
    pub fn event(&mut self, scope: &Scope, row: &Row<'_>, mark: Mark, out: &mut Vec<Output>) -> &Matches {
        let mut matches = core::mem::take(&mut self.matches);
        self.matcher.matches(&self.automaton, scope, row, mark, &mut matches);
        for filling in matches.fillings() {
            self.call(filling.rule, &filling.key, Some(filling), self.watermark, self.watermark, out);
        }
        self.matches = matches;
        &self.matches
    }

    /// Moves the watermark: every event with a time up to it has been given. It never goes back. At the end of all
    /// input it is `i64::MAX`.
    pub fn advance(&mut self, watermark: i64, out: &mut Vec<Output>) {
        let before = self.watermark;
        self.watermark = watermark.max(before);
        for level in 0..MAX_CHAIN as u8 {
            while let Some(timer) = self.timers.range((level, i64::MIN, 0, Vec::new())..).next()
                && timer.0 == level
                && timer.1 <= self.watermark
            {
                let (_, _, rule, key) = timer.clone();
                // What is handed up belongs to the time that is passing now: above, it is not late.
                self.call(rule, &key, None, self.watermark, before, out);
            }
        }
    }

    /// Calls the step function of one key, and hands its hits up, under the watermark that holds above.
    fn call(
        &mut self,
        rule: u16,
        key: &[u8],
        event: Option<&Filling>,
        watermark: i64,
        above: i64,
        out: &mut Vec<Output>,
    ) {
        let Some(it) = self.automaton.rules.get(usize::from(rule)) else { return };
        let level = it.level;
        let owned = (rule, key.to_vec());
        let kept = self.keys.entry(owned).or_insert_with(|| Key { state: State::new(it), timer: None });
        let from = out.len();
        let timer = kept.state.step(it, key, event, watermark, out);
        if kept.timer != timer {
            if let Some(at) = kept.timer {
                self.timers.remove(&(level, at, rule, key.to_vec()));
            }
            if let Some(at) = timer {
                self.timers.insert((level, at, rule, key.to_vec()));
            }
            kept.timer = timer;
        }
        if timer.is_none() {
            self.keys.remove(&(rule, key.to_vec()));
        }
        let mut rising = Matches::default();
        for at in from..out.len() {
            let Output::Hit(hit) = &out[at] else { continue };
            self.automaton.rise(hit, &mut rising);
            for filling in rising.fillings() {
                self.call(filling.rule, &filling.key, Some(filling), above, above, out);
            }
        }
    }
}
