//! What became of each packet after the engine: from the core's ledger to the one the user sees.
//!
//! Owns the sum. The core calls a packet delivered when the handler got it; here it is delivered when the user did.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::ledger::{Cause, Ledger};
use ringtap::record::{FinalCounts, RecordSummary, Recorder};
use serde::Serialize;

use crate::last::Held;

/// What the handler of one engine counts. Each has one writer, the engine's thread.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packets kept.
    pub(crate) packets: AtomicU64,
    /// Their bytes on the wire.
    pub(crate) bytes: AtomicU64,
    /// Of the kept packets, those shorter than on the wire.
    pub(crate) cut: AtomicU64,
    /// Of these, the ones that are so in the file that is read.
    pub(crate) cut_before: AtomicU64,
    /// Packets that came after `--count` was reached.
    pub(crate) over_limit: AtomicU64,
}

/// Adds to a counter with one writer: no locked instruction is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// The counters of all engines, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters(Vec<EngineCounts>);

#[derive(Debug, Clone)]
struct EngineCounts {
    /// Number of the device it takes packets from.
    device: usize,
    kept: Arc<Counts>,
    rejected: Arc<AtomicU64>,
    held: Option<Arc<Held>>,
}

/// What `--keep` has kept, and what it let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InMemory {
    /// Packets in memory now.
    pub packets: u64,
    /// Let go as they were older than asked for.
    pub aged: u64,
    /// Let go before, as the memory was too small.
    pub pushed_out: u64,
}

/// What the handlers of all engines counted, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets kept.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of the kept packets, those shorter than on the wire.
    pub cut: u64,
    /// Of these, the ones that are so in the file that is read.
    pub cut_before: u64,
    /// Packets that came after the number asked for was reached.
    pub over_limit: u64,
    /// Packets that the filter rejected in user space.
    pub rejected: u64,
}

impl Counters {
    /// Adds the counters of the next engine.
    pub(crate) fn add(&mut self, device: usize, kept: Arc<Counts>, rejected: Arc<AtomicU64>) {
        self.0.push(EngineCounts { device, kept, rejected, held: None });
    }

    /// The engine added last keeps packets in memory.
    pub(crate) fn add_held(&mut self, held: Arc<Held>) {
        if let Some(engine) = self.0.last_mut() {
            engine.held = Some(held);
        }
    }

    /// Of the packets in memory, of all engines; `None` where all is written.
    pub(crate) fn held(&self) -> Option<InMemory> {
        let each = self.0.iter().filter_map(|engine| engine.held.as_ref());
        each.map(|held| InMemory {
            packets: held.packets.load(Ordering::Relaxed),
            aged: held.aged.load(Ordering::Relaxed),
            pushed_out: held.pushed_out.load(Ordering::Relaxed),
        })
        .reduce(|sum, each| InMemory {
            packets: sum.packets + each.packets,
            aged: sum.aged + each.aged,
            pushed_out: sum.pushed_out + each.pushed_out,
        })
    }

    /// Of all engines.
    pub(crate) fn tally(&self) -> Tally {
        Self::sum(self.0.iter())
    }

    /// Of one device's.
    pub(crate) fn tally_of(&self, device: usize) -> Tally {
        Self::sum(self.0.iter().filter(|engine| engine.device == device))
    }

