//! What operators do: another user, MIB files, clearing, looking at a running station.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringtap_snmp::encode::{Item, Trap};
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{
    IF_INDEX, PATIENCE, RINGTAP, Station, config, end, link_down, mibs, port, run, send, sh, start_on,
    wait_until_stored,
};

/// `ringtap alarms` with this store; its standard output.
fn alarms(test: &str, store: &str, arguments: &[&str]) -> String {
    let output = run(test, RINGTAP, &[&["alarms"][..], arguments, &["--store", store]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn net_trap_goes_on_as_another_user_who_owns_the_store() {
    const TEST: &str = "net_trap_goes_on_as_another_user_who_owns_the_store";
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let store = folder.path().join("store");
    let output = folder.path().join("alarms.jsonl");
    let address = format!("127.0.0.1:{}", port());
    for round in 1..=2 {
        let arguments = ["--listen", &address, "--user", "nobody", "--output", output.to_str().unwrap()];
        let station = Station::start(&store, &arguments);
        // Its threads are there before the rights go; the one that asks for that goes last.
        let own = format!("/proc/{}", station.pid());
        let gone = format!("\nUid:\t{}\t", nobody.uid);
        let until = Instant::now() + PATIENCE;
        while !std::fs::read_to_string(format!("{own}/status")).unwrap().contains(&gone) {
            assert!(Instant::now() < until, "it stays root");
            std::thread::sleep(Duration::from_millis(10));
        }
        for thread in std::fs::read_dir(format!("{own}/task")).unwrap() {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            assert!(of("Uid:").split_whitespace().all(|uid| uid == nobody.uid.to_string()), "{status}");
            assert!(of("Gid:").split_whitespace().all(|gid| gid == nobody.gid.to_string()), "{status}");
            assert_eq!(of("CapEff:"), "0000000000000000");
        }
        send(&link_down(), &address);
        drop(station.wait_for(round));
        let object = station.end();
        assert_eq!((&object["unaccounted"], &object["error"]), (&0.into(), &Value::Null), "{object}");
    }
    for path in std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path()).chain([store, output]) {
        assert_eq!(path.metadata().unwrap().uid(), nobody.uid.as_raw(), "{}", path.display());
    }
}

#[test]
fn net_trap_serves_its_account_to_prometheus_and_to_top() {
    const TEST: &str = "net_trap_serves_its_account_to_prometheus_and_to_top";
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&store, &["--listen", &address, "--metrics", &metrics]);
    send(&link_down(), &address);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"junk", &address).unwrap();
    drop(station.wait_for(1));
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&metrics).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/").starts_with("HTTP/1.1 404"), "only /metrics is there");
    // The status has the commit a moment after the store does.
    let until = Instant::now() + PATIENCE;
    let answer = loop {
        let answer = get("/metrics");
        if answer.contains("\nringtap_trap_stored_total 1\n") && answer.contains("to_disk_seconds_count 1\n") {
            break answer;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for line in [
        "# TYPE ringtap_trap_to_alarm_seconds histogram",
        "ringtap_trap_to_alarm_seconds_count 2",
        "ringtap_trap_to_alarm_seconds_bucket{le=\"+Inf\"} 2",
        "ringtap_trap_notifications_total{kind=\"snmp_v2c\"} 1",
        "ringtap_trap_refused_total{cause=\"malformed\"} 1",
        "ringtap_trap_offered_total 2",
        "ringtap_trap_raised 1",
        "ringtap_trap_unaccounted 0",
        "# EOF",
    ] {
        assert!(answer.lines().any(|there| there == line), "{line} in {answer}");
    }
    let top = run(TEST, RINGTAP, &["trap", "top", "--count", "1", "--store", store.to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&top.stdout);
    assert!(top.status.success() && shown.contains("linkDown"), "{shown} {}", String::from_utf8_lossy(&top.stderr));
    assert_eq!(station.end()["stored"], 1);
}

#[test]
fn net_trap_top_ends_on_q_and_fits_the_screen() {
    const TEST: &str = "net_trap_top_ends_on_q_and_fits_the_screen";
    let folder = tempfile::tempdir().unwrap();
    let (directory, shown) = (folder.path().join("store"), folder.path().join("shown"));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&directory, &["--listen", &address]);
    for index in 1..=20 {
        let mut name = IF_INDEX;
        name[10] = index;
        send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&name, Item::Integer(index.into())), &address);
    }
    drop(station.wait_for(20));
    station.end();
    // script(1) gives it a terminal.
    let command = format!("stty rows 24 cols 80; exec {RINGTAP} trap top --store {}", directory.display());
    let mut child = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&shown).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("did not run: {TEST}: script: {error}"));
    let until = Instant::now() + PATIENCE;
    // Its last line ends by turning automatic wrap on again.
    while !std::fs::read_to_string(&shown).unwrap().contains("\x1b[?7h") {
        assert!(Instant::now() < until, "it shows nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(b"xq").unwrap();
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "q does not end it");
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = std::fs::read_to_string(&shown).unwrap();
    assert!(child.wait().unwrap().success(), "{text:?}");
    let screen = text.split("\x1b[H\x1b[2J").nth(1).unwrap_or_else(|| panic!("{text:?}"));
    assert!((10..24).contains(&screen.lines().count()) && screen.contains("loudest"), "{screen:?}");
    let longest = screen.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    // The last line also has the escape that turns automatic wrap on, and the first the one that turns it off.
    assert!(longest <= 80 + "\x1b[?7l".len(), "{longest}: {screen:?}");
}

