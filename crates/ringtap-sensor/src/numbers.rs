//! Owns: the numbers of alerts over all engines, and what every engine knows of the host's clock.
//! Does not: decide when an epoch begins; `heart` does.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ringtap::clock;

/// Bits of a number within its epoch: 2⁴⁸ alerts are nine years of a million a second. Above them stand the epoch's low bits.
const SEQUENCE_BITS: u32 = 48;
const SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;
const UNKNOWN: u64 = u64::MAX;

/// Numbers of alerts, from 1 in each epoch, one after another over all engines.
#[derive(Debug)]
pub(crate) struct Numbers {
    epoch: AtomicU64,
    /// The last number, below the low bits of its epoch: both are taken at once.
    last: AtomicU64,
    /// No alert up to this time follows, as was told; 0: nothing was.
    horizon_ns: AtomicU64,
    behind: AtomicU64,
}

impl Numbers {
    /// Of this epoch.
    pub(crate) fn new(epoch: u64) -> Self {
        let numbers = Self {
            epoch: AtomicU64::new(0),
            last: AtomicU64::new(0),
            horizon_ns: AtomicU64::new(0),
            behind: AtomicU64::new(0),
        };
        numbers.begin(epoch);
        numbers
    }

    /// Begins an epoch: at most 2¹⁶ after the one before. By one thread alone.
    pub(crate) fn begin(&self, epoch: u64) {
        // Before its numbers: whoever has one finds its epoch.
        self.epoch.store(epoch, Ordering::SeqCst);
        self.horizon_ns.store(0, Ordering::SeqCst);
        self.last.store(epoch << SEQUENCE_BITS, Ordering::SeqCst);
    }

    /// The epoch now.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Epoch and number of an alert of this time. One that was promised not to come is counted.
    pub(crate) fn next(&self, time_ns: u64) -> (u64, u64) {
        let last = self.last.fetch_add(1, Ordering::SeqCst);
        // After the number: what was promised to those who have seen numbers up to this one is here.
        if time_ns <= self.horizon_ns.load(Ordering::SeqCst) {
            self.behind.fetch_add(1, Ordering::Relaxed);
        }
        let (now, low) = (self.epoch(), last >> SEQUENCE_BITS);
        let since = now.wrapping_sub(low) & (u64::MAX >> SEQUENCE_BITS);
        (now.wrapping_sub(since), (last & SEQUENCE) + 1)
    }

    /// Promises that each alert with a greater number than what this returns has a later time.
    pub(crate) fn promise(&self, horizon_ns: u64) -> u64 {
        self.horizon_ns.store(horizon_ns, Ordering::SeqCst);
        self.last.load(Ordering::SeqCst) & SEQUENCE
    }

    /// Alerts that came behind what was promised.
    pub(crate) fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }
}

/// What engines know of the host's clock. Read for each packet, written when it changes.
#[derive(Debug)]
pub(crate) struct HostClock {
    /// Added to CLOCK_MONOTONIC to get the time since 1970, nanoseconds.
    to_realtime_ns: AtomicI64,
    error_ns: AtomicU64,
}

impl HostClock {
    /// As it is now, its error unknown.
    pub(crate) fn now() -> Self {
        Self { to_realtime_ns: AtomicI64::new(clock::monotonic_to_realtime_ns()), error_ns: AtomicU64::new(UNKNOWN) }
    }

    /// A time of CLOCK_MONOTONIC as nanoseconds since 1970.
    pub(crate) fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.to_realtime_ns.load(Ordering::Relaxed))
    }

    /// Its greatest error; `None`: unknown.
    pub(crate) fn error_ns(&self) -> Option<u64> {
        Some(self.error_ns.load(Ordering::Relaxed)).filter(|error| *error != UNKNOWN)
    }

    pub(crate) fn set_offset(&self, to_realtime_ns: i64) {
        self.to_realtime_ns.store(to_realtime_ns, Ordering::Relaxed);
    }

    pub(crate) fn set_error(&self, error_ns: Option<u64>) {
        self.error_ns.store(error_ns.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_begin_anew_in_each_epoch() {
        let numbers = Numbers::new((5 << 16) | 0xffff);
        assert_eq!((numbers.next(1), numbers.next(1)), (((5 << 16) | 0xffff, 1), ((5 << 16) | 0xffff, 2)));
        assert_eq!(numbers.promise(10), 2);
        assert_eq!((numbers.next(11).1, numbers.behind()), (3, 0));
        assert_eq!((numbers.next(10).1, numbers.behind()), (4, 1), "promised not to come");
        numbers.begin(6 << 16);
        assert_eq!((numbers.next(10), numbers.behind()), ((6 << 16, 1), 1), "nothing was promised yet");
        assert_eq!(numbers.promise(12), 1);
    }

    #[test]
    fn engines_share_them_across_epochs() {
        let numbers = Numbers::new(1);
        let taken: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let engines: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..20_000).map(|_| numbers.next(1)).collect::<Vec<_>>())).collect();
            for epoch in 2..200 {
                std::thread::yield_now();
                numbers.begin(epoch);
            }
            engines.into_iter().flat_map(|engine| engine.join().unwrap()).collect()
        });
        let distinct: BTreeSet<_> = taken.iter().collect();
        assert_eq!(distinct.len(), 80_000, "a number was given twice");
        let (last, _) = distinct.last().unwrap();
        for epoch in 1..=*last {
            let of: Vec<u64> = distinct.iter().filter(|(e, _)| *e == epoch).map(|(_, number)| *number).collect();
            assert!(of.iter().zip(1..).all(|(number, expected)| *number == expected), "a gap in epoch {epoch}");
        }
    }
}
