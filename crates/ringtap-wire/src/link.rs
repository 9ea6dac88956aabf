//! Owns: which link types a packet may begin with.
//! Does not: parse; [`Layers::parse`](crate::Layers::parse) does.

/// What the first byte of a captured packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet, without frame check sequence.
    Ethernet,
    /// An IPv4 or IPv6 packet; the version field tells which.
    RawIp,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// Linux cooked capture, version 1.
    Cooked,
    /// Linux cooked capture, version 2.
    Cooked2,
    /// BSD null or loopback: a family word, then an IP packet.
    Null,
    /// PPP, with or without address and control bytes.
    Ppp,
}

impl LinkType {
    /// The link type for a `LINKTYPE_…` number of a capture file (<https://www.tcpdump.org/linktypes.html>); also
    /// takes the `DLT_RAW` values 12 and 14. `None` for all that this crate can't parse.
    #[inline]
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Ethernet,
            12 | 14 | 101 => Self::RawIp,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            0 | 108 => Self::Null,
            9 | 50 => Self::Ppp,
            _ => return None,
        })
    }

    /// Its `LINKTYPE_…` number in capture files.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Ethernet => 1,
            Self::RawIp => 101,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
            Self::Null => 0,
            Self::Ppp => 9,
        }
    }
}
