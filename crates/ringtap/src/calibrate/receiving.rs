//! From a plan to what a receiver is told of it.
//!
//! Owns the fields of a configuration that follow from a plan, and how to wait where nobody may take the time to calibrate. What
//! the user says instead of a plan's numbers is `ringtap-run`'s.

use super::{Calibration, Plan, Wishes};
use crate::napi::NapiPause;
use crate::pacer::{Hybrid, Policy};
use crate::receiver::ReceiverConfig;

/// Share of the bound that is left for the timer's period and NAPI's pause where this host was never calibrated.
const UNCALIBRATED_SHARE: f64 = 0.85;
/// Threshold there, packets per second, or the poll rate if that is higher. It was found on one machine for 64-byte packets.
const UNCALIBRATED_PPS: f64 = 8300.0;

impl Plan {
    /// A receiver on `interface` that waits and buffers as planned; everything else has its default.
    pub fn receiver(&self, interface: impl Into<String>) -> ReceiverConfig {
        ReceiverConfig {
            ring_slots: self.ring_slots,
            packed_slots: Some(self.packed_slots),
            napi_pause: self.napi_pause,
            ..ReceiverConfig::new(interface, self.policy())
        }
    }

    /// Packets per second from which on packets are lost, where that is less than the peak rate.
    pub fn shortfall_pps(&self) -> Option<f64> {
        (self.peak_share > 1.0).then_some(self.no_loss_bound_pps)
    }
}

impl Wishes {
    /// How to wait by the calibration there is, and without one by cautious figures. For who can't stop to measure: a library in
    /// another's process. There NAPI never takes the timer's place.
    pub fn waiting(&self, calibration: Option<&Calibration>) -> (Policy, NapiPause) {
        let pause = self.napi_pause();
        let planned = calibration.and_then(|calibration| calibration.plan(self).ok());
        let (period_ns, threshold_pps) = match planned {
            Some(plan) => (plan.period_ns, plan.threshold_pps),
            None => {
                let room_ns = (self.max_latency.as_nanos() as f64 * UNCALIBRATED_SHARE) as u64;
                let period_ns = room_ns.saturating_sub(pause.shared_ns);
                (period_ns, UNCALIBRATED_PPS.max(1e9 / period_ns.max(1) as f64))
            }
        };
        if period_ns == 0 || !threshold_pps.is_finite() {
            return (Policy::Interrupt, NapiPause::anywhere(self.napi_pace_ns.unwrap_or(0)));
        }
        (Policy::Hybrid(Hybrid::new(threshold_pps, period_ns)), pause)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::calibration;
    use super::*;

    #[test]
    fn a_receiver_is_told_the_plans_numbers() {
        let plan = calibration().plan(&Wishes::default()).unwrap();
        let config = plan.receiver("eth1");
        assert_eq!((config.interface.as_str(), &config.policy), ("eth1", &plan.policy()));
        assert_eq!((config.ring_slots, config.packed_slots), (plan.ring_slots, Some(plan.packed_slots)));
        assert_eq!((config.napi_pause, plan.shortfall_pps()), (plan.napi_pause, None));
        let full = calibration().plan(&Wishes { peak_pps: 50e6, ..Wishes::default() }).unwrap();
        assert_eq!(full.shortfall_pps(), Some(full.no_loss_bound_pps));
    }

    #[test]
    fn without_a_calibration_the_figures_are_cautious() {
        let wishes = Wishes::default();
        // 0.85 × 1 ms − 100 µs of NAPI's pause
        let (policy, pause) = wishes.waiting(None);
        assert_eq!(policy, Policy::Hybrid(Hybrid::new(8300.0, 750_000)));
        assert_eq!(pause, wishes.napi_pause());
        let tight = Wishes { max_latency: Duration::from_micros(100), ..wishes };
        // The poll rate of 85 µs is above the threshold.
        assert_eq!(tight.waiting(None).0, Policy::Hybrid(Hybrid::new(1e9 / 85_000.0, 85_000)));
        let told = Wishes { napi_pace_ns: Some(2_000_000), ..wishes };
        assert_eq!(told.waiting(None), (Policy::Interrupt, NapiPause::anywhere(2_000_000)), "the pause leaves no room");
    }

    #[test]
    fn a_calibration_gives_the_period_and_napi_stays_beside_the_timer() {
        let (calibration, wishes) = (calibration(), Wishes { peak_pps: 150e3, ..Wishes::default() });
        let plan = calibration.plan(&wishes).unwrap();
        let (policy, pause) = wishes.waiting(Some(&calibration));
        assert_eq!(policy, plan.policy());
        assert_eq!((pause.apart_ns, pause.instead_of_timer_ns), (plan.napi_pause.apart_ns, 0));
    }
}
