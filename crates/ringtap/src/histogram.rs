//! A histogram one thread writes and others may read at any time: no lock, no allocation, no system call.
//!
//! Log-linear: 32 buckets per power of two, so a value is known to 1/32 (3.2 %) and quantiles are never flattered
//! (the bucket's upper edge is reported). hdrhistogram's shared recorder locks and allocates, which the engine's
//! thread must not.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Values from 2^40 ns (18 minutes) on share the last bucket.
const MOST_BITS: u32 = 40;
const BUCKETS: usize = (MOST_BITS - SUB_BITS + 1) as usize * SUB;

/// Counts of values in nanoseconds; one writer, any readers.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

/// A copy of a histogram at one moment; subtract an earlier one to get an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: Vec<u64>,
    sum: u64,
    max: u64,
}

/// The figures a report shows, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 98th percentile.
    pub p98: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest value.
    pub max: f64,
}

fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let top = 63 - value.leading_zeros();
    let octave = (top - SUB_BITS + 1) as usize;
    let inside = (value >> (top - SUB_BITS)) as usize & (SUB - 1);
    (octave * SUB + inside).min(BUCKETS - 1)
}

/// Largest value that falls into `bucket`.
fn upper_edge(bucket: usize) -> u64 {
    let (octave, inside) = (bucket / SUB, (bucket % SUB) as u64);
    if octave == 0 {
        return inside;
    }
    let shift = octave as u32 - 1;
    ((SUB as u64 + inside + 1) << shift) - 1
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Counts one value. Only one thread may call this; a second one would lose counts, not memory safety.
    pub fn record(&self, value_ns: u64) {
        add(&self.counts[bucket(value_ns)], 1);
        add(&self.sum, value_ns);
        if value_ns > self.max.load(Ordering::Relaxed) {
            self.max.store(value_ns, Ordering::Relaxed);
        }
    }

    /// A copy as of now; a value being recorded meanwhile may be in it or not.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

/// Adds to a counter that only one thread writes: a plain load and store, no locked instruction.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl HistogramSnapshot {
    /// How many values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Largest value, nanoseconds. Of a difference: to the edge of its bucket.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// Smallest bucket edge that at least `quantile` (0–1) of the values do not exceed, nanoseconds; 0 without values.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let count = self.count();
        let wanted = ((count as f64 * quantile).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, &here) in self.counts.iter().enumerate() {
            seen += here;
            if seen >= wanted {
                return upper_edge(bucket).min(self.max);
            }
        }
        0
    }

    /// How many values exceed `limit_ns`, to the resolution of a bucket.
    pub fn count_above(&self, limit_ns: u64) -> u64 {
        self.counts.iter().skip(bucket(limit_ns) + 1).sum()
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts: Vec<u64> =
            self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.wrapping_sub(*then)).collect();
        let highest = counts.iter().rposition(|&count| count > 0);
        Self {
            sum: self.sum.wrapping_sub(earlier.sum),
            max: highest.map_or(0, |bucket| upper_edge(bucket).min(self.max)),
            counts,
        }
    }

    /// Both together; for several engine threads.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            counts: self.counts.iter().zip(&other.counts).map(|(a, b)| a + b).collect(),
            sum: self.sum.wrapping_add(other.sum),
            max: self.max.max(other.max),
        }
    }

    /// The figures of a report.
    pub fn quantiles_us(&self) -> Quantiles {
        let count = self.count();
        let us = |ns: u64| ns as f64 / 1000.0;
        Quantiles {
            count,
            mean: if count == 0 { 0.0 } else { self.sum as f64 / count as f64 / 1000.0 },
            p50: us(self.quantile_ns(0.5)),
            p98: us(self.quantile_ns(0.98)),
            p99: us(self.quantile_ns(0.99)),
            p999: us(self.quantile_ns(0.999)),
            max: us(if count == 0 { 0 } else { self.max }),
        }
    }

    /// Non-empty buckets as (upper edge in nanoseconds, count), for plots.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| (upper_edge(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_within_a_32nd_below_its_bucket_edge(value in 0u64..1 << 39) {
            let edge = upper_edge(bucket(value));
            prop_assert!(edge >= value);
            prop_assert!(edge - value <= value / 32);
        }

        #[test]
        fn quantiles_agree_with_sorting(mut values in prop::collection::vec(0u64..10_000_000, 1..500), q in 0.0f64..1.0) {
            let histogram = Histogram::default();
            for &value in &values {
                histogram.record(value);
            }
            values.sort_unstable();
            let index = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1;
            let exact = values[index];
            let got = histogram.snapshot().quantile_ns(q);
            prop_assert!(got >= exact && got <= exact + exact / 32 + 1, "{got} for {exact}");
            prop_assert_eq!(histogram.snapshot().max_ns(), *values.last().unwrap());
        }
    }

    #[test]
    fn extremes_are_kept() {
        let histogram = Histogram::default();
        histogram.record(0);
        histogram.record(u64::MAX);
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count(), 2);
        assert_eq!(snapshot.max_ns(), u64::MAX);
        assert_eq!(snapshot.count_above(1 << 30), 1);
        assert_eq!(Histogram::default().snapshot().quantiles_us(), Quantiles::default());
    }

    #[test]
    fn an_interval_holds_what_came_in_it() {
        let histogram = Histogram::default();
        histogram.record(10_000);
        let first = histogram.snapshot();
        histogram.record(1000);
        let interval = histogram.snapshot().since(&first);
        assert_eq!(interval.count(), 1);
        assert!(interval.quantile_ns(0.5) >= 1000);
        assert!((1000..=1032).contains(&interval.max_ns()), "not the largest of before: {}", interval.max_ns());
    }
}
