//! Invariant 1: with all memory taken at start, no packet makes the detector allocate or free.
#![allow(unsafe_code)] // A global allocator can't be had without.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap_wire::LinkType;
use support::{ACK, Count, detector, handshake, tcp, udp};

thread_local! {
    /// Whether this thread's calls count. Needs no memory of its own, so the allocator may ask.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

static CALLS: AtomicU64 = AtomicU64::new(0);

struct Counting;

fn count() {
    if COUNTING.with(Cell::get) {
        CALLS.fetch_add(1, Ordering::Relaxed);
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

#[test]
fn packets_allocate_nothing() {
    let mut detector = detector(
        r#"alert udp any any -> any any (content:"attack"; content:"more"; distance:0; threshold:type limit,track by_src,count 1,seconds 1; sid:1;)
        alert tcp any any -> any 80 (flow:established; content:"attack"; pcre:"/k[a-z]+$/R"; flowbits:set,a; sid:2;)
        alert udp any any -> any any (content:"attack"; pcre:"/(a)ttack.*(?=m)/"; hostbits:set,b; sid:3;)
        alert dns any any -> any any (dns.query; content:"example"; sid:4;)"#,
    );
    let mut frames = Vec::new();
    for number in 0..200u16 {
        frames.push(udp(number, 9, b"an attack and more"));
        frames.push(udp(number, 53, b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01"));
        let mut fragment = udp(number, 9, &[b'x'; 64]);
        (fragment[20], fragment[18]) = (0x20, number as u8);
        frames.push(fragment);
    }
    frames.extend(handshake());
    for number in (0..400u32).rev() {
        frames.push(tcp(true, number * 10, 0, ACK, b"some attac"));
    }
    let mut found = Count::default();
    COUNTING.with(|counting| counting.set(true));
    for (index, frame) in frames.iter().enumerate() {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, index as u64 * 1_000_000, &mut found);
    }
    detector.finish(1 << 40, &mut found);
    COUNTING.with(|counting| counting.set(false));
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    assert!(found.0 > 200 && detector.counters().defrag.fragments == 200, "{}", found.0);
}
