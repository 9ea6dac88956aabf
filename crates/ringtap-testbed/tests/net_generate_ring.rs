//! The generator in user space and the choice between the two, against a UDP socket and the devices' counters.

mod support;

use std::net::IpAddr;
use std::time::Duration;

use ringtap_testbed::{
    FrameSpec, GeneratorBackend, GeneratorConfig, GeneratorReport, Pattern, Profile, Stamp, Testbed, TestbedConfig,
    WireCounters,
};
use support::Receiver;

fn testbed() -> Testbed {
    Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// An ordinary thread: several tests run at the same time.
fn config(testbed: &Testbed, pps: f64) -> GeneratorConfig {
    let profile = Profile::endless(Pattern::Constant { pps });
    GeneratorConfig {
        backend: GeneratorBackend::Ring,
        priority: None,
        ..GeneratorConfig::for_testbed(testbed, 64, profile)
    }
}

fn through_socket(testbed: &Testbed, config: GeneratorConfig) -> (GeneratorReport, Vec<(Option<Stamp>, usize)>) {
    let receiver = Receiver::start(testbed.receiver(), config.frame.destination);
    let report = testbed.generate(config).unwrap().join().unwrap();
    (report, receiver.finish())
}

#[test]
fn net_ring_packets_are_counted_and_numbered() {
    let testbed = testbed();
    for napi in [false, true] {
        if napi {
            testbed.enable_receiver_napi().unwrap();
        }
        let config = GeneratorConfig { stream: 7, first_seq: 1 << 40, ..config(&testbed, 20e3).count(5_000) };
        let (report, got) = through_socket(&testbed, config);
        assert_eq!((report.stamped, report.accepted, report.refused()), (5_000, Some(5_000), 0), "{report}");
        assert_eq!((report.backend, report.complete), (GeneratorBackend::Ring, true));
        assert_eq!((report.bytes, report.lateness.histogram.iter().sum::<u64>()), (64 * 5_000, 5_000));
        assert_eq!(got.len(), 5_000);
        for (number, (stamp, length)) in got.iter().enumerate() {
            let stamp = stamp.expect("every packet is stamped");
            assert_eq!((stamp.stream, stamp.seq, *length), (7, (1 << 40) + number as u64, 22));
        }
        assert_eq!(got[0].0.unwrap().time_ns, report.first_ns);
        assert_eq!(got.last().unwrap().0.unwrap().time_ns - report.first_ns, report.duration_ns);
    }
}

#[test]
fn net_ring_frames_pass_the_kernels_checks() {
    let testbed = testbed();
    let link = |host: &ringtap_testbed::Host| host.link().clone();
    let (sender, receiver) = (link(testbed.sender()), link(testbed.receiver()));
    for frame in [
        FrameSpec { sizes: vec![64, 1514, 65], flows: 3, ..FrameSpec::ipv4(&sender, &receiver, 64) },
        FrameSpec { sizes: vec![84, 85, 1514], flows: 7, ..FrameSpec::ipv6(&sender, &receiver, 84) },
    ] {
        let overhead = if matches!(frame.source, IpAddr::V4(_)) { 42 } else { 62 };
        let sizes = frame.sizes.clone();
        let config = GeneratorConfig { frame, ..config(&testbed, 20e3) };
        let (report, got) = through_socket(&testbed, config.count(999));
        assert_eq!(report.accepted, Some(999), "{report}");
        assert_eq!(got.len(), 999, "the kernel drops what is malformed");
        for (number, (stamp, length)) in got.iter().enumerate() {
            assert_eq!((stamp.unwrap().seq, *length), (number as u64, sizes[number % 3] - overhead));
        }
    }
}

#[test]
fn net_ring_waits_for_a_full_device() {
    const COUNT: u64 = 30_000;
    let testbed = testbed();
    testbed.enable_receiver_napi().unwrap();
    testbed.pin_napi(testbed.config().generator_core).unwrap();
    let before = WireCounters::read(&testbed).unwrap();
    let config = GeneratorConfig { priority: Some(60), ..config(&testbed, 1e6) };
    let report = testbed.generate(config.count(COUNT)).unwrap().join().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let after = WireCounters::read(&testbed).unwrap();
    let arrived = after.receiver.link("rx_packets").unwrap() - before.receiver.link("rx_packets").unwrap();
    assert_eq!(report.stamped, COUNT);
    assert_eq!(report.accepted, Some(arrived), "{report}");
    assert_eq!(arrived + report.refused(), COUNT, "{report}");
}

#[test]
fn net_ring_stops_and_gives_up() {
    let testbed = testbed();
    let generator = testbed.generate(config(&testbed, 1_000.0)).unwrap();
    while generator.progress().unwrap().stamped < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    generator.stop().unwrap();
    let report = generator.join().unwrap();
    assert!(report.stamped >= 20 && !report.complete);
    assert_eq!(report.accepted, Some(report.stamped));
    // A link that goes down while packets are sent.
    let generator = testbed.generate(config(&testbed, 20e3)).unwrap();
    while generator.progress().unwrap().stamped < 100 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let interface = testbed.receiver().interface();
    let down = testbed
        .receiver()
        .run(|| std::process::Command::new("ip").args(["link", "set", interface, "down"]).status().unwrap().success());
    assert!(down.unwrap());
    let report = generator.join().unwrap();
    assert!(!report.complete && report.accepted < Some(report.stamped), "{report}");
    assert!(report.warnings.iter().any(|line| line.contains("took nothing")), "{report}");
    let error = testbed.generate(config(&testbed, 1e3)).map(drop).unwrap_err().to_string();
    assert!(error.contains("no carrier"), "{error}");
}

#[test]
fn net_auto_prefers_the_kernel() {
    let testbed = testbed();
    testbed.enable_receiver_napi().unwrap();
    let config = GeneratorConfig { backend: GeneratorBackend::Auto, ..config(&testbed, 50e3) };
    let (report, got) = through_socket(&testbed, config.clone().count(500));
    assert_eq!((report.backend, report.accepted, got.len()), (GeneratorBackend::Kernel, Some(500), 500), "{report}");
    assert_eq!(report.warnings, [""; 0]);
    // What makes no sense for one makes none for the other.
    let error = testbed.generate(config.count(0)).map(drop).unwrap_err().to_string();
    assert!(error.contains("0 packets"), "{error}");
}
