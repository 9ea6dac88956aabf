//! Owns: the tests of headers, of the flow and of its counters in a rule.
//! Does not: run them (`detector/conditions.rs` does).

use std::sync::Arc;

use super::Version;
use super::number::Compare;
use crate::event::Event;
use crate::protocol::App;
use crate::rules::Reputation;

/// A side of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the client sends.
    ToServer,
    /// What the server sends.
    ToClient,
    /// Each of them.
    Both,
    /// Any of them.
    Either,
}

/// One test of headers or of the flow's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTest {
    /// `dsize`
    PayloadSize(Compare),
    /// `flags`: of those in `mask`, `set` are set: exactly, all (`+`), any (`*`) or not so (`!`).
    TcpFlags {
        /// Flags wanted.
        set: u8,
        /// Flags looked at.
        mask: u8,
        /// How.
        how: FlagMatch,
    },
    /// `ttl`, hop limit in IPv6
    Ttl(Compare),
    /// `itype`
    IcmpType(Compare),
    /// `icode`
    IcmpCode(Compare),
    /// `icmp_id`
    IcmpId(u16),
    /// `icmp_seq`
    IcmpSequence(u16),
    /// `ip_proto`
    IpProtocol(Compare),
    /// `ipopts`: this option (0: any) is there
    IpOption(Option<u8>),
    /// `fragbits`: of reserved (4), don't fragment (2), more fragments (1)
    FragmentBits {
        /// Bits wanted.
        set: u8,
        /// How.
        how: FlagMatch,
    },
    /// `fragoffset`, in units of 8 bytes
    FragmentOffset(Compare),
    /// `id`
    IpId(u16),
    /// `tos`
    Tos(Compare),
    /// `sameip`
    SameIp,
    /// `seq`
    Sequence(u32),
    /// `ack`
    Acknowledgment(u32),
    /// `window`
    Window(Compare),
    /// `tcp.mss`
    Mss(Compare),
    /// `decode-event`, `stream-event`
    Event(Event),
    /// `stream_size`
    StreamSize(Side, Compare),
    /// `app-layer-protocol`: the flow's application speaks this protocol, or another one that is known
    Application(App, bool),
    /// The packet is the one by which the flow's application became known
    Recognised,
    /// `ipv4-csum`, `tcpv4-csum`, `tcpv6-csum`: the checksum of this transport (`None`: of the IPv4 header) is valid, or not
    Checksum(Option<Version>, bool),
    /// `flow.age`, whole seconds
    FlowAge(Compare),
    /// `flow.pkts`
    FlowPackets(Side, Compare),
    /// `flow.bytes`
    FlowBytes(Side, Compare),
    /// `iprep`
    Reputation {
        /// Of whom.
        whose: Reputed,
        /// Addresses of the category.
        list: Arc<Reputation>,
        /// Scores wanted; `None`: it must have none.
        scores: Option<Compare>,
    },
}

/// Whose reputation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reputed {
    /// The source's or the destination's.
    Any,
    /// The source's.
    Source,
    /// The destination's.
    Destination,
    /// Both must fit.
    Both,
}

/// How flags are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagMatch {
    /// These and no others.
    Exactly,
    /// These, and perhaps others.
    All,
    /// At least one of these.
    Any,
    /// Not all of these.
    Not,
}

/// `flow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTest {
    /// Direction wanted.
    pub to_server: Option<bool>,
    /// Established or not.
    pub established: Option<bool>,
    /// `only_stream` (true), `no_stream` (false)
    pub stream: Option<bool>,
    /// `only_frag` (true), `no_frag` (false)
    pub fragment: Option<bool>,
}

impl FlowTest {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
