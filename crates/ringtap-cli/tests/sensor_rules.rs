//! Rules at the sensor's start: none that is usable, those that can't match, runs that need none; and who gets alerts.

mod capture_support;
mod sensor_support;

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use capture_support::frames::{ipv4, udp};
use capture_support::{Ended, ringtap};
use sensor_support::pcap;
use serde_json::Value;

fn capture_of_attacks(folder: &Path, count: usize) -> String {
    let path = folder.join("in.pcap");
    pcap(&path, &vec![ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, b"..EVIL..")); count]);
    path.to_str().unwrap().to_owned()
}

fn rules(folder: &Path, text: &str) -> String {
    let path = folder.join("my.rules");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_sensor_whose_rules_are_all_unusable_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let capture = capture_of_attacks(folder.path(), 1);
    let start = |text: &str| -> Ended { ringtap(&["sensor", "--replay", &capture, "-S", &rules(folder.path(), text)]) };
    start("alert udp any any\nnonsense\n").assert_refused(1, &["my.rules", "none of 2 is usable", "my.rules:1"]);
    start("# nothing yet\n").assert_refused(1, &["my.rules", "there is none", "--check-rules"]);
    let waits = "alert udp any any -> any any (flowbits:isset,never; sid:1;)\n";
    start(waits).assert_refused(1, &["none of 1 is usable"]);
    ringtap(&["sensor", "--replay", &capture]).assert_refused(2, &["there are no rules", "-S", "--events"]);
    let flows = ringtap(&["sensor", "--replay", &capture, "--events", "flow", "--eve", "-", "--no-checksums"]);
    assert_eq!(flows.code(), 0, "{}", flows.stderr);
    assert!(
        String::from_utf8_lossy(&flows.stdout).contains("\"event_type\":\"flow\""),
        "rules are not needed for flows"
    );
}

#[test]
fn rules_whose_flowbits_nothing_sets_are_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let text = "alert udp any any -> any any (content:\"EVIL\"; sid:1;)\n\
                alert udp any any -> any any (content:\"EVIL\"; flowbits:isset,never; sid:2;)\n";
    let rules = rules(folder.path(), text);
    let checked = ringtap(&["sensor", "--check-rules", &rules, "--json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&checked["used"], &checked["idle"][0]["line"]), (&2.into(), &2.into()), "{checked}");
    let capture = capture_of_attacks(folder.path(), 3);
    let ended = ringtap(&["sensor", "--replay", &capture, "-S", &rules, "--json", "--no-checksums"]);
    let summary = ended.summary();
    assert_eq!((&summary["rules"], &summary["rules_idle"], &summary["alerts"]), (&2.into(), &1.into(), &3.into()));
    assert!(ended.stderr.contains("1 of the rules in use can't match"), "{}", ended.stderr);
}

#[test]
fn a_file_of_thresholds_is_applied_and_its_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "alert udp any any -> any any (content:\"EVIL\"; sid:1;)\n");
    let thresholds = folder.path().join("threshold.config");
    let text = "event_filter gen_id 1, sig_id 1, type limit, track by_src, count 2, seconds 60\n\
                # a comment\nsuppress gen_id 1, sig_id 7\n";
    std::fs::write(&thresholds, text).unwrap();
    let (thresholds, capture) = (thresholds.to_str().unwrap(), capture_of_attacks(folder.path(), 5));
    let arguments = ["sensor", "--replay", &capture, "-S", &rules, "--no-checksums", "--json"];
    assert_eq!(ringtap(&arguments).summary()["alerts"], 5);
    let tuned = ringtap(&[&arguments[..], &["--thresholds", thresholds]].concat());
    assert_eq!(tuned.summary()["alerts"], 2);
    let mistake = "threshold.config:3: no rule in use has gid 1 and sid 7";
    assert!(tuned.stderr.contains(mistake), "{}", tuned.stderr);
    let config = folder.path().join("ringtap.toml");
    std::fs::write(&config, format!("[rules]\nthresholds = {thresholds:?}\n")).unwrap();
    let by_file = ringtap(&[&arguments[..], &["--config", config.to_str().unwrap()]].concat());
    assert_eq!(by_file.summary()["alerts"], 2);
    let strict = ringtap(&[&arguments[..], &["--thresholds", thresholds, "--strict"]].concat());
    strict.assert_refused(1, &[mistake]);
    let checked = ringtap(&["sensor", "--check-rules", &rules, "--thresholds", thresholds]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains(mistake));
    ringtap(&[&arguments[..], &["--thresholds", "/nowhere"]].concat()).assert_refused(1, &["/nowhere"]);
}

#[test]
fn words_of_rules_steer_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), "alert tcp any any -> any any (\x1b[31mred\u{202e}; sid:1;)\n");
    let capture = capture_of_attacks(folder.path(), 1);
    let checked = ringtap(&["sensor", "--check-rules", &rules]);
    let refused = ringtap(&["sensor", "--replay", &capture, "-S", &rules]);
    for text in [&String::from_utf8_lossy(&checked.stdout), checked.stderr.as_str(), refused.stderr.as_str()] {
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    }
    assert!(refused.stderr.contains("[31mred"), "{}", refused.stderr);
}

#[test]
fn syslog_gets_alerts_that_the_events_leave_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let to = format!("udp:{}", server.local_addr().unwrap());
    let rules = rules(folder.path(), "alert udp any any -> any any (content:\"EVIL\"; sid:77;)\n");
    let capture = capture_of_attacks(folder.path(), 2);
    let arguments = ["sensor", "--replay", &capture, "-S", &rules, "--no-checksums", "--syslog", &to];
    let ended = ringtap(&[&arguments[..], &["--events", "flow", "--eve", "-"]].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let mut datagram = [0; 4096];
    for _ in 0..2 {
        let length = server.recv(&mut datagram).unwrap();
        assert!(String::from_utf8_lossy(&datagram[..length]).contains("\"signature_id\":77"));
    }
    let events = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(events.contains("\"event_type\":\"flow\"") && !events.contains("\"event_type\":\"alert\""), "{events}");
}
