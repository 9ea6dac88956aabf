//! What a detector takes is what its limits say.

mod counting_support;
mod support;

use std::sync::Arc;

use counting_support::held;
use ringtap_detect::{Detector, Limits};
use support::program;

#[test]
fn a_detector_takes_what_its_limits_say() {
    let program = program("alert udp any any -> any any (content:\"abc\"; sid:1;)");
    let usual = Limits::default();
    let other = Limits {
        window: 8192,
        windows: 1000,
        early_bytes: 16 << 20,
        fragment_bytes: 64 << 20,
        ..Limits::for_flows(20_000)
    };
    let all = [usual.clone(), other]
        .into_iter()
        .chain([1024, 5000, 16_384, 100_000].map(Limits::for_flows))
        .chain([1024, 4096, 30_000].map(|flows| usual.within(flows)));
    for limits in all {
        let says = limits.memory_bytes();
        let (_detector, takes) = held(|| Detector::new(Arc::clone(&program), limits.clone()));
        let apart = (says as f64 / takes as f64 - 1.0).abs();
        assert!(apart < 0.08, "{says} bytes, but {takes}: {limits:?}");
    }
}

#[test]
fn a_small_host_gets_what_it_has_flows_for() {
    let usual = Limits::default();
    let small = usual.within(4096);
    assert_eq!((small.flows, small.windows, small.http.connections), (4096, 8192, 4096));
    assert!(small.memory_bytes() < 130 << 20, "{}", small.memory_bytes());
    assert_eq!(usual.within(usual.flows * 2), usual, "never more than there was");
    let few = Limits { early_bytes: 1000, windows: 3, ..Limits::default() }.within(1024);
    assert_eq!((few.early_bytes, few.windows), (1000, 3), "what was asked for stays where it is less");
}
