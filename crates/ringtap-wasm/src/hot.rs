//! Owns: what is kept of the keys that were used last, decoded, so that an event need not take all that is kept of its key in and out.
//! Does not: outlive a crash. What changed goes to the host as bytes at its checkpoints, and what was not used for longest
//! when there is too much.

use std::hash::{BuildHasher, DefaultHasher, Hasher as _};

use lru::LruCache;

use crate::NEVER;
use crate::frames::{Frames, Kind};

/// Memory of all that is kept decoded if the host does not say how much, bytes, near enough. One that is larger by
/// itself is kept alone.
pub const MOST: usize = 32 << 20;
/// An answer to [`Hot::keep`] ends with this part of the room.
const PARTS: usize = 8;
/// What the table takes for a state beside it and its key, bytes.
const ENTRY: usize = 64;

/// What can be kept of a key.
pub trait Kept {
    /// Bytes of memory, near enough.
    fn weight(&self) -> usize;

    /// Appends it for the host.
    fn encode(&self, out: &mut Vec<u8>);
}

/// What is kept, by key as the host names it.
pub struct Hot<T> {
    states: LruCache<Vec<u8>, Entry<T>, Secret>,
    weight: usize,
    /// Memory for them, bytes, near enough.
    most: usize,
}

/// Keys have what attackers choose, and a module has no chance of its own: without the host's secret they could have all keys in one
/// place of the table.
struct Secret([u8; 16]);

impl BuildHasher for Secret {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher
    }
}

struct Entry<T> {
    state: T,
    /// The watermark at which it has to be called again; the greatest: none, `None`: nothing was kept yet.
    timer: Option<i64>,
    weight: usize,
    /// The host has bytes of it.
    is_stored: bool,
    /// The host's bytes are older than it.
    is_changed: bool,
}

impl<T> Default for Hot<T> {
    fn default() -> Self {
        Self { states: LruCache::unbounded_with_hasher(Secret([0; 16])), weight: 0, most: MOST }
    }
}

impl<T: Kept> Hot<T> {
    /// With so many bytes of memory, and a secret for the table.
    #[must_use]
    pub fn new(most: usize, secret: [u8; 16]) -> Self {
        Self { states: LruCache::unbounded_with_hasher(Secret(secret)), weight: 0, most }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Steps the state of a key, and says what became of its timer, and of other states for which there is no room now.
    /// `stored` is what the host keeps of this key (empty: nothing); without it a state that is not here is
    /// [`Kind::Wanted`], and nothing was done: false. `read` makes a state of the host's bytes, or a new one of none; `step`
    /// says when it has to be called again, `None`: it is needed no more.
    ///
    /// # Errors
    /// That of `read`.
    pub fn step<E>(
        &mut self,
        key: &[u8],
        stored: Option<&[u8]>,
        out: &mut Frames,
        read: impl FnOnce(Option<&[u8]>) -> Result<T, E>,
        step: impl FnOnce(&mut T) -> Option<i64>,
    ) -> Result<bool, E> {
        let entry = match self.states.get_mut(key) {
            Some(entry) => entry,
            None => {
                let Some(stored) = stored else {
                    out.push(Kind::Wanted, &[]);
                    return Ok(false);
                };
                let (timer, bytes) = match stored.split_first_chunk() {
                    Some((timer, bytes)) => (Some(i64::from_le_bytes(*timer)), Some(bytes)),
                    None => (None, None),
                };
                let is_stored = timer.is_some();
                let entry = Entry { state: read(bytes)?, timer, weight: 0, is_stored, is_changed: false };
                self.states.get_or_insert_mut(key.to_vec(), || entry)
            }
        };
        let timer = step(&mut entry.state);
        let [before, after] = [entry.timer, timer].map(|timer| timer.unwrap_or(NEVER));
        if before != after {
            out.push_of(Kind::Timer, &[&before.to_le_bytes(), &after.to_le_bytes()]);
        }
        (entry.timer, entry.is_changed) = (timer, true);
        let weight = if timer.is_some() { key.len() + ENTRY + entry.state.weight() } else { 0 };
        self.weight = self.weight - entry.weight + weight;
        entry.weight = weight;
        if timer.is_none() {
            if entry.is_stored {
                out.push(Kind::State, &[]);
            }
            self.states.pop(key);
        }
        self.make_room(out);
        Ok(true)
    }

    /// Forgets a key, here and at the host.
    pub fn forget(&mut self, key: &[u8], out: &mut Frames) {
        self.weight -= self.states.pop(key).map_or(0, |entry| entry.weight);
        out.push(Kind::State, &[]);
    }

    fn make_room(&mut self, out: &mut Frames) {
        while self.weight > self.most
            && self.states.len() > 1
            && let Some((key, entry)) = self.states.pop_lru()
        {
            self.weight -= entry.weight;
            if entry.is_changed {
                entry.write(&key, out);
            }
        }
    }

    /// Gives the host what it does not have yet, for a checkpoint: a part of it, and nothing once it has all.
    pub fn keep(&mut self, out: &mut Frames) {
        for (key, entry) in self.states.iter_mut().filter(|(_, entry)| entry.is_changed) {
            entry.write(key, out);
            (entry.is_stored, entry.is_changed) = (true, false);
            if out.bytes().len() >= self.most / PARTS {
                break;
            }
        }
    }
}

impl<T: Kept> Entry<T> {
    fn write(&self, key: &[u8], out: &mut Frames) {
        let mut bytes = self.timer.unwrap_or(NEVER).to_le_bytes().to_vec();
        self.state.encode(&mut bytes);
        out.push_of(Kind::Stored, &[&(key.len() as u32).to_le_bytes(), key, &bytes]);
    }
}
