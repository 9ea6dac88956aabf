//! Episodes: alarms without a gap, and which of them are storms.

use serde::{Deserialize, Serialize};

const SECOND_NS: u64 = 1_000_000_000;
/// Fewer alarms in a second are no storm, however quiet it was.
const LEAST: u64 = 10;
/// A storm is so many times the baseline.
const TIMES: u64 = 5;
/// Seconds over which the baseline is a mean.
const MEMORY: u64 = 300;

/// The current episode, and what is usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Episodes {
    /// Number of the current or latest one.
    pub number: u64,
    /// Its alarms.
    pub alarms: u64,
    /// It is a storm.
    pub storm: bool,
    last_ns: u64,
    /// When much came last.
    much_ns: u64,
    second: u64,
    in_second: u64,
    /// Alarms per second, in thousandths.
    baseline: u64,
}

impl Episodes {
    /// An alarm came; `true` when a storm begins with it.
    pub fn alarm(&mut self, at_ns: u64, gap_ns: u64) -> bool {
        if self.number == 0 || at_ns.saturating_sub(self.last_ns) > gap_ns {
            self.number += 1;
            self.alarms = 0;
        }
        self.last_ns = at_ns;
        self.alarms += 1;
        let second = at_ns / SECOND_NS;
        if second != self.second {
            // What a storm brings becomes usual slowly.
            let came = self.in_second * 1000;
            let came = if self.storm { came.min(2 * self.baseline + 1000) } else { came };
            let silent = second.saturating_sub(self.second + 1).min(10 * MEMORY);
            self.baseline = (self.baseline * (MEMORY - 1) + came) / MEMORY;
            for _ in 0..silent {
                self.baseline = self.baseline * (MEMORY - 1) / MEMORY;
            }
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += 1;
        let is_much = self.in_second >= LEAST && self.in_second * 1000 >= TIMES * self.baseline;
        if is_much {
            self.much_ns = at_ns;
        }
        let begins = is_much && !self.storm;
        self.storm |= begins;
        begins
    }

    /// When the storm is over if no more than usual comes.
    pub fn ends_ns(&self, gap_ns: u64) -> Option<u64> {
        self.storm.then(|| self.much_ns + SECOND_NS + gap_ns)
    }

    /// No more than usual came: the storm is over.
    pub fn end(&mut self) {
        self.storm = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_much_more_than_usual() {
        let mut quiet = Episodes::default();
        let began: Vec<u64> = (0..40).filter(|at| quiet.alarm(at * 20_000_000, SECOND_NS)).collect();
        assert_eq!((began, quiet.number), (vec![9], 1));
        // Twenty a second for an hour are usual: after some minutes they are no storm, two hundred are.
        let mut busy = Episodes::default();
        let at = |n: u64| n * SECOND_NS / 20;
        let mut last = 0;
        for n in 0..72_000 {
            if busy.alarm(at(n), SECOND_NS) {
                last = n;
            }
            if busy.ends_ns(SECOND_NS).is_some_and(|end| end <= at(n)) {
                busy.end();
            }
        }
        assert!(last < 20_000 && !busy.storm, "{last}");
        let start = at(72_001);
        assert!((0..400).any(|n| busy.alarm(start + n * SECOND_NS / 300, SECOND_NS)));
    }
}
