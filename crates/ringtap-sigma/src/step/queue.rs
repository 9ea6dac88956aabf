//! Owns: the events of a state that wait for the watermark, the next one first.
//! Does not: know when one is due.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::entry::Waiting;

/// Most states have one event that waits, at most: it needs no memory of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// The least of all; where there is none, none waits.
    first: Option<Waiting>,
    rest: BinaryHeap<Reverse<Waiting>>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn peek(&self) -> Option<&Waiting> {
        self.first.as_ref()
    }

    pub(super) fn push(&mut self, event: Waiting) {
        let Some(first) = &mut self.first else { return self.first = Some(event) };
        let later = if event < *first { core::mem::replace(first, event) } else { event };
        self.rest.push(Reverse(later));
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let next = self.rest.pop().map(|Reverse(event)| event);
        if next.is_some() && self.rest.is_empty() {
            self.rest = BinaryHeap::new();
        }
        core::mem::replace(&mut self.first, next)
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.first.iter().chain(self.rest.iter().map(|Reverse(event)| event))
    }

    /// So many at most, mostly what came last.
    pub(super) fn newest(&self, most: usize) -> impl Iterator<Item = &Waiting> {
        let rest = self.rest.as_slice();
        let rest = &rest[rest.len().saturating_sub(most - 1)..];
        self.first.iter().chain(rest.iter().map(|Reverse(event)| event))
    }

    /// Bytes of memory.
    pub(super) fn weight(&self) -> usize {
        self.rest.capacity() * size_of::<Waiting>()
    }
}

impl FromIterator<Waiting> for Queue {
    fn from_iter<T: IntoIterator<Item = Waiting>>(events: T) -> Self {
        let mut this = Self::default();
        events.into_iter().for_each(|event| this.push(event));
        this
    }
}
