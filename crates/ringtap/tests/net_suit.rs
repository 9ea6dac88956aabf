//! What a receiver sets on a device and says of it: VLAN tags, several queues, counters that count other things too.

mod net_support;

use std::sync::Mutex;
use std::time::Duration;

use net_support::frames::{ethernet, ipv4, udp};
use net_support::{Bench, Count, Keep, Way, Wire, bench, bench_with, config, eventually};
use ringtap::ledger::Cause;
use ringtap::receiver::{Queues, ReceiverConfig};
use ringtap_testbed::TestbedConfig;

/// Whether the receiving device takes tags out of packets, as ethtool(8) says.
fn strips(bench: &Bench) -> bool {
    let interface = bench.receiver().interface();
    let run = || std::process::Command::new("ethtool").args(["-k", interface]).output().unwrap();
    let output = bench.receiver().run(run).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("rx-vlan-offload:"));
    line.unwrap_or_else(|| panic!("{text}")).contains(": on")
}

#[test]
fn net_a_device_leaves_tags_in_packets_while_af_xdp_has_it() {
    let bench = bench("net_a_device_leaves_tags_in_packets_while_af_xdp_has_it");
    assert!(strips(&bench), "a veth says so, and does not do it");
    let tagged = ethernet(
        &[(0x8100, 5)],
        0x0800,
        &ipv4([198, 18, 0, 1], [198, 18, 0, 2], 17, 0x4000, &[], &udp(1, 2, b"ringtap!\x00")),
    );
    let mut sender = Wire::open(bench.testbed.sender());
    for way in [Way::Native, Way::Generic, Way::Packet] {
        let keep = Keep::default();
        let running = bench.start(config(&bench, way), |_| keep.clone());
        assert_eq!(strips(&bench), !way.is_xdp(), "{way:?}");
        let says = running.warnings().iter().any(|warning| warning.contains("VLAN tags"));
        assert_eq!(
            says,
            way.is_xdp(),
            "{way:?}: what the other end leaves beside a packet is not seen: {:?}",
            running.warnings()
        );
        sender.send(std::slice::from_ref(&tagged));
        eventually(Duration::from_secs(2), || keep.len() == 1);
        bench.finish(running);
        assert_eq!(keep.frames()[0].data, tagged, "{way:?}");
        assert!(strips(&bench), "{way:?}: put back");
    }
}

/// What receivers said before they took memory.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn net_queues_share_the_ring_of_the_peak_rate() {
    let name = "net_queues_share_the_ring_of_the_peak_rate";
    let bench = bench_with(name, TestbedConfig { queues: 4, ..TestbedConfig::default() });
    for way in [Way::Native, Way::Packet] {
        let memory = |queues: Queues, packed_slots: Option<u32>| {
            let config = ReceiverConfig {
                queues,
                ring_slots: 8192,
                packed_slots,
                tell: |line| SAID.lock().unwrap().push(line.to_owned()),
                ..config(&bench, way)
            };
            SAID.lock().unwrap().clear();
            let receiver = bench.open(config).unwrap_or_else(|error| panic!("{error}"));
            let bytes: usize = receiver.descriptions().iter().map(|queue| queue.memory_bytes).sum();
            let said = SAID.lock().unwrap().clone();
            (bytes, said)
        };
        let (one, said) = memory(Queues::Count(1), Some(32768));
        assert!(said.is_empty(), "{said:?}");
        let (shared, said) = memory(Queues::Count(4), Some(32768));
        assert!(shared > one && shared < one * 5 / 2, "{way:?}: {shared} for {one}");
        assert!(said.len() == 1 && said[0].contains("4 rings of ") && said[0].contains("MiB in all"), "{said:?}");
        let (told, said) = memory(Queues::Count(4), None);
        assert!(told > 0 && said[0].contains("4 rings of 8192 slots"), "{way:?}: as it was asked for: {said:?}");
    }
}

#[test]
fn net_flows_that_may_meet_different_handlers_are_told() {
    let name = "net_flows_that_may_meet_different_handlers_are_told";
    let bench = bench_with(name, TestbedConfig { queues: 4, ..TestbedConfig::default() });
    for (way, queues, together, told) in [
        (Way::Native, 4, true, true),
        (Way::Generic, 4, true, true),
        (Way::Native, 1, true, false),
        (Way::Native, 4, false, false),
        // The kernel's fanout keeps them together.
        (Way::Packet, 4, true, false),
    ] {
        let config = ReceiverConfig { queues: Queues::Count(queues), flows_together: together, ..config(&bench, way) };
        let running = bench.start(config, |_| Keep::default());
        let says = running.warnings().iter().any(|warning| warning.contains("different handlers"));
        assert_eq!(says, told, "{way:?} {queues} {together}: {:?}", running.warnings());
        bench.finish(running);
    }
}

/// The host counts in rx_dropped what it knows no protocol for, after a packet socket got it: that is no loss.
#[test]
fn net_what_the_host_knows_no_protocol_for_is_unknown_not_lost() {
    const FEW: usize = 20;
    let bench = bench("net_what_the_host_knows_no_protocol_for_is_unknown_not_lost");
    bench.ip("link add br0 type bridge");
    bench.ip(&format!("link set dev {} master br0", bench.receiver().interface()));
    bench.ip("link set dev br0 up");
    let config = ReceiverConfig { interface: "br0".to_owned(), ..config(&bench, Way::Packet) };
    let running = bench.start(config, |_| Count::new(0, &[64]));
    let mut unknown = ethernet(&[(0x8100, 5)], 0x88b5, &[0x5a; 46]);
    unknown[..6].fill(0xff);
    let mut sender = Wire::open(bench.testbed.sender());
    sender.send(&vec![unknown; FEW]);
    let came = || running.counters().packets >= FEW as u64;
    assert!(eventually(Duration::from_secs(3), came), "{} came", running.counters().packets);
    let outcome = bench.finish(running);
    let dropped = bench.receiver().run(|| {
        let link = ringtap::netlink::link_by_name("br0").unwrap();
        link.statistics.rx_dropped
    });
    assert!(dropped.unwrap() >= FEW as u64, "the host counts them");
    assert_eq!(outcome.ledger.drops[&Cause::DriverQueue], None, "{}", outcome.ledger);
    assert_eq!((outcome.ledger.lost(), outcome.ledger.unaccounted()), (0, None), "{}", outcome.ledger);
}
