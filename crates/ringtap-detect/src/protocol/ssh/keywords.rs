//! Owns: SSH in the rule language.
//! Does not: read banners.

use crate::protocol::Keyword;

pub(super) const RULE_NAMES: &[&str] = &["ssh"];

/// The protocol version in a banner: `2.0`.
pub(super) const PROTOCOL: u8 = 0;
/// The software version in a banner: `OpenSSH_9.2`.
pub(super) const SOFTWARE: u8 = 1;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(PROTOCOL, &["ssh.proto", "ssh_proto"]),
    Keyword::buffer(SOFTWARE, &["ssh.software", "ssh_software"]),
];
