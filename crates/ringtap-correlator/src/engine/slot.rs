//! Owns: one key: the states of the rules that have it, and the events that came for them and wait for the watermark.
//! Does not: step states, or account for memory.

use ringtap_sigma::{Fill, Mark, Reach, State};
use smallvec::SmallVec;

use super::key::Key;
use super::slab::Slab;

/// Events that wait with their key; further ones are given to the states.
pub(super) const MOST_ARRIVALS: usize = 8;
/// Memory of a key in the table and the queue of timers, whose room is doubled when it ends.
const QUEUED_BYTES: usize = 128;

/// The state of one rule.
pub(super) struct Kept {
    pub(super) rule: u16,
    pub(super) was_told_early: bool,
    /// It is in the list of those whose incident went on.
    pub(super) went_on: bool,
    /// As accounted for last.
    pub(super) bytes: u32,
    pub(super) waiting: u32,
    /// Where its key is.
    pub(super) slot: u32,
    /// Time of the latest event that it was given: what waits is remembered for a timespan from there.
    pub(super) latest: i64,
    pub(super) state: State,
}

impl Kept {
    pub(super) fn new(rule: u16, slot: u32, state: State) -> Self {
        let (was_told_early, went_on) = (false, false);
        Self { rule, was_told_early, went_on, bytes: 0, waiting: 0, slot, latest: i64::MIN, state }
    }

    /// Something of each part of its memory.
    pub(super) fn look(&self) -> usize {
        self.state.waiting() ^ usize::from(self.state.incident().is_some()) ^ self.latest as usize
    }
}

/// What is known of a state without a look at it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) rule: u16,
    pub(super) reach: Reach,
    /// Where the state is.
    pub(super) number: u32,
    /// The watermark at which it has to be called.
    pub(super) timer: i64,
}

/// An event, and what it is to the rules that have this key of it.
pub(super) struct Arrival {
    pub(super) mark: Mark,
    pub(super) fills: SmallVec<[Fill; 2]>,
}

impl Arrival {
    fn weight(&self) -> usize {
        let spilled = if self.fills.spilled() { self.fills.capacity() * size_of::<Fill>() } else { 0 };
        spilled + self.fills.iter().map(Fill::weight).sum::<usize>()
    }
}

/// One key.
pub(super) struct Slot {
    pub(super) hash: u32,
    pub(super) level: u8,
    /// No rule has a state.
    pub(super) is_bare: bool,
    /// The rule that its memory is accounted to, and how much.
    pub(super) charged: (u16, u32),
    /// Events that wait in states.
    pub(super) waiting: u32,
    /// The watermark at which something has to be done.
    pub(super) timer: i64,
    /// The earliest entry in each queue of timers.
    pub(super) queued: [i64; 2],
    pub(super) key: Key,
    pub(super) arrivals: SmallVec<[Arrival; 1]>,
    pub(super) states: SmallVec<[Place; 4]>,
}

impl Slot {
    pub(super) fn new(level: u8, key: &[u8], hash: u32) -> Self {
        Self {
            hash,
            level,
            is_bare: false,
            charged: (0, 0),
            waiting: 0,
            timer: i64::MAX,
            queued: [i64::MAX; 2],
            key: Key::new(key),
            arrivals: SmallVec::new(),
            states: SmallVec::new(),
        }
    }

    /// Something of each part of its memory.
    pub(super) fn look(&self) -> usize {
        let state = self.states.first().map_or(0, |place| place.number as usize);
        self.key.bytes().len() ^ self.arrivals.len() ^ self.timer as usize ^ state
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrivals.is_empty() && self.states.is_empty()
    }

    /// Where a rule's state is in the list.
    pub(super) fn position(&self, rule: u16) -> Option<usize> {
        self.states.iter().position(|place| place.rule == rule)
    }

    /// How far a rule's condition has come.
    pub(super) fn reach(&self, rule: u16) -> Reach {
        self.position(rule).map_or(Reach::NOTHING, |at| self.states[at].reach)
    }

    /// The steps of a rule that waiting events fill, and how many these are.
    pub(super) fn coming(&self, rule: u16) -> (u32, u32) {
        let fills = self.arrivals.iter().flat_map(|arrival| &arrival.fills).filter(|fill| fill.rule == rule);
        fills.fold((0, 0), |(places, count), fill| (places | fill.places, count + 1))
    }

    /// The events that the watermark has come to.
    pub(super) fn take_due(&mut self, watermark: i64) -> SmallVec<[Arrival; 1]> {
        let is_due = |arrival: &Arrival| arrival.mark.time_ns <= watermark;
        if self.arrivals.iter().all(is_due) {
            return std::mem::take(&mut self.arrivals);
        }
        let (due, rest) = std::mem::take(&mut self.arrivals).into_iter().partition(is_due);
        self.arrivals = rest;
        due
    }

    /// The earliest timer of all that it has.
    pub(super) fn next_ns(&self) -> i64 {
        let arrivals = self.arrivals.iter().map(|arrival| arrival.mark.time_ns);
        arrivals.chain(self.states.iter().map(|place| place.timer)).min().unwrap_or(i64::MAX)
    }

    /// A rule that it is there for.
    pub(super) fn owner(&self) -> u16 {
        let arrival = || self.arrivals.first()?.fills.first().map(|fill| fill.rule);
        self.states.first().map(|place| place.rule).or_else(arrival).unwrap_or_default()
    }

    /// Bytes that it takes beside its states.
    pub(super) fn weight(&self) -> usize {
        let arrivals = if self.arrivals.spilled() { self.arrivals.capacity() * size_of::<Arrival>() } else { 0 };
        let states = if self.states.spilled() { self.states.capacity() * size_of::<Place>() } else { 0 };
        let waiting: usize = self.arrivals.iter().map(Arrival::weight).sum();
        Slab::<Self>::EACH + QUEUED_BYTES + self.key.weight() + arrivals + states + waiting
    }
}
