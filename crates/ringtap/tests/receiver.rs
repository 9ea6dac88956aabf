//! Receivers over memory sources: handlers, queues, the ledger of all, and ends that leave no packet out of it. No root.

mod engine_support;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use engine_support::{Seen, interrupts, timer};
use ringtap::clock::{SystemClock, monotonic_ns};
use ringtap::hand_over::{Demand, HandOver};
use ringtap::realtime::RealTime;
use ringtap::receiver::{DeviceEnd, Devices};
use ringtap::source::given::give;
use ringtap::source::{AnySource, Description, DeviceCounters, DeviceCounts, StampClock, Wake};
use ringtap::testing::{Arrival, Ending, MemorySource, Script};
use ringtap::{
    Backend, Burst, Cause, End, Handler, Ledger, Outbox, Outcome, Packet, Policy, Receiver, ReceiverConfig, Result,
    Running, Source, Stop,
};

/// A device of a name of its own, with ordinary threads, as a test needs no others.
fn config(policy: Policy) -> ReceiverConfig {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    ReceiverConfig {
        realtime: RealTime { priority: 0, lock_memory: false, shallow_idle: false },
        backend: Backend::Given,
        ..ReceiverConfig::new(format!("memory{}", NUMBER.fetch_add(1, Ordering::Relaxed)), policy)
    }
}

type Memory = MemorySource<std::vec::IntoIter<Arrival>>;

fn memory(script: Script<std::vec::IntoIter<Arrival>>) -> Memory {
    MemorySource::new("memory0", SystemClock, script).unwrap()
}

/// A script of so many packets that are there, each with the queue in its first byte.
fn packets(queue: u8, count: usize) -> Script<std::vec::IntoIter<Arrival>> {
    Script::of(vec![Arrival::there(vec![queue; 60]); count])
}

fn open(config: ReceiverConfig, scripts: impl IntoIterator<Item = Script<std::vec::IntoIter<Arrival>>>) -> Receiver {
    let sources = scripts.into_iter().map(|script| Box::new(memory(script)) as AnySource).collect();
    give(&config.interface, sources).unwrap();
    Receiver::open(config).unwrap()
}

/// Starts, waits until all engines have ended by themselves, and sums up.
fn run_out<H: Handler + Send + 'static>(receiver: Receiver, handlers: Vec<H>) -> Outcome<H> {
    let running = receiver.start(handlers).unwrap();
    wait_until(&running, Running::is_finished);
    running.finish().unwrap()
}

