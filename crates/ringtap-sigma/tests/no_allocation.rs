//! An event that is searched, keyed and counted takes no memory once buffers have grown; memory is for incidents.
#![allow(unsafe_code)] // A global allocator can't be had without.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap_sigma::{Matcher, Matches, Row, State, Value};
use support::{automaton, everything, mark, values};

thread_local! {
    /// Whether this thread's calls count. Needs no memory of its own, so the allocator may ask.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

static CALLS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.with(Cell::get) {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RULES: &str = r"
title: Searches
name: s
logsource: {product: p}
detection:
    a:
        text|contains: [ATTACK, ünder, x]
        text|re: 'at+a.k'
        port|gte: 80
        src_ip|cidr: [10.0.0.0/8, '2001:db8::/32']
        same|fieldref: other
    b:
        text: 'an*at?ack'
    words: [attack]
    condition: a and b and words
---
title: Other
name: t
logsource: {product: p}
detection: {s: {text: never}, condition: s}
---
title: Count
name: count
correlation: {type: event_count, rules: s, group-by: [src_ip, port], timespan: 1s, condition: {gte: 100}}
---
title: Together
name: together
correlation: {type: temporal, rules: [s, t], group-by: src_ip, timespan: 1s}
";

#[test]
fn events_that_open_nothing_take_no_memory() {
    let automaton = automaton(RULES);
    let (mut matcher, mut matches, scope) = (Matcher::new(&automaton), Matches::default(), everything(&automaton));
    let mut states: Vec<State> = automaton.rules().iter().map(State::new).collect();
    let fields = [
        ("text", Value::Text("an ÜNDER attack")),
        ("port", Value::Integer(8080)),
        ("src_ip", Value::Text("10.1.2.3")),
        ("same", Value::Text("É")),
        ("other", Value::Text("é")),
    ];
    let values = values(&automaton, &fields);
    let row = Row { values: &values, message: "an ATTACK" };
    let (mut out, mut given) = (Vec::new(), 0);
    for sequence in 0..2000u64 {
        COUNTING.with(|counting| counting.set(sequence >= 1000));
        // 50 events a second: never 100.
        let time = sequence as i64 * 20_000_000;
        matcher.matches(&automaton, &scope, &row, mark(time, 1, sequence), &mut matches);
        for filling in matches.fillings() {
            let rule = &automaton.rules()[usize::from(filling.rule)];
            states[usize::from(filling.rule)].step(rule, &filling.key, Some(filling), time - 100_000_000, &mut out);
            given += 1;
        }
    }
    COUNTING.with(|counting| counting.set(false));
    assert_eq!((given, out.len()), (4000, 0));
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
}
