//! The store: notifications as they came, and alarms, in one SQLite database in a directory of its own.
//!
//! Owns schema, transactions and queries. A batch that [`Store::write`] took is on the disk (write-ahead log,
//! synced at each commit). One process writes alarms; others read, and leave their wishes in `request`.

mod job;
mod retention;

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use ringtap::{Error, Result};
use ringtap_alarm::model::{Alarm, Classification, EventType, Judgement, Key, Severity};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::text;

pub use job::{Answer, Job, Kind, Row};
pub use retention::{Now, Retention};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notification (
    id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, source TEXT NOT NULL, kind INTEGER NOT NULL,
    alarm INTEGER, judgement INTEGER NOT NULL, penalty REAL, raw BLOB NOT NULL, decrypted BLOB);
CREATE TABLE IF NOT EXISTS alarm (
    id INTEGER PRIMARY KEY, resource TEXT NOT NULL, condition TEXT NOT NULL, object TEXT NOT NULL, severity TEXT NOT NULL,
    cleared INTEGER NOT NULL, count INTEGER NOT NULL, changes INTEGER NOT NULL, first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL, last_notification INTEGER NOT NULL, flapping INTEGER NOT NULL,
    penalty REAL NOT NULL, suppressed INTEGER NOT NULL, operator TEXT, event_type TEXT, probable_cause TEXT);
CREATE TABLE IF NOT EXISTS request (id INTEGER PRIMARY KEY, alarm INTEGER NOT NULL, operator TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, age_ns INTEGER NOT NULL);
";
/// Of the schema above (PRAGMA user_version).
const SCHEMA_VERSION: i64 = 3;
/// From the layout before: what X.733 says of alarms, which comes when they are raised again, and the marks of retention.
const FROM_2: &str = "
ALTER TABLE alarm ADD COLUMN event_type TEXT;
ALTER TABLE alarm ADD COLUMN probable_cause TEXT;
CREATE TABLE mark (id INTEGER PRIMARY KEY, age_ns INTEGER NOT NULL);
";
/// Pages that SQLite keeps in memory, in KiB: the alarms of a large network, which a storm changes in any order.
const CACHE_KIB: i64 = 16 << 10;
const DATABASE: &str = "ringtap-trap.db";
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(5);

