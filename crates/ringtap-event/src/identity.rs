//! Owns: which of equal records of one stamp an event is, for inputs without sequences.
//! Does not: look at what is behind the watermark: such an event is late, and equal to one that was told.

use std::collections::BTreeMap;

use ringtap_sigma::{Identity, Mark};

/// Records of stamps that the watermark has not passed.
#[derive(Debug, Default)]
pub struct Numbers {
    /// By time, sensor and hash.
    seen: BTreeMap<(i64, u64, u64), u64>,
}

impl Numbers {
    /// Gives an event its number among its equals.
    pub fn number(&mut self, mark: &mut Mark, watermark: i64) {
        if mark.time_ns <= watermark {
            return;
        }
        let count = self.seen.entry((mark.time_ns, mark.identity.sensor, mark.identity.epoch)).or_default();
        mark.identity.sequence = *count;
        *count += 1;
    }

    /// Notes an event that has its number: after a restart, from the log.
    pub fn note(&mut self, mark: &Mark) {
        let count = self.seen.entry((mark.time_ns, mark.identity.sensor, mark.identity.epoch)).or_default();
        *count = (*count).max(mark.identity.sequence + 1);
    }

    /// The last of each that are remembered: what [`note`](Self::note) takes.
    pub fn last(&self) -> impl Iterator<Item = Mark> {
        self.seen.iter().map(|((time_ns, sensor, epoch), count)| {
            let identity = Identity { sensor: *sensor, epoch: *epoch, sequence: count.saturating_sub(1) };
            Mark { time_ns: *time_ns, identity, ..Mark::default() }
        })
    }

    /// Stamps of senders that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// The earliest of them, ns.
    #[must_use]
    pub fn first_ns(&self) -> Option<i64> {
        self.seen.first_key_value().map(|((time, ..), _)| *time)
    }

    /// Forgets the earliest.
    pub fn forget_first(&mut self) {
        self.seen.pop_first();
    }

    /// Forgets what the watermark has passed.
    pub fn advance(&mut self, watermark: i64) {
        while let Some(first) = self.seen.first_entry()
            && first.key().0 <= watermark
        {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_records_are_told_apart() {
        let mut numbers = Numbers::default();
        let mut number = |time_ns, epoch, watermark| {
            let mut mark = Mark { time_ns, identity: Identity { sensor: 1, epoch, sequence: 0 }, ..Mark::default() };
            numbers.number(&mut mark, watermark);
            numbers.advance(watermark);
            mark.identity.sequence
        };
        assert_eq!([number(10, 7, 0), number(10, 7, 0), number(10, 8, 0), number(11, 7, 0)], [0, 1, 0, 0]);
        assert_eq!([number(10, 7, 9), number(11, 7, 10), number(12, 7, 10)], [2, 1, 0]);
    }
}
