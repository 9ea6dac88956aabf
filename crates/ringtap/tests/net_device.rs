//! A device that goes down, comes back or goes away while it is read; and devices that can't be read as asked.

mod net_support;

use std::time::Duration;

use net_support::frames::samples;
use net_support::{Bench, HANG, Keep, Way, Wire, bench, bench_with, config, eventually, xdp_config};
use ringtap::engine::End;
use ringtap::error::ErrorKind;
use ringtap::pacer::{Hybrid, Policy, Windowed};
use ringtap::receiver::{Queues, ReceiverConfig};
use ringtap::source::xdp::XdpSource;
use ringtap::steer::{Attach, Steering};
use ringtap_testbed::TestbedConfig;

const MS: u64 = 1_000_000;

fn policies() -> Vec<Policy> {
    vec![
        Policy::Interrupt,
        Policy::Timer { period_ns: MS },
        Policy::Timer { period_ns: 30_000 * MS },
        Policy::Hybrid(Hybrid::new(8_300.0, 150_000)),
        Policy::Windowed(Windowed::new(8_300.0, 150_000)),
    ]
}

/// No way of waiting sleeps past the end of the device, and what had come before is kept.
fn removal(name: &str, way: Way) {
    for (round, policy) in policies().into_iter().enumerate() {
        let bench = bench(name);
        let mut config = config(&bench, way);
        config.policy = policy.clone();
        let keep = Keep::default();
        let running = bench.start(config, |_| keep.clone());
        bench.send_numbered(1e3, 5, |_| {});
        if policy != (Policy::Timer { period_ns: 30_000 * MS }) {
            assert!(eventually(Duration::from_secs(2), || keep.len() == 5), "{policy:?}");
        }
        // From either end: a veth goes with its peer.
        let host = if round % 2 == 0 { bench.receiver() } else { bench.testbed.sender() };
        net_support::ip(host, &format!("link del dev {}", host.interface()));
        assert!(eventually(HANG, || running.is_finished()), "{way:?} {policy:?}");
        let outcome = bench.finish(running);
        assert_eq!(outcome.engines[0].end, End::DeviceGone, "{way:?} {policy:?}");
        assert_eq!((keep.len(), outcome.ledger.delivered), (5, 5), "{way:?} {policy:?}");
        // The device's counters went with it: what can't be read is unknown, never 0.
        assert_eq!(outcome.ledger.unaccounted(), None, "{}", outcome.ledger);
    }
}

/// Reserves huge pages, and gives them back.
struct HugePages(String);

impl HugePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn more(count: u64) -> Self {
        let before = std::fs::read_to_string(Self::FILE).unwrap();
        let wanted = before.trim().parse::<u64>().unwrap() + count;
        std::fs::write(Self::FILE, wanted.to_string()).unwrap();
        Self(before)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::FILE, &self.0);
    }
}

#[test]
fn net_frames_lie_in_huge_pages_when_asked_for() {
    const SLOTS: u32 = 2048;
    let bench = bench("net_frames_lie_in_huge_pages_when_asked_for");
    let mut config = config(&bench, Way::Native);
    (config.ring_slots, config.huge_pages) = (SLOTS, true);
    let _pages = HugePages::more(16);
    let keep = Keep::default();
    let running = bench.start(config, |_| keep.clone());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let in_use = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:")).unwrap().trim().to_owned();
    let kib: u64 = in_use.trim_end_matches(" kB").parse().unwrap();
    assert!(kib >= u64::from(SLOTS) * 2, "frames of 2 KiB: {in_use}");
    bench.send_numbered(50e3, 1000, |_| {});
    assert!(eventually(Duration::from_secs(2), || keep.len() == 1000), "{}", keep.len());
    let outcome = bench.finish(running);
    assert_eq!((outcome.ledger.delivered, outcome.ledger.unaccounted()), (1000, Some(0)), "{}", outcome.ledger);
}

#[test]
fn net_native_ends_with_its_device() {
    removal("net_native_ends_with_its_device", Way::Native);
}

#[test]
fn net_generic_ends_with_its_device() {
    removal("net_generic_ends_with_its_device", Way::Generic);
}

#[test]
fn net_packet_ends_with_its_device() {
    removal("net_packet_ends_with_its_device", Way::Packet);
}

#[test]
fn net_socket_ends_with_its_device() {
    removal("net_socket_ends_with_its_device", Way::Socket);
}