/// A stored notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its number.
    pub id: u64,
    /// Arrival, nanoseconds since 1970.
    pub at_ns: u64,
    /// Its sender.
    pub source: String,
    /// How it came.
    pub kind: Kind,
    /// Its alarm's number.
    pub alarm: Option<u64>,
    /// What became of it.
    pub judgement: Judgement,
    /// Its bytes.
    pub raw: Vec<u8>,
    /// The decrypted scoped PDU.
    pub decrypted: Option<Vec<u8>>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    directory: PathBuf,
    /// For retention, once it was asked for.
    age: Option<retention::AgeClock>,
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
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
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
        let wrong = |error: rusqlite::Error| explain("open the store", &name, &error);
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
        let to_this = match version {
            0 | SCHEMA_VERSION => SCHEMA,
            2 => FROM_2,
            other => return Err(wrong_layout(&name, other).way_out("move the directory away and begin a new store")),
        };
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(wrong)?;
        // Whole or not at all, like everything here.
        let change = format!("BEGIN IMMEDIATE; {to_this} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;");
        connection.execute_batch(&change).map_err(wrong)?;
        Ok(Self { connection, directory: directory.to_owned(), age: None, _lock: Some(lock) })
    }

    /// Opens the store beside a process that writes to it. One of the layout before is brought to this one first, if nobody writes to it.
    ///
    /// # Errors
    /// There is none, it can't be opened, or a process of another version writes to it.
    pub fn open_beside(directory: &Path) -> Result<Self> {
        let name = directory.display().to_string();
        let path = directory.join(DATABASE);
        if !path.is_file() {
            return Err(Error::failed("open the store", &name, "there is no store")
                .way_out("name the directory that `ringtap trap --store` writes to"));
        }
        let wrong = |error: rusqlite::Error| explain("open the store", &name, &error);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(wrong)?;
        connection.busy_timeout(BUSY).map_err(wrong)?;
        let version = layout(&connection).map_err(wrong)?;
        if version != SCHEMA_VERSION && Self::open(directory).is_err() {
            return Err(
                wrong_layout(&name, version).way_out("use the version of Ringtap that writes to it, or stop that")
            );
        }
        Ok(Self { connection, directory: directory.to_owned(), age: None, _lock: None })
    }

    fn wrong(&self, operation: &str, error: &rusqlite::Error) -> Error {
        explain(operation, &self.directory.display().to_string(), error)
    }

    /// Writes a job whole, or not at all. When it returns, it is on the disk.
    ///
    /// # Errors
    /// The disk is full or broken; the job can be tried again.
    pub fn write(&mut self, job: &Job) -> Result<()> {
        write(&mut self.connection, job)
            .map_err(|error| explain("write to the store", &self.directory.display().to_string(), &error))
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

    /// The number of the latest notification; 0 when there is none.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn last_id(&self) -> Result<u64> {
        // Retention may have taken the last ones: meta remembers.
        let kept: u64 = self.meta("last_id")?.and_then(|text| text.parse().ok()).unwrap_or(0);
        let newest: Option<u64> = self
            .connection
            .query_row("SELECT max(id) FROM notification", [], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))?;
        Ok(kept.max(newest.unwrap_or(0)))
    }

    /// How many notifications there are.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn notification_count(&self) -> Result<u64> {
        self.connection
            .query_row("SELECT count(*) FROM notification", [], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// All alarms, by number.
    ///
    /// # Errors
    /// The database can't be read, or holds what is no alarm.
    pub fn alarms(&self) -> Result<Vec<Alarm>> {
        let read = || -> rusqlite::Result<Vec<Alarm>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, resource, condition, object, severity, cleared, count, changes, first_ns, last_ns, changed_ns,
                 last_notification, flapping, penalty, suppressed, operator, event_type, probable_cause FROM alarm ORDER BY id",
            )?;
            let alarms = statement.query_map([], |row| {
                Ok(Alarm {
                    id: row.get(0)?,
                    key: Key { resource: row.get(1)?, condition: row.get(2)?, object: row.get(3)? },
                    severity: Severity::from_name(&row.get::<_, String>(4)?).unwrap_or(Severity::Indeterminate),
                    classification: classification(row.get(16)?, row.get(17)?),
                    cleared: row.get(5)?,
                    count: row.get(6)?,
                    changes: row.get(7)?,
                    first_ns: row.get(8)?,
                    last_ns: row.get(9)?,
                    changed_ns: row.get(10)?,
                    last_notification: row.get(11)?,
                    flapping: row.get(12)?,
                    penalty: row.get(13)?,
                    suppressed: row.get(14)?,
                    operator: row.get(15)?,
                })
            })?;
            alarms.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// What kind of alarm that with this number is; `None`: there is none.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn classification(&self, alarm: u64) -> Result<Option<Classification>> {
        let read = || {
            self.connection
                .prepare_cached("SELECT event_type, probable_cause FROM alarm WHERE id = ?")?
                .query_row([alarm], |row| Ok(classification(row.get(0)?, row.get(1)?)))
                .optional()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// Notifications from number `from` on, at most `limit`, by number.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn notifications(&self, from: u64, limit: u64) -> Result<Vec<Stored>> {
        self.select("id >= ?1 ORDER BY id LIMIT ?2", [from, limit])
    }

    /// The latest notifications of an alarm, at most `limit`, oldest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn latest(&self, alarm: u64, limit: u64) -> Result<Vec<Stored>> {
        let mut stored = self.select("alarm = ?1 ORDER BY id DESC LIMIT ?2", [alarm, limit])?;
        stored.reverse();
        Ok(stored)
    }

    fn select(&self, which: &str, values: [u64; 2]) -> Result<Vec<Stored>> {
        let read = || -> rusqlite::Result<Vec<Stored>> {
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT id, at_ns, source, kind, alarm, judgement, penalty, raw, decrypted FROM notification WHERE {which}"
            ))?;
            let rows = statement.query_map(values, |row| {
                Ok(Stored {
                    id: row.get(0)?,
                    at_ns: row.get(1)?,
                    source: row.get(2)?,
                    kind: Kind::from_number(row.get(3)?).unwrap_or(Kind::Syslog),
                    alarm: row.get(4)?,
                    judgement: judgement(row.get(5)?, row.get(6)?),
                    raw: row.get(7)?,
                    decrypted: row.get(8)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// Asks the writing process to clear an alarm.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn request_clear(&self, alarm: u64, operator: &str) -> Result<()> {
        self.connection
            .execute("INSERT INTO request (alarm, operator) VALUES (?, ?)", params![alarm, operator])
            .map(drop)
            .map_err(|error| self.wrong("write to the store", &error))
    }

    /// Takes what was asked for: alarms to clear, and by whom.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn take_requests(&self) -> Result<Vec<(u64, String)>> {
        let take = || -> rusqlite::Result<Vec<(u64, String)>> {
            let waiting: bool =
                self.connection.query_row("SELECT EXISTS (SELECT 1 FROM request)", [], |row| row.get(0))?;
            if !waiting {
                return Ok(Vec::new());
            }
            let mut statement = self.connection.prepare_cached("DELETE FROM request RETURNING alarm, operator")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        };
        take().map_err(|error| self.wrong("read the store", &error))
    }

    /// Deletes what is too old or too much, a bounded part at a time; whether there may be more to do.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn prune(&mut self, retention: Retention, now: Now) -> Result<bool> {
        retention::prune(&self.connection, &mut self.age, retention, now)
            .map_err(|error| self.wrong("clean up the store", &error))
    }

    /// Bytes of the database that are in use.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn used_bytes(&self) -> Result<u64> {
        retention::used_bytes(&self.connection).map_err(|error| self.wrong("read the store", &error))
    }
}

