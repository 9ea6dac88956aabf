//! Several interfaces at once: one ledger each and in total, flows that come by more than one of them, and one that goes away.

mod capture_support;

use std::collections::BTreeMap;
use std::path::Path;

use capture_support::frames::{ipv4, udp};
use capture_support::{
    Capture, assert_clean, folder, ip, packets_in, send_frames, send_frames_by, send_numbered, testbed, tool,
};
use nix::sys::signal::Signal;
use ringtap_samples::apps;
use ringtap_samples::frames::{Ends, Session};
use ringtap_testbed::{Host, Testbed, TestbedConfig};
use serde_json::Value;

/// A second interface of the receiver; its other end, where frames are sent, is there too.
const SECOND: &str = "second0";
const SECOND_SENDER: &str = "second1";

fn two(test: &str) -> Testbed {
    let testbed = testbed(test, TestbedConfig::default());
    let host = testbed.receiver();
    ip(host, &format!("link add {SECOND} type veth peer name {SECOND_SENDER}"));
    ip(host, &format!("link set {SECOND} up"));
    ip(host, &format!("link set {SECOND_SENDER} up"));
    testbed
}

fn to_second(testbed: &Testbed, count: u16) {
    let frame = |number: u16| ipv4(17, [198, 51, 100, 1], [198, 51, 100, 2], 0, &udp(5000, number, b"second"));
    let frames: Vec<Vec<u8>> = (0..count).map(frame).collect();
    send_frames_by(testbed.receiver(), SECOND_SENDER, &frames);
}

/// Packets in a file by the name of their interface.
fn by_interface(test: &str, file: &Path) -> BTreeMap<String, u64> {
    let names = tool(test, "tshark", &["-r", file.to_str().unwrap(), "-T", "fields", "-e", "frame.interface_name"]);
    let mut counts = BTreeMap::new();
    names.lines().for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
    counts
}

#[test]
fn net_two_interfaces_have_a_ledger_each_and_one_file() {
    const TEST: &str = "net_two_interfaces_have_a_ledger_each_and_one_file";
    for backend in ["xdp", "packet"] {
        let testbed = two(TEST);
        let first = testbed.receiver().interface();
        let (_folder, file) = folder();
        let arguments = ["-i", SECOND, "--backend", backend, "-w", file.to_str().unwrap()];
        let capture = Capture::begin(testbed.receiver(), &arguments);
        capture.wait_for("2 rings, ");
        capture.wait_for(&format!("capturing from {first} ({backend}), {SECOND} ({backend})"));
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 50e3, 500);
        to_second(&testbed, 300);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["object"], format!("{first}, {SECOND}"));
        assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&800.into(), &0.into()), "{summary}");
        for (number, (name, packets)) in [(first, 500), (SECOND, 300)].into_iter().enumerate() {
            let own = &summary["interfaces"][number];
            assert_eq!((&own["name"], &own["packets"], &own["ending"]), (&name.into(), &packets.into(), &Value::Null));
            let ledger = &own["ledger"];
            assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&packets.into(), &0.into()), "{summary}");
        }
        let counts = BTreeMap::from([(first.to_owned(), 500), (SECOND.to_owned(), 300)]);
        assert_eq!(by_interface(TEST, &file), counts, "{backend}");
        let statistics = tool(TEST, "capinfos", &["-I", file.to_str().unwrap()]);
        for delivered in ["delivered 500 ", "delivered 300 "] {
            assert!(std::fs::read(&file).unwrap().windows(14).any(|it| it == delivered.as_bytes()), "{statistics}");
        }
        assert_clean(&testbed);
    }
}

#[test]
fn net_one_interface_goes_away_and_the_other_is_captured_on() {
    const TEST: &str = "net_one_interface_goes_away_and_the_other_is_captured_on";
    for backend in ["xdp", "packet"] {
        let testbed = two(TEST);
        let first = testbed.receiver().interface();
        let (_folder, file) = folder();
        let arguments = ["-i", SECOND, "--backend", backend, "-w", file.to_str().unwrap()];
        let capture = Capture::start(&testbed, &arguments);
        testbed.enable_receiver_napi().unwrap();
        to_second(&testbed, 40);
        ip(testbed.receiver(), &format!("link del {SECOND}"));
        capture.wait_for(&format!("{SECOND}: the interface was removed; what was captured before is complete — going on with {first}"));
        send_numbered(&testbed, 50e3, 200);
        // With the last one the capture ends as with a single one.
        ip(testbed.receiver(), &format!("link del {first}"));
        let ended = capture.end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["ending"], "interface_gone");
        assert_eq!(summary["interfaces"][1]["ending"], "interface_gone", "{summary}");
        assert_eq!(summary["interfaces"][1]["packets"], 40, "{summary}");
        assert!(summary["packets"].as_u64().unwrap() >= 240, "{summary}");
        assert_eq!(packets_in(TEST, &file), summary["packets"]);
    }
}

