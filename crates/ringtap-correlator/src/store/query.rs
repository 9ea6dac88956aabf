//! Owns: questions to the store: incidents, their members, what is needed after a restart.
//! Does not: write.

use std::collections::HashMap;

use ringtap::Result;
use ringtap_event::incident::key_object;
use ringtap_sigma::{Identity, IncidentId, Version};
use rusqlite::{Connection, Row, params};
use serde_json::Value as Json;

use super::{KnownIncidents, Open, Store, Which};
use crate::correlator::Removed;

/// A stored incident. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// What the rule is called by others.
    pub rule: String,
    /// The rule's title.
    pub title: String,
    /// The rule's level.
    pub level: String,
    /// Names and values of the key.
    pub key: serde_json::Map<String, Json>,
    /// Whether it is told by itself, not only as a part of others.
    pub announces: bool,
    /// When the condition began to hold.
    pub opened_ns: i64,
    /// The oldest event that the condition rested on then.
    pub start_ns: i64,
    /// When it no longer held.
    pub closed_ns: Option<i64>,
    /// The clocks prove the order of its steps.
    pub order_proven: bool,
    /// They prove that its events lie within the timespan.
    pub timespan_proven: bool,
    /// It was found when a late event was judged again.
    pub late: bool,
    /// Events may be missing from its windows.
    pub incomplete: bool,
    /// Events that completed a match.
    pub matches: u64,
}

/// A member as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberRow {
    /// Event time, ns.
    pub time_ns: i64,
    /// Which event.
    pub identity: Identity,
    /// The step that it fills, from 0.
    pub step: u8,
    /// The incident beneath.
    pub via: Option<IncidentId>,
}

