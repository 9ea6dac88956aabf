//! Replays: what arrives is what libpcap reads from the file, byte for byte; what can't be sent is counted by cause.

use std::path::{Path, PathBuf};

use ringtap_samples::files::{self, Format, Order};
use serde_json::json;

use super::replays::{arrives_byte_for_byte, frames_of, repeated};
use super::support::{Listener, output, report, start, testbed, texts};

/// A capture file of a sample, in this folder.
fn sample(folder: &Path, name: &str, format: Format) -> PathBuf {
    let path = folder.join(format!("{name}.{}", format.extension()));
    std::fs::write(&path, files::file(&ringtap_samples::sample(name), format)).unwrap();
    path
}

#[test]
fn net_generate_cli_replays_byte_for_byte() {
    let testbed = testbed("net_generate_cli_replays_byte_for_byte");
    let folder = tempfile::tempdir().unwrap();
    for (name, format, line, passes) in [
        ("icmp", Format::PcapNano(Order::Big), "--pace 100x", 1),
        ("radius", Format::Pcap(Order::Little), "--pace 200x --loop 2", 2),
        ("ipv6-extensions", Format::Pcap(Order::Big), "--pace fast --loop 20", 20),
        ("vlan", Format::PcapNano(Order::Little), "--rate 500 --loop 10", 10),
        ("http", Format::Pcapng(Order::Little, 9), "--rate 5k", 1),
        ("snmp", Format::Pcapng(Order::Big, 6), "--pace fast", 1),
        ("sctp", Format::Pcapng(Order::Little, 3), "--pace fast", 1),
    ] {
        arrives_byte_for_byte(&testbed, &sample(folder.path(), name, format), line, passes);
    }
}

#[test]
fn net_generate_cli_replay_keeps_its_pace() {
    let testbed = testbed("net_generate_cli_replay_keeps_its_pace");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("paced.pcap");
    let steps = [0, 30_000, 31_000, 131_000, 130_000, 400_000];
    write(&path, 1, steps.iter().map(|&us| (us, 60, vec![us as u8; 60])));
    for (pace, wanted_s, pps) in [("recorded", 0.4, 12.5), ("4x", 0.1, 50.0), ("0.5x", 0.8, 6.25)] {
        let report = report(&testbed, &format!("--replay {} --pace {pace}", path.display()), 0);
        let stolen_s = (report["lateness_us"]["max"].as_f64().unwrap() + report["slipped_us"].as_f64().unwrap()) / 1e6;
        let took_s = report["duration_s"].as_f64().unwrap();
        assert!((wanted_s - 1e-6..wanted_s + stolen_s + 1e-6).contains(&took_s), "{pace}: {report}");
        assert!((report["asked_pps"].as_f64().unwrap() - pps).abs() < 0.01, "{pace}: {report}");
    }
}

