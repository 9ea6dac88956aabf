//! Owns: the states of all keys, their timers, and who is forgotten when they take more memory than they may.
//! Does not: match events or hand hits up.
//!
//! A rule may take half of what all may, so that a flood of keys of one rule starves no other. What goes is the key of
//! that rule which is nearest to its expiry. Both queues are lazy: an entry that comes too early is put back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use ringtap_sigma::limits::MAX_CHAIN;
use ringtap_sigma::{Automaton, Certain, Filling, IncidentId, Member, Output, Rule, State};

use super::Known;

/// Keys that were forgotten and are told with all that they knew, between two times that somebody asks.
const TOLD: usize = 16;
/// Memory of a key beside its state and its own bytes: its place in the table and the queues.
const KEY_BYTES: usize = 160;

/// How much may be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all keys together, near enough.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 512 << 20 }
    }
}

/// A key that had to go.
#[derive(Clone, Debug, PartialEq)]
pub struct Forgotten {
    /// Number of the rule.
    pub rule: u16,
    /// Key.
    pub key: Arc<[u8]>,
    /// The incident that was open; it is closed now.
    pub incident: Option<IncidentId>,
    /// What was remembered.
    pub members: Vec<Member>,
}

struct Slot {
    rule: u16,
    level: u8,
    key: Arc<[u8]>,
    state: State,
    /// The watermark at which the state has to be called.
    timer: i64,
    /// The earliest entry in the queue of timers.
    queued: i64,
    bytes: usize,
    waiting: usize,
    was_told_early: bool,
    /// It is in the list of those whose incident went on.
    went_on: bool,
}

type Queue = BinaryHeap<Reverse<(i64, u32, u32)>>;

/// The keys of one rule.
#[derive(Default)]
struct Table {
    slots: HashMap<Arc<[u8]>, u32>,
    bytes: usize,
    /// When each key is forgotten anyway.
    expiry: Queue,
}

pub(super) struct Keys {
    bounds: Bounds,
    tables: Vec<Table>,
    /// With the number of times the place was used.
    slots: Vec<(u32, Option<Slot>)>,
    free: Vec<u32>,
    timers: Vec<Queue>,
    bytes: usize,
    waiting: usize,
    forgotten: Vec<Forgotten>,
    went_on: Vec<u32>,
}

