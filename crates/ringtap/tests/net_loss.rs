//! The ledger under forced loss: every packet that was sent is delivered or has a cause, and the right one.

mod net_support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use net_support::{Count, Way, bench, bench_with, config, drops, settle};
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::ledger::{Cause, Ledger};
use ringtap::pacer::Policy;
use ringtap::receiver::{Outcome, ReceiverConfig};
use ringtap::transmit::Outbox;
use ringtap_testbed::{LossBurst, TestbedConfig};

const SENT: u64 = 60_000;

fn balanced<H>(outcome: &Outcome<H>, sent: u64, what: &str) {
    let ledger = &outcome.ledger;
    assert_eq!(ledger.unaccounted(), Some(0), "{what}: {ledger}");
    assert_eq!(ledger.offered, Some(sent), "{what}: {ledger}");
    assert_eq!(ledger.delivered + ledger.lost(), sent, "{what}: {ledger}");
}

/// The smallest ring and a handler that now and then sleeps, at 200 kpps and more.
fn slow_handler(name: &str, way: Way, frame_size: Option<u32>) -> (Outcome<Count>, u64) {
    let bench = bench(name);
    let mut config = config(&bench, way);
    config.ring_slots = 64;
    config.frame_size = frame_size;
    let running = bench.start(config, |_| {
        let mut count = Count::new(SENT, &[64]);
        count.pause = Duration::from_micros(300);
        count
    });
    let report = bench.send_numbered(220e3, SENT, |_| {});
    settle(&running);
    let outcome = bench.finish(running);
    assert_eq!(report.not_ready, Some(0), "{report}");
    balanced(&outcome, SENT, name);
    let truth = outcome.engines[0].handler.checker.report(SENT);
    assert_eq!(
        (truth.received, truth.duplicates, truth.foreign),
        (outcome.ledger.delivered, 0, 0),
        "{}",
        outcome.ledger
    );
    assert_eq!(truth.lost, outcome.ledger.lost(), "{}", outcome.ledger);
    assert!(truth.lost > SENT / 2, "{}", outcome.ledger);
    let queue = outcome.ledger.drops[&Cause::DriverQueue].unwrap() + outcome.ledger.drops[&Cause::Softnet].unwrap();
    // The sender's end counts by itself what found the receiver's queue full.
    assert_eq!(Some(queue), report.queue_full, "{}", outcome.ledger);
    (outcome, queue)
}

fn only<H>(outcome: &Outcome<H>, queue: u64, cause: Cause) {
    let mut drops = drops(outcome);
    drops.remove(&Cause::DriverQueue);
    drops.remove(&Cause::Softnet);
    assert_eq!(drops, BTreeMap::from([(cause, outcome.ledger.lost() - queue)]), "{}", outcome.ledger);
}

#[test]
fn net_native_loss_is_an_empty_fill_ring() {
    let (outcome, queue) = slow_handler("net_native_loss_is_an_empty_fill_ring", Way::Native, None);
    only(&outcome, queue, Cause::FillRingEmpty);
}

#[test]
fn net_generic_loss_is_an_empty_fill_ring() {
    let (outcome, queue) = slow_handler("net_generic_loss_is_an_empty_fill_ring", Way::Generic, None);
    only(&outcome, queue, Cause::FillRingEmpty);
}

#[test]
fn net_loss_of_whole_frames_is_an_empty_fill_ring() {
    let (outcome, queue) = slow_handler("net_loss_of_whole_frames_is_an_empty_fill_ring", Way::Native, Some(2048));
    only(&outcome, queue, Cause::FillRingEmpty);
}

#[test]
fn net_packet_loss_is_a_full_ring() {
    let (outcome, queue) = slow_handler("net_packet_loss_is_a_full_ring", Way::Packet, None);
    only(&outcome, queue, Cause::RingFull);
}

#[test]
fn net_socket_loss_is_a_full_buffer() {
    let (outcome, queue) = slow_handler("net_socket_loss_is_a_full_buffer", Way::Socket, None);
    only(&outcome, queue, Cause::RingFull);
}

/// Holds the engine up until told otherwise.
struct Hold(Arc<AtomicBool>);

