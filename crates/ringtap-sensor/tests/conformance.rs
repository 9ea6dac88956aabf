//! The cases of suricata-verify that need more than packets and flows, through the sensor: EVE's lines are held against what each case
//! expects. Of http-evader, which asks for alerts alone, `ringtap-detect` has the same.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ringtap_samples::conformance;
use ringtap_sensor::{Event, Input, Options, run};
use serde_json::Value;
use support::{both, unlike};

/// Cases that do not pass, and why. A case that is here and passes fails the test too.
const FAILING: &[(&str, &str)] = &[
    (
        "7858-stream-events",
        "a client that waits for the answer to its SYN does not look at time stamps of a reset (RFC 9293 §3.10.7.3)",
    ),
    (
        "base64-issue-5223-6",
        "tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    ("bug-130", "the transaction of a match in a stream is not told"),
    ("bug-2576-01-ips", "needs filemd5, and a list that is not among the data"),
    ("bug-2576-03", "needs filemd5, and a list that is not among the data"),
    (
        "bug-4903__bug-4903-01",
        "tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    (
        "bug-4903__bug-4903-02",
        "tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    (
        "bug-4903__bug-4903-03",
        "tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    (
        "bug-6149-exception-policy-auto-ids",
        "a pass of the flow by its first message comes before the packet's other rule; tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    ("bug-6402-01", "of tunnels in tunnels the outermost and the innermost packet are looked at"),
    ("datasets-02-load", "needs a list that is not among the data"),
    ("datasets-09-load", "needs lists that are not among the data"),
    (
        "dcerpc__dcerpc-dce-iface-02",
        "tells when the message comes; Suricata when it was acknowledged, with that packet's number and counts",
    ),
    ("http-gap-simple-frames", "needs frame"),
    ("http2-bugfixes", "needs HTTP/2"),
    ("http2-userinfo-authority", "needs HTTP/2"),
    ("ja4-rules", "needs QUIC"),
    ("ja4-rules-7.0.x-01", "needs QUIC"),
    ("lua__lua-blocked-function-1", "needs Lua"),
    ("lua__lua-instruction-limit", "needs Lua"),
    ("lua__lua-memory-limit", "needs Lua"),
    ("lua__lua-transform-06", "needs Lua"),
    ("nfs-udp-only", "needs NFS"),
    ("protocol-change-failed-event", "needs an event of changes of protocol"),
    ("quic-alerts", "needs QUIC"),
    ("quic-ietf-ja3", "needs QUIC"),
    ("quic-v2", "needs QUIC"),
    ("quic-v2-ja3", "needs QUIC"),
];

/// Of Suricata's classes those that the cases name.
const CLASSES: &str = "config classification: attempted-admin,Attempted Administrator Privilege Gain,1
config classification: bad-unknown,Potentially Bad Traffic,2
config classification: protocol-command-decode,Generic Protocol Command Decode,3
config classification: web-application-activity,access to a potentially vulnerable web application,2
";

/// The field at a path like `flow.pkts_toserver` or `files[0].filename`.
fn field<'v>(event: &'v Value, path: &str) -> Option<&'v Value> {
    let pointer = path.replace('.', "/").replace('[', "/").replace(']', "");
    event.pointer(&format!("/{pointer}"))
}

/// Whether a value is the expected one; of an object, each of its fields.
fn fits(found: &Value, wanted: &Value) -> bool {
    match wanted.as_object() {
        Some(fields) => fields.iter().all(|(name, value)| found.get(name).is_some_and(|found| fits(found, value))),
        None => found == wanted,
    }
}

/// What of a case's expectations is not so: rules that are not used among them.
fn case(folder: &Path, scratch: &Path) -> Vec<String> {
    let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("expect.json")).unwrap()).unwrap();
    let eve = scratch.join("eve.json");
    let mut options = Options::new(Input::Files(vec![folder.join("input.pcap")]));
    // The sandbox is the whole process's.
    options.no_sandbox = true;
    options.rules.files = vec![folder.join("test.rules")];
    options.rules.classification = Some(scratch.join("classification.config"));
    options.bounds.flows = Some(4096);
    options.bounds.no_checksums = !expected["checksum_validation"].as_bool().unwrap();
    (options.outputs.eve, options.outputs.events) = (Some(eve.clone()), vec![Event::Alert]);
    let done = match run(&options, None) {
        Ok(done) => done,
        Err(error) => return vec![error.to_string()],
    };
    let summary = done.summary.object();
    let text = std::fs::read_to_string(&eve).unwrap_or_default();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let _ = std::fs::remove_file(eve);
    let mut wrong = Vec::new();
    let unused = &summary["rules_left_out"];
    if unused.as_u64().is_some_and(|count| count > 0) {
        wrong.push(format!("{unused} rules are not used"));
    }
    for check in expected["expect"].as_array().unwrap() {
        let matches = check["match"].as_object().unwrap();
        let is_meant = |event: &&Value| {
            matches.iter().all(|(path, value)| field(event, path).is_some_and(|found| fits(found, value)))
        };
        let found = events.iter().filter(is_meant).count() as u64;
        if Some(found) != check["count"].as_u64() {
            wrong.push(format!("{found} events instead of {} with {}", check["count"], check["match"]));
        }
    }
    wrong
}

