//! Rates per sender in bounded memory: token buckets, found by hash.
//!
//! Owns the buckets. Their number is fixed and the hash is keyed, so that senders without number take no more memory, and none of them can
//! choose whom it shares a bucket with.

use std::hash::{BuildHasher, Hash, RandomState};

/// So many per second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Per second; at least 1.
    pub per_second: u64,
    /// At once.
    pub burst: u64,
}

impl Rate {
    /// What one costs, nanoseconds of filling.
    fn cost(self) -> u64 {
        1_000_000_000 / self.per_second.max(1)
    }
}

/// Filled up to an instant; `short_ns` is what is missing to be full, in nanoseconds of filling.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    short_ns: u64,
    at_ns: u64,
}

impl Bucket {
    /// Whether there is one more now; `now_ns` is monotonic.
    pub fn has(&mut self, rate: Rate, now_ns: u64) -> bool {
        let filled = now_ns.saturating_sub(self.at_ns);
        self.short_ns = self.short_ns.saturating_sub(filled);
        self.at_ns = self.at_ns.max(now_ns);
        self.short_ns + rate.cost() <= rate.burst.saturating_mul(rate.cost())
    }

    /// Takes one.
    pub fn take(&mut self, rate: Rate) {
        self.short_ns += rate.cost();
    }
}

/// Buckets by hash.
#[derive(Debug)]
pub struct Buckets {
    hasher: RandomState,
    buckets: Vec<Bucket>,
}

impl Buckets {
    /// So many full ones, at least one.
    pub fn new(count: usize) -> Self {
        Self { hasher: RandomState::new(), buckets: vec![Bucket::default(); count.max(1)] }
    }

    /// The one of `sender`.
    pub fn of(&mut self, sender: impl Hash) -> &mut Bucket {
        let index = self.hasher.hash_one(sender) as usize % self.buckets.len();
        &mut self.buckets[index]
    }
}
