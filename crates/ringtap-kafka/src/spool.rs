//! Owns: what waits for a broker, in files: appended at one end, read and taken away at the other, within a bound. It is there after a
//! crash of the process; of a power cut what the kernel had not written yet is lost.
//! Does not: send, or know what is in a record.
//!
//! `spool-NNNNNNNN` has records: length of what follows the checksum (4 bytes, little endian), CRC-32C of that, time in ms (8), length
//! of the key (2), key, value. `state` says how far they were sent ([`State`]), in two slots that are written in turn, in place: neither
//! a crash nor a full disk leaves none. `lock` is held by the process that has them.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use ringtap::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a file before the next one begins.
const SEGMENT: u64 = 8 << 20;
/// Length and checksum.
const HEAD: usize = 8;
/// Time and length of the key.
const BODY: usize = 10;
/// No record is longer.
const MOST: usize = 2 << 20;

/// A place in the spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Number of the file.
    pub(crate) segment: u64,
    /// Offset in it.
    pub(crate) offset: u64,
}

/// How far the spool was sent, and as whom: kept, so that what was on its way when the process died is not taken twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Whose partitions are meant.
    pub(crate) topic: String,
    /// Identity at the cluster, if it gave one.
    pub(crate) producer: Option<(i64, i16)>,
    /// Next number of each partition.
    pub(crate) next: Vec<i32>,
    /// All before this was taken.
    pub(crate) done: Place,
    /// What was sent and perhaps taken ends here; it was cut in partitions as many as `next` had.
    pub(crate) sent: Option<Place>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) time_ms: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The end that is appended to, and the files.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    /// Number and bytes of each file, the oldest first; the last is the one that is written.
    segments: VecDeque<(u64, u64)>,
    file: File,
    most: u64,
    _lock: Flock<File>,
}

impl Spool {
    /// Opens the spool of a folder, which is made if need be, readable by its owner alone; and how far it was sent.
    ///
    /// # Errors
    /// The folder can't be used, another process has it, or what waits there is for another topic.
    pub(crate) fn open(folder: &Path, most: u64, topic: &str) -> Result<(Self, Slots, State)> {
        let name = folder.display().to_string();
        let failed = |error: io::Error| {
            Error::os("keep what waits for Kafka in", &name, &error).way_out("name another folder for the spool")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = private(&folder.join("lock")).map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::failed("keep what waits for Kafka in", &name, "another process uses the folder")
                .way_out("give each a spool of its own")
        })?;
        let (mut slots, state) = Slots::open(folder, topic).map_err(failed)?;
        let mut segments = segments(folder).map_err(failed)?;
        let number = segments.back().map_or(state.done.segment.max(1), |(number, _)| *number);
        if segments.is_empty() {
            segments.push_back((number, 0));
        }
        let path = path(folder, number);
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
        let sound = sound(&path).map_err(failed)?;
        file.set_len(sound).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        if let Some(last) = segments.back_mut() {
            last.1 = sound;
        }
        let mut this = Self { folder: folder.to_owned(), segments, file, most, _lock: lock };
        let mut state = state;
        // Files that are gone hold nothing that waits.
        state.done = state.done.max(Place { segment: this.segments.front().map_or(1, |first| first.0), offset: 0 });
        if state.sent.unwrap_or(state.done) > this.end() {
            // After a power cut the end may be gone of what was sent. Its numbers are the broker's: what comes in its place has others.
            state = State { topic: state.topic, done: state.done.min(this.end()), ..State::default() };
            slots.keep(&state).map_err(failed)?;
        }
        this.forget(state.done);
        if state.topic != topic {
            if this.waiting(state.done) > 0 && !state.topic.is_empty() {
                let cause = format!("what waits there is for the topic {}", state.topic);
                return Err(Error::failed("keep what waits for Kafka in", &name, cause)
                    .way_out("write to that topic until it is sent, or name another folder for the spool"));
            }
            state = State { topic: topic.to_owned(), done: state.done, ..State::default() };
        }
        Ok((this, slots, state))
    }

    /// Bytes that wait behind a place.
    pub(crate) fn waiting(&self, done: Place) -> u64 {
        let first = self.segments.front().filter(|(number, _)| *number == done.segment);
        self.bytes() - first.map_or(0, |(_, bytes)| done.offset.min(*bytes))
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether `more` bytes fit beside what is there.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.bytes() + more as u64 <= self.most
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> Place {
        let (segment, offset) = self.segments.back().copied().unwrap_or((1, 0));
        Place { segment, offset }
    }

    /// Appends records that [`record`] has made.
    ///
    /// # Errors
    /// The disk is full or broken: none of them is there.
    pub(crate) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let Place { segment, offset } = self.end();
        if offset >= SEGMENT {
            let number = segment + 1;
            self.file = OpenOptions::new().create(true).append(true).mode(0o600).open(path(&self.folder, number))?;
            self.segments.push_back((number, 0));
            return self.append(records);
        }
        if let Err(error) = self.file.write_all(records) {
            self.file.set_len(offset)?;
            return Err(error);
        }
        if let Some(last) = self.segments.back_mut() {
            last.1 += records.len() as u64;
        }
        Ok(())
    }

    /// Takes files away that were sent whole.
    pub(crate) fn forget(&mut self, done: Place) {
        while self.segments.len() > 1
            && let Some((number, _)) = self.segments.front().copied().filter(|(number, _)| *number < done.segment)
        {
            // What can't be removed is found sent at the next start.
            let _ = fs::remove_file(path(&self.folder, number));
            self.segments.pop_front();
        }
    }

    /// The file behind that of a place, if there is one: what can't be read in a file that is written no more is its end.
    pub(crate) fn after(&self, place: Place) -> Option<Place> {
        let next = self.segments.iter().find(|(number, _)| *number > place.segment)?;
        Some(Place { segment: next.0, offset: 0 })
    }
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("spool-{number:08}"))
}

