//! What is told apart and where it goes, over made-up packets; whole engines over scripts, with files and played rings as outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use proptest::prelude::*;
use ringtap::End;
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::meters::EngineMeters;
use ringtap::record::{InterfaceInfo, RecordConfig, Recorder};
use ringtap::source::StampClock;
use ringtap::testing::rings::{RingSource, XdpKernel};
use ringtap::testing::{self, Arrival, MemorySource, Script, SimulatedClock};
use ringtap::transmit::Outbox;
use ringtap_samples::frames::{Ends, V4, ethernet, tag};
use ringtap_wire::{Layers, LinkType, Transport, checksum};

use super::By;
use super::accounts::{EngineCounts, Tally};
use super::classes;
use super::flow::FlowHash;
use super::handler::Splitter;
use super::rule::{Decision, Rule};
use crate::counts::Cause;
use crate::port::{Port, Way, complete};

const SEED: u64 = 0x5eed;

fn hash(hosts: bool, inner: bool) -> FlowHash {
    FlowHash { hosts, inner, seed: SEED }
}

fn number(hash: FlowHash, frame: &[u8]) -> u64 {
    hash.of(&Layers::parse(frame, LinkType::Ethernet), frame)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("out{number}")).collect()
}

fn rule(by: &By, outputs: usize) -> Rule {
    classes::rule(by, &names(outputs), hash(*by == By::Hosts, false)).unwrap()
}

fn all(outputs: usize) -> u64 {
    u64::MAX >> (64 - outputs)
}

fn flow(number: u16) -> Vec<u8> {
    Ends::new("198.51.100.7", "203.0.113.9").udp_frame([1024 + number, 53], &number.to_be_bytes())
}

/// The frame in IPv4 by this protocol (4: IP in IP, with the frame's own header off).
fn in_tunnel(ends: [[u8; 4]; 2], fragment: u16, packet: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &V4 { ends, fragment, ..V4::default() }.packet(4, packet))
}

#[test]
fn both_directions_have_one_number_with_tags_too() {
    for ends in [Ends::new("198.51.100.7", "203.0.113.9"), Ends::new("2001:db8::1", "2001:db8::2")] {
        for protocol in [6, 17, 132] {
            let there = ends.frame(protocol, &[&[4, 210, 0, 53][..], &[0x50; 20]].concat());
            let back = ends.back().frame(protocol, &[&[0, 53, 4, 210][..], &[0x50; 20]].concat());
            for hosts in [false, true] {
                assert_eq!(number(hash(hosts, false), &there), number(hash(hosts, false), &back), "{protocol}");
            }
            let tagged = |frame: &[u8], id| {
                ethernet(0x8100, &tag(0, id, u16::from_be_bytes([frame[12], frame[13]]), &frame[14..]))
            };
            let by_flow = |frame: &[u8]| number(hash(false, false), frame);
            assert_eq!(by_flow(&tagged(&there, 5)), by_flow(&tagged(&back, 5)));
            assert_ne!(by_flow(&tagged(&there, 5)), by_flow(&tagged(&there, 6)));
            assert_ne!(by_flow(&tagged(&there, 5)), by_flow(&there));
        }
    }
}

#[test]
fn all_fragments_of_a_datagram_have_one_number() {
    let datagram = [&[4, 210, 0, 53, 0, 100, 0, 0][..], &[0x78; 92]].concat();
    let (first, later) = datagram.split_at(48);
    let fragment = |fragment, bytes: &[u8]| ethernet(0x0800, &V4 { fragment, ..V4::default() }.packet(17, bytes));
    let whole = fragment(0, &datagram);
    let parts = [fragment(0x2000, first), fragment(6, later)];
    for (hosts, inner) in [(false, false), (true, false), (false, true), (true, true)] {
        let hash = hash(hosts, inner);
        assert_eq!(number(hash, &parts[0]), number(hash, &parts[1]));
        assert_eq!(number(hash, &whole) == number(hash, &parts[0]), hosts, "only by hosts with the whole ones");
    }
    // IPv6: a fragment header says what follows.
    let v6 = |word: u16, bytes: &[u8]| {
        let head = [&[17, 0][..], &word.to_be_bytes(), &[0, 0, 0, 7]].concat();
        Ends::new("2001:db8::1", "2001:db8::2").frame(44, &[&head[..], bytes].concat())
    };
    assert_eq!(number(hash(false, false), &v6(1, first)), number(hash(false, false), &v6(48, later)));
}

