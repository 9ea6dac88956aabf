//! A global allocator that counts one thread's calls, for tests of what allocates nothing.
#![allow(unsafe_code)] // A global allocator can't be had without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Whether this thread's calls count, and how many there were. Needs no memory of its own, so the allocator may ask.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that were allocated and not freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: i64) {
    if COUNTING.with(Cell::get) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        BYTES.with(|held| held.set(held.get() + bytes));
    }
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs this and counts what this thread allocates and frees in it.
#[allow(dead_code)] // As below.
pub fn allocations(run: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    counted(run);
    CALLS.with(Cell::get) - before
}

/// Runs this, and the bytes that this thread holds for it afterwards.
#[allow(dead_code)] // Not every test that has this module asks for bytes.
pub fn held<T>(run: impl FnOnce() -> T) -> (T, i64) {
    let before = BYTES.with(Cell::get);
    let made = counted(run);
    (made, BYTES.with(Cell::get) - before)
}

fn counted<T>(run: impl FnOnce() -> T) -> T {
    COUNTING.with(|counting| counting.set(true));
    let made = run();
    COUNTING.with(|counting| counting.set(false));
    made
}