impl Handler for Hold {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        while self.0.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn net_a_stopped_engine_loses_all_but_its_ring_and_the_intervals_add_up() {
    let bench = bench("net_a_stopped_engine_loses_all_but_its_ring_and_the_intervals_add_up");
    for way in net_support::WAYS {
        let held = Arc::new(AtomicBool::new(false));
        let mut config = config(&bench, way);
        config.ring_slots = 256;
        let mut running = bench.start(config, |_| Hold(Arc::clone(&held)));
        let mut ledger = || bench.receiver().run(|| running.ledger()).unwrap();
        let mut readings: Vec<Ledger> = vec![ledger()];
        // Some that come through, many that do not, some again.
        for (hold, count) in [(false, 100), (true, 20_000), (false, 100)] {
            held.store(hold, Ordering::Relaxed);
            bench.send_numbered(if hold { 200e3 } else { 1e3 }, count, |_| {});
            held.store(false, Ordering::Relaxed);
            // What waits in the socket's buffer is neither lost nor delivered yet.
            let deadline = Instant::now() + Duration::from_secs(5);
            let settled = |reading: &Ledger| reading.since(&readings[readings.len() - 1]).unaccounted() == Some(0);
            let reading = loop {
                thread::sleep(Duration::from_millis(60));
                let reading = ledger();
                if settled(&reading) || Instant::now() > deadline {
                    break reading;
                }
            };
            readings.push(reading);
        }
        let outcome = bench.finish(running);
        balanced(&outcome, 20_200, &format!("{way:?}"));
        let intervals: Vec<Ledger> = readings.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
        for (interval, sent) in intervals.iter().zip([100, 20_000, 100]) {
            assert_eq!((interval.offered, interval.unaccounted()), (Some(sent), Some(0)), "{way:?}: {interval}");
        }
        assert_eq!((intervals[0].lost(), intervals[2].lost()), (0, 0), "{way:?}: {intervals:?}");
        assert!(intervals[1].lost() > 1000, "{way:?}: {}", intervals[1]);
        assert_eq!(intervals.iter().map(Ledger::lost).sum::<u64>(), outcome.ledger.lost());
    }
}

/// Packets that the interface takes and a ring's frame does not: only after the MTU was raised under a running receiver. Packed
/// frames take them all the same.
#[test]
fn net_frames_longer_than_the_ring_s_are_oversize() {
    let bench = bench_with(
        "net_frames_longer_than_the_ring_s_are_oversize",
        TestbedConfig { mtu: 1700, ..TestbedConfig::default() },
    );
    let packed = (None, BTreeMap::new());
    let whole = (Some(2048), BTreeMap::from([(Cause::Oversize, 200)]));
    for (way, (frame_size, lost)) in
        [(Way::Native, &packed), (Way::Generic, &packed), (Way::Native, &whole), (Way::Generic, &whole)]
    {
        let interface = bench.receiver().interface().to_owned();
        bench.ip(&format!("link set dev {interface} mtu 1700"));
        let config = ReceiverConfig { frame_size: *frame_size, ..config(&bench, way) };
        let running = bench.start(config, |_| Count::new(400, &[64, 2000]));
        bench.ip(&format!("link set dev {interface} mtu 3400"));
        net_support::ip(
            bench.testbed.sender(),
            &format!("link set dev {} mtu 3400", bench.testbed.sender().interface()),
        );
        let report = bench.send_numbered(5e3, 400, |config| config.frame.sizes = vec![64, 2000]);
        settle(&running);
        let outcome = bench.finish(running);
        assert_eq!(report.sent(), 400, "{way:?} {report}");
        balanced(&outcome, 400, &format!("{way:?}"));
        assert_eq!(&drops(&outcome), lost, "{way:?}: {}", outcome.ledger);
        assert_eq!(outcome.engines[0].handler.wrong_lengths, 0, "{way:?}");
    }
}

/// What is on its way when the stop handle is pulled is delivered or named, traffic or not, in every way of waiting.
#[test]
fn net_stopping_under_traffic_leaves_nothing_unaccounted() {
    let bench = bench("net_stopping_under_traffic_leaves_nothing_unaccounted");
    let policies = [Policy::Interrupt, Policy::Timer { period_ns: 1_000_000 }];
    for way in net_support::WAYS {
        thread::scope(|scope| {
            let traffic = scope.spawn(|| bench.send_numbered(100e3, 60_000, |_| {}));
            for round in 0..4 {
                let mut config = config(&bench, way);
                config.policy = policies[round % 2].clone();
                let running = bench.start(config, |_| Count::new(100_000, &[64]));
                thread::sleep(Duration::from_millis(20));
                // As a signal does it, and as a limit of time does it.
                if round > 1 {
                    running.stop_handle().pull();
                }
                let outcome = bench.finish(running);
                assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?} round {round}: {}", outcome.ledger);
                assert_eq!(outcome.ledger.drops.get(&Cause::NoSocket).copied().flatten().unwrap_or(0), 0, "{way:?}");
                let truth = outcome.engines[0].handler.checker.report(60_000);
                assert_eq!((truth.received, truth.duplicates), (outcome.ledger.delivered, 0));
                // Between the first and the last that came, only what the ledger calls lost is missing.
                let inner = |burst: &&LossBurst| burst.first > 0 && burst.first + burst.length < 60_000;
                let gaps: u64 = truth.loss_bursts.iter().filter(inner).map(|burst| burst.length).sum();
                assert!(gaps <= outcome.ledger.lost(), "{way:?} round {round}: {} {gaps}", outcome.ledger);
            }
            traffic.join().unwrap();
        });
    }
}

#[test]
fn net_the_packet_limit_is_exact_and_the_rest_is_named() {
    let bench = bench("net_the_packet_limit_is_exact_and_the_rest_is_named");
    for way in net_support::WAYS {
        let mut config = config(&bench, way);
        config.packet_limit = Some(1_000);
        // All find room, however late the engine's thread is served.
        config.ring_slots = 8192;
        config.policy = Policy::Timer { period_ns: 2_000_000 };
        let running = bench.start(config, |_| Count::new(100_000, &[64]));
        bench.send_numbered(50e3, 5_000, |_| {});
        assert!(net_support::eventually(Duration::from_secs(2), || running.is_finished()), "{way:?}");
        let outcome = bench.finish(running);
        assert_eq!(outcome.engines[0].handler.checker.report(1_000).received, 1_000, "{way:?}");
        assert_eq!(outcome.ledger.delivered, 1_000);
        assert_eq!(outcome.engines[0].end, ringtap::engine::End::Limit);
        assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?}: {}", outcome.ledger);
        // Nothing is reported lost but what lay in the ring.
        let drops = drops(&outcome);
        assert!(drops.keys().all(|&cause| cause == Cause::LeftAtLimit), "{way:?}: {}", outcome.ledger);
    }
}
