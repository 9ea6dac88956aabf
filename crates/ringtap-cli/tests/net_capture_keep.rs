//! `ringtap capture --keep`: what came last is in memory, goes to the file when it is asked for, and all of it is counted.

mod capture_support;

use std::path::Path;
use std::time::{Duration, Instant};

use capture_support::{Capture, assert_clean, folder, packets_in, send_numbered, testbed};
use nix::sys::signal::Signal;
use ringtap_testbed::TestbedConfig;

/// Waits until so many packets are in the file.
fn wait_for_packets(test: &str, file: &Path, wanted: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while packets_in(test, file) != wanted {
        assert!(Instant::now() < until, "{} packets, not {wanted}", packets_in(test, file));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn net_capture_keep_writes_what_is_in_memory_on_sigusr1() {
    const TEST: &str = "net_capture_keep_writes_what_is_in_memory_on_sigusr1";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    for backend in ["packet", "xdp"] {
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let mut capture = Capture::start(&testbed, &["--backend", backend, "-w", path, "--keep", "60s"]);
        send_numbered(&testbed, 50e3, 1000);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(packets_in(TEST, &file), 0, "nobody has asked");
        // The interface is idle.
        capture.signal(Signal::SIGUSR1);
        wait_for_packets(TEST, &file, 1000);
        send_numbered(&testbed, 50e3, 300);
        std::thread::sleep(Duration::from_millis(300));
        capture.signal(Signal::SIGUSR1);
        wait_for_packets(TEST, &file, 1300);
        send_numbered(&testbed, 50e3, 200);
        std::thread::sleep(Duration::from_millis(300));
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(packets_in(TEST, &file), 1300, "the rest was not asked for: {summary}");
        assert_eq!(
            summary["in_memory"],
            serde_json::json!({ "packets": 200, "aged": 0, "pushed_out": 0 }),
            "{summary}"
        );
        assert_eq!((&summary["ledger"]["delivered"], &summary["ledger"]["lost"]), (&1500.into(), &0.into()));
        assert_clean(&testbed);
    }
}

/// What a hook of an alert does, and systemd when it stops a unit.
#[test]
fn net_capture_keep_writes_all_that_was_asked_for_though_it_is_ended_at_once() {
    const TEST: &str = "net_capture_keep_writes_all_that_was_asked_for_though_it_is_ended_at_once";
    /// More than goes to the writer in one turn.
    const COUNT: u64 = 30_000;
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let (_folder, file) = folder();
    let mut capture = Capture::start(
        &testbed,
        &["--backend", "packet", "-w", file.to_str().unwrap(), "--keep", "60s", "--spool", "1MiB"],
    );
    send_numbered(&testbed, 50e3, COUNT);
    std::thread::sleep(Duration::from_millis(300));
    capture.signal(Signal::SIGUSR1);
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!(packets_in(TEST, &file), COUNT, "{summary}");
    assert_eq!(summary["in_memory"]["packets"], 0, "{summary}");
}

#[test]
fn net_capture_keep_lets_go_of_what_is_old_or_has_no_room() {
    const TEST: &str = "net_capture_keep_lets_go_of_what_is_old_or_has_no_room";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let (_folder, file) = folder();
    let arguments = ["--backend", "packet", "-w", file.to_str().unwrap(), "--keep", "8s", "--keep-at-end"];
    let capture = Capture::start(&testbed, &arguments);
    send_numbered(&testbed, 50e3, 500);
    std::thread::sleep(Duration::from_secs(9));
    send_numbered(&testbed, 50e3, 300);
    std::thread::sleep(Duration::from_millis(300));
    let summary = capture.interrupt().summary();
    assert_eq!(packets_in(TEST, &file), 300, "{summary}");
    assert_eq!(summary["in_memory"], serde_json::json!({ "packets": 0, "aged": 500, "pushed_out": 0 }), "{summary}");

    let (_folder, file) = folder();
    let path = file.to_str().unwrap();
    let arguments =
        ["--backend", "packet", "-w", path, "--keep", "60s", "--keep-size", "64KiB", "--queues", "1", "--keep-at-end"];
    let capture = Capture::start(&testbed, &arguments);
    send_numbered(&testbed, 50e3, 3000);
    std::thread::sleep(Duration::from_millis(300));
    let summary = capture.interrupt().summary();
    let written = packets_in(TEST, &file);
    assert!((500..1000).contains(&written), "64 KiB: {summary}");
    assert_eq!(summary["in_memory"]["pushed_out"], 3000 - written, "{summary}");
}
