//! Owns: incidents on the disk, in one SQLite database beside the log: what is written in a transaction, and how far the
//! log was judged by then.
//! Does not: hold events: members are references, and the log has their text as long as it reaches back.
//!
//! Everything is written by id, so that the same incident written again changes nothing.

mod query;
mod retention;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use ringtap::{Error, Result};
use ringtap_sigma::{Automaton, IncidentId, Member, Opened, Output, Rule, Version};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::correlator::Found;
use crate::engine::Known;
use crate::log::Place;
pub use query::{Incident, MemberRow};
pub use retention::Retention;

const DATABASE: &str = "ringtap-correlate.db";
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(5);
/// Of the schema below (PRAGMA user_version).
const VERSION: i64 = 1;
const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sensor (number INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE incident (
    id BLOB PRIMARY KEY, rule TEXT NOT NULL, title TEXT NOT NULL, level TEXT NOT NULL, version BLOB NOT NULL,
    key BLOB NOT NULL, key_names TEXT NOT NULL, announces INTEGER NOT NULL, opened_ns INTEGER NOT NULL,
    start_ns INTEGER NOT NULL, closed_ns INTEGER, order_proven INTEGER NOT NULL, timespan_proven INTEGER NOT NULL,
    late INTEGER NOT NULL, incomplete INTEGER NOT NULL, told INTEGER NOT NULL, matches INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX incident_time ON incident (opened_ns);
CREATE TABLE member (
    incident BLOB NOT NULL, time_ns INTEGER NOT NULL, sensor INTEGER NOT NULL, epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL, step INTEGER NOT NULL, via BLOB,
    PRIMARY KEY (incident, time_ns, sensor, epoch, sequence, step)) WITHOUT ROWID;
";

/// By this retention finds what may go.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS incident_closed ON incident (closed_ns)";

/// What goes into the store at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// Incidents that opened, went on or closed, in their order.
    pub outputs: Vec<(Output, Found)>,
    /// Incidents of rules that are used no longer, and when they closed, ns.
    pub removed: Vec<(IncidentId, i64)>,
    /// Members told and matches of incidents that went on.
    pub progress: BTreeMap<IncidentId, (u32, u64)>,
    /// Sensors by number.
    pub sensors: Vec<(u64, std::sync::Arc<str>)>,
}

impl Batch {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.removed.is_empty() && self.progress.is_empty() && self.sensors.is_empty()
    }
}

/// How far the log was judged when the store was written last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The watermark, ns: all that it made certain is in the store.
    pub watermark: i64,
    /// Late events in the log before this place were judged again.
    pub late: Place,
    /// The greatest event time, ns.
    pub greatest_ns: i64,
}

/// Which incidents are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of events in time: what states are built again from.
    InTime,
    /// Those of late events, too.
    Ever,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    folder: PathBuf,
    /// Held by the one that writes.
    _lock: Option<Flock<File>>,
}

