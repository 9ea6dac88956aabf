//! A flood of source addresses, each with one event: memory stays within its bound, what is forgotten is told, and an attack in stages
//! among them is found as long as its source goes on.

mod counting;

use std::sync::Arc;

use counting::{CALLS, LIVE};
use ringtap_correlator::correlator::{Correlator, Report, Settings, Way};
use ringtap_correlator::engine::{Bounds, Forgotten};
use ringtap_correlator::input::parse::{Parser, Wanted};
use ringtap_correlator::sensors::Now;
use ringtap_sigma::{Automaton, Limits, Output, RuleSet, key_parts};

const START: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
/// Events come so long after one another, ns: all of them within the rules' timespan.
const APART: i64 = SECOND / 100_000;
const ALLOWED: usize = 4 << 20;
/// Who attacks in three stages, and scans again and again meanwhile.
const STAYS: &str = "192.0.2.1";
/// So many others come between two of its scans.
const BETWEEN: usize = 1000;
/// Who scans and exploits, and is silent until it calls back.
const GOES: &str = "192.0.2.2";

const RULES: &str = "
title: scan
name: scan
logsource: {product: test}
detection: {s: {kind: scan}, condition: s}
---
title: exploit
name: exploit
logsource: {product: test}
detection: {s: {kind: exploit}, condition: s}
---
title: callback
name: callback
logsource: {product: test}
detection: {s: {kind: callback}, condition: s}
---
title: staged
name: staged
correlation: {type: temporal_ordered, rules: [scan, exploit, callback], group-by: src_ip, timespan: 1h}
---
title: scans
name: scans
correlation: {type: event_count, rules: scan, group-by: src_ip, timespan: 1h, condition: {gte: 30}}
";

fn automaton() -> Arc<Automaton> {
    let mut set = RuleSet::new();
    set.add("test", RULES);
    let (automaton, rejected) = set.compile(Limits::default());
    assert!(rejected.is_empty(), "{rejected:?}");
    Arc::new(automaton)
}

fn source(key: &[u8]) -> String {
    key_parts(key).collect::<Vec<_>>().join(" ")
}

/// A correlator in a flood, and what was seen of it.
struct Flood {
    correlator: Correlator,
    parser: Parser,
    /// Bytes of this thread before anything came.
    empty: i64,
    sent: i64,
    /// At most: bytes that the allocator gave, bytes that the engine counts, keys.
    most: (i64, usize, usize),
    /// Allocations in the correlator since this was taken last.
    calls: u64,
    /// Told as forgotten: of the flood, and all that was known of others, as rule, source and steps.
    forgotten: usize,
    others: Vec<(String, String, Vec<u8>)>,
    /// Found: rule, source, members, and whether events may be missing.
    found: Vec<(String, String, usize, bool)>,
}

impl Flood {
    fn begin() -> Self {
        let settings = Settings { bounds: Bounds { bytes: ALLOWED }, disorder_ns: 0, ..Settings::default() };
        let now = Now { wall_ns: START, monotonic_ns: START };
        let correlator = Correlator::open(automaton(), settings, None, now).unwrap();
        let parser = Parser::new(Wanted::Json, "in");
        let (others, found) = (Vec::new(), Vec::new());
        let empty = LIVE.get();
        Self { correlator, parser, empty, sent: 0, most: (0, 0, 0), calls: 0, forgotten: 0, others, found }
    }

