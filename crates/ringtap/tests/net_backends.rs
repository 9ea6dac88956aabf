//! Every back end against the real kernel: all packets once, whole, in order, and accounted for.

mod net_support;

use std::time::Duration;

use net_support::frames::{ethernet, ipv4, number, samples, udp};
use net_support::{Count, HANG, Keep, WAYS, Way, Wire, bench, bench_with, config, drops, eventually, ip, settle};
use ringtap::ledger::Cause;
use ringtap::receiver::Queues;
use ringtap::source::packet::Filter;
use ringtap_testbed::{FrameSpec, GeneratorConfig, Pattern, Profile, Stamp, TestbedConfig};

const COUNT: u64 = 100_000;

/// A hundred thousand numbered packets of many sizes.
fn numbered(name: &str, way: Way) {
    let bench = bench(name);
    let mut config = config(&bench, way);
    config.ring_slots = 32768;
    config.realtime.priority = 50;
    let sizes: Vec<usize> = (64..1514).step_by(29).chain([1513, 1514]).collect();
    let running = bench.start(config, |_| Count::new(COUNT, &sizes));
    let description = running.descriptions()[0].clone();
    let report = bench.send_numbered(70e3, COUNT, |config| config.frame.sizes = sizes.clone());
    settle(&running);
    let outcome = bench.finish(running);
    let handler = &outcome.engines[0].handler;
    let truth = handler.checker.report(report.stamped);
    assert_eq!(report.stamped, COUNT);
    assert_eq!((report.queue_full, report.not_ready), (Some(0), Some(0)), "{report}");
    assert_eq!((truth.lost, truth.duplicates, truth.reordered, truth.foreign), (0, 0, 0, 0), "{}", outcome.ledger);
    assert_eq!(handler.wrong_lengths, 0);
    assert_eq!(outcome.ledger.offered, Some(COUNT), "{}", outcome.ledger);
    assert_eq!(outcome.ledger.unaccounted(), Some(0), "{}", outcome.ledger);
    assert!(drops(&outcome).is_empty(), "{}", outcome.ledger);
    let stamped = outcome.counters.latency.count() + outcome.counters.backlog;
    assert_eq!(stamped, COUNT, "every packet has its stamp");
    // drivers/net/veth.c knows no zero-copy, and ties no NAPI to the socket.
    assert_eq!(description.zero_copy, way.is_xdp().then_some(false));
    assert!(!description.busy_poll);
    assert_eq!(
        description.xdp_mode,
        match way {
            Way::Native => Some("native"),
            Way::Generic => Some("generic"),
            _ => None,
        }
    );
}

#[test]
fn net_native_delivers_every_packet() {
    numbered("net_native_delivers_every_packet", Way::Native);
}

#[test]
fn net_generic_delivers_every_packet() {
    numbered("net_generic_delivers_every_packet", Way::Generic);
}

#[test]
fn net_packet_delivers_every_packet() {
    numbered("net_packet_delivers_every_packet", Way::Packet);
}

#[test]
fn net_socket_delivers_every_packet() {
    numbered("net_socket_delivers_every_packet", Way::Socket);
}

#[test]
fn net_vlan_tags_are_where_they_were() {
    let bench = bench("net_vlan_tags_are_where_they_were");
    let ip4 =
        |n: u8| ipv4([198, 18, 0, 1], [198, 18, 0, 2], 17, 0x4000, &[], &udp(1, 2, &[b"ringtap!", &[n][..]].concat()));
    let frames = vec![
        ethernet(&[(0x8100, 0xe005)], 0x0800, &ip4(0)),
        ethernet(&[(0x88a8, 0x2007)], 0x0800, &ip4(1)),
        ethernet(&[(0x88a8, 7), (0x8100, 5)], 0x0800, &ip4(2)),
        ethernet(&[(0x8100, 9), (0x8100, 5), (0x8100, 1)], 0x0800, &ip4(3)),
        ethernet(&[(0x8100, 0)], 0x0800, &ip4(4)),
        ethernet(&[], 0x0800, &ip4(5)),
        // The longest that a packet socket sends.
        ethernet(
            &[(0x8100, 7), (0x8100, 5)],
            0x0800,
            &ipv4([198, 18, 0, 1], [198, 18, 0, 2], 17, 0x4000, &[], &{
                let mut data = b"ringtap!\x06".to_vec();
                data.resize(1500 - 28 - 4, 0x5a);
                udp(1, 2, &data)
            }),
        ),
    ];
    let mut sender = Wire::open(bench.testbed.sender());
    for way in WAYS {
        let keep = Keep::default();
        let running = bench.start(config(&bench, way), |_| keep.clone());
        sender.send(&frames);
        eventually(Duration::from_secs(2), || keep.len() >= frames.len());
        let outcome = bench.finish(running);
        let seen = keep.frames();
        assert_eq!(seen.len(), frames.len(), "{way:?}: {}", outcome.ledger);
        for (seen, frame) in seen.iter().zip(&frames) {
            assert_eq!(&seen.data, frame, "{way:?}");
            assert_eq!(seen.wire_len as usize, frame.len(), "{way:?}");
        }
    }
}