#[test]
fn tunnels_are_told_apart_by_their_inside_where_asked() {
    let packet =
        |ports| Ends::new("10.0.0.1", "10.0.0.2").packet(17, &Ends::new("10.0.0.1", "10.0.0.2").udp(ports, b"x"));
    let back = Ends::new("10.0.0.2", "10.0.0.1").packet(17, &Ends::new("10.0.0.2", "10.0.0.1").udp([2, 1], b"x"));
    let ways = [[[192, 0, 2, 1], [192, 0, 2, 2]], [[192, 0, 2, 2], [192, 0, 2, 1]]];
    let (one, other) = (in_tunnel(ways[0], 0, &packet([1, 2])), in_tunnel(ways[0], 0, &packet([3, 4])));
    assert_eq!(number(hash(false, false), &one), number(hash(false, false), &other));
    assert_ne!(number(hash(false, true), &one), number(hash(false, true), &other));
    assert_eq!(number(hash(false, true), &one), number(hash(false, true), &in_tunnel(ways[1], 0, &back)));
    // The first fragment of a tunnel's packet shows the inside, the later ones don't.
    let parts = [in_tunnel(ways[0], 0x2000, &packet([1, 2])), in_tunnel(ways[0], 9, &[7; 40])];
    assert_eq!(number(hash(false, true), &parts[0]), number(hash(false, true), &parts[1]));
}

#[test]
fn what_is_no_ip_goes_by_its_stations() {
    let arp = |from: u8, to: u8| {
        let addresses = [&[2, 0, 0, 0, 0, from][..], &[198, 18, 0, from], &[0; 6], &[198, 18, 0, to]].concat();
        ethernet(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &addresses].concat())
    };
    let number = |frame: &[u8]| number(hash(false, false), frame);
    assert_eq!(number(&arp(1, 2)), number(&arp(2, 1)));
    assert_ne!(number(&arp(1, 2)), number(&arp(1, 3)));
    let lldp = ethernet(0x88cc, &[0; 50]);
    let turned = [&lldp[6..12], &lldp[..6], &lldp[12..]].concat();
    assert_eq!(number(&lldp), number(&turned));
    for len in 0..14 {
        number(&lldp[..len]);
    }
}

fn decide(rule: &Rule, frame: &[u8], up: u64) -> Decision {
    rule.decide(&Packet::of(frame), up)
}

#[test]
fn flows_spread_and_only_those_of_a_lost_output_move() {
    for outputs in [2usize, 3, 5, 64] {
        let rule = rule(&By::Flow, outputs);
        let up = all(outputs);
        let mut shares = vec![0u32; outputs];
        for number in 0..6400 {
            let frame = flow(number);
            let usual = decide(&rule, &frame, up);
            let first = usual.to.trailing_zeros() as usize;
            assert_eq!((usual.to.count_ones(), usual.moved, usual.down, usual.classes), (1, 0, 0, 1));
            shares[first] += 1;
            let lost = number as usize % outputs;
            let without = decide(&rule, &frame, up & !(1 << lost));
            if lost == first {
                assert_eq!((without.to.count_ones(), without.to & usual.to, without.moved), (1, 0, usual.to));
            } else {
                assert_eq!(without, usual, "a flow of another output");
            }
            let none = decide(&rule, &frame, 0);
            assert_eq!((none.to, none.moved, none.down), (0, 0, usual.to));
        }
        // Six standard deviations.
        let mean = 6400.0 / outputs as f64;
        let bound = 6.0 * mean.sqrt();
        assert!(shares.iter().all(|&share| (f64::from(share) - mean).abs() < bound), "{shares:?}");
    }
}