#[test]
fn net_every_engine_ends_with_the_device() {
    let name = "net_every_engine_ends_with_the_device";
    let bench = bench_with(name, TestbedConfig { queues: 4, ..TestbedConfig::default() });
    let mut config = config(&bench, Way::Native);
    config.policy = Policy::Interrupt;
    let running = bench.start(config, |_| Keep::default());
    bench.ip(&format!("link del dev {}", bench.receiver().interface()));
    assert!(eventually(HANG, || running.is_finished()));
    let outcome = bench.finish(running);
    assert!(outcome.engines.iter().all(|engine| engine.end == End::DeviceGone));
}

#[test]
fn net_a_device_that_was_down_goes_on() {
    let bench = bench("net_a_device_that_was_down_goes_on");
    let interface = bench.receiver().interface().to_owned();
    let frames: Vec<Vec<u8>> = samples().iter().take(4).map(|sample| sample.bytes.clone()).collect();
    for way in net_support::WAYS {
        for policy in [Policy::Interrupt, Policy::Timer { period_ns: MS }] {
            let mut config = config(&bench, way);
            config.policy = policy.clone();
            let keep = Keep::default();
            let running = bench.start(config, |_| keep.clone());
            let mut sender = Wire::open(bench.testbed.sender());
            sender.send(&frames);
            // Not all are: the other host's stack may still report its groups since the last time.
            let ours = || keep.frames().iter().filter(|seen| frames.contains(&seen.data)).count();
            assert!(eventually(Duration::from_secs(2), || ours() == 4), "{way:?} {policy:?}: {}", ours());
            bench.ip(&format!("link set dev {interface} down"));
            std::thread::sleep(Duration::from_millis(120));
            assert!(!running.is_finished(), "{way:?} {policy:?}");
            let wakes = running.counters().interrupt_wakes;
            std::thread::sleep(Duration::from_millis(150));
            assert!(running.counters().interrupt_wakes <= wakes + 1, "{way:?}: it sleeps while the device is down");
            bench.ip(&format!("link set dev {interface} up"));
            // The sender's end may need a moment to see the carrier.
            let sender_up = || net_support::ip(bench.testbed.sender(), "-br link show up").contains("LOWER_UP");
            assert!(eventually(Duration::from_secs(2), sender_up));
            std::thread::sleep(Duration::from_millis(20));
            sender.send(&frames);
            assert!(eventually(Duration::from_secs(2), || ours() == 8), "{way:?} {policy:?}: {}", ours());
            let outcome = bench.finish(running);
            assert_eq!(outcome.engines[0].end, End::Stopped);
            assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?} {policy:?}: {}", outcome.ledger);
        }
    }
}

