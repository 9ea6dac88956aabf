//! Compressed recordings, beside zstd's own program and tcpdump.

mod record_support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use record_support::{Seen, ask, drain, push, read, run, start};
use ringtap::record::{FinalCounts, RecordConfig, Recorder, Rotation, SpoolProducer};
use ringtap::source::file::{FileSource, Pace};

/// A packet that compresses in part: its number and its like, then bytes without pattern.
fn packet(number: u64) -> Vec<u8> {
    let mut data = vec![2; 12];
    data.extend_from_slice(&[0x88, 0xb5]);
    data.extend_from_slice(&number.to_be_bytes());
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    data.extend((0..100 + number % 400).map(|at| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if at % 3 == 0 { (state >> 56) as u8 } else { 7 }
    }));
    data
}

fn stamp(number: u64) -> u64 {
    1_700_000_000_000_000_000 + number * 1000
}

fn fill(producer: &mut SpoolProducer, packets: u64) {
    (0..packets).for_each(|number| push(producer, stamp(number), &packet(number)));
}

fn expected(packets: std::ops::Range<u64>) -> Vec<Seen> {
    packets
        .map(|number| {
            let data = packet(number);
            Seen { stamp_ns: stamp(number), wire_len: data.len() as u32, data }
        })
        .collect()
}

/// zstd accepts it, and tcpdump what it unpacks to: so many packets.
fn peers_count(path: &Path) -> usize {
    let text = path.to_str().unwrap();
    ask("zstd", &["-q", "-t", text]);
    let plain = path.with_extension("plain");
    ask("zstd", &["-q", "-d", "-f", text, "-o", plain.to_str().unwrap()]);
    let shown = run("tcpdump", &["-enr", plain.to_str().unwrap()]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    String::from_utf8(shown.stdout).unwrap().lines().filter(|line| line.contains("ethertype")).count()
}

/// Waits until the writer has written so many packets.
fn written(recorder: &Recorder, packets: u64) {
    let begin = Instant::now();
    while recorder.packets() < packets {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} of {packets} written", recorder.packets());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A recording of so many packets.
fn record(path: &Path, packets: u64) -> ringtap::record::RecordSummary {
    let (recorder, mut producer) = start(RecordConfig::new(path));
    fill(&mut producer, packets);
    recorder.finish(Vec::<FinalCounts>::new()).unwrap()
}

#[test]
fn what_is_compressed_is_read_by_peers_and_by_us() {
    let directory = tempfile::tempdir().unwrap();
    for (name, level) in [("a.pcapng.zst", 3), ("b.pcap.zst", 1), ("c.zst", 19)] {
        let path = directory.path().join(name);
        let (recorder, mut producer) = start(RecordConfig { compress: Some(level), ..RecordConfig::new(&path) });
        fill(&mut producer, 3000);
        let summary = recorder.finish(Vec::new()).unwrap();
        assert!(summary.error.is_none(), "{:?}", summary.error);
        assert_eq!((summary.packets, summary.lost.packets()), (3000, 0));
        assert_eq!(summary.bytes, fs::metadata(&path).unwrap().len(), "{name}");
        assert!(summary.bytes < summary.plain_bytes);
        assert_eq!(peers_count(&path), 3000, "{name}");
        assert_eq!(summary.plain_bytes, fs::metadata(path.with_extension("plain")).unwrap().len());
        assert_eq!(read(&path), expected(0..3000));
    }
}

#[test]
fn a_pipe_gets_a_whole_frame() {
    let directory = tempfile::tempdir().unwrap();
    let (pipe, kept) = (directory.path().join("pipe.zst"), directory.path().join("kept.zst"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut reader = Command::new("cp").args([&pipe, &kept]).spawn().unwrap();
    let summary = record(&pipe, 500);
    assert!(reader.wait().unwrap().success());
    assert_eq!(summary.bytes, fs::metadata(&kept).unwrap().len());
    assert_eq!(peers_count(&kept), 500);
}

#[test]
fn the_file_is_complete_while_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng.zst");
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    for round in 1..=5 {
        (200 * (round - 1)..200 * round).for_each(|number| push(&mut producer, stamp(number), &packet(number)));
        written(&recorder, 200 * round);
        // The count comes after the write, and nothing else is written: what kill -9 would leave.
        let copy = directory.path().join("copy.zst");
        fs::copy(&path, &copy).unwrap();
        assert_eq!(peers_count(&copy), 200 * round as usize);
        assert_eq!(read(&copy), expected(0..200 * round));
    }
    recorder.finish(Vec::new()).unwrap();
    assert_eq!(peers_count(&path), 1000);
}

#[test]
fn rotation_goes_by_compressed_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let rotation = Rotation { size: Some(100_000), ..Rotation::default() };
    let (recorder, mut producer) =
        start(RecordConfig { rotation, ..RecordConfig::new(directory.path().join("r.pcapng.zst")) });
    fill(&mut producer, 5000);
    let summary = recorder.finish(Vec::new()).unwrap();
    assert!(summary.files.len() > 3, "{:?}", summary.files);
    let (mut seen, mut bytes) = (Vec::new(), 0);
    for (index, file) in summary.files.iter().enumerate() {
        let size = fs::metadata(file).unwrap().len();
        bytes += size;
        // The closing statistics and the frame's end come on top.
        assert!(size <= 100_000 + 300, "{size}");
        assert!(size > 90_000 || index + 1 == summary.files.len(), "{size}: cut by plain bytes");
        assert!(file.to_str().unwrap().ends_with("Z.pcapng.zst"));
        let there = read(file);
        assert_eq!(peers_count(file), there.len());
        seen.extend(there);
    }
    assert_eq!(seen, expected(0..5000));
    assert_eq!(bytes, summary.bytes);
}

#[test]
fn a_file_that_is_moved_away_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("a.pcapng.zst"), directory.path().join("old.zst"));
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    fill(&mut producer, 300);
    written(&recorder, 300);
    fs::rename(&path, &moved).unwrap();
    recorder.reopen();
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    (300..400).for_each(|number| push(&mut producer, stamp(number), &packet(number)));
    recorder.finish(Vec::new()).unwrap();
    assert_eq!((peers_count(&moved), peers_count(&path)), (300, 100));
}

