//! A replay held against what libpcap reads from the file. Shared by the tests over our own files and by the conformance suite.

use std::path::Path;

use ringtap_testbed::Testbed;

use crate::support::{Listener, report};

/// What libpcap reads from it.
pub fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut capture = pcap::Capture::from_file(path).unwrap();
    let mut frames = Vec::new();
    while let Ok(packet) = capture.next_packet() {
        frames.push(packet.data.to_vec());
    }
    frames
}

pub fn repeated(frames: &[Vec<u8>], times: usize) -> Vec<Vec<u8>> {
    std::iter::repeat_n(frames, times).flatten().cloned().collect()
}

/// Replays a file by this line of options: what arrives is what libpcap reads from the file, but for what the MTU does not allow.
pub fn arrives_byte_for_byte(testbed: &Testbed, path: &Path, line: &str, passes: usize) {
    let name = path.display();
    let once = frames_of(path);
    let wanted = repeated(&once, passes);
    let mtu_allows = once.iter().filter(|frame| frame.len() <= 1514).count() * passes;
    let listener = Listener::start(testbed);
    let report = report(testbed, &format!("--replay {} {line}", path.display()), 0);
    let got = listener.finish();
    let wanted: Vec<_> = wanted.into_iter().filter(|frame| frame.len() <= 1514).collect();
    assert_eq!((&report["sent"], &report["accepted"]), (&mtu_allows.into(), &mtu_allows.into()), "{name}: {report}");
    assert_eq!(report["backend"], "ring");
    assert_eq!((&report["replay"]["passes"], &report["replay"]["records"]), (&passes.into(), &once.len().into()));
    assert_eq!(got.len(), wanted.len(), "{name}: {report}");
    for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        assert_eq!(got, wanted, "{name}, frame {index}");
    }
}
