//! `ringtap correlate --sensors` as users run it: sealed datagrams and lines, forged ones, kills, a sensor that is silent,
//! metrics, and the packets of what was found.

mod attack_support;
mod correlate_support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use attack_support::correlation;
use correlate_support::{PATIENCE, RINGTAP, Running};
use nix::sys::signal::Signal;
use ringtap_datagram::{Action, Alert, Clock, Ends, Heartbeat, Key, MAX_LEN, Message, Origin, Rule};
use serde_json::Value;

const MS: u64 = 1_000_000;
const SECRET: [&str; 2] = ["000102030405060708090a0b0c0d0e0f", "f0e0d0c0b0a090807060504030201000"];

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A port that is free for both.
fn free() -> SocketAddr {
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

struct Sensor {
    name: &'static str,
    key: Key,
    epoch: u64,
    sequence: u64,
    socket: UdpSocket,
    to: SocketAddr,
}

impl Sensor {
    fn new(number: usize, to: SocketAddr) -> Self {
        let key = format!("{number}:{}", SECRET[number]).parse().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { name: ["a", "b"][number], key, epoch: 1, sequence: 0, socket, to }
    }

    fn origin(&self) -> Origin {
        Origin { sensor: self.name.parse().unwrap(), boot_id: [7; 16], clock: Clock::Host, epoch: self.epoch }
    }

    fn send(&self, message: &Message) {
        let mut payload = [0; MAX_LEN];
        let len = message.encode(&self.key, &mut payload).unwrap();
        self.socket.send_to(&payload[..len], self.to).unwrap();
    }

    fn alert(&mut self, sid: u32, time_ns: u64) -> Message {
        self.sequence += 1;
        let ends = Ends {
            source: "192.0.2.1".parse().unwrap(),
            destination: "198.51.100.2".parse().unwrap(),
            protocol: 17,
            ports: (1000, 53),
        };
        Message::Alert(Alert {
            origin: self.origin(),
            sequence: self.sequence,
            time_ns,
            built_ns: now_ns(),
            error_ns: Some(1000),
            rule: Rule { gid: 1, sid, rev: 1 },
            severity: 1,
            action: Action::Allowed,
            ends: Some(ends),
            direction: None,
            community: None,
        })
    }

    fn beat(&self, horizon_ns: u64) {
        let (origin, last_sequence) = (self.origin(), self.sequence);
        let beat = Heartbeat { origin, last_sequence, horizon_ns, sent_ns: now_ns(), error_ns: Some(1000) };
        self.send(&Message::Heartbeat(beat));
    }
}

fn started(folder: &Path, at: SocketAddr, more: &[&str]) -> Running {
    fs::write(folder.join("rules.yml"), correlation("10s")).unwrap();
    let mut config = String::new();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        private(&folder.join(format!("{name}.key")), &format!("{number}:{}\n", SECRET[number]));
        config +=
            &format!("[[correlate.sensor]]\nid = \"{name}\"\nkey-files = [\"{name}.key\"]\nrules = [\"s.rules\"]\n");
    }
    fs::write(folder.join("s.rules"), "alert udp any any -> any any (msg:\"Scan\"; sid:1;)\n").unwrap();
    private(&folder.join("ringtap.toml"), &config);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (rules, sensors, config, store) = (path("rules.yml"), at.to_string(), path("ringtap.toml"), path("store"));
    let arguments = ["--rules", &rules, "--sensors", &sensors, "--config", &config, "--store", &store];
    Running::start(&[&arguments, more].concat(), || TcpStream::connect(at).is_ok())
}

/// What is served at this path.
fn served(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Heartbeats of both sensors, as time goes on, until a thing is told.
fn beat_until(correlator: &mut Running, sensors: &[Sensor], event: &str) -> Value {
    std::thread::scope(|scope| {
        let (done, ended) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && ended.recv_timeout(Duration::from_millis(20)).is_err() {
                sensors.iter().for_each(|sensor| sensor.beat(now_ns() - MS));
            }
        });
        let told = correlator.wait_for(event);
        // Whether the thread is there still is its own concern.
        let _ = done.send(());
        told
    })
}

