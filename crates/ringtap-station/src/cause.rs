//! Why what was received became no notification: the station's part of the ledger.
//!
//! Owns the causes, their names and their counts. SNMP's own reasons are [`Refusal`]s; the rest is the station's.

use std::sync::atomic::{AtomicU64, Ordering};

use ringtap_snmp::refusal::Refusal;

/// Why a datagram or a message of a stream was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// SNMP's reason.
    Snmp(Refusal),
    /// From an address that is not listed.
    Source,
    /// One address sent more than it may.
    SourceRate,
    /// One network sent more than it may.
    NetworkRate,
    /// Changed on the way: a checksum of IP or UDP is wrong.
    Checksum,
    /// Longer than a message may be.
    Oversize,
    /// Syslog without a byte of text.
    EmptySyslog,
    /// Syslog over TCP that is framed in neither way.
    SyslogFraming,
}

/// The station's own.
const OWN: [Cause; 7] = [
    Cause::Source,
    Cause::SourceRate,
    Cause::NetworkRate,
    Cause::Checksum,
    Cause::Oversize,
    Cause::EmptySyslog,
    Cause::SyslogFraming,
];
/// How many causes there are.
const COUNT: usize = Refusal::ALL.len() + OWN.len();

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        Self::Snmp(refusal)
    }
}

impl Cause {
    /// All causes, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Refusal::ALL.into_iter().map(Self::Snmp).chain(OWN)
    }

    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snmp(refusal) => refusal.name(),
            Self::Source => "source",
            Self::SourceRate => "source_rate",
            Self::NetworkRate => "network_rate",
            Self::Checksum => "checksum",
            Self::Oversize => "oversize",
            Self::EmptySyslog => "empty_syslog",
            Self::SyslogFraming => "syslog_framing",
        }
    }

    /// Its place in [`Cause::all`].
    fn index(self) -> usize {
        match self {
            Self::Snmp(refusal) => refusal as usize,
            Self::Source => Refusal::ALL.len(),
            Self::SourceRate => Refusal::ALL.len() + 1,
            Self::NetworkRate => Refusal::ALL.len() + 2,
            Self::Checksum => Refusal::ALL.len() + 3,
            Self::Oversize => Refusal::ALL.len() + 4,
            Self::EmptySyslog => Refusal::ALL.len() + 5,
            Self::SyslogFraming => Refusal::ALL.len() + 6,
        }
    }
}

/// Counts by cause; one thread writes, any reads.
#[derive(Debug, Default)]
pub struct CauseCounts([AtomicU64; COUNT]);

impl CauseCounts {
    /// One more.
    pub fn add(&self, cause: Cause) {
        self.0[cause.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn read(&self, cause: Cause) -> u64 {
        self.0[cause.index()].load(Ordering::Relaxed)
    }

    /// Over all causes.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_count_and_a_name_of_its_own() {
        let counts = CauseCounts::default();
        for (index, cause) in Cause::all().enumerate() {
            assert_eq!(cause.index(), index, "{cause:?}");
            counts.add(cause);
            assert_eq!(counts.read(cause), 1, "{cause:?}");
        }
        let names: std::collections::HashSet<&str> = Cause::all().map(Cause::name).collect();
        assert_eq!((names.len(), counts.total()), (COUNT, COUNT as u64));
    }
}
