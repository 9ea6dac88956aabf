//! The whole benchmark once, small: every receiver produces data and every packet is accounted for. Speed is no matter here.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Engines of this process; they keep a ledger.
const ENGINES: [&str; 15] = [
    "hybrid 1ms",
    "hybrid 1ms peak 500k",
    "hybrid 1ms peak 150k",
    "hybrid 250us",
    "windowed 1ms",
    "timer 1ms",
    "timer 250us",
    "interrupt",
    "interrupt + NAPI pause",
    "interrupt + copy",
    "interrupt + copy + allocation",
    "busy",
    "packet 1ms",
    "packet 1ms 256 B frames",
    "socket",
];
const PEERS: [&str; 9] = [
    "udp-socket",
    "libpcap",
    "tcpdump",
    "dumpcap",
    "netsniff-ng",
    "testpmd-af-xdp",
    "testpmd-af-packet",
    "suricata-af-packet",
    "suricata-af-xdp",
];

#[test]
fn net_a_quick_benchmark_accounts_for_every_packet_of_everybody() {
    let name = "net_a_quick_benchmark_accounts_for_every_packet_of_everybody";
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ringtap"))
        .args(["bench", "--quick", "--json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("it needs root"), "did not run: {name}: {said}");
    assert!(output.status.success(), "{said}");
    let book: Value = serde_json::from_slice(&std::fs::read(folder.path().join("bench.json")).unwrap()).unwrap();
    let missing: Vec<&Value> = book["missing"].as_array().unwrap().iter().collect();
    if let Some(absent) = missing.iter().find(|missing| missing["why"].as_str().unwrap().contains("apt-get install")) {
        panic!("did not run: {name}: {absent}");
    }
    // A spinning real-time thread can't share its core with the device's kernel thread, and the report says so.
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0]["what"], "busy (host)");

    let mut seen = BTreeSet::new();
    for sample in book["samples"].as_array().unwrap() {
        let of = |name: &str| sample[name].as_u64().unwrap();
        let receiver = sample["receiver"].as_str().unwrap();
        assert_eq!(of("sent"), of("received") + of("lost"), "{sample}");
        if ENGINES.contains(&receiver) {
            assert_eq!(sample["unaccounted"], 0, "{sample}");
        }
        if sample["study"] == "rates" {
            assert!(of("received") > 0, "{sample}");
            seen.insert((sample["topology"].as_str().unwrap(), receiver));
        }
    }
    for receiver in ENGINES.iter().chain(&PEERS) {
        assert!(seen.contains(&("nic", receiver)), "{receiver}");
        assert!(seen.contains(&("host", receiver)) || *receiver == "busy", "{receiver}");
    }
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("hybrid 1ms") && !report.contains("http://") && !report.contains("https://"));
    assert!(folder.path().join("bench.md").exists());

    // The same book again, without a testbed, and its models.
    let again =
        Command::new(env!("CARGO_BIN_EXE_ringtap")).args(["bench", "--render", "--out"]).arg(folder.path()).output();
    assert!(again.unwrap().status.success());
    let plan =
        Command::new(env!("CARGO_BIN_EXE_ringtap")).args(["plan", "--from"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&plan.stderr);
    assert!(!plan.status.success() && said.contains("rates"), "one rate makes no model: {said}");
}

/// The studies that `--quick` leaves out, with two receivers: each makes its runs, and nothing is missing.
#[test]
fn net_the_other_studies_run_as_well() {
    let name = "net_the_other_studies_run_as_well";
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ringtap"))
        .args(["bench", "--quick", "--only", "ring,sizes,arrivals,pause,napi,storms"])
        .args(["--receivers", "hybrid 1ms,udp-socket", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("it needs root"), "did not run: {name}: {said}");
    assert!(output.status.success(), "{said}");
    let book: Value = serde_json::from_slice(&std::fs::read(folder.path().join("bench.json")).unwrap()).unwrap();
    assert_eq!(book["missing"].as_array().unwrap().len(), 0, "{}", book["missing"]);
    let of = |list: &str| -> BTreeSet<String> {
        let all = book[list].as_array().unwrap();
        all.iter().map(|one| one["study"].as_str().unwrap().to_owned()).collect()
    };
    for study in ["ring", "sizes", "arrivals", "pause", "napi", "storms"] {
        assert!(of("samples").contains(study), "{study}");
    }
    assert!(of("findings").contains("napi"), "round trips: {}", book["findings"]);
    let lengths: BTreeSet<u64> =
        book["samples"].as_array().unwrap().iter().map(|sample| sample["frame_bytes"].as_u64().unwrap()).collect();
    assert_eq!(lengths, BTreeSet::from([64, 1514]), "up to the longest of the MTU");
    // What is the whole machine's is as before.
    for (setting, usual) in [("netdev_budget", "300"), ("dev_weight", "64")] {
        let now = std::fs::read_to_string(format!("/proc/sys/net/core/{setting}")).unwrap();
        assert_eq!(now.trim(), usual, "{setting}");
    }
}

#[test]
fn bad_requests_are_refused_with_a_way_out() {
    for (arguments, words) in [
        (&["--only", "speed"][..], "choose among idle"),
        (&["--run", "1us"], "50ms"),
        (&["--quick", "--full"], "cannot be used with"),
        (&["--rounds", "0"], "1..=1000"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ringtap"))
            .args(["bench", "--out", "/nonexistent/results"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.json"), "{\"format\": 7}").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_ringtap")).args(["plan", "--from"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("bench.json") && said.contains("ringtap bench"), "{said}");
}