#[test]
fn what_comes_before_a_fault_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng.zst");
    record(&path, 5000);
    let whole = fs::read(&path).unwrap();
    let spoiled = directory.path().join("spoiled");
    let faults = |bytes: &[u8]| {
        fs::write(&spoiled, bytes).unwrap();
        let mut source = FileSource::open(&[&spoiled], Pace::AsFast).unwrap();
        let seen = drain(&mut source);
        (seen, source.fault().map(|fault| fault.to_string()).unwrap_or_default())
    };
    let (seen, fault) = faults(&whole[..whole.len() * 3 / 4]);
    assert!(fault.contains("is cut at unpacked byte") && fault.contains("of the compressed file"), "{fault}");
    assert!(seen.len() > 1000 && seen == expected(0..seen.len() as u64), "{}", seen.len());
    let mut flipped = whole.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let (seen, fault) = faults(&flipped);
    assert!(fault.contains("is malformed") && fault.contains("checksum"), "{fault}");
    assert_eq!(seen.len(), 5000);
    let (seen, fault) = faults(&[&whole[..], b"garbage behind it"].concat());
    assert!(fault.contains(&format!("at byte {} of the compressed file", whole.len())), "{fault}");
    assert_eq!(seen.len(), 5000);
    let (seen, fault) = faults(&[&whole[..], &whole[..]].concat());
    assert_eq!((seen.len(), fault.as_str()), (10_000, ""), "frames follow each other");
}

#[test]
fn a_frame_that_asks_for_too_much_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("greedy.zst");
    // No checksum, no content size; a window of 2^31 bytes; an empty last block.
    fs::write(&path, [0x28, 0xb5, 0x2f, 0xfd, 0, (31 - 10) << 3, 1, 0, 0]).unwrap();
    let error = FileSource::open(&[&path], Pace::AsFast).unwrap_err().to_string();
    assert!(error.contains("memory") && error.contains("greedy.zst"), "{error}");
}
