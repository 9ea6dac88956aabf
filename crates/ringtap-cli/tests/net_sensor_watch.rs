//! What a running sensor says of itself: metrics, and that it is being blinded.

mod capture_support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, tcp, udp};
use capture_support::{Capture, RINGTAP, ip, send_frames, testbed};
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use ringtap_testbed::{Host, TestbedConfig};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const METRICS: &str = "127.0.0.1:9187";

const PAGE: &str = "127.0.0.1:9188";

/// What the sensor serves, asked for in its network namespace.
fn served(host: &Host, at: &str, path: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    host.run(ask).unwrap()
}

/// The state of each alarm in the file, in order.
fn alarms(eve: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(eve).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event_type"] == "alarm").map(|mut event| event["alarm"].take()).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn net_sensor_says_that_it_is_being_blinded_and_serves_metrics() {
    const TEST: &str = "net_sensor_says_that_it_is_being_blinded_and_serves_metrics";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let [rules, eve, config] = ["my.rules", "eve.json", "ringtap.toml"].map(|name| folder.path().join(name));
    std::fs::write(&rules, "alert udp any any -> any any (msg:\"<b>evil</b>\"; content:\"EVIL\"; sid:77;)\n").unwrap();
    std::fs::write(&config, "[blinding]\ninterval = 1\nbad-checksums = 20.0\n").unwrap();
    let host = testbed.receiver();
    ip(host, "link set lo up");
    let mut command = host.command(RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--backend", "packet", "--flows", "4096"]);
    command.args(["--metrics", METRICS, "--web", PAGE, "--events", "alert"]);
    for (option, path) in [("-S", &rules), ("--eve", &eve), ("--config", &config)] {
        command.arg(option).arg(path);
    }
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    let attack = ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, b"..EVIL.."));
    let damaged = ipv4(6, [198, 51, 100, 7], [203, 0, 113, 9], 0, &tcp(5000, 80, 16));
    let frames: Vec<Vec<u8>> = std::iter::once(attack).chain(vec![damaged; 100]).collect();
    send_frames(&testbed, &frames);
    wait_until("no alarm", || !alarms(&eve).is_empty());
    let raised = alarms(&eve).swap_remove(0);
    let said = ["condition", "state"].map(|field| raised[field].as_str().unwrap());
    assert_eq!(said, ["bad-checksums", "raised"], "{raised}");
    assert!(raised["percent"].as_f64().unwrap() >= 20.0 && raised["bound_percent"] == 20.0, "{raised}");
    wait_until("not over", || alarms(&eve).len() == 2);
    assert_eq!(alarms(&eve)[1]["state"], "cleared");
    let lines = [
        "ringtap_sensor_bad_checksums_total 100",
        "ringtap_sensor_rule_alerts_total{gid=\"1\",sid=\"77\"} 1",
        "ringtap_sensor_blinded{condition=\"bad-checksums\"} 0",
        "ringtap_sensor_rules 1",
        "# TYPE ringtap_sensor_to_handling_seconds histogram",
        "# EOF",
    ];
    let until = Instant::now() + PATIENCE;
    loop {
        let text = served(host, METRICS, "/metrics");
        let missing = lines.iter().find(|line| !text.lines().any(|of| of == **line));
        let Some(missing) = missing else { break };
        assert!(Instant::now() < until, "{missing} in {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // The page tells the same, and rules' texts are texts.
    let page = served(host, PAGE, "/");
    assert!(page.contains("<td><span>&lt;b&gt;evil&lt;/b&gt;</span></td>") && page.contains("1:77:"), "{page}");
    assert!(page.contains("198.51.100.7:5000 → 203.0.113.9:9999") && page.contains("Nothing lost"), "{page}");
    let ended = sensor.interrupt();
    assert!(ended.stderr.contains("the page is at http://127.0.0.1:9188/"), "{}", ended.stderr);
    assert!(ended.stderr.contains("being blinded (bad-checksums): "), "{}", ended.stderr);
    assert_eq!(ended.summary()["alerts"], 1);
}

/// Runs `work` on a thread with a file system of 64 KiB at a folder that only it and what it starts see.
fn on_a_small_disk(work: impl FnOnce(&Path) + Send) {
    std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
            let folder = tempfile::tempdir().unwrap();
            mount(Some("none"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some("size=64k")).unwrap();
            work(folder.path());
            umount(folder.path()).unwrap();
        });
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn net_sensor_says_that_its_disk_is_full_goes_on_when_there_is_room_and_fails_at_the_end() {
    const TEST: &str = "net_sensor_says_that_its_disk_is_full_goes_on_when_there_is_room_and_fails_at_the_end";
    const ATTACKS: usize = 40;
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&rules, "alert udp any any -> any any (content:\"EVIL\"; sid:77;)\n").unwrap();
    on_a_small_disk(|disk| {
        let testbed = testbed(TEST, TestbedConfig::default());
        let [eve, filler] = ["eve.json", "filler"].map(|name| disk.join(name));
        let host = testbed.receiver();
        let mut command = host.command(RINGTAP);
        command.args(["sensor", "-i", host.interface(), "--json", "--backend", "packet", "--flows", "4096"]);
        command.args(["--events", "alert", "-S"]).arg(rules.path()).arg("--eve").arg(&eve);
        let sensor = Capture::of(host, command);
        sensor.wait_for("watching");
        // A page is left, and an alert has some hundred bytes.
        std::fs::write(&filler, vec![0; 60 << 10]).unwrap();
        let attack = ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, b"..EVIL.."));
        send_frames(&testbed, &vec![attack.clone(); ATTACKS]);
        sensor.wait_for("ENOSPC");
        std::fs::remove_file(&filler).unwrap();
        let (mut sent, until) = (ATTACKS as u64, Instant::now() + PATIENCE);
        let written = || std::fs::read_to_string(&eve).unwrap().lines().count() as u64;
        let before = written();
        while written() == before {
            assert!(Instant::now() < until, "it does not go on");
            send_frames(&testbed, std::slice::from_ref(&attack));
            sent += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        sensor.wait_for("takes events again");
        let ended = sensor.interrupt();
        let summary = ended.summary();
        let outputs = |name: &str| summary["outputs"][name].as_u64().unwrap();
        assert_eq!((&summary["alerts"], outputs("written") + outputs("failed")), (&sent.into(), sent), "{summary}");
        assert_eq!(outputs("written"), written(), "{summary}");
        let text = std::fs::read_to_string(&eve).unwrap();
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "half a line: {text}");
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let said: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("eve.json")).collect();
        assert_eq!(said.len(), 3, "full, well, and the end: {}", ended.stderr);
        let lost = format!("{} lines were lost", outputs("failed"));
        assert!(said[1].contains(&lost) && said[2].contains(&lost) && said[2].contains("free some space"), "{said:?}");
    });
}
