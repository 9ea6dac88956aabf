//! Owns: what a running sensor has counted so far, as metrics and the watch for blinding see it; how engines tell their part.
//! Does not: count, or decide what is too much.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::{Cause, Ledger};
use ringtap::record::Recorder;
use ringtap_detect::Counters;

use crate::record::RuleKey;
use crate::rules::Used;
use crate::session::Surroundings;
use crate::view::Latest;

/// How often an engine tells, nanoseconds, and how often what it told is looked at.
const INTERVAL_NS: u64 = 1_000_000_000;
pub(crate) const INTERVAL: Duration = Duration::from_nanos(INTERVAL_NS);
/// Packets after which an engine looks at the time in a cycle that does not end: one that is being blinded has no other.
const PACKETS: u64 = 4096;
/// Rules of which alerts are counted apart; those of further ones are counted together.
const RULES: usize = 1000;

/// An engine's end: it tells what it has counted.
pub(crate) struct CountsTo {
    to: rtrb::Producer<Counters>,
    next_ns: u64,
    /// Packets have come since.
    has_news: bool,
}

/// The other end, with what was told last.
pub(crate) struct CountsFrom {
    from: rtrb::Consumer<Counters>,
    last: Counters,
}

/// Both ends.
pub(crate) fn counts_way() -> (CountsTo, CountsFrom) {
    let (to, from) = rtrb::RingBuffer::new(2);
    (CountsTo { to, next_ns: 0, has_news: false }, CountsFrom { from, last: Counters::default() })
}

impl CountsTo {
    /// A packet has come, the one of this number; whether it is worth to look at the time.
    #[inline]
    pub(crate) fn packet(&mut self, number: u64) -> bool {
        self.has_news = true;
        number.is_multiple_of(PACKETS)
    }

    /// When an engine without packets has to come back, to tell of the last ones.
    pub(crate) fn next_turn(&self) -> Option<Duration> {
        self.has_news.then_some(INTERVAL)
    }

    /// Tells, if it is time.
    pub(crate) fn tell(&mut self, now_ns: u64, counters: impl FnOnce() -> Counters) {
        if !self.has_news {
            return;
        }
        // A clock that was set back is no reason to be silent.
        if now_ns < self.next_ns && self.next_ns - now_ns <= INTERVAL_NS {
            return;
        }
        self.next_ns = now_ns + INTERVAL_NS;
        // Full: nobody has looked since.
        self.has_news = self.to.is_full() || self.to.push(counters()).is_err();
    }
}

impl CountsFrom {
    fn newest(&mut self) -> Counters {
        while let Ok(counters) = self.from.pop() {
            self.last = counters;
        }
        self.last
    }
}

/// Alerts by rule: of the first thousand rules that had any, and of all others together.
#[derive(Debug, Default)]
pub(crate) struct ByRule {
    counts: Mutex<(HashMap<RuleKey, u64>, u64)>,
}

impl ByRule {
    /// Counts one: by the output thread alone.
    pub(crate) fn count(&self, rule: RuleKey) {
        let (rules, others) = &mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = rules.get_mut(&rule) {
            *count += 1;
        } else if rules.len() < RULES {
            rules.insert(rule, 1);
        } else {
            *others += 1;
        }
    }

    /// Of each rule, and of those that are not counted apart.
    pub(crate) fn all(&self) -> (Vec<(RuleKey, u64)>, u64) {
        let (rules, others) = &*self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        (rules.iter().map(|(rule, count)| (*rule, *count)).collect(), *others)
    }
}

/// Packets that engines got and no detector looked at; `None`: in this run it can't happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotInspected {
    /// They belong to another engine, and the queue to it was full.
    pub(crate) hand_over_full: Option<u64>,
    /// Others went first.
    pub(crate) shed: Option<u64>,
}

impl NotInspected {
    /// To the receiver they were delivered. To the sensor they are lost, and so says its ledger.
    pub(crate) fn take_from(self, ledger: &mut Ledger) {
        for (cause, count) in [(Cause::HandOverFull, self.hand_over_full), (Cause::Shed, self.shed)] {
            if let Some(count) = count {
                ledger.undeliver(cause, count);
            }
        }
    }
}

/// What the receivers count while they run.
pub(crate) struct Live {
    pub(crate) ledger: Ledger,
    /// From arrival to handling.
    pub(crate) latency: HistogramSnapshot,
    /// What engines tell of shed packets comes by [`CountsFrom`].
    pub(crate) not_inspected: NotInspected,
    /// What is wrong with interfaces.
    pub(crate) faults: Vec<String>,
}

