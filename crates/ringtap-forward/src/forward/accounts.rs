//! What became of each packet of a direction: received = forwarded + Σ lost by cause + beyond the number asked for.
//!
//! Owns the counters of an engine and direction, and the sum of all engines. Each has one writer, an engine's thread.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::histogram::{Histogram, HistogramSnapshot};
use ringtap::ledger::Ledger;
use serde_json::{Value, json};

use crate::counts::{OutputTally, PortCounts};

/// Of one engine and direction.
#[derive(Debug, Default)]
pub(crate) struct LaneCounts {
    pub(crate) received: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Packets that came when as many as asked for had been forwarded.
    pub(crate) beyond: AtomicU64,
    pub(crate) port: PortCounts,
    /// From arrival stamp until the system call that hands a packet over has returned; nanoseconds.
    pub(crate) inside: Histogram,
}

/// What all engines counted of one direction, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) bytes: u64,
    pub(crate) beyond: u64,
    pub(crate) output: OutputTally,
    pub(crate) inside: HistogramSnapshot,
}

impl Tally {
    /// The sum over engines.
    pub(crate) fn of<'c>(engines: impl IntoIterator<Item = &'c LaneCounts>) -> Self {
        let inside = Histogram::default().snapshot();
        let mut sum = Self { received: 0, bytes: 0, beyond: 0, output: OutputTally::default(), inside };
        for counts in engines {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            sum.received += read(&counts.received);
            sum.bytes += read(&counts.bytes);
            sum.beyond += read(&counts.beyond);
            sum.output.plus(&counts.port);
            sum.inside = sum.inside.merged(&counts.inside.snapshot());
        }
        sum
    }

    /// What no counter explains of the packets that came, whose `ledger` says what became of each until it was received.
    pub(crate) fn unaccounted(&self, ledger: &Ledger) -> Option<i64> {
        let explained = self.output.packets + self.output.lost() + self.beyond;
        Some(ledger.unaccounted()? + ledger.delivered as i64 - explained as i64)
    }

    /// Terms of the sum.
    pub(crate) fn object(&self, ledger: &Ledger, ended: bool) -> Value {
        json!({
            "offered": ledger.offered,
            "lost_before": ledger.lost(),
            "received": self.received,
            "forwarded": self.output.packets,
            "dropped": self.output.lost(),
            "beyond_count": self.beyond,
            "unaccounted": if ended { self.unaccounted(ledger) } else { None },
        })
    }
}