    fn sum<'c>(engines: impl Iterator<Item = &'c EngineCounts> + Clone) -> Tally {
        let sum = |of: fn(&Counts) -> &AtomicU64| {
            engines.clone().map(|engine| of(&engine.kept).load(Ordering::Relaxed)).sum()
        };
        Tally {
            packets: sum(|counts| &counts.packets),
            bytes: sum(|counts| &counts.bytes),
            cut: sum(|counts| &counts.cut),
            cut_before: sum(|counts| &counts.cut_before),
            over_limit: sum(|counts| &counts.over_limit),
            rejected: engines.clone().map(|engine| engine.rejected.load(Ordering::Relaxed)).sum(),
        }
    }

    /// The ledgers that the user sees: of all together, and of each device.
    pub(crate) fn account(&self, core: Vec<Ledger>, lost: Option<&Unwritten>) -> (Ledger, Vec<Ledger>) {
        let whole = core.iter().cloned().reduce(Ledger::plus).unwrap_or_default();
        let all = lost.map(|lost| (lost.spools.iter().sum(), Some(lost.output)));
        let total = account(whole, self.tally(), all);
        let of_device = |(device, core): (usize, Ledger)| self.account_of(core, &self.engines_of(device), lost);
        (total, core.into_iter().enumerate().map(of_device).collect())
    }

    /// Of the engines with these numbers: a device's, or a port's of one.
    pub(crate) fn account_of(&self, core: Ledger, engines: &Range<usize>, lost: Option<&Unwritten>) -> Ledger {
        let own = lost.map(|lost| {
            // Whose packets the file did not take is not told apart.
            let output = Some(lost.output).filter(|&output| output == 0 || engines.len() == self.0.len());
            (lost.spools.get(engines.clone()).unwrap_or_default().iter().sum(), output)
        });
        account(core, Self::sum(self.0.get(engines.clone()).unwrap_or_default().iter()), own)
    }

    /// Numbers of a device's engines.
    pub(crate) fn engines_of(&self, device: usize) -> Range<usize> {
        let first = self.0.iter().take_while(|engine| engine.device < device).count();
        first..first + self.0.iter().filter(|engine| engine.device == device).count()
    }
}

/// Packets that did not reach the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unwritten {
    /// Refused by each engine's spool.
    spools: Vec<u64>,
    /// Taken from the spools and not written.
    output: u64,
}

impl Unwritten {
    /// As of now.
    pub(crate) fn of(recorder: &Recorder) -> Self {
        Self { spools: recorder.lost_by_spool(), output: recorder.lost().output_packets }
    }

    /// The last packets may fail to be written after the engines ended.
    pub(crate) fn finally(self, record: &RecordSummary) -> Self {
        Self { output: record.lost.output_packets, ..self }
    }
}

impl Tally {
    /// What came since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            cut: self.cut - earlier.cut,
            cut_before: self.cut_before - earlier.cut_before,
            over_limit: self.over_limit - earlier.over_limit,
            rejected: self.rejected - earlier.rejected,
        }
    }
}

/// The user's ledger from the core's, in which every packet the handlers got is delivered.
///
/// Of these, the rejected ones become filtered, those after the limit are left at the limit, and those that did not reach
/// the file are lost; each moves from one term to another, so that the sum stays what it was.
///
/// `lost`: how many did not get into a spool, and how many not from there into the file; the latter may be unknown.
fn account(core: Ledger, tally: Tally, lost: Option<(u64, Option<u64>)>) -> Ledger {
    // The handlers know what the filter let through, and what they cut themselves.
    let mut ledger = Ledger { cut: tally.cut, cut_before: tally.cut_before, ..core };
    let unwritten = lost.map_or(0, |(spool, output)| spool + output.unwrap_or(0));
    ledger.delivered = ledger.delivered.saturating_sub(tally.over_limit + unwritten);
    ledger.filter_out(tally.rejected);
    ledger.drop(Cause::LeftAtLimit, Some(tally.over_limit));
    if let Some((spool, output)) = lost {
        ledger.drop(Cause::SlowOutput, Some(spool));
        ledger.drop(Cause::OutputFailed, output);
    }
    ledger
}

/// A ledger as reports show it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    pub(crate) ledger: Ledger,
    pub(crate) lost: u64,
    pub(crate) unaccounted: Option<i64>,
}

impl From<Ledger> for Shown {
    fn from(ledger: Ledger) -> Self {
        Self { lost: ledger.lost(), unaccounted: ledger.unaccounted(), ledger }
    }
}

/// What the statistics blocks of a capture file say (pcapng, Interface Statistics Block), one for each device.
pub(crate) fn final_counts(ledgers: &[Ledger]) -> Vec<FinalCounts> {
    ledgers.iter().zip(0..).map(|(ledger, interface)| counts_of(ledger, interface)).collect()
}

