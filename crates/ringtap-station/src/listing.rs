//! What a store holds, for people and programs: lists of alarms, one alarm with its notifications, everything.
//!
//! Owns the shape of lists. A store that a station writes to is read beside it.

use std::io::{self, Write};

use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_output::printable;
use ringtap_run::units;
use ringtap_snmp::names::Names;
use serde_json::Value;

use crate::alarm::{Alarm, EventType};
use crate::render;
use crate::store::Store;

/// Notifications read from the store at a time.
const PAGE: u64 = 1000;

/// How notifications are shown.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// Names of objects.
    pub names: &'a Names,
    /// One JSON object a line.
    pub json: bool,
    /// Their bytes too; they hold the communities.
    pub raw: bool,
}

/// The alarm with this number.
///
/// # Errors
/// There is none, or the store can't be read.
pub fn find(store: &Store, id: u64) -> Result<Alarm> {
    store.alarm(id)?.ok_or_else(|| {
        Error::failed("find", format!("alarm {id}"), "there is none with this number")
            .way_out("`ringtap alarms list --all` shows the numbers")
    })
}

/// Alarms as lines: a table, or with `json` one object each.
///
/// # Errors
/// `out` takes no more.
pub fn list<'a>(
    out: &mut impl Write,
    alarms: impl Iterator<Item = &'a Alarm>,
    names: &Names,
    json: bool,
) -> io::Result<()> {
    let mut alarms = alarms.peekable();
    if !json && alarms.peek().is_some() {
        let (state, severity, last) = ("STATE", "SEVERITY", "LAST SEEN");
        writeln!(out, "{:>6} {state:<8} {severity:<13} {:>7} {:<20} {last:<12} SOURCE, WHAT", "ID", "COUNT", "SINCE")?;
    }
    let now_ns = clock::realtime_ns();
    for alarm in alarms {
        if json {
            writeln!(out, "{}", render::alarm(alarm, names))?;
            continue;
        }
        let state = match (alarm.cleared, alarm.flapping) {
            (_, true) => "flapping",
            (true, false) => "cleared",
            (false, false) => "raised",
        };
        let what = format!("{} {}", render::condition(alarm, names), alarm.key.object);
        writeln!(
            out,
            "{:>6} {state:<8} {:<13} {:>7} {:<20} {:<12} {} {}{}",
            alarm.id,
            alarm.severity.name(),
            alarm.count,
            units::shown_time(alarm.changed_ns),
            units::shown_age(alarm.last_ns, now_ns),
            printable(&alarm.key.resource),
            printable(what.trim_end()),
            printable(&marks(alarm))
        )?;
    }
    out.flush()
}

/// What of an alarm stands behind it.
fn marks(alarm: &Alarm) -> String {
    let by = alarm.acknowledged.as_ref().map(|it| format!("acknowledged by {}", it.by));
    let marks = [by, alarm.maintenance.then(|| "maintenance".to_owned()), alarm.expired.then(|| "expired".to_owned())];
    marks.into_iter().flatten().map(|mark| format!(" [{mark}]")).collect()
}

/// An alarm, what was done with it, and its latest notifications, at most `count`, with their bytes if `raw` (a community is among them).
///
/// # Errors
/// The store can't be read; within: `out` takes no more.
pub fn show(out: &mut impl Write, store: &Store, id: u64, count: u64, form: Form<'_>) -> Result<io::Result<()>> {
    let alarm = find(store, id)?;
    let notifications = store.latest(id, count)?;
    let history = store.history(id)?;
    let mut object = render::alarm(&alarm, form.names);
    if let Some(incident) = store.incident_of(id)? {
        object["incident"] = incident.to_string().into();
    }
    if !history.is_empty() {
        object["history"] = history.iter().map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect();
    }
    let mut all = || {
        print(out, &object, form.json)?;
        for stored in &notifications {
            print(out, &render::notification(stored, form.names, form.raw), form.json)?;
        }
        out.flush()
    };
    Ok(all())
}

fn print(out: &mut impl Write, value: &Value, json: bool) -> io::Result<()> {
    if json { writeln!(out, "{value}") } else { writeln!(out, "{:#}", with_times(value.clone(), clock::realtime_ns())) }
}

/// For people: nanoseconds since 1970 (fields in `_ns`) as time of day and age.
fn with_times(value: Value, now_ns: u64) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| match (name.strip_suffix("_ns"), value.as_u64()) {
                    (Some(short), Some(ns)) => {
                        let text = format!("{} ({})", units::shown_time(ns), units::shown_age(ns, now_ns));
                        (short.to_owned(), text.into())
                    }
                    _ => (name, with_times(value, now_ns)),
                })
                .collect(),
        ),
        Value::Array(list) => list.into_iter().map(|value| with_times(value, now_ns)).collect(),
        other => other,
    }
}

/// Every notification from number `from` on, decoded, one JSON object a line.
///
/// # Errors
/// The store can't be read; within: `out` takes no more.
pub fn export(out: &mut impl Write, store: &Store, from: u64, form: Form<'_>) -> Result<io::Result<()>> {
    let mut next = from;
    loop {
        let page = store.notifications(next, PAGE)?;
        let Some(last) = page.last() else { return Ok(out.flush()) };
        next = last.id + 1;
        for stored in &page {
            let mut object = render::notification(stored, form.names, form.raw);
            if let Some(kind) = stored.alarm.map(|alarm| store.classification(alarm)).transpose()?.flatten() {
                object["event_type"] = kind.event_type.map(EventType::name).into();
                object["probable_cause"] = kind.probable_cause.into();
            }
            if let Err(error) = writeln!(out, "{object}") {
                return Ok(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::with_times;

    #[test]
    fn people_read_times_and_ages() {
        let now_ns = 1_477_408_530_123_456_789 + 200_000_000_000;
        let alarm = json!({"id": 3, "first_ns": 1_477_408_530_123_456_789u64, "list": [{"at_ns": 0, "text": "x"}]});
        let shown = with_times(alarm, now_ns);
        assert_eq!(shown["first"], "2016-10-25T15:15:30Z (3 min ago)");
        assert_eq!((&shown["id"], &shown["list"][0]["text"]), (&3.into(), &"x".into()));
        assert!(shown["list"][0]["at"].as_str().unwrap().starts_with("1970-01-01T00:00:00Z"), "{shown}");
    }
}
