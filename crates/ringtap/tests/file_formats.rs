//! Capture files made byte by byte: every variant `FileSource` reads, and what it says of faulty ones.

#[path = "record_support/mod.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringtap::Stop;
use ringtap::error::ErrorKind;
use ringtap::source::file::{FileSource, Pace};
use ringtap::source::{Source, Wake};
use support::{Seen, drain, read};
use tempfile::TempDir;

/// A byte order to write a file in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Big,
    Little,
}
use Order::{Big, Little};

/// A file under construction.
struct Bytes(Order, Vec<u8>);

impl Bytes {
    fn new(order: Order) -> Self {
        Self(order, Vec::new())
    }

    fn u16(mut self, value: u16) -> Self {
        self.1.extend(if self.0 == Big { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.1.extend(if self.0 == Big { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.1.extend(if self.0 == Big { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.1.extend_from_slice(bytes);
        self
    }

    fn padded(self, bytes: &[u8]) -> Self {
        self.raw(bytes).raw(&[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()])
    }

    fn pcap(self, magic: u32, link_type: u32) -> Self {
        self.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(link_type)
    }

    fn record(self, seconds: u32, fraction: u32, data: &[u8]) -> Self {
        let len = data.len() as u32;
        self.u32(seconds).u32(fraction).u32(len).u32(len + 4).raw(data)
    }

    fn block(self, kind: u32, body: impl FnOnce(Self) -> Self) -> Self {
        let body = body(Self::new(self.0)).1;
        let total = body.len() as u32 + 12;
        self.u32(kind).u32(total).raw(&body).u32(total)
    }

    fn section(self) -> Self {
        self.block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX))
    }

    fn interface(self, link_type: u16, snaplen: u32, options: impl FnOnce(Self) -> Self) -> Self {
        self.block(1, |body| options(body.u16(link_type).u16(0).u32(snaplen)))
    }

    fn packet(self, interface: u32, units: u64, data: &[u8]) -> Self {
        let len = data.len() as u32;
        self.block(6, |body| {
            let body = body.u32(interface).u32((units >> 32) as u32).u32(units as u32);
            body.u32(len).u32(len + 4).padded(data)
        })
    }

    fn save(self, directory: &TempDir) -> PathBuf {
        let path = directory.path().join("made.pcap");
        std::fs::write(&path, self.1).unwrap();
        path
    }
}

fn seen(stamp_ns: u64, data: &[u8]) -> Seen {
    Seen { stamp_ns, wire_len: data.len() as u32 + 4, data: data.to_vec() }
}

fn plain(body: Bytes) -> Bytes {
    body
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    let directory = tempfile::tempdir().unwrap();
    for order in [Big, Little] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let path = Bytes::new(order)
                .pcap(magic, 1)
                .record(7, 5, b"one")
                .record(8, 6, b"")
                .record(9, 7, b"two")
                .save(&directory);
            let expected = [
                seen(7_000_000_000 + 5 * unit, b"one"),
                seen(8_000_000_000 + 6 * unit, b""),
                seen(9_000_000_000 + 7 * unit, b"two"),
            ];
            assert_eq!(read(&path), expected, "{order:?} {magic:x}");
        }
    }
}

#[test]
fn modified_pcap_has_a_longer_record_header() {
    let directory = tempfile::tempdir().unwrap();
    for order in [Big, Little] {
        let file = Bytes::new(order).pcap(0xa1b2_cd34, 1);
        let file = file.u32(7).u32(5).u32(3).u32(7).u32(2).u16(8).raw(&[0, 0]).raw(b"one");
        let path = file.u32(8).u32(6).u32(3).u32(7).u32(2).u16(8).raw(&[0, 0]).raw(b"two").save(&directory);
        assert_eq!(read(&path), [seen(7_000_005_000, b"one"), seen(8_000_006_000, b"two")], "{order:?}");
    }
}

#[test]
fn link_type_is_told_without_the_bits_above_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = Bytes::new(Little).pcap(0xa1b2_c3d4, 0x1400_0069).record(1, 0, b"x").save(&directory);
    assert_eq!(FileSource::open(&[path], Pace::AsFast).unwrap().link_type(), Some(105));
}

#[test]
fn pcapng_with_sections_of_either_order_and_interfaces_of_any_resolution() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = Vec::new();
    for order in [Big, Little, Big] {
        let section = Bytes::new(order)
            .section()
            .interface(1, 0, plain)
            .block(4, |body| body.raw(&[0; 40]))
            .interface(1, 0, |body| body.u16(9).u16(1).raw(&[9, 0, 0, 0]).u32(0))
            .interface(1, 0, |body| body.u16(14).u16(8).u64(100).u16(9).u16(1).raw(&[0x80 | 4, 0, 0, 0]).u32(0))
            .packet(0, 1_500_000, b"micro")
            .block(5, |body| body.u32(0).u64(0))
            .packet(1, 1_500_000_001, b"nano")
            .packet(2, 24, b"sixteenths, from 100 s on")
            .block(0x8000_0001, |body| body.raw(b"whatever"));
        file.extend(section.1);
    }
    let path = Bytes(Little, file).save(&directory);
    let once = [
        seen(1_500_000_000, b"micro"),
        seen(1_500_000_001, b"nano"),
        seen(101_500_000_000, b"sixteenths, from 100 s on"),
    ];
    assert_eq!(read(&path), [once.clone(), once.clone(), once].concat());
}

