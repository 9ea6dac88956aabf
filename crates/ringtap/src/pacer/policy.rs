//! Which waiting policy, with which numbers, and whether they make sense (\[1] §5.3.4, \[3] §2–4).
//!
//! Owns: the policy types as a user or a configuration file states them, their defaults and their validation.
//! Does not own: how a policy decides (`forecast`, `windowed`), or where threshold and period come from
//! (calibration from a latency bound).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest poll period that is accepted, in nanoseconds: one minute.
pub const MAX_PERIOD_NS: u64 = 60_000_000_000;

/// How the engine waits when the ring is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "wait", rename_all = "snake_case")]
pub enum Policy {
    /// Interrupt at low rates, fixed-rate timer at high rates, chosen by forecast (\[1] §5.3.4, \[2] §5.3).
    Hybrid(Hybrid),
    /// The same two ways to wait, chosen by a rate measured per window and two cliffs (\[3] §2–4).
    Windowed(Windowed),
    /// Always the device's interrupt.
    Interrupt,
    /// Always the timer.
    Timer {
        /// Poll period in nanoseconds, 1 to [`MAX_PERIOD_NS`].
        period_ns: u64,
    },
    /// Spin: never wait. For comparison only.
    Busy,
}

/// One step of the hybrid policy's ladder: above this rate, poll with this period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Packets per second above which this rung applies; finite and above 0.
    pub threshold_pps: f64,
    /// Poll period in nanoseconds, 1 to [`MAX_PERIOD_NS`].
    pub period_ns: u64,
}

/// The tunables of the hybrid policy (\[2] §5.3; the sources name α1, α2, n1 and n2 but give no values).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hybrid {
    /// Weight of the newest inter-packet period when a cycle handled at most `n1` packets; (0, 1], below `alpha2`.
    #[serde(default = "default_alpha1")]
    pub alpha1: f64,
    /// Weight when a cycle handled more than `n1` and at most `n2` packets; (0, 1].
    #[serde(default = "default_alpha2")]
    pub alpha2: f64,
    /// Packets per cycle up to which `alpha1` applies; below `n2`.
    #[serde(default = "default_n1")]
    pub n1: u64,
    /// Packets per cycle above which the newest period alone is the forecast (α = 1).
    #[serde(default = "default_n2")]
    pub n2: u64,
    /// Our addition: a rung is left only when the forecast period exceeds its threshold period by this share; 0 is
    /// the sources' scheme. At least 0, finite.
    #[serde(default = "default_hysteresis")]
    pub hysteresis: f64,
    /// Our addition: the remembered forecast never exceeds this many threshold periods of the lowest rung, so that
    /// the time to recognise new traffic does not grow with the silence before it. Above 1 + `hysteresis`, finite.
    #[serde(default = "default_ceiling")]
    pub ceiling: f64,
    /// The ladder, ascending in `threshold_pps`; one rung or more.
    pub rungs: Vec<Rung>,
}

/// The defaults are the outcome of a recorded sweep (`benchmarks/record/2026-11-21-forecast`, made by
/// `examples/forecast_sweep.rs`): 600 simulated scenarios scored against an oracle that knows the traffic.
impl Hybrid {
    /// Default weight for cycles of few packets. 1/16 switched 36 times in 1000 poll periods at the threshold instead
    /// of 15 and took every fifth burst of noise for traffic; 1/64 took twice as long to recognise traffic and silence.
    pub const ALPHA1: f64 = 1.0 / 32.0;
    /// Default weight for cycles of a middling number of packets. The sweep hardly feels it: 1/4 to 3/4 score
    /// alike.
    pub const ALPHA2: f64 = 0.75;
    /// Default upper limit of "few packets". With 4 (and an `n2` of 16) every fourth burst of noise led to timer
    /// mode, with 8 and more none did.
    pub const N1: u64 = 32;
    /// Default packets per cycle above which the newest period alone counts.
    pub const N2: u64 = 128;
    /// Default hysteresis. Poisson traffic at the threshold switched 180 times in 1000 poll periods without and 17 times
    /// with it. (The mean of elapsed/n lies above the true period when n is random, up to a third, so timer mode sees
    /// a lower rate than interrupt mode does: the bare scheme oscillates.) What it costs: after high traffic, a steady
    /// rate between 0.77 and 1 of the threshold stays in timer mode, where waiting costs at most 1.3 times as much.
    pub const HYSTERESIS: f64 = 0.3;
    /// Default ceiling of the remembered period, in threshold periods of the lowest rung. With 1.5 every fifth burst of
    /// noise led to timer mode, with 4 none did; 8 only made the reaction slower (19.5 instead of 15.3 poll periods).
    pub const CEILING: f64 = 4.0;

