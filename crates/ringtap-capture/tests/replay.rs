//! A replay as a library's caller runs it: no command line, no privileges.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringtap::record::RecordConfig;
use ringtap::source::file::Pace;
use ringtap_capture::{Capture, Ended, Ending, Origin, Streams};
use ringtap_run::process::{Process, Terms};
use ringtap_run::signals::{Hangup, Heard};

/// What a stream was given, readable afterwards.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Four packets, 250 ms apart: pcap with nanoseconds (draft-ietf-opsawg-pcap), Ethernet frames of 60 bytes without a known protocol.
fn packets(folder: &tempfile::TempDir) -> PathBuf {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 0xffff, 1u32] {
        file.extend(word.to_le_bytes());
    }
    for number in 0..4u32 {
        for word in [1_000_000_000, number * 250_000_000, 60, 60] {
            file.extend(word.to_le_bytes());
        }
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
        frame[14] = number as u8;
        file.extend(frame);
    }
    let path = folder.path().join("four.pcap");
    std::fs::write(&path, file).unwrap();
    path
}

fn replay(files: Vec<PathBuf>, pace: Pace) -> Capture {
    Capture::new(Origin::Files { files, pace })
}

fn run(capture: &Capture) -> (Ended, String, String) {
    let heard = Heard { hangup: Hangup::Reopens, report: false, second_ends: true };
    // The sandbox would be the whole test program's.
    let terms = Terms { opens_interfaces: false, heard, user: None, keeps_privileges: true };
    let process = Process::begin(&terms).unwrap();
    let (results, notes) = (Kept::default(), Kept::default());
    let ended = capture.run(&process, &mut Streams::new(results.clone(), notes.clone())).unwrap();
    (ended, results.text(), notes.text())
}

#[test]
fn every_packet_of_a_file_is_in_the_account_and_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let input = packets(&folder);
    let output = folder.path().join("out.pcapng");
    let capture = Capture {
        filter: Some("ether[14] != 2".to_owned()),
        record: Some(RecordConfig::new(&output)),
        ..replay(vec![input.clone()], Pace::AsFast)
    };
    let (Ended { summary, error }, results, _) = run(&capture);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(summary.ending, Ending::EndOfFile);
    let ledger = &summary.ledger;
    assert_eq!((ledger.offered, ledger.delivered, ledger.filtered), (Some(4), 3, Some(1)));
    assert_eq!((ledger.unaccounted(), summary.tally.bytes, summary.tally.cut), (Some(0), 180, 0));
    assert_eq!(summary.record.as_ref().map(|record| record.packets), Some(3));
    assert_eq!(results, "", "nothing was asked for at intervals");
    assert!(summary.to_string().contains("3 packets in"), "{summary}");
    assert_eq!(summary.object()["ending"], "end_of_file");
    // What was written can be read again.
    let (again, ..) = run(&replay(vec![output], Pace::AsFast));
    assert_eq!(again.summary.ledger.delivered, 3);
    let onto_itself = Capture { record: Some(RecordConfig::new(&input)), ..replay(vec![input], Pace::AsFast) };
    let heard = Heard { hangup: Hangup::Reopens, report: false, second_ends: true };
    let process =
        Process::begin(&Terms { opens_interfaces: false, heard, user: None, keeps_privileges: true }).unwrap();
    let refused = onto_itself.run(&process, &mut Streams::new(Vec::new(), Vec::new())).unwrap_err();
    assert!(refused.to_string().contains("it is being read"), "{refused}");
}

#[test]
fn a_count_and_a_snaplen_end_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture { count: Some(2), snaplen: Some(20), ..replay(vec![packets(&folder)], Pace::Recorded) };
    let (Ended { summary, .. }, ..) = run(&capture);
    assert_eq!((summary.ending, summary.tally.packets, summary.tally.cut), (Ending::Count, 2, 2));
}

#[test]
fn intervals_are_objects_whose_packets_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let stats = Some(Duration::from_millis(100));
    let capture = Capture { stats, objects: true, ..replay(vec![packets(&folder)], Pace::Recorded) };
    let (Ended { summary, .. }, results, notes) = run(&capture);
    let packets = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["kind"], "interval", "{object}");
        object["packets"].as_u64().unwrap()
    };
    let told: u64 = results.lines().map(packets).sum();
    assert!(told <= 4 && !results.is_empty(), "{results}");
    assert_eq!((summary.tally.packets, notes.as_str()), (4, ""));
}
