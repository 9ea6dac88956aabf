//! Memory that a ring shares, as the kernel or a card sees it: words and bytes by their offset.
//!
//! Owns the accesses, checked against the mapping. Does not know what lies where: the kernels and cards that `testing` plays do.
//! As with [`Slot`](super::memory::Slot), who writes must own the bytes, by the ring's rules: this is the contract of
//! `testing::rings`, which keeps count of what it has handed over.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Region;

/// One region, seen from the other side.
#[derive(Debug, Clone)]
pub(crate) struct FarSide {
    region: Arc<Region>,
    /// Of memory that goes on at its own beginning ([`Region::endless`]): its length, and how many bytes more show it again.
    endless: Option<(usize, usize)>,
}

impl FarSide {
    pub(crate) fn of(region: &Arc<Region>) -> Self {
        Self { region: Arc::clone(region), endless: None }
    }

    /// Of a [`Region::endless`] with these `ring` and `tail`.
    pub(crate) fn of_endless(region: &Arc<Region>, ring: usize, tail: usize) -> Self {
        Self { region: Arc::clone(region), endless: Some((ring, tail)) }
    }

    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.region.len()), "{len} bytes at {offset}");
        // SAFETY: inside the mapping, as checked.
        unsafe { self.region.base().add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(align_of::<AtomicU32>()));
        // SAFETY: inside the mapping by `at`, aligned as checked; no slot names words that both sides use.
        unsafe { self.at(offset, size_of::<AtomicU32>()).cast().as_ref() }
    }

    /// The word at `offset`, with all that was written before it.
    pub(crate) fn load(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Shows a word, and all that was written before it.
    pub(crate) fn store(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let from = self.at(offset, len);
        let mut bytes = vec![0; len];
        // SAFETY: readable by `at`, and nobody writes there by contract; the vector is memory of its own.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut bytes[..]).cast(), len) };
        bytes
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: writable by `at`, and the caller's by contract; nothing refers to it.
        unsafe { self.at(offset, bytes.len()).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        // Miri has no memory that is mapped twice (`Region::endless`).
        if let Some((ring, tail)) = self.endless.filter(|&(ring, _)| cfg!(miri) && offset < ring) {
            for copy in (offset..ring + tail).step_by(ring).skip(1) {
                let bytes = &bytes[..bytes.len().min(ring + tail - copy)];
                // SAFETY: as above: the same bytes once more.
                unsafe {
                    self.at(copy, bytes.len()).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
                };
            }
        }
    }
}
