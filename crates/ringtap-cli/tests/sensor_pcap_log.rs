//! `ringtap sensor --pcap-log alerts` over files: the packets of alerted flows, from before the alert on.

mod sensor_support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringtap_samples::frames::{Ends, Session};
use sensor_support::{RINGTAP, pcap};
use serde_json::Value;

const RULES: &str = "alert tcp any any -> any any (content:\"EVIL\"; sid:1;)\n";

struct Case {
    folder: tempfile::TempDir,
    rules: PathBuf,
    capture: PathBuf,
}

/// Three sessions at a time, of which one says something evil in its middle.
fn case(sessions: u8, words: usize) -> (Case, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (rules, capture) = (folder.path().join("my.rules"), folder.path().join("in.pcap"));
    std::fs::write(&rules, RULES).unwrap();
    let frames_of = |number: u8| {
        let ends = Ends::new(&format!("198.51.100.{}", 1 + number), "203.0.113.9");
        let open = Session::open(ends, [40_000 + u16::from(number), 8080]);
        let say = |session: Session, word| {
            let is_evil = number == 1 && word == words / 2;
            session.client(if is_evil { b"an EVIL word" } else { b"no other word" }, 1400)
        };
        (0..words).fold(open, say).close()
    };
    let each: Vec<Vec<Vec<u8>>> = (0..sessions).map(frames_of).collect();
    let wanted = each[1].clone();
    // One frame of each in turn.
    let frames: Vec<Vec<u8>> =
        (0..wanted.len()).flat_map(|at| each.iter().map(move |frames| frames[at].clone())).collect();
    pcap(&capture, &frames);
    (Case { folder, rules, capture }, wanted)
}

fn command(case: &Case, file: &Path) -> Command {
    let mut command = Command::new(RINGTAP);
    command.args(["sensor", "--json", "--replay"]).arg(&case.capture).arg("-S").arg(&case.rules);
    command.args(["--pcap-log", "alerts", "--pcap-file"]).arg(file);
    command
}

fn run(case: &Case, file: &Path, extra: &[&str]) -> (Output, Value) {
    let output = command(case, file).args(extra).output().unwrap();
    let summary = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, summary)
}

/// The frames of a pcap file in nanoseconds.
fn frames_in(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let (head, mut rest) = file.split_at(24);
    assert_eq!(head[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

#[test]
fn a_flow_with_an_alert_is_there_from_its_first_packet_to_its_last() {
    let (case, wanted) = case(3, 40);
    let file = case.folder.path().join("alerts.pcap");
    let (output, summary) = run(&case, &file, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(summary["alerts"], 1, "{summary}");
    assert!(frames_in(&file) == wanted, "{summary}");
    let log = &summary["pcap_log"];
    let count = wanted.len();
    assert_eq!((&log["ledger"]["offered"], &log["ledger"]["delivered"]), (&count.into(), &count.into()), "{summary}");
    assert_eq!((&log["ledger"]["lost"], &log["ledger"]["unaccounted"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!((&log["let_go_early"], &log["flows_forgotten"]), (&0.into(), &0.into()), "{summary}");
}

/// The capture's packets are a millisecond apart.
#[test]
fn what_is_older_than_asked_for_is_not_there() {
    let (case, wanted) = case(3, 40);
    let file = case.folder.path().join("alerts.pcap");
    let (_, summary) = run(&case, &file, &["--pcap-keep", "31ms"]);
    let frames = frames_in(&file);
    let evil = wanted.iter().position(|frame| frame.windows(4).any(|part| part == b"EVIL")).unwrap();
    assert!(wanted.ends_with(&frames), "{summary}");
    assert_eq!(wanted.len() - frames.len(), evil - 10, "ten of each flow in 31 ms: {summary}");
}

#[test]
fn the_memory_is_bounded_and_so_are_the_files() {
    // 2 × 20,000 packets of some 80 bytes each, of which the evil one is the middle.
    let (case, wanted) = case(2, 20_000);
    let pattern = case.folder.path().join("alerts.pcapng");
    let extra = ["--pcap-keep", "1h", "--pcap-keep-size", "512KiB", "--pcap-spool", "64KiB"];
    let rotated = ["--pcap-rotate-size", "256KiB", "--pcap-rotate-keep", "2"];
    let (output, summary) = run(&case, &pattern, &[&extra[..], &rotated[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let log = &summary["pcap_log"];
    let (written, early) = (log["ledger"]["delivered"].as_u64().unwrap(), log["let_go_early"].as_u64().unwrap());
    assert_eq!((&log["ledger"]["lost"], &log["ledger"]["unaccounted"]), (&0.into(), &0.into()), "{summary}");
    let half = wanted.len() as u64 / 2;
    assert!(written > half && written < half + 512 * 1024 / 80 && early > half, "{summary}");
    let files: Vec<&str> = log["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert!(files.len() == 2 && log["deleted"].as_u64() > Some(1), "{summary}");
    let there = std::fs::read_dir(case.folder.path()).unwrap();
    let there = there.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "pcapng"));
    assert_eq!(there.count(), 2);
    assert!(files.iter().all(|file| std::fs::metadata(file).unwrap().len() <= 257 * 1024), "{summary}");
}

#[test]
fn what_could_not_be_written_is_counted_and_fails_the_run() {
    let (case, wanted) = case(2, 400);
    let file = case.folder.path().join("alerts.pcap");
    let mut command = command(&case, &file);
    let arguments: Vec<OsString> = command.get_args().map(ToOwned::to_owned).collect();
    command = Command::new("sh");
    // 16 KiB.
    command.args(["-c", "ulimit -f 32; exec \"$0\" \"$@\"", RINGTAP]).args(arguments);
    let output = command.output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(file.to_str().unwrap()), "{text}");
    let (ledger, there) = (&summary["pcap_log"]["ledger"], frames_in(&file));
    assert!(!there.is_empty() && wanted.starts_with(&there), "{summary}");
    assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&there.len().into(), &0.into()), "{summary}");
    assert_eq!(ledger["drops"]["output_failed"], wanted.len() - there.len(), "{summary}");
}

#[test]
fn wrong_usage_is_refused() {
    let (case, _) = case(2, 1);
    let capture = case.capture.clone();
    for (file, part) in [(Path::new("-"), "standard output"), (&capture, "it is being read")] {
        let (output, _) = run(&case, file, &[]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(part), "{text}");
    }
    let command = |arguments: &[&str]| {
        let output = Command::new(RINGTAP).args(["sensor", "--replay", "x.pcap"]).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = command(&["--pcap-log", "alerts"]);
    assert!(code == Some(2) && text.contains("--pcap-file"), "{text}");
    let (code, text) = command(&["--pcap-log", "all", "--pcap-file", "x"]);
    assert!(code == Some(2) && text.contains("alerts"), "{text}");
    let (code, text) = command(&["--pcap-rotate-size", "1MiB"]);
    assert!(code == Some(2) && text.contains("--pcap-log"), "{text}");
}
