//! The generator against receivers that know nothing of it: the device's counters, a UDP socket, tcpdump.

mod support;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ringtap_testbed::{
    FrameSpec, Generator, GeneratorConfig, GeneratorReport, Pattern, Profile, SequenceChecker, Stamp, Testbed,
    TestbedConfig, WireCounters,
};
use support::Receiver;

fn testbed() -> Testbed {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    testbed.enable_receiver_napi().unwrap();
    testbed
}

/// An ordinary thread: several tests run at the same time.
fn config(testbed: &Testbed, size: usize, profile: Profile) -> GeneratorConfig {
    GeneratorConfig { priority: None, ..GeneratorConfig::for_testbed(testbed, size, profile) }
}

fn constant(pps: f64) -> Profile {
    Profile::endless(Pattern::Constant { pps })
}

/// Sends it and gives what a UDP socket got.
fn through_socket(testbed: &Testbed, config: GeneratorConfig) -> (GeneratorReport, Vec<(Option<Stamp>, usize)>) {
    let receiver = Receiver::start(testbed.receiver(), config.frame.destination);
    let report = testbed.generate(config).unwrap().join().unwrap();
    (report, receiver.finish())
}

#[test]
fn net_every_packet_is_counted_and_numbered() {
    const COUNT: u64 = 20_000;
    let testbed = testbed();
    let before = WireCounters::read(&testbed).unwrap();
    let (report, got) = through_socket(&testbed, config(&testbed, 64, constant(50e3)).count(COUNT));
    let after = WireCounters::read(&testbed).unwrap();
    assert_eq!((report.stamped, report.accepted), (COUNT, Some(COUNT)));
    assert_eq!((report.queue_full, report.not_ready, report.sent()), (Some(0), Some(0), COUNT));
    assert_eq!(report.bytes, 64 * COUNT);
    let grown = |name: &str| after.receiver.link(name).unwrap() - before.receiver.link(name).unwrap();
    assert_eq!((grown("rx_packets"), grown("rx_bytes")), (COUNT, (64 - 14) * COUNT + 14 * COUNT));
    assert_eq!(after.drops_since(&before).known(), 0);
    assert_eq!(after.sender.link("rx_packets"), before.sender.link("rx_packets"), "nothing comes back");

    let mut checker = SequenceChecker::new(COUNT);
    for (stamp, length) in &got {
        let stamp = stamp.expect("every packet is stamped");
        assert_eq!((stamp.stream, *length), (1, 22));
        checker.see(stamp.seq);
    }
    let verdict = checker.report(COUNT);
    assert_eq!((verdict.lost, verdict.duplicates, verdict.reordered, verdict.foreign), (0, 0, 0, 0), "{verdict:?}");
    assert_eq!(got[0].0.unwrap().time_ns, report.first_ns);
    let span = got.last().unwrap().0.unwrap().time_ns - report.first_ns;
    assert_eq!(span, report.duration_ns);
    assert!(((COUNT - 1) as f64 * 1e9 / span as f64 / report.achieved_pps - 1.0).abs() < 1e-6);
}

#[test]
fn net_rate_is_kept_or_the_report_says_so() {
    let testbed = testbed();
    for (pps, count) in [(200.0, 20), (5e3, 1_000), (148e3, 30_000), (1e6, 200_000), (20e6, 200_000)] {
        let report = testbed.generate(config(&testbed, 64, constant(pps)).count(count)).unwrap().join().unwrap();
        assert_eq!(report.accepted, Some(count));
        let by_rates = report.achieved_pps / pps - 1.0;
        assert!((by_rates - report.rate_error).abs() < 1e-3, "{report}: {by_rates} by the rates");
        assert_eq!(report.shortfall.is_some(), report.rate_error < -0.01, "{report}");
        assert!(report.rate_error < 0.01, "never too fast: {report}");
        assert_eq!(report.lateness.histogram.iter().sum::<u64>(), count);
    }
}

