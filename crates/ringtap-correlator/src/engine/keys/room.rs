//! Owns: the memory of all states: what each takes, and who is forgotten when they take more than they may.
//! Does not: step states.
//!
//! A rule may take half of what all may, so that a flood of keys of one rule starves no other. What goes is the key of
//! that rule which is nearest to its expiry. The queue is lazy: an entry that comes too early is put back. What is no
//! longer so is dropped when it is half of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use ringtap_sigma::{Automaton, IncidentId, Member, Output, Reach, Rule, State};

use super::Keys;
use crate::engine::calendar::Entry;
use crate::engine::slab::Slab;
use crate::engine::slot::{Kept, Place};

/// Keys that were forgotten and are told with all that they knew, between two times that somebody asks.
const TOLD: usize = 16;
/// Memory of a state in the queue of those to forget, whose room is doubled when it ends.
const QUEUED_BYTES: usize = 64;

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

/// The keys of one rule.
#[derive(Default)]
pub(super) struct Table {
    /// Keys of which it has a state.
    pub(super) states: usize,
    pub(super) bytes: usize,
    /// When each state is forgotten anyway; those that were not put there yet, with how often their number was used.
    expiry: BinaryHeap<Reverse<Entry>>,
    fresh: Vec<(u32, u32)>,
}

impl Keys {
    /// Adds a state to its key.
    pub(super) fn put_kept(&mut self, rule: &Rule, kept: Kept, timer: i64, has_said: bool) -> bool {
        let number = kept.slot;
        let Some(slot) = self.slots.get_mut(number) else { return false };
        let (place, generation) = self.states.insert(kept);
        slot.states.push(Place { rule: rule.number, reach: Reach::NOTHING, number: place, timer });
        let at = slot.states.len() - 1;
        let table = &mut self.tables[usize::from(rule.number)];
        table.states += 1;
        table.fresh.push((place, generation));
        // Entries of states that are gone.
        if table.fresh.len() + table.expiry.len() > 2 * table.states + 1024 {
            let states = &self.states;
            table.fresh.retain(|(number, generation)| states.is(*number, *generation));
            table.expiry.retain(|Reverse((_, number, generation))| states.is(*number, *generation));
            table.fresh.shrink_to_fit();
            table.expiry.shrink_to_fit();
        }
        self.keep(rule, number, at, timer, has_said);
        true
    }

    /// Accounts for a state after a step.
    pub(super) fn keep(&mut self, rule: &Rule, number: u32, at: usize, timer: i64, has_said: bool) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let place = &mut slot.states[at];
        let Some(kept) = self.states.get_mut(place.number) else { return };
        match kept.state.incident() {
            Some(_) if has_said && !std::mem::replace(&mut kept.went_on, true) => self.went_on.push(place.number),
            None if has_said => kept.was_told_early = false,
            _ => {}
        }
        (place.timer, place.reach) = (timer, kept.state.reach(rule));
        let waiting = kept.state.waiting();
        let bytes = kept.state.weight() - size_of::<State>() + Slab::<Kept>::EACH + QUEUED_BYTES;
        let table = &mut self.tables[usize::from(rule.number)];
        self.bytes = self.bytes + bytes - kept.bytes as usize;
        table.bytes = table.bytes + bytes - kept.bytes as usize;
        self.is_over |= table.bytes > self.bounds.bytes / 2;
        self.waiting = self.waiting + waiting - kept.waiting as usize;
        slot.waiting = slot.waiting + waiting as u32 - kept.waiting;
        (kept.bytes, kept.waiting) = (bytes as u32, waiting as u32);
    }

    /// Takes a state from its key.
    pub(super) fn remove_state(&mut self, number: u32, at: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let Some(kept) = self.states.remove(slot.states.swap_remove(at).number) else { return };
        slot.waiting -= kept.waiting;
        self.bytes -= kept.bytes as usize;
        self.waiting -= kept.waiting as usize;
        let table = &mut self.tables[usize::from(kept.rule)];
        table.bytes -= kept.bytes as usize;
        table.states -= 1;
    }

    /// Forgets keys until the bounds hold again: always of the rule that has the most. The rules, if any.
    pub(super) fn make_room(
        &mut self,
        automaton: &Automaton,
        watermark: i64,
        out: &mut Vec<Output>,
    ) -> Option<Vec<u16>> {
        if !self.is_over && self.bytes <= self.bounds.bytes {
            return None;
        }
        let mut gone = Vec::new();
        loop {
            let tables = (0..self.tables.len()).filter(|&table| self.tables[table].states > 0);
            let Some(most) = tables.max_by_key(|&table| self.tables[table].bytes) else { break };
            self.is_over = self.tables[most].bytes > self.bounds.bytes / 2;
            if !self.is_over && self.bytes <= self.bounds.bytes {
                break;
            }
            if !self.forget(&automaton.rules()[most], watermark, out) {
                break;
            }
            gone.push(most as u16);
        }
        Some(gone)
    }

    /// Forgets the key of a rule that is nearest to its expiry; false when there is none.
    pub(super) fn forget(&mut self, rule: &Rule, watermark: i64, out: &mut Vec<Output>) -> bool {
        let table = &mut self.tables[usize::from(rule.number)];
        table.expiry.extend(table.fresh.drain(..).map(|(number, generation)| Reverse((i64::MIN, number, generation))));
        while let Some(Reverse((at, number, generation))) = self.tables[usize::from(rule.number)].expiry.pop() {
            let Some(kept) = self.states.get(number).filter(|_| self.states.is(number, generation)) else { continue };
            let Some(slot) = self.slots.get(kept.slot) else { continue };
            let Some(place) = slot.position(rule.number) else { continue };
            self.looked_at += 1;
            // It changes with events of the key alone: else all that wait would be looked at again as time goes on.
            let latest = slot.arrivals.iter().map(|arrival| arrival.mark.time_ns).max();
            let latest = latest.max((kept.waiting > 0).then_some(kept.latest));
            let waits = latest.map_or(i64::MIN, |latest| latest.saturating_add(rule.timespan_ns));
            let timer = slot.states[place].timer;
            let expires = timer.max(waits).max(kept.state.expires_ns(rule).unwrap_or(i64::MIN));
            if expires > at {
                self.tables[usize::from(rule.number)].expiry.push(Reverse((expires, number, generation)));
                continue;
            }
            let incident = kept.state.incident();
            if let Some(id) = incident {
                let matches = kept.state.progress().map_or(0, |(_, matches)| matches);
                let at_ns = watermark;
                out.push(Output::Closed(ringtap_sigma::Closed { id, rule: kept.rule, at_ns, matches }));
            }
            if self.forgotten.len() < TOLD {
                let (key, members) = (slot.key.bytes().into(), kept.state.remembered(rule));
                self.forgotten.push(Forgotten { rule: kept.rule, key, incident, members });
            }
            let number = kept.slot;
            self.remove_state(number, place);
            self.settle(number);
            return true;
        }
        false
    }
}
