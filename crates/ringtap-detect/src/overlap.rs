//! Owns: whose bytes count where segments or fragments overlap: by the operating system of the host that receives them, and
//! which host has which.
//! Does not: hold bytes; `reassembly.rs` does.

use std::net::IpAddr;

use crate::rules::{Variables, address_number};

/// Ranges of addresses that [`Policies`] takes: bounds the work for a piece that comes out of order.
const MOST_RANGES: usize = 1024;

/// How a kind of operating system puts overlapping pieces together (Novak, "Target-Based Fragmentation Reassembly", 2005;
/// Novak and Sturges, "Target-Based TCP Stream Reassembly", 2007). What each does is what Suricata 7.0.10 does, pair by pair;
/// a test compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The earlier bytes, always.
    First,
    /// The later bytes, always.
    Last,
    /// BSD.
    #[default]
    Bsd,
    /// Some printers: fragments that begin at the same place or later win.
    BsdRight,
    /// Linux before 2.2.
    OldLinux,
    /// Linux.
    Linux,
    /// Solaris before version 9.
    OldSolaris,
    /// Solaris.
    Solaris,
    /// HP-UX 10.
    Hpux10,
    /// HP-UX 11.
    Hpux11,
    /// IRIX.
    Irix,
    /// Mac OS before X.
    Macos,
    /// Windows.
    Windows,
    /// Windows from Vista on.
    Vista,
    /// Windows Server 2003.
    Windows2k3,
}

impl Policy {
    /// All, with the names that operators give them (Suricata's `host-os-policy`).
    pub const NAMES: [(&'static str, Self); 15] = [
        ("first", Self::First),
        ("last", Self::Last),
        ("bsd", Self::Bsd),
        ("bsd-right", Self::BsdRight),
        ("old-linux", Self::OldLinux),
        ("linux", Self::Linux),
        ("old-solaris", Self::OldSolaris),
        ("solaris", Self::Solaris),
        ("hpux10", Self::Hpux10),
        ("hpux11", Self::Hpux11),
        ("irix", Self::Irix),
        ("macos", Self::Macos),
        ("windows", Self::Windows),
        ("vista", Self::Vista),
        ("windows2k3", Self::Windows2k3),
    ];

    /// What decides between segments of a stream.
    pub(crate) fn of_segments(self) -> Newer {
        match self {
            Self::First | Self::Vista => Newer::Never,
            Self::Last => Newer::Always,
            Self::Bsd | Self::BsdRight | Self::Hpux10 | Self::Irix | Self::Macos | Self::Windows | Self::Windows2k3 => {
                Newer::BeginsBefore
            }
            Self::OldLinux => Newer::BeginsBeforeOrEndsNoEarlier,
            Self::Linux => Newer::BeginsBeforeOrIsLonger,
            Self::OldSolaris | Self::Solaris | Self::Hpux11 => Newer::EndsAfterOrCovers,
        }
    }

    /// What decides between fragments of a packet.
    pub(crate) fn of_fragments(self) -> Newer {
        match self {
            Self::First | Self::OldSolaris | Self::Hpux11 | Self::Macos => Newer::Never,
            Self::Last => Newer::Always,
            Self::Bsd | Self::Hpux10 | Self::Irix => Newer::BeginsBefore,
            Self::BsdRight => Newer::BeginsNoEarlier,
            Self::OldLinux | Self::Linux => Newer::BeginsNoLater,
            Self::Solaris => Newer::BeginsBeforeAndCovers,
            Self::Windows | Self::Vista | Self::Windows2k3 => Newer::StandsOutBothWays,
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::NAMES.iter().find(|(of, _)| *of == name).map(|(_, policy)| *policy).ok_or_else(|| {
            let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("'{name}' is no overlap policy; there are {}", names.join(", "))
        })
    }
}

/// When the bytes of a newer piece take the place of an older one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newer {
    Never,
    Always,
    BeginsBefore,
    BeginsNoLater,
    BeginsNoEarlier,
    BeginsBeforeOrIsLonger,
    BeginsBeforeOrEndsNoEarlier,
    BeginsBeforeAndCovers,
    StandsOutBothWays,
    EndsAfterOrCovers,
}

impl Newer {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 10] = [
        Self::Never,
        Self::Always,
        Self::BeginsBefore,
        Self::BeginsNoLater,
        Self::BeginsNoEarlier,
        Self::BeginsBeforeOrIsLonger,
        Self::BeginsBeforeOrEndsNoEarlier,
        Self::BeginsBeforeAndCovers,
        Self::StandsOutBothWays,
        Self::EndsAfterOrCovers,
    ];

