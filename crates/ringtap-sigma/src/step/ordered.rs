//! Owns: the window of steps one after the other: for each step the chain that leads to it and begins latest.
//! Does not: go back: of all chains to a step only the one that begins latest can still be part of the first match to
//! come, so one is enough, and an event costs a constant for each step it fills.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::Entry;
use crate::bytes::{Damaged, Reader, Writer};

/// The last event of a chain, and the chain before it, which other chains may share.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    entry: Entry,
    /// Time of the chain's first event.
    start: i64,
    before: Option<Arc<Self>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// For each step the chain that ends with it.
    best: Vec<Option<Arc<Link>>>,
    /// The chain whose events were told last, while an incident is open.
    told: Option<Arc<Link>>,
}

impl Ordered {
    pub(super) fn new(places: u8) -> Self {
        Self { best: alloc::vec![None; usize::from(places)], told: None }
    }

    /// True if the event completes a chain. Steps are tried from last to first, so that an event is in a chain once.
    pub(super) fn push(&mut self, places: u32, entry: Entry) -> bool {
        let mut completes = false;
        for place in (0..self.best.len()).rev().filter(|place| places >> place & 1 == 1) {
            let before = match place.checked_sub(1) {
                None => None,
                Some(before) => match &self.best[before] {
                    None => continue,
                    before => before.clone(),
                },
            };
            let start = before.as_ref().map_or(entry.time(), |before| before.start);
            // Chains to the step before begin ever later: this one begins no earlier than the one it replaces.
            self.best[place] = Some(Arc::new(Link { entry, start, before }));
            completes |= place + 1 == self.best.len();
        }
        completes
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        for chain in &mut self.best {
            if chain.as_ref().is_some_and(|chain| chain.start < oldest) {
                *chain = None;
            }
        }
    }

    /// The steps that a chain leads to.
    pub(super) fn places(&self) -> u32 {
        (0u32..).zip(&self.best).filter(|(_, chain)| chain.is_some()).map(|(place, _)| 1 << place).sum()
    }

    /// A chain shares links with others: at most one of its own for each step it leads to.
    pub(super) fn weight(&self) -> usize {
        let links: usize = (1..).zip(&self.best).filter_map(|(len, chain)| chain.as_ref().map(|_| len)).sum();
        self.best.len() * size_of::<Option<Arc<Link>>>() + links * size_of::<Link>()
    }

    /// When the chains begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = i64> {
        self.best.iter().flatten().map(|chain| chain.start)
    }

    pub(super) fn start(&self) -> Option<i64> {
        self.best.last()?.as_ref().map(|chain| chain.start)
    }

    pub(super) fn newest(&self) -> Option<i64> {
        // What matters is when the last chain is forgotten.
        self.best.iter().flatten().map(|chain| chain.start).max()
    }

    pub(super) fn latest(&self) -> Option<i64> {
        self.best.iter().flatten().map(|chain| chain.entry.time()).max()
    }

    pub(super) fn members(&self) -> Vec<(u8, Entry)> {
        events(self.best.last().and_then(Option::as_ref))
    }

    /// The chain that leads furthest.
    pub(super) fn furthest(&self) -> Vec<(u8, Entry)> {
        events(self.best.iter().rev().flatten().next())
    }

    /// Adds the events of the complete chain that were not told, and puts all in the order of time.
    pub(super) fn further(&self, members: &mut Vec<(u8, Entry)>) {
        let told = events(self.told.as_ref());
        let last = self.best.len().saturating_sub(1) as u8;
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
        self.told = self.best.last().cloned().flatten();
    }

    pub(super) fn closed(&mut self) {
        self.told = None;
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        for chain in self.best.iter().chain([&self.told]) {
            let events = events(chain.as_ref());
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
            let mut chain: Option<Arc<Link>> = None;
            for _ in 0..len {
                let entry = Entry::read(r)?;
                let start = chain.as_ref().map_or(entry.time(), |before| before.start);
                if chain.as_ref().is_some_and(|before| before.entry.time() > entry.time()) {
                    return Err(r.damaged("events in their order"));
                }
                chain = Some(Arc::new(Link { entry, start, before: chain }));
            }
            match this.best.get_mut(usize::from(place)) {
                Some(best) => *best = chain,
                None => this.told = chain,
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
