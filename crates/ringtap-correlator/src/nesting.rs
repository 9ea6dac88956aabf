//! Owns: which incident is shown beneath which: one that another names as its member, and one whose events all are
//! another's.
//! Does not: read the store.

use std::collections::{BTreeSet, HashMap};

use ringtap_sigma::{Identity, IncidentId};

use crate::store::{Incident, MemberRow};

/// Incidents with their members.
pub type Listed = Vec<(Incident, Vec<MemberRow>)>;

/// Events of the incidents beneath are looked for so deep.
const MAX_DEPTH: usize = 8;

type Events = BTreeSet<(i64, Identity)>;

/// For each incident the one that it is shown beneath, by place in the list.
#[must_use]
pub fn parents(listed: &Listed) -> Vec<Option<usize>> {
    let places: HashMap<IncidentId, usize> = listed.iter().enumerate().map(|(at, (it, _))| (it.id, at)).collect();
    let mut parents: Vec<Option<usize>> = vec![None; listed.len()];
    for (at, (_, members)) in listed.iter().enumerate() {
        for below in members.iter().filter_map(|member| places.get(&member.via?).copied()) {
            if below != at && parents[below].is_none() {
                parents[below] = Some(at);
            }
        }
    }
    let events: Vec<Events> = (0..listed.len()).map(|at| events(listed, &places, at, 0)).collect();
    let mut having: HashMap<(i64, Identity), Vec<usize>> = HashMap::new();
    for (at, events) in events.iter().enumerate() {
        events.iter().for_each(|event| having.entry(*event).or_default().push(at));
    }
    for at in 0..listed.len() {
        if parents[at].is_some() || !listed[at].0.announces {
            continue;
        }
        let Some(candidates) = events[at].first().and_then(|first| having.get(first)) else { continue };
        // The smallest that has them all; of equal ones, those above are further down the list of (size, id).
        let size = |at: usize| (events[at].len(), listed[at].0.id);
        let above = candidates.iter().copied().filter(|&other| {
            listed[other].0.announces && size(other) > size(at) && events[at].is_subset(&events[other])
        });
        parents[at] = above.min_by_key(|&other| size(other));
    }
    parents
}

/// All events of an incident, those of the incidents beneath it as well.
fn events(listed: &Listed, places: &HashMap<IncidentId, usize>, at: usize, depth: usize) -> Events {
    let mut all: Events = listed[at].1.iter().map(|member| (member.time_ns, member.identity)).collect();
    if depth < MAX_DEPTH {
        for below in listed[at].1.iter().filter_map(|member| places.get(&member.via?).copied()) {
            if below != at {
                all.append(&mut events(listed, places, below, depth + 1));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: u8, announces: bool, members: &[(i64, Option<u8>)]) -> (Incident, Vec<MemberRow>) {
        let incident = Incident {
            id: IncidentId([id; 16]),
            rule: "r".into(),
            title: "R".into(),
            level: "high".into(),
            key: serde_json::Map::new(),
            announces,
            opened_ns: 0,
            start_ns: 0,
            closed_ns: None,
            order_proven: true,
            timespan_proven: true,
            late: false,
            incomplete: false,
            matches: 1,
        };
        let member = |(time_ns, via): &(i64, Option<u8>)| MemberRow {
            time_ns: *time_ns,
            identity: Identity::default(),
            step: 0,
            via: via.map(|via| IncidentId([via; 16])),
        };
        (incident, members.iter().map(member).collect())
    }

    #[test]
    fn by_name_and_by_events() {
        let list = vec![
            listed(1, false, &[(1, None), (2, None), (3, None)]),
            // A chain over the first, and one whose events are all in it.
            listed(2, true, &[(3, Some(1)), (9, None)]),
            listed(3, true, &[(2, None), (3, None)]),
            listed(4, true, &[(3, None), (4, None)]),
            // Equal ones: one of them is above.
            listed(5, true, &[(3, None), (4, None)]),
        ];
        assert_eq!(parents(&list), [Some(1), None, Some(1), Some(4), None]);
    }
}