#[test]
fn an_attack_seen_by_two_sensors_is_found_by_their_promises() {
    let folder = tempfile::tempdir().unwrap();
    let (at, metrics, page) = (free(), free(), free());
    let more = ["--metrics", &metrics.to_string(), "--web", &page.to_string()];
    let mut correlator = started(folder.path(), at, &more);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    let start = now_ns() - 500 * MS;
    let scan = sensors[0].alert(1, start);
    sensors[0].send(&scan);
    // By a line of TCP; the second stage, and twice.
    let exploit = sensors[1].alert(2, start + 300 * MS);
    let mut line = Vec::new();
    exploit.write_line(Some(&sensors[1].key), &mut line);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&line).unwrap();
    stream.write_all(&line).unwrap();
    let provisional = correlator.wait_for("provisional");
    assert_eq!((&provisional["final"], &provisional["rule"]), (&false.into(), &"attack".into()));
    let opened = beat_until(&mut correlator, &sensors, "opened");
    assert_eq!((&opened["final"], &opened["incomplete"]), (&true.into(), &false.into()), "{opened}");
    assert_eq!((&opened["order_proven"], &opened["key"]["dest_ip"]), (&true.into(), &"198.51.100.2".into()));
    let members: Vec<&str> =
        opened["members"].as_array().unwrap().iter().map(|it| it["sensor"].as_str().unwrap()).collect();
    assert_eq!(members, ["a", "b"]);
    let text = served(metrics, "/metrics");
    assert!(text.contains("ringtap_correlate_sensor_heartbeats_total{sensor=\"a\"}"), "{text}");
    // The page: the incident, once it is stored, and its timeline.
    let id = opened["id"].as_str().unwrap();
    let until = Instant::now() + PATIENCE;
    while !served(page, "/").contains(&format!("href=\"/incident/{id}\"")) {
        assert!(Instant::now() < until, "{}", served(page, "/"));
        std::thread::sleep(Duration::from_millis(100));
    }
    while !served(page, "/").contains("<td><span>heard</span></td>") {
        assert!(Instant::now() < until, "{}", served(page, "/"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let timeline = served(page, &format!("/incident/{id}"));
    assert!(timeline.contains("&quot;Scan&quot;") && timeline.contains("<td><span>+300.000ms"), "{timeline}");
    assert_eq!(timeline.matches("<tr><td>").count(), 2, "{timeline}");
    assert!(served(page, "/incident/nobody").starts_with("HTTP/1.1 404"));
    let summary = correlator.end().0;
    let of =
        |name: &str| summary["registered"].as_array().unwrap().iter().find(|it| it["sensor"] == name).unwrap().clone();
    assert_eq!((of("a")["lost"].as_u64(), of("b")["duplicates"].as_u64()), (Some(0), Some(1)));

    // Its packets, of both recordings.
    let store = folder.path().join("store");
    let recordings = folder.path().join("recordings");
    fs::create_dir(&recordings).unwrap();
    recording(&recordings.join("a.pcap"), &[(start, 1000), (start + 20_000 * MS, 1000), (start + MS, 2000)]);
    recording(&recordings.join("b.pcap"), &[(start + 2 * MS, 1000)]);
    let id = &opened["id"].as_str().unwrap()[..8];
    let write = folder.path().join("found.pcapng");
    let output = Command::new(RINGTAP)
        .args(["alarms", "export", id, "--incidents", "--store", store.to_str().unwrap(), "--packets"])
        .args([recordings.to_str().unwrap(), "--around", "5s", "-w", write.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("2 packets of 2 recordings"), "{said}");
    let bytes = fs::read(write).unwrap();
    let names = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(names("a.pcap") && names("b.pcap"));
    let one = Command::new(RINGTAP)
        .args(["alarms", "export", id, "--incidents", "--store", store.to_str().unwrap()])
        .output()
        .unwrap();
    let one: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(one["members"][0]["content"]["alert"]["signature"], "Scan");
}

/// A classic pcap file of UDP datagrams of the attack's hosts, by time and source port.
fn recording(path: &Path, packets: &[(u64, u16)]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (time_ns, port) in packets {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 53, 0, 8, 0, 0]);
        let len = frame.len() as u32;
        for word in [(time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn who_has_no_key_adds_nothing_and_moves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = free();
    let mut correlator = started(folder.path(), at, &[]);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    let start = now_ns() - 500 * MS;
    // An attack and promises with the other's key, as an unknown sensor, as bytes, and as lines without a seal.
    let mut forged = Sensor { key: Key::new(0, &[9; 16]).unwrap(), ..Sensor::new(0, at) };
    let mut unknown = Sensor { name: "c", ..Sensor::new(0, at) };
    for other in [&mut forged, &mut unknown] {
        for sid in [1, 2] {
            let alert = other.alert(sid, start + u64::from(sid));
            other.send(&alert);
        }
        other.beat(now_ns() - MS);
    }
    forged.socket.send_to(b"{\"time\":1}", at).unwrap();
    for message in [sensors[0].alert(1, start), sensors[1].alert(2, start + 1)] {
        let mut line = Vec::new();
        message.write_line(None, &mut line);
        TcpStream::connect(at).unwrap().write_all(&line).unwrap();
    }
    (sensors[0].sequence, sensors[1].sequence) = (0, 0);
    // The truth: a scan alone.
    let scan = sensors[0].alert(1, start + 100 * MS);
    sensors[0].send(&scan);
    let began = beat_until(&mut correlator, &sensors, "sensor");
    assert_eq!(began["state"], "began");
    std::thread::sleep(Duration::from_millis(300));
    sensors.iter().for_each(|sensor| sensor.beat(now_ns() - MS));
    std::thread::sleep(Duration::from_millis(300));
    let summary = correlator.end().0;
    assert_eq!(
        (summary["events"].as_u64(), summary["rules"][0]["incidents"].as_u64()),
        (Some(1), Some(0)),
        "{summary}"
    );
    let refused = &summary["refused"];
    assert_eq!(
        (refused["unknown"].as_u64(), refused["forged"].as_u64(), refused["foreign"].as_u64()),
        (Some(3), Some(5), Some(1)),
        "{refused}"
    );
}

#[test]
fn killed_it_goes_on_and_counts_what_was_sent_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let at = free();
    let mut correlator = started(folder.path(), at, &[]);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    let start = now_ns();
    let scan = sensors[0].alert(1, start);
    sensors[0].send(&scan);
    beat_until(&mut correlator, &sensors, "sensor");
    // On the disk within 100 ms.
    std::thread::sleep(Duration::from_millis(500));
    correlator.child.kill().unwrap();
    correlator.child.wait().unwrap();
    // Nobody hears these.
    sensors[0].alert(2, now_ns());
    sensors[0].alert(2, now_ns());
    let mut correlator = started(folder.path(), at, &["--silence", "60s"]);
    // What it had before is known; what comes now belongs to it.
    sensors[0].send(&scan);
    let exploit = sensors[1].alert(2, now_ns());
    sensors[1].send(&exploit);
    let opened = beat_until(&mut correlator, &sensors, "opened");
    assert_eq!((&opened["start_ns"], &opened["incomplete"]), (&start.into(), &true.into()), "{opened}");
    let summary = correlator.end().0;
    let first = &summary["registered"][0];
    assert_eq!((first["lost"].as_u64(), first["duplicates"].as_u64()), (Some(2), Some(1)), "{summary}");
}

#[test]
fn a_silent_sensor_is_told_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = free();
    let mut correlator = started(folder.path(), at, &["--silence", "700ms"]);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    let start = now_ns();
    for (number, sid) in [(0, 1), (1, 2)] {
        let alert = sensors[number].alert(sid, start + number as u64);
        sensors[number].send(&alert);
    }
    // The second one is never heard again.
    // The first one's heartbeats may be held up for that long on a busy machine: told of it, too, for a while.
    loop {
        let told = beat_until(&mut correlator, &sensors[..1], "sensor");
        if (&told["state"], &told["sensor"]) == (&"silent".into(), &"b".into()) {
            break;
        }
        assert_eq!(told["sensor"], "a", "{told}");
    }
    let opened = beat_until(&mut correlator, &sensors[..1], "opened");
    assert_eq!(opened["incomplete"], true);
    assert_eq!(correlator.end().0["registered"][1]["silences"], 1);
}

/// The next thing that is told of a sensor.
fn state_of(correlator: &mut Running, sensor: &str, state: &str) -> Value {
    loop {
        let told = correlator.wait_for("sensor");
        if told["sensor"] == sensor && told["state"] == state {
            return told;
        }
    }
}

#[test]
fn keys_are_read_again_without_losing_a_window_or_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let at = free();
    let mut correlator = started(folder.path(), at, &["--silence", "60s"]);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    let scan = sensors[0].alert(1, now_ns());
    sensors[0].send(&scan);
    beat_until(&mut correlator, &sensors, "sensor");
    // b goes, c comes with a key that lies beside the others now.
    private(&folder.path().join("c.key"), &format!("1:{}\n", SECRET[1]));
    let config = fs::read_to_string(folder.path().join("ringtap.toml")).unwrap();
    private(&folder.path().join("ringtap.toml"), &config.replace("\"b\"", "\"c\"").replace("b.key", "c.key"));
    let (said, lines) = std::sync::mpsc::channel();
    let stderr = BufReader::new(correlator.child.stderr.take().unwrap());
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
    correlator.signal(Signal::SIGHUP);
    let mut told = Vec::new();
    while !told.iter().any(|line: &String| line.contains("2 sensors are registered now")) {
        told.push(lines.recv_timeout(PATIENCE).unwrap());
    }
    let gone = told.iter().filter(|line| line.contains("sensor b is registered no longer")).count();
    assert_eq!(gone, 1, "{told:?}");
    // What b sends is refused. What a said before the change counts, with the numbers it had.
    let refused = sensors[1].alert(2, now_ns());
    sensors[1].send(&refused);
    sensors[0].send(&scan);
    let mut new = Sensor { name: "c", ..Sensor::new(1, at) };
    let exploit = new.alert(2, now_ns());
    new.send(&exploit);
    let [first, _] = sensors;
    let opened = beat_until(&mut correlator, &[first, new], "opened");
    assert_eq!(opened["members"][1]["sensor"], "c", "{opened}");
    // A configuration that is broken, or registers nobody, changes nothing.
    for broken in ["[[correlate.sensor]]\nid = 1\n", ""] {
        private(&folder.path().join("ringtap.toml"), broken);
        correlator.signal(Signal::SIGHUP);
        let line = std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok()).find(|line| line.contains("the keys stay"));
        assert!(line.is_some_and(|line| line.contains("ringtap.toml")));
    }
    correlator.signal(Signal::SIGTERM);
    let summary = correlator.wait_for("summary");
    assert!(correlator.child.wait().unwrap().success());
    assert_eq!(summary["registered"][0]["duplicates"], 1, "{summary}");
    let registered: Vec<_> = (0..3).map(|at| summary["registered"][at]["registered"].as_bool()).collect();
    assert_eq!((registered, &summary["refused"]["unknown"]), (vec![Some(true), Some(false), Some(true)], &1.into()));
}