/// Number and bytes of each file.
fn segments(folder: &Path) -> io::Result<VecDeque<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("spool-")?.parse().ok());
        if let Some(number) = number {
            found.push((number, entry.metadata()?.len()));
        }
    }
    found.sort_unstable();
    Ok(found.into())
}

/// How many bytes of a file are whole records.
fn sound(path: &Path) -> io::Result<u64> {
    let mut reader = Reader::open(path, 0)?;
    while reader.next()?.is_some() {}
    Ok(reader.offset)
}

/// The file of the [`State`]: two slots, each with a number (8 bytes), the length of the JSON text behind it (4) and the checksum of that
/// (4), little endian.
#[derive(Debug)]
pub(crate) struct Slots {
    file: File,
    /// Number of the next one that is written.
    next: u64,
}

const SLOT: usize = 64 << 10;
const SLOT_HEAD: usize = 16;

impl Slots {
    /// Opens the file; what it says. One that is damaged, or not there, begins anew.
    fn open(folder: &Path, topic: &str) -> io::Result<(Self, State)> {
        let path = folder.join("state");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut content = vec![0; 2 * SLOT];
        let is_whole = file.read_exact_at(&mut content, 0).is_ok();
        let newest = content.chunks_exact(SLOT).filter_map(slot).max_by_key(|(number, _)| *number);
        if !is_whole {
            // It has its blocks from now on.
            file.write_all_at(&vec![0; 2 * SLOT], 0)?;
        }
        let (last, state) = newest.unwrap_or_else(|| (0, State { topic: topic.to_owned(), ..State::default() }));
        Ok((Self { file, next: last + 1 }, state))
    }

    /// Keeps how far it was sent: the one before or this one is there, whenever the process dies.
    ///
    /// # Errors
    /// The disk is broken; the one before is there.
    pub(crate) fn keep(&mut self, state: &State) -> io::Result<()> {
        let text = serde_json::to_string(state)?;
        let mut slot = self.next.to_le_bytes().to_vec();
        slot.extend((text.len() as u32).to_le_bytes());
        slot.extend(crc32c::crc32c(text.as_bytes()).to_le_bytes());
        slot.extend(text.as_bytes());
        if slot.len() > SLOT {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the topic has too many partitions"));
        }
        self.file.write_all_at(&slot, self.next % 2 * SLOT as u64)?;
        self.next += 1;
        Ok(())
    }
}

