//! Owns: one epoch of one sensor: which of its alarms are in, and how far it promised that none follows.
//! Does not: compare epochs or look at a clock.
//!
//! A promise (a heartbeat's h and n) counts once all sequences up to n are in. Where some still lack when it is due, they
//! are given up: lost, until they come after all.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::ranges::Ranges;

/// Promises that wait at once: a later one says all that an earlier one does.
const MOST_PROMISES: usize = 64;

/// A heartbeat that does not count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Promise {
    h_ns: Option<i64>,
    last: u64,
    /// On the monotonic clock.
    due_ns: i64,
    /// Not before it is due, as nobody knows which alarms are still on their way.
    waits: bool,
    /// Receipt since 1970.
    received_ns: i64,
}

/// Alarms that were given up: what they told of lies in this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) count: u64,
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
}

/// One epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Epoch {
    pub(super) number: u64,
    received: Ranges,
    /// The sequence before the first that counts; `None`: not known yet, as we came in the middle.
    base: Option<u64>,
    /// Sequences up to here are in or given up.
    settled: u64,
    /// The greatest promise that counts.
    h_ns: Option<i64>,
    waiting: VecDeque<Promise>,
    /// When its latest heartbeat was built, by its own clock: an older one is a copy, or was overtaken.
    built_ns: Option<i64>,
    /// When the first message that we had of it was built; while it is known of the log alone, a time before that.
    pub(super) first_built_ns: i64,
    /// It is known of the log alone.
    is_noted: bool,
    /// Receipt of its latest heartbeat, monotonic.
    pub(super) heard_ns: Option<i64>,
    /// Receipt of its first one, monotonic.
    pub(super) began_ns: Option<i64>,
}

/// What an alarm's sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// New.
    New,
    /// It was given up.
    Recovered,
    /// It was there before.
    Duplicate,
}

impl Epoch {
    /// `from_start`: its first sequence, 1, is the first that counts. Else what was sent before we came is no loss.
    pub(super) fn new(number: u64, from_start: bool, built_ns: i64) -> Self {
        Self {
            number,
            first_built_ns: built_ns,
            is_noted: false,
            received: Ranges::default(),
            base: from_start.then_some(0),
            settled: 0,
            h_ns: None,
            waiting: VecDeque::new(),
            built_ns: None,
            heard_ns: None,
            began_ns: None,
        }
    }

    /// One of the log, of which nothing was heard yet.
    pub(super) fn noted(number: u64, time_ns: i64) -> Self {
        Self { is_noted: true, ..Self::new(number, false, time_ns) }
    }

    /// Something of it is heard. Of what was sent before, by an epoch before it, nothing is expected any more.
    pub(super) fn heard(&mut self, built_ns: i64) {
        if std::mem::take(&mut self.is_noted) {
            self.first_built_ns = self.first_built_ns.max(built_ns);
        }
    }

    /// Whether an alarm is here.
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.received.has_all(sequence, sequence)
    }

    /// Whether a heartbeat is a copy, or was overtaken.
    pub(super) fn is_behind(&self, beat: &super::Beat) -> bool {
        self.built_ns.is_some_and(|built| beat.built_ns <= built)
    }

    /// Takes an alarm's sequence. What had to be given up for want of room is lost.
    pub(super) fn alarm(&mut self, sequence: u64, received_ns: i64) -> (Taken, Option<Lost>) {
        if !self.received.insert(sequence) {
            return (Taken::Duplicate, None);
        }
        let counts = self.base.is_some_and(|base| sequence > base);
        let taken = if counts && sequence <= self.settled { Taken::Recovered } else { Taken::New };
        let mut lost = None;
        if let Some((first, last)) = self.received.make_room() {
            let first = first.max(self.settled.saturating_add(1));
            if self.base.is_some() && first <= last {
                lost = Some(self.lost(last - first + 1, received_ns));
            }
            self.settled = self.settled.max(last);
        }
        (taken, lost)
    }

    /// Notes an alarm of the log, after a restart.
    pub(super) fn note(&mut self, sequence: u64) {
        self.received.insert(sequence);
        let _ = self.received.make_room();
        let base = self.received.first().map_or(0, |first| first - first.min(1));
        (self.base, self.settled) = (Some(base), self.settled.max(base));
    }

    /// Takes a heartbeat; false: it is a copy, or one that was overtaken.
    pub(super) fn beat(&mut self, beat: &super::Beat, due_ns: i64, now: super::Now) -> bool {
        if self.is_behind(beat) {
            return false;
        }
        self.built_ns = Some(beat.built_ns);
        self.heard_ns = Some(now.monotonic_ns);
        self.began_ns = self.began_ns.or(Some(now.monotonic_ns));
        let waits = self.base.is_none();
        if waits {
            // What we have of it begins there; what lies between that and the heartbeat's last has to come.
            let base = self.received.first().map_or(beat.last, |first| (first - first.min(1)).min(beat.last));
            (self.base, self.settled) = (Some(base), base);
        }
        if self.waiting.len() == MOST_PROMISES {
            // The first is the next to come due: with it gone again and again, none would.
            self.waiting.pop_back();
        }
        self.waiting.push_back(Promise { h_ns: beat.h_ns, last: beat.last, due_ns, waits, received_ns: now.wall_ns });
        true
    }

    /// Lets the promises count that are complete or due. Returns what was given up for them.
    pub(super) fn settle(&mut self, monotonic_ns: i64) -> Vec<Lost> {
        let mut all = Vec::new();
        while let Some(first) = self.waiting.front().copied() {
            if first.waits && first.due_ns > monotonic_ns {
                break;
            }
            if !self.received.has_all(self.settled.saturating_add(1), first.last) {
                if first.due_ns > monotonic_ns {
                    break;
                }
                let count = self.received.missing(self.settled.saturating_add(1), first.last);
                all.push(self.lost(count, first.received_ns));
            }
            self.waiting.pop_front();
            self.settled = self.settled.max(first.last);
            self.h_ns = self.h_ns.max(first.h_ns);
        }
        all
    }

    /// What was sent before the last promise was older than this promise's; how new it was nobody knows, but it was there.
    fn lost(&self, count: u64, received_ns: i64) -> Lost {
        let from_ns = self.h_ns.map_or(i64::MIN, |h| h.saturating_add(1));
        Lost { count, from_ns, to_ns: received_ns.max(from_ns) }
    }

    /// The greatest promise that counts.
    pub(super) fn h_ns(&self) -> Option<i64> {
        self.h_ns
    }

    /// When the next promise is due, monotonic.
    pub(super) fn due_ns(&self) -> Option<i64> {
        self.waiting.front().map(|first| first.due_ns)
    }
}
