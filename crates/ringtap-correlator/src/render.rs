//! Owns: what is told, as JSON and as a line for people: one schema of incidents for outputs, lists and exports.
//! Does not: decide what is told.

use ringtap_event::incident::{self, Named, key_object};
pub use ringtap_event::incident::{Sensors, event};
use ringtap_output::{Severity, printable};
use ringtap_run::units;
use ringtap_sigma::{Automaton, Level, Output, key_parts};
use serde_json::{Value as Json, json};

use crate::correlator::Report;
use crate::engine::Finding;
use crate::sensors::What;

impl Named for crate::correlator::SensorCounts {
    fn name(&self) -> &str {
        &self.name
    }
}

/// What is told, as one JSON object.
#[must_use]
pub fn json(told: &Report, automaton: &Automaton, sensors: &dyn Sensors) -> Json {
    let rule = |number: u16| &automaton.rules()[usize::from(number)];
    let key = |number: u16, key: &[u8]| Json::Object(key_object(&rule(number).group_by, key));
    match told {
        // No other output is told.
        Report::Incident(output, found) => incident::incident(output, *found, automaton, sensors).unwrap_or_default(),
        Report::Removed(it) => json!({
            "event": "closed", "id": it.id.to_string(), "rule": it.rule, "closed_ns": it.at_ns, "rule_removed": true,
        }),
        Report::Sensor(number, what) => sensor(*number, what, sensors),
        Report::Match(Finding::Incident(_), _) => Json::Null,
        Report::Match(Finding::Match { detection, at_ns, identity }, late) => {
            incident::matched(*detection, *at_ns, identity, *late, automaton, sensors)
        }
        Report::Provisional(it) => json!({
            "event": "provisional", "final": false, "rule": rule(it.rule).head.label(), "level": rule(it.rule).head.level.name(),
            "key": key(it.rule, &it.key), "at_ns": it.certain.at_ns, "start_ns": it.certain.start_ns,
            "members": incident::members(&it.certain.members, rule(it.rule), automaton, sensors),
        }),
        Report::Forgotten(it) => json!({
            "event": "forgotten", "rule": rule(it.rule).head.label(), "key": key(it.rule, &it.key),
            "incident": it.incident.map(|id| id.to_string()),
            "members": incident::members(&it.members, rule(it.rule), automaton, sensors),
        }),
    }
}

/// What happened to a registered sensor, as JSON.
fn sensor(number: u64, what: &What, sensors: &dyn Sensors) -> Json {
    let name = sensors.name(number).unwrap_or_default();
    let mut object = match what {
        What::Began { epoch } => json!({"state": "began", "epoch": format!("{epoch:016x}")}),
        What::SilentSince { h_ns } => json!({"state": "silent", "since_ns": h_ns}),
        What::Back { h_ns } => json!({"state": "back", "h_ns": h_ns}),
        What::Quarantined { ahead_ns } => json!({"state": "quarantined", "ahead_ns": ahead_ns}),
        What::Released => json!({"state": "released"}),
        What::Twice => json!({"state": "twice"}),
        What::Missing { count, from_ns, to_ns } => {
            json!({"state": "missing", "count": count, "from_ns": from_ns, "to_ns": to_ns})
        }
    };
    object["event"] = "sensor".into();
    object["sensor"] = name.into();
    object
}

/// What happened to a registered sensor, for people.
fn sensor_line(what: &What) -> String {
    match what {
        What::Began { .. } => "is heard, with a new epoch".to_owned(),
        What::SilentSince { h_ns: None } => "has not been heard: what it sees is not waited for".to_owned(),
        What::SilentSince { h_ns: Some(h) } => {
            format!("is silent since {}: what it saw from then on is not waited for", shown_time(*h))
        }
        What::Back { .. } => "is heard again: what it saw meanwhile is judged as late".to_owned(),
        What::Quarantined { ahead_ns } => {
            format!("is in quarantine: its stamps are {} ahead of the clock here", shown_span(*ahead_ns))
        }
        What::Released => "is out of quarantine".to_owned(),
        What::Twice => "is there twice: two sensors have this id and key".to_owned(),
        What::Missing { count, from_ns, to_ns } => {
            let (from, to) = (shown_time(*from_ns), shown_time(*to_ns));
            match count {
                0 => format!("was not heard of what it saw from {from} to {to}"),
                1 => format!("lost 1 alarm on the way, of {from} to {to}"),
                _ => format!("lost {count} alarms on the way, of {from} to {to}"),
            }
        }
    }
}

