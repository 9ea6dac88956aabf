//! Capture files as a sequence of frames that can be sent: read ahead, checked, and played as often as wanted.
//!
//! Owns which records are sent and which are skipped and why. What a file says is `ringtap::source::file`'s, when a frame
//! leaves is `replay`'s.

use std::path::PathBuf;

use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};
use ringtap::{Error, Result};
use serde::{Deserialize, Serialize};

/// Read before the first frame is sent; files up to this size are read once, however often they are played.
const FIRST_BYTES: usize = 64 << 20;
/// Read at once later on, between two frames.
const LATER_BYTES: usize = 256 << 10;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// MAC addresses and type: less is no Ethernet frame.
const MIN_FRAME: usize = 14;

/// What was found in the files, once through; up to where it was read when it was stopped before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// Times the files were sent from beginning to end.
    pub passes: u64,
    /// Records read.
    pub records: u64,
    /// Records that were sent.
    pub sendable: u64,
    /// Skipped: longer than the interface's MTU allows.
    pub too_long: u64,
    /// Skipped: of another link type than Ethernet.
    pub other_link_type: u64,
    /// Skipped: the capture holds less of the packet than there was on the wire.
    pub truncated: u64,
    /// Skipped: shorter than an Ethernet header.
    pub too_short: u64,
    /// Faults in the files, with their places; records before a fault were sent.
    pub faults: Vec<String>,
}

/// One frame in the chunk at hand.
#[derive(Debug, Clone, Copy)]
struct Frame {
    start: usize,
    len: usize,
    stamp_ns: u64,
}

/// Files that are played one after another, again and again.
#[derive(Debug)]
pub(super) struct Playlist {
    paths: Vec<PathBuf>,
    mtu: usize,
    source: Option<FileSource>,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    next: usize,
    /// All frames are in the chunk.
    whole: bool,
    /// The first pass is over: nothing is counted any more.
    counted: bool,
    found: Replayed,
}

impl Playlist {
    /// Opens the files and reads ahead. `mtu` in bytes, without the Ethernet header.
    ///
    /// # Errors
    /// A file that can't be read or is no capture; nothing in it that can be sent; a pipe that is to be played `again`.
    pub(super) fn open(paths: &[PathBuf], mtu: usize, again: bool) -> Result<Self> {
        let regular = paths.iter().all(|path| path.metadata().is_ok_and(|data| data.is_file()));
        let source = FileSource::open(paths, Pace::AsFast)?;
        if again && !regular {
            return Err(
                Error::usage("replay", names(paths), "a pipe can be read only once").way_out("leave out --loop")
            );
        }
        if let Some(kind) = source.link_type().filter(|&kind| kind != ETHERNET) {
            return Err(Error::failed("replay", names(paths), format!("its first packet has link type {kind}"))
                .way_out("name a capture of Ethernet frames (link type 1)"));
        }
        let mut this = Self {
            paths: paths.to_vec(),
            mtu,
            source: Some(source),
            bytes: Vec::new(),
            frames: Vec::new(),
            next: 0,
            whole: false,
            counted: false,
            found: Replayed::default(),
        };
        // A pipe may be alive: what it gives is sent as it comes.
        this.load(if regular { FIRST_BYTES } else { 1 });
        this.whole = this.source.is_none();
        if this.whole && this.frames.is_empty() {
            return Err(this.nothing());
        }
        Ok(this)
    }

    /// The next frame and its recorded time in nanoseconds since 1970 (0: none); `None` at the end of a pass.
    pub(super) fn next(&mut self) -> Option<(&[u8], u64)> {
        if self.next == self.frames.len() && !self.whole {
            self.load(LATER_BYTES);
        }
        let frame = *self.frames.get(self.next)?;
        self.next += 1;
        self.bytes.get(frame.start..frame.start + frame.len).map(|bytes| (bytes, frame.stamp_ns))
    }

    /// Back to the beginning, after the end of a pass. `false` when the files are not there any more.
    pub(super) fn rewind(&mut self) -> bool {
        self.found.passes += 1;
        self.counted = true;
        self.next = 0;
        if !self.whole {
            match FileSource::open(&self.paths, Pace::AsFast) {
                Ok(source) => self.source = Some(source),
                Err(error) => {
                    self.found.faults.push(error.to_string());
                    return false;
                }
            }
            self.frames.clear();
        }
        true
    }

    /// The last pass is over.
    pub(super) fn end_pass(&mut self) {
        self.found.passes += 1;
    }

    pub(super) fn found(&self) -> &Replayed {
        &self.found
    }

    /// Replaces the chunk by frames of at least `most` bytes, or all that are left; a source that has ended is dropped.
    fn load(&mut self, most: usize) {
        self.bytes.clear();
        self.frames.clear();
        self.next = 0;
        let Some(source) = &mut self.source else { return };
        let mut passed_over = 0;
        while self.bytes.len() < most && !source.has_ended() {
            let burst = source.receive();
            for packet in burst.iter() {
                self.found.records += u64::from(!self.counted);
                let cause = if (packet.data.len() as u64) < u64::from(packet.wire_len) {
                    Some(&mut self.found.truncated)
                } else if packet.data.len() < MIN_FRAME {
                    Some(&mut self.found.too_short)
                } else if packet.data.len() > self.mtu + header_bytes(packet.data) {
                    Some(&mut self.found.too_long)
                } else {
                    None
                };
                match cause {
                    Some(count) => *count += u64::from(!self.counted),
                    None => {
                        let start = self.bytes.len();
                        self.bytes.extend_from_slice(packet.data);
                        self.frames.push(Frame { start, len: packet.data.len(), stamp_ns: packet.arrival_ns });
                        self.found.sendable += u64::from(!self.counted);
                    }
                }
                passed_over += packet.data.len();
            }
            // A stretch of a big file that holds nothing to send is left when something was found.
            if passed_over > most && !self.frames.is_empty() {
                break;
            }
        }
        if source.has_ended() {
            if !self.counted {
                let other = source.other_link_type();
                self.found.other_link_type = other;
                self.found.records += other;
                self.found.faults.extend(source.faults().iter().map(Error::to_string));
            }
            self.source = None;
        }
    }

    fn nothing(&self) -> Error {
        let found = &self.found;
        let cause = match found.faults.first() {
            Some(fault) => {
                let of_file = |path: &PathBuf| fault.strip_prefix(&format!("read {}: ", path.display()));
                format!("nothing in it can be sent: it {}", self.paths.iter().find_map(of_file).unwrap_or(fault))
            }
            None if found.records == 0 => "there are no packets in it".to_owned(),
            None => format!("nothing in it can be sent: {found}"),
        };
        Error::failed("replay", names(&self.paths), cause).way_out("name a capture with whole Ethernet frames")
    }
}

/// Bytes in front of what the MTU counts: a device takes one VLAN tag more (packet_extra_vlan_len_allowed in
/// net/packet/af_packet.c).
fn header_bytes(frame: &[u8]) -> usize {
    if frame.get(12..14) == Some(&[0x81, 0x00]) { 18 } else { 14 }
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for Replayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records, {} of them sent", self.records, self.sendable)?;
        for (count, cause) in [
            (self.too_long, "longer than the MTU allows"),
            (self.other_link_type, "of another link type than Ethernet"),
            (self.truncated, "cut when they were captured"),
            (self.too_short, "shorter than an Ethernet header"),
        ] {
            if count > 0 {
                write!(f, "; {count} skipped: {cause}")?;
            }
        }
        Ok(())
    }
}