#[test]
fn net_trap_alarms_are_cleared_by_hand_beside_a_station_and_without_one() {
    const TEST: &str = "net_trap_alarms_are_cleared_by_hand_beside_a_station_and_without_one";
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let store = directory.to_str().unwrap();
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&directory, &["--listen", &address]);
    send(&link_down(), &address);
    send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 1], 1), &address);
    drop(station.wait_for(2));
    let listed = alarms(TEST, store, &["list", "--json"]);
    let ids: Vec<u64> =
        listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{listed}");
    let table = alarms(TEST, store, &["list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 3 && lines[0].contains("ID STATE") && lines[0].contains("LAST SEEN"), "{table}");
    assert!(lines[1].contains("Z ") && lines[1].contains(" ago"), "{table}");
    let shown = alarms(TEST, store, &["show", &ids[0].to_string()]);
    assert!(shown.contains(" ago)\"") && !shown.contains("_ns"), "{shown}");
    alarms(TEST, store, &["clear", &ids[0].to_string(), "--by", "alice"]);
    let left = alarms(TEST, store, &["list", "--json"]);
    assert_eq!(left.lines().count(), 1, "it is cleared when the command ends: {left}");
    let object = station.end();
    assert_eq!((&object["raised"], &object["alarms"], &object["unaccounted"]), (&1.into(), &2.into(), &0.into()));
    alarms(TEST, store, &["clear", &ids[1].to_string(), "--by", "bob"]);
    assert_eq!(alarms(TEST, store, &["list", "--json"]), "");
    let all = alarms(TEST, store, &["list", "--all", "--json"]);
    assert!(all.contains("\"alice\"") && all.contains("\"bob\""), "{all}");
    for (id, expected) in [("99", "none with this number"), (ids[0].to_string().as_str(), "cleared already")] {
        let output = run(TEST, RINGTAP, &["alarms", "clear", id, "--store", store]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{text}");
    }
    // The next station knows it, and raises again what comes again.
    let station = Station::start(&directory, &["--listen", &address]);
    send(&link_down(), &address);
    drop(station.wait_for(3));
    assert_eq!(station.end()["raised"], 1);
}

#[test]
fn net_trap_says_at_the_start_when_it_knows_no_sender() {
    const TEST: &str = "net_trap_says_at_the_start_when_it_knows_no_sender";
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "[trap]\nknown = [\"192.0.2.1\"]\n");
    let (store, address) = (folder.path().join("store"), format!("127.0.0.1:{}", port()));
    let arguments = ["trap", "--listen", &address, "--store", store.to_str().unwrap(), "--duration", "100ms"];
    for (more, says) in [(&[][..], true), (&["--config", &config], false)] {
        let output = run(TEST, RINGTAP, &[&arguments[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("no sender is known: ") && said.contains("`known`"), says, "{said}");
    }
}

#[test]
fn net_trap_names_come_from_mib_files() {
    const TEST: &str = "net_trap_names_come_from_mib_files";
    let folder = tempfile::tempdir().unwrap();
    let mibs = mibs(folder.path());
    let rule = "[[trap.rule]]\nnotification = \"exampleEvent\"\ncondition = \"colour\"\neffect = \"raise\"\nseverity = \"minor\"\nevent-type = \"environmentalAlarm\"\nprobable-cause = \"temperatureUnacceptable\"\nobject = [\"exampleColour\"]\n";
    let config = config(folder.path(), rule);
    let directory = folder.path().join("store");
    let (store, mibs) = (directory.to_str().unwrap(), mibs.as_str());
    let address = format!("127.0.0.1:{}", port());
    let arguments = ["--listen", &address, "--config", &config, "--mibs", mibs];
    // The second start reads the cache.
    for round in 1..=2 {
        let station = Station::start(&directory, &arguments);
        let trap = Trap::new(&[1, 3, 6, 1, 4, 1, 99999, 0, 1], 1);
        send(&trap.with(&[1, 3, 6, 1, 4, 1, 99999, 1, 7], Item::Integer(2)), &address);
        drop(station.wait_for(round));
        station.end();
        assert!(directory.join("names.json").is_file());
    }
    let listed = alarms(TEST, store, &["list", "--json"]);
    let alarm: Value = serde_json::from_str(listed.trim()).unwrap_or_else(|error| panic!("{error}: {listed}"));
    assert_eq!(
        (&alarm["condition"], &alarm["object"], &alarm["severity"], &alarm["count"]),
        (&"colour".into(), &"7".into(), &"minor".into(), &2.into()),
        "{alarm}"
    );
    let shown = alarms(TEST, store, &["export", "--mibs", mibs]);
    let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    let of = |object: &Value| (object["event_type"].clone(), object["probable_cause"].clone());
    assert_eq!(of(&alarm), ("environmentalAlarm".into(), "temperatureUnacceptable".into()), "{alarm}");
    assert_eq!((of(&first), first["alarm"].clone()), (of(&alarm), alarm["id"].clone()), "{first}");
    assert!(
        shown.contains("exampleEvent") && shown.contains("exampleColour.7") && shown.contains("green(2)"),
        "{shown}"
    );
    let bare = alarms(TEST, store, &["export"]);
    assert!(bare.contains("1.3.6.1.4.1.99999.1.7") && !bare.contains("exampleColour"), "{bare}");
}

#[test]
fn net_trap_keeps_what_it_was_told_to_keep_and_no_longer() {
    const TEST: &str = "net_trap_keeps_what_it_was_told_to_keep_and_no_longer";
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let store = directory.to_str().unwrap();
    let address = format!("127.0.0.1:{}", port());
    let start = |keep: &str| Station::start(&directory, &["--listen", &address, "--keep", keep]);
    let station = start("1h");
    send(&link_down(), &address);
    send(
        &Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 4], Item::Integer(4)),
        &address,
    );
    send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 2).with(&IF_INDEX, Item::Integer(3)), &address);
    drop(station.wait_for(3));
    // Longer than the work on retention waits.
    std::thread::sleep(Duration::from_millis(1500));
    station.end();
    assert_eq!(alarms(TEST, store, &["export"]).lines().count(), 3, "nothing is an hour old");
    let station = start("1s");
    let until = Instant::now() + PATIENCE;
    while !alarms(TEST, store, &["export"]).is_empty() {
        assert!(Instant::now() < until, "they stay");
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = alarms(TEST, store, &["list", "--all", "--json"]);
    assert!(all.lines().count() == 1 && all.contains("\"object\":\"4\""), "what is raised stays: {all}");
    send(&link_down(), &address);
    let stored = station.wait_for(1).notifications(0, 1).unwrap();
    assert!(stored[0].id == 4 && station.end()["error"].is_null(), "numbers are never used again: {stored:?}");
}