#[test]
fn simple_and_obsolete_packet_blocks() {
    let directory = tempfile::tempdir().unwrap();
    for order in [Big, Little] {
        let path = Bytes::new(order)
            .section()
            .interface(1, 4, plain)
            .block(3, |body| body.u32(3).padded(b"abc"))
            .block(3, |body| body.u32(100).padded(b"abcd"))
            .block(2, |body| body.u16(0).u16(77).u32(0).u32(2_000_000).u32(2).u32(6).padded(b"xy"))
            .save(&directory);
        let expected = [
            Seen { stamp_ns: 0, wire_len: 3, data: b"abc".to_vec() },
            Seen { stamp_ns: 0, wire_len: 100, data: b"abcd".to_vec() },
            seen(2_000_000_000, b"xy"),
        ];
        assert_eq!(read(&path), expected, "{order:?}");
    }
}

#[test]
fn packets_of_another_link_type_are_counted_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = Bytes::new(Little).section().interface(105, 0, plain).interface(1, 0, plain);
    for _ in 0..3000 {
        file = file.packet(1, 1_000_000, b"ethernet").packet(0, 1_000_000, b"radio");
    }
    let path = file.save(&directory);
    let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
    assert_eq!(source.link_type(), Some(1), "of the first packet, not of the first interface");
    let packets = drain(&mut source);
    assert_eq!((packets.len(), source.packets(), source.other_link_type()), (3000, 3000, 3000));
    assert!(packets.iter().all(|seen| seen.data == b"ethernet"));
}

#[test]
fn packets_of_262144_bytes_and_more_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..1_000_003_u32).map(|index| (index.wrapping_mul(index) >> 5) as u8).collect();
    let lens = [262_144, 1, 1_000_003, 0, 262_145, 65_536, 1_000_003, 1_000_003, 1_000_003, 1_000_003, 1_000_003];
    let (mut pcap, mut pcapng) =
        (Bytes::new(Little).pcap(0xa1b2_3c4d, 1), Bytes::new(Big).section().interface(1, 0, plain));
    for len in lens {
        pcap = pcap.record(0, 1000, &data[..len]);
        pcapng = pcapng.packet(0, 1, &data[..len]);
    }
    let expected: Vec<Seen> = lens.iter().map(|&len| seen(1000, &data[..len])).collect();
    for file in [pcap, pcapng] {
        let path = file.save(&directory);
        assert!(read(&path) == expected);
    }
}

#[test]
fn empty_captures_end_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for (file, link_type) in [
        (Bytes::new(Big).pcap(0xa1b2_3c4d, 113), Some(113)),
        (Bytes::new(Big).section(), None),
        (Bytes::new(Big).section().interface(113, 0, plain), Some(113)),
    ] {
        let path = file.save(&directory);
        assert_eq!(FileSource::open(&[&path], Pace::AsFast).unwrap().link_type(), link_type);
        assert_eq!(read(&path), []);
    }
}

