//! Steering against the real kernel: each kind of rule takes exactly what it says, and the host gets everything else.

mod net_support;

use std::collections::BTreeSet;
use std::time::Duration;

use net_support::frames::{number, samples};
use net_support::{Bench, Keep, Way, Wire, bench, bench_with, config, eventually, xdp_config};
use ringtap::clock;
use ringtap::ledger::Cause;
use ringtap::receiver::Queues;
use ringtap::source::Source;
use ringtap::source::xdp::XdpSource;
use ringtap::steer::{Attach, Rule, Side, Steering};
use ringtap_testbed::TestbedConfig;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Every kind of clause, alone and joined; several rules are alternatives.
fn sets() -> Vec<Vec<Rule>> {
    let mut sets: Vec<Vec<Rule>> = [
        &[][..],
        &["ip"],
        &["ip6"],
        &["udp"],
        &["tcp"],
        &["sctp"],
        &["icmp"],
        &["proto 132"],
        &["host 198.18.0.2"],
        &["src host 198.18.0.2"],
        &["dst host 198.18.0.2"],
        &["src net 10.0.0.0/8"],
        &["net 203.0.112.0/21"],
        &["net 0.0.0.0/0"],
        &["src net 2001:2::8/125"],
        &["dst host 2001:2::2"],
        &["net ::/0"],
        &["port 2000"],
        &["src port 2000"],
        &["dst port 2000"],
        &["portrange 2000-2904"],
        &["dst portrange 80-162"],
        &["vlan 5"],
        &["vlan 7"],
        &["vlan 7 and udp port 2000"],
        &["vlan 6"],
        &["udp and src net 198.18.0.0/15 and src port 1000"],
        &["ip6 and udp dst port 2000"],
        &["src host 198.18.0.1 and src port 2000"],
        &["tcp port 80", "sctp", "vlan 7"],
        &["dst port 162", "net 2001:2::/32 and tcp"],
    ]
    .iter()
    .map(|texts| rules(texts))
    .collect();
    // As many as there may be, the last one deciding.
    let mut many = vec![Rule { ports: Some((9, 9)), ..Rule::default() }; 31];
    many.push(Rule { ports: Some((162, 162)), side: Side::Destination, ..Rule::default() });
    sets.push(many);
    // Fragments stay with the host, the first ones too.
    sets.push(vec![Rule { protocol: Some(17), ports: Some((2000, 2000)), whole: true, ..Rule::default() }]);
    sets.push(vec![Rule { whole: true, ..Rule::default() }]);
    // A rule that asks for nothing takes everything.
    sets.push(vec![Rule::default()]);
    sets
}

fn check(bench: &Bench, way: Way, rules: &[Rule], sender: &mut Wire, host: &mut Wire) {
    let samples = samples();
    let mut config = config(bench, way);
    config.rules = rules.to_vec();
    let keep = Keep::default();
    let running = bench.start(config, |_| keep.clone());
    host.received();
    let before_ns = clock::monotonic_ns();
    let frames: Vec<Vec<u8>> = samples.iter().map(|sample| sample.bytes.clone()).collect();
    sender.send(&frames);
    let mut passed = Vec::new();
    let all = eventually(Duration::from_secs(2), || {
        passed.extend(host.received());
        keep.len() + passed.len() >= samples.len()
    });
    let after_ns = clock::monotonic_ns();
    let outcome = bench.finish(running);
    passed.extend(host.received());
    let what = format!("{way:?}, rules {rules:?}");
    assert!(all, "{what}: {} taken and {} passed of {}", keep.len(), passed.len(), samples.len());
    let named = |numbers: Vec<usize>| numbers.iter().map(|&n| samples[n].name).collect::<BTreeSet<_>>();
    let expected: Vec<usize> =
        (0..samples.len()).filter(|&n| rules.is_empty() || rules.iter().any(|rule| samples[n].wanted(rule))).collect();
    let taken = keep.frames();
    let taken_numbers: Vec<usize> = taken.iter().map(|seen| number(&seen.data).expect("our mark")).collect();
    let passed_numbers: Vec<usize> = passed.iter().map(|frame| number(frame).expect("our mark")).collect();
    assert_eq!(named(taken_numbers.clone()), named(expected.clone()), "{what}: taken");
    assert_eq!(taken_numbers, expected, "{what}: in order, each once");
    let rest: Vec<usize> = (0..samples.len()).filter(|n| !expected.contains(n)).collect();
    assert_eq!(passed_numbers, rest, "{what}: passed in order, each once");
    for (seen, &n) in taken.iter().zip(&taken_numbers) {
        assert_eq!(seen.data, samples[n].bytes, "{what}: the bytes of {}", samples[n].name);
        assert_eq!(seen.wire_len as usize, samples[n].bytes.len());
        assert!((before_ns..=after_ns).contains(&seen.arrival_ns), "{what}: stamp {}", seen.arrival_ns);
    }
    for (frame, &n) in passed.iter().zip(&passed_numbers) {
        assert_eq!(frame, &samples[n].bytes, "{what}: the bytes of {}", samples[n].name);
    }
    let ledger = &outcome.ledger;
    // What the stack does with frames of no protocol it knows is in the device's drops; it does not change the balance.
    let device = ledger.drops[&Cause::DriverQueue].unwrap() + ledger.drops[&Cause::Softnet].unwrap();
    assert_eq!(ledger.offered, Some(samples.len() as u64 + device), "{what}: {ledger}");
    assert_eq!(
        (ledger.delivered, ledger.filtered),
        (expected.len() as u64, Some(rest.len() as u64)),
        "{what}: {ledger}"
    );
    assert_eq!(ledger.unaccounted(), Some(0), "{what}: {ledger}");
    // On a busy machine they may come before the engine's thread does.
    let stamped = outcome.counters.latency.count() + outcome.counters.backlog;
    assert_eq!(stamped, expected.len() as u64, "{what}: all had a stamp");
}

