//! Owns: a set of values that rules ask for by name, read from a file, and what rules have put in or taken out of it since
//! (`dataset:set`, `unset`). All engines share it: without locks, in memory of fixed size.
//! Does not: read files (`lists.rs` does). What rules write is not kept on disk.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values that rules may write, if no rule says how many.
pub(super) const USUAL_ROOM: usize = 65_536;
const MOST_ROOM: usize = 4 << 20;
/// Places in which a value may lie.
const WAYS: usize = 16;
/// Of a place: the value is in the set, and not taken out of it. The other bits are the value's.
const IN: u64 = 1;

/// Values of a dataset.
#[derive(Debug, Default)]
pub struct Dataset {
    /// Of the file.
    values: HashSet<Box<[u8]>>,
    written: OnceLock<Written>,
}

/// What rules have written: of each value a hash with a key that nobody else knows; 0: a free place.
#[derive(Debug)]
struct Written {
    places: Box<[AtomicU64]>,
    key: RandomState,
}

/// What a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The value was as it should be already.
    Nothing,
    /// It is now.
    Changed,
    /// It is now, and another one was forgotten for it.
    Forgot,
}

/// Two are the same list where they have the same place in memory: what rules have written may change at any time.
impl PartialEq for Dataset {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Dataset {}

impl Dataset {
    /// A set of these.
    pub(super) fn of(values: HashSet<Box<[u8]>>) -> Self {
        Self { values, written: OnceLock::new() }
    }

    /// Takes memory for so many values that rules write, if it has none yet.
    pub(super) fn make_room(&self, values: usize) {
        self.written.get_or_init(|| {
            let places = values.clamp(WAYS, MOST_ROOM).next_power_of_two();
            Written { places: (0..places).map(|_| AtomicU64::new(0)).collect(), key: RandomState::new() }
        });
    }

    /// Whether these bytes are one of its values.
    #[must_use]
    pub fn has(&self, value: &[u8]) -> bool {
        let written = self.written.get().and_then(|written| {
            let hash = written.hash(value);
            written.ways(hash).map(|at| written.places[at].load(Ordering::Relaxed)).find(|found| found & !IN == hash)
        });
        written.map_or_else(|| self.values.contains(value), |found| found & IN != 0)
    }

    /// Puts a value in (`is_in`), or takes it out.
    pub fn write(&self, value: &[u8], is_in: bool) -> Wrote {
        let Some(written) = self.written.get().filter(|_| self.has(value) != is_in) else { return Wrote::Nothing };
        let hash = written.hash(value);
        let new = hash | if is_in { IN } else { 0 };
        for at in written.ways(hash) {
            let place = &written.places[at];
            let found = place.load(Ordering::Relaxed);
            if (found == 0 || found & !IN == hash)
                && place.compare_exchange(found, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return Wrote::Changed;
            }
            // Another engine has just written the same.
            if place.load(Ordering::Relaxed) == new {
                return Wrote::Nothing;
            }
        }
        let victim = (hash >> 32) as usize % WAYS;
        if let Some(at) = written.ways(hash).nth(victim) {
            written.places[at].store(new, Ordering::Relaxed);
        }
        Wrote::Forgot
    }
}

impl Written {
    /// Never 0, and without the bit that says whether it is in.
    fn hash(&self, value: &[u8]) -> u64 {
        (self.key.hash_one(value) | 2) & !IN
    }

    fn ways(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.places.len() - 1;
        (0..WAYS).map(move |way| ((hash >> 2) as usize).wrapping_add(way) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_put_in_and_take_out() {
        let set = Dataset::of([b"file"[..].into()].into());
        assert_eq!((set.write(b"a", true), set.has(b"a")), (Wrote::Nothing, false), "no rule may write");
        set.make_room(100);
        assert_eq!((set.write(b"a", true), set.write(b"a", true)), (Wrote::Changed, Wrote::Nothing));
        assert!(set.has(b"a") && set.has(b"file") && !set.has(b"b"));
        assert_eq!(set.write(b"file", true), Wrote::Nothing);
        assert_eq!((set.write(b"file", false), set.has(b"file")), (Wrote::Changed, false));
        assert_eq!((set.write(b"b", false), set.write(b"a", false)), (Wrote::Nothing, Wrote::Changed));
        assert_eq!((set.write(b"file", true), set.has(b"file"), set.has(b"a")), (Wrote::Changed, true, false));
    }

    #[test]
    fn a_full_set_forgets() {
        let set = Dataset::default();
        set.make_room(WAYS);
        let wrote: Vec<Wrote> = (0..WAYS + 3).map(|number| set.write(&number.to_be_bytes(), true)).collect();
        assert!(wrote[..WAYS].iter().all(|wrote| *wrote == Wrote::Changed));
        assert!(wrote[WAYS..].iter().all(|wrote| *wrote == Wrote::Forgot));
        assert_eq!((0..WAYS + 3).filter(|number| set.has(&number.to_be_bytes())).count(), WAYS);
    }
}
