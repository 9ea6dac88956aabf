//! The store: notifications as they came, and alarms, in one SQLite database in a directory of its own.
//!
//! Owns opening and locking it, and what is kept beside notifications and alarms. A job that [`Store::write`] took is on the disk
//! (write-ahead log, synced at each commit). One process writes alarms; others read, and leave their requests in `request`.
//! Its layout is `schema`'s, transactions are `write`'s, questions `query`'s, deleting is `retention`'s.

mod incident;
mod job;
mod operators;
mod outbox;
mod query;
mod retention;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::{FsFlags, statvfs};
use ringtap::{Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension};

pub use incident::{CauseFound, IncidentChanges, StoredIncident, StoredMember};
pub use job::{Answer, Job, Kind, Part, Place, Row};
pub use query::Stored;
pub use retention::{Now, Retention};
use schema::{VERSION, layout, wrong_layout};

/// Pages that SQLite keeps in memory, in KiB: the alarms of a large network, which a storm changes in any order.
const CACHE_KIB: i64 = 16 << 10;
const DATABASE: &str = "ringtap-trap.db";
/// Room on the disk for deleting when there is no other.
const RESERVE: &str = "reserve";
const RESERVE_BYTES: usize = 512 << 10;
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(5);

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    directory: PathBuf,
    /// For retention, once it was asked for.
    age: Option<retention::AgeClock>,
    /// Whether anything is ever deleted.
    is_limited: bool,
    /// So many may wait to be posted.
    most_announcements: u64,
    /// Held by the one that writes.
    _lock: Option<Flock<File>>,
}

