//! Owns: the window of steps one after the other: for each step the chain that leads to it and begins latest.
//! Does not: go back: of all chains to a step only the one that begins latest can still be part of the first match to
//! come, so one is enough, and an event costs a constant for each step it fills.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::entry::Entry;
use crate::bytes::{Damaged, Reader, Writer};

/// The last event of a chain, and the chain before it, which other chains may share.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    entry: Entry,
    before: Option<Arc<Self>>,
}

/// A chain of events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    /// Time of the first.
    start: i64,
    last: Arc<Link>,
}

/// Most rules have so few steps that their chains need no memory of their own.
type Chains = SmallVec<[Option<Chain>; 2]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// The newest event of the first step, in place: most keys never come farther.
    first: Option<Entry>,
    /// For each further step the chain that ends with it.
    best: Chains,
    /// The chain whose events were told last, while an incident is open.
    told: Option<Arc<Link>>,
}

impl Ordered {
    pub(super) fn new(places: u8) -> Self {
        Self { first: None, best: smallvec::smallvec![None; usize::from(places.max(1)) - 1], told: None }
    }

    /// True if the event completes a chain. Steps are tried from last to first, so that an event is in a chain once.
    pub(super) fn push(&mut self, places: u32, entry: Entry) -> bool {
        let mut completes = false;
        for place in (0..self.best.len()).rev().filter(|place| places >> (place + 1) & 1 == 1) {
            let before = match place.checked_sub(1) {
                None => self.only(),
                Some(before) => self.best[before].clone(),
            };
            let Some(Chain { start, last: before }) = before else { continue };
            let link = Link { entry, before: Some(before) };
            // Chains to the step before begin ever later: this one begins no earlier than the one it replaces.
            match &mut self.best[place] {
                Some(chain) => {
                    chain.start = start;
                    match Arc::get_mut(&mut chain.last) {
                        Some(last) => *last = link,
                        None => chain.last = Arc::new(link),
                    }
                }
                none => *none = Some(Chain { start, last: Arc::new(link) }),
            }
            completes |= place + 1 == self.best.len();
        }
        if places & 1 == 1 {
            self.first = Some(entry);
            completes |= self.best.is_empty();
        }
        completes
    }

    /// The first step's event as a chain that others can go on from.
    fn only(&self) -> Option<Chain> {
        self.first.map(|entry| Chain { start: entry.time(), last: Arc::new(Link { entry, before: None }) })
    }

    /// The complete chain.
    fn complete(&self) -> Option<Chain> {
        if self.best.is_empty() { self.only() } else { self.best.last()?.clone() }
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        self.first = self.first.filter(|entry| entry.time() >= oldest);
        for chain in &mut self.best {
            if chain.as_ref().is_some_and(|chain| chain.start < oldest) {
                *chain = None;
            }
        }
    }

    /// The steps that a chain leads to.
    pub(super) fn places(&self) -> u32 {
        let further: u32 =
            (1u32..).zip(&self.best).filter(|(_, chain)| chain.is_some()).map(|(place, _)| 1 << place).sum();
        further | u32::from(self.first.is_some())
    }

    /// A chain shares links with others: at most one of its own for each step it leads to.
    pub(super) fn weight(&self) -> usize {
        let links: usize = (2..).zip(&self.best).filter_map(|(len, chain)| chain.as_ref().map(|_| len)).sum();
        let spilled = if self.best.spilled() { self.best.capacity() * size_of::<Option<Chain>>() } else { 0 };
        spilled + links * (size_of::<Link>() + 2 * size_of::<usize>())
    }

    /// When the chains begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = i64> {
        self.first.iter().map(Entry::time).chain(self.best.iter().flatten().map(|chain| chain.start))
    }

    pub(super) fn start(&self) -> Option<i64> {
        match self.best.last() {
            None => self.first.map(|entry| entry.time()),
            Some(last) => last.as_ref().map(|chain| chain.start),
        }
    }

    pub(super) fn newest(&self) -> Option<i64> {
        // What matters is when the last chain is forgotten.
        self.starts().max()
    }

    pub(super) fn latest(&self) -> Option<i64> {
        let further = self.best.iter().flatten().map(|chain| chain.last.entry.time());
        self.first.iter().map(Entry::time).chain(further).max()
    }

    pub(super) fn members(&self) -> Vec<(u8, Entry)> {
        events(self.complete().as_ref().map(|chain| &chain.last))
    }

    /// The chain that leads furthest.
    pub(super) fn furthest(&self) -> Vec<(u8, Entry)> {
        match self.best.iter().rev().flatten().next() {
            None => self.first.iter().map(|entry| (0, *entry)).collect(),
            further => events(further.map(|chain| &chain.last)),
        }
    }

    /// Adds the events of the complete chain that were not told, and puts all in the order of time.
    pub(super) fn further(&self, members: &mut Vec<(u8, Entry)>) {
        let told = events(self.told.as_ref());
        let last = self.best.len() as u8;
        members.iter_mut().for_each(|(place, _)| *place = last);
        for member in self.members() {
            let is = |(_, entry): &(u8, Entry)| *entry == member.1;
            if !told.iter().chain(members.iter()).any(is) {
                members.push(member);
            }
        }
        members.sort_by_key(|(place, entry)| (entry.time(), *place));
    }

    pub(super) fn told(&mut self) {
        self.told = self.complete().map(|chain| chain.last);
    }

    pub(super) fn closed(&mut self) {
        self.told = None;
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.option(self.first.as_ref(), |w, entry| entry.write(w));
        let best = self.best.iter().map(|chain| chain.as_ref().map(|chain| &chain.last));
        for chain in best.chain([self.told.as_ref()]) {
            let events = events(chain);
            w.u8(events.len() as u8);
            events.iter().for_each(|(_, entry)| entry.write(w));
        }
    }

    pub(super) fn read(r: &mut Reader<'_>, places: u8) -> Result<Self, Damaged> {
        let mut this = Self::new(places);
        for place in 0..=places {
            let len = r.u8()?;
            let expected = if place < places { place + 1 } else { places };
            if len != 0 && len != expected {
                return Err(r.damaged("a chain of as many events as steps"));
            }
            let mut chain: Option<Chain> = None;
            for _ in 0..len {
                let entry = Entry::read(r)?;
                let start = chain.as_ref().map_or(entry.time(), |before| before.start);
                if chain.as_ref().is_some_and(|before| before.last.entry.time() > entry.time()) {
                    return Err(r.damaged("events in their order"));
                }
                let before = chain.map(|chain| chain.last);
                chain = Some(Chain { start, last: Arc::new(Link { entry, before }) });
            }
            match usize::from(place) {
                last if last == usize::from(places) => this.told = chain.map(|chain| chain.last),
                0 => this.first = chain.map(|chain| chain.last.entry),
                further => this.best[further - 1] = chain,
            }
        }
        Ok(this)
    }
}

/// A chain from its first event, with the steps.
fn events(chain: Option<&Arc<Link>>) -> Vec<(u8, Entry)> {
    let mut events = Vec::new();
    let mut next = chain;
    while let Some(link) = next {
        events.push((0, link.entry));
        next = link.before.as_ref();
    }
    events.reverse();
    for (place, (step, _)) in (0u8..).zip(&mut events) {
        *step = place;
    }
    events
}