#[test]
fn a_cut_pcap_is_read_up_to_the_cut_which_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = Bytes::new(Little).pcap(0xa1b2_c3d4, 1);
    for index in 0..17 {
        file = file.record(index, 0, &[7; 60]);
    }
    let whole = file.1.len();
    for (cut, expected) in [
        (48, format!("is cut at byte {} (packet 17): expected 60 bytes, 12 are there", whole - 60)),
        (69, format!("is cut at byte {} (packet 17): expected a 16-byte record header, 7 bytes are there", whole - 76)),
    ] {
        let path = Bytes(Little, file.1[..whole - cut].to_vec()).save(&directory);
        let mut source = FileSource::open(&[&path], Pace::AsFast).unwrap();
        assert_eq!(drain(&mut source).len(), 16);
        let fault = source.fault().unwrap();
        assert_eq!(
            fault.to_string(),
            format!("read {}: {expected}; the 16 packets before it were read", path.display())
        );
        assert_eq!(fault.kind(), ErrorKind::Failed);
    }
}

/// A fault in the middle of a pcapng file, after one good packet.
#[test]
fn faulty_blocks_are_told_and_what_was_before_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Bytes::new(Big).section().interface(1, 0, plain).packet(0, 1, b"good");
    let at = start().1.len();
    let cases = [
        (start().raw(&[0; 5]), "is cut at byte {at} (packet 2): expected a block of at least 12 bytes, 5 are there"),
        (start().u32(6).u32(8).u32(0), "is malformed at byte {at} (packet 2): expected a block length of at least 12"),
        (start().u32(6).u32(33).raw(&[0; 40]), "expected a block length of at least 12 and a multiple of 4, found 33"),
        (start().u32(6).u32(64).raw(&[0; 20]), "is cut at byte {at} (packet 2): expected 64 bytes, 28 are there"),
        (
            start().u32(6).u32(0xffff_fffc).raw(&[0; 20]),
            "expected a block of at most 4194304 bytes, its length says 4294967292",
        ),
        (start().u32(77).u32(0xffff_fffc).raw(&[0; 20]), "expected 4294967264 more bytes of a block, 0 are there"),
        (start().u32(6).u32(32).raw(&[0; 20]).u32(36), "expected the block length 32 repeated at its end, found 36"),
        (start().u32(6).u32(16).u32(0).u32(16), "expected a packet block of at least 32 bytes, found 16"),
        (start().packet(3, 1, b"x"), "expected one of 1 described interfaces, found number 3"),
        (
            start().block(6, |body| body.u32(0).u64(1).u32(u32::MAX).u32(9).raw(&[0; 8])),
            "expected at most 8 packet bytes in this block, found a length of 4294967295",
        ),
        (start().block(0x0a0d_0d0a, |body| body.u32(5).u32(0).u64(0)), "expected the byte-order magic 1a2b3c4d"),
        (
            start().block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(2).u16(0).u64(0)),
            "expected pcapng version 1, found 2.0",
        ),
        (
            start().interface(1, 0, |body| body.u16(9).u16(1).raw(&[40, 0, 0, 0]).u32(0)),
            "expected a time resolution that fits",
        ),
        (start().section().packet(0, 1, b"x"), "expected one of 0 described interfaces"),
    ];
    for (file, expected) in cases {
        let path = file.save(&directory);
        let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
        assert_eq!(drain(&mut source), [seen(1000, b"good")], "{expected}");
        let fault = source.fault().unwrap().to_string();
        assert!(fault.contains(&expected.replace("{at}", &at.to_string())), "{fault} // {expected}");
        assert!(fault.ends_with("; the packet before it was read"), "{fault}");
    }
}

#[test]
fn lengths_from_the_file_do_not_size_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path =
        Bytes::new(Big).pcap(0xa1b2_c3d4, 1).u32(1).u32(1).u32(0xffff_fff0).u32(1).raw(&[0; 50]).save(&directory);
    let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
    assert_eq!(drain(&mut source), []);
    let fault = source.fault().unwrap().to_string();
    assert!(fault.contains("at byte 24 (packet 1): expected a packet of at most"), "{fault}");
    assert!(fault.contains("the record header says 4294967280; no packet comes before it"), "{fault}");
}

