use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use ringtap::burst::Packet;
use ringtap::engine::{Engine, Handler};
use ringtap::hand_over::{Demand, HandOver, Supply};
use ringtap::testing::{self, Arrival, Ending, MemorySource, Script, SimulatedClock};
use ringtap::transmit::Outbox;
use ringtap_output::Queue;
use ringtap_samples::frames::Ends;
use ringtap_wire::LinkType;

use super::*;
use crate::inspector::Inspector;
use crate::options::AlarmOptions;
use crate::record::AlertRecord;
use crate::tests::{self, EVIL, Parts, Setup};

const SECOND_NS: u64 = 1_000_000_000;

fn identity(epochs: &Path, now_ns: u64) -> Identity {
    let table = crate::identity::Table {
        sensor_id: Some("north".to_owned()),
        key: Some("1:00112233445566778899aabbccddeeff".to_owned()),
        epoch_file: Some(epochs.to_owned()),
    };
    Identity::of(&AlarmOptions::default(), &table, ringtap_datagram::Clock::Host, now_ns).unwrap()
}

struct Nothing;

impl Handler for Nothing {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {}
}

/// An engine that has handled packets of these stamps, once for each look.
fn engine(source: MemorySource<std::vec::IntoIter<Arrival>>, handler: HandOver<Nothing>) -> HandOver<Nothing> {
    let mut engine = testing::engine(source, handler).unwrap();
    engine.run();
    engine.handler
}

fn source(stamps_ns: &[u64]) -> MemorySource<std::vec::IntoIter<Arrival>> {
    let arrival = |stamp: &u64| Arrival { stamp_ns: Some(*stamp), ..Arrival::there(&b"a frame"[..]) };
    let script =
        Script { stamp_clock: StampClock::Realtime, ..Script::of(stamps_ns.iter().map(arrival).collect::<Vec<_>>()) };
    MemorySource::new("memory", SystemClock, script).unwrap()
}

#[test]
fn a_clock_that_is_set_begins_an_epoch_in_which_nothing_is_promised_for_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("epoch");
    let began_ns = SECOND_NS << 30;
    let clock = SimulatedClock::at(began_ns);
    let mut handler = HandOver::alone(Nothing);
    let reaches = vec![handler.reach(StampClock::Realtime).unwrap()];
    let (numbers, host) = (Arc::new(Numbers::new(began_ns)), Arc::new(HostClock::now()));
    let mut pulse = Pulse::new(identity(&file, began_ns), Arc::clone(&numbers), Arc::clone(&host), reaches, &clock);
    clock.advance(SECOND_NS);
    let beat = pulse.beat(&clock, || Some(5));
    assert_eq!((beat.horizon_ns, beat.last_sequence, beat.error_ns), (0, 0, Some(5)), "no engine has looked yet");
    let handled_ns = began_ns + SECOND_NS;
    handler = engine(source(&[handled_ns - 100, handled_ns]), handler);
    assert_eq!((numbers.next(handled_ns), numbers.next(handled_ns)), ((began_ns, 1), (began_ns, 2)));
    let beat = pulse.beat(&clock, || Some(5));
    let expected_ns = handled_ns - VISIBLE_AFTER.as_nanos() as u64;
    assert!(beat.horizon_ns <= expected_ns && beat.horizon_ns > expected_ns - 1024, "{beat:?}");
    assert_eq!((beat.origin.epoch, beat.last_sequence, beat.sent_ns), (began_ns, 2, handled_ns));
    numbers.next(beat.horizon_ns);
    assert_eq!(numbers.behind(), 1);

    // An hour back.
    let set_ns = handled_ns - 3600 * SECOND_NS;
    clock.advance(SECOND_NS / 10);
    clock.set_realtime_ns(set_ns);
    let beat = pulse.beat(&clock, || panic!("not asked: it is unknown"));
    assert_eq!((beat.origin.epoch, beat.last_sequence), (began_ns + 1, 0));
    assert_eq!((beat.horizon_ns, beat.error_ns, host.error_ns()), (0, None, None));
    assert_eq!(numbers.next(set_ns), (began_ns + 1, 1));
    handler = engine(source(&[set_ns + 10_000_000]), handler);
    clock.advance(SECOND_NS / 2);
    assert_eq!(pulse.beat(&clock, || Some(5)).horizon_ns, 0, "stamps of before may still come");
    clock.advance(SECOND_NS);
    let beat = pulse.beat(&clock, || Some(5));
    assert!(beat.horizon_ns > set_ns && beat.horizon_ns < set_ns + 10_000_000, "{beat:?}");
    assert_eq!((beat.error_ns, numbers.behind()), (Some(5), 1));
    drop((pulse, handler));
    assert_eq!(identity(&file, 1).epochs.last(), began_ns + 2, "and the next start is later than both");
}

#[test]
fn nothing_is_promised_beyond_now_and_at_the_end_of_files_everything() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::at(SECOND_NS << 30);
    for (stamps, last_ns) in [(StampClock::Realtime, clock.realtime_ns()), (StampClock::Recorded, u64::MAX)] {
        let mut handler = HandOver::alone(Nothing);
        let reaches = vec![handler.reach(stamps).unwrap()];
        let (numbers, host) = (Arc::new(Numbers::new(1)), Arc::new(HostClock::now()));
        let identity = identity(&folder.path().join("epoch"), 1);
        let mut pulse = Pulse::new(identity, numbers, host, reaches, &clock);
        // Kept: an engine's word ends with its handler.
        let _handler = engine(source(&[SECOND_NS << 31]), handler);
        let horizon_ns = pulse.beat(&clock, || None).horizon_ns;
        let is_file = stamps == StampClock::Recorded;
        assert_eq!(horizon_ns > clock.realtime_ns(), is_file, "a file's times are its own");
        assert_eq!(pulse.last(&clock).horizon_ns, last_ns);
    }
}

