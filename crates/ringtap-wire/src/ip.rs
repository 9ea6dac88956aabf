//! Owns: what IPv4 and IPv6 have in common: protocol numbers and one type for either header.
//! Does not: read fields; [`Ipv4`] and [`Ipv6`] do.

use core::net::IpAddr;

use crate::error::{Header, HeaderError, at_least};
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;

/// IP protocol and IPv6 next-header numbers the parser acts on (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// IPv4 in IP (RFC 2003; RFC 2473 over IPv6).
    pub const IPV4: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 in IP (RFC 4213, "6in4"; RFC 2473).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// ESP (RFC 4303); what follows is encrypted.
    pub const ESP: u8 = 50;
    /// Authentication header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// Nothing follows (RFC 8200 §4.7).
    pub const NO_NEXT: u8 = 59;
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION: u8 = 60;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// Mobility header (RFC 6275 §6.1).
    pub const MOBILITY: u8 = 135;
    /// MPLS in IP (RFC 4023).
    pub const MPLS: u8 = 137;
    /// Host identity protocol (RFC 7401 §5.1).
    pub const HIP: u8 = 139;
    /// Shim6 (RFC 5533 §5.1).
    pub const SHIM6: u8 = 140;
    /// An Ethernet frame (RFC 8986 §10.1).
    pub const ETHERNET: u8 = 143;
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An IPv4 or IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip<'a> {
    /// IPv4.
    V4(Ipv4<'a>),
    /// IPv6.
    V6(Ipv6<'a>),
}

impl<'a> Ip<'a> {
    /// A view of the header at the start of `bytes`, of the version that the first four bits say.
    ///
    /// # Errors
    /// [`Fault::BadVersion`](crate::Fault::BadVersion) for versions other than 4 and 6, and the errors of
    /// [`Ipv4::new`] and [`Ipv6::new`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        at_least(Header::Ipv4, bytes, 1)?;
        match bytes[0] >> 4 {
            4 => Ipv4::new(bytes).map(Self::V4),
            6 => Ipv6::new(bytes).map(Self::V6),
            version => Err(HeaderError::version(Header::Ipv4, version)),
        }
    }

    /// Version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> IpVersion {
        match self {
            Self::V4(_) => IpVersion::V4,
            Self::V6(_) => IpVersion::V6,
        }
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(header) => header.source().into(),
            Self::V6(header) => header.source().into(),
        }
    }

    /// Destination address as the header has it; with source routing this is the next stop, not the last.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self {
            Self::V4(header) => header.destination().into(),
            Self::V6(header) => header.destination().into(),
        }
    }

    /// Time to live or hop limit, in hops.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(header) => header.ttl(),
            Self::V6(header) => header.hop_limit(),
        }
    }
}