#[test]
fn what_cannot_be_opened_is_told_at_open() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let header = Bytes::new(Big).pcap(0xa1b2_c3d4, 1).1;
    for (path, expected) in [
        (directory.path().join("missing"), "ENOENT"),
        (directory.path().to_owned(), "is a directory; name a capture file in it"),
        (make("empty", b""), "is empty, expected a capture file"),
        (make("short", b"ab"), "is not a capture file: expected a pcap or pcapng header, it begins with 61 62"),
        (make("text", b"#!/bin/sh\n"), "it begins with 23 21 2f 62; name a pcap or pcapng file"),
        (make("zipped", &[0x1f, 0x8b, 8, 0]), "gunzip it first"),
        (
            make("cut.pcap", &header[..20]),
            "is cut at byte 0 (packet 1): expected a 24-byte pcap header, 20 bytes are there",
        ),
        (
            make("version", &Bytes::new(Big).u32(0xa1b2_c3d4).u16(9).u16(1).u64(0).u64(0).1),
            "expected pcap version 2, found 9.1",
        ),
        (
            make("cut.pcapng", &Bytes::new(Big).section().1[..20]),
            "is cut at byte 0 (packet 1): expected 28 bytes, 20 are there",
        ),
    ] {
        let error = FileSource::open(&[&path], Pace::AsFast).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error} // {expected}");
    }
    let none: [PathBuf; 0] = [];
    assert_eq!(FileSource::open(&none, Pace::AsFast).unwrap_err().kind(), ErrorKind::Usage);
    for pace in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let good = make("good", &header);
        assert_eq!(FileSource::open(&[good], Pace::Multiplied(pace)).unwrap_err().kind(), ErrorKind::Usage);
    }
}

#[test]
fn a_file_that_may_not_be_read_is_told_at_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = Bytes::new(Big).pcap(0xa1b2_c3d4, 1).save(&directory);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    match FileSource::open(&[path], Pace::AsFast) {
        Err(error) => assert!(error.to_string().contains("EACCES"), "{error}"),
        // Modes don't bind root.
        Ok(_) => assert!(std::fs::read("/etc/shadow").is_ok()),
    }
}

#[test]
fn files_are_read_one_after_another_past_faults() {
    let directories: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let paths = [
        Bytes::new(Big).pcap(0xa1b2_c3d4, 1).record(1, 0, b"first").raw(b"rest").save(&directories[0]),
        Bytes::new(Little).section().interface(1, 0, plain).packet(0, 2_000_000, b"second").save(&directories[1]),
        Bytes::new(Big).pcap(0xa1b2_c3d4, 1).record(3, 0, b"third").save(&directories[2]),
    ];
    let mut source = FileSource::open(&paths, Pace::AsFast).unwrap();
    let expected = [seen(1_000_000_000, b"first"), seen(2_000_000_000, b"second"), seen(3_000_000_000, b"third")];
    assert_eq!(drain(&mut source), expected);
    assert_eq!(source.faults().len(), 1);
    assert!(source.has_ended());

    let mut source = FileSource::open(&paths, Pace::AsFast).unwrap();
    std::fs::remove_file(&paths[1]).unwrap();
    assert_eq!(drain(&mut source).len(), 2);
    assert!(source.faults()[1].to_string().contains("ENOENT"), "{:?}", source.faults());
}

#[test]
fn recorded_pace_is_kept_and_waits_can_be_limited_and_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let file = Bytes::new(Big).pcap(0xa1b2_c3d4, 1).record(5, 0, b"a").record(5, 60_000, b"b");
    let path = file.record(4, 0, b"from before").record(5, 100_000, b"c").record(1_000_000, 0, b"d").save(&directory);
    for (pace, factor) in [(Pace::Recorded, 1), (Pace::Multiplied(2.0), 2)] {
        let stop = Stop::new().unwrap();
        let mut source = FileSource::open(&[&path], pace).unwrap();
        let start = Instant::now();
        let mut delivered = Vec::new();
        while delivered.len() < 4 {
            // Asked afterwards, so that a machine that stalls can only make a packet look later than it was.
            let burst = source.receive();
            let elapsed = start.elapsed();
            delivered.extend(burst.iter().map(|packet| (packet.data.to_vec(), elapsed)));
            if burst.is_empty() {
                drop(burst);
                assert_eq!(source.wait_for_interrupt(&stop, Some(Duration::from_secs(5))), Wake::Ready);
            }
        }
        let due = [0, 60, 60, 100].map(|milliseconds| Duration::from_millis(milliseconds) / factor);
        for ((data, elapsed), due) in delivered.iter().zip(due) {
            assert!(*elapsed >= due, "{data:?} after {elapsed:?}, due after {due:?}");
        }
        assert_eq!(delivered.iter().map(|(data, _)| data[0]).collect::<Vec<_>>(), b"abfc");
        assert!(source.receive().is_empty(), "due in days");
        assert_eq!(source.wait_for_interrupt(&stop, Some(Duration::from_millis(1))), Wake::TimedOut);
        stop.pull();
        assert_eq!(source.wait_for_interrupt(&stop, None), Wake::Stopped);
    }
}
