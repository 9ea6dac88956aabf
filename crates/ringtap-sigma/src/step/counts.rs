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
        if self.0.capacity() == 0 {
            self.0.reserve_exact(1);
        }
        self.0.push_back(entry);
    }

    /// Bytes of memory.
    pub(super) fn weight(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
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

    /// How many are not older than this.
    pub(super) fn since(&self, oldest: i64) -> usize {
        self.0.len() - self.0.partition_point(|entry| entry.time() < oldest)
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

/// The newest distinct values, each with its newest event, oldest first.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Looked through one by one.
    Few(VecDeque<(Digest, Entry)>),
    Many(Many),
}

/// As many as are looked through.
const FEW: usize = 8;

impl Default for Values {
    fn default() -> Self {
        Self::Few(VecDeque::new())
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.all().eq(other.all())
    }
}

impl Eq for Values {}

impl Values {
    pub(super) fn push(&mut self, value: Digest, entry: Entry, keep: u32) {
        match self {
            Self::Many(many) => return many.push(value, entry, keep),
            Self::Few(few) => {
                let known = few.iter().position(|(known, _)| *known == value);
                let gone = known.or((few.len() >= keep as usize).then_some(0));
                if gone.is_some() || few.len() < FEW {
                    gone.map(|gone| few.remove(gone));
                    if few.capacity() == 0 {
                        few.reserve_exact(1);
                    }
                    return few.push_back((value, entry));
                }
            }
        }
        let mut many = Many::default();
        self.all().for_each(|(value, entry)| many.push(*value, *entry, keep));
        many.push(value, entry, keep);
        *self = Self::Many(many);
    }

    pub(super) fn expire(&mut self, oldest: i64) {
        match self {
            Self::Few(few) => {
                while few.front().is_some_and(|(_, entry)| entry.time() < oldest) {
                    few.pop_front();
                }
            }
            Self::Many(many) => many.expire(oldest),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&Digest, &Entry)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(value, entry)| (value, entry));
        few.chain(many.into_iter().flat_map(|many| many.by_age.values()).map(|(value, entry)| (value, entry)))
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Few(few) => few.len() as u32,
            Self::Many(many) => many.by_age.len() as u32,
        }
    }

    /// Bytes of memory: nodes of both trees have room for eleven, and are half full at least.
    pub(super) fn weight(&self) -> usize {
        const NODE: usize = 11 * (size_of::<(Digest, u64)>() + size_of::<(u64, (Digest, Entry))>()) + 32;
        match self {
            Self::Few(few) => few.capacity() * size_of::<(Digest, Entry)>(),
            Self::Many(many) => many.by_age.len().div_ceil(5) * NODE,
        }
    }

    pub(super) fn oldest(&self) -> Option<i64> {
        match self {
            Self::Few(few) => few.front().map(|(_, entry)| entry.time()),
            Self::Many(many) => many.by_age.first_key_value().map(|(_, (_, entry))| entry.time()),
        }
    }

    pub(super) fn newest(&self) -> Option<i64> {
        match self {
            Self::Few(few) => few.back().map(|(_, entry)| entry.time()),
            Self::Many(many) => many.by_age.last_key_value().map(|(_, (_, entry))| entry.time()),
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.all().map(|(_, entry)| *entry)
    }

    /// When a value was seen last.
    pub(super) fn seen(&self, value: &Digest) -> Option<i64> {
        match self {
            Self::Few(few) => few.iter().find(|(known, _)| known == value).map(|(_, entry)| entry.time()),
            Self::Many(many) => many.by_age.get(many.values.get(value)?).map(|(_, entry)| entry.time()),
        }
    }

    /// How many were not seen last before this, where at most so many were.
    pub(super) fn since(&self, oldest: i64, look_at: usize) -> Option<usize> {
        let older = self.entries().take_while(|entry| entry.time() < oldest).take(look_at + 1).count();
        (older <= look_at).then(|| self.count() as usize - older)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.count(self.count() as usize);
        for (value, entry) in self.all() {
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
        if this.count() as usize == len && sorted {
            Ok(this)
        } else {
            Err(r.damaged("different values in their order, as many as the rule keeps"))
        }
    }
}

/// So many that a value is found by a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Many {
    /// When each value was seen last, by a running number.
    values: BTreeMap<Digest, u64>,
    by_age: BTreeMap<u64, (Digest, Entry)>,
    next: u64,
}

impl Many {
    fn push(&mut self, value: Digest, entry: Entry, keep: u32) {
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

    fn expire(&mut self, oldest: i64) {
        while let Some(first) = self.by_age.first_entry()
            && first.get().1.time() < oldest
        {
            let (value, _) = first.remove();
            self.values.remove(&value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::step::Mark;

    proptest! {
        /// However many there are, and whether they are looked through or found by a tree.
        #[test]
        fn few_values_and_many_are_one_thing(pushes in proptest::collection::vec((0..20u8, 0..4i64), 0..80), keep in 1..20u32) {
            let (mut values, mut many, mut time) = (Values::default(), Many::default(), 0);
            for (value, gap) in pushes {
                time += gap;
                let entry = Entry { mark: Mark { time_ns: time, ..Mark::default() }, via: None };
                values.push([value; 24], entry, keep);
                many.push([value; 24], entry, keep);
                let oldest = time - 30;
                values.expire(oldest);
                many.expire(oldest);
                let expected: std::vec::Vec<_> = many.by_age.values().copied().collect();
                prop_assert_eq!(values.all().map(|(value, entry)| (*value, *entry)).collect::<std::vec::Vec<_>>(), expected);
                let tree = Values::Many(many.clone());
                prop_assert_eq!((values.oldest(), values.newest(), values.count()), (tree.oldest(), tree.newest(), tree.count()));
                prop_assert_eq!(values.seen(&[3; 24]), tree.seen(&[3; 24]));
                prop_assert_eq!(values.since(time - 5, 4), tree.since(time - 5, 4));
                prop_assert!(values == tree);
            }
        }
    }
}
