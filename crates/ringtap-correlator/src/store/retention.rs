//! Owns: what the store lets go of: incidents that closed long ago, or the oldest where they are too many.
//! Does not: touch what is open, or what may still be told again: that keeps its id.

use ringtap::Result;
use rusqlite::{Connection, params};

use super::Store;

/// Incidents that go in one transaction.
const AT_ONCE: u32 = 500;
/// Transactions of one call: the rest goes with the next one.
const TRANSACTIONS: u32 = 64;

/// What the store keeps; nothing set: all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Incidents go when they have been closed for longer, ns.
    pub age_ns: Option<i64>,
    /// The incidents that closed first go when the database takes more, bytes.
    pub bytes: Option<u64>,
}

impl Store {
    /// Lets go of what retention says, at `wall_ns` since 1970; of nothing that closed at `known_ns` or later.
    ///
    /// # Errors
    /// The database can't be written.
    pub fn retain(&mut self, retention: Retention, wall_ns: i64, known_ns: i64) -> Result<()> {
        let mut work = || -> rusqlite::Result<()> {
            if let Some(age_ns) = retention.age_ns {
                let before_ns = wall_ns.saturating_sub(age_ns).min(known_ns);
                for _ in 0..TRANSACTIONS {
                    if delete(&mut self.connection, before_ns)? < AT_ONCE as usize {
                        break;
                    }
                }
            }
            if let Some(most) = retention.bytes {
                for _ in 0..TRANSACTIONS {
                    if used(&self.connection)? <= most || delete(&mut self.connection, known_ns)? == 0 {
                        break;
                    }
                }
            }
            Ok(())
        };
        work().map_err(|error| self.wrong("delete from", &error))
    }

    /// Bytes of the database that are in use; what is free in its file is used again.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn used_bytes(&self) -> Result<u64> {
        used(&self.connection).map_err(|error| self.wrong("read", &error))
    }
}

fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes some of the incidents that closed before a time, the oldest first; how many.
fn delete(connection: &mut Connection, before_ns: i64) -> rusqlite::Result<usize> {
    const OLDEST: &str = "SELECT id FROM incident WHERE closed_ns < ?1 ORDER BY closed_ns, id LIMIT ?2";
    let transaction = connection.transaction()?;
    transaction
        .prepare_cached(&format!("DELETE FROM member WHERE incident IN ({OLDEST})"))?
        .execute(params![before_ns, AT_ONCE])?;
    let gone = transaction
        .prepare_cached(&format!("DELETE FROM incident WHERE id IN ({OLDEST})"))?
        .execute(params![before_ns, AT_ONCE])?;
    transaction.commit()?;
    Ok(gone)
}
