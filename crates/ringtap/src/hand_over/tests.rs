use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::meters::EngineMeters;

/// Addresses, and the payload's number; `fragment`: a later one, without ports.
fn frame((source, destination): (u8, u8), number: u32, fragment: bool) -> Vec<u8> {
    let mut frame = vec![0u8; 14 + 20 + 8 + 4];
    frame[12] = 0x08;
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[3] = 32;
    ip[6..8].copy_from_slice(&if fragment { 0x0010u16 } else { 0 }.to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&[192, 0, 2, source]);
    ip[16..20].copy_from_slice(&[192, 0, 2, destination]);
    ip[28..].copy_from_slice(&number.to_be_bytes());
    frame
}

/// So long that nothing is due before the end.
const AGES: Duration = Duration::from_secs(1 << 32);

/// Keeps what it got, counts its turns behind an ended engine, and how often all had ended.
#[derive(Default)]
struct Keep(Vec<(Vec<u8>, u64)>, u32, u32);

impl Handler for Keep {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.0.push((packet.data.to_vec(), packet.arrival_ns));
    }

    fn retired(&mut self, _outbox: &mut Outbox<'_>) {
        self.1 += 1;
    }

    fn all_ended(&mut self, _outbox: &mut Outbox<'_>) {
        self.2 += 1;
    }
}

/// Of `count` engines, the first `rings` of which have one.
fn supplies(rings: usize, count: usize) -> impl Iterator<Item = Supply> {
    (0..count).map(move |index| if index < rings { Supply::Ring } else { Supply::Queues })
}

fn engines(count: usize, bound: Duration) -> Vec<HandOver<Keep>> {
    engines_of(count, count, bound)
}

fn engines_of(rings: usize, count: usize, bound: Duration) -> Vec<HandOver<Keep>> {
    let handlers = supplies(rings, count).map(|supply| (Keep::default(), supply)).collect();
    HandOver::among(handlers, LinkType::Ethernet, StampClock::Monotonic, Demand { bound, peak_pps: 0.0 }).unwrap()
}

/// Who handles what is between host 1 and this one.
fn owner_of(engines: &[HandOver<Keep>], end: u8) -> usize {
    let mesh = engines[0].mesh.as_ref().unwrap();
    owner::hash(&frame((1, end), 0, false), LinkType::Ethernet, mesh.secret).unwrap() as usize % engines.len()
}

fn with_outbox(run: impl FnOnce(&mut Outbox<'_>)) {
    let meters = EngineMeters::default();
    run(&mut Outbox::nowhere(&meters));
}

fn packet(data: &[u8], arrival_ns: u64) -> Packet<'_> {
    Packet { data, wire_len: data.len() as u32, arrival_ns, checksum_pending: false, port: 0 }
}

#[test]
fn an_answer_waits_for_its_question() {
    let mut engines = engines(2, AGES);
    let (question, answer) = (frame((1, 2), 1, false), frame((2, 1), 2, false));
    let now_ns = clock::monotonic_ns();
    with_outbox(|outbox| {
        // Both are young, and the engine of the answer looks first.
        engines[1].packet(&packet(&answer, now_ns - 10), outbox);
        engines[1].cycle_end(outbox);
        engines[0].packet(&packet(&question, now_ns - 20), outbox);
        engines[0].cycle_end(outbox);
        assert!(engines.iter().all(|engine| engine.inner.0.is_empty()), "handled before the other engine had to look");
        assert!(engines.iter().any(|engine| engine.next_turn().is_some_and(|wait| wait <= AGES)));
        engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
    });
    let got: Vec<_> = engines.iter().flat_map(|engine| &engine.inner.0).map(|(data, _)| data.clone()).collect();
    assert_eq!(got, [question, answer]);
    assert!(engines.iter().all(|engine| engine.inner.2 == 1), "the inner handler is told, too");
}

