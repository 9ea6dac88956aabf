//! The layout of the store's database, and how one of an earlier layout becomes this one.

use ringtap::Error;
use rusqlite::Connection;

use super::outbox;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notification (
    id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, source TEXT NOT NULL, kind INTEGER NOT NULL,
    alarm INTEGER, judgement INTEGER NOT NULL, penalty REAL, raw BLOB NOT NULL, decrypted BLOB);
CREATE TABLE IF NOT EXISTS alarm (
    id INTEGER PRIMARY KEY, resource TEXT NOT NULL, condition TEXT NOT NULL, object TEXT NOT NULL, severity TEXT NOT NULL,
    cleared INTEGER NOT NULL, count INTEGER NOT NULL, changes INTEGER NOT NULL, first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL, last_notification INTEGER NOT NULL, flapping INTEGER NOT NULL,
    penalty REAL NOT NULL, suppressed INTEGER NOT NULL, operator TEXT, event_type TEXT, probable_cause TEXT,
    origin TEXT, security INTEGER NOT NULL DEFAULT 0, known INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0, acknowledged_by TEXT, acknowledged_ns INTEGER, maintenance INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS engine (
    id BLOB PRIMARY KEY, boots INTEGER NOT NULL, time INTEGER NOT NULL, notification INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, age_ns INTEGER NOT NULL);
";
/// What operators ask for and what became of it, and windows of maintenance. Numbers of requests are never used again: whoever asked waits
/// until his are gone.
const OPERATORS: &str = "
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY AUTOINCREMENT, alarm INTEGER NOT NULL, act INTEGER NOT NULL, operator TEXT NOT NULL, comment TEXT);
CREATE TABLE IF NOT EXISTS history (
    id INTEGER PRIMARY KEY, alarm INTEGER NOT NULL, at_ns INTEGER NOT NULL, act INTEGER NOT NULL, operator TEXT, comment TEXT);
CREATE INDEX IF NOT EXISTS history_alarm ON history (alarm);
CREATE TABLE IF NOT EXISTS maintenance (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, from_ns INTEGER NOT NULL, until_ns INTEGER NOT NULL,
    operator TEXT NOT NULL, comment TEXT, ended_ns INTEGER, ended_by TEXT);
";
/// Of the schema above (PRAGMA user_version).
pub(super) const VERSION: i64 = 5;
/// From the layout before: expiry, acknowledgements and maintenance of alarms; requests to clear them are kept.
const FROM_4: &str = "
ALTER TABLE alarm ADD COLUMN expired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE alarm ADD COLUMN acknowledged_by TEXT;
ALTER TABLE alarm ADD COLUMN acknowledged_ns INTEGER;
ALTER TABLE alarm ADD COLUMN maintenance INTEGER NOT NULL DEFAULT 0;
ALTER TABLE request RENAME TO request_of_4;
";
const REQUESTS_OF_4: &str = "
INSERT INTO request (alarm, act, operator) SELECT alarm, 0, operator FROM request_of_4 ORDER BY id;
DROP TABLE request_of_4;
";
/// From the one before that: who raised alarms (of those that are there nobody knows, so anybody may clear them), and clocks of SNMP engines.
const FROM_3: &str = "
ALTER TABLE alarm ADD COLUMN origin TEXT;
ALTER TABLE alarm ADD COLUMN security INTEGER NOT NULL DEFAULT 0;
ALTER TABLE alarm ADD COLUMN known INTEGER NOT NULL DEFAULT 0;
CREATE TABLE engine (
    id BLOB PRIMARY KEY, boots INTEGER NOT NULL, time INTEGER NOT NULL, notification INTEGER NOT NULL) WITHOUT ROWID;
";
/// From an earlier one: what X.733 says of alarms, which comes when they are raised again, and the marks of retention.
const FROM_2: &str = "
ALTER TABLE alarm ADD COLUMN event_type TEXT;
ALTER TABLE alarm ADD COLUMN probable_cause TEXT;
CREATE TABLE mark (id INTEGER PRIMARY KEY, age_ns INTEGER NOT NULL);
";

/// The statements that make this layout of one with that number, whole or not at all; `None`: of that one it can't be made.
pub(super) fn change_from(version: i64) -> Option<String> {
    let to_4 = match version {
        0 | VERSION => "",
        4 => FROM_4,
        3 => &format!("{FROM_3}{FROM_4}"),
        2 => &format!("{FROM_2}{FROM_3}{FROM_4}"),
        _ => return None,
    };
    let requests = if to_4.is_empty() { "" } else { REQUESTS_OF_4 };
    let change = format!("{to_4}{SCHEMA}{OPERATORS}{}{requests}", outbox::TABLES);
    Some(format!("BEGIN IMMEDIATE; {change} PRAGMA user_version = {VERSION}; COMMIT;"))
}

/// The number of its layout; 0: it is new.
pub(super) fn layout(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(super) fn wrong_layout(name: &str, version: i64) -> Error {
    let cause = format!("its layout {version} is of another version of Ringtap, this one has {VERSION}");
    Error::failed("open the store", name, cause)
}