fn slot(bytes: &[u8]) -> Option<(u64, State)> {
    let (head, rest) = bytes.split_first_chunk::<SLOT_HEAD>()?;
    let [a, b, c, d, e, f, g, h, len @ .., i, j, k, l] = *head;
    let text = rest.get(..u32::from_le_bytes(len) as usize)?;
    if crc32c::crc32c(text) != u32::from_le_bytes([i, j, k, l]) {
        return None;
    }
    Some((u64::from_le_bytes([a, b, c, d, e, f, g, h]), serde_json::from_slice(text).ok()?))
}

/// Appends a record to `into`; false: it is too long.
pub(crate) fn record(time_ms: i64, key: &[u8], value: &[u8], into: &mut Vec<u8>) -> bool {
    let len = BODY + key.len() + value.len();
    let Ok(key_len) = u16::try_from(key.len()) else { return false };
    if len > MOST {
        return false;
    }
    let start = into.len();
    into.extend_from_slice(&(len as u32).to_le_bytes());
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&time_ms.to_le_bytes());
    into.extend_from_slice(&key_len.to_le_bytes());
    into.extend_from_slice(key);
    into.extend_from_slice(value);
    let sum = crc32c::crc32c(&into[start + HEAD..]);
    into[start + 4..start + HEAD].copy_from_slice(&sum.to_le_bytes());
    true
}

/// Reads one file.
pub(crate) struct Reader {
    file: BufReader<File>,
    /// Of the next record.
    pub(crate) offset: u64,
}

