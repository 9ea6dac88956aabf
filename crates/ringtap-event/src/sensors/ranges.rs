//! Owns: which sequences of an epoch are in, as ranges, in bounded memory.
//! Does not: know why one is missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Ranges that are kept apart: more holes than this are given up from the lowest on.
pub(super) const MOST: usize = 4096;

/// Sequences that are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds one; false: it was there.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if let Some(mut last) = self.0.last_entry()
            && last.get().checked_add(1) == Some(number)
        {
            *last.get_mut() = number;
            return true;
        }
        let before = self.0.range(..=number).next_back().map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| last >= number) {
            return false;
        }
        let first = before.filter(|(_, last)| last.checked_add(1) == Some(number)).map_or(number, |(first, _)| first);
        let behind = number.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(first, behind.unwrap_or(number));
        true
    }

    /// The lowest that is in.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(first, _)| *first)
    }

    /// Whether all of these are in; an empty span is.
    pub(super) fn has_all(&self, from: u64, through: u64) -> bool {
        from > through || self.0.range(..=from).next_back().is_some_and(|(_, last)| *last >= through)
    }

    /// How many of these are not in.
    pub(super) fn missing(&self, from: u64, through: u64) -> u64 {
        if from > through {
            return 0;
        }
        let begin = self.0.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let inside = self.0.range(begin..=through);
        let present: u64 = inside
            .filter(|(_, last)| **last >= from)
            .map(|(first, last)| (*last).min(through) - (*first).max(from) + 1)
            .sum();
        through - from + 1 - present
    }

    /// Closes the lowest hole when there are too many: its first and last sequence.
    pub(super) fn make_room(&mut self) -> Option<(u64, u64)> {
        if self.0.len() <= MOST {
            return None;
        }
        let (first, last) = self.0.pop_first()?;
        let (next, end) = self.0.pop_first()?;
        self.0.insert(first, end);
        Some((last + 1, next - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_set(numbers in proptest::collection::vec(0..40u64, 0..80), from in 0..40u64, through in 0..40u64) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.insert(number), set.insert(number));
            }
            let missing = (from..=through).filter(|number| !set.contains(number)).count() as u64;
            prop_assert_eq!(ranges.missing(from, through), missing);
            prop_assert_eq!(ranges.has_all(from, through), missing == 0);
            prop_assert_eq!(ranges.first(), set.first().copied());
        }
    }

    #[test]
    fn the_ends_and_the_bound() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(u64::MAX) && ranges.insert(u64::MAX - 1) && !ranges.insert(u64::MAX));
        assert!(ranges.has_all(u64::MAX - 1, u64::MAX) && ranges.missing(u64::MAX, u64::MAX) == 0);
        let mut holes = Ranges::default();
        let mut closed = Vec::new();
        for number in 0..=MOST as u64 {
            holes.insert(number * 10);
            closed.extend(holes.make_room());
        }
        assert_eq!(closed, [(1, 9)]);
        assert!(holes.0.len() == MOST && !holes.insert(5));
    }
}
