//! Capture filters: on every back end exactly what `tcpdump -r FILE FILTER` picks out of everything that came.

mod capture_support;

use std::path::{Path, PathBuf};

use capture_support::{Capture, folder, frames, packets_in, ringtap, send_frames, testbed, tool};
use ringtap_testbed::{Testbed, TestbedConfig};

/// Words a steering rule can say, and words it can't.
const FILTERS: [&str; 20] = [
    "udp port 53",
    "udp and src port 53",
    "vlan 5",
    "vlan 5 and udp port 53",
    "vlan and vlan 5",
    "tcp and not port 22",
    "tcp[tcpflags] & tcp-syn != 0",
    "arp",
    "ip6",
    "icmp or icmp6",
    "host 198.18.0.1",
    "net 10.0.0.0/8",
    "ip and net 10.0.0.0/8",
    "greater 200",
    "ip[6:2] & 0x1fff != 0",
    "udp[8:4] = 0x01020304 and dst port 53",
    "sctp or ip proto 47",
    "ether proto 0x88cc",
    "src host 198.18.0.1 and port 53",
    "udp and dst port 53 and dst host 198.18.0.2",
];

/// Every packet as tcpdump shows it, without stamps.
fn picked(test: &str, file: &Path, filter: &str) -> Vec<String> {
    let text = tool(test, "tcpdump", &["-r", file.to_str().unwrap(), "-nn", "-xx", "-t", filter]);
    // Lines of bytes are indented; each packet begins with one that is not.
    let mut packets: Vec<String> = Vec::new();
    for line in text.lines() {
        match packets.last_mut() {
            Some(packet) if line.starts_with('\t') => packet.push_str(line),
            _ => packets.push(line.to_owned()),
        }
    }
    packets
}

fn assert_same(test: &str, backend: &str, filter: &str, all: &Path, filtered: &Path) {
    let (expected, got) = (picked(test, all, filter), picked(test, filtered, ""));
    assert!(!expected.is_empty(), "{filter}: the traffic tests nothing");
    assert_eq!(expected.len(), got.len(), "{backend}: {filter}");
    assert_eq!(expected, got, "{backend}: {filter}");
}