#[test]
fn net_tagged_traffic_by_redirect_keeps_its_tag_and_length() {
    let bench = bench("net_tagged_traffic_by_redirect_keeps_its_tag_and_length");
    const FEW: u64 = 5_000;
    for way in WAYS {
        let mut config = config(&bench, way);
        config.ring_slots = 8192;
        let sizes = [68, 1518];
        let running = bench.start(config, |_| Count::new(FEW, &sizes));
        let report = bench.send_numbered(20e3, FEW, |config| {
            config.frame = FrameSpec { vlan: Some(5), sizes: sizes.to_vec(), ..config.frame.clone() };
        });
        settle(&running);
        let outcome = bench.finish(running);
        let handler = &outcome.engines[0].handler;
        let truth = handler.checker.report(report.stamped);
        assert_eq!((truth.lost, truth.foreign, handler.wrong_lengths), (0, 0, 0), "{way:?}: {}", outcome.ledger);
        assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?}: {}", outcome.ledger);
    }
}

#[test]
fn net_kernel_filter_decides_on_packet_sockets() {
    let bench = bench("net_kernel_filter_decides_on_packet_sockets");
    // tcpdump -dd "ether proto 0x86dd": load the type, compare, take all or nothing.
    let filter =
        Filter { instructions: vec![(0x28, 0, 0, 12), (0x15, 0, 1, 0x86dd), (0x6, 0, 0, 0x40000), (0x6, 0, 0, 0)] };
    let samples = samples();
    let frames: Vec<Vec<u8>> = samples.iter().map(|sample| sample.bytes.clone()).collect();
    let wanted: Vec<usize> = (0..frames.len()).filter(|&n| frames[n][12..14] == [0x86, 0xdd]).collect();
    let mut sender = Wire::open(bench.testbed.sender());
    for (way, threads) in [(Way::Packet, 1), (Way::Socket, 1), (Way::Packet, 2), (Way::Socket, 2)] {
        let mut config = config(&bench, way);
        config.filter = Some(filter.clone());
        config.queues = Queues::Count(threads);
        let keep = Keep::default();
        let running = bench.start(config, |_| keep.clone());
        sender.send(&frames);
        eventually(Duration::from_secs(2), || keep.len() >= wanted.len());
        let outcome = bench.finish(running);
        let mut seen: Vec<usize> = keep.frames().iter().map(|seen| number(&seen.data).unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, wanted, "{way:?} {threads}");
        let ledger = &outcome.ledger;
        assert_eq!(ledger.filtered, None, "the kernel does not say how many it left out: {ledger}");
        // The host knows no protocol for some, and counts them where a veth counts losses.
        assert_eq!((ledger.lost(), ledger.drops[&Cause::DriverQueue]), (0, None), "{way:?}: {ledger}");
        assert_eq!(ledger.unaccounted(), None, "{way:?}: {ledger}");
    }
}

