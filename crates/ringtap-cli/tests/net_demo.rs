//! `ringtap demo` and `ringtap plan` as a user runs them: what they promise in JSON, and that the accounts add up.
//!
//! Speed is not asserted here, nor that nothing is lost on a machine that others use too: only that every packet is
//! accounted for and that the exit code says the same as the figures.

use std::process::{Command, Output};

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
        [["--max-latency", "5us"], ["--max-latency", "2000000us"], ["--peak-rate", "0"], ["--max-latency", "soon"]]
    {
        let output = ringtap(&["plan", arguments[0], arguments[1]]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(arguments[1]), "{said}");
    }
    let output = ringtap(&["plan", "--fresh", "--cpu", "100000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("CPU 100000"));
}
