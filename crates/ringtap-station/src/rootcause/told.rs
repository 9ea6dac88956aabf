//! Incidents of root cause in the schema that the correlator's have: what outputs tell and lists show.
//!
//! Owns titles, levels and the JSON. Fields that both have mean the same (docs/correlate.md); what is about rules and clocks alone
//! (`order_proven`, `timespan_proven`, `late`, `incomplete`) is not here, `class`, `confidence` and `path` are not there.

use ringtap_rootcause::{Incident, Root};
use serde_json::{Value as Json, json};

use crate::store::{CauseFound, StoredIncident, StoredMember};

/// Where a rule's name stands in the correlator's.
pub(crate) const RULE: &str = "root-cause";
/// Members in an announcement; the store has all.
const MOST_TOLD: usize = 100;

/// One line for people.
pub(crate) fn title(root: &Root) -> String {
    match root {
        Root::Class(class) => {
            let words = |element: &str| element.replacen(':', " ", 1);
            let first = class.first().map_or("", |element| &element.0);
            // The ports at its ends always stand beside a link.
            let is_else = |element: &&&str| !(first.starts_with("link:") && element.starts_with("port:"));
            let names: Vec<&str> = class.iter().skip(1).map(|element| element.0.as_str()).collect();
            let others: Vec<String> = names.iter().filter(is_else).map(|element| words(element)).collect();
            let others = if others.is_empty() { String::new() } else { format!(", or {}", others.join(", or ")) };
            format!("{} failed{others}", words(first))
        }
        Root::Alarm { subject, .. } => {
            format!("{} {}", subject.condition, subject.object).trim_end().to_owned() + " of " + &subject.resource
        }
        Root::Nodes(nodes) => format!("alarms of {}", nodes.iter().cloned().collect::<Vec<_>>().join(", ")),
        Root::Left { resolved } => format!("what stayed when incident {resolved} was over"),
    }
}

/// An incident as the store has it.
pub(crate) fn stored(it: &Incident, level: &str, members: Vec<StoredMember>) -> StoredIncident {
    let class = match &it.root {
        Root::Class(elements) => elements.iter().map(|element| element.0.clone()).collect(),
        Root::Alarm { .. } | Root::Nodes(_) | Root::Left { .. } => Vec::new(),
    };
    StoredIncident {
        id: it.id,
        title: title(&it.root),
        level: level.to_owned(),
        opened_ns: it.decided_ns,
        start_ns: it.first_ns,
        closed_ns: None,
        merged_into: None,
        cause: CauseFound {
            class,
            expected: it.expected,
            seen: it.seen,
            confidence: it.confidence,
            revisions: it.revisions,
            episode: it.episode,
        },
        members,
    }
}

/// An announcement: `opened`, `revised` or `closed`; with its first members.
pub(crate) fn announcement(event: &str, it: &StoredIncident) -> Json {
    let mut object = json(it, it.members.len() as u64);
    object["event"] = event.into();
    object["final"] = true.into();
    object["members"] = it.members.iter().take(MOST_TOLD).map(member).collect();
    object
}

/// An incident without its members.
pub(crate) fn json(it: &StoredIncident, members: u64) -> Json {
    let cause = &it.cause;
    let root = cause.class.first();
    json!({
        "id": it.id.to_string(), "rule": RULE, "title": it.title, "level": it.level,
        "key": root.map_or_else(|| json!({}), |root| json!({"root": root})),
        "announces": true, "opened_ns": it.opened_ns, "start_ns": it.start_ns, "closed_ns": it.closed_ns, "matches": members,
        "beneath": it.merged_into.map(|id| id.to_string()),
        "class": cause.class, "confidence": f64::from(cause.confidence) / 1000.0, "expected": cause.expected, "seen": cause.seen,
        "revisions": cause.revisions, "episode": cause.episode,
    })
}

/// A member: `sensor` is who said it, `of` the condition, `sequence` the number of the alarm.
pub(crate) fn member(it: &StoredMember) -> Json {
    let path: Vec<Json> =
        it.path.iter().map(|step| json!({"element": step.element, "because": step.because})).collect();
    json!({
        "time_ns": it.since_ns, "step": it.path.len() + 1, "of": it.condition, "sensor": it.resource, "object": it.object,
        "sequence": it.alarm, "path": path,
    })
}
