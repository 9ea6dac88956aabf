//! Owns: the states of all keys, and their timers; in `room`, who is forgotten when they take more memory than they may.
//! Does not: match events or hand hits up.
//!
//! Rules whose key is the same have one place in memory. An event waits there for the watermark, once for all of them, as
//! long as nothing can come of it before: then nothing but this place is looked at, and the states only when its time has
//! come.
//!
//! Queues of timers are lazy: an entry that comes too early is put back. What is no longer so is dropped when it is more
//! than a third of them.
//!
//! A key is found by a hash that nobody outside can foretell (SipHash with a random seed): who chooses keys can't make many
//! of them meet. Nothing that is told depends on it.

mod room;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use ringtap_sigma::limits::MAX_CHAIN;
use ringtap_sigma::{Automaton, Certain, Fill, Filling, IncidentId, Mark, Output, Reach, Rule, State};
use smallvec::SmallVec;

use crate::engine::Known;
use crate::engine::calendar::{Calendar, Entry};
use crate::engine::slab::Slab;
use crate::engine::slot::{Arrival, Kept, MOST_ARRIVALS, Slot};
use room::Table;
pub use room::{Bounds, Forgotten};

/// Keys whose memory is asked for at once.
const AT_ONCE: usize = 16;
/// Queues of keys in which events wait, and of others: a day of the first is 17 ms, of the second a second.
const DAYS: [u32; 2] = [24, 30];
/// An event whose time is farther from 1970 does not wait with its key, ns.
const FAR_NS: u64 = 1 << 61;

/// What one event gives to rules, by their keys.
#[derive(Default)]
pub(in crate::engine) struct Groups {
    all: Vec<Group>,
    /// The group of each filling.
    of: Vec<u16>,
}

#[derive(Clone, Copy)]
struct Group {
    level: u8,
    hash: u32,
    /// A filling of it.
    first: usize,
    is_deferred: bool,
}

impl Groups {
    /// Whether a filling waits with its key.
    pub(in crate::engine) fn is_deferred(&self, filling: usize) -> bool {
        self.group(filling).is_deferred
    }

    pub(in crate::engine) fn hash(&self, filling: usize) -> u32 {
        self.group(filling).hash
    }

    fn group(&self, filling: usize) -> Group {
        self.all[usize::from(self.of[filling])]
    }
}

pub(in crate::engine) struct Keys {
    bounds: Bounds,
    /// By level: hash and place of each key.
    index: Vec<HashTable<(u32, u32)>>,
    tables: Vec<Table>,
    slots: Slab<Slot>,
    states: Slab<Kept>,
    /// Keys of which no rule has a state.
    bare: usize,
    /// By level: keys in which events wait, and others.
    timers: Vec<[Calendar; 2]>,
    /// Entries of all of them.
    queued: usize,
    hasher: RandomState,
    bytes: usize,
    /// A rule has more than its share.
    is_over: bool,
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
    pub(in crate::engine) fn new(rules: usize, bounds: Bounds) -> Self {
        Self {
            bounds,
            index: (0..MAX_CHAIN).map(|_| HashTable::new()).collect(),
            tables: (0..rules).map(|_| Table::default()).collect(),
            slots: Slab::default(),
            states: Slab::default(),
            bare: 0,
            timers: (0..MAX_CHAIN).map(|_| DAYS.map(Calendar::new)).collect(),
            queued: 0,
            hasher: RandomState::new(),
            bytes: 0,
            is_over: false,
            waiting: 0,
            forgotten: Vec::new(),
            went_on: Vec::new(),
            looked_at: 0,
        }
    }

    /// Keys, once for each rule that has a state of it; and those for which events wait alone.
    pub(in crate::engine) fn len(&self) -> usize {
        self.states.len() + self.bare
    }

    pub(in crate::engine) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys that were looked at for being forgotten, those that were among them.
    pub(in crate::engine) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    pub(in crate::engine) fn waiting(&self) -> usize {
        self.waiting
    }

    fn hash(&self, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish() as u32
    }

