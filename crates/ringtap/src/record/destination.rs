//! The files of a recording: how they are named, created and, when there are too many, deleted.
//!
//! Owns paths and the rotation's list of files. It knows nothing of what is written into them.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::sync::{self, Syncer};
use super::{Format, RecordConfig, Target, without_zst};
use crate::error::{Error, Result};
use crate::sys::disk;

/// Captures hold what others said: for the owner's eyes only.
const MODE: u32 = 0o600;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    /// What an error calls it.
    pub(super) object: String,
    /// Whether it can be cut back to the last whole block after a failed write, and synced: a regular file, not a pipe or
    /// device.
    pub(super) is_regular: bool,
    path: Option<PathBuf>,
}

/// Which file it is, whatever it is called: device and inode.
pub(super) type Identity = (u64, u64);

impl OpenFile {
    /// The path of a regular file, and which file it is.
    pub(super) fn identity(&self) -> Option<(&Path, Identity)> {
        let path = self.path.as_deref().filter(|_| self.is_regular)?;
        self.file.metadata().ok().map(|metadata| (path, (metadata.dev(), metadata.ino())))
    }

    /// Has a finished file synced.
    pub(super) fn retire(self, syncer: &mut Syncer) {
        if let Some(path) = self.path.filter(|_| self.is_regular) {
            syncer.take(self.file, path);
        }
    }

    /// Syncs the last one.
    pub(super) fn sync(&self) -> Result<()> {
        match &self.path {
            Some(path) if self.is_regular => sync::sync(&self.file, path),
            _ => Ok(()),
        }
    }
}

/// Whether the path names another file now, or none.
pub(super) fn has_moved(path: &Path, identity: Identity) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) => (metadata.dev(), metadata.ino()) != identity,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Opens the files of one recording, one after another.
#[derive(Debug)]
pub(super) struct Destination {
    target: Target,
    format: Format,
    rotates: bool,
    keep: Option<usize>,
    min_free: Option<u64>,
    files: VecDeque<PathBuf>,
    number: u32,
    deleted: u64,
    /// The first file that should have been deleted and could not be.
    undeleted: Option<Error>,
}

impl Destination {
    pub(super) fn new(config: &RecordConfig) -> Self {
        Self {
            target: config.target.clone(),
            format: config.format,
            rotates: config.rotation.is_on(),
            keep: config.rotation.keep,
            min_free: config.min_free,
            files: VecDeque::new(),
            number: 0,
            deleted: 0,
            undeleted: None,
        }
    }

    /// Creates the next file; when enough are kept already, the oldest is deleted first. `wall_ns` goes into its name.
    pub(super) fn open(&mut self, wall_ns: u64) -> Result<OpenFile> {
        let path = match &self.target {
            Target::File(path) => path,
            Target::Stdout => return open_stdout(),
            Target::Clients => return open_nothing(),
        };
        let path = if self.rotates {
            self.number += 1;
            file_name(path, self.format, self.number, wall_ns)
        } else {
            path.clone()
        };
        self.make_room();
        let open_file = create(&path, self.rotates)?;
        if self.files.back() != Some(&path) {
            self.files.push_back(path);
        }
        Ok(open_file)
    }

    /// Deletes the oldest files until there is room for one more.
    fn make_room(&mut self) {
        while self.keep.is_some_and(|keep| self.files.len() >= keep) {
            self.delete_oldest();
        }
    }

    fn delete_oldest(&mut self) {
        let Some(oldest) = self.files.pop_front() else { return };
        match std::fs::remove_file(&oldest) {
            Ok(()) => self.deleted += 1,
            // Somebody moved it away, as one does with finished files.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                self.undeleted.get_or_insert_with(|| {
                    Error::os("delete", oldest.display().to_string(), &error)
                        .way_out("it stays, and so may later ones: delete them by hand")
                });
            }
        }
    }

    /// Makes sure that `more` bytes leave as much of the file system free as was asked for: of a recording that keeps a
    /// number of files the oldest go, but not the one being written.
    ///
    /// # Errors
    /// There is nothing left to delete.
    pub(super) fn leave_free(&mut self, more: u64, syncer: &mut Syncer) -> Result<()> {
        let (Some(min_free), Target::File(path)) = (self.min_free, self.target.clone()) else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let mut has_deleted = false;
        loop {
            // What can't be asked for is no reason to end; the write will tell.
            let Ok(free) = disk::free_bytes(&folder) else { return Ok(()) };
            if free >= min_free.saturating_add(more) {
                return Ok(());
            }
            // Being synced, a deleted file still takes its room.
            if has_deleted && syncer.settle() {
                continue;
            }
            if self.keep.is_none() || self.files.len() < 2 {
                let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                let (free, least) = (mib(free), mib(min_free));
                let cause = format!("{free:.1} MiB are free on its file system, and {least:.1} MiB shall stay free");
                return Err(Error::failed("write to", path.display().to_string(), cause).way_out(
                    "free some space, or lower --min-free; what was written is readable, the rest is counted as lost",
                ));
            }
            self.delete_oldest();
            has_deleted = true;
        }
    }

    /// Whether another file can be begun when one may not grow.
    pub(super) fn rotates(&self) -> bool {
        self.rotates
    }

    /// Files there are now, oldest first; how many were deleted; what could not be.
    pub(super) fn into_parts(self) -> (Vec<PathBuf>, u64, Option<Error>) {
        (self.files.into(), self.deleted, self.undeleted)
    }
}

