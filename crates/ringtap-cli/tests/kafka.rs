//! Sensors and a correlator with Kafka between them, as users run them: kills of each, what is said of what is wrong.

#[path = "../../ringtap-kafka/tests/support/mod.rs"]
mod broker;
mod capture_support;
mod sensor_support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use broker::{Broker, records, script};
use capture_support::RINGTAP;
use capture_support::frames::{ipv4, udp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sensor_support::pcap;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);
/// Of one key three events within a minute, each member a line of its own.
const RULES: &str = "title: Failure
name: failure
logsource: {category: ids, service: alert}
detection: {s: {kind: failure}, condition: s}
---
title: Many failures
name: many
correlation: {type: event_count, rules: failure, group-by: who, timespan: 1m, condition: {gte: 3}}
";

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

/// Writes `key:line` records with Kafka's own tool.
fn produce(at: &str, topic: &str, lines: &str, folder: &Path) {
    let file = folder.join("produced");
    fs::write(&file, lines).unwrap();
    let tool = script()
        .args(["run", "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", at, "--topic", topic])
        .args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"])
        .stdin(fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(tool.status.success(), "{}", String::from_utf8_lossy(&tool.stderr));
}

/// All values of a topic.
fn consume(at: &str, topic: &str) -> Vec<Value> {
    records(at, topic).iter().map(|(_, value)| serde_json::from_str(value).unwrap()).collect()
}

fn correlate(arguments: &[&str], out: &Path) -> Child {
    let file = fs::OpenOptions::new().create(true).append(true).open(out).unwrap();
    let said = fs::OpenOptions::new().create(true).append(true).open(out.with_extension("said")).unwrap();
    Command::new(RINGTAP)
        .args(["correlate", "--json"])
        .args(arguments)
        .stdout(Stdio::from(file))
        .stderr(Stdio::from(said))
        .spawn()
        .unwrap()
}

/// Objects that a correlator printed, of one kind.
fn told(out: &Path, event: &str) -> Vec<Value> {
    let text = fs::read_to_string(out).unwrap_or_default();
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.filter(|object| object["event"] == event).collect()
}

fn wait_until(what: &str, out: &Path, is: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        let said = || fs::read_to_string(out.with_extension("said")).unwrap_or_default();
        assert!(Instant::now() < until, "{what} in vain: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends it cleanly; its account.
fn end(mut child: Child, out: &Path) -> Value {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    told(out, "summary").pop().unwrap()
}

/// What was told of incidents.
fn incidents(out: &Path) -> BTreeSet<String> {
    let all = ["opened", "extended", "closed"].into_iter().flat_map(|event| told(out, event));
    all.map(|object| object.to_string()).collect()
}

#[test]
fn kafka_each_record_counts_once_whatever_is_killed() {
    let mut broker = Broker::start(&[]);
    broker.topic("alarms", 3);
    broker.topic("incidents", 1);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| text(folder.path().join(name));
    fs::write(path("rules.yml"), RULES).unwrap();
    let at = broker.address();
    let (rules, store, spool, out) = (path("rules.yml"), path("store"), path("spool"), folder.path().join("out"));
    let mut arguments = vec!["--rules", &rules, "--kafka", &at, "--kafka-topic", "alarms", "--store", &store];
    arguments.extend(["--output-kafka", &at, "--output-kafka-topic", "incidents", "--output-kafka-spool", &spool]);
    // Time is what comes: no clock, however slow this machine is.
    arguments.extend(["--silence", "1h"]);
    // Equal lines of equal stamps, which are told apart by counting alone: one that is read twice would be another event.
    let stamp = |number: u32| format!("2026-01-31T12:{:02}:{:02}Z", number / 60, number % 60);
    let line = |number: u32| {
        format!(
            "{{\"timestamp\":\"{}\",\"event_type\":\"alert\",\"kind\":\"failure\",\"who\":\"w{}\"}}",
            stamp(number),
            number % 7
        )
    };
    let mut all = String::new();
    let mut child = correlate(&arguments, &out);
    for round in 0..5_u32 {
        let lines: Vec<String> = (round * 600..(round + 1) * 600).map(|number| line(number / 2)).collect();
        let keyed: String = lines.iter().map(|line| format!("suricata|{line}\n")).collect();
        all += &(lines.join("\n") + "\n");
        produce(&at, "alarms", &keyed, folder.path());
        match round {
            1 => {
                broker.kill();
                broker.start_again();
            }
            // While it reads, or has read.
            _ => {
                std::thread::sleep(Duration::from_millis(u64::from(round) * 130));
                child.kill().unwrap();
                child.wait().unwrap();
                child = correlate(&arguments, &out);
            }
        }
    }
    // What lets all be certain.
    let last =
        "{\"timestamp\":\"2026-01-31T14:00:00Z\",\"event_type\":\"alert\",\"kind\":\"end\",\"who\":\"nobody\"}\n";
    produce(&at, "alarms", &format!("suricata|{last}"), folder.path());
    all += last;
    // The same lines from a file of that name: the same incidents, to the byte.
    fs::write(path("suricata"), &all).unwrap();
    let (embedded, read) = (folder.path().join("embedded"), path("suricata"));
    assert!(correlate(&["--rules", &rules, "--read", &read], &embedded).wait().unwrap().success());
    let expected = incidents(&embedded);
    assert!(expected.iter().filter(|line| line.contains("\"opened\"")).count() == 7, "{expected:?}");
    // What a killed one told and had not stored is told again; what is told is always the same.
    wait_until("all incidents", &out, || incidents(&out).len() >= expected.len());
    let summary = end(child, &out);
    assert_eq!(incidents(&out), expected, "{summary}");
    // What was announced is in the topic.
    let kinds = ["opened", "extended", "closed"];
    let announced = consume(&at, "incidents").into_iter().filter(|it| kinds.contains(&it["event"].as_str().unwrap()));
    assert_eq!(announced.map(|it| it.to_string()).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn kafka_sealed_alarms_of_a_sensor_reach_the_correlator() {
    let broker = Broker::start(&[]);
    broker.topic("ringtap-alarms", 4);
    let at = broker.address();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| text(folder.path().join(name));
    private(&folder.path().join("north.key"), "1:000102030405060708090a0b0c0d0e0f\n");
    private(
        &folder.path().join("ringtap.toml"),
        "[[correlate.sensor]]\nid = \"north\"\nkey-files = [\"north.key\"]\nrules = [\"s.rules\"]\n",
    );
    fs::write(path("s.rules"), "alert udp any any -> any any (msg:\"Bad\"; content:\"EVIL\"; sid:1;)\n").unwrap();
    fs::write(
        path("rules.yml"),
        "title: Bad\nname: bad\nlogsource: {category: ids, service: alert}\ndetection: {s: {alert.signature: Bad}, condition: s}\n---\n\
         title: Three\ncorrelation: {type: event_count, rules: bad, group-by: src_ip, timespan: 1m, condition: {gte: 3}}\n",
    )
    .unwrap();
    let frame = |host| ipv4(17, [198, 51, 100, 7], [203, 0, 113, host], 0, &udp(5000, 9999, b"EVIL"));
    pcap(&folder.path().join("in.pcap"), &(0..9).map(frame).collect::<Vec<_>>());
    let (rules, key, config, epochs) = (path("s.rules"), path("north.key"), path("ringtap.toml"), path("epoch"));
    let (capture, spool, sigma, store) = (path("in.pcap"), path("spool"), path("rules.yml"), path("store"));
    let sensor = Command::new(RINGTAP)
        .args(["sensor", "--no-checksums", "--replay", &capture, "-S", &rules, "--sensor-id", "north", "--key", &key])
        .args(["--kafka", &at, "--kafka-spool", &spool, "--epoch-file", &epochs, "--json"])
        .output()
        .unwrap();
    assert!(sensor.status.success(), "{}", String::from_utf8_lossy(&sensor.stderr));
    let out = folder.path().join("out");
    let arguments = ["--rules", &sigma, "--kafka", &at, "--config", &config, "--store", &store];
    let child = correlate(&arguments, &out);
    wait_until("an incident", &out, || !told(&out, "opened").is_empty());
    let opened = &told(&out, "opened")[0];
    assert_eq!(opened["key"]["src_ip"], "198.51.100.7");
    assert!(opened["members"].as_array().unwrap().iter().all(|member| member["sensor"] == "north"), "{opened}");
    end(child, &out);
    // It does not read them again.
    let again = folder.path().join("again");
    let child = correlate(&arguments, &again);
    std::thread::sleep(Duration::from_secs(2));
    let summary = end(child, &again);
    assert!(told(&again, "opened").is_empty(), "{summary}");
}

#[test]
fn kafka_what_is_wrong_is_said_and_nothing_begins() {
    let broker = Broker::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yml"), RULES).unwrap();
    let (rules, at) = (text(folder.path().join("rules.yml")), broker.address());
    let run = |arguments: &[&str]| {
        let done = Command::new(RINGTAP).arg("correlate").args(["--rules", &rules]).args(arguments).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, said) = run(&["--kafka", &at]);
    assert!(code == Some(1) && said.contains("ringtap-alarms") && said.contains("no such topic"), "{said}");
    let (code, said) = run(&["--kafka", "127.0.0.1:1"]);
    assert!(code == Some(1) && said.contains("127.0.0.1:1") && said.contains("does it run?"), "{said}");
    for usage in [&["--kafka", ":1"][..], &["--kafka", &at, "--kafka-topic", "a b"], &["--kafka", &at, "--read", "x"]] {
        let (code, said) = run(usage);
        assert_eq!(code, Some(2), "{said}");
    }
    // What is in the topic and no event is counted and named; what follows is taken.
    broker.topic("ringtap-alarms", 1);
    let out = folder.path().join("out");
    let line = "{\"timestamp\":\"2026-01-31T12:00:00Z\",\"event_type\":\"alert\",\"kind\":\"failure\",\"who\":\"a\"}";
    produce(&at, "ringtap-alarms", &format!("x|no json\nx|{{\"a\":1}}\nx|{line}\n"), folder.path());
    let child = correlate(&["--rules", &rules, "--kafka", &at], &out);
    let said = out.with_extension("said");
    wait_until("a bad line", &out, || fs::read_to_string(&said).unwrap_or_default().contains("kafka:ringtap-alarms:2"));
    std::thread::sleep(Duration::from_secs(1));
    let summary = end(child, &out);
    let input = &summary["inputs"][0];
    assert_eq!((&input["lines"], &input["bad"]), (&3.into(), &2.into()), "{summary}");
}
