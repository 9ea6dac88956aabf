//! What is recorded is what a reader finds: every packet, byte, length and nanosecond, in order.

#[path = "record_support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringtap::clock;
use ringtap::record::{FinalCounts, Format, InterfaceInfo, LEAST_SPOOL_BYTES, RecordConfig, Recorder, Rotation};
use ringtap::source::StampClock;
use support::{Seen, push, read, start};

fn packet() -> impl Strategy<Value = Seen> {
    (any::<u64>(), 0..100_000_u32, prop::collection::vec(any::<u8>(), 0..1600))
        .prop_map(|(stamp_ns, extra, data)| Seen { stamp_ns, wire_len: data.len() as u32 + extra, data })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn pcapng(packets in prop::collection::vec(packet(), 0..40)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        let (recorder, mut producer) = start(RecordConfig { spool_bytes: 1 << 20, ..RecordConfig::new(&path) });
        for seen in &packets {
            prop_assert!(producer.push(0, seen.stamp_ns, seen.wire_len, &seen.data));
        }
        let summary = recorder.finish(Vec::new()).unwrap();
        prop_assert_eq!(summary.packets, packets.len() as u64);
        prop_assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
        prop_assert_eq!(read(&path), packets);
    }

    #[test]
    fn pcap(packets in prop::collection::vec(packet(), 0..40)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap");
        let config = RecordConfig { spool_bytes: 1 << 20, ..RecordConfig::new(&path) };
        prop_assert_eq!(config.format, Format::Pcap);
        let (recorder, mut producer) = start(config);
        let mut expected = packets;
        for seen in &mut expected {
            // Seconds have 32 bits here.
            seen.stamp_ns %= 1_000_000_000 << 32;
            prop_assert!(producer.push(0, seen.stamp_ns, seen.wire_len, &seen.data));
        }
        recorder.finish(Vec::new()).unwrap();
        prop_assert_eq!(read(&path), expected);
    }
}

#[test]
fn large_packets_pass_through_the_smallest_spool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.pcapng");
    let (recorder, mut producer) = start(RecordConfig { spool_bytes: LEAST_SPOOL_BYTES, ..RecordConfig::new(&path) });
    let packets: Vec<Vec<u8>> = (0..200_u32).map(|index| vec![index as u8; (index * 301 % 60_000) as usize]).collect();
    for (index, data) in packets.iter().enumerate() {
        push(&mut producer, index as u64, data);
    }
    recorder.finish(Vec::new()).unwrap();
    let seen = read(&path);
    assert!(seen.iter().map(|seen| &seen.data).eq(&packets));
}

#[test]
fn monotonic_stamps_become_wall_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wall.pcapng");
    let interfaces = vec![
        InterfaceInfo::ethernet("mono", StampClock::Monotonic),
        InterfaceInfo::ethernet("real", StampClock::Realtime),
    ];
    let (recorder, mut producers) = Recorder::start(RecordConfig::new(&path), interfaces).unwrap();
    let (mono, real) = (clock::monotonic_ns(), clock::realtime_ns());
    assert!(
        producers[0].push(0, mono, 1, b"a") && producers[0].push(1, real, 1, b"b") && producers[0].push(0, 0, 1, b"c")
    );
    recorder.finish(Vec::new()).unwrap();
    let seen = read(&path);
    assert!(seen[0].stamp_ns.abs_diff(real) < 1_000_000, "within a millisecond: {} {real}", seen[0].stamp_ns);
    assert_eq!(seen[1].stamp_ns, real);
    assert!(seen[2].stamp_ns.abs_diff(real) < 5_000_000_000, "no stamp: the time of writing");
}

#[test]
fn packets_of_several_spools_are_merged_by_their_stamps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("merged.pcapng");
    let config = RecordConfig { spools: 3, ..RecordConfig::new(&path) };
    let interfaces = vec![InterfaceInfo::ethernet("veth0", StampClock::Realtime)];
    let (recorder, producers) = Recorder::start(config, interfaces).unwrap();
    let base = clock::realtime_ns();
    let threads: Vec<_> = producers
        .into_iter()
        .enumerate()
        .map(|(queue, mut producer)| {
            std::thread::spawn(move || {
                let mut late = 0;
                for _ in 0..100 {
                    // As an engine does: take a stamp, be late by up to a cycle, push, wake.
                    let stamp_ns = clock::realtime_ns();
                    std::thread::sleep(Duration::from_micros(300 * queue as u64));
                    assert!(producer.push(0, stamp_ns, 100, &[queue as u8; 100]));
                    late += usize::from(clock::realtime_ns() - stamp_ns >= 10_000_000);
                    producer.wake();
                    std::thread::sleep(Duration::from_micros(500));
                }
                late
            })
        })
        .collect();
    let late: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    recorder.finish(vec![FinalCounts::default()]).unwrap();
    let seen = read(&path);
    assert_eq!(seen.len(), 300);
    assert!(seen[0].stamp_ns >= base);
    for queue in 0..3 {
        assert_eq!(seen.iter().filter(|seen| seen.data[0] == queue).count(), 100);
    }
    // The writer waits 10 ms for older packets; a machine that stalls a thread for longer disorders that packet.
    let disordered = seen.windows(2).filter(|pair| pair[0].stamp_ns > pair[1].stamp_ns).count();
    assert!(disordered <= late, "{disordered} of 300 out of order, {late} pushed late");
}

#[test]
fn a_reader_sees_packets_while_the_recording_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pcapng");
    let (recorder, mut producer) = start(RecordConfig::new(&path));
    for round in 1..=5_usize {
        push(&mut producer, round as u64, b"live");
        let pushed = Instant::now();
        while read(&path).len() < round {
            assert!(pushed.elapsed() < Duration::from_secs(60), "it stays in memory");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // The count follows the file: who reads in between finds one packet more than is counted.
    let written = Instant::now();
    while recorder.packets() != 5 {
        assert!(written.elapsed() < Duration::from_secs(60), "{} of 5 are counted", recorder.packets());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_dropped_recorder_leaves_a_whole_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dropped.pcapng");
    let (recorder, mut producer) = start(RecordConfig { rotation: Rotation::default(), ..RecordConfig::new(&path) });
    assert!(producer.push(0, 1, 1, b"x"));
    drop(recorder);
    assert_eq!(read(&path).len(), 1);
    assert!(producer.push(0, 1, 1, b"y"), "nobody reads it any more, but nothing breaks");
    producer.wake();
}
