//! A global allocator that counts one thread's calls, for tests of what allocates nothing.
#![allow(unsafe_code)] // A global allocator can't be had without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Whether this thread's calls count, and how many there were. Needs no memory of its own, so the allocator may ask.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    if COUNTING.with(Cell::get) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
    }
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs this and counts what this thread allocates and frees in it.
pub fn allocations(run: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    COUNTING.with(|counting| counting.set(true));
    run();
    COUNTING.with(|counting| counting.set(false));
    CALLS.with(Cell::get) - before
}
