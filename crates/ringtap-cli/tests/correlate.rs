//! `ringtap correlate` as users run it: files and sockets, kills at any moment, rules that change, what it says.

mod correlate_support;

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use correlate_support::{RINGTAP, Running};
use nix::sys::signal::Signal;
use serde_json::Value;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation");

fn ringtap(arguments: &[&str]) -> Output {
    Command::new(RINGTAP).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An EVE alert, so many milliseconds after the beginning.
fn alert(ms: u64, source: &str, destination: &str, category: &str) -> String {
    let (minute, second) = (ms / 60_000 % 60, ms / 1000 % 60);
    let (hour, ms) = (ms / 3_600_000, ms % 1000);
    format!(
        r#"{{"timestamp":"2026-01-31T{hour:02}:{minute:02}:{second:02}.{ms:03}Z","event_type":"alert","src_ip":"{source}","dest_ip":"{destination}","alert":{{"signature":"x","category":"{category}"}}}}"#
    )
}

const SCAN: &str = "Detection of a Network Scan";
const EXPLOIT: &str = "Attempted Administrator Privilege Gain";
const CALLBACK: &str = "A Network Trojan was detected";

/// One attack among much else.
fn attack() -> String {
    [
        alert(0, "203.0.113.9", "10.0.0.5", SCAN),
        alert(1000, "203.0.113.9", "10.0.0.6", SCAN),
        "no event".to_owned(),
        alert(60_000, "198.51.100.7", "10.0.0.5", EXPLOIT),
        alert(61_500, "10.0.0.5", "198.51.100.7", CALLBACK),
    ]
    .join("\n")
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_attack_in_a_file_is_found_kept_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let eve = write(folder.path(), "eve.json", &attack());
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let run = || ringtap(&["correlate", "--rules", RULES, "--read", &eve, "--store", store, "--json"]);
    let output = run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("eve.json:3: expected one JSON object"), "{}", text(&output.stderr));
    let told = lines(&output);
    let opened: Vec<&Value> = told.iter().filter(|line| line["event"] == "opened").collect();
    assert_eq!(opened.len(), 1, "{told:#?}");
    assert_eq!(
        (&opened[0]["rule"], &opened[0]["key"]["victim"]),
        (&"scan_exploit_callback".into(), &"10.0.0.5".into())
    );
    assert_eq!(opened[0]["members"].as_array().unwrap().len(), 3);
    let summary = told.last().unwrap();
    assert_eq!((&summary["event"], &summary["events"]), (&"summary".into(), &4.into()));
    assert_eq!(summary["could_not_have_seen"], serde_json::json!(["1 lines were no events"]));
    // Once more: all is known, and nothing is found twice.
    let again = lines(&run());
    assert!(again.iter().all(|line| line["event"] != "opened"), "{again:#?}");
    assert_eq!(again.last().unwrap()["known"], 4);

    let list = ringtap(&["alarms", "list", "--incidents", "--all", "--store", store]);
    let list = text(&list.stdout);
    assert!(list.contains("Scan, exploit, then call-back victim=10.0.0.5") && list.lines().count() == 2, "{list}");
    let id = opened[0]["id"].as_str().unwrap();
    let shown = ringtap(&["alarms", "show", &id[..8], "--incidents", "--store", store]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("+61.500s") && shown.contains("scan_exploit_callback 3"), "{shown}");
    assert_eq!(shown.matches(r#""category""#).count(), 3, "{shown}");
    let exported = ringtap(&["alarms", "export", "--incidents", "--store", store]);
    assert_eq!(lines(&exported)[0]["id"], opened[0]["id"]);
    let missing = ringtap(&["alarms", "show", "ffff", "--incidents", "--store", store]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("list --incidents --all"));
    let open = ringtap(&["alarms", "list", "--incidents", "--store", store]);
    assert!(text(&open.stderr).contains("--all has the closed ones"), "{}", text(&open.stderr));
}

#[test]
fn what_is_found_is_told_to_people_with_what_could_not_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    let near = [
        alert(0, "203.0.113.9", "10.0.0.5", SCAN),
        alert(3_604_000, "203.0.113.9", "10.0.0.5", EXPLOIT),
        r#"{"timestamp":"2026-01-31T01:00:05Z","event_type":"alert","alert":{"category":"Attempted Denial of Service"}}"#.to_owned(),
    ];
    let eve = write(folder.path(), "eve.json", &near.join("\n"));
    let output = ringtap(&["correlate", "--rules", RULES, "--read", &eve, "--explain"]);
    assert!(output.status.success());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let near_miss = out.lines().find(|line| line.contains("scan_then_exploit")).unwrap_or_default();
    assert!(near_miss.contains("step 2 (ids_exploit)") && near_miss.contains("came 4.000s after"), "{out}{err}");
    assert!(
        err.contains("Seen for certain") && err.contains("flood_of_many: 1 events lacked a field of the key"),
        "{err}"
    );
}

#[test]
fn rules_are_checked_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let good = ringtap(&["correlate", "--rules", RULES, "--check-rules"]);
    assert!(good.status.success() && text(&good.stdout).contains("used: scan_exploit_callback: correlation of"));
    write(
        folder.path(),
        "bad.yml",
        "title: x\nlogsource: {product: y}\ndetection:\n    s: {a|expand: b}\n    condition: s\n",
    );
    let bad = ringtap(&["correlate", "--rules", folder.path().to_str().unwrap(), "--check-rules"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stdout).contains("bad.yml:4: "), "{}", text(&bad.stdout));
    let test = format!("{RULES}/tests/beacon.toml");
    assert!(ringtap(&["correlate", "--test", &test]).status.success());
    let failing =
        fs::read_to_string(&test).unwrap().replace("members = 6", "members = 7").replace("../", &format!("{RULES}/"));
    let failing = write(folder.path(), "failing.toml", &failing);
    let failed = ringtap(&["correlate", "--test", &failing]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stdout).contains("every ten minutes: FAILED"), "{}", text(&failed.stdout));
}

