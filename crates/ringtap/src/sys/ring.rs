//! The single-producer, single-consumer rings that AF_XDP shares with the kernel (fill, completion, RX, TX).
//!
//! Owns the index arithmetic and the memory ordering of linux/if_xdp.h and Documentation/networking/af_xdp.rst: indices
//! run free over 32 bits and wrap, the producer publishes with release, the consumer reads with acquire. What an entry
//! means is not known here. An index from the kernel that can't be true is clamped and counted, never followed.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Region;

/// Where the parts of a ring lie in its mapping, bytes (struct xdp_ring_offset).
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
}

/// One mapped ring of `size` entries of `T`.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    _region: Region,
}

// SAFETY: the pointers lead into the mapping that the value owns; one thread at a time uses a ring's user side (`&mut`).
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// `None` when the layout does not fit the mapping or `size` is no power of two.
    fn new(region: Region, layout: Layout, size: u32) -> Option<Self> {
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
pub(super) struct Producer<T> {
    shared: Shared<T>,
    /// Next index to write; published up to here only by `publish`.
    next: u32,
    /// Entries known to be free.
    free: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn new(region: Region, layout: Layout, size: u32) -> Option<Self> {
        let shared = Shared::new(region, layout, size)?;
        let next = shared.producer().load(Ordering::Relaxed);
        Some(Self { shared, next, free: 0 })
    }

    /// How many entries can be pushed now; looks at the kernel's index only when fewer than `want` are known to be free.
    pub(super) fn free(&mut self, want: u32) -> u32 {
        if self.free < want {
            let used = self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire));
            // More than `size` in use can't be true: treat the ring as full rather than overwrite what is in it.
            self.free = self.shared.size.saturating_sub(used);
        }
        self.free
    }

    /// Writes one entry, not yet visible to the kernel; `false` when the ring is full.
    pub(super) fn push(&mut self, value: T) -> bool {
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
    pub(super) fn put(&mut self, value: T) {
        // SAFETY: the entry is free, as said above.
        unsafe { self.shared.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes everything written visible to the kernel.
    pub(super) fn publish(&self) {
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel asked to be woken before it will look at this ring again.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }

    /// Entries the kernel has not consumed yet.
    pub(super) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire)).min(self.shared.size)
    }
}

/// The side of a ring that user space empties: RX ring and completion ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    shared: Shared<T>,
    next: u32,
    ready: u32,
    /// Times the kernel's index claimed more entries than the ring has.
    pub(super) impossible: u64,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn new(region: Region, layout: Layout, size: u32) -> Option<Self> {
        let shared = Shared::new(region, layout, size)?;
        let next = shared.consumer().load(Ordering::Relaxed);
        Some(Self { shared, next, ready: 0, impossible: 0 })
    }

    /// Takes the next entry, if there is one; the kernel gets it back with `release`.
    pub(super) fn pop(&mut self) -> Option<T> {
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
    pub(super) fn release(&self) {
        self.shared.consumer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has put in something that was not taken yet.
    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0 && self.shared.producer().load(Ordering::Acquire) == self.next
    }
}

/// The kernel's ends of the rings, played by tests.
#[cfg(test)]
pub(super) mod fake {
    use super::{Consumer, Layout, Ordering, Producer, Region};

    pub(crate) const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// Memory for a ring whose indices start at `start`.
    pub(crate) fn region(start: u32) -> Region {
        let region = Region::anonymous(64 * 1024, false, "test ring").unwrap();
        for offset in [LAYOUT.producer, LAYOUT.consumer] {
            // SAFETY: inside the mapping, aligned, and nobody else knows it yet.
            unsafe { region.base().add(offset).cast::<u32>().write(start) };
        }
        region
    }

