//! The engine's end of a recording allocates nothing (invariant 1). A program of its own: it counts all allocations.
#![allow(unsafe_code)]

#[path = "record_support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ringtap::record::{LEAST_SPOOL_BYTES, RecordConfig};
use support::start;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may allocate after its own counter is gone.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn push_and_wake_allocate_nothing_full_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        RecordConfig { spool_bytes: LEAST_SPOOL_BYTES, ..RecordConfig::new(directory.path().join("a.pcapng")) };
    let (recorder, mut producer) = start(config);
    let data = [7; 1500];
    let before = ALLOCATIONS.get();
    let mut taken = 0_u64;
    for index in 0..1_000_000_u64 {
        taken += u64::from(producer.push(0, index, 1500, &data[..(index % 1500) as usize]));
        if index % 64 == 0 {
            producer.wake();
        }
    }
    let allocations = ALLOCATIONS.get() - before;
    let summary = recorder.finish(Vec::new()).unwrap();
    assert_eq!(allocations, 0);
    assert_eq!(summary.packets, taken);
    assert_eq!(summary.packets + summary.lost.spool_packets, 1_000_000);
    assert!(summary.lost.spool_packets > 0, "the spool was never full: the test shows too little");
}