#[test]
fn nonsense_is_refused_with_the_way_out() {
    for (arguments, code, part) in [
        (&["--rules", RULES][..], 2, "--read"),
        (&["--read", "x"], 2, "--rules"),
        (&["--rules", RULES, "--read", "/no/such"], 1, "/no/such"),
        (&["--rules", "/no/such", "--read", "x"], 1, "/no/such"),
        (&["--rules", RULES, "--listen", "nowhere"], 2, "ADDRESS:PORT"),
        (&["--rules", RULES, "--read", "x", "--listen", "127.0.0.1:1"], 2, "cannot be used with"),
    ] {
        let output = ringtap(&[&["correlate"], arguments].concat());
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(part) && err.lines().count() == 1, "{arguments:?}: {err}");
    }
}

/// Alerts of many hosts, with an attack now and then: some seconds of work.
fn long(folder: &Path) -> String {
    let mut eve = Vec::new();
    for number in 0..40_000_u64 {
        let ms = number * 500;
        let (host, category) = (number % 97, [SCAN, SCAN, EXPLOIT, CALLBACK][(number / 97 % 4) as usize]);
        let (inner, outer) = (format!("10.0.0.{host}"), format!("198.51.100.{}", number % 89));
        match category {
            CALLBACK if number % 5 == 0 => eve.push(alert(ms, &inner, &outer, category)),
            CALLBACK => {}
            _ => eve.push(alert(ms, &outer, &inner, category)),
        }
    }
    write(folder, "long.json", &eve.join("\n"))
}

fn exported(store: &str) -> Vec<Value> {
    let mut lines = lines(&ringtap(&["alarms", "export", "--incidents", "--store", store]));
    lines.sort_by_key(|line| line["id"].to_string());
    lines
}

