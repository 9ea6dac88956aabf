//! Clients that watch and conclude, Suricata, arpwatch and softflowd: on our library they come to the same as on the system's.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed};
use serde_json::Value;
use support::clients::{Client, Last, Library, capture_with, on_each, printed};
use support::run;

const LIBRARIES: [Library; 3] = [Library::System, Library::Ours("packet"), Library::Ours("xdp")];

/// 160 rules, most of which find something in the test's traffic: by protocol, by port, and by content.
fn rules() -> String {
    let mut rules = String::new();
    let mut sid = 0;
    let mut add = |rule: String| {
        sid += 1;
        writeln!(rules, "alert {rule} sid:{sid}; rev:1;)").unwrap();
    };
    for protocol in (0..60).chain(88..128) {
        add(format!("ip any any -> any any (msg:\"protocol {protocol}\"; ip_proto:{protocol};"));
    }
    for port in [53, 67, 68, 69, 123, 161, 162, 179, 389, 443, 500, 514, 520, 521, 546, 547, 646, 1701, 3784, 4789] {
        add(format!("udp any any -> any {port} (msg:\"datagram to {port}\";"));
        add(format!("tcp any any -> any {port} (msg:\"segment to {port}\";"));
    }
    for byte in 0..20 {
        add(format!("ip any any -> any any (msg:\"content {byte}\"; content:\"|{byte:02x} {byte:02x} {byte:02x}|\";"));
    }
    assert_eq!(sid, 160);
    rules
}

const CONFIGURATION: &str = include_str!("support/suricata.yaml");

/// Alerts by rule, addresses and ports, and the last counters of the decoder.
fn conclusions(folder: &Path, words: &str) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap_or_else(|error| panic!("{error}: {words}"));
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut alerts = BTreeMap::new();
    for event in events.iter().filter(|event| event["event_type"] == "alert") {
        let [from, to, ports] = [&event["src_ip"], &event["dest_ip"], &event["src_port"]];
        let key = format!("{} {from} {to} {ports} {}", event["alert"]["signature_id"], event["dest_port"]);
        *alerts.entry(key).or_insert(0) += 1;
    }
    let stats = events.iter().rfind(|event| event["event_type"] == "stats").unwrap_or_else(|| panic!("{words}"));
    let mut counters = BTreeMap::new();
    flatten("", &stats["stats"]["decoder"], &mut counters);
    (alerts, counters)
}

fn flatten(name: &str, value: &Value, into: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, into)),
        _ => _ = into.insert(name.to_owned(), value.as_u64().unwrap_or_default()),
    }
}

#[test]
fn net_suricata_finds_the_same() {
    let version = String::from_utf8_lossy(&run(Command::new("suricata").arg("-V")).stdout).into_owned();
    assert!(version.contains("version 7."), "did not run: net_suricata_finds_the_same: it needs Suricata 7: {version}");
    let client = Client {
        program: "suricata",
        arguments: "--pcap=IF -c DIR/suricata.yaml -S DIR/160.rules -l DIR --runmode single -k none",
        ready: Some("Engine started"),
        last: Last::Segment,
    };
    let prepare = |_: &Testbed, folder: &Path| {
        std::fs::write(folder.join("160.rules"), rules()).unwrap();
        let text = CONFIGURATION.replace("DIR", &folder.display().to_string());
        std::fs::write(folder.join("suricata.yaml"), text).unwrap();
    };
    let found = on_each(&LIBRARIES, |library| {
        let (words, folder) = capture_with(&client, library, prepare, |_, _| {});
        assert!(!words.contains("rules failed") || words.contains("0 rules failed"), "{words}");
        let (alerts, counters) = conclusions(folder.path(), &words);
        (alerts, counters, words)
    });
    let (alerts, counters, words) = &found[0];
    assert!(alerts.values().sum::<u64>() > 500 && counters[".pkts"] > 500, "{counters:?} {words}");
    for (index, (our_alerts, our_counters, words)) in found[1..].iter().enumerate() {
        let differs = alerts.iter().find(|(key, count)| our_alerts.get(*key) != Some(count));
        assert!(our_alerts == alerts, "library {index}: first difference {differs:?}: {words}");
        assert_eq!(our_counters, counters, "library {index}: {words}");
    }
}