impl Keys {
    pub(super) fn new(rules: usize, bounds: Bounds) -> Self {
        Self {
            bounds,
            tables: (0..rules).map(|_| Table::default()).collect(),
            slots: Vec::new(),
            free: Vec::new(),
            timers: (0..MAX_CHAIN).map(|_| Queue::new()).collect(),
            bytes: 0,
            waiting: 0,
            forgotten: Vec::new(),
            went_on: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Steps the state of one key. The rules of keys that had to go, if any.
    pub(super) fn step(
        &mut self,
        automaton: &Automaton,
        rule: &Rule,
        key: &[u8],
        event: Option<&Filling>,
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<Vec<u16>> {
        let number = match self.tables[usize::from(rule.number)].slots.get(key) {
            Some(&number) => number,
            None => self.insert(rule, key.into(), State::new(rule)),
        };
        let (_, Some(slot)) = &mut self.slots[number as usize] else { return None };
        let before = out.len();
        let timer = slot.state.step(rule, key, event, watermark, out);
        let has_incident = slot.state.incident().is_some();
        if has_incident && out.len() > before {
            if !slot.went_on {
                slot.went_on = true;
                self.went_on.push(number);
            }
        } else if !has_incident && out.len() > before {
            slot.was_told_early = false;
        }
        match timer {
            None => self.remove(number),
            Some(timer) => self.keep(number, timer),
        }
        let is_full =
            self.bytes > self.bounds.bytes || self.tables[usize::from(rule.number)].bytes > self.bounds.bytes / 2;
        is_full.then(|| self.make_room(automaton, rule, watermark, out))
    }

    fn insert(&mut self, rule: &Rule, key: Arc<[u8]>, state: State) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let slot = Slot {
            rule: rule.number,
            level: rule.level,
            key: Arc::clone(&key),
            state,
            timer: i64::MAX,
            queued: i64::MAX,
            bytes: 0,
            waiting: 0,
            was_told_early: false,
            went_on: false,
        };
        let (generation, place) = &mut self.slots[number as usize];
        *generation = generation.wrapping_add(1);
        *place = Some(slot);
        let entry = Reverse((i64::MIN, number, *generation));
        let table = &mut self.tables[usize::from(rule.number)];
        table.slots.insert(key, number);
        table.expiry.push(entry);
        // Entries of keys that are gone.
        if table.expiry.len() > 2 * table.slots.len() + 1024 {
            let slots = &self.slots;
            table.expiry.retain(|Reverse((_, number, generation))| {
                matches!(&slots[*number as usize], (current, Some(_)) if current == generation)
            });
        }
        number
    }

    /// Accounts for a state after a step.
    fn keep(&mut self, number: u32, timer: i64) {
        let (generation, Some(slot)) = &mut self.slots[number as usize] else { return };
        slot.timer = timer;
        if timer < slot.queued {
            slot.queued = timer;
            self.timers[usize::from(slot.level)].push(Reverse((timer, number, *generation)));
        }
        let bytes = slot.state.weight() + 2 * slot.key.len() + KEY_BYTES;
        let waiting = slot.state.waiting();
        self.bytes = self.bytes + bytes - slot.bytes;
        let table = &mut self.tables[usize::from(slot.rule)];
        table.bytes = table.bytes + bytes - slot.bytes;
        self.waiting = self.waiting + waiting - slot.waiting;
        (slot.bytes, slot.waiting) = (bytes, waiting);
    }

    fn remove(&mut self, number: u32) {
        let Some(slot) = self.slots[number as usize].1.take() else { return };
        self.free.push(number);
        self.bytes -= slot.bytes;
        self.waiting -= slot.waiting;
        let table = &mut self.tables[usize::from(slot.rule)];
        table.bytes -= slot.bytes;
        table.slots.remove(&slot.key);
    }

    /// Forgets keys until the bounds hold again: first of the rule that has more than its share, then of that which has
    /// the most.
    fn make_room(&mut self, automaton: &Automaton, rule: &Rule, watermark: i64, out: &mut Vec<Output>) -> Vec<u16> {
        let mut gone = Vec::new();
        loop {
            let own = usize::from(rule.number);
            let table = if self.tables[own].bytes > self.bounds.bytes / 2 {
                own
            } else if self.bytes > self.bounds.bytes {
                (0..self.tables.len()).max_by_key(|&table| self.tables[table].bytes).unwrap_or(own)
            } else {
                return gone;
            };
            if !self.forget(&automaton.rules()[table], watermark, out) {
                return gone;
            }
            gone.push(table as u16);
        }
    }

    /// Forgets the key of a rule that is nearest to its expiry; false when there is none.
    fn forget(&mut self, rule: &Rule, watermark: i64, out: &mut Vec<Output>) -> bool {
        let table = usize::from(rule.number);
        while let Some(Reverse((at, number, generation))) = self.tables[table].expiry.pop() {
            let (current, Some(slot)) = &self.slots[number as usize] else { continue };
            if *current != generation {
                continue;
            }
            // What waits lies behind the watermark, and will be remembered for a timespan.
            let waits = if slot.waiting > 0 { watermark.saturating_add(rule.timespan_ns) } else { i64::MIN };
            let expires = slot.timer.max(waits).max(slot.state.expires_ns(rule).unwrap_or(i64::MIN));
            if expires > at {
                self.tables[table].expiry.push(Reverse((expires, number, generation)));
                continue;
            }
            let incident = slot.state.incident();
            if let Some(id) = incident {
                let matches = slot.state.progress().map_or(0, |(_, matches)| matches);
                let at_ns = watermark;
                out.push(Output::Closed(ringtap_sigma::Closed { id, rule: slot.rule, at_ns, matches }));
            }
            if self.forgotten.len() < TOLD {
                let (rule, key, members) = (slot.rule, Arc::clone(&slot.key), slot.state.remembered());
                self.forgotten.push(Forgotten { rule, key, incident, members });
            }
            self.remove(number);
            return true;
        }
        false
    }

    /// A key of this level whose timer the watermark has reached.
    pub(super) fn due(&mut self, level: u8, watermark: i64) -> Option<(u16, Arc<[u8]>)> {
        let queue = &mut self.timers[usize::from(level)];
        while let Some(Reverse((at, number, generation))) = queue.peek().copied()
            && at <= watermark
        {
            queue.pop();
            let (current, Some(slot)) = &mut self.slots[number as usize] else { continue };
            if *current != generation || at != slot.queued {
                continue;
            }
            slot.queued = i64::MAX;
            if slot.timer <= watermark {
                return Some((slot.rule, Arc::clone(&slot.key)));
            }
            slot.queued = slot.timer;
            queue.push(Reverse((slot.timer, number, generation)));
        }
        None
    }

    /// The earliest timer; a key's real one may be later.
    pub(super) fn next_ns(&self) -> Option<i64> {
        self.timers.iter().filter_map(|queue| queue.peek().map(|Reverse((at, ..))| *at)).min()
    }

    /// What is certain of a key and was not told.
    pub(super) fn preview(&mut self, rule: &Rule, key: &[u8]) -> Option<(Arc<[u8]>, Certain)> {
        let number = *self.tables[usize::from(rule.number)].slots.get(key)?;
        let slot = self.slots[number as usize].1.as_mut().filter(|slot| !slot.was_told_early)?;
        let certain = slot.state.preview(rule, &[])?;
        slot.was_told_early = true;
        Some((Arc::clone(&slot.key), certain))
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten)
    }

    pub(super) fn take_progress(&mut self) -> Vec<(IncidentId, u32, u64)> {
        let numbers = std::mem::take(&mut self.went_on);
        let progress = numbers.into_iter().filter_map(|number| {
            let slot = self.slots[number as usize].1.as_mut()?;
            slot.went_on = false;
            let (told, matches) = slot.state.progress()?;
            Some((slot.state.incident()?, told, matches))
        });
        progress.collect()
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (u16, &Arc<[u8]>, &State)> {
        self.slots.iter().filter_map(|(_, slot)| slot.as_ref()).map(|slot| (slot.rule, &slot.key, &slot.state))
    }

    pub(super) fn states_of(&self, rule: u16) -> impl Iterator<Item = (&Arc<[u8]>, &State)> {
        self.states().filter(move |(of, ..)| *of == rule).map(|(_, key, state)| (key, state))
    }

    /// Forgets all keys of a rule: others take their place.
    pub(super) fn drop_rule(&mut self, rule: u16) {
        let numbers: Vec<u32> = self.tables[usize::from(rule)].slots.values().copied().collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    /// Takes a state over.
    pub(super) fn put(&mut self, rule: &Rule, key: &Arc<[u8]>, state: State, timer: Option<i64>) {
        if let Some(timer) = timer {
            let number = self.insert(rule, Arc::clone(key), state);
            self.keep(number, timer);
        }
    }

    /// Gives the open incident of a key the id that a store knows, if it was given another.
    pub(super) fn rename(&mut self, rule: u16, key: &[u8], real: &[(IncidentId, IncidentId)], at_ns: i64) {
        let Some(&number) = self.tables[usize::from(rule)].slots.get(key) else { return };
        let Some(slot) = self.slots[number as usize].1.as_mut() else { return };
        if let Some(id) = slot.state.incident()
            && let Some((_, new)) = real.iter().rev().find(|(old, _)| *old == id)
            && let Some((told, matches)) = slot.state.progress()
        {
            slot.state.resume(*new, at_ns, told, matches);
        }
    }

    /// Gives all open incidents what a store knows of them.
    pub(super) fn resume(&mut self, automaton: &Automaton, known: &dyn Known, watermark: i64) {
        for slot in self.slots.iter_mut().filter_map(|(_, slot)| slot.as_mut()) {
            let version = &automaton.rules()[usize::from(slot.rule)].version;
            if slot.state.incident().is_some()
                && let Some((id, opened_ns, told, matches)) = known.open_at(version, &slot.key, watermark)
            {
                slot.state.resume(id, opened_ns, told, matches);
            }
        }
    }
}
