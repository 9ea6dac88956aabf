//! Owns: the tests of bytes in a rule, and which bytes they look at.
//! Does not: run them (`matching/inspect.rs` does).

use super::number::{Arithmetic, Compare, JumpFrom, Number, Operator, Value};
use crate::protocol::AppBuffer;

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
    /// Of an application protocol.
    App(AppBuffer),
}

impl Buffer {
    /// The application's buffer, if it is one.
    #[must_use]
    pub fn of_app(self) -> Option<AppBuffer> {
        match self {
            Self::App(buffer) => Some(buffer),
            _ => None,
        }
    }
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
