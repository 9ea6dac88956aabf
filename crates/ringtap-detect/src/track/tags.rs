//! Owns: which sessions and hosts a rule has tagged, and for how long (`tag`).
//! Does not: write the packets that follow.

use super::bounded_map::BoundedMap;
use crate::decode::Decoded;
use crate::fixed_vec::SpareVisitor;
use crate::rules::address_number;
use crate::rules::rule::{Meta, Tag, TagMetric, TagOwner};

/// Who set a tag: generator, signature and revision of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tagger {
    /// Generator identifier.
    pub gid: u32,
    /// Signature identifier.
    pub sid: u32,
    /// Revision.
    pub rev: u32,
}

impl Tagger {
    fn of(meta: &Meta) -> Self {
        Self { gid: meta.gid, sid: meta.sid, rev: meta.rev }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Session(u64),
    Host(u128),
}

#[derive(Default)]
struct Open {
    by: Tagger,
    /// Packets or bytes that are still wanted.
    left: u64,
    counts_bytes: bool,
    until_ns: Option<u64>,
    is_open: bool,
}

pub(crate) struct Tags {
    table: BoundedMap<Key, Open>,
    /// Tags that are open, or more: while there are none a packet is not looked up.
    open: u64,
    /// Number of the packet that was last taken, so that its levels count as one.
    last_packet: u64,
}

impl Tags {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: BoundedMap::new(capacity), open: 0, last_packet: 0 }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.table.show_spare(to);
    }

    /// Tags forgotten because the table was full.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted
    }

    /// What a rule that matched this packet wants to see more of. Of an owner that is tagged already the newer one counts.
    pub(crate) fn set(&mut self, tag: &Tag, meta: &Meta, packet: &Decoded<'_>, flow: Option<u64>, now_ns: u64) {
        let key = match (tag.owner, flow) {
            (TagOwner::Session, Some(flow)) => Key::Session(flow),
            (TagOwner::Session, None) => return,
            (TagOwner::Source, _) => Key::Host(address_number(packet.source)),
            (TagOwner::Destination, _) => Key::Host(address_number(packet.destination)),
        };
        let evicted = self.table.evicted;
        let entry = self.table.entry(key, now_ns);
        let was_open = std::mem::replace(&mut entry.is_open, true);
        entry.by = Tagger::of(meta);
        entry.counts_bytes = tag.metric == TagMetric::Bytes;
        // The packet that sets the tag is among those that are counted.
        (entry.left, entry.until_ns) = match tag.metric {
            TagMetric::Packets => (u64::from(tag.count) - 1, None),
            TagMetric::Bytes => (u64::from(tag.count).saturating_sub(packet.wire_len.into()), None),
            TagMetric::Seconds => (u64::MAX, Some(now_ns + u64::from(tag.count) * 1_000_000_000)),
        };
        self.open += u64::from(!was_open);
        self.open = self.open.saturating_sub(self.table.evicted - evicted);
    }

    /// Who wants this packet; `number` is the packet's, `flow` its flow's.
    pub(crate) fn take(&mut self, packet: &Decoded<'_>, number: u64, flow: Option<u64>, now_ns: u64) -> Option<Tagger> {
        if self.open == 0 || self.last_packet == number {
            return None;
        }
        let hosts = [packet.source, packet.destination].map(|address| Key::Host(address_number(address)));
        let keys = flow.map(Key::Session).into_iter().chain(hosts);
        for key in keys {
            let Some(entry) = self.table.find(&key).filter(|entry| entry.is_open) else { continue };
            let used = if entry.counts_bytes { packet.wire_len.into() } else { 1 };
            if entry.left < used || entry.until_ns.is_some_and(|until_ns| now_ns > until_ns) {
                entry.is_open = false;
                self.open = self.open.saturating_sub(1);
                continue;
            }
            entry.left -= used;
            self.last_packet = number;
            return Some(entry.by);
        }
        None
    }
}
