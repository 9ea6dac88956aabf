//! Owns: what one rule says, after parsing: header, tests in their order, state, threshold.
//! Does not: parse or match.

mod bytes;
mod header;
mod number;
mod state;

use std::sync::Arc;

pub use bytes::{Buffer, Content, Expression, Test};
pub use header::{FlagMatch, FlowTest, HeaderTest, Side};
pub use number::{Arithmetic, Compare, JumpFrom, Number, Operator, Value};
pub use state::{BitCommand, BitOwner, BitRule, Limit, Tag, TagMetric, TagOwner, Threshold, Track};

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
    /// Bits read and written.
    pub bits: Vec<BitRule>,
    /// How many alerts.
    pub threshold: Option<Threshold>,
    /// What comes after it.
    pub tag: Option<Tag>,
    /// `noalert`: the match counts, and is not told.
    pub silent: bool,
}