#[test]
fn a_sleeping_engine_is_woken_once() {
    let mut engines = engines(2, Duration::from_millis(1));
    with_outbox(|outbox| {
        engines.iter_mut().for_each(|engine| engine.cycle_end(outbox));
        // Pairs of both engines.
        for number in 0..48 {
            engines[0].packet(&packet(&frame((1, number), number.into(), false), 1), outbox);
        }
        engines[0].cycle_end(outbox);
        assert!(engines[1].bell().unwrap().clear(), "not woken");
        engines[0].packet(&packet(&frame((1, 2), 99, false), 1), outbox);
        engines[0].cycle_end(outbox);
        assert!(!engines[1].bell().unwrap().clear(), "it is awake");
        engines[1].cycle_end(outbox);
    });
    assert!(engines.iter().all(|engine| !engine.inner.0.is_empty()), "both engines have pairs");
}

#[test]
fn a_full_queue_is_counted_and_flows_of_an_engine_that_left_go_elsewhere() {
    let mut engines = engines(2, Duration::ZERO);
    let long = |number: u8| {
        let mut frame = frame((1, number), 0, false);
        frame.resize(60_000, 0);
        frame
    };
    let mut pushed = 0;
    with_outbox(|outbox| {
        for number in 0..=255 {
            engines[0].packet(&packet(&long(number), 1), outbox);
            pushed += 1;
        }
        let refused = engines[0].counts().full();
        assert!(refused > 0 && engines[0].counts().handed_over() > 0);
        engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
        let handled: usize = engines.iter().map(|engine| engine.inner.0.len()).sum();
        assert_eq!(handled as u64 + refused, pushed);
        let before = engines[1].inner.0.len();
        engines[1].retired(outbox);
        for number in 0..64 {
            engines[0].packet(&packet(&frame((1, number), 0, false), 1), outbox);
        }
        engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
        assert_eq!(engines[1].inner.0.len(), before);
        assert_eq!(engines.iter().map(|engine| engine.inner.0.len()).sum::<usize>(), handled + 64);
    });
}

/// Those of one device go together, with all that its ring fed.
#[test]
fn all_that_are_left_share_out_what_engines_handled_that_left() {
    let supply = |index| if index % 4 == 0 { Supply::Ring } else { Supply::Queues };
    let handlers = (0..8).map(|index| (Keep::default(), supply(index))).collect();
    let demand = Demand { bound: Duration::ZERO, peak_pps: 0.0 };
    let mut engines = HandOver::among(handlers, LinkType::Ethernet, StampClock::Monotonic, demand).unwrap();
    with_outbox(|outbox| {
        engines[..4].iter_mut().for_each(|engine| engine.retired(outbox));
        for end in 0..=255 {
            engines[4].packet(&packet(&frame((1, end), 0, false), 1), outbox);
        }
        engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
    });
    let handled: Vec<usize> = engines.iter().map(|engine| engine.inner.0.len()).collect();
    assert_eq!((&handled[..4], handled.iter().sum::<usize>()), (&[0; 4][..], 256));
    assert!(handled[4..].iter().all(|&count| count > 32), "{handled:?}");
}

/// Its own thread is gone, and the program may go on for days.
#[test]
fn what_waits_for_an_engine_that_left_is_handled_in_its_time() {
    let mut engines = engines(2, Duration::from_millis(200));
    let end = (2..).find(|&end| owner_of(&engines, end) == 1).unwrap();
    with_outbox(|outbox| {
        engines[0].packet(&packet(&frame((1, end), 1, false), clock::monotonic_ns()), outbox);
        engines[1].cycle_end(outbox);
        engines[1].retired(outbox);
        assert!(engines[1].inner.0.is_empty(), "what belongs before it may still come");
        std::thread::sleep(Duration::from_millis(200));
        engines[1].retired(outbox);
        assert_eq!(engines[1].inner.0.len(), 1);
        // The inner handler has its turns, too.
        assert_eq!(engines[1].inner.1, 2);
    });
}

