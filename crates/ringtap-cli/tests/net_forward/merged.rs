//! Packets that were merged before they came: one frame of the kernel's, several on a wire.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};

use crate::capture_support::ip;
use crate::wires::{self, Wires};
use crate::{TestbedConfig, WAYS, assert_sum};

/// Sends three datagrams of 1,000 bytes as one, which the sender's device is told to segment.
fn send_merged(wires: &Wires) {
    let sender = wires.testbed().sender();
    let receiver = wires.host().link().ipv4;
    let offload = format!("-K {} tx on gso on tx-udp-segmentation on", sender.interface());
    let done = sender.run(|| Command::new("ethtool").args(offload.split(' ')).status()).unwrap().unwrap();
    assert!(done.success());
    let send = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        setsockopt(&socket, UdpGsoSegment, &1_000).unwrap();
        let data: Vec<u8> = (0..3_000u32).map(|at| (at / 1_000) as u8).collect();
        assert_eq!(socket.send_to(&data, (receiver, 9)).unwrap(), data.len());
    };
    sender.run(send).unwrap();
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn net_merged_packets_are_lost_by_cause_where_they_do_not_fit_and_never_in_part() {
    const TEST: &str = "net_merged_packets_are_lost_by_cause_where_they_do_not_fit_and_never_in_part";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let there = wires.sink_at_far();
        let forward = wires.start(&way);
        send_merged(&wires);
        let summary = forward.interrupt().summary();
        let lengths: Vec<usize> = there.end().others.iter().map(Vec::len).collect();
        let direction = &summary["directions"][0];
        assert_sum(direction);
        if way[1] == "xdp" {
            // A device with an XDP program is given no merged packets.
            assert_eq!(lengths, [1_042; 3], "{summary}");
        } else {
            assert_eq!(lengths, [0usize; 0], "{summary}");
            assert_eq!(direction["drops"], serde_json::json!({ "too_long": 1 }), "{summary}");
            assert!(summary["advice"][0].as_str().unwrap().contains("gro off"), "{summary}");
        }
    }
}

#[test]
fn net_merged_packets_that_fit_leave_whole_with_their_checksum() {
    const TEST: &str = "net_merged_packets_that_fit_leave_whole_with_their_checksum";
    let wires = Wires::new(TEST, TestbedConfig { mtu: 9_000, ..TestbedConfig::default() });
    ip(wires.testbed().sender(), &format!("link set {} mtu 1500", wires.testbed().sender().interface()));
    let there = wires.sink_at_far();
    let forward = wires.start(&WAYS[1]);
    send_merged(&wires);
    let summary = forward.interrupt().summary();
    let seen = there.end().others;
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [3_042], "{summary}");
    assert!(wires::udp_sum_is_right(&seen[0]), "{:x?}", &seen[0][..64]);
    assert_eq!(summary["directions"][0]["checksums_completed"], 1, "{summary}");
    assert_sum(&summary["directions"][0]);
}
