//! Owns: the tests of bytes in a rule, and which bytes they look at.
//! Does not: run them (`matching/inspect.rs` does).

use std::sync::Arc;

use super::number::{Arithmetic, Compare, JumpFrom, Number, Operator, Value};
use crate::protocol::AppBuffer;
use crate::rules::Dataset;

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
    /// The source address: 4 or 16 bytes.
    Source,
    /// The destination address.
    Destination,
    /// Of an application protocol.
    App(AppBuffer),
    /// The same, each value changed by these of the rule's chains of transforms ([`Rule::transforms`](super::Rule::transforms)).
    Transformed(AppBuffer, u8),
    /// What `base64_decode` has made of the bytes before.
    Base64,
}

impl Buffer {
    /// The application's buffer, if it is one.
    #[must_use]
    pub fn of_app(self) -> Option<AppBuffer> {
        match self {
            Self::App(buffer) | Self::Transformed(buffer, _) => Some(buffer),
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
    /// These bytes, anywhere.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            nocase: false,
            negated: false,
            offset: None,
            depth: None,
            distance: None,
            within: None,
            at_end: false,
            fast: false,
            chop: None,
        }
    }

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

/// What `dataset` asks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It is one of the list's values.
    IsSet,
    /// It is none.
    IsNotSet,
    /// It becomes one, which it was not.
    Set,
    /// It is one no longer.
    Unset,
}

impl Membership {
    /// Whether the list may change by it.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Set | Self::Unset)
    }
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
    /// `dataset`: the whole buffer is a value of a list, or becomes one.
    In {
        /// The list.
        list: Arc<Dataset>,
        /// What is asked.
        how: Membership,
    },
    /// The whole value, a number in network byte order: one of these fits.
    Number(Vec<Compare>),
    /// Flags in the whole value, a number: all of `set` are set, none of `clear`.
    Flags {
        /// Must be set.
        set: u64,
        /// Must not be set.
        clear: u64,
    },
    /// `base64_decode`: there are characters of Base64, which [`Buffer::Base64`] has decoded then.
    Base64 {
        /// So many characters at most.
        bytes: u32,
        /// From here.
        offset: u32,
        /// From the previous match.
        relative: bool,
    },
}

impl Test {
    /// The tests of a value that is these bytes and no others.
    pub(crate) fn whole(bytes: &[u8]) -> Vec<Self> {
        let content = Content { at_end: true, ..Content::of(bytes.to_vec()) };
        vec![Self::Content(content), Self::Size(Compare::exactly(bytes.len() as u64))]
    }

    /// The tests of a value that has these bytes somewhere.
    pub(crate) fn within(bytes: &[u8]) -> Vec<Self> {
        vec![Self::Content(Content::of(bytes.to_vec()))]
    }
}