/// Name of file `number` of a rotated recording into `path`, begun at `wall_ns` (nanoseconds since 1970):
/// `NAME_00001_20261121T101500Z.pcapng`, in UTC, and `.zst` behind it where the path has that. The first file bears the time of its creation, later ones that of their
/// first packet; the extension is the path's own, or the format's when it has none.
pub fn file_name(path: &Path, format: Format, number: u32, wall_ns: u64) -> PathBuf {
    let (path, is_zst) = without_zst(path);
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("_{number:05}_{}.", utc(wall_ns / 1_000_000_000)));
    match path.extension() {
        Some(extension) => name.push(extension),
        None => name.push(format.extension()),
    }
    if is_zst {
        name.push(".zst");
    }
    path.with_file_name(name)
}

/// Seconds since 1970 as `YYYYMMDDTHHMMSSZ` (ISO 8601, basic format).
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years counted from 1 March 0000 end with the leap day; 146,097 days are 400 years (Hinnant, "chrono-compatible
    // low-level date algorithms", civil_from_days).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

fn create(path: &Path, rotates: bool) -> Result<OpenFile> {
    let object = path.display().to_string();
    if path.is_dir() {
        return Err(Error::failed("create", object, "is a directory").way_out("name a file in it"));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(MODE);
    if rotates {
        // These names can be foretold: in a directory others may write to, a link must not lead us elsewhere.
        options.custom_flags(libc::O_NOFOLLOW);
    }
    let file = options.open(path).map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::NotFound => "create its directory first",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or write elsewhere",
            ErrorKind::NotADirectory => "a part of the path is a file: name a folder",
            _ => "write where you may",
        };
        Error::os("create", &object, &error).way_out(way_out)
    })?;
    let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_regular {
        // A file that was there keeps its mode when opened; somebody else's cannot be changed, and that is theirs to decide.
        let _ = file.set_permissions(Permissions::from_mode(MODE));
    }
    Ok(OpenFile { file, object, is_regular, path: Some(path.to_owned()) })
}

/// What takes all and keeps nothing.
fn open_nothing() -> Result<OpenFile> {
    const NOTHING: &str = "/dev/null";
    let file = OpenOptions::new().write(true).open(NOTHING);
    let file = file.map_err(|error| Error::os("open", NOTHING, &error).way_out("name a file to record into"))?;
    Ok(OpenFile { file, object: NOTHING.to_owned(), is_regular: false, path: None })
}

fn open_stdout() -> Result<OpenFile> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        return Err(Error::usage("record into", "standard output", "it is a terminal")
            .way_out("pipe it into a program, or name a file"));
    }
    let file = stdout
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::os("write to", "standard output", &error).way_out("open it, or name a file"))?;
    Ok(OpenFile { file: File::from(file), object: "standard output".to_owned(), is_regular: false, path: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_number_and_utc_time() {
        let name = |path: &str, seconds: u64| {
            let path = file_name(Path::new(path), Format::Pcapng, 1, seconds * 1_000_000_000);
            path.display().to_string()
        };
        assert_eq!(name("/d/cap.pcapng", 1_795_256_100), "/d/cap_00001_20261121T101500Z.pcapng");
        assert_eq!(name("/d/cap.pcap.zst", 0), "/d/cap_00001_19700101T000000Z.pcap.zst");
        assert_eq!(name("cap.zst", 0), "cap_00001_19700101T000000Z.pcapng.zst");
        assert_eq!(name("cap", 0), "cap_00001_19700101T000000Z.pcapng");
        assert_eq!(name("cap.x.pcap", 951_827_696), "cap.x_00001_20000229T123456Z.pcap");
        assert_eq!(name("cap", 4_107_542_399), "cap_00001_21000228T235959Z.pcapng");
        assert_eq!(name("cap", 4_107_542_400), "cap_00001_21000301T000000Z.pcapng");
    }
}
