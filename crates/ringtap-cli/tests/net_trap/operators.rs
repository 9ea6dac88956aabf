//! What operators do beside a running station: acknowledging, remarks, many alarms at once, expiry, maintenance.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use ringtap_snmp::encode::{Item, Trap};
use serde_json::Value;

use crate::support::{IF_INDEX, PATIENCE, RINGTAP, Station, config, port, run, send};

/// linkDown, or linkUp, of this interface.
fn link(is_up: bool, index: u32) -> Trap {
    let mut name = IF_INDEX;
    name[10] = index;
    let trap = [1, 3, 6, 1, 6, 3, 1, 1, 5, if is_up { 4 } else { 3 }];
    Trap::new(&trap, 1).with(&name, Item::Integer(index.into()))
}

/// `ringtap alarms` with this store: what it prints and says.
fn alarms(test: &str, store: &Path, arguments: &[&str]) -> (String, String) {
    let output = run(test, RINGTAP, &[&["alarms"][..], arguments, &["--store", store.to_str().unwrap()]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

/// The same that is refused; what it says.
fn refused(test: &str, store: &Path, arguments: &[&str]) -> String {
    let output = run(test, RINGTAP, &[&["alarms"][..], arguments, &["--store", store.to_str().unwrap()]].concat());
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The lines of this file, once there are so many.
fn told(path: &Path, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count && text.ends_with('\n') {
            return lines(&text);
        }
        assert!(Instant::now() < until, "{count} lines never come: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn net_trap_alarms_are_acknowledged_commented_and_cleared_many_at_once() {
    const TEST: &str = "net_trap_alarms_are_acknowledged_commented_and_cleared_many_at_once";
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&store, &["--listen", &address]);
    (1..=12).for_each(|index| send(&link(false, index), &address));
    send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 1], 1), &address);
    drop(station.wait_for(13));
    let id_of = |object: &str| {
        let all = lines(&alarms(TEST, &store, &["list", "--json", "--object", object, "--condition", "linkDown"]).0);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]["id"].as_u64().unwrap().to_string()
    };
    let first = id_of("1");
    alarms(TEST, &store, &["ack", &first, "--by", "alice", "--comment", "cable is on its way"]);
    alarms(TEST, &store, &["comment", &first, "--by", "bob", "--comment", "it is a\u{1b}[2J long one"]);
    let shown = &lines(&alarms(TEST, &store, &["show", &first, "--json"]).0)[0];
    assert_eq!(shown["acknowledged"]["by"], "alice", "{shown}");
    let history: Vec<(&str, &str)> = (shown["history"].as_array().unwrap().iter())
        .map(|entry| (entry["act"].as_str().unwrap(), entry["operator"].as_str().unwrap()))
        .collect();
    assert_eq!(history, [("acknowledged", "alice"), ("commented", "bob")]);
    let (table, _) = alarms(TEST, &store, &["list", "--acknowledged"]);
    assert!(table.contains("[acknowledged by alice]") && table.lines().count() == 2, "{table}");
    let (header, row) = table.trim_end().split_once('\n').unwrap();
    let heads: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(heads, ["ID", "STATE", "SEVERITY", "COUNT", "SINCE", "LAST", "SEEN", "SOURCE,", "WHAT"]);
    assert_eq!(header.find("STATE"), row.find("raised"), "{table}");
    assert_eq!(row.split_whitespace().next(), Some(first.as_str()), "{table}");
    alarms(TEST, &store, &["ack", &first, "--undo", "--by", "alice"]);
    assert_eq!(alarms(TEST, &store, &["list", "--acknowledged", "--json"]).0, "");
    assert!(refused(TEST, &store, &["ack", &first, "--undo"]).contains("not acknowledged"));

    // One star for objects 1, 10, 11 and 12.
    let such = ["--node", "127.0.0.*", "--condition", "LINK*", "--object", "1*", "--network", "127.0.0.0/8"];
    let (_, said) = alarms(TEST, &store, &[&["clear", "--dry-run"][..], &such].concat());
    assert!(said.contains("without --dry-run 4 alarms are cleared") && said.contains(&first), "{said}");
    assert_eq!(lines(&alarms(TEST, &store, &["list", "--json"]).0).len(), 13, "nothing was done");
    let (_, said) = alarms(TEST, &store, &[&["clear", "--by", "carol"][..], &such].concat());
    assert!(said.contains("4 alarms are cleared, by the running station"), "{said}");
    assert_eq!(lines(&alarms(TEST, &store, &["list", "--json"]).0).len(), 9);
    let (_, said) = alarms(TEST, &store, &["clear", "--severity", "critical", "--quiet-for", "1h"]);
    assert!(said.contains("there are no such alarms"), "{said}");
    for (arguments, expected) in [
        (&["clear"][..], "it is not said which"),
        (&["clear", "3", "--node", "x"], "both numbers and options"),
        (&["ack", &first], "there is nothing to take care of"),
        (&["comment", "2"], "give it with --comment"),
        (&["clear", "4711"], "none with this number"),
    ] {
        let said = refused(TEST, &store, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(station.end()["raised"], 9);
    // Without a station the same is done at once.
    let (_, said) = alarms(TEST, &store, &["clear", "--condition", "linkDown", "--by", "dave", "--comment", "moved"]);
    assert!(said.contains("8 alarms are cleared\n"), "{said}");
    let shown = &lines(&alarms(TEST, &store, &["show", "2", "--json"]).0)[0];
    assert_eq!((&shown["operator"], &shown["history"][0]["comment"]), (&"dave".into(), &"moved".into()), "{shown}");
}

#[test]
fn net_trap_alarms_that_nobody_tells_of_expire() {
    const TEST: &str = "net_trap_alarms_that_nobody_tells_of_expire";
    let folder = tempfile::tempdir().unwrap();
    let (store, output) = (folder.path().join("store"), folder.path().join("told.jsonl"));
    let text = "[trap]\nexpire-after = \"1s\"\n[[trap.rule]]\nnotification = \"1.3.6.1.6.3.1.1.5.3\"\ncondition = \"linkDown\"\n\
                effect = \"raise\"\nseverity = \"major\"\nexpire-after = \"never\"\nobject = [\"1.3.6.1.2.1.2.2.1.1\"]\n";
    let config = config(folder.path(), text);
    let address = format!("127.0.0.1:{}", port());
    let arguments = ["--listen", &address, "--config", &config, "--output", output.to_str().unwrap()];
    let station = Station::start(&store, &arguments);
    send(&link(false, 3), &address);
    send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 1], 1), &address);
    let told = told(&output, 3);
    let over: Vec<&Value> = told.iter().filter(|line| line["cleared"] == true).collect();
    assert_eq!(
        (over.len(), &over[0]["condition"], &over[0]["expired"]),
        (1, &"coldStart".into(), &true.into()),
        "{told:?}"
    );
    let until = Instant::now() + PATIENCE;
    let history = loop {
        let shown = lines(&alarms(TEST, &store, &["show", &over[0]["id"].to_string(), "--json"]).0).remove(0);
        if !shown["history"].is_null() {
            break shown["history"].clone();
        }
        assert!(Instant::now() < until, "{shown}");
    };
    assert_eq!((&history[0]["act"], &history[0]["operator"]), (&"expired".into(), &Value::Null));
    let object = station.end();
    assert_eq!((&object["raised"], &object["announced"]), (&1.into(), &3.into()), "{object}");
}

