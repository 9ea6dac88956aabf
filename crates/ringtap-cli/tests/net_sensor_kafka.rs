//! A live sensor that writes to Kafka, whose broker is killed meanwhile: each alarm is in the topic once and in order, and a correlator
//! that reads the topic lacks none.

#[path = "../../ringtap-kafka/tests/support/mod.rs"]
mod broker;
mod capture_support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use broker::{Broker, records};
use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, send_frames, testbed};
use ringtap_testbed::TestbedConfig;
use serde_json::Value;

const TEST: &str = "net_a_live_sensor_s_alarms_are_in_kafka_once_and_in_order";
const TOPIC: &str = "ringtap-alarms";
/// Of each source one alarm in each phase.
const SOURCES: u8 = 40;
const PHASES: u8 = 5;
const RULES: &str = "title: Evil
name: evil
logsource: {category: ids, service: alert}
detection: {s: {alert.signature: evil}, condition: s}
---
title: In each phase
name: each
correlation: {type: event_count, rules: evil, group-by: src_ip, timespan: 1h, condition: {gte: 5}}
";

fn attacks(phase: u8) -> Vec<Vec<u8>> {
    let payload = |source: u8| udp(5000 + u16::from(source), 9999, b"..EVIL..");
    (0..SOURCES).map(|it| ipv4(17, [198, 51, 100, it], [203, 0, 113, phase], 0, &payload(it))).collect()
}

#[test]
fn net_a_live_sensor_s_alarms_are_in_kafka_once_and_in_order() {
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, mode: u32, text: &str| {
        fs::write(path(name), text).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        path(name)
    };
    let key = write("north.key", 0o600, "1:000102030405060708090a0b0c0d0e0f\n");
    let rules = write("s.rules", 0o644, "alert udp any any -> any any (msg:\"evil\"; content:\"EVIL\"; sid:77;)\n");
    let registered = "[[correlate.sensor]]\nid = \"north\"\nkey-files = [\"north.key\"]\nrules = [\"s.rules\"]\n";
    let (config, sigma) = (write("ringtap.toml", 0o600, registered), write("rules.yml", 0o644, RULES));

    // On the receiver's loopback.
    let started = || {
        let broker = Broker::start(&[]);
        broker.topic(TOPIC, 3);
        broker
    };
    let mut broker = host.run(started).unwrap();
    let at = broker.address();
    let mut command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--flows", "4096", "--max-latency", "2ms", "-S", &rules]);
    command.args(["--sensor-id", "north", "--key", &key, "--epoch-file", &path("epoch")]);
    command.args(["--kafka", &at, "--kafka-spool", &path("spool")]);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    testbed.enable_receiver_napi().unwrap();
    send_frames(&testbed, &attacks(0));
    // While it sends, and while nobody is there.
    send_frames(&testbed, &attacks(1));
    broker.kill();
    send_frames(&testbed, &attacks(2));
    sensor.wait_for("lines wait in");
    send_frames(&testbed, &attacks(3));
    host.run(|| broker.start_again()).unwrap();
    sensor.wait_for("takes lines for ringtap-alarms again");
    send_frames(&testbed, &attacks(4));
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let all = u64::from(SOURCES) * u64::from(PHASES);
    assert_eq!(ended.summary()["alerts"], all, "{}", ended.stderr);

    let lines: Vec<Value> = host
        .run(|| records(&at, TOPIC))
        .unwrap()
        .iter()
        .inspect(|(key, _)| assert_eq!(key, "north"))
        .map(|(_, line)| serde_json::from_str(line).unwrap())
        .collect();
    let (alerts, beats): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["event_type"] == "alert");
    let sequences: Vec<u64> = alerts.iter().map(|line| line["ringtap"]["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=all).collect::<Vec<_>>());
    let of = |line: &Value| (line["dest_ip"].as_str().unwrap().to_owned(), line["src_port"].as_u64().unwrap());
    let expected = (0..PHASES)
        .flat_map(|phase| (0..SOURCES).map(move |source| (format!("203.0.113.{phase}"), 5000 + u64::from(source))));
    assert!(alerts.into_iter().map(of).eq(expected));
    assert_eq!(beats.last().unwrap()["ringtap"]["last_sequence"], all);

    let correlate = || {
        let arguments = ["--kafka", &at, "--config", &config, "--rules", &sigma, "--duration", "8s"];
        Command::new(RINGTAP).args(["correlate", "--json"]).args(arguments).output().unwrap()
    };
    let output = host.run(correlate).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| told.iter().filter(|it| it["event"] == event).collect::<Vec<_>>();
    assert_eq!(of("opened").len(), usize::from(SOURCES), "{text}");
    let sensor = &of("summary")[0]["registered"][0];
    assert_eq!((&sensor["lost"], &sensor["duplicates"]), (&0.into(), &0.into()), "{sensor}");
}
