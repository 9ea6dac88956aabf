//! The windowed rate estimate and its two cliffs (\[3] §2–4).
//!
//! Owns: the estimate per window and the mode it leads to. Does not own: where λ_cliff comes from (`formulas`, or
//! measurement), the poll instants (`grid`).
//!
//! As in the source the estimate costs shifts only. The source's estimator ran on a timer of its own; here nothing
//! runs while the ring is empty, so a call closes all windows that have passed since the last one. Only a call that
//! spans more than one whole window needs a division.

use super::policy::Windowed;

/// Fraction bits of the estimate: packets per window × 2^8.
const FRACTION_BITS: u32 = 8;

/// State of the windowed policy.
#[derive(Debug, Clone)]
pub(super) struct RateWindow {
    window_ns: u64,
    weight_shift: u32,
    poll_period_ns: u64,
    /// cliff1 = (1 − ε)·λ_cliff and cliff2 = (1 + ε)·λ_cliff, in the estimate's unit.
    leave_below: u64,
    enter_above: u64,
    /// Start of the open window; `None` before the first call.
    start_ns: Option<u64>,
    /// Packets in the open window.
    count: u64,
    /// Estimate, packets per window × 2^FRACTION_BITS.
    estimate: u64,
    /// A window has been closed: the estimate means something.
    measured: bool,
    timer: bool,
}

impl RateWindow {
    /// From validated tunables.
    pub(super) fn new(windowed: &Windowed) -> Self {
        let cliff = windowed.cliff_pps * windowed.window_ns as f64 / 1e9 * f64::from(1 << FRACTION_BITS);
        Self {
            window_ns: windowed.window_ns,
            weight_shift: windowed.weight_shift,
            poll_period_ns: windowed.period_ns,
            leave_below: (cliff * (1.0 - windowed.epsilon)) as u64,
            enter_above: (cliff * (1.0 + windowed.epsilon)) as u64,
            start_ns: None,
            count: 0,
            estimate: 0,
            measured: false,
            timer: false,
        }
    }

    /// Takes in one cycle; the poll period to use, or `None` for the interrupt.
    pub(super) fn cycle(&mut self, now_ns: u64, handled: u64) -> Option<u64> {
        match self.start_ns {
            Some(start) if now_ns >= start => self.advance(now_ns, start, handled),
            // First call, or the clock went back: begin a window.
            _ => {
                self.start_ns = Some(now_ns);
                self.count = handled;
            }
        }
        self.timer.then_some(self.poll_period_ns)
    }

    fn advance(&mut self, now_ns: u64, start: u64, handled: u64) {
        let open_for = now_ns - start;
        if open_for < self.window_ns {
            self.count = self.count.saturating_add(handled);
            return;
        }
        self.fold(self.count);
        let mut rest = handled;
        let mut next_start = start.saturating_add(self.window_ns);
        if let Some(beyond) = (open_for - self.window_ns).checked_div(self.window_ns)
            && beyond > 0
        {
            // The call spans whole windows: silence, or an engine too busy to call. Spread what came evenly over them.
            let share = handled / beyond.saturating_add(1);
            self.fold_many(share, beyond);
            rest -= share.saturating_mul(beyond).min(handled);
            next_start = next_start.saturating_add(beyond.saturating_mul(self.window_ns));
        }
        self.start_ns = Some(next_start);
        self.count = rest;
        if self.estimate > self.enter_above {
            self.timer = true;
        } else if self.estimate < self.leave_below {
            self.timer = false;
        }
    }

    /// `windows` windows of the same count. After 8·2^shift of them less than e^-8 = 0.04 % of the old estimate is
    /// left: then the count is the estimate, and the work stays bounded however long the silence was.
    fn fold_many(&mut self, count: u64, windows: u64) {
        if windows >= 8 << self.weight_shift {
            self.estimate = scaled(count);
        } else {
            for _ in 0..windows {
                self.fold(count);
            }
        }
    }

    /// estimate += (count − estimate) / 2^shift, by shifts.
    fn fold(&mut self, count: u64) {
        let sample = scaled(count);
        if sample >= self.estimate {
            self.estimate += (sample - self.estimate) >> self.weight_shift;
        } else {
            self.estimate -= (self.estimate - sample) >> self.weight_shift;
        }
        self.measured = true;
    }

    /// Estimated rate in packets per second; `None` before the first window has closed.
    pub(super) fn rate_pps(&self) -> Option<f64> {
        let per_window = self.estimate as f64 / f64::from(1 << FRACTION_BITS);
        self.measured.then(|| per_window * 1e9 / self.window_ns as f64)
    }
}

/// A count in the estimate's unit; counts beyond 2^56 a window are taken as 2^56.
fn scaled(count: u64) -> u64 {
    count.min(u64::MAX >> FRACTION_BITS) << FRACTION_BITS
}
