//! Jobs and alarms as rows of the database.
//!
//! Owns the transaction of a job, and the numbers and names that stand for judgements and classes.

use ringtap_output::announce::Announcement;
use rusqlite::{Connection, params};

use super::{Job, incident, operators, outbox};
use crate::alarm::{Classification, EventType, Judgement, Origin, SecurityLevel, Shown};
use crate::text;

/// Writes a job in one transaction; at most so many announcements may wait to be posted.
pub(super) fn write(connection: &mut Connection, job: &Job, most_announcements: u64) -> rusqlite::Result<()> {
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
            "INSERT OR REPLACE INTO alarm VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                alarm.origin.source.map(|source| source.to_string()),
                alarm.origin.security as u8,
                known_code(alarm.origin),
                alarm.expired,
                alarm.acknowledged.as_ref().map(|it| &it.by),
                alarm.acknowledged.as_ref().map(|it| it.at_ns),
                u8::from(alarm.maintenance) + u8::from(alarm.is_told),
            ])?;
        }
        let mut keep = transaction.prepare_cached("INSERT OR REPLACE INTO engine VALUES (?, ?, ?, ?)")?;
        let first = job.rows.first().map_or(0, |row| row.id);
        for clock in &job.clocks {
            keep.execute(params![clock.id, clock.boots, clock.time, first])?;
        }
    }
    operators::write(&transaction, &job.history)?;
    outbox::write(&transaction, job.told.iter().map(Announcement::line), most_announcements)?;
    incident::write(&transaction, &job.incidents)?;
    transaction.commit()
}

/// What X.733 says of an alarm, from its columns.
pub(super) fn classification(event_type: Option<String>, probable_cause: Option<String>) -> Classification {
    Classification { event_type: event_type.and_then(|name| EventType::from_name(&name)), probable_cause }
}

/// Who raised an alarm, from its columns.
pub(super) fn origin(source: Option<String>, security: u8, known: u8) -> Origin {
    let security = SecurityLevel::ALL.get(usize::from(security)).copied().unwrap_or_default();
    let source = source.and_then(|text| text.parse().ok());
    let shown = match known {
        2 => Shown::Community,
        3 => Shown::Certificate,
        _ => Shown::Nothing,
    };
    // Stores that came from layout 3 say "known" of alarms of which nobody noted who raised them.
    Origin { source, security, shown, is_known: known > 0 && source.is_some() }
}

/// Whether and by what the origin of an alarm is known.
fn known_code(origin: Origin) -> u8 {
    match (origin.is_known, origin.shown) {
        (false, _) => 0,
        (true, Shown::Nothing) => 1,
        (true, Shown::Community) => 2,
        (true, Shown::Certificate) => 3,
    }
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
        Judgement::ShareFull => (8, None),
        Judgement::NotAuthentic => (9, None),
        Judgement::Maintenance => (10, None),
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
        8 => Judgement::ShareFull,
        9 => Judgement::NotAuthentic,
        10 => Judgement::Maintenance,
        _ => Judgement::Repeated,
    }
}