    impl<T: Copy> Consumer<T> {
        /// Publishes an entry for user space; `false` when the ring is full.
        pub(crate) fn kernel_puts(&mut self, value: T) -> bool {
            let next = self.shared.producer().load(Ordering::Relaxed);
            if next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire)) >= self.shared.size {
                return false;
            }
            // SAFETY: a free entry of the test's own ring.
            unsafe { self.shared.entry(next).write(value) };
            self.shared.producer().store(next.wrapping_add(1), Ordering::Release);
            true
        }
    }

    impl<T: Copy> Producer<T> {
        /// Takes everything user space has published.
        pub(crate) fn kernel_takes(&mut self) -> Vec<T> {
            let from = self.shared.consumer().load(Ordering::Relaxed);
            let to = self.shared.producer().load(Ordering::Acquire);
            // SAFETY: published entries of the test's own ring.
            let taken = (0..to.wrapping_sub(from)).map(|i| unsafe { self.shared.entry(from.wrapping_add(i)).read() });
            let taken = taken.collect();
            self.shared.consumer().store(to, Ordering::Release);
            taken
        }

        /// Sets or clears the wish for a wake-up.
        pub(crate) fn kernel_wants_wakeup(&mut self, wanted: bool) {
            // SAFETY: as for `producer`.
            let flags = unsafe { self.shared.flags.as_ref() };
            flags.store(if wanted { libc::XDP_RING_NEED_WAKEUP } else { 0 }, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    const SIZE: u32 = 8;

    fn region(start: u32) -> Region {
        let region = Region::anonymous(4096, false, "test ring").unwrap();
        for offset in [LAYOUT.producer, LAYOUT.consumer] {
            index(&region, offset).store(start, Ordering::Relaxed);
        }
        region
    }

    fn index(region: &Region, offset: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned.
        unsafe { region.base().add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// The fake kernel's end of a ring that a `Producer` fills.
    fn kernel_takes(ring: &Producer<u64>, count: u32) -> Vec<u64> {
        let from = ring.shared.consumer().load(Ordering::Relaxed);
        let to = ring.shared.producer().load(Ordering::Acquire);
        let count = count.min(to.wrapping_sub(from));
        // SAFETY: published entries of the test's own ring.
        let taken = (0..count).map(|i| unsafe { ring.shared.entry(from.wrapping_add(i)).read() }).collect();
        ring.shared.consumer().store(from.wrapping_add(count), Ordering::Release);
        taken
    }

    #[test]
    fn a_producer_keeps_order_across_the_wrap_of_its_index() {
        let mut ring: Producer<u64> = Producer::new(region(u32::MAX - 2), LAYOUT, SIZE).unwrap();
        let mut seen = Vec::new();
        let mut value = 0u64;
        for _ in 0..5 {
            while ring.push(value) {
                value += 1;
            }
            assert!(kernel_takes(&ring, SIZE).is_empty(), "nothing visible before publish");
            ring.publish();
            assert_eq!(ring.pending(), SIZE);
            seen.extend(kernel_takes(&ring, SIZE));
        }
        assert_eq!(seen, (0..value).collect::<Vec<_>>());
        assert_eq!(value, u64::from(SIZE) * 5);
    }

    #[test]
    fn a_producer_that_owns_all_entries_needs_no_index_of_the_kernel() {
        let mut ring: Producer<u64> = Producer::new(region(u32::MAX - 2), LAYOUT, SIZE).unwrap();
        for value in 0..u64::from(SIZE) {
            ring.put(value);
        }
        ring.publish();
        // Three were read, delivered and given back before the kernel's index said so.
        for value in 0..3 {
            ring.put(value);
        }
        ring.publish();
        assert_eq!(kernel_takes(&ring, 3).len(), 3);
        assert_eq!(kernel_takes(&ring, SIZE), [3, 4, 5, 6, 7, 0, 1, 2]);
    }

    #[test]
    fn a_consumer_keeps_order_across_the_wrap_of_its_index() {
        let mut ring: Consumer<u64> = Consumer::new(region(u32::MAX - 3), LAYOUT, SIZE).unwrap();
        let mut sent = 0u64;
        let mut seen = Vec::new();
        for _ in 0..7 {
            for _ in 0..5 {
                let next = ring.shared.producer().load(Ordering::Relaxed);
                // SAFETY: a free entry of the test's own ring.
                unsafe { ring.shared.entry(next).write(sent) };
                ring.shared.producer().store(next.wrapping_add(1), Ordering::Release);
                sent += 1;
            }
            assert!(!ring.is_empty());
            while let Some(value) = ring.pop() {
                seen.push(value);
            }
            ring.release();
            assert!(ring.is_empty());
        }
        assert_eq!(seen, (0..sent).collect::<Vec<_>>());
    }

    #[test]
    fn an_impossible_index_is_counted_not_followed() {
        let mut ring: Consumer<u64> = Consumer::new(region(0), LAYOUT, SIZE).unwrap();
        ring.shared.producer().store(SIZE + 1, Ordering::Release);
        assert!(ring.pop().is_none());
        assert_eq!(ring.impossible, 1);
        let mut ring: Producer<u64> = Producer::new(region(0), LAYOUT, SIZE).unwrap();
        ring.shared.consumer().store(5, Ordering::Release);
        assert!(!ring.push(1), "a consumer ahead of us makes the ring full, not endless");
    }

    #[test]
    fn a_layout_outside_the_mapping_is_refused() {
        let beyond = Layout { entries: 4090, ..LAYOUT };
        assert!(Producer::<u64>::new(region(0), beyond, SIZE).is_none());
        assert!(Producer::<u64>::new(region(0), LAYOUT, 7).is_none(), "no power of two");
        assert!(Producer::<u64>::new(region(0), LAYOUT, 1 << 20).is_none());
    }

    #[test]
    fn two_threads_pass_every_value_once_and_in_order() {
        const COUNT: u64 = 200_000;
        let region = region(u32::MAX - 1000);
        let (producer, consumer) = (index(&region, LAYOUT.producer), index(&region, LAYOUT.consumer));
        let (producer, consumer) = (std::ptr::from_ref(producer) as usize, std::ptr::from_ref(consumer) as usize);
        // SAFETY: inside the mapping.
        let entries = unsafe { region.base().add(LAYOUT.entries) }.as_ptr() as usize;
        let mut ring: Consumer<u64> = Consumer::new(region, LAYOUT, SIZE).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: the mapping outlives the scope (the ring owns it) and these are its aligned index words.
                let (producer, consumer) =
                    unsafe { (&*(producer as *const AtomicU32), &*(consumer as *const AtomicU32)) };
                for value in 0..COUNT {
                    let next = producer.load(Ordering::Relaxed);
                    while next.wrapping_sub(consumer.load(Ordering::Acquire)) >= SIZE {
                        std::thread::yield_now();
                    }
                    // SAFETY: the entry is free (checked above) and inside the mapping.
                    unsafe { *(entries as *mut u64).add((next & (SIZE - 1)) as usize) = value };
                    producer.store(next.wrapping_add(1), Ordering::Release);
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
