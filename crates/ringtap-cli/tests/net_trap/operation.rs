//! What operators do: another user, MIB files, clearing, webhooks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_trap::encode::{Item, Trap};
use serde_json::Value;

use crate::support::{PATIENCE, RINGTAP, Station, config, port, run};

const LINK_DOWN: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3];
const IF_INDEX: [u32; 11] = [1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3];

fn send(trap: &Trap, to: &str) {
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&trap.v2c(b"public", 1), to).unwrap();
}

fn link_down() -> Trap {
    Trap::new(&LINK_DOWN, 1).with(&IF_INDEX, Item::Integer(3))
}

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
fn net_trap_tells_alarms_to_a_file_a_socket_and_a_syslog_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (file, moved, socket) = (at("alarms.jsonl"), at("alarms.old"), at("alarms.sock"));
    let listener = UnixListener::bind(&socket).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let (address, syslog) = (format!("127.0.0.1:{}", port()), format!("udp:{}", server.local_addr().unwrap()));
    let paths = [&file, &socket].map(|path| path.to_str().unwrap().to_owned());
    let outputs = ["--output", &paths[0], "--output-socket", &paths[1], "--output-syslog", &syslog];
    let station = Station::start(&at("store"), &[&["--listen", &address][..], &outputs].concat());
    let is_link_down = |line: &str| {
        let alarm: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!((&alarm["condition"], &alarm["object"]), (&"linkDown".into(), &"3".into()), "{alarm}");
        alarm["cleared"].as_bool().unwrap()
    };
    let eventually = |path: &Path| {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text;
            }
            assert!(Instant::now() < until, "nothing comes to {}", path.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    };

    send(&link_down(), &address);
    assert!(!is_link_down(eventually(&file).trim_end()));
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(!is_link_down(line.trim_end()));
    let mut datagram = [0; 2048];
    let length = server.recv(&mut datagram).unwrap();
    let message = std::str::from_utf8(&datagram[..length]).unwrap();
    assert!(message.starts_with('<') && message.contains(">1 ") && message.contains("linkDown"), "{message}");

    // Moved away, as logrotate does; the next one goes to a new file.
    std::fs::rename(&file, &moved).unwrap();
    kill(Pid::from_raw(station.pid() as i32), Signal::SIGHUP).unwrap();
    let until = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < until, "SIGHUP is not heard");
        std::thread::sleep(Duration::from_millis(10));
    }
    let up = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 4], 2).with(&IF_INDEX, Item::Integer(3));
    send(&up, &address);
    assert!(is_link_down(eventually(&file).trim_end()), "linkUp clears");
    line.clear();
    stream.read_line(&mut line).unwrap();
    assert!(is_link_down(line.trim_end()));
    let object = station.end();
    assert_eq!((&object["not_told"], &object["unaccounted"]), (&0.into(), &0.into()), "{object}");
    assert_eq!(std::fs::read_to_string(&moved).unwrap().lines().count(), 1);
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
    assert!(get("/").starts_with("HTTP/1.0 404"), "only /metrics is there");
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
    alarms(TEST, store, &["clear", &ids[0].to_string(), "--by", "alice"]);
    let until = Instant::now() + PATIENCE;
    while alarms(TEST, store, &["list", "--json"]).lines().count() != 1 {
        assert!(Instant::now() < until, "the station does not clear");
        std::thread::sleep(Duration::from_millis(50));
    }
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
fn net_trap_names_come_from_mib_files() {
    const TEST: &str = "net_trap_names_come_from_mib_files";
    const MIB: &str = r#"
EXAMPLE-MIB DEFINITIONS ::= BEGIN
IMPORTS MODULE-IDENTITY, OBJECT-TYPE, NOTIFICATION-TYPE, enterprises FROM SNMPv2-SMI;
exampleMIB MODULE-IDENTITY LAST-UPDATED "202601010000Z" ORGANIZATION "x" CONTACT-INFO "x" DESCRIPTION "x"
    ::= { enterprises 99999 }
exampleColour OBJECT-TYPE SYNTAX INTEGER { red(1), green(2) } MAX-ACCESS read-only STATUS current DESCRIPTION "x"
    ::= { exampleMIB 1 }
exampleEvent NOTIFICATION-TYPE OBJECTS { exampleColour } STATUS current DESCRIPTION "x" ::= { exampleMIB 0 1 }
END
"#;
    let folder = tempfile::tempdir().unwrap();
    let mibs = folder.path().join("mibs");
    std::fs::create_dir(&mibs).unwrap();
    std::fs::write(mibs.join("EXAMPLE-MIB.txt"), MIB).unwrap();
    let rule = "[[trap.rule]]\nnotification = \"exampleEvent\"\ncondition = \"colour\"\neffect = \"raise\"\nseverity = \"minor\"\nobject = [\"exampleColour\"]\n";
    let config = config(folder.path(), rule);
    let directory = folder.path().join("store");
    let (store, mibs) = (directory.to_str().unwrap(), mibs.to_str().unwrap());
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
    assert!(
        shown.contains("exampleEvent") && shown.contains("exampleColour.7") && shown.contains("green(2)"),
        "{shown}"
    );
    let bare = alarms(TEST, store, &["export"]);
    assert!(bare.contains("1.3.6.1.4.1.99999.1.7") && !bare.contains("exampleColour"), "{bare}");
}

#[test]
fn net_trap_posts_alarms_again_until_they_are_taken() {
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let to = server.server_addr().to_ip().unwrap();
    let (taken, posts) = mpsc::channel();
    std::thread::spawn(move || {
        // Twice out of order, then well.
        for (number, mut request) in server.incoming_requests().enumerate() {
            let mut body = String::new();
            request.as_reader().read_to_string(&mut body).unwrap();
            let kind = request.headers().iter().find(|header| header.field.equiv("content-type")).cloned();
            let code = if number < 2 { 503 } else { 200 };
            taken.send((code, kind.map(|header| header.value.to_string()), body)).unwrap();
            request.respond(tiny_http::Response::empty(code)).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &format!("[trap.webhook]\nurl = \"http://{to}/alarms\"\n"));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    send(&link_down(), &address);
    let mut seen = Vec::new();
    for expected in [503, 503, 200] {
        let (code, kind, body) = posts.recv_timeout(PATIENCE).unwrap();
        assert_eq!((code, kind.as_deref()), (expected, Some("application/json")));
        seen.push(body);
    }
    assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
    let alarms: Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(
        (&alarms[0]["condition"], &alarms[0]["object"], &alarms[0]["cleared"]),
        (&"linkDown".into(), &"3".into(), &false.into())
    );
    let object = station.end();
    assert_eq!((&object["announced"], &object["not_told"]), (&1.into(), &0.into()), "{object}");
    assert!(posts.try_recv().is_err(), "told once");
}

#[test]
fn net_trap_counts_what_a_webhook_never_takes_and_stores_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &format!("[trap.webhook]\nurl = \"http://127.0.0.1:{}/\"\n", port()));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    send(&link_down(), &address);
    drop(station.wait_for(1));
    let object = station.end();
    assert_eq!(
        (&object["stored"], &object["announced"], &object["not_told"]),
        (&1.into(), &1.into(), &1.into()),
        "{object}"
    );
}
