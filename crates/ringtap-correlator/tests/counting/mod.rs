//! The allocator of tests that count what a thread takes.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has.
    pub static LIVE: Cell<i64> = const { Cell::new(0) };
    /// Times that this thread asked for some.
    pub static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn note(bytes: i64, calls: u64) {
    // A thread that ends has no counter any more.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
    let _ = CALLS.try_with(|all| all.set(all.get() + calls));
}

// SAFETY: each call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64, 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(-(layout.size() as i64), 0);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}
