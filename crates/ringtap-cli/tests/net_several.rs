//! Several interfaces at once: one ledger each and in total, flows that come by more than one of them, and one that goes away.

mod capture_support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use capture_support::frames::{ipv4, udp};
use capture_support::{
    Capture, NUMBERS, RINGTAP, Wire, assert_clean, folder, ip, packets_in, send_frames, send_frames_by, send_numbered,
    testbed, tool,
};
use nix::sys::signal::Signal;
use ringtap_samples::apps;
use ringtap_samples::frames::{Ends, Session};
use ringtap_testbed::{GeneratorConfig, Host, Pattern, Profile, Testbed, TestbedConfig};
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
        capture.wait_for(&format!(
            "{SECOND}: the interface was removed; what was captured before is complete — going on with {first}"
        ));
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
        let backend: &[&str] = if extra.contains(&"--backend") { &[] } else { &["--backend", "xdp"] };
        let arguments = [backend, extra].concat();
        let ended = Capture::begin(host, &arguments).end();
        // What was told before memory was taken stands above it.
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(ended.code() == code && parts.iter().all(|part| last.contains(part)), "{}", ended.stderr);
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
    refused(
        &["-i", "tun0", "--backend", "packet", "--pcap", "-w", file.to_str().unwrap()],
        2,
        &["one link type only", "pcapng"],
    );
}

/// Runs the sensor on the testbed's interface and the second one.
fn sensor(host: &Host, rules: &Path, extra: &[&str]) -> Capture {
    let mut command = host.command(RINGTAP);
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
        r#"alert udp any any -> any 9 (msg:"whole"; flow:established; content:"first-half-second-half"; sid:2;)"#,
    ];
    std::fs::write(&file, text.join("\n")).unwrap();
    file
}

const SESSIONS: u8 = 8;
/// Between two frames of a session that come by different queues: many times the latency that the sensor is asked for.
const APART: Duration = Duration::from_millis(20);

/// Sessions in the order of the wire, each frame with whether it goes the other way. In each a TCP connection with an answer, and
/// datagrams of which the last one comes in two fragments, the second one as if it went the other way.
fn sessions() -> Vec<(bool, Vec<u8>)> {
    let mut frames = Vec::new();
    for number in 0..SESSIONS {
        let ends = Ends::new(&format!("192.0.2.{}", number + 1), "198.51.100.9");
        let session = Session::open(ends, [40_000 + u16::from(number), 80])
            .client(&apps::http_request("/", "example.test"), 1000)
            .server(&apps::http_answer(300), 1000);
        frames.extend(session.close().into_iter().map(|frame| (frame[26] != 192, frame)));
        let (source, destination) = ([192, 0, 2, number + 1], [203, 0, 113, 5]);
        let whole = udp(7, 9, b"....first-half-second-half....");
        frames.push((false, ipv4(17, source, destination, 0, &udp(7, 9, b"question"))));
        frames.push((true, ipv4(17, destination, source, 0, &udp(9, 7, b"answer"))));
        frames.push((false, ipv4(17, source, destination, 0x2000, &whole[..24])));
        frames.push((true, ipv4(17, source, destination, 3, &whole[24..])));
    }
    frames
}

/// All found, nothing lost.
fn assert_found(summary: &Value, what: &str) {
    assert_eq!(summary["packets"], sessions().len(), "{what}: {summary}");
    assert_eq!(summary["alerts"], 2 * u64::from(SESSIONS), "{what}: {summary}");
    let ledger = &summary["ledger"];
    assert_eq!((&ledger["unaccounted"], &ledger["lost"]), (&0.into(), &0.into()), "{what}: {summary}");
}