/// Stations and bogons, but not when they were seen. It wants a data file, and an address on the interface.
#[test]
fn net_arpwatch_sees_the_same_stations() {
    let client = Client {
        program: "arpwatch",
        arguments: "-d -a -n 192.168.0.0/16 -n 1.0.2.0/23 -i IF -f DIR/arp.dat",
        ready: None,
        last: Last::Arp,
    };
    let seen = on_each(&LIBRARIES, |library| {
        let prepare = |_: &Testbed, folder: &Path| std::fs::write(folder.join("arp.dat"), "").unwrap();
        let (text, _folder) = capture_with(&client, library, prepare, |_, _| {});
        let is_time = |line: &&str| ["timestamp:", "delta:"].iter().any(|word| line.contains(word));
        text.lines().filter(|line| !is_time(line)).map(str::to_owned).collect::<Vec<_>>()
    });
    let stations = seen[0].iter().filter(|line| line.contains("new station")).count();
    let bogons = seen[0].iter().filter(|line| line.contains("bogon")).count();
    assert!(stations > 3 && bogons > 0, "{stations} stations, {bogons} bogons: {:?}", seen[0]);
    assert_eq!(seen[0], seen[1], "packet ring");
    assert_eq!(seen[0], seen[2], "AF_XDP");
}

/// Flows with their octets and packets, but not their times.
///
/// It asks for a timeout of 0, with which the system's libpcap gives packets only when one of its blocks is full: of a little
/// traffic it shows softflowd nothing at all. So the test's traffic is followed by so much that its block is full for sure;
/// this last flow is left out, as there the system's library shows some packets fewer.
#[test]
fn net_softflowd_counts_the_same_flows() {
    let client = Client {
        program: "softflowd",
        arguments: "-D -i IF -p DIR/pid -c DIR/ctl",
        ready: Some("starting data collection"),
        last: Last::Untold,
    };
    /// The generator's port.
    const FILLER: u16 = 9000;
    let conclude = |testbed: &Testbed, folder: &Path| {
        let profile = Profile::lasting(Pattern::Constant { pps: 2000.0 }, Duration::from_secs(5));
        let filler = GeneratorConfig::for_testbed(testbed, 1400, profile).count(4000);
        assert_eq!(filler.frame.destination_port, FILLER);
        testbed.generate(filler).unwrap().join().unwrap();
        // When it knows of the filler, it has counted all that came before.
        let until = Instant::now() + Duration::from_secs(60);
        let flows = loop {
            let said = run(Command::new("softflowctl").arg("-c").arg(folder.join("ctl")).arg("dump-flows"));
            let flows = String::from_utf8_lossy(&said.stdout).into_owned();
            if flows.contains(&format!("]:{FILLER} ")) {
                break flows;
            }
            assert!(Instant::now() < until, "the filler is not there: {flows}");
            std::thread::sleep(Duration::from_millis(50));
        };
        std::fs::write(folder.join("flows"), flows).unwrap();
    };
    let flows = on_each(&LIBRARIES, |library| {
        let (text, folder) = capture_with(&client, library, |_, _| {}, conclude);
        let flows = std::fs::read_to_string(folder.path().join("flows")).unwrap();
        // "ACTIVE seq:1 [192.0.2.1]:5 <> [192.0.2.2]:6 proto:17 octets>:… packets>:… … start:… finish:…"
        let mut kept: Vec<String> = flows
            .lines()
            .filter(|line| line.contains("packets>") && !line.contains(&format!("]:{FILLER} ")))
            .map(|line| {
                let words = line.split_whitespace();
                let is_time = |word: &&str| ["seq:", "start:", "finish:"].iter().any(|name| word.starts_with(name));
                words.filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
            })
            .collect();
        kept.sort();
        assert!(kept.len() > 50, "{flows} {} {text}", printed(&text));
        kept
    });
    for (index, ours) in flows[1..].iter().enumerate() {
        let differs = flows[0].iter().find(|flow| !ours.contains(flow));
        assert!(*ours == flows[0], "library {index}: {} and {} flows; {differs:?}", ours.len(), flows[0].len());
    }
}
