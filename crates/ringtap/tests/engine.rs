//! The engine's loop over a memory source in simulated time: every end, the accounts, when it waits and what it tells of it.

mod engine_support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use engine_support::{Seen, engine, interrupts, timer};
use ringtap::burst::BURST_MAX;
use ringtap::clock::Clock;
use ringtap::meters::EngineSnapshot;
use ringtap::source::{Description, StampClock, Wake};
use ringtap::testing::{Arrival, Ending, MemorySource, Script, SimulatedClock};
use ringtap::{Burst, End, Handler, Outbox, Packet, PacketBuffer, Source, Stop};

const START: u64 = 1_000_000_000;
const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// Packets of one byte, their number, at these instants after the start.
fn numbered(after_us: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
    (0u8..).zip(after_us).map(|(number, after)| Arrival::at(START + after * US, vec![number])).collect()
}

fn memory(
    clock: &SimulatedClock,
    script: Script<std::vec::IntoIter<Arrival>>,
) -> MemorySource<std::vec::IntoIter<Arrival>, SimulatedClock> {
    MemorySource::new("memory", clock.clone(), script).unwrap()
}

#[test]
fn an_input_ends_when_its_last_packet_was_handled() {
    let clock = SimulatedClock::at(START);
    // More than a burst holds, at once; some later.
    let arrivals = numbered((0..200).map(|_| 5).chain([70, 90]));
    let mut engine = engine(memory(&clock, Script::of(arrivals)), Seen::default(), &interrupts());
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::EndOfFile);
    let numbers: Vec<u8> = (0..202).collect();
    assert_eq!(engine.handler.first_bytes(), numbers);
    assert_eq!(clock.monotonic_ns(), START + 90 * US);
    let counted = engine.meters.snapshot();
    assert_eq!((counted.packets, counted.bytes, counted.cycles, counted.interrupt_wakes), (202, 202, 3, 4));
}

#[test]
fn a_device_that_goes_leaves_what_it_gave() {
    let clock = SimulatedClock::at(START);
    let script = Script { ending: Ending::Gone, ..Script::of(numbered([1, 2])) };
    let mut engine = engine(memory(&clock, script), Seen::default(), &interrupts());
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::DeviceGone);
    assert_eq!(engine.handler.first_bytes(), [0, 1]);
}

#[test]
fn beyond_the_limit_packets_are_counted_and_not_handled() {
    let clock = SimulatedClock::at(START);
    let mut engine = engine(memory(&clock, Script::of(numbered((0..150).map(|_| 0)))), Seen::default(), &interrupts());
    engine.packet_limit = Some(100);
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::Limit);
    let counted = engine.meters.snapshot();
    assert_eq!((engine.handler.packets.len(), counted.packets, counted.left_at_limit), (100, 100, 50));
}

#[test]
fn another_thread_ends_an_engine_that_waits_for_nothing() {
    let clock = SimulatedClock::at(START);
    let script = Script { ending: Ending::Silence, ..Script::of(numbered([3])) };
    let mut engine = engine(memory(&clock, script), Seen::default(), &interrupts());
    let stop = Arc::clone(&engine.stop);
    let (decided, decisions) = std::sync::mpsc::channel();
    let puller = std::thread::spawn(move || {
        // The second wait is the one that nothing ends.
        (0..2).for_each(|_| decisions.recv().unwrap());
        stop.pull();
    });
    assert_eq!(engine.run_by(&clock, |_, _| decided.send(()).unwrap()), End::Stopped);
    puller.join().unwrap();
    assert_eq!(engine.handler.first_bytes(), [0]);
}

/// Pulls the stop handle at a packet of its choice.
struct EndsAt {
    number: u8,
    stop: Arc<Stop>,
    seen: Seen,
}

impl Handler for EndsAt {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        self.seen.packet(packet, outbox);
        if packet.data[0] == self.number {
            self.stop.pull();
        }
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        self.seen.cycle_end(outbox);
    }
}

#[test]
fn a_handler_that_asks_to_end_still_gets_what_had_come() {
    let clock = SimulatedClock::at(START);
    let arrivals = numbered((0..100).map(|_| 0).chain([50]));
    let stop = Arc::new(Stop::new().unwrap());
    let handler = EndsAt { number: 10, stop: Arc::clone(&stop), seen: Seen::default() };
    let mut engine = engine(memory(&clock, Script::of(arrivals)), handler, &interrupts());
    engine.stop = stop;
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::Stopped);
    assert_eq!(
        engine.handler.seen.packets.len(),
        100,
        "those of this burst and of the next one, and none that comes later"
    );
}

/// A device with a packet at any time, implemented as another crate would.
struct Flood {
    buffer: PacketBuffer,
    is_shut: bool,
}

impl Source for Flood {
    fn receive(&mut self) -> Burst<'_> {
        while !self.is_shut && self.buffer.push(&Packet::of(b"again")) {}
        self.buffer.burst()
    }

    fn wait_for_interrupt(&mut self, _stop: &Stop, _limit: Option<Duration>) -> Wake {
        panic!("a ring that is never empty is never waited for");
    }

    fn quiesce(&mut self) -> bool {
        self.is_shut = true;
        true
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Recorded
    }

    fn description(&self) -> Description {
        Description::new("flood", "memory")
    }
}

