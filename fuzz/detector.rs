//! Owns: a detector with small bounds for the fuzz targets, and what holds after any packets.
#![allow(dead_code)]

use std::sync::Arc;

use ringtap_detect::rules::{Classes, RuleSet, Variables};
use ringtap_detect::{Alert, Detector, HttpSettings, Limits, Policy, Program, Sink};
use ringtap_wire::LinkType;

/// Counts alerts.
#[derive(Default)]
pub struct Count(pub u64);

impl Sink for Count {
    fn alert(&mut self, _alert: &Alert<'_>) {
        self.0 += 1;
    }
}

/// Rules that must all be taken.
pub fn program(rules: &[u8]) -> Arc<Program> {
    let mut set = RuleSet::default();
    set.add("fuzz.rules", rules, &Variables::default(), &Classes::default());
    let mut rejected = Vec::new();
    let (program, _) = Program::new(set, &mut rejected).expect("compiles");
    assert!(rejected.is_empty(), "{rejected:?}");
    Arc::new(program)
}

/// A detector that is soon full.
pub fn small(program: &Arc<Program>, policy: Policy) -> Detector {
    Detector::new(Arc::clone(program), bounds(policy))
}

/// One that follows connections without their handshake.
pub fn small_midstream(program: &Arc<Program>, policy: Policy) -> Detector {
    Detector::new(Arc::clone(program), Limits { midstream: true, ..bounds(policy) })
}

fn bounds(policy: Policy) -> Limits {
    Limits {
        flows: 4,
        early_bytes: 4096,
        early_segments: 8,
        window: 64,
        windows: 2,
        fragmented: 8,
        fragment_bytes: 4096,
        thresholds: 8,
        host_bits: 8,
        tags: 8,
        http: HttpSettings { connections: 2, bytes: 64 << 10, decompressors: 2, brotli: 2, ..HttpSettings::default() },
        budget: 2000,
        policies: policy.into(),
        checksums: false,
        ..Limits::default()
    }
}

/// One frame after the other, a millisecond apart.
pub fn run(detector: &mut Detector, frames: impl IntoIterator<Item = Vec<u8>>) -> u64 {
    let (mut now_ns, mut count) = (0, Count::default());
    for frame in frames {
        now_ns += 1_000_000;
        detector.packet(&frame, LinkType::Ethernet, frame.len() as u32, now_ns, &mut count);
        assert!(detector.counters().flows_now <= 4);
    }
    detector.finish(now_ns, &mut count);
    assert_eq!(detector.counters().flows_now, 0);
    count.0
}
