//! `ringtap sensor` on an interface: planted attacks in a flood, all found, none lost, alarms in the transmit ring.
//! About accounting; speed is measured elsewhere.

mod capture_support;
mod sensor_support;

use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, assert_clean, send_frames, testbed};
use nix::sys::signal::Signal;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};
use serde_json::Value;

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
    command.args(["sensor", "-i", host.interface(), "--json", "-S", rules.to_str().unwrap()]);
    if !extra.contains(&"--flows") {
        command.args(["--flows", "4096"]);
    }
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
    flood_at(testbed, 148e3, FLOOD)
}

/// Floods the sensor until all was sent, and ends it.
fn summary_after_flood(testbed: &Testbed, sensor: Capture) -> Value {
    let report = flood(testbed);
    assert_eq!(report.stamped, FLOOD, "{report}");
    // What was sent is on its way.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended.summary()
}

fn flood_at(testbed: &Testbed, pps: f64, count: u64) -> ringtap_testbed::GeneratorReport {
    let profile = Profile::lasting(Pattern::Constant { pps }, std::time::Duration::from_secs(4));
    let traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(count);
    let generator = testbed.generate(traffic).unwrap();
    send_frames(testbed, &attacks("EVIL"));
    generator.join().unwrap()
}

#[test]
fn net_sensor_finds_every_planted_attack_in_a_flood() {
    const TEST: &str = "net_sensor_finds_every_planted_attack_in_a_flood";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    write_rules(&rules, "EVIL");
    let (key, epoch) = (folder.path().join("key"), folder.path().join("epoch"));
    std::fs::write(&key, "1:000102030405060708090a0b0c0d0e0f").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
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
        "--sensor-id",
        "north",
        "--key",
        key.to_str().unwrap(),
        "--epoch-file",
        epoch.to_str().unwrap(),
    ];
    let sensor = sensor(&testbed, &rules, &extra);
    testbed.enable_receiver_napi().unwrap();
    let summary = summary_after_flood(&testbed, sensor);
    let ledger = &summary["ledger"];
    assert_eq!(ledger["unaccounted"], 0, "{summary}");
    assert_eq!(ledger["lost"], 0, "{summary}");
    assert_eq!(summary["packets"], FLOOD + ATTACKS as u64, "{summary}");
    assert_eq!(summary["alerts"], ATTACKS, "{summary}");
    assert_eq!(summary["alarms"]["datagrams_sent"], ATTACKS, "{summary}");
    assert_eq!(summary["alarms"]["behind_heartbeat"], 0, "{summary}");
    assert_eq!(
        (&summary["outputs"]["lost_in_queue"], &summary["outputs"]["failed"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    let detection = &summary["detection_us"];
    assert_eq!(detection["count"], ATTACKS, "{summary}");
    let buckets = detection["histogram"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>(), ATTACKS as u64, "{summary}");
    let edges: Vec<f64> = buckets.iter().map(|bucket| bucket[0].as_f64().unwrap()).collect();
    assert!(edges.is_sorted() && *edges.last().unwrap() >= detection["max"].as_f64().unwrap() * 0.9, "{summary}");
    let text = std::fs::read_to_string(&eve).unwrap();
    let mut sids: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event_type"] == "alert")
        .map(|event| event["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    sids.sort_unstable();
    assert_eq!(sids, (0..ATTACKS as u64).map(|number| 1000 + number * 4).collect::<Vec<_>>());
    assert_clean(&testbed);
}

/// At a rate that a busy machine may not carry: every packet is accounted for all the same.
#[test]
fn net_sensor_accounts_for_every_packet_at_500_kpps() {
    const TEST: &str = "net_sensor_accounts_for_every_packet_at_500_kpps";
    const COUNT: u64 = 500_000;
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    write_rules(&rules, "EVIL");
    let sensor = sensor(&testbed, &rules, &["--backend", "xdp"]);
    testbed.enable_receiver_napi().unwrap();
    let report = flood_at(&testbed, 500e3, COUNT);
    assert_eq!(report.stamped, COUNT, "{report}");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let summary = sensor.interrupt().summary();
    let ledger = &summary["ledger"];
    assert_eq!(ledger["unaccounted"], 0, "{summary}");
    let (handled, lost) = (summary["packets"].as_u64().unwrap(), ledger["lost"].as_u64().unwrap());
    assert_eq!(handled + lost, COUNT + ATTACKS as u64, "{summary}");
    // What was lost may have been an attack, but no more of them than that.
    let found = summary["alerts"].as_u64().unwrap();
    assert!(found <= ATTACKS as u64 && found + lost >= ATTACKS as u64, "{summary}");
    assert_eq!(summary["records"]["unaccounted"], 0, "{summary}");
}

/// A flow takes 648 bytes and more: most of them are there when there are flows, not before. The reserve holds 4,096 flows, a
/// second of these: pages are late only where their thread gets no CPU for so long.
#[test]
fn net_sensor_has_no_pages_for_what_it_does_not_use() {
    const TEST: &str = "net_sensor_has_no_pages_for_what_it_does_not_use";
    const FLOWS: u16 = 24_000;
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    write_rules(&rules, "EVIL");
    let mut sensor = sensor(&testbed, &rules, &["--backend", "xdp", "--flows", "65536"]);
    testbed.enable_receiver_napi().unwrap();
    let before = sensor.resident_bytes();
    let profile = Profile::lasting(Pattern::Constant { pps: 4e3 }, std::time::Duration::from_secs(8));
    let mut traffic = GeneratorConfig::for_testbed(&testbed, 64, profile).count(FLOWS.into());
    (traffic.frame.source_port, traffic.frame.flows) = (1024, FLOWS);
    let report = testbed.generate(traffic).unwrap().join().unwrap();
    assert_eq!(report.stamped, u64::from(FLOWS), "{report}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let grown = sensor.resident_bytes() - before;
    let summary = sensor.interrupt().summary();
    assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
    assert_eq!(summary["engines"][0]["flow"]["total"], FLOWS, "{summary}");
    let (flows, late) = (u64::from(FLOWS) * 648, summary["tables_late_bytes"].as_u64().unwrap());
    assert!(grown > flows / 4 * 3 && grown < 2 * flows, "{grown} bytes more; {summary}");
    assert!(late < flows / 2, "{summary}");
}

#[test]
fn net_sensor_loads_rules_again_without_losing_a_packet() {
    const TEST: &str = "net_sensor_loads_rules_again_without_losing_a_packet";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
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
    let summary = summary_after_flood(&testbed, sensor);
    assert_eq!((&summary["ledger"]["unaccounted"], &summary["ledger"]["lost"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(summary["packets"], FLOOD + 2 * ATTACKS as u64, "{summary}");
    assert_eq!((&summary["reloads"], &summary["alerts"]), (&1.into(), &ATTACKS.into()), "{summary}");
    let lines = std::fs::read_to_string(&eve).unwrap().lines().count();
    assert_eq!(lines, ATTACKS, "the file was opened again");
}

#[test]
fn net_sensor_keeps_its_rules_when_a_reload_brings_none_or_far_fewer() {
    const TEST: &str = "net_sensor_keeps_its_rules_when_a_reload_brings_none_or_far_fewer";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    let one = "alert udp any any -> any any (content:\"OTHER\"; sid:1;)\n";
    for fewer in [false, true] {
        write_rules(&rules, "EVIL");
        let extra = ["--backend", "xdp", "--reload-fewer"];
        let mut sensor = sensor(&testbed, &rules, if fewer { &extra } else { &extra[..2] });
        std::fs::write(&rules, "alert udp any any -> any any (content:\"EVIL; sid:1;)\n").unwrap();
        sensor.signal(Signal::SIGHUP);
        sensor.wait_for("the rules in use stay: use rules of");
        std::fs::write(&rules, format!("{one}alert udp any any\n")).unwrap();
        sensor.signal(Signal::SIGHUP);
        sensor.wait_for(if fewer {
            "1 rules loaded"
        } else {
            "the rules in use stay: load again rules: 1 of 2 are usable"
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        send_frames(&testbed, &attacks("EVIL"));
        let ended = sensor.interrupt();
        let summary = ended.summary();
        assert!(ended.stderr.contains("my.rules:1") && ended.stderr.contains("my.rules:2"), "{}", ended.stderr);
        let expected = if fewer { (1, 1, 0) } else { (RULES, 0, ATTACKS) };
        let found = (&summary["rules"], &summary["reloads"], &summary["alerts"]);
        assert_eq!(found, (&expected.0.into(), &expected.1.into(), &expected.2.into()), "{summary}");
    }
}

/// An engine that sleeps takes them all the same, or it would keep those that come after them from all others.
#[test]
fn net_sensor_loads_rules_again_while_no_packet_comes() {
    const TEST: &str = "net_sensor_loads_rules_again_while_no_packet_comes";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, queues: 2, ..TestbedConfig::default() });
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    write_rules(&rules, "EVIL");
    let mut sensor = sensor(&testbed, &rules, &["--backend", "xdp", "--reload-fewer"]);
    for count in 1..=3 {
        let text = |sid: usize| format!("alert udp any any -> any any (content:\"OTHER\"; sid:{sid};)\n");
        std::fs::write(&rules, (1..=count).map(text).collect::<String>()).unwrap();
        sensor.signal(Signal::SIGHUP);
        sensor.wait_for(&format!("{count} rules loaded"));
    }
    assert_eq!(sensor.interrupt().summary()["reloads"], 3);
}

/// Bits have numbers in the order in which rules name them; those that flows hold must mean the same after any reload.
#[test]
fn net_sensor_keeps_the_flowbits_of_flows_when_a_reload_fails() {
    const TEST: &str = "net_sensor_keeps_the_flowbits_of_flows_when_a_reload_fails";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let (rules, eve) = (folder.path().join("my.rules"), folder.path().join("eve.json"));
    let pair = |bit: &str, sid: u32| {
        format!(
            "alert udp any any -> any any (content:\"{bit} set\"; flowbits:set,{bit}; flowbits:noalert; sid:{sid};)\n\
             alert udp any any -> any any (content:\"{bit} asked\"; flowbits:isset,{bit}; sid:{};)\n",
            sid + 1
        )
    };
    let send = |payload: &[u8]| {
        send_frames(&testbed, &[ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, payload))]);
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    std::fs::write(&rules, pair("one", 1) + &pair("two", 3)).unwrap();
    let extra = ["--backend", "xdp", "--eve", eve.to_str().unwrap(), "--events", "alert"];
    let mut sensor = sensor(&testbed, &rules, &extra);
    send(b"two set");
    std::fs::remove_file(&rules).unwrap();
    sensor.signal(Signal::SIGHUP);
    sensor.wait_for("the rules in use stay");
    std::fs::write(&rules, pair("two", 3) + &pair("one", 1)).unwrap();
    sensor.signal(Signal::SIGHUP);
    sensor.wait_for("rules loaded");
    std::thread::sleep(std::time::Duration::from_millis(300));
    send(b"two asked");
    send(b"one asked");
    let summary = sensor.interrupt().summary();
    assert_eq!(summary["packets"], 3, "{summary}");
    let alerts = std::fs::read_to_string(&eve).unwrap();
    let alarmed: Vec<Value> = alerts
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["alert"]["signature_id"].take())
        .collect();
    assert_eq!(alarmed, [4], "{alerts}");
}

#[test]
fn net_sensor_looks_at_priority_rules_first_under_a_smoke_screen() {
    const TEST: &str = "net_sensor_looks_at_priority_rules_first_under_a_smoke_screen";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let (costly, first) = (folder.path().join("costly.rules"), folder.path().join("first.rules"));
    // No machine looks at 300 expressions for each of 148,000 packets per second. Eight letters in a row: a time stamp in the
    // flood may read x, a letter, 1 and y.
    let mut text = String::new();
    for sid in 1..=300 {
        writeln!(text, r#"alert udp any any -> any 9000 (pcre:"/x[a-w]{{8,}}{sid}y/"; sid:{sid};)"#).unwrap();
    }
    std::fs::write(&costly, text).unwrap();
    write_rules(&first, "EVIL");
    let text = std::fs::read_to_string(&first).unwrap().replace("-> any any", "-> any 9999");
    std::fs::write(&first, text).unwrap();
    let extra = ["--backend", "xdp", "--max-latency", "2ms", "--priority-rules", first.to_str().unwrap()];
    let sensor = sensor(&testbed, &costly, &extra);
    testbed.enable_receiver_napi().unwrap();
    let summary = summary_after_flood(&testbed, sensor);
    let shed = summary["shed"].as_u64().unwrap();
    assert!(shed > 0, "{summary}");
    assert_eq!(summary["packets"].as_u64().unwrap() + shed, FLOOD + ATTACKS as u64, "{summary}");
    let ledger = &summary["ledger"];
    assert_eq!((&ledger["drops"]["shed"], &ledger["lost"]), (&summary["shed"], &summary["shed"]), "{summary}");
    assert_eq!(ledger["unaccounted"], 0, "{summary}");
    assert_eq!(summary["alerts"], ATTACKS, "{summary}");
}

#[test]
fn net_sensor_refuses_priority_rules_that_any_packet_fits() {
    const TEST: &str = "net_sensor_refuses_priority_rules_that_any_packet_fits";
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("first.rules");
    std::fs::write(&rules, r#"alert ip any any -> any any (content:"a"; sid:1;)"#).unwrap();
    let host = testbed.receiver();
    let mut command: Command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--priority-rules", rules.to_str().unwrap()]);
    Capture::of(host, command).end().assert_refused(2, &["--priority-rules", "first.rules:1: any packet fits"]);
}

#[test]
fn net_sensor_keeps_each_flow_on_one_queue() {
    const TEST: &str = "net_sensor_keeps_each_flow_on_one_queue";
    const FLOWS: u16 = 64;
    /// Addresses decide, so flows of one pair share a queue and those of several pairs spread.
    const PAIRS: u8 = 16;
    let testbed = testbed(TEST, TestbedConfig { ipv6: false, ..TestbedConfig::default() });
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    write_rules(&rules, "EVIL");
    let sensor = sensor(&testbed, &rules, &["--backend", "packet", "--queues", "2"]);
    let profile = Profile::lasting(Pattern::Constant { pps: 20e3 }, std::time::Duration::from_secs(4));
    let mut traffic = GeneratorConfig::for_testbed(&testbed, 64, profile).count(20_000);
    (traffic.frame.source_port, traffic.frame.flows) = (1024, FLOWS);
    let report = testbed.generate(traffic).unwrap().join().unwrap();
    assert_eq!(report.stamped, 20_000, "{report}");
    send_frames(&testbed, &attacks("EVIL"));
    let pair = |number: u8| ipv4(17, [192, 0, 2, number], [203, 0, 113, 9], 0, &udp(5000, 9999, b"of another pair"));
    // Twice, and none of these flows is there twice for it.
    (0..2).for_each(|_| send_frames(&testbed, &(0..PAIRS).map(pair).collect::<Vec<_>>()));
    let summary = sensor.interrupt().summary();
    assert_eq!((&summary["ledger"]["unaccounted"], &summary["ledger"]["lost"]), (&0.into(), &0.into()), "{summary}");
    let sent = 20_000 + ATTACKS + 2 * usize::from(PAIRS);
    assert_eq!((&summary["packets"], &summary["alerts"]), (&sent.into(), &ATTACKS.into()), "{summary}");
    let engines = summary["engines"].as_array().unwrap();
    let of = |group: &str, name: &str| engines.iter().map(|engine| engine[group][name].as_u64().unwrap()).collect();
    let (packets, flows): (Vec<u64>, Vec<u64>) = (of("decoder", "pkts"), of("flow", "total"));
    assert!(packets.len() == 2 && packets.iter().all(|&count| count > 0), "{summary}");
    // One flow of attacks, and none of the others twice.
    assert_eq!(flows.iter().sum::<u64>(), u64::from(FLOWS) + 1 + u64::from(PAIRS), "{summary}");
}

/// Over files as on an interface: once all is set up the process is the user's, and so are its outputs.
#[test]
fn net_sensor_reads_files_as_another_user() {
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (rules, capture, eve) =
        (folder.path().join("my.rules"), folder.path().join("in.pcap"), folder.path().join("eve.json"));
    write_rules(&rules, "EVIL");
    sensor_support::pcap(&capture, &attacks("EVIL"));
    let mut command = Command::new(RINGTAP);
    command.args(["sensor", "--json", "--no-checksums", "--user", "nobody", "--replay"]).arg(&capture);
    let output = command.arg("-S").arg(&rules).arg("--eve").arg(&eve).args(["--events", "alert"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(std::fs::read_to_string(&eve).unwrap().lines().count(), ATTACKS, "{errors}");
    assert_eq!(std::fs::metadata(&eve).unwrap().uid(), nobody.uid.as_raw());
}
