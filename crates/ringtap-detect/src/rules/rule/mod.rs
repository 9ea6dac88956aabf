//! Owns: what one rule says, after parsing: header, tests in their order, state, threshold.
//! Does not: parse or match.

mod bytes;
mod header;
mod number;
mod state;
mod transform;

use std::sync::Arc;

pub use bytes::{Buffer, Content, Expression, Membership, Test};
pub use header::{FlagMatch, FlowTest, HeaderTest, Reputed, Side};
pub use number::{Arithmetic, Compare, JumpFrom, Number, Operator, Value};
pub use state::{
    BitCommand, BitOwner, BitRule, IntCommand, IntRule, Limit, RateFilter, Suppressed, Tag, TagMetric, TagOwner,
    Threshold, Track,
};
pub use transform::{Digest, Transform, XorKey};

use super::ranges::Ranges;
pub use crate::protocol::{App, AppBuffer};

/// What a rule asks for. The sensor only reports: `drop` and `reject` are told in the alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Silence for this packet and the rest of its flow.
    Pass,
    /// Alert; an inline system would drop.
    Drop,
    /// Alert; an inline system would refuse.
    Reject,
    /// Alert.
    Alert,
}

/// The packets that a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Any IP packet, of both versions or of one.
    Ip(Option<Version>),
    /// TCP, packets and stream.
    Tcp,
    /// TCP, packets alone (`tcp-pkt`).
    TcpPacket,
    /// TCP, stream alone (`tcp-stream`).
    TcpStream,
    /// UDP.
    Udp,
    /// ICMP for either version of IP, or for one.
    Icmp(Option<Version>),
    /// SCTP.
    Sctp,
    /// Any packet, also one that could not be decoded (`pkthdr`).
    Any,
    /// An application protocol.
    App(App),
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Addresses and ports of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Addresses.
    pub addresses: Ranges,
    /// Ports.
    pub ports: Ranges,
}

/// What an alert says of its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// File it was read from.
    pub file: Arc<str>,
    /// Line of the file, from 1.
    pub line: u32,
    /// Signature identifier.
    pub sid: u32,
    /// Generator identifier.
    pub gid: u32,
    /// Revision.
    pub rev: u32,
    /// What it found.
    pub message: String,
    /// Class.
    pub class: String,
    /// 1 (worst) to 255.
    pub priority: u8,
    /// `reference`: kind and identifier.
    pub references: Vec<(String, String)>,
    /// `metadata`: key and value.
    pub metadata: Vec<(String, String)>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What an alert says.
    pub meta: Meta,
    /// What it asks for.
    pub action: Action,
    /// Which packets.
    pub protocol: Protocol,
    /// Left of the arrow.
    pub source: Endpoint,
    /// Right of the arrow.
    pub destination: Endpoint,
    /// `<>`
    pub both_ways: bool,
    /// Headers and counters.
    pub headers: Vec<HeaderTest>,
    /// Flow.
    pub flow: FlowTest,
    /// Bytes, by buffer in the order of the rule.
    pub buffers: Vec<(Buffer, Vec<Test>)>,
    /// Chains of transforms that its buffers name.
    pub transforms: Vec<Vec<Transform>>,
    /// Bits read and written.
    pub bits: Vec<BitRule>,
    /// Integers of the flow read and written.
    pub ints: Vec<IntRule>,
    /// How many alerts.
    pub threshold: Option<Threshold>,
    /// What becomes of alerts that are too many, as `threshold.config` says.
    pub rate: Option<RateFilter>,
    /// Where no alert is wanted, as `threshold.config` says.
    pub suppressed: Vec<Arc<Suppressed>>,
    /// What comes after it.
    pub tag: Option<Tag>,
    /// `noalert`: the match counts, and is not told.
    pub silent: bool,
}

impl Rule {
    /// Protocols that have all of its buffers, of applications.
    pub(crate) fn apps(&self) -> impl Iterator<Item = App> {
        let buffers = || self.buffers.iter().filter_map(|(buffer, _)| buffer.of_app());
        App::all().filter(move |&app| buffers().next().is_some() && buffers().all(|buffer| buffer.twin(app).is_some()))
    }

    /// Whether it names no application, and several have its buffers.
    pub(crate) fn is_of_several(&self) -> bool {
        matches!(self.protocol, Protocol::Ip(None) | Protocol::Tcp) && self.apps().nth(1).is_some()
    }

    /// Whether it counts or keeps bits by something that is not in every packet between two hosts: where engines share out traffic by
    /// pairs of hosts, each knows a part.
    pub fn counts_by_host(&self) -> bool {
        let is_split = |track: Track| matches!(track, Track::Source | Track::Destination | Track::Rule);
        let counts = [self.threshold.map(|it| it.track), self.rate.map(|it| it.track)];
        let by_host =
            |bit: &BitRule| matches!(bit.owner, BitOwner::Source | BitOwner::Destination | BitOwner::BothHosts);
        let tags_host = self.tag.is_some_and(|tag| tag.owner != TagOwner::Session);
        counts.into_iter().flatten().any(is_split) || self.bits.iter().any(by_host) || tags_host
    }

    /// Whether it asks for nothing that other rules write.
    pub(crate) fn is_without_state(&self) -> bool {
        let reads = |bit: &BitRule| matches!(bit.command, BitCommand::IsSet | BitCommand::IsNotSet);
        !self.bits.iter().any(reads) && !self.ints.iter().any(IntRule::is_test)
    }
}
