//! The kernel's end of one AF_XDP ring of indices (linux/if_xdp.h).
//!
//! Owns the kernel's own index, which it shows when it likes, and the lies it can tell by the two that are shared.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::sys::far_side::FarSide;
use crate::sys::memory::Region;
use crate::sys::ring::Layout;

/// Where the parts of each ring lie.
pub(crate) const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

/// What lies in a ring.
pub(crate) trait Entry: Copy {
    const BYTES: usize;
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl Entry for u64 {
    const BYTES: usize = 8;

    fn to_bytes(self) -> Vec<u8> {
        self.to_ne_bytes().into()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_ne_bytes(std::array::from_fn(|i| bytes[i]))
    }
}

impl Entry for libc::xdp_desc {
    const BYTES: usize = 16;

    fn to_bytes(self) -> Vec<u8> {
        [&self.addr.to_ne_bytes()[..], &self.len.to_ne_bytes(), &self.options.to_ne_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self { addr: u64::from_bytes(bytes), len: word(8), options: word(12) }
    }
}

/// The end that takes entries from a fill or TX ring, or puts them into an RX or completion ring.
#[derive(Debug)]
pub(crate) struct KernelRing<T> {
    memory: FarSide,
    size: u32,
    /// Next index to take or to put.
    next: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> KernelRing<T> {
    /// A ring of `size` entries, a power of two, whose indices begin at `start`, and its memory for the other end.
    ///
    /// # Panics
    /// There is no memory.
    pub(crate) fn new(size: u32, start: u32) -> (Self, Arc<Region>) {
        let bytes = LAYOUT.entries + size as usize * T::BYTES;
        let region = Arc::new(Region::anonymous(bytes, false, "ring").expect("memory for a ring"));
        let memory = FarSide::of(&region);
        memory.store(LAYOUT.producer, start);
        memory.store(LAYOUT.consumer, start);
        (Self { memory, size, next: start, entries: PhantomData }, region)
    }

    fn entry(&self, index: u32) -> usize {
        LAYOUT.entries + (index % self.size) as usize * T::BYTES
    }

    /// Takes up to `most` of the entries that user space has shown. It learns of that by [`KernelRing::show_taken`].
    ///
    /// # Panics
    /// User space has put in more than the ring holds.
    pub(crate) fn take(&mut self, most: u32) -> Vec<T> {
        let shown = self.memory.load(LAYOUT.producer).wrapping_sub(self.next);
        assert!(shown <= self.size, "{shown} entries in a ring of {}", self.size);
        let taken = (0..shown.min(most))
            .map(|i| T::from_bytes(&self.memory.read(self.entry(self.next.wrapping_add(i)), T::BYTES)));
        let taken: Vec<T> = taken.collect();
        self.next = self.next.wrapping_add(taken.len() as u32);
        taken
    }

    pub(crate) fn show_taken(&self) {
        self.memory.store(LAYOUT.consumer, self.next);
    }

    /// Writes an entry, if there is room for it. User space learns of it by [`KernelRing::show_put`].
    pub(crate) fn put(&mut self, entry: T) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.memory.write(self.entry(self.next), &entry.to_bytes());
            self.next = self.next.wrapping_add(1);
        }
        has_room
    }

    /// Entries that can be put.
    pub(crate) fn room(&self) -> u32 {
        self.size.saturating_sub(self.next.wrapping_sub(self.memory.load(LAYOUT.consumer)))
    }

    pub(crate) fn show_put(&self) {
        self.memory.store(LAYOUT.producer, self.next);
    }

    /// Shows any index for what was put.
    pub(crate) fn claim_put(&self, index: u32) {
        self.memory.store(LAYOUT.producer, index);
    }

    /// Shows any index for what was taken.
    pub(crate) fn claim_taken(&self, index: u32) {
        self.memory.store(LAYOUT.consumer, index);
    }

    /// Sets or clears the wish for a wake-up.
    pub(crate) fn want_wakeup(&self, wanted: bool) {
        self.memory.store(LAYOUT.flags, if wanted { libc::XDP_RING_NEED_WAKEUP } else { 0 });
    }
}
