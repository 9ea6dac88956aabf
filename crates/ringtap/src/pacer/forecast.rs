//! The forecast of the inter-packet period and the ladder of thresholds (\[2] §5.3, Eqn 1–3).
//!
//! Owns: the equations and which rung they lead to. Does not own: the tunables' meaning and validation (`policy`),
//! the poll instants (`grid`).
//!
//! Periods are f64 nanoseconds: the equations divide and weight, a forecast needs no exactness, and f64 neither
//! overflows nor panics at the ends of the clock's range. Instants stay u64.

use super::policy::Hybrid;

/// One rung, turned from packets per second to periods.
#[derive(Debug, Clone)]
struct Step {
    /// Climb to this rung when the forecast is below.
    enter_ns: f64,
    /// Leave it when the forecast is at or above.
    leave_ns: f64,
    poll_period_ns: u64,
}

/// State of the hybrid policy.
#[derive(Debug, Clone)]
pub(super) struct Forecast {
    alpha1: f64,
    alpha2: f64,
    n1: u64,
    n2: u64,
    ceiling_ns: f64,
    ladder: Box<[Step]>,
    /// C_prev: end of the previous active cycle; `None` before the first call.
    active_end_ns: Option<u64>,
    /// T_prev: the forecast as of the last *active* cycle.
    remembered_ns: f64,
    /// T_pred of the latest call; `None` before the first sample.
    predicted_ns: Option<f64>,
    /// Rungs in force: 0 is interrupt mode.
    level: usize,
}

impl Forecast {
    /// From validated tunables. The only place that allocates.
    pub(super) fn new(hybrid: &Hybrid) -> Self {
        let ladder: Box<[Step]> = hybrid
            .rungs
            .iter()
            .map(|rung| {
                let enter_ns = 1e9 / rung.threshold_pps;
                let leave_ns = enter_ns * (1.0 + hybrid.hysteresis);
                Step { enter_ns, leave_ns, poll_period_ns: rung.period_ns }
            })
            .collect();
        let ceiling_ns = hybrid.ceiling * ladder.first().map_or(0.0, |step| step.enter_ns);
        Self {
            alpha1: hybrid.alpha1,
            alpha2: hybrid.alpha2,
            n1: hybrid.n1,
            n2: hybrid.n2,
            ceiling_ns,
            ladder,
            active_end_ns: None,
            remembered_ns: ceiling_ns,
            predicted_ns: None,
            level: 0,
        }
    }

    /// Takes in one cycle of `handled` packets that ended at `now_ns`; the poll period to use, or `None` for the
    /// interrupt.
    pub(super) fn cycle(&mut self, now_ns: u64, handled: u64) -> Option<u64> {
        match self.active_end_ns {
            Some(previous) if now_ns >= previous => self.sample(now_ns, now_ns - previous, handled),
            // First call, or the clock went back: an anchor, not a sample.
            _ => self.active_end_ns = Some(now_ns),
        }
        self.period_ns()
    }

    fn sample(&mut self, now_ns: u64, elapsed_ns: u64, handled: u64) {
        // Eqn 1. `handled` of 0 divides by 1: the time since the last active cycle itself.
        let current = elapsed_ns as f64 / handled.max(1) as f64;
        // Eqn 2.
        let alpha = self.alpha(handled);
        let predicted = alpha * current + (1.0 - alpha) * self.remembered_ns;
        self.predicted_ns = Some(predicted);
        let fallen = self.falls_to(predicted);
        if handled == 0 {
            // An empty cycle is provisional: the same silence is still running and will be part of the next active
            // cycle's elapsed time, so neither C_prev nor T_prev may take it in (it would count twice, and compound
            // with every tick). And a silence that has only begun is no sign of a higher rate: only downwards.
            self.level = fallen;
        } else {
            self.active_end_ns = Some(now_ns);
            self.remembered_ns = predicted.min(self.ceiling_ns);
            self.level = fallen.max(self.climbs_to(predicted));
        }
    }

    /// Eqn 3.
    fn alpha(&self, handled: u64) -> f64 {
        if handled > self.n2 {
            1.0
        } else if handled > self.n1 {
            self.alpha2
        } else {
            self.alpha1
        }
    }

    /// Rungs whose threshold is exceeded by this forecast.
    fn climbs_to(&self, predicted_ns: f64) -> usize {
        self.ladder.iter().take_while(|step| predicted_ns < step.enter_ns).count()
    }

    /// Of the rungs in force, those that this forecast keeps.
    fn falls_to(&self, predicted_ns: f64) -> usize {
        let kept = self.ladder.iter().take_while(|step| predicted_ns < step.leave_ns).count();
        kept.min(self.level)
    }

    fn period_ns(&self) -> Option<u64> {
        self.level.checked_sub(1).and_then(|top| self.ladder.get(top)).map(|step| step.poll_period_ns)
    }

    /// Forecast inter-packet period of the latest call, in nanoseconds.
    pub(super) fn predicted_ns(&self) -> Option<f64> {
        self.predicted_ns
    }
}
