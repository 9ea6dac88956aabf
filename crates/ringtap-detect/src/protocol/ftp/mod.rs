//! FTP (RFC 959), as far as the client's PORT commands.
//!
//! Owns the definition; command lines are `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

pub use parser::{TooLong, is_command, line, port_address};

use super::{Definition, Found, Progress, Recognition, Side};

pub(super) const DEFINITION: Definition = Definition {
    name: "ftp",
    // Too little of it is read for rules about FTP in general.
    rule_names: &[],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(is_command),
    stream: Some(stream),
    datagram: None,
};

fn stream(side: &mut Side<'_>, found: &mut Found<'_>) -> Progress {
    if !side.from_client {
        return Progress::Done;
    }
    while let Some(unread) = side.unread() {
        match line(unread) {
            Ok(Some(line)) => {
                if let Some(address) = port_address(line) {
                    found.add(keywords::PORT, &address.octets());
                }
                side.skip(line.len());
            }
            Ok(None) => return Progress::More,
            Err(TooLong) => return Progress::Done,
        }
    }
    Progress::Done
}
