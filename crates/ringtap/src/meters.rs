//! What one engine thread counts, readable by others while it runs.
//!
//! Each counter has one writer, the engine's thread, which adds without locked instructions.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::{Histogram, HistogramSnapshot, add};

/// The counters and histograms of one engine.
#[derive(Debug, Default)]
pub struct EngineMeters {
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) left_at_limit: AtomicU64,
    pub(crate) invalid_descriptors: AtomicU64,
    pub(crate) invalid_completions: AtomicU64,
    pub(crate) cycles: AtomicU64,
    pub(crate) timer_wakes: AtomicU64,
    pub(crate) interrupt_wakes: AtomicU64,
    pub(crate) empty_wakes: AtomicU64,
    pub(crate) mode_switches: AtomicU64,
    pub(crate) missed_ticks: AtomicU64,
    pub(crate) timer_mode: AtomicU64,
    pub(crate) transmitted: AtomicU64,
    pub(crate) transmitted_bytes: AtomicU64,
    pub(crate) transmit_refused: AtomicU64,
    pub(crate) clock_steps: AtomicU64,
    pub(crate) backlog: AtomicU64,
    pub(crate) backlog_oldest_ns: AtomicU64,
    pub(crate) latency: Histogram,
    pub(crate) poll_period: Histogram,
    pub(crate) tick_lateness: Histogram,
}

/// A copy of [`EngineMeters`] at one moment.
#[derive(Debug, Clone)]
pub struct EngineSnapshot {
    /// Packets given to the handler.
    pub packets: u64,
    /// Their captured bytes.
    pub bytes: u64,
    /// Of these packets, those that came to the handler shorter than on the wire.
    pub cut: u64,
    /// Packets taken off the ring after the packet limit was reached, not given to the handler.
    pub left_at_limit: u64,
    /// Descriptors or frame heads that made no sense ([`Source::invalid_descriptors`](crate::Source::invalid_descriptors)).
    pub invalid_descriptors: u64,
    /// Frames given back as sent that were not out ([`Source::invalid_completions`](crate::Source::invalid_completions)).
    pub invalid_completions: u64,
    /// Cycles that found at least one packet.
    pub cycles: u64,
    /// Wake-ups by the timer.
    pub timer_wakes: u64,
    /// Wake-ups by the device (or by the stop handle).
    pub interrupt_wakes: u64,
    /// Wake-ups that found no packet.
    pub empty_wakes: u64,
    /// Changes between interrupt and timer.
    pub mode_switches: u64,
    /// Ticks of the fixed grid that passed while the thread was busy or not scheduled.
    pub missed_ticks: u64,
    /// Whether the engine waits for the timer at the moment.
    pub timer_mode: bool,
    /// Frames put into the transmit ring.
    pub transmitted: u64,
    /// Their bytes.
    pub transmitted_bytes: u64,
    /// Frames that found no room in the transmit ring.
    pub transmit_refused: u64,
    /// How often the clock of the stamps was set meanwhile; packets about then are not in `latency`.
    pub clock_steps: u64,
    /// Packets that had come before the engine began to look: start-up, not lateness, so they are not in `latency`.
    pub backlog: u64,
    /// Age of the oldest of them when it was handled, nanoseconds.
    pub backlog_oldest_ns: u64,
    /// From the arrival stamp to the end of the burst that held the packet.
    pub latency: HistogramSnapshot,
    /// Between two successive looks at the ring in timer mode.
    pub poll_period: HistogramSnapshot,
    /// How late a timer wake-up came, against its instant.
    pub tick_lateness: HistogramSnapshot,
}

impl EngineMeters {
    /// Counts a packet that had waited for the engine to start.
    pub(crate) fn backlog(&self, age_ns: u64) {
        add(&self.backlog, 1);
        if age_ns > self.backlog_oldest_ns.load(Ordering::Relaxed) {
            self.backlog_oldest_ns.store(age_ns, Ordering::Relaxed);
        }
    }

