//! `ringtap sensor --pcap-log alerts` on an interface: from memory what came before the alert, then what follows, while it runs.

mod capture_support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capture_support::{Capture, RINGTAP, assert_clean, packets_in, send_frames, testbed};
use nix::sys::signal::Signal;
use ringtap_samples::frames::{Ends, Session};
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};

/// Longest that packets may take to the file.
const PATIENCE: Duration = Duration::from_secs(20);

fn sensor(testbed: &Testbed, folder: &Path, extra: &[&str]) -> Capture {
    let rules = folder.join("my.rules");
    std::fs::write(&rules, "alert tcp any any -> any any (content:\"EVIL\"; sid:1;)\n").unwrap();
    let host = testbed.receiver();
    let mut command: Command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--flows", "4096", "-S"]).arg(&rules);
    command.args(["--pcap-log", "alerts", "--pcap-file"]).arg(folder.join("alerts.pcapng")).args(extra);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    testbed.enable_receiver_napi().unwrap();
    sensor
}

/// A session that says something evil in its middle, as frames from its beginning on.
fn session(port: u16) -> Vec<Vec<u8>> {
    let ends = Ends::new("198.51.100.7", "203.0.113.9");
    let say =
        |session: Session, word| session.client(if word == 20 { b"an EVIL word" } else { b"no other word" }, 1400);
    (0..40).fold(Session::open(ends, [port, 8080]), say).close()
}

fn wait_for_packets(test: &str, file: &Path, wanted: usize) {
    let until = Instant::now() + PATIENCE;
    while packets_in(test, file) != wanted as u64 {
        assert!(Instant::now() < until, "{} packets, not {wanted}", packets_in(test, file));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn flood(testbed: &Testbed, count: u64) {
    let profile = Profile::lasting(Pattern::Constant { pps: 50e3 }, Duration::from_secs(10));
    let traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(count);
    assert_eq!(testbed.generate(traffic).unwrap().join().unwrap().stamped, count);
}

#[test]
fn net_sensor_logs_the_packets_of_alerted_flows_while_it_runs() {
    const TEST: &str = "net_sensor_logs_the_packets_of_alerted_flows_while_it_runs";
    let testbed = testbed(TEST, TestbedConfig::default());
    for backend in ["xdp", "packet"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alerts.pcapng");
        let mut sensor = sensor(&testbed, folder.path(), &["--backend", backend, "--pcap-keep", "1s"]);
        let frames = session(40_000);
        send_frames(&testbed, &frames[..30]);
        flood(&testbed, 5_000);
        send_frames(&testbed, &frames[30..]);
        // Nothing comes any more: they leave by their age alone.
        wait_for_packets(TEST, &file, frames.len());
        // A file that was moved away is completed, and another one begun.
        let moved = folder.path().join("moved.pcapng");
        std::fs::rename(&file, &moved).unwrap();
        sensor.signal(Signal::SIGHUP);
        let until = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < until, "no new file");
            std::thread::sleep(Duration::from_millis(20));
        }
        let others = session(40_001);
        send_frames(&testbed, &others);
        std::thread::sleep(Duration::from_millis(200));
        // What is in memory at the end goes there, too.
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(packets_in(TEST, &moved), frames.len() as u64, "{summary}");
        assert_eq!(packets_in(TEST, &file), others.len() as u64, "{summary}");
        let ledger = &summary["pcap_log"]["ledger"];
        assert_eq!((&ledger["lost"], &ledger["unaccounted"]), (&0.into(), &0.into()), "{summary}");
        assert_eq!(ledger["delivered"], frames.len() + others.len(), "{summary}");
        assert_eq!(
            (&summary["ledger"]["lost"], &summary["ledger"]["unaccounted"]),
            (&0.into(), &0.into()),
            "{summary}"
        );
        assert_clean(&testbed);
    }
}

/// The rights that are left after the start are enough for rotation, under another user.
#[test]
fn net_sensor_log_rotates_without_privileges() {
    const TEST: &str = "net_sensor_log_rotates_without_privileges";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    nix::unistd::chown(folder.path(), Some(65534.into()), None).unwrap();
    let extra = ["--backend", "packet", "--user", "nobody", "--pcap-keep", "100ms", "--pcap-rotate-size", "4KiB"];
    let sensor = sensor(&testbed, folder.path(), &[&extra[..], &["--pcap-rotate-keep", "2"]].concat());
    let frames: Vec<Vec<u8>> = (40_000..40_010).flat_map(session).collect();
    send_frames(&testbed, &frames);
    std::thread::sleep(Duration::from_millis(500));
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let (summary, log) = (ended.summary(), &ended.summary()["pcap_log"]);
    assert_eq!((&log["ledger"]["delivered"], &log["ledger"]["lost"]), (&frames.len().into(), &0.into()), "{summary}");
    assert!(log["files"].as_array().unwrap().len() == 2 && log["deleted"].as_u64() > Some(5), "{summary}");
    assert_clean(&testbed);
}
