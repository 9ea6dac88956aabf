//! Owns: how far streams were read that can be read again, such as partitions of Kafka: by offsets that log and store keep together with
//! what became of their records.
//! Does not: read them.

use std::collections::BTreeMap;

use super::Correlator;

/// Streams by number, with the offset that each goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Streams {
    next: BTreeMap<u64, i64>,
    /// The same, when the log was last on the disk: what the store may say.
    logged: BTreeMap<u64, i64>,
    /// What comes next was read from this stream, which goes on with this offset once it was taken.
    coming: Option<(u64, i64)>,
}

impl Streams {
    pub(super) fn of(next: BTreeMap<u64, i64>) -> Self {
        Self { logged: next.clone(), next, coming: None }
    }

    /// What comes next is of this stream. What came before was taken, or came to nothing.
    pub(super) fn comes(&mut self, stream: u64, next: i64) {
        self.taken();
        self.coming = Some((stream, next));
    }

    /// What is to be logged with the event that comes.
    pub(super) fn coming(&self) -> Option<(u64, i64)> {
        self.coming
    }

    /// What came was taken.
    pub(super) fn taken(&mut self) {
        if let Some((stream, next)) = self.coming.take() {
            self.note(stream, next);
        }
    }

    /// A stream was read so far, or farther.
    pub(super) fn note(&mut self, stream: u64, next: i64) {
        let known = self.next.entry(stream).or_insert(next);
        *known = (*known).max(next);
    }

    /// A stream is read from here on, whatever was before.
    pub(super) fn set(&mut self, stream: u64, next: i64) {
        self.next.insert(stream, next);
    }

    /// The log is on the disk.
    pub(super) fn are_logged(&mut self) {
        if self.logged != self.next {
            self.logged.clone_from(&self.next);
        }
    }

    pub(super) fn logged(&self) -> &BTreeMap<u64, i64> {
        &self.logged
    }

    pub(super) fn next(&self) -> &BTreeMap<u64, i64> {
        &self.next
    }
}

impl Correlator {
    /// What comes next was read from a stream that can be read again, such as a partition of Kafka; it goes on with the offset `next`.
    pub fn reads(&mut self, stream: u64, next: i64) {
        self.streams.comes(stream, next);
    }

    /// The offset that a stream goes on with; `None`: nothing of it was read.
    #[must_use]
    pub fn read_up_to(&self, stream: u64) -> Option<i64> {
        self.streams.next().get(&stream).copied()
    }

    /// A stream begins again elsewhere, as what was to come is not there any more.
    pub fn begins_again(&mut self, stream: u64, next: i64) {
        self.streams.set(stream, next);
        if let Some(disk) = &mut self.disk {
            disk.log.begins_again(stream, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_counts_once_it_was_taken_or_something_else_comes() {
        let mut streams = Streams::of(BTreeMap::from([(1, 5)]));
        streams.comes(1, 6);
        assert_eq!((streams.coming(), streams.next()[&1]), (Some((1, 6)), 5), "it was not taken yet");
        streams.taken();
        streams.comes(2, 1);
        assert_eq!((streams.next()[&1], streams.next().get(&2)), (6, None));
        // It came to nothing.
        streams.comes(1, 7);
        assert_eq!(streams.next()[&2], 1);
        // The log of a restart says again what the store knew.
        streams.note(1, 3);
        assert_eq!(streams.next()[&1], 6);
        streams.set(1, 2);
        assert_eq!((streams.next()[&1], streams.logged()[&1]), (2, 5), "the log is not on the disk");
        streams.are_logged();
        assert_eq!(streams.logged(), streams.next());
    }
}
