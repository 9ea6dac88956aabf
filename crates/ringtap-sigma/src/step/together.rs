//! Owns: the window of steps in any order: the newest event of each.
//! Does not: know which event came before which.

use alloc::vec::Vec;

use super::entry::Entry;
use crate::automaton::Formula;
use crate::bytes::{Damaged, Reader, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Together(Vec<Option<Entry>>);

impl Together {
    pub(super) fn new(places: u8) -> Self {
        Self(alloc::vec![None; usize::from(places)])
    }

    /// An event fills every step that it matches.
    pub(super) fn push(&mut self, places: u32, entry: Entry) {
        for (place, newest) in (0u32..).zip(&mut self.0) {
            if places >> place & 1 == 1 {
                *newest = Some(entry);
            }
        }
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        for newest in &mut self.0 {
            *newest = newest.filter(|entry| entry.time() >= oldest);
        }
    }

    /// The time that all of a sufficient set of steps reach back to: the latest that can be had.
    pub(super) fn start(&self, formula: &Formula) -> Option<i64> {
        match formula {
            Formula::Place(place) => self.0.get(usize::from(*place))?.as_ref().map(Entry::time),
            Formula::All(list) => list.iter().map(|item| self.start(item)).try_fold(i64::MAX, |a, b| Some(a.min(b?))),
            Formula::Any(list) => list.iter().filter_map(|item| self.start(item)).max(),
            Formula::AtLeast(least) => {
                let mut times = [i64::MIN; crate::limits::MAX_INPUTS];
                let filled = self.0.iter().flatten().zip(&mut times).map(|(entry, time)| *time = entry.time()).count();
                let wanted = usize::from(*least);
                if filled < wanted {
                    return None;
                }
                times.sort_unstable_by(|a, b| b.cmp(a));
                Some(times[wanted - 1])
            }
        }
    }

    pub(super) fn weight(&self) -> usize {
        self.0.len() * size_of::<Option<Entry>>()
    }

    /// The steps that are filled.
    pub(super) fn places(&self) -> u32 {
        (0u32..).zip(&self.0).filter(|(_, entry)| entry.is_some()).map(|(place, _)| 1 << place).sum()
    }

    pub(super) fn newest(&self) -> Option<i64> {
        self.0.iter().flatten().map(Entry::time).max()
    }

    /// Each event once, at the first step it fills; in the order of time.
    pub(super) fn members(&self) -> Vec<(u8, Entry)> {
        let mut members: Vec<(u8, Entry)> = Vec::new();
        for (place, entry) in (0u8..).zip(&self.0) {
            members.extend(
                entry.filter(|entry| !members.iter().any(|(_, known)| known == entry)).map(|entry| (place, entry)),
            );
        }
        members.sort_by_key(|(place, entry)| (entry.time(), *place));
        members
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        self.0.iter().for_each(|entry| w.option(entry.as_ref(), |w, entry| entry.write(w)));
    }

    pub(super) fn read(r: &mut Reader<'_>, places: u8) -> Result<Self, Damaged> {
        (0..places).map(|_| r.option(Entry::read)).collect::<Result<_, _>>().map(Self)
    }
}
