//! What is remembered of other engines: their clocks and the keys localised for them; and of messages: that they were seen.
//!
//! Bounded: only an authentic message makes an entry, and at the bound an old one goes.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use super::keys::{AuthProtocol, Key};
use super::privacy::PrivProtocol;

/// Seconds by which a message may be older than the newest one (RFC 3414 §2.2.3).
pub(super) const TIME_WINDOW: u32 = 150;
/// Most engines remembered.
const MAX_ENGINES: usize = 1 << 16;

/// A user's keys for one engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalKeys {
    pub(super) auth: Option<(AuthProtocol, Key)>,
    pub(super) privacy: Option<(PrivProtocol, Key)>,
}

/// An engine's clock as last heard, and keys by user.
#[derive(Debug, Default)]
struct Engine {
    boots: u32,
    time: u32,
    heard_ns: u64,
    keys: Vec<Option<LocalKeys>>,
    /// Boots and time before which nothing is taken: what was heard before a restart.
    floor: (u32, u32),
    is_changed: bool,
}

/// The clock of another engine as last heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineClock {
    /// snmpEngineID.
    pub id: Vec<u8>,
    /// snmpEngineBoots.
    pub boots: u32,
    /// snmpEngineTime, seconds.
    pub time: u32,
}

#[derive(Debug, Default)]
pub(super) struct Engines {
    known: HashMap<Box<[u8]>, Engine>,
    /// Whose clocks went on.
    changed: Vec<Box<[u8]>>,
}

impl Engines {
    /// The user's keys, if they are at hand.
    pub(super) fn keys(&self, engine_id: &[u8], user: usize) -> Option<LocalKeys> {
        self.known.get(engine_id)?.keys.get(user).copied().flatten()
    }

    /// Keeps the keys of an authentic message.
    pub(super) fn keep(&mut self, engine_id: &[u8], user: usize, keys: &LocalKeys) {
        let engine = self.entry(engine_id);
        if engine.keys.len() <= user {
            engine.keys.resize(user + 1, None);
        }
        engine.keys[user] = Some(*keys);
    }

    /// Users are others: keys are made anew.
    pub(super) fn forget_keys(&mut self) {
        self.known.values_mut().for_each(|engine| engine.keys.clear());
    }

    /// RFC 3414 §3.2 (7b): moves the engine's clock forward, and says whether the authentic message is within the window.
    pub(super) fn is_fresh(&mut self, engine_id: &[u8], boots: u32, time: u32, now_ns: u64) -> bool {
        let engine = self.entry(engine_id);
        if (boots, time) < engine.floor {
            return false;
        }
        let newer = boots > engine.boots || boots == engine.boots && time > engine.time;
        let went_on = newer || engine.heard_ns == 0;
        let is_first_change = went_on && !engine.is_changed;
        engine.is_changed |= went_on;
        if went_on {
            (engine.boots, engine.time, engine.heard_ns) = (boots, time, now_ns.max(1));
        }
        let elapsed = now_ns.saturating_sub(engine.heard_ns) / 1_000_000_000;
        let now = u64::from(engine.time) + elapsed;
        let is_fresh = boots == engine.boots && boots != 0x7fff_ffff && u64::from(time) + u64::from(TIME_WINDOW) >= now;
        if is_first_change {
            self.changed.push(engine_id.into());
        }
        is_fresh
    }

    /// Clocks that went on since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<EngineClock> {
        let known = &mut self.known;
        let clock = |id: Box<[u8]>| {
            let engine = known.get_mut(&id)?;
            engine.is_changed = false;
            Some(EngineClock { id: id.into(), boots: engine.boots, time: engine.time })
        };
        self.changed.drain(..).filter_map(clock).collect()
    }

    /// Goes on from a clock that was kept; of its very second nothing is taken unless `same_second`.
    pub(super) fn resume(&mut self, clock: &EngineClock, same_second: bool, now_ns: u64) {
        let engine = self.entry(&clock.id);
        (engine.boots, engine.time, engine.heard_ns) = (clock.boots, clock.time, now_ns.max(1));
        engine.floor = (clock.boots, if same_second { clock.time } else { clock.time.saturating_add(1) });
    }

    fn entry(&mut self, engine_id: &[u8]) -> &mut Engine {
        if self.known.len() >= MAX_ENGINES
            && !self.known.contains_key(engine_id)
            && let Some(any) = self.known.keys().next().cloned()
        {
            self.known.remove(&any);
        }
        self.known.entry(engine_id.into()).or_default()
    }
}

