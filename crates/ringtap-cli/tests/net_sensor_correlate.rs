//! `ringtap sensor --correlate` on an interface: told at once and for certain, confined, through kill -9 and a change of rules.

mod attack_support;
mod capture_support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use attack_support::{STAGES, correlation};
use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, ringtap, send_frames, testbed};
use nix::sys::signal::Signal;
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

const MANY: &str = "---
title: Many exploits
name: many
correlation: {type: event_count, rules: exploit, group-by: dest_ip, timespan: 1h, condition: {gte: 2}}
";

fn sensor(testbed: &Testbed, folder: &Path) -> Capture {
    let host = testbed.receiver();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut command: Command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--flows", "4096", "--user", "nobody"]);
    command.args(["-S", &path("my.rules"), "--correlate", &path("rules"), "--correlate-store", &path("store")]);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    sensor
}

fn send(testbed: &Testbed, payload: &[u8]) {
    send_frames(testbed, &[ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, payload))]);
}

fn eventually<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(it) = get() {
            return it;
        }
        assert!(Instant::now() < until, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The incident of a rule in the store.
fn stored(folder: &Path, rule: &str) -> Option<Value> {
    let store = folder.join("store");
    let listed = ringtap(&["alarms", "export", "--incidents", "--store", store.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["rule"] == rule)
}

/// Whether the log has an alert of this name.
fn is_logged(folder: &Path, name: &[u8]) -> bool {
    let files = std::fs::read_dir(folder.join("store")).unwrap().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-"));
    logs.filter_map(|file| std::fs::read(file.path()).ok()).any(|log| log.windows(name.len()).any(|part| part == name))
}

#[test]
fn net_a_sensor_correlates_its_own_alerts() {
    use std::os::unix::fs::PermissionsExt;
    let testbed = testbed("net_a_sensor_correlates_its_own_alerts", TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::create_dir(folder.join("rules")).unwrap();
    std::fs::write(folder.join("rules/attack.yml"), correlation("1h")).unwrap();
    std::fs::write(folder.join("my.rules"), STAGES).unwrap();

    let first = sensor(&testbed, folder);
    testbed.enable_receiver_napi().unwrap();
    send(&testbed, b"a SCAN");
    eventually("the scan is logged", || is_logged(folder, b"\"Scan\"").then_some(()));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first.id() as i32), Signal::SIGKILL).unwrap();
    drop(first.end());

    let mut second = sensor(&testbed, folder);
    testbed.enable_receiver_napi().unwrap();
    send(&testbed, b"an EVIL");
    let incident = eventually("the incident is stored", || stored(folder, "attack"));
    // Nobody watched in between.
    assert_eq!((&incident["incomplete"], &incident["key"]["dest_ip"]), (&true.into(), &"203.0.113.9".into()));
    std::fs::write(folder.join("rules/many.yml"), (correlation("1h") + MANY).replace("name: attack", "name: attack2"))
        .unwrap();
    std::fs::write(folder.join("rules/attack.yml"), "").unwrap();
    second.signal(Signal::SIGHUP);
    second.wait_for("2 correlations are used now; what is new was built from the log");
    send(&testbed, b"an EVIL");
    eventually("what was before the change of rules counts", || stored(folder, "many"));
    let ended = second.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let lines: Vec<Value> =
        String::from_utf8_lossy(&ended.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str, rule: &str| lines.iter().position(|line| line["event"] == event && line["rule"] == rule);
    let (provisional, opened) = (of("provisional", "attack").unwrap(), of("opened", "attack").unwrap());
    assert!(provisional < opened, "{lines:?}");
    assert_eq!(lines[opened]["id"], incident["id"]);
    let [.., account, summary] = &lines[..] else { panic!("{lines:?}") };
    let sensor = &account["registered"][0];
    assert_eq!((&sensor["sensor"], &sensor["lost"]), (&"local".into(), &0.into()), "{account}");
    assert_eq!((&summary["alerts"], &summary["alarms"]["behind_heartbeat"]), (&2.into(), &0.into()), "{summary}");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.join("store")).unwrap());
    assert_eq!(owner, nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw());
}