#[test]
fn a_ring_that_never_runs_empty_does_not_outlive_the_stop_handle() {
    let stop = Arc::new(Stop::new().unwrap());
    let flood = Flood { buffer: PacketBuffer::new(8).unwrap(), is_shut: false };
    let handler = EndsAt { number: b'a', stop: Arc::clone(&stop), seen: Seen::default() };
    let mut engine = engine(flood, handler, &interrupts());
    engine.stop = stop;
    assert_eq!(engine.run(), End::Stopped);
    assert_eq!(engine.handler.seen.packets.len(), BURST_MAX, "the first packet pulled it");
    assert_eq!(engine.handler.seen.cycle_ends, 1, "at the end, for what the handler still has to send or to tell");
}

struct Panics;

impl Handler for Panics {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        assert!(packet.data[0] < 5, "packet 5");
    }
}

#[test]
fn frames_go_back_when_a_handler_panics() {
    let clock = SimulatedClock::at(START);
    let arrivals = numbered((0..70).map(|_| 0));
    let mut engine = engine(memory(&clock, Script::of(arrivals)), Panics, &interrupts());
    let panic = catch_unwind(AssertUnwindSafe(|| engine.run_by(&clock, |_, _| {}))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"packet 5"));
    // The burst that it was in is over; the source is whole and goes on behind it.
    let rest: Vec<u8> = engine.source.receive().iter().map(|packet| packet.data[0]).collect();
    assert_eq!(rest, (64..70).collect::<Vec<u8>>());
}

#[test]
fn packets_that_come_cut_are_handled_and_counted() {
    let clock = SimulatedClock::at(START);
    let cut = Arrival { wire_len: 1500, ..Arrival::at(START, vec![7; 60]) };
    let arrivals = vec![Arrival::at(START, vec![1; 60]), cut, Arrival::at(START, vec![2; 100])];
    let script = Script { frame_bytes: 64, ..Script::of(arrivals) };
    let mut engine = engine(memory(&clock, script), Seen::default(), &interrupts());
    engine.run_by(&clock, |_, _| {});
    let seen: Vec<_> = engine.handler.packets.iter().map(|packet| (packet.data.len(), packet.wire_len)).collect();
    assert_eq!(seen, [(60, 60), (60, 1500), (64, 100)]);
    let counted = engine.meters.snapshot();
    assert_eq!((counted.packets, counted.bytes, counted.cut), (3, 184, 2));
}

/// Runs a timer of 100 µs over packets; what was counted, and how the engine waited each time.
fn ticked(arrivals: Vec<Arrival>, stamp_clock: StampClock, clock: &SimulatedClock) -> EngineSnapshot {
    let script = Script { stamp_clock, ..Script::of(arrivals) };
    let packets = script.arrivals.len() as u64;
    let mut engine = engine(memory(clock, script), Seen::default(), &timer(100 * US));
    engine.packet_limit = Some(packets);
    assert_eq!(engine.run_by(clock, |_, _| {}), End::Limit);
    engine.meters.snapshot()
}

#[test]
fn latency_is_from_the_arrival_to_the_end_of_the_burst() {
    let clock = SimulatedClock::at(START);
    let counted = ticked(numbered([10, 130, 199, 200, 550]), StampClock::Monotonic, &clock);
    // Looked at 100, 200 and 600 µs after the start.
    let late_us = [90, 70, 1, 0, 50];
    assert_eq!((counted.latency.count(), counted.latency.max_ns()), (5, 90 * US));
    for limit_us in [0, 10, 60, 80, 100] {
        let later = late_us.iter().filter(|&&late| late > limit_us).count() as u64;
        assert_eq!(counted.latency.count_above(limit_us * US), later, "above {limit_us} µs");
    }
    assert_eq!(
        (counted.timer_wakes, counted.cycles, counted.empty_wakes),
        (6, 2, 4),
        "before the first tick, and at 300 to 500"
    );
    assert_eq!((counted.poll_period.count(), counted.poll_period.max_ns()), (5, 100 * US));
}

#[test]
fn what_came_before_the_engine_began_is_backlog_and_no_lateness() {
    let clock = SimulatedClock::at(START);
    let old = |age_us: u64| Arrival { stamp_ns: Some(START - age_us * US), ..Arrival::there(vec![0]) };
    let mut arrivals = vec![old(900), old(300), Arrival::there(vec![0])];
    arrivals.extend(numbered([40]));
    let counted = ticked(arrivals, StampClock::Monotonic, &clock);
    assert_eq!((counted.backlog, counted.backlog_oldest_ns), (2, 900 * US), "the one without a stamp is no age");
    assert_eq!((counted.latency.count(), counted.latency.max_ns()), (1, 60 * US));
}