#[test]
fn net_an_interface_named_twice_and_a_second_one_that_fails_leave_nothing_behind() {
    const TEST: &str = "net_an_interface_named_twice_and_a_second_one_that_fails_leave_nothing_behind";
    let testbed = two(TEST);
    let host = testbed.receiver();
    ip(host, &format!("link property add dev {SECOND} altname also-second"));
    let refused = |extra: &[&str], code: i32, parts: &[&str]| {
        let arguments = [&["--backend", "xdp"], extra].concat();
        Capture::begin(host, &arguments).end().assert_refused(code, parts);
        assert_clean(&testbed);
    };
    refused(&["-i", host.interface()], 2, &["named twice", "once"]);
    refused(&["-i", SECOND, "-i", "also-second"], 2, &[SECOND, "named twice"]);
    refused(&["-i", "no-such-if0"], 1, &["no-such-if0", "no such interface"]);
    // Found, and refused only when the first one is open.
    ip(host, &format!("link set {SECOND} mtu 9000"));
    refused(&["-i", SECOND, "--frame-size", "2KiB"], 1, &[SECOND, "MTU 9000"]);
    ip(host, "tuntap add mode tun name tun0");
    ip(host, "link set tun0 up");
    let (_folder, file) = folder();
    let arguments = ["-i", "tun0", "--backend", "packet", "--pcap", "-w", file.to_str().unwrap()];
    Capture::begin(host, &arguments).end().assert_refused(2, &["one link type only", "pcapng"]);
}

/// Runs the sensor on the testbed's interface and the second one.
fn sensor(host: &Host, rules: &Path, extra: &[&str]) -> Capture {
    let mut command = host.command(capture_support::RINGTAP);
    command.args(["sensor", "-i", host.interface(), "--json", "--no-checksums", "--flows", "4096"]);
    command.args(["-S", rules.to_str().unwrap()]).args(extra);
    let sensor = Capture::of(host, command);
    sensor.wait_for("watching");
    sensor
}

/// Rules that need both directions of a flow, and all fragments of a datagram.
fn rules(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("flows.rules");
    let text = [
        r#"alert tcp any any -> any any (msg:"answer"; flow:established,to_client; content:"HTTP/1.1"; sid:1;)"#,
        r#"alert udp any any -> any 9 (msg:"whole"; content:"first-half-second-half"; sid:2;)"#,
    ];
    std::fs::write(&file, text.join("\n")).unwrap();
    file
}

const SESSIONS: u8 = 8;

/// Sessions as a tap gives them: what clients say by one interface, what servers say by the other.
fn tapped() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for number in 0..SESSIONS {
        let ends = Ends::new(&format!("192.0.2.{}", number + 1), "198.51.100.9");
        let session = Session::open(ends, [40_000 + u16::from(number), 80])
            .client(&apps::http_request("/", "example.test"), 1000)
            .server(&apps::http_answer(300), 1000);
        for frame in session.close() {
            if frame[26] == 192 { clients.push(frame) } else { servers.push(frame) }
        }
        // One datagram in two fragments, the second one by the other interface.
        let whole = udp(7, 9, b"....first-half-second-half....");
        let (source, destination) = ([192, 0, 2, number + 1], [203, 0, 113, 5]);
        clients.push(ipv4(17, source, destination, 0x2000, &whole[..24]));
        servers.push(ipv4(17, source, destination, 3, &whole[24..]));
    }
    (clients, servers)
}

#[test]
fn net_sensor_sees_whole_flows_of_two_interfaces() {
    const TEST: &str = "net_sensor_sees_whole_flows_of_two_interfaces";
    let (clients, servers) = tapped();
    let sent = (clients.len() + servers.len()) as u64;
    for backend in ["xdp", "packet"] {
        let testbed = two(TEST);
        let folder = tempfile::tempdir().unwrap();
        let sensor = sensor(testbed.receiver(), &rules(folder.path()), &["-i", SECOND, "--backend", backend]);
        testbed.enable_receiver_napi().unwrap();
        // One after the other, as they pass on the wire.
        let (mut a, mut b) = (clients.iter(), servers.iter());
        for _ in 0..clients.len().max(servers.len()) {
            send_frames(&testbed, &a.by_ref().take(1).cloned().collect::<Vec<_>>());
            send_frames_by(testbed.receiver(), SECOND_SENDER, &b.by_ref().take(1).cloned().collect::<Vec<_>>());
        }
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["packets"], sent, "{backend}: {summary}");
        assert_eq!(summary["alerts"], 2 * u64::from(SESSIONS), "{backend}: {summary}");
        assert!(summary["handed_over"].as_u64().unwrap() > 0, "{summary}");
        assert_eq!((&summary["ledger"]["unaccounted"], &summary["ledger"]["lost"]), (&0.into(), &0.into()), "{summary}");
        let names: Vec<&str> = summary["interfaces"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, [testbed.receiver().interface(), SECOND]);
        assert_clean(&testbed);
    }
}

#[test]
fn net_sensor_goes_on_when_one_interface_goes_away() {
    const TEST: &str = "net_sensor_goes_on_when_one_interface_goes_away";
    let testbed = two(TEST);
    let folder = tempfile::tempdir().unwrap();
    let mut sensor = sensor(testbed.receiver(), &rules(folder.path()), &["-i", SECOND, "--backend", "xdp"]);
    testbed.enable_receiver_napi().unwrap();
    ip(testbed.receiver(), &format!("link del {SECOND}"));
    sensor.wait_for("going on with");
    // All sessions by the interface that is left, also those whose engine was the other one.
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let ends = Ends::new(&format!("192.0.2.{}", number + 1), "198.51.100.9");
        let session = Session::open(ends, [40_000, 80]).client(&apps::http_request("/", "example.test"), 1000);
        sessions.extend(session.server(&apps::http_answer(300), 1000).close());
    }
    send_frames(&testbed, &sessions);
    sensor.signal(Signal::SIGTERM);
    let ended = sensor.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!((&summary["alerts"], &summary["interfaces"][1]["ending"]), (&SESSIONS.into(), &"interface_gone".into()));
}
