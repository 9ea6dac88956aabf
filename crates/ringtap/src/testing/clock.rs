//! A clock that stands still until somebody waits by it, or tells it to go on.
//!
//! Owns simulated time and what waking up costs in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::histogram::add;
use crate::sys::event::Stop;

/// How often a real wait looks up; only the stop handle ends it.
const LONG: Duration = Duration::from_secs(3600);

/// What passes from the instant for which a thread waited until it goes on, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeCosts {
    /// After [`Clock::sleep_until`].
    pub timer_ns: u64,
    /// After [`Clock::wait`].
    pub interrupt_ns: u64,
}

/// Simulated time, which one thread at a time lets pass. Clones show the same time.
///
/// A wait for which there is no end (beyond 2⁶⁴ ns) is a real one: only the stop handle, pulled by another thread, ends it.
#[derive(Debug, Clone, Default)]
pub struct SimulatedClock {
    time: Arc<Time>,
    costs: WakeCosts,
}

#[derive(Debug, Default)]
struct Time {
    monotonic_ns: AtomicU64,
    /// What the wall clock is ahead of it.
    ahead_ns: AtomicU64,
}

impl SimulatedClock {
    /// Stands at `now_ns`, and at the same time since 1970. Waking up costs nothing.
    pub fn at(now_ns: u64) -> Self {
        Self::with_costs(now_ns, WakeCosts::default())
    }

    /// As [`SimulatedClock::at`], with these costs of waking up.
    pub fn with_costs(now_ns: u64, costs: WakeCosts) -> Self {
        let this = Self { time: Arc::default(), costs };
        this.advance(now_ns);
        this
    }

    /// Lets time pass: what a handler's work takes.
    pub fn advance(&self, by_ns: u64) {
        add(&self.time.monotonic_ns, by_ns);
    }

    /// Sets the wall clock, as an administrator might.
    pub fn set_realtime_ns(&self, ns: u64) {
        self.time.ahead_ns.store(ns.wrapping_sub(self.monotonic_ns()), Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn monotonic_ns(&self) -> u64 {
        self.time.monotonic_ns.load(Ordering::Relaxed)
    }

    fn realtime_ns(&self) -> u64 {
        self.monotonic_ns().wrapping_add(self.time.ahead_ns.load(Ordering::Relaxed))
    }

    /// An instant that has passed costs a wake-up all the same, as clock_nanosleep(2) does.
    fn sleep_until(&self, instant_ns: u64) {
        let late_ns = self.monotonic_ns().saturating_sub(instant_ns);
        self.time.monotonic_ns.store(instant_ns + late_ns + self.costs.timer_ns, Ordering::Relaxed);
    }

    fn wait(&self, stop: &Stop, limit: Duration) -> bool {
        if stop.is_pulled() {
            return true;
        }
        let limit_ns = u64::try_from(limit.as_nanos()).ok();
        match limit_ns.filter(|&ns| self.monotonic_ns().checked_add(ns).is_some()) {
            Some(ns) => {
                self.advance(ns + self.costs.interrupt_ns);
                false
            }
            None => loop {
                if stop.wait(LONG) {
                    return true;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_what_makes_time_pass() {
        let clock = SimulatedClock::with_costs(100, WakeCosts { timer_ns: 7, interrupt_ns: 5 });
        let (other, stop) = (clock.clone(), Stop::new().unwrap());
        clock.sleep_until(200);
        assert_eq!(other.monotonic_ns(), 207);
        clock.sleep_until(150);
        assert_eq!(other.monotonic_ns(), 214, "its instant had passed");
        assert!(!clock.wait(&stop, Duration::from_nanos(1000)));
        assert_eq!(other.monotonic_ns(), 1219);
        stop.pull();
        assert!(clock.wait(&stop, Duration::from_nanos(1000)));
        assert_eq!(other.monotonic_ns(), 1219, "a pulled handle ends a wait before it begins");
    }

    #[test]
    fn the_wall_clock_can_be_set_and_goes_on_from_there() {
        let clock = SimulatedClock::at(100);
        assert_eq!(clock.realtime_ns(), 100);
        clock.set_realtime_ns(20);
        clock.advance(5);
        assert_eq!((clock.monotonic_ns(), clock.realtime_ns()), (105, 25));
    }

    #[test]
    fn a_wait_without_end_is_ended_by_the_handle_alone() {
        let (clock, stop) = (SimulatedClock::at(1), Arc::new(Stop::new().unwrap()));
        let other = Arc::clone(&stop);
        let thread = std::thread::spawn(move || other.pull());
        assert!(clock.wait(&stop, Duration::MAX));
        thread.join().unwrap();
        assert_eq!(clock.monotonic_ns(), 1);
    }
}
