//! Owns: the log of accepted events: segments of a folder that are only appended to, synced when they are told to, read
//! again after a restart, and deleted when nothing can need them.
//! Does not: know rules or incidents.
//!
//! A segment is `log-NNNNNNNN`: a magic, then records. What follows a damaged record in the last segment was never
//! acknowledged, and is cut off; in another one it is skipped, and counted.

mod read;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ringtap::{Error, Result};

use crate::event::Event;
use crate::sensors::What;
pub use read::Reader;
use record::RecordRef;
pub use record::{Record, Span};

const MAGIC: &[u8; 8] = b"RTCLOG01";
/// Bytes of a segment before the next one begins: what retention deletes at once.
const SEGMENT: u64 = 32 << 20;
/// Bytes that are kept before they are written.
const BUFFER: usize = 256 << 10;

/// A segment that is complete.
#[derive(Clone, Debug)]
struct Segment {
    number: u64,
    path: PathBuf,
    span: Span,
    bytes: u64,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Offset of the record in it.
    pub offset: u64,
}

/// The log of one process.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    complete: Vec<Segment>,
    /// The one that is written; `None` after it could not be.
    file: Option<File>,
    place: Place,
    span: Span,
    buffer: Vec<u8>,
    /// Records in the buffer that are events.
    buffered: u64,
    is_dirty: bool,
    /// Events that could not be written.
    lost: u64,
    /// Segments with a damaged record before their end.
    damaged: u64,
    segment_bytes: u64,
}

