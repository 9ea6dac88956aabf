//! What the tests of recording and replaying share: reading a file through `FileSource`, and asking Debian's tools.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::process::{Command, Output};

use ringtap::Stop;
use ringtap::record::{InterfaceInfo, RecordConfig, Recorder, SpoolProducer};
use ringtap::source::file::{FileSource, Pace};
use ringtap::source::{Source, StampClock, Wake};

/// A packet as a test compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stamp_ns: u64,
    pub(crate) wire_len: u32,
    pub(crate) data: Vec<u8>,
}

/// Everything a source delivers until its end.
pub(crate) fn drain(source: &mut FileSource) -> Vec<Seen> {
    let stop = Stop::new().unwrap();
    let mut seen = Vec::new();
    loop {
        let burst = source.receive();
        if !burst.is_empty() {
            seen.extend(burst.iter().map(|packet| Seen {
                stamp_ns: packet.arrival_ns,
                wire_len: packet.wire_len,
                data: packet.data.to_vec(),
            }));
            continue;
        }
        drop(burst);
        match source.wait_for_interrupt(&stop, None) {
            Wake::End => return seen,
            Wake::Ready => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// Everything in a file that has no fault.
pub(crate) fn read(path: &Path) -> Vec<Seen> {
    let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
    let seen = drain(&mut source);
    assert!(source.faults().is_empty(), "{:?}", source.faults());
    assert_eq!(source.other_link_type(), 0);
    seen
}

/// Runs a tool of Debian's; one that is missing fails the test in the way `scripts/test` knows.
pub(crate) fn run(tool: &str, arguments: &[&str]) -> Output {
    match Command::new(tool).args(arguments).env("TZ", "UTC").output() {
        Ok(output) => output,
        Err(error) => panic!("did not run: {tool} could not be started ({error}); apt install tshark tcpdump"),
    }
}

/// What a tool prints; it must succeed and complain of nothing.
pub(crate) fn ask(tool: &str, arguments: &[&str]) -> String {
    let output = run(tool, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<&str> = errors.lines().filter(|line| !line.starts_with("Running as user")).collect();
    assert!(
        output.status.success() && complaints.is_empty(),
        "{tool} {arguments:?}: {}: {complaints:?}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a recording with one interface `veth0`, whose stamps are written as they are, and one spool.
pub(crate) fn start(config: RecordConfig) -> (Recorder, SpoolProducer) {
    let (recorder, mut spools) =
        Recorder::start(config, vec![InterfaceInfo::ethernet("veth0", StampClock::Recorded)]).unwrap();
    (recorder, spools.pop().unwrap())
}

/// Pushes, waiting where the spool is full: for tests of what is written, not of what is lost.
pub(crate) fn push(producer: &mut SpoolProducer, stamp_ns: u64, data: &[u8]) {
    let refused = producer.lost();
    while !producer.push(0, stamp_ns, data.len() as u32, data) {
        producer.wake();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(producer.lost() >= refused);
    producer.wake();
}