#[test]
fn net_sizes_flows_tags_and_families_are_right_for_tcpdump() {
    let testbed = testbed();
    let ipv4 = FrameSpec::ipv4(testbed.sender().link(), testbed.receiver().link(), 64);
    let ipv6 = FrameSpec::ipv6(testbed.sender().link(), testbed.receiver().link(), 84);
    for frame in [
        FrameSpec { sizes: vec![64, 1514, 65, 576], flows: 3, ..ipv4.clone() },
        FrameSpec { sizes: vec![68, 1518], vlan: Some(77), ..ipv4.clone() },
        FrameSpec { sizes: vec![84, 1514, 101], flows: 5, ..ipv6.clone() },
        FrameSpec { sizes: vec![88], vlan: Some(4095), ..ipv6 },
    ] {
        let tagged_end = frame.ip_end();
        let config = GeneratorConfig {
            stream: 9,
            first_seq: 1 << 40,
            frame: frame.clone(),
            ..config(&testbed, 64, constant(2e3))
        };
        let capture = capture(&testbed, 60, || {
            let report = testbed.generate(config.clone().count(60)).unwrap().join().unwrap();
            assert_eq!(report.accepted, Some(60));
        });
        let packets = packets_of(&capture);
        assert_eq!(packets.len(), 60);
        for (number, packet) in packets.iter().enumerate() {
            assert_eq!(packet.len(), frame.sizes[number % frame.sizes.len()]);
            let stamp = Stamp::from_frame(packet).unwrap_or_else(|| panic!("no stamp in {packet:x?}"));
            assert_eq!((stamp.stream, stamp.seq), (9, (1 << 40) + number as u64));
            let port = u16::from_be_bytes([packet[tagged_end], packet[tagged_end + 1]]);
            assert_eq!(port, 40_000 + number as u16 % frame.flows);
        }
        let words = read_by_tcpdump(&capture);
        assert_eq!(words.matches("UDP, length").count(), 60, "{words}");
        for fault in ["bad", "wrong", "truncated", "[|"] {
            assert!(!words.contains(fault), "tcpdump finds fault: {words}");
        }
    }
}

#[test]
fn net_stack_accepts_ipv6_checksums() {
    let testbed = testbed();
    let frame = FrameSpec {
        sizes: vec![84, 85, 300],
        flows: 7,
        ..FrameSpec::ipv6(testbed.sender().link(), testbed.receiver().link(), 84)
    };
    let config = GeneratorConfig { frame, ..config(&testbed, 84, constant(20e3)) };
    let (_, got) = through_socket(&testbed, config.count(3_000));
    assert_eq!(got.len(), 3_000, "the kernel drops wrong UDP checksums");
    assert!(got.iter().enumerate().all(|(number, (stamp, _))| stamp.unwrap().seq == number as u64));
}

#[test]
fn net_stop_and_progress() {
    let testbed = testbed();
    let generator = testbed.generate(config(&testbed, 64, constant(10e3))).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while generator.progress().unwrap().stamped < 500 {
        assert!(Instant::now() < until, "{:?}", generator.progress());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!generator.progress().unwrap().done && !generator.is_finished());
    let report = generator.join_or_stop(&AtomicBool::new(true)).unwrap();
    assert!(report.stamped >= 500);
    assert_eq!(report.accepted, Some(report.stamped));
    // Dropping stops as well.
    drop(testbed.generate(config(&testbed, 64, constant(1.0))).unwrap());
}

#[test]
fn net_refused_packets_are_told_from_sent_ones() {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let report = testbed.generate(config(&testbed, 64, constant(20e3)).count(100)).unwrap().join().unwrap();
    assert_eq!((report.stamped, report.accepted, report.not_ready, report.sent()), (100, Some(0), Some(100), 0));
    assert!(report.to_string().contains("100 refused: device not ready"), "{report}");
}

#[test]
fn net_overflow_of_the_wire_is_accounted_by_name() {
    const COUNT: u64 = 50_000;
    let testbed = testbed();
    // The NAPI thread shares the generator's core and gets it only when the generator rests: its queue must overflow.
    testbed.pin_napi(testbed.config().generator_core).unwrap();
    let before = WireCounters::read(&testbed).unwrap();
    let config = GeneratorConfig { priority: Some(60), ..config(&testbed, 64, constant(1e6)) };
    let report = testbed.generate(config.count(COUNT)).unwrap().join().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let after = WireCounters::read(&testbed).unwrap();
    let (accepted, full) = (report.accepted.unwrap(), report.queue_full.unwrap());
    assert_eq!((report.stamped, accepted + full, report.not_ready), (COUNT, COUNT, Some(0)));
    assert!(full > 0, "{report}");
    let drops = after.drops_since(&before);
    assert_eq!((drops.veth_queue, drops.known()), (Some(full), full), "{drops:?}");
    assert_eq!(after.receiver.link("rx_packets").unwrap() - before.receiver.link("rx_packets").unwrap(), accepted);
}