impl Store {
    /// Opens the store for writing; makes it if need be, readable by its owner only.
    ///
    /// # Errors
    /// Another process writes to it, it can't be made or opened, or a later version made it.
    pub fn open(directory: &Path) -> Result<Self> {
        let name = directory.display().to_string();
        let failed = |error: std::io::Error| Error::os("open the store", &name, &error);
        if directory.exists() && !directory.is_dir() {
            return Err(Error::failed("open the store", &name, "it is no folder").way_out("name a folder for it alone"));
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| failed(error).way_out("name a folder that you may make and write to"))?;
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join("lock"))
            .map_err(failed)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::failed("open the store", &name, "another process writes to it")
                .way_out("stop the other `ringtap trap`, or give each a --store of its own")
        })?;
        let path = directory.join(DATABASE);
        let is_new = !path.exists();
        if is_new {
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(failed)?;
        }
        let wrong = |error: rusqlite::Error| explain("open the store", directory, &error, FREE_SPACE);
        let connection = Connection::open(&path).map_err(wrong)?;
        connection.busy_timeout(BUSY).map_err(wrong)?;
        if is_new {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(wrong)?;
        }
        connection.pragma_update(None, "journal_mode", "WAL").map_err(wrong)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(wrong)?;
        // Nothing outside the store's folder is written: the station has no right to.
        connection.pragma_update(None, "temp_store", "MEMORY").map_err(wrong)?;
        connection.pragma_update(None, "wal_autocheckpoint", 8192).map_err(wrong)?;
        let version = layout(&connection).map_err(wrong)?;
        let Some(change) = schema::change_from(version) else {
            return Err(wrong_layout(&name, version).way_out("move the directory away and begin a new store"));
        };
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(wrong)?;
        connection.execute_batch(&change).map_err(wrong)?;
        connection.execute_batch(incident::TABLES).map_err(wrong)?;
        Ok(Self::with(connection, directory, Some(lock)))
    }

    /// Opens the store beside a process that writes to it. One of the layout before is brought to this one first, if nobody writes to it.
    ///
    /// # Errors
    /// There is none, it can't be opened, or a process of another version writes to it.
    pub fn open_beside(directory: &Path) -> Result<Self> {
        let name = directory.display().to_string();
        let path = directory.join(DATABASE);
        // What may not be looked at is not absent.
        if let Err(error) = path.metadata()
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Err(Error::os("open the store", &name, &error).way_out("run as the user who owns it"));
        }
        if !path.is_file() {
            return Err(Error::failed("open the store", &name, "there is no store")
                .way_out("name the directory that `ringtap trap --store` writes to"));
        }
        let wrong = |error: rusqlite::Error| explain("open the store", directory, &error, FREE_SPACE);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
        connection.busy_timeout(BUSY).map_err(wrong)?;
        // A page's thread is as confined as the station.
        connection.pragma_update(None, "temp_store", "MEMORY").map_err(wrong)?;
        let version = layout(&connection).map_err(wrong)?;
        if version != VERSION && Self::open(directory).is_err() {
            return Err(
                wrong_layout(&name, version).way_out("use the version of Ringtap that writes to it, or stop that")
            );
        }
        Ok(Self::with(connection, directory, None))
    }

    fn with(connection: Connection, directory: &Path, lock: Option<Flock<File>>) -> Self {
        let most_announcements = outbox::most(Retention::default());
        let directory = directory.to_owned();
        Self { connection, directory, age: None, is_limited: false, most_announcements, _lock: lock }
    }

    /// Its folder.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn wrong(&self, operation: &str, error: &rusqlite::Error) -> Error {
        explain(operation, &self.directory, error, FREE_SPACE)
    }

    /// Writes a job whole, or not at all. When it returns, it is on the disk.
    ///
    /// # Errors
    /// The disk is full or broken; the job can be tried again.
    pub fn write(&mut self, job: &Job) -> Result<()> {
        let when_full = if self.is_limited {
            "free some space; what arrives meanwhile waits in the spool"
        } else {
            "free some space, or start with --keep or --keep-size; what arrives meanwhile waits in the spool"
        };
        write::write(&mut self.connection, job, self.most_announcements)
            .map_err(|error| explain("write to the store", &self.directory, &error, when_full))
    }

    /// Whether this folder has a store of a station.
    #[must_use]
    pub fn is_in(directory: &Path) -> bool {
        directory.join(DATABASE).is_file()
    }

    /// A word kept beside the notifications.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn meta(&self, name: &str) -> Result<Option<String>> {
        self.connection
            .query_row("SELECT value FROM meta WHERE name = ?", [name], |row| row.get(0))
            .optional()
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// Sets it.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        self.connection
            .execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, value])
            .map(drop)
            .map_err(|error| self.wrong("write to the store", &error))
    }

    /// Says whether something is deleted when it is too old or too much: then that is no way out of a full disk.
    pub fn limit(&mut self, retention: Retention) {
        self.is_limited = retention != Retention::default();
        self.most_announcements = outbox::most(retention);
    }

    /// Deletes what is too old or too much, a bounded part at a time; whether there may be more to do.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn prune(&mut self, retention: Retention, now: Now) -> Result<bool> {
        retention::prune(&self.connection, &mut self.age, retention, now, retention::PRUNE_ROWS)
            .map_err(|error| self.wrong("clean up the store", &error))
    }

    /// Deletes closed incidents whose alarms are all gone.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn prune_incidents(&self) -> Result<()> {
        incident::prune(&self.connection).map_err(|error| self.wrong("clean up the store", &error))
    }

    /// While nothing can be written because the disk is full: deletes what is too old or too much, in room that was set aside for that. Its
    /// pages take what comes; whether something was deleted. While nothing is too old or too much the room stays set aside.
    ///
    /// # Errors
    /// Not even that can be written.
    pub fn make_room(&mut self, retention: Retention, now: Now) -> Result<bool> {
        let is_due = retention::is_due(&self.connection, &mut self.age, retention, now);
        if !is_due.map_err(|error| self.wrong("clean up the store", &error))? {
            return Ok(false);
        }
        let before = self.notification_count()?;
        let _ = std::fs::remove_file(self.directory.join(RESERVE));
        let checkpoint = |connection: &Connection| {
            // Its answer says how far it came; a log that begins anew needs no more room.
            connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
        };
        let mut work = || -> rusqlite::Result<()> {
            checkpoint(&self.connection)?;
            while retention::prune(&self.connection, &mut self.age, retention, now, retention::FEW_ROWS)? {
                checkpoint(&self.connection)?;
            }
            checkpoint(&self.connection)
        };
        let done = work();
        let was_deleted = self.notification_count()? < before;
        done.map(|()| was_deleted).map_err(|error| self.wrong("clean up the store", &error))
    }

    /// Sets the room aside that [`Store::make_room`] needs, if it is not there; without it that still works where the log has room.
    pub fn keep_reserve(&self) {
        let path = self.directory.join(RESERVE);
        if path.metadata().is_ok_and(|found| found.len() == RESERVE_BYTES as u64) {
            return;
        }
        let made = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path);
        if made.and_then(|mut file| file.write_all(&vec![0; RESERVE_BYTES])).is_err() {
            let _ = std::fs::remove_file(&path);
        }
    }

    /// Bytes of the database that are in use.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn used_bytes(&self) -> Result<u64> {
        retention::used_bytes(&self.connection).map_err(|error| self.wrong("read the store", &error))
    }
}

const FREE_SPACE: &str = "free some space";
/// What SQLite needs at least to open a store.
const ROOM: u64 = 64 << 10;

/// SQLite's word on a store in `directory`. Where that is only that reading or writing failed, the file system is asked why.
fn explain(operation: &str, directory: &Path, error: &rusqlite::Error, when_full: &str) -> Error {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly, SystemIoFailure,
    };
    let object = directory.display().to_string();
    let failed = |cause: String, way_out: &str| Error::failed(operation, &object, cause).way_out(way_out);
    let code = error.sqlite_error_code();
    if let Some(SystemIoFailure | CannotOpen | ReadOnly) = code
        && let Ok(disk) = statvfs(directory)
    {
        if disk.flags().contains(FsFlags::ST_RDONLY) {
            let way_out = "mount it for writing, or copy the store to where it can be written";
            return failed(format!("it is on a file system that is mounted read-only ({error})"), way_out);
        }
        if disk.blocks_available() * disk.fragment_size() < ROOM {
            return failed(format!("the disk is full ({error})"), when_full);
        }
    }
    match code {
        Some(DiskFull) => failed(error.to_string(), when_full),
        Some(NotADatabase | DatabaseCorrupt) => {
            let way_out = "stop the station, move the directory away and start it again: it begins a new store";
            failed(error.to_string(), way_out)
        }
        Some(PermissionDenied | CannotOpen | ReadOnly) => failed(error.to_string(), "run as its owner"),
        _ => Error::failed(operation, object, error),
    }
}
