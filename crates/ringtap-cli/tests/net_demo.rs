//! `ringtap demo` and `ringtap plan` as a user runs them: what they promise in JSON, and that the accounts add up.
//!
//! Speed is not asserted here, nor that nothing is lost on a machine that others use too: only that every packet is
//! accounted for and that the exit code says the same as the figures.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn ringtap(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringtap")).args(arguments).output().expect("the ringtap binary runs")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&output.stdout)))
}

fn need_root(name: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    assert!(root, "did not run: {name}: it needs root");
}

#[test]
fn net_demo_accounts_for_every_packet_and_writes_a_file_tshark_reads() {
    need_root("net_demo_accounts_for_every_packet_and_writes_a_file_tshark_reads");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("demo.pcapng");
    let file = file.to_str().unwrap();
    let output = ringtap(&["demo", "--json", "-w", file]);
    let demo = json_of(&output);
    for act in [&demo, &demo["ramp"]] {
        let number = |name: &str| act[name].as_u64().unwrap_or_else(|| panic!("{name} in {act}"));
        assert_eq!(act["unaccounted"], 0, "{act}");
        assert_eq!(number("offered"), number("delivered") + number("lost"), "{act}");
        let drops: u64 = act["drops"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(drops, number("lost"), "{act}");
        for name in
            ["receiver_core_use_percent", "packets_per_poll", "interrupts_per_packet", "period_us", "mode_switches"]
        {
            assert!(act[name].is_number(), "{name} in {act}");
        }
        // Null where interrupts are cheaper at every rate that was measured.
        assert!(act.get("threshold_pps").is_some(), "{act}");
        for name in ["p50", "p99", "p999", "max"] {
            assert!(act["latency_us"][name].is_number(), "{name} in {act}");
        }
        assert_eq!(
            (&act["backend"], &act["zero_copy"], &act["busy_poll"]),
            (&"xdp".into(), &false.into(), &false.into())
        );
    }
    assert_eq!(demo["offered"], 1_480_000);
    let side = demo["side_by_side"].as_array().unwrap();
    assert_eq!(side.len(), 3, "{side:?}");
    assert_eq!(side[2]["unaccounted"], 0, "{side:?}");
    assert!(demo["seconds"].as_f64().unwrap() > 20.0, "{demo}");
    for row in side {
        assert!(row["received"].as_u64().unwrap() <= row["sent"].as_u64().unwrap(), "{row}");
    }
    assert_eq!(output.status.success(), demo["proven"] == true, "{}", String::from_utf8_lossy(&output.stderr));

    let filter = ["-r", file, "-Y", "udp.dstport == 9000", "-T", "fields", "-e", "frame.len"];
    let tshark = Command::new("tshark").args(filter).output().expect("did not run: net_demo: tshark is missing");
    let lengths = String::from_utf8_lossy(&tshark.stdout);
    assert_eq!(lengths.lines().count() as u64, demo["delivered"].as_u64().unwrap().min(100_000));
    assert!(lengths.lines().all(|length| length == "64"), "64-byte frames");
}

#[test]
fn plan_shows_its_sums() {
    let output = ringtap(&["plan", "--max-latency", "250us", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let whole = json_of(&output);
    let plan = &whole["plan"];
    assert!(plan["period_ns"].as_u64().unwrap() < 250_000, "{plan}");
    assert!(plan["ring_slots"].as_u64().unwrap().is_power_of_two(), "{plan}");
    assert!(plan["sums"].as_array().unwrap().len() >= 4, "{plan}");
    let text = ringtap(&["plan", "--max-latency", "1ms"]);
    assert!(text.status.success());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.lines().next().unwrap().contains("be kept"), "{text}");
    for word in ["  period ", "  threshold ", "  ring ", "  memory ", "  core ", "Why:", " ago"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let absurd = ringtap(&["plan", "--max-latency", "10us"]);
    let text = String::from_utf8_lossy(&absurd.stdout).into_owned();
    let jitter_us = whole["calibration"]["jitter_p99_ns"].as_f64().unwrap() / 1e3;
    assert_eq!(text.lines().next().unwrap().contains("cannot be kept"), jitter_us > 9.7, "{jitter_us} in {text}");
    assert!(!text.contains("t_P") && !text.contains("1970"), "{text}");
}

#[test]
fn plan_refuses_absurd_wishes() {
    for arguments in
        [["--max-latency", "5us"], ["--max-latency", "2s"], ["--peak-rate", "0"], ["--max-latency", "soon"]]
    {
        let output = ringtap(&["plan", arguments[0], arguments[1]]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(arguments[1]), "{said}");
    }
    let output = ringtap(&["plan", "--fresh", "--cpu", "100000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--cpu 100000"));
}

/// A short demo of staged attacks: one second of them.
const STAGED: [&str; 6] = ["demo", "--staged", "--attacks", "10", "--flood", "20k"];

#[test]
fn net_staged_attacks_are_found_and_each_moment_follows_the_one_before() {
    need_root("net_staged_attacks_are_found_and_each_moment_follows_the_one_before");
    let output = ringtap(&[&STAGED[..], &["--json"]].concat());
    let demo = json_of(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), demo["proven"] == true, "{said}");
    assert!(
        said.lines().filter(|line| !line.starts_with("ringtap: ")).all(|line| line.chars().count() <= 80),
        "{said}"
    );
    let ours = &demo["ringtap"];
    assert_eq!((&ours["missed"], &ours["unaccounted"]), (&0.into(), &0.into()), "{ours}");
    let cells = ours["evidence"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "{cells:?}");
    for cell in cells {
        assert!(cell["by_event"].as_u64() >= cell["due"].as_u64(), "{cell}");
    }
    assert!(ours["due"].as_u64().unwrap() > 0, "{ours}");
    let timelines = ours["timelines"].as_array().unwrap();
    assert_eq!(timelines.len(), 10);
    for line in timelines.iter().filter(|line| line["final_us"].is_number()) {
        let last: Vec<f64> = line["stages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|stage| {
                let moments =
                    ["splitter_us", "sensor_us", "built_us", "correlator_us"].map(|name| stage[name].as_f64());
                // Clocks of stamps are read apart, and compared to within some microseconds.
                assert!(moments.windows(2).all(|pair| pair[0].unwrap() <= pair[1].unwrap() + 100.0), "{stage}");
                moments[3].unwrap()
            })
            .collect();
        let told = ["provisional_us", "final_us"].map(|name| line[name].as_f64().unwrap());
        assert!(last[0].max(last[1]) <= told[0] + 100.0 && told[0] <= told[1], "{line}");
    }
    let suricata = &demo["suricata"];
    let missing = suricata["missing"].as_str().unwrap_or_default();
    assert!(!missing.contains("apt-get"), "did not run: {missing}");
    // The widest window. A log does not say which packets were handled.
    let widest = suricata["evidence"]["cells"].as_array().and_then(|cells| cells.last()).unwrap();
    assert!(widest["by_arrival"].as_u64() > Some(0), "its alerts come by syslog: {suricata}");
    assert!(widest["delivered"].is_null(), "{widest}");
}

#[test]
fn net_a_demo_that_is_interrupted_leaves_nothing() {
    need_root("net_a_demo_that_is_interrupted_leaves_nothing");
    let temporary = tempfile::tempdir().unwrap();
    let mark = format!("RINGTAP_TEST_STAGED={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_ringtap"))
        .args(["demo", "--staged", "--attacks", "100"])
        .env(name, value)
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let at_work = || processes(&mark);
    // Splitter, two sensors and correlator run, beside the demo itself.
    wait_until("all programs are at work", || {
        let words = |name: &str| at_work().iter().filter(|line| line.split('\0').any(|word| word == name)).count();
        words("split") >= 1 && words("sensor") >= 2 && words("correlate") >= 1
    });
    kill(Pid::from_raw(demo.id() as i32), Signal::SIGINT).unwrap();
    demo.wait().unwrap();
    wait_until("all programs have ended", || at_work().is_empty());
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Command lines of the processes that have this in their environment.
fn processes(mark: &str) -> Vec<String> {
    let has_it = |folder: &std::path::Path| {
        std::fs::read(folder.join("environ"))
            .is_ok_and(|text| text.split(|byte| *byte == 0).any(|it| it == mark.as_bytes()))
    };
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    folders
        .filter(|folder| has_it(folder))
        .filter_map(|folder| std::fs::read_to_string(folder.join("cmdline")).ok())
        .collect()
}

#[test]
fn options_of_the_staged_demo_need_it() {
    for (arguments, words) in [
        (&["demo", "--flood", "1k"][..], "--staged"),
        (&["demo", "--staged", "-w", "x"], "cannot be used with"),
        (&["demo", "--staged", "--attacks", "0"], "1..=150"),
    ] {
        let output = ringtap(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
}
