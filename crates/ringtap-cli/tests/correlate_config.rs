//! `[correlate]` of `ringtap.toml`: its options are those of the command line, which go before them; faults are told with their lines.

mod capture_support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use capture_support::{Ended, ringtap};
use serde_json::Value;

const RULE: &str = "title: a\nname: a\nlogsource: {product: test}\ndetection: {s: {kind: a}, condition: s}\n---\n\
    title: two\nname: two\ncorrelation: {type: event_count, rules: a, group-by: user, timespan: 10s, condition: {gte: 2}}\n";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Two events of a user within the timespan.
fn events(folder: &Path, user: &str) -> String {
    let line = |second: u32| format!("{{\"time\":{},\"kind\":\"a\",\"user\":\"{user}\"}}\n", 1_700_000_000 + second);
    write(folder, &format!("{user}.json"), &(line(0) + &line(9)))
}

/// The users of whom something was found, by lines of JSON; panics where the run failed or these are none.
fn found(ended: &Ended) -> Vec<String> {
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let text = String::from_utf8_lossy(&ended.stdout);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
    let opened = lines.filter(|line| line["event"] == "opened");
    opened.map(|line| line["key"]["user"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_is_what_the_file_says_and_what_is_typed_goes_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (rules, alice, bob) =
        (write(folder.path(), "rule.yml", RULE), events(folder.path(), "alice"), events(folder.path(), "bob"));
    let said = |more: &str| {
        let text = format!("[correlate]\nrules = {rules:?}\nread = [{alice:?}]\njson = true\n{more}");
        write(folder.path(), "ringtap.toml", &text)
    };
    let file = said(&format!("store = {:?}\nkeep = \"30min\"\ndisorder = \"1s\"\nlog-size = \"2MiB\"\n", at("said")));
    let run = |typed: &[&str]| ringtap(&[&["correlate", "--config", &file], typed].concat());
    assert_eq!(found(&run(&[])), ["alice"]);
    assert!(folder.path().join("said/incidents.sqlite").exists() || std::fs::read_dir(at("said")).unwrap().count() > 0);
    // Known already, as the store of the file says; the typed one knows nothing yet.
    assert!(found(&run(&[])).is_empty());
    assert_eq!(found(&run(&["--store", &at("typed")])), ["alice"]);
    assert_eq!(found(&run(&["--read", &bob])), ["bob"]);
    // What is wrong when typed is wrong beside a file, too.
    let ended = run(&["--memory", "1KiB"]);
    assert!(ended.code() == 2 && ended.stderr.contains("has no room"), "{}", ended.stderr);

    // A live correlator's file, and yesterday's events: what is for sockets alone does not count.
    write(folder.path(), "a.key", "1:00112233445566778899aabbccddeeff\n");
    let live = format!(
        "[correlate]\nrules = {rules:?}\nsensors = [\"127.0.0.1:0\"]\nlisten = \"127.0.0.1:0\"\nsilence = \"3s\"\ngap-wait = \"1s\"\n\
         [[correlate.sensor]]\nid = \"a\"\nkey-files = [\"a.key\"]\n[correlate.webhook]\nurl = \"http://127.0.0.1:1/s3cret\"\n"
    );
    let live = write(folder.path(), "live.toml", &live);
    let ended = ringtap(&["correlate", "--config", &live, "--read", &bob, "--json"]);
    assert_eq!(found(&ended), ["bob"]);
    let ended = ringtap(&["correlate", "--config", &live, "--duration", "100ms"]);
    assert!(ended.code() == 0 && ended.stderr.contains("input udp:127.0.0.1:"), "{}", ended.stderr);
    let topics = "[correlate]\nrules = \"x\"\nkafka = \"127.0.0.1:1\"\nkafka-topic = [\"a\", \"b\"]\n";
    let topics = write(folder.path(), "topics.toml", topics);
    let ended = ringtap(&["correlate", "--config", &topics, "--rules", &rules, "--read", &bob, "--json"]);
    assert_eq!(found(&ended), ["bob"]);
}

/// As the packages have it: the service's own, and started by root for a look. As long as none of its words becomes an option.
#[test]
fn net_a_configuration_without_options_may_be_another_users() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, events) = (write(folder.path(), "rule.yml", RULE), events(folder.path(), "alice"));
    let webhook = "[correlate.webhook]\nurl = \"http://127.0.0.1:1/\"\n";
    let run = |text: &str| {
        let file = write(folder.path(), "ringtap.toml", text);
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        ringtap(&["correlate", "--config", &file, "--rules", &rules, "--read", &events, "--json"])
    };
    for text in ["", "[trap]\n", webhook] {
        assert_eq!(found(&run(text)), ["alice"], "{text}");
    }
    let ended = run(&format!("[correlate]\nmemory = \"1GiB\"\n{webhook}"));
    assert!(ended.code() == 2 && ended.stderr.contains("user 65534 owns it"), "{}", ended.stderr);
}

