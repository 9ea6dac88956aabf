//! Owns: a table of fixed size that forgets the entry of a bucket that was used longest ago.
//! Does not: know what is in it.

use std::hash::{BuildHasher, Hash, RandomState};

/// Entries of a bucket.
const WAYS: usize = 8;

struct Entry<K, V> {
    key: K,
    value: V,
    used_ns: u64,
}

/// A table of fixed size.
pub(crate) struct Assoc<K, V> {
    entries: Vec<Option<Entry<K, V>>>,
    buckets: usize,
    seed: RandomState,
    /// Entries that were forgotten for others.
    pub(crate) evicted: u64,
}

impl<K: Eq + Hash + Copy, V: Default> Assoc<K, V> {
    /// Room for at least `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        let buckets = capacity.div_ceil(WAYS).max(1).next_power_of_two();
        let entries = std::iter::repeat_with(|| None).take(buckets * WAYS).collect();
        Self { entries, buckets, seed: RandomState::new(), evicted: 0 }
    }

    fn bucket(&mut self, key: &K) -> &mut [Option<Entry<K, V>>] {
        let first = (self.seed.hash_one(key) as usize & (self.buckets - 1)) * WAYS;
        &mut self.entries[first..first + WAYS]
    }

    /// The value of a key that is there.
    pub(crate) fn find(&mut self, key: &K) -> Option<&mut V> {
        self.bucket(key).iter_mut().flatten().find(|entry| entry.key == *key).map(|entry| &mut entry.value)
    }

    /// The value of a key, new if need be.
    pub(crate) fn entry(&mut self, key: K, now_ns: u64) -> &mut V {
        let bucket = self.bucket(&key);
        let found = bucket.iter().position(|slot| slot.as_ref().is_some_and(|entry| entry.key == key));
        let index = found.or_else(|| bucket.iter().position(Option::is_none));
        let (index, evicts) = match index {
            Some(index) => (index, false),
            None => {
                let oldest = bucket.iter().enumerate().min_by_key(|(_, slot)| slot.as_ref().map(|entry| entry.used_ns));
                (oldest.map_or(0, |(index, _)| index), true)
            }
        };
        self.evicted += u64::from(evicts);
        let slot = &mut self.bucket(&key)[index];
        if slot.as_ref().is_none_or(|entry| entry.key != key) {
            *slot = None;
        }
        let entry = slot.get_or_insert_with(|| Entry { key, value: V::default(), used_ns: now_ns });
        entry.used_ns = now_ns;
        &mut entry.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut table = Assoc::<u32, u32>::new(WAYS);
        for key in 0..=WAYS as u32 {
            *table.entry(key, key.into()) = key * 2;
        }
        assert_eq!(table.evicted, 1);
        assert!(table.find(&0).is_none());
        assert_eq!(table.find(&3).copied(), Some(6));
    }
}