    /// Packets received so far.
    pub(crate) fn packets_so_far(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// A copy as of now.
    pub fn snapshot(&self) -> EngineSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineSnapshot {
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            cut: read(&self.cut),
            left_at_limit: read(&self.left_at_limit),
            invalid_descriptors: read(&self.invalid_descriptors),
            invalid_completions: read(&self.invalid_completions),
            cycles: read(&self.cycles),
            timer_wakes: read(&self.timer_wakes),
            interrupt_wakes: read(&self.interrupt_wakes),
            empty_wakes: read(&self.empty_wakes),
            mode_switches: read(&self.mode_switches),
            missed_ticks: read(&self.missed_ticks),
            timer_mode: read(&self.timer_mode) != 0,
            transmitted: read(&self.transmitted),
            transmitted_bytes: read(&self.transmitted_bytes),
            transmit_refused: read(&self.transmit_refused),
            clock_steps: read(&self.clock_steps),
            backlog: read(&self.backlog),
            backlog_oldest_ns: read(&self.backlog_oldest_ns),
            latency: self.latency.snapshot(),
            poll_period: self.poll_period.snapshot(),
            tick_lateness: self.tick_lateness.snapshot(),
        }
    }
}

impl EngineSnapshot {
    /// Several engines as one.
    pub fn sum<'a>(snapshots: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut snapshots = snapshots.into_iter();
        let first = snapshots.next()?.clone();
        Some(snapshots.fold(first, |a, b| Self {
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
            cut: a.cut + b.cut,
            left_at_limit: a.left_at_limit + b.left_at_limit,
            invalid_descriptors: a.invalid_descriptors + b.invalid_descriptors,
            invalid_completions: a.invalid_completions + b.invalid_completions,
            cycles: a.cycles + b.cycles,
            timer_wakes: a.timer_wakes + b.timer_wakes,
            interrupt_wakes: a.interrupt_wakes + b.interrupt_wakes,
            empty_wakes: a.empty_wakes + b.empty_wakes,
            mode_switches: a.mode_switches + b.mode_switches,
            missed_ticks: a.missed_ticks + b.missed_ticks,
            timer_mode: a.timer_mode || b.timer_mode,
            transmitted: a.transmitted + b.transmitted,
            transmitted_bytes: a.transmitted_bytes + b.transmitted_bytes,
            transmit_refused: a.transmit_refused + b.transmit_refused,
            // One clock for all engines.
            clock_steps: a.clock_steps.max(b.clock_steps),
            backlog: a.backlog + b.backlog,
            backlog_oldest_ns: a.backlog_oldest_ns.max(b.backlog_oldest_ns),
            latency: a.latency.merged(&b.latency),
            poll_period: a.poll_period.merged(&b.poll_period),
            tick_lateness: a.tick_lateness.merged(&b.tick_lateness),
        }))
    }

    /// What came since `earlier`, and the mode as of now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            left_at_limit: self.left_at_limit - earlier.left_at_limit,
            invalid_descriptors: self.invalid_descriptors - earlier.invalid_descriptors,
            invalid_completions: self.invalid_completions - earlier.invalid_completions,
            cycles: self.cycles - earlier.cycles,
            timer_wakes: self.timer_wakes - earlier.timer_wakes,
            interrupt_wakes: self.interrupt_wakes - earlier.interrupt_wakes,
            empty_wakes: self.empty_wakes - earlier.empty_wakes,
            mode_switches: self.mode_switches - earlier.mode_switches,
            missed_ticks: self.missed_ticks - earlier.missed_ticks,
            timer_mode: self.timer_mode,
            transmitted: self.transmitted - earlier.transmitted,
            transmitted_bytes: self.transmitted_bytes - earlier.transmitted_bytes,
            transmit_refused: self.transmit_refused - earlier.transmit_refused,
            cut: self.cut - earlier.cut,
            clock_steps: self.clock_steps - earlier.clock_steps,
            backlog: self.backlog - earlier.backlog,
            backlog_oldest_ns: self.backlog_oldest_ns,
            latency: self.latency.since(&earlier.latency),
            poll_period: self.poll_period.since(&earlier.poll_period),
            tick_lateness: self.tick_lateness.since(&earlier.tick_lateness),
        }
    }

    /// Mean number of packets a non-empty look at the ring found.
    pub fn packets_per_poll(&self) -> f64 {
        if self.cycles == 0 { 0.0 } else { self.packets as f64 / self.cycles as f64 }
    }

    /// Device wake-ups per packet.
    pub fn interrupts_per_packet(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.interrupt_wakes as f64 / self.packets as f64 }
    }
}