#[test]
fn net_sensor_sees_whole_flows_of_two_interfaces() {
    const TEST: &str = "net_sensor_sees_whole_flows_of_two_interfaces";
    for backend in ["xdp", "packet"] {
        let testbed = two(TEST);
        let folder = tempfile::tempdir().unwrap();
        let sensor = sensor(testbed.receiver(), &rules(folder.path()), &["-i", SECOND, "--backend", backend]);
        testbed.enable_receiver_napi().unwrap();
        let mut there = Wire::open(testbed.sender(), testbed.sender().interface());
        let mut back = Wire::open(testbed.receiver(), SECOND_SENDER);
        for (other_way, frame) in sessions() {
            if other_way {
                back.send(&[frame])
            } else {
                there.send(&[frame])
            }
            std::thread::sleep(APART);
        }
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_found(&summary, backend);
        assert!(summary["handed_over"].as_u64().unwrap() > 0, "{summary}");
        let interfaces = summary["interfaces"].as_array().unwrap();
        let names: Vec<&str> = interfaces.iter().filter_map(|interface| interface["name"].as_str()).collect();
        assert_eq!(names, [testbed.receiver().interface(), SECOND]);
        assert_clean(&testbed);
    }
}

/// Runs `work` on this CPU: a veth puts a frame on the queue of the CPU that sends it.
fn on_cpu<T>(cpu: usize, work: impl FnOnce() -> T) -> T {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    let this = nix::unistd::Pid::from_raw(0);
    let before = sched_getaffinity(this).unwrap();
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(this, &only).unwrap();
    let done = work();
    sched_setaffinity(this, &before).unwrap();
    done
}

#[test]
fn net_sensor_sees_whole_flows_of_several_queues() {
    const TEST: &str = "net_sensor_sees_whole_flows_of_several_queues";
    for (backend, hands_over) in [("xdp", true), ("packet", false)] {
        let testbed = testbed(TEST, TestbedConfig { queues: 4, ..TestbedConfig::default() });
        let folder = tempfile::tempdir().unwrap();
        let sensor = sensor(testbed.receiver(), &rules(folder.path()), &["--backend", backend, "--queues", "4"]);
        testbed.enable_receiver_napi().unwrap();
        let mut wire = Wire::open(testbed.sender(), testbed.sender().interface());
        for (other_way, frame) in sessions() {
            on_cpu(other_way.into(), || wire.send(&[frame]));
            std::thread::sleep(APART);
        }
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_found(&summary, backend);
        assert_eq!(summary["handed_over"].as_u64().unwrap() > 0, hands_over, "{backend}: {summary}");
        let used = summary["engines"].as_array().unwrap().iter().filter(|it| it["decoder"]["pkts"] != 0).count();
        assert!(used > 1, "{backend}: {summary}");
    }
}

/// 10.1.0.7 speaks to 10.2.0.7, and so on: what is joined of their addresses must not be the same for all.
#[test]
fn net_hosts_that_are_numbered_alike_are_spread_over_threads() {
    const TEST: &str = "net_hosts_that_are_numbered_alike_are_spread_over_threads";
    let v4 = |host: u8| ipv4(17, [10, 1, 0, host], [10, 2, 0, host], 0, &udp(7, 9, b"alike"));
    let v6 = |host: u8| {
        let mut frame = vec![0; 14 + 40 + 8];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        (frame[14], frame[19], frame[20], frame[21]) = (0x60, 8, 17, 64);
        for (at, net) in [(22, 1), (38, 2)] {
            (frame[at], frame[at + 1], frame[at + 5], frame[at + 15]) = (0x20, 0x01, net, host);
        }
        (frame[55], frame[57], frame[59]) = (7, 9, 8);
        frame
    };
    let kinds: [Vec<Vec<u8>>; 2] = [(1..=200).map(v4).collect(), (1..=200).map(v6).collect()];
    for arguments in [["--backend", "packet", "--queues", "4"], ["--backend", "xdp", "--handlers", "4"]] {
        for frames in &kinds {
            let testbed = testbed(TEST, TestbedConfig::default());
            let folder = tempfile::tempdir().unwrap();
            let sensor = sensor(testbed.receiver(), &rules(folder.path()), &arguments);
            testbed.enable_receiver_napi().unwrap();
            send_frames(&testbed, frames);
            let ended = sensor.interrupt();
            assert_eq!(ended.code(), 0, "{}", ended.stderr);
            let summary = ended.summary();
            let engines = summary["engines"].as_array().unwrap();
            let counts: Vec<u64> = engines.iter().filter_map(|engine| engine["decoder"]["pkts"].as_u64()).collect();
            assert_eq!((counts.len(), counts.iter().sum::<u64>()), (4, 200), "{arguments:?}: {summary}");
            assert!(counts.iter().all(|&count| count > 20), "{arguments:?}: {counts:?}");
        }
    }
}

