//! When to look at the ring again: the waiting policy (\[1] §5, \[3] §2–4). Pure: no system call, no clock of its own.
//!
//! Owns: the decision after each cycle, [`Pacer::next`]. Does not own: the clock, the waiting itself (engine and
//! sources), or where threshold and period come from (calibration).
//!
//! ```
//! use ringtap::pacer::{Hybrid, Pacer, Policy, Wait};
//!
//! let policy = Policy::Hybrid(Hybrid::new(8_300.0, 122_000));
//! let mut pacer = Pacer::new(&policy)?;
//! assert_eq!(pacer.next(1_000_000, 0), Wait::Interrupt);
//! # Ok::<(), ringtap::pacer::PolicyError>(())
//! ```

mod forecast;
pub mod formulas;
mod grid;
mod policy;
mod windowed;

use serde::{Deserialize, Serialize};

use forecast::Forecast;
use grid::Grid;
pub use policy::{Hybrid, MAX_PERIOD_NS, Policy, PolicyError, Rung, Windowed};
use windowed::RateWindow;

/// How the engine waits once it has found the ring empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Arm the device's interrupt and sleep until a packet arrives.
    Interrupt,
    /// Sleep until this instant (CLOCK_MONOTONIC, nanoseconds), then poll.
    Timer(u64),
    /// Look again at once (busy policy only, for comparison).
    Poll,
}

/// What a [`Pacer`] currently asks for, without the instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// [`Wait::Interrupt`]
    Interrupt,
    /// [`Wait::Timer`]
    Timer,
    /// [`Wait::Poll`]
    Poll,
}

/// What decides, with its state.
#[derive(Debug, Clone)]
enum Scheme {
    Hybrid(Forecast),
    Windowed(RateWindow),
    Interrupt,
    Timer(u64),
    Busy,
}

/// Decides, after each cycle, how to wait. Allocates at construction only; never panics; takes any clock, also one
/// that stands still or jumps.
#[derive(Debug, Clone)]
pub struct Pacer {
    scheme: Scheme,
    grid: Grid,
    mode: Mode,
    mode_switches: u64,
    period_changes: u64,
}

impl Pacer {
    /// A pacer with no history: hybrid and windowed begin in interrupt mode.
    ///
    /// # Errors
    /// What [`Policy::validate`] finds wrong.
    pub fn new(policy: &Policy) -> Result<Self, PolicyError> {
        policy.validate()?;
        let (scheme, mode) = match policy {
            Policy::Hybrid(hybrid) => (Scheme::Hybrid(Forecast::new(hybrid)), Mode::Interrupt),
            Policy::Windowed(windowed) => (Scheme::Windowed(RateWindow::new(windowed)), Mode::Interrupt),
            Policy::Interrupt => (Scheme::Interrupt, Mode::Interrupt),
            Policy::Timer { period_ns } => (Scheme::Timer(*period_ns), Mode::Timer),
            Policy::Busy => (Scheme::Busy, Mode::Poll),
        };
        Ok(Self { scheme, grid: Grid::default(), mode, mode_switches: 0, period_changes: 0 })
    }

    /// How to wait now. Call it once per cycle, when the ring is found empty.
    ///
    /// `now_ns`: CLOCK_MONOTONIC in nanoseconds. `handled`: packets handled since the previous call, 0 for an empty
    /// cycle. A [`Wait::Timer`] instant lies strictly after `now_ns` on a fixed-rate grid, at most one period away;
    /// ticks that have passed are skipped and counted ([`Self::missed_ticks`]).
    pub fn next(&mut self, now_ns: u64, handled: u64) -> Wait {
        let poll_period_ns = match &mut self.scheme {
            Scheme::Hybrid(forecast) => forecast.cycle(now_ns, handled),
            Scheme::Windowed(window) => window.cycle(now_ns, handled),
            Scheme::Timer(period_ns) => Some(*period_ns),
            Scheme::Interrupt => None,
            Scheme::Busy => return Wait::Poll,
        };
        let mode = if poll_period_ns.is_some() { Mode::Timer } else { Mode::Interrupt };
        if mode != self.mode {
            self.mode = mode;
            self.mode_switches = self.mode_switches.saturating_add(1);
        }
        let Some(period_ns) = poll_period_ns else {
            self.grid.stop();
            return Wait::Interrupt;
        };
        if self.grid.period_ns().is_some_and(|running| running != period_ns) {
            self.period_changes = self.period_changes.saturating_add(1);
        }
        Wait::Timer(self.grid.next(now_ns, period_ns))
    }

    /// The mode of the latest decision.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes between interrupt and timer mode since construction.
    pub fn mode_switches(&self) -> u64 {
        self.mode_switches
    }

    /// Changes from one rung's poll period to another's while in timer mode, since construction.
    pub fn period_changes(&self) -> u64 {
        self.period_changes
    }

    /// Poll period in force, in nanoseconds; `None` unless the latest decision was the timer.
    pub fn period_ns(&self) -> Option<u64> {
        self.grid.period_ns()
    }

    /// Timer ticks that passed unused since construction: the engine was still handling packets, or woke too late.
    pub fn missed_ticks(&self) -> u64 {
        self.grid.missed()
    }

    /// The rate the latest decision was based on, in packets per second, at most 10⁹; `None` for policies that do
    /// not estimate one, and before the first estimate. Not updated while the engine sleeps.
    pub fn predicted_rate_pps(&self) -> Option<f64> {
        match &self.scheme {
            Scheme::Hybrid(forecast) => forecast.predicted_ns().map(|period| 1e9 / period.max(1.0)),
            Scheme::Windowed(window) => window.rate_pps().map(|rate| rate.min(1e9)),
            Scheme::Interrupt | Scheme::Timer(_) | Scheme::Busy => None,
        }
    }
}
