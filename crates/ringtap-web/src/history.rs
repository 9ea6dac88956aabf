//! Owns: what was seen of a program in the last two minutes, while somebody looked: its newest two accounts, and how many came.
//! Does not: look by itself: nobody's page costs nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::content::Now;

/// How far back the curve goes.
const SHOWN: Duration = Duration::from_secs(120);
/// Programs take their accounts once a second, unless they are busy with something that they do in between.
const OVERDUE: Duration = Duration::from_secs(3);

/// Accounts of a program.
#[derive(Default)]
pub(crate) struct History {
    newest: Option<(Instant, Now)>,
    before: Option<(Instant, Now)>,
    counts: VecDeque<(Instant, u64)>,
    looked: Option<Instant>,
}

impl History {
    /// Keeps what is seen at this time. An account that is there already says nothing new; after two minutes without a look all begins
    /// anew.
    pub(crate) fn add(&mut self, looked: Instant, now: Now) {
        if self.looked.is_some_and(|then| looked.duration_since(then) > SHOWN) {
            *self = Self::default();
        }
        self.looked = Some(looked);
        let Some(at) = now.at else { return };
        if self.newest.as_ref().is_some_and(|(then, _)| at <= *then) {
            return;
        }
        while self.counts.front().is_some_and(|(then, _)| at.duration_since(*then) > SHOWN) {
            self.counts.pop_front();
        }
        self.counts.push_back((at, now.count));
        self.before = self.newest.replace((at, now));
    }

    /// The newest account.
    pub(crate) fn now(&self) -> Option<&Now> {
        self.newest.as_ref().map(|(_, now)| now)
    }

    /// How old it is, if that is more than it should be: rates are no longer of now.
    pub(crate) fn overdue(&self) -> Option<Duration> {
        let ((at, _), looked) = self.newest.as_ref().zip(self.looked)?;
        Some(looked.duration_since(*at)).filter(|age| *age > OVERDUE)
    }

    /// The account before it, and how long that was before, seconds; `None` also where the newest is overdue.
    pub(crate) fn before(&self) -> Option<(&Now, f64)> {
        if self.overdue().is_some() {
            return None;
        }
        let ((at, _), (then, before)) = self.newest.as_ref().zip(self.before.as_ref())?;
        Some((before, at.duration_since(*then).as_secs_f64()))
    }

    /// How many came a second, from look to look: seconds before the newest, and the rate.
    pub(crate) fn rates(&self) -> Vec<(f64, f64)> {
        let Some((newest, _)) = self.counts.back() else { return Vec::new() };
        let pairs = self.counts.iter().zip(self.counts.iter().skip(1));
        pairs
            .map(|((then, before), (at, now))| {
                let seconds = at.duration_since(*then).as_secs_f64().max(1e-3);
                (newest.duration_since(*at).as_secs_f64(), now.saturating_sub(*before) as f64 / seconds)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_accounts_and_old_ones_are_forgotten() {
        let start = Instant::now();
        let mut history = History::default();
        let mut look = |taken_ms: u64, looked_ms: u64, count: u64| {
            let at = |ms| start + Duration::from_millis(ms);
            history.add(at(looked_ms), Now { at: Some(at(taken_ms)), count, ..Now::default() });
            (history.before().is_some(), history.rates(), history.overdue().is_some(), history.counts.len())
        };
        assert_eq!(look(0, 500, 100), (false, vec![], false, 1), "one account says no rate");
        let rates = vec![(0.0, 100.0)];
        assert_eq!(look(2000, 2400, 300), (true, rates.clone(), false, 2));
        assert_eq!(look(2000, 3400, 300), (true, rates.clone(), false, 2), "the same account again is no rate of 0");
        assert_eq!(look(2000, 5400, 300), (false, rates, true, 2), "nothing newer for more than three seconds");
        assert_eq!(look(4000, 5500, 100).1, [(2.0, 100.0), (0.0, 0.0)], "a counter that fell began anew");
        for second in 6..1000 {
            look(second * 1000, second * 1000 + 10, second);
        }
        assert!(look(1_000_000, 1_000_010, 1).3 <= 122);
        assert_eq!(look(2_000_000, 2_000_010, 1).3, 1);
    }
}
