//! The fixed-rate grid of poll instants (\[1] §5).
//!
//! Owns: which instant is the next tick, and how many were missed. Does not own: whether to use the timer at all,
//! or the sleeping.

/// A grid of instants one period apart. Late ticks are skipped and counted, never bunched.
#[derive(Debug, Clone, Default)]
pub(super) struct Grid {
    /// Period of the running grid; 0 while it is stopped.
    period_ns: u64,
    /// The tick given out last.
    tick_ns: u64,
    missed: u64,
}

impl Grid {
    /// The next tick strictly after `now_ns` on the grid of `period_ns` (above 0). A new period, or the first tick
    /// after [`Self::stop`], starts a new grid at `now_ns`.
    ///
    /// At the very end of the clock's range the tick saturates at `u64::MAX`.
    pub(super) fn next(&mut self, now_ns: u64, period_ns: u64) -> u64 {
        let ahead = self.tick_ns.saturating_sub(now_ns);
        if self.period_ns != period_ns || ahead > period_ns {
            // New grid; or the clock went back, and the old grid's tick would be more than a period away.
            self.period_ns = period_ns;
            self.tick_ns = now_ns.saturating_add(period_ns);
        } else if ahead == 0 {
            // The tick given out has passed, `late` of the following ones with it.
            let late = (now_ns - self.tick_ns).checked_div(period_ns).unwrap_or(0);
            self.missed = self.missed.saturating_add(late);
            let steps = late.saturating_add(1).saturating_mul(period_ns);
            self.tick_ns = self.tick_ns.saturating_add(steps);
        }
        self.tick_ns
    }

    /// Forgets the grid: the next tick starts a new one.
    pub(super) fn stop(&mut self) {
        self.period_ns = 0;
    }

    /// Ticks that passed while the engine was busy or asleep, since construction.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Period of the running grid in nanoseconds; `None` while it is stopped.
    pub(super) fn period_ns(&self) -> Option<u64> {
        (self.period_ns > 0).then_some(self.period_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;

    #[test]
    fn ticks_stay_on_the_grid_whatever_the_lateness() {
        let mut grid = Grid::default();
        assert_eq!(grid.next(1_000, 100), 1_100);
        assert_eq!(grid.next(1_100, 100), 1_200, "strictly after now");
        assert_eq!(grid.next(1_230, 100), 1_300, "late, but no tick missed");
        assert_eq!(grid.missed(), 0);
        assert_eq!(grid.next(1_599, 100), 1_600);
        assert_eq!(grid.missed(), 2, "1400 and 1500");
        assert_eq!(grid.next(1_550, 100), 1_600, "woken early: the same tick");
        assert_eq!(grid.missed(), 2);
    }

    #[test]
    fn a_new_period_or_a_stop_starts_a_new_grid() {
        let mut grid = Grid::default();
        assert_eq!(grid.next(0, 100), 100);
        assert_eq!(grid.next(130, 50), 180);
        grid.stop();
        assert_eq!(grid.period_ns(), None);
        assert_eq!(grid.next(1_007, 50), 1_057);
        assert_eq!((grid.missed(), grid.period_ns()), (0, Some(50)));
    }

    #[test]
    fn the_clock_may_jump() {
        let mut grid = Grid::default();
        assert_eq!(grid.next(1_000_000, 100), 1_000_100);
        assert_eq!(grid.next(10, 100), 110, "back: never more than a period away");
        assert_eq!(grid.next(u64::MAX, 100), u64::MAX, "saturates");
        assert_eq!(grid.next(u64::MAX, 100), u64::MAX);
        assert_eq!(grid.next(5, 100), 105);
    }
}