impl Log {
    /// Opens the log of a folder, which has to be there; what a crash left half written is cut off.
    ///
    /// # Errors
    /// It can't be read or written.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::with_segments(folder, SEGMENT)
    }

    pub(crate) fn with_segments(folder: &Path, segment_bytes: u64) -> Result<Self> {
        let failed = |error: io::Error| failed(folder, &error);
        let mut numbers: Vec<u64> = fs::read_dir(folder)
            .map_err(failed)?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("log-")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let mut log = Self {
            folder: folder.to_owned(),
            complete: Vec::new(),
            file: None,
            place: Place { segment: numbers.last().copied().unwrap_or(1), offset: 0 },
            span: Span::EMPTY,
            buffer: Vec::with_capacity(BUFFER),
            buffered: 0,
            is_dirty: false,
            lost: 0,
            damaged: 0,
            segment_bytes,
        };
        let last = numbers.pop();
        for number in numbers {
            let path = log.path(number);
            let (bytes, span, is_damaged) = read::span(&path).map_err(failed)?;
            log.damaged += u64::from(is_damaged);
            log.complete.push(Segment { number, path, span, bytes });
        }
        if last.is_some() {
            let path = log.path(log.place.segment);
            let (sound, span) = read::sound(&path).map_err(failed)?;
            let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
            file.set_len(sound).map_err(failed)?;
            (log.file, log.place.offset, log.span) = (Some(file), sound, span);
        }
        if log.place.offset < MAGIC.len() as u64 {
            log.place.offset = MAGIC.len() as u64;
            log.begin().map_err(failed)?;
        }
        Ok(log)
    }

    /// Where the next record goes.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Events that could not be written, and segments that were found damaged.
    #[must_use]
    pub fn faults(&self) -> (u64, u64) {
        (self.lost, self.damaged)
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.complete.iter().map(|segment| segment.bytes).sum::<u64>() + self.place.offset
    }

    /// Appends an event. It is on the disk after the next [`sync`](Self::sync).
    pub fn event(&mut self, event: &Event, late: bool) {
        self.span.add(event.mark.time_ns);
        self.buffered += 1;
        self.append(&RecordRef::Event { event, late });
    }

    /// Appends how far a stream is read with the event that is appended next.
    pub fn read_up_to(&mut self, stream: u64, next: i64) {
        self.append(&RecordRef::Read { stream, next });
    }

    /// Appends that a stream goes on with another offset than the one behind what was read of it.
    pub fn begins_again(&mut self, stream: u64, next: i64) {
        self.append(&RecordRef::BeginsAgain { stream, next });
    }

    /// Appends the watermark.
    pub fn watermark(&mut self, at_ns: i64) {
        self.append(&RecordRef::Watermark(at_ns));
    }

    /// Appends that all inputs are silent since an event time.
    pub fn silence(&mut self, since_ns: i64) {
        self.append(&RecordRef::Silence { since_ns });
    }

    /// Appends what happened to a registered sensor.
    pub fn sensor(&mut self, number: u64, what: What) {
        self.append(&RecordRef::Sensor { number, what });
    }

    fn append(&mut self, record: &RecordRef<'_>) {
        self.is_dirty = true;
        self.place.offset += record::write(record, &mut self.buffer) as u64;
        if self.buffer.len() >= BUFFER {
            // Told by the next sync.
            let _ = self.flush();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.file.is_none()
            && let Err(error) = self.begin()
        {
            // The next time the same one is tried.
            self.drop_buffer();
            return Err(error);
        }
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(&self.buffer));
        if let Err(error) = written {
            self.leave();
            return Err(error);
        }
        self.buffer.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Leaves a segment that takes no more; what it has already is sound, and stays.
    fn leave(&mut self) {
        let Place { segment: number, offset } = self.place;
        let bytes = offset - self.buffer.len() as u64;
        if let Some(file) = self.file.take() {
            // Where that fails, readers find the damaged end.
            let _ = file.set_len(bytes);
        }
        // One that has nothing is begun again: a disk that stays full makes no row of them.
        if bytes > MAGIC.len() as u64 {
            self.complete.push(Segment { number, path: self.path(number), span: self.span, bytes });
            self.place.segment = number + 1;
        }
        self.drop_buffer();
    }

    /// Gives up what is in the buffer, of a segment without anything else.
    fn drop_buffer(&mut self) {
        self.lost += std::mem::take(&mut self.buffered);
        self.buffer.clear();
        self.place.offset = MAGIC.len() as u64;
        self.span = Span::EMPTY;
    }

    /// Whatever is written from now on fails.
    #[cfg(test)]
    pub(crate) fn break_file(&mut self) {
        self.file = OpenOptions::new().write(true).open("/dev/full").ok();
    }

    /// Puts all that was appended on the disk, and begins a new segment where this one is full.
    ///
    /// # Errors
    /// The disk is full or broken. What was appended since the last time is counted as lost; it was judged all the same.
    pub fn sync(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        let mut write = || {
            self.flush()?;
            if let Some(file) = &self.file {
                file.sync_data()?;
            }
            if self.place.offset >= self.segment_bytes {
                self.turn()?;
            }
            Ok(())
        };
        let written: io::Result<()> = write();
        // Tried again also where nothing more is appended.
        self.is_dirty = written.is_err();
        written.map_err(|error| failed(&self.folder, &error))
    }

    /// Ends the segment and begins the next.
    fn turn(&mut self) -> io::Result<()> {
        let span = self.span;
        self.place.offset += record::write(&RecordRef::End(span), &mut self.buffer) as u64;
        self.flush()?;
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        self.file = None;
        let Place { segment: number, offset: bytes } = self.place;
        self.complete.push(Segment { number, path: self.path(number), span, bytes });
        self.place = Place { segment: number + 1, offset: MAGIC.len() as u64 };
        self.span = Span::EMPTY;
        self.begin()
    }

    /// Begins the file of the segment.
    fn begin(&mut self) -> io::Result<()> {
        let path = self.path(self.place.segment);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(MAGIC)?;
        file.sync_data()?;
        File::open(&self.folder)?.sync_data()?;
        self.file = Some(file);
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("log-{number:08}"))
    }

    /// Deletes segments whose events are all before `oldest_ns`, and then the oldest ones until all take `most` bytes at
    /// most; returns how many of these. The segment that is written stays.
    pub fn prune(&mut self, oldest_ns: i64, most: u64) -> u64 {
        let gone = |segment: &Segment| fs::remove_file(&segment.path).is_ok();
        self.complete.retain(|segment| segment.span.last_ns >= oldest_ns || !gone(segment));
        let (mut bytes, mut cut) = (self.bytes(), 0);
        self.complete.retain(|segment| {
            if bytes <= most || !gone(segment) {
                return true;
            }
            bytes -= segment.bytes;
            cut += 1;
            false
        });
        cut
    }

    /// Reads what has events from `oldest_ns` on, and all that was written later. What is in the buffer is written first.
    pub fn read_from(&mut self, oldest_ns: i64) -> Reader {
        self.read(|segment| segment.span.last_ns >= oldest_ns)
    }

    /// The same, and all segments from this one on, whatever the times of their events.
    pub fn read_from_segment(&mut self, oldest_ns: i64, number: u64) -> Reader {
        self.read(|segment| segment.span.last_ns >= oldest_ns || segment.number >= number)
    }

    /// Reads the segments that have events in this time, both ends within; others of theirs come too.
    pub fn read_between(&mut self, from_ns: i64, to_ns: i64) -> Reader {
        self.read(|segment| segment.span.last_ns >= from_ns && segment.span.first_ns <= to_ns)
    }

    fn read(&mut self, is_wanted: impl Fn(&Segment) -> bool) -> Reader {
        let _ = self.flush();
        let wanted = self.complete.iter().filter(|segment| is_wanted(segment));
        let mut paths: Vec<(u64, PathBuf)> = wanted.map(|segment| (segment.number, segment.path.clone())).collect();
        paths.push((self.place.segment, self.path(self.place.segment)));
        Reader::new(paths)
    }
}

fn failed(folder: &Path, error: &io::Error) -> Error {
    Error::os("write the log in", folder.display().to_string(), error)
        .way_out("make room on the disk, or name another --store")
}

/// Reads the log of a folder that another process may write to, beside it.
///
/// # Errors
/// The folder can't be read.
pub fn read_beside(folder: &Path) -> Result<Reader> {
    let entries =
        fs::read_dir(folder).map_err(|error| Error::os("read the log in", folder.display().to_string(), &error))?;
    let mut paths: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.strip_prefix("log-")?.parse().ok()?, entry.path()))
        })
        .collect();
    paths.sort();
    Ok(Reader::new(paths))
}

#[cfg(test)]
mod tests;