/// Several threads share the traffic, which flows before they open and after they end: each packet once.
#[test]
fn net_fanout_gives_every_packet_to_one_thread() {
    let bench = bench("net_fanout_gives_every_packet_to_one_thread");
    for way in [Way::Packet, Way::Socket] {
        let mut config = config(&bench, way);
        config.ring_slots = 32768;
        config.queues = Queues::Count(2);
        let mut traffic =
            GeneratorConfig::for_testbed(&bench.testbed, 64, Profile::endless(Pattern::Constant { pps: 30e3 }));
        traffic.frame.flows = 64;
        let traffic = bench.testbed.generate(traffic).unwrap();
        let seen = [Keep::default(), Keep::default()];
        let running = bench.start(config, |engine| seen[engine].clone());
        let numbers = |keep: &Keep| -> Vec<u64> {
            keep.frames().iter().filter_map(|seen| Stamp::from_frame(&seen.data)).map(|stamp| stamp.seq).collect()
        };
        // Both sockets are open now: from the newest packet that anyone has, each is with one of them.
        assert!(eventually(HANG, || seen.iter().all(|keep| keep.len() > 0)), "{way:?}");
        let from = seen.iter().flat_map(numbers).max().unwrap();
        assert!(eventually(HANG, || seen.iter().all(|keep| keep.len() > 3000)), "{way:?}");
        let to = seen.iter().flat_map(numbers).max().unwrap();
        let outcome = bench.finish(running);
        traffic.stop().unwrap();
        let report = traffic.join().unwrap();
        assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?}: {}", outcome.ledger);
        assert!(drops(&outcome).is_empty(), "{way:?}: {}", outcome.ledger);
        let mut both: Vec<u64> =
            seen.iter().flat_map(numbers).filter(|number| (from + 1..=to).contains(number)).collect();
        both.sort_unstable();
        assert!(both.len() > 3000, "{way:?}: packets {from} to {to}");
        assert!(both.windows(2).all(|pair| pair[0] < pair[1]), "{way:?}: none twice");
        // A busy machine lets the device's queue run full, which the generator's report says.
        let missing = to - from - both.len() as u64;
        assert!(
            missing <= report.queue_full.unwrap_or(0),
            "{way:?}: {missing} of {from} to {to} with nobody; {report}"
        );
        let frames: usize = seen.iter().map(Keep::len).sum();
        assert_eq!(seen.iter().flat_map(numbers).count(), frames, "{way:?}: nothing else came");
    }
}

#[test]
fn net_each_queue_has_its_engine() {
    let name = "net_each_queue_has_its_engine";
    let bench = bench_with(name, TestbedConfig { queues: 4, ..TestbedConfig::default() });
    for way in [Way::Native, Way::Generic] {
        let mut config = config(&bench, way);
        // One generator shares its core with the engines, which may get nothing meanwhile.
        config.ring_slots = 16384;
        let running = bench.start(config, |_| Count::new(20_000, &[64]));
        assert_eq!(
            running.descriptions().iter().map(|it| it.queue).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(3)]
        );
        for (core, first) in [(0, 0), (1, 10_000)] {
            let report = bench.send_numbered(40e3, 10_000, |config| {
                config.core = Some(core);
                config.first_seq = first;
            });
            assert_eq!(report.sent(), 10_000, "{report}");
        }
        settle(&running);
        let outcome = bench.finish(running);
        let received: Vec<u64> = outcome.engines.iter().map(|engine| engine.handler.checker.received()).collect();
        assert_eq!(received.iter().sum::<u64>(), 20_000, "{way:?}: {received:?} {}", outcome.ledger);
        if way == Way::Native {
            assert_eq!(received, [10_000, 10_000, 0, 0], "a veth has the queue of the CPU that sends");
        }
        assert_eq!(outcome.ledger.unaccounted(), Some(0), "{way:?}: {}", outcome.ledger);
        assert_eq!(outcome.ledger.offered, Some(20_000), "{way:?}: {}", outcome.ledger);
    }
}

#[test]
fn net_queues_without_an_engine_are_in_the_ledger() {
    let name = "net_queues_without_an_engine_are_in_the_ledger";
    let bench = bench_with(name, TestbedConfig { queues: 2, ..TestbedConfig::default() });
    let mut config = config(&bench, Way::Native);
    config.queues = Queues::Only(vec![0]);
    let running = bench.start(config, |_| Count::new(6_000, &[64]));
    for (core, first) in [(0, 0), (1, 3_000)] {
        bench.send_numbered(20e3, 3_000, |config| {
            config.core = Some(core);
            config.first_seq = first;
        });
    }
    settle(&running);
    let outcome = bench.finish(running);
    assert_eq!(outcome.ledger.delivered, 3_000);
    assert_eq!(outcome.ledger.drops[&Cause::NoSocket], Some(3_000), "{}", outcome.ledger);
    assert_eq!(outcome.ledger.unaccounted(), Some(0), "{}", outcome.ledger);
}

