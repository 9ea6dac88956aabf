//! Whole engines over capture files, with handlers as they are live: alerts, shedding, exchange of rules, the end of a run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringtap::Stop;
use ringtap::arrival::ArrivalClock;
use ringtap::engine::{End, Engine};
use ringtap::meters::EngineMeters;
use ringtap::pacer::{Pacer, Policy};
use ringtap::source::StampClock;
use ringtap::source::file::{FileSource, Pace};
use ringtap_detect::rules::{BitNames, Classes, RuleSet, Variables};
use ringtap_detect::{Detector, Limits, Precedence, Program};
use ringtap_output::{Queue, Work};
use ringtap_samples::Sample;
use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::frames::Ends;
use ringtap_wire::LinkType;

use crate::finds::{Alerts, Finds, Wanted};
use crate::inspector::{Inspector, Statistics, Times};
use crate::programs::{Exchange, exchange};
use crate::record::Record;
use crate::shedding::Shedding;

const EVIL: &str = "alert udp any any -> any any (content:\"EVIL\"; sid:1;)\n";

/// Keeps records, and takes its time over each.
struct Kept(Arc<Mutex<Vec<Record>>>, Duration);

impl Work<Record> for Kept {
    fn record(&mut self, record: Record) {
        std::thread::sleep(self.1);
        self.0.lock().unwrap().push(record);
    }

    fn idle(&mut self) {}
}

fn program(text: &str) -> Arc<Program> {
    let mut set = RuleSet::with_bits(BitNames::default());
    set.add("test.rules", text.as_bytes(), &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = Program::new(set, &mut rejected).unwrap();
    assert!(rejected.is_empty(), "{rejected:?}");
    Arc::new(program)
}

/// Datagrams to a port, each of a flow of its own. A file has them a second apart: of more than thirty the first flows time out.
fn datagrams(count: u16, port: u16, payload: &[u8]) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| Ends::new("198.51.100.7", "203.0.113.9").udp_frame([5000 + number, port], payload))
        .collect()
}

/// An inspector and what is around it.
struct Setup {
    inspector: Inspector,
    exchange: Exchange,
    queue: Queue<Kept>,
    kept: Arc<Mutex<Vec<Record>>>,
}

/// What a setup is made of.
struct Parts {
    rules: Arc<Program>,
    slots: usize,
    pace: Duration,
    waits: bool,
    stamps: StampClock,
    priority: Option<&'static str>,
    statistics: Statistics,
}

impl Parts {
    fn new(rules: &str) -> Self {
        Self {
            rules: program(rules),
            slots: 1024,
            pace: Duration::ZERO,
            waits: false,
            stamps: StampClock::Recorded,
            priority: None,
            statistics: Statistics::Off,
        }
    }

    fn setup(self) -> Setup {
        let kept = Arc::<Mutex<Vec<Record>>>::default();
        let (queue, mut ends) = Queue::start(1, self.slots, Kept(Arc::clone(&kept), self.pace)).unwrap();
        let limits = Limits { flows: 1024, bits: 0, ..Limits::default() };
        let finds = Finds {
            queue: ends.pop().unwrap(),
            waits: self.waits,
            wanted: Wanted { alerts: true, flows: true, anomalies: false, packets: false, stats: true },
            alerts: Alerts::default(),
            latency: Arc::default(),
            arrivals: ArrivalClock::new(self.stamps),
            packet: 0,
            made: 0,
        };
        let precedence = self.priority.map(|text| Arc::new(Precedence::of(program(text).rules()).unwrap()));
        let (exchange, incoming) = exchange();
        let inspector = Inspector::new(
            Detector::new(self.rules, limits),
            LinkType::Ethernet,
            finds,
            Shedding::new(precedence, Some(Duration::from_millis(1))),
            Times::new(self.stamps),
            self.statistics,
            incoming,
        );
        Setup { inspector, exchange, queue, kept }
    }
}

/// Runs an engine over these frames, which came years ago, and gives the handler back.
fn run(handler: Inspector, packets: Vec<Vec<u8>>) -> Inspector {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let sample = Sample { name: "in".to_owned(), link: 1, packets };
    std::fs::write(&path, files::file(&sample, Format::Pcap(Order::Little))).unwrap();
    let mut engine = Engine {
        source: FileSource::open(&[path], Pace::AsFast).unwrap(),
        handler,
        pacer: Pacer::new(&Policy::Interrupt).unwrap(),
        transmit: None,
        stop: Arc::new(Stop::new().unwrap()),
        meters: Arc::new(EngineMeters::default()),
        packet_limit: None,
    };
    assert_eq!(engine.run(), End::EndOfFile);
    engine.handler
}

impl Setup {
    /// Ends the inspector and the queue: the records, and how many were lost.
    fn end(mut self) -> (Vec<Record>, u64) {
        let lost = self.inspector.finds.queue.lost();
        self.inspector.finish();
        let made = self.inspector.finds.made;
        drop(self.inspector);
        self.queue.finish().unwrap();
        let (records, lost) = (self.kept.lock().unwrap().clone(), lost.load(Ordering::Relaxed));
        assert_eq!(made, records.len() as u64 + lost, "every record is taken or lost");
        (records, lost)
    }