fn wait_until<H>(running: &Running<H>, done: impl Fn(&Running<H>) -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !done(running) {
        assert!(Instant::now() < patience, "it never came to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn parts(ledger: &Ledger) -> (Option<u64>, u64, Option<u64>, u64, Option<i64>) {
    (ledger.offered, ledger.delivered, ledger.filtered, ledger.lost(), ledger.unaccounted())
}

#[test]
fn a_receiver_over_memory_is_one_like_any_other() {
    let config = config(interrupts());
    let name = config.interface.clone();
    let receiver = open(config, [packets(0, 3)]);
    assert_eq!((receiver.source_count(), receiver.link_type()), (1, Some(1)));
    let interface = receiver.interface();
    assert_eq!((&interface.name, interface.ethernet, interface.is_foreign()), (&name, true, true));
    assert_eq!(receiver.stamp_clock(), Some(StampClock::Monotonic));
    let described = &receiver.descriptions()[0];
    assert_eq!((described.backend, described.object.as_str()), ("memory", "memory0"));
    assert_eq!(receiver.warnings(), [""; 0]);
    let outcome = run_out(receiver, vec![Seen::default()]);
    assert_eq!(outcome.engines[0].end, End::EndOfFile);
    assert_eq!(outcome.engines[0].handler.first_bytes(), [0, 0, 0]);
    assert_eq!(parts(&outcome.ledger), (Some(3), 3, Some(0), 0, Some(0)));
}

#[test]
fn there_is_one_handler_for_each_source_or_an_error_that_says_so() {
    for handlers in [0, 1, 3] {
        let receiver = open(config(interrupts()), [packets(0, 1), packets(1, 1)]);
        let handlers = (0..handlers).map(|_| Seen::default()).collect::<Vec<_>>();
        let told = format!("{} handlers for 2 engines", handlers.len());
        let engines = format!("start engines for {}:", receiver.interface().name);
        let error = receiver.start(handlers).err().unwrap().to_string();
        for part in [&engines, &told, "one handler for each source"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn a_policy_that_makes_no_sense_is_refused_before_anything_is_opened() {
    let config = config(timer(0));
    give(&config.interface, vec![Box::new(memory(packets(0, 1)))]).unwrap();
    let error = Receiver::open(config.clone()).err().unwrap().to_string();
    assert!(error.contains(&config.interface) && error.contains("period_ns is 0"), "{error}");
    assert!(Receiver::open(ReceiverConfig { policy: interrupts(), ..config }).is_ok());
}

#[test]
fn a_device_is_given_once_and_opened_once() {
    let config = config(interrupts());
    let opened = |config: &ReceiverConfig| Receiver::open(config.clone()).map(|_| ());
    let error = opened(&config).unwrap_err().to_string();
    assert!(error.contains(&config.interface) && error.contains("nobody has given one"), "{error}");
    let source = || -> Vec<AnySource> { vec![Box::new(memory(packets(0, 1)))] };
    assert!(give(&config.interface, Vec::new()).unwrap_err().to_string().contains("no queue"));
    give(&config.interface, source()).unwrap();
    assert!(give(&config.interface, source()).unwrap_err().to_string().contains("there is one of that name"));
    opened(&config).unwrap();
    assert!(opened(&config).is_err());
    give(&config.interface, source()).unwrap();
    opened(&config).unwrap();
}

#[test]
fn queues_have_their_own_handlers_and_one_ledger() {
    let counts = [500, 1, 0, 130];
    let scripts = (0u8..).zip(counts).map(|(queue, count)| packets(queue, count));
    for policy in [interrupts(), timer(200_000), Policy::Busy] {
        let receiver = open(ReceiverConfig { packet_limit: None, ..config(policy.clone()) }, scripts.clone());
        let running = receiver.start((0..4).map(|_| Seen::default()).collect()).unwrap();
        wait_until(&running, |running| running.counters().packets == 631);
        let outcome = running.finish().unwrap();
        for (queue, (engine, count)) in (0u8..).zip(outcome.engines.iter().zip(counts)) {
            assert_eq!(engine.handler.first_bytes(), vec![queue; count], "{policy:?}");
        }
        assert_eq!(parts(&outcome.ledger), (Some(631), 631, Some(0), 0, Some(0)), "{policy:?}");
        assert_eq!(outcome.counters.bytes, 631 * 60);
    }
}

#[test]
fn the_ledger_has_every_loss_by_its_cause_and_says_what_nobody_explains() {
    let lost = DeviceCounts { offered: Some(20), ring_full: 7, fill_ring_empty: 5, oversize: 3, nic: 1 };
    let more = DeviceCounts { offered: Some(2), ring_full: 2, ..DeviceCounts::default() };
    let scripts = [
        Script { counts: vec![(0, lost), (1, more)], ..packets(0, 100) },
        Script { counts: vec![(0, more)], ..packets(1, 10) },
    ];
    let outcome = run_out(open(config(interrupts()), scripts), vec![Seen::default(), Seen::default()]);
    let ledger = outcome.ledger;
    assert_eq!(parts(&ledger), (Some(134), 110, Some(0), 20, Some(4)), "{ledger}");
    for (cause, count) in [
        (Cause::RingFull, 11),
        (Cause::FillRingEmpty, 5),
        (Cause::Oversize, 3),
        (Cause::Nic, 1),
        (Cause::DriverQueue, 0),
        (Cause::LeftAtLimit, 0),
    ] {
        assert_eq!(ledger.drops[&cause], Some(count), "{cause:?}");
    }
}

#[test]
fn what_is_left_at_the_limit_and_what_came_cut_is_in_the_ledger() {
    let script = Script { frame_bytes: 40, ..packets(0, 100) };
    let outcome = run_out(
        open(ReceiverConfig { packet_limit: Some(70), ..config(interrupts()) }, [script]),
        vec![Seen::default()],
    );
    assert_eq!(outcome.engines[0].end, End::Limit);
    let ledger = outcome.ledger;
    assert_eq!(parts(&ledger), (Some(100), 70, Some(0), 30, Some(0)), "{ledger}");
    assert_eq!((ledger.drops[&Cause::LeftAtLimit], ledger.cut), (Some(30), 70));
}

/// A memory source with one thing changed.
struct But {
    source: Memory,
    counters: fn() -> Option<Box<dyn DeviceCounters>>,
    admitted: fn(),
    filters: bool,
}

/// Counters that nobody can read.
struct Unreadable;

impl DeviceCounters for Unreadable {
    fn read(&mut self) -> Option<DeviceCounts> {
        None
    }
}

/// What the kernel's filter let through.
struct LetThrough;

impl DeviceCounters for LetThrough {
    fn read(&mut self) -> Option<DeviceCounts> {
        Some(DeviceCounts { offered: Some(10), ..DeviceCounts::default() })
    }
}

impl Source for But {
    fn receive(&mut self) -> Burst<'_> {
        self.source.receive()
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        self.source.wait_for_interrupt(stop, limit)
    }

    fn quiesce(&mut self) -> bool {
        self.source.quiesce()
    }

    fn stamp_clock(&self) -> StampClock {
        self.source.stamp_clock()
    }

    fn description(&self) -> Description {
        self.source.description()
    }

    fn counters(&self) -> Option<Box<dyn DeviceCounters>> {
        (self.counters)()
    }

    fn admit(&self) -> Result<()> {
        (self.admitted)();
        Ok(())
    }

    fn filters_before_counting(&self) -> bool {
        self.filters
    }

    fn failure(&self) -> Option<&str> {
        self.filters.then_some("the card is on fire")
    }

    fn invalid_descriptors(&self) -> u64 {
        if self.filters { 2 } else { 0 }
    }
}

#[test]
fn a_running_devices_ledger_has_what_made_no_sense() {
    let config = config(interrupts());
    let script = Script { ending: Ending::Silence, ..packets(0, 3) };
    let but = But { source: memory(script), counters: || None, admitted: || (), filters: true };
    give(&config.interface, vec![Box::new(but)]).unwrap();
    let mut running = Receiver::open(config).unwrap().start(vec![Seen::default()]).unwrap();
    wait_until(&running, |running| running.counters().invalid_descriptors == 2);
    let invalid = |ledger: &Ledger| ledger.drops.get(&Cause::InvalidDescriptor).copied();
    assert_eq!(invalid(&running.ledger()), Some(Some(2)));
    assert_eq!(invalid(&running.finish().unwrap().ledger), Some(Some(2)));
}

/// Keeps the pair and the number of each packet, and its threads.
#[derive(Default)]
struct ByPair {
    seen: Vec<(u8, u32)>,
    threads: HashSet<ThreadId>,
}

impl Handler for ByPair {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let number = packet.data[42..46].try_into().map(u32::from_be_bytes).unwrap();
        self.seen.push((packet.data[29], number));
        self.threads.insert(std::thread::current().id());
    }
}

/// UDP between hosts 192.0.2.`pair` and 198.51.100.`pair`, in either direction.
fn numbered(pair: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    let (here, there) = ([192, 0, 2, pair], [198, 51, 100, pair]);
    let (source, destination) = if number.is_multiple_of(3) { (there, here) } else { (here, there) };
    frame[14..34]
        .copy_from_slice(&[&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0], &source[..], &destination[..]].concat());
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn one_ring_feeds_several_handlers_by_flow() {
    const PACKETS: u32 = 30_000;
    // Only who waits for an interrupt learns of a source's end.
    for (policy, ends) in [(interrupts(), true), (timer(1_000_000), false)] {
        let config = ReceiverConfig { handlers: 4, ..config(policy) };
        let arrivals: Vec<_> =
            (0..PACKETS).map(|number| Arrival::there(numbered((number % 50) as u8, number))).collect();
        give(&config.interface, vec![Box::new(memory(Script::of(arrivals)))]).unwrap();
        let mut devices = Devices::open(vec![config]).unwrap();
        assert_eq!((devices.source_count(), devices.handler_count()), (1, 4));
        assert!(devices.hands_over() && !devices.holds_packets());
        let demand = Demand { bound: Duration::from_millis(1), peak_pps: 1.5e6 };
        let mut warnings = Vec::new();
        let handlers = (0..4).map(|_| ByPair::default()).collect();
        let handlers = devices.join_flows(handlers, demand, &mut warnings).unwrap();
        assert_eq!(warnings, [""; 0]);
        let counts: Vec<_> = handlers.iter().map(HandOver::counts).collect();
        let mut running = devices.start(handlers).unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while running.counters().packets < PACKETS.into() || ends && !running.have_ended() {
            assert!(Instant::now() < patience, "it never came to that");
            std::thread::sleep(Duration::from_millis(1));
            running.take_ended();
        }
        let outcome = running.finish().unwrap().remove(0).outcome;
        assert_eq!(parts(&outcome.ledger), (Some(PACKETS.into()), PACKETS.into(), Some(0), 0, Some(0)));
        let handlers: Vec<ByPair> = outcome.engines.into_iter().map(|engine| engine.handler.into_inner()).collect();
        let full: u64 = counts.iter().map(|counts| counts.full()).sum();
        let handled: usize = handlers.iter().map(|handler| handler.seen.len()).sum();
        assert_eq!(handled as u64 + full, u64::from(PACKETS), "each is handled once, or counted");
        let (mut owners, mut latest) = (HashMap::new(), HashMap::new());
        for (index, handler) in handlers.iter().enumerate() {
            assert!(!handler.seen.is_empty(), "handler {index}");
            for &(pair, number) in &handler.seen {
                assert_eq!(*owners.entry(pair).or_insert(index), index, "pair {pair} in two handlers");
                assert!(latest.insert(pair, number).is_none_or(|before| before < number), "pair {pair} out of order");
            }
        }
        let threads: HashSet<_> = handlers.iter().flat_map(|handler| &handler.threads).collect();
        assert!(threads.len() > 1, "one thread handled all");
    }
}

/// Panics at a packet of this pair.
struct Fragile(u8);

impl Handler for Fragile {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        assert_ne!(packet.data[29], self.0, "as the test wants it");
    }
}

/// Its flows would be handled by nobody, and nobody would know.
#[test]
fn a_handler_that_panics_ends_its_device_with_a_ring_or_without() {
    for pair in 0..12 {
        let config = ReceiverConfig { handlers: 4, ..config(interrupts()) };
        let arrivals: Vec<_> = (0..50).map(|number| Arrival::there(numbered(number % 12, number.into()))).collect();
        let script = Script { ending: Ending::Silence, ..Script::of(arrivals) };
        give(&config.interface, vec![Box::new(memory(script))]).unwrap();
        let mut devices = Devices::open(vec![config]).unwrap();
        let demand = Demand { bound: Duration::from_millis(1), peak_pps: 1.5e6 };
        let handlers = devices.join_flows((0..4).map(|_| Fragile(pair)).collect(), demand, &mut Vec::new()).unwrap();
        let mut running = devices.start(handlers).unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while !running.have_ended() {
            assert!(Instant::now() < patience, "pair {pair}: nobody noticed");
            std::thread::sleep(Duration::from_millis(1));
            running.take_ended();
        }
        let error = running.finish().err().unwrap().to_string();
        assert!(error.contains("the engine thread panicked"), "{error}");
    }
}

/// What comes after it is told is handled by those that stay. A panic may print its stack for long.
#[test]
fn a_handler_that_panics_leaves_its_flows_to_the_other_device() {
    let configs = [config(interrupts()), config(interrupts())];
    // Nobody knows which of these are the first engine's; only its handler minds them.
    let doomed: Vec<_> = (200..240).map(|pair| Arrival::there(numbered(pair, 1))).collect();
    let doomed = Script { ending: Ending::Silence, ..Script::of(doomed) };
    let now_ns = monotonic_ns();
    let arrivals: Vec<_> = (0..15_000)
        .map(|number| Arrival::at(now_ns + u64::from(number) * 200_000, numbered((number % 50) as u8, number)))
        .collect();
    give(&configs[0].interface, vec![Box::new(memory(doomed))]).unwrap();
    give(&configs[1].interface, vec![Box::new(memory(Script::of(arrivals)))]).unwrap();
    let mut devices = Devices::open(configs.to_vec()).unwrap();
    let demand = Demand { bound: Duration::from_millis(1), peak_pps: 1.5e6 };
    let handled = Arc::new(AtomicU64::new(0));
    let handlers = [true, false].map(|is_fragile| Counts { handled: Arc::clone(&handled), is_fragile }).into();
    let handlers = devices.join_flows(handlers, demand, &mut Vec::new()).unwrap();
    let mut running = devices.start(handlers).unwrap();
    let (patience, mut told) = (Instant::now() + Duration::from_secs(60), Vec::new());
    let mut then = (0, 0);
    while !running.have_ended() {
        assert!(Instant::now() < patience, "it never came to that");
        std::thread::sleep(Duration::from_millis(1));
        let was_told = !told.is_empty();
        told.extend(running.take_ended());
        if !was_told && !told.is_empty() {
            then = (handled.load(Ordering::Relaxed), running.counters().packets);
        }
    }
    assert_eq!(told[0].end, DeviceEnd::Panicked);
    let line = told[0].line("watch", &["b"]);
    assert!(line.contains("an engine thread panicked") && !line.contains("complete"), "{line}");
    let received = running.counters().packets;
    assert!(running.finish().is_err());
    let handled = handled.load(Ordering::Relaxed);
    assert!(handled - then.0 >= received - then.1, "{handled} handled, {received} received, {then:?} when it was told");
}

/// Counts packets of pairs below 200; those above may make it panic.
struct Counts {
    handled: Arc<AtomicU64>,
    is_fragile: bool,
}

impl Handler for Counts {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let is_doomed = packet.data[29] >= 200;
        assert!(!(is_doomed && self.is_fragile), "as the test wants it");
        self.handled.fetch_add(u64::from(!is_doomed), Ordering::Relaxed);
    }
}

/// Opening takes time (a card may restart), in which the first device's rings would fill with what nobody takes.
#[test]
fn no_device_takes_packets_before_the_last_one_is_open() {
    static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    fn counters() -> Option<Box<dyn DeviceCounters>> {
        CALLS.lock().unwrap().push("opened");
        Some(Box::new(LetThrough))
    }
    let configs = [config(interrupts()), config(interrupts())];
    for config in &configs {
        let admitted = || CALLS.lock().unwrap().push("admitted");
        let but = But { source: memory(packets(0, 1)), counters, admitted, filters: false };
        give(&config.interface, vec![Box::new(but)]).unwrap();
    }
    assert_eq!(Devices::open(configs.to_vec()).unwrap().source_count(), 2);
    assert_eq!(*CALLS.lock().unwrap(), ["opened", "opened", "admitted", "admitted"]);
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let but = But {
        source: memory(packets(0, 10)),
        counters: || Some(Box::new(Unreadable)),
        admitted: || {},
        filters: false,
    };
    let config = config(interrupts());
    give(&config.interface, vec![Box::new(but)]).unwrap();
    let receiver = Receiver::open(config).unwrap();
    let ledger = run_out(receiver, vec![Seen::default()]).ledger;
    assert_eq!((ledger.offered, ledger.delivered, ledger.unaccounted()), (None, 10, None), "{ledger}");
    assert_eq!(ledger.drops[&Cause::RingFull], None);
}

#[test]
fn what_a_source_says_of_its_device_is_told_in_the_end() {
    let but =
        But { source: memory(packets(0, 10)), counters: || Some(Box::new(LetThrough)), admitted: || {}, filters: true };
    let config = config(interrupts());
    give(&config.interface, vec![Box::new(but)]).unwrap();
    let receiver = Receiver::open(config).unwrap();
    let outcome = run_out(receiver, vec![Seen::default()]);
    let ledger = outcome.ledger;
    assert_eq!((ledger.filtered, ledger.filtered_before_offered), (None, true), "nobody knows how many it refused");
    assert_eq!((ledger.offered, ledger.delivered, ledger.drops[&Cause::InvalidDescriptor]), (Some(10), 10, Some(2)));
    assert!(outcome.warnings.iter().any(|told| told.contains("gives no more packets: the card is on fire")));
}

#[test]
fn a_device_that_is_removed_ends_its_engine_alone() {
    let scripts =
        [Script { ending: Ending::Gone, ..packets(0, 5) }, Script { ending: Ending::Silence, ..packets(1, 6) }];
    let running = open(config(interrupts()), scripts).start(vec![Seen::default(), Seen::default()]).unwrap();
    wait_until(&running, |running| running.counters().packets == 11);
    assert!(!running.is_finished());
    let outcome = running.finish().unwrap();
    assert_eq!(outcome.engines.iter().map(|engine| engine.end).collect::<Vec<_>>(), [End::DeviceGone, End::Stopped]);
    assert_eq!(parts(&outcome.ledger), (Some(11), 11, Some(0), 0, Some(0)));
}

#[test]
fn what_had_come_when_it_was_stopped_is_delivered_and_what_had_not_was_never_offered() {
    let now_ns = monotonic_ns();
    let late = (0..10).map(|_| Arrival::at(now_ns + 3_600_000_000_000, vec![9]));
    let arrivals: Vec<_> = (0..300).map(|_| Arrival::there(vec![0])).chain(late).collect();
    for policy in [interrupts(), timer(1_000_000_000)] {
        let running = open(config(policy), [Script::of(arrivals.clone())]).start(vec![Seen::default()]).unwrap();
        running.stop_handle().pull();
        let outcome = running.finish().unwrap();
        assert_eq!(outcome.engines[0].end, End::Stopped);
        assert_eq!(parts(&outcome.ledger), (Some(300), 300, Some(0), 0, Some(0)));
    }
}

struct Panics;

impl Handler for Panics {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        panic!("the test's own panic");
    }
}

#[test]
fn a_handler_that_panics_is_an_error_in_the_end() {
    let running = open(config(interrupts()), [packets(0, 1)]).start(vec![Panics]).unwrap();
    wait_until(&running, Running::is_finished);
    let error = running.finish().err().unwrap().to_string();
    assert!(error.contains("the engine thread panicked"), "{error}");
}

#[test]
fn a_running_receiver_that_is_dropped_ends_its_engines() {
    let script = Script { ending: Ending::Silence, ..packets(0, 1) };
    let running = open(config(interrupts()), [script]).start(vec![Seen::default()]).unwrap();
    let stop = running.stop_handle();
    drop(running);
    assert!(stop.is_pulled());
}
