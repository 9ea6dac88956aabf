//! `ringtap capture` on real packets: whole files that tshark and capinfos read, exact counts, limits, rotation, pipes.

mod capture_support;

use std::process::Stdio;
use std::time::Duration;

use capture_support::{Capture, assert_clean, folder, packets_in, ringtap, send_numbered, testbed, tool};
use nix::sys::signal::Signal;
use ringtap_testbed::{FrameSpec, GeneratorConfig, Pattern, Profile, TestbedConfig};
use serde_json::Value;

const PPS: f64 = 50e3;
const COUNT: u64 = 20_000;

/// A numbered run is in the file whole: every sequence number once, and the ledger says the same.
fn numbered_run(test: &str, backend: &str, extra: &[&str]) {
    let testbed = testbed(test, TestbedConfig::default());
    let (_folder, file) = folder();
    let path = file.to_str().unwrap();
    let arguments = [&["--backend", backend, "-w", path, "--comment", "a numbered run"], extra].concat();
    let capture = Capture::start(&testbed, &arguments);
    if backend != "xdp" {
        testbed.enable_receiver_napi().unwrap();
    }
    send_numbered(&testbed, PPS, COUNT);
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    let ledger = &summary["ledger"];
    assert_eq!((&ledger["offered"], &ledger["delivered"]), (&COUNT.into(), &COUNT.into()), "{summary}");
    assert_eq!((&ledger["unaccounted"], &ledger["lost"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(summary["backend"], backend);
    assert_eq!(summary["latency_us"]["count"], COUNT);
    assert_eq!(packets_in(test, &file), COUNT);
    // The stamp behind the UDP header carries the number: magic, stream, number (see the testbed's stamp).
    let numbers = tool(test, "tshark", &["-r", path, "-T", "fields", "-e", "frame.time_epoch", "-e", "data.data"]);
    let payloads: std::collections::BTreeSet<&str> =
        numbers.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    assert_eq!(payloads.len() as u64, COUNT, "each packet has a number and a time of its own");
    assert_clean(&testbed);
}

#[test]
fn net_capture_of_a_numbered_run_is_whole_with_xdp() {
    numbered_run("net_capture_of_a_numbered_run_is_whole_with_xdp", "xdp", &[]);
}

#[test]
fn net_capture_of_a_numbered_run_is_whole_with_a_packet_ring() {
    numbered_run("net_capture_of_a_numbered_run_is_whole_with_a_packet_ring", "packet", &[]);
}

#[test]
fn net_capture_shows_one_line_of_progress_on_a_terminal() {
    const TEST: &str = "net_capture_shows_one_line_of_progress_on_a_terminal";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let line = format!(
        "{} capture -i {} --backend xdp {} --duration 3500ms --stats 1s",
        capture_support::RINGTAP,
        host.interface(),
        capture_support::NUMBERS.join(" ")
    );
    // script(1) gives it a terminal, and hands on what it writes there.
    let mut command = host.command("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]);
    let capture = Capture::of(host, command);
    std::thread::sleep(Duration::from_millis(800));
    send_numbered(&testbed, PPS, COUNT);
    let ended = capture.end();
    let shown = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_eq!(ended.code(), 0, "{shown}");
    // Each look writes over the last one: back to the left edge, cut at the right one, the rest cleared.
    let looks: Vec<&str> =
        shown.split("\r\x1b[?7l").skip(1).map(|rest| rest.split("\x1b[K\x1b[?7h").next().unwrap()).collect();
    assert!((2..=4).contains(&looks.len()), "{shown:?}");
    assert!(looks.iter().all(|look| !look.contains('\n')), "{looks:?}");
    assert!(looks[0].starts_with("0:01  ") && looks.last().unwrap().contains("20,000 packets  lost 0"), "{looks:?}");
    let (_, after) = shown.rsplit_once("\x1b[?7h").unwrap();
    assert!(after.starts_with("\r\x1b[K"), "the line goes before the summary: {after:?}");
    assert!(after.contains("unaccounted"), "{after:?}");
}

#[test]
fn net_capture_waits_as_planned_and_a_number_given_wins() {
    const TEST: &str = "net_capture_waits_as_planned_and_a_number_given_wins";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let cpu = testbed.config().receiver_core.to_string();
    let planned = ringtap(&["plan", "--json", "--cpu", &cpu]);
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap_or_else(|e| panic!("{e}: {}", planned.stderr));
    let plan = &planned["plan"];
    let captured = |more: &[&str]| {
        let mut command = host.command(capture_support::RINGTAP);
        command.args(["capture", "-i", host.interface(), "--json", "--backend", "xdp", "--cpu", &cpu]);
        command.args(["--duration", "200ms"]).args(more);
        let ended = Capture::of(host, command).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        ended.summary()
    };
    let summary = captured(&[]);
    assert_eq!(summary["sources"][0]["ring_slots"], plan["ring_slots"], "{summary} {plan}");
    // On a machine that was too busy while it was measured the timer never pays: no threshold, interrupts alone.
    if let Some(threshold) = plan["threshold_pps"].as_f64() {
        assert_eq!(summary["threshold_pps"], threshold, "{summary} {plan}");
        assert_eq!(summary["period_us"].as_f64(), Some(plan["period_ns"].as_f64().unwrap() / 1e3), "{summary} {plan}");
    } else {
        assert_eq!(summary["period_us"], Value::Null, "{summary} {plan}");
    }
    let summary = captured(&["--period", "100us", "--threshold", "20k"]);
    assert_eq!((&summary["period_us"], &summary["threshold_pps"]), (&100.0.into(), &20e3.into()), "{summary}");
    assert_eq!(summary["sources"][0]["ring_slots"], plan["ring_slots"], "what was not given is as planned");
    assert_eq!(captured(&["--ring", "512"])["sources"][0]["ring_slots"], 512);
    assert_clean(&testbed);
}

#[test]
fn net_capture_writes_statistics_and_comments_that_tshark_shows() {
    const TEST: &str = "net_capture_writes_statistics_and_comments_that_tshark_shows";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (_folder, file) = folder();
    let path = file.to_str().unwrap();
    let capture =
        Capture::start(&testbed, &["-w", path, "--comment", "storm of the century", "--backend", "xdp", "udp"]);
    send_numbered(&testbed, PPS, 1000);
    assert_eq!(capture.interrupt().code(), 0);
    let text = tool(TEST, "capinfos", &[path]);
    assert!(text.contains("storm of the century") && text.contains("Filter string = udp"), "{text}");
    let blocks = tool(TEST, "tshark", &["-r", path, "-q", "-z", "io,stat,0"]);
    assert!(blocks.contains("1000"), "{blocks}");
    let bytes = std::fs::read(&file).unwrap();
    let ledger = b"offered 1000 = delivered 1000 + filtered 0 + unaccounted 0";
    assert!(bytes.windows(ledger.len()).any(|window| window == ledger), "the ledger is in the statistics block");
}

#[test]
fn net_capture_stops_exactly_at_count_and_at_duration() {
    const TEST: &str = "net_capture_stops_exactly_at_count_and_at_duration";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (_folder, file) = folder();
    let path = file.to_str().unwrap();
    for backend in ["xdp", "packet"] {
        let capture = Capture::start(&testbed, &["--backend", backend, "-w", path, "--count", "1234"]);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, PPS, 5000);
        let ended = capture.end();
        let summary = ended.summary();
        assert_eq!(summary["ending"], "count");
        assert_eq!((&summary["packets"], &summary["ledger"]["delivered"]), (&1234.into(), &1234.into()), "{summary}");
        assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
        assert_eq!(packets_in(TEST, &file), 1234);
    }
    let ended = Capture::start(&testbed, &["--duration", "300ms"]).end();
    let summary = ended.summary();
    assert_eq!(summary["ending"], "duration");
    let elapsed = summary["elapsed_s"].as_f64().unwrap();
    assert!(elapsed >= 0.3, "{elapsed}");
}

#[test]
fn net_capture_prints_one_object_and_with_stats_one_for_each_interval() {
    const TEST: &str = "net_capture_prints_one_object_and_with_stats_one_for_each_interval";
    let testbed = testbed(TEST, TestbedConfig::default());
    let one = Capture::start(&testbed, &["--duration", "1200ms"]).end();
    one.summary();
    assert_eq!(one.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1, "longer than the usual interval of 1 s");
    let capture = Capture::start(&testbed, &["--stats", "100ms", "--duration", "1s"]);
    testbed.enable_receiver_napi().unwrap();
    send_numbered(&testbed, PPS, 10_000);
    let ended = capture.end();
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, intervals) = objects.split_last().unwrap();
    assert!(intervals.len() >= 5, "{}", intervals.len());
    assert!(intervals.iter().all(|object| object["kind"] == "interval"));
    let fields = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(intervals.iter().all(|object| fields(object) == fields(last)), "the same fields in all");
    let polls = |object: &Value| object["timer_wakes"].as_u64().unwrap() + object["interrupt_wakes"].as_u64().unwrap();
    assert!(intervals.iter().map(polls).sum::<u64>() <= polls(last), "an interval's own counts, not the sums so far");
    let packets: u64 = intervals.iter().map(|object| object["packets"].as_u64().unwrap()).sum();
    assert!(packets <= 10_000);
    assert_eq!(intervals.last().unwrap()["total"]["delivered"], packets);
    assert_eq!(last["packets"], 10_000, "{last}");
    for name in [
        "object",
        "ending",
        "ledger",
        "latency_us",
        "poll_period_us",
        "tick_lateness_us",
        "packets_per_poll",
        "interrupts_per_packet",
        "mode_switches",
        "period_us",
        "threshold_pps",
        "backend",
        "zero_copy",
        "busy_poll",
        "cpus",
    ] {
        assert!(!last[name].is_null() || name == "zero_copy", "{name} in {last}");
    }
}

#[test]
fn net_capture_says_what_would_help_against_loss_and_fails_only_when_asked_to() {
    const TEST: &str = "net_capture_says_what_would_help_against_loss_and_fails_only_when_asked_to";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    for (asked, code) in [(&[][..], 0), (&["--fail-on-loss"][..], 1)] {
        let mut capture =
            Capture::start(&testbed, &[&["--backend", "packet", "--direction", "in", "--ring", "64"], asked].concat());
        capture.signal(Signal::SIGSTOP);
        send_numbered(&testbed, 50e3, 1000);
        capture.signal(Signal::SIGCONT);
        let ended = capture.interrupt();
        let summary = ended.summary();
        let lost = summary["ledger"]["drops"]["ring_full"].as_u64().unwrap();
        assert!(lost > 0 && summary["ledger"]["unaccounted"] == 0, "{summary}");
        let advice = summary["advice"][0].as_str().unwrap();
        assert!(advice.contains("--ring") && advice.contains("--peak-rate"), "{advice}");
        assert_eq!(ended.code(), code, "{}", ended.stderr);
        assert_eq!(ended.stderr.contains(&format!("{lost} packets are lost")), code == 1, "{}", ended.stderr);
    }
}

#[test]
fn net_capture_puts_vlan_tags_back() {
    const TEST: &str = "net_capture_puts_vlan_tags_back";
    let testbed = testbed(TEST, TestbedConfig::default());
    for backend in ["xdp", "packet", "socket"] {
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let capture = Capture::start(&testbed, &["--backend", backend, "-w", path, "vlan", "7", "and", "udp"]);
        testbed.enable_receiver_napi().unwrap();
        for vlan in [Some(7), Some(8), None] {
            let mut frame = FrameSpec::ipv4(testbed.sender().link(), testbed.receiver().link(), 100);
            frame.vlan = vlan;
            let profile = Profile::lasting(Pattern::Constant { pps: 10e3 }, Duration::from_secs(1));
            let traffic = GeneratorConfig::new(testbed.sender().interface(), frame, profile).count(100);
            testbed.generate(traffic).unwrap().join().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let summary = capture.interrupt().summary();
        assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&100.into(), &0.into()), "{summary}");
        let ids = tool(TEST, "tshark", &["-r", path, "-T", "fields", "-e", "vlan.id", "-e", "frame.len"]);
        assert_eq!(ids.lines().filter(|line| *line == "7\t100").count(), 100, "{backend}: {ids}");
    }
}

#[test]
fn net_capture_cuts_packets_and_rotates_files() {
    const TEST: &str = "net_capture_cuts_packets_and_rotates_files";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (folder, file) = folder();
    let path = file.to_str().unwrap();
    let arguments = ["-w", path, "--snaplen", "44", "--rotate-size", "20KiB", "--rotate-keep", "3", "--backend", "xdp"];
    let capture = Capture::start(&testbed, &arguments);
    send_numbered(&testbed, PPS, 5000);
    let summary = capture.interrupt().summary();
    let record = &summary["record"];
    let files = record["files"].as_array().unwrap();
    assert_eq!((files.len(), &record["packets"]), (3, &5000.into()), "{record}");
    assert!(record["deleted"].as_u64().unwrap() > 5, "{record}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    let mut kept = 0;
    for file in files {
        let file = file.as_str().unwrap();
        kept += packets_in(TEST, file.as_ref());
        let lengths = tool(TEST, "tshark", &["-r", file, "-T", "fields", "-e", "frame.cap_len", "-e", "frame.len"]);
        assert!(lengths.lines().all(|line| line == "44\t64"), "{lengths}");
    }
    assert!(kept > 200 && kept < 1000, "{kept}");
}

#[test]
fn net_capture_into_a_pipe_is_read_as_it_comes_and_ends_with_its_reader() {
    const TEST: &str = "net_capture_into_a_pipe_is_read_as_it_comes_and_ends_with_its_reader";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let host = testbed.receiver();
    let mut command = host.command("sh");
    let script = format!(
        "{} capture -i {} --backend packet --wait interrupt --ring 1024 -w - | tshark -l -r - -c 50 -T fields -e udp.dstport 2>/dev/null",
        capture_support::RINGTAP,
        host.interface()
    );
    command.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = host.start(command).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // The capture learns of its reader's end with a later packet.
    for _ in 0..10 {
        send_numbered(&testbed, 1e3, 50);
        if program.child().try_wait().unwrap().is_some() {
            break;
        }
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut program.child().stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "9000").count(), 50, "{text}");
    let mut complaints = String::new();
    std::io::Read::read_to_string(&mut program.child().stderr.take().unwrap(), &mut complaints).unwrap();
    assert!(!complaints.contains("EPIPE") && !complaints.contains("panicked"), "{complaints}");
}

#[test]
fn net_capture_replays_what_it_recorded() {
    const TEST: &str = "net_capture_replays_what_it_recorded";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (folder, file) = folder();
    let path = file.to_str().unwrap();
    let capture = Capture::start(&testbed, &["-w", path, "--backend", "xdp"]);
    send_numbered(&testbed, PPS, 5000);
    assert_eq!(capture.interrupt().code(), 0);
    let copy = folder.path().join("copy.pcap");
    let copy_path = copy.to_str().unwrap();
    // The spool is far smaller than the file: a replay waits for the disk and loses nothing.
    let ended = ringtap(&["capture", "-r", path, "-w", copy_path, "--spool", "64KiB", "--json", "udp", "port", "9000"]);
    let summary = ended.summary();
    assert_eq!((&summary["ending"], &summary["packets"]), (&"end_of_file".into(), &5000.into()), "{summary}");
    assert_eq!((&summary["ledger"]["lost"], &summary["ledger"]["unaccounted"]), (&0.into(), &0.into()), "{summary}");
    let dump = |path: &str| tool(TEST, "tcpdump", &["-r", path, "-nn", "-xx", "-tt", "--nano"]);
    assert_eq!(dump(path), dump(copy_path), "packets and stamps are the same");
    let none = ringtap(&["capture", "-r", path, "--json", "tcp"]).summary();
    assert_eq!((&none["packets"], &none["ledger"]["filtered"]), (&0.into(), &5000.into()), "{none}");
    let some = ringtap(&["capture", "-r", path, "--json", "--count", "77"]).summary();
    assert_eq!((&some["packets"], &some["ledger"]["unaccounted"]), (&77.into(), &0.into()), "{some}");
    let into_itself = ringtap(&["capture", "-r", path, "-w", path]);
    into_itself.assert_refused(2, &[path, "being read"]);
}

#[test]
fn net_capture_reads_several_queues_into_one_file() {
    const TEST: &str = "net_capture_reads_several_queues_into_one_file";
    let testbed = testbed(TEST, TestbedConfig { queues: 2, ..TestbedConfig::default() });
    for (backend, queues) in [("xdp", "all"), ("packet", "2"), ("socket", "2")] {
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let capture =
            Capture::start(&testbed, &["--backend", backend, "--queues", queues, "-w", path, "--count", "3000"]);
        testbed.enable_receiver_napi().unwrap();
        let mut frame = FrameSpec::ipv4(testbed.sender().link(), testbed.receiver().link(), 64);
        frame.flows = 16;
        let profile = Profile::lasting(Pattern::Constant { pps: PPS }, Duration::from_secs(1));
        let traffic = GeneratorConfig::new(testbed.sender().interface(), frame, profile).count(5000);
        testbed.generate(traffic).unwrap().join().unwrap();
        let summary = capture.end().summary();
        assert_eq!(summary["sources"].as_array().unwrap().len(), 2, "{summary}");
        assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&3000.into(), &0.into()), "{summary}");
        assert_eq!(packets_in(TEST, &file), 3000, "{backend}");
    }
    assert_clean(&testbed);
}
