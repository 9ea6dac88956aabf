//! Tells from the sequence numbers alone what was lost, doubled or reordered.
//!
//! Owns the judgement over one stream of numbers. Does not own where they come from (`stamp`) or why one is missing
//! (`drops`, and the capture core's ledger).

use serde::{Deserialize, Serialize};

/// A run of consecutive numbers that never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossBurst {
    /// First number missing.
    pub first: u64,
    /// How many in a row.
    pub length: u64,
}

/// Remembers every number of `0..expected`. All memory is taken, and touched, when it is made: one bit per packet.
#[derive(Debug, Clone)]
pub struct SequenceChecker {
    expected: u64,
    seen: Vec<u64>,
    /// The highest number so far, plus one.
    next: u64,
    distinct: u64,
    duplicates: u64,
    reordered: u64,
    max_distance: u64,
    foreign: u64,
}

/// What [`SequenceChecker`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceReport {
    /// Packets that were sent, hence numbers expected.
    pub expected: u64,
    /// Different numbers that came.
    pub received: u64,
    /// Numbers that never came.
    pub lost: u64,
    /// Packets whose number had come before.
    pub duplicates: u64,
    /// Packets that came after one with a higher number, not counting duplicates (RFC 4737 section 3, type-P-reordered).
    pub reordered: u64,
    /// The furthest that a reordered packet came behind the highest number before it.
    pub max_reorder_distance: u64,
    /// Packets without our stamp, of another stream, or with a number that was never sent.
    pub foreign: u64,
    /// All runs of lost numbers, in order.
    pub loss_bursts: Vec<LossBurst>,
}

impl SequenceChecker {
    /// Ready for the numbers `0..expected`; takes `expected / 8` bytes.
    pub fn new(expected: u64) -> Self {
        let words = usize::try_from(expected.div_ceil(64)).unwrap_or(usize::MAX);
        // Written once with something else than zero, so that no page is first touched in the receiver's loop.
        let mut seen = vec![u64::MAX; words];
        seen.fill(0);
        Self { expected, seen, next: 0, distinct: 0, duplicates: 0, reordered: 0, max_distance: 0, foreign: 0 }
    }

    /// Takes note of a packet. Constant time, no allocation.
    #[inline]
    pub fn see(&mut self, seq: u64) {
        if seq >= self.expected {
            self.foreign += 1;
            return;
        }
        let bit = 1 << (seq % 64);
        let word = &mut self.seen[(seq / 64) as usize];
        if *word & bit != 0 {
            self.duplicates += 1;
            return;
        }
        *word |= bit;
        self.distinct += 1;
        if seq >= self.next {
            self.next = seq + 1;
        } else {
            self.reordered += 1;
            self.max_distance = self.max_distance.max(self.next - 1 - seq);
        }
    }

    /// Takes note of a packet that isn't ours.
    #[inline]
    pub fn see_foreign(&mut self) {
        self.foreign += 1;
    }

    /// Different numbers that came so far.
    pub fn received(&self) -> u64 {
        self.distinct
    }

    /// The verdict when `sent` packets were sent, which may be fewer than prepared for: numbers from `sent` on that came
    /// nevertheless count as foreign.
    pub fn report(&self, sent: u64) -> SequenceReport {
        let expected = sent.min(self.expected);
        let mut bursts: Vec<LossBurst> = Vec::new();
        let mut seq = 0;
        while seq < expected {
            let word = self.seen[(seq / 64) as usize];
            // A whole word that came, the usual case, is passed at once.
            if seq % 64 == 0 && word == u64::MAX {
                seq += 64;
                continue;
            }
            if word >> (seq % 64) & 1 == 0 {
                match bursts.last_mut() {
                    Some(burst) if burst.first + burst.length == seq => burst.length += 1,
                    _ => bursts.push(LossBurst { first: seq, length: 1 }),
                }
            }
            seq += 1;
        }
        let lost: u64 = bursts.iter().map(|burst| burst.length).sum();
        let received = expected - lost;
        SequenceReport {
            expected,
            received,
            lost,
            duplicates: self.duplicates,
            reordered: self.reordered,
            max_reorder_distance: self.max_distance,
            foreign: self.foreign + (self.distinct - received),
            loss_bursts: bursts,
        }
    }
}

