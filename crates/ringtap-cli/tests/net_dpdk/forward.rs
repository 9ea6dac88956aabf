//! `forward --backend dpdk`: two ports of one EAL, each with another process at its other end.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capture_support::Capture;
use crate::support::{Place, Testpmd, numbers};

/// Fewer than --out-ring: both ends spin on one CPU, and who is to receive may not have it while the other one sends all of its own.
const COUNT: u32 = 8000;

/// Sleeps by interrupts, by the timer, and by what it finds fit.
const WAITS: [(&str, &[&str]); 3] = [
    ("interrupt", &["--period", "500us", "--threshold", "10M"]),
    ("timer", &["--period", "500us", "--threshold", "1"]),
    ("hybrid", &["--period", "500us", "--threshold", "10k"]),
];

/// A forwarder between the wires `a` and `b`, whose sockets it makes itself or where others listen.
fn start(place: &Place, makes_sockets: bool, arguments: &[&str]) -> Capture {
    let device = |number: u32, wire: &str| {
        let path = place.at(wire);
        if makes_sockets {
            format!("--vdev=net_vhost{number},iface={path}")
        } else {
            format!("--vdev=virtio_user{number},path={path}")
        }
    };
    let devices = format!("{} {}", device(0, "a"), device(1, "b"));
    let ports = if makes_sockets { ["net_vhost0", "net_vhost1"] } else { ["virtio_user0", "virtio_user1"] };
    let mut command = place.with_library(&["forward", ports[0], ports[1], "--backend", "dpdk"]);
    command.args(["--dpdk-args", &devices, "--ring", "1024", "--json"]).args(arguments);
    let forward = Capture::of(place.host(), command);
    forward.wait_for("forwarding");
    forward
}

/// For an end that has half of a CPU, to take what waits for it.
const A_WHILE: Duration = Duration::from_millis(500);
const WIDE: [&str; 2] = ["--out-ring", "8192"];

/// Testpmd at the other end of a wire: sends the packets `first` and so many more, and writes what comes into `out`.
fn far_end(place: &Place, forwarder_makes_sockets: bool, wire: &str, first: u32) -> (Testpmd, String) {
    let device = if forwarder_makes_sockets { place.virtio_user(wire) } else { place.vhost(wire) };
    let packets = place.numbered(&format!("{wire}-in.pcap"), first, COUNT);
    let out = place.at(&format!("{wire}-out.pcap"));
    (place.testpmd(&device, &format!("{packets},tx_pcap={out}")), out)
}

/// Ends it and both far ends, once they had time; its summary.
fn end(forward: Capture, far_ends: [Testpmd; 2]) -> Value {
    std::thread::sleep(A_WHILE);
    let ended = forward.interrupt();
    far_ends.into_iter().for_each(Testpmd::quit);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended.summary()
}

fn account<'s>(summary: &'s Value, direction: usize, name: &str) -> &'s Value {
    &summary["directions"][direction]["account"][name]
}

fn assert_sum(summary: &Value, direction: usize) {
    let of = |name| account(summary, direction, name).as_u64().unwrap();
    assert_eq!(of("received"), of("forwarded") + of("dropped") + of("beyond_count"), "{summary}");
}

/// By every way of waiting, with sockets of our own and of others: each number of both directions once, and the account says the same.
#[test]
fn net_forward_through_dpdk_is_whole_both_ways() {
    const TEST: &str = "net_forward_through_dpdk_is_whole_both_ways";
    for (wait, waiting) in WAITS {
        for makes_sockets in [false, true] {
            let place = Place::new(TEST);
            let forward = |ends: &dyn Fn() -> [(Testpmd, String); 2]| {
                let arguments = [waiting, &WIDE, &["--both"]].concat();
                // Who connects comes behind who listens.
                if makes_sockets {
                    let forward = start(&place, true, &arguments);
                    (forward, ends())
                } else {
                    let ends = ends();
                    (start(&place, false, &arguments), ends)
                }
            };
            let ends = || [("a", 0), ("b", COUNT)].map(|(wire, first)| far_end(&place, makes_sockets, wire, first));
            let (forward, [(mut a, from_b), (mut b, from_a)]) = forward(&ends);
            a.begin();
            b.begin();
            for end in [&mut a, &mut b] {
                end.wait_until_sent(COUNT);
            }
            let summary = end(forward, [a, b]);
            for direction in 0..2 {
                assert!(summary["directions"][direction]["up"].is_null(), "nobody watches the link: {summary}");
                let of = |name| account(&summary, direction, name);
                let counts = ["offered", "received", "forwarded", "dropped", "unaccounted"].map(of);
                assert_eq!(counts, [COUNT, COUNT, COUNT, 0, 0].map(Value::from).each_ref(), "{wait}: {summary}");
            }
            assert_eq!(summary["backend"], "dpdk");
            assert!(numbers(TEST, &from_a).into_iter().eq(0..COUNT), "{wait}: each number once");
            assert!(numbers(TEST, &from_b).into_iter().eq(COUNT..2 * COUNT), "{wait}: each number once");
        }
    }
}

