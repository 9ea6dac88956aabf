//! Owns: what is asked of rules over a recorded attack, and the answer: incidents as `ringtap alarms list --incidents`
//! has them, held against the labels.
//! Does not: run anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde_json::Value as Json;

use super::convert::{Recorded, Row};

/// The phases that an incident must have evidence of.
pub const PHASES: [&str; 7] =
    ["service_scans", "wpscan", "dirb", "webshell", "cracking", "reverse_shell", "privilege_escalation"];
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 24 * 3600;

/// When each phase of an attack was, seconds since 1970.
pub type Phases = BTreeMap<String, (i64, i64)>;

/// One incident that no other lies over.
#[derive(Debug)]
pub struct Top {
    pub rule: String,
    pub key: String,
    pub opened_s: i64,
    pub members: usize,
    pub evidence: usize,
    /// Phases of the evidence.
    pub phases: BTreeSet<&'static str>,
}

impl Top {
    fn share(&self) -> f64 {
        self.evidence as f64 / self.members.max(1) as f64
    }

    /// Mostly of something else.
    fn is_false(&self) -> bool {
        self.share() < 0.95
    }
}

/// What rules made of a recorded attack.
#[derive(Debug)]
pub struct Verdict {
    pub tops: Vec<Top>,
    days: i64,
    webshell_ends: i64,
}

impl Verdict {
    /// Judges all incidents, each a JSON object with its members.
    pub fn of(recorded: &Recorded, phases: &Phases, incidents: &[Json]) -> Self {
        let attacked = recorded
            .rows
            .iter()
            .find(|row| row.label == "webshell_cmd")
            .map(|row| row.host.clone())
            .expect("somebody is attacked");
        let by_id: HashMap<&str, &Json> = incidents.iter().map(|it| (text(it, "id"), it)).collect();
        let told = incidents.iter().filter(|it| it["announces"] == true && it["beneath"].is_null());
        let tops = told.map(|it| {
            let mut rows = BTreeMap::new();
            collect(recorded, &by_id, it, 0, &mut rows);
            let phase_of = |row: &Row| phase(phases, row.time);
            let is_evidence = |row: &Row| {
                row.label != "-"
                    || (row.name.contains("High entropy") && row.host == attacked && phase_of(row).is_some())
            };
            let evidence: Vec<&Row> = rows.values().copied().filter(|row| is_evidence(row)).collect();
            Top {
                rule: text(it, "rule").to_owned(),
                key: it["key"].to_string(),
                opened_s: it["opened_ns"].as_i64().unwrap() / SECOND,
                members: rows.len(),
                phases: evidence.iter().filter_map(|row| phase_of(row)).collect(),
                evidence: evidence.len(),
            }
        });
        let (first, last) = (recorded.rows.first().unwrap().time, recorded.rows.last().unwrap().time);
        Self { tops: tops.collect(), days: (last - first) / DAY + 1, webshell_ends: phases["webshell"].1 }
    }

    /// What is wrong; nothing: the attack was found as it should be.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (wrong, right): (Vec<&Top>, Vec<&Top>) = self.tops.iter().partition(|top| top.is_false());
        let [attack] = right.as_slice() else {
            faults.push(format!("{} incidents of evidence, expected one", right.len()));
            faults.extend(wrong.first().map(|top| format!("{} false ones, as {top:?}", wrong.len())));
            return faults;
        };
        if !wrong.is_empty() {
            faults.push(format!("{} false incidents in {} days, as {:?}", wrong.len(), self.days, wrong[0]));
        }
        if attack.opened_s >= self.webshell_ends {
            faults.push(format!("opened {} s after webshell had ended", attack.opened_s - self.webshell_ends));
        }
        let missing: Vec<&str> = PHASES.into_iter().filter(|phase| !attack.phases.contains(phase)).collect();
        if !missing.is_empty() {
            faults.push(format!("no evidence of {missing:?}"));
        }
        faults
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} incidents at the top in {} days", self.tops.len(), self.days)?;
        self.tops.iter().take(10).try_for_each(|top| {
            let Top { rule, key, members, evidence, phases, .. } = top;
            let before = self.webshell_ends - top.opened_s;
            writeln!(f, "  {rule} {key}: opened {before} s before webshell ended, {evidence} of {members} members are evidence, of {phases:?}")
        })
    }
}

/// The phase of a time. One begins where the one before it ends.
fn phase(phases: &Phases, time: i64) -> Option<&'static str> {
    PHASES.into_iter().find(|phase| phases.get(*phase).is_some_and(|(begin, end)| (*begin..*end).contains(&time)))
}

/// The alerts of an incident and of those beneath it, each once.
fn collect<'a>(
    recorded: &'a Recorded,
    by_id: &HashMap<&str, &Json>,
    incident: &Json,
    depth: u8,
    rows: &mut BTreeMap<(u64, u64), &'a Row>,
) {
    for member in incident["members"].as_array().unwrap() {
        match member["via"].as_str().and_then(|via| by_id.get(via)).filter(|_| depth < 8) {
            Some(below) => collect(recorded, by_id, below, depth + 1, rows),
            None => {
                let epoch = u64::from_str_radix(text(member, "epoch"), 16).unwrap();
                let sequence = member["sequence"].as_u64().unwrap();
                rows.insert((epoch, sequence), recorded.row(epoch, sequence).expect("members are alerts"));
            }
        }
    }
}

fn text<'a>(object: &'a Json, name: &str) -> &'a str {
    object[name].as_str().unwrap()
}
