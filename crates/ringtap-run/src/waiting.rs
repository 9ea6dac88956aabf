//! How a receiver waits: what the user says of it, and the policy that follows together with a plan.
//!
//! Owns which words make sense together and the order in which numbers win: told, then planned. It measures nothing.

use std::time::Duration;

use ringtap::calibrate::Plan;
use ringtap::pacer::{Hybrid, Policy, Rung, Windowed};
use ringtap::{Error, Result};

/// Ways of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// Interrupt at low rates, timer at high ones, by forecast.
    #[default]
    Hybrid,
    /// The same by the rate measured in windows.
    Windowed,
    /// Always the device's interrupt.
    Interrupt,
    /// Always the timer.
    Timer,
    /// Spin.
    Busy,
}

/// A rung of the ladder of thresholds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Rate above which it holds, packets per second.
    pub pps: f64,
    /// Its period, where it has one of its own.
    pub period: Option<Duration>,
}

/// What the user says of waiting; what is left out comes from the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waiting {
    /// The way.
    pub how: How,
    /// Poll period of the timer.
    pub period: Option<Duration>,
    /// Rates above which the timer takes over, ascending.
    pub thresholds: Vec<Threshold>,
    /// Weight of the newest forecast after few packets, 0 to 1.
    pub alpha1: Option<f64>,
    /// Weight after a middling number of packets, 0 to 1.
    pub alpha2: Option<f64>,
    /// Packets per cycle that count as few.
    pub n1: Option<u64>,
    /// Packets per cycle above which the newest forecast alone counts.
    pub n2: Option<u64>,
}

impl Waiting {
    /// Refuses numbers that the way of waiting has no use for.
    ///
    /// # Errors
    /// Wrong usage, with the options of the command line.
    pub fn check(&self) -> Result<()> {
        let refuse =
            |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
        let tunes_timer = self.period.is_some() || !self.thresholds.is_empty();
        let tunes_forecast = self.alpha1.is_some() || self.alpha2.is_some() || self.n1.is_some() || self.n2.is_some();
        let leave = "leave it out, or use --wait hybrid";
        match self.how {
            How::Interrupt | How::Busy if tunes_timer => {
                refuse("--period or --threshold", "this --wait has no timer", leave)
            }
            How::Timer if !self.thresholds.is_empty() => refuse("--threshold", "--wait timer has none", leave),
            How::Windowed if self.thresholds.len() > 1 || self.thresholds.iter().any(|rung| rung.period.is_some()) => {
                refuse("--threshold", "--wait windowed has one threshold, without a period of its own", leave)
            }
            How::Hybrid => Ok(()),
            _ if tunes_forecast => refuse("--alpha1, --alpha2, --n1 or --n2", "they tune --wait hybrid", leave),
            _ => Ok(()),
        }
    }

    /// The longest period that was told.
    pub fn longest_told(&self) -> Option<Duration> {
        self.thresholds.iter().filter_map(|threshold| threshold.period).chain(self.period).max()
    }

    /// Whether every number that the policy needs was told.
    pub fn is_complete(&self) -> bool {
        let has_periods = self.period.is_some()
            || (!self.thresholds.is_empty() && self.thresholds.iter().all(|t| t.period.is_some()));
        match self.how {
            How::Interrupt | How::Busy => true,
            How::Timer => self.period.is_some(),
            How::Hybrid | How::Windowed => has_periods && !self.thresholds.is_empty(),
        }
    }

    /// Whether the timer is all the plan's, so that the plan may also do without one.
    pub fn is_planned(&self) -> bool {
        self.how == How::Hybrid && self.thresholds.is_empty() && self.period.is_none()
    }

