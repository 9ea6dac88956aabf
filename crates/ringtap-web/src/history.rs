//! Owns: what was seen of a program in the last two minutes, while somebody looked: its newest two accounts, and how many came.
//! Does not: look by itself: nobody's page costs nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::content::Now;

/// How far back the curve goes.
const SHOWN: Duration = Duration::from_secs(120);

/// Looks at a program.
#[derive(Default)]
pub(crate) struct History {
    newest: Option<(Instant, Now)>,
    before: Option<(Instant, Now)>,
    counts: VecDeque<(Instant, u64)>,
}

impl History {
    /// Keeps what is seen. After two minutes without a look all begins anew.
    pub(crate) fn add(&mut self, at: Instant, now: Now) {
        if self.newest.as_ref().is_some_and(|(then, _)| at.duration_since(*then) > SHOWN) {
            *self = Self::default();
        }
        while self.counts.front().is_some_and(|(then, _)| at.duration_since(*then) > SHOWN) {
            self.counts.pop_front();
        }
        self.counts.push_back((at, now.count));
        self.before = self.newest.replace((at, now));
    }

    /// The newest look.
    pub(crate) fn now(&self) -> Option<&Now> {
        self.newest.as_ref().map(|(_, now)| now)
    }

    /// The look before it, and how long that was before, seconds.
    pub(crate) fn before(&self) -> Option<(&Now, f64)> {
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

    fn counted(count: u64) -> Now {
        Now { count, ..Now::default() }
    }

    #[test]
    fn rates_are_between_looks_and_old_ones_are_forgotten() {
        let start = Instant::now();
        let mut history = History::default();
        history.add(start, counted(100));
        assert!(history.before().is_none() && history.rates().is_empty(), "one look says no rate");
        history.add(start + Duration::from_secs(2), counted(300));
        history.add(start + Duration::from_secs(4), counted(100));
        assert_eq!(history.rates(), [(2.0, 100.0), (0.0, 0.0)], "a counter that fell began anew");
        for second in 5..1000 {
            history.add(start + Duration::from_secs(second), counted(second));
        }
        assert!(history.counts.len() <= 122, "{}", history.counts.len());
        history.add(start + Duration::from_secs(2000), counted(7));
        assert!(history.before().is_none() && history.counts.len() == 1);
    }
}
