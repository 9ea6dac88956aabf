//! Owns: the events of a state that wait for the watermark, the next one first.
//! Does not: know when one is due.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::entry::Waiting;

/// Most states have none that waits: it takes its memory when one comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Option<Box<Events>>);

#[derive(Clone, Debug)]
struct Events {
    /// The least of all.
    first: Waiting,
    rest: BinaryHeap<Reverse<Waiting>>,
    /// Bytes that they have apart.
    apart: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |events| 1 + events.rest.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn peek(&self) -> Option<&Waiting> {
        self.0.as_ref().map(|events| &events.first)
    }

    pub(super) fn push(&mut self, event: Waiting) {
        let apart = event.apart();
        let Some(events) = &mut self.0 else {
            return self.0 = Some(Box::new(Events { first: event, rest: BinaryHeap::new(), apart }));
        };
        events.apart += apart;
        let later = if event < events.first { core::mem::replace(&mut events.first, event) } else { event };
        events.rest.push(Reverse(later));
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let events = self.0.as_mut()?;
        let Some(Reverse(next)) = events.rest.pop() else {
            return self.0.take().map(|events| events.first);
        };
        if events.rest.is_empty() {
            events.rest = BinaryHeap::new();
        }
        events.apart -= events.first.apart();
        Some(core::mem::replace(&mut events.first, next))
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.newest(usize::MAX)
    }

    /// So many at most, mostly what came last.
    pub(super) fn newest(&self, most: usize) -> impl Iterator<Item = &Waiting> {
        let rest = self.0.as_ref().map_or(&[][..], |events| events.rest.as_slice());
        let rest = &rest[rest.len().saturating_sub(most - 1)..];
        self.peek().into_iter().chain(rest.iter().map(|Reverse(event)| event))
    }

    /// Bytes of memory.
    pub(super) fn weight(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |events| size_of::<Events>() + events.rest.capacity() * size_of::<Waiting>() + events.apart)
    }
}

impl FromIterator<Waiting> for Queue {
    fn from_iter<T: IntoIterator<Item = Waiting>>(events: T) -> Self {
        let mut this = Self::default();
        events.into_iter().for_each(|event| this.push(event));
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Entry, Mark};

    #[test]
    fn events_weigh_what_they_carry() {
        let mut queue = Queue::default();
        let event = |time_ns| {
            let entry = Entry { mark: Mark { time_ns, ..Mark::default() }, via: None };
            Waiting::new(1, entry, None, &[b'x'; 10_000])
        };
        // Also where a newer one is the first.
        for (count, time_ns) in (1..).zip([3, 1, 2]) {
            queue.push(event(time_ns));
            assert!((count * 10_000..count * 10_000 + 1_000).contains(&queue.weight()), "{}", queue.weight());
        }
        for left in [2, 1] {
            queue.pop();
            assert!((left * 10_000..left * 10_000 + 1_000).contains(&queue.weight()), "{}", queue.weight());
        }
        queue.pop();
        assert_eq!(queue.weight(), 0);
    }
}