impl Reader {
    /// From this offset on.
    pub(crate) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file: BufReader::with_capacity(64 << 10, file), offset })
    }

    /// The same of a place in a folder.
    pub(crate) fn at(folder: &Path, place: Place) -> io::Result<Self> {
        Self::open(&path(folder, place.segment), place.offset)
    }

    /// The next record; `None`: there is none that is whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<Kept>> {
        let mut head = [0; HEAD];
        match self.file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [a, b, c, d, sum @ ..] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if !(BODY..=MOST).contains(&len) {
            return Ok(None);
        }
        let mut content = vec![0; len];
        match self.file.read_exact(&mut content) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        if crc32c::crc32c(&content) != u32::from_le_bytes(sum) {
            return Ok(None);
        }
        let Some((time, rest)) = content.split_first_chunk::<8>() else { return Ok(None) };
        let Some((key_len, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
        let Some((key, value)) = rest.split_at_checked(u16::from_le_bytes(*key_len).into()) else { return Ok(None) };
        self.offset += (HEAD + len) as u64;
        Ok(Some(Kept { time_ms: i64::from_le_bytes(*time), key: key.to_vec(), value: value.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(from: u64, to: u64, bytes: usize) -> Vec<u8> {
        let mut into = Vec::new();
        for number in from..to {
            let value = format!("{number:0>bytes$}");
            assert!(record(number as i64, b"key", value.as_bytes(), &mut into));
        }
        into
    }

    /// All records from a place on, as whoever sends them reads them.
    fn read(spool: &Spool, mut place: Place) -> Vec<i64> {
        let mut times = Vec::new();
        loop {
            let mut reader = Reader::at(&spool.folder, place).unwrap();
            while let Some(kept) = reader.next().unwrap() {
                times.push(kept.time_ms);
            }
            place.offset = reader.offset;
            match spool.after(place) {
                Some(next) => place = next,
                None => return times,
            }
        }
    }

    #[test]
    fn what_waits_is_there_after_a_crash_in_its_order_and_goes_when_it_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Spool::open(folder.path(), 1 << 30, "t");
        let (mut spool, _, state) = open().unwrap();
        assert!(open().unwrap_err().to_string().contains("another process uses the folder"));
        for number in 0..20 {
            spool.append(&records(number * 1000, (number + 1) * 1000, 1000)).unwrap();
        }
        assert_eq!(spool.segments.len(), 3, "{:?}", spool.segments);
        assert_eq!(read(&spool, state.done), (0..20_000).collect::<Vec<_>>());
        // The last write was cut off.
        let last = path(folder.path(), spool.end().segment);
        drop(spool);
        let mut torn = OpenOptions::new().append(true).open(&last).unwrap();
        torn.write_all(&records(0, 1, 100)[..50]).unwrap();
        let (mut spool, mut slots, mut state) = open().unwrap();
        spool.append(&records(20_000, 20_001, 10)).unwrap();
        assert_eq!(read(&spool, state.done), (0..20_001).collect::<Vec<_>>());
        state.done = Place { segment: 2, offset: 0 };
        slots.keep(&state).unwrap();
        spool.forget(state.done);
        assert!(!path(folder.path(), 1).exists() && spool.segments.len() == 2);
        drop(spool);
        let (spool, _, state) = open().unwrap();
        assert_eq!((state.done.segment, spool.waiting(state.done)), (2, spool.bytes()));
        drop(spool);
        let other = Spool::open(folder.path(), 1 << 30, "u").unwrap_err().to_string();
        assert!(other.contains("for the topic t"), "{other}");
    }

    #[test]
    fn a_state_that_is_damaged_begins_anew_and_the_bound_holds() {
        let folder = tempfile::tempdir().unwrap();
        let (mut spool, ..) = Spool::open(folder.path(), 5000, "t").unwrap();
        let one = records(0, 1, 1000);
        let mut fits = 0;
        while spool.has_room(one.len()) {
            spool.append(&one).unwrap();
            fits += 1;
        }
        assert_eq!(fits, 4);
        fs::write(folder.path().join("state"), "{").unwrap();
        drop(spool);
        let (spool, _, state) = Spool::open(folder.path(), 5000, "t").unwrap();
        assert_eq!((state.producer, state.done), (None, Place { segment: 1, offset: 0 }));
        assert_eq!(read(&spool, state.done).len(), 4);
        assert!(!record(0, &[0; 70_000], b"", &mut Vec::new()) && !record(0, b"", &vec![0; MOST], &mut Vec::new()));
    }

    #[test]
    fn of_two_slots_one_is_always_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let open = || Slots::open(folder.path(), "t").unwrap();
        let (mut slots, first) = open();
        assert_eq!(first, State { topic: "t".into(), ..State::default() });
        let blocks = fs::metadata(&path).unwrap().len();
        let state = |number: i32| State { topic: "t".into(), next: vec![number; 4096], ..State::default() };
        for number in 1..6 {
            slots.keep(&state(number)).unwrap();
            assert_eq!(open().1, state(number));
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), blocks, "in place");
        // The last write was torn: the one before counts, and the next one is newer than both.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"torn", SLOT as u64 + 100).unwrap();
        let (mut slots, kept) = open();
        assert_eq!(kept, state(4));
        slots.keep(&state(6)).unwrap();
        assert_eq!(open().1, state(6));
        assert!(slots.keep(&State { next: vec![i32::MAX; 6000], ..State::default() }).is_err());
        assert_eq!(open().1, state(6));
    }

    #[test]
    fn what_a_power_cut_took_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Spool::open(folder.path(), 1 << 30, "t").unwrap();
        let (mut spool, mut slots, mut state) = open();
        spool.append(&records(0, 100, 100)).unwrap();
        let end = spool.end();
        let file = path(folder.path(), 1);
        state.producer = Some((7, 0));
        state.next = vec![100];
        drop(spool);
        for (done, sent) in
            [(end, None), (Place { segment: 1, offset: 0 }, Some(end)), (Place { segment: 3, offset: 50 }, None)]
        {
            slots.keep(&State { done, sent, ..state.clone() }).unwrap();
            let whole = fs::read(&file).unwrap();
            File::options().write(true).open(&file).unwrap().set_len(whole.len() as u64 / 2).unwrap();
            let (mut spool, _, now) = open();
            assert_eq!((now.producer, now.sent), (None, None), "{done:?} {sent:?}");
            assert!(now.done <= spool.end() && spool.waiting(now.done) <= spool.bytes());
            let before = read(&spool, now.done).len();
            spool.append(&records(100, 102, 100)).unwrap();
            assert_eq!(read(&spool, now.done).len(), before + 2, "what comes is sent");
            drop(spool);
            fs::write(&file, &whole).unwrap();
        }
    }
}