#[test]
fn the_place_in_the_list_does_not_matter() {
    let there = rule(&By::Flow, 4);
    let turned: Vec<String> = names(4).into_iter().rev().collect();
    let turned = classes::rule(&By::Flow, &turned, hash(false, false)).unwrap();
    for number in 0..500 {
        let (a, b) = (decide(&there, &flow(number), 15).to, decide(&turned, &flow(number), 15).to);
        assert_eq!(a.trailing_zeros(), 3 - b.trailing_zeros());
    }
    // And another seed sends flows elsewhere.
    let other = classes::rule(&By::Flow, &names(4), FlowHash { seed: 1, ..hash(false, false) }).unwrap();
    let same = (0..500).filter(|&number| decide(&there, &flow(number), 15).to == decide(&other, &flow(number), 15).to);
    assert!((60..200).contains(&same.count()));
}

#[test]
fn fixed_classes_take_what_they_say() {
    let rule = rule(&By::Protocol, 5);
    let ends = Ends::new("198.51.100.7", "203.0.113.9");
    let six = Ends::new("2001:db8::1", "2001:db8::2");
    let frames = [
        (ends.frame(6, &[0x50; 20]), 0),
        (flow(1), 1),
        (ethernet(0x0800, &V4 { fragment: 9, ..V4::default() }.packet(17, &[1; 40])), 1),
        (ends.frame(1, &[8; 16]), 2),
        (six.frame(58, &[128; 16]), 2),
        (ends.frame(132, &[0; 24]), 3),
        (ethernet(0x88cc, &[0; 50]), 4),
    ];
    for (frame, output) in frames {
        let decision = decide(&rule, &frame, 31);
        assert_eq!((decision.to, decision.classes), (1 << output, 1 << output));
        let down = decide(&rule, &frame, 31 & !(1 << output));
        assert_eq!((down.to, down.moved, down.down), (0, 0, 1 << output), "a class with one output moves nowhere");
    }
}

fn classes_of(text: &str, outputs: usize) -> Rule {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("classes.toml");
    std::fs::write(&file, text).unwrap();
    rule(&By::Classes(file), outputs)
}

