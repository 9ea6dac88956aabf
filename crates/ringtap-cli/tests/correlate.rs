//! `ringtap correlate` as users run it: files and sockets, kills at any moment, rules that change, what it says.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation");
/// What no test should ever wait for.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// A correlator at a socket.
struct Listening {
    child: Child,
    out: std::io::Lines<BufReader<std::process::ChildStdout>>,
    socket: PathBuf,
}

impl Listening {
    fn start(rules: &str, folder: &Path) -> Self {
        let socket = folder.join("eve.sock");
        let store = folder.join("store");
        let mut child = Command::new(RINGTAP)
            .args(["correlate", "--rules", rules, "--listen", socket.to_str().unwrap(), "--json"])
            .args(["--store", store.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let until = Instant::now() + PATIENCE;
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, out, socket }
    }

    fn send(&self, lines: &[String]) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        lines.iter().for_each(|line| writeln!(stream, "{line}").unwrap());
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The next line that is told with this event.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let line: Value = serde_json::from_str(&self.out.next().unwrap().unwrap()).unwrap();
            if line["event"] == event {
                return line;
            }
        }
    }

    fn end(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let summary = self.wait_for("summary");
        assert_eq!(summary["event"], "summary");
        assert!(self.child.wait().unwrap().success());
        let mut err = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut err).unwrap();
        err
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
    let mut correlator = Listening::start(rules.to_str().unwrap(), folder.path());
    correlator.send(&attack().lines().map(str::to_owned).collect::<Vec<_>>());
    let provisional = correlator.wait_for("provisional");
    assert_eq!(provisional["key"]["victim"], "10.0.0.5");
    // Other rules: what came before counts for them.
    fs::copy(format!("{RULES}/scan-then-exploit.yml"), rules.join("other.yml")).unwrap();
    correlator.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    correlator
        .send(&[alert(62_000, "203.0.113.9", "10.0.0.6", EXPLOIT), alert(120_000, "192.0.2.1", "10.0.0.9", SCAN)]);
    let opened = [correlator.wait_for("opened"), correlator.wait_for("opened")];
    let mut found: Vec<&str> = opened.iter().map(|opened| opened["rule"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["scan_exploit_callback", "scan_then_exploit"]);
    let err = correlator.end();
    assert!(err.contains("2 correlations are used now"), "{err}");
}