#[test]
fn faults_are_told_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    for (text, fault) in [
        ("rulez = \"x\"\n", ":2: unknown field `rulez`, the nearest known name is `rules`"),
        ("[[correlate.senser]]\n", ":2: unknown field `senser`, the nearest known name is `sensor"),
        ("check-rules = true\n", ":2: unknown field `check-rules`"),
        ("test = \"x\"\n", ":2: unknown field `test`"),
        ("store = \"x\"\nmemory = \"1KiB\"\n", ":3: memory: "),
        ("disorder = \"5\"\n", ":2: disorder: \"5\" has no unit"),
        ("format = \"evee\"\n", ":2: format: unknown value `evee`, the nearest known name is `eve`"),
        ("listen = \"nowhere\"\n", ":2: listen: "),
        ("json = \"yes\"\n", ":2: json: expected true or false"),
        ("sensor = 1\n", ":2: invalid type"),
    ] {
        let file = write(folder.path(), "ringtap.toml", &format!("[correlate]\n{text}"));
        let checked = ringtap(&["config", "check", &file]);
        let is_one = checked.stderr.lines().count() == 1;
        assert!(checked.code() == 1 && is_one && checked.stderr.contains(fault), "{text}: {}", checked.stderr);
        let started = ringtap(&["correlate", "--rules", "x", "--read", "/dev/null", "--config", &file]);
        assert!(started.code() == 2 && started.stderr.contains(fault), "{text}: {}", started.stderr);
    }
    let both = "[correlate]\nread = \"x\"\nlisten = \"127.0.0.1:0\"\n";
    let checked = ringtap(&["config", "check", &write(folder.path(), "both.toml", both)]);
    assert!(checked.stderr.contains("both.toml:3: ") && checked.stderr.contains("exclude one another"));
    // What is missing may be typed, and is asked for.
    let part = write(folder.path(), "part.toml", "[correlate]\nlog-size = \"1GiB\"\n");
    assert_eq!(ringtap(&["config", "check", &part]).code(), 0);
    let started = ringtap(&["correlate", "--rules", "x", "--read", "/dev/null", "--config", &part]);
    let asks = started.stderr.contains("--store") && started.stderr.contains("options of [correlate] of ");
    assert!(started.code() == 2 && asks, "{}", started.stderr);
}

#[test]
fn what_is_in_effect_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "[correlate]\nrules = \"r\"\nkeep-size = \"1GiB\"\n[correlate.webhook]\nurl = \"http://127.0.0.1:1/s3cret\"\n";
    let ended = ringtap(&["config", "show", &write(folder.path(), "ringtap.toml", text)]);
    let shown = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.code() == 0 && !shown.contains("s3cret"), "{shown}{}", ended.stderr);
    for line in [
        "# ringtap correlate",
        "rules = \"r\"",
        "keep-size = \"1GiB\"",
        "disorder = \"5s\"  # default",
        "memory = \"512MiB\"  # default",
        "url = \"***\"",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}
