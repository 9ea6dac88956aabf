//! Incidents in the store: what broke, as root cause says, with the alarms that each explains and why.
//!
//! Owns their tables and the questions about them; without a topology they are empty. An alarm stays in
//! its own table whatever an incident says of it.

use std::collections::BTreeMap;

use ringtap::Result;
use ringtap_rootcause::Step;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::Store;

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS incident (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, level TEXT NOT NULL, opened_ns INTEGER NOT NULL, start_ns INTEGER NOT NULL,
    closed_ns INTEGER, merged_into INTEGER, cause TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS member (
    incident INTEGER NOT NULL, alarm INTEGER NOT NULL, since_ns INTEGER NOT NULL, resource TEXT NOT NULL, condition TEXT NOT NULL,
    object TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (incident, alarm)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS member_alarm ON member (alarm);
";
/// Where root cause goes on after a restart.
const STATE: &str = "root_cause";

/// What an incident says broke, and how sure that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseFound {
    /// What broke: one of these, which nothing tells apart; empty: nothing in the topology explains the alarms.
    pub class: Vec<String>,
    /// Symptoms that the cause has.
    pub expected: u32,
    /// Those of them that were observed.
    pub seen: u32,
    /// How much likelier it is than the next best, thousandths.
    pub confidence: u16,
    /// How often another cause was announced before.
    pub revisions: u32,
    /// The episode it began in.
    pub episode: u64,
}

/// An incident. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredIncident {
    /// Its number; never used again.
    pub id: u64,
    /// One line for people.
    pub title: String,
    /// The worst severity of its alarms, as a level of Sigma: informational, low, medium, high, critical.
    pub level: String,
    /// When it was announced.
    pub opened_ns: u64,
    /// Its first alarm.
    pub start_ns: u64,
    /// When it was over.
    pub closed_ns: Option<u64>,
    /// The incident that has its alarms now.
    pub merged_into: Option<u64>,
    /// What broke.
    pub cause: CauseFound,
    /// The alarms that it explains, cleared ones included.
    pub members: Vec<StoredMember>,
}

/// An alarm of an incident, as it was named then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    /// Its number.
    pub alarm: u64,
    /// When it was raised, ns since 1970.
    pub since_ns: u64,
    /// Who said it.
    pub resource: String,
    /// The condition.
    pub condition: String,
    /// The object.
    pub object: String,
    /// From the cause to the alarm; empty: nothing in the topology explains it.
    pub path: Vec<Step>,
}

/// What is to be written of incidents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentChanges {
    /// Incidents as they are now, by number.
    pub rows: BTreeMap<u64, StoredIncident>,
    /// Alarms that belong to incidents which are closed.
    pub joined: Vec<(u64, StoredMember)>,
    /// Where a restart goes on.
    pub state: Option<String>,
}

impl IncidentChanges {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.joined.is_empty() && self.state.is_none()
    }
}

/// Writes them; within a transaction.
pub(super) fn write(connection: &Connection, changes: &IncidentChanges) -> rusqlite::Result<()> {
    for row in changes.rows.values() {
        let cause = serde_json::to_string(&row.cause).unwrap_or_default();
        connection.prepare_cached("INSERT OR REPLACE INTO incident VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?.execute(
            params![row.id, row.title, row.level, row.opened_ns, row.start_ns, row.closed_ns, row.merged_into, cause,],
        )?;
        connection.prepare_cached("DELETE FROM member WHERE incident = ?")?.execute([row.id])?;
        for it in &row.members {
            member(connection, row.id, it)?;
        }
    }
    for (incident, it) in &changes.joined {
        member(connection, *incident, it)?;
    }
    if let Some(state) = &changes.state {
        connection.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?, ?)")?.execute([STATE, state])?;
    }
    Ok(())
}

fn member(connection: &Connection, incident: u64, it: &StoredMember) -> rusqlite::Result<()> {
    let path = serde_json::to_string(&it.path).unwrap_or_default();
    let values = params![incident, it.alarm, it.since_ns, it.resource, it.condition, it.object, path];
    connection.prepare_cached("INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?, ?, ?, ?)")?.execute(values).map(drop)
}

/// Deletes closed incidents none of whose alarms is there any more.
pub(super) fn prune(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "BEGIN IMMEDIATE;
         DELETE FROM incident WHERE closed_ns IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM member JOIN alarm ON alarm.id = member.alarm WHERE member.incident = incident.id);
         DELETE FROM member WHERE NOT EXISTS (SELECT 1 FROM incident WHERE incident.id = member.incident);
         COMMIT;",
    )
}