    /// Whether it does, by the ranges both pieces had when they came.
    pub(crate) fn wins(self, old: (u64, u64), new: (u64, u64)) -> bool {
        let (before, same) = (new.0 < old.0, new.0 == old.0);
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::BeginsBefore => before,
            Self::BeginsNoLater => before || same,
            Self::BeginsNoEarlier => !before,
            Self::BeginsBeforeOrIsLonger => before || (same && new.1 > old.1),
            Self::BeginsBeforeOrEndsNoEarlier => before || (same && new.1 >= old.1),
            Self::BeginsBeforeAndCovers => before && new.1 >= old.1,
            Self::StandsOutBothWays => before && new.1 > old.1,
            Self::EndsAfterOrCovers => new.1 > old.1 || (new.1 == old.1 && new.0 <= old.0),
        }
    }
}

/// The policy of each host: of the smallest range of addresses that it is in, or the usual one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    usual: Policy,
    /// First and last address, smallest ranges first.
    ranges: Vec<(u128, u128, Policy)>,
}

impl From<Policy> for Policies {
    fn from(usual: Policy) -> Self {
        Self { usual, ranges: Vec::new() }
    }
}

impl Policies {
    /// Gives the hosts of `addresses`, written as in rules, a policy.
    ///
    /// # Errors
    /// What can't be read, or that there are too many ranges.
    pub fn add(&mut self, addresses: &str, variables: &Variables, policy: Policy) -> Result<(), String> {
        self.ranges.extend(variables.addresses(addresses)?.iter().map(|(first, last)| (first, last, policy)));
        if self.ranges.len() > MOST_RANGES {
            return Err(format!("more than {MOST_RANGES} ranges of addresses have an overlap policy"));
        }
        self.ranges.sort_by_key(|&(first, last, _)| last - first);
        Ok(())
    }

    /// The policy of the host that receives a piece.
    pub(crate) fn of(&self, receiver: IpAddr) -> Policy {
        let number = address_number(receiver);
        let found = self.ranges.iter().find(|&&(first, last, _)| first <= number && number <= last);
        found.map_or(self.usual, |&(_, _, policy)| policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_range_decides() {
        let (mut policies, variables) = (Policies::from(Policy::Windows), Variables::default());
        policies.add("10.0.0.0/8", &variables, Policy::Linux).unwrap();
        policies.add("[10.1.0.0/16,2001:db8::/32]", &variables, Policy::Solaris).unwrap();
        let of = |address: &str| policies.of(address.parse().unwrap());
        assert_eq!(
            [of("10.2.0.1"), of("10.1.2.3"), of("192.0.2.1")],
            [Policy::Linux, Policy::Solaris, Policy::Windows]
        );
        assert_eq!(of("2001:db8::7"), Policy::Solaris);
        let error = policies.add("10.0.0.300", &variables, Policy::Linux).unwrap_err();
        assert!(error.contains("10.0.0.300"), "{error}");
        assert!("beos".parse::<Policy>().unwrap_err().contains("windows2k3"));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let (mut policies, variables) = (Policies::default(), Variables::default());
        let hosts: Vec<String> = (0..=MOST_RANGES).map(|host| format!("10.{}.{}.1", host / 256, host % 256)).collect();
        assert!(policies.add(&format!("[{}]", hosts.join(",")), &variables, Policy::Linux).is_err());
    }
}