/// A sensor of several engines among which packets are handed over.
struct Sensor {
    engines: Vec<Engine<MemorySource<std::vec::IntoIter<Arrival>>, HandOver<Inspector>>>,
    kept: Vec<Kept>,
    pulse: Pulse,
}

/// What is left of a setup without its inspector.
type Kept = (Queue<tests::Kept>, Arc<Mutex<Vec<Record>>>);

/// `arrivals` of each engine: when after `from_ns` a frame comes, and its pair of hosts. Frames are stamped `hidden_ns` before.
fn sensor(arrivals: &[Vec<(u64, u8)>], from_ns: u64, hidden_ns: u64, folder: &Path) -> Sensor {
    let (numbers, host) = (Arc::new(Numbers::new(1)), Arc::new(HostClock::now()));
    let mut kept = Vec::new();
    let inspectors = arrivals.iter().map(|_| {
        let mut parts = Parts::new(EVIL);
        (parts.stamps, parts.is_live) = (StampClock::Monotonic, true);
        (parts.numbers, parts.host) = (Arc::clone(&numbers), Arc::clone(&host));
        let Setup { inspector, queue, kept: records, .. } = parts.setup();
        kept.push((queue, records));
        inspector
    });
    let inspectors = inspectors.map(|inspector| (inspector, Supply::Ring)).collect();
    let bound = Duration::from_micros(500);
    let mut handlers =
        HandOver::among(inspectors, LinkType::Ethernet, StampClock::Monotonic, Demand { bound, peak_pps: 0.0 })
            .unwrap();
    let reaches = handlers.iter_mut().map(|handler| handler.reach(StampClock::Monotonic).unwrap()).collect();
    let mut pulse = Pulse::new(identity(&folder.join("epoch"), 1), numbers, host, reaches, &SystemClock);
    pulse.visible_after_ns = hidden_ns;
    let engine = |(arrivals, handler): (&Vec<(u64, u8)>, _)| {
        let arrival = |after_ns: u64, pair: u8, payload: &[u8]| {
            let at_ns = from_ns + after_ns;
            let ends = Ends::new(&format!("198.51.100.{pair}"), "203.0.113.9");
            Arrival { stamp_ns: Some(at_ns - hidden_ns), ..Arrival::at(at_ns, ends.udp_frame([5000, 9], payload)) }
        };
        let evil = arrivals.iter().map(|(after_ns, pair)| arrival(*after_ns, *pair, b"EVIL"));
        // Harmless ones wake an engine now and then, as others can't here; as long as the test is patient, for a busy machine.
        let often = (1..200).map(|number| number * 500_000);
        let later = (1..500).map(|number| 100_000_000 + number * 20_000_000);
        let mut all: Vec<Arrival> = evil.chain(often.chain(later).map(|at_ns| arrival(at_ns, 9, b"good"))).collect();
        all.sort_by_key(|arrival| arrival.at_ns);
        let script = Script { ending: Ending::Silence, ..Script::of(all) };
        testing::engine(MemorySource::new("memory", SystemClock, script).unwrap(), handler).unwrap()
    };
    let engines = arrivals.iter().zip(handlers).map(engine).collect();
    Sensor { engines, kept, pulse }
}

fn alerts(kept: &[Kept]) -> Vec<AlertRecord> {
    let alert = |record: &Record| if let Record::Alert(alert) = record { Some(*alert) } else { None };
    kept.iter().flat_map(|(_, records)| records.lock().unwrap().iter().filter_map(alert).collect::<Vec<_>>()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However a flood is spread over the engines: each alert with a greater number than a heartbeat's has a later time.
    #[test]
    fn no_alert_follows_that_was_promised_not_to(
        spread in proptest::collection::vec((0usize..3, 1u64..60_000, 0u8..6), 1..600),
        count in 1usize..4,
        hidden_us in 0u64..300,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut arrivals: Vec<Vec<(u64, u8)>> = vec![Vec::new(); count];
        let mut at_ns = vec![0; count];
        for (engine, after_ns, pair) in &spread {
            let engine = engine % count;
            at_ns[engine] += after_ns;
            arrivals[engine].push((at_ns[engine], *pair));
        }
        let from_ns = clock::monotonic_ns() + 2_000_000;
        let Sensor { engines, kept, mut pulse } = sensor(&arrivals, from_ns, hidden_us * 1000, folder.path());
        let stops: Vec<_> = engines.iter().map(|engine| Arc::clone(&engine.stop)).collect();
        let threads: Vec<_> = engines
            .into_iter()
            .map(|mut engine| std::thread::spawn(move || {
                engine.run();
                engine.handler.into_inner()
            }))
            .collect();
        let mut beats = Vec::new();
        let until = Instant::now() + Duration::from_secs(10);
        while alerts(&kept).len() < spread.len() && Instant::now() < until {
            beats.push(pulse.beat(&SystemClock, || None));
            std::thread::sleep(Duration::from_micros(50));
        }
        stops.iter().for_each(|stop| stop.pull());
        // Inspectors hold the ends of the queues.
        threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
        let alerts = alerts(&kept);
        prop_assert_eq!(alerts.len(), spread.len());
        for beat in &beats {
            let behind = alerts.iter().find(|alert| alert.sequence > beat.last_sequence && alert.time_ns <= beat.horizon_ns);
            prop_assert!(behind.is_none(), "{behind:?} behind {beat:?}");
        }
        prop_assert_eq!(pulse.numbers.behind(), 0);
        kept.into_iter().for_each(|(queue, _)| drop(queue.finish().unwrap()));
    }
}
