//! Events of a run over a capture, of ours and of Suricata 7, and where they differ.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use ringtap_sensor::{Event, Input, Options, WithAlerts, run};
use serde_json::{Value, json};

/// Fields that are held against Suricata's, by event. Those of [`EVERY`] are in each.
const FIELDS: &[(&str, &[&str])] = &[
    (
        "http",
        &[
            "tx_id",
            "http.hostname",
            "http.http_port",
            "http.url",
            "http.http_user_agent",
            "http.xff",
            "http.http_content_type",
            "http.content_range",
            "http.http_refer",
            "http.http_method",
            "http.protocol",
            "http.status",
            "http.redirect",
            "http.length",
        ],
    ),
    (
        "dns",
        &[
            "dns.type",
            "dns.id",
            "dns.rrname",
            "dns.rrtype",
            "dns.tx_id",
            "dns.opcode",
            "dns.version",
            "dns.flags",
            "dns.qr",
            "dns.aa",
            "dns.tc",
            "dns.rd",
            "dns.ra",
            "dns.z",
            "dns.rcode",
            "dns.answers",
            "dns.grouped",
            "dns.authorities",
        ],
    ),
    (
        "tls",
        &[
            "tls.subject",
            "tls.issuerdn",
            "tls.serial",
            "tls.fingerprint",
            "tls.sni",
            "tls.version",
            "tls.notbefore",
            "tls.notafter",
        ],
    ),
    (
        "ssh",
        &[
            "tx_id",
            "ssh.client.proto_version",
            "ssh.client.software_version",
            "ssh.server.proto_version",
            "ssh.server.software_version",
        ],
    ),
    (
        "smtp",
        &[
            "tx_id",
            "smtp.helo",
            "smtp.mail_from",
            "smtp.rcpt_to",
            "email.from",
            "email.to",
            "email.cc",
            "email.attachment",
        ],
    ),
    (
        "ftp",
        &[
            "tx_id",
            "ftp.command",
            "ftp.command_data",
            "ftp.command_truncated",
            "ftp.completion_code",
            "ftp.reply",
            "ftp.dynamic_port",
            "ftp.mode",
            "ftp.reply_received",
            "ftp.reply_truncated",
        ],
    ),
    ("ftp_data", &["tx_id", "ftp_data.filename", "ftp_data.command"]),
    (
        "fileinfo",
        &[
            "app_proto",
            "fileinfo.filename",
            "fileinfo.gaps",
            "fileinfo.state",
            "fileinfo.stored",
            "fileinfo.size",
            "fileinfo.tx_id",
            "http.url",
            "smtp.mail_from",
        ],
    ),
    (
        "flow",
        &[
            "app_proto",
            "flow.pkts_toserver",
            "flow.pkts_toclient",
            "flow.bytes_toserver",
            "flow.bytes_toclient",
            "flow.start",
            "flow.end",
            "flow.age",
            "flow.state",
            "flow.reason",
            "flow.alerted",
            "tcp.tcp_flags",
            "tcp.tcp_flags_ts",
            "tcp.tcp_flags_tc",
            "tcp.syn",
            "tcp.fin",
            "tcp.rst",
            "tcp.psh",
            "tcp.ack",
            "tcp.urg",
            "tcp.ecn",
            "tcp.cwr",
            "tcp.state",
        ],
    ),
    (
        "netflow",
        // Not app_proto: Suricata has one of each direction there.
        &[
            "netflow.pkts",
            "netflow.bytes",
            "netflow.start",
            "netflow.end",
            "netflow.age",
            "netflow.min_ttl",
            "netflow.max_ttl",
            "tcp.tcp_flags",
            "tcp.syn",
            "tcp.fin",
            "tcp.rst",
            "tcp.psh",
            "tcp.ack",
            "tcp.urg",
        ],
    ),
];

/// In each event.
const EVERY: &[&str] = &["src_ip", "dest_ip", "src_port", "dest_port", "proto", "vlan"];

