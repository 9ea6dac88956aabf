//! What `ringtap capture` keeps of each packet: merged ones whole, and a count of those that are cut.

mod capture_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use capture_support::{Capture, RINGTAP, folder, ip, ringtap, testbed};
use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

const BACKENDS: [&str; 3] = ["packet", "socket", "pcap"];

/// Sends so many bytes by TCP from one host's stack to the other's.
fn transfer(testbed: &Testbed, bytes: usize) {
    let address = (testbed.receiver().link().ipv4, 7000);
    let listener = testbed.receiver().run(|| TcpListener::bind(address).unwrap()).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut from, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 20];
        while matches!(from.read(&mut buffer), Ok(1..)) {}
    });
    let send = || TcpStream::connect(address).unwrap().write_all(&vec![0x5a; bytes]).unwrap();
    testbed.sender().run(send).unwrap();
    reader.join().unwrap();
}

/// Length on the wire and captured length of each packet in a file.
fn lengths(path: &str) -> Vec<(usize, usize)> {
    let mut source = FileSource::open(&[path], Pace::AsFast).unwrap();
    let mut lengths = Vec::new();
    while !source.has_ended() {
        lengths.extend(source.receive().iter().map(|packet| (packet.wire_len as usize, packet.data.len())));
    }
    lengths
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value}")) as usize
}

#[test]
fn net_capture_counts_what_its_snaplen_cuts() {
    const TEST: &str = "net_capture_counts_what_its_snaplen_cuts";
    for backend in BACKENDS {
        let testbed = testbed(TEST, TestbedConfig::default());
        testbed.enable_receiver_napi().unwrap();
        let (folder, file) = folder();
        let path = file.to_str().unwrap();
        let capture = Capture::start(&testbed, &["--backend", backend, "-w", path, "--snaplen", "96"]);
        transfer(&testbed, 2 << 20);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let summary = capture.interrupt().summary();
        let lengths = lengths(path);
        let long = lengths.iter().filter(|(wire, _)| *wire > 96).count();
        assert!(long > 0 && lengths.iter().all(|&(wire, kept)| kept == wire.min(96)), "{backend}");
        let ledger = &summary["ledger"];
        assert_eq!((count(&ledger["cut"]), count(&ledger["cut_before"])), (long, 0), "{backend}: {summary}");
        assert_eq!(ledger["unaccounted"], 0, "{backend}: {summary}");
        assert!(lengths.iter().any(|(wire, _)| *wire > 2048), "{backend}: nothing was merged");
        let bytes = std::fs::read(&file).unwrap();
        let told = format!("; {long} delivered cut");
        assert!(bytes.windows(told.len()).any(|part| part == told.as_bytes()), "the file's statistics say so");

        // The recording is cut, whoever reads it; to cut it again cuts no further packet but those between.
        let again = ringtap(&["capture", "-r", path, "--json"]).summary();
        assert_eq!((count(&again["ledger"]["cut"]), count(&again["ledger"]["cut_before"])), (long, long), "{again}");
        let copy = folder.path().join("copy.pcapng");
        let shorter = ["capture", "-r", path, "--json", "--snaplen", "60", "-w", copy.to_str().unwrap()];
        let shorter = ringtap(&shorter).summary();
        let longer = lengths.iter().filter(|(wire, _)| *wire > 60).count();
        let ledger = &shorter["ledger"];
        assert_eq!((count(&ledger["cut"]), count(&ledger["cut_before"])), (longer, long), "{shorter}");
        let text = ringtap(&["capture", "-r", path]);
        assert!(String::from_utf8_lossy(&text.stdout).contains("of the delivered are cut"), "{text:?}");
    }
}

#[test]
fn net_capture_records_merged_packets_whole() {
    const TEST: &str = "net_capture_records_merged_packets_whole";
    const BYTES: usize = 20 << 20;
    for backend in BACKENDS {
        let testbed = testbed(TEST, TestbedConfig::default());
        testbed.enable_receiver_napi().unwrap();
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let capture =
            Capture::start(&testbed, &["--backend", backend, "-w", path, "--direction", "in", "--spool", "64MiB"]);
        transfer(&testbed, BYTES);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let summary = capture.interrupt().summary();
        let ledger = &summary["ledger"];
        assert_eq!((count(&ledger["cut"]), count(&ledger["lost"])), (0, 0), "{backend}: {summary}");
        let lengths = lengths(path);
        assert!(lengths.iter().all(|(wire, kept)| wire == kept), "{backend}");
        assert!(lengths.iter().map(|(_, kept)| kept).sum::<usize>() > BYTES, "{backend}: {summary}");
        assert!(lengths.iter().any(|(_, kept)| *kept > 2048), "{backend}: nothing was merged");
    }
}

/// Its MTU is 65,536 bytes.
#[test]
fn net_capture_on_loopback_takes_a_small_ring() {
    const TEST: &str = "net_capture_on_loopback_takes_a_small_ring";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    ip(host, "link set lo up");
    let mut command = host.command(RINGTAP);
    command.args(["capture", "-i", "lo", "--json", "--ring", "65536", "--period", "1ms", "--threshold", "10k"]);
    let capture = Capture::of(host, command);
    capture.wait_for("capturing from");
    let datagram = vec![7; 60_000];
    let send = || {
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        to.send_to(&datagram, to.local_addr().unwrap()).unwrap();
    };
    host.run(send).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let summary = capture.interrupt().summary();
    let memory = count(&summary["sources"][0]["memory_bytes"]);
    assert!(memory < 200 << 20, "{summary}");
    assert_eq!((&summary["packets"], &summary["ledger"]["cut"]), (&1.into(), &0.into()), "{summary}");
    assert_eq!(summary["bytes"], 60_000 + 8 + 20 + 14, "{summary}");
}
