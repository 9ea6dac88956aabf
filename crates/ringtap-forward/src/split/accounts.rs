//! What became of each packet: received + copies = Σ forwarded + Σ dropped by cause + not wanted.
//!
//! Owns the counters of an engine and the sum of all. Each has one writer, an engine's thread. What is counted for each output is
//! `counts`'s.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::histogram::{Histogram, HistogramSnapshot};
use ringtap::ledger::Ledger;
use serde_json::{Value, json};

use crate::counts::{OutputTally, PortCounts};

/// Of one engine.
#[derive(Debug)]
pub(crate) struct EngineCounts {
    pub(crate) received: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Packets beyond the first of each that goes to several outputs.
    pub(crate) copies: AtomicU64,
    pub(crate) unwanted: AtomicU64,
    pub(crate) classes: Box<[AtomicU64]>,
    pub(crate) ports: Box<[PortCounts]>,
    /// From arrival stamp until the system call that hands a packet over has returned; nanoseconds.
    pub(crate) inside: Histogram,
}

impl EngineCounts {
    pub(crate) fn new(classes: usize, outputs: usize) -> Self {
        Self {
            received: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            unwanted: AtomicU64::new(0),
            classes: (0..classes).map(|_| AtomicU64::new(0)).collect(),
            ports: (0..outputs).map(|_| PortCounts::default()).collect(),
            inside: Histogram::default(),
        }
    }
}

/// What all engines counted, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) bytes: u64,
    pub(crate) copies: u64,
    pub(crate) unwanted: u64,
    pub(crate) classes: Vec<u64>,
    pub(crate) outputs: Vec<OutputTally>,
    pub(crate) inside: HistogramSnapshot,
}

impl Tally {
    /// The sum over all engines, of which there is one at least.
    pub(crate) fn of<'c>(engines: impl IntoIterator<Item = &'c EngineCounts>) -> Self {
        let mut sum = Self {
            received: 0,
            bytes: 0,
            copies: 0,
            unwanted: 0,
            classes: Vec::new(),
            outputs: Vec::new(),
            inside: Histogram::default().snapshot(),
        };
        for engine in engines {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            sum.received += read(&engine.received);
            sum.bytes += read(&engine.bytes);
            sum.copies += read(&engine.copies);
            sum.unwanted += read(&engine.unwanted);
            sum.classes.resize(engine.classes.len(), 0);
            sum.classes.iter_mut().zip(&engine.classes).for_each(|(sum, counter)| *sum += read(counter));
            sum.outputs.resize_with(engine.ports.len(), OutputTally::default);
            sum.outputs.iter_mut().zip(&engine.ports).for_each(|(sum, counts)| sum.plus(counts));
            sum.inside = sum.inside.merged(&engine.inside.snapshot());
        }
        sum
    }

    pub(crate) fn forwarded(&self) -> u64 {
        self.outputs.iter().map(|output| output.packets).sum()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.outputs.iter().map(OutputTally::lost).sum()
    }

    /// What no counter explains of the packets of the `input`, whose ledger says what became of each until it was received.
    pub(crate) fn unaccounted(&self, input: &Ledger) -> Option<i64> {
        let inside = (input.delivered + self.copies) as i64;
        let explained = (self.forwarded() + self.lost() + self.unwanted) as i64;
        Some(input.unaccounted()? + inside - explained)
    }

    /// Terms of the sum.
    pub(crate) fn object(&self, input: &Ledger, ended: bool) -> Value {
        json!({
            "offered": input.offered,
            "copies": self.copies,
            "forwarded": self.forwarded(),
            "dropped": self.lost(),
            "not_wanted": self.unwanted,
            "lost_before": input.lost(),
            "unaccounted": if ended { self.unaccounted(input) } else { None },
        })
    }
}
