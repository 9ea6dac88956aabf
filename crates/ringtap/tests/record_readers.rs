//! Debian's readers take our files without complaint and find in them what was said.

#[path = "record_support/mod.rs"]
mod support;

use std::path::Path;

use ringtap::record::{FinalCounts, Format, InterfaceInfo, RecordConfig, Recorder, Rotation};
use ringtap::source::StampClock;
use support::ask;

/// A UDP datagram to port 9, checksum left out.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((len + 28).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, 0x39, 0, 9]);
    frame.extend((len + 8).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn record(path: &Path, rotation: Rotation) -> Vec<std::path::PathBuf> {
    let config =
        RecordConfig { rotation, comment: Some("alarm storm, rack 7 – Ω".into()), ..RecordConfig::new(path) };
    let interfaces = vec![
        InterfaceInfo {
            description: Some("mirror port".into()),
            filter: Some("udp port 9".into()),
            snaplen: 96,
            ..InterfaceInfo::ethernet("eth7", StampClock::Recorded)
        },
        InterfaceInfo::ethernet("eth8", StampClock::Recorded),
    ];
    let (recorder, mut spools) = Recorder::start(config, interfaces).unwrap();
    for index in 0..20_u64 {
        let frame = datagram(&[index as u8; 90]);
        let captured = if index % 2 == 0 { &frame[..96] } else { &frame[..] };
        assert!(spools[0].push((index % 2) as u16, 1_795_256_100_123_456_789 + index, frame.len() as u32, captured));
    }
    let counts = vec![
        FinalCounts {
            interface: 0,
            received: Some(1_000_000_007),
            dropped_by_interface: Some(41),
            accepted_by_filter: Some(1_000_000_000),
            dropped_by_system: Some(42),
            delivered: Some(999_999_958),
            ledger: Some(
                "offered 1000000007 = delivered 999999958 + filtered 7 + slow_output 42 + unaccounted 0".into(),
            ),
        },
        FinalCounts { interface: 1, delivered: Some(10), ..FinalCounts::default() },
    ];
    let summary = recorder.finish(counts).unwrap();
    assert_eq!((summary.packets, summary.error.is_none()), (20, true));
    summary.files
}

#[test]
fn tshark_and_capinfos_read_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    record(&path, Rotation::default());
    let name = path.to_str().unwrap();

    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.cap_len",
        "-e",
        "frame.len",
        "-e",
        "udp.dstport",
    ];
    let text = ask("tshark", &[&["-r", name], fields.as_slice()].concat());
    let expected: Vec<String> = (0..20)
        .map(|index| match index % 2 {
            0 => format!("1795256100.1234567{}\teth7\t96\t132\t9", 89 + index),
            _ => format!("1795256100.1234567{}\teth8\t132\t132\t9", 89 + index),
        })
        .map(|line| line.replace(".12345671", ".1234568"))
        .collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);

    let table = ask("capinfos", &["-T", "-m", name]);
    assert!(table.contains("pcapng") && table.contains("nanoseconds"), "{table}");
    let long = ask("capinfos", &[name]);
    for expected in [
        "Number of packets:   20",
        "File timestamp precision:  nanoseconds (9)",
        "Number of interfaces in file: 2",
        "Name = eth7",
        "Description = mirror port",
        "Filter string = udp port 9",
        "Capture length = 96",
        "Capture comment:     alarm storm, rack 7 – Ω",
        concat!("Capture application: ringtap ", env!("CARGO_PKG_VERSION")),
        "Capture oper-sys:    Linux ",
        "Number of stat entries = 1",
    ] {
        assert!(long.contains(expected), "{expected:?} not in\n{long}");
    }
}

/// tshark leaves statistics blocks out of its packet list; its file-format dissector shows them.
#[test]
fn counts_and_ledger_stand_in_the_statistics_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    record(&path, Rotation::default());
    let text = ask("tshark", &["-r", path.to_str().unwrap(), "-X", "read_format:MIME Files Format", "-V"]);
    for expected in [
        "Number of Received Packets = 1000000007",
        "Number of Dropped Packets = 41",
        "Number of Accepted Packets = 1000000000",
        "Number of Packets Dropped by OS = 42",
        "Number of Packets Delivered to the User = 999999958",
        "Comment = offered 1000000007 = delivered 999999958 + filtered 7 + slow_output 42 + unaccounted 0",
        "Number of Packets Delivered to the User = 10",
    ] {
        assert!(text.contains(expected), "{expected:?} not in\n{text}");
    }
    assert!(!text.contains("Malformed"), "{text}");
}

#[test]
fn every_file_of_a_rotated_recording_is_read_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let rotation = Rotation { size: Some(1000), ..Rotation::default() };
    for name in ["a.pcapng", "a.pcap"] {
        let files = record(&directory.path().join(name), rotation);
        assert!(files.len() > 2, "{files:?}");
        let mut packets = 0;
        for file in &files {
            let name = file.to_str().unwrap();
            let count = ask("capinfos", &["-T", "-r", "-M", "-c", name]);
            packets += count.trim().rsplit('\t').next().unwrap().parse::<u32>().unwrap();
            ask("tshark", &["-r", name]);
        }
        assert_eq!(packets, 20);
    }
}

#[test]
fn tcpdump_reads_our_pcap_to_the_nanosecond() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    record(&path, Rotation::default());
    let output = support::run("tcpdump", &["-r", path.to_str().unwrap(), "--nano", "-tt", "-n"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert_eq!(text.lines().count(), 20);
    assert!(text.starts_with("1795256100.123456789 IP 10.0.0.1.12345 > 10.0.0.2.9: UDP, length 90"), "{text}");
}

#[test]
fn comments_and_names_of_any_length_stay_readable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.pcapng");
    let config = RecordConfig { comment: Some("€".repeat(30_000)), ..RecordConfig::new(&path) };
    assert_eq!(config.format, Format::Pcapng);
    let interface =
        InterfaceInfo { filter: Some("port 9 or ".repeat(9000)), ..InterfaceInfo::ethernet("", StampClock::Recorded) };
    let (recorder, _spools) = Recorder::start(config, vec![interface]).unwrap();
    recorder.finish(vec![FinalCounts { ledger: Some("x".repeat(70_000)), ..FinalCounts::default() }]).unwrap();
    let long = ask("capinfos", &[path.to_str().unwrap()]);
    assert!(long.contains("Number of packets:   0") && long.contains("€€€"), "{}", &long[..500]);
}