impl Store {
    /// All incidents, by the time they opened.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incidents(&self) -> Result<Vec<Incident>> {
        self.select_incidents("1 ORDER BY opened_ns, rule, id", [])
    }

    /// Open incidents that are told by themselves, at most so many, the latest first, each with how many members it has; and how many
    /// are open.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn open_incidents(&self, most: usize) -> Result<(Vec<(Incident, u64)>, u64)> {
        const OPEN: &str = "closed_ns IS NULL AND announces";
        let which = format!("{OPEN} ORDER BY opened_ns DESC, id LIMIT ?");
        let found = self.select_incidents(&which, [i64::try_from(most).unwrap_or(i64::MAX)])?;
        let counted = found.into_iter().map(|it| Ok((it.clone(), self.member_count(it.id)?)));
        let counted = counted.collect::<Result<_>>()?;
        let all = self
            .connection
            .query_row(&format!("SELECT count(*) FROM incident WHERE {OPEN}"), [], |row| row.get::<_, i64>(0))
            .map_err(|error| self.wrong("read", &error))?;
        Ok((counted, all as u64))
    }

    /// The incident with this id.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn incident(&self, id: IncidentId) -> Result<Option<Incident>> {
        Ok(self.select_incidents("id = ?", [&id.0[..]])?.pop())
    }

    /// How many members an incident has.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn member_count(&self, id: IncidentId) -> Result<u64> {
        let read = || -> rusqlite::Result<i64> {
            let mut statement = self.connection.prepare_cached("SELECT count(*) FROM member WHERE incident = ?")?;
            statement.query_row([&id.0[..]], |row| row.get(0))
        };
        read().map(|count| count as u64).map_err(|error| self.wrong("read", &error))
    }

    fn select_incidents(&self, which: &str, values: impl rusqlite::Params) -> Result<Vec<Incident>> {
        let read = move || -> rusqlite::Result<Vec<Incident>> {
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT id, rule, title, level, key, key_names, announces, opened_ns, start_ns, closed_ns, order_proven,
                 timespan_proven, late, incomplete, matches FROM incident WHERE {which}"
            ))?;
            let incidents = statement.query_map(values, |row| {
                let names: Vec<String> = serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
                Ok(Incident {
                    id: id(row, 0)?,
                    rule: row.get(1)?,
                    title: row.get(2)?,
                    level: row.get(3)?,
                    key: key_object(&names, &row.get::<_, Vec<u8>>(4)?),
                    announces: row.get(6)?,
                    opened_ns: row.get(7)?,
                    start_ns: row.get(8)?,
                    closed_ns: row.get(9)?,
                    order_proven: row.get(10)?,
                    timespan_proven: row.get(11)?,
                    late: row.get(12)?,
                    incomplete: row.get(13)?,
                    matches: row.get(14)?,
                })
            })?;
            incidents.collect()
        };
        read().map_err(|error| self.wrong("read", &error))
    }

    /// The members of an incident in the order of time.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn members(&self, id: IncidentId) -> Result<Vec<MemberRow>> {
        self.first_members(id, usize::MAX)
    }

    /// The first of them, at most so many.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn first_members(&self, id: IncidentId, most: usize) -> Result<Vec<MemberRow>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let read = || -> rusqlite::Result<Vec<MemberRow>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT time_ns, sensor, epoch, sequence, step, via FROM member WHERE incident = ?
                 ORDER BY time_ns, step, sensor, epoch, sequence LIMIT ?",
            )?;
            let members = statement.query_map(params![&id.0[..], most], |row| {
                let number = |at| row.get::<_, i64>(at).map(|number| number as u64);
                let identity = Identity { sensor: number(1)?, epoch: number(2)?, sequence: number(3)? };
                let via = row.get::<_, Option<Vec<u8>>>(5)?;
                let via = via.and_then(|via| via.try_into().ok()).map(IncidentId);
                Ok(MemberRow { time_ns: row.get(0)?, identity, step: row.get(4)?, via })
            })?;
            members.collect()
        };
        read().map_err(|error| self.wrong("read", &error))
    }

    /// Names of sensors by number.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn sensors(&self) -> Result<HashMap<u64, String>> {
        let read = || -> rusqlite::Result<HashMap<u64, String>> {
            let mut statement = self.connection.prepare_cached("SELECT number, name FROM sensor")?;
            let sensors = statement.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
            sensors.collect()
        };
        read().map_err(|error| self.wrong("read", &error))
    }

    /// Incidents that are open and of none of these rule versions, as closed at `at_ns`.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn open_of_others(&self, versions: &[Version], at_ns: i64) -> Result<Vec<Removed>> {
        let read = || -> rusqlite::Result<Vec<Removed>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, rule, announces, version FROM incident WHERE closed_ns IS NULL ORDER BY id",
            )?;
            let mut rows = statement.query([])?;
            let mut removed = Vec::new();
            while let Some(row) = rows.next()? {
                let version = row.get::<_, Vec<u8>>(3)?;
                if !versions.iter().any(|own| own[..] == version[..]) {
                    let (id, rule, announces) = (id(row, 0)?, row.get(1)?, row.get(2)?);
                    removed.push(Removed { id, rule, announces, at_ns });
                }
            }
            Ok(removed)
        };
        read().map_err(|error| self.wrong("read", &error))
    }

    /// Whether there is an incident with this id.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn has(&self, id: IncidentId) -> Result<bool> {
        self.connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM incident WHERE id = ?)")
            .and_then(|mut statement| statement.query_row([&id.0[..]], |row| row.get(0)))
            .map_err(|error| self.wrong("read", &error))
    }
}

fn id(row: &Row<'_>, at: usize) -> rusqlite::Result<IncidentId> {
    Ok(IncidentId(row.get::<_, Vec<u8>>(at)?.try_into().unwrap_or_default()))
}

pub(super) fn known(connection: &Connection, oldest_ns: i64, found: Which) -> rusqlite::Result<KnownIncidents> {
    let mut known = KnownIncidents::default();
    let mut statement = connection.prepare_cached(
        "SELECT id, version, key, opened_ns, closed_ns, told, matches FROM incident
         WHERE late <= ?2 AND (closed_ns IS NULL OR closed_ns > ?1)",
    )?;
    let mut rows = statement.query(params![oldest_ns, found == Which::Ever])?;
    while let Some(row) = rows.next()? {
        let version = row.get::<_, Vec<u8>>(1)?.try_into().unwrap_or_default();
        let open = Open {
            id: id(row, 0)?,
            opened_ns: row.get(3)?,
            closed_ns: row.get::<_, Option<i64>>(4)?.unwrap_or(i64::MAX),
            told: row.get(5)?,
            matches: row.get(6)?,
        };
        known.0.entry((version, row.get(2)?)).or_default().push(open);
    }
    Ok(known)
}
