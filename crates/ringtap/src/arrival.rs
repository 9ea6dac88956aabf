//! How long ago a packet's arrival stamp was, by a clock that may be set meanwhile.
//!
//! Owns the comparison of now with a stamp. Packet sockets stamp with CLOCK_REALTIME, which somebody may set while packets
//! wait: their difference would then be the step, an hour maybe, and no latency.

use crate::clock::{Clock, SystemClock};
use crate::source::StampClock;

/// After the clock was set, packets stamped before may still be on their way to the ring: NAPI may defer them by a third of the
/// longest bound there is.
const SETTLES_NS: u64 = 1_000_000_000;
/// Of which no step need be heeded, and more than reading two clocks is inexact.
const SLACK_NS: i64 = 1_000;

/// The clock of arrival stamps. One per thread that asks.
#[derive(Debug, Clone)]
pub struct ArrivalClock {
    stamps: StampClock,
    wall: Option<WallClock>,
    /// Until then, and until the ring was empty after it, stamps may be from before the wall clock was set.
    unsure_until_ns: Option<u64>,
    was_empty: bool,
    steps: u64,
    /// Since when its owner looks at the ring, in the clock of the stamps: what came before was never promised a bound.
    since_ns: u64,
}

/// Now, as [`ArrivalClock::now`] tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// In the clock of the stamps; `None` where they are of no clock, or it was set since a packet may have been stamped.
    pub stamp_ns: Option<u64>,
    /// CLOCK_MONOTONIC; 0 where stamps are of no clock.
    pub monotonic_ns: u64,
}

impl ArrivalClock {
    /// For stamps of this clock.
    pub fn new(stamps: StampClock) -> Self {
        Self::new_by(&SystemClock, stamps)
    }

    /// As [`ArrivalClock::new`], in the time that `clock` tells.
    pub fn new_by(clock: &impl Clock, stamps: StampClock) -> Self {
        let wall = (stamps == StampClock::Realtime).then(|| WallClock::new(read(clock)));
        let mut this = Self { stamps, wall, unsure_until_ns: None, was_empty: false, steps: 0, since_ns: 0 };
        this.since_ns = this.now_by(clock).stamp_ns.unwrap_or(0);
        this
    }

    /// Whether a packet had come before its owner began to look.
    pub fn is_backlog(&self, arrival_ns: u64) -> bool {
        arrival_ns < self.since_ns
    }

    /// To be asked after packets were handled.
    pub fn now(&mut self) -> Now {
        self.now_by(&SystemClock)
    }

    /// As [`ArrivalClock::now`], in the time that `clock` tells.
    pub fn now_by(&mut self, clock: &impl Clock) -> Now {
        match (self.stamps, &mut self.wall) {
            (StampClock::Monotonic, _) => {
                let now_ns = clock.monotonic_ns();
                Now { stamp_ns: Some(now_ns), monotonic_ns: now_ns }
            }
            (_, Some(_)) => self.at(read(clock)),
            _ => Now { stamp_ns: None, monotonic_ns: 0 },
        }
    }

    fn at(&mut self, reading: Reading) -> Now {
        if self.wall.as_mut().is_some_and(|wall| wall.was_set(reading)) {
            self.steps += 1;
            // Stamps of the new time can't be compared with it, and those of the old time are left out.
            self.since_ns = 0;
            self.unsure_until_ns = Some(reading.after_ns + SETTLES_NS);
            self.was_empty = false;
        }
        match self.unsure_until_ns {
            Some(until_ns) if self.was_empty && reading.after_ns > until_ns => self.unsure_until_ns = None,
            // An empty ring says something only when the time is over.
            Some(until_ns) if reading.after_ns <= until_ns => self.was_empty = false,
            _ => {}
        }
        let stamp_ns = self.unsure_until_ns.is_none().then_some(reading.wall_ns);
        Now { stamp_ns, monotonic_ns: reading.after_ns }
    }

    /// How long ago a stamp was, nanoseconds; `None` where that can't be said (0 is no stamp).
    pub fn waited_ns(&mut self, arrival_ns: u64) -> Option<u64> {
        let now_ns = if arrival_ns == 0 { None } else { self.now().stamp_ns };
        now_ns.map(|now_ns| now_ns.saturating_sub(arrival_ns))
    }

    /// The ring was found empty.
    pub fn ring_is_empty(&mut self) {
        self.was_empty = true;
    }