#[test]
fn a_wall_clock_that_is_set_is_no_latency() {
    let clock = SimulatedClock::at(START);
    clock.set_realtime_ns(5_000 * MS);
    let stamped = |after_us: u64, stamp_ns: u64| Arrival {
        stamp_ns: Some(stamp_ns),
        ..Arrival::at(START + after_us * US, vec![0])
    };
    let arrivals = vec![stamped(50, 5_000 * MS + 50 * US), stamped(150, 5_000 * MS + 150 * US)];
    let script = Script { stamp_clock: StampClock::Realtime, ..Script::of(arrivals) };
    let mut engine = engine(memory(&clock, script), Seen::default(), &timer(100 * US));
    engine.packet_limit = Some(2);
    let mut decisions = 0;
    engine.run_by(&clock, |_, _| {
        decisions += 1;
        if decisions == 2 {
            clock.set_realtime_ns(9_000 * MS);
        }
    });
    let counted = engine.meters.snapshot();
    assert_eq!((counted.clock_steps, counted.latency.count(), counted.latency.max_ns()), (1, 1, 50 * US));
}

/// Counts what the engine asks of a source besides packets.
struct Asked<S> {
    source: S,
    polls: u64,
    waits: u64,
}

impl<S: Source> Source for Asked<S> {
    fn receive(&mut self) -> Burst<'_> {
        self.source.receive()
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        self.waits += 1;
        self.source.wait_for_interrupt(stop, limit)
    }

    fn poll_device(&mut self) {
        self.polls += 1;
    }

    fn stamp_clock(&self) -> StampClock {
        self.source.stamp_clock()
    }

    fn description(&self) -> Description {
        self.source.description()
    }
}

#[test]
fn after_each_tick_the_device_is_polled_and_with_each_empty_ring_the_handler_is_told() {
    let clock = SimulatedClock::at(START);
    let source = Asked { source: memory(&clock, Script::of(numbered([450]))), polls: 0, waits: 0 };
    let mut engine = engine(source, Seen::default(), &timer(100 * US));
    engine.packet_limit = Some(1);
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::Limit);
    assert_eq!((engine.source.polls, engine.source.waits), (5, 0));
    assert_eq!(engine.handler.cycle_ends, 6, "before each of five ticks and at the end");
}

#[test]
fn the_interrupt_is_waited_for_once_a_cycle_and_nothing_is_polled() {
    let clock = SimulatedClock::at(START);
    let source = Asked { source: memory(&clock, Script::of(numbered([10, 10, 450]))), polls: 0, waits: 0 };
    let mut engine = engine(source, Seen::default(), &interrupts());
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::EndOfFile);
    assert_eq!((engine.source.polls, engine.source.waits), (0, 3), "for two cycles, and the end");
    assert_eq!(engine.handler.cycle_ends, 3);
}

#[test]
fn a_long_tick_listens_to_the_stop_handle() {
    let clock = SimulatedClock::at(START);
    let mut engine = engine(memory(&clock, Script::of(numbered([]))), Seen::default(), &timer(400 * MS));
    let stop = Arc::clone(&engine.stop);
    assert_eq!(engine.run_by(&clock, |_, _| stop.pull()), End::Stopped);
    assert_eq!(clock.monotonic_ns(), START, "the tick was not slept through");
}

#[test]
fn a_tick_that_comes_late_is_counted_with_those_it_missed() {
    let clock = SimulatedClock::at(START);
    let mut engine = engine(memory(&clock, Script::of(numbered([1_000]))), Seen::default(), &timer(100 * US));
    engine.packet_limit = Some(1);
    let mut decisions = 0;
    engine.run_by(&clock, |_, _| {
        decisions += 1;
        // The thread is not scheduled for a while: wakes 250 µs after its instant.
        if decisions == 2 {
            clock.advance(350 * US);
        }
    });
    let counted = engine.meters.snapshot();
    assert_eq!((counted.tick_lateness.max_ns(), counted.missed_ticks), (250 * US, 2));
    assert_eq!(counted.poll_period.max_ns(), 350 * US);
}

/// Needs three turns for each packet.
#[derive(Default)]
struct Slices {
    left: u32,
    turns: u32,
}

impl Handler for Slices {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.left += 3;
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.turns += u32::from(self.left > 0);
        self.left = self.left.saturating_sub(1);
    }

    fn next_turn(&self) -> Option<Duration> {
        (self.left > 0).then_some(Duration::ZERO)
    }
}

#[test]
fn a_handler_with_more_to_do_gets_its_turns_before_any_wait() {
    for policy in [interrupts(), timer(100 * US)] {
        let clock = SimulatedClock::at(START);
        let script = Script { ending: Ending::Gone, ..Script::of(numbered([10, 250])) };
        let mut engine = engine(memory(&clock, script), Slices::default(), &policy);
        let mut waited_with = Vec::new();
        engine.packet_limit = Some(2);
        // The last packet's turns come at the end.
        assert_eq!(engine.run_by(&clock, |_, wait| waited_with.push(format!("{wait:?}"))), End::Limit);
        assert_eq!((engine.handler.left, engine.handler.turns), (0, 6), "{policy:?}: {waited_with:?}");
        assert_eq!(engine.meters.snapshot().cycles, 1, "{policy:?}: three turns are one cycle");
    }
}