/// All events of a run of ours with these rules, and all that may go with alerts.
pub fn ours(capture: &Path, rules: &str) -> Vec<Value> {
    try_ours(capture, rules).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, or why there are none.
fn try_ours(capture: &Path, rules: &str) -> Result<Vec<Value>, ringtap::Error> {
    let folder = tempfile::tempdir().unwrap();
    let (eve, file) = (folder.path().join("eve.json"), folder.path().join("my.rules"));
    let mut options = Options::new(Input::Files(vec![capture.to_owned()]));
    // The sandbox is the whole process's, that of the other tests too.
    options.no_sandbox = true;
    options.bounds.no_checksums = true;
    options.bounds.flows = Some(4096);
    if !rules.is_empty() {
        std::fs::write(&file, rules).unwrap();
        options.rules.files = vec![file];
    }
    options.outputs.eve = Some(eve.clone());
    options.outputs.events = vec![
        Event::Alert,
        Event::Http,
        Event::Dns,
        Event::Tls,
        Event::Ssh,
        Event::Smtp,
        Event::Ftp,
        Event::FtpData,
        Event::Fileinfo,
        Event::Flow,
        Event::Netflow,
    ];
    if rules.is_empty() {
        options.outputs.events.remove(0);
    }
    options.outputs.with_alerts = vec![WithAlerts::Payload, WithAlerts::PayloadPrintable, WithAlerts::Packet];
    let done = run(&options, None)?;
    done.failure.map_or_else(|| Ok(lines(&eve)), Err)
}

fn lines(eve: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(eve).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Events of both, without rules; `None` where one of them can't read the capture.
pub fn both(test: &str, capture: &Path) -> Option<(Vec<Value>, Vec<Value>)> {
    Some((try_ours(capture, "").ok()?, try_theirs(test, capture, "")?))
}

/// The same of Suricata 7 with its packaged configuration, but for netflow, which that leaves out.
pub fn theirs(test: &str, capture: &Path, rules: &str) -> Vec<Value> {
    try_theirs(test, capture, rules).unwrap_or_else(|| panic!("Suricata could not read {}", capture.display()))
}

/// The same, where it can read the capture.
fn try_theirs(test: &str, capture: &Path, rules: &str) -> Option<Vec<Value>> {
    const CONFIGURATION: &str = "/etc/suricata/suricata.yaml";
    let missing = |error: &dyn std::fmt::Display| -> ! { panic!("did not run: {test}: suricata: {error}") };
    static VERSION: OnceLock<std::io::Result<String>> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        Command::new("suricata").arg("-V").output().map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    });
    let version = version.as_ref().unwrap_or_else(|error| missing(error));
    assert!(version.contains("version 7.0."), "did not run: {test}: it needs Suricata 7.0, this is {version}");
    let folder = tempfile::tempdir().unwrap();
    let [configuration, file] = ["suricata.yaml", "my.rules"].map(|name| folder.path().join(name));
    let text = std::fs::read_to_string(CONFIGURATION).unwrap_or_else(|error| missing(&error));
    assert!(text.contains("#- netflow"), "{CONFIGURATION} is not the packaged one");
    std::fs::write(&configuration, text.replace("#- netflow", "- netflow")).unwrap();
    std::fs::write(&file, rules).unwrap();
    let mut command = Command::new("suricata");
    command
        .args(["--runmode", "single", "-k", "none", "-r"])
        .arg(capture)
        .arg("-S")
        .arg(&file)
        .arg("-l")
        .arg(folder.path());
    let output = command.arg("-c").arg(&configuration).output().unwrap_or_else(|error| missing(&error));
    output.status.success().then(|| lines(&folder.path().join("eve.json")))
}

/// The compared fields of an event as text: no event twice with another order of its fields.
fn compared(event: &Value) -> Option<String> {
    let kind = event["event_type"].as_str()?;
    let (_, fields) = FIELDS.iter().find(|(of, _)| *of == kind)?;
    let mut object = BTreeMap::new();
    for path in EVERY.iter().chain(*fields) {
        let value = event.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or(Value::Null);
        if let Some(value) = usual(path, value) {
            object.insert(*path, value);
        }
    }
    Some(format!("{kind} {}", json!(object)))
}

/// A value as it is compared; `None` where there is none.
fn usual(path: &str, value: Value) -> Option<Value> {
    let text = value.as_str();
    let address = text.filter(|_| path.ends_with("_ip")).and_then(|text| text.parse::<std::net::IpAddr>().ok());
    // What Suricata says of a protocol that it gave up.
    let is_none = value.is_null() || (path == "app_proto" && text == Some("failed"));
    if is_none { None } else { Some(address.map_or(value, |address| json!(address))) }
}

/// Whether it is compared: of sessions of SMTP Suricata also tells that nothing was sent behind the last message.
fn is_compared(event: &Value) -> bool {
    event["event_type"] != "smtp" || !event["smtp"]["mail_from"].is_null()
}

/// Events that only one of them has.
pub fn unlike(ours: &[Value], theirs: &[Value]) -> Vec<String> {
    let mut counts = BTreeMap::<String, i64>::new();
    for (events, step) in [(ours, 1), (theirs, -1)] {
        for line in events.iter().filter(|event| is_compared(event)).filter_map(compared) {
            *counts.entry(line).or_default() += step;
        }
    }
    let side = |count: i64| if count > 0 { "ours" } else { "Suricata's" };
    counts
        .into_iter()
        .filter(|(_, count)| *count != 0)
        .map(|(line, count)| format!("{}: {line}", side(count)))
        .collect()
}
