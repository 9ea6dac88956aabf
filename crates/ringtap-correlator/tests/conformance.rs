//! The shipped rules find recorded attacks among a week of other alerts, as one incident each, and nothing else.

mod ait;

use std::path::Path;
use std::sync::Arc;

use ait::Network;
use ringtap_correlator::rules::Rules;
use ringtap_sigma::{Automaton, Limits, RuleSet};

fn shipped() -> Arc<Automaton> {
    let rules = Rules::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation"))).unwrap();
    assert!(rules.rejected.is_empty(), "{:?}", rules.rejected);
    // Labels are no business of a rule.
    assert!(!rules.automaton.fields().iter().any(|field| field.contains("label")));
    rules.automaton
}

fn is_found(test: &str, name: &str) {
    let verdict = Network::read(test, name).judge(&shipped());
    println!("{name}: {verdict}");
    assert!(verdict.faults().is_empty(), "{name}: {:#?}\n{verdict}", verdict.faults());
}

/// The rules were written on these two.
#[test]
fn ait_attacks_that_the_rules_know() {
    for name in ["russellmitchell", "santos"] {
        is_found("ait_attacks_that_the_rules_know", name);
    }
}

/// These were run once with the rules as they are.
#[test]
fn ait_attacks_that_nobody_had_looked_at() {
    for name in ["fox", "harrison"] {
        is_found("ait_attacks_that_nobody_had_looked_at", name);
    }
}

/// Rules that find the attack and have learnt nothing do not pass.
#[test]
fn ait_is_no_toy() {
    let network = Network::read("ait_is_no_toy", "russellmitchell");
    let any = "
title: Anything
name: any
logsource: {category: any}
detection: {s: {short|contains: '-'}, condition: s}
---
title: Toy
name: toy
level: high
correlation: {type: event_count, rules: any, timespan: 2h, condition: {gte: 1}}
";
    let by_host =
        any.replace("timespan: 2h, condition: {gte: 1}", "group-by: host.name, timespan: 2h, condition: {gte: 100}");
    let scans = any.replace("'-'", "'S-Flw-Nmp'");
    for (toy, why) in [(any, "0 incidents of evidence"), (&by_host, "false"), (&scans, "no evidence of")] {
        let mut set = RuleSet::new();
        set.add("toy", toy);
        let (automaton, rejected) = set.compile(Limits::default());
        assert!(rejected.is_empty(), "{rejected:?}");
        let verdict = network.judge(&Arc::new(automaton));
        let faults = verdict.faults().join("\n");
        assert!(faults.contains(why), "{toy}: {faults}\n{verdict}");
    }
}
