//! `ringtap capture --backend pcap`: the system's libpcap as a source, with accounts as exact as those of the others.

mod capture_support;

use std::time::Duration;

use capture_support::{Capture, RINGTAP, folder, ip, packets_in, send_numbered, testbed, tool};
use nix::sys::signal::Signal;
use ringtap_testbed::{GeneratorConfig, Host, Pattern, Profile, TestbedConfig};
use serde_json::Value;

const PPS: f64 = 50e3;
const COUNT: u64 = 20_000;

/// Starts a capture of a device; the period, where there is one, is given.
fn start(host: &Host, device: &str, arguments: &[&str]) -> Capture {
    let mut command = host.command(RINGTAP);
    command.args(["capture", "-i", device, "--json", "--backend", "pcap", "--ring", "2048"]).args(arguments);
    Capture::of(host, command)
}

fn assert_sum(summary: &Value) {
    assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
    assert_eq!(summary["backend"], "pcap");
    let library = summary["sources"][0]["library"].as_str().unwrap();
    assert!(library.starts_with("libpcap version 1.") && library.contains(", /"), "{library}");
}

/// By every way of waiting: each number once, and the library's counters say the same.
#[test]
fn net_capture_through_libpcap_is_whole() {
    const TEST: &str = "net_capture_through_libpcap_is_whole";
    for wait in ["hybrid", "interrupt", "timer"] {
        let testbed = testbed(TEST, TestbedConfig::default());
        testbed.enable_receiver_napi().unwrap();
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let numbers: &[&str] = match wait {
            "hybrid" => &["--period", "500us", "--threshold", "10k", "udp"],
            "timer" => &["--period", "500us"],
            _ => &[],
        };
        let capture = start(
            testbed.receiver(),
            testbed.receiver().interface(),
            &[&["--wait", wait, "-w", path], numbers].concat(),
        );
        capture.wait_for("capturing from");
        send_numbered(&testbed, PPS, COUNT);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{wait}: {}", ended.stderr);
        let summary = ended.summary();
        assert_sum(&summary);
        let ledger = &summary["ledger"];
        assert_eq!((&ledger["offered"], &ledger["delivered"]), (&COUNT.into(), &COUNT.into()), "{wait}: {summary}");
        assert_eq!(summary["latency_us"]["count"], COUNT, "{wait}");
        assert_eq!(packets_in(TEST, &file), COUNT);
        let numbers = tool(TEST, "tshark", &["-r", path, "-T", "fields", "-e", "data.data"]);
        let numbers: std::collections::BTreeSet<&str> = numbers.lines().collect();
        assert_eq!(numbers.len() as u64, COUNT, "{wait}: each packet has a number of its own");
    }
}