#[test]
fn net_several_queues_carry_traffic() {
    let config_of_testbed = TestbedConfig { queues: 4, mtu: 3200, ..TestbedConfig::default() };
    let testbed = Testbed::new(config_of_testbed).unwrap_or_else(|error| panic!("{error}"));
    testbed.enable_receiver_napi().unwrap();
    let report = testbed.generate(config(&testbed, 3_000, constant(20e3)).count(500)).unwrap().join().unwrap();
    assert_eq!(report.accepted, Some(500));
    let queues = testbed.receiver().run(|| {
        std::fs::read_dir(format!("/sys/class/net/{}/queues", testbed.receiver().interface())).unwrap().count()
    });
    assert_eq!(queues.unwrap(), 8);
}

#[test]
fn net_generator_refuses_what_it_must() {
    let testbed = testbed();
    let base = config(&testbed, 64, constant(1e3)).count(1);
    let refused = |config: GeneratorConfig, word: &str| {
        let error = testbed.generate(config).map(drop).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(GeneratorConfig { interface: "nosuch0".into(), ..base.clone() }, "no such interface");
    refused(GeneratorConfig { count: Some(0), ..base.clone() }, "0 packets");
    refused(GeneratorConfig { profile: constant(0.0), ..base.clone() }, "0 packets per second");
    refused(GeneratorConfig { priority: Some(100), ..base.clone() }, "priority");
    refused(config(&testbed, 12, constant(1e3)), "size 12");
    refused(config(&testbed, 1515, constant(1e3)), "MTU 1500 allows 1514");
    // Here, outside, nothing may be sent, whatever the interface.
    let outside = Generator::start(GeneratorConfig { interface: "lo".into(), ..base }).map(drop).unwrap_err();
    assert!(outside.to_string().contains("not in a network namespace made by Ringtap"), "{outside}");
}

/// What tcpdump on the receiver's device writes while `work` sends `count` packets.
fn capture(testbed: &Testbed, count: usize, work: impl FnOnce()) -> Vec<u8> {
    let mut command = testbed.receiver().command("tcpdump");
    command
        .args(["-n", "-U", "--immediate-mode", "-B", "8192", "-w", "-", "-c", &count.to_string(), "-i"])
        .arg(testbed.receiver().interface())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = testbed.receiver().start(command).unwrap();
    // The file's head is written when the capture is on.
    let mut capture = vec![0; 24];
    let output = program.child().stdout.as_mut().unwrap();
    output.read_exact(&mut capture).expect("did not run: tcpdump: apt-get install tcpdump");
    work();
    output.read_to_end(&mut capture).unwrap();
    capture
}

/// Takes a pcap file apart by hand.
fn packets_of(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = &capture[24..];
    while let Some((head, tail)) = rest.split_first_chunk::<16>() {
        let length = u32::from_ne_bytes(head[8..12].try_into().unwrap()) as usize;
        packets.push(tail[..length].to_vec());
        rest = &tail[length..];
    }
    packets
}

fn read_by_tcpdump(capture: &[u8]) -> String {
    use std::io::Write;
    let mut reader = Command::new("tcpdump")
        .args(["-n", "-vv", "-e", "-r", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("did not run: tcpdump: apt-get install tcpdump");
    let mut input = reader.stdin.take().unwrap();
    let bytes = capture.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = reader.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

trait HeaderEnd {
    /// Where the UDP header starts.
    fn ip_end(&self) -> usize;
}

impl HeaderEnd for FrameSpec {
    fn ip_end(&self) -> usize {
        let link = if self.vlan.is_some() { 18 } else { 14 };
        link + if matches!(self.source, IpAddr::V4(Ipv4Addr { .. })) { 20 } else { 40 }
    }
}