/// One way: nothing is taken of the second port's packets. An end that takes nothing has what came for it lost by cause.
#[test]
fn net_an_end_that_takes_nothing_has_its_packets_lost_by_cause() {
    const TEST: &str = "net_an_end_that_takes_nothing_has_its_packets_lost_by_cause";
    let place = Place::new(TEST);
    let ([mut a, b], _) = {
        let [a, b] = [("a", 0), ("b", COUNT)].map(|(wire, first)| far_end(&place, false, wire, first));
        ([a.0, b.0], [a.1, b.1])
    };
    let forward = start(&place, false, WAITS[2].1);
    let began = Instant::now();
    a.begin();
    a.wait_until_sent(COUNT);
    let summary = end(forward, [a, b]);
    assert_eq!(summary["directions"].as_array().map(Vec::len), Some(1), "{summary}");
    assert_eq!(account(&summary, 0, "received"), COUNT, "{summary}");
    assert_sum(&summary, 0);
    let drops = &summary["directions"][0]["drops"];
    let [full, not_sent] = ["ring_full", "not_sent"].map(|cause| drops[cause].as_u64().unwrap_or_default());
    // A ring of virtio's has 256 descriptors, whoever asks for more, and what it took counts as forwarded; before it are those of --out-ring.
    assert_eq!((full, not_sent), (u64::from(COUNT) - 4096 - 256, 4096), "{summary}");
    assert!(began.elapsed() < Duration::from_secs(20), "who sends is not held up");
}

/// Its other end is killed and comes again: what it missed is accounted for, and it has what comes then.
#[test]
fn net_a_forwarder_outlives_its_other_end() {
    const TEST: &str = "net_a_forwarder_outlives_its_other_end";
    let place = Place::new(TEST);
    // Both ways, as an end whose own packets nobody takes waits for that.
    let forward = start(&place, true, &[WAITS[2].1, &WIDE, &["--both"]].concat());
    let (mut a, _) = far_end(&place, true, "a", 0);
    let (mut b, _) = far_end(&place, true, "b", COUNT);
    b.begin();
    a.begin();
    b.program.child().kill().unwrap();
    b.program.child().wait().unwrap();
    a.wait_until_sent(COUNT);
    a.quit();
    let (mut b, of_second) = far_end(&place, true, "b", COUNT);
    b.begin();
    std::thread::sleep(A_WHILE);
    let (mut a, _) = far_end(&place, true, "a", 5 * COUNT);
    a.begin();
    a.wait_until_sent(COUNT);
    let summary = end(forward, [a, b]);
    assert_eq!(account(&summary, 0, "received"), 2 * COUNT, "{summary}");
    assert_sum(&summary, 0);
    let came = numbers(TEST, &of_second);
    assert!((5 * COUNT..6 * COUNT).all(|number| came.contains(&number)), "{} came: {summary}", came.len());
}

/// One way too, what is said of the second port when it is opened is told.
#[test]
fn net_what_is_wrong_with_the_second_port_is_told() {
    let place = Place::new("net_what_is_wrong_with_the_second_port_is_told");
    let ended = start(&place, true, &[]).interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for port in ["net_vhost0", "net_vhost1"] {
        let line = format!("{port} (net_vhost) has no link yet");
        assert_eq!(ended.stderr.matches(&line).count(), 1, "{port}: {}", ended.stderr);
    }
}
