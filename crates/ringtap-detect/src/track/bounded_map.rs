//! Owns: a table of fixed size that forgets the entry of a bucket that was used longest ago.
//! Does not: know what is in it.

use std::hash::{BuildHasher, Hash, RandomState};

use crate::fixed_vec::{FixedVec, SpareVisitor};

/// Entries of a bucket.
const WAYS: usize = 8;

struct Entry<K, V> {
    key: K,
    value: V,
    used_ns: u64,
    /// Nobody's any more: the next new key of its bucket gets the place.
    is_free: bool,
}

/// A table of fixed size.
pub(crate) struct BoundedMap<K, V> {
    /// All entries there have been, in the order of their coming; each keeps its place.
    entries: FixedVec<Entry<K, V>>,
    /// Where a bucket's entries are, plus one; 0: no entry there yet, nor in the places behind it.
    places: Vec<[u32; WAYS]>,
    seed: RandomState,
    /// Entries that were forgotten for others.
    pub(crate) evicted: u64,
}

impl<K: Eq + Hash + Copy, V: Default> BoundedMap<K, V> {
    /// Room for at least `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        let buckets = capacity.div_ceil(WAYS).max(1).next_power_of_two();
        Self {
            entries: FixedVec::with_capacity(buckets * WAYS),
            places: vec![[0; WAYS]; buckets],
            seed: RandomState::new(),
            evicted: 0,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.entries.show_spare(to);
    }

    /// Whether there has been any entry.
    pub(crate) fn was_used(&self) -> bool {
        !self.entries.is_empty()
    }

    fn bucket(&self, key: &K) -> usize {
        self.seed.hash_one(key) as usize & (self.places.len() - 1)
    }

    /// The numbers of a bucket's entries.
    fn numbers(&self, bucket: usize) -> impl Iterator<Item = usize> {
        self.places[bucket].iter().take_while(|&&place| place != 0).map(|&place| place as usize - 1)
    }

    /// The number of a key's entry.
    fn number(&self, bucket: usize, key: &K) -> Option<usize> {
        self.numbers(bucket).find(|&number| self.entries[number].key == *key && !self.entries[number].is_free)
    }

    /// The value of a key that is there.
    pub(crate) fn find(&mut self, key: &K) -> Option<&mut V> {
        let number = self.number(self.bucket(key), key)?;
        Some(&mut self.entries[number].value)
    }

    /// Forgets a key; its value, if it was there.
    pub(crate) fn forget(&mut self, key: &K) -> Option<V> {
        let number = self.number(self.bucket(key), key)?;
        let entry = &mut self.entries[number];
        entry.is_free = true;
        Some(std::mem::take(&mut entry.value))
    }

    /// The value of a key, new if need be.
    pub(crate) fn entry(&mut self, key: K, now_ns: u64) -> &mut V {
        let bucket = self.bucket(&key);
        let new = || Entry { key, value: V::default(), used_ns: now_ns, is_free: false };
        let found = self.number(bucket, &key);
        let free = self.numbers(bucket).find(|&number| self.entries[number].is_free);
        let number = match (found.or(free), self.places[bucket].iter().position(|&place| place == 0)) {
            (Some(number), _) => {
                if found.is_none() {
                    self.entries[number] = new();
                }
                number
            }
            (None, Some(way)) => {
                self.entries.push(new());
                self.places[bucket][way] = self.entries.len() as u32;
                self.entries.len() - 1
            }
            (None, None) => {
                let oldest = self.numbers(bucket).min_by_key(|&number| self.entries[number].used_ns).unwrap_or(0);
                self.entries[oldest] = new();
                self.evicted += 1;
                oldest
            }
        };
        let entry = &mut self.entries[number];
        entry.used_ns = now_ns;
        &mut entry.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut table = BoundedMap::<u32, u32>::new(WAYS);
        for key in 0..=WAYS as u32 {
            *table.entry(key, key.into()) = key * 2;
        }
        assert_eq!(table.evicted, 1);
        assert!(table.find(&0).is_none());
        assert_eq!(table.find(&3).copied(), Some(6));
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut table = BoundedMap::<u32, u32>::new(WAYS);
        for key in 0..1000 {
            *table.entry(key, key.into()) = key * 2;
            assert_eq!((table.forget(&key), table.forget(&key)), (Some(key * 2), None));
        }
        assert_eq!((table.evicted, table.entries.len(), *table.entry(1, 1001)), (0, 1, 0));
    }
}
