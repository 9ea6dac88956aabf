//! Waiting on real devices: nothing sleeps past a packet or past a stop, and an idle engine sleeps.

mod net_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use net_support::frames::samples;
use net_support::{HANG, Keep, Wire, bench, config, eventually};
use ringtap::engine::End;
use ringtap::pacer::{Hybrid, Policy, Windowed};
use ringtap::sched;

const MS: u64 = 1_000_000;

#[test]
fn net_packets_that_came_before_the_engine_are_handled() {
    let bench = bench("net_packets_that_came_before_the_engine_are_handled");
    let frames: Vec<Vec<u8>> = samples().iter().map(|sample| sample.bytes.clone()).collect();
    for way in net_support::WAYS {
        for policy in [Policy::Interrupt, Policy::Timer { period_ns: MS }] {
            let mut config = config(&bench, way);
            config.policy = policy;
            let mut sender = Wire::open(bench.testbed.sender());
            let receiver = bench.open(config).unwrap();
            sender.send(&frames);
            std::thread::sleep(Duration::from_millis(20));
            let keep = Keep::default();
            let running = bench.receiver().run(|| receiver.start(vec![keep.clone()])).unwrap().unwrap();
            let all = eventually(Duration::from_secs(2), || keep.len() == frames.len());
            assert!(all, "{way:?}: {} of {}", keep.len(), frames.len());
            assert_eq!(bench.finish(running).ledger.unaccounted(), Some(0), "{way:?}");
        }
    }
}

#[test]
fn net_a_stop_ends_every_wait() {
    let bench = bench("net_a_stop_ends_every_wait");
    for way in net_support::WAYS {
        for policy in [
            Policy::Interrupt,
            Policy::Timer { period_ns: MS },
            Policy::Timer { period_ns: 40 * MS },
            Policy::Timer { period_ns: 30_000 * MS },
            Policy::Hybrid(Hybrid::new(8_300.0, 150_000)),
            Policy::Busy,
        ] {
            let mut config = config(&bench, way);
            config.policy = policy.clone();
            let running = bench.start(config, |_| Keep::default());
            std::thread::sleep(Duration::from_millis(10));
            running.stop_handle().pull();
            // Whoever sleeps on does so for half a minute, or for ever.
            assert!(eventually(HANG, || running.is_finished()), "{way:?} {policy:?}");
            let outcome = bench.finish(running);
            assert_eq!((outcome.engines[0].end, outcome.ledger.unaccounted()), (End::Stopped, Some(0)));
        }
    }
}

#[test]
fn net_an_idle_engine_does_not_wake() {
    let bench = bench("net_an_idle_engine_does_not_wake");
    for way in net_support::WAYS {
        for policy in [
            Policy::Interrupt,
            Policy::Hybrid(Hybrid::new(8_300.0, 150_000)),
            Policy::Windowed(Windowed::new(8_300.0, 150_000)),
        ] {
            let mut config = config(&bench, way);
            config.policy = policy.clone();
            let keep = Keep::default();
            let running = bench.start(config, |_| keep.clone());
            // A burst first, so that there is something to come to rest from.
            bench.send_numbered(30e3, 600, |_| {});
            assert!(eventually(Duration::from_secs(2), || keep.len() == 600), "{way:?}");
            std::thread::sleep(Duration::from_millis(100));
            let before = running.counters();
            std::thread::sleep(Duration::from_millis(150));
            let after = running.counters();
            let wakes = |it: &ringtap::meters::EngineSnapshot| (it.timer_wakes, it.interrupt_wakes);
            assert_eq!(wakes(&before), wakes(&after), "{way:?} {policy:?}");
            bench.finish(running);
        }
    }
}

/// One packet at a time with an interrupt each: none may wait for the next one.
#[test]
fn net_no_packet_waits_for_the_next_one() {
    let bench = bench("net_no_packet_waits_for_the_next_one");
    let frame = samples()[0].bytes.clone();
    for way in net_support::WAYS {
        let mut config = config(&bench, way);
        config.policy = Policy::Interrupt;
        let keep = Keep::default();
        let running = bench.start(config, |_| keep.clone());
        let mut sender = Wire::open(bench.testbed.sender());
        for count in 1..=200 {
            sender.send(std::slice::from_ref(&frame));
            assert!(eventually(HANG, || keep.len() == count), "{way:?}: packet {count} sleeps");
        }
        bench.finish(running);
    }
}

/// A NAPI thread of the kernel may have the same priority and core. One that never ran held the lock of all network settings.
#[test]
fn net_who_spins_lets_others_of_its_priority_run() {
    const TURNS: usize = 100;
    let bench = bench("net_who_spins_lets_others_of_its_priority_run");
    let core = bench.testbed.config().receiver_core;
    for way in net_support::WAYS {
        let mut config = config(&bench, way);
        config.policy = Policy::Busy;
        config.realtime.priority = 10;
        let running = bench.start(config, |_| Keep::default());
        let turns = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&turns);
        let other = std::thread::spawn(move || {
            sched::set_affinity(0, core).unwrap();
            sched::set_fifo(0, 10).unwrap();
            while taken.fetch_add(1, Ordering::Relaxed) < TURNS {
                std::thread::yield_now();
            }
        });
        let ran = eventually(Duration::from_secs(10), || turns.load(Ordering::Relaxed) > TURNS);
        // First, so that a failure leaves nobody spinning.
        let outcome = bench.finish(running);
        other.join().unwrap();
        assert!(ran, "{way:?}: {} turns", turns.load(Ordering::Relaxed));
        assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?}");
    }
}
