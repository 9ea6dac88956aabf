//! Owns: what one rule says, after parsing: header, tests in their order, state, threshold.
//! Does not: parse or match.

use std::sync::Arc;

use super::ranges::Ranges;
use crate::event::Event;

/// What a rule asks for. The sensor only reports: `drop` and `reject` are told in the alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Silence for this packet and the rest of its flow.
    Pass,
    /// Alarm; an inline system would drop.
    Drop,
    /// Alarm; an inline system would refuse.
    Reject,
    /// Alarm.
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

/// An application protocol that is recognised and parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum App {
    /// DNS over UDP or TCP.
    Dns,
    /// TLS, as far as the client's hello.
    Tls,
    /// SSH, as far as the banners.
    Ssh,
    /// FTP, as far as the client's PORT commands.
    Ftp,
}

/// Addresses and ports of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Addresses.
    pub addresses: Ranges,
    /// Ports.
    pub ports: Ranges,
}

/// A comparison with a range; every operator of the language becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Least value that fits.
    pub low: u64,
    /// Greatest value that fits.
    pub high: u64,
    /// The other values fit instead.
    pub negated: bool,
}

impl Compare {
    /// Whether `value` fits.
    #[inline]
    #[must_use]
    pub fn fits(self, value: u64) -> bool {
        (self.low <= value && value <= self.high) != self.negated
    }
}

/// A number, or the variable that `byte_extract` or `byte_math` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Written in the rule.
    Number(i64),
    /// Index of a variable of the rule.
    Variable(u8),
}

/// Bytes that a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What the transport carries: the packet's payload or the stream.
    Payload,
    /// The IPv4 header with its options.
    Ipv4Header,
    /// The IPv6 header with its extensions.
    Ipv6Header,
    /// The TCP header with its options.
    TcpHeader,
    /// The UDP header.
    UdpHeader,
    /// The ICMPv4 header.
    Icmpv4Header,
    /// The ICMPv6 header.
    Icmpv6Header,
    /// A name that a DNS message asks for.
    DnsQuery,
    /// The server name in the client's hello.
    TlsSni,
    /// The whole SSH banner line's protocol version.
    SshProtocol,
    /// The SSH software version.
    SshSoftware,
    /// The address in an FTP client's PORT command, four bytes; `ftpbounce` compares it with the client's own.
    FtpPort,
}

impl Buffer {
    /// How many there are.
    pub const COUNT: usize = 12;
}

/// `content`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// ASCII letters match in either case.
    pub nocase: bool,
    /// Must not be found.
    pub negated: bool,
    /// Where the search begins, from the buffer's start.
    pub offset: Option<Value>,
    /// Where it ends, from the buffer's start and the offset.
    pub depth: Option<Value>,
    /// Where it begins, from the end of the previous match.
    pub distance: Option<Value>,
    /// How far behind the previous match (and distance) it may end.
    pub within: Option<Value>,
    /// Must end the buffer.
    pub at_end: bool,
    /// The rule's author wants this one in the multi-pattern matcher.
    pub fast: bool,
    /// Part of the bytes for the multi-pattern matcher: offset and length.
    pub chop: Option<(usize, usize)>,
}

impl Content {
    /// Whether the position depends on the previous match.
    #[must_use]
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// `pcre`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// As written between the slashes.
    pub pattern: Vec<u8>,
    /// `i`, `m`, `s`, `x`, `A`, `E`, `G` as written.
    pub flags: String,
    /// Must not match.
    pub negated: bool,
    /// Begins behind the previous match (`R`).
    pub relative: bool,
}

/// How bytes become a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// How many bytes.
    pub bytes: Value,
    /// Where, from the start or the previous match.
    pub offset: Value,
    /// From the end of the previous match.
    pub relative: bool,
    /// Least significant byte first.
    pub little: bool,
    /// Digits in text, to this base.
    pub text_base: Option<u32>,
    /// Bits that count, shifted down to the lowest of them.
    pub mask: Option<u32>,
}

/// How `byte_test` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `&`: any bit in common
    And,
    /// `^`: any bit differs
    Xor,
}

/// How `byte_math` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// Where `byte_jump` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpFrom {
    /// Behind the number.
    Here,
    /// The buffer's start.
    Start,
    /// The buffer's end.
    End,
}

/// One test of a buffer's bytes, in the order of the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// `content`
    Content(Content),
    /// `pcre`
    Expression(Expression),
    /// `isdataat`: so many bytes, from the previous match if relative, are there.
    DataAt {
        /// How many.
        bytes: Value,
        /// From the previous match.
        relative: bool,
        /// Must not be there.
        negated: bool,
    },
    /// `byte_test`
    ByteTest {
        /// The number in the buffer.
        number: Number,
        /// Comparison.
        operator: Operator,
        /// Must not hold.
        negated: bool,
        /// What it is compared with.
        value: Value,
    },
    /// `byte_jump`
    ByteJump {
        /// The number in the buffer.
        number: Number,
        /// Times this.
        multiplier: i64,
        /// Rounded up to a multiple of this.
        align: i64,
        /// From where.
        from: JumpFrom,
        /// And this far more.
        post: Value,
    },
    /// `byte_extract`
    ByteExtract {
        /// The number in the buffer.
        number: Number,
        /// Times this.
        multiplier: i64,
        /// Rounded up to a multiple of this.
        align: i64,
        /// The variable it goes to.
        into: u8,
    },
    /// `byte_math`
    ByteMath {
        /// The number in the buffer.
        number: Number,
        /// What is done with it.
        operator: Arithmetic,
        /// And with this.
        value: Value,
        /// The variable it goes to.
        into: u8,
    },
    /// `bsize`: the buffer's length.
    Size(Compare),
}

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
    /// `flow.age`, whole seconds
    FlowAge(Compare),
    /// `flow.pkts`
    FlowPackets(Side, Compare),
    /// `flow.bytes`
    FlowBytes(Side, Compare),
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

/// What alarms are counted by.
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

/// How often alarms get out.
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

/// `tag`: what comes after a match is of interest too. The packet that matched is counted, and told by its alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Whose.
    pub owner: TagOwner,
    /// Number.
    pub count: u32,
    /// Of what.
    pub metric: TagMetric,
}

/// What an alarm says of its rule.
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
    /// What an alarm says.
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
    /// How many alarms.
    pub threshold: Option<Threshold>,
    /// What comes after it.
    pub tag: Option<Tag>,
    /// `noalert`: the match counts, and is not told.
    pub silent: bool,
}
