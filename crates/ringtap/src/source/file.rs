//! Replays capture files as a source: pcap and pcapng, also compressed by zstd, as fast as possible or at the recorded pace.
//!
//! Owns pace, the order of several files, and what is said of a faulty one. Packets are lent straight from the memory the
//! file was read into. The formats have files of their own below; filtering is not done here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::burst::{BURST_MAX, Burst, FrameOwner};
use crate::error::{Error, Result};
use crate::source::{Description, Source, StampClock, Wake};
use crate::sys::clock;
use crate::sys::event::Stop;
use crate::sys::memory::{Arena, Slot};

mod input;
mod pcap;
mod pcapng;
mod zstd;

use input::{Fault, Input, Record, Step};

/// Memory a file is read through, bytes; also the largest block that can be read.
const WINDOW_BYTES: usize = 4 << 20;

/// Packets of other link types stepped over in one call, so that it stays short.
const SKIPS_MAX: usize = 1024;

/// How fast a file is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Without waiting.
    AsFast,
    /// With the recorded distances between packets.
    Recorded,
    /// At a multiple of the recorded speed: 2.0 takes half the time. Finite and above 0.
    Multiplied(f64),
}

/// Capture files, read one after another.
///
/// All packets have one link type, [`FileSource::link_type`], since handlers are set up for one. Packets of others are
/// counted by [`FileSource::other_link_type`] and not delivered. A file that is malformed or cut is read up to the fault,
/// which [`FileSource::faults`] keeps; then the next file is read. A regular file never makes `receive` wait for more than
/// the disk; a pipe (`/dev/stdin`) makes it wait for its writer.
#[derive(Debug)]
pub struct FileSource {
    arena: Arena,
    slots: Vec<Slot>,
    lender: Lender,
    paths: Vec<PathBuf>,
    /// Index of the file being read; `paths.len()` at the end of all.
    current: usize,
    reading: Option<Reading>,
    pacing: Pacing,
    link_type: Option<u16>,
    packets: u64,
    other_link_type: u64,
    faults: Vec<Error>,
}

impl FileSource {
    /// Opens `paths`, to be read in this order, and looks at the beginning of each.
    ///
    /// # Errors
    /// No path, one that is missing, unreadable, a directory, empty or no capture; a multiple that is not above 0.
    pub fn open<P: AsRef<Path>>(paths: &[P], pace: Pace) -> Result<Self> {
        if let Pace::Multiplied(factor) = pace
            && !(factor.is_finite() && factor > 0.0)
        {
            return Err(Error::usage("replay", "", format!("a pace of {factor} times the recorded one"))
                .way_out("give a multiple above 0"));
        }
        if paths.is_empty() {
            return Err(Error::usage("replay", "", "no capture file given").way_out("name at least one"));
        }
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let mut arena = Arena::new(1, WINDOW_BYTES, "memory for reading capture files")?;
        // From last to first, so that the first is left open and in memory.
        let mut reading = None;
        for path in paths.iter().rev() {
            reading = Some(Reading::open(path, arena.frame_mut(0))?);
        }
        let mut this = Self {
            arena,
            slots: Vec::with_capacity(BURST_MAX),
            lender: Lender,
            paths,
            current: 0,
            reading,
            pacing: Pacing::new(pace),
            link_type: None,
            packets: 0,
            other_link_type: 0,
            faults: Vec::new(),
        };
        this.find_link_type();
        Ok(this)
    }

    /// LINKTYPE_ value of the packets: that of the first packet, or of the first interface when there are no packets.
    /// `None` for a pcapng file without either.
    pub fn link_type(&self) -> Option<u16> {
        self.link_type
    }

    /// Packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets not delivered because their link type is not [`FileSource::link_type`].
    pub fn other_link_type(&self) -> u64 {
        self.other_link_type
    }

    /// The first fault found in a file so far; packets before it have been delivered.
    pub fn fault(&self) -> Option<Error> {
        self.faults.first().cloned()
    }

    /// All faults so far, at most one for each file.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Whether everything has been delivered.
    pub fn has_ended(&self) -> bool {
        self.current == self.paths.len()
    }

    /// Looks at the first packet without taking it. A fault there is found again, and kept, by `receive`.
    fn find_link_type(&mut self) {
        if let Some(reading) = &mut self.reading {
            self.link_type = match reading.next(self.arena.frame_mut(0), true) {
                Step::Packet(record) => Some(record.link_type),
                _ => reading.format.link_type(),
            };
        }
    }

