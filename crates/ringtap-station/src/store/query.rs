//! Questions to the store: alarms, notifications, numbers.

use ringtap::Result;
use ringtap_snmp::usm::EngineClock;
use rusqlite::OptionalExtension;

use super::operators::acknowledged;
use super::write::{classification, judgement, origin};
use super::{Kind, Store};
use crate::alarm::{Alarm, Classification, Judgement, Key, Severity};

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

impl Store {
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
        self.select_alarms("1 ORDER BY id LIMIT ?", i64::MAX as u64)
    }

    /// The alarm with this number.
    ///
    /// # Errors
    /// As of [`Store::alarms`].
    pub fn alarm(&self, id: u64) -> Result<Option<Alarm>> {
        Ok(self.select_alarms("id = ?", id)?.pop())
    }

    /// Raised alarms, at most `limit`: the gravest first, of these the latest.
    ///
    /// # Errors
    /// As of [`Store::alarms`].
    pub fn raised_alarms(&self, limit: u64) -> Result<Vec<Alarm>> {
        self.select_alarms(
            "NOT cleared ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'major' THEN 1 WHEN 'minor' THEN 2
             WHEN 'warning' THEN 3 ELSE 4 END, changed_ns DESC, id LIMIT ?",
            limit,
        )
    }

    /// How many alarms are raised.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn raised_count(&self) -> Result<u64> {
        self.connection
            .query_row("SELECT count(*) FROM alarm WHERE NOT cleared", [], |row| row.get(0))
            .map_err(|error| self.wrong("read the store", &error))
    }

    /// Those of a condition with one value in it.
    fn select_alarms(&self, which: &str, value: u64) -> Result<Vec<Alarm>> {
        let read = || -> rusqlite::Result<Vec<Alarm>> {
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT id, resource, condition, object, severity, cleared, count, changes, first_ns, last_ns, changed_ns,
                 last_notification, flapping, penalty, suppressed, operator, event_type, probable_cause, origin, security, known,
                 expired, acknowledged_by, acknowledged_ns, maintenance FROM alarm WHERE {which}"
            ))?;
            let alarms = statement.query_map([value], |row| {
                Ok(Alarm {
                    id: row.get(0)?,
                    key: Key { resource: row.get(1)?, condition: row.get(2)?, object: row.get(3)? },
                    severity: Severity::from_name(&row.get::<_, String>(4)?).unwrap_or(Severity::Indeterminate),
                    classification: classification(row.get(16)?, row.get(17)?),
                    origin: origin(row.get(18)?, row.get(19)?, row.get(20)?),
                    cleared: row.get(5)?,
                    count: row.get(6)?,
                    changes: row.get(7)?,
                    first_ns: row.get(8)?,
                    last_ns: row.get(9)?,
                    changed_ns: row.get(10)?,
                    last_notification: row.get(11)?,
                    flapping: row.get(12)?,
                    news_ns: 0,
                    penalty: row.get(13)?,
                    suppressed: row.get(14)?,
                    operator: row.get(15)?,
                    expired: row.get(21)?,
                    acknowledged: acknowledged(row.get(22)?, row.get(23)?),
                    maintenance: row.get::<_, u8>(24)? > 0,
                    is_told: row.get::<_, u8>(24)? > 1,
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

    /// Clocks of SNMP engines as kept, each with the number of a notification: its last second has none
    /// before it.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn clocks(&self) -> Result<Vec<(EngineClock, u64)>> {
        let read = || -> rusqlite::Result<Vec<(EngineClock, u64)>> {
            let mut statement = self.connection.prepare_cached("SELECT id, boots, time, notification FROM engine")?;
            let clocks = statement.query_map([], |row| {
                Ok((EngineClock { id: row.get(0)?, boots: row.get(1)?, time: row.get(2)? }, row.get(3)?))
            })?;
            clocks.collect()
        };
        read().map_err(|error| self.wrong("read the store", &error))
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

    /// The same, but looks at no more than the `most` notifications up to number `last`: there is no index by alarm, which each
    /// notification that is stored would pay for.
    ///
    /// # Errors
    /// The database can't be read.
    pub fn latest_within(&self, alarm: u64, limit: u64, last: u64, most: u64) -> Result<Vec<Stored>> {
        let first = last.saturating_sub(most);
        let which = "alarm = ?1 AND id BETWEEN ?3 AND ?4 ORDER BY id DESC LIMIT ?2";
        let mut stored = self.select(which, [alarm, limit, first, last])?;
        stored.reverse();
        Ok(stored)
    }

    fn select(&self, which: &str, values: impl rusqlite::Params) -> Result<Vec<Stored>> {
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
}
