//! Owns: putting IP fragments together, with bounded trackers and memory; the oldest tracker makes room.
//! Does not: decode what comes out.

use std::net::IpAddr;

use crate::event::{Event, EventSet};
use crate::fixed_vec::SpareVisitor;
use crate::overlap::Policies;
use crate::reassembly::{Pending, Reassembly};

/// Longest IP payload.
const MAX_PAYLOAD: u64 = 65535;
/// Pieces of one packet with gaps between them: all there can be, as a fragment has eight bytes or more.
const MOST_PIECES: u16 = (MAX_PAYLOAD / 16 + 1) as u16;
/// Trackers looked at for one fragment: a bucket.
const WAYS: usize = 8;
/// Buckets looked through for the tracker that is given up for its memory, and how many may be given up for one fragment.
const SEARCHED: usize = 16;
const MOST_GIVEN_UP: usize = 4;

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) identification: u32,
    pub(crate) vlan: [u16; 2],
    /// IP headers around it.
    pub(crate) level: u8,
    /// Bytes from the start of the whole payload.
    pub(crate) offset: usize,
    pub(crate) more: bool,
    pub(crate) payload: &'a [u8],
}

impl Fragment<'_> {
    fn key(&self) -> Key {
        Key {
            source: self.source,
            destination: self.destination,
            // IPv6 fragments may name different protocols behind them (RFC 8200 §4.5): the first one's counts.
            protocol: if self.source.is_ipv4() { self.protocol } else { 0 },
            identification: self.identification,
            vlan: self.vlan,
            level: self.level,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
    vlan: [u16; 2],
    level: u8,
}

#[derive(Clone, Copy, Default)]
struct Tracker {
    key: Option<Key>,
    last_ns: u64,
    list: Pending,
    /// Length of the whole, once the last fragment is there.
    total: Option<u64>,
    /// Next header in the first fragment.
    protocol: u8,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragCounters {
    /// Fragments seen.
    pub fragments: u64,
    /// Packets put together.
    pub reassembled: u64,
    /// Trackers given up because their time was over.
    pub timed_out: u64,
    /// Trackers given up for another one.
    pub evicted: u64,
    /// Fragments for which there was no memory.
    pub no_memory: u64,
}

pub(crate) struct Defrag {
    trackers: Vec<Tracker>,
    reassembly: Reassembly,
    policies: Policies,
    timeout_ns: u64,
    /// The bucket whose time-outs are looked at next.
    hand: usize,
    seed: std::hash::RandomState,
    pub(crate) counters: DefragCounters,
}

impl Defrag {
    pub(crate) fn new(trackers: usize, bytes: usize, policies: Policies, timeout_ns: u64) -> Self {
        let buckets = trackers.div_ceil(WAYS).next_power_of_two();
        Self {
            trackers: vec![Tracker::default(); buckets * WAYS],
            reassembly: Reassembly::new(bytes, MOST_PIECES),
            policies,
            timeout_ns,
            hand: 0,
            seed: std::hash::RandomState::new(),
            counters: DefragCounters::default(),
        }
    }

    /// The number of the packet that this is a fragment of.
    pub(crate) fn number(&self, fragment: &Fragment<'_>) -> u64 {
        use std::hash::BuildHasher;
        self.seed.hash_one(fragment.key())
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.reassembly.show_spare(to);
    }

    /// How many pieces and blocks were gone over to put fragments in their places, since this was asked last.
    pub(crate) fn take_steps(&mut self) -> u32 {
        self.reassembly.take_steps()
    }

    /// Takes one fragment. When the packet is whole, its payload is put into `out` (with capacity for 64 KiB) and the
    /// protocol of its first fragment is returned.
    pub(crate) fn take(
        &mut self,
        fragment: &Fragment<'_>,
        now_ns: u64,
        events: &mut EventSet,
        out: &mut Vec<u8>,
    ) -> Option<u8> {
        self.counters.fragments += 1;
        let v4 = fragment.source.is_ipv4();
        let (start, end) = (fragment.offset as u64, (fragment.offset + fragment.payload.len()) as u64);
        if end > MAX_PAYLOAD {
            events.add(if v4 { Event::Ipv4FragmentTooLarge } else { Event::Ipv6FragmentTooLarge });
            return None;
        }
        if fragment.payload.is_empty() {
            return None;
        }
        self.hand = (self.hand + 1) % (self.trackers.len() / WAYS);
        self.expire(self.hand * WAYS, now_ns);
        let index = self.find(fragment.key(), now_ns);
        for _ in 0..MOST_GIVEN_UP {
            if self.reassembly.has_room(fragment.payload.len()) || !self.give_up_other(index) {
                break;
            }
        }
        let tracker = &mut self.trackers[index];
        tracker.last_ns = now_ns;
        if start == 0 {
            tracker.protocol = fragment.protocol;
        }
        // All but the last one are a multiple of eight bytes; Linux cuts off what is more.
        let payload = if fragment.more { &fragment.payload[..fragment.payload.len() & !7] } else { fragment.payload };
        let newer = self.policies.of(fragment.destination).of_fragments();
        let inserted = self.reassembly.insert(&mut tracker.list, start, payload, newer, 0);
        if inserted.overlap {
            events.add(if v4 { Event::Ipv4FragmentOverlap } else { Event::Ipv6FragmentOverlap });
        }
        if inserted.refused {
            self.counters.no_memory += 1;
            events.add(if v4 { Event::Ipv4FragmentIgnored } else { Event::Ipv6FragmentIgnored });
        }
        if !fragment.more && tracker.total.is_none() {
            tracker.total = Some(end);
        }
        let total = tracker.total?;
        if !self.reassembly.covers(&tracker.list, total) {
            return None;
        }
        out.clear();
        self.reassembly.take(&mut tracker.list, 0, usize::MAX, u64::MAX, out);
        out.truncate(total as usize);
        let protocol = tracker.protocol;
        self.reassembly.clear(&mut tracker.list);
        *tracker = Tracker::default();
        self.counters.reassembled += 1;
        Some(protocol)
    }

    /// Gives up those of a bucket whose time is over.
    fn expire(&mut self, first: usize, now_ns: u64) {
        for tracker in &mut self.trackers[first..first + WAYS] {
            if tracker.key.is_some() && now_ns.saturating_sub(tracker.last_ns) > self.timeout_ns {
                self.counters.timed_out += 1;
                self.reassembly.clear(&mut tracker.list);
                *tracker = Tracker::default();
            }
        }
    }

    /// Gives up the oldest tracker near the hand, for its memory; whether there was another than `kept`.
    fn give_up_other(&mut self, kept: usize) -> bool {
        let (len, first) = (self.trackers.len(), self.hand * WAYS);
        let near = (first..first + len.min(SEARCHED * WAYS)).map(|at| at % len);
        self.hand = (self.hand + SEARCHED) % (len / WAYS);
        let others = near.filter(|&at| at != kept && self.trackers[at].list.count > 0);
        let Some(oldest) = others.min_by_key(|&at| self.trackers[at].last_ns) else { return false };
        let tracker = &mut self.trackers[oldest];
        self.reassembly.clear(&mut tracker.list);
        *tracker = Tracker::default();
        self.counters.evicted += 1;
        true
    }

    /// The tracker of this key: the one there is, a free one, or the oldest one's place.
    fn find(&mut self, key: Key, now_ns: u64) -> usize {
        use std::hash::BuildHasher;
        let buckets = self.trackers.len() / WAYS;
        let first = (self.seed.hash_one(key) as usize & (buckets - 1)) * WAYS;
        self.expire(first, now_ns);
        let bucket = &self.trackers[first..first + WAYS];
        let found = bucket.iter().position(|tracker| tracker.key == Some(key));
        let index = first
            + found.or_else(|| bucket.iter().position(|tracker| tracker.key.is_none())).unwrap_or_else(|| {
                let oldest = bucket.iter().enumerate().min_by_key(|(_, tracker)| tracker.last_ns);
                oldest.map_or(0, |(index, _)| index)
            });
        let tracker = &mut self.trackers[index];
        if tracker.key != Some(key) {
            if tracker.key.is_some() {
                self.counters.evicted += 1;
                self.reassembly.clear(&mut tracker.list);
            }
            *tracker = Tracker { key: Some(key), ..Tracker::default() };
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlap::Policy;

    #[test]
    fn memory_of_packets_that_never_become_whole_is_taken_for_others() {
        let mut defrag = Defrag::new(64, 8 << 10, Policies::from(Policy::Linux), 1_000_000_000);
        let mut out = Vec::with_capacity(MAX_PAYLOAD as usize);
        let mut take = |identification: u32, offset: usize, more: bool, now_ns: u64| {
            let host = IpAddr::from([192, 0, 2, 1]);
            let fragment = Fragment {
                source: host,
                destination: host,
                protocol: 17,
                identification,
                vlan: [0; 2],
                level: 0,
                offset,
                more,
                payload: &[7; 1024],
            };
            defrag.take(&fragment, now_ns, &mut EventSet::default(), &mut out)
        };
        for identification in 0..40 {
            assert_eq!(take(identification, 8, true, identification.into()), None);
        }
        assert_eq!(take(100, 0, true, 100), None);
        assert_eq!(take(100, 1024, false, 101), Some(17));
    }
}