    /// Goes on to the next file, past those that cannot be opened any more.
    fn next_file(&mut self) {
        self.reading = None;
        while self.reading.is_none() && self.current < self.paths.len() {
            self.current += 1;
            let Some(path) = self.paths.get(self.current) else { break };
            match Reading::open(path, self.arena.frame_mut(0)) {
                Ok(reading) => self.reading = Some(reading),
                Err(error) => self.faults.push(error),
            }
        }
        if self.link_type.is_none() {
            self.find_link_type();
        }
    }

    fn keep_fault(&mut self, fault: &Fault) {
        if let (Some(path), Some(reading)) = (self.paths.get(self.current), &self.reading) {
            self.faults.push(describe(path, reading.packets, fault, reading.input.is_unpacked()));
        }
    }
}

impl Source for FileSource {
    fn receive(&mut self) -> Burst<'_> {
        let now = self.pacing.now();
        let mut skips = 0;
        while self.slots.len() < BURST_MAX && skips < SKIPS_MAX {
            let Some(reading) = &mut self.reading else { break };
            // While packets are lent out of the window it may not move, nor make room for the next file.
            let alone = self.slots.is_empty();
            let record = match reading.next(self.arena.frame_mut(0), alone) {
                Step::Packet(record) => record,
                Step::Later => break,
                Step::End | Step::Fault(_) if !alone => break,
                Step::End => {
                    self.next_file();
                    continue;
                }
                Step::Fault(fault) => {
                    self.keep_fault(&fault);
                    self.next_file();
                    continue;
                }
            };
            if self.link_type != Some(record.link_type) {
                self.other_link_type += 1;
                skips += 1;
                reading.consume(&record);
                continue;
            }
            if !self.pacing.is_due(record.stamp_ns, now) {
                break;
            }
            if let Some(mut slot) = self.arena.slot_within(0, record.at, record.len) {
                slot.wire_len = record.wire_len;
                slot.arrival_ns = record.stamp_ns;
                self.slots.push(slot);
                self.packets += 1;
            }
            reading.consume(&record);
        }
        Burst::new(&mut self.slots, self.arena.region(), &mut self.lender)
    }

    fn wait_for_interrupt(&mut self, stop: &Stop, limit: Option<Duration>) -> Wake {
        if stop.is_pulled() {
            return Wake::Stopped;
        }
        if self.has_ended() {
            return Wake::End;
        }
        let Some(until_due) = self.pacing.until_due() else { return Wake::Ready };
        let sleep = limit.map_or(until_due, |limit| limit.min(until_due));
        if stop.wait(sleep) {
            Wake::Stopped
        } else if sleep == until_due {
            Wake::Ready
        } else {
            Wake::TimedOut
        }
    }

    fn stamp_clock(&self) -> StampClock {
        StampClock::Recorded
    }

    fn description(&self) -> Description {
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        Description {
            backend: "file",
            object: names.join(", "),
            queue: None,
            zero_copy: None,
            xdp_mode: None,
            busy_poll: false,
            ring_slots: BURST_MAX,
            memory_bytes: self.arena.region().len(),
            library: None,
        }
    }
}

/// The window belongs to the source again when the burst is dropped; there is nothing to hand back.
#[derive(Debug)]
struct Lender;

impl FrameOwner for Lender {
    fn give_back(&mut self, _slots: &[Slot]) {}
}

