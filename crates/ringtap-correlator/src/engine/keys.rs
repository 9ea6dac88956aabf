//! Owns: the states of all keys, their timers, and who is forgotten when they take more memory than they may.
//! Does not: match events or hand hits up.
//!
//! A rule may take half of what all may, so that a flood of keys of one rule starves no other. What goes is the key of
//! that rule which is nearest to its expiry. Both queues are lazy: an entry that comes too early is put back. What is no
//! longer so is dropped when it is more than a third of them.
//!
//! A key is found by a hash that nobody outside can foretell (SipHash with a random seed): who chooses keys can't make many
//! of them meet. Nothing that is told depends on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use ringtap_sigma::limits::MAX_CHAIN;
use ringtap_sigma::{Automaton, Certain, Filling, IncidentId, Member, Output, Rule, State};

use super::Known;
use super::calendar::{Calendar, Entry};
use super::key::Key;
use super::slab::Slab;

/// Keys that were forgotten and are told with all that they knew, between two times that somebody asks.
const TOLD: usize = 16;
/// Memory of a key in the table and the queues, whose room is doubled when it ends.
const QUEUED_BYTES: usize = 160;
/// Keys whose memory is asked for at once.
const AT_ONCE: usize = 16;
/// Queues of keys in which events wait, and of others: a day of the first is 17 ms, of the second a second.
const DAYS: [u32; 2] = [24, 30];

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

pub(super) struct Slot {
    hash: u32,
    rule: u16,
    level: u8,
    was_told_early: bool,
    /// It is in the list of those whose incident went on.
    went_on: bool,
    /// As accounted for last.
    bytes: u32,
    waiting: u32,
    /// The watermark at which the state has to be called.
    timer: i64,
    /// The earliest entry in each queue of timers.
    queued: [i64; 2],
    /// Time of the latest event that it was given: what waits is remembered for a timespan from there.
    latest: i64,
    key: Key,
    state: State,
}

impl Slot {
    /// Something of each part of its memory.
    fn look(&self) -> usize {
        self.state.waiting()
            ^ usize::from(self.state.incident().is_some())
            ^ self.key.bytes().len()
            ^ self.timer as usize
    }
}

/// The keys of one rule.
#[derive(Default)]
struct Table {
    /// Hash and place.
    places: HashTable<(u32, u32)>,
    bytes: usize,
    /// When each key is forgotten anyway.
    expiry: BinaryHeap<Reverse<Entry>>,
}

pub(super) struct Keys {
    bounds: Bounds,
    tables: Vec<Table>,
    slots: Slab<Slot>,
    /// By level: keys in which events wait, and others.
    timers: Vec<[Calendar; 2]>,
    /// Entries of all of them.
    queued: usize,
    hasher: RandomState,
    bytes: usize,
    waiting: usize,
    forgotten: Vec<Forgotten>,
    went_on: Vec<u32>,
    /// Keys that were looked at for being forgotten.
    looked_at: u64,
}

