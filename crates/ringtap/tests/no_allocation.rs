//! Invariant 1: over a million packets the engine's thread neither allocates nor frees, whatever it waits for.
#![allow(unsafe_code)] // A global allocator can't be had without.

mod engine_support;
mod net_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine_support::engine;
use net_support::{Bench, Way, bench, config, eventually};
use ringtap::burst::Packet;
use ringtap::engine::{End, Handler};
use ringtap::pacer::{Hybrid, Policy};
use ringtap::testing::{Arrival, MemorySource, Script, SimulatedClock};
use ringtap::transmit::Outbox;

thread_local! {
    /// Whether this thread's calls count. Needs no memory of its own, so the allocator may ask.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static DEALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

fn count(counter: &AtomicU64) {
    if COUNTING.with(Cell::get) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(&DEALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PACKETS: u64 = 1_000_000;

/// Counts from its first packet to the last one wanted, and answers one in a thousand.
#[derive(Default)]
struct Watch {
    seen: u64,
}

impl Handler for Watch {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        self.seen += 1;
        if self.seen == 1 {
            COUNTING.with(|counting| counting.set(true));
        }
        if self.seen.is_multiple_of(1000) {
            outbox.send(|frame| {
                frame[..packet.data.len()].copy_from_slice(packet.data);
                packet.data.len()
            });
        }
        if self.seen == PACKETS {
            COUNTING.with(|counting| counting.set(false));
        }
    }
}

/// One test counts at a time, from nothing.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ALLOCATIONS.store(0, Ordering::Relaxed);
    DEALLOCATIONS.store(0, Ordering::Relaxed);
    turn
}

fn counted() -> (u64, u64) {
    (ALLOCATIONS.load(Ordering::Relaxed), DEALLOCATIONS.load(Ordering::Relaxed))
}

fn million(bench: &Bench, way: Way) {
    let _turn = turn();
    let mut config = config(bench, way);
    config.policy = Policy::Hybrid(Hybrid::new(8_300.0, 500_000));
    config.transmit_slots = 64;
    config.ring_slots = 32768;
    config.realtime.priority = 50;
    let running = bench.start(config, |_| Watch::default());
    // Slowly first and at the end: interrupts, then the timer, then interrupts again.
    bench.send_numbered(2e3, 200, |_| {});
    bench.send_numbered(450e3, PACKETS - 400, |_| {});
    let mut rest = 200;
    // On a busy machine some may be lost on the way: as many more are sent.
    while eventually(Duration::from_millis(50), || running.counters().packets < PACKETS) && rest > 0 {
        bench.send_numbered(5e3, rest, |_| {});
        std::thread::sleep(Duration::from_millis(20));
        rest = PACKETS.saturating_sub(running.counters().packets);
    }
    let counters = running.counters();
    let outcome = bench.finish(running);
    assert_eq!(outcome.ledger.unaccounted(), Some(0), "{}", outcome.ledger);
    assert!(outcome.ledger.delivered >= PACKETS, "{}", outcome.ledger);
    assert!(
        counters.timer_wakes > 100 && counters.interrupt_wakes > 100 && counters.mode_switches >= 2,
        "{counters:?}"
    );
    assert!(counters.transmitted >= PACKETS / 1000 && counters.latency.count() >= PACKETS, "{counters:?}");
    assert_eq!(counted(), (0, 0), "{way:?}: over {PACKETS} packets");
}

#[test]
fn net_xdp_takes_a_million_packets_without_allocating() {
    million(&bench("net_xdp_takes_a_million_packets_without_allocating"), Way::Native);
}

#[test]
fn net_packet_ring_takes_a_million_packets_without_allocating() {
    million(&bench("net_packet_ring_takes_a_million_packets_without_allocating"), Way::Packet);
}

/// The loop and what every source goes through, without a device: packets that come slowly, then fast, then slowly again.
#[test]
fn the_loop_over_memory_takes_a_million_packets_without_allocating() {
    let _turn = turn();
    let clock = SimulatedClock::at(1);
    let instants = (0..PACKETS).scan(0, |at_ns, number| {
        *at_ns += if (200..PACKETS - 200).contains(&number) { 2_000 } else { 500_000 };
        Some(*at_ns)
    });
    let script = Script::of(instants.map(|at_ns| Arrival::at(at_ns, &[7; 60])));
    let source = MemorySource::new("memory", clock.clone(), script).unwrap();
    let mut engine = engine(source, Watch::default(), &Policy::Hybrid(Hybrid::new(8_300.0, 500_000)));
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::EndOfFile);
    let meters = engine.meters.snapshot();
    assert!(meters.timer_wakes > 100 && meters.interrupt_wakes > 100 && meters.mode_switches >= 2, "{meters:?}");
    assert_eq!((engine.handler.seen, meters.latency.count()), (PACKETS, PACKETS));
    assert_eq!(counted(), (0, 0));
}

/// The counter itself counts: what it watches is not empty by mistake.
#[test]
fn an_allocation_is_counted() {
    let _turn = turn();
    std::thread::spawn(|| {
        COUNTING.with(|counting| counting.set(true));
        drop(std::hint::black_box(vec![1u8; 100]));
        COUNTING.with(|counting| counting.set(false));
        let (allocations, deallocations) = counted();
        assert!(allocations > 0 && deallocations > 0);
    })
    .join()
    .unwrap();
}
