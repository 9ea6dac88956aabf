//! The real `ringtap forward` between two wires: numbered packets in both directions, and all that can go wrong on the way.

#[path = "../capture_support/mod.rs"]
mod capture_support;
mod ends;
mod loops;
mod merged;
mod metrics;
mod mtu;
mod rings;
mod wires;

use std::process::Command;
use std::time::{Duration, Instant};

use capture_support::frames::{arp, ipv4, udp};
use capture_support::{Capture, ip, send_frames};
use nix::sys::signal::Signal;
use ringtap_testbed::TestbedConfig;
use serde_json::Value;
use wires::{Seen, Wires};

/// By AF_XDP without a copy, and by packet rings with one.
const WAYS: [[&str; 2]; 2] = [["--backend", "xdp"], ["--backend", "packet"]];

/// All of one direction: what came is what is explained.
fn assert_sum(direction: &Value) {
    let account = &direction["account"];
    let of = |name: &str| account[name].as_i64().unwrap_or_else(|| panic!("{name} in {direction}"));
    assert_eq!(of("offered"), of("lost_before") + of("received"), "{direction}");
    assert_eq!(of("received"), of("forwarded") + of("dropped") + of("beyond_count"), "{direction}");
    assert_eq!(of("unaccounted"), 0, "{direction}");
}

fn forwarded(summary: &Value, direction: usize) -> u64 {
    summary["directions"][direction]["account"]["forwarded"].as_u64().unwrap()
}

fn assert_flows_in_order(seen: &Seen) {
    let mut by_flow = std::collections::BTreeMap::new();
    for &(number, port) in &seen.stamped {
        let before = by_flow.insert(port, number);
        assert!(before.is_none_or(|before| before < number), "order of flow {port}: {before:?}, {number}");
    }
}

fn assert_in_order(seen: &Seen, numbers: std::ops::Range<u64>) {
    assert_flows_in_order(seen);
    let mut all: Vec<u64> = seen.stamped.iter().map(|&(number, _)| number).collect();
    all.sort_unstable();
    assert!(all.iter().copied().eq(numbers.clone()), "{} of {numbers:?}", all.len());
}

/// The rings of forwarder and sinks hold a direction whole; what a wire loses, on the way in or out, is counted.
#[test]
fn net_numbered_packets_cross_each_way_in_order_and_each_is_accounted_for() {
    const TEST: &str = "net_numbered_packets_cross_each_way_in_order_and_each_is_accounted_for";
    const COUNT: u64 = 30_000;
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        wires.send_there(0, COUNT, 50e3);
        wires.send_back(0, COUNT, 50e3);
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        for (direction, (sink, lost)) in [there, back].into_iter().zip(wires.lost_behind()).enumerate() {
            assert_sum(&summary["directions"][direction]);
            let account = &summary["directions"][direction]["account"];
            assert_eq!(account["offered"], COUNT, "its own frames are not seen again: {summary}");
            assert_eq!(account["forwarded"], account["received"], "{way:?}: {summary}");
            let seen = sink.end();
            assert_flows_in_order(&seen);
            assert!(seen.stamped.iter().all(|&(number, _)| number < COUNT));
            assert_eq!(seen.stamped.len() as u64 + lost, forwarded(&summary, direction), "{lost} lost: {summary}");
            assert_eq!(summary["directions"][direction]["time_inside_us"]["count"], account["forwarded"]);
        }
        assert_eq!((&summary["backend"], &summary["by_descriptor"]), (&way[1].into(), &(way[1] == "xdp").into()));
        assert_eq!(summary["engine_percent"].as_array().unwrap().len(), 1, "one thread for both: {summary}");
    }
}

#[test]
fn net_both_directions_at_once() {
    const TEST: &str = "net_both_directions_at_once";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        std::thread::scope(|scope| {
            scope.spawn(|| wires.send_there(0, 20_000, 10e3));
            scope.spawn(|| wires.send_back(0, 20_000, 10e3));
        });
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_in_order(&there.end(), 0..20_000);
        assert_in_order(&back.end(), 0..20_000);
        assert_eq!((forwarded(&summary, 0), forwarded(&summary, 1)), (20_000, 20_000), "{summary}");
    }
}

#[test]
fn net_one_way_leaves_the_other_alone_and_count_ends_it() {
    const TEST: &str = "net_one_way_leaves_the_other_alone_and_count_ends_it";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--count", "5000"]].concat());
        wires.send_back(0, 100, 10e3);
        wires.send_there(0, 6_000, 20e3);
        let ended = forward.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["ending"], "count");
        assert_eq!(summary["directions"].as_array().unwrap().len(), 1);
        assert_sum(&summary["directions"][0]);
        assert_eq!(forwarded(&summary, 0), 5_000, "{summary}");
        assert_in_order(&there.end(), 0..5_000);
        assert_eq!(back.end().stamped.len(), 0);
    }
}

