//! Owns: FTP in the rule language.
//! Does not: read commands.

use std::net::IpAddr;

use crate::decode::Decoded;
use crate::protocol::{Keyword, file_extension, file_name};
use crate::rules::address_number;
use crate::rules::rule::Test;

pub(super) const RULE_NAMES: &[&str] = &["ftp"];

/// The address in a client's PORT command, four bytes.
pub(super) const PORT: u8 = 0;

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::condition(PORT, &["ftpbounce"], names_another_host)];

/// Of a data connection: the command that it is for, and its file's name and content.
pub(super) const COMMAND: u8 = 0;
pub(super) const FILE: u8 = 1;
pub(super) const FILE_NAME: u8 = 2;

pub(super) const DATA_KEYWORDS: &[Keyword] = &[
    Keyword::value(COMMAND, &["ftpdata_command"], command),
    Keyword::buffer(FILE, &["file.data", "file_data"]),
    Keyword::buffer(FILE_NAME, &["file.name"]).also_value(&[("filename", file_name), ("fileext", file_extension)]),
];

fn command(value: &str) -> Result<Vec<Test>, String> {
    match value.trim() {
        command @ ("retr" | "stor") => Ok(Test::whole(command.to_ascii_uppercase().as_bytes())),
        other => Err(format!("'{other}' is neither retr nor stor")),
    }
}

/// Whether a PORT command names another host than the one that says it (RFC 2577 §3).
fn names_another_host(address: &[u8], packet: &Decoded<'_>) -> bool {
    <[u8; 4]>::try_from(address)
        .is_ok_and(|octets| address_number(IpAddr::from(octets)) != address_number(packet.source))
}
