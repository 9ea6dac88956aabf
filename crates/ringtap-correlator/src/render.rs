//! Owns: what is told, as JSON and as a line for people: one schema of incidents for outputs, lists and exports.
//! Does not: decide what is told.

use std::collections::HashMap;

use ringtap_output::{Severity, printable};
use ringtap_run::units;
use ringtap_sigma::{Automaton, Identity, Level, Member, Output, Rule, key_parts};
use serde_json::{Map, Value as Json, json};

use crate::correlator::Told;
use crate::engine::Finding;
use crate::store::key_object;

/// Names of sensors by number.
pub trait Sensors {
    /// The name, where it is known.
    fn name(&self, number: u64) -> Option<&str>;
}

impl Sensors for HashMap<u64, String> {
    fn name(&self, number: u64) -> Option<&str> {
        self.get(&number).map(String::as_str)
    }
}

impl Sensors for std::collections::BTreeMap<u64, crate::correlator::SensorCounts> {
    fn name(&self, number: u64) -> Option<&str> {
        self.get(&number).map(|sensor| &*sensor.name)
    }
}

/// Which event, in JSON.
#[must_use]
pub fn event(identity: &Identity, sensors: &dyn Sensors) -> Map<String, Json> {
    let mut object = Map::new();
    let number = || format!("{:016x}", identity.sensor);
    object.insert("sensor".into(), sensors.name(identity.sensor).map_or_else(number, str::to_owned).into());
    object.insert("epoch".into(), format!("{:016x}", identity.epoch).into());
    object.insert("sequence".into(), identity.sequence.into());
    object
}

fn members(members: &[Member], rule: &Rule, automaton: &Automaton, sensors: &dyn Sensors) -> Json {
    let one = |member: &Member| {
        let mut object = Map::new();
        object.insert("time_ns".into(), member.time_ns.into());
        object.insert("step".into(), (member.place + 1).into());
        let label = rule.steps(automaton).find(|(place, _)| *place == member.place);
        object.insert("of".into(), label.map_or("", |(_, label)| label).into());
        object.extend(event(&member.identity, sensors));
        if let Some(via) = member.via {
            object.insert("via".into(), via.to_string().into());
        }
        Json::Object(object)
    };
    members.iter().map(one).collect()
}

/// What is told, as one JSON object.
#[must_use]
pub fn json(told: &Told, automaton: &Automaton, sensors: &dyn Sensors) -> Json {
    let rule = |number: u16| &automaton.rules()[usize::from(number)];
    let key = |number: u16, key: &[u8]| Json::Object(key_object(&rule(number).group_by, key));
    match told {
        Told::Incident(Output::Opened(it), late) => {
            let head = &rule(it.rule).head;
            json!({
                "event": "opened", "id": it.id.to_string(), "rule": head.label(), "title": head.title,
                "level": head.level.name(), "tags": head.tags, "key": key(it.rule, &it.key),
                "opened_ns": it.at_ns, "start_ns": it.start_ns, "order_proven": !it.doubt.order,
                "timespan_proven": !it.doubt.timespan, "late": late,
                "members": members(&it.members, rule(it.rule), automaton, sensors),
            })
        }
        Told::Incident(Output::Extended(it), late) => json!({
            "event": "extended", "id": it.id.to_string(), "rule": rule(it.rule).head.label(), "at_ns": it.at_ns,
            "late": late, "members": members(&it.members, rule(it.rule), automaton, sensors),
        }),
        Told::Incident(Output::Closed(it), late) => json!({
            "event": "closed", "id": it.id.to_string(), "rule": rule(it.rule).head.label(), "closed_ns": it.at_ns,
            "late": late, "matches": it.matches,
        }),
        // No other output is told.
        Told::Incident(..) | Told::Match(Finding::Incident(_), _) => Json::Null,
        Told::Match(Finding::Match { detection, at_ns, identity }, late) => {
            let head = &automaton.detections()[usize::from(*detection)].head;
            let mut object = json!({
                "event": "match", "rule": head.label(), "title": head.title, "level": head.level.name(),
                "time_ns": at_ns, "late": late,
            });
            if let Json::Object(object) = &mut object {
                object.extend(event(identity, sensors));
            }
            object
        }
        Told::Provisional(it) => json!({
            "event": "provisional", "rule": rule(it.rule).head.label(), "level": rule(it.rule).head.level.name(),
            "key": key(it.rule, &it.key), "at_ns": it.certain.at_ns, "start_ns": it.certain.start_ns,
            "members": members(&it.certain.members, rule(it.rule), automaton, sensors),
        }),
        Told::Forgotten(it) => json!({
            "event": "forgotten", "rule": rule(it.rule).head.label(), "key": key(it.rule, &it.key),
            "incident": it.incident.map(|id| id.to_string()),
            "members": members(&it.members, rule(it.rule), automaton, sensors),
        }),
    }
}