/// The number of its layout; 0: it is new.
fn layout(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn wrong_layout(name: &str, version: i64) -> Error {
    let cause = format!("its layout {version} is of another version of Ringtap, this one has {SCHEMA_VERSION}");
    Error::failed("open the store", name, cause)
}

fn write(connection: &mut Connection, job: &Job) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO notification VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        let mut source = String::new();
        for row in &job.rows {
            source.clear();
            text::push_socket(&mut source, row.source);
            let (code, penalty) = code(&row.judgement);
            insert.execute(params![
                row.id,
                row.at_ns,
                source,
                row.kind as u8,
                row.alarm,
                code,
                penalty,
                &job.bytes[row.raw.clone()],
                row.decrypted.clone().map(|range| &job.bytes[range]),
            ])?;
        }
        let mut upsert = transaction.prepare_cached(
            "INSERT OR REPLACE INTO alarm VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        for alarm in &job.alarms {
            upsert.execute(params![
                alarm.id,
                alarm.key.resource,
                alarm.key.condition,
                alarm.key.object,
                alarm.severity.name(),
                alarm.cleared,
                alarm.count,
                alarm.changes,
                alarm.first_ns,
                alarm.last_ns,
                alarm.changed_ns,
                alarm.last_notification,
                alarm.flapping,
                alarm.penalty,
                alarm.suppressed,
                alarm.operator,
                alarm.classification.event_type.map(EventType::name),
                alarm.classification.probable_cause,
            ])?;
        }
    }
    transaction.commit()
}

fn classification(event_type: Option<String>, probable_cause: Option<String>) -> Classification {
    Classification { event_type: event_type.and_then(|name| EventType::from_name(&name)), probable_cause }
}

fn code(judgement: &Judgement) -> (u8, Option<f64>) {
    match judgement {
        Judgement::New => (0, None),
        Judgement::Changed => (1, None),
        Judgement::Repeated => (2, None),
        Judgement::Flapping { penalty } => (3, Some(*penalty)),
        Judgement::ClearedNothing => (4, None),
        Judgement::Retransmission => (5, None),
        Judgement::BelowThreshold => (6, None),
        Judgement::TableFull => (7, None),
    }
}

fn judgement(code: u8, penalty: Option<f64>) -> Judgement {
    match code {
        0 => Judgement::New,
        1 => Judgement::Changed,
        3 => Judgement::Flapping { penalty: penalty.unwrap_or(0.0) },
        4 => Judgement::ClearedNothing,
        5 => Judgement::Retransmission,
        6 => Judgement::BelowThreshold,
        7 => Judgement::TableFull,
        _ => Judgement::Repeated,
    }
}

