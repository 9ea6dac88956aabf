//! Owns: what a rule asks for between packets: bits, thresholds, tags.
//! Does not: keep them (`track` does).

use crate::rules::Ranges;

/// Whose bits a rule sets or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOwner {
    /// `flowbits`
    Flow,
    /// `hostbits:…,src`, `xbits:…,track ip_src`
    Source,
    /// `hostbits:…,dst`, `xbits:…,track ip_dst`
    Destination,
    /// `hostbits:…,both`: source and destination each
    BothHosts,
    /// `xbits:…,track ip_pair`
    Pair,
}

/// What a rule does with a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitCommand {
    /// Sets it on a match.
    Set,
    /// Clears it on a match.
    Unset,
    /// Turns it over on a match.
    Toggle,
    /// Matches if it is set.
    IsSet,
    /// Matches if it is not set.
    IsNotSet,
}

/// `flowbits`, `hostbits`, `xbits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitRule {
    /// Whose.
    pub owner: BitOwner,
    /// What.
    pub command: BitCommand,
    /// Which: `flowbits:isset,a|b` has several, any of which will do.
    pub bits: Vec<u16>,
    /// How long it stays set, seconds; 0: as long as its owner.
    pub expire: u32,
}

/// What a rule does with an integer of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntCommand {
    /// Sets it on a match.
    Set(u32),
    /// Adds to it on a match; one that is not there is 0.
    Add(u32),
    /// Takes from it on a match, down to 0.
    Subtract(u32),
    /// Matches if it is there and fits.
    Compare(super::Compare),
    /// Matches if it is there.
    IsSet,
    /// Matches if it is not there.
    IsNotSet,
}

/// `flowint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntRule {
    /// Which.
    pub number: u16,
    /// What.
    pub command: IntCommand,
}

/// What alerts are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// The packet's source.
    Source,
    /// The packet's destination.
    Destination,
    /// Source and destination, in either order.
    Both,
    /// All together.
    Rule,
    /// The flow.
    Flow,
}

/// How often alerts get out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The first `count` in each period.
    First,
    /// Each `count`th.
    Each,
    /// One in each period, at the `count`th.
    Once,
    /// At `count`, and again whenever the number since has grown by the multiplier.
    Backoff {
        /// Growth.
        multiplier: u32,
    },
    /// `detection_filter`: those above `count` in a period.
    Above {
        /// Only different source (true) or destination ports count.
        unique_source_port: Option<bool>,
    },
}

/// `threshold` or `detection_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// How.
    pub limit: Limit,
    /// By what.
    pub track: Track,
    /// Number.
    pub count: u32,
    /// Period.
    pub seconds: u32,
}

/// `rate_filter` with `new_action pass`: once there are more than `count` alerts in a period, none is told for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateFilter {
    /// By what they are counted.
    pub track: Track,
    /// Number.
    pub count: u32,
    /// Period, seconds.
    pub seconds: u32,
    /// How long none is told, seconds.
    pub timeout: u32,
}

/// `suppress`: of packets from or to these addresses no alert is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressed {
    /// Sources.
    pub source: Ranges,
    /// Destinations.
    pub destination: Ranges,
}

impl Suppressed {
    /// Whether a packet from `source` to `destination` is meant; both by their [numbers](crate::rules::address_number).
    #[must_use]
    pub fn has(&self, source: u128, destination: u128) -> bool {
        self.source.contains(source) || self.destination.contains(destination)
    }
}

/// Whose later packets a rule wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagOwner {
    /// Those of the flow, both ways.
    Session,
    /// Those from and to the packet's source.
    Source,
    /// Those from and to its destination.
    Destination,
}

/// How many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagMetric {
    /// So many packets.
    Packets,
    /// Those of so many seconds.
    Seconds,
    /// So many bytes, as far as whole packets fill them.
    Bytes,
}

/// `tag`: what comes after a match is of interest too. The packet that matched is counted, and told by its alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Whose.
    pub owner: TagOwner,
    /// Number.
    pub count: u32,
    /// Of what.
    pub metric: TagMetric,
}

impl IntRule {
    /// Whether it asks, and writes nothing.
    #[must_use]
    pub fn is_test(&self) -> bool {
        matches!(self.command, IntCommand::Compare(_) | IntCommand::IsSet | IntCommand::IsNotSet)
    }
}
