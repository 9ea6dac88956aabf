//! Transmit rings: one that nobody empties, and one for each of several queues.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::capture_support::{Capture, RINGTAP, tool};
use crate::wires::{NUMBERS, Wires, quiet_bridge};
use crate::{TestbedConfig, WAYS, assert_sum, forwarded};

/// Puts a bridge with one port, the wire to the far host, before that wire: frames wait in the port's queue, which lets some ninety a
/// second go, and belong to the sender's ring until they have left.
fn slow_way(test: &str, wires: &Wires) {
    let near = wires.near();
    quiet_bridge(wires.host());
    for line in [
        &format!("tc qdisc add dev {near} root tbf rate 48kbit burst 2k limit 10m"),
        &format!("ip link set {near} master br0"),
    ] {
        let (program, arguments) = line.split_once(' ').unwrap();
        wires.host().run(|| tool(test, program, &arguments.split(' ').collect::<Vec<_>>())).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn net_a_slow_other_side_fills_the_ring_and_each_packet_is_accounted_for() {
    const TEST: &str = "net_a_slow_other_side_fills_the_ring_and_each_packet_is_accounted_for";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        slow_way(TEST, &wires);
        let there = wires.sink_at_far();
        let mut command = wires.host().command(RINGTAP);
        command.args(["forward", wires.host().interface(), "br0", "--json", "--out-ring", "128"]);
        command.args(NUMBERS).args(way);
        let forward = Capture::of(wires.host(), command);
        forward.wait_for("forwarding ");
        wires.send_there(0, 2_000, 10e3);
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let direction = &summary["directions"][0];
        assert_sum(direction);
        let account = &direction["account"];
        assert_eq!((&account["offered"], &account["received"]), (&2_000.into(), &2_000.into()), "{summary}");
        let full = direction["drops"]["ring_full"].as_u64();
        assert!(full.is_some_and(|count| count > 1_000), "{way:?}: {summary}");
        assert!(summary["advice"].to_string().contains("--out-ring"), "{summary}");
        let seen = there.end().stamped;
        assert!(!seen.is_empty() && seen.len() as u64 <= forwarded(&summary, 0), "{way:?}: {} {summary}", seen.len());
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{way:?}: order");
    }
}

#[test]
fn net_several_queues_keep_each_flow_in_order_both_ways() {
    const TEST: &str = "net_several_queues_keep_each_flow_in_order_both_ways";
    const EACH: u64 = 10_000;
    for (way, engines) in [(WAYS[0], 2), (WAYS[1], 1)] {
        let config = TestbedConfig { queues: 2, ..TestbedConfig::default() };
        let wires = Wires::new(TEST, config);
        let cores = [wires.testbed().config().receiver_core, wires.testbed().config().generator_core];
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        // A veth takes the queue of the sender's CPU.
        for (queue, core) in (0..).zip(cores) {
            wires.send_there_from(core, 4_000 + 100 * queue as u16, queue * EACH, EACH, 10e3);
            wires.send_back_from(core, 4_000 + 100 * queue as u16, queue * EACH, EACH, 10e3);
        }
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["engine_percent"].as_array().unwrap().len(), engines, "{summary}");
        for (direction, seen) in [there.end(), back.end()].into_iter().enumerate() {
            assert_sum(&summary["directions"][direction]);
            assert_eq!(forwarded(&summary, direction), 2 * EACH, "{way:?}: {summary}");
            let (mut last, mut numbers) = (BTreeMap::new(), Vec::new());
            for (number, flow) in seen.stamped {
                let before = last.insert(flow, number);
                assert!(before.is_none_or(|before| before < number), "{way:?}, flow {flow}: {before:?}, {number}");
                numbers.push(number);
            }
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..2 * EACH), "{way:?}: {} came", numbers.len());
            assert_eq!(last.len(), 32, "16 flows by each queue");
        }
    }
}
