//! `ringtap sensor --correlate` over files: incidents in the same process, the same each time, kept in a store, and what is refused.

mod attack_support;
mod capture_support;
mod sensor_support;

use std::path::PathBuf;
use std::process::Command;

use attack_support::{STAGES, correlation};
use capture_support::frames::{ipv4, udp};
use capture_support::{Ended, RINGTAP, ringtap};
use sensor_support::pcap;
use serde_json::Value;

const MANY: &str = "---
title: Many exploits
name: many
correlation: {type: event_count, rules: exploit, group-by: dest_ip, timespan: 1h, condition: {gte: 5}}
";

fn rules() -> String {
    correlation("50ms") + MANY
}

struct Files {
    folder: tempfile::TempDir,
    capture: PathBuf,
    rules: PathBuf,
    correlation: PathBuf,
}

impl Files {
    /// Of packets a millisecond apart: these with a payload and a destination, those between with nothing of interest.
    fn of(packets: &[(usize, &[u8], u8)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let frame =
            |payload: &[u8], host| ipv4(17, [198, 51, 100, 7], [203, 0, 113, host], 0, &udp(5000, 9999, payload));
        let last = packets.iter().map(|(at, ..)| *at).max().unwrap();
        let mut frames = vec![frame(b"nothing", 1); last + 1];
        packets.iter().for_each(|(at, payload, host)| frames[*at] = frame(payload, *host));
        pcap(&path("in.pcap"), &frames);
        std::fs::write(path("my.rules"), STAGES).unwrap();
        std::fs::write(path("correlation.yml"), rules()).unwrap();
        let (capture, rules, correlation) = (path("in.pcap"), path("my.rules"), path("correlation.yml"));
        Self { folder, capture, rules, correlation }
    }

    fn arguments<'f>(&'f self) -> Vec<&'f str> {
        let of = |path: &'f PathBuf| path.to_str().unwrap();
        let mut arguments = vec!["sensor", "--no-checksums", "--replay", of(&self.capture), "-S", of(&self.rules)];
        arguments.extend(["--correlate", of(&self.correlation)]);
        arguments
    }

    fn run(&self, extra: &[&str]) -> Ended {
        ringtap(&[&self.arguments(), extra].concat())
    }

    fn store(&self) -> String {
        self.folder.path().join("incidents").to_str().unwrap().to_owned()
    }
}

fn lines(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    String::from_utf8_lossy(&ended.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Rules and ids of the incidents that opened.
fn opened(lines: &[Value]) -> Vec<(String, String)> {
    let opened = lines.iter().filter(|line| line["event"] == "opened");
    opened.map(|line| (line["rule"].as_str().unwrap().into(), line["id"].as_str().unwrap().into())).collect()
}

/// A scan and an exploit 50 ms later at one host, 51 ms later at another; in the other order at a third.
fn attack() -> Files {
    Files::of(&[
        (0, b"SCAN", 9),
        (10, b"SCAN", 10),
        (20, b"EVIL", 11),
        (30, b"SCAN", 11),
        (50, b"EVIL", 9),
        (61, b"EVIL", 10),
    ])
}

#[test]
fn incidents_of_a_capture_are_found_in_one_process() {
    let files = attack();
    let text = files.run(&[]);
    assert_eq!(text.code(), 0, "{}", text.stderr);
    let stdout = String::from_utf8_lossy(&text.stdout);
    assert!(stdout.contains("Scan, then exploit: dest_ip=203.0.113.9 (2 events in 50.000ms"), "{stdout}");
    assert!(stdout.contains("alerts") && text.stderr.contains("sensor local: 6 events, 0 late"), "{}", text.stderr);
    let lines = lines(&files.run(&["--json", "--sensor-id", "north"]));
    assert_eq!(opened(&lines).len(), 1, "{lines:?}");
    let [incident] = &lines.iter().filter(|line| line["event"] == "opened").collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((&incident["rule"], &incident["key"]["dest_ip"]), (&"attack".into(), &"203.0.113.9".into()));
    assert_eq!(incident["members"][1]["time_ns"], 1_700_000_000_050_000_000_i64);
    assert_eq!(incident["members"][1]["sensor"], "north");
    assert!(lines.iter().any(|line| line["event"] == "closed"), "the capture has ended: {lines:?}");
    // The correlator's account, then the sensor's, as the last.
    let [.., account, summary] = &lines[..] else { panic!() };
    assert_eq!((&account["event"], &account["events"]), (&"summary".into(), &6.into()));
    assert_eq!(summary["alerts"], 6, "{summary}");
}

/// Without a store they are nowhere else.
#[test]
fn incidents_that_standard_output_does_not_take_are_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = Command::new(RINGTAP).args(attack().arguments()).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output") && said.contains("ENOSPC"), "{said}");
}

#[test]
fn events_on_standard_output_stay_alone_there() {
    let ended = attack().run(&["--eve", "-", "--events", "alert", "--json"]);
    let lines = lines(&ended);
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines.iter().all(|line| line["event_type"] == "alert"), "{lines:?}");
    assert!(ended.stderr.contains(r#""rule":"attack""#), "{}", ended.stderr);
}

#[test]
fn a_capture_that_is_read_again_brings_nothing_new_to_the_store() {
    let files = Files::of(&[(0, b"SCAN", 9), (1, b"EVIL", 9), (2, b"EVIL", 9), (3, b"EVIL", 9)]);
    let store = files.store();
    let with = ["--json", "--correlate-store", &store];
    let first = opened(&lines(&files.run(&with)));
    assert_eq!(first.len(), 1, "{first:?}");
    // Three exploits are not six, whatever the sensor's rules were before.
    std::fs::write(&files.rules, format!("alert udp any any -> any any (content:\"nothing\"; sid:9;)\n{STAGES}"))
        .unwrap();
    let again = files.run(&with);
    assert_eq!(opened(&lines(&again)), [], "{}", again.stderr);
    let listed = ringtap(&["alarms", "list", "--incidents", "--all", "--json", "--store", &store]);
    let listed = lines(&listed);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((listed[0]["id"].as_str(), &listed[0]["rule"]), (Some(first[0].1.as_str()), &"attack".into()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let files = attack();
    let store = files.store();
    ringtap(&["sensor", "--replay", "x", "--correlate-store", &store]).assert_refused(2, &["--correlate"]);
    std::fs::remove_file(&files.correlation).unwrap();
    files.run(&[]).assert_refused(1, &["correlation.yml"]);
    std::fs::write(&files.correlation, "title: x\n").unwrap();
    let ended = files.run(&["--json"]);
    assert!(ended.stderr.contains("correlation.yml:1"), "{}", ended.stderr);
    std::fs::write(&files.correlation, rules()).unwrap();
    std::fs::write(&store, "no folder").unwrap();
    files.run(&["--correlate-store", &store]).assert_refused(1, &["incidents", "store"]);
}
