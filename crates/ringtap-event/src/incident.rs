//! Owns: what rules find, as JSON: one schema of incidents for outputs, lists and exports.
//! Does not: decide what is told.

use std::collections::{BTreeMap, HashMap};

use ringtap_sigma::{Automaton, Identity, Member, Output, Rule, key_parts};
use serde_json::{Map, Value as Json, json};

/// How an incident was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// As a late event was judged again.
    pub late: bool,
    /// Events may be missing from the windows that it rests on.
    pub incomplete: bool,
}

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

/// What has a name.
pub trait Named {
    /// It.
    fn name(&self) -> &str;
}

impl<T: Named> Sensors for BTreeMap<u64, T> {
    fn name(&self, number: u64) -> Option<&str> {
        self.get(&number).map(T::name)
    }
}

/// A key by the names that the rule groups by.
#[must_use]
pub fn key_object(names: &[String], key: &[u8]) -> Map<String, Json> {
    names.iter().cloned().zip(key_parts(key).map(Into::into)).collect()
}

/// Which event.
#[must_use]
pub fn event(identity: &Identity, sensors: &dyn Sensors) -> Map<String, Json> {
    let mut object = Map::new();
    let number = || format!("{:016x}", identity.sensor);
    object.insert("sensor".into(), sensors.name(identity.sensor).map_or_else(number, str::to_owned).into());
    object.insert("epoch".into(), format!("{:016x}", identity.epoch).into());
    object.insert("sequence".into(), identity.sequence.into());
    object
}

/// The events of a match of one rule.
#[must_use]
pub fn members(members: &[Member], rule: &Rule, automaton: &Automaton, sensors: &dyn Sensors) -> Json {
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

/// The rule of what was found, and the time that it rests on, both ends within, ns: what is missing there may be missing in
/// it. `None` of what is no incident.
#[must_use]
pub fn rests_on<'a>(output: &Output, automaton: &'a Automaton) -> Option<(&'a Rule, i64, i64)> {
    let (rule, at_ns, start_ns) = match output {
        Output::Opened(it) => (it.rule, it.at_ns, it.start_ns),
        Output::Extended(it) => (it.rule, it.at_ns, it.at_ns),
        Output::Closed(it) => (it.rule, it.at_ns, it.at_ns),
        Output::Hit(_) | Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => return None,
    };
    let rule = automaton.rules().get(usize::from(rule))?;
    Some((rule, start_ns.min(at_ns.saturating_sub(rule.reach_ns)), at_ns))
}

/// That an incident opened, went on or closed; `None` of any other output.
#[must_use]
pub fn incident(output: &Output, found: Found, automaton: &Automaton, sensors: &dyn Sensors) -> Option<Json> {
    let rule = |number: u16| &automaton.rules()[usize::from(number)];
    Some(match output {
        Output::Opened(it) => {
            let head = &rule(it.rule).head;
            json!({
                "event": "opened", "final": true, "id": it.id.to_string(), "rule": head.label(), "title": head.title,
                "level": head.level.name(), "tags": head.tags, "key": key_object(&rule(it.rule).group_by, &it.key),
                "opened_ns": it.at_ns, "start_ns": it.start_ns, "order_proven": !it.doubt.order,
                "timespan_proven": !it.doubt.timespan, "late": found.late, "incomplete": found.incomplete,
                "members": members(&it.members, rule(it.rule), automaton, sensors),
            })
        }
        Output::Extended(it) => json!({
            "event": "extended", "id": it.id.to_string(), "rule": rule(it.rule).head.label(), "at_ns": it.at_ns,
            "late": found.late, "members": members(&it.members, rule(it.rule), automaton, sensors),
        }),
        Output::Closed(it) => json!({
            "event": "closed", "id": it.id.to_string(), "rule": rule(it.rule).head.label(), "closed_ns": it.at_ns,
            "late": found.late, "matches": it.matches,
        }),
        Output::Hit(_) | Output::Late { .. } | Output::Forced { .. } | Output::Duplicate { .. } => return None,
    })
}

/// That an event matched a detection which is told by itself.
#[must_use]
pub fn matched(
    detection: u16,
    at_ns: i64,
    identity: &Identity,
    late: bool,
    automaton: &Automaton,
    sensors: &dyn Sensors,
) -> Json {
    let head = &automaton.detections()[usize::from(detection)].head;
    let mut object = json!({
        "event": "match", "rule": head.label(), "title": head.title, "level": head.level.name(),
        "time_ns": at_ns, "late": late,
    });
    if let Json::Object(object) = &mut object {
        object.extend(event(identity, sensors));
    }
    object
}
