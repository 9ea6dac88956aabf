//! What a store holds of incidents, for people and programs: lists, one incident as the tree of what explains what, everything.
//!
//! Owns the shape of lists, which is that of the correlator's where both have the same. The tree's branches are the elements between the
//! cause and its alarms.

use std::io::{self, Write};

use ringtap::{Error, Result};
use ringtap_output::{Severity, printable, printable_json};
use ringtap_rootcause::Step;
use ringtap_run::units;
use ringtap_web::{Branch, Cell};
use serde_json::Value as Json;

use crate::rootcause::{RULE, json, member};
use crate::store::{Store, StoredIncident, StoredMember};

/// Incidents as lines; `all`: those that are over too; `least`: only those of this severity and worse. Returns how many.
///
/// # Errors
/// The store can't be read; within: `out` takes no more.
pub(crate) fn list(
    out: &mut impl Write,
    store: &Store,
    all: bool,
    least: Option<Severity>,
    json: bool,
) -> Result<io::Result<usize>> {
    let counts = store.member_counts()?;
    let mut incidents = store.incidents()?;
    let is_grave = |it: &StoredIncident| least.is_none_or(|least| Severity::from_level(&it.level) >= Some(least));
    incidents.retain(|it| (all || it.closed_ns.is_none()) && is_grave(it));
    let mut print = || {
        if !json && !incidents.is_empty() {
            heading(out)?;
        }
        for it in &incidents {
            let members = counts.get(&it.id).copied().unwrap_or(0);
            if json {
                line(out, &self::json(it, members))?;
            } else {
                row(out, it, members)?;
            }
        }
        out.flush()?;
        Ok(incidents.len())
    };
    Ok(print())
}

/// One incident, as a tree.
///
/// # Errors
/// There is none with this number, or the store can't be read; within: `out` takes no more.
pub(crate) fn show(out: &mut impl Write, store: &Store, id: &str, json: bool) -> Result<io::Result<()>> {
    let it = find(store, id)?;
    if json {
        return Ok(whole(out, &it));
    }
    let mut print = || {
        heading(out)?;
        row(out, &it, it.members.len() as u64)?;
        let cause = &it.cause;
        let closed = match (it.closed_ns, it.merged_into) {
            (None, _) => "still open".to_owned(),
            (Some(at), None) => format!("over since {}", units::shown_time(at)),
            (Some(at), Some(into)) => format!("its alarms belong to incident {into} since {}", units::shown_time(at)),
        };
        if cause.class.is_empty() {
            writeln!(out, "rule {RULE}, {closed}; nothing in the topology explains it")?;
        } else {
            let (seen, expected) = (cause.seen, cause.expected);
            let confidence = f64::from(cause.confidence) / 1000.0;
            let revised = match cause.revisions {
                0 => String::new(),
                count => format!("; revised {count} times"),
            };
            writeln!(
                out,
                "rule {RULE}, {closed}; {seen} of {expected} symptoms seen, confidence {confidence:.3}{revised}"
            )?;
        }
        print(out, &Tree::of(&it).branches(), "")?;
        out.flush()
    };
    Ok(print())
}

/// Every incident with its members, or one, one JSON object a line.
///
/// # Errors
/// There is none with this number, or the store can't be read; within: `out` takes no more.
pub(crate) fn export(out: &mut impl Write, store: &Store, id: Option<&str>) -> Result<io::Result<()>> {
    if let Some(id) = id {
        return Ok(whole(out, &find(store, id)?));
    }
    for it in store.incidents()? {
        let Some(it) = store.incident(it.id)? else { continue };
        if let Err(error) = whole(out, &it) {
            return Ok(Err(error));
        }
    }
    Ok(out.flush())
}

fn find(store: &Store, id: &str) -> Result<StoredIncident> {
    let found = id.parse().ok().map(|id| store.incident(id)).transpose()?.flatten();
    found.ok_or_else(|| {
        Error::failed("find", format!("incident {id}"), "there is none with this number")
            .way_out("`ringtap alarms list --incidents --all` shows the numbers")
    })
}

fn whole(out: &mut impl Write, it: &StoredIncident) -> io::Result<()> {
    let mut object = json(it, it.members.len() as u64);
    object["members"] = it.members.iter().map(member).collect();
    line(out, &object)
}

fn line(out: &mut impl Write, object: &Json) -> io::Result<()> {
    writeln!(out, "{}", printable_json(&object.to_string()))
}

