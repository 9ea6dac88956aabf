//! Owns: tables of fixed capacity that fill from their front, and tell from afar how far they are filled.
//! Does not: know whether there are pages behind what is not filled yet. Whoever locks a sensor's memory need not fill it all at
//! start: the spare capacity can have its pages a little ahead of its use.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many elements of a table are filled, for any thread to see. They never become fewer.
#[derive(Clone, Debug, Default)]
pub struct FillLevel(Arc<AtomicUsize>);

impl From<Arc<AtomicUsize>> for FillLevel {
    /// A count that somebody else keeps.
    fn from(elements: Arc<AtomicUsize>) -> Self {
        Self(elements)
    }
}

impl FillLevel {
    /// Elements from the table's front.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// They are so many now.
    pub fn set(&self, elements: usize) {
        self.0.store(elements, Ordering::Relaxed);
    }
}

/// Is shown the spare capacity of a detector's tables.
pub trait SpareVisitor {
    /// The memory behind what is filled of one table, in the order in which it will be used.
    fn spare<T>(&mut self, memory: &mut [MaybeUninit<T>], level: &FillLevel);
}

/// A vector that never moves: it has all its capacity from the start.
#[derive(Debug)]
pub(crate) struct FixedVec<T> {
    memory: Vec<T>,
    level: FillLevel,
}

impl<T> FixedVec<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { memory: Vec::with_capacity(capacity), level: FillLevel::default() }
    }

    /// Adds an element; there must be room.
    pub(crate) fn push(&mut self, element: T) {
        debug_assert!(self.memory.len() < self.memory.capacity());
        self.memory.push(element);
        self.level.set(self.memory.len());
    }

    /// Has `len` elements at least, the new ones like `element`; there must be room.
    pub(crate) fn reach(&mut self, len: usize, element: T)
    where
        T: Copy,
    {
        if len > self.memory.len() {
            debug_assert!(len <= self.memory.capacity());
            self.memory.resize(len, element);
            self.level.set(len);
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        to.spare(self.memory.spare_capacity_mut(), &self.level);
    }
}

impl<T> Deref for FixedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory
    }
}

impl<T> DerefMut for FixedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<(usize, FillLevel)>);

    impl SpareVisitor for Bytes {
        fn spare<T>(&mut self, memory: &mut [MaybeUninit<T>], level: &FillLevel) {
            self.0.push((size_of_val(memory), level.clone()));
        }
    }

    #[test]
    fn tells_how_far_it_is_filled() {
        let mut table = FixedVec::<u32>::with_capacity(100);
        let mut seen = Bytes(Vec::new());
        table.show_spare(&mut seen);
        table.push(1);
        table.reach(10, 2);
        table.reach(5, 3);
        assert_eq!((table.len(), table[0], table[9]), (10, 1, 2));
        table.show_spare(&mut seen);
        let [(all, level), (rest, _)] = &seen.0[..] else { panic!("{}", seen.0.len()) };
        assert_eq!((*all, *rest, level.elements()), (400, 360, 10));
    }
}
