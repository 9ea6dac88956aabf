//! Whole engines over capture files, with handlers as they are live: alerts, shedding, exchange of rules, the end of a run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringtap::Source;
use ringtap::arrival::ArrivalClock;
use ringtap::clock::{self, SystemClock};
use ringtap::engine::End;
use ringtap::source::StampClock;
use ringtap::source::file::{FileSource, Pace};
use ringtap::testing::{self, Arrival, MemorySource, Script};
use ringtap_detect::rules::{BitNames, Classes, RuleSet, Variables};
use ringtap_detect::{Detector, Limits, Precedence, Program};
use ringtap_output::{Queue, Room, Work};
use ringtap_samples::Sample;
use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::frames::Ends;
use ringtap_wire::LinkType;

use crate::finds::{Finds, Wanted};
use crate::inspector::{Inspector, Statistics, Times};
use crate::numbers::{HostClock, Numbers};
use crate::programs::{Exchange, exchange};
use crate::record::Record;
use crate::shedding::{Shedding, Waits};

pub(crate) const EVIL: &str = "alert udp any any -> any any (content:\"EVIL\"; sid:1;)\n";

/// Keeps records, and takes its time over each.
pub(crate) struct Kept(Arc<Mutex<Vec<Record>>>, Duration);

impl Work<Record> for Kept {
    fn record(&mut self, record: Record, _: &[u8]) {
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
pub(crate) struct Setup {
    pub(crate) inspector: Inspector,
    exchange: Exchange,
    pub(crate) queue: Queue<Kept>,
    pub(crate) kept: Arc<Mutex<Vec<Record>>>,
}

/// What a setup is made of.
pub(crate) struct Parts {
    rules: Arc<Program>,
    slots: usize,
    bytes: usize,
    pace: Duration,
    waits: bool,
    pub(crate) stamps: StampClock,
    priority: Option<&'static str>,
    statistics: Statistics,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) host: Arc<HostClock>,
    pub(crate) is_live: bool,
}

impl Parts {
    pub(crate) fn new(rules: &str) -> Self {
        Self {
            rules: program(rules),
            slots: 1024,
            bytes: 64 << 10,
            pace: Duration::ZERO,
            waits: false,
            stamps: StampClock::Recorded,
            priority: None,
            statistics: Statistics::Off,
            numbers: Arc::new(Numbers::new(1)),
            host: Arc::new(HostClock::now()),
            is_live: false,
        }
    }

    pub(crate) fn setup(self) -> Setup {
        let kept = Arc::<Mutex<Vec<Record>>>::default();
        let room = Room { slots: self.slots, bytes: self.bytes };
        let (queue, mut ends) = Queue::start(&[room; 2], Kept(Arc::clone(&kept), self.pace)).unwrap();
        let limits = Limits { flows: 1024, bits: 0, ..Limits::default() };
        let finds = Finds {
            logs: ends.pop().unwrap(),
            alerts: ends.pop().unwrap(),
            waits: self.waits,
            wanted: Wanted { alerts: true, flows: true, stats: true, ..Wanted::default() },
            numbers: self.numbers,
            clock: Arc::clone(&self.host),
            is_live: self.is_live,
            sender: None,
            latency: Arc::default(),
            arrivals: ArrivalClock::new(self.stamps),
            of_backlog: 0,
            bare: 0,
            packet: 0,
            pcap_log: None,
            made: 0,
        };
        let precedence = self.priority.map(|text| Arc::new(Precedence::of(program(text).rules()).unwrap()));
        let (exchange, incoming) = exchange();
        let inspector = Inspector::new(
            Detector::new(self.rules, limits),
            LinkType::Ethernet,
            finds,
            Shedding::new(precedence, Some(Waits { bound: Duration::from_millis(1), held: Duration::ZERO })),
            Times::new(self.stamps, self.host),
            self.statistics,
            (incoming, crate::account::counts_way().0),
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
    run_on(handler, FileSource::open(&[path], Pace::AsFast).unwrap())
}

fn run_on(handler: Inspector, source: impl Source) -> Inspector {
    let mut engine = testing::engine(source, handler).unwrap();
    assert_eq!(engine.run(), End::EndOfFile);
    engine.handler
}

impl Setup {
    /// Ends the inspector and the queue: the records, and how many were lost.
    fn end(mut self) -> (Vec<Record>, u64) {
        let lost = [self.inspector.finds.alerts.lost(), self.inspector.finds.logs.lost()];
        self.inspector.finish();
        let made = self.inspector.finds.made;
        drop(self.inspector);
        self.queue.finish().unwrap();
        let (records, lost) =
            (self.kept.lock().unwrap().clone(), lost.iter().map(|lost| lost.load(Ordering::Relaxed)).sum());
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

/// What was in the ring before the engine looked at it says nothing of how late an engine is.
#[test]
fn alerts_of_what_came_before_the_engine_are_not_among_the_latencies() {
    let Setup { inspector, .. } = Parts { stamps: StampClock::Monotonic, ..Parts::new(EVIL) }.setup();
    // Made, and started some time after.
    std::thread::sleep(Duration::from_millis(5));
    let now_ns = clock::monotonic_ns();
    let frame = datagrams(1, 9, b"EVIL").remove(0);
    let times = [now_ns - 1_000_000, now_ns - 500_000, now_ns + 200_000_000];
    let script = Script::of(times.map(|at_ns| Arrival::at(at_ns, frame.clone())));
    let inspector = run_on(inspector, MemorySource::new("memory", SystemClock, script).unwrap());
    let latencies = inspector.finds.latency.snapshot().quantiles_us().count;
    assert_eq!((inspector.finds.of_backlog, latencies), (2, 1));
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

#[test]
fn logs_that_find_no_room_keep_no_alert_out() {
    let parts = Parts { slots: 4, pace: Duration::from_millis(2), ..Parts::new(EVIL) };
    let mut setup = parts.setup();
    setup.inspector.finds.wanted.transactions.dns = true;
    let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";
    let mut packets = datagrams(30, 53, query);
    packets.extend(datagrams(2, 9, b"EVIL"));
    let setup = setup.run(packets);
    let lost = [&setup.inspector.finds.alerts, &setup.inspector.finds.logs].map(|queue| queue.lost());
    let (records, _) = setup.end();
    let [of_alerts, of_logs] = lost.map(|lost| lost.load(Ordering::Relaxed));
    assert_eq!((of_alerts, alerts(&records).len()), (0, 2));
    assert!(of_logs > 0, "more queries than there was room for");
}

/// What goes with an alert must not keep it out: neither where others' bytes take the room, nor where it never had enough.
#[test]
fn alerts_whose_bytes_find_no_room_are_told_without_them() {
    let parts = Parts { bytes: 100, pace: Duration::from_millis(2), ..Parts::new(EVIL) };
    let mut setup = parts.setup();
    setup.inspector.finds.wanted.payloads = true;
    let mut packets = datagrams(3, 9, &[b"EVIL".as_slice(), &[b'.'; 56]].concat());
    packets.extend(datagrams(1, 9, &[b"EVIL".as_slice(), &[b'.'; 200]].concat()));
    let setup = setup.run(packets);
    let bare = setup.inspector.finds.bare;
    let (records, lost) = setup.end();
    let has_bytes = |record: &&Record| matches!(record, Record::Alert(alert) if alert.payload.is_some());
    let with_bytes = records.iter().filter(has_bytes).count() as u64;
    assert_eq!((alerts(&records).len(), lost, with_bytes + bare), (4, 0, 4));
    assert!((2..4).contains(&bare), "the first has room, the last never: {bare}");
}
