//! Owns: in which order a pool's entries were used, and which one makes room for another: whoever sends datagrams to a tunnel's
//! end writes both sides of what is inside, so that goes first; so does what a pool holds most of its memory for.
//! Does not: hold the entries. The pool knows them by their numbers.

use crate::fixed_vec::{FixedVec, SpareVisitor};

const NONE: u32 = u32::MAX;
/// So large a part of a pool is left to what is inside tunnels.
const SHARE: usize = 16;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    is_tunnelled: bool,
    is_linked: bool,
}

impl Link {
    const FREE: Self = Self { newer: NONE, older: NONE, is_tunnelled: false, is_linked: false };
}

/// Entries from the newest to the oldest.
#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    count: usize,
}

/// A flow, as the pools that keep something of it know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Its place in the table of flows.
    pub(crate) flow: usize,
    /// Its packets are inside a tunnel.
    pub(crate) is_tunnelled: bool,
}

pub(crate) struct UseOrder {
    links: FixedVec<Link>,
    capacity: usize,
    /// Beside tunnels, and inside.
    lists: [List; 2],
}

impl UseOrder {
    /// For entries with numbers below `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        let empty = List { newest: NONE, oldest: NONE, count: 0 };
        Self { links: FixedVec::with_capacity(capacity), capacity, lists: [empty; 2] }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.links.show_spare(to);
    }

    /// The entry is in use, and the one used last.
    pub(crate) fn add(&mut self, number: u32, is_tunnelled: bool) {
        self.links.reach(number as usize + 1, Link::FREE);
        self.remove(number);
        let list = &mut self.lists[usize::from(is_tunnelled)];
        let second = std::mem::replace(&mut list.newest, number);
        list.count += 1;
        match second {
            NONE => list.oldest = number,
            _ => self.links[second as usize].newer = number,
        }
        self.links[number as usize] = Link { newer: NONE, older: second, is_tunnelled, is_linked: true };
    }

    /// It was used again.
    #[inline]
    pub(crate) fn touch(&mut self, number: u32) {
        let Link { newer, is_tunnelled, .. } = self.links[number as usize];
        if newer != NONE {
            self.add(number, is_tunnelled);
        }
    }

    /// The entry that gives up its memory for `kept`: the same, but those inside tunnels, and those that have much, are first however few
    /// they are, and take it from each other only.
    pub(crate) fn to_shrink(&self, kept: u32) -> Option<u32> {
        let [beside, inside] = &self.lists;
        let tries = if self.links[kept as usize].is_tunnelled { [inside, inside] } else { [inside, beside] };
        self.oldest_of(tries, Some(kept))
    }

    /// It is in use no more.
    pub(crate) fn remove(&mut self, number: u32) {
        let Link { newer, older, is_tunnelled, is_linked } = self.links[number as usize];
        if !is_linked {
            return;
        }
        let list = &mut self.lists[usize::from(is_tunnelled)];
        list.count -= 1;
        match newer {
            NONE => list.newest = older,
            _ => self.links[newer as usize].older = older,
        }
        match older {
            NONE => list.oldest = newer,
            _ => self.links[older as usize].newer = newer,
        }
        self.links[number as usize] = Link::FREE;
    }

    /// The entry that makes room for `kept`, or for a new one: of those inside tunnels, if they have more than their share, else
    /// of the others, the one used longest ago.
    pub(crate) fn to_give_up(&self, kept: Option<u32>) -> Option<u32> {
        let [beside, inside] = &self.lists;
        let tries = if inside.count > self.capacity / SHARE { [inside, beside] } else { [beside, inside] };
        self.oldest_of(tries, kept)
    }

    fn oldest_of(&self, tries: [&List; 2], kept: Option<u32>) -> Option<u32> {
        tries.into_iter().find_map(|list| {
            let oldest = list.oldest;
            let number = if kept == Some(oldest) { self.links[oldest as usize].newer } else { oldest };
            (oldest != NONE && number != NONE).then_some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_tunnels_makes_room_first_beyond_its_share() {
        let mut order = UseOrder::new(32);
        assert_eq!(order.to_give_up(None), None);
        (0..3).for_each(|number| order.add(number, false));
        (3..5).for_each(|number| order.add(number, true));
        assert_eq!(order.to_give_up(None), Some(0), "two of 32 are the share");
        order.touch(0);
        assert_eq!(order.to_give_up(None), Some(1));
        assert_eq!(order.to_give_up(Some(1)), Some(2));
        order.add(5, true);
        assert_eq!(order.to_give_up(None), Some(3));
        order.remove(3);
        (0..3).for_each(|number| order.remove(number));
        assert_eq!(order.to_give_up(None), Some(4), "no others");
        order.remove(5);
        assert_eq!(order.to_give_up(Some(4)), None);
    }

    #[test]
    fn what_is_large_makes_room_for_all_and_for_itself() {
        let mut order = UseOrder::new(32);
        (0..3).for_each(|number| order.add(number, number == 1));
        assert_eq!((order.to_shrink(0), order.to_shrink(1)), (Some(1), None));
        order.remove(1);
        assert_eq!(order.to_shrink(0), Some(2));
        order.add(3, true);
        order.add(4, true);
        assert_eq!((order.to_shrink(4), order.to_shrink(3)), (Some(3), Some(4)));
    }
}
