//! The transmit ring: answers built in place by the engine's thread reach the other side whole and in order.

mod net_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net_support::frames::{FROM, TO};
use net_support::{Way, Wire, bench, config, eventually, settle};
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::interface::Interface;
use ringtap::pacer::Policy;
use ringtap::transmit::{Outbox, TransmitRing};
use ringtap_testbed::{SequenceChecker, Stamp};

/// Sends each packet back to where it came from.
#[derive(Default)]
struct Echo {
    refused: u64,
    longest_cycle: u64,
    cycle: u64,
}

impl Handler for Echo {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        self.cycle += 1;
        let sent = outbox.send(|frame| {
            let len = packet.data.len();
            frame[..len].copy_from_slice(packet.data);
            frame[..6].copy_from_slice(&packet.data[6..12]);
            frame[6..12].copy_from_slice(&packet.data[..6]);
            len
        });
        self.refused += u64::from(!sent);
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.longest_cycle = self.longest_cycle.max(std::mem::take(&mut self.cycle));
    }
}

struct Run {
    answers: Vec<Vec<u8>>,
    transmitted: u64,
    refused: u64,
    longest_cycle: u64,
}

fn echo(name: &str, way: Way, transmit_slots: u32, pps: f64, count: u64) -> Run {
    let bench = bench(name);
    let mut config = config(&bench, way);
    config.transmit_slots = transmit_slots;
    config.ring_slots = 16384;
    // Served in time on a busy machine: thousands of answers at once would overrun the other host's backlog of 1000.
    config.realtime.priority = 50;
    // Long cycles: far more frames than the kernel takes at once by itself.
    config.policy = Policy::Timer { period_ns: 4_000_000 };
    // The host's own answers would stand beside ours.
    let mut sender = Wire::open(bench.testbed.sender());
    let running = bench.start(config, |_| Echo::default());
    bench.send_numbered(pps, count, |_| {});
    settle(&running);
    let mut answers = Vec::new();
    let transmitted = running.counters().transmitted;
    let mine = |frame: &Vec<u8>| Stamp::from_frame(frame).is_some();
    eventually(Duration::from_secs(2), || {
        answers.extend(sender.received().into_iter().filter(mine));
        answers.len() as u64 >= transmitted
    });
    let outcome = bench.finish(running);
    answers.extend(sender.received().into_iter().filter(mine));
    let handler = &outcome.engines[0].handler;
    assert_eq!(outcome.ledger.delivered, count, "{}", outcome.ledger);
    assert_eq!(outcome.ledger.unaccounted(), Some(0), "{}", outcome.ledger);
    assert_eq!(outcome.counters.transmit_refused, handler.refused);
    assert_eq!(outcome.counters.transmitted + handler.refused, count);
    assert_eq!(outcome.counters.transmitted_bytes, outcome.counters.transmitted * 64);
    Run {
        answers,
        transmitted: outcome.counters.transmitted,
        refused: handler.refused,
        longest_cycle: handler.longest_cycle,
    }
}

fn in_order(run: &Run, count: u64) {
    let mut checker = SequenceChecker::new(count);
    for answer in &run.answers {
        assert_eq!((answer[..6].to_vec(), answer[6..12].to_vec()), (FROM.to_vec(), TO.to_vec()));
        assert_eq!(answer.len(), 64);
        checker.see(Stamp::from_frame(answer).unwrap().seq);
    }
    let truth = checker.report(count);
    assert_eq!((truth.duplicates, truth.reordered, truth.foreign), (0, 0, 0));
    assert_eq!(truth.received, run.transmitted, "all that was queued arrived");
}

fn all_answers(name: &str, way: Way) {
    const COUNT: u64 = 8_000;
    let run = echo(name, way, 4096, 40e3, COUNT);
    assert_eq!(run.refused, 0, "{} at once at most", run.longest_cycle);
    assert!(run.longest_cycle > 64, "{}", run.longest_cycle);
    in_order(&run, COUNT);
}

#[test]
fn net_xdp_answers_arrive_in_order() {
    all_answers("net_xdp_answers_arrive_in_order", Way::Native);
}

#[test]
fn net_generic_xdp_answers_arrive_in_order() {
    all_answers("net_generic_xdp_answers_arrive_in_order", Way::Generic);
}

#[test]
fn net_packet_answers_arrive_in_order() {
    all_answers("net_packet_answers_arrive_in_order", Way::Packet);
}

/// A ring smaller than a cycle: what finds no room is refused and counted, what found room arrives.
fn too_many(name: &str, way: Way, slots: u32) {
    const COUNT: u64 = 8_000;
    let run = echo(name, way, slots, 150e3, COUNT);
    assert!(run.refused > 0, "{} at once at most", run.longest_cycle);
    in_order(&run, COUNT);
}

#[test]
fn net_a_full_xdp_transmit_ring_refuses_and_counts() {
    too_many("net_a_full_xdp_transmit_ring_refuses_and_counts", Way::Native, 64);
}

#[test]
fn net_a_full_packet_transmit_ring_refuses_and_counts() {
    // Whole blocks: 128 slots are what fits one.
    too_many("net_a_full_packet_transmit_ring_refuses_and_counts", Way::Packet, 64);
}

#[test]
fn net_without_a_ring_every_frame_is_refused() {
    for way in [Way::Native, Way::Packet, Way::Socket] {
        let run = echo("net_without_a_ring_every_frame_is_refused", way, 0, 10e3, 200);
        assert_eq!((run.answers.len(), run.transmitted, run.refused), (0, 0, 200), "{way:?}");
    }
}

