//! Owns: bits of hosts and of pairs of hosts (`hostbits`, `xbits`).
//! Does not: know bits of flows; they live with the flow.

use super::bounded_map::BoundedMap;
use crate::decode::Decoded;
use crate::fixed_vec::SpareVisitor;
use crate::rules::address_number;
use crate::rules::rule::{BitCommand, BitOwner, BitRule};

/// Whose bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    first: u128,
    /// 0 for a single host.
    second: u128,
    pair: bool,
    bit: u16,
}

/// A bit and until when it is set.
#[derive(Default)]
struct Bit {
    set: bool,
    until_ns: Option<u64>,
}

impl Bit {
    fn is_set(&self, now_ns: u64) -> bool {
        self.set && self.until_ns.is_none_or(|until| now_ns <= until)
    }
}

pub(crate) struct HostBits {
    table: BoundedMap<Key, Bit>,
}

impl HostBits {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: BoundedMap::new(capacity) }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.table.show_spare(to);
    }

    /// Bits forgotten because the table was full.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted
    }

    /// Whose bits a rule means in this packet: one or two hosts, or a pair.
    fn owners(owner: BitOwner, packet: &Decoded<'_>) -> [Option<(u128, u128, bool)>; 2] {
        let (source, destination) = (address_number(packet.source), address_number(packet.destination));
        match owner {
            BitOwner::Flow => [None, None],
            BitOwner::Source => [Some((source, 0, false)), None],
            BitOwner::Destination => [Some((destination, 0, false)), None],
            BitOwner::BothHosts => [Some((source, 0, false)), Some((destination, 0, false))],
            BitOwner::Pair => [Some((source.min(destination), source.max(destination), true)), None],
        }
    }

    /// Whether the bits are as the rule wants them.
    pub(crate) fn check(&mut self, rule: &BitRule, packet: &Decoded<'_>, now_ns: u64) -> bool {
        let wanted = match rule.command {
            BitCommand::IsSet => true,
            BitCommand::IsNotSet => false,
            BitCommand::Set | BitCommand::Unset | BitCommand::Toggle => return true,
        };
        let Some(&bit) = rule.bits.first() else { return false };
        Self::owners(rule.owner, packet).into_iter().flatten().all(|(first, second, pair)| {
            let found = self.table.find(&Key { first, second, pair, bit });
            found.is_some_and(|found| found.is_set(now_ns)) == wanted
        })
    }

    /// Does what a rule that matched wants done.
    pub(crate) fn apply(&mut self, rule: &BitRule, packet: &Decoded<'_>, now_ns: u64) {
        if matches!(rule.command, BitCommand::IsSet | BitCommand::IsNotSet) {
            return;
        }
        let Some(&bit) = rule.bits.first() else { return };
        let until_ns = (rule.expire > 0).then(|| now_ns + u64::from(rule.expire) * 1_000_000_000);
        for (first, second, pair) in Self::owners(rule.owner, packet).into_iter().flatten() {
            let key = Key { first, second, pair, bit };
            // What is not set need not be remembered.
            if rule.command == BitCommand::Unset && self.table.find(&key).is_none() {
                continue;
            }
            let entry = self.table.entry(key, now_ns);
            entry.set = match rule.command {
                BitCommand::Toggle => !entry.is_set(now_ns),
                command => command == BitCommand::Set,
            };
            entry.until_ns = until_ns;
        }
    }
}
