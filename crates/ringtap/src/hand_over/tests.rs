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

/// Keeps what it got.
#[derive(Default)]
struct Keep(Vec<(Vec<u8>, u64)>);

impl Handler for Keep {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.0.push((packet.data.to_vec(), packet.arrival_ns));
    }
}

fn engines(count: usize, bound: Duration) -> Vec<HandOver<Keep>> {
    let handlers = (0..count).map(|_| Keep::default()).collect();
    HandOver::among(handlers, LinkType::Ethernet, StampClock::Monotonic, bound).unwrap()
}

fn with_outbox(run: impl FnOnce(&mut Outbox<'_>)) {
    let meters = EngineMeters::default();
    run(&mut Outbox { ring: None, meters: &meters });
}

fn packet(data: &[u8], arrival_ns: u64) -> Packet<'_> {
    Packet { data, wire_len: data.len() as u32, arrival_ns, checksum_pending: false }
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
}

#[test]
fn a_sleeping_engine_is_woken_once() {
    let mut engines = engines(2, Duration::from_millis(1));
    with_outbox(|outbox| {
        engines.iter_mut().for_each(|engine| engine.cycle_end(outbox));
        // Pairs of both engines.
        for number in 0..16 {
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
        engines[1].retired();
        for number in 0..64 {
            engines[0].packet(&packet(&frame((1, number), 0, false), 1), outbox);
        }
        engines.iter_mut().for_each(|engine| engine.all_ended(outbox));
        assert_eq!(engines[1].inner.0.len(), before);
        assert_eq!(engines.iter().map(|engine| engine.inner.0.len()).sum::<usize>(), handled + 64);
    });
}

proptest! {
    /// Whatever engine receives a packet and whenever engines take turns: each packet is handled once or counted, those between two
    /// addresses by one engine and in the order of their arrival.
    #[test]
    fn nothing_is_lost_and_flows_keep_their_order(
        count in 1usize..5,
        steps in proptest::collection::vec((0usize..5, 0u8..4, 0u8..4, any::<bool>(), any::<bool>()), 1..300),
    ) {
        let mut engines = engines(count, AGES);
        let mut sent = 0u32;
        with_outbox(|outbox| {
            for &(engine, a, b, fragment, turn) in &steps {
                let engine = &mut engines[engine % count];
                sent += 1;
                engine.packet(&packet(&frame((a, b), sent, fragment), sent.into()), outbox);
                if turn {
                    engine.cycle_end(outbox);
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