/// What the kernel finds too long for an MTU that was changed a moment ago is counted; all else leaves, in order, whatever is before it.
#[test]
fn net_a_packet_ring_counts_what_the_mtu_forbids_and_sends_the_rest_in_order() {
    let bench = bench("net_a_packet_ring_counts_what_the_mtu_forbids_and_sends_the_rest_in_order");
    let mut sender = Wire::open(bench.testbed.sender());
    let open = || {
        let interface = Interface::find_up(bench.receiver().interface()).unwrap();
        TransmitRing::open_packet(&interface.name, interface.index, 64, 2048).unwrap()
    };
    let mut ring = bench.receiver().run(open).unwrap();
    bench.ip(&format!("link set dev {} mtu 1000", bench.receiver().interface()));
    let frame = |number: u8, len: usize, kind: [u8; 2]| {
        let mut frame = vec![number; len];
        frame[..6].copy_from_slice(&TO);
        frame[6..12].copy_from_slice(&FROM);
        frame[12..14].copy_from_slice(&kind);
        frame
    };
    let (plain, tagged, service) = ([0x88, 0xb5], [0x81, 0x00], [0x88, 0xa8]);
    let lengths = [
        (1514, plain),
        (60, plain),
        (1014, plain),
        (1015, plain),
        (1018, tagged),
        (1019, tagged),
        (1018, service),
        (1400, plain),
        (61, plain),
    ];
    for (number, (len, kind)) in (0u8..).zip(lengths) {
        let frame = frame(number, len, kind);
        assert_eq!(ring.send(|room| (room[..len].copy_from_slice(&frame), len).1), Some(len));
    }
    bench.receiver().run(|| ring.kick()).unwrap();
    assert_eq!((ring.refused(), ring.pending()), (5, 0));
    let mut came: Vec<Vec<u8>> = Vec::new();
    eventually(Duration::from_secs(2), || {
        came.extend(sender.received().into_iter().filter(|frame| frame[..6] == TO && frame[6..12] == FROM));
        came.len() == 4
    });
    let numbers: Vec<u8> = came.iter().map(|frame| frame[20]).collect();
    assert_eq!(numbers, [1, 2, 4, 8]);
    // And the ring goes on, round its end.
    for number in 0..200u8 {
        let frame = frame(number, if number % 3 == 0 { 1200 } else { 100 }, plain);
        assert_eq!(ring.send(|room| (room[..frame.len()].copy_from_slice(&frame), frame.len()).1), Some(frame.len()));
        if number % 10 == 9 {
            ring.kick();
            assert_eq!(ring.pending(), 0);
        }
    }
    assert_eq!(ring.refused(), 5 + 67);
}

/// Answers a packet only when its link is down.
struct AnswerTooLate {
    seen: Arc<AtomicBool>,
    down: Arc<AtomicBool>,
}

impl Handler for AnswerTooLate {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        if Stamp::from_frame(packet.data).is_none() || self.seen.swap(true, Ordering::Relaxed) {
            return;
        }
        while !self.down.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(outbox.send(|frame| {
            frame[..packet.data.len()].copy_from_slice(packet.data);
            packet.data.len()
        }));
    }
}

/// Frames that a downed link does not take are offered again, but not a thousand times a second.
fn downed(name: &str, way: Way) {
    let bench = bench(name);
    let mut config = config(&bench, way);
    config.transmit_slots = 64;
    config.policy = Policy::Interrupt;
    let (seen, down) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let handler = AnswerTooLate { seen: seen.clone(), down: down.clone() };
    let mut handler = Some(handler);
    let running = bench.start(config, |_| handler.take().unwrap());
    bench.send_numbered(1e3, 1, |_| {});
    assert!(eventually(Duration::from_secs(5), || seen.load(Ordering::Relaxed)));
    bench.ip(&format!("link set dev {} down", bench.receiver().interface()));
    down.store(true, Ordering::Relaxed);
    assert!(eventually(Duration::from_secs(5), || running.counters().transmitted == 1));
    std::thread::sleep(Duration::from_millis(500));
    let before = running.counters().interrupt_wakes;
    std::thread::sleep(Duration::from_secs(1));
    let woke = running.counters().interrupt_wakes - before;
    assert!(woke < 100, "{woke} wake-ups in a second, {way:?}");
    bench.finish(running);
}

#[test]
fn net_frames_on_a_downed_link_leave_the_engine_asleep() {
    for way in [Way::Packet, Way::Native] {
        downed("net_frames_on_a_downed_link_leave_the_engine_asleep", way);
    }
}

/// Waits with the receiver open, so that packets are there before its engines are.
#[test]
fn net_what_came_before_the_engine_is_no_latency() {
    let name = "net_what_came_before_the_engine_is_no_latency";
    for way in [Way::Packet, Way::Native] {
        let bench = bench(name);
        let receiver = bench.open(config(&bench, way)).unwrap();
        bench.send_numbered(10e3, 500, |_| {});
        std::thread::sleep(Duration::from_millis(300));
        let running = bench.receiver().run(|| receiver.start(vec![Echo::default()])).unwrap().unwrap();
        settle(&running);
        bench.send_numbered(10e3, 300, |_| {});
        settle(&running);
        let outcome = bench.finish(running);
        let counters = &outcome.counters;
        assert_eq!(outcome.ledger.delivered, counters.backlog + counters.latency.count(), "{way:?}");
        assert!(counters.backlog >= 500, "{} of 500 before the start, {way:?}", counters.backlog);
        assert!(counters.latency.count() >= 300, "{way:?}");
        assert!(counters.backlog_oldest_ns >= 300_000_000, "{} ns, {way:?}", counters.backlog_oldest_ns);
    }
}
