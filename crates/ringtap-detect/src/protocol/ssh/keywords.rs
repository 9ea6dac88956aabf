//! Owns: SSH in the rule language.
//! Does not: read banners.

use crate::protocol::Keyword;

pub(super) const RULE_NAMES: &[&str] = &["ssh"];

/// The protocol version in a banner: `2.0`.
pub(super) const PROTOCOL: u8 = 0;
/// The software version in a banner: `OpenSSH_9.2`.
pub(super) const SOFTWARE: u8 = 1;
/// Digest of the client's offers, and what it is made of; the same of the server's.
pub(super) const HASSH: u8 = 2;
pub(super) const HASSH_STRING: u8 = 3;
pub(super) const HASSH_SERVER: u8 = 4;
pub(super) const HASSH_SERVER_STRING: u8 = 5;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(PROTOCOL, &["ssh.proto", "ssh_proto"]),
    Keyword::buffer(SOFTWARE, &["ssh.software", "ssh_software"]),
    Keyword::buffer(HASSH, &["ssh.hassh"]),
    Keyword::buffer(HASSH_STRING, &["ssh.hassh.string"]),
    Keyword::buffer(HASSH_SERVER, &["ssh.hassh.server"]),
    Keyword::buffer(HASSH_SERVER_STRING, &["ssh.hassh.server.string"]),
];
