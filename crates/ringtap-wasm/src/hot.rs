//! Owns: the states that were used last, decoded, so that an event need not take all that is kept of its key in and out.
//! Does not: outlive a crash. What changed goes to the host as bytes at its checkpoints, and what was not used for longest
//! when there is too much.

use std::hash::{BuildHasher, DefaultHasher, Hasher as _};

use lru::LruCache;
use ringtap_sigma::{Damaged, Rule, State};

use crate::NEVER;
use crate::frames::{Frames, Kind};

/// Memory of all states that are kept decoded if the host does not say how much, bytes, near enough. One that is larger by
/// itself is kept alone.
pub const MOST: usize = 32 << 20;
/// An answer to [`Hot::keep`] ends with this part of the room.
const PARTS: usize = 8;
/// What the table takes for a state beside it and its key, bytes.
const ENTRY: usize = 64;

/// States by rule and key, as the host names them.
pub struct Hot {
    states: LruCache<Vec<u8>, Kept, Secret>,
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

struct Kept {
    state: State,
    /// The watermark at which it has to be called again.
    timer: Option<i64>,
    weight: usize,
    /// The host has bytes of it.
    is_stored: bool,
    /// The host's bytes are older than it.
    is_changed: bool,
}

impl Default for Hot {
    fn default() -> Self {
        Self::new(MOST, [0; 16])
    }
}

impl Hot {
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
    /// [`Kind::Wanted`], and nothing was done: false.
    ///
    /// # Errors
    /// Bytes of another version of this program, or damaged ones.
    pub fn step(
        &mut self,
        key: &[u8],
        rule: &Rule,
        stored: Option<&[u8]>,
        out: &mut Frames,
        step: impl FnOnce(&mut State) -> Option<i64>,
    ) -> Result<bool, Damaged> {
        let kept = match self.states.get_mut(key) {
            Some(kept) => kept,
            None => {
                let Some(stored) = stored else {
                    out.push(Kind::Wanted, &[]);
                    return Ok(false);
                };
                let kept = Kept::read(rule, stored)?;
                self.states.get_or_insert_mut(key.to_vec(), || kept)
            }
        };
        let timer = step(&mut kept.state);
        if timer != kept.timer {
            let [before, after] = [kept.timer, timer].map(|timer| timer.unwrap_or(NEVER).to_le_bytes());
            out.push_of(Kind::Timer, &[&before, &after]);
        }
        (kept.timer, kept.is_changed) = (timer, true);
        let weight = if timer.is_some() { key.len() + ENTRY + kept.state.weight() } else { 0 };
        self.weight = self.weight - kept.weight + weight;
        kept.weight = weight;
        if timer.is_none() {
            if kept.is_stored {
                out.push(Kind::State, &[]);
            }
            self.states.pop(key);
        }
        self.make_room(out);
        Ok(true)
    }

    fn make_room(&mut self, out: &mut Frames) {
        while self.weight > self.most
            && self.states.len() > 1
            && let Some((key, kept)) = self.states.pop_lru()
        {
            self.weight -= kept.weight;
            if kept.is_changed {
                kept.write(&key, out);
            }
        }
    }

    /// Gives the host what it does not have yet, for a checkpoint: a part of it, and nothing once it has all.
    pub fn keep(&mut self, out: &mut Frames) {
        for (key, kept) in self.states.iter_mut().filter(|(_, kept)| kept.is_changed) {
            kept.write(key, out);
            (kept.is_stored, kept.is_changed) = (true, false);
            if out.bytes().len() >= self.most / PARTS {
                break;
            }
        }
    }
}

impl Kept {
    fn read(rule: &Rule, stored: &[u8]) -> Result<Self, Damaged> {
        let (state, timer) = match stored.split_first_chunk() {
            Some((timer, bytes)) => (State::decode(rule, bytes)?, Some(i64::from_le_bytes(*timer))),
            None => (State::new(rule), None),
        };
        Ok(Self { state, timer, weight: 0, is_stored: timer.is_some(), is_changed: false })
    }

    fn write(&self, key: &[u8], out: &mut Frames) {
        let mut bytes = self.timer.unwrap_or(NEVER).to_le_bytes().to_vec();
        self.state.encode(&mut bytes);
        out.push_of(Kind::Stored, &[&(key.len() as u32).to_le_bytes(), key, &bytes]);
    }
}
