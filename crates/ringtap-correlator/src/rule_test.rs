//! Owns: tests of rules: rules, events and the incidents that are expected of them, in one TOML file.
//! Does not: print.
//!
//! ```toml
//! rules = ["../brute-force.yml"]       # beside this file; or rule = '''…''', the rule itself
//! [[case]]
//! name = "three failures, then a success"
//! events = '''
//! {"timestamp":"2026-01-31T12:00:00Z","event_type":"alert", …}
//! '''
//! incidents = [{ rule = "brute_force", key = ["192.0.2.1"], members = 4 }]
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_sigma::{Automaton, IncidentId, Limits, Output, RuleSet, key_parts};
use serde::Deserialize;

use crate::correlator::{Correlator, Report, Settings, Way};
use crate::input::parse::{Parser, Wanted};
use crate::render::shown_time;
use crate::sensors::Now;

/// The events of a test may be of any time.
const NOW: Now = Now { wall_ns: i64::MAX, monotonic_ns: 0 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<PathBuf>,
    rule: Option<String>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    events: String,
    incidents: Vec<Expected>,
}

/// An expected incident; what is left out may be anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    rule: String,
    key: Option<Vec<String>>,
    members: Option<usize>,
    opened: Option<String>,
    order_proven: Option<bool>,
}

/// An incident that was found.
struct Found {
    id: IncidentId,
    rule: String,
    key: Vec<String>,
    members: usize,
    opened_ns: i64,
    order_proven: bool,
}

impl Expected {
    fn is(&self, found: &Found) -> bool {
        self.rule == found.rule
            && self.key.as_ref().is_none_or(|key| *key == found.key)
            && self.members.is_none_or(|members| members == found.members)
            && self.order_proven.is_none_or(|proven| proven == found.order_proven)
            && self.opened.as_ref().is_none_or(|opened| *opened == shown_time(found.opened_ns))
    }
}

/// What became of one case.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What is wrong; empty: it passed.
    pub faults: Vec<String>,
}

/// Runs all cases of a test file.
///
/// # Errors
/// The file or a rule can't be read or is not understood: a rule that is not used makes its test meaningless.
pub fn run(path: &Path) -> Result<Vec<Outcome>> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Error::os("read the test", &name, &error))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Error::failed("read the test", format!("{name}:{at}"), error.message())
            .way_out("docs/correlate.md shows what is in a test")
    })?;
    let automaton = rules(path, &file)?;
    file.case.iter().map(|case| outcome(&name, &automaton, case)).collect()
}

fn rules(path: &Path, file: &File) -> Result<Arc<Automaton>> {
    let mut set = RuleSet::new();
    let folder = path.parent().unwrap_or(Path::new(""));
    for rule in &file.rules {
        let rule = folder.join(rule);
        let name = rule.display().to_string();
        let text = fs::read_to_string(&rule).map_err(|error| Error::os("read the rule", &name, &error))?;
        set.add(&name, &text);
    }
    if let Some(rule) = &file.rule {
        set.add("the test's rule", rule);
    }
    let (automaton, rejected) = set.compile(Limits::default());
    match rejected.first() {
        Some(rejected) => Err(Error::failed("test", path.display().to_string(), rejected)),
        None => Ok(Arc::new(automaton)),
    }
}

fn outcome(file: &str, automaton: &Arc<Automaton>, case: &Case) -> Result<Outcome> {
    let mut correlator = Correlator::open(Arc::clone(automaton), Settings::default(), None, NOW)?;
    let mut parser = Parser::new(Wanted::Auto, "test");
    for (number, line) in case.events.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let event = parser
            .event(line.as_bytes())
            .map_err(|bad| Error::failed("test", format!("{file}: {}, event {}", case.name, number + 1), bad))?;
        correlator.event(event, Way::File, NOW.wall_ns);
    }
    correlator.end()?;
    let late: u64 = correlator.counts().sensors.values().map(|sensor| sensor.late).sum();
    let mut faults = Vec::new();
    if late > 0 {
        faults.push(format!("{late} events come more than 5 s behind the latest: put them in order"));
    }
    let mut found = found(&mut correlator);
    for expected in &case.incidents {
        match found.iter().position(|found| expected.is(found)) {
            Some(at) => drop(found.remove(at)),
            None => faults.push(format!("expected and not found: {expected:?}")),
        }
    }
    faults.extend(found.iter().map(|it| {
        let (proven, opened) = (it.order_proven, shown_time(it.opened_ns));
        let Found { rule, key, members, .. } = it;
        format!(
            "found and not expected: {{ rule = {rule:?}, key = {key:?}, members = {members}, opened = {opened:?}, order_proven = {proven} }}"
        )
    }));
    Ok(Outcome { name: case.name.clone(), faults })
}

fn found(correlator: &mut Correlator) -> Vec<Found> {
    let mut list: Vec<Found> = Vec::new();
    for told in correlator.take_told() {
        match told {
            Report::Incident(Output::Opened(it), _) => list.push(Found {
                id: it.id,
                rule: correlator.automaton().rules()[usize::from(it.rule)].head.label().to_owned(),
                key: key_parts(&it.key).map(str::to_owned).collect(),
                members: it.members.len(),
                opened_ns: it.at_ns,
                order_proven: !it.doubt.order,
            }),
            Report::Incident(Output::Extended(it), _) => {
                if let Some(found) = list.iter_mut().find(|found| found.id == it.id) {
                    found.members += it.members.len();
                }
            }
            _ => {}
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "
rule = '''
title: Two
name: two_alerts
correlation: {type: event_count, rules: alert, group-by: src_ip, timespan: 10s, condition: {gte: 2}}
---
title: Alert
name: alert
logsource: {product: suricata, service: alert}
detection: {s: {alert.severity|lte: 2}, condition: s}
'''
[[case]]
name = \"two in time\"
events = '''
{\"timestamp\":\"2026-01-31T12:00:00Z\",\"event_type\":\"alert\",\"src_ip\":\"192.0.2.1\",\"alert\":{\"severity\":1}}
{\"timestamp\":\"2026-01-31T12:00:10Z\",\"event_type\":\"alert\",\"src_ip\":\"192.0.2.1\",\"alert\":{\"severity\":2}}
'''
incidents = [{ rule = \"two_alerts\", key = [\"192.0.2.1\"], members = 2, opened = \"2026-01-31T12:00:10Z\" }]
";

    fn outcomes(text: &str) -> Result<Vec<Outcome>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        run(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_test_passes_or_says_why_not() {
        assert!(outcomes(TEST).unwrap()[0].faults.is_empty());
        let late = outcomes(&TEST.replace("members = 2", "members = 3")).unwrap();
        assert_eq!(late[0].faults.len(), 2, "{late:?}");
        assert!(late[0].faults[0].contains("expected and not found") && late[0].faults[1].contains("members = 2"));
        assert!(outcomes(&TEST.replace("gte: 2", "avg: 2")).unwrap_err().contains("the test's rule:"));
        assert!(
            outcomes(&TEST.replace("name = \"two in", "nam = \"two in")).unwrap_err().contains("unknown field `nam`")
        );
        assert!(outcomes(&TEST.replace("{\"timestamp\"", "{\"timestam\"")).unwrap_err().contains("event 1"));
    }
}
