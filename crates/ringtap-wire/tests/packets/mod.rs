//! Owns: packets of any origin, and every prefix of their first bytes, held against etherparse and against what holds for any
//! bytes. Shared by the tests over our own packets and by the conformance suite.

use std::collections::BTreeMap;

use crate::etherparse_oracle::{Compared, agree, check, prefix};
use ringtap_wire::{LinkType, Stop};

/// Prefixes up to this length are parsed, each on its own.
const PREFIX: usize = 200;

/// What became of the packets.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) total: usize,
    /// Of link types that we have no parser for.
    pub(crate) skipped: usize,
    pub(crate) complete: usize,
    pub(crate) ends: usize,
    pub(crate) faults: usize,
    pub(crate) compared: Compared,
    stops: BTreeMap<String, usize>,
}

impl Tally {
    pub(crate) fn add(&mut self, link: u32, data: &[u8]) {
        let Some(link) = LinkType::from_number(link) else {
            self.skipped += 1;
            return;
        };
        self.total += 1;
        let layers = check(data, link);
        match layers.stop() {
            Stop::Complete => self.complete += 1,
            stop if stop.is_fault() => self.faults += 1,
            _ => self.ends += 1,
        }
        *self.stops.entry(format!("{:?}", layers.stop())).or_default() += 1;
        self.compared += agree(data, link);
        for len in 0..data.len().min(PREFIX) {
            prefix(&data[..len], link, &layers);
            agree(&data[..len], link);
        }
    }

    /// How often parsing ended like this, as [`Stop`] is written out.
    #[allow(dead_code, reason = "for one of the two")]
    pub(crate) fn stopped(&self, start: &str) -> usize {
        self.stops.iter().filter(|(stop, _)| stop.starts_with(start)).map(|(_, count)| count).sum()
    }
}