#[test]
fn queues_hold_twice_the_bound_at_the_peak_rate_and_do_not_grow_with_the_square_of_the_engines() {
    let demand = |millis, peak_pps| Demand { bound: Duration::from_millis(millis), peak_pps };
    // 6.1 Gbit/s for 200 ms.
    let slow = demand(100, 1.5e6);
    assert!(slow.queue_bytes(2, 2) as f64 >= 1.5e6 * 0.2 * 512.0);
    for engines in 2..200 {
        let bytes = slow.memory_bytes(engines, engines);
        let most = slow.memory_bytes(2, 2).max((engines * (engines + 1)) as u64 * LEAST_BYTES);
        assert!(bytes <= most, "{engines}: {bytes}");
        // Half of all packets by one engine, for one engine.
        let queue_bytes = slow.queue_bytes(engines, engines);
        assert!(queue_bytes as f64 * engines as f64 >= 1.5e6 * 0.2 * 512.0 * 2.0 / engines as f64);
        assert!(queue_bytes > 2 << 16, "a merged packet has room");
        // All by one ring, twice its share for one of the engines.
        assert!(slow.queue_bytes(1, engines) as f64 >= 1.5e6 * 0.2 * 512.0 * 2.0 / engines as f64);
    }
    assert_eq!(demand(0, 0.0).queue_bytes(2, 2), 4 << 20);
    assert_eq!(demand(1 << 50, f64::MAX).memory_bytes(1 << 20, 1 << 20), u64::MAX, "refused, not wrapped");
}

/// Under a flood the ring of an engine never runs empty, and so no cycle ends.
#[test]
fn packets_are_handled_and_others_woken_without_an_end_of_a_cycle() {
    let mut engines = engines(2, Duration::ZERO);
    with_outbox(|outbox| {
        engines[1].cycle_end(outbox);
        for number in 0..10 * RECEIVED {
            engines[0].packet(&packet(&frame((1, number as u8), number, false), number.into()), outbox);
        }
        assert!(engines[1].bell().unwrap().clear(), "not woken");
        let own = engines[0].inner.0.len();
        engines[0].cycle_end(outbox);
        assert!(own > 0 && engines[0].inner.0.len() - own < RECEIVED as usize, "{own} of {}", engines[0].inner.0.len());
    });
}

#[test]
fn a_backlog_is_handled_in_slices() {
    let mut engines = engines(2, Duration::ZERO);
    let end = (2..).find(|&end| owner_of(&engines, end) == 1).unwrap();
    with_outbox(|outbox| {
        for number in 0..3 * SLICE as u32 {
            engines[0].packet(&packet(&frame((1, end), number, false), number.into()), outbox);
        }
        for turns in 1..=3 {
            engines[1].cycle_end(outbox);
            assert_eq!(engines[1].inner.0.len(), turns * SLICE);
            assert_eq!(engines[1].next_turn(), Some(Duration::ZERO), "more may be due");
        }
        engines[1].cycle_end(outbox);
        assert_eq!((engines[1].inner.0.len(), engines[1].next_turn()), (3 * SLICE, None));
    });
}

#[test]
fn what_one_ring_receives_is_held_by_nobody_and_wakes_who_handles_it() {
    let mut engines = engines_of(1, 3, AGES);
    let owners: Vec<usize> = (0..40).map(|end| owner_of(&engines, end)).collect();
    with_outbox(|outbox| {
        engines.iter_mut().for_each(|engine| engine.cycle_end(outbox));
        for end in 2..40 {
            engines[0].packet(&packet(&frame((1, end), end.into(), false), end.into()), outbox);
        }
        engines[0].cycle_end(outbox);
        for (index, engine) in engines.iter_mut().enumerate() {
            assert_eq!(engine.bell().unwrap().clear(), index > 0, "engine {index}");
            engine.cycle_end(outbox);
            let ends: Vec<u8> = (2..40).filter(|&end| owners[usize::from(end)] == index).collect();
            let handled: Vec<u8> = engine.inner.0.iter().map(|(data, _)| data[14 + 19]).collect();
            assert!(!ends.is_empty() && engine.next_turn().is_none());
            assert_eq!(handled, ends, "engine {index}");
        }
    });
}