/// What is told, as one line for people; nothing of what goes on.
#[must_use]
pub fn line(told: &Report, automaton: &Automaton, sensors: &dyn Sensors) -> Option<String> {
    let rule = |number: u16| &automaton.rules()[usize::from(number)];
    let keyed = |number: u16, key: &[u8]| {
        let pairs = rule(number).group_by.iter().zip(key_parts(key));
        pairs.map(|(name, value)| format!("{name}={value} ")).collect::<String>()
    };
    let text = match told {
        Report::Incident(Output::Opened(it), found) => {
            let head = &rule(it.rule).head;
            let late = if found.late { ", found late" } else { "" };
            let lacks = if found.incomplete { ", events may be missing" } else { "" };
            let unproven = if it.doubt.order || it.doubt.timespan { ", unproven by the clocks" } else { "" };
            let span = shown_span(it.at_ns.saturating_sub(it.start_ns));
            let (key, count) = (keyed(it.rule, &it.key), it.members.len());
            let events = if count == 1 { "event" } else { "events" };
            let (time, level) = (shown_time(it.at_ns), head.level.name());
            format!(
                "{time}  {level:<13} {}: {key}({count} {events} in {span}{late}{unproven}{lacks})  {}",
                head.title, it.id
            )
        }
        Report::Match(Finding::Match { detection, at_ns, .. }, late) => {
            let head = &automaton.detections()[usize::from(*detection)].head;
            let late = if *late { " (found late)" } else { "" };
            format!("{}  {:<13} {}{late}", shown_time(*at_ns), head.level.name(), head.title)
        }
        Report::Provisional(it) => {
            let head = &rule(it.rule).head;
            let key = keyed(it.rule, &it.key);
            format!("{}  {:<13} {}: {key}(provisional)", shown_time(it.certain.at_ns), head.level.name(), head.title)
        }
        Report::Forgotten(it) => {
            let what = if it.incident.is_some() { "an open incident" } else { "no incident" };
            let head = &rule(it.rule).head;
            let key = keyed(it.rule, &it.key);
            format!("memory is full: {}: {key}forgotten with {} events, {what}", head.title, it.members.len())
        }
        Report::Removed(it) => format!("{}: closed, as its rule is used no longer  {}", it.rule, it.id),
        Report::Sensor(number, what) => {
            format!("sensor {} {}", sensors.name(*number).unwrap_or_default(), sensor_line(what))
        }
        Report::Incident(..) | Report::Match(Finding::Incident(_), _) => return None,
    };
    Some(printable(&text))
}

/// A time for people, UTC.
#[must_use]
pub fn shown_time(ns: i64) -> String {
    u64::try_from(ns).map_or_else(|_| ns.to_string(), units::shown_time)
}

/// A time between two events for people.
#[must_use]
pub fn shown_span(ns: i64) -> String {
    format!("{:.3?}", std::time::Duration::from_nanos(ns.unsigned_abs()))
}

/// A rule's level as the severity of alarms.
#[must_use]
pub fn severity(level: Level) -> Severity {
    Severity::from_level(level.name()).unwrap_or(Severity::Indeterminate)
}

/// How severe what is told is; `None`: it tells of nothing wrong.
#[must_use]
pub fn severity_of(told: &Report, automaton: &Automaton) -> Option<Severity> {
    let of = |number: u16| Some(severity(automaton.rules()[usize::from(number)].head.level));
    match told {
        Report::Incident(Output::Opened(it), _) => of(it.rule),
        Report::Incident(Output::Extended(it), _) => of(it.rule),
        Report::Incident(..) | Report::Match(Finding::Incident(_), _) => None,
        Report::Match(Finding::Match { detection, .. }, _) => {
            Some(severity(automaton.detections()[usize::from(*detection)].head.level))
        }
        Report::Provisional(it) => of(it.rule),
        Report::Sensor(_, What::Began { .. } | What::Back { .. } | What::Released) | Report::Removed(_) => None,
        Report::Sensor(..) | Report::Forgotten(_) => Some(Severity::Warning),
    }
}
