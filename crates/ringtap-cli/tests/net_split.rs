//! The real `ringtap split` between real pairs: each packet at exactly one output, outputs that go down and come back, copies, pipes.

mod capture_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture_support::frames::{arp, ipv4, udp};
use capture_support::{Capture, RINGTAP, ip, send_frames, testbed};
use nix::sys::signal::Signal;
use ringtap::Source;
use ringtap::netlink;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap_testbed::{GeneratorConfig, Host, Pattern, Profile, Stamp, Testbed, TestbedConfig};
use serde_json::Value;

/// Numbers that would otherwise be calibrated.
const NUMBERS: [&str; 6] = ["--period", "500us", "--threshold", "10k", "--ring", "16384"];
/// Input and outputs by both ways of the kernel.
const WAYS: [[&str; 4]; 2] =
    [["--backend", "xdp", "--out-backend", "xdp"], ["--backend", "packet", "--out-backend", "packet"]];

/// Outputs `out0` …, each with `sink0` … at its other end.
fn outputs(test: &str, count: usize) -> Testbed {
    let testbed = testbed(test, TestbedConfig::default());
    // Nothing is on the wire but what is sent here: a kernel's own reports of multicast groups (MLD) come at any time.
    for host in [testbed.sender(), testbed.receiver()] {
        let switch = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", host.interface());
        host.run(|| fs::write(switch, "1").unwrap()).unwrap();
    }
    let host = testbed.receiver();
    for number in 0..count {
        ip(host, &format!("link add out{number} type veth peer name sink{number}"));
        for name in [format!("out{number}"), format!("sink{number}")] {
            let ethtool = host.run(|| Command::new("ethtool").args(["-K", &name, "tx", "off"]).output()).unwrap();
            assert!(ethtool.unwrap().status.success());
            ip(host, &format!("link set {name} up"));
        }
    }
    testbed
}

fn command(testbed: &Testbed, arguments: &[&str]) -> Command {
    let host = testbed.receiver();
    let mut command = host.command(RINGTAP);
    command.args(["split", "-i", host.interface(), "--json"]).args(NUMBERS).args(arguments);
    command
}

fn start(testbed: &Testbed, arguments: &[&str]) -> Capture {
    let split = Capture::of(testbed.receiver(), command(testbed, arguments));
    split.wait_for("splitting ");
    testbed.enable_receiver_napi().unwrap();
    split
}

/// What came out: number and source port of each packet of the generator, in their order, and how many others.
#[derive(Debug, Default)]
struct Seen {
    stamped: Vec<(u64, u16)>,
    others: u64,
}

