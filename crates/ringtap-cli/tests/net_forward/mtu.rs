//! An MTU that is changed while packets are forwarded.

use std::time::Duration;

use crate::capture_support::frames::{ipv4, udp};
use crate::capture_support::{ip, send_frames};
use crate::wires::Wires;
use crate::{TestbedConfig, WAYS, assert_sum};

/// A frame of so many bytes.
fn of(len: usize) -> Vec<u8> {
    ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 0, &udp(4000, 53, &vec![7; len - 42]))
}

#[test]
fn net_an_mtu_that_changes_is_noticed_and_frames_beyond_it_are_counted() {
    const TEST: &str = "net_an_mtu_that_changes_is_noticed_and_frames_beyond_it_are_counted";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let there = wires.sink_at_far();
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        send_frames(wires.testbed(), &[of(1514), of(1000)]);
        ip(wires.host(), &format!("link set {} mtu 1000", wires.near()));
        forward.wait_for("MTU is 1000 now");
        send_frames(wires.testbed(), &[of(1014), of(1015), of(1514), of(60)]);
        ip(wires.host(), &format!("link set {} mtu 1400", wires.near()));
        forward.wait_for("MTU is 1400 now");
        send_frames(wires.testbed(), &[of(1414), of(1415)]);
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let lengths: Vec<usize> = there.end().others.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1514, 1000, 1014, 60, 1414], "{way:?}: {summary}");
        assert_eq!(summary["directions"][0]["drops"]["too_long"], 3, "{summary}");
        assert_eq!(summary["directions"][0]["device_dropped"], 0, "{summary}");
        assert_sum(&summary["directions"][0]);
    }
}

/// Frames of a packet ring hold what the MTU was when it was opened, and some more.
#[test]
fn net_an_mtu_that_grows_lets_longer_frames_through_as_far_as_a_ring_holds_them() {
    const TEST: &str = "net_an_mtu_that_grows_lets_longer_frames_through_as_far_as_a_ring_holds_them";
    for (way, longest) in [(WAYS[0], 1_714), (WAYS[1], 1_714)] {
        let wires = Wires::new(TEST, TestbedConfig { mtu: 1700, ..TestbedConfig::default() });
        ip(wires.host(), &format!("link set {} mtu 1500", wires.near()));
        let there = wires.sink_at_far();
        let forward = wires.start(&way);
        send_frames(wires.testbed(), &[of(1600)]);
        ip(wires.host(), &format!("link set {} mtu 1700", wires.near()));
        forward.wait_for("MTU is 1700 now");
        send_frames(wires.testbed(), &[of(1600), of(longest)]);
        std::thread::sleep(Duration::from_millis(100));
        let summary = forward.interrupt().summary();
        let lengths: Vec<usize> = there.end().others.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1600, longest], "{way:?}: {summary}");
        assert_eq!(summary["directions"][0]["drops"]["too_long"], 1, "{summary}");
        assert_sum(&summary["directions"][0]);
    }
}
