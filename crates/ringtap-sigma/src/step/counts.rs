//! Owns: the windows that count: the newest events, and the newest distinct values.
//! Does not: compare with a bound: more than the bound needs is never kept, so a count says "so many or more".

use alloc::collections::{BTreeMap, VecDeque};

use super::entry::{Digest, Entry};
use crate::bytes::{Damaged, Reader, Writer};

/// The newest events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps(VecDeque<Entry>);

impl Stamps {
    pub(super) fn push(&mut self, entry: Entry, keep: u32) {
        if self.0.len() >= keep as usize {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        while self.0.front().is_some_and(|entry| entry.time() < oldest) {
            self.0.pop_front();
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn oldest(&self) -> Option<i64> {
        self.0.front().map(Entry::time)
    }

    pub(super) fn newest(&self) -> Option<i64> {
        self.0.back().map(Entry::time)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.0.iter().copied()
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.count(self.0.len());
        self.0.iter().for_each(|entry| entry.write(w));
    }

    pub(super) fn read(r: &mut Reader<'_>, keep: u32) -> Result<Self, Damaged> {
        let entries = r.list(Entry::read)?;
        let sorted = entries.is_sorted_by_key(Entry::time);
        if entries.len() > keep as usize || !sorted {
            return Err(r.damaged("events in their order, as many as the rule keeps"));
        }
        Ok(Self(entries.into()))
    }
}

/// The newest distinct values, each with its newest event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// When each value was seen last, by a running number.
    values: BTreeMap<Digest, u64>,
    by_age: BTreeMap<u64, (Digest, Entry)>,
    next: u64,
}

/// Running numbers are only an order.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.by_age.values().eq(other.by_age.values())
    }
}

impl Eq for Values {}

impl Values {
    pub(super) fn push(&mut self, value: Digest, entry: Entry, keep: u32) {
        if let Some(before) = self.values.insert(value, self.next) {
            self.by_age.remove(&before);
        } else if self.by_age.len() >= keep as usize
            && let Some((_, (oldest, _))) = self.by_age.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.by_age.insert(self.next, (value, entry));
        self.next += 1;
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        while let Some(first) = self.by_age.first_entry()
            && first.get().1.time() < oldest
        {
            let (value, _) = first.remove();
            self.values.remove(&value);
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.by_age.len() as u32
    }

    pub(super) fn oldest(&self) -> Option<i64> {
        self.by_age.first_key_value().map(|(_, (_, entry))| entry.time())
    }

    pub(super) fn newest(&self) -> Option<i64> {
        self.by_age.last_key_value().map(|(_, (_, entry))| entry.time())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.by_age.values().map(|(_, entry)| *entry)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.count(self.by_age.len());
        for (value, entry) in self.by_age.values() {
            w.raw(value);
            entry.write(w);
        }
    }

    pub(super) fn read(r: &mut Reader<'_>, keep: u32) -> Result<Self, Damaged> {
        let entries = r.list(|r| Ok((r.array()?, Entry::read(r)?)))?;
        let len = entries.len();
        let sorted = entries.is_sorted_by_key(|(_, entry)| entry.time());
        let mut this = Self::default();
        for (value, entry) in entries {
            this.push(value, entry, keep);
        }
        if this.by_age.len() == len && sorted {
            Ok(this)
        } else {
            Err(r.damaged("different values in their order, as many as the rule keeps"))
        }
    }
}