    fn run(self, packets: Vec<Vec<u8>>) -> Self {
        Self { inspector: run(self.inspector, packets), ..self }
    }
}

fn alerts(records: &[Record]) -> Vec<(u64, u64, u32)> {
    let alert = |record: &Record| match record {
        Record::Alert(alert) => Some((alert.sequence, alert.packet, alert.rule.sid)),
        _ => None,
    };
    records.iter().filter_map(alert).collect()
}

fn flows(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record, Record::Flow(_))).count()
}

#[test]
fn alerts_say_their_number_and_their_packets() {
    let mut packets = datagrams(5, 9, b"harmless");
    packets[1] = datagrams(1, 9, b"..EVIL..").remove(0);
    packets[4] = datagrams(1, 10, b"EVIL").remove(0);
    let (records, lost) = Parts::new(EVIL).setup().run(packets).end();
    assert_eq!((alerts(&records), lost), (vec![(1, 2, 1), (2, 5, 1)], 0));
}

#[test]
fn packets_that_waited_too_long_are_shed_but_for_those_that_go_first() {
    let mut packets = datagrams(100, 9000, b"EVIL");
    packets.extend(datagrams(7, 9999, b"EVIL"));
    packets.extend(datagrams(50, 9000, b"EVIL"));
    let first = "alert udp any any -> any 9999 (content:\"EVIL\"; sid:2;)\n";
    // Stamps of a wall clock, which says that the packets came years ago.
    let parts = Parts { priority: Some(first), stamps: StampClock::Realtime, ..Parts::new(EVIL) };
    let setup = parts.setup().run(packets.clone());
    let counters = setup.inspector.detector.counters();
    assert_eq!((counters.shed, counters.packets, counters.alerts), (150, 7, 7));
    // Without files that go first nothing is shed.
    let setup = Parts { stamps: StampClock::Realtime, ..Parts::new(EVIL) }.setup().run(packets);
    let counters = setup.inspector.detector.counters();
    assert_eq!((counters.shed, counters.packets), (0, 157));
}

#[test]
fn new_rules_are_used_from_the_next_cycle_on() {
    let mut setup = Parts::new("alert udp any any -> any any (content:\"OTHER\"; sid:1;)\n").setup();
    setup = setup.run(datagrams(1, 9, b"EVIL"));
    setup.exchange.send(&program("alert udp any any -> any any (content:\"EVIL\"; sid:2;)\n"), None);
    assert!(!setup.exchange.is_ready());
    setup = setup.run(datagrams(2, 9, b"EVIL"));
    assert!(!setup.exchange.take_back() && setup.exchange.is_ready(), "the old ones came back");
    let (records, _) = setup.end();
    assert_eq!(alerts(&records), [(1, 2, 2), (2, 3, 2)]);
}

#[test]
fn rules_that_name_more_bits_than_there_is_room_for_come_back() {
    let mut setup = Parts::new(EVIL).setup();
    let many: String = (0..2000)
        .map(|bit| format!("alert udp any any -> any any (flowbits:set,b{bit}; sid:{};)\n", bit + 2))
        .collect();
    setup.exchange.send(&program(&many), None);
    setup = setup.run(datagrams(1, 9, b"EVIL"));
    assert!(setup.exchange.take_back() && setup.exchange.is_ready());
    let (records, _) = setup.end();
    assert_eq!(alerts(&records), [(1, 1, 1)], "the rules in use stay");
}

#[test]
fn a_live_run_loses_no_record_at_its_end() {
    // As on an interface: while packets come nobody waits for the output thread, and it is slow.
    let parts = Parts { slots: 2, pace: Duration::from_millis(2), ..Parts::new(EVIL) };
    let setup = parts.setup().run(datagrams(25, 9, b"harmless"));
    let (records, lost) = setup.end();
    assert_eq!((flows(&records), lost), (25, 0));
}

#[test]
fn while_packets_come_a_full_queue_loses_records_of_interfaces_and_none_of_files() {
    for waits in [false, true] {
        let parts = Parts { slots: 2, pace: Duration::from_millis(2), waits, ..Parts::new(EVIL) };
        let (records, lost) = parts.setup().run(datagrams(25, 9, b"EVIL")).end();
        assert_eq!((lost == 0, alerts(&records).len() + lost as usize), (waits, 25));
    }
}

#[test]
fn statistics_come_when_they_are_due_and_at_the_end() {
    let made = |statistics| {
        let parts = Parts { statistics, stamps: StampClock::Realtime, ..Parts::new(EVIL) };
        let (records, _) = parts.setup().run(datagrams(3, 9, b"EVIL")).end();
        records.iter().filter(|record| matches!(record, Record::Statistics(counters) if counters.packets == 3)).count()
    };
    assert_eq!((made(Statistics::Off), made(Statistics::AtEnd)), (0, 1));
    // Due at once: when the ring is empty, too.
    assert!(made(Statistics::Every(0)) > 1);
    assert_eq!(made(Statistics::Every(3_600_000_000_000)), 1);
}
