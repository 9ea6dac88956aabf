//! `ringtap sensor` on an interface: planted attacks in a flood, all found, none lost, alarms in the transmit ring.
//! About accounting; speed is measured elsewhere.

mod capture_support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, assert_clean, send_frames, testbed};
use nix::sys::signal::Signal;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};

const RULES: usize = 160;
const FLOOD: u64 = 148_000;
const ATTACKS: usize = 40;

/// Rules with a plain content each, as in a classic rule set.
fn write_rules(path: &Path, marker: &str) {
    let mut text = String::new();
    for number in 0..RULES {
        writeln!(
            text,
            r#"alert udp any any -> any any (msg:"attack {number}"; content:"{marker}-{number:03}-"; sid:{};)"#,
            1000 + number
        )
        .unwrap();
    }
    std::fs::write(path, text).unwrap();
}

fn sensor(testbed: &Testbed, rules: &Path, extra: &[&str]) -> Capture {
    let host = testbed.receiver();
    let mut command: Command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--flows", "4096", "-S", rules.to_str().unwrap()]);
    command.args(extra);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    sensor
}

fn attacks(marker: &str) -> Vec<Vec<u8>> {
    (0..ATTACKS)
        .map(|number| {
            let payload = format!("....{marker}-{:03}-....", number * 4);
            ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, payload.as_bytes()))
        })
        .collect()
}

fn flood(testbed: &Testbed) -> ringtap_testbed::GeneratorReport {
    let profile = Profile::lasting(Pattern::Constant { pps: 148e3 }, std::time::Duration::from_secs(4));
    let traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(FLOOD);
    let generator = testbed.generate(traffic).unwrap();
    send_frames(testbed, &attacks("EVIL"));
    generator.join().unwrap()
}

#[test]
fn net_sensor_finds_every_planted_attack_in_a_flood() {
    const TEST: &str = "net_sensor_finds_every_planted_attack_in_a_flood";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    write_rules(&rules, "EVIL");
    let extra = [
        "--backend",
        "xdp",
        "--max-latency",
        "2ms",
        "--eve",
        eve.to_str().unwrap(),
        "--events",
        "alert,stats",
        "--alarm-to",
        "02:00:00:00:00:99@192.0.2.9:5514",
        "--alarm-from",
        "192.0.2.1:5514",
    ];
    let sensor = sensor(&testbed, &rules, &extra);
    testbed.enable_receiver_napi().unwrap();
    let report = flood(&testbed);
    assert_eq!(report.stamped, FLOOD, "{report}");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    let ledger = &summary["ledger"];
    assert_eq!(ledger["unaccounted"], 0, "{summary}");
    assert_eq!(ledger["lost"], 0, "{summary}");
    assert_eq!(summary["packets"], FLOOD + ATTACKS as u64, "{summary}");
    assert_eq!(summary["alerts"], ATTACKS, "{summary}");
    assert_eq!(summary["outputs"]["in_transmit_ring"], ATTACKS, "{summary}");
    assert_eq!(
        (&summary["outputs"]["lost_in_queue"], &summary["outputs"]["failed"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    assert_eq!(summary["detection_us"]["count"], ATTACKS, "{summary}");
    let text = std::fs::read_to_string(&eve).unwrap();
    let mut sids: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event_type"] == "alert")
        .map(|event| event["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    sids.sort_unstable();
    assert_eq!(sids, (0..ATTACKS as u64).map(|number| 1000 + number * 4).collect::<Vec<_>>());
    assert_clean(&testbed);
}

#[test]
fn net_sensor_loads_rules_again_without_losing_a_packet() {
    const TEST: &str = "net_sensor_loads_rules_again_without_losing_a_packet";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    write_rules(&rules, "OTHER");
    let extra = ["--backend", "xdp", "--max-latency", "2ms", "--eve", eve.to_str().unwrap(), "--events", "alert"];
    let mut sensor = sensor(&testbed, &rules, &extra);
    testbed.enable_receiver_napi().unwrap();
    send_frames(&testbed, &attacks("EVIL"));
    std::fs::rename(&eve, folder.path().join("old.json")).unwrap();
    write_rules(&rules, "EVIL");
    sensor.signal(Signal::SIGHUP);
    sensor.wait_for("rules loaded");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let report = flood(&testbed);
    assert_eq!(report.stamped, FLOOD, "{report}");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let summary = sensor.interrupt().summary();
    assert_eq!((&summary["ledger"]["unaccounted"], &summary["ledger"]["lost"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(summary["packets"], FLOOD + 2 * ATTACKS as u64, "{summary}");
    assert_eq!((&summary["reloads"], &summary["alerts"]), (&1.into(), &ATTACKS.into()), "{summary}");
    let lines = std::fs::read_to_string(&eve).unwrap().lines().count();
    assert_eq!(lines, ATTACKS, "the file was opened again");
}