proptest! {
    /// Whatever engine receives a packet and whenever engines take turns: each packet is handled once or counted, those between two
    /// addresses by one engine and in the order of their arrival.
    #[test]
    fn nothing_is_lost_and_flows_keep_their_order(
        (rings, count) in (1usize..5, 0usize..4).prop_map(|(rings, others)| (rings, rings + others)),
        steps in proptest::collection::vec((0usize..8, 0u8..4, 0u8..4, any::<bool>(), any::<bool>()), 1..300),
    ) {
        let mut engines = engines_of(rings, count, AGES);
        let mut sent = 0u32;
        with_outbox(|outbox| {
            for &(engine, a, b, fragment, turn) in &steps {
                sent += 1;
                engines[engine % rings].packet(&packet(&frame((a, b), sent, fragment), sent.into()), outbox);
                if turn {
                    engines[engine % count].cycle_end(outbox);
                }
            }
            engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
        });
        let mut seen = BTreeMap::new();
        let mut handled = 0;
        for (index, engine) in engines.iter().enumerate() {
            prop_assert_eq!(engine.counts.full(), 0);
            let mut latest: BTreeMap<(u8, u8), u64> = BTreeMap::new();
            for (data, arrival_ns) in &engine.inner.0 {
                let (a, b) = (data[14 + 15], data[14 + 19]);
                let pair = (a.min(b), a.max(b));
                prop_assert_eq!(*seen.entry(pair).or_insert(index), index, "one pair, two handlers");
                let before = latest.insert(pair, *arrival_ns).unwrap_or(0);
                prop_assert!(count == 1 || before < *arrival_ns, "out of order");
                handled += 1;
            }
        }
        prop_assert_eq!(handled, sent);
    }
}

/// Keeps the stamp furthest behind what was said before it was handled.
struct Behind {
    said_ns: Arc<AtomicU64>,
    most_ns: u64,
}

impl Handler for Behind {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let said_ns = self.said_ns.load(Ordering::Relaxed);
        self.most_ns = self.most_ns.max(said_ns.saturating_sub(packet.arrival_ns));
    }
}

/// A device: frames that were stamped, and frames that the engine can see.
#[derive(Default)]
struct Device {
    stamped: Vec<u64>,
    visible: std::collections::VecDeque<u64>,
}

proptest! {
    /// Whenever frames come, can be seen, and engines take turns: none is handled that lies further behind what all engines said before
    /// than it took from its stamp until it could be seen.
    #[test]
    fn what_engines_say_holds(
        (rings, count) in (1usize..4, 0usize..3).prop_map(|(rings, others)| (rings, rings + others)),
        steps in proptest::collection::vec((0usize..6, 0u8..5, 0u8..8), 1..300),
        hidden in any::<bool>(),
    ) {
        let said_ns = Arc::<AtomicU64>::default();
        let handlers = supplies(rings, count).map(|supply| (Behind { said_ns: Arc::clone(&said_ns), most_ns: 0 }, supply)).collect();
        let demand = Demand { bound: Duration::from_micros(400), peak_pps: 0.0 };
        let mut engines = HandOver::among(handlers, LinkType::Ethernet, StampClock::Monotonic, demand).unwrap();
        let reaches: Vec<_> = engines.iter_mut().map(|engine| engine.reach(StampClock::Monotonic).unwrap()).collect();
        let mut devices: Vec<Device> = engines.iter().map(|_| Device::default()).collect();
        let mut unseen_ns = 0;
        let say = || {
            let until = reaches.iter().map(|reach| reach.until_ns()).try_fold(u64::MAX, |least, until| Some(least.min(until?)));
            said_ns.fetch_max(until.unwrap_or(0), Ordering::Relaxed);
        };
        with_outbox(|outbox| {
            for &(number, action, pair) in &steps {
                let now_ns = clock::monotonic_ns();
                while clock::monotonic_ns() < now_ns + 3000 {}
                let (device, engine) = (&mut devices[number % count], &mut engines[number % count]);
                match action {
                    0..=2 if number % count >= rings => {}
                    0 | 1 if hidden => device.stamped.push(clock::monotonic_ns()),
                    0 | 1 => device.visible.push_back(clock::monotonic_ns()),
                    2 => {
                        device.visible.extend(device.stamped.iter());
                        let first = device.stamped.drain(..).next();
                        unseen_ns = first.map_or(unseen_ns, |first| unseen_ns.max(clock::monotonic_ns() - first));
                    }
                    3 => match device.visible.pop_front() {
                        Some(stamp) => engine.packet(&packet(&frame((1, pair), 0, false), stamp), outbox),
                        None => engine.cycle_end(outbox),
                    },
                    _ => say(),
                }
            }
            // What still waits is younger than what was said.
            engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
        });
        let most_ns = engines.iter().map(|engine| engine.inner.most_ns).max().unwrap();
        prop_assert!(most_ns <= unseen_ns, "{most_ns} ns behind, {unseen_ns} ns unseen");
    }
}

