//! Owns: reading segments: all their records, how far one is sound, which times it has.
//! Does not: write.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::record::{self, END_BYTES, HEAD, Record, Span};
use super::{MAGIC, Place};

/// The records of one file, up to the first that is damaged.
struct Records {
    file: BufReader<File>,
    offset: u64,
    content: Vec<u8>,
}

impl Records {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(256 << 10, File::open(path)?);
        let mut magic = [0; MAGIC.len()];
        let is_ours = file.read_exact(&mut magic).is_ok() && magic == *MAGIC;
        let offset = if is_ours { MAGIC.len() as u64 } else { 0 };
        Ok(Self { file, offset, content: Vec::new() })
    }

    fn next(&mut self) -> Option<Record> {
        if self.offset == 0 {
            return None;
        }
        let mut bytes = [0; HEAD];
        self.file.read_exact(&mut bytes).ok()?;
        let (len, sum) = record::head(&bytes)?;
        self.content.resize(len, 0);
        self.file.read_exact(&mut self.content).ok()?;
        let record = record::read(&self.content, sum)?;
        self.offset += (HEAD + len) as u64;
        Some(record)
    }
}

/// How many bytes of a segment are sound, and the times of their events.
pub(super) fn sound(path: &Path) -> io::Result<(u64, Span)> {
    let mut records = Records::open(path)?;
    let mut span = Span::EMPTY;
    while let Some(record) = records.next() {
        match record {
            Record::Event { event, .. } => span.add(event.mark.time_ns),
            // What a crash kept from going on: the segment goes on.
            Record::End(_)
            | Record::Watermark(_)
            | Record::Silence { .. }
            | Record::Sensor { .. }
            | Record::Read { .. }
            | Record::BeginsAgain { .. } => {}
        }
    }
    Ok((records.offset, span))
}

/// Length of a complete segment and the times of its events; true if it is damaged.
pub(super) fn span(path: &Path) -> io::Result<(u64, Span, bool)> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut end = [0; END_BYTES];
    if len >= END_BYTES as u64 {
        file.seek(SeekFrom::End(-(END_BYTES as i64)))?;
        file.read_exact(&mut end)?;
        if let Some((content, sum)) = end.first_chunk().and_then(record::head)
            && content == END_BYTES - HEAD
            && let Some(Record::End(span)) = record::read(&end[HEAD..], sum)
        {
            return Ok((len, span, false));
        }
    }
    let (sound, span) = sound(path)?;
    Ok((len, span, sound < len))
}

/// The records of several segments, one after the other.
pub struct Reader {
    paths: std::vec::IntoIter<(u64, PathBuf)>,
    now: Option<(u64, Records)>,
    bytes: u64,
}

impl Reader {
    pub(super) fn new(paths: Vec<(u64, PathBuf)>) -> Self {
        Self { paths: paths.into_iter(), now: None, bytes: 0 }
    }

    /// Bytes of the records that were read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Iterator for Reader {
    type Item = (Place, Record);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((segment, records)) = &mut self.now {
                let place = Place { segment: *segment, offset: records.offset };
                let record = records.next();
                self.bytes += records.offset - place.offset;
                match record {
                    Some(Record::End(_)) => {}
                    Some(record) => return Some((place, record)),
                    None => self.now = None,
                }
                continue;
            }
            let (segment, path) = self.paths.next()?;
            // One that retention has deleted meanwhile has nothing that is needed.
            self.now = Records::open(&path).ok().map(|records| (segment, records));
        }
    }
}