fn explain(operation: &str, object: &str, error: &rusqlite::Error) -> Error {
    let way_out = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => "free some space; what arrives meanwhile waits in the spool",
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            "move the directory away and begin a new store"
        }
        Some(
            rusqlite::ErrorCode::PermissionDenied | rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly,
        ) => "run as its owner",
        _ => "",
    };
    let error = Error::failed(operation, object, error);
    if way_out.is_empty() { error } else { error.way_out(way_out) }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use ringtap_alarm::table::{AlarmTable, FlapPolicy, Report};

    fn job(ids: Range<u64>, at_ns: u64) -> Job {
        let mut job = Job::default();
        for id in ids {
            let start = job.bytes.len();
            job.bytes.extend_from_slice(&[id as u8; 100]);
            job.rows.push(Row {
                id,
                at_ns,
                source: "192.0.2.1:162".parse().unwrap(),
                kind: Kind::V2c,
                alarm: Some(id % 2),
                judgement: Judgement::Flapping { penalty: 4.5 },
                raw: start..job.bytes.len(),
                decrypted: (id == 2).then_some(start..start + 1),
            });
        }
        job
    }

    #[test]
    fn what_was_written_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("store");
        let mut store = Store::open(&directory).unwrap();
        let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 10);
        let key = Key { resource: "r".to_owned(), condition: "c".to_owned(), object: "o".to_owned() };
        let known = classification(Some("equipmentAlarm".to_owned()), Some("powerProblem".to_owned()));
        let classification = Some(&known);
        let raised =
            Report { raises: Some(true), severity: Severity::Major, classification, at_ns: 5, notification: 1 };
        table.report(&key, raised);
        let mut first = job(1..5, 77);
        first.alarms = table.take_changed();
        store.write(&first).unwrap();
        assert!(Store::open(&directory).unwrap_err().to_string().contains("another process writes"), "one writer");
        let beside = Store::open_beside(&directory).unwrap();
        beside.request_clear(1, "bob").unwrap();
        assert_eq!(store.take_requests().unwrap(), [(1, "bob".to_owned())]);
        assert!(store.take_requests().unwrap().is_empty());
        drop(store);
        let store = Store::open(&directory).unwrap();
        assert_eq!((store.last_id().unwrap(), store.notification_count().unwrap()), (4, 4));
        assert_eq!(store.alarms().unwrap(), first.alarms);
        assert_eq!((store.classification(1).unwrap(), store.classification(2).unwrap()), (Some(known), None));
        let odd = store.latest(1, 10).unwrap();
        assert_eq!(odd.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(odd[0].raw, [1; 100]);
        assert_eq!(odd[0].judgement, Judgement::Flapping { penalty: 4.5 });
        assert_eq!(store.notifications(2, 1).unwrap()[0].decrypted.as_deref(), Some(&[2][..]));
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(directory.join(DATABASE).metadata().unwrap().permissions().mode() & 0o077, 0);
    }

    #[test]
    fn a_store_of_the_layout_before_is_brought_to_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let mut table = AlarmTable::new(Vec::new(), FlapPolicy::default(), 10);
        let key = Key { resource: "r".to_owned(), condition: "c".to_owned(), object: "o".to_owned() };
        let raised =
            Report { raises: Some(true), severity: Severity::Minor, classification: None, at_ns: 5, notification: 1 };
        table.report(&key, raised);
        let job = Job { alarms: table.take_changed(), ..job(1..5, 77) };
        store.write(&job).unwrap();
        let to_2 = "ALTER TABLE alarm DROP COLUMN event_type; ALTER TABLE alarm DROP COLUMN probable_cause; DROP TABLE mark; PRAGMA user_version = 2;";
        store.connection.execute_batch(to_2).unwrap();
        let error = Store::open_beside(folder.path()).unwrap_err().to_string();
        assert!(error.contains("layout 2") && error.contains("stop"), "one that is written to is left alone: {error}");
        drop(store);
        for open in [Store::open_beside, Store::open] {
            let store = open(folder.path()).unwrap();
            assert_eq!((store.alarms().unwrap(), store.notification_count().unwrap()), (job.alarms.clone(), 4));
            store.connection.pragma_update(None, "user_version", 1).unwrap();
            let error = Store::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("layout 1") || error.contains("another process"), "{error}");
            store.connection.execute_batch(to_2).unwrap();
        }
    }

    #[test]
    fn a_job_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.write(&job(1..3, 1)).unwrap();
        let error = store.write(&job(2..9, 1)).unwrap_err().to_string();
        assert!(error.contains("write to the store"), "{error}");
        assert_eq!(store.notification_count().unwrap(), 2);
    }

    #[test]
    fn retention_by_age_and_size_keeps_the_newest_and_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.write(&job(1..1000, 10)).unwrap();
        store.write(&job(1000..1500, 5_000_000_000)).unwrap();
        let now = Now { wall_ns: 5_500_000_000, monotonic_ns: 1 };
        let age = Retention { age: Some(Duration::from_secs(1)), bytes: None };
        assert!(!store.prune(age, now).unwrap());
        assert_eq!(store.notification_count().unwrap(), 500);
        let size = Retention { age: None, bytes: Some(1) };
        store.prune(size, now).unwrap();
        assert_eq!((store.notification_count().unwrap(), store.last_id().unwrap()), (0, 1499));
        assert!(store.used_bytes().unwrap() < 100_000);
    }
}
