//! The benchmark, small: every receiver produces data and every packet is accounted for. Speed is no matter here.
//!
//! A few receivers and one point of each study run with the other tests; everybody and all points, which take minutes, are
//! `make test-long`'s.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Runs `ringtap bench --quick` into this folder; its book.
fn bench(name: &str, folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtap"));
    let output = command.args(["bench", "--quick", "--out"]).arg(folder).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("it needs root"), "did not run: {name}: {said}");
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&std::fs::read(folder.join("bench.json")).unwrap()).unwrap()
}

/// Everybody's packets are accounted for, and nobody is missing but who can't run.
fn assert_accounted(name: &str, book: &Value, engines: &[&str], peers: &[&str]) {
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
        if engines.contains(&receiver) {
            assert_eq!(sample["unaccounted"], 0, "{sample}");
        }
        if sample["study"] == "rates" {
            assert!(of("received") > 0, "{sample}");
            seen.insert((sample["topology"].as_str().unwrap(), receiver));
        }
    }
    for receiver in engines.iter().chain(peers) {
        assert!(seen.contains(&("nic", receiver)), "{receiver}");
        assert!(seen.contains(&("host", receiver)) || *receiver == "busy", "{receiver}");
    }
}

#[test]
fn net_a_quick_benchmark_accounts_for_every_packet() {
    let name = "net_a_quick_benchmark_accounts_for_every_packet";
    let folder = tempfile::tempdir().unwrap();
    let (engines, peers) = (["hybrid 1ms", "busy", "packet 1ms"], ["udp-socket", "tcpdump"]);
    let receivers = [engines.join(","), peers.join(",")].join(",");
    let book = bench(name, folder.path(), &["--json", "--receivers", &receivers]);
    assert_accounted(name, &book, &engines, &peers);
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

#[test]
#[ignore = "three minutes: make test-long"]
fn net_a_quick_benchmark_accounts_for_every_packet_of_everybody() {
    let name = "net_a_quick_benchmark_accounts_for_every_packet_of_everybody";
    let folder = tempfile::tempdir().unwrap();
    assert_accounted(name, &bench(name, folder.path(), &[]), &ENGINES, &PEERS);
}

/// The studies that `--quick` leaves out, with three receivers: each makes its runs, and nothing is missing.
#[test]
#[ignore = "two minutes: make test-long"]
fn net_the_other_studies_have_all_their_points() {
    let folder = tempfile::tempdir().unwrap();
    let studies = ["ring", "sizes", "arrivals", "pause", "polls", "napi", "storms"];
    let only = studies.join(",");
    let asked = ["--only", &only, "--receivers", "hybrid 1ms,timer 1ms,udp-socket"];
    let book = bench("net_the_other_studies_have_all_their_points", folder.path(), &asked);
    // Only the machine's first network namespace has these settings.
    let settings = Path::new("/proc/sys/net/core");
    let has_budget = settings.join("netdev_budget").exists();
    let missing: Vec<&str> =
        book["missing"].as_array().unwrap().iter().map(|missing| missing["what"].as_str().unwrap()).collect();
    assert_eq!(missing, if has_budget { &[][..] } else { &["napi"] }, "{}", book["missing"]);
    let of = |list: &str| -> BTreeSet<String> {
        let all = book[list].as_array().unwrap();
        all.iter().map(|one| one["study"].as_str().unwrap().to_owned()).collect()
    };
    for study in studies.into_iter().filter(|&study| has_budget || study != "napi") {
        assert!(of("samples").contains(study), "{study}");
    }
    for sample in book["samples"].as_array().unwrap().iter().filter(|sample| sample["study"] == "polls") {
        let of = |name: &str| sample[name].as_f64().unwrap();
        let (asked, made) =
            (sample["measures"]["polls_per_second"].as_f64().unwrap(), of("timer_wakes") / of("seconds"));
        // Fewer where the machine is busy, and not the receiver's own 1,300; one more at each end of a short run.
        assert!(made <= asked * 1.1, "{made} looks a second of {asked}: {sample}");
    }
    let polled = book["samples"].as_array().unwrap().iter().filter(|sample| sample["study"] == "polls");
    let rates: BTreeSet<u64> =
        polled.map(|sample| sample["measures"]["polls_per_second"].as_f64().unwrap().round() as u64).collect();
    assert_eq!(rates, BTreeSet::from([500, 1000, 2000, 4000, 8192, 16_000, 32_000]));
    assert_eq!(of("findings").contains("napi"), has_budget, "round trips: {}", book["findings"]);
    let lengths: BTreeSet<u64> =
        book["samples"].as_array().unwrap().iter().map(|sample| sample["frame_bytes"].as_u64().unwrap()).collect();
    assert_eq!(lengths, BTreeSet::from([64, 1514]), "up to the longest of the MTU");
    // What is the whole machine's is as before.
    for (setting, usual) in [("netdev_budget", "300"), ("dev_weight", "64")].into_iter().filter(|_| has_budget) {
        let now = std::fs::read_to_string(settings.join(setting)).unwrap();
        assert_eq!(now.trim(), usual, "{setting}");
    }
}

#[test]
fn net_staged_attacks_are_found_in_event_time() {
    staged("net_staged_attacks_are_found_in_event_time", &["ringtap-correlate"]);
}

#[test]
#[ignore = "half a minute: make test-long"]
fn net_staged_attacks_are_found_in_event_time_beside_suricata() {
    staged("net_staged_attacks_are_found_in_event_time_beside_suricata", &["ringtap-correlate", "suricata-syslog"]);
}

fn staged(name: &str, receivers: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let book = bench(name, path, &["--only", "staged", "--receivers", &receivers.join(",")]);
    assert_eq!(book["missing"].as_array().unwrap().len(), 0, "{}", book["missing"]);
    let samples = book["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 2 * receivers.len(), "both floods, each receiver");
    for sample in samples {
        let measure = |name: &str| sample["measures"][name].as_f64();
        assert_eq!(measure("pairs"), Some(125.0), "{sample}");
        assert_eq!(sample["reported"]["evidence"]["cells"].as_array().unwrap().len(), 30);
        for wire in ["driver_queue", "wire_to_north", "wire_to_south"] {
            assert!(sample["drops"][wire].is_u64(), "{wire}: {sample}");
        }
        if sample["receiver"] == "ringtap-correlate" {
            assert_eq!((measure("pairs_missed"), &sample["unaccounted"]), (Some(0.0), &0.into()), "{sample}");
            assert!(measure("pairs_due").unwrap() > 0.0 && measure("p99_to_final_ms").is_some(), "{sample}");
        } else {
            assert!(measure("pairs_logged").unwrap() > 0.0 && measure("p99_to_log_ms").is_some(), "{sample}");
            assert!(measure("pairs_delivered").is_none(), "a log shows alerts alone: {sample}");
        }
    }
    let report = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(report.contains("<section id=\"staged\">") && report.contains("<figure id=\"staged-hops\">"));
}

/// What a signal cut off goes on where the last whole study ended; the same book as without the signal.
#[test]
fn net_a_benchmark_that_was_cut_off_goes_on() {
    let name = "net_a_benchmark_that_was_cut_off_goes_on";
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--only", "idle,rates", "--receivers", "hybrid 1ms", "--rates", "20k,148k", "--rounds", "2"];
    let book =
        || -> Option<Value> { serde_json::from_slice(&std::fs::read(folder.path().join("bench.json")).ok()?).ok() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtap"));
    command.args(["bench", "--quick", "--out"]).arg(folder.path()).args(arguments).stderr(Stdio::piped());
    let first = command.spawn().unwrap();
    let studied = |book: &Value, study: &str| -> Vec<Value> {
        book["samples"].as_array().unwrap().iter().filter(|sample| sample["study"] == study).cloned().collect()
    };
    let began = Instant::now();
    while book().is_none_or(|book| studied(&book, "rates").len() < 2) {
        assert!(began.elapsed() < Duration::from_secs(120), "no second study");
        std::thread::sleep(Duration::from_millis(20));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first.id() as i32), nix::sys::signal::Signal::SIGINT).unwrap();
    let output = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("it needs root"), "did not run: {name}: {said}");
    let cut = book().unwrap();
    assert!(output.status.success() && studied(&cut, "rates").len() < 2 * 2 * 2, "{said}");
    assert_eq!(cut["missing"].as_array().unwrap().last().unwrap()["what"], "the rest");
    let whole: Vec<&Value> = cut["whole"]["studies"].as_array().unwrap().iter().map(|made| &made["name"]).collect();
    assert_eq!(whole, ["idle"]);

    // Another command does not go on with it.
    let mut other = Command::new(env!("CARGO_BIN_EXE_ringtap"));
    let output = other.args(["bench", "--resume", "--out"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("it was begun by `ringtap bench --quick") && said.contains("--add"), "{said}");
    assert_eq!(book().unwrap(), cut);

    let whole = bench(name, folder.path(), &[&arguments[..], &["--resume"]].concat());
    assert_eq!(studied(&whole, "idle"), studied(&cut, "idle"));
    let points: BTreeSet<String> = studied(&whole, "rates")
        .iter()
        .map(|sample| format!("{} {} {}", sample["topology"], sample["offered_pps"], sample["round"]))
        .collect();
    assert_eq!((points.len(), studied(&whole, "rates").len()), (8, 8), "each point once: {points:?}");
    assert_eq!(whole["missing"].as_array().unwrap().len(), 0, "{}", whole["missing"]);
    assert_eq!(whole["environment"]["command"], cut["environment"]["command"]);
}

#[test]
fn bad_requests_are_refused_with_a_way_out() {
    for (arguments, words) in [
        (&["--only", "speed"][..], "choose among idle"),
        (&["--run", "1us"], "50ms"),
        (&["--quick", "--full"], "cannot be used with"),
        (&["--all", "--only", "idle"], "cannot be used with"),
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
    // Nothing is built or measured before, for which it would need root.
    let nowhere = folder.path().join("nowhere");
    let output = Command::new(env!("CARGO_BIN_EXE_ringtap"))
        .args(["bench", "--quick", "--add", "--out"])
        .arg(&nowhere)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("nowhere/bench.json") && said.contains("leave --add out to begin"), "{said}");
    assert!(!nowhere.exists());
    std::fs::write(folder.path().join("bench.json"), "{\"format\": 7}").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_ringtap")).args(["plan", "--from"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("bench.json") && said.contains("ringtap bench"), "{said}");
}
