//! Owns: which flows owe an inspection of bytes that have come, in the order in which they fell behind.
//! Does not: know what they owe (`Owed` of the flow and its session do), or inspect.

use crate::fixed_vec::{FixedVec, SpareVisitor};

/// Not in the queue, and the last one in it.
const OUT: u32 = u32::MAX;
const LAST: u32 = u32::MAX - 1;

/// A queue of flows, each at most once. One whose debt is paid before its turn stays until then.
pub(crate) struct Backlog {
    /// Of each flow the one behind it.
    next: FixedVec<u32>,
    first: u32,
    last: u32,
    count: usize,
}

impl Backlog {
    /// For flows with numbers below `flows`.
    pub(crate) fn new(flows: usize) -> Self {
        Self { next: FixedVec::with_capacity(flows), first: OUT, last: OUT, count: 0 }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.next.show_spare(to);
    }

    /// Flows in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == OUT
    }

    /// Puts a flow at the end, unless it is in the queue.
    pub(crate) fn add(&mut self, flow: usize) {
        self.next.reach(flow + 1, OUT);
        if self.next[flow] != OUT {
            return;
        }
        self.next[flow] = LAST;
        self.count += 1;
        let before = std::mem::replace(&mut self.last, flow as u32);
        match before {
            OUT => self.first = flow as u32,
            _ => self.next[before as usize] = flow as u32,
        }
    }

    /// Takes the first flow out.
    pub(crate) fn take_first(&mut self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let flow = self.first as usize;
        self.count -= 1;
        match std::mem::replace(&mut self.next[flow], OUT) {
            LAST => (self.first, self.last) = (OUT, OUT),
            next => self.first = next,
        }
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_waits_once_and_in_order() {
        let mut backlog = Backlog::new(10);
        [7, 2, 7, 9, 2].into_iter().for_each(|flow| backlog.add(flow));
        assert_eq!(backlog.take_first(), Some(7));
        backlog.add(7);
        assert_eq!(backlog.count(), 3);
        let rest: Vec<usize> = std::iter::from_fn(|| backlog.take_first()).collect();
        assert_eq!((rest, backlog.is_empty(), backlog.count()), (vec![2, 9, 7], true, 0));
        backlog.add(0);
        assert_eq!((backlog.take_first(), backlog.take_first()), (Some(0), None));
    }
}