    /// How often the clock was set.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

/// CLOCK_REALTIME, read between two readings of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
struct Reading {
    before_ns: u64,
    wall_ns: u64,
    after_ns: u64,
}

fn read(clock: &impl Clock) -> Reading {
    Reading { before_ns: clock.monotonic_ns(), wall_ns: clock.realtime_ns(), after_ns: clock.monotonic_ns() }
}

/// What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: at least and at most. Both are slewed alike, so that this changes only when
/// the former is set (clock_settime(2), adjtimex(2), a leap second). A thread that is held up between its readings learns less.
#[derive(Debug, Clone, Copy)]
struct WallClock {
    least_ns: i64,
    most_ns: i64,
}

impl WallClock {
    fn new(reading: Reading) -> Self {
        let ahead_of = |monotonic_ns: u64| reading.wall_ns.wrapping_sub(monotonic_ns) as i64;
        Self { least_ns: ahead_of(reading.after_ns), most_ns: ahead_of(reading.before_ns) }
    }

    /// Whether the clock was set since the last reading.
    fn was_set(&mut self, reading: Reading) -> bool {
        let now = Self::new(reading);
        let least_ns = now.least_ns.max(self.least_ns);
        let most_ns = now.most_ns.min(self.most_ns);
        *self = if least_ns <= most_ns { Self { least_ns, most_ns } } else { now };
        least_ns - most_ns > SLACK_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const HOUR_NS: u64 = 3_600_000_000_000;
    const MS: u64 = 1_000_000;

    fn reading(monotonic_ns: u64, ahead_ns: u64, took_ns: u64) -> Reading {
        Reading {
            before_ns: monotonic_ns,
            wall_ns: monotonic_ns + took_ns / 2 + ahead_ns,
            after_ns: monotonic_ns + took_ns,
        }
    }

    fn clock_at(ahead_ns: u64) -> ArrivalClock {
        let wall = Some(WallClock::new(reading(0, ahead_ns, 60)));
        ArrivalClock {
            stamps: StampClock::Realtime,
            wall,
            unsure_until_ns: None,
            was_empty: false,
            steps: 0,
            since_ns: HOUR_NS,
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_is_no_latency() {
        for (before, after) in [(HOUR_NS, 2 * HOUR_NS), (2 * HOUR_NS, HOUR_NS), (HOUR_NS, HOUR_NS + 5_000)] {
            let mut clock = clock_at(before);
            assert_eq!(clock.at(reading(MS, before, 60)).stamp_ns, Some(MS + 30 + before));
            assert_eq!(clock.at(reading(2 * MS, after, 60)).stamp_ns, None, "some may bear stamps of the old time");
            clock.ring_is_empty();
            assert_eq!(clock.at(reading(3 * MS, after, 60)).stamp_ns, None, "or be on their way to the ring");
            assert_eq!(clock.at(reading(1100 * MS, after, 60)).stamp_ns, None, "the ring was not empty since");
            clock.ring_is_empty();
            assert_eq!(clock.at(reading(1200 * MS, after, 60)).stamp_ns, Some(1200 * MS + 30 + after));
            assert_eq!(clock.steps(), 1);
        }
    }

    #[test]
    fn what_came_before_its_owner_looked_is_backlog_until_the_clock_is_set() {
        let mut clock = clock_at(HOUR_NS);
        assert!(clock.is_backlog(HOUR_NS - 1) && !clock.is_backlog(HOUR_NS));
        clock.at(reading(MS, HOUR_NS / 2, 60));
        assert!(!clock.is_backlog(HOUR_NS / 2 + 2 * MS), "the clock was set back; the packet is new");
    }

    #[test]
    fn a_thread_that_was_held_up_between_its_readings_keeps_its_latencies() {
        let mut clock = clock_at(HOUR_NS);
        let held_up = Reading { before_ns: MS, wall_ns: HOUR_NS + MS + 10, after_ns: 9 * MS };
        assert!(clock.at(held_up).stamp_ns.is_some());
        let held_up = Reading { before_ns: 10 * MS, wall_ns: HOUR_NS + 17 * MS, after_ns: 17 * MS + 10 };
        assert!(clock.at(held_up).stamp_ns.is_some());
        assert!(clock.at(reading(20 * MS, HOUR_NS, 60)).stamp_ns.is_some());
        assert_eq!(clock.steps(), 0);
    }

    #[test]
    fn clocks_that_are_not_set_tell_no_step() {
        let mut clock = ArrivalClock::new(StampClock::Realtime);
        for _ in 0..10_000 {
            let arrival_ns = clock::realtime_ns();
            assert!(clock.waited_ns(arrival_ns).is_some());
        }
        assert_eq!(clock.waited_ns(0), None);
    }
}
