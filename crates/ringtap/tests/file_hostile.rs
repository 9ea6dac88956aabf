//! Random bytes and spoiled captures: `FileSource` ends, never panics, and keeps what it read within bounds.

#[path = "record_support/mod.rs"]
mod support;

use std::path::Path;

use proptest::prelude::*;
use ringtap::record::{FinalCounts, InterfaceInfo, pcap, pcapng};
use ringtap::source::StampClock;
use ringtap::source::file::{FileSource, Pace};
use support::{Seen, drain};

fn outcome(directory: &Path, bytes: &[u8]) -> Option<(Vec<Seen>, usize)> {
    let path = directory.join("hostile");
    std::fs::write(&path, bytes).unwrap();
    let mut source = FileSource::open(&[path], Pace::AsFast).ok()?;
    let packets = drain(&mut source);
    let captured: usize = packets.iter().map(|seen| seen.data.len()).sum();
    assert!(captured <= bytes.len(), "more bytes than the file has");
    assert!(packets.iter().all(|seen| seen.wire_len as usize >= seen.data.len()));
    assert!(source.faults().len() <= 1);
    Some((packets, source.faults().len()))
}

fn valid_pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let interface =
        InterfaceInfo { filter: Some("udp".into()), ..InterfaceInfo::ethernet("eth0", StampClock::Recorded) };
    pcapng::section_header(&mut file, &pcapng::Section { comment: Some("a comment".into()), ..Default::default() });
    pcapng::interface_description(&mut file, &interface);
    for (index, data) in packets.iter().enumerate() {
        pcapng::enhanced_packet(&mut file, 0, index as u64, data.len() as u32, (data, &[]));
    }
    pcapng::interface_statistics(&mut file, &FinalCounts::default(), 1, Some(1), Some(2));
    file
}

fn valid_pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    pcap::file_header(&mut file, 1, 0);
    for (index, data) in packets.iter().enumerate() {
        pcap::record(&mut file, index as u64, data.len() as u32, (data, &[]));
    }
    file
}

#[test]
fn interfaces_without_end_are_a_fault_and_what_came_before_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = valid_pcapng(&[vec![7; 60]]);
    let interface = InterfaceInfo::ethernet("eth0", StampClock::Recorded);
    for _ in 0..1 << 16 {
        pcapng::interface_description(&mut file, &interface);
    }
    let (packets, faults) = outcome(directory.path(), &file).unwrap();
    assert_eq!((packets.len(), faults), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_bytes_after_a_magic(
        magic in prop::sample::select(vec![0xa1b2_c3d4_u32, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34, 0x34cd_b2a1, 0x0a0d_0d0a]),
        rest in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let directory = tempfile::tempdir().unwrap();
        outcome(directory.path(), &[&magic.to_le_bytes(), rest.as_slice()].concat());
    }

    #[test]
    fn random_records_after_a_good_header(rest in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => 0..80_u8, 1 => any::<u8>()], 0..3000)) {
        let directory = tempfile::tempdir().unwrap();
        for mut file in [valid_pcap(&[]), valid_pcapng(&[])] {
            file.extend_from_slice(&rest);
            prop_assert!(outcome(directory.path(), &file).is_some());
        }
    }

    #[test]
    fn spoiled_captures(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..20),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let directory = tempfile::tempdir().unwrap();
        for mut file in [valid_pcap(&packets), valid_pcapng(&packets)] {
            for (index, value) in &spoils {
                let at = index.index(file.len());
                file[at] = *value;
            }
            outcome(directory.path(), &file);
        }
    }

    /// A file that is cut anywhere gives all packets before the cut, and a fault unless the cut is between two pieces.
    #[test]
    fn cut_captures(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        for (file, header) in [(valid_pcap(&packets), valid_pcap(&[]).len()), (valid_pcapng(&packets), 200)] {
            let at = header.min(file.len()) + cut.index(file.len() - header.min(file.len()) + 1);
            let (seen, _) = outcome(directory.path(), &file[..at]).unwrap();
            prop_assert!(seen.len() <= packets.len());
            for (mine, original) in seen.iter().zip(&packets) {
                prop_assert_eq!(&mine.data, original);
            }
            // Another packet would not have fitted.
            if let Some(next) = packets.get(seen.len()) {
                let taken: usize = seen.iter().map(|seen| seen.data.len() + 16).sum();
                prop_assert!(header == 200 || at < header + taken + 16 + next.len());
            }
        }
    }
}
