//! Jobs and alarms as rows of the database.
//!
//! Owns the transaction of a job, and the numbers and names that stand for judgements and classes.

use rusqlite::{Connection, params};

use super::Job;
use crate::alarm::{Classification, EventType, Judgement};
use crate::text;

/// Writes a job in one transaction.
pub(super) fn write(connection: &mut Connection, job: &Job) -> rusqlite::Result<()> {
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
                job.bytes(&row.raw),
                row.decrypted.as_ref().map(|place| job.bytes(place)),
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

/// What X.733 says of an alarm, from its columns.
pub(super) fn classification(event_type: Option<String>, probable_cause: Option<String>) -> Classification {
    Classification { event_type: event_type.and_then(|name| EventType::from_name(&name)), probable_cause }
}

/// A judgement's number and its penalty.
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

/// The judgement with this number.
pub(super) fn judgement(code: u8, penalty: Option<f64>) -> Judgement {
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
