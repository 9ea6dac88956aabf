//! What stands in the files: blocks gathered in memory, written in one piece, and what happens when that fails.
//!
//! Owns the buffer, the decision to rotate, and the promise that a file is whole up to its last block. It takes packets
//! with wall-clock stamps; spools, threads and clocks are `writer.rs`'s.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compress::{Compressor, END_LEN, End};
use super::destination::{self, Destination, Identity, OpenFile};
use super::pcapng::{self, Section, block};
use super::sync::Syncer;
use super::{FinalCounts, Format, InterfaceInfo, RecordConfig, Rotation, pcap};
use crate::error::{Error, Result};
use crate::source::StampClock;
use crate::sys::clock;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Where a recording stands; written by its thread, readable by all.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) plain_bytes: AtomicU64,
    pub(super) lost_packets: AtomicU64,
    pub(super) lost_bytes: AtomicU64,
    error: Mutex<Option<Error>>,
    counts: Mutex<Vec<FinalCounts>>,
    file: Mutex<Option<String>>,
    /// The same where it is a regular file: its path, and which file it is.
    identity: Mutex<Option<(PathBuf, Identity)>>,
    reopen: AtomicBool,
}

impl Progress {
    /// Why writing ended, if it did.
    pub(super) fn error(&self) -> Option<Error> {
        lock(&self.error).clone()
    }

    /// The file being written.
    pub(super) fn file(&self) -> Option<String> {
        lock(&self.file).clone()
    }

    /// The counts that the next statistics blocks bear.
    pub(super) fn set_counts(&self, counts: Vec<FinalCounts>) {
        *lock(&self.counts) = counts;
    }

    /// Whether the file being written was moved away or deleted.
    pub(super) fn has_moved(&self) -> bool {
        lock(&self.identity).as_ref().is_some_and(|(path, identity)| destination::has_moved(path, *identity))
    }

    /// Asks for a new file.
    pub(super) fn ask_reopen(&self) {
        self.reopen.store(true, Ordering::Release);
    }

    fn count_lost(&self, packets: u64, bytes: u64) {
        self.lost_packets.fetch_add(packets, Ordering::Relaxed);
        self.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A thread that panicked while it held the lock left a whole value behind: these are plain assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packets and their captured bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
}

/// Writes the files of one recording.
#[derive(Debug)]
pub(super) struct Output {
    format: Format,
    rotation: Rotation,
    flush_each: bool,
    section: Section,
    interfaces: Vec<InterfaceInfo>,
    destination: Destination,
    syncer: Syncer,
    /// The file being written; `None` when the next one could not be created.
    file: Option<OpenFile>,
    /// Bytes of whole blocks in it.
    file_bytes: u64,
    /// Stamp of its first packet; `None` while it has none.
    file_first_ns: Option<u64>,
    buffer: Vec<u8>,
    buffered: Tally,
    /// What makes the file's frame, and the blocks it made last; where the recording is compressed.
    compressor: Option<Compressor>,
    packed: Vec<u8>,
    /// What ends the frame behind `file_bytes`; `None` while nothing of it is written.
    end: Option<End>,
    has_failed: bool,
    /// When the recording began, and its latest packet, by the wall clock or as recorded.
    start_ns: Option<u64>,
    latest_ns: Option<u64>,
    progress: Arc<Progress>,
}

impl Output {
    /// Creates the first file and writes its header, so that what cannot be written is known before the capture begins.
    pub(super) fn create(config: &RecordConfig, interfaces: Vec<InterfaceInfo>) -> Result<Self> {
        let is_replay = interfaces.iter().all(|interface| interface.stamp_clock == StampClock::Recorded);
        let mut this = Self {
            format: config.format,
            rotation: config.rotation,
            flush_each: config.flush_each,
            section: Section::of_this_machine(&config.application, config.comment.as_deref()),
            interfaces,
            destination: Destination::new(config),
            syncer: Syncer::default(),
            file: None,
            file_bytes: 0,
            file_first_ns: None,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            buffered: Tally::default(),
            compressor: config.compress.map(Compressor::new).transpose()?,
            packed: Vec::new(),
            end: None,
            has_failed: false,
            start_ns: (!is_replay).then(clock::realtime_ns),
            latest_ns: None,
            progress: Arc::default(),
        };
        this.begin_file(clock::realtime_ns());
        match this.progress.error() {
            Some(error) => Err(error),
            None => Ok(this),
        }
    }

