//! Owns: which header a complaint is about, and what is wrong with it.
//! Does not: decide what a caller does with a bad packet (see [`Stop`](crate::Stop) for the parser's verdict).

use core::fmt;

/// A header this crate knows; used to say which one a fault was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II or IEEE 802.3.
    Ethernet,
    /// IEEE 802.2 LLC, with or without SNAP.
    Llc,
    /// IEEE 802.1Q or 802.1ad tag.
    Vlan,
    /// One MPLS label stack entry.
    Mpls,
    /// Linux cooked capture, version 1 or 2.
    Cooked,
    /// BSD null or loopback family word.
    Null,
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6 fixed header.
    Ipv6,
    /// IPv6 extension header, or AH over IPv4.
    Extension,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// SCTP common header or chunk.
    Sctp,
    /// GRE, version 0 or 1.
    Gre,
    /// VXLAN.
    Vxlan,
    /// GENEVE.
    Geneve,
    /// PPPoE.
    Pppoe,
    /// PPP.
    Ppp,
    /// A link type outside [`LinkType`](crate::LinkType).
    Link,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Fewer bytes are there than the header needs.
    Truncated {
        /// Bytes needed, from the start of the header.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The version field holds a value that this header cannot have.
    BadVersion {
        /// The value found.
        found: u8,
    },
    /// A length field contradicts the header itself (for example an IPv4 header length below 20 bytes).
    BadLength {
        /// The length found, in bytes.
        found: usize,
    },
    /// Flags say that the header has a form that its specification forbids, or that nobody uses.
    BadFlags {
        /// The flag bits found.
        found: u16,
    },
}

/// Why a view could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderError {
    /// The header that was expected.
    pub header: Header,
    /// What is wrong with it.
    pub fault: Fault,
}

impl HeaderError {
    pub(crate) const fn truncated(header: Header, need: usize, have: usize) -> Self {
        Self { header, fault: Fault::Truncated { need, have } }
    }

    pub(crate) const fn version(header: Header, found: u8) -> Self {
        Self { header, fault: Fault::BadVersion { found } }
    }

    pub(crate) const fn length(header: Header, found: usize) -> Self {
        Self { header, fault: Fault::BadLength { found } }
    }

    pub(crate) const fn flags(header: Header, found: u16) -> Self {
        Self { header, fault: Fault::BadFlags { found } }
    }
}

/// `Ok` when at least `need` bytes are there.
#[inline]
pub(crate) fn at_least(header: Header, bytes: &[u8], need: usize) -> Result<(), HeaderError> {
    if bytes.len() < need { Err(HeaderError::truncated(header, need, bytes.len())) } else { Ok(()) }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Llc => "LLC",
            Self::Vlan => "VLAN",
            Self::Mpls => "MPLS",
            Self::Cooked => "Linux cooked",
            Self::Null => "null/loopback",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Extension => "IP extension",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Icmpv4 => "ICMP",
            Self::Icmpv6 => "ICMPv6",
            Self::Sctp => "SCTP",
            Self::Gre => "GRE",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "GENEVE",
            Self::Pppoe => "PPPoE",
            Self::Ppp => "PPP",
            Self::Link => "link",
        })
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header;
        match self.fault {
            Fault::Truncated { need, have } => {
                write!(f, "{header} header needs {need} bytes, {have} are there")
            }
            Fault::BadVersion { found } => write!(f, "{header} header with version {found}"),
            Fault::BadLength { found } => {
                write!(f, "{header} header with an impossible length of {found} bytes")
            }
            Fault::BadFlags { found } => {
                write!(f, "{header} header with unusable flags {found:#06x}")
            }
        }
    }
}

impl core::error::Error for HeaderError {}
