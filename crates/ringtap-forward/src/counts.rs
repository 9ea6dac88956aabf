//! What became of packets on their way to one output: forwarded, or lost for a cause.
//!
//! Owns the counters of one engine and output, and their sum. Each has one writer, an engine's thread.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a packet did not leave by an output that it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The output is down, and so are all others of its class.
    LinkDown,
    /// No free frame in the transmit ring.
    RingFull,
    /// Longer than the output's MTU allows, by what was known of it or as the kernel found.
    TooLong,
    /// Shorter than an Ethernet header.
    TooShort,
    /// The input did not give all of it.
    Cut,
    /// No room in the spool to the writer of a file.
    SlowOutput,
    /// The file could not be written any more.
    OutputFailed,
    /// In the transmit ring when the run ended: the device did not take it.
    NotSent,
    /// The kernel refused its descriptor.
    InvalidDescriptor,
}

impl Cause {
    pub(crate) const ALL: [(Self, &str); 9] = [
        (Self::LinkDown, "link_down"),
        (Self::RingFull, "ring_full"),
        (Self::TooLong, "too_long"),
        (Self::TooShort, "too_short"),
        (Self::Cut, "cut"),
        (Self::SlowOutput, "slow_output"),
        (Self::OutputFailed, "output_failed"),
        (Self::NotSent, "not_sent"),
        (Self::InvalidDescriptor, "invalid_descriptor"),
    ];
}

/// Of one engine and output.
#[derive(Debug, Default)]
pub(crate) struct PortCounts {
    /// Packets handed over to the ring, or to the writer.
    packets: AtomicU64,
    bytes: AtomicU64,
    drops: [AtomicU64; Cause::ALL.len()],
    /// Packets for this output that another one got while it was down.
    moved: AtomicU64,
    /// Of the packets, those whose checksum was completed.
    completed: AtomicU64,
}

impl PortCounts {
    /// So many packets, of `bytes` together, were handed over.
    pub(crate) fn forward(&self, packets: u64, bytes: u64) {
        add(&self.packets, packets);
        add(&self.bytes, bytes);
    }

    pub(crate) fn drop(&self, cause: Cause) {
        self.drop_many(cause, 1);
    }

    pub(crate) fn drop_many(&self, cause: Cause, count: u64) {
        add(&self.drops[cause as usize], count);
    }

    pub(crate) fn moved(&self) {
        add(&self.moved, 1);
    }

    pub(crate) fn completed(&self) {
        add(&self.completed, 1);
    }
}

/// Adds to a counter with one writer: no locked instruction is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// What one output came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutputTally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) drops: [u64; Cause::ALL.len()],
    pub(crate) moved: u64,
    pub(crate) completed: u64,
}

impl OutputTally {
    /// Takes packets that were handed over, and turned out to be lost all the same, from the forwarded ones.
    pub(crate) fn lose(&mut self, cause: Cause, count: u64) {
        self.packets = self.packets.saturating_sub(count);
        self.drops[cause as usize] += count;
    }

    pub(crate) fn lost(&self) -> u64 {
        self.drops.iter().sum()
    }

    pub(crate) fn lost_by(&self, cause: Cause) -> u64 {
        self.drops[cause as usize]
    }

    /// Each cause that there was, by its name.
    pub(crate) fn causes(&self) -> BTreeMap<&'static str, u64> {
        let named = Cause::ALL.iter().map(|(cause, name)| (*name, self.drops[*cause as usize]));
        named.filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn plus(&mut self, counts: &PortCounts) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.packets += read(&counts.packets);
        self.bytes += read(&counts.bytes);
        self.moved += read(&counts.moved);
        self.completed += read(&counts.completed);
        let drops: [u64; Cause::ALL.len()] = from_fn(|cause| self.drops[cause] + read(&counts.drops[cause]));
        self.drops = drops;
    }
}
