//! What operators leave in the store, and what became of it: requests, history, windows of maintenance.
//!
//! Owns these tables. Requests go in the transaction that has their entries in the history, so none is done twice or forgotten.

use ringtap::Result;
use rusqlite::{Connection, Row, params};

use super::Store;
use crate::act::{Act, Entry, Request};
use crate::alarm::Acknowledged;
use crate::maintenance::{Scope, Window};

/// Requests taken at a time.
const AT_A_TIME: u64 = 10_000;
/// Where the station leaves word of the windows that it uses.
const IN_USE: &str = "windows";

impl Store {
    /// Asks the writing process for these, all or none. Gives the number of the last one: once [`Store::is_waiting`] denies it they are
    /// done.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn request(&self, requests: &[Request]) -> Result<u64> {
        let write = || -> rusqlite::Result<u64> {
            let transaction = self.connection.unchecked_transaction()?;
            {
                let mut insert =
                    transaction.prepare("INSERT INTO request (alarm, act, operator, comment) VALUES (?, ?, ?, ?)")?;
                for it in requests {
                    insert.execute(params![it.alarm, it.act.code(), it.operator, it.comment])?;
                }
            }
            let last = transaction.last_insert_rowid();
            transaction.commit()?;
            Ok(last as u64)
        };
        write().map_err(|error| self.wrong("write to the store", &error))
    }

    /// Whether a request up to this number waits.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn is_waiting(&self, last: u64) -> Result<bool> {
        self.connection
            .query_row("SELECT EXISTS (SELECT 1 FROM request WHERE id <= ?)", [last], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// Requests behind this number, with theirs, in order; a bounded part of them.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn requests(&self, after: u64) -> Result<Vec<(u64, Request)>> {
        let read = || -> rusqlite::Result<Vec<(u64, Request)>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, alarm, act, operator, comment FROM request WHERE id > ? ORDER BY id LIMIT ?",
            )?;
            let rows = statement.query_map([after, AT_A_TIME], |row| {
                let act = Act::from_code(row.get(2)?).unwrap_or(Act::Commented);
                Ok((row.get(0)?, Request { alarm: row.get(1)?, act, operator: row.get(3)?, comment: row.get(4)? }))
            })?;
            rows.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// What was done with an alarm, the oldest first.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn history(&self, alarm: u64) -> Result<Vec<Entry>> {
        let read = || -> rusqlite::Result<Vec<Entry>> {
            let mut statement = self
                .connection
                .prepare_cached("SELECT at_ns, act, operator, comment FROM history WHERE alarm = ? ORDER BY id")?;
            let rows = statement.query_map([alarm], |row| {
                let act = Act::from_code(row.get(1)?).unwrap_or(Act::Commented);
                let (at_ns, operator, comment) = (row.get(0)?, row.get(2)?, row.get(3)?);
                Ok(Entry { alarm, at_ns, act, operator, comment, request: None })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// Adds a window of maintenance; its number.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn add_window(&self, window: &Window) -> Result<u64> {
        let scope = serde_json::to_string(&window.scope).unwrap_or_default();
        let values = params![scope, window.from_ns, window.until_ns, window.operator, window.comment];
        self.connection
            .execute(
                "INSERT INTO maintenance (scope, from_ns, until_ns, operator, comment) VALUES (?, ?, ?, ?, ?)",
                values,
            )
            .map(|_| self.connection.last_insert_rowid() as u64)
            .map_err(|error| self.wrong("write to the store", &error))
    }

    /// Ends a window of maintenance that is not over; whether there is one.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn end_window(&self, id: u64, operator: &str, at_ns: u64) -> Result<bool> {
        self.connection
            .execute(
                "UPDATE maintenance SET ended_ns = ?1, ended_by = ?2 WHERE id = ?3 AND ended_ns IS NULL AND until_ns > ?1",
                params![at_ns, operator, id],
            )
            .map(|count| count > 0)
            .map_err(|error| self.wrong("write to the store", &error))
    }

    /// Leaves word of the windows that the station uses.
    ///
    /// # Errors
    /// The database can't be written.
    pub(crate) fn set_windows_in_use(&self, windows: &[Window]) -> Result<()> {
        let numbers: Vec<String> = windows.iter().map(|window| window.id.to_string()).collect();
        self.set_meta(IN_USE, &numbers.join(" "))
    }

    /// Whether the station uses the window with this number.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn is_window_in_use(&self, id: u64) -> Result<bool> {
        let numbers = self.meta(IN_USE)?.unwrap_or_default();
        Ok(numbers.split(' ').any(|number| number.parse() == Ok(id)))
    }

    /// Windows of maintenance that are not over at `now_ns`, or all.
    ///
    /// # Errors
    /// The database can't be read, or holds what is no window.
    pub fn windows(&self, now_ns: Option<u64>) -> Result<Vec<Window>> {
        let read = || -> rusqlite::Result<Vec<Window>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, scope, from_ns, until_ns, operator, comment, ended_ns, ended_by FROM maintenance
                 WHERE ?1 IS NULL OR (until_ns > ?1 AND ended_ns IS NULL) ORDER BY id",
            )?;
            let rows = statement.query_map([now_ns], window)?;
            rows.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }
}

fn window(row: &Row<'_>) -> rusqlite::Result<Window> {
    let scope: String = row.get(1)?;
    let scope: Scope = serde_json::from_str(&scope)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into()))?;
    let ended: (Option<u64>, Option<String>) = (row.get(6)?, row.get(7)?);
    Ok(Window {
        id: row.get(0)?,
        scope,
        from_ns: row.get(2)?,
        until_ns: row.get(3)?,
        operator: row.get(4)?,
        comment: row.get(5)?,
        ended: ended.0.zip(ended.1),
    })
}

/// Writes entries of a job; the requests that they answer are done with.
pub(super) fn write(connection: &Connection, history: &[Entry]) -> rusqlite::Result<()> {
    if history.is_empty() {
        return Ok(());
    }
    let mut insert = connection
        .prepare_cached("INSERT INTO history (alarm, at_ns, act, operator, comment) VALUES (?, ?, ?, ?, ?)")?;
    let mut done = connection.prepare_cached("DELETE FROM request WHERE id = ?")?;
    for it in history {
        insert.execute(params![it.alarm, it.at_ns, it.act.code(), it.operator, it.comment])?;
        if let Some(request) = it.request {
            done.execute([request])?;
        }
    }
    Ok(())
}

/// Who takes care of an alarm, from its columns.
pub(super) fn acknowledged(by: Option<String>, at_ns: Option<u64>) -> Option<Acknowledged> {
    Some(Acknowledged { by: by?, at_ns: at_ns? })
}