fn counts_of(ledger: &Ledger, interface: u16) -> FinalCounts {
    let sum = |wanted: fn(Cause) -> bool| -> Option<u64> {
        ledger.drops.iter().filter(|(cause, _)| wanted(**cause)).map(|(_, count)| *count).sum()
    };
    let before_filter = sum(is_before_filter);
    let accepted = || {
        let rest = ledger.offered?.checked_sub(ledger.filtered_of_offered()?)?;
        rest.checked_sub(before_filter?)
    };
    FinalCounts {
        interface,
        received: ledger.offered.filter(|_| !ledger.filtered_before_offered),
        dropped_by_interface: before_filter,
        accepted_by_filter: accepted(),
        dropped_by_system: sum(|cause| !is_before_filter(cause)),
        delivered: Some(ledger.delivered),
        ledger: Some(ledger.to_string()),
    }
}

/// Whether a packet is lost for this cause before any filter sees it.
fn is_before_filter(cause: Cause) -> bool {
    matches!(cause, Cause::Nic | Cause::DriverQueue | Cause::Softnet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Ledger {
        let mut core = Ledger { offered: Some(1000), delivered: 900, filtered: Some(40), ..Ledger::default() };
        core.drop(Cause::Nic, Some(5));
        core.drop(Cause::RingFull, Some(50));
        core
    }

    #[test]
    fn packets_move_between_terms_and_the_sum_stays() {
        let core = core();
        let tally = Tally { packets: 650, cut: 9, over_limit: 50, rejected: 200, ..Tally::default() };
        let ledger = account(core.clone(), tally, Some((7, Some(3))));
        assert_eq!((ledger.delivered, ledger.filtered, ledger.lost()), (640, Some(240), 115));
        assert_eq!((ledger.unaccounted(), ledger.cut), (core.unaccounted(), 9));
        let unrecorded = account(core.clone(), tally, None);
        assert_eq!((unrecorded.delivered, unrecorded.unaccounted()), (650, core.unaccounted()));
        assert!(!unrecorded.drops.contains_key(&Cause::SlowOutput), "nothing is written");
    }

    #[test]
    fn devices_have_ledgers_of_their_own_that_add_up() {
        let mut counters = Counters::default();
        for (device, over_limit) in [(0, 10), (0, 5), (1, 20)] {
            let kept = Counts { over_limit: over_limit.into(), ..Counts::default() };
            counters.add(device, Arc::new(kept), Arc::default());
        }
        let lost = Unwritten { spools: vec![1, 2, 4], output: 0 };
        let (total, each) = counters.account(vec![core(), core()], Some(&lost));
        assert_eq!((total.delivered, total.drops[&Cause::SlowOutput]), (1800 - 35 - 7, Some(7)));
        assert_eq!(each.iter().map(|ledger| ledger.delivered).collect::<Vec<_>>(), [900 - 15 - 3, 900 - 20 - 4]);
        assert_eq!(each[0].drops[&Cause::SlowOutput], Some(3));
        // The first device's two engines are those of two ports.
        let ports = [0..1, 1..2].map(|engines| counters.account_of(core(), &engines, Some(&lost)).delivered);
        assert_eq!(ports, [900 - 10 - 1, 900 - 5 - 2]);
        assert_eq!((counters.engines_of(0), counters.engines_of(1)), (0..2, 2..3));
        let failed = Unwritten { output: 9, ..lost };
        let (total, each) = counters.account(vec![core(), core()], Some(&failed));
        assert_eq!((total.drops[&Cause::OutputFailed], each[1].drops[&Cause::OutputFailed]), (Some(9), None));
        assert_eq!((total.unaccounted(), each[1].unaccounted()), (core().unaccounted().map(|one| 2 * one), None));
    }

    #[test]
    fn the_statistics_block_tells_the_same() {
        let counts = counts_of(&core(), 0);
        assert_eq!(counts.received, Some(1000));
        assert_eq!(counts.dropped_by_interface, Some(5));
        assert_eq!(counts.accepted_by_filter, Some(955));
        assert_eq!(counts.dropped_by_system, Some(50));
        assert_eq!(counts.delivered, Some(900));
        let behind = Ledger { filtered: None, filtered_before_offered: true, ..core() };
        let counts = counts_of(&behind, 0);
        assert_eq!((counts.received, counts.accepted_by_filter), (None, Some(995)), "what came is unknown");
        let mut unknown = core();
        unknown.drop(Cause::Nic, None);
        let counts = counts_of(&unknown, 0);
        assert_eq!((counts.dropped_by_interface, counts.accepted_by_filter), (None, None));
    }
}
