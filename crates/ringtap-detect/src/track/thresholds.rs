//! Owns: how many alerts of a rule get out (`threshold`, `detection_filter`).
//! Does not: decide whether a rule matches.

use super::bounded_map::BoundedMap;
use crate::decode::Decoded;
use crate::fixed_vec::SpareVisitor;
use crate::rules::address_number;
use crate::rules::rule::{Limit, Threshold, Track};

/// What is counted by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rule: u32,
    first: u128,
    second: u128,
}

#[derive(Default)]
struct Count {
    since_ns: u64,
    count: u32,
    /// Count at which a backoff lets the next one out.
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
        let (source, destination) = (address_number(packet.source), address_number(packet.destination));
        let (first, second) = match threshold.track {
            Track::Source => (source, 0),
            Track::Destination => (destination, 0),
            Track::Both => (source.min(destination), source.max(destination)),
            Track::Rule => (0, 0),
            Track::Flow => match flow {
                Some(flow) => (flow.into(), 1),
                None => return false,
            },
        };
        let period_ns = u64::from(threshold.seconds) * 1_000_000_000;
        let entry = self.table.entry(Key { rule, first, second }, now_ns);
        let over = threshold.seconds > 0 && now_ns.saturating_sub(entry.since_ns) >= period_ns;
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
}
