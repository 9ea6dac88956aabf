//! The detection cases of suricata-verify: which pass, and for each that does not, why.

mod sensor_support;

use std::collections::BTreeMap;

use sensor_support::{data, field, replay};
use serde_json::Value;

/// Cases that fail, and why. A case that is here and passes fails the test too.
const FAILING: &[(&str, &str)] = &[(
    "tcp-rst-unacked-stream-05-http-nogap",
    "tier ii: the alarm is raised when the segment comes, not when the flow ends, so pkt_src is \"wire/pcap\"",
)];

#[test]
fn suricata_verify_cases() {
    const TEST: &str = "suricata_verify_cases";
    let mut folders: Vec<_> = std::fs::read_dir(data(TEST, "suricata-verify"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
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
