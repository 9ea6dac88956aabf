//! Hidden attacks through one detector: what it finds. Shared by the tests by themselves and beside Suricata.

#![allow(dead_code)]

pub mod by_both;

use ringtap_detect::{Detector, Limits, LinkType};
use ringtap_samples::evasions::Evasion;

use crate::support::{Sids, program};

/// Nanoseconds between two frames.
pub const STEP_NS: u64 = 1_000_000;
pub const START_NS: u64 = 1_700_000_000_000_000_000;

/// Whether each case's rule was found; all cases go through one detector, with checksums.
pub fn found(cases: &[Evasion]) -> Vec<bool> {
    let rules: String = cases.iter().map(|case| case.rules.as_str()).collect();
    let mut detector = Detector::new(program(&rules), Limits::default());
    let (mut sids, mut now_ns) = (Sids::default(), START_NS);
    for frame in cases.iter().flat_map(|case| &case.frames) {
        detector.packet(frame, LinkType::Ethernet, frame.len() as u32, now_ns, &mut sids);
        now_ns += STEP_NS;
    }
    detector.finish(now_ns, &mut sids);
    cases.iter().map(|case| sids.0.contains(&case.sid)).collect()
}
