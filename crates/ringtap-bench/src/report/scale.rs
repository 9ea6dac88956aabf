//! Axes: where a value lies between two ends, and which values get a tick.
//!
//! Owns no drawing. All results are finite whatever the data.

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From 0, or from the least value if that is negative.
    Linear,
    /// Decades; values of 0 and below have no place.
    Log,
    /// As [`Kind::Log`], in powers of two: slots and bytes.
    Log2,
    /// Decades, and below them a place for 0: a loss of nothing must be seen beside one in a million.
    LogAndZero,
}

/// Values beyond are drawn at the edge: room for the sums of the axis.
const GREATEST: f64 = 1e300;
const LEAST: f64 = 1e-300;
/// Share of the axis below the decades of [`Kind::LogAndZero`].
const ZERO_SHARE: f64 = 0.08;
/// A decade needs this much of an axis to get a label.
const MAX_DECADE_LABELS: i32 = 8;

const MAX_POWER_LABELS: i32 = 12;

/// An axis with its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

/// A tick: its value, and whether it is labelled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// Labelled, not only a line.
    pub labelled: bool,
}

impl Scale {
    /// Wide enough for `values`; some axis also for none.
    pub fn around(kind: Kind, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite());
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| value.clamp(-GREATEST, GREATEST)) {
            if kind == Kind::Linear || value > 0.0 {
                let value = if kind == Kind::Linear { value } else { value.max(LEAST) };
                low = low.min(value);
                high = high.max(value);
            }
        }
        if kind == Kind::Linear {
            let (low, high) = (low.min(0.0), if high > 0.0 { high * 1.05 } else { 1.0 });
            return Self { kind, low, high };
        }
        if low > high {
            (low, high) = (0.1, 10.0);
        }
        // At least a factor of four, so that a lone value has decades around it.
        let room = if high / low < 4.0 { 2.0 } else { 1.15 };
        Self { kind, low: low / room, high: high * room }
    }

    /// Both ends at least as far as these.
    pub fn including(self, low: f64, high: f64) -> Self {
        let least = if self.kind == Kind::Linear { -GREATEST } else { LEAST };
        let (low, high) = (low.clamp(least, GREATEST), high.clamp(least, GREATEST));
        Self { low: self.low.min(low), high: self.high.max(high), ..self }
    }

    /// Whether `value` has a place on the axis.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || matches!(self.kind, Kind::Linear | Kind::LogAndZero))
    }

    /// From 0 at the low end to 1 at the high one.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log | Kind::Log2 => self.log_share(value),
            Kind::LogAndZero if value <= 0.0 => 0.0,
            Kind::LogAndZero => ZERO_SHARE + (1.0 - ZERO_SHARE) * self.log_share(value).max(0.0),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn log_share(&self, value: f64) -> f64 {
        (value.max(LEAST).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
    }

    /// Ticks within the axis, ascending.
    pub fn ticks(&self) -> Vec<Tick> {
        match self.kind {
            Kind::Linear => self.linear_ticks(),
            Kind::Log => self.log_ticks(),
            Kind::Log2 => self.binary_ticks(),
            Kind::LogAndZero => {
                let mut ticks = vec![Tick { value: 0.0, labelled: true }];
                ticks.extend(self.log_ticks());
                ticks
            }
        }
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        let rough = (self.high - self.low) / 6.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|part| part * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil();
        (0..=12)
            .map(|number| (first + f64::from(number)) * step)
            .take_while(|value| *value <= self.high)
            .map(|value| Tick { value, labelled: true })
            .collect()
    }

    fn binary_ticks(&self) -> Vec<Tick> {
        let (first, last) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
        let every = ((last - first) / MAX_POWER_LABELS + 1).max(1);
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        powers.map(|power| Tick { value: 2_f64.powi(power), labelled: true }).collect()
    }

    fn log_ticks(&self) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let span = self.high.log10() - self.low.log10();
        let every = ((last - first) / MAX_DECADE_LABELS).max(1);
        let mut ticks = Vec::new();
        for exponent in (first..=last).step_by(every as usize) {
            for digit in 1..=9 {
                // 148 reads better than 2 × 10²; with few decades 2 and 5 are labelled too, with many only the decades.
                let labelled = digit == 1 || (span < 3.2 && matches!(digit, 2 | 5)) || span < 0.8;
                let value = f64::from(digit) * 10_f64.powi(exponent);
                if (self.low..=self.high).contains(&value) && (labelled || (every == 1 && span < 6.0)) {
                    ticks.push(Tick { value, labelled });
                }
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades() {
        let scale = Scale::around(Kind::Log, [1000.0, 2e6]);
        let labelled: Vec<f64> = scale.ticks().iter().filter(|tick| tick.labelled).map(|tick| tick.value).collect();
        assert!(labelled.contains(&1000.0) && labelled.contains(&1e6), "{labelled:?}");
        assert!(scale.share(1000.0) > 0.0 && scale.share(2e6) < 1.0);
        assert!(!scale.holds(0.0));
    }

    #[test]
    fn powers_of_two() {
        let scale = Scale::around(Kind::Log2, [64.0, 2048.0]);
        let values: Vec<f64> = scale.ticks().iter().map(|tick| tick.value).collect();
        assert_eq!(values, [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0]);
        let scale = Scale::around(Kind::Log2, [1024.0, 1_073_741_824.0]);
        assert!(scale.ticks().iter().all(|tick| tick.value.log2() % 2.0 == 0.0) && scale.ticks().len() > 8);
    }

    #[test]
    fn nothing_lost_has_its_place() {
        let scale = Scale::around(Kind::LogAndZero, [0.0, 1e-4, 50.0]);
        assert_eq!(scale.share(0.0), 0.0);
        assert!(scale.share(1e-4) > 0.05);
        assert_eq!(scale.ticks()[0], Tick { value: 0.0, labelled: true });
    }

    #[test]
    fn linear_begins_at_zero() {
        let scale = Scale::around(Kind::Linear, [40.0, 100.0]);
        assert_eq!(scale.share(0.0), 0.0);
        let values: Vec<f64> = scale.ticks().iter().map(|tick| tick.value).collect();
        assert_eq!(values, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    }

    #[test]
    fn always_finite_and_few() {
        let wild =
            [0.0, -1.0, f64::MIN_POSITIVE, 5e-324, 1.0, u64::MAX as f64, f64::MAX, -f64::MAX, f64::NAN, f64::INFINITY];
        for kind in [Kind::Linear, Kind::Log, Kind::Log2, Kind::LogAndZero] {
            for &a in &wild {
                for &b in &wild {
                    let scale = Scale::around(kind, [a, b]);
                    let ticks = scale.ticks();
                    assert!(ticks.len() < 80, "{kind:?} {a} {b}: {}", ticks.len());
                    assert!(ticks.iter().all(|tick| tick.value.is_finite()));
                    assert!(wild.iter().all(|value| (0.0..=1.0).contains(&scale.share(*value))));
                }
            }
        }
    }
}