#[test]
fn net_more_than_128_queues_are_captured() {
    const TEST: &str = "net_more_than_128_queues_are_captured";
    const QUEUES: u16 = 160;
    const DATAGRAMS: u16 = 3000;
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let queues = format!("numrxqueues {QUEUES} numtxqueues {QUEUES}");
    ip(host, &format!("link add {SECOND} {queues} type veth peer name {SECOND_SENDER} {queues}"));
    for name in [SECOND, SECOND_SENDER] {
        ip(host, &format!("link set {name} addrgenmode none up"));
    }
    ip(host, &format!("address add 198.18.7.1/24 dev {SECOND_SENDER}"));
    ip(host, &format!("neighbor add 198.18.7.2 lladdr 02:00:00:00:00:02 dev {SECOND_SENDER}"));
    let mut command = host.command(RINGTAP);
    command.args(["capture", "-i", SECOND, "--backend", "xdp", "--json"]).args(NUMBERS).arg("udp");
    let capture = Capture::of(host, command);
    capture.wait_for("capturing from");
    // A socket without a peer: the kernel chooses a queue for each datagram, by its flow.
    let send = || {
        let socket = std::net::UdpSocket::bind("198.18.7.1:0").unwrap();
        for port in 1..=DATAGRAMS {
            socket.send_to(b"by one of many queues", ("198.18.7.2", port)).unwrap();
        }
    };
    host.run(send).unwrap();
    let queues = queues_with_packets(host);
    std::thread::sleep(Duration::from_millis(200));
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&DATAGRAMS.into(), &0.into()), "{summary}");
    assert_eq!(summary["sources"].as_array().unwrap().len(), usize::from(QUEUES), "{summary}");
    assert!(queues.iter().any(|queue| *queue >= 128), "none came by a queue above 127: {queues:?}");
    assert_clean(&testbed);
}

/// By the driver's own counters.
fn queues_with_packets(host: &Host) -> Vec<u32> {
    let run = || std::process::Command::new("ethtool").args(["-S", SECOND]).output().unwrap();
    let output = host.run(run).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let queue = |line: &str| {
        let (name, count) = line.trim().split_once(": ")?;
        let number = name.strip_prefix("rx_queue_")?.strip_suffix("_xdp_packets")?;
        (count != "0").then(|| number.parse().ok())?
    };
    text.lines().filter_map(queue).collect()
}

#[test]
fn net_one_ring_feeds_several_threads_of_the_sensor() {
    const TEST: &str = "net_one_ring_feeds_several_threads_of_the_sensor";
    for backend in ["xdp", "packet"] {
        let testbed = testbed(TEST, TestbedConfig::default());
        let folder = tempfile::tempdir().unwrap();
        let rules = rules(folder.path());
        let counting =
            "alert udp any any -> any 99 (msg:\"c\"; threshold:type limit,track by_src,count 1,seconds 9; sid:77;)\n";
        std::fs::write(&rules, std::fs::read_to_string(&rules).unwrap() + "\n" + counting).unwrap();
        let sensor = sensor(testbed.receiver(), &rules, &["--backend", backend, "--handlers", "4"]);
        testbed.enable_receiver_napi().unwrap();
        let mut wire = Wire::open(testbed.sender(), testbed.sender().interface());
        // At once: one ring has them in order.
        let frames: Vec<Vec<u8>> = sessions().into_iter().map(|(_, frame)| frame).collect();
        wire.send(&frames);
        let ended = sensor.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_found(&summary, backend);
        for told in [
            "packets are handed over to the engine of their flow, by queues of ",
            "1 rules count, or keep bits, by one host or by rule: each of 4 engines does so for itself",
        ] {
            assert!(ended.stderr.contains(told), "{}", ended.stderr);
        }
        let engines = summary["engines"].as_array().unwrap();
        let used = engines.iter().filter(|engine| engine["decoder"]["pkts"] != 0).count();
        assert!(engines.len() == 4 && used > 1, "{backend}: {summary}");
        assert!(summary["handed_over"].as_u64().unwrap() > 0, "{summary}");
        assert_clean(&testbed);
    }
}

