//! Owns: FTP in the rule language.
//! Does not: read commands.

use std::net::IpAddr;

use crate::decode::Decoded;
use crate::protocol::Keyword;
use crate::rules::address_number;

/// The address in a client's PORT command, four bytes.
pub(super) const PORT: u8 = 0;

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::condition(PORT, &["ftpbounce"], names_another_host)];

/// Whether a PORT command names another host than the one that says it (RFC 2577 §3).
fn names_another_host(address: &[u8], packet: &Decoded<'_>) -> bool {
    <[u8; 4]>::try_from(address)
        .is_ok_and(|octets| address_number(IpAddr::from(octets)) != address_number(packet.source))
}