#[test]
fn net_what_the_host_sends_is_seen_unless_left_out() {
    let bench = bench("net_what_the_host_sends_is_seen_unless_left_out");
    let frames: Vec<Vec<u8>> = samples().iter().map(|sample| sample.bytes.clone()).collect();
    // Nobody answers "port unreachable", which would quote what was sent.
    let _listener = bench.testbed.sender().run(|| std::net::UdpSocket::bind("198.18.0.1:9")).unwrap().unwrap();
    for (way, threads) in [(Way::Packet, 1), (Way::Packet, 2), (Way::Socket, 1)] {
        for incoming_only in [false, true] {
            let mut sender = Wire::open(bench.testbed.sender());
            let mut host = Wire::open(bench.receiver());
            let mut config = config(&bench, way);
            config.incoming_only = incoming_only;
            config.queues = Queues::Count(threads);
            let keep = Keep::default();
            let running = bench.start(config, |_| keep.clone());
            host.send(&frames);
            sender.send(&frames[..3]);
            // Sent past the queueing discipline, frames are not shown to taps; the stack's own are.
            assert!(
                bench
                    .receiver()
                    .run(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&[0x77; 99], "198.18.0.1:9"))
                    .unwrap()
                    .is_ok()
            );
            settle(&running);
            bench.finish(running);
            let outgoing = keep.frames().iter().filter(|seen| seen.data.ends_with(&[0x77; 99])).count();
            assert_eq!(outgoing, usize::from(!incoming_only), "{way:?} with {threads} threads");
            let incoming = keep.frames().iter().filter(|seen| number(&seen.data).is_some()).count();
            assert_eq!(incoming, 3, "{way:?}");
        }
    }
}

#[test]
fn net_promiscuous_mode_lasts_as_long_as_the_receiver() {
    let bench = bench("net_promiscuous_mode_lasts_as_long_as_the_receiver");
    let promiscuity = || {
        let text = ip(bench.receiver(), &format!("-d link show dev {}", bench.receiver().interface()));
        text.split("promiscuity ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let stranger = {
        let mut frame = ethernet(&[], 0x88b5, b"ringtap!\x01");
        frame[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
        frame
    };
    let mut sender = Wire::open(bench.testbed.sender());
    for way in WAYS {
        for promiscuous in [false, true] {
            let mut config = config(&bench, way);
            config.promiscuous = promiscuous;
            let keep = Keep::default();
            let running = bench.start(config, |_| keep.clone());
            assert_eq!(promiscuity(), if promiscuous { "1" } else { "0" }, "{way:?}");
            sender.send(std::slice::from_ref(&stranger));
            // A veth takes all frames in either mode.
            assert!(eventually(Duration::from_secs(2), || keep.len() == 1), "{way:?}");
            bench.finish(running);
            assert_eq!(promiscuity(), "0", "{way:?}");
        }
    }
}

#[test]
fn net_a_packet_longer_than_a_frame_is_cut_with_its_true_length() {
    let bench = bench_with(
        "net_a_packet_longer_than_a_frame_is_cut_with_its_true_length",
        TestbedConfig { mtu: 4000, ..TestbedConfig::default() },
    );
    let mut config = config(&bench, Way::Packet);
    config.frame_size = Some(2048);
    config.fetch_oversize = false;
    let keep = Keep::default();
    let running = bench.start(config, |_| keep.clone());
    bench.send_numbered(1e3, 20, |config| config.frame.sizes = vec![64, 3000]);
    settle(&running);
    let outcome = bench.finish(running);
    assert_eq!((outcome.ledger.unaccounted(), outcome.ledger.cut), (Some(0), 10));
    let seen = keep.frames();
    assert_eq!(seen.len(), 20);
    for pair in seen.chunks(2) {
        assert_eq!((pair[0].data.len(), pair[0].wire_len), (64, 64));
        assert_eq!(pair[1].wire_len, 3000);
        assert!((1900..2048).contains(&pair[1].data.len()), "{}", pair[1].data.len());
    }
}