/// veth does not run an XDP program on queues that come later, so what comes there is unknown.
#[test]
fn net_queues_that_are_added_while_running_are_told() {
    const TEST: &str = "net_queues_that_are_added_while_running_are_told";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let ethtool = |arguments: &str| {
        let run = || std::process::Command::new("ethtool").args(arguments.split(' ')).status().unwrap();
        assert!(host.run(run).unwrap().success(), "ethtool {arguments}");
    };
    ip(
        host,
        &format!(
            "link add {SECOND} numrxqueues 4 numtxqueues 4 type veth peer name {SECOND_SENDER} numrxqueues 4 numtxqueues 4"
        ),
    );
    for name in [SECOND, SECOND_SENDER] {
        ethtool(&format!("-L {name} rx 1 tx 1"));
        ip(host, &format!("link set {name} up"));
    }
    let capture = Capture::start(&testbed, &["-i", SECOND, "--backend", "xdp"]);
    ethtool(&format!("-L {SECOND} rx 4"));
    capture.wait_for(&format!("{SECOND} has 4 receive queues now and had 1"));
    ethtool(&format!("-L {SECOND_SENDER} tx 4"));
    let frame = ipv4(17, [198, 51, 100, 1], [198, 51, 100, 2], 0, &udp(5000, 1, b"new"));
    on_cpu(1, || send_frames_by(host, SECOND_SENDER, &vec![frame; 10]));
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    let ledger = |number: usize| &summary["interfaces"][number]["ledger"];
    for unknown in [&ledger(1)["offered"], &ledger(1)["drops"]["no_socket"], &ledger(1)["unaccounted"]] {
        assert!(unknown.is_null(), "{summary}");
    }
    assert_eq!(ledger(0)["unaccounted"], 0, "the other interface is as it was: {summary}");
    assert!(summary["warnings"].to_string().contains("4 receive queues now"), "{summary}");
}

/// The ring of the flooded engine does not run empty, and still it handles what others hand it, and others what it hands them.
#[test]
fn net_sensor_handles_what_is_handed_over_while_one_ring_is_flooded() {
    const TEST: &str = "net_sensor_handles_what_is_handed_over_while_one_ring_is_flooded";
    /// It is stopped as soon as all has been told.
    const FLOOD: Duration = Duration::from_secs(60);
    let testbed = two(TEST);
    let folder = tempfile::tempdir().unwrap();
    let eve = folder.path().join("eve.json");
    let extra = ["-i", SECOND, "--backend", "xdp", "--eve", eve.to_str().unwrap()];
    let sensor = sensor(testbed.receiver(), &rules(folder.path()), &extra);
    testbed.enable_receiver_napi().unwrap();
    let profile = Profile::lasting(Pattern::Constant { pps: 1e6 }, FLOOD);
    let flood = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile)).unwrap();
    while flood.progress().unwrap().stamped < 1_000_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let frames: Vec<Vec<u8>> = sessions().into_iter().map(|(_, frame)| frame).collect();
    send_frames_by(testbed.receiver(), SECOND_SENDER, &frames);
    let told = || std::fs::read_to_string(&eve).unwrap_or_default().matches(r#""event_type":"alert""#).count();
    let all = 2 * usize::from(SESSIONS);
    while told() < all && !flood.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
    }
    // In this order: what is told now was told during the flood if that goes on.
    let (in_time, goes_on) = (told(), !flood.is_finished());
    flood.stop().unwrap();
    flood.join().unwrap();
    let ended = sensor.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert!(in_time == all && goes_on, "{in_time} of {all} alerts while the flood went on ({goes_on}): {summary}");
    assert!(summary["handed_over"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
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
    // Both engines get new rules, as often as is asked for: the one that is left with its next packet.
    let harmless = ipv4(17, [203, 0, 113, 1], [203, 0, 113, 2], 0, &udp(7, 7, b"nothing"));
    for _ in 0..3 {
        sensor.signal(Signal::SIGHUP);
        sensor.wait_for("rules loaded");
        send_frames(&testbed, std::slice::from_ref(&harmless));
    }
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