    fn find(&self, level: u8, key: &[u8], hash: u32) -> Option<u32> {
        let is = |(of, number): &(u32, u32)| {
            *of == hash && self.slots.get(*number).is_some_and(|slot| slot.key.bytes() == key)
        };
        self.index[usize::from(level)].find(spread(hash), is).map(|(_, number)| *number)
    }

    /// Which fillings of an event have one key. What lies far apart in memory is asked for at once, and not one after the
    /// other.
    pub(in crate::engine) fn groups(&self, automaton: &Automaton, fillings: &[Filling], groups: &mut Groups) {
        let Groups { all, of } = groups;
        all.clear();
        of.clear();
        for (first, filling) in fillings.iter().enumerate() {
            let level = automaton.rules()[usize::from(filling.rule)].level;
            let same = |group: &Group| group.level == level && fillings[group.first].key == filling.key;
            let at = all.iter().position(same).unwrap_or_else(|| {
                all.push(Group { level, hash: self.hash(&filling.key), first, is_deferred: false });
                all.len() - 1
            });
            of.push(at as u16);
        }
        let mut seen = 0;
        for group in all {
            let index = &self.index[usize::from(group.level)];
            if let Some((_, number)) = index.find(spread(group.hash), |(of, _)| *of == group.hash) {
                seen ^= self.slots.get(*number).map_or(0, Slot::look);
            }
        }
        std::hint::black_box(seen);
    }

    /// Lets an event wait with each of its keys, once for all rules that have it, where nothing can come of that before the
    /// watermark and memory is not scarce. `early`: matches are told as soon as they are certain.
    pub(in crate::engine) fn defer(
        &mut self,
        automaton: &Automaton,
        fillings: &[Filling],
        groups: &mut Groups,
        early: bool,
    ) {
        for at in 0..groups.all.len() {
            let group = groups.all[at];
            let found = self.find(group.level, &fillings[group.first].key, group.hash);
            let own = fillings.iter().zip(&groups.of).filter(|(_, of)| usize::from(**of) == at);
            if !self.can_wait(automaton, found, own.clone().map(|(filling, _)| filling), early) {
                continue;
            }
            groups.all[at].is_deferred = true;
            let Filling { key, mark, .. } = &fillings[group.first];
            let fills: SmallVec<[Fill; 2]> = own.map(|(filling, _)| Fill::of(filling)).collect();
            self.waiting += fills.len();
            let number = found.unwrap_or_else(|| self.insert(group.level, key, group.hash));
            if let Some(slot) = self.slots.get_mut(number) {
                slot.arrivals.push(Arrival { mark: *mark, fills });
            }
            self.settle(number);
        }
    }