fn all_sets(name: &str, way: Way, part: usize) {
    let bench = bench(name);
    let mut sender = Wire::open(bench.testbed.sender());
    let mut host = Wire::open(bench.receiver());
    for rules in sets().iter().skip(part).step_by(2) {
        check(&bench, way, rules, &mut sender, &mut host);
    }
    assert_eq!(bench.xdp_program(), None);
}

#[test]
fn net_native_steering_takes_what_the_rules_say() {
    all_sets("net_native_steering_takes_what_the_rules_say", Way::Native, 0);
}

#[test]
fn net_native_steering_takes_what_more_rules_say() {
    all_sets("net_native_steering_takes_what_more_rules_say", Way::Native, 1);
}

#[test]
fn net_generic_steering_takes_what_the_rules_say() {
    all_sets("net_generic_steering_takes_what_the_rules_say", Way::Generic, 0);
}

#[test]
fn net_generic_steering_takes_what_more_rules_say() {
    all_sets("net_generic_steering_takes_what_more_rules_say", Way::Generic, 1);
}

#[test]
fn net_host_sockets_still_get_what_the_rules_leave() {
    let bench = bench("net_host_sockets_still_get_what_the_rules_leave");
    for way in [Way::Native, Way::Generic] {
        let mut config = config(&bench, way);
        config.rules = rules(&["tcp port 1"]);
        let running = bench.start(config, |_| Keep::default());
        assert!(bench.host_traffic_works(), "{way:?}");
        let outcome = bench.finish(running);
        assert!(outcome.ledger.filtered >= Some(1), "{}", outcome.ledger);
        assert!(bench.host_traffic_works(), "{way:?} afterwards");
    }
}

#[test]
fn net_frames_of_a_queue_without_an_engine_go_to_the_host_and_are_counted() {
    let bench = bench_with(
        "net_frames_of_a_queue_without_an_engine_go_to_the_host_and_are_counted",
        TestbedConfig { queues: 4, ..TestbedConfig::default() },
    );
    let mut config = config(&bench, Way::Native);
    config.queues = Queues::Only(vec![3]);
    let keep = Keep::default();
    let mut sender = Wire::open(bench.testbed.sender());
    let mut host = Wire::open(bench.receiver());
    let running = bench.start(config, |_| keep.clone());
    let frames: Vec<Vec<u8>> = samples().iter().map(|sample| sample.bytes.clone()).collect();
    sender.send(&frames);
    let mut passed = Vec::new();
    eventually(Duration::from_secs(2), || {
        passed.extend(host.received());
        passed.len() + keep.len() >= frames.len()
    });
    let outcome = bench.finish(running);
    // A veth has the queue of the CPU that sends, and no CPU here is the fourth, or that one's frames are delivered.
    let count = frames.len() as u64;
    assert_eq!(outcome.ledger.drops[&Cause::NoSocket], Some(count - outcome.ledger.delivered), "{}", outcome.ledger);
    assert_eq!(passed.len() as u64, count - outcome.ledger.delivered);
    assert_eq!(outcome.ledger.unaccounted(), Some(0), "{}", outcome.ledger);
}

/// On a port of a bond or team these decide whether the port works.
#[test]
fn net_link_control_stays_with_the_host() {
    let bench = bench("net_link_control_stays_with_the_host");
    let frame = |behind_addresses: &[u8]| {
        let mut frame = [&[1, 0x80, 0xc2, 0, 0, 2][..], &[2, 0, 0, 0, 0, 1], behind_addresses].concat();
        frame.resize(80, 0);
        frame
    };
    let ipv6 = |icmp: u8| [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255][..], &[0; 32], &[icmp]].concat();
    let tagged = |rest: &[u8]| [&[0x81, 0, 0, 5][..], rest].concat();
    let control = [
        frame(&[0x88, 0x09, 1]),
        frame(&[0x08, 0x06, 0, 1]),
        frame(&tagged(&[0x08, 0x06, 0, 1])),
        frame(&ipv6(135)),
        frame(&tagged(&ipv6(136))),
    ];
    let others = [frame(&[0x08, 0x00, 0x45]), frame(&ipv6(128)), frame(&tagged(&ipv6(134))), frame(&[0x88, 0xcc])];
    let config = xdp_config(bench.receiver());
    let mut sender = Wire::open(bench.testbed.sender());
    let mut host = Wire::open(bench.receiver());
    for spares in [true, false] {
        let open = || {
            let mut steering = Steering::attach(&config.interface, config.ifindex, &[], Some(Attach::Native), spares)?;
            let (source, _) = XdpSource::open(&config, &mut steering)?;
            steering.open().map(|()| (steering, source))
        };
        let (steering, mut source) = bench.receiver().run(open).unwrap().unwrap_or_else(|error| panic!("{error}"));
        host.received();
        sender.send(&control);
        sender.send(&others);
        let (mut taken, mut passed) = (Vec::new(), Vec::new());
        eventually(Duration::from_secs(2), || {
            taken.extend(source.receive().iter().map(|packet| packet.data.to_vec()));
            passed.extend(host.received());
            taken.len() + passed.len() >= control.len() + others.len()
        });
        let (to_host, to_us) =
            if spares { (&control[..], others.to_vec()) } else { (&[][..], [&control[..], &others].concat()) };
        assert_eq!(passed, to_host, "{spares}");
        assert_eq!(taken, to_us, "{spares}");
        assert_eq!(steering.counters().unwrap().passed, to_host.len() as u64);
    }
}