fn heading(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:<12} {:<20} {:<6} {:<13} {:>6} WHAT", "ID", "SINCE", "STATE", "LEVEL", "ALARMS")
}

fn row(out: &mut impl Write, it: &StoredIncident, members: u64) -> io::Result<()> {
    let state = if it.closed_ns.is_some() { "closed" } else { "open" };
    let (since, title) = (units::shown_time(it.opened_ns), printable(&it.title));
    writeln!(out, "{:<12} {since:<20} {state:<6} {:<13} {members:>6} {title}", it.id, it.level)
}

/// An element, what it makes fail, and the alarms that say so.
#[derive(Default)]
pub(crate) struct Tree<'a> {
    alarms: Vec<&'a StoredMember>,
    below: Vec<(&'a Step, Self)>,
}

impl<'a> Tree<'a> {
    pub(crate) fn of(it: &'a StoredIncident) -> Self {
        let mut this = Self::default();
        for member in &it.members {
            let mut at = &mut this;
            for step in &member.path {
                let known = at.below.iter().position(|(other, _)| *other == step);
                let place = known.unwrap_or_else(|| {
                    at.below.push((step, Self::default()));
                    at.below.len() - 1
                });
                at = &mut at.below[place].1;
            }
            at.alarms.push(member);
        }
        this
    }

    /// As texts: alarms before what lies below, each with the page that it leads to.
    pub(crate) fn branches(&self) -> Vec<Branch> {
        let alarms = self.alarms.iter().map(|it| {
            let (what, since) = (format!("{} {}", it.condition, it.object), units::shown_time(it.since_ns));
            let text = format!("{} of {}  (alarm {}, {since})", what.trim_end(), it.resource, it.alarm);
            Branch { what: Cell::from(text).to(format!("/alarm/{}", it.alarm)), below: Vec::new() }
        });
        let below = self.below.iter().map(|(step, below)| {
            let because = if step.because.is_empty() { String::new() } else { format!(": {}", step.because) };
            Branch { what: format!("{}{because}", step.element.0).into(), below: below.branches() }
        });
        alarms.chain(below).collect()
    }
}

fn print(out: &mut impl Write, branches: &[Branch], indent: &str) -> io::Result<()> {
    for (at, branch) in branches.iter().enumerate() {
        let (turn, rest) = if at + 1 == branches.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        writeln!(out, "{indent}{turn}{}", printable(&branch.what.text))?;
        print(out, &branch.below, &format!("{indent}{rest}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CauseFound;
    use ringtap_rootcause::Element;

    #[test]
    fn alarms_hang_where_the_way_to_them_ends() {
        let step =
            |element: &str, because: &str| Step { element: Element(element.to_owned()), because: because.to_owned() };
        let member = |alarm, object: &str, path: &[Step]| StoredMember {
            alarm,
            since_ns: 0,
            resource: "core\u{1b}".to_owned(),
            condition: "linkDown".to_owned(),
            object: object.to_owned(),
            path: path.to_vec(),
        };
        let (power, node) = (step("power:p", ""), step("node:d1", "has no other power"));
        let link = step("link:core:1-d1:1", "ends at this node");
        let it = StoredIncident {
            id: 7,
            title: String::new(),
            level: "high".to_owned(),
            opened_ns: 0,
            start_ns: 0,
            closed_ns: None,
            merged_into: None,
            cause: CauseFound { class: Vec::new(), expected: 3, seen: 3, confidence: 900, revisions: 0, episode: 1 },
            members: vec![
                member(1, "1", &[power.clone(), node.clone(), link]),
                member(2, "2", &[power.clone(), node]),
                member(3, "3", &[power]),
                member(4, "", &[]),
            ],
        };
        let mut out = Vec::new();
        print(&mut out, &Tree::of(&it).branches(), "").unwrap();
        let expected = "\
├─ linkDown of core\u{fffd}  (alarm 4, TIME)
└─ power:p
   ├─ linkDown 3 of core\u{fffd}  (alarm 3, TIME)
   └─ node:d1: has no other power
      ├─ linkDown 2 of core\u{fffd}  (alarm 2, TIME)
      └─ link:core:1-d1:1: ends at this node
         └─ linkDown 1 of core\u{fffd}  (alarm 1, TIME)
";
        let text = String::from_utf8(out).unwrap().replace(&units::shown_time(0), "TIME");
        assert_eq!(text, expected);
    }
}