impl Store {
    /// Where root cause goes on; `None`: it never ran here.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn cause_state(&self) -> Result<Option<String>> {
        self.meta(STATE)
    }

    /// One that a version before wrote has no tables of incidents.
    fn has_incidents(&self) -> Result<bool> {
        self.connection
            .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'incident')", [], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// All incidents by number, without their members.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incidents(&self) -> Result<Vec<StoredIncident>> {
        if !self.has_incidents()? {
            return Ok(Vec::new());
        }
        let read = || -> rusqlite::Result<Vec<StoredIncident>> {
            let mut statement = self.connection.prepare_cached(&format!("{INCIDENT} ORDER BY id"))?;
            statement.query_map([], incident)?.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// Open incidents, at most `limit`, the latest first, each with how many alarms it has; and how many are open.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn open_incidents(&self, limit: u64) -> Result<(Vec<(StoredIncident, u64)>, u64)> {
        if !self.has_incidents()? {
            return Ok((Vec::new(), 0));
        }
        let read = || -> rusqlite::Result<_> {
            let open = "closed_ns IS NULL";
            let all = self
                .connection
                .query_row(&format!("SELECT count(*) FROM incident WHERE {open}"), [], |row| row.get(0))?;
            let mut members = self.connection.prepare_cached("SELECT count(*) FROM member WHERE incident = ?")?;
            let mut found =
                self.connection.prepare_cached(&format!("{INCIDENT} WHERE {open} ORDER BY id DESC LIMIT ?"))?;
            let counted = found.query_map([limit], incident)?.map(|it| {
                let it = it?;
                let count = members.query_row([it.id], |row| row.get(0))?;
                Ok((it, count))
            });
            Ok((counted.collect::<rusqlite::Result<_>>()?, all))
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// The incident with this number, with its members in the order in which they were raised.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incident(&self, id: u64) -> Result<Option<StoredIncident>> {
        Ok(self.incident_with(id, i64::MAX as u64)?.map(|(it, _)| it))
    }

    /// The same with its first members, at most so many; and how many it has.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incident_with(&self, id: u64, most: u64) -> Result<Option<(StoredIncident, u64)>> {
        if !self.has_incidents()? {
            return Ok(None);
        }
        let read = || -> rusqlite::Result<Option<(StoredIncident, u64)>> {
            let mut found = self.connection.prepare_cached(&format!("{INCIDENT} WHERE id = ?"))?;
            let Some(mut it) = found.query_row([id], incident).optional()? else { return Ok(None) };
            let mut members = self.connection.prepare_cached(
                "SELECT alarm, since_ns, resource, condition, object, path FROM member WHERE incident = ? ORDER BY since_ns, alarm LIMIT ?",
            )?;
            let read = |row: &Row<'_>| {
                let path = serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
                let (alarm, since_ns, resource) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(StoredMember { alarm, since_ns, resource, condition: row.get(3)?, object: row.get(4)?, path })
            };
            it.members = members.query_map([id, most], read)?.collect::<rusqlite::Result<_>>()?;
            let count = "SELECT count(*) FROM member WHERE incident = ?";
            let all = self.connection.prepare_cached(count)?.query_row([id], |row| row.get(0))?;
            Ok(Some((it, all)))
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }

    /// The latest incident that explains an alarm.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incident_of(&self, alarm: u64) -> Result<Option<u64>> {
        if !self.has_incidents()? {
            return Ok(None);
        }
        self.connection
            .query_row("SELECT max(incident) FROM member WHERE alarm = ?", [alarm], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// How many alarms each incident has.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn member_counts(&self) -> Result<BTreeMap<u64, u64>> {
        if !self.has_incidents()? {
            return Ok(BTreeMap::new());
        }
        let read = || -> rusqlite::Result<BTreeMap<u64, u64>> {
            let mut statement =
                self.connection.prepare_cached("SELECT incident, count(*) FROM member GROUP BY incident")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
    }
}

const INCIDENT: &str = "SELECT id, title, level, opened_ns, start_ns, closed_ns, merged_into, cause FROM incident";

fn incident(row: &Row<'_>) -> rusqlite::Result<StoredIncident> {
    let nothing = CauseFound { class: Vec::new(), expected: 0, seen: 0, confidence: 0, revisions: 0, episode: 0 };
    Ok(StoredIncident {
        id: row.get(0)?,
        title: row.get(1)?,
        level: row.get(2)?,
        opened_ns: row.get(3)?,
        start_ns: row.get(4)?,
        closed_ns: row.get(5)?,
        merged_into: row.get(6)?,
        cause: serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or(nothing),
        members: Vec::new(),
    })
}
