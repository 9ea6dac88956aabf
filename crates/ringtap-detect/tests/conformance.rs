//! Third-party rules and captures: how much of a public rule set is used, and every capture, malformed ones included, through a
//! detector with all of it.

mod evasion_support;
mod hostile_support;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use hostile_support::{LinkedPacket, feed};
use ringtap_detect::rules::{Classes, Coverage, Reason, RuleSet, Variables};
use ringtap_detect::{Alert, Detector, Limits, LinkType, Program, Sink};
use ringtap_samples::{conformance, read};
use serde_json::{Value, json};

const OLD_RULES: &str = "rules/et-open-2017-03.rules.tar.gz";
const NEW_RULES: &str = "rules/et-open-2024-04.rules.tar.xz";

/// A public rule set, unpacked by tar(1).
fn public_rules(test: &str, name: &str) -> RuleSet {
    let folder = std::env::temp_dir().join(format!("ringtap-rules-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let archive = conformance::data(test, name);
    let done = Command::new("tar").arg("xf").arg(archive).arg("-C").arg(&folder).status();
    assert!(done.unwrap_or_else(|error| panic!("did not run: {test}: tar: {error}")).success());
    // One archive has a folder of its own.
    let inner = [folder.join("rules"), folder.clone()].into_iter().find(|folder| folder.is_dir()).unwrap();
    let mut files: Vec<PathBuf> = std::fs::read_dir(inner).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut set = RuleSet::default();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rules")) {
        let text = std::fs::read(file).unwrap();
        set.add(&file.display().to_string(), &text, &Variables::default(), &Classes::default());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    set
}

/// How much of a public rule set is used: its rules, those that are, and why the others are not.
fn coverage(test: &str, name: &str) -> (usize, Coverage) {
    let mut rejected = Vec::new();
    let (program, _) = Program::new(public_rules(test, name), &mut rejected).unwrap();
    let coverage = Coverage::of(&rejected, program.rules().len());
    println!("{name}: {} used; {:?}; {:?}", coverage.used, coverage.unsupported, coverage.broken);
    for rejected in rejected.iter().filter(|rejected| matches!(rejected.reason, Reason::Broken { .. })) {
        println!("{rejected}");
    }
    (coverage.used + coverage.left_out(), coverage)
}

#[test]
fn the_public_rule_set_is_used_as_far_as_it_can_be() {
    let (all, coverage) = coverage("coverage", OLD_RULES);
    assert_eq!(all, 19_556);
    assert_eq!(coverage.used, 19_547);
    assert_eq!(coverage.broken.len(), 2, "{:?}", coverage.broken);
}

#[test]
fn a_later_public_rule_set_is_used_as_far_as_it_can_be() {
    let (all, coverage) = coverage("later-coverage", NEW_RULES);
    assert_eq!(all, 24_795);
    assert_eq!(coverage.used, 24_791);
    assert!(coverage.broken.is_empty(), "{:?}", coverage.broken);
}

#[test]
fn sample_captures_break_nothing() {
    let mut rejected = Vec::new();
    let (program, _) = Program::new(public_rules("hostile", OLD_RULES), &mut rejected).unwrap();
    let files = conformance::captures("sample_captures_break_nothing");
    let packets = files.iter().flat_map(|file| read::packets(file).0);
    let fed = feed(program, packets.map(|packet| LinkedPacket { link: packet.link, data: packet.data }));
    assert!(fed.packets > 25_000, "{fed:?}");
    assert!(fed.invalid > 100, "{fed:?}");
}

/// The few hundred of the usual tests are among these.
#[test]
fn thousands_of_mixed_tricks_by_both() {
    use evasion_support::by_both::{compare, expected, mixed_names};
    let cases = ringtap_samples::evasions::mixed(0..4000);
    let used = compare("thousands_of_mixed_tricks_by_both", &cases, mixed_names);
    assert_eq!(used, expected(true), "lines of the table that are no longer so");
}

/// Alerts as EVE has them, as far as the detector itself knows.
#[derive(Default)]
struct Alerts(Vec<Value>);

impl Sink for Alerts {
    fn alert(&mut self, alert: &Alert<'_>) {
        let (meta, packet) = (&alert.rule.meta, alert.packet);
        let mut event = json!({
            "event_type": "alert",
            "src_ip": packet.source.to_string(),
            "dest_ip": packet.destination.to_string(),
            "src_port": packet.ports.0,
            "dest_port": packet.ports.1,
            "app_proto": alert.flow.and_then(|flow| flow.app()),
            "alert": { "signature_id": meta.sid, "gid": meta.gid, "rev": meta.rev, "signature": meta.message, "action": "allowed" },
        });
        if packet.protocol == 6 {
            event["proto"] = json!("TCP");
        }
        self.0.push(event);
    }
}

/// What of a case's expectations is not so.
fn case(folder: &Path) -> Vec<String> {
    let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("expect.json")).unwrap()).unwrap();
    let checks = expected["expect"].as_array().unwrap();
    let mut set = RuleSet::default();
    let text = std::fs::read(folder.join("test.rules")).unwrap();
    set.add("test.rules", &text, &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = Program::new(set, &mut rejected).unwrap();
    let checksums = expected["checksum_validation"].as_bool().unwrap();
    let limits = Limits { flows: 4096, checksums, ..Limits::default() };
    let mut detector = Detector::new(program.into(), limits);
    let (mut alerts, mut now_ns) = (Alerts::default(), 1_000_000_000);
    for packet in read::packets(&folder.join("input.pcap")).0 {
        let Some(link) = LinkType::from_number(packet.link) else { continue };
        now_ns += 1_000_000;
        detector.packet(&packet.data, link, packet.data.len() as u32, now_ns, &mut alerts);
    }
    detector.finish(now_ns, &mut alerts);
    let mut wrong: Vec<String> = rejected.iter().map(ToString::to_string).collect();
    for check in checks {
        let matches = check["match"].as_object().unwrap();
        let pointer = |path: &str| format!("/{}", path.replace('.', "/"));
        let fits = |alert: &&Value| matches.iter().all(|(path, value)| alert.pointer(&pointer(path)) == Some(value));
        let found = alerts.0.iter().filter(fits).count() as u64;
        if Some(found) != check["count"].as_u64() {
            wrong.push(format!("{found} alerts instead of {} with {}", check["count"], check["match"]));
        }
    }
    wrong
}

/// The others of suricata-verify's are held against EVE's lines, by `ringtap-sensor`.
#[test]
fn alerts_of_http_evader() {
    let mut folders = conformance::cases("alerts_of_http_evader", "suricata-verify-2");
    folders.retain(|folder| folder.file_name().unwrap().to_str().unwrap().starts_with("http-evader"));
    assert_eq!(folders.len(), 248);
    let mut wrong = Vec::new();
    for folder in &folders {
        wrong.extend(case(folder).iter().map(|wrong| format!("{}: {wrong}", folder.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