#[test]
fn events_of_suricata_verify() {
    let folders = conformance::cases("events_of_suricata_verify", "suricata-verify-2");
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("classification.config"), CLASSES).unwrap();
    let known: BTreeMap<&str, &str> = FAILING.iter().copied().collect();
    let (mut passed, mut all, mut wrong) = (0, 0, Vec::new());
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if name.starts_with("http-evader") {
            continue;
        }
        let differences = case(folder, scratch.path());
        all += 1;
        passed += usize::from(differences.is_empty());
        if !differences.is_empty() {
            println!("FAIL {name}: {}", differences.join("; "));
        }
        if differences.is_empty() == known.contains_key(name) {
            wrong.push(format!("{name}: {}", differences.first().map_or("passes now", String::as_str)));
        }
    }
    println!("{passed} of {all}");
    assert_eq!(all, 164);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Captures that one of the two can't read: most are of link types that Suricata does not have.
const UNREAD: usize = 132;

/// Of each event how many records only we have, and only Suricata; docs/eve.md has the reasons. One of which some field differs is in
/// both.
const UNLIKE: &[(&str, usize, usize)] = &[
    ("dns", 0, 1),
    ("fileinfo", 55, 28),
    ("ftp", 15, 39),
    ("http", 52, 48),
    ("smtp", 1, 1),
    ("ssh", 0, 2),
    ("tls", 0, 1),
];

/// The same of flows, at most: when Suricata's own threads end a flow of a file is not the same in each run.
const UNLIKE_FLOWS: &[(&str, usize, usize)] = &[("flow", 560, 530), ("netflow", 230, 200)];

/// All captures there are, http-evader's but for one in ten.
fn captures(test: &str) -> Vec<(String, PathBuf)> {
    let cases = ["suricata-verify", "suricata-verify-2"].into_iter().flat_map(|name| conformance::cases(test, name));
    let cases = cases.map(|folder| folder.join("input.pcap"));
    let name = |path: &Path| {
        let parts: Vec<&str> = path.iter().rev().take(2).filter_map(|part| part.to_str()).collect();
        format!("{}/{}", parts[1], parts[0])
    };
    let all = conformance::captures(test).into_iter().chain(cases).map(|path| (name(&path), path));
    let is_taken = |name: &str| !name.starts_with("http-evader") || name.contains("0/");
    all.filter(|(name, path)| is_taken(name) && path.exists()).collect()
}

/// Captures that are compared at the same time.
const AT_ONCE: usize = 4;

/// Field by field, of records of the same event.
#[test]
fn events_beside_suricatas() {
    const TEST: &str = "events_beside_suricatas";
    let captures = captures(TEST);
    let next = AtomicUsize::new(0);
    // Suricata sleeps through most of its start and end: several at once take little more of the machine.
    let compare = || {
        let mut results = Vec::new();
        while let Some((name, capture)) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push((name, both(TEST, capture).map(|(ours, theirs)| (ours.len(), unlike(&ours, &theirs)))));
        }
        results
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(compare)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(name, _)| *name);
    let (mut unread, mut alike, mut found) = (0, 0, BTreeMap::<String, [usize; 2]>::new());
    for (name, compared) in results {
        let Some((ours, lines)) = compared else {
            unread += 1;
            continue;
        };
        alike += ours;
        for line in lines {
            println!("{name}: {line}");
            let (side, rest) = line.split_once(": ").unwrap();
            let kind = rest.split(' ').next().unwrap().to_owned();
            found.entry(kind).or_default()[usize::from(side != "ours")] += 1;
            alike -= usize::from(side == "ours");
        }
    }
    println!("{alike} records are the same; {found:?}; {unread} captures are not read by both");
    for (kind, ours, theirs) in UNLIKE_FLOWS {
        let [of_ours, of_theirs] = found.remove(*kind).unwrap_or_default();
        assert!(of_ours <= *ours && of_theirs <= *theirs, "{kind}: {of_ours}, {of_theirs}");
    }
    let known: BTreeMap<String, [usize; 2]> =
        UNLIKE.iter().map(|(kind, ours, theirs)| ((*kind).to_owned(), [*ours, *theirs])).collect();
    assert_eq!((found, unread), (known, UNREAD));
}