    /// What others may look at.
    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Takes one packet, in two parts as it lies in a ring; counts it as lost once writing has failed.
    pub(super) fn packet(&mut self, interface: u16, stamp_ns: u64, wire_len: u32, data: (&[u8], &[u8])) {
        let len = data.0.len() + data.1.len();
        if !self.has_failed && self.is_rotation_due(stamp_ns, len) {
            // How small a buffer gets is known when it is compressed.
            if self.compressor.is_some() && !self.buffer.is_empty() {
                self.flush();
            }
            if !self.has_failed && self.is_rotation_due(stamp_ns, len) {
                self.rotate(stamp_ns);
            }
        }
        if self.has_failed {
            self.progress.count_lost(1, len as u64);
            return;
        }
        match self.format {
            Format::Pcapng => pcapng::enhanced_packet(&mut self.buffer, interface, stamp_ns, wire_len, data),
            Format::Pcap => pcap::record(&mut self.buffer, stamp_ns, wire_len, data),
        }
        self.buffered.packets += 1;
        self.buffered.bytes += len as u64;
        self.file_first_ns.get_or_insert(stamp_ns);
        self.start_ns.get_or_insert(stamp_ns);
        self.latest_ns = self.latest_ns.max(Some(stamp_ns));
        if self.flush_each || self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Whether a packet of `len` bytes belongs into a new file. A file without packets takes any.
    fn is_rotation_due(&self, stamp_ns: u64, len: usize) -> bool {
        let Some(first_ns) = self.file_first_ns else { return false };
        let block = match self.format {
            Format::Pcapng => pcapng::packet_block_len(len),
            Format::Pcap => pcap::RECORD_HEADER_LEN + len,
        };
        let size = self.file_bytes + (self.buffer.len() + block) as u64;
        self.rotation.size.is_some_and(|limit| size > limit)
            || self.rotation.time.is_some_and(|time| u128::from(stamp_ns.saturating_sub(first_ns)) >= time.as_nanos())
    }

    /// Begins a new file in place of one that was moved away, if that was asked for.
    pub(super) fn reopen_if_asked(&mut self) {
        // Looked at once more: opening the path would empty a file that is still there.
        if self.progress.reopen.swap(false, Ordering::AcqRel) && !self.has_failed && self.progress.has_moved() {
            self.rotate(clock::realtime_ns());
        }
    }

    fn rotate(&mut self, stamp_ns: u64) {
        self.statistics();
        self.flush();
        if !self.has_failed {
            self.begin_file(stamp_ns);
        }
    }

    /// Opens the next file and writes what every file begins with.
    fn begin_file(&mut self, wall_ns: u64) {
        self.end_frame();
        if let Some(finished) = self.file.take() {
            finished.retire(&mut self.syncer);
        }
        match self.destination.open(wall_ns) {
            Ok(file) => {
                *lock(&self.progress.file) = Some(file.object.clone());
                *lock(&self.progress.identity) = file.identity().map(|(path, identity)| (path.to_owned(), identity));
                self.file = Some(file);
            }
            Err(error) => return self.fail(error),
        }
        self.file_bytes = 0;
        self.file_first_ns = None;
        match self.format {
            Format::Pcapng => {
                pcapng::section_header(&mut self.buffer, &self.section);
                for interface in &self.interfaces {
                    pcapng::interface_description(&mut self.buffer, interface);
                }
            }
            Format::Pcap => {
                let snaplens = self.interfaces.iter().map(|interface| interface.snaplen);
                let unlimited = snaplens.clone().any(|snaplen| snaplen == 0);
                let snaplen = if unlimited { 0 } else { snaplens.max().unwrap_or(0) };
                let link_type = self.interfaces.first().map_or(1, |interface| interface.link_type);
                pcap::file_header(&mut self.buffer, link_type, snaplen);
            }
        }
        self.flush();
    }

    /// Ends the file's frame: on disk its end is there already, a pipe gets it now. What is written next begins another.
    fn end_frame(&mut self) {
        let Some(compressor) = &mut self.compressor else { return };
        let restarted = compressor.restart();
        if let (Some(end), Some(open)) = (self.end.take(), &mut self.file) {
            let written = if open.is_regular { END_LEN } else { write(&mut open.file, &end).0 };
            self.file_bytes += written as u64;
            self.progress.bytes.fetch_add(written as u64, Ordering::Relaxed);
        }
        if let Err(error) = restarted {
            self.fail(error);
        }
    }

    /// Gathers a statistics block for each interface.
    fn statistics(&mut self) {
        if self.format == Format::Pcap {
            return;
        }
        let is_replay = self.interfaces.iter().all(|interface| interface.stamp_clock == StampClock::Recorded);
        let end_ns = if is_replay { self.latest_ns } else { Some(clock::realtime_ns()) };
        let all = lock(&self.progress.counts).clone();
        for number in 0..self.interfaces.len() as u16 {
            let counts = all.iter().find(|counts| counts.interface == number).cloned();
            let counts = counts.unwrap_or(FinalCounts { interface: number, ..FinalCounts::default() });
            pcapng::interface_statistics(&mut self.buffer, &counts, end_ns.unwrap_or(0), self.start_ns, end_ns);
        }
    }

    /// Writes what has been gathered.
    pub(super) fn flush(&mut self) {
        if self.buffer.is_empty() || self.file.is_none() {
            return;
        }
        if let Err(error) = self.destination.leave_free(self.buffer.len() as u64, &mut self.syncer) {
            self.progress.count_lost(self.buffered.packets, self.buffered.bytes);
            self.buffer.clear();
            self.buffered = Tally::default();
            return self.fail(error);
        }
        let (whole, plain, written, failure) = match self.write_buffer() {
            Ok(done) => done,
            Err(error) => {
                self.progress.count_lost(self.buffered.packets, self.buffered.bytes);
                self.buffer.clear();
                self.buffered = Tally::default();
                self.cut_back();
                return self.fail(error);
            }
        };
        self.file_bytes += whole as u64;
        self.progress.bytes.fetch_add(whole as u64, Ordering::Relaxed);
        self.progress.plain_bytes.fetch_add(plain as u64, Ordering::Relaxed);
        let packets = self.progress.packets.fetch_add(written.packets, Ordering::Relaxed) + written.packets;
        let rest =
            Tally { packets: self.buffered.packets - written.packets, bytes: self.buffered.bytes - written.bytes };
        self.buffered = Tally::default();
        let Some(error) = failure else { return self.buffer.clear() };
        // A limit of file size: another file takes the rest, unless this one was new for it and took no packet, nor will the next.
        let is_used = written.packets > 0 || self.file_first_ns.is_some();
        if error.kind() == ErrorKind::FileTooLarge && self.destination.rotates() && is_used {
            let left = self.buffer.split_off(plain);
            self.buffer.clear();
            self.cut_back();
            return self.go_on_in_another_file(left, rest);
        }
        let Some(open) = &self.file else { return };
        let error = explain(&error, &open.object, open.is_regular, packets);
        self.progress.count_lost(rest.packets, rest.bytes);
        self.buffer.clear();
        self.cut_back();
        self.fail(error);
    }

    /// Writes the buffer as it is, or compressed. Returns how many bytes of the file are whole blocks, how many of the buffer
    /// they hold, the packets among them, and why it was not all.
    fn write_buffer(&mut self) -> Result<(usize, usize, Tally, Option<std::io::Error>)> {
        let Some(open) = &mut self.file else { return Ok((0, 0, Tally::default(), None)) };
        let Some(compressor) = &mut self.compressor else {
            let (done, failure) = write(&mut open.file, &self.buffer);
            let (whole, written) = match failure {
                None => (done, self.buffered),
                Some(_) => whole_blocks(self.format, &self.buffer[..done]),
            };
            return Ok((whole, whole, written, failure));
        };
        let end = compressor.pack(&self.buffer, &mut self.packed)?;
        let len = self.packed.len();
        if open.is_regular {
            self.packed.extend_from_slice(&end);
        }
        let (_, mut failure) = write(&mut open.file, &self.packed);
        if failure.is_none() && open.is_regular {
            failure = open.file.seek(SeekFrom::Start(self.file_bytes + len as u64)).err();
        }
        if failure.is_some() {
            return Ok((0, 0, Tally::default(), failure));
        }
        self.end = Some(end);
        Ok((len, self.buffer.len(), self.buffered, None))
    }

    /// Begins the next file and puts `left`, whole blocks with so many packets, into it. The finished one has no statistics:
    /// there is no room for them.
    fn go_on_in_another_file(&mut self, left: Vec<u8>, rest: Tally) {
        self.begin_file(clock::realtime_ns());
        if self.has_failed {
            return self.progress.count_lost(rest.packets, rest.bytes);
        }
        self.buffer.extend_from_slice(&left);
        self.buffered = rest;
        self.flush();
        if rest.packets > 0 && self.file_first_ns.is_none() {
            // Nothing goes by this but that the file has packets, and time, which begins anew.
            self.file_first_ns = self.latest_ns;
        }
    }

    /// Takes half a block back, so that what is in the file stays readable. A frame gets its end again, for which there is
    /// room where it stood before.
    fn cut_back(&mut self) {
        let is_regular = self.file.as_ref().is_some_and(|open| open.is_regular);
        let end = self.end.unwrap_or_default();
        let kept = if self.end.is_some() { END_LEN as u64 } else { 0 };
        if let Some(open) = self.file.as_mut().filter(|_| is_regular && kept > 0) {
            let _ = open.file.set_len(self.file_bytes + kept);
            let _ = open.file.seek(SeekFrom::Start(self.file_bytes));
            let _ = write(&mut open.file, &end);
        }
        if is_regular {
            self.end_frame();
        } else {
            // A pipe that failed has half a block: no end makes that whole.
            self.end = None;
        }
        if let Some(open) = self.file.as_mut().filter(|open| open.is_regular) {
            // Where even this fails, readers find a last block that is cut; there is nothing better to do.
            let _ = open.file.set_len(self.file_bytes);
            let _ = open.file.seek(SeekFrom::Start(self.file_bytes));
        }
    }

    /// Keeps the first error; from now on packets are counted as lost.
    fn fail(&mut self, error: Error) {
        self.has_failed = true;
        lock(&self.progress.error).get_or_insert(error);
    }

    /// Closes the last file with its statistics, also after a failure where there is room for them by now, and waits until
    /// all files are on the disk. Returns files, deletions, and what could not be deleted or synced.
    pub(super) fn finish(mut self) -> (Vec<PathBuf>, u64, Option<Error>) {
        if !self.has_failed || self.file.as_ref().is_some_and(|open| open.is_regular) {
            self.statistics();
            self.flush();
        }
        self.end_frame();
        let last = self.file.as_ref().and_then(|open| open.sync().err());
        let earlier = self.syncer.finish();
        let (files, deleted, undeleted) = self.destination.into_parts();
        (files, deleted, last.or(earlier).or(undeleted))
    }
}

/// Writes all of it; how much was written, and why not more.
fn write(file: &mut File, bytes: &[u8]) -> (usize, Option<std::io::Error>) {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => return (done, Some(ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

/// How many bytes of `written` are whole blocks or records, and the packets among them.
fn whole_blocks(format: Format, written: &[u8]) -> (usize, Tally) {
    let field = |at: usize| {
        let bytes = written.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let (mut at, mut tally) = (0, Tally::default());
    loop {
        let (total, packet) = match format {
            Format::Pcapng => {
                let is_packet = field(at) == Some(block::ENHANCED_PACKET as usize);
                let packet = if is_packet { field(at + pcapng::CAPTURED_LEN_AT) } else { None };
                (field(at + 4), packet)
            }
            Format::Pcap => {
                let len = field(at + 8);
                (len.map(|len| pcap::RECORD_HEADER_LEN + len), len)
            }
        };
        match total {
            Some(total) if total > 0 && at + total <= written.len() => at += total,
            _ => return (at, tally),
        }
        if let Some(len) = packet {
            tally.packets += 1;
            tally.bytes += len as u64;
        }
    }
}

/// What a failed write means to the user.
fn explain(error: &std::io::Error, object: &str, is_regular: bool, packets: u64) -> Error {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, rotate with a limit, or write elsewhere",
        ErrorKind::BrokenPipe => "its reader has gone",
        ErrorKind::FileTooLarge => "rotate by size",
        _ => "write elsewhere",
    };
    let kept = if is_regular { " and stay readable" } else { "" };
    Error::os("write to", object, error)
        .way_out(format!("{advice}; {packets} packets were written before{kept}, later ones are counted as lost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_count() {
        let mut buffer = Vec::new();
        pcapng::enhanced_packet(&mut buffer, 0, 1, 5, (&[1, 2], &[3]));
        let first = buffer.len();
        pcapng::interface_statistics(&mut buffer, &FinalCounts::default(), 0, None, None);
        let second = buffer.len();
        pcapng::enhanced_packet(&mut buffer, 0, 1, 5, (&[1, 2, 3, 4, 5], &[]));
        for cut in 0..=buffer.len() {
            let (whole, tally) = whole_blocks(Format::Pcapng, &buffer[..cut]);
            let expected = match cut {
                _ if cut < first => (0, 0, 0),
                _ if cut < second => (first, 1, 3),
                _ if cut < buffer.len() => (second, 1, 3),
                _ => (buffer.len(), 2, 8),
            };
            assert_eq!((whole, tally.packets, tally.bytes), expected, "cut at {cut}");
        }
    }

    #[test]
    fn only_whole_records_count() {
        let mut buffer = Vec::new();
        pcap::record(&mut buffer, 1, 5, (&[1, 2], &[3]));
        pcap::record(&mut buffer, 1, 5, (&[], &[]));
        for (cut, expected) in [(15, (0, 0, 0)), (18, (0, 0, 0)), (19, (19, 1, 3)), (34, (19, 1, 3)), (35, (35, 2, 3))]
        {
            let (whole, tally) = whole_blocks(Format::Pcap, &buffer[..cut]);
            assert_eq!((whole, tally.packets, tally.bytes), expected, "cut at {cut}");
        }
    }
}