impl Store {
    /// Opens the store for writing; makes it if need be, readable by its owner only.
    ///
    /// # Errors
    /// Another process writes to it, it can't be made or opened, or another version made it.
    pub fn open(folder: &Path) -> Result<Self> {
        let name = folder.display().to_string();
        let failed = |error: std::io::Error| Error::os("open the store", &name, &error);
        if folder.exists() && !folder.is_dir() {
            return Err(Error::failed("open the store", &name, "it is no folder").way_out("name a folder for it alone"));
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| failed(error).way_out("name a folder that you may make and write to"))?;
        let private = |path: PathBuf| {
            OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path).map_err(failed)
        };
        let lock = Flock::lock(private(folder.join("lock"))?, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::failed("open the store", &name, "another process writes to it")
                .way_out("stop the other `ringtap correlate`, or give each a --store of its own")
        })?;
        let path = folder.join(DATABASE);
        private(path.clone())?;
        let wrong = |error: rusqlite::Error| explain("open the store", &name, &error);
        let connection = Connection::open(path).map_err(wrong)?;
        connection.busy_timeout(BUSY).map_err(wrong)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(wrong)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(wrong)?;
        // Nothing outside the store's folder is written: a confined process has no right to.
        connection.pragma_update(None, "temp_store", "MEMORY").map_err(wrong)?;
        match version(&connection).map_err(wrong)? {
            0 => connection
                .execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"))
                .map_err(wrong)?,
            VERSION => {}
            other => return Err(other_version(&name, other)),
        }
        connection.execute_batch(INDEX).map_err(wrong)?;
        Ok(Self { connection, folder: folder.to_owned(), _lock: Some(lock) })
    }

    /// Opens the store beside a process that writes to it.
    ///
    /// # Errors
    /// There is none, or it can't be opened.
    pub fn open_beside(folder: &Path) -> Result<Self> {
        let name = folder.display().to_string();
        let path = folder.join(DATABASE);
        // What may not be looked at is not absent.
        if let Err(error) = path.metadata()
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Err(Error::os("open the store", &name, &error).way_out("run as the user who owns it"));
        }
        if !path.is_file() {
            return Err(Error::failed("open the store", &name, "there is no store of incidents")
                .way_out("name the directory that `ringtap correlate --store` writes to"));
        }
        let wrong = |error: rusqlite::Error| explain("open the store", &name, &error);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
        connection.busy_timeout(BUSY).map_err(wrong)?;
        // A page's thread is as confined as the correlator.
        connection.pragma_update(None, "temp_store", "MEMORY").map_err(wrong)?;
        match version(&connection).map_err(wrong)? {
            VERSION => Ok(Self { connection, folder: folder.to_owned(), _lock: None }),
            other => Err(other_version(&name, other)),
        }
    }

    /// The folder, which the log is in, too.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn wrong(&self, operation: &str, error: &rusqlite::Error) -> Error {
        explain(operation, &self.folder.display().to_string(), error)
    }

    /// How far the log was judged; `None` when nothing was.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn judged(&self) -> Result<Option<Judged>> {
        let text = self.meta("judged")?;
        Ok(text.and_then(|text| {
            let mut parts = text.split(' ');
            Some(Judged {
                watermark: parts.next()?.parse().ok()?,
                late: Place { segment: parts.next()?.parse().ok()?, offset: parts.next()?.parse().ok()? },
                greatest_ns: parts.next()?.parse().ok()?,
            })
        }))
    }

    fn meta(&self, name: &str) -> Result<Option<String>> {
        self.connection
            .query_row("SELECT value FROM meta WHERE name = ?", [name], |row| row.get(0))
            .optional()
            .map_err(|error| self.wrong("read", &error))
    }

    /// The offset that each stream which can be read again went on with when the store was written last.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn read_up_to(&self) -> Result<BTreeMap<u64, i64>> {
        let text = self.meta("read")?.unwrap_or_default();
        let one = |part: &str| {
            part.split_once(':').and_then(|(stream, next)| Some((stream.parse().ok()?, next.parse().ok()?)))
        };
        Ok(text.split(' ').filter_map(one).collect())
    }

    /// Writes a batch and how far it goes, whole or not at all.
    ///
    /// # Errors
    /// The disk is full or broken; the batch can be tried again.
    pub fn write(
        &mut self,
        automaton: &Automaton,
        batch: &Batch,
        judged: Judged,
        read_up_to: &BTreeMap<u64, i64>,
    ) -> Result<()> {
        let Judged { watermark, late: Place { segment, offset }, greatest_ns } = judged;
        let judged = format!("{watermark} {segment} {offset} {greatest_ns}");
        let folder = self.folder.display().to_string();
        let read = read_up_to.iter().map(|(stream, next)| format!("{stream}:{next}")).collect::<Vec<_>>().join(" ");
        write(&mut self.connection, automaton, batch, (&judged, &read))
            .map_err(|error| explain("write to the store", &folder, &error))
    }

    /// The incidents of each rule version and key that were open at `oldest_ns` or later.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn known(&self, oldest_ns: i64, found: Which) -> Result<KnownIncidents> {
        query::known(&self.connection, oldest_ns, found).map_err(|error| self.wrong("read", &error))
    }
}