#[test]
fn net_trap_alarms_in_maintenance_are_stored_and_told_when_it_is_over() {
    const TEST: &str = "net_trap_alarms_in_maintenance_are_stored_and_told_when_it_is_over";
    let folder = tempfile::tempdir().unwrap();
    let (store, output) = (folder.path().join("store"), folder.path().join("told.jsonl"));
    let address = format!("127.0.0.1:{}", port());
    let arguments = ["--listen", &address, "--output", output.to_str().unwrap()];
    let station = Station::start(&store, &arguments);
    let add =
        ["maintenance", "add", "--node", "127.0.0.1", "--for", "1h", "--by", "alice", "--comment", "new software"];
    let (_, said) = alarms(TEST, &store, &add);
    assert!(said.contains("maintenance 1 of 127.0.0.1: from "), "{said}");
    // One that comes to stay, and one that comes and goes.
    send(&link(false, 3), &address);
    send(&link(false, 4), &address);
    send(&link(true, 4), &address);
    drop(station.wait_for(3));
    let (table, _) = alarms(TEST, &store, &["list", "--in-maintenance"]);
    assert!(table.lines().count() == 2 && table.contains("[maintenance]"), "{table}");
    let (exported, _) = alarms(TEST, &store, &["export"]);
    let judged: Vec<Value> = lines(&exported).iter().map(|line| line["judgement"].clone()).collect();
    assert!(judged.iter().all(|it| it == "state changed, not announced: in maintenance"), "{judged:?}");
    assert_eq!(station.end()["announced"], 0);
    assert_eq!(std::fs::read_to_string(&output).unwrap_or_default(), "");

    // A restart goes on in it.
    let station = Station::start(&store, &arguments);
    send(&link(false, 5), &address);
    drop(station.wait_for(4));
    let (windows, _) = alarms(TEST, &store, &["maintenance", "list"]);
    assert!(
        windows.lines().count() == 2 && windows.contains("active") && windows.contains("(new software)"),
        "{windows}"
    );
    alarms(TEST, &store, &["maintenance", "end", "1", "--by", "bob"]);
    let heard: Vec<Value> = told(&output, 2).iter().map(|line| line["object"].clone()).collect();
    assert_eq!(heard, ["3", "5"]);
    assert!(refused(TEST, &store, &["maintenance", "end", "1"]).contains("none with this number that is not over"));
    send(&link(false, 6), &address);
    assert_eq!(told(&output, 3)[2]["object"], "6");
    let all = lines(&alarms(TEST, &store, &["maintenance", "list", "--all", "--json"]).0);
    assert_eq!((&all[0]["operator"], &all[0]["ended"][1]), (&"alice".into(), &"bob".into()), "{all:?}");

    // One that ends by itself, of the network.
    alarms(TEST, &store, &["maintenance", "add", "--network", "127.0.0.0/8", "--for", "2s"]);
    send(&link(false, 7), &address);
    drop(station.wait_for(6));
    assert_eq!(told(&output, 4)[3]["object"], "7");
    for (arguments, expected) in [
        (&["maintenance", "add", "--for", "1h"][..], "--node"),
        (&["maintenance", "add", "--node", "x"], "--until"),
        (&["maintenance", "add", "--node", "x", "--until", "2020-01-01T00:00:00Z"], "it is over before it begins"),
        (&["maintenance", "add", "--node", "x", "--until", "tomorrow"], "no time with its zone"),
    ] {
        let said = refused(TEST, &store, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(station.end()["unaccounted"], 0);
}

/// `core` in the middle, `edge` behind it.
const NETWORK: &str = "
station = { attached = ['core'] }
node = [{ name = 'core', addresses = ['10.64.0.1'] }, { name = 'edge', addresses = ['10.64.0.2'] }]
link = [{ ends = ['core:1', 'edge:1'] }, { ends = ['core:2', 'edge:2'] }]
";

#[test]
fn net_trap_a_parent_in_maintenance_does_not_hide_its_children() {
    const TEST: &str = "net_trap_a_parent_in_maintenance_does_not_hide_its_children";
    let folder = tempfile::tempdir().unwrap();
    let (store, output) = (folder.path().join("store"), folder.path().join("told.jsonl"));
    let topology = folder.path().join("network.toml");
    std::fs::write(&topology, NETWORK).unwrap();
    let address = format!("127.0.0.1:{}", port());
    let arguments =
        ["--listen", &address, "--topology", topology.to_str().unwrap(), "--output", output.to_str().unwrap()];
    let station = Station::start(&store, &arguments);
    // By the topology's name for it.
    alarms(TEST, &store, &["maintenance", "add", "--node", "core", "--for", "1h"]);
    let say = |agent: [u8; 4], index: u32| {
        let bytes = link(false, index).as_v1(b"public", Ipv4Addr::from(agent));
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&bytes, &address).unwrap();
    };
    (1..=2).for_each(|index| say([10, 64, 0, 1], index));
    (1..=2).for_each(|index| say([10, 64, 0, 2], index));
    // What the child says is told, whatever its parent does.
    let opened = told(&output, 1);
    let members = |line: &Value| -> Vec<String> {
        let members = line["members"].as_array().unwrap().iter();
        members.map(|member| member["sensor"].as_str().unwrap().to_owned()).collect()
    };
    let mut until = Instant::now() + PATIENCE;
    let heard = |until: &mut Instant, of: &str, count: usize| loop {
        let all: Vec<String> =
            told(&output, 1).iter().filter(|line| line["event"] != "closed").flat_map(members).collect();
        if all.iter().filter(|sensor| *sensor == of).count() >= count {
            return all;
        }
        assert!(Instant::now() < *until, "{of} is not heard of: {all:?}, {opened:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let all = heard(&mut until, "10.64.0.2", 1);
    assert!(all.iter().all(|sensor| sensor == "10.64.0.2"), "{all:?}");
    let listed = lines(&alarms(TEST, &store, &["list", "--json", "--in-maintenance"]).0);
    assert!(listed.len() == 2 && listed.iter().all(|alarm| alarm["resource"] == "10.64.0.1"), "{listed:?}");
    alarms(TEST, &store, &["maintenance", "end", "1"]);
    // What is still raised joins what is told of, or is told by itself.
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = alarms(TEST, &store, &["export", "--incidents"]).0;
        if shown.contains("10.64.0.1") {
            break;
        }
        assert!(Instant::now() < until, "{shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(station.end()["unaccounted"], 0);
}