const CLASSES: &str = "\
[[class]]
name = \"dns\"
filter = \"udp port 53\"
outputs = [\"out0\", \"out1\"]
copy = true

[[class]]
name = \"one-host\"
filter = \"host 198.51.100.7\"
outputs = [\"out1\", \"out2\"]
";

#[test]
fn a_packet_in_two_classes_goes_to_the_outputs_of_both_and_to_each_once() {
    let rule = classes_of(CLASSES, 4);
    let (dns, other) = (flow(3), Ends::new("198.51.100.7", "203.0.113.9").udp_frame([9, 9], b"x"));
    let foreign = Ends::new("192.0.2.1", "203.0.113.9").udp_frame([9, 9], b"x");
    let decision = decide(&rule, &dns, 15);
    assert!(decision.to == 0b011 || decision.to == 0b111, "{decision:?}");
    assert_eq!(decision.classes, 3);
    let decision = decide(&rule, &other, 15);
    assert_eq!((decision.to.count_ones(), decision.to & 0b1001, decision.classes), (1, 0, 2));
    assert_eq!(decide(&rule, &foreign, 15), Decision::default());
    // The copy for an output that is down is lost, unless another class sends there too.
    assert_eq!(decide(&rule, &dns, 0b1110).down, 1);
    let rest = classes_of(&format!("{CLASSES}[rest]\noutputs = [\"out3\"]\n"), 4);
    assert_eq!((decide(&rest, &foreign, 15).to, decide(&rest, &foreign, 15).classes), (8, 4));
    assert_eq!(decide(&rest, &dns, 15).classes, 3);
}

proptest! {
    #[test]
    fn any_bytes_get_a_number_that_turning_does_not_change(mut bytes in prop::collection::vec(any::<u8>(), 0..128), inner: bool) {
        let hash = hash(false, inner);
        number(hash, &bytes);
        if bytes.len() >= 12 {
            let turned = [&bytes[6..12], &bytes[..6], &bytes[12..]].concat();
            prop_assert_eq!(number(hash, &bytes), number(hash, &turned));
        }
        if bytes.len() >= 38 {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            let turned = [&bytes[..26], &bytes[30..34], &bytes[26..30], &bytes[36..38], &bytes[34..36], &bytes[38..]].concat();
            let hosts = FlowHash { hosts: true, inner: false, ..hash };
            prop_assert_eq!(number(hosts, &bytes), number(hosts, &turned));
        }
    }

    #[test]
    fn each_packet_of_a_class_is_somewhere_or_counted_as_lost(port: u16, up in 0u64..8, other: bool) {
        let rule = classes_of(CLASSES, 3);
        let from = if other { "192.0.2.1" } else { "198.51.100.7" };
        let frame = Ends::new(from, "203.0.113.9").udp_frame([port, 53], b"x");
        let decision = decide(&rule, &frame, up);
        prop_assert_eq!(decision.to & !up, 0);
        prop_assert_eq!((decision.down | decision.moved) & up, 0);
        prop_assert_eq!(decision.to & decision.down, 0);
        prop_assert!(decision.to | decision.down != 0);
    }
}

#[test]
fn checksums_that_were_left_open_are_completed() {
    for ends in [Ends::new("198.51.100.7", "203.0.113.9"), Ends::new("2001:db8::1", "2001:db8::2")] {
        for protocol in [6, 17] {
            let segment = if protocol == 6 {
                ends.tcp([80, 4000], [1, 2], 0x18, &[], b"left open")
            } else {
                ends.udp([80, 4000], b"left open")
            };
            let good = ends.frame(protocol, &segment);
            let layers = Layers::parse(&good, LinkType::Ethernet);
            let (kind, at) = layers.transport().unwrap();
            let field = at + if kind == Transport::Tcp { 16 } else { 6 };
            let mut open = good.clone();
            open[field..field + 2].copy_from_slice(&[0xde, 0xad]);
            assert!(complete(&mut open));
            assert_eq!(open, good, "{protocol}");
            let verdict = Layers::parse(&open, LinkType::Ethernet).verify_transport(&open);
            assert_eq!(verdict, checksum::Verdict::Valid);
            // What is not all there stays as it is.
            let mut cut = good[..good.len() - 1].to_vec();
            assert!(!complete(&mut cut));
            assert_eq!(cut, good[..good.len() - 1]);
        }
    }
    assert!(!complete(&mut flow(1)[..20]));
}

/// Engine, ports and what they counted.
struct Bench {
    up: Arc<AtomicU64>,
    mtu: Arc<AtomicU32>,
    counts: Arc<EngineCounts>,
    splitter: Splitter,
}

fn bench(rule: Rule, ways: Vec<Way>) -> Bench {
    let counts = Arc::new(EngineCounts::new(rule.classes.len(), ways.len()));
    let up = Arc::new(AtomicU64::new(all(ways.len())));
    let mtu = Arc::new(AtomicU32::new(1500));
    let splitter = Splitter {
        rule: Arc::new(rule),
        up: Arc::clone(&up),
        ports: ways.into_iter().map(|way| Port::new(way, Arc::clone(&mtu))).collect(),
        counts: Arc::clone(&counts),
        stamps: StampClock::Monotonic,
        again: None,
        since_flush: 0,
    };
    Bench { up, mtu, counts, splitter }
}

/// Runs the frames through an engine, all there from the beginning.
fn through(splitter: Splitter, frames: Vec<Vec<u8>>) -> Splitter {
    through_as(splitter, frames.into_iter().map(|frame| Arrival::at(1, frame)))
}

fn through_as(splitter: Splitter, arrivals: impl IntoIterator<Item = Arrival>) -> Splitter {
    let clock = SimulatedClock::at(1_000_000);
    let source = MemorySource::new("memory", clock.clone(), Script::of(arrivals)).unwrap();
    let mut engine = testing::engine(source, splitter).unwrap();
    assert_eq!(engine.run_by(&clock, |_, _| {}), End::EndOfFile);
    engine.handler
}

fn ring(slots: u32) -> (Way, XdpKernel) {
    let (_, transmit, kernel) = RingSource::xdp(slots, false);
    (Way::Ring(transmit), kernel)
}

fn balance(tally: &Tally) -> i64 {
    let explained = tally.forwarded() + tally.lost() + tally.unwanted;
    (tally.received + tally.copies) as i64 - explained as i64
}

#[test]
fn rings_get_each_packet_once_in_order_and_the_account_is_even() {
    let (ways, mut kernels): (Vec<Way>, Vec<XdpKernel>) = (0..2).map(|_| ring(512)).unzip();
    let Bench { counts, splitter, .. } = bench(rule(&By::Flow, 2), ways);
    // 40 flows, each with its packets numbered.
    let frames: Vec<Vec<u8>> = (0..400u16)
        .map(|number| {
            let ends = Ends::new("198.51.100.7", "203.0.113.9");
            ends.udp_frame([1000 + number % 40, 53], &number.to_be_bytes())
        })
        .collect();
    through(splitter, frames.clone());
    let (mut seen, mut of_flow) = (BTreeSet::new(), BTreeMap::new());
    for (output, kernel) in kernels.iter_mut().enumerate() {
        let mut last = BTreeMap::new();
        for frame in kernel.send(u32::MAX) {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let (port, number) = (word(34), word(42));
            assert_eq!(frame, frames[usize::from(number)]);
            assert!(seen.insert(number), "{number} twice");
            assert_eq!(*of_flow.entry(port).or_insert(output), output, "a flow at two outputs");
            assert!(last.insert(port, number).is_none_or(|before| before < number), "order");
        }
    }
    assert_eq!(seen.len(), 400);
    let tally = Tally::of([&*counts]);
    assert_eq!((tally.received, tally.forwarded(), balance(&tally)), (400, 400, 0));
    assert_eq!(tally.inside.count(), 400);
    assert!(tally.outputs.iter().all(|output| output.packets > 50), "{tally:?}");
}

#[test]
fn each_loss_has_its_cause() {
    let (way, mut kernel) = ring(64);
    let Bench { up, mtu, counts, mut splitter } = bench(rule(&By::Flow, 1), vec![way]);
    let long = |bytes: usize| Ends::new("198.51.100.7", "203.0.113.9").udp_frame([9, 9], &vec![1; bytes]);
    let tagged = |bytes: usize| {
        let frame = long(bytes);
        ethernet(0x8100, &tag(0, 5, 0x0800, &frame[14..]))
    };
    // 1514 bytes, and with a tag 1518, are what an MTU of 1500 allows.
    let fits = vec![long(1472), tagged(1472)];
    splitter = through(splitter, [fits, vec![long(1473), tagged(1473), vec![0; 13]]].concat());
    let lost = |cause| Tally::of([&*counts]).outputs[0].lost_by(cause);
    assert_eq!((lost(Cause::TooLong), lost(Cause::TooShort)), (2, 1));
    assert_eq!(kernel.send(u32::MAX).len(), 2);
    // The MTU is changed meanwhile.
    mtu.store(1400, Ordering::Relaxed);
    splitter = through(splitter, vec![long(1372), long(1373)]);
    assert_eq!((lost(Cause::TooLong), kernel.send(u32::MAX).len()), (3, 1));
    up.store(0, Ordering::Relaxed);
    splitter = through(splitter, vec![flow(1); 5]);
    assert_eq!(lost(Cause::LinkDown), 5);
    up.store(1, Ordering::Relaxed);
    // Nobody takes them off: 64 frames fit.
    splitter = through(splitter, vec![flow(1); 100]);
    assert_eq!(lost(Cause::RingFull), 36);
    assert!(splitter.again.is_some(), "what the device left is offered again");
    assert_eq!(splitter.settle(Instant::now())[0][0], (Cause::NotSent, 64), "and it never took it");
    let tally = Tally::of([&*counts]);
    assert_eq!((tally.received, tally.forwarded(), balance(&tally)), (112, 67, 0));
    assert_eq!(
        tally.outputs[0].causes().into_iter().collect::<Vec<_>>(),
        [("link_down", 5), ("ring_full", 36), ("too_long", 3), ("too_short", 1)]
    );
}

/// The kernel refuses such a frame for ever, and with it all that is behind it.
#[test]
fn a_packet_ring_gets_no_service_tag_beyond_the_mtu() {
    let tagged = |kind, bytes: usize| {
        let frame = Ends::new("198.51.100.7", "203.0.113.9").udp_frame([9, 9], &vec![1; bytes]);
        ethernet(kind, &tag(0, 5, 0x0800, &frame[14..]))
    };
    let frames = vec![tagged(0x8100, 1472), tagged(0x88a8, 1468), tagged(0x88a8, 1469), tagged(0x88a8, 1472)];
    let (_, packet, ..) = RingSource::packet(64);
    let (xdp, _kernel) = ring(64);
    for (way, too_long) in [(Way::Ring(packet), 2), (xdp, 0)] {
        let Bench { counts, splitter, .. } = bench(rule(&By::Flow, 1), vec![way]);
        through(splitter, frames.clone());
        assert_eq!(Tally::of([&*counts]).outputs[0].lost_by(Cause::TooLong), too_long);
    }
}

/// The MTU was changed, and nobody has heard of it yet.
#[test]
fn what_the_kernel_finds_too_long_is_counted_and_the_rest_leaves_in_order() {
    let (_, packet, _, mut kernel) = RingSource::packet(64);
    let Bench { counts, mut splitter, .. } = bench(rule(&By::Flow, 1), vec![Way::Ring(packet)]);
    let long = |bytes: usize| Ends::new("198.51.100.7", "203.0.113.9").udp_frame([9, 9], &vec![1; bytes]);
    let meters = EngineMeters::default();
    let outbox = &mut Outbox::nowhere(&meters);
    flood(&mut splitter, &[long(1400), flow(1), long(1200), long(1401), flow(2)]);
    let tally = || Tally::of([&*counts]);
    assert_eq!(tally().forwarded(), 0, "what waits may be refused, and a counter does not fall");
    assert_eq!(kernel.refuse(), Some(0));
    splitter.cycle_end(outbox);
    assert_eq!((tally().forwarded(), tally().outputs[0].lost_by(Cause::TooLong), balance(&tally())), (3, 2, 0));
    let left = [flow(1), long(1200), flow(2)];
    assert_eq!(tally().outputs[0].bytes, left.iter().map(|frame| frame.len() as u64).sum::<u64>());
    // One that was counted as forwarded, and waited for the device.
    assert_eq!((kernel.send(1), kernel.refuse()), (vec![flow(1)], Some(1)));
    flood(&mut splitter, &[flow(3), flow(4)]);
    splitter.cycle_end(outbox);
    assert_eq!((tally().forwarded(), tally().outputs[0].lost_by(Cause::TooLong), balance(&tally())), (4, 3, 0));
    // And one at the end.
    flood(&mut splitter, &[long(1300)]);
    splitter.cycle_end(outbox);
    assert_eq!(kernel.send(3), [flow(2), flow(3), flow(4)]);
    assert_eq!((tally().forwarded(), kernel.refuse().is_some()), (5, true));
    assert_eq!(splitter.settle(Instant::now())[0], [(Cause::NotSent, 0), (Cause::TooLong, 1)]);
}

/// Calls a splitter as an engine does whose ring does not run empty.
fn flood(splitter: &mut Splitter, frames: &[Vec<u8>]) {
    let meters = EngineMeters::default();
    frames.iter().for_each(|frame| splitter.packet(&Packet::of(frame), &mut Outbox::nowhere(&meters)));
}

#[test]
fn what_goes_to_a_thin_output_does_not_wait_for_the_end_of_a_flood() {
    let (ways, mut kernels): (Vec<Way>, Vec<XdpKernel>) = (0..2).map(|_| ring(1024)).unzip();
    let Bench { mut splitter, .. } = bench(rule(&By::Flow, 2), ways);
    let output_of = |frame: &[u8]| decide(&splitter.rule, frame, all(2)).to.trailing_zeros() as usize;
    let thin = flow(1);
    let thick = (2..).map(flow).find(|frame| output_of(frame) != output_of(&thin)).unwrap();
    let kernel = &mut kernels[output_of(&thin)];
    flood(&mut splitter, std::slice::from_ref(&thin));
    flood(&mut splitter, &vec![thick.clone(); 254]);
    assert_eq!(kernel.send(u32::MAX).len(), 0, "one system call for several");
    flood(&mut splitter, &[thick]);
    assert_eq!(kernel.send(u32::MAX), [thin]);
}

#[test]
fn what_others_hand_to_an_engine_that_has_ended_is_sent() {
    let (way, mut kernel) = ring(64);
    let Bench { mut splitter, .. } = bench(rule(&By::Flow, 1), vec![way]);
    flood(&mut splitter, &[flow(1)]);
    splitter.retired(&mut Outbox::nowhere(&EngineMeters::default()));
    assert_eq!(kernel.send(u32::MAX).len(), 1);
}

#[test]
fn what_was_cut_is_not_sent_on() {
    let (way, mut kernel) = ring(64);
    let Bench { counts, mut splitter, .. } = bench(rule(&By::Flow, 1), vec![way]);
    let frame = flow(1);
    splitter = through_as(splitter, [Arrival { wire_len: 200, ..Arrival::there(frame) }]);
    assert_eq!((kernel.send(u32::MAX).len(), splitter.settle(Instant::now())[0][0]), (0, (Cause::NotSent, 0)));
    assert_eq!(Tally::of([&*counts]).outputs[0].lost_by(Cause::Cut), 1);
}

#[test]
fn files_get_what_their_class_takes_and_a_small_spool_counts_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorders = Vec::new();
    let mut way = |name: &str| {
        let source = InterfaceInfo::ethernet("memory", StampClock::Monotonic);
        let (recorder, mut spools) =
            Recorder::start(RecordConfig::new(folder.path().join(name)), vec![source]).unwrap();
        recorders.push(recorder);
        Way::Spool(spools.pop().unwrap())
    };
    let ways = vec![way("0.pcapng"), way("1.pcapng"), way("2.pcapng")];
    let text = CLASSES.replace("copy = true", "copy = true\n[rest]\noutputs = [\"out2\"]\n");
    assert!(toml::from_str::<toml::Table>(&text).is_ok());
    let Bench { counts, splitter, .. } = bench(classes_of(&text, 3), ways);
    let frames: Vec<Vec<u8>> = (0..100)
        .map(|n| if n % 4 == 0 { Ends::new("192.0.2.1", "203.0.113.9").udp_frame([n, 9], b"rest") } else { flow(n) })
        .collect();
    drop(through(splitter, frames));
    for recorder in recorders {
        recorder.finish(Vec::new()).unwrap();
    }
    let tally = Tally::of([&*counts]);
    let found: Vec<u64> = (0..3).map(|n| packets(&folder.path().join(format!("{n}.pcapng")))).collect();
    assert_eq!((found[0], tally.copies, tally.classes.as_slice()), (75, 75 + found[2] - 25, &[75, 75, 25][..]));
    assert_eq!(found, tally.outputs.iter().map(|output| output.packets).collect::<Vec<_>>());
    assert_eq!((tally.received, balance(&tally)), (100, 0));
}

/// Enhanced Packet Blocks of a pcapng file.
fn packets(path: &std::path::Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let (mut at, mut count) = (0, 0);
    while let Some(head) = bytes.get(at..at + 8) {
        let word = |from: usize| u32::from_le_bytes(head[from..from + 4].try_into().unwrap());
        count += u64::from(word(0) == 6);
        at += word(4) as usize;
    }
    count
}