/// A library whose dispatch returns only with a packet, as libpcap's for netmap: the source asks the descriptor first, so that the
/// pacer, the timer and the end of the capture work.
#[test]
fn net_a_library_that_blocks_holds_up_nothing() {
    const TEST: &str = "net_a_library_that_blocks_holds_up_nothing";
    let (directory, _) = folder();
    let library = directory.path().join("libpcap.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/blocking_pcap.c");
    tool(TEST, "cc", &["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library.to_str().unwrap(), source]);
    for (wait, numbers) in
        [("hybrid", &["--period", "1ms", "--threshold", "1k"][..]), ("timer", &["--period", "1ms"]), ("interrupt", &[])]
    {
        let testbed = testbed(TEST, TestbedConfig::default());
        let device = directory.path().join(wait);
        let fixed = ["--wait", wait, "--pcap-library", library.to_str().unwrap()];
        let capture = start(testbed.receiver(), device.to_str().unwrap(), &[&fixed, numbers].concat());
        capture.wait_for("capturing from");
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        for number in 0..300u32 {
            sender.send_to(&[number as u8; 100], &device).unwrap();
            if number % 100 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // Nothing comes any more, and it ends all the same.
        std::thread::sleep(Duration::from_millis(100));
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{wait}: {}", ended.stderr);
        let summary = ended.summary();
        let ledger = &summary["ledger"];
        assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&300.into(), &0.into()), "{wait}: {summary}");
    }
}

/// A process that stands still fills the library's buffer; what then is lost has its name.
#[test]
fn net_losses_in_libpcaps_buffer_are_told() {
    let testbed = testbed("net_losses_in_libpcaps_buffer_are_told", TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let mut capture = Capture::start(&testbed, &["--backend", "pcap"]);
    send_numbered(&testbed, PPS, 1000);
    capture.signal(Signal::SIGSTOP);
    send_numbered(&testbed, PPS, COUNT);
    capture.signal(Signal::SIGCONT);
    let summary = capture.interrupt().summary();
    assert_sum(&summary);
    let ledger = &summary["ledger"];
    let lost = ledger["drops"]["ring_full"].as_u64().unwrap();
    assert!(lost > COUNT / 2 && ledger["lost"] == lost, "{summary}");
    assert_eq!(ledger["delivered"].as_u64().unwrap() + lost, COUNT + 1000, "{summary}");
}

/// In the middle of traffic: what had come when the counters were read is taken, and no more.
#[test]
fn net_an_end_in_the_middle_of_traffic_adds_up() {
    let testbed = testbed("net_an_end_in_the_middle_of_traffic_adds_up", TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let capture = Capture::start(&testbed, &["--backend", "pcap"]);
    let profile = Profile::lasting(Pattern::Constant { pps: PPS }, Duration::from_secs(1));
    let generator = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile)).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let summary = capture.interrupt().summary();
    generator.join().unwrap();
    assert_sum(&summary);
    assert!(summary["ledger"]["delivered"].as_u64().unwrap() > 1000, "{summary}");
}

/// "any" is no interface: its frames have a link type of their own, and some of its packets libpcap keeps to itself.
#[test]
fn net_capture_of_any_shows_all_interfaces() {
    const TEST: &str = "net_capture_of_any_shows_all_interfaces";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let host = testbed.receiver();
    let (_folder, file) = folder();
    let path = file.to_str().unwrap();
    let capture = start(host, "any", &["--wait", "interrupt", "-w", path, "udp", "port", "9"]);
    capture.wait_for("capturing from any (pcap)");
    ip(host, "link set lo up");
    host.run(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            socket.send_to(b"to myself", "127.0.0.1:9").unwrap();
        }
    })
    .unwrap();
    send_numbered(&testbed, PPS, 100);
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    let ledger = &summary["ledger"];
    assert_eq!((&ledger["filtered"], &ledger["unaccounted"]), (&Value::Null, &Value::Null), "unknown is not 0");
    let read = tool(TEST, "tshark", &["-r", path, "-T", "fields", "-e", "frame.protocols", "-e", "ip.dst"]);
    assert!(read.lines().all(|line| line.starts_with("sll:")), "{read}");
    assert_eq!(read.lines().filter(|line| line.contains("127.0.0.1")).count(), 10, "{read}");
}

#[test]
fn net_a_device_that_goes_ends_the_capture() {
    let testbed = testbed("net_a_device_that_goes_ends_the_capture", TestbedConfig::default());
    let host = testbed.receiver();
    ip(host, "link add gone0 type veth peer name gone1");
    ip(host, "link set gone0 up");
    let capture = start(host, "gone0", &["--wait", "interrupt"]);
    capture.wait_for("capturing from");
    ip(host, "link del gone0");
    let ended = capture.end();
    assert_eq!((ended.code(), &ended.summary()["ending"]), (1, &"interface_gone".into()), "{}", ended.stderr);
}

#[test]
fn net_what_libpcap_cannot_open_is_told_in_its_words() {
    let testbed = testbed("net_what_libpcap_cannot_open_is_told_in_its_words", TestbedConfig::default());
    let host = testbed.receiver();
    let refused = |device: &str, arguments: &[&str]| {
        let mut command = host.command(RINGTAP);
        let waiting = ["--wait", "interrupt", "--backend", "pcap"];
        command.args(["capture", "-i", device]).args(waiting).args(arguments);
        if !arguments.contains(&"--ring") {
            command.args(["--ring", "2048"]);
        }
        Capture::of(host, command).end()
    };
    let name = host.interface();
    refused("nosuch0", &[])
        .assert_refused(1, &["through libpcap nosuch0", "No such device", "it offers:", "any", name]);
    refused(name, &["--pcap-library", "/no/libpcap.so"])
        .assert_refused(1, &["load libpcap /no/libpcap.so", "No such file"]);
    refused(name, &["--queues", "2"]).assert_refused(2, &[name, "one queue"]);
    refused(name, &["--ring", "12"]).assert_refused(2, &[name, "12 ring slots"]);
    refused(name, &["-f", "port http and and"]).assert_refused(2, &["syntax error", "pcap-filter"]);
    ip(host, &format!("link set {name} down"));
    refused(name, &[]).assert_refused(1, &[name, "not up"]);
}