/// What is told, as one line for people; nothing of what goes on.
#[must_use]
pub fn line(told: &Told, automaton: &Automaton) -> Option<String> {
    let rule = |number: u16| &automaton.rules()[usize::from(number)];
    let keyed = |number: u16, key: &[u8]| {
        let pairs = rule(number).group_by.iter().zip(key_parts(key));
        pairs.map(|(name, value)| format!("{name}={value} ")).collect::<String>()
    };
    let text = match told {
        Told::Incident(Output::Opened(it), late) => {
            let head = &rule(it.rule).head;
            let late = if *late { ", found late" } else { "" };
            let unproven = if it.doubt.order || it.doubt.timespan { ", unproven by the clocks" } else { "" };
            let span = shown_span(it.at_ns.saturating_sub(it.start_ns));
            let (key, count) = (keyed(it.rule, &it.key), it.members.len());
            let events = if count == 1 { "event" } else { "events" };
            let (time, level) = (shown_time(it.at_ns), head.level.name());
            format!("{time}  {level:<13} {}: {key}({count} {events} in {span}{late}{unproven})  {}", head.title, it.id)
        }
        Told::Match(Finding::Match { detection, at_ns, .. }, late) => {
            let head = &automaton.detections()[usize::from(*detection)].head;
            let late = if *late { " (found late)" } else { "" };
            format!("{}  {:<13} {}{late}", shown_time(*at_ns), head.level.name(), head.title)
        }
        Told::Provisional(it) => {
            let head = &rule(it.rule).head;
            let key = keyed(it.rule, &it.key);
            format!("{}  {:<13} {}: {key}(provisional)", shown_time(it.certain.at_ns), head.level.name(), head.title)
        }
        Told::Forgotten(it) => {
            let what = if it.incident.is_some() { "an open incident" } else { "no incident" };
            let head = &rule(it.rule).head;
            let key = keyed(it.rule, &it.key);
            format!("memory is full: {}: {key}forgotten with {} events, {what}", head.title, it.members.len())
        }
        Told::Incident(..) | Told::Match(Finding::Incident(_), _) => return None,
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
    match level {
        Level::Informational => Severity::Indeterminate,
        Level::Low => Severity::Warning,
        Level::Medium => Severity::Minor,
        Level::High => Severity::Major,
        Level::Critical => Severity::Critical,
    }
}

/// How severe what is told is; `None`: it tells of nothing wrong.
#[must_use]
pub fn severity_of(told: &Told, automaton: &Automaton) -> Option<Severity> {
    let of = |number: u16| Some(severity(automaton.rules()[usize::from(number)].head.level));
    match told {
        Told::Incident(Output::Opened(it), _) => of(it.rule),
        Told::Incident(Output::Extended(it), _) => of(it.rule),
        Told::Incident(..) | Told::Match(Finding::Incident(_), _) => None,
        Told::Match(Finding::Match { detection, .. }, _) => {
            Some(severity(automaton.detections()[usize::from(*detection)].head.level))
        }
        Told::Provisional(it) => of(it.rule),
        Told::Forgotten(_) => Some(Severity::Warning),
    }
}
