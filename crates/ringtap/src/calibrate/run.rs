//! A run as a test of the calibration it was planned with: what contradicts it is noted, and the next start measures again.
//!
//! Owns the meter of the first engine's CPU from the start of a run to its end, and the note in the cached file.

use super::{Calibration, Observed};
use crate::core_use::{Reading, busy_by_timer_list};
use crate::meters::EngineSnapshot;

/// A run under way, beside the figures of its CPU.
#[derive(Debug)]
pub(crate) struct RunCheck {
    calibration: Calibration,
    /// Unreadable for others than root.
    before: Option<Reading>,
}

impl RunCheck {
    /// `None` where `cpu` was never calibrated, and where the figures are doubtful: those are measured again anyway, and not at
    /// each start.
    pub(crate) fn start(cpu: usize) -> Option<Self> {
        let calibration = Calibration::cached(cpu).filter(|calibration| calibration.doubts().is_empty())?;
        Some(Self { before: busy_by_timer_list(cpu), calibration })
    }

    /// A sentence when an engine that did this for `wall_ns`, on the CPU for a share of it, contradicts the figures.
    pub(crate) fn end(self, engine: &EngineSnapshot, wall_ns: u64, thread_share: f64) -> Option<String> {
        let after = self.before.and_then(|_| busy_by_timer_list(self.calibration.cpu));
        let observed = Observed {
            wall_ns,
            timer_wakes: engine.timer_wakes,
            period_ns: engine.poll_period.quantile_ns(0.5),
            interrupt_wakes: engine.interrupt_wakes,
            packets: engine.packets,
            thread_ns: (thread_share * wall_ns as f64) as u64,
            core_ns: self.before.zip(after).map(|(from, to)| (to.share_since(&from) * wall_ns as f64) as u64),
        };
        let why = self.calibration.contradiction(&observed)?;
        let next = match self.calibration.contradicted(&why).store_again() {
            Ok(()) => "the next start calibrates again",
            Err(_) => "`ringtap plan --fresh` calibrates again",
        };
        Some(format!("this run contradicts the calibration of CPU {}: {why}; {next}", self.calibration.cpu))
    }
}