    /// The policy; a missing number comes from `plan`, which is for packets that wait `max_latency` at most.
    ///
    /// # Errors
    /// The bound leaves no room for the timer that was asked for.
    pub fn policy(&self, plan: Option<&Plan>, max_latency: Duration) -> Result<Policy> {
        let planned_ns = plan.map_or(0, |plan| plan.period_ns);
        let period_ns = self.period.map_or(planned_ns, |period| period.as_nanos() as u64);
        let planned_pps = plan.map_or(f64::INFINITY, |plan| plan.threshold_pps);
        let needs_period = || {
            Error::usage("use", format!("--max-latency {max_latency:?}"), "it leaves no room for a timer on this host")
                .way_out("raise it, give --period, or use --wait interrupt")
        };
        Ok(match self.how {
            How::Interrupt => Policy::Interrupt,
            How::Busy => Policy::Busy,
            How::Timer if period_ns == 0 => return Err(needs_period()),
            How::Timer => Policy::Timer { period_ns },
            // Where calibration finds that the timer never pays, interrupts alone are what both schemes come to.
            How::Windowed => {
                let cliff_pps = self.thresholds.first().map_or(planned_pps, |rung| rung.pps);
                match (cliff_pps.is_finite(), period_ns) {
                    (false, _) => Policy::Interrupt,
                    (true, 0) => return Err(needs_period()),
                    (true, _) => Policy::Windowed(Windowed::new(cliff_pps, period_ns)),
                }
            }
            How::Hybrid if self.thresholds.is_empty() && (planned_pps.is_infinite() || period_ns == 0) => {
                Policy::Interrupt
            }
            How::Hybrid if self.thresholds.is_empty() => {
                self.hybrid(vec![Rung { threshold_pps: planned_pps, period_ns }])
            }
            How::Hybrid => {
                let rung = |t: &Threshold| Rung {
                    threshold_pps: t.pps,
                    period_ns: t.period.map_or(period_ns, |period| period.as_nanos() as u64),
                };
                let rungs: Vec<Rung> = self.thresholds.iter().map(rung).collect();
                if rungs.iter().any(|rung| rung.period_ns == 0) {
                    return Err(needs_period());
                }
                self.hybrid(rungs)
            }
        })
    }

    fn hybrid(&self, rungs: Vec<Rung>) -> Policy {
        let mut hybrid = Hybrid::with_rungs(rungs);
        hybrid.alpha1 = self.alpha1.unwrap_or(hybrid.alpha1);
        hybrid.alpha2 = self.alpha2.unwrap_or(hybrid.alpha2);
        hybrid.n1 = self.n1.unwrap_or(hybrid.n1);
        hybrid.n2 = self.n2.unwrap_or(hybrid.n2);
        Policy::Hybrid(hybrid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(1);
    const PERIOD: Duration = Duration::from_micros(500);

    fn rung(pps: f64, period: Option<Duration>) -> Threshold {
        Threshold { pps, period }
    }

    #[test]
    fn what_was_told_needs_no_plan() {
        let ladder = vec![rung(8e3, Some(BOUND)), rung(100e3, None)];
        let told = Waiting { period: Some(PERIOD), thresholds: ladder, alpha1: Some(0.1), ..Waiting::default() };
        assert!(told.is_complete() && !told.is_planned());
        let Policy::Hybrid(hybrid) = told.policy(None, BOUND).unwrap() else { panic!("a ladder is hybrid") };
        let rungs: Vec<_> = hybrid.rungs.iter().map(|rung| (rung.threshold_pps, rung.period_ns)).collect();
        assert_eq!((rungs, hybrid.alpha1), (vec![(8e3, 1_000_000), (100e3, 500_000)], 0.1));
        let thresholds = vec![rung(8e3, None)];
        let windowed = Waiting { how: How::Windowed, thresholds, period: Some(PERIOD), ..Waiting::default() };
        assert!(matches!(windowed.policy(None, BOUND).unwrap(), Policy::Windowed(_)));
    }

    #[test]
    fn without_room_for_a_timer_interrupts_are_left_unless_it_was_asked_for() {
        assert_eq!(Waiting::default().policy(None, BOUND).unwrap(), Policy::Interrupt);
        assert!(!Waiting::default().is_complete() && Waiting::default().is_planned());
        let timer = Waiting { how: How::Timer, ..Waiting::default() };
        assert!(timer.policy(None, BOUND).unwrap_err().to_string().contains("no room for a timer"));
        let rungs = Waiting { thresholds: vec![rung(8e3, None)], ..Waiting::default() };
        assert!(rungs.policy(None, BOUND).is_err() && !rungs.is_complete());
    }

    #[test]
    fn numbers_without_a_use_are_refused() {
        let refused = [
            Waiting { how: How::Interrupt, period: Some(PERIOD), ..Waiting::default() },
            Waiting { how: How::Busy, thresholds: vec![rung(1e3, None)], ..Waiting::default() },
            Waiting { how: How::Timer, thresholds: vec![rung(1e3, None)], ..Waiting::default() },
            Waiting { how: How::Windowed, thresholds: vec![rung(1e3, Some(PERIOD))], ..Waiting::default() },
            Waiting { how: How::Timer, n1: Some(3), ..Waiting::default() },
        ];
        for waiting in refused {
            assert!(waiting.check().is_err(), "{waiting:?}");
        }
        assert!(Waiting { n1: Some(3), ..Waiting::default() }.check().is_ok());
    }
}