/// One open file.
#[derive(Debug)]
struct Reading {
    input: Input,
    format: Format,
    /// Packets consumed, of whatever link type.
    packets: u64,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

impl Format {
    fn link_type(&self) -> Option<u16> {
        match self {
            Self::Pcap(pcap) => Some(pcap.link_type()),
            Self::Pcapng(pcapng) => pcapng.link_type(),
        }
    }
}

impl Reading {
    fn open(path: &Path, memory: &mut [u8]) -> Result<Self> {
        let object = path.display().to_string();
        let os = |error: &std::io::Error| Error::os("open", &object, error).way_out("name a capture file you may read");
        let file = File::open(path).map_err(|error| os(&error))?;
        if file.metadata().map_err(|error| os(&error))?.is_dir() {
            return Err(Error::failed("open", object, "is a directory").way_out("name a capture file in it"));
        }
        let mut input = Input::new(file);
        let mut first = [0; 4];
        let mut there = input.peek(memory, &mut first).map_err(|fault| describe(path, 0, &fault, false))?;
        if first == zstd::MAGIC {
            input = input.unpack(memory).map_err(|error| os(&error))?;
            there = input.peek(memory, &mut first).map_err(|fault| describe(path, 0, &fault, true))?;
        }
        let unpacked = input.is_unpacked();
        let told = |fault: Fault| describe(path, 0, &fault, unpacked);
        let way_out = "name a pcap or pcapng file, compressed by zstd or not";
        if there == 0 {
            return Err(Error::failed("open", object, "is empty, expected a capture file").way_out(way_out));
        }
        let format = if pcap::is_magic(first) {
            Format::Pcap(pcap::Pcap::open(&mut input, memory).map_err(told)?)
        } else if pcapng::is_magic(first) {
            Format::Pcapng(pcapng::Pcapng::open(&mut input, memory).map_err(told)?)
        } else {
            let way_out = match first {
                [0x1f, 0x8b, ..] => "it is compressed with gzip: gunzip it first",
                [0xfd, b'7', b'z', b'X'] => "it is compressed with xz: unxz it first",
                _ => way_out,
            };
            let begins: Vec<String> = first[..there].iter().map(|byte| format!("{byte:02x}")).collect();
            let cause =
                format!("is not a capture file: expected a pcap or pcapng header, it begins with {}", begins.join(" "));
            return Err(Error::failed("open", object, cause).way_out(way_out));
        };
        Ok(Self { input, format, packets: 0 })
    }

    fn next(&mut self, memory: &mut [u8], may_move: bool) -> Step {
        match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.input, memory, may_move),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.input, memory, may_move),
        }
        .unwrap_or_else(Step::Fault)
    }

    fn consume(&mut self, record: &Record) {
        self.input.consume(record.total);
        self.packets += 1;
    }
}

/// A fault of a file as the user reads it.
fn describe(path: &Path, packets: u64, fault: &Fault, unpacked: bool) -> Error {
    let Fault { offset, problem, cut } = fault;
    let how = if *cut { "is cut" } else { "is malformed" };
    let byte = if unpacked { "unpacked byte" } else { "byte" };
    let cause = format!("{how} at {byte} {offset} (packet {}): {problem}", packets + 1);
    Error::failed("read", path.display().to_string(), cause).way_out(match packets {
        0 => "no packet comes before it".to_owned(),
        1 => "the packet before it was read".to_owned(),
        _ => format!("the {packets} packets before it were read"),
    })
}

/// When packets are due.
#[derive(Debug)]
struct Pacing {
    pace: Pace,
    /// CLOCK_MONOTONIC and recorded stamp of the first packet that bears one.
    start: Option<(u64, u64)>,
    /// CLOCK_MONOTONIC of the next packet, while it is not due.
    next_due: Option<u64>,
}

impl Pacing {
    fn new(pace: Pace) -> Self {
        Self { pace, start: None, next_due: None }
    }

    /// CLOCK_MONOTONIC where it matters, else 0.
    fn now(&self) -> u64 {
        if self.pace == Pace::AsFast { 0 } else { clock::monotonic_ns() }
    }

    /// Whether a packet with this stamp is due at `now`. Those without a stamp, or from before the first, always are.
    fn is_due(&mut self, stamp_ns: u64, now: u64) -> bool {
        self.next_due = None;
        if self.pace == Pace::AsFast || stamp_ns == 0 {
            return true;
        }
        let (start, first_stamp) = *self.start.get_or_insert((now, stamp_ns));
        let recorded = stamp_ns.saturating_sub(first_stamp);
        let distance = match self.pace {
            // Above 2^53 ns (104 days) the product is rounded; casts saturate.
            Pace::Multiplied(factor) => (recorded as f64 / factor) as u64,
            _ => recorded,
        };
        let due = start.saturating_add(distance);
        if due > now {
            self.next_due = Some(due);
        }
        due <= now
    }

    /// How long until the next packet is due; `None` when one may be there now.
    fn until_due(&self) -> Option<Duration> {
        self.next_due.map(|due| Duration::from_nanos(due.saturating_sub(clock::monotonic_ns())))
    }
}
