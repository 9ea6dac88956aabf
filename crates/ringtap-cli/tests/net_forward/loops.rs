//! Frames that come back, and ports that something else on this host stands on.

use std::time::Duration;

use ringtap_testbed::Host;

use crate::capture_support::frames::ethernet;
use crate::capture_support::{Capture, RINGTAP, ip, send_frames};
use crate::wires::{NUMBERS, Wires, quiet_bridge};
use crate::{TestbedConfig, WAYS, assert_sum, forwarded};

/// A host sends all that comes to it back by the same interface.
fn reflect(host: &Host) {
    quiet_bridge(host);
    ip(host, &format!("link set {} master br0", host.interface()));
    ip(host, &format!("link set {} type bridge_slave hairpin on learning off", host.interface()));
    std::thread::sleep(Duration::from_millis(100));
}

/// Frames to all, from nobody on the wire.
fn to_all(count: u8) -> Vec<Vec<u8>> {
    let frame = |number: u8| {
        let mut frame = ethernet(0x88b5, &[number; 50]);
        frame[..6].fill(0xff);
        frame[6..12].copy_from_slice(&[2, 0, 0, 9, 9, number]);
        frame
    };
    (0..count).map(frame).collect()
}

#[test]
fn net_what_comes_back_from_the_other_side_is_a_packet_of_the_other_direction() {
    const TEST: &str = "net_what_comes_back_from_the_other_side_is_a_packet_of_the_other_direction";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        reflect(wires.far().host());
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        let frames = to_all(50);
        send_frames(wires.testbed(), &frames);
        std::thread::sleep(Duration::from_millis(100));
        let summary = forward.interrupt().summary();
        let (there, back) = (there.end().others, back.end().others);
        assert!((&there, &back) == (&frames, &frames), "{way:?}: {} and {} came: {summary}", there.len(), back.len());
        for direction in 0..2 {
            assert_sum(&summary["directions"][direction]);
            assert_eq!(forwarded(&summary, direction), 50, "{way:?}: {summary}");
        }
    }
}

/// Outside this host nobody can see a loop. It costs what frames go round in it, and the accounts stay even.
#[test]
fn net_a_loop_by_both_sides_goes_round_is_accounted_for_and_ends_with_the_run() {
    const TEST: &str = "net_a_loop_by_both_sides_goes_round_is_accounted_for_and_ends_with_the_run";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        reflect(wires.far().host());
        reflect(wires.testbed().sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        send_frames(wires.testbed(), &to_all(3));
        std::thread::sleep(Duration::from_millis(300));
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        for direction in 0..2 {
            assert_sum(&summary["directions"][direction]);
            assert!(forwarded(&summary, direction) > 30, "{way:?}: {summary}");
        }
    }
}

#[test]
fn net_two_ports_of_one_bridge_are_refused() {
    const TEST: &str = "net_two_ports_of_one_bridge_are_refused";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let (host, near) = (wires.host(), wires.near());
    quiet_bridge(host);
    for name in [host.interface(), near] {
        ip(host, &format!("link set {name} master br0"));
    }
    // A bridge's timers go on.
    let state = || wires.state().into_iter().filter(|line| !line.contains("bridge_slave")).collect::<Vec<_>>();
    let before = state();
    for arguments in [&["--backend", "auto"][..], &["--backend", "packet", "--both"], &["--backend", "xdp", "--take"]] {
        let mut command = host.command(RINGTAP);
        command.args(["forward", host.interface(), near]).args(NUMBERS).args(arguments);
        Capture::of(host, command)
            .end()
            .assert_refused(2, &[near, host.interface(), "ports of br0", "sends frames on"]);
        assert_eq!(state(), before, "{arguments:?}");
    }
}

/// As by VLANs or a bond between, which not every kernel of a testbed has.
#[test]
fn net_ports_of_two_bridges_that_a_pair_joins_are_refused() {
    const TEST: &str = "net_ports_of_two_bridges_that_a_pair_joins_are_refused";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let (host, near, first) = (wires.host(), wires.near(), wires.host().interface());
    quiet_bridge(host);
    for line in [
        "link add br1 type bridge mcast_snooping 0",
        "link add join0 type veth peer name join1",
        "link set join0 master br0",
        "link set join1 master br1",
        &format!("link set {first} master br0"),
        &format!("link set {near} master br1"),
        "link set br1 up",
        "link set join0 up",
        "link set join1 up",
    ] {
        ip(host, line);
    }
    let ways = [&["--backend", "auto"][..], &["--backend", "packet"], &["--backend", "xdp", "--take"]];
    for (a, b) in [(first, near), (near, first)] {
        for way in ways {
            let mut command = host.command(RINGTAP);
            command.args(["forward", a, b]).args(NUMBERS).args(way);
            let parts = [a, b, "already carries frames", "over devices that stand on them"];
            Capture::of(host, command).end().assert_refused(2, &parts);
        }
    }
}

#[test]
fn net_a_port_of_a_bridge_is_copied_which_goes_on_with_its_own() {
    const TEST: &str = "net_a_port_of_a_bridge_is_copied_which_goes_on_with_its_own";
    for is_first in [true, false] {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let (host, near) = (wires.host(), wires.near());
        quiet_bridge(host);
        let port = if is_first { host.interface() } else { near };
        ip(host, &format!("link set {port} master br0"));
        ip(host, &format!("address flush dev {}", host.interface()));
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&["--backend", "auto", "--both"]);
        wires.send_there(0, 500, 10e3);
        wires.send_back(0, 500, 10e3);
        let ended = forward.interrupt();
        let reason = format!("{port} is a port of br0 (bridge): packets are copied");
        assert!(ended.stderr.contains(&reason), "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["backend"], "packet", "{summary}");
        for direction in 0..2 {
            assert_sum(&summary["directions"][direction]);
            assert_eq!(forwarded(&summary, direction), 500, "{summary}");
        }
        assert_eq!((there.end().stamped.len(), back.end().stamped.len()), (500, 500), "{summary}");
    }
}
