//! A whole station on a device from memory, in a process of its own and without root: traps become alarms in the store.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use ringtap::clock::{self, SystemClock};
use ringtap::receiver::Backend;
use ringtap::source::given::give;
use ringtap::source::{AnySource, StampClock};
use ringtap::testing::{Arrival, Ending, MemorySource, Script};
use ringtap_run::dpdk::DpdkOptions;
use ringtap_samples::frames::Ends;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_station::options::{LineOutputs, Options};
use ringtap_station::station::{Event, run};
use ringtap_station::store::{Retention, Store};

const LINK_DOWN: &[u32] = &[1, 3, 6, 1, 6, 3, 1, 1, 5, 3];
const LINK_UP: &[u32] = &[1, 3, 6, 1, 6, 3, 1, 1, 5, 4];
const IF_INDEX: &[u32] = &[1, 3, 6, 1, 2, 1, 2, 2, 1, 1];

fn link(trap: &[u32], index: u32) -> Vec<u8> {
    let name = [IF_INDEX, &[index]].concat();
    Trap::new(trap, 100).with(&name, Item::Integer(index.into())).v2c(b"public", index as i32)
}

/// A port that is free on loopback, most likely also a moment later.
fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn options(store: &std::path::Path, listen: SocketAddr) -> Options {
    Options {
        interfaces: vec!["memory0".to_owned()],
        backend: Backend::Given,
        dpdk: DpdkOptions::default(),
        snmp: vec![listen],
        syslog: Vec::new(),
        syslog_tcp: Vec::new(),
        syslog_tls: Vec::new(),
        store: store.to_owned(),
        config: None,
        mibs: Vec::new(),
        topology: None,
        outputs: LineOutputs::default(),
        spool: 1 << 20,
        buffer: 1 << 20,
        forward_to: Vec::new(),
        retention: Retention { age: None, bytes: None },
        places: Default::default(),
        user: None,
        keeps_privileges: true,
        duration: Some(Duration::from_secs(60)),
        stats: Some(Duration::from_millis(20)),
    }
}

/// A device that stamps nothing: the time is that of taking, of the same clock as a kernel's.
#[test]
fn traps_of_a_device_that_stamps_none_are_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let (listen, agent) = (free_port(), Ends::new("192.0.2.1", "127.0.0.1"));
    let frame = agent.udp_frame([50000, listen.port()], &link(LINK_DOWN, 3));
    let now_ns = || clock::realtime_ns();
    let began_ns = now_ns();
    let arrival = Arrival { stamp_ns: Some(began_ns), ..Arrival::there(frame) };
    let script = Script { ending: Ending::Silence, stamp_clock: StampClock::Taken, ..Script::of([arrival]) };
    let source: AnySource = Box::new(MemorySource::new("memory1", SystemClock, script).unwrap());
    give("memory1", vec![source]).unwrap();
    let asked = Options { interfaces: vec!["memory1".to_owned()], ..options(folder.path(), listen) };
    run(&asked, |event| match event {
        Event::Interval(status) if status.stored == 1 => raise(Signal::SIGTERM).unwrap(),
        _ => {}
    })
    .unwrap();
    let alarms = Store::open_beside(folder.path()).unwrap().alarms().unwrap();
    assert!((began_ns..=now_ns()).contains(&alarms[0].last_ns), "{} beside {began_ns}", alarms[0].last_ns);
}

#[test]
fn traps_of_a_given_device_are_alarms_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (listen, agent) = (free_port(), Ends::new("192.0.2.1", "127.0.0.1"));
    let frames = [
        agent.udp_frame([50000, listen.port()], &link(LINK_DOWN, 3)),
        agent.udp_frame([50000, listen.port()], &link(LINK_DOWN, 4)),
        agent.udp_frame([50000, listen.port()], &link(LINK_UP, 3)),
        // For nobody here.
        agent.udp_frame([50000, listen.port() ^ 1], b"not ours"),
    ];
    let script = Script { ending: Ending::Silence, ..Script::of(frames.map(Arrival::there)) };
    let source: AnySource = Box::new(MemorySource::new("memory0", SystemClock, script).unwrap());
    give("memory0", vec![source]).unwrap();

    let mut last = None;
    run(&options(folder.path(), listen), |event| match event {
        Event::Interval(status) if status.stored == 3 => raise(Signal::SIGTERM).unwrap(),
        Event::Interval(_) | Event::Ending => {}
        Event::Summary(status) => last = Some(status.clone()),
    })
    .unwrap();
    let status = last.unwrap();
    assert_eq!((status.stored, status.snmp, status.refused, status.unaccounted()), (3, [0, 3, 0], 0, Some(0)));
    assert_eq!((status.ledger.offered, status.ledger.filtered), (Some(4), Some(1)), "{}", status.ledger);

    let alarms = Store::open_beside(folder.path()).unwrap().alarms().unwrap();
    let mut states: Vec<_> = alarms
        .iter()
        .map(|alarm| (alarm.key.condition.as_str(), alarm.key.object.as_str(), alarm.cleared, alarm.count))
        .collect();
    states.sort_unstable();
    assert_eq!(states, [("linkDown", "3", true, 2), ("linkDown", "4", false, 1)]);
}
