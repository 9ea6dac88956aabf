//! Owns: which link type the first byte of a fuzz input stands for. Shared by the target and its seeding.

use ringtap_wire::LinkType;

/// Indexed by the first byte, modulo the length.
pub const LINKS: [LinkType; 8] = [
    LinkType::Ethernet,
    LinkType::RawIp,
    LinkType::Ipv4,
    LinkType::Ipv6,
    LinkType::Cooked,
    LinkType::Cooked2,
    LinkType::Null,
    LinkType::Ppp,
];
