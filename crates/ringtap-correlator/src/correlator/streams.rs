//! Owns: how far streams were read that can be read again, such as partitions of Kafka: by offsets that log and store keep together with
//! what became of their records.
//! Does not: read them.

use std::collections::BTreeMap;

/// Streams by number, with the offset that each goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Streams {
    next: BTreeMap<u64, i64>,
    /// What comes next was read from this stream, which goes on with this offset once it was taken.
    coming: Option<(u64, i64)>,
}

impl Streams {
    pub(super) fn of(next: BTreeMap<u64, i64>) -> Self {
        Self { next, coming: None }
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

    pub(super) fn next(&self) -> &BTreeMap<u64, i64> {
        &self.next
    }
}