    /// The defaults with one threshold (packets per second) and one poll period (nanoseconds).
    pub fn new(threshold_pps: f64, period_ns: u64) -> Self {
        Self::with_rungs(vec![Rung { threshold_pps, period_ns }])
    }

    /// The defaults with a ladder of several thresholds (\[2] §5.3, "for wide ranges").
    pub fn with_rungs(rungs: Vec<Rung>) -> Self {
        Self {
            alpha1: Self::ALPHA1,
            alpha2: Self::ALPHA2,
            n1: Self::N1,
            n2: Self::N2,
            hysteresis: Self::HYSTERESIS,
            ceiling: Self::CEILING,
            rungs,
        }
    }
}

fn default_alpha1() -> f64 {
    Hybrid::ALPHA1
}
fn default_alpha2() -> f64 {
    Hybrid::ALPHA2
}
fn default_n1() -> u64 {
    Hybrid::N1
}
fn default_n2() -> u64 {
    Hybrid::N2
}
fn default_hysteresis() -> f64 {
    Hybrid::HYSTERESIS
}
fn default_ceiling() -> f64 {
    Hybrid::CEILING
}

/// The tunables of the windowed policy (\[3] §2–4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Windowed {
    /// λ_cliff in packets per second, measured or from [`cliff_pps`](super::formulas::cliff_pps); finite and above 0.
    pub cliff_pps: f64,
    /// Poll period above the cliff in nanoseconds, 1 to [`MAX_PERIOD_NS`].
    pub period_ns: u64,
    /// ε: enter timer mode above (1 + ε)·λ_cliff, leave it below (1 − ε)·λ_cliff; at least 0 and below 1.
    #[serde(default = "default_epsilon")]
    pub epsilon: f64,
    /// Length of the measuring window in nanoseconds, 1 to [`MAX_PERIOD_NS`].
    #[serde(default = "default_window_ns")]
    pub window_ns: u64,
    /// A new window weighs 2^-`weight_shift` in the estimate; 0 (the newest window alone) to [`Self::MAX_WEIGHT_SHIFT`].
    #[serde(default = "default_weight_shift")]
    pub weight_shift: u32,
}

impl Windowed {
    /// ε of the source: the fewest switches under Poisson and bursty traffic at the cliff.
    pub const EPSILON: f64 = 0.15;
    /// Window of the source: 8 ms.
    pub const WINDOW_NS: u64 = 8_000_000;
    /// Default weight, 1/2: the source does not print its own. In the sweep (see [`Hybrid`]) the newest window alone
    /// switched 7 times in 1000 poll periods at the cliff, a weight of 1/2 twice, and 1/4 doubled the reaction time.
    pub const WEIGHT_SHIFT: u32 = 1;
    /// Largest accepted `weight_shift`.
    pub const MAX_WEIGHT_SHIFT: u32 = 4;

    /// The source's window and ε with this cliff (packets per second) and poll period (nanoseconds).
    pub fn new(cliff_pps: f64, period_ns: u64) -> Self {
        Self {
            cliff_pps,
            period_ns,
            epsilon: Self::EPSILON,
            window_ns: Self::WINDOW_NS,
            weight_shift: Self::WEIGHT_SHIFT,
        }
    }
}

fn default_epsilon() -> f64 {
    Windowed::EPSILON
}
fn default_window_ns() -> u64 {
    Windowed::WINDOW_NS
}
fn default_weight_shift() -> u32 {
    Windowed::WEIGHT_SHIFT
}

