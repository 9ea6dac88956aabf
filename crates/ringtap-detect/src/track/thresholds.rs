//! Owns: how many alerts of a rule get out (`threshold`, `detection_filter`, `rate_filter`).
//! Does not: decide whether a rule matches.

use super::bounded_map::BoundedMap;
use crate::decode::Decoded;
use crate::fixed_vec::SpareVisitor;
use crate::rules::address_number;
use crate::rules::rule::{Limit, RateFilter, Threshold, Track};

/// What is counted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rule: u32,
    /// Of a `rate_filter`.
    is_rate: bool,
    first: u128,
    second: u128,
}

#[derive(Default)]
struct Count {
    since_ns: u64,
    count: u32,
    /// Count at which a backoff lets the next one out; of a `rate_filter` since when it has its effect, nanoseconds.
    next: u64,
    /// Ports seen, as bits of a hash: 512 of them make two ports look the same in one case of 512.
    ports: [u64; 8],
}

pub(crate) struct Thresholds {
    table: BoundedMap<Key, Count>,
}

impl Thresholds {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: BoundedMap::new(capacity) }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.table.show_spare(to);
    }

    /// Counts forgotten because the table was full.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted
    }

    /// Whether the match of `rule` in this packet becomes an alert; `flow` is the flow's number.
    pub(crate) fn admits(
        &mut self,
        rule: u32,
        threshold: &Threshold,
        packet: &Decoded<'_>,
        flow: Option<u64>,
        now_ns: u64,
    ) -> bool {
        let Some((first, second)) = counted_by(threshold.track, packet, flow) else { return false };
        let period_ns = u64::from(threshold.seconds) * 1_000_000_000;
        let entry = self.table.entry(Key { rule, is_rate: false, first, second }, now_ns);
        let over = threshold.seconds > 0 && now_ns.saturating_sub(entry.since_ns) > period_ns;
        if entry.count == 0 || over {
            *entry = Count { since_ns: now_ns, next: threshold.count.into(), ..Count::default() };
        }
        if let Limit::Above { unique_source_port: Some(source) } = threshold.limit {
            let port = if source { packet.ports.0 } else { packet.ports.1 };
            // Fibonacci hashing: neighbouring ports fall far apart.
            let bit = usize::from(port.wrapping_mul(40503) >> 7);
            let mask = 1 << (bit & 63);
            let word = &mut entry.ports[bit >> 6];
            if *word & mask != 0 {
                return entry.count > threshold.count;
            }
            *word |= mask;
        }
        entry.count = entry.count.saturating_add(1);
        let count = entry.count;
        match threshold.limit {
            Limit::First => count <= threshold.count,
            Limit::Each => {
                let full = count >= threshold.count;
                if full {
                    entry.count = 0;
                }
                full
            }
            Limit::Once => count == threshold.count,
            Limit::Backoff { multiplier } => {
                let out = u64::from(count) == entry.next;
                if out {
                    entry.next = entry.next.saturating_mul(multiplier.into());
                }
                out
            }
            Limit::Above { .. } => count > threshold.count,
        }
    }
    /// Whether matches of `rule` are so many that its filter silences this packet's. As Suricata has it, the match that finds the
    /// filter's time over gets out uncounted, and the count goes on within its period.
    pub(crate) fn is_over_rate(&mut self, rule: u32, rate: &RateFilter, packet: &Decoded<'_>, now_ns: u64) -> bool {
        const SECOND_NS: u64 = 1_000_000_000;
        let Some((first, second)) = counted_by(rate.track, packet, None) else { return false };
        let entry = self.table.entry(Key { rule, is_rate: true, first, second }, now_ns);
        if entry.next != 0 {
            let is_over = now_ns.saturating_sub(entry.next) > u64::from(rate.timeout) * SECOND_NS;
            entry.next = if is_over { 0 } else { entry.next };
            return !is_over;
        }
        if entry.count == 0 || now_ns.saturating_sub(entry.since_ns) > u64::from(rate.seconds) * SECOND_NS {
            *entry = Count { since_ns: now_ns, ..Count::default() };
        }
        entry.count = entry.count.saturating_add(1);
        if entry.count <= rate.count {
            return false;
        }
        entry.next = now_ns.max(1);
        true
    }
}

/// The numbers that stand for what is counted by; `None` where the packet has no such thing.
fn counted_by(track: Track, packet: &Decoded<'_>, flow: Option<u64>) -> Option<(u128, u128)> {
    let (source, destination) = (address_number(packet.source), address_number(packet.destination));
    Some(match track {
        Track::Source => (source, 0),
        Track::Destination => (destination, 0),
        Track::Both => (source.min(destination), source.max(destination)),
        Track::Rule => (0, 0),
        Track::Flow => (flow?.into(), 1),
    })
}