/// The table's own hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Keys {
    pub(super) fn new(rules: usize, bounds: Bounds) -> Self {
        Self {
            bounds,
            tables: (0..rules).map(|_| Table::default()).collect(),
            slots: Slab::default(),
            timers: (0..MAX_CHAIN).map(|_| DAYS.map(Calendar::new)).collect(),
            queued: 0,
            hasher: RandomState::new(),
            bytes: 0,
            waiting: 0,
            forgotten: Vec::new(),
            went_on: Vec::new(),
            looked_at: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys that were looked at for being forgotten, those that were among them.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn hash(&self, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish() as u32
    }

    fn find(&self, rule: u16, key: &[u8], hash: u32) -> Option<u32> {
        let is = |(of, number): &(u32, u32)| {
            *of == hash && self.slots.get(*number).is_some_and(|slot| slot.key.bytes() == key)
        };
        self.tables[usize::from(rule)].places.find(spread(hash), is).map(|(_, number)| *number)
    }

    /// The hashes of several keys, whose places are then near. What lies far apart in memory is asked for at once, and not
    /// one after the other.
    pub(super) fn hashes(&self, fillings: &[Filling], hashes: &mut Vec<u32>) {
        hashes.clear();
        hashes.extend(fillings.iter().map(|filling| self.hash(&filling.key)));
        let mut seen = 0;
        for (filling, hash) in fillings.iter().zip(hashes) {
            let places = &self.tables[usize::from(filling.rule)].places;
            if let Some((_, number)) = places.find(spread(*hash), |(of, _)| of == hash) {
                seen ^= self.slots.get(*number).map_or(0, Slot::look);
            }
        }
        std::hint::black_box(seen);
    }

    /// Whether as many events of one key wait as may.
    pub(super) fn is_full(&self, rule: &Rule, key: &[u8]) -> bool {
        let slot = self.find(rule.number, key, self.hash(key)).and_then(|number| self.slots.get(number));
        slot.is_some_and(|slot| slot.state.is_full(rule))
    }

    /// The place of a key, a new one where nothing is remembered of it.
    pub(super) fn place(&mut self, rule: &Rule, key: &[u8]) -> u32 {
        self.place_of(rule, key, self.hash(key))
    }

    /// The same, of a key whose hash is known.
    pub(super) fn place_of(&mut self, rule: &Rule, key: &[u8], hash: u32) -> u32 {
        self.find(rule.number, key, hash).unwrap_or_else(|| self.insert(rule, key, hash, State::new(rule)))
    }

    /// The key at a place.
    pub(super) fn key(&self, number: u32) -> &[u8] {
        self.slots.get(number).map_or(&[], |slot| slot.key.bytes())
    }

    /// Steps the state of one key. The rules of keys that had to go, if any.
    pub(super) fn step(
        &mut self,
        automaton: &Automaton,
        rule: &Rule,
        number: u32,
        event: Option<&Filling>,
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<Vec<u16>> {
        let slot = self.slots.get_mut(number)?;
        let before = out.len();
        slot.latest = slot.latest.max(event.map_or(i64::MIN, |event| event.mark.time_ns));
        let timer = slot.state.step(rule, slot.key.bytes(), event, watermark, out);
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

    fn insert(&mut self, rule: &Rule, key: &[u8], hash: u32, state: State) -> u32 {
        let slot = Slot {
            hash,
            rule: rule.number,
            level: rule.level,
            was_told_early: false,
            went_on: false,
            bytes: 0,
            waiting: 0,
            timer: i64::MAX,
            queued: [i64::MAX; 2],
            latest: i64::MIN,
            key: Key::new(key),
            state,
        };
        let (number, generation) = self.slots.insert(slot);
        let table = &mut self.tables[usize::from(rule.number)];
        table.places.insert_unique(spread(hash), (hash, number), |(hash, _)| spread(*hash));
        table.expiry.push(Reverse((i64::MIN, number, generation)));
        // Entries of keys that are gone.
        if table.expiry.len() > 2 * table.places.len() + 1024 {
            let slots = &self.slots;
            table.expiry.retain(|Reverse((_, number, generation))| slots.is(*number, *generation));
            table.expiry.shrink_to_fit();
        }
        number
    }

    /// Accounts for a state after a step.
    fn keep(&mut self, number: u32, timer: i64) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let waiting = slot.state.waiting();
        let bytes = slot.state.weight() - size_of::<State>() + slot.key.weight() + Slab::<Slot>::EACH + QUEUED_BYTES;
        let table = &mut self.tables[usize::from(slot.rule)];
        self.bytes = self.bytes + bytes - slot.bytes as usize;
        table.bytes = table.bytes + bytes - slot.bytes as usize;
        self.waiting = self.waiting + waiting - slot.waiting as usize;
        (slot.timer, slot.bytes, slot.waiting) = (timer, bytes as u32, waiting as u32);
        self.queue(number);
    }

    /// Puts a key where its timer is found.
    fn queue(&mut self, number: u32) {
        let Some((slot, generation)) = self.slots.with_generation(number) else { return };
        let which = usize::from(slot.waiting == 0);
        if slot.timer >= slot.queued[which] {
            return;
        }
        slot.queued[which] = slot.timer;
        let entry = (slot.timer, number, generation);
        self.timers[usize::from(slot.level)][which].push(entry);
        self.queued += 1;
        if self.queued > 3 * self.slots.len() + 1024 {
            let (slots, mut queued) = (&self.slots, 0);
            for (which, calendar) in self.timers.iter_mut().flat_map(|both| (0..).zip(both)) {
                let is_so = |entry: &Entry| {
                    slots.is(entry.1, entry.2) && slots.get(entry.1).is_some_and(|it| it.queued[which] == entry.0)
                };
                calendar.retain(is_so);
                queued += calendar.len();
            }
            self.queued = queued;
        }
    }

    fn remove(&mut self, number: u32) {
        let Some(slot) = self.slots.remove(number) else { return };
        self.bytes -= slot.bytes as usize;
        self.waiting -= slot.waiting as usize;
        let table = &mut self.tables[usize::from(slot.rule)];
        table.bytes -= slot.bytes as usize;
        if let Ok(entry) = table.places.find_entry(spread(slot.hash), |(_, place)| *place == number) {
            entry.remove();
        }
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
            let Some(slot) = self.slots.get(number).filter(|_| self.slots.is(number, generation)) else { continue };
            self.looked_at += 1;
            // It changes with events of the key alone: else all that wait would be looked at again as time goes on.
            let waits = if slot.waiting > 0 { slot.latest.saturating_add(rule.timespan_ns) } else { i64::MIN };
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
                let (rule, key, members) = (slot.rule, slot.key.bytes().into(), slot.state.remembered(rule));
                self.forgotten.push(Forgotten { rule, key, incident, members });
            }
            self.remove(number);
            return true;
        }
        false
    }

    /// A key of this level whose timer the watermark has reached: its rule and place.
    pub(super) fn due(&mut self, level: u8, watermark: i64) -> Option<(u16, u32)> {
        for which in 0..2 {
            let calendar = &mut self.timers[usize::from(level)][which];
            if let Some(soon) = calendar.soon(AT_ONCE) {
                let seen = soon.iter().map(|entry| self.slots.get(entry.1).map_or(0, Slot::look));
                std::hint::black_box(seen.fold(0, |a, b| a ^ b));
            }
            while let Some((at, number, generation)) = self.timers[usize::from(level)][which].pop(watermark) {
                self.queued -= 1;
                let Some((slot, current)) = self.slots.with_generation(number) else { continue };
                if current != generation || at != slot.queued[which] {
                    continue;
                }
                slot.queued[which] = i64::MAX;
                if slot.timer <= watermark {
                    return Some((slot.rule, number));
                }
                self.queue(number);
            }
        }
        None
    }

    /// The earliest timer; a key's real one may be later.
    pub(super) fn next_ns(&mut self) -> Option<i64> {
        self.timers.iter_mut().flatten().filter_map(Calendar::first_ns).min()
    }

    /// What is certain of the key that was given an event last, at this place, and was not told.
    pub(super) fn preview(&mut self, rule: &Rule, number: u32) -> Option<(Arc<[u8]>, Certain)> {
        // Its place may have another one by now.
        let slot = self.slots.get_mut(number).filter(|slot| slot.rule == rule.number && !slot.was_told_early)?;
        let certain = slot.state.preview(rule, &[])?;
        slot.was_told_early = true;
        Some((slot.key.bytes().into(), certain))
    }

    /// What is remembered of a key.
    pub(super) fn state(&self, rule: u16, key: &[u8]) -> Option<&State> {
        let number = self.find(rule, key, self.hash(key))?;
        self.slots.get(number).map(|slot| &slot.state)
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten)
    }

    pub(super) fn take_progress(&mut self) -> Vec<(IncidentId, u32, u64)> {
        let numbers = std::mem::take(&mut self.went_on);
        let progress = numbers.into_iter().filter_map(|number| {
            let slot = self.slots.get_mut(number)?;
            slot.went_on = false;
            let (told, matches) = slot.state.progress()?;
            Some((slot.state.incident()?, told, matches))
        });
        progress.collect()
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (u16, &[u8], &State)> {
        self.slots.iter().map(|slot| (slot.rule, slot.key.bytes(), &slot.state))
    }

    pub(super) fn states_of(&self, rule: u16) -> impl Iterator<Item = (&[u8], &State)> {
        self.states().filter(move |(of, ..)| *of == rule).map(|(_, key, state)| (key, state))
    }

    /// Forgets all keys of a rule: others take their place.
    pub(super) fn drop_rule(&mut self, rule: u16) {
        let numbers: Vec<u32> = self.tables[usize::from(rule)].places.iter().map(|(_, number)| *number).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    /// Takes a state over.
    pub(super) fn put(&mut self, rule: &Rule, key: &[u8], state: State, timer: Option<i64>) {
        if let Some(timer) = timer {
            let number = self.insert(rule, key, self.hash(key), state);
            self.keep(number, timer);
        }
    }

    /// Gives the open incident of a key the id that a store knows, if it was given another.
    pub(super) fn rename(&mut self, number: u32, real: &[(IncidentId, IncidentId)], at_ns: i64) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        if let Some(id) = slot.state.incident()
            && let Some((_, new)) = real.iter().rev().find(|(old, _)| *old == id)
            && let Some((told, matches)) = slot.state.progress()
        {
            slot.state.resume(*new, at_ns, told, matches);
        }
    }

    /// Gives all open incidents what a store knows of them.
    pub(super) fn resume(&mut self, automaton: &Automaton, known: &dyn Known, watermark: i64) {
        for slot in self.slots.iter_mut() {
            let version = &automaton.rules()[usize::from(slot.rule)].version;
            if slot.state.incident().is_some()
                && let Some((id, opened_ns, told, matches)) = known.open_at(version, slot.key.bytes(), watermark)
            {
                slot.state.resume(id, opened_ns, told, matches);
            }
        }
    }
}
