//! The single-producer, single-consumer rings that AF_XDP shares with the kernel (fill, completion, RX, TX).
//!
//! Owns the index arithmetic and the memory ordering of linux/if_xdp.h and Documentation/networking/af_xdp.rst: indices
//! run free over 32 bits and wrap, the producer publishes with release, the consumer reads with acquire. What an entry
//! means is not known here. An index from the kernel that can't be true is clamped and counted, never followed.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Region;

/// Where the parts of a ring lie in its mapping, bytes (struct xdp_ring_offset).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) entries: usize,
}

/// One mapped ring of `size` entries of `T`.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    _region: Arc<Region>,
}

// SAFETY: the pointers lead into the mapping that the value owns; one thread at a time uses a ring's user side (`&mut`).
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// `None` when the layout does not fit the mapping or `size` is no power of two.
    fn new(region: Arc<Region>, layout: Layout, size: u32) -> Option<Self> {
        let fits = |offset: usize, len: usize, align: usize| {
            offset.is_multiple_of(align) && offset.checked_add(len).is_some_and(|end| end <= region.len())
        };
        let index = |offset| fits(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>());
        let entries = (size as usize).checked_mul(size_of::<T>())?;
        if !size.is_power_of_two()
            || !index(layout.producer)
            || !index(layout.consumer)
            || !index(layout.flags)
            || !fits(layout.entries, entries, align_of::<T>())
        {
            return None;
        }
        let base = region.base();
        // SAFETY: every offset and extent was checked against the mapping just now, and the mapping is page aligned.
        unsafe {
            Some(Self {
                producer: base.add(layout.producer).cast(),
                consumer: base.add(layout.consumer).cast(),
                flags: base.add(layout.flags).cast(),
                entries: base.add(layout.entries).cast(),
                size,
                _region: region,
            })
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the owned mapping, aligned; the kernel accesses it atomically as well.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the mask keeps the index below `size`, and `size` entries lie in the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The side of a ring that user space fills: fill ring and TX ring.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    shared: Shared<T>,
    /// Next index to write; published up to here only by `publish`.
    next: u32,
    /// Entries known to be free.
    free: u32,
}

impl<T: Copy> Producer<T> {
    pub(crate) fn new(region: Arc<Region>, layout: Layout, size: u32) -> Option<Self> {
        let shared = Shared::new(region, layout, size)?;
        let next = shared.producer().load(Ordering::Relaxed);
        Some(Self { shared, next, free: 0 })
    }

    /// How many entries can be pushed now; looks at the kernel's index only when fewer than `want` are known to be free.
    pub(crate) fn free(&mut self, want: u32) -> u32 {
        if self.free < want {
            let used = self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire));
            // More than `size` in use can't be true: treat the ring as full rather than overwrite what is in it.
            self.free = self.shared.size.saturating_sub(used);
        }
        self.free
    }

    /// Writes one entry, not yet visible to the kernel; `false` when the ring is full.
    pub(crate) fn push(&mut self, value: T) -> bool {
        if self.free(1) == 0 {
            return false;
        }
        // SAFETY: the entry is free: the kernel has consumed it and will not read it before `publish`.
        unsafe { self.shared.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
        self.free -= 1;
        true
    }

    /// Writes one entry, not yet visible to the kernel, into a ring with a slot for all that can ever be in it at once.
    ///
    /// Asks no index: the kernel shows how far it has read a fill ring only after the packets that it filled (xsk_flush), so to
    /// whoever gives those back at once the ring may still look full. They came by the RX ring's index, written after the
    /// kernel had read their entries, so these are free.
    pub(crate) fn put(&mut self, value: T) {
        // SAFETY: the entry is free, as said above.
        unsafe { self.shared.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes everything written visible to the kernel.
    pub(crate) fn publish(&self) {
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel asked to be woken before it will look at this ring again.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }

    /// Entries the kernel has not consumed yet.
    pub(crate) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire)).min(self.shared.size)
    }
}