    fn event(&mut self, kind: &str, source: &str) {
        self.sent += 1;
        let time = START + self.sent * APART;
        let line = format!(r#"{{"time":{time},"kind":"{kind}","src_ip":"{source}"}}"#);
        let event = self.parser.event(line.as_bytes()).unwrap();
        let before = CALLS.get();
        self.correlator.event(event, Way::Stream, time);
        self.calls += CALLS.get() - before;
        for report in self.correlator.take_told() {
            self.hear(report);
        }
        let engine = self.correlator.engine();
        let (live, bytes, keys) = self.most;
        self.most = (live.max(LIVE.get() - self.empty), bytes.max(engine.bytes()), keys.max(engine.keys()));
    }

    fn hear(&mut self, report: Report) {
        let rules = self.correlator.engine().automaton().rules();
        let name = |rule: u16| rules[usize::from(rule)].head.name.clone();
        match report {
            // What is told has the rule, the key, and each event that was remembered.
            Report::Forgotten(Forgotten { rule, key, incident: None, members }) if source(&key).starts_with("10.") => {
                assert!(name(rule) == "staged" || name(rule) == "scans");
                assert!(members.len() == 1 && members[0].place == 0, "{members:?}");
                self.forgotten += 1;
            }
            Report::Forgotten(Forgotten { rule, key, members, .. }) => {
                let steps = members.iter().map(|member| member.place).collect();
                self.others.push((name(rule), source(&key), steps));
            }
            Report::Incident(Output::Opened(it), found) => {
                self.found.push((name(it.rule), source(&it.key), it.members.len(), found.incomplete));
            }
            Report::Incident(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// In eight parts, the attacks among them.
#[test]
fn a_million_source_addresses() {
    let addresses = 1_000_000;
    let mut flood = Flood::begin();
    let mut calls = Vec::new();
    for number in 0..addresses {
        if number % BETWEEN == 0 {
            flood.event("scan", STAYS);
        }
        if number == addresses / 8 {
            flood.event("scan", GOES);
            flood.event("exploit", GOES);
        }
        if number == addresses / 2 {
            flood.event("exploit", STAYS);
        }
        let [_, a, b, c] = (number as u32).to_be_bytes();
        flood.event("scan", &format!("10.{a}.{b}.{c}"));
        if (number + 1) % (addresses / 8) == 0 {
            calls.push(std::mem::take(&mut flood.calls) as f64 / (addresses / 8) as f64);
        }
    }
    flood.event("callback", GOES);
    flood.event("callback", STAYS);
    // No rule asks for it: time goes on, and what came before is judged.
    flood.event("other", STAYS);

    // What both rules knew of an address was told when it went, or is there still.
    let engine = flood.correlator.engine();
    let there = engine.states().filter(|(_, key, _)| source(key).starts_with("10.")).count();
    assert_eq!(flood.forgotten + there, 2 * addresses);
    assert!(flood.forgotten > addresses, "{} of {addresses} were forgotten", flood.forgotten);
    let counted = engine.counts().forgotten.iter().sum::<u64>();
    assert_eq!(counted, (flood.forgotten + flood.others.len()) as u64);
    // Of the one that went silent too, each with what it had done.
    flood.others.sort();
    let gone = |rule: &str, steps: &[u8]| (rule.to_owned(), GOES.to_owned(), steps.to_vec());
    assert_eq!(flood.others, [gone("scans", &[0]), gone("staged", &[0, 1])]);
    // The one that went on is found, and it is said that memory had ended meanwhile.
    let found = |rule: &str, members: usize| (rule.to_owned(), STAYS.to_owned(), members, true);
    assert_eq!(flood.found, [found("scans", 30), found("staged", 3)]);

    let (live, bytes, keys) = flood.most;
    assert!(bytes <= ALLOWED, "{bytes} bytes by the engine's own count");
    assert!(live <= (ALLOWED + ALLOWED / 8) as i64, "{live} bytes, {ALLOWED} allowed for keys");
    assert!(keys > 2 * BETWEEN, "room for {keys} keys at most");
    // Work: neither a heap that grows with what was forgotten, nor a search through all keys.
    let looked_at = engine.looked_at();
    assert!(looked_at <= 4 * counted, "{looked_at} keys were looked at to forget {counted}");
    assert!(calls[7] <= calls[2] * 1.05, "allocations for an event, part by part: {calls:?}");
    assert_eq!((flood.correlator.counts().pushed, flood.correlator.counts().not_judged), (0, 0));
}