#[test]
fn net_frames_arrive_byte_for_byte_with_their_tags_and_short_ones() {
    const TEST: &str = "net_frames_arrive_byte_for_byte_with_their_tags_and_short_ones";
    let plain = ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 0, &udp(4000, 53, b"x"));
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x64]);
    let mut twice = tagged.clone();
    twice.splice(12..12, [0x88, 0xa8, 0x00, 0x07]);
    let short = arp()[..14].to_vec();
    let frames = vec![plain, tagged, twice, arp(), short];
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let there = wires.sink_at_far();
        let forward = wires.start(&way);
        send_frames(wires.testbed(), &frames);
        std::thread::sleep(Duration::from_millis(100));
        let ended = forward.interrupt();
        let summary = ended.summary();
        assert_eq!(there.end().others, frames, "{way:?}: {summary}");
        assert_sum(&summary["directions"][0]);
    }
}

#[test]
fn net_a_smaller_mtu_on_one_side_is_counted() {
    const TEST: &str = "net_a_smaller_mtu_on_one_side_is_counted";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig { mtu: 3000, ..TestbedConfig::default() });
        ip(wires.host(), &format!("link set {} mtu 1500", wires.near()));
        let there = wires.sink_at_far();
        let forward = wires.start(&way);
        let of = |len: usize| ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 0, &udp(4000, 53, &vec![7; len - 42]));
        send_frames(wires.testbed(), &[of(1514), of(1515), of(2900), of(60)]);
        std::thread::sleep(Duration::from_millis(100));
        let ended = forward.interrupt();
        let summary = ended.summary();
        let lengths: Vec<usize> = there.end().others.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1514, 60], "{way:?}: {summary}");
        assert_eq!(summary["directions"][0]["drops"]["too_long"], 2, "{summary}");
        assert!(summary["advice"][0].as_str().unwrap().contains("its MTU"), "{summary}");
        assert_sum(&summary["directions"][0]);
    }
}

#[test]
fn net_a_link_that_is_down_is_told_counted_and_waited_for() {
    const TEST: &str = "net_a_link_that_is_down_is_told_counted_and_waited_for";
    for (way, is_far, words) in
        [(WAYS[0], false, "is down"), (WAYS[1], false, "is down"), (WAYS[0], true, "no carrier")]
    {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        let (host, name) = if is_far {
            (wires.far().host(), wires.far().host().interface().to_owned())
        } else {
            (wires.host(), wires.near().to_owned())
        };
        wires.send_there(0, 1_000, 10e3);
        ip(host, &format!("link set {name} down"));
        forward.wait_for(words);
        wires.send_there(1_000, 1_000, 10e3);
        ip(host, &format!("link set {name} up"));
        forward.wait_for("is up again");
        wires.send_there(2_000, 1_000, 10e3);
        wires.send_back(0, 1_000, 10e3);
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let numbers: Vec<u64> = there.end().stamped.iter().map(|(number, _)| *number).collect();
        assert!(numbers.iter().copied().eq((0..1_000).chain(2_000..3_000)), "{way:?} {words}: {summary}");
        assert_in_order(&back.end(), 0..1_000);
        assert_eq!(summary["directions"][0]["drops"]["link_down"], 1_000, "{summary}");
        assert_eq!(summary["directions"][0]["account"]["unaccounted"], 0, "{summary}");
        assert_eq!(forwarded(&summary, 1), 1_000, "{summary}");
    }
}

#[test]
fn net_a_removed_interface_ends_the_run_with_its_account() {
    const TEST: &str = "net_a_removed_interface_ends_the_run_with_its_account";
    for (way, both) in [(WAYS[0], true), (WAYS[0], false), (WAYS[1], true)] {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let there = wires.sink_at_far();
        let arguments = [&way[..], if both { &["--both"] } else { &[] }].concat();
        let forward = wires.start(&arguments);
        wires.send_there(0, 1_000, 10e3);
        ip(wires.host(), &format!("link del {}", wires.near()));
        let ended = forward.end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("forward {}", wires.near())), "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!((summary["ending"].as_str(), forwarded(&summary, 0)), (Some("port_gone"), 1_000), "{summary}");
        drop(there);
    }
}