#[test]
fn net_trap_takes_what_a_file_of_traps_says_and_bad_files_send_nothing() {
    const TEST: &str = "net_trap_takes_what_a_file_of_traps_says_and_bad_files_send_nothing";
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let interface = testbed.receiver().interface();
    sh(testbed.receiver(), &format!("ip route add 10.64.0.0/16 dev {interface}"));
    let directory = folder.path().join("store");
    let station = start_on(testbed.receiver(), &directory, &["--listen", "0.0.0.0:162"]);
    let file = folder.path().join("traps");
    let generate = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = testbed.sender().command(RINGTAP);
        command.args(["generate", "-i", testbed.sender().interface(), "--nodes", "3", "--count", "8", "--rate", "1k"]);
        command.arg("--traps").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut program = testbed.sender().start(command).unwrap();
        let mut errors = String::new();
        program.child().stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (program.child().wait().unwrap().code(), errors)
    };
    let good = "# one node after the other\n\n1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i 3\n1.3.6.1.4.1.32473.2.0.1 \
                1.3.6.1.4.1.32473.1.2.0 s text 1.3.6.1.4.1.32473.1.3.0 a 192.0.2.1 1.3.6.1.4.1.32473.1.4.0 o 1.3.6 1.3.6.1.4.1.32473.1.5.0 u 7\n";
    for (text, expected) in [
        ("", "no trap in it"),
        ("# nothing\n\n", "no trap in it"),
        ("1.3.6.1.6.3.1.1.5.3\nlinkDown\n", ":2"),
        ("1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i\n", ":1"),
        ("1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i three\n", ":1"),
        ("1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 q 3\n", ":1"),
        ("\n\n1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 a 1.2.3\n", ":3"),
    ] {
        let (code, errors) = generate(text);
        assert!(
            code == Some(2) && errors.contains(expected) && errors.lines().count() == 1,
            "{text:?}: {code:?} {errors}"
        );
    }
    let (code, errors) = generate(good);
    assert_eq!(code, Some(0), "{errors}");
    drop(wait_until_stored(&directory, 8));
    let object = end(station);
    assert_eq!(
        (&object["stored"], &object["unaccounted"], &object["notifications"]["v2c"]),
        (&8.into(), &0.into(), &8.into())
    );
    let text = alarms(TEST, directory.to_str().unwrap(), &["export"]);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (index, row) in rows.iter().enumerate() {
        let node = format!("10.64.0.{}:", index % 3 + 1);
        assert!(row["source"].as_str().unwrap().starts_with(&node), "{row}");
        let values: Vec<&str> =
            row["content"]["varbinds"].as_array().unwrap().iter().map(|it| it["value"].as_str().unwrap()).collect();
        let number = index.to_string();
        let expected: &[&str] =
            if index % 2 == 0 { &["3", &number] } else { &["text", "192.0.2.1", "1.3.6", "7", &number] };
        assert_eq!(values, expected, "{row}");
    }
}
