//! Alerts of Suricata 7 over a capture, beside ours: signatures, how often, and with which addresses and ports.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{field, replay};

/// Sid, addresses, ports; and the packet's number where it is the same in both.
pub type Key = (u64, String, String, u64, u64, u64);

fn key(event: &Value, with_packet: bool) -> Key {
    let number = |path: &str| field(event, path).and_then(Value::as_u64).unwrap_or(0);
    let text = |path: &str| {
        let address: std::net::IpAddr =
            field(event, path).and_then(Value::as_str).unwrap_or("0.0.0.0").parse().unwrap();
        address.to_string()
    };
    // Suricata gives packets put together from fragments no number.
    let has_number = with_packet && event["pkt_src"] != "defrag";
    let packet = if has_number { number("pcap_cnt") } else { 0 };
    (number("alert.signature_id"), text("src_ip"), text("dest_ip"), number("src_port"), number("dest_port"), packet)
}

pub fn count(events: &[Value], with_packet: bool) -> BTreeMap<Key, u64> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| event["event_type"] == "alert") {
        *counts.entry(key(event, with_packet)).or_insert(0) += 1;
    }
    counts
}

/// Events of Suricata 7 with its packaged configuration, in a folder of its own.
pub fn suricata(test: &str, capture: &Path, rules: &Path, settings: &[String]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let version = Command::new("suricata").arg("-V").output();
    let version = version.unwrap_or_else(|error| panic!("did not run: {test}: suricata: {error}")).stdout;
    let version = String::from_utf8_lossy(&version);
    assert!(version.contains("version 7.0."), "did not run: {test}: it needs Suricata 7.0, this is {}", version.trim());
    let output = Command::new("suricata")
        .args(["--runmode", "single", "-k", "none", "-r"])
        .arg(capture)
        .arg("-S")
        .arg(rules)
        .arg("-l")
        .arg(folder.path())
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .output()
        .unwrap_or_else(|error| panic!("did not run: {test}: suricata: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("eve.json")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where the two differ.
pub fn compare(test: &str, name: &str, capture: &Path, rules: &Path, with_packet: bool) -> Vec<String> {
    let ours = count(&replay(&[capture], rules, &["--events", "alert", "--no-checksums"]), with_packet);
    let theirs = count(&suricata(test, capture, rules, &[]), with_packet);
    let mut differences = Vec::new();
    let keys: std::collections::BTreeSet<&Key> = ours.keys().chain(theirs.keys()).collect();
    for key in keys {
        let (mine, other) = (ours.get(key).unwrap_or(&0), theirs.get(key).unwrap_or(&0));
        if mine != other {
            differences.push(format!("{name}: {key:?}: {mine} here, {other} there"));
        }
    }
    differences
}