/// Packets of flows with alerts that were written, and that could not be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcapLogCounts {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
}

impl PcapLogCounts {
    fn of(recorder: &Recorder) -> Self {
        Self { packets: recorder.packets(), lost: recorder.lost().packets() }
    }
}

/// What was counted up to now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// When it was taken.
    pub(crate) at: Option<Instant>,
    /// What is wrong with interfaces.
    pub(crate) faults: Vec<String>,
    /// Of each engine.
    pub(crate) engines: Vec<Counters>,
    /// Of all interfaces.
    pub(crate) ledger: Option<Ledger>,
    /// From arrival to handling.
    pub(crate) latency: Option<HistogramSnapshot>,
    /// From arrival to alert.
    pub(crate) detection: Option<HistogramSnapshot>,
    pub(crate) rules: Option<Used>,
    pub(crate) reloads: u64,
    /// Of the capture file of flows with alerts, where there is one.
    pub(crate) pcap_log: Option<PcapLogCounts>,
    /// Records lost before the output thread, and lines written and not.
    pub(crate) records_lost: u64,
    pub(crate) written: u64,
    pub(crate) failed: u64,
    /// Conditions in which the sensor is being blinded, and whether it is.
    pub(crate) conditions: Vec<(&'static str, bool)>,
}

impl Account {
    /// As of now; `live` is the receivers'.
    pub(crate) fn of(around: &mut Surroundings, live: Option<Live>) -> Self {
        let engines: Vec<Counters> = around.told.iter_mut().map(CountsFrom::newest).collect();
        let (mut faults, mut ledger, mut latency) = (Vec::new(), None, None);
        if let Some(mut live) = live {
            let shed = engines.iter().map(|counters| counters.shed).sum();
            let shed = live.not_inspected.shed.map(|_| shed);
            NotInspected { shed, ..live.not_inspected }.take_from(&mut live.ledger);
            (faults, ledger, latency) = (live.faults, Some(live.ledger), Some(live.latency));
        }
        let counts = &around.counts;
        Self {
            at: Some(Instant::now()),
            faults,
            engines,
            ledger,
            latency,
            detection: around.latency.iter().map(|latency| latency.snapshot()).reduce(|all, one| all.merged(&one)),
            pcap_log: around.recorder.as_ref().map(PcapLogCounts::of),
            records_lost: around.lost.iter().map(|lost| lost.load(Ordering::Relaxed)).sum(),
            written: counts.written.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            ..Self::default()
        }
    }

    /// Over all engines.
    pub(crate) fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.engines.iter().map(of).sum()
    }
}

/// What whoever looks is shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) account: Mutex<Account>,
    pub(crate) by_rule: ByRule,
    pub(crate) latest: Latest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_counted_apart_are_bounded() {
        let counts = ByRule::default();
        for sid in 0..RULES as u32 + 5 {
            counts.count(RuleKey { gid: 1, sid, rev: 1 });
            counts.count(RuleKey { gid: 1, sid: 0, rev: 1 });
        }
        let (rules, others) = counts.all();
        assert_eq!((rules.len(), others), (RULES, 5));
        assert_eq!(rules.iter().map(|(_, count)| count).max(), Some(&(RULES as u64 + 6)));
    }

    #[test]
    fn an_engine_tells_once_a_second_and_never_waits() {
        let (mut teller, mut told) = counts_way();
        let counters = |packets| Counters { packets, ..Counters::default() };
        for (at_ns, packets) in [(5, 1), (6, 2), (INTERVAL_NS + 5, 3), (2 * INTERVAL_NS + 5, 4)] {
            teller.packet(packets);
            teller.tell(at_ns, || counters(packets));
        }
        assert_eq!(told.newest().packets, 3, "what nobody fetched is not overwritten");
        assert_eq!(teller.next_turn(), Some(INTERVAL), "the last ones are still to be told");
        teller.tell(4 * INTERVAL_NS, || counters(5));
        assert_eq!((told.newest().packets, told.newest().packets), (5, 5));
        assert_eq!(teller.next_turn(), None);
        teller.packet(6);
        teller.tell(7, || counters(6));
        assert_eq!(told.newest().packets, 6, "the clock was set back");
    }
}
