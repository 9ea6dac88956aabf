//! What is announced and not posted yet, and how far each receiver of POSTs has it.
//!
//! Owns both tables. Announcements are written in the transaction of their job and numbered without gaps; a receiver's cursor is the number
//! of the last one that it has. So nothing is lost over a restart, and what it gets twice has the same number. Bounded: beyond so many the
//! oldest go, which whoever posts sees by the gap.

use ringtap::Result;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Retention, Store};

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursor (receiver TEXT PRIMARY KEY, sent INTEGER NOT NULL) WITHOUT ROWID;
";
/// Announcements that may wait.
const MOST: u64 = 100_000;
/// Bytes of one, about, where the size of the store is limited: all of them may have a quarter of it.
const BYTES: u64 = 1024;

/// How many announcements may wait in a store that is kept so.
pub(super) fn most(retention: Retention) -> u64 {
    retention.bytes.map_or(MOST, |bytes| (bytes / 4 / BYTES).clamp(1, MOST))
}

/// Adds announcements, within a transaction; beyond `most` the oldest go.
pub(super) fn write(connection: &Connection, texts: impl Iterator<Item = String>, most: u64) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO outbox (text) VALUES (?)")?;
    let mut count = 0;
    for text in texts {
        insert.execute([text])?;
        count += 1;
    }
    if count > 0 {
        let last = connection.last_insert_rowid() as u64;
        connection.prepare_cached("DELETE FROM outbox WHERE id <= ?")?.execute([last.saturating_sub(most)])?;
    }
    Ok(())
}

impl Store {
    /// These receivers, and no others, get what is announced from now on; each goes on where it was.
    ///
    /// # Errors
    /// The database can't be written.
    pub(crate) fn set_receivers(&self, receivers: &[&str]) -> Result<()> {
        let write = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            let known: Vec<String> = {
                let mut statement = transaction.prepare("SELECT receiver FROM cursor")?;
                let names = statement.query_map([], |row| row.get(0))?;
                names.collect::<rusqlite::Result<_>>()?
            };
            for gone in known.iter().filter(|name| !receivers.contains(&name.as_str())) {
                transaction.execute("DELETE FROM cursor WHERE receiver = ?", [gone])?;
            }
            let last = last(&transaction)?;
            for receiver in receivers {
                transaction.execute("INSERT OR IGNORE INTO cursor VALUES (?, ?)", params![receiver, last])?;
            }
            clean(&transaction)?;
            transaction.commit()
        };
        write().map_err(|error| self.wrong("write to the store", &error))
    }

    /// The number of the last announcement that a receiver has.
    ///
    /// # Errors
    /// The database can't be read.
    pub(crate) fn cursor(&self, receiver: &str) -> Result<u64> {
        let read = || {
            self.connection
                .prepare_cached("SELECT sent FROM cursor WHERE receiver = ?")?
                .query_row([receiver], |row| row.get(0))
                .optional()
        };
        read().map(Option::unwrap_or_default).map_err(|error| self.wrong("read the store", &error))
    }

    /// A receiver has all up to this number. Not synced: after a loss of power it may get the last ones again.
    ///
    /// # Errors
    /// The database can't be written.
    pub(crate) fn set_cursor(&self, receiver: &str, sent: u64) -> Result<()> {
        let write = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            transaction.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", params![receiver, sent])?;
            clean(&transaction)?;
            transaction.commit()
        };
        write().map_err(|error| self.wrong("write to the store", &error))
    }

    /// Announcements behind this number, at most so many, with their numbers.
    ///
    /// # Errors
    /// The database can't be read.
    pub(crate) fn outbox(&self, after: u64, limit: usize) -> Result<Vec<(u64, String)>> {
        let read = || -> rusqlite::Result<Vec<(u64, String)>> {
            let mut statement =
                self.connection.prepare_cached("SELECT id, text FROM outbox WHERE id > ? ORDER BY id LIMIT ?")?;
            let rows = statement.query_map(params![after, limit as u64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// The number of the last announcement there ever was.
    ///
    /// # Errors
    /// The database can't be read.
    pub(crate) fn last_announcement(&self) -> Result<u64> {
        last(&self.connection).map_err(|error| self.wrong("read the store", &error))
    }

    /// Has what is written through this one not synced at each commit, for whoever can do it again.
    ///
    /// # Errors
    /// SQLite refuses.
    pub(crate) fn relaxed(self) -> Result<Self> {
        let set = self.connection.pragma_update(None, "synchronous", "NORMAL");
        set.map_err(|error| self.wrong("open the store", &error))?;
        Ok(self)
    }
}

fn last(connection: &Connection) -> rusqlite::Result<u64> {
    let sequence = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(sequence.unwrap_or(0))
}

/// Deletes what every receiver has.
fn clean(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM outbox WHERE id <= ifnull((SELECT min(sent) FROM cursor), (SELECT max(id) FROM outbox))",
        )?
        .execute([])
        .map(drop)
}

#[cfg(test)]
impl Store {
    /// As a job would.
    pub(crate) fn announce(&self, texts: &[&str]) {
        write(&self.connection, texts.iter().map(ToString::to_string), MOST).unwrap();
    }

    /// As beyond the bound.
    pub(crate) fn forget_announcements(&self, up_to: u64) {
        self.connection.execute("DELETE FROM outbox WHERE id <= ?", [up_to]).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce(store: &Store, numbers: std::ops::Range<u64>, most: u64) {
        let texts = numbers.map(|number| number.to_string());
        write(&store.connection, texts, most).unwrap();
    }

    #[test]
    fn each_receiver_goes_on_where_it_was_and_what_all_have_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.set_receivers(&["a"]).unwrap();
        announce(&store, 1..6, 100);
        store.set_receivers(&["a", "b"]).unwrap();
        announce(&store, 6..8, 100);
        assert_eq!((store.cursor("a").unwrap(), store.cursor("b").unwrap()), (0, 5), "a new one gets what is new");
        assert_eq!(store.outbox(0, 2).unwrap(), [(1, "1".to_owned()), (2, "2".to_owned())]);
        store.set_cursor("b", 7).unwrap();
        assert_eq!(store.outbox(0, 100).unwrap().len(), 7);
        store.set_cursor("a", 6).unwrap();
        assert_eq!(store.outbox(0, 100).unwrap(), [(7, "7".to_owned())]);
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        store.set_receivers(&["a"]).unwrap();
        assert_eq!(store.outbox(store.cursor("a").unwrap(), 100).unwrap().len(), 1);
        store.set_receivers(&[]).unwrap();
        assert!(store.outbox(0, 100).unwrap().is_empty());
        announce(&store, 8..9, 100);
        assert_eq!((store.outbox(0, 100).unwrap()[0].0, store.last_announcement().unwrap()), (8, 8), "no number twice");
    }

    #[test]
    fn beyond_a_bound_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.set_receivers(&["a"]).unwrap();
        announce(&store, 1..21, 5);
        let waiting = store.outbox(0, 100).unwrap();
        assert_eq!(waiting.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [16, 17, 18, 19, 20]);
        assert_eq!(most(Retention { age: None, bytes: Some(8 << 20) }), 2048);
        assert_eq!(most(Retention::default()), MOST);
    }
}