#[test]
fn killed_at_any_moment_it_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let eve = long(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (whole, killed) = (path("whole"), path("killed"));
    let command = |store: &str| {
        let mut command = Command::new(RINGTAP);
        command.args(["correlate", "--rules", RULES, "--read", &eve, "--store", store, "--json"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let started = Instant::now();
    assert!(command(&whole).status().unwrap().success());
    let takes = started.elapsed();
    let expected = exported(&whole);
    assert!(expected.len() > 100, "{}", expected.len());
    let mut kills = 0;
    for round in 1..=6_u32 {
        let mut child = command(&killed).spawn().unwrap();
        // At other moments each time, by the prime.
        std::thread::sleep(takes * (round * 37 % 100) / 100);
        if child.try_wait().unwrap().is_none() {
            kills += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 0, "it always ended before");
    assert!(command(&killed).status().unwrap().success());
    let found = exported(&killed);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_full_disk_takes_nothing_from_what_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let eve = long(folder.path());
    let arguments = ["correlate", "--rules", RULES, "--json", "--read", &eve];
    let opened = |output: &Output| -> Vec<String> {
        let lines = lines(output).into_iter().filter(|line| line["event"] == "opened");
        let mut ids: Vec<String> = lines.map(|line| line["id"].to_string()).collect();
        ids.sort_unstable();
        ids
    };
    let expected = opened(&ringtap(&arguments));
    // No file may grow beyond 256 KiB: as a disk that is full, without one.
    let store = folder.path().join("store");
    let limited = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$@\"", "limited", RINGTAP])
        .args(arguments)
        .args(["--store", store.to_str().unwrap()])
        .output()
        .unwrap();
    let err = text(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{err}");
    assert!(err.contains("make room"), "{err}");
    assert!(expected.len() > 100 && opened(&limited) == expected, "{} of {}", opened(&limited).len(), expected.len());
    let summary = lines(&limited).pop().unwrap();
    let unseen = summary["could_not_have_seen"].to_string();
    assert!(unseen.contains("events are not in the log"), "{unseen}");
}

#[test]
fn incidents_that_a_full_disk_does_not_take_are_told_counted_and_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let eve = write(folder.path(), "eve.json", &attack());
    let (stored, store) = (["--store"], folder.path().join("store"));
    for kept in [false, true] {
        let mut command = Command::new(RINGTAP);
        command.args(["correlate", "--rules", RULES, "--json", "--read", &eve, "--output", "/dev/full"]);
        if kept {
            command.args(stored).arg(&store);
        }
        let output = command.output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        let said: Vec<&str> = err.lines().filter(|line| line.contains("/dev/full")).collect();
        assert_eq!(said.len(), 2, "once when it begins, once at the end: {err}");
        assert!(said.iter().all(|line| line.contains("ENOSPC") && line.contains("free some space")), "{err}");
        assert!(said.iter().all(|line| line.contains("ringtap alarms list --incidents") == kept), "{err}");
        assert!(lines(&output).pop().unwrap()["not_told"].as_u64().unwrap() > 0, "{}", text(&output.stdout));
    }
}

#[test]
fn at_a_socket_it_tells_at_once_reloads_and_ends_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    fs::create_dir(&rules).unwrap();
    for name in ["base/ids.yml", "scan-exploit-callback.yml"] {
        fs::copy(format!("{RULES}/{name}"), rules.join(name.replace('/', "-"))).unwrap();
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, store) = (path("eve.sock"), path("store"));
    let arguments = ["--rules", rules.to_str().unwrap(), "--listen", &socket, "--store", &store];
    let mut correlator = Running::start(&arguments, || UnixStream::connect(&socket).is_ok());
    let send = |text: &str| writeln!(UnixStream::connect(&socket).unwrap(), "{text}").unwrap();
    send(&attack());
    let provisional = correlator.wait_for("provisional");
    assert_eq!(provisional["key"]["victim"], "10.0.0.5");
    // Other rules: what came before counts for them.
    fs::copy(format!("{RULES}/scan-then-exploit.yml"), rules.join("other.yml")).unwrap();
    correlator.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    let exploit = alert(62_000, "203.0.113.9", "10.0.0.6", EXPLOIT);
    send(&format!("{exploit}\n{}", alert(120_000, "192.0.2.1", "10.0.0.9", SCAN)));
    let opened = [correlator.wait_for("opened"), correlator.wait_for("opened")];
    let mut found: Vec<&str> = opened.iter().map(|opened| opened["rule"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["scan_exploit_callback", "scan_then_exploit"]);
    let (_, err) = correlator.end();
    assert!(err.contains("2 correlations are used now"), "{err}");
}

/// What is meant for alarms is refused of incidents, or means something.
#[test]
fn what_is_asked_of_incidents_is_answered_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let eve = write(folder.path(), "eve.json", &attack());
    let store = folder.path().join("store").to_str().unwrap().to_owned();
    assert!(ringtap(&["correlate", "--rules", RULES, "--read", &eve, "--store", &store]).status.success());
    let ask = |arguments: &[&str]| ringtap(&[&["alarms"], arguments, &["--store", &store]].concat());
    let list = |more: &[&str]| lines(&ask(&[&["list", "--incidents", "--all", "--json"], more].concat())).len();
    assert!(list(&[]) > 0 && list(&["--severity", "critical"]) == list(&[]), "a critical one is all");
    let low = "title: A\nname: a\nlevel: low\nlogsource: {category: ids}\ndetection: {s: {src_ip: '203.0.113.9'}, condition: s}\n---\n\
               title: B\nlevel: low\ncorrelation: {type: event_count, rules: a, group-by: src_ip, timespan: 1h, condition: {gte: 2}}\n";
    let (low, other) = (write(folder.path(), "low.yml", low), folder.path().join("low").to_str().unwrap().to_owned());
    assert!(ringtap(&["correlate", "--rules", &low, "--read", &eve, "--store", &other]).status.success());
    for (severity, count) in [("warning", 1), ("minor", 0)] {
        let listed =
            ringtap(&["alarms", "list", "--incidents", "--all", "--json", "--severity", severity, "--store", &other]);
        assert_eq!(lines(&listed).len(), count, "{severity}");
    }
    let id = lines(&ask(&["list", "--incidents", "--all", "--json"]))[0]["id"].as_str().unwrap().to_owned();
    for (arguments, parts) in [
        (&["show", &id, "--incidents", "--count", "3"][..], &["--count", "all its members"][..]),
        (&["export", "--incidents", "--from", "3"], &["--from", "--incidents"]),
        (&["list", "--incidents", "--mibs", "."], &["--mibs", "--incidents"]),
        (&["list", "--incidents", "--raw"], &["--raw", "--incidents"]),
        (&["clear", &id, "--incidents"], &[&id, "closes when its condition"]),
        (&["clear", "3f2a"], &["alarm 3f2a", "no number", "if this is an incident"]),
    ] {
        let refused = ask(arguments);
        let said = text(&refused.stderr);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

/// Each kind of bad input is named and counted, and what is good beside it goes on.
#[test]
fn bad_rules_and_events_are_named_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    fs::create_dir(&rules).unwrap();
    let good = "title: Seen\nname: seen\nlogsource: {category: ids}\ndetection: {s: {src_ip: '192.0.2.1'}, condition: s}\n---\n\
                title: Twice\nname: twice\ncorrelation: {type: event_count, rules: seen, group-by: [src_ip, dest_ip], timespan: 1h, \
                condition: {gte: 2}}\n";
    write(&rules, "good.yml", good);
    write(&rules, "broken.yml", "title: [no YAML\n");
    write(&rules, "unknown.yml", &good.replace("timespan: 1h", "timespam: 1h").replace("name: seen", "name: other"));
    let alert = |day: &str, more: &str| {
        format!(r#"{{"timestamp":"{day}T00:00:00.000000Z","event_type":"alert","src_ip":"192.0.2.1"{more}}}"#)
    };
    let ends = r#","dest_ip":"192.0.2.2","nobody":{"knows":["this"]}"#;
    let events = [
        alert("2026-01-31", ends),
        // Without a time, without the key's field, with a list there, from the future, no JSON at all.
        r#"{"event_type":"alert","src_ip":"192.0.2.1"}"#.to_owned(),
        alert("2026-01-31", ""),
        alert("2026-01-31", r#","dest_ip":["192.0.2.2"]"#),
        alert("2926-01-31", ends).replace("2926", "2226"),
        "\u{0}".to_owned(),
        alert("2026-01-31", ends).replace("00:00:00", "00:00:01"),
    ];
    let eve = write(folder.path(), "eve.json", &events.join("\n"));
    let output = ringtap(&["correlate", "--rules", rules.to_str().unwrap(), "--read", &eve, "--json"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for part in ["broken.yml:1", "unknown.yml:8", "timespam", "eve.json:2", "eve.json:6"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let lines = lines(&output);
    let opened: Vec<_> = lines.iter().filter(|line| line["event"] == "opened").collect();
    assert_eq!((opened.len(), &opened[0]["rule"]), (1, &"twice".into()), "{lines:?}");
    let unseen = lines.last().unwrap()["could_not_have_seen"].to_string();
    for part in [
        "2 lines were no events",
        "1 events had a stamp in the future",
        "1 events lacked a field",
        "1 events had a list",
    ] {
        assert!(unseen.contains(part), "{part}: {unseen}");
    }
}