/// Reads all that arrives at an output's other end. Its ring holds all that the tests send.
struct Sink {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Sink {
    fn at(host: &Host, number: usize) -> Self {
        let interface = format!("sink{number}");
        let config = PacketRingConfig {
            ifindex: host.run(|| netlink::link_by_name(&interface)).unwrap().unwrap().index,
            interface,
            ring_slots: 1 << 17,
            transmit_slots: 0,
            frame_size: 256,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (mut source, _, _) = host.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            loop {
                let is_last = stopped.load(Ordering::Relaxed);
                let burst = source.receive();
                for packet in burst.iter() {
                    match Stamp::from_frame(packet.data) {
                        Some(stamp) => {
                            let port = u16::from_be_bytes([packet.data[34], packet.data[35]]);
                            seen.stamped.push((stamp.seq, port));
                        }
                        None => seen.others += 1,
                    }
                }
                if burst.is_empty() {
                    if is_last {
                        return seen;
                    }
                    drop(burst);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { stop, thread }
    }

    fn end(self) -> Seen {
        std::thread::sleep(Duration::from_millis(50));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Sends `count` packets of 256 flows, numbered from `first`.
fn send(testbed: &Testbed, first: u64, count: u64, pps: f64) {
    let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(count as f64 / pps * 2.0 + 1.0));
    let mut traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(count);
    traffic.frame.flows = 256;
    traffic.first_seq = first;
    let report = testbed.generate(traffic).unwrap().join().unwrap();
    assert_eq!(report.stamped, count, "{report}");
    std::thread::sleep(Duration::from_millis(30));
}

/// Which output each flow was at; each number was seen once, and in the order of its flow.
fn flows(seen: &[Seen], numbers: std::ops::Range<u64>) -> BTreeMap<u16, usize> {
    let (mut all, mut at) = (BTreeSet::new(), BTreeMap::new());
    for (output, seen) in seen.iter().enumerate() {
        let mut last = BTreeMap::new();
        for &(number, port) in seen.stamped.iter().filter(|(number, _)| numbers.contains(number)) {
            assert!(all.insert(number), "{number} twice");
            assert!(last.insert(port, number).is_none_or(|before| before < number), "order of {port}");
            assert_eq!(*at.entry(port).or_insert(output), output, "flow {port} at two outputs");
        }
    }
    assert!(all.iter().copied().eq(numbers.clone()), "{} of {numbers:?}", all.len());
    at
}

fn sum(account: &Value) -> i64 {
    let of = |name: &str| account[name].as_i64().unwrap_or_else(|| panic!("{name} in {account}"));
    of("forwarded") + of("dropped") + of("not_wanted") + of("lost_before") - of("copies") - of("offered")
}

#[test]
fn net_each_packet_leaves_by_one_output_in_the_order_of_its_flow() {
    const TEST: &str = "net_each_packet_leaves_by_one_output_in_the_order_of_its_flow";
    for way in WAYS {
        let testbed = outputs(TEST, 2);
        let sinks: Vec<Sink> = (0..2).map(|number| Sink::at(testbed.receiver(), number)).collect();
        let split = start(&testbed, &[&way[..], &["--out", "out0", "--out", "out1"]].concat());
        send(&testbed, 0, 100_000, 50e3);
        let ended = split.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let seen: Vec<Seen> = sinks.into_iter().map(Sink::end).collect();
        let summary = ended.summary();
        let account = &summary["account"];
        assert_eq!(account["forwarded"], 100_000, "{way:?}: {summary}");
        assert_eq!((account["unaccounted"].as_i64(), sum(account)), (Some(0), 0), "{account}");
        let at = flows(&seen, 0..100_000);
        assert_eq!(at.len(), 256);
        for (number, seen) in seen.iter().enumerate() {
            assert_eq!(summary["outputs"][number]["packets"], seen.stamped.len(), "{summary}");
            assert!(at.values().filter(|&&output| output == number).count() > 64, "{at:?}");
            assert_eq!(summary["outputs"][number]["backend"], way[3]);
        }
        assert_eq!(summary["time_inside_us"]["count"], 100_000);
        let buckets = summary["time_inside_histogram_ns"].as_array().unwrap();
        assert_eq!(buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>(), 100_000);
    }
}

#[test]
fn net_an_output_goes_down_and_comes_back() {
    const TEST: &str = "net_an_output_goes_down_and_comes_back";
    // By itself, and by its other end.
    for (way, victim, words) in
        [(WAYS[0], "out0", "is down"), (WAYS[1], "sink0", "has no carrier"), (WAYS[1], "out0", "is down")]
    {
        let testbed = outputs(TEST, 3);
        let host = testbed.receiver();
        let sinks: Vec<Sink> = (0..3).map(|number| Sink::at(host, number)).collect();
        let split = start(&testbed, &[&way[..], &["--out", "out0", "--out", "out1", "--out", "out2"]].concat());
        send(&testbed, 0, 10_000, 20e3);
        ip(host, &format!("link set {victim} down"));
        split.wait_for(&format!("out0 {words}: its flows go to the other outputs"));
        send(&testbed, 10_000, 10_000, 20e3);
        ip(host, &format!("link set {victim} up"));
        split.wait_for("out0 is up again");
        send(&testbed, 20_000, 10_000, 20e3);
        let ended = split.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let seen: Vec<Seen> = sinks.into_iter().map(Sink::end).collect();
        let summary = ended.summary();
        let usual = flows(&seen, 0..10_000);
        let without = flows(&seen, 10_000..20_000);
        assert_eq!(flows(&seen, 20_000..30_000), usual, "all are back");
        for (port, output) in &usual {
            let moved = without[port];
            assert!(if *output == 0 { moved != 0 } else { moved == *output }, "flow {port}: {output}, then {moved}");
        }
        let moved = without.keys().filter(|port| usual[port] == 0).count() as u64;
        let packets = seen.iter().flat_map(|seen| &seen.stamped);
        let packets = packets.filter(|(number, port)| (10_000..20_000).contains(number) && usual[port] == 0).count();
        assert!(moved > 40 && summary["outputs"][0]["moved"] == packets, "{packets}: {summary}");
        let account = &summary["account"];
        assert_eq!(
            (account["forwarded"].as_u64(), account["unaccounted"].as_i64()),
            (Some(30_000), Some(0)),
            "{summary}"
        );
    }
}

#[test]
fn net_classes_are_copied_and_what_is_in_none_is_counted() {
    const TEST: &str = "net_classes_are_copied_and_what_is_in_none_is_counted";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("classes.toml");
    let text = "[[class]]\nname = \"dns\"\nfilter = \"udp port 53\"\noutputs = [\"out0\", \"out1\"]\ncopy = true\n\
                [[class]]\nname = \"one\"\nfilter = \"host 10.0.0.1\"\noutputs = [\"out2\"]\n";
    fs::write(&file, text).unwrap();
    for way in WAYS {
        let testbed = outputs(TEST, 3);
        let sinks: Vec<Sink> = (0..3).map(|number| Sink::at(testbed.receiver(), number)).collect();
        let by = ["--by", file.to_str().unwrap(), "--out", "out0", "--out", "out1", "--out", "out2"];
        let split = start(&testbed, &[&way[..], &by].concat());
        let frame = |from: [u8; 4], port| ipv4(17, from, [10, 0, 0, 9], 0, &udp(4000, port, b"x"));
        let frames = [
            vec![frame([10, 0, 0, 2], 53); 7],
            vec![frame([10, 0, 0, 1], 53); 5],
            vec![frame([10, 0, 0, 1], 9); 3],
            vec![arp(); 2],
        ];
        send_frames(&testbed, &frames.concat());
        let ended = split.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let others: Vec<u64> = sinks.into_iter().map(|sink| sink.end().others).collect();
        assert_eq!(others, [12, 12, 8], "{summary}");
        let classes: Vec<u64> = (0..2).map(|class| summary["classes"][class]["packets"].as_u64().unwrap()).collect();
        let account = &summary["account"];
        assert_eq!(
            (classes, account["copies"].as_u64(), account["not_wanted"].as_u64()),
            (vec![12, 8], Some(17), Some(2))
        );
        assert_eq!((account["unaccounted"].as_i64(), sum(account)), (Some(0), 0), "{account}");
    }
}

#[test]
fn net_a_pipe_is_an_output_and_its_flows_move_when_its_reader_goes() {
    const TEST: &str = "net_a_pipe_is_an_output_and_its_flows_move_when_its_reader_goes";
    let testbed = outputs(TEST, 1);
    let host = testbed.receiver();
    let folder = tempfile::tempdir().unwrap();
    let (pipe, copy) = (folder.path().join("pipe"), folder.path().join("copy.pcap"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let mut tcpdump = Command::new("tcpdump")
        .args(["-n", "-U", "-Z", "root", "-r", pipe.to_str().unwrap(), "-w", copy.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("did not run: {TEST}: tcpdump: {error}"));
    let sink = Sink::at(host, 0);
    let split = start(&testbed, &["--spool", "16MiB", "--out", pipe.to_str().unwrap(), "--out", "out0"]);
    send(&testbed, 0, 10_000, 20e3);
    let until = Instant::now() + Duration::from_secs(10);
    let in_copy = |file: &Path| fs::read(file).map_or(0, |bytes| bytes.len().saturating_sub(24) / (16 + 64));
    while in_copy(&copy) < 2_000 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let read = in_copy(&copy);
    tcpdump.kill().unwrap();
    tcpdump.wait().unwrap();
    // Writing tells that nobody reads.
    send(&testbed, 10_000, 2_000, 20e3);
    split.wait_for("EPIPE");
    send(&testbed, 12_000, 8_000, 20e3);
    let ended = split.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let seen = sink.end();
    let summary = ended.summary();
    let early = seen.stamped.iter().filter(|(number, _)| *number < 10_000).count();
    let late = seen.stamped.iter().filter(|(number, _)| *number >= 12_000).count();
    assert_eq!((read + early, late), (10_000, 8_000), "{summary}");
    assert_eq!(
        (&summary["outputs"][0]["up"], summary["account"]["unaccounted"].as_i64()),
        (&Value::Bool(false), Some(0))
    );
    assert!(summary["outputs"][0]["drops"]["output_failed"].as_u64() > Some(0), "{summary}");
}

/// All that matters of the devices, and notes about them.
fn state(host: &Host) -> Vec<String> {
    let mut lines = Vec::new();
    for name in [host.interface(), "out0", "out1"] {
        let link = host.run(|| netlink::link_by_name(name)).unwrap().unwrap();
        lines.push(format!("{name}: up {} mtu {} xdp {:?}", link.up, link.mtu, link.xdp_program));
        for what in [["ip", "-d", "-o", "link", "show", "dev", name], ["ethtool", "-k", name, "", "", "", ""]] {
            let words: Vec<&str> = what.iter().copied().filter(|word| !word.is_empty()).collect();
            let output = host.run(|| Command::new(words[0]).args(&words[1..]).output()).unwrap().unwrap();
            lines.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        for file in ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded"] {
            let path = format!("/sys/class/net/{name}/{file}");
            lines.push(format!("{path}: {:?}", host.run(|| fs::read_to_string(&path).ok()).unwrap()));
        }
    }
    let notes = fs::read_dir("/run/ringtap").into_iter().flatten().flatten();
    let notes = notes.filter_map(|file| fs::read_to_string(file.path()).ok());
    lines.extend(notes.filter(|note| note.contains(host.interface())));
    lines
}

#[test]
fn net_every_way_out_leaves_all_devices_as_they_were() {
    const TEST: &str = "net_every_way_out_leaves_all_devices_as_they_were";
    let testbed = outputs(TEST, 2);
    let host = testbed.receiver();
    let before = state(host);
    for (signal, user) in
        [(Signal::SIGTERM, false), (Signal::SIGKILL, false), (Signal::SIGKILL, true), (Signal::SIGHUP, true)]
    {
        let mut arguments = vec!["--backend", "xdp", "--napi-pacing", "50us", "--out", "out0", "--out", "out1"];
        if user {
            arguments.extend(["--user", "nobody"]);
        }
        let mut split = Capture::of(host, command(&testbed, &arguments));
        split.wait_for("splitting ");
        assert_ne!(state(host), before);
        split.signal(signal);
        let ended = split.end();
        let until = Instant::now() + Duration::from_secs(20);
        while state(host) != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(state(host), before, "{signal} {user}: {}", ended.stderr);
    }
}

#[test]
fn net_what_makes_no_sense_is_refused_in_one_line() {
    const TEST: &str = "net_what_makes_no_sense_is_refused_in_one_line";
    let testbed = outputs(TEST, 2);
    let host = testbed.receiver();
    let input = host.interface().to_owned();
    ip(host, &format!("link add link {input} name above0 type macvlan mode bridge"));
    ip(host, "link set above0 up");
    ip(host, "link add name down0 type veth peer name down1");
    ip(host, "link property add dev out0 altname alt0");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("classes.toml");
    fs::write(&file, "[[class]]\nname = \"a\"\nfilter = \"arp\"\noutputs = [\"out7\"]\n").unwrap();
    let file = file.to_str().unwrap();
    let before = state(host);
    let refused = |code: i32, arguments: &[&str], parts: &[&str]| {
        Capture::of(host, command(&testbed, arguments)).end().assert_refused(code, parts);
        assert_eq!(state(host), before, "{arguments:?}");
    };
    refused(2, &["--out", &input], &[&input, "the input", "a loop"]);
    refused(2, &["--out", "out0", "--out", "out0"], &["an output already", "once"]);
    refused(2, &["--out", "out0", "--out", "alt0"], &["an output already, as \"out0\""]);
    refused(2, &["--out", "./x.pcapng", "--out", "x.pcapng"], &["an output already"]);
    refused(2, &["--out", "above0"], &["stand on one another"]);
    refused(2, &["--out", "lo"], &["leads back into this host"]);
    refused(1, &["--out", "nothing0"], &["nothing0", "no such interface", "out0"]);
    refused(1, &["--out", "down0"], &["down0", "it is down", "ip link set"]);
    refused(
        2,
        &["--by", file, "--out", "out0", "--out", "out1"],
        &["line 4", "\"out7\"", "expected one of: out0, out1"],
    );
    refused(1, &["--by", "flows", "--out", "out0"], &["flows", "ENOENT", "--by takes"]);
    refused(2, &["--out", "out0", "--out-ring", "100"], &["--out-ring", "power of two"]);
    refused(1, &["--out", "/nonexistent/x.pcapng"], &["/nonexistent/x.pcapng", "create its directory"]);
    // The other end of the input's own pair.
    let mut other = host.command(RINGTAP);
    other.args(["split", "-i", "sink0", "--out", "out0"]).args(NUMBERS);
    Capture::of(host, other).end().assert_refused(2, &["other end of the input sink0", "a loop"]);
}
