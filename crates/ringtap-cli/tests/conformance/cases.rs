//! The detection cases of suricata-verify: which pass, and for each that does not, why.

use std::collections::BTreeMap;

use ringtap_samples::conformance;
use serde_json::Value;

use crate::sensor_support::suricata::compare;
use crate::sensor_support::{field, replay};

/// Cases that fail, and why. A case that is here and passes fails the test too.
const FAILING: &[(&str, &str)] = &[(
    "tcp-rst-unacked-stream-05-http-nogap",
    "tier ii: the alarm is raised when the segment comes, not when the flow ends, so pkt_src is \"wire/pcap\"",
)];

#[test]
fn suricata_verify_cases() {
    const TEST: &str = "suricata_verify_cases";
    let folders = conformance::cases(TEST, "suricata-verify");
    assert_eq!(folders.len(), 63);
    let known: BTreeMap<&str, &str> = FAILING.iter().copied().collect();
    let (mut passed, mut total, mut wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("expect.json")).unwrap()).unwrap();
        let tier = expected["tier"].as_str().unwrap().to_owned();
        let checksums = expected["checksum_validation"].as_bool().unwrap();
        let mut extra = vec!["--events", "alert"];
        if !checksums {
            extra.push("--no-checksums");
        }
        let events = replay(&[&folder.join("input.pcap")], &folder.join("test.rules"), &extra);
        let alerts: Vec<&Value> = events.iter().filter(|event| event["event_type"] == "alert").collect();
        let mut differences = Vec::new();
        for check in expected["expect"].as_array().unwrap() {
            let wanted = check["count"].as_u64().unwrap();
            let matches = check["match"].as_object().unwrap();
            let found = alerts
                .iter()
                .filter(|alert| matches.iter().all(|(path, value)| field(alert, path) == Some(value)))
                .count() as u64;
            if found != wanted {
                differences.push(format!("{found} alerts instead of {wanted} with {}", check["match"]));
            }
        }
        *total.entry(tier.clone()).or_insert(0u64) += 1;
        let passes = differences.is_empty();
        *passed.entry(tier.clone()).or_insert(0u64) += u64::from(passes);
        println!("{} {tier:>2} {name}: {}", if passes { "pass" } else { "FAIL" }, differences.join("; "));
        if passes == known.contains_key(name) {
            wrong.push(format!("{name}: {}", if passes { "passes now".to_owned() } else { differences.join("; ") }));
        }
    }
    println!("passed {passed:?} of {total:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The captures of the cases, each with its own rules. Cases whose rules Suricata 7.0.10 does not know are left out, and
/// where the two differ it is named here why.
#[test]
fn cases_as_suricata_sees_them() {
    const TEST: &str = "cases_as_suricata_sees_them";
    let mut differing = Vec::new();
    for folder in conformance::cases(TEST, "suricata-verify") {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let found = compare(TEST, &name, &folder.join("input.pcap"), &folder.join("test.rules"), false);
        if !found.is_empty() {
            println!("{}", found.join("\n"));
            differing.push(name);
        }
    }
    assert_eq!(differing, DIFFERING.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

/// Cases in which the two differ, and why.
const DIFFERING: &[(&str, &str)] = &[
    ("bug-7390", "fixed after 7.0.10: variables as distance"),
    ("detect-flow-pkts", "flow.pkts and flow.bytes with a side came after 7.0.10"),
    ("detect-flow-pkts-either", "the same, and the threshold type backoff"),
    ("detection_filter-distinct-srcport", "unique_on came after 7.0.10"),
    ("threshold__detection_filter-rule-flow", "track by_flow came after 7.0.10"),
    ("threshold__threshold-rule-flow", "track by_flow came after 7.0.10"),
];
