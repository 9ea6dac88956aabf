//! Owns: the reasons why parsing a packet ends.
//! Does not: decide them; `parse.rs` does.

use crate::error::{Fault, Header, HeaderError};

/// Why parsing stopped. [`Layers::stop_at`](crate::Layers::stop_at) says where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Nothing is left to parse: the rest is the payload of the transport header, or an ARP message was read.
    Complete,
    /// The payload is a later fragment of a packet: no transport header is in it.
    LaterFragment,
    /// IPv6 "no next header".
    NoNextHeader,
    /// An EtherType that this crate has no parser for (or an undefined value from 1501 to 1535).
    OtherEtherType(u16),
    /// An IP protocol that this crate has no parser for; ESP (50) is one.
    OtherProtocol(u8),
    /// A PPP protocol that this crate has no parser for.
    OtherPpp(u16),
    /// LLC without SNAP, or SNAP of an organisation's own: destination and source access point.
    OtherLlc(u8, u8),
    /// What follows this header has no number, and is not IP (MPLS pseudowire, unknown address family, netlink …).
    OtherPayload(Header),
    /// The header's bytes are not all there: the capture cut them off (then [`Layers::is_cut`](crate::Layers::is_cut)), or the enclosing
    /// header's length leaves no room for them.
    Truncated(Header),
    /// A version that the header cannot have.
    BadVersion(Header),
    /// A length field that contradicts the header itself.
    BadLength(Header),
    /// Flags that its specification forbids.
    BadFlags(Header),
    /// One more of these than the parser's bounds allow.
    TooDeep(Header),
}

impl Stop {
    /// Whether the packet broke a rule or was cut short, rather than ending in something complete or unknown.
    #[inline]
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Truncated(_) | Self::BadVersion(_) | Self::BadLength(_) | Self::BadFlags(_) | Self::TooDeep(_)
        )
    }
}

impl From<HeaderError> for Stop {
    #[inline]
    fn from(error: HeaderError) -> Self {
        match error.fault {
            Fault::Truncated { .. } => Self::Truncated(error.header),
            Fault::BadVersion { .. } => Self::BadVersion(error.header),
            Fault::BadLength { .. } => Self::BadLength(error.header),
            Fault::BadFlags { .. } => Self::BadFlags(error.header),
        }
    }
}