/// Why a [`Policy`] was refused.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyError {
    /// A number is outside its range.
    OutOfRange {
        /// The tunable, as it is called in [`Policy`].
        name: &'static str,
        /// What was given.
        value: f64,
        /// What is accepted.
        expected: &'static str,
    },
    /// `alpha1` is not below `alpha2`.
    AlphaOrder {
        /// What was given for `alpha1`.
        alpha1: f64,
        /// What was given for `alpha2`.
        alpha2: f64,
    },
    /// `n1` is not below `n2`.
    CountOrder {
        /// What was given for `n1`.
        n1: u64,
        /// What was given for `n2`.
        n2: u64,
    },
    /// The ladder has no rung.
    NoRungs,
    /// A rung's threshold is not above the one before it.
    RungOrder {
        /// Position of the offending rung, from 0.
        index: usize,
        /// The threshold of the rung before it, packets per second.
        below_pps: f64,
        /// The offending threshold, packets per second.
        threshold_pps: f64,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { name, value, expected } => {
                write!(f, "{name} is {value}; it must be {expected}")
            }
            Self::AlphaOrder { alpha1, alpha2 } => {
                write!(f, "alpha1 ({alpha1}) must be below alpha2 ({alpha2})")
            }
            Self::CountOrder { n1, n2 } => {
                write!(f, "n1 ({n1}) must be below n2 ({n2})")
            }
            Self::NoRungs => {
                write!(f, "the ladder is empty; give one threshold and period or more")
            }
            Self::RungOrder { index, below_pps, threshold_pps } => write!(
                f,
                "rung {index} has threshold {threshold_pps} pps, not above the {below_pps} pps of \
                 the rung before it; list the rungs in ascending order"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}

/// `Err` with the tunable's name unless `ok`.
fn require(ok: bool, name: &'static str, value: f64, expected: &'static str) -> Result<(), PolicyError> {
    if ok { Ok(()) } else { Err(PolicyError::OutOfRange { name, value, expected }) }
}

fn positive(name: &'static str, value: f64) -> Result<(), PolicyError> {
    require(value.is_finite() && value > 0.0, name, value, "a finite number above 0")
}

fn weight(name: &'static str, value: f64) -> Result<(), PolicyError> {
    require(value > 0.0 && value <= 1.0, name, value, "above 0 and at most 1")
}

fn duration(name: &'static str, value_ns: u64) -> Result<(), PolicyError> {
    let ok = (1..=MAX_PERIOD_NS).contains(&value_ns);
    require(ok, name, value_ns as f64, "from 1 ns to 60 s (60000000000 ns)")
}

impl Policy {
    /// Checks every number of the policy.
    ///
    /// # Errors
    /// The first tunable that is out of range or out of order, with its name and what is accepted.
    pub fn validate(&self) -> Result<(), PolicyError> {
        match self {
            Self::Hybrid(hybrid) => hybrid.validate(),
            Self::Windowed(windowed) => windowed.validate(),
            Self::Timer { period_ns } => duration("period_ns", *period_ns),
            Self::Interrupt | Self::Busy => Ok(()),
        }
    }
}

impl Hybrid {
    fn validate(&self) -> Result<(), PolicyError> {
        weight("alpha1", self.alpha1)?;
        weight("alpha2", self.alpha2)?;
        if self.alpha1 >= self.alpha2 {
            return Err(PolicyError::AlphaOrder { alpha1: self.alpha1, alpha2: self.alpha2 });
        }
        if self.n1 >= self.n2 {
            return Err(PolicyError::CountOrder { n1: self.n1, n2: self.n2 });
        }
        let finite = self.hysteresis.is_finite() && self.hysteresis >= 0.0;
        require(finite, "hysteresis", self.hysteresis, "a finite number, 0 or more")?;
        let above = self.ceiling.is_finite() && self.ceiling > 1.0 + self.hysteresis;
        require(above, "ceiling", self.ceiling, "a finite number above 1 + hysteresis")?;
        if self.rungs.is_empty() {
            return Err(PolicyError::NoRungs);
        }
        for rung in &self.rungs {
            positive("threshold_pps", rung.threshold_pps)?;
            duration("period_ns", rung.period_ns)?;
        }
        for (index, pair) in self.rungs.windows(2).enumerate() {
            if let [below, rung] = pair
                && rung.threshold_pps <= below.threshold_pps
            {
                return Err(PolicyError::RungOrder {
                    index: index + 1,
                    below_pps: below.threshold_pps,
                    threshold_pps: rung.threshold_pps,
                });
            }
        }
        Ok(())
    }
}

impl Windowed {
    fn validate(&self) -> Result<(), PolicyError> {
        positive("cliff_pps", self.cliff_pps)?;
        duration("period_ns", self.period_ns)?;
        let in_range = self.epsilon >= 0.0 && self.epsilon < 1.0;
        require(in_range, "epsilon", self.epsilon, "0 or more and below 1")?;
        duration("window_ns", self.window_ns)?;
        let shift_ok = self.weight_shift <= Self::MAX_WEIGHT_SHIFT;
        require(shift_ok, "weight_shift", f64::from(self.weight_shift), "0 to 4")
    }
}
