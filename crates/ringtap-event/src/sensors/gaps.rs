//! Owns: the times of which a sensor could not tell all: what was lost, and while it was silent or began again.
//! Does not: find them.

use serde::{Deserialize, Serialize};

/// Times that are kept apart; beyond it the oldest two become one, with what lies between.
const MOST: usize = 1024;

/// Times with something missing, both ends within, in the order of their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps(Vec<(i64, i64)>);

impl Gaps {
    /// Adds one.
    pub fn add(&mut self, from_ns: i64, to_ns: i64) {
        if from_ns > to_ns {
            return;
        }
        let at = self.0.partition_point(|(from, _)| *from <= from_ns);
        match at.checked_sub(1).and_then(|before| self.0.get_mut(before)) {
            Some((_, to)) if *to >= from_ns => *to = (*to).max(to_ns),
            _ => self.0.insert(at, (from_ns, to_ns)),
        }
        if self.0.len() > MOST {
            let (from, to) = self.0.remove(0);
            self.0[0] = (from, to.max(self.0[0].1));
        }
    }

    /// Adds those of another one.
    pub fn extend(&mut self, other: &Self) {
        other.0.iter().for_each(|(from, to)| self.add(*from, *to));
    }

    /// Forgets those that end before this, ns.
    pub fn forget(&mut self, before_ns: i64) {
        self.0.retain(|(_, to)| *to >= before_ns);
    }

    /// Whether something is missing in this time, both ends within.
    #[must_use]
    pub fn touch(&self, from_ns: i64, to_ns: i64) -> bool {
        self.0.iter().any(|(from, to)| *from <= to_ns && *to >= from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_and_the_bound() {
        let mut gaps = Gaps::default();
        for (from, to) in [(10, 20), (15, 30), (5, 6), (50, 40)] {
            gaps.add(from, to);
        }
        assert_eq!(gaps.0, [(5, 6), (10, 30)]);
        let mut other = Gaps::default();
        other.add(40, 45);
        other.extend(&gaps);
        other.forget(7);
        assert_eq!(other.0, [(10, 30), (40, 45)]);
        assert!(gaps.touch(6, 9) && gaps.touch(30, 30) && gaps.touch(i64::MIN, i64::MAX));
        assert!(!gaps.touch(7, 9) && !gaps.touch(31, 100));
        (0..2 * MOST as i64).for_each(|at| gaps.add(100 + 2 * at, 100 + 2 * at));
        assert_eq!(gaps.0.len(), MOST);
        assert!(gaps.touch(5, 5) && gaps.touch(100 + 4 * MOST as i64 - 2, i64::MAX));
    }
}
