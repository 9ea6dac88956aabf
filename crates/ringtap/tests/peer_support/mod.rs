//! Capture files read by `FileSource` and by Debian's readers: same packets, bytes, lengths and stamps. Shared by the tests over
//! our own files and by the conformance suite.

use std::path::{Path, PathBuf};

use ringtap::source::file::{FileSource, Pace};

use crate::support::{Seen, ask, drain, run};

/// The plainest reader there can be, for what tcpdump writes on this machine: pcap, native order, nanoseconds.
fn naive(file: &[u8]) -> (usize, Vec<Seen>) {
    let field = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(field(0), 0xa1b2_3c4d);
    let (mut at, mut seen) = (24, Vec::new());
    while at < file.len() {
        let len = field(at + 8) as usize;
        seen.push(Seen {
            stamp_ns: u64::from(field(at)) * 1_000_000_000 + u64::from(field(at + 4)),
            wire_len: field(at + 12),
            data: file[at + 16..at + 16 + len].to_vec(),
        });
        at += 16 + len;
    }
    (field(16) as usize, seen)
}

fn ours(path: &Path) -> (Vec<Seen>, FileSource) {
    let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
    (drain(&mut source), source)
}

/// How many packets there were, and how many of them with stamps that libpcap can't hold.
pub(crate) fn packets_bytes_and_stamps_are_those_of_tcpdump(paths: &[PathBuf]) -> (usize, usize) {
    let (mut packets, mut wrapped) = (0, 0);
    for path in paths {
        let output = run("tcpdump", &["-r", path.to_str().unwrap(), "--nano", "-w", "-"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", path.display());
        let (snaplen, mut theirs) = naive(&output.stdout);
        let (mut ours, source) = ours(path);
        let captured: Vec<u32> = ours.iter().map(|seen| seen.data.len() as u32).collect();
        // libpcap cuts packets that are longer than the file's snaplen; tshark and we deliver what is there.
        ours.iter_mut().for_each(|seen| seen.data.truncate(snaplen));
        assert!(source.faults().is_empty(), "{:?}", source.faults());
        assert_eq!(ours.len(), theirs.len(), "{}", path.display());
        // Spoiled samples say that more was captured than there was on the wire; we never do.
        theirs.iter_mut().zip(captured).for_each(|(seen, captured)| seen.wire_len = seen.wire_len.max(captured));
        // libpcap keeps 32 bits of nanoseconds: a spoiled sample with 3841916976 microseconds wraps there.
        for (mine, other) in ours.iter_mut().zip(&theirs).filter(|(mine, other)| mine.stamp_ns > other.stamp_ns) {
            wrapped += 1;
            mine.stamp_ns -= (mine.stamp_ns - other.stamp_ns) >> 32 << 32;
        }
        for (index, (mine, other)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(mine, other, "{} packet {}", path.display(), index + 1);
        }
        packets += ours.len();
    }
    (packets, wrapped)
}

pub(crate) fn counts_are_those_of_capinfos(paths: &[PathBuf]) {
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let output = run("capinfos", &[&["-T", "-r", "-M", "-c"], names.as_slice()].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    // It refuses link types it does not know.
    let mut told = String::from_utf8_lossy(&output.stderr).matches("unknown or unsupported").count();
    for line in table.lines() {
        let (name, count) = line.rsplit_once('\t').unwrap();
        let (ours, source) = ours(Path::new(name));
        let total = ours.len() as u64 + source.other_link_type();
        assert_eq!(total.to_string(), count.trim(), "{name}");
        told += 1;
    }
    assert_eq!(told, paths.len(), "capinfos left some out");
}

pub(crate) fn stamps_are_those_of_tshark(path: &Path) {
    // tshark prints nanoseconds, whatever the file's resolution is.
    let text = ask("tshark", &["-r", path.to_str().unwrap(), "-T", "fields", "-e", "frame.time_epoch"]);
    let theirs: Vec<String> = text.lines().map(|line| line.replace('.', "")).collect();
    let ours: Vec<String> = ours(path).0.iter().map(|seen| seen.stamp_ns.to_string()).collect();
    assert_eq!(ours, theirs, "{}", path.display());
}
