//! Owns: hits of the rules beneath chains that are certain already, until the watermark has passed them and the chain's own state has
//! them.
//! Does not: decide what is certain; that is the states'.

use std::collections::{BTreeSet, HashMap};

use ringtap_sigma::Filling;

/// Hits that are kept of one key: a burst is no more certain by more of them.
const PER_KEY: usize = 64;
/// Hits that are kept in all, a few MiB: beyond them the watermark tells.
const MOST: usize = 1 << 14;

/// What is ahead of the watermark.
#[derive(Default)]
pub(super) struct Foresight {
    keys: HashMap<(u16, Vec<u8>), Ahead>,
    /// Which keys have hits of which times.
    times: BTreeSet<(i64, u16, Vec<u8>)>,
    count: usize,
}

/// Of one key.
#[derive(Default)]
struct Ahead {
    hits: Vec<Filling>,
    was_told: bool,
}

impl Foresight {
    /// Keeps a hit; false: it is there, or there is no room.
    pub(super) fn add(&mut self, hit: &Filling) -> bool {
        let key = (hit.rule, hit.key.clone());
        if self.count >= MOST {
            return false;
        }
        let ahead = self.keys.entry(key).or_default();
        let is_there = ahead.hits.iter().any(|it| (it.mark, it.places) == (hit.mark, hit.places));
        if is_there || ahead.hits.len() >= PER_KEY {
            return false;
        }
        self.times.insert((hit.mark.time_ns, hit.rule, hit.key.clone()));
        ahead.hits.push(hit.clone());
        self.count += 1;
        true
    }

    /// The hits of a key.
    pub(super) fn of(&self, rule: u16, key: &[u8]) -> &[Filling] {
        if self.keys.is_empty() {
            return &[];
        }
        self.keys.get(&(rule, key.to_vec())).map_or(&[], |ahead| &ahead.hits)
    }

    /// Whether a match of this key is told for the first time.
    pub(super) fn is_first(&mut self, rule: u16, key: &[u8]) -> bool {
        self.keys.get_mut(&(rule, key.to_vec())).is_some_and(|ahead| !std::mem::replace(&mut ahead.was_told, true))
    }

    /// Forgets what the watermark has passed.
    pub(super) fn advance(&mut self, watermark: i64) {
        while self.times.first().is_some_and(|(time, ..)| *time <= watermark) {
            let Some((_, rule, key)) = self.times.pop_first() else { return };
            let key = (rule, key);
            if let Some(ahead) = self.keys.get_mut(&key) {
                let before = ahead.hits.len();
                ahead.hits.retain(|hit| hit.mark.time_ns > watermark);
                self.count -= before - ahead.hits.len();
                if ahead.hits.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
    }
}