/// Everything that came, while captures with all filters ran beside it.
fn beside_each_other(test: &str, backend: &str) {
    let testbed: Testbed = testbed(test, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |index: usize| folder.path().join(format!("{index}.pcapng"));
    let start = |index: usize, filter: &str| {
        let path = file(index);
        let path = path.to_str().unwrap();
        let common = ["--backend", backend, "--direction", "in", "--priority", "0", "--ring", "512", "--spool", "1MiB"];
        Capture::start(&testbed, &[&common[..], &["-w", path, "-f", filter]].concat())
    };
    let captures: Vec<Capture> =
        std::iter::once("").chain(FILTERS).enumerate().map(|(index, filter)| start(index, filter)).collect();
    let frames = frames::mixed(5);
    send_frames(&testbed, &frames);
    for capture in captures {
        let summary = capture.interrupt().summary();
        let ledger = &summary["ledger"];
        // The host knows no protocol for some, and a veth counts these with its losses: without a filter in the kernel it is known
        // how many they may be.
        let is_whole = summary["filter"].is_null();
        let expected = if is_whole { 0.into() } else { ledger["drops"]["driver_queue"].clone() };
        assert_eq!((&ledger["unaccounted"], &ledger["lost"]), (&expected, &0.into()), "{summary}");
    }
    assert_eq!(packets_in(test, &file(0)), frames.len() as u64);
    for (index, filter) in FILTERS.into_iter().enumerate() {
        assert_same(test, backend, filter, &file(0), &file(index + 1));
    }
}

#[test]
fn net_capture_filters_as_tcpdump_does_on_packet_rings() {
    beside_each_other("net_capture_filters_as_tcpdump_does_on_packet_rings", "packet");
}

#[test]
fn net_capture_filters_as_tcpdump_does_on_plain_sockets() {
    beside_each_other("net_capture_filters_as_tcpdump_does_on_plain_sockets", "socket");
}

/// One after the other, as an interface has room for one steering program.
#[test]
fn net_capture_filters_as_tcpdump_does_on_af_xdp() {
    const TEST: &str = "net_capture_filters_as_tcpdump_does_on_af_xdp";
    let testbed = testbed(TEST, TestbedConfig::default());
    let (_folder, all) = folder();
    let frames = frames::mixed(3);
    let run = |path: &PathBuf, filter: &str| {
        let capture = Capture::start(&testbed, &["--backend", "xdp", "-w", path.to_str().unwrap(), "-f", filter]);
        send_frames(&testbed, &frames);
        let summary = capture.interrupt().summary();
        let ledger = &summary["ledger"];
        assert_eq!((&ledger["unaccounted"], &ledger["lost"]), (&0.into(), &0.into()), "{filter}: {summary}");
        assert_eq!(ledger["offered"], frames.len(), "{filter}: what was passed to the host is filtered, not forgotten");
    };
    run(&all, "");
    for filter in FILTERS {
        let (_folder, filtered) = folder();
        run(&filtered, filter);
        assert_same(TEST, "xdp", filter, &all, &filtered);
    }
    // Replays decide in user space alone.
    for filter in FILTERS {
        let (_folder, filtered) = folder();
        let (from, to) = (all.to_str().unwrap(), filtered.to_str().unwrap());
        let ended = ringtap(&["capture", "-r", from, "-w", to, "-f", filter, "--json", "--spool", "64KiB"]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert_same(TEST, "file", filter, &all, &filtered);
    }
}

/// `greater` asks for the length on the wire, whatever a capture kept of the packets.
#[test]
fn replayed_packets_that_were_cut_are_judged_by_their_length_on_the_wire() {
    const TEST: &str = "replayed_packets_that_were_cut_are_judged_by_their_length_on_the_wire";
    let (folder, all) = folder();
    // pcap: magic, 2.4, zone and accuracy, snaplen 96, Ethernet; then packets of 96 bytes of 1,000, and of 60.
    let mut bytes = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 96, 1].map(u32::to_ne_bytes).concat();
    for (kept, wire) in [(96u32, 1000u32), (60, 60), (96, 499), (96, 501)] {
        bytes.extend([1, 0, kept, wire].map(u32::to_ne_bytes).concat());
        bytes.resize(bytes.len() + kept as usize, 0x5a);
    }
    std::fs::write(&all, bytes).unwrap();
    for (filter, packets) in [("greater 500", 2), ("less 500", 2), ("len = 1000", 1), ("ether[200] = 0x5a", 0)] {
        let picked = folder.path().join("picked.pcapng");
        let arguments =
            ["capture", "-r", all.to_str().unwrap(), "-w", picked.to_str().unwrap(), "--json", "-f", filter];
        let summary = ringtap(&arguments).summary();
        assert_eq!(summary["packets"], packets, "{filter}: {summary}");
        assert_eq!(packets_in(TEST, &picked), packets_in_file(TEST, &all, filter), "{filter}: as tcpdump has it");
    }
}

fn packets_in_file(test: &str, file: &Path, filter: &str) -> u64 {
    picked(test, file, filter).len() as u64
}

/// The kernel does not count what a packet socket's filter leaves out. What user space leaves out of the rest is no loss either.
#[test]
fn net_what_the_kernel_filtered_is_unknown() {
    const TEST: &str = "net_what_the_kernel_filtered_is_unknown";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    // The host knows the protocol of each: what it does not know it counts where losses are counted.
    let datagram = |port: u16| {
        let payload = frames::udp(40_000, port, b"ringtap");
        frames::ipv4(17, [198, 18, 0, 1], [198, 18, 0, 2], 0, &payload)
    };
    let frames = [datagram(53), datagram(54), frames::tagged(0x8100, 5, &datagram(53)), datagram(53)];
    for backend in ["packet", "socket"] {
        let (_folder, file) = folder();
        let arguments = ["--backend", backend, "-w", file.to_str().unwrap(), "-f", "udp port 53"];
        let capture = Capture::start(&testbed, &arguments);
        send_frames(&testbed, &frames);
        let summary = capture.interrupt().summary();
        let ledger = &summary["ledger"];
        assert_eq!(ledger["filtered"], serde_json::Value::Null, "{backend}: {summary}");
        assert_eq!((&ledger["unaccounted"], &ledger["lost"]), (&0.into(), &0.into()), "{backend}: {summary}");
        // Tagged ones pass the kernel's filter, and are no part of what is offered by it.
        assert_eq!((&ledger["offered"], &summary["packets"]), (&2.into(), &2.into()), "{backend}: {summary}");
    }
}
