//! The time an engine lives in: the kernel's clocks, or one that a test sets.
//!
//! Owns what an engine asks of a clock. The system calls are in `sys/clock`.

use std::time::Duration;

pub use crate::sys::clock::{
    monotonic_ns, monotonic_to_realtime_ns, realtime_error_ns, realtime_ns, sleep_until, thread_cpu_ns,
};
use crate::sys::event::Stop;

/// What an engine asks of a clock.
pub trait Clock {
    /// Nanoseconds of a clock that nobody sets.
    fn monotonic_ns(&self) -> u64;

    /// Nanoseconds since 1970.
    fn realtime_ns(&self) -> u64;

    /// Sleeps until [`Clock::monotonic_ns`] reaches `instant_ns`; returns early only on a signal.
    fn sleep_until(&self, instant_ns: u64);

    /// Sleeps until the stop handle is pulled or `limit` has passed; `true` when pulled.
    fn wait(&self, stop: &Stop, limit: Duration) -> bool;
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn realtime_ns(&self) -> u64 {
        realtime_ns()
    }

    fn sleep_until(&self, instant_ns: u64) {
        sleep_until(instant_ns);
    }

    fn wait(&self, stop: &Stop, limit: Duration) -> bool {
        stop.wait(limit)
    }
}
