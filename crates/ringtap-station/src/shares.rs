//! Who may have how much of the table of alarms: strangers a half of it, and of that one network and one address a part.
//!
//! Owns the shares and what is taken of them. Sources are counted by hash, IPv4 networks by /24 and IPv6 networks by /64, so that memory is
//! bounded and an attacker can't choose whom it shares a count with. Known senders are bounded by the table alone.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;

use crate::alarm::{Alarm, Origin};

/// Counts of addresses, and of networks.
const COUNTS: usize = 1 << 16;

/// What strangers have.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Places of the table.
    limit: usize,
    hasher: RandomState,
    /// Raised alarms by address.
    addresses: Vec<u32>,
    /// Raised alarms by network.
    networks: Vec<u32>,
    /// Places of the table, raised or cleared.
    pub(crate) places: usize,
}

impl Default for Shares {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Shares {
    /// Of a table with so many places.
    fn new(limit: usize) -> Self {
        Self { limit, hasher: RandomState::new(), addresses: vec![0; COUNTS], networks: vec![0; COUNTS], places: 0 }
    }

    /// What these alarms have of a table with so many places.
    pub(crate) fn of(alarms: &[Alarm], limit: usize) -> Self {
        let mut shares = Self::new(limit);
        shares.places = alarms.iter().filter(|alarm| !alarm.origin.is_known).count();
        alarms.iter().filter(|alarm| !alarm.cleared).for_each(|alarm| shares.add(alarm.origin));
        shares
    }

    /// Whether strangers have all the places that they may have.
    pub(crate) fn are_full(&self) -> bool {
        self.places >= (self.limit / 2).max(1)
    }

    /// Whether one more alarm of this origin may be raised.
    pub(crate) fn allow(&self, origin: Origin) -> bool {
        let Some((address, network)) = self.indices(origin) else { return true };
        let below = |count: u32, part: usize| (count as usize) < (self.limit / part).max(1);
        below(self.addresses[address], 8) && below(self.networks[network], 4)
    }

    /// An alarm of this origin is raised.
    pub(crate) fn add(&mut self, origin: Origin) {
        if let Some((address, network)) = self.indices(origin) {
            self.addresses[address] += 1;
            self.networks[network] += 1;
        }
    }

    /// It is cleared.
    pub(crate) fn remove(&mut self, origin: Origin) {
        if let Some((address, network)) = self.indices(origin) {
            self.addresses[address] = self.addresses[address].saturating_sub(1);
            self.networks[network] = self.networks[network].saturating_sub(1);
        }
    }

    /// Where a stranger is counted.
    fn indices(&self, origin: Origin) -> Option<(usize, usize)> {
        let address = origin.source.filter(|_| !origin.is_known)?;
        Some((self.index(address), self.index(network(address))))
    }

    fn index(&self, of: impl Hash) -> usize {
        self.hasher.hash_one(of) as usize % COUNTS
    }
}

/// The network of an address: /24 of IPv4, /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> (u8, u64) {
    match address {
        IpAddr::V4(address) => (4, u64::from(u32::from(address) >> 8)),
        IpAddr::V6(address) => (6, (u128::from(address) >> 64) as u64),
    }
}
