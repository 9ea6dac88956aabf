//! Owns: at which watermark which key is due, for any number of keys.
//! Does not: know whether a key is still there, or due later: whoever asks does, and says so again.
//!
//! Days as in a calendar, each a list in the order in which it was written; only the day that the watermark is in is a
//! heap. So an entry costs the same however many there are. What comes first within a watermark depends on what was
//! written, and on nothing else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// When, the number of the key's place, and how often that was used.
pub(super) type Entry = (i64, u32, u32);
/// Emptied lists that are kept for later days.
const SPARE: usize = 8;

pub(super) struct Calendar {
    /// A day has two to the power of this, ns.
    shift: u32,
    /// What is due.
    due: Vec<Entry>,
    /// The last day that has begun, and those before it.
    today: i64,
    begun: BinaryHeap<Reverse<Entry>>,
    later: BTreeMap<i64, Vec<Entry>>,
    len: usize,
    spare: Vec<Vec<Entry>>,
}

impl Calendar {
    pub(super) fn new(shift: u32) -> Self {
        Self {
            shift,
            due: Vec::new(),
            today: i64::MIN,
            begun: BinaryHeap::new(),
            later: BTreeMap::new(),
            len: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.len += 1;
        let day = entry.0 >> self.shift;
        if day <= self.today {
            self.begun.push(Reverse(entry));
            return;
        }
        self.later.entry(day).or_insert_with(|| self.spare.pop().unwrap_or_default()).push(entry);
    }

    /// The next that are due, so many, each time that those were taken.
    pub(super) fn soon(&self, count: usize) -> Option<&[Entry]> {
        let len = self.due.len();
        (len > 0 && len.is_multiple_of(count)).then(|| &self.due[len - count..])
    }

    /// Takes an entry that is due.
    pub(super) fn pop(&mut self, watermark: i64) -> Option<Entry> {
        loop {
            if let Some(entry) = self.due.pop() {
                self.len -= 1;
                return Some(entry);
            }
            if self.begun.peek().is_some_and(|Reverse(first)| first.0 <= watermark) {
                self.len -= 1;
                return self.begun.pop().map(|Reverse(first)| first);
            }
            let first = self.later.first_entry()?;
            let (day, until) = (*first.key(), watermark >> self.shift);
            if day > until {
                return None;
            }
            self.today = day;
            let list = first.remove();
            if day == until {
                self.begin(list);
                continue;
            }
            let emptied = std::mem::replace(&mut self.due, list);
            self.keep(emptied);
        }
    }

    /// The earliest entry.
    pub(super) fn first_ns(&mut self) -> Option<i64> {
        if self.begun.is_empty()
            && let Some((day, list)) = self.later.pop_first()
        {
            self.today = day;
            self.begin(list);
        }
        let due = self.due.iter().map(|entry| entry.0);
        due.chain(self.begun.peek().map(|Reverse(first)| first.0)).min()
    }

    /// A day has begun.
    fn begin(&mut self, mut list: Vec<Entry>) {
        self.begun.extend(list.drain(..).map(Reverse));
        self.keep(list);
    }

    fn keep(&mut self, mut list: Vec<Entry>) {
        if self.spare.len() < SPARE && list.capacity() > 0 {
            list.clear();
            self.spare.push(list);
        }
    }

    /// Drops what is no longer so.
    pub(super) fn retain(&mut self, mut is_so: impl FnMut(&Entry) -> bool) {
        self.due.retain(&mut is_so);
        self.begun.retain(|Reverse(entry)| is_so(entry));
        self.later.retain(|_, list| {
            list.retain(&mut is_so);
            list.shrink_to_fit();
            !list.is_empty()
        });
        self.begun.shrink_to_fit();
        self.spare.clear();
        self.len = self.due.len() + self.begun.len() + self.later.values().map(Vec::len).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_sorted_set(steps in proptest::collection::vec((any::<bool>(), -40..400i64), 0..200), shift in 0..6u32) {
            let (mut calendar, mut set, mut watermark) = (Calendar::new(shift), BTreeSet::new(), -50);
            for (number, (advances, at)) in (0..).zip(steps) {
                if !advances {
                    calendar.push((at, number, 0));
                    set.insert((at, number, 0));
                } else {
                    watermark = watermark.max(at);
                    let mut due = BTreeSet::new();
                    while let Some(entry) = calendar.pop(watermark) {
                        due.insert(entry);
                    }
                    let rest = set.split_off(&(watermark + 1, 0, 0));
                    prop_assert_eq!(due, std::mem::replace(&mut set, rest));
                }
                if number % 7 == 0 {
                    prop_assert_eq!(calendar.first_ns(), set.first().map(|first| first.0));
                }
                if number % 11 == 0 {
                    calendar.retain(|entry| entry.1 % 3 > 0);
                    set.retain(|entry| entry.1 % 3 > 0);
                }
                prop_assert_eq!(calendar.len(), set.len());
            }
        }
    }
}
