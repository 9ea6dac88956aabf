//! The sensor live on a device from memory, in a process of its own and without root: rules, events, accounts and the end.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ringtap::clock::SystemClock;
use ringtap::receiver::Backend;
use ringtap::source::given::give;
use ringtap::source::{AnySource, DeviceCounts};
use ringtap::testing::{Arrival, Ending, MemorySource, Script};
use ringtap_run::live::Live;
use ringtap_run::waiting::{How, Waiting};
use ringtap_samples::frames::{Ends, Session};
use ringtap_sensor::{Event, Input, Options, run};
use serde_json::Value;

const RULES: &str = r#"
alert udp any any -> any 9999 (msg:"a datagram"; content:"EVIL"; sid:77;)
alert tcp any any -> any 80 (msg:"a stream"; flow:established,to_server; content:"/evil/path"; sid:78;)
"#;

/// Two datagrams of three are evil, and a request in pieces of four bytes, with its whole connection.
fn packets() -> Vec<Vec<u8>> {
    let ends = Ends::new("198.51.100.7", "203.0.113.9");
    let mut packets = vec![
        ends.udp_frame([5000, 9999], b"..EVIL.."),
        ends.udp_frame([5001, 9999], b"..GOOD.."),
        ends.udp_frame([5002, 9999], b"..EVIL.."),
    ];
    packets.extend(Session::open(ends, [40000, 80]).client(b"GET /evil/path HTTP/1.1\r\n\r\n", 4).close());
    packets
}

fn alerts(eve: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(eve).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ids: Vec<u64> = lines.filter_map(|line| line["alert"]["signature_id"].as_u64()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn rules_find_what_a_given_device_brings() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    std::fs::write(&rules, RULES).unwrap();
    let packets = packets();
    let count = packets.len() as u64;
    // Four were lost before, for which the device has no room in its ring.
    let lost = DeviceCounts { offered: Some(4), ring_full: 4, ..DeviceCounts::default() };
    let script = Script {
        counts: vec![(0, lost)],
        ending: Ending::Silence,
        ..Script::of(packets.into_iter().map(Arrival::there).collect::<Vec<_>>())
    };
    let source: AnySource = Box::new(MemorySource::new("memory0", SystemClock, script).unwrap());
    give("memory0", vec![source]).unwrap();

    let waiting = Waiting { how: How::Interrupt, ..Waiting::default() };
    let live = Live { backend: Backend::Given, ring_slots: Some(64), priority: 0, waiting, ..Live::new("memory0") };
    let mut options = Options::new(Input::Interfaces(vec![live]));
    (options.no_sandbox, options.rules.files) = (true, vec![rules]);
    (options.outputs.eve, options.outputs.events) = (Some(eve.clone()), vec![Event::Alert]);
    let written = eve.clone();
    let ender = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(30);
        while alerts(&written).len() < 3 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        raise(Signal::SIGTERM).unwrap();
    });
    let done = run(&options, None).unwrap();
    ender.join().unwrap();

    assert!(done.failure.is_none(), "{:?}", done.failure);
    assert_eq!(alerts(&eve), [77, 77, 78]);
    let summary = done.summary.object();
    assert_eq!(
        (&summary["ending"], &summary["alerts"], &summary["packets"]),
        (&"signal".into(), &3.into(), &count.into())
    );
    let ledger = &summary["ledger"];
    assert_eq!(ledger["offered"], count + 4, "{summary}");
    assert_eq!((&ledger["delivered"], &ledger["drops"]["ring_full"]), (&count.into(), &4.into()), "{summary}");
    assert_eq!((&summary["records"]["offered"], &summary["records"]["unaccounted"]), (&3.into(), &0.into()));
}