#[test]
fn what_sensors_do_wrong_is_told_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let at = free();
    let mut correlator = started(folder.path(), at, &["--silence", "60s"]);
    let mut sensors = [Sensor::new(0, at), Sensor::new(1, at)];
    beat_until(&mut correlator, &sensors, "sensor");
    // Four alarms are lost on the way.
    let start = now_ns();
    sensors[0].sequence += 4;
    sensors.iter().for_each(|sensor| sensor.beat(now_ns() - MS));
    let missing = state_of(&mut correlator, "a", "missing");
    assert!(missing["count"] == 4 && missing["to_ns"].as_u64().unwrap() >= start, "{missing}");
    // It is started again: new numbers, from the first.
    (sensors[0].epoch, sensors[0].sequence) = (2, 0);
    sensors[0].beat(now_ns() - MS);
    state_of(&mut correlator, "a", "began");
    // A second one has its name and key.
    let twin = Sensor { epoch: 1, ..Sensor::new(0, at) };
    let until = Instant::now() + PATIENCE;
    std::thread::scope(|scope| {
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let (a, twin) = (&sensors[0], &twin);
        scope.spawn(move || {
            while Instant::now() < until && ended.recv_timeout(Duration::from_millis(20)).is_err() {
                a.beat(now_ns() - MS);
                twin.beat(now_ns() - MS);
            }
        });
        state_of(&mut correlator, "a", "twice");
        let _ = done.send(());
    });
    // b is a day ahead.
    let future = sensors[1].alert(1, now_ns() + 86_400_000 * MS);
    sensors[1].send(&future);
    state_of(&mut correlator, "b", "quarantined");
    let (summary, _) = correlator.end();
    let of = |sensor: usize, name: &str| summary["registered"][sensor][name].clone();
    assert_eq!((of(0, "lost"), of(0, "twice"), of(1, "future")), (4.into(), true.into(), 1.into()), "{summary}");
    let unseen = summary["could_not_have_seen"].to_string();
    for part in ["sensor a lost 4 alarms on the way, of 20", "sensor a is there twice", "sensor b is in quarantine"] {
        assert!(unseen.contains(part), "{unseen}");
    }
}

#[test]
fn nonsense_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yml"), correlation("10s")).unwrap();
    private(&folder.path().join("empty.toml"), "");
    let rules = folder.path().join("rules.yml");
    let empty = folder.path().join("empty.toml");
    let (rules, empty) = (rules.to_str().unwrap(), empty.to_str().unwrap());
    for (arguments, code, part) in [
        (&["--sensors", "127.0.0.1:1"][..], 2, "--config"),
        (&["--sensors", "127.0.0.1:1", "--config", empty], 2, "[[correlate.sensor]]"),
        (&["--sensors", "127.0.0.1:1", "--config", empty, "--read", "x"], 2, "cannot be used with"),
    ] {
        let output =
            Command::new(RINGTAP).args([&["correlate", "--rules", rules], arguments].concat()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(part) && err.lines().count() == 1, "{arguments:?}: {err}");
    }
}