/// The side of a ring that user space empties: RX ring and completion ring.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    shared: Shared<T>,
    next: u32,
    ready: u32,
    /// Times the kernel's index claimed more entries than the ring has.
    pub(crate) impossible: u64,
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn new(region: Arc<Region>, layout: Layout, size: u32) -> Option<Self> {
        let shared = Shared::new(region, layout, size)?;
        let next = shared.consumer().load(Ordering::Relaxed);
        Some(Self { shared, next, ready: 0, impossible: 0 })
    }

    /// Takes the next entry, if there is one; the kernel gets it back with `release`.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.ready == 0 {
            let ready = self.shared.producer().load(Ordering::Acquire).wrapping_sub(self.next);
            if ready > self.shared.size {
                self.impossible += 1;
                return None;
            }
            self.ready = ready;
            if ready == 0 {
                return None;
            }
        }
        // SAFETY: the kernel published this entry (acquire above) and won't write it again before `release`.
        let value = unsafe { self.shared.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        self.ready -= 1;
        Some(value)
    }

    /// Gives the entries taken so far back to the kernel.
    pub(crate) fn release(&self) {
        self.shared.consumer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has put in something that was not taken yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready == 0 && self.shared.producer().load(Ordering::Acquire) == self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rings::index::{KernelRing, LAYOUT};

    const SIZE: u32 = 8;

    fn producer(start: u32) -> (Producer<u64>, KernelRing<u64>) {
        let (kernel, memory) = KernelRing::new(SIZE, start);
        (Producer::new(memory, LAYOUT, SIZE).unwrap(), kernel)
    }

    fn consumer(start: u32) -> (Consumer<u64>, KernelRing<u64>) {
        let (kernel, memory) = KernelRing::new(SIZE, start);
        (Consumer::new(memory, LAYOUT, SIZE).unwrap(), kernel)
    }

    #[test]
    fn a_producer_that_owns_all_entries_needs_no_index_of_the_kernel() {
        let (mut ring, mut kernel) = producer(u32::MAX - 2);
        for value in 0..u64::from(SIZE) {
            ring.put(value);
        }
        ring.publish();
        assert_eq!(kernel.take(3), [0, 1, 2]);
        // Delivered and given back before the kernel's index says that they were read.
        for value in 0..3 {
            ring.put(value);
        }
        ring.publish();
        kernel.show_taken();
        assert_eq!(kernel.take(SIZE), [3, 4, 5, 6, 7, 0, 1, 2]);
    }

    #[test]
    fn an_impossible_index_is_counted_not_followed() {
        let (mut ring, kernel) = consumer(0);
        kernel.claim_put(SIZE + 1);
        assert!(ring.pop().is_none());
        assert_eq!(ring.impossible, 1);
        let (mut ring, kernel) = producer(0);
        kernel.claim_taken(5);
        assert!(!ring.push(1), "a consumer ahead of us makes the ring full, not endless");
    }

    #[test]
    fn a_layout_outside_the_mapping_is_refused() {
        let memory = || KernelRing::<u64>::new(SIZE, 0).1;
        let beyond = Layout { entries: memory().len() - 6, ..LAYOUT };
        assert!(Producer::<u64>::new(memory(), beyond, SIZE).is_none());
        assert!(Producer::<u64>::new(memory(), LAYOUT, 7).is_none(), "no power of two");
        assert!(Producer::<u64>::new(memory(), LAYOUT, 1 << 20).is_none());
    }

    #[test]
    fn two_threads_pass_every_value_once_and_in_order() {
        const COUNT: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let (mut ring, mut kernel) = consumer(u32::MAX - 100);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..COUNT {
                    while !kernel.put(value) {
                        std::thread::yield_now();
                    }
                    kernel.show_put();
                }
            });
            let mut expected = 0;
            while expected < COUNT {
                while let Some(value) = ring.pop() {
                    assert_eq!(value, expected);
                    expected += 1;
                }
                ring.release();
                std::thread::yield_now();
            }
        });
    }
}

#[cfg(test)]
mod generated;
