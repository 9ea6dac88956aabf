//! Packets of any origin through a small detector, whole and cut in nine places: nothing panics, every packet is counted, and the
//! bounds hold. Shared by the tests over our own packets and by the conformance suite.

use std::sync::Arc;

use ringtap_detect::{Detector, Limits, Program};
use ringtap_wire::LinkType;

use crate::support::Count;

/// A packet and the `LINKTYPE_…` number it came with.
pub struct LinkedPacket {
    pub link: u32,
    pub data: Vec<u8>,
}

/// What the detector counted.
#[derive(Debug)]
pub struct Fed {
    pub packets: u64,
    pub invalid: u64,
    pub alerts: u64,
}

pub fn feed(program: Program, packets: impl Iterator<Item = LinkedPacket>) -> Fed {
    let limits =
        Limits { flows: 256, windows: 64, early_bytes: 64 << 10, fragment_bytes: 64 << 10, ..Limits::default() };
    let mut detector = Detector::new(Arc::new(program), limits);
    let (mut now_ns, mut count, mut fed) = (1u64, Count::default(), 0u64);
    for packet in packets {
        let Some(link) = LinkType::from_number(packet.link) else { continue };
        let len = packet.data.len();
        for cut in (1..=8).map(|eighths| len * eighths / 8).chain([len.saturating_sub(1)]) {
            now_ns += 10_000_000;
            detector.packet(&packet.data[..cut], link, len as u32, now_ns, &mut count);
            fed += 1;
        }
    }
    let counters = detector.counters();
    assert!(counters.packets == fed && counters.flows_now <= 256, "{fed} {counters:?}");
    let invalid = counters.invalid;
    detector.finish(now_ns, &mut count);
    assert_eq!(detector.counters().flows_now, 0);
    Fed { packets: fed, invalid, alerts: count.0 }
}