/// A packet that waits for its bound was received, and is not handled.
#[test]
fn what_is_said_stays_behind_a_packet_that_waits() {
    let mut engines = engines(2, AGES);
    let reaches: Vec<_> = engines.iter_mut().map(|engine| engine.reach(StampClock::Monotonic).unwrap()).collect();
    with_outbox(|outbox| {
        for by in 0..2 {
            let stamp_ns = clock::monotonic_ns();
            engines[by].packet(&packet(&frame((1, 2), 0, false), stamp_ns), outbox);
            for _ in 0..5 {
                std::thread::sleep(Duration::from_micros(10));
                engines.iter_mut().for_each(|engine| engine.cycle_end(outbox));
            }
            let least = reaches.iter().map(|reach| reach.until_ns().unwrap_or(0)).min().unwrap();
            assert!(least < stamp_ns, "{least} is said, {stamp_ns} waits");
        }
        assert!(reaches.iter().any(|reach| reach.until_ns().is_some()), "the other engine goes on");
    });
}

#[test]
fn what_is_said_goes_on_without_packets_and_without_engines_that_ended() {
    for count in [1, 3] {
        let mut engines = engines(count, Duration::from_micros(20));
        let reaches: Vec<_> = engines.iter_mut().map(|engine| engine.reach(StampClock::Monotonic).unwrap()).collect();
        let began_ns = clock::monotonic_ns();
        with_outbox(|outbox| {
            let turn = |engines: &mut [HandOver<Keep>], outbox: &mut Outbox<'_>| {
                std::thread::sleep(Duration::from_micros(10));
                engines.iter_mut().for_each(|engine| engine.cycle_end(outbox));
            };
            (0..3).for_each(|_| turn(&mut engines, outbox));
            assert!(reaches.iter().all(|reach| reach.until_ns().unwrap() > began_ns));
            let (last, going_on) = engines.split_last_mut().unwrap();
            last.retired(outbox);
            assert!(reaches.last().unwrap().has_ended());
            let ended_ns = clock::monotonic_ns();
            (0..3).for_each(|_| turn(going_on, outbox));
            assert!(reaches[..count - 1].iter().all(|reach| reach.until_ns().unwrap() > ended_ns));
        });
    }
}

/// Has more to do after this time.
struct Again(Duration);

impl Handler for Again {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}

    fn next_turn(&self) -> Option<Duration> {
        Some(self.0)
    }
}

#[test]
fn the_handler_inside_is_asked_for_its_next_turn_too() {
    let soon = Duration::from_millis(1);
    assert_eq!(HandOver::alone(Again(soon)).next_turn(), Some(soon));
    let demand = Demand { bound: AGES, peak_pps: 0.0 };
    let among = HandOver::among(
        [Again(soon), Again(soon)].map(|it| (it, Supply::Ring)).into(),
        LinkType::Ethernet,
        StampClock::Monotonic,
        demand,
    )
    .unwrap();
    assert!(among.iter().all(|handler| handler.next_turn() == Some(soon)));
}