#[test]
fn net_generate_cli_replay_counts_what_it_skips() {
    let testbed = testbed("net_generate_cli_replay_counts_what_it_skips");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mixed.pcap");
    let vlan = |len: usize| {
        let mut frame = vec![0; len];
        frame[12] = 0x81;
        frame
    };
    let records = [
        (0, 60, vec![1; 60]),
        (1, 1515, vec![2; 1515]),
        (2, 1514, vec![3; 1514]),
        (3, 200, vec![4; 100]),
        (4, 13, vec![5; 13]),
        (5, 1518, vlan(1518)),
        (6, 1519, vlan(1519)),
        (7, 14, vec![6; 14]),
    ];
    let sent: Vec<Vec<u8>> = [0, 2, 5, 7].iter().map(|&index| records[index as usize].2.clone()).collect();
    write(&path, 1, records.clone().into_iter());
    let listener = Listener::start(&testbed);
    let whole = report(&testbed, &format!("--replay {} --rate 1k --loop 3", path.display()), 0);
    assert_eq!(listener.finish(), repeated(&sent, 3), "{whole}");
    let found = json!({ "passes": 3, "records": 8, "sendable": 4, "too_long": 2, "other_link_type": 0, "truncated": 1,
        "too_short": 1, "faults": [] });
    assert_eq!(whole["replay"], found);

    // Cut in the middle of the last record: what comes before is sent, and the place is told.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let listener = Listener::start(&testbed);
    let ended = output(start(&testbed, &format!("--replay {} --rate 1k", path.display())));
    let (out, err) = texts(&ended);
    assert_eq!(ended.status.code(), Some(1), "{out}{err}");
    assert_eq!(listener.finish(), sent[..3], "{out}{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let place = format!("is cut at byte {}", bytes.len() - 14);
    assert!(err.contains("mixed.pcap") && err.contains(&place) && err.contains("packet 8"), "{place}: {err}");
    assert!(out.contains("2 skipped: longer than the MTU allows") && out.contains("1 skipped: cut"), "{out}");
}

#[test]
fn net_generate_cli_replay_of_several_files_and_of_a_pipe() {
    let testbed = testbed("net_generate_cli_replay_of_several_files_and_of_a_pipe");
    let directory = tempfile::tempdir().unwrap();
    let first = sample(directory.path(), "radius", Format::Pcap(Order::Little));
    let second = sample(directory.path(), "arp", Format::Pcapng(Order::Big, 9));
    let listener = Listener::start(&testbed);
    let line = format!("--replay {} --replay {} --pace fast", first.display(), second.display());
    report(&testbed, &line, 0);
    let mut wanted = frames_of(&first);
    wanted.extend(frames_of(&second));
    assert_eq!(listener.finish(), wanted);

    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let listener = Listener::start(&testbed);
    let program = start(&testbed, &format!("--replay {} --pace fast", pipe.display()));
    let bytes = std::fs::read(&first).unwrap();
    std::fs::write(&pipe, bytes).unwrap();
    let ended = output(program);
    assert_eq!(ended.status.code(), Some(0), "{:?}", texts(&ended));
    assert_eq!(listener.finish(), frames_of(&first));
}

#[test]
fn net_generate_cli_replay_refuses_unusable_files() {
    let testbed = testbed("net_generate_cli_replay_refuses_unusable_files");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let none = directory.path().join("none.pcap");
    write(&none, 1, std::iter::empty());
    let none = none.display().to_string();
    let long = directory.path().join("long.pcap");
    write(&long, 1, [(0, 9000, vec![0; 9000])].into_iter());
    let cooked = sample(directory.path(), "cooked", Format::Pcapng(Order::Little, 9));
    let head_only = std::fs::read(&none).unwrap()[..20].to_vec();
    for (path, words) in [
        ("/no/such/file.pcap".to_owned(), vec!["/no/such/file.pcap", "ENOENT"]),
        (directory.path().display().to_string(), vec!["is a directory"]),
        (file("empty.pcap", b""), vec!["empty.pcap", "is empty"]),
        (file("text.pcap", b"not a capture at all"), vec!["text.pcap", "is not a capture file"]),
        (file("head.pcap", &head_only), vec!["head.pcap", "is cut at byte"]),
        (none, vec!["none.pcap", "no packets in it"]),
        (long.display().to_string(), vec!["long.pcap", "1 skipped: longer than the MTU allows"]),
        (cooked.display().to_string(), vec!["cooked.pcapng", "link type 113", "Ethernet"]),
    ] {
        let ended = output(start(&testbed, &format!("--replay {path}")));
        let (out, err) = texts(&ended);
        assert_eq!((ended.status.code(), out.as_str()), (Some(1), ""), "{path}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        for word in words {
            assert!(err.contains(word), "{word:?} missing: {err}");
        }
    }
}

/// A pcap file of records (microseconds, length on the wire, bytes).
fn write(path: &Path, link_type: u32, records: impl Iterator<Item = (u32, u32, Vec<u8>)>) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link_type] {
        bytes.extend(word.to_le_bytes());
    }
    for (us, wire_len, data) in records {
        for word in [1_000_000_u32, us, data.len() as u32, wire_len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(data);
    }
    std::fs::write(path, bytes).unwrap();
}