impl SequenceReport {
    /// Length of the longest run of lost packets.
    pub fn longest_loss(&self) -> u64 {
        self.loss_bursts.iter().map(|burst| burst.length).max().unwrap_or(0)
    }

    /// How many runs had which length: (length, runs), ascending.
    pub fn loss_lengths(&self) -> Vec<(u64, u64)> {
        let mut lengths = std::collections::BTreeMap::new();
        for burst in &self.loss_bursts {
            *lengths.entry(burst.length).or_insert(0) += 1;
        }
        lengths.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same judgement from a plain list of all numbers.
    fn naive(expected: u64, sent: u64, numbers: &[u64]) -> SequenceReport {
        let mut seen: Vec<u64> = Vec::new();
        let (mut duplicates, mut reordered, mut max_distance, mut foreign) = (0, 0, 0, 0);
        for &seq in numbers {
            if seq >= expected {
                foreign += 1;
            } else if seen.contains(&seq) {
                duplicates += 1;
            } else {
                if let Some(&highest) = seen.iter().max().filter(|&&highest| highest > seq) {
                    reordered += 1;
                    max_distance = max_distance.max(highest - seq);
                }
                seen.push(seq);
            }
        }
        let end = sent.min(expected);
        let missing: Vec<u64> = (0..end).filter(|seq| !seen.contains(seq)).collect();
        let bursts = missing.chunk_by(|a, b| a + 1 == *b);
        foreign += seen.iter().filter(|&&seq| seq >= end).count() as u64;
        SequenceReport {
            expected: end,
            received: end - missing.len() as u64,
            lost: missing.len() as u64,
            duplicates,
            reordered,
            max_reorder_distance: max_distance,
            foreign,
            loss_bursts: bursts.map(|run| LossBurst { first: run[0], length: run.len() as u64 }).collect(),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_judgement(
            expected in 0u64..300,
            sent in 0u64..320,
            numbers in proptest::collection::vec(0u64..310, 0..400),
        ) {
            let mut checker = SequenceChecker::new(expected);
            numbers.iter().for_each(|&seq| checker.see(seq));
            prop_assert_eq!(checker.report(sent), naive(expected, sent, &numbers));
        }

        #[test]
        fn nearly_complete_streams_too(
            expected in 1u64..600,
            lost in proptest::collection::btree_set(0u64..600, 0..20),
        ) {
            let numbers: Vec<u64> = (0..expected).filter(|seq| !lost.contains(seq)).collect();
            let mut checker = SequenceChecker::new(expected);
            numbers.iter().for_each(|&seq| checker.see(seq));
            prop_assert_eq!(checker.report(expected), naive(expected, expected, &numbers));
        }
    }

    #[test]
    fn bursts_cross_words() {
        let mut checker = SequenceChecker::new(200);
        (0..200).filter(|seq| !(60..70).contains(seq) && *seq != 199).for_each(|seq| checker.see(seq));
        let report = checker.report(200);
        assert_eq!(report.loss_bursts, [LossBurst { first: 60, length: 10 }, LossBurst { first: 199, length: 1 }]);
        assert_eq!((report.longest_loss(), report.loss_lengths()), (10, vec![(1, 1), (10, 1)]));
    }

    #[test]
    fn extreme_numbers_are_foreign() {
        let mut checker = SequenceChecker::new(0);
        checker.see(u64::MAX);
        checker.see_foreign();
        assert_eq!((checker.report(0).foreign, checker.report(0).lost), (2, 0));
    }
}