    /// Whether an event may wait with its key.
    fn can_wait<'f>(
        &self,
        automaton: &Automaton,
        number: Option<u32>,
        fillings: impl Iterator<Item = &'f Filling>,
        early: bool,
    ) -> bool {
        let slot = number.and_then(|number| self.slots.get(number));
        if slot.is_some_and(|slot| slot.waiting > 0 || slot.arrivals.len() >= MOST_ARRIVALS) {
            return false;
        }
        // What waits here is not forgotten: it must not take the last memory.
        let is_scarce = |bytes: usize, most: usize| bytes > most / 8 * 7;
        if is_scarce(self.bytes, self.bounds.bytes) || (automaton.limits().waiting as usize) < 2 * MOST_ARRIVALS {
            return false;
        }
        { fillings }.all(|filling| {
            let rule = &automaton.rules()[usize::from(filling.rule)];
            let could = || {
                let (places, events) = slot.map_or((0, 0), |slot| slot.coming(rule.number));
                let reach = slot.map_or(Reach::NOTHING, |slot| slot.reach(rule.number));
                rule.could(reach, places | filling.places, events + 1)
            };
            filling.mark.time_ns.unsigned_abs() <= FAR_NS
                && !is_scarce(self.tables[usize::from(rule.number)].bytes, self.bounds.bytes / 2)
                && !(early && (rule.is_consumed() || rule.announces && could()))
        })
    }

    /// Whether as many events of one key wait as may.
    pub(in crate::engine) fn is_full(&self, rule: &Rule, key: &[u8]) -> bool {
        self.state(rule, key).is_some_and(|state| state.is_full(rule))
    }

    /// The place of a key, a new one where nothing is remembered of it.
    pub(in crate::engine) fn place(&mut self, rule: &Rule, key: &[u8]) -> u32 {
        self.place_of(rule, key, self.hash(key))
    }

    /// The same, of a key whose hash is known.
    pub(in crate::engine) fn place_of(&mut self, rule: &Rule, key: &[u8], hash: u32) -> u32 {
        self.find(rule.level, key, hash).unwrap_or_else(|| self.insert(rule.level, key, hash))
    }

    /// The key at a place.
    pub(in crate::engine) fn key(&self, number: u32) -> &[u8] {
        self.slots.get(number).map_or(&[], |slot| slot.key.bytes())
    }

    /// Gives an event to the state of one key. The rules of keys that had to go, if any.
    pub(in crate::engine) fn give(
        &mut self,
        automaton: &Automaton,
        number: u32,
        event: &Filling,
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<Vec<u16>> {
        self.hand_over(automaton, number, watermark, out);
        let rule = &automaton.rules()[usize::from(event.rule)];
        let step =
            |state: &mut State, key: &[u8], out: &mut Vec<Output>| state.step(rule, key, Some(event), watermark, out);
        self.with_state(rule, number, event.mark.time_ns, out, step);
        self.settle(number);
        self.make_room(automaton, watermark, out)
    }

    /// Gives the events that wait with a key to its states, where they go on waiting.
    fn hand_over(&mut self, automaton: &Automaton, number: u32, watermark: i64, out: &mut Vec<Output>) {
        let Some(slot) = self.slots.get_mut(number).filter(|slot| !slot.arrivals.is_empty()) else { return };
        for Arrival { mark, fills } in std::mem::take(&mut slot.arrivals) {
            self.step_fills(automaton, number, mark, fills, out, |state, rule, key, fill, out| {
                state.step_fill(rule, key, (mark, fill), watermark, out)
            });
        }
    }

    /// The same with all keys.
    pub(in crate::engine) fn hand_all_over(&mut self, automaton: &Automaton, watermark: i64, out: &mut Vec<Output>) {
        let numbers: Vec<u32> = self.slots.numbers().collect();
        for number in numbers {
            self.hand_over(automaton, number, watermark, out);
            self.settle(number);
        }
    }

    /// Does all with a key that the watermark, `before` until now, has come to. The rules of keys that had to go, if any.
    pub(in crate::engine) fn pass(
        &mut self,
        automaton: &Automaton,
        number: u32,
        (before, watermark): (i64, i64),
        out: &mut Vec<Output>,
    ) -> Option<Vec<u16>> {
        let due = self.slots.get_mut(number)?.take_due(watermark);
        let is_one = due.len() == 1;
        for Arrival { mark, fills } in due {
            self.step_fills(automaton, number, mark, fills, out, |state, rule, key, fill, out| match is_one {
                true => state.pass_fill(rule, key, (mark, fill), watermark, out),
                // Which of them comes first is the state's to say.
                false => state.step_fill(rule, key, (mark, fill), before, out),
            });
        }
        let mut at = 0;
        while let Some(place) = self.slots.get(number).and_then(|slot| slot.states.get(at).copied()) {
            if place.timer <= watermark {
                let rule = &automaton.rules()[usize::from(place.rule)];
                let step =
                    |state: &mut State, key: &[u8], out: &mut Vec<Output>| state.step(rule, key, None, watermark, out);
                if !self.with_state(rule, number, i64::MIN, out, step) {
                    continue;
                }
            }
            at += 1;
        }
        self.settle(number);
        self.make_room(automaton, watermark, out)
    }

    fn step_fills(
        &mut self,
        automaton: &Automaton,
        number: u32,
        mark: Mark,
        fills: SmallVec<[Fill; 2]>,
        out: &mut Vec<Output>,
        step: impl Fn(&mut State, &Rule, &[u8], Fill, &mut Vec<Output>) -> Option<i64>,
    ) {
        self.waiting -= fills.len();
        for fill in fills {
            let rule = &automaton.rules()[usize::from(fill.rule)];
            let step = |state: &mut State, key: &[u8], out: &mut Vec<Output>| step(state, rule, key, fill, out);
            self.with_state(rule, number, mark.time_ns, out, step);
        }
    }

    /// Steps the state of a rule, and accounts for it; false: there is none any more, and another one may have its place in
    /// the list. `latest`: when the event was that it is given.
    fn with_state(
        &mut self,
        rule: &Rule,
        number: u32,
        latest: i64,
        out: &mut Vec<Output>,
        step: impl FnOnce(&mut State, &[u8], &mut Vec<Output>) -> Option<i64>,
    ) -> bool {
        let Self { slots, states, .. } = self;
        let Some(slot) = slots.get_mut(number) else { return false };
        let before = out.len();
        let Some(at) = slot.position(rule.number) else {
            let mut state = State::new(rule);
            let timer = step(&mut state, slot.key.bytes(), out);
            let kept = Kept { latest, ..Kept::new(rule.number, number, state) };
            return timer.is_some_and(|timer| self.put_kept(rule, kept, timer, out.len() > before));
        };
        let place = slot.states[at].number;
        let Some(kept) = states.get_mut(place) else { return false };
        kept.latest = kept.latest.max(latest);
        let timer = step(&mut kept.state, slot.key.bytes(), out);
        match timer {
            None => self.remove_state(number, at),
            Some(timer) => self.keep(rule, number, at, timer, out.len() > before),
        }
        timer.is_some()
    }

    /// A new key.
    fn insert(&mut self, level: u8, key: &[u8], hash: u32) -> u32 {
        let (number, _) = self.slots.insert(Slot::new(level, key, hash));
        self.index[usize::from(level)].insert_unique(spread(hash), (hash, number), |(hash, _)| spread(*hash));
        number
    }

    /// Accounts for a key after its states have changed, and puts it where its timer is found.
    fn settle(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let is_bare = slot.states.is_empty() && !slot.arrivals.is_empty();
        self.bare = self.bare + usize::from(is_bare) - usize::from(std::mem::replace(&mut slot.is_bare, is_bare));
        let charged = if slot.is_empty() { (0, 0) } else { (slot.owner(), slot.weight() as u32) };
        let (rule, bytes) = std::mem::replace(&mut slot.charged, charged);
        if (rule, bytes) != charged {
            self.bytes = self.bytes + charged.1 as usize - bytes as usize;
            self.tables[usize::from(rule)].bytes -= bytes as usize;
            let owner = &mut self.tables[usize::from(charged.0)];
            owner.bytes += charged.1 as usize;
            self.is_over |= owner.bytes > self.bounds.bytes / 2;
        }
        if slot.is_empty() {
            return self.remove(number);
        }
        slot.timer = slot.next_ns();
        self.queue(number);
    }

    /// Puts a key where its timer is found.
    fn queue(&mut self, number: u32) {
        let Some((slot, generation)) = self.slots.with_generation(number) else { return };
        let which = usize::from(slot.waiting == 0 && slot.arrivals.is_empty());
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

    /// Takes a key that nothing is remembered of.
    fn remove(&mut self, number: u32) {
        let Some(slot) = self.slots.remove(number) else { return };
        let index = &mut self.index[usize::from(slot.level)];
        if let Ok(entry) = index.find_entry(spread(slot.hash), |(_, place)| *place == number) {
            entry.remove();
        }
    }

    /// A key of this level whose timer the watermark has reached: its place.
    pub(in crate::engine) fn due(&mut self, level: u8, watermark: i64) -> Option<u32> {
        for which in 0..2 {
            if let Some(soon) = self.timers[usize::from(level)][which].soon(AT_ONCE) {
                // First all keys, then what they name.
                let slots = || soon.iter().filter_map(|entry| self.slots.get(entry.1));
                let mut seen = slots().fold(0, |seen, slot| seen ^ slot.look());
                let places = slots().flat_map(|slot| &slot.states);
                seen ^= places.fold(0, |seen, place| seen ^ self.states.get(place.number).map_or(0, Kept::look));
                std::hint::black_box(seen);
            }
            while let Some((at, number, generation)) = self.timers[usize::from(level)][which].pop(watermark) {
                self.queued -= 1;
                let Some((slot, current)) = self.slots.with_generation(number) else { continue };
                if current != generation || at != slot.queued[which] {
                    continue;
                }
                slot.queued[which] = i64::MAX;
                if slot.timer <= watermark {
                    return Some(number);
                }
                self.queue(number);
            }
        }
        None
    }

    /// The earliest timer; a key's real one may be later.
    pub(in crate::engine) fn next_ns(&mut self) -> Option<i64> {
        self.timers.iter_mut().flatten().filter_map(Calendar::first_ns).min()
    }

    /// What is certain of the key that was given an event last, at this place, and was not told.
    pub(in crate::engine) fn preview(&mut self, rule: &Rule, number: u32) -> Option<(Arc<[u8]>, Certain)> {
        // Its place may have another one by now.
        let slot = self.slots.get(number)?;
        let place = slot.states[slot.position(rule.number)?].number;
        let kept = self.states.get_mut(place).filter(|kept| !kept.was_told_early)?;
        let certain = kept.state.preview(rule, &[])?;
        kept.was_told_early = true;
        Some((slot.key.bytes().into(), certain))
    }

    /// What is remembered of a key, events aside that wait with it for all its rules.
    pub(in crate::engine) fn state(&self, rule: &Rule, key: &[u8]) -> Option<&State> {
        let slot = self.slots.get(self.find(rule.level, key, self.hash(key))?)?;
        let place = slot.states[slot.position(rule.number)?];
        self.states.get(place.number).map(|kept| &kept.state)
    }

    pub(in crate::engine) fn take_forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten)
    }

    pub(in crate::engine) fn take_progress(&mut self) -> Vec<(IncidentId, u32, u64)> {
        let numbers = std::mem::take(&mut self.went_on);
        let progress = numbers.into_iter().filter_map(|number| {
            let kept = self.states.get_mut(number)?;
            kept.went_on = false;
            let (told, matches) = kept.state.progress()?;
            Some((kept.state.incident()?, told, matches))
        });
        progress.collect()
    }

    pub(in crate::engine) fn states(&self) -> impl Iterator<Item = (u16, &[u8], &State)> {
        self.states.iter().map(|kept| (kept.rule, self.key(kept.slot), &kept.state))
    }

    /// Forgets all keys of rules: others take their place.
    pub(in crate::engine) fn drop_rules(&mut self, is_dropped: impl Fn(u16) -> bool) {
        let numbers: Vec<u32> = self.slots.numbers().collect();
        for number in numbers {
            let gone = |this: &Self| this.slots.get(number)?.states.iter().position(|place| is_dropped(place.rule));
            while let Some(at) = gone(self) {
                self.remove_state(number, at);
            }
            self.settle(number);
        }
    }

    /// Takes a state over.
    pub(in crate::engine) fn put(&mut self, rule: &Rule, key: &[u8], state: State, timer: Option<i64>) {
        if let Some(timer) = timer {
            let number = self.place(rule, key);
            self.put_kept(rule, Kept::new(rule.number, number, state), timer, false);
            self.settle(number);
        }
    }

    /// Gives the open incidents of a key the ids that a store knows, where they were given others.
    pub(in crate::engine) fn rename(&mut self, number: u32, real: &[(IncidentId, IncidentId)], at_ns: i64) {
        for place in self.slots.get(number).map_or(&[][..], |slot| &slot.states) {
            let Some(kept) = self.states.get_mut(place.number) else { continue };
            if let Some(id) = kept.state.incident()
                && let Some((_, new)) = real.iter().rev().find(|(old, _)| *old == id)
                && let Some((told, matches)) = kept.state.progress()
            {
                kept.state.resume(*new, at_ns, told, matches);
            }
        }
    }

    /// Gives all open incidents what a store knows of them.
    pub(in crate::engine) fn resume(&mut self, automaton: &Automaton, known: &dyn Known, watermark: i64) {
        for kept in self.states.iter_mut() {
            let version = &automaton.rules()[usize::from(kept.rule)].version;
            let key = self.slots.get(kept.slot).map_or(&[][..], |slot| slot.key.bytes());
            if kept.state.incident().is_some()
                && let Some((id, opened_ns, told, matches)) = known.open_at(version, key, watermark)
            {
                kept.state.resume(id, opened_ns, told, matches);
            }
        }
    }
}