/// The message of an attempt to open, which has to be one line.
fn refusal(bench: &Bench, config: ReceiverConfig) -> (String, ErrorKind) {
    let error = bench.open(config).err().expect("refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    assert_eq!(bench.xdp_program(), None, "nothing left");
    (error.to_string(), error.kind())
}

#[test]
fn net_what_can_t_be_opened_says_why_and_what_to_do() {
    let bench = bench("net_what_can_t_be_opened_says_why_and_what_to_do");
    let interface = bench.receiver().interface().to_owned();
    let xdp = || config(&bench, Way::Native);
    let expect = |config: ReceiverConfig, kind: ErrorKind, words: &[&str]| {
        let (text, is) = refusal(&bench, config);
        assert!(words.iter().all(|word| text.contains(word)), "{text}\nlacks one of {words:?}");
        assert_eq!(is, kind, "{text}");
    };
    expect(ReceiverConfig { interface: "no-such-if".into(), ..xdp() }, ErrorKind::Failed, &["no-such-if", &interface]);
    expect(
        ReceiverConfig { queues: Queues::Only(vec![7]), ..xdp() },
        ErrorKind::Usage,
        &["no queue 7", "queue 0 alone"],
    );
    expect(ReceiverConfig { queues: Queues::Count(2), ..xdp() }, ErrorKind::Usage, &["no queue 1"]);
    expect(ReceiverConfig { queues: Queues::Only(vec![]), ..xdp() }, ErrorKind::Usage, &["no queue was asked for"]);
    expect(ReceiverConfig { queues: Queues::Count(0), ..xdp() }, ErrorKind::Usage, &["no queue was asked for"]);
    expect(ReceiverConfig { queues: Queues::Only(vec![0, 0]), ..xdp() }, ErrorKind::Usage, &["queue 0 twice"]);
    for slots in [0, 63, 100, 1 << 21] {
        expect(ReceiverConfig { ring_slots: slots, ..xdp() }, ErrorKind::Usage, &["ring slots", "power of two"]);
    }
    expect(ReceiverConfig { transmit_slots: 100, ..xdp() }, ErrorKind::Usage, &["100 transmit slots"]);
    expect(ReceiverConfig { transmit_slots: 1 << 31, ..xdp() }, ErrorKind::Usage, &["transmit slots"]);
    expect(
        ReceiverConfig { frame_size: Some(1024), ..xdp() },
        ErrorKind::Usage,
        &["frame size 1024", "448 (packed frames), 2048 or 4096"],
    );
    expect(ReceiverConfig { policy: Policy::Timer { period_ns: 0 }, ..xdp() }, ErrorKind::Usage, &[&interface]);
    for way in [Way::Packet, Way::Socket] {
        let other = || config(&bench, way);
        expect(ReceiverConfig { ring_slots: 0, ..other() }, ErrorKind::Usage, &["0 ring slots"]);
        expect(ReceiverConfig { frame_size: Some(3000), ..other() }, ErrorKind::Usage, &["frame size 3000"]);
    }
    // 64 GiB: more than the kernel's 32-bit count of a ring, and refused before it takes any of it.
    let huge = ReceiverConfig { ring_slots: 1 << 20, frame_size: Some(65536), ..config(&bench, Way::Packet) };
    expect(huge, ErrorKind::Failed, &[&interface, "65536 MiB asked for", "smaller --ring"]);
    let free = std::fs::read_to_string("/proc/meminfo").unwrap();
    if free.lines().any(|line| line.starts_with("HugePages_Free:") && line.trim().ends_with(" 0")) {
        expect(ReceiverConfig { huge_pages: true, ..xdp() }, ErrorKind::Failed, &[&interface, "vm.nr_hugepages"]);
    }
    bench.ip(&format!("link set dev {interface} down"));
    for way in net_support::WAYS {
        let mut config = config(&bench, Way::Packet);
        config.backend = net_support::config(&bench, way).backend;
        expect(config, ErrorKind::Failed, &[&interface, "down", "ip link set dev"]);
    }
}

#[test]
fn net_jumbo_frames_need_the_large_frame_size() {
    // The largest that 4096 bytes hold: 256 and 16 of them stand in front of the packet, 22 are for header and tags.
    let mtu = 4096 - 256 - 16 - 22;
    let bench =
        bench_with("net_jumbo_frames_need_the_large_frame_size", TestbedConfig { mtu, ..TestbedConfig::default() });
    let sizes = [64, 3300];
    // Native XDP on a veth takes packets of one page at most, less the room the kernel needs around them.
    for way in [Way::Generic, Way::Packet, Way::Socket] {
        let whole = ReceiverConfig { frame_size: Some(4096), ..config(&bench, way) };
        let running = bench.start(whole, |_| net_support::Count::new(200, &sizes));
        bench.send_numbered(2e3, 200, |config| config.frame.sizes = sizes.to_vec());
        net_support::settle(&running);
        let outcome = bench.finish(running);
        let handler = &outcome.engines[0].handler;
        assert_eq!((handler.checker.received(), handler.wrong_lengths), (200, 0), "{way:?}: {}", outcome.ledger);
        assert_eq!(outcome.ledger.unaccounted(), Some(0));
    }
    let small = ReceiverConfig { frame_size: Some(2048), ..config(&bench, Way::Generic) };
    let (text, _) = refusal(&bench, small);
    assert!(text.contains("MTU 3802") && text.contains("--frame-size 4096"), "{text}");
    let refused = refusal_of_native(&bench);
    assert!(refused.is_none_or(|text| text.contains("--xdp generic") && text.contains("MTU")), "told what to do");
    bench.ip(&format!("link set dev {} mtu {}", bench.receiver().interface(), mtu + 1));
    let (text, _) = refusal(&bench, ReceiverConfig { frame_size: Some(4096), ..config(&bench, Way::Native) });
    assert!(
        text.contains("MTU 3803") && text.contains("--backend packet") && text.contains(&format!("mtu {mtu}")),
        "{text}"
    );
}

/// AF_XDP has whole frames of one page at most; packed ones hold what a driver lets through.
#[test]
fn net_packed_frames_hold_packets_of_all_sizes() {
    let mtu = 9000;
    let name = "net_packed_frames_hold_packets_of_all_sizes";
    let bench = bench_with(name, TestbedConfig { mtu, ..TestbedConfig::default() });
    let sizes = [64, 432, 433, 1514, 3000, 3300];
    // The whole ring goes by several times; the shortest that an MTU of 9,000 fits in is 28 KiB.
    for (ring_slots, pps) in [(64, 300.0), (1024, 2e3)] {
        let packed = ReceiverConfig { ring_slots, ..config(&bench, Way::Generic) };
        let running = bench.start(packed, |_| net_support::Count::new(600, &sizes));
        let memory = running.descriptions()[0].memory_bytes;
        assert!(memory < ring_slots as usize * 512 + 65536, "{memory} bytes for {ring_slots} slots");
        bench.send_numbered(pps, 600, |config| config.frame.sizes = sizes.to_vec());
        net_support::settle(&running);
        let outcome = bench.finish(running);
        let handler = &outcome.engines[0].handler;
        let seen = (handler.checker.received(), handler.wrong_lengths);
        assert_eq!(seen, (600, 0), "{ring_slots} slots: {}", outcome.ledger);
        assert_eq!(outcome.ledger.unaccounted(), Some(0));
    }
    let (text, kind) =
        refusal(&bench, ReceiverConfig { frame_size: Some(448), huge_pages: true, ..config(&bench, Way::Generic) });
    assert!(kind == ErrorKind::Usage && text.contains("--huge-pages"), "{text}");
}

/// The kernel copies metadata to what lies in front of a packet; that is its predecessor's end where frames are packed.
#[test]
fn net_metadata_of_others_changes_no_packet() {
    let bench = bench("net_metadata_of_others_changes_no_packet");
    let config = ReceiverConfig { ring_slots: 1024, ..config(&bench, Way::Native) };
    let keep = Keep::default();
    let running = bench.start(config, |_| keep.clone());
    // With its stamp it fills two frames to the last byte.
    let packet = vec![0xa5; 2 * 448 - 16];
    for metadata in [0, 4, 32, 64] {
        net_support::redirect::with_metadata(bench.testbed.sender(), &vec![0xee; metadata], &packet, 64);
    }
    net_support::settle(&running);
    let outcome = bench.finish(running);
    assert_eq!((keep.len(), outcome.ledger.unaccounted()), (256, Some(0)), "{}", outcome.ledger);
    let changed = keep.frames().iter().filter(|seen| seen.data != packet).count();
    let unstamped = keep.frames().iter().filter(|seen| seen.arrival_ns == 0).count();
    assert_eq!((changed, unstamped), (0, 0));
}

#[test]
fn net_a_ring_of_small_frames_cuts_no_packet() {
    let bench = bench("net_a_ring_of_small_frames_cuts_no_packet");
    let sizes = [64, 128, 1514];
    let small = ReceiverConfig { frame_size: Some(256), ring_slots: 512, ..config(&bench, Way::Packet) };
    for (fetch_oversize, cut) in [(true, 0), (false, 100)] {
        let config = ReceiverConfig { fetch_oversize, ..small.clone() };
        let running = bench.start(config, |_| net_support::Count::new(300, &sizes));
        assert_eq!(running.descriptions()[0].ring_slots, 512, "no more than asked for");
        bench.send_numbered(2e3, 300, |config| config.frame.sizes = sizes.to_vec());
        net_support::settle(&running);
        let outcome = bench.finish(running);
        let handler = &outcome.engines[0].handler;
        let seen = (handler.checker.received(), handler.wrong_lengths);
        assert_eq!(seen, (300, cut), "fetched: {fetch_oversize}: {}", outcome.ledger);
        assert_eq!((outcome.ledger.unaccounted(), outcome.ledger.cut), (Some(0), cut));
    }
    let too_small = ReceiverConfig { frame_size: Some(128), ..small };
    let (text, kind) = refusal(&bench, too_small);
    assert!(kind == ErrorKind::Usage && text.contains("frame size 128") && text.contains("from 256"), "{text}");
}

fn refusal_of_native(bench: &Bench) -> Option<String> {
    bench.open(config(bench, Way::Native)).err().map(|error| error.to_string())
}

/// A socket that outlives its program keeps its queue.
#[test]
fn net_a_queue_that_is_taken_is_named() {
    let bench = bench("net_a_queue_that_is_taken_is_named");
    let link = bench.receiver().link();
    let first = xdp_config(bench.receiver());
    let open = || {
        let mut steering = Steering::attach(&first.interface, first.ifindex, &[], Some(Attach::Native), false)?;
        XdpSource::open(&first, &mut steering)
    };
    let held = bench.receiver().run(open).unwrap().unwrap();
    let (text, kind) = refusal(&bench, config(&bench, Way::Native));
    let words = [&format!("{} queue 0", link.interface), "EBUSY", "--queues"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_eq!(kind, ErrorKind::Failed);
    drop(held);
    // The moment that a closed socket takes to let go of its queue is waited for.
    for _ in 0..5 {
        bench.finish(bench.start(config(&bench, Way::Native), |_| Keep::default()));
    }
}