/// What was seen lately, by hash: two generations, each full after a count or a time.
#[derive(Debug, Default)]
pub struct RecentSet {
    hasher: RandomState,
    current: std::collections::HashSet<u64>,
    previous: std::collections::HashSet<u64>,
    since_ns: u64,
}

impl RecentSet {
    /// Most in a generation: 20,000 messages per second fill one in 209 s, more than the window. Both together then take up to 150 MB; at
    /// usual rates they stay small.
    const FULL: usize = 1 << 22;
    /// How long a generation lasts: replays are within the window of both clocks, retries within seconds.
    const LASTS_NS: u64 = 2 * TIME_WINDOW as u64 * 1_000_000_000;

    /// Remembers `item`; `false` when it was seen before.
    pub fn insert(&mut self, item: impl Hash, now_ns: u64) -> bool {
        if self.current.len() >= Self::FULL || now_ns.saturating_sub(self.since_ns) > Self::LASTS_NS {
            // Its memory is used again: a set that grows to such a size holds everything up each time it doubles.
            std::mem::swap(&mut self.previous, &mut self.current);
            self.current.clear();
            self.since_ns = now_ns;
        }
        let hash = self.hasher.hash_one(item);
        !self.previous.contains(&hash) && self.current.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_engines_clock_goes_only_forward() {
        let mut engines = Engines::default();
        assert!(engines.is_fresh(b"e", 5, 1000, 10 * S), "the first one sets the clock");
        assert!(engines.is_fresh(b"e", 5, 851, 10 * S), "149 s old");
        assert!(!engines.is_fresh(b"e", 5, 849, 10 * S), "151 s old");
        assert!(!engines.is_fresh(b"e", 5, 1000, 161 * S), "151 s later, the same again");
        assert!(!engines.is_fresh(b"e", 4, 9999, 161 * S), "from before the last boot");
        assert!(engines.is_fresh(b"e", 6, 0, 161 * S), "booted");
        assert!(!engines.is_fresh(b"e", 5, 1200, 161 * S));
        assert!(engines.is_fresh(b"other", 1, 1, 161 * S));
        assert!(!engines.is_fresh(b"worn out", 0x7fff_ffff, 1, S), "boots at its end (RFC 3414 §2.2.2)");
    }

    #[test]
    fn after_a_restart_a_clock_goes_on_and_the_past_stays_past() {
        let mut before = Engines::default();
        assert!(before.is_fresh(b"e", 5, 1000, S) && before.is_fresh(b"e", 5, 1001, S));
        assert!(before.is_fresh(b"other", 1, 7, S));
        let kept = before.take_changed();
        let clock = |id: &[u8], boots, time| EngineClock { id: id.to_vec(), boots, time };
        assert_eq!(kept, [clock(b"e", 5, 1001), clock(b"other", 1, 7)]);
        assert!(before.is_fresh(b"e", 5, 1001, S) && before.take_changed().is_empty(), "the same second");
        let mut later = Engines::default();
        later.resume(&kept[0], false, S);
        later.resume(&kept[1], true, S);
        assert!(!later.is_fresh(b"e", 5, 1001, S), "of the second that is known");
        assert!(!later.is_fresh(b"e", 4, 9999, S), "of an earlier boot");
        assert!(later.is_fresh(b"e", 5, 1002, S));
        assert!(later.is_fresh(b"other", 1, 7, S) && !later.is_fresh(b"other", 1, 6, S));
        assert!(later.is_fresh(b"e", 6, 0, S), "booted");
        assert_eq!(later.take_changed(), [clock(b"e", 6, 0)]);
    }

    #[test]
    fn what_was_seen_is_known_until_two_generations_later() {
        let mut seen = RecentSet::default();
        assert!(seen.insert(1, S));
        assert!(!seen.insert(1, 2 * S));
        assert!(seen.insert(2, 400 * S), "begins a generation");
        assert!(!seen.insert(1, 401 * S));
        assert!(seen.insert(3, 800 * S));
        assert!(seen.insert(1, 801 * S));
    }

    #[test]
    fn a_message_is_known_throughout_the_window_at_20_000_per_second() {
        const PER_SECOND: u64 = 20_000;
        let mut seen = RecentSet::default();
        let window = u64::from(TIME_WINDOW) * PER_SECOND;
        // The worst place: at the end of a generation, which the next one pushes out when it is full.
        for number in 0..RecentSet::FULL as u64 + window {
            assert!(seen.insert(number, S + number * S / PER_SECOND));
        }
        for number in RecentSet::FULL as u64..RecentSet::FULL as u64 + window {
            assert!(!seen.insert(number, S), "{number}");
        }
    }
}