#[test]
fn net_every_way_out_leaves_both_interfaces_as_they_were_and_it_starts_again() {
    const TEST: &str = "net_every_way_out_leaves_both_interfaces_as_they_were_and_it_starts_again";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let before = wires.state();
    for (signal, user) in
        [(Signal::SIGTERM, false), (Signal::SIGKILL, false), (Signal::SIGKILL, true), (Signal::SIGHUP, true)]
    {
        let mut arguments = vec!["--backend", "xdp", "--both", "--napi-pacing", "50us"];
        if user {
            arguments.extend(["--user", "nobody"]);
        }
        let mut forward = wires.start(&arguments);
        assert_ne!(wires.state(), before);
        forward.signal(signal);
        let ended = forward.end();
        let until = Instant::now() + Duration::from_secs(20);
        while wires.state() != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(wires.state(), before, "{signal} {user}: {}", ended.stderr);
    }
    let there = wires.sink_at_far();
    let forward = wires.start(&WAYS[0]);
    wires.send_there(0, 1_000, 10e3);
    assert_eq!(forward.interrupt().code(), 0);
    assert_in_order(&there.end(), 0..1_000);
}

#[test]
fn net_a_second_forwarder_is_refused_and_the_first_goes_on() {
    const TEST: &str = "net_a_second_forwarder_is_refused_and_the_first_goes_on";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let there = wires.sink_at_far();
    let first = wires.start(&WAYS[0]);
    let second = Capture::of(wires.host(), wires.command(&WAYS[0])).end();
    assert_eq!(second.code(), 1, "{}", second.stderr);
    assert!(second.stderr.contains(wires.host().interface()), "{}", second.stderr);
    wires.send_there(0, 1_000, 10e3);
    let ended = first.interrupt();
    assert_eq!((ended.code(), forwarded(&ended.summary(), 0)), (0, 1_000), "{}", ended.stderr);
    assert_in_order(&there.end(), 0..1_000);
}

#[test]
fn net_what_makes_no_sense_is_refused_in_one_line() {
    const TEST: &str = "net_what_makes_no_sense_is_refused_in_one_line";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let host = wires.host();
    let (input, near) = (host.interface().to_owned(), wires.near().to_owned());
    ip(host, "link add one0 type veth peer name one1");
    ip(host, "link set one0 up");
    ip(host, "link set one1 up");
    ip(host, &format!("link add link {input} name above0 type macvlan mode bridge"));
    ip(host, "link set above0 up");
    ip(host, "link add name down0 type veth peer name down1");
    let before = wires.state();
    let refused = |code: i32, arguments: &[&str], parts: &[&str]| {
        let mut command = host.command(capture_support::RINGTAP);
        command.arg("forward").args(arguments).args(wires::NUMBERS);
        Capture::of(host, command).end().assert_refused(code, parts);
        assert_eq!(wires.state(), before, "{arguments:?}");
    };
    refused(2, &[&input, &input], &[&input, "itself", "a loop"]);
    refused(2, &["one0", "one1"], &["other end of one0", "a loop"]);
    refused(2, &[&input, "above0"], &["stand on one another"]);
    refused(2, &["above0", &input, "--both"], &["stand on one another"]);
    refused(2, &[&input, "lo"], &["lo", "no Ethernet interface with a wire"]);
    refused(1, &[&input, "nothing0"], &["nothing0", "no such interface"]);
    refused(1, &[&input, "down0"], &["down0", "it is down"]);
    refused(2, &[&input, &near, "--out-ring", "100"], &["--out-ring", "power of two"]);
    refused(2, &[&input, &near, "--count", "0"], &["--count", "no whole number above 0"]);
}

#[test]
fn net_an_interface_that_the_host_uses_is_copied_unless_taken() {
    const TEST: &str = "net_an_interface_that_the_host_uses_is_copied_unless_taken";
    let wires = Wires::new(TEST, TestbedConfig::default());
    for (arguments, backend) in [(&["--backend", "auto"][..], "packet"), (&["--backend", "auto", "--take"], "xdp")] {
        let there = wires.sink_at_far();
        let forward = wires.start(arguments);
        wires.send_there(0, 1_000, 10e3);
        let ended = forward.interrupt();
        let summary = ended.summary();
        assert_eq!(summary["backend"], backend, "{summary}");
        assert_in_order(&there.end(), 0..1_000);
    }
}

#[test]
fn net_checksums_that_were_left_to_a_device_are_completed() {
    const TEST: &str = "net_checksums_that_were_left_to_a_device_are_completed";
    let wires = Wires::new(TEST, TestbedConfig::default());
    let (sender, there) = (wires.testbed().sender(), wires.sink_at_far());
    let offload = format!("-K {} tx on", sender.interface());
    sender.run(|| Command::new("ethtool").args(offload.split(' ')).status()).unwrap().unwrap();
    let forward = wires.start(&WAYS[1]);
    let receiver = wires.host().link().ipv4;
    sender
        .run(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"checksum", (receiver, 9)).unwrap())
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let summary = forward.interrupt().summary();
    assert_eq!(summary["directions"][0]["checksums_completed"], 1, "{summary}");
    let seen: Seen = there.end();
    assert_eq!(seen.others.len(), 1, "{summary}");
    assert!(wires::udp_sum_is_right(&seen.others[0]), "{:x?}", seen.others[0]);
}
