//! Owns: the versions of the configuration, each from an event time on: rules, and the sensors that are waited for.
//! Does not: run rules.
//!
//! An event is judged by the rules of its own time, on every instance and at every level, whenever the configuration came.
//! A rule that means the same in two versions keeps its states: keys name its version, not its number.

use std::collections::{BTreeMap, HashMap};

use ringtap_event::incident::Sensors;
use ringtap_event::parse::hash;
use ringtap_event::scopes::Scopes;
use ringtap_sigma::{Automaton, Limits, Matcher, Rule, RuleSet, Version};
use serde::Deserialize;

/// How much longer than its windows a version stays, ns.
const MARGIN_NS: i64 = 1_000_000_000;

/// A configuration as a record of its topic, or a line of its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// Nanoseconds since 1970; the first one holds from the beginning.
    #[serde(default = "always")]
    from_ns: i64,
    /// Sigma rules, by the name of their file.
    rules: BTreeMap<String, String>,
    /// Registered sensors. `null`: it sends heartbeats. A number: its events come at most so many nanoseconds out of order.
    #[serde(default)]
    sensors: BTreeMap<String, Option<i64>>,
}

fn always() -> i64 {
    i64::MIN
}

/// One version.
pub struct Configured {
    /// Its rules.
    pub automaton: Automaton,
    /// They, ready to search.
    pub matcher: Matcher,
    /// Which of them are for which event.
    pub scopes: Scopes,
    /// What the states of each rule depend on, by the rule's number. A hash: too much work for each event.
    states: Vec<Version>,
    /// Numbers of its rules by that.
    numbers: HashMap<Version, u16>,
    /// Of the record that it came with.
    said: u64,
}

impl Configured {
    /// A rule and what its states depend on, by its number.
    #[must_use]
    pub fn numbered(&self, rule: u16) -> Option<(&Rule, &Version)> {
        self.automaton.rules().get(usize::from(rule)).zip(self.states.get(usize::from(rule)))
    }

    /// The rule with states of this version.
    #[must_use]
    pub fn rule(&self, version: &Version) -> Option<&Rule> {
        self.automaton.rules().get(usize::from(*self.numbers.get(version)?))
    }
}

/// All versions.
#[derive(Default)]
pub struct Versions {
    by_time: BTreeMap<i64, Configured>,
    /// Registered sensors of the latest version.
    sensors: BTreeMap<String, Option<i64>>,
    names: HashMap<u64, String>,
}

impl Versions {
    /// Adds a version. Returns from when on it holds, ns, and what is to be said of its rules, if it is a new one: the same again
    /// changes nothing, nor does one whose time is over.
    ///
    /// # Errors
    /// It is not understood, no rule is usable, a chain is longer than there are operators for (`levels`), or another one
    /// holds from the same time on: events were judged by that, and have to find its rules again.
    pub fn add(&mut self, record: &[u8], levels: u8) -> Result<(i64, Option<Vec<String>>), String> {
        let said = hash(record.trim_ascii());
        let record: Record = serde_json::from_slice(record).map_err(|error| {
            format!(
                "configuration: {error}; expected {{\"from_ns\":…,\"rules\":{{FILE:TEXT}},\"sensors\":{{NAME:null}}}}"
            )
        })?;
        match self.by_time.get(&record.from_ns) {
            Some(there) if there.said == said => return Ok((record.from_ns, None)),
            Some(_) => {
                let from = if record.from_ns == always() { "the beginning".into() } else { record.from_ns.to_string() };
                return Err(format!(
                    "configuration: another one holds from {from} on, and stays: give this one a later \"from_ns\""
                ));
            }
            // It is forgotten here, and perhaps not yet by others.
            None if self.by_time.keys().next().is_some_and(|first| record.from_ns < *first) => {
                return Ok((record.from_ns, None));
            }
            None => {}
        }
        let mut set = RuleSet::new();
        record.rules.iter().for_each(|(file, text)| set.add(file, text));
        let (automaton, rejected) = set.compile(Limits::default());
        let notes: Vec<String> = rejected.iter().map(|rejected| format!("not used: {rejected}")).collect();
        if automaton.detections().is_empty() {
            return Err(format!(
                "configuration: no rule of {} files is usable; {}",
                record.rules.len(),
                notes.join("; ")
            ));
        }
        if let Some(rule) = automaton.rules().iter().find(|rule| rule.level >= levels) {
            let (label, level) = (rule.head.label(), rule.level + 1);
            return Err(format!(
                "rule {label}: a chain of {level} correlations; this job has {levels}: start it with --levels {level}"
            ));
        }
        let states: Vec<Version> = automaton.rules().iter().map(Rule::state_version).collect();
        let numbers = (0..).zip(&states).map(|(number, version)| (*version, number)).collect();
        let (matcher, scopes) = (Matcher::new(&automaton), Scopes::new(&automaton));
        self.by_time.insert(record.from_ns, Configured { automaton, matcher, scopes, states, numbers, said });
        if self.by_time.last_key_value().is_some_and(|(latest, _)| *latest == record.from_ns) {
            self.names.extend(record.sensors.keys().map(|name| (hash(name.as_bytes()), name.clone())));
            self.sensors = record.sensors;
        }
        Ok((record.from_ns, Some(notes)))
    }

    /// Forgets versions whose events and states are all gone once the watermark has come so far. The latest stays.
    pub fn forget(&mut self, watermark: i64) {
        while let Some(next) = self.by_time.keys().nth(1).copied()
            && let Some((_, first)) = self.by_time.first_key_value()
            // Its last event is before the next version; its states are gone a timespan later, in chains those of all.
            && watermark > next.saturating_add(first.automaton.horizon_ns().saturating_mul(2)).saturating_add(MARGIN_NS)
        {
            self.by_time.pop_first();
        }
    }

    /// From when on the versions hold that are kept, ns.
    pub fn kept(&self) -> impl Iterator<Item = i64> {
        self.by_time.keys().copied()
    }

    /// The longest time that an event can matter in any version, ns.
    #[must_use]
    pub fn horizon_ns(&self) -> i64 {
        self.by_time.values().map(|version| version.automaton.horizon_ns()).max().unwrap_or(0)
    }

    /// The version for events of this time.
    pub fn at(&mut self, time_ns: i64) -> Option<&mut Configured> {
        self.by_time.range_mut(..=time_ns).next_back().map(|(_, version)| version)
    }

    /// The version to run a rule by its states' version: that of this time if it has the rule, else the latest that has.
    #[must_use]
    pub fn with_rule(&self, version: &Version, time_ns: i64) -> Option<(&Configured, &Rule)> {
        let find = |configured| Configured::rule(configured, version).map(|rule| (configured, rule));
        let at = self.by_time.range(..=time_ns).next_back();
        at.into_iter().chain(self.by_time.iter().rev()).find_map(|(_, configured)| find(configured))
    }

    /// Registered sensors, with how far out of order their events may come where they send no heartbeats.
    #[must_use]
    pub fn sensors(&self) -> &BTreeMap<String, Option<i64>> {
        &self.sensors
    }
}

impl Sensors for Versions {
    fn name(&self, number: u64) -> Option<&str> {
        self.names.name(number)
    }
}