fn write(
    connection: &mut Connection,
    automaton: &Automaton,
    batch: &Batch,
    (judged, read): (&str, &str),
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (output, found) in &batch.outputs {
        match output {
            Output::Opened(opened) => {
                let Some(rule) = automaton.rules().get(usize::from(opened.rule)) else { continue };
                open(&transaction, rule, opened, *found)?;
                members(&transaction, opened.id, &opened.members)?;
            }
            Output::Extended(it) => members(&transaction, it.id, &it.members)?,
            Output::Closed(it) => {
                transaction
                    .prepare_cached("UPDATE incident SET closed_ns = ?2, matches = max(matches, ?3) WHERE id = ?1")?
                    .execute(params![&it.id.0[..], it.at_ns, it.matches])?;
            }
            Output::Hit(_) | Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => {}
        }
    }
    for (id, at_ns) in &batch.removed {
        transaction
            .prepare_cached("UPDATE incident SET closed_ns = ?2 WHERE id = ?1 AND closed_ns IS NULL")?
            .execute(params![&id.0[..], at_ns])?;
    }
    for (id, (told, matches)) in &batch.progress {
        transaction
            .prepare_cached("UPDATE incident SET told = ?2, matches = max(matches, ?3) WHERE id = ?1")?
            .execute(params![&id.0[..], told, matches])?;
    }
    for (number, name) in &batch.sensors {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO sensor VALUES (?, ?)")?
            .execute(params![*number as i64, &**name])?;
    }
    let mut note = transaction.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?, ?)")?;
    note.execute(["judged", judged])?;
    if !read.is_empty() {
        note.execute(["read", read])?;
    }
    drop(note);
    transaction.commit()
}

fn open(connection: &Connection, rule: &Rule, it: &Opened, found: Found) -> rusqlite::Result<()> {
    let names = serde_json::to_string(&rule.group_by).unwrap_or_default();
    // One that is there is the same, or was closed by the end of a file and goes on.
    connection
        .prepare_cached(
            "INSERT INTO incident VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL, ?11, ?12, ?13, ?14, ?15, 0)
             ON CONFLICT (id) DO UPDATE SET closed_ns = NULL",
        )?
        .execute(params![
            &it.id.0[..],
            rule.head.label(),
            rule.head.title,
            rule.head.level.name(),
            &rule.version[..],
            it.key,
            names,
            rule.announces,
            it.at_ns,
            it.start_ns,
            !it.doubt.order,
            !it.doubt.timespan,
            found.late,
            found.incomplete,
            it.members.len() as u32,
        ])
        .map(drop)
}

fn members(connection: &Connection, id: IncidentId, members: &[Member]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO member VALUES (?, ?, ?, ?, ?, ?, ?)")?;
    for member in members {
        let identity = member.identity;
        insert.execute(params![
            &id.0[..],
            member.time_ns,
            identity.sensor as i64,
            identity.epoch as i64,
            identity.sequence as i64,
            member.place,
            member.via.map(|via| via.0.to_vec()),
        ])?;
    }
    Ok(())
}

/// What is known of one incident.
#[derive(Clone, Copy, Debug)]
struct Open {
    opened_ns: i64,
    closed_ns: i64,
    id: IncidentId,
    told: u32,
    matches: u64,
}

/// The incidents that a store knows of the last time.
#[derive(Debug, Default)]
pub struct KnownIncidents(HashMap<(Version, Vec<u8>), Vec<Open>>);

impl KnownIncidents {
    /// The incident of this rule and key that was open at some time from the first to the last event of a match.
    pub(crate) fn meets(&self, version: &Version, key: &[u8], start_ns: i64, at_ns: i64) -> Option<IncidentId> {
        let open = self.0.get(&(*version, key.to_vec()))?;
        open.iter().find(|it| it.opened_ns <= at_ns && start_ns < it.closed_ns).map(|it| it.id)
    }
}

impl Known for KnownIncidents {
    fn open_at(&self, version: &Version, key: &[u8], at_ns: i64) -> Option<(IncidentId, i64, u32, u64)> {
        let open = self.0.get(&(*version, key.to_vec()))?;
        let it = open.iter().find(|it| it.opened_ns <= at_ns && at_ns < it.closed_ns)?;
        Some((it.id, it.opened_ns, it.told, it.matches))
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn other_version(name: &str, version: i64) -> Error {
    let cause = format!("its layout {version} is of another version of Ringtap, this one has {VERSION}");
    Error::failed("open the store", name, cause).way_out("move the directory away and begin a new store")
}

fn explain(operation: &str, object: &str, error: &rusqlite::Error) -> Error {
    let error_is = error.sqlite_error_code();
    let error = Error::failed(operation, object, error);
    match error_is {
        Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure) => {
            error.way_out("make room, or mend the disk; the log has what is not stored yet")
        }
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            error.way_out("move the directory away and begin a new store")
        }
        Some(
            rusqlite::ErrorCode::PermissionDenied | rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly,
        ) => error.way_out("run as its owner"),
        _ => error,
    }
}
