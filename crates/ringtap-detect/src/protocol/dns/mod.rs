//! DNS (RFC 1035): the names that queries ask for, over UDP and TCP.
//!
//! Owns the definition and the framing over TCP; the message is `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

pub use parser::queries;

use super::{Definition, Found, Progress, Recognition, Side};

pub(super) const DEFINITION: Definition = Definition {
    name: "dns",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::Ports(&[53]),
    stream: Some(stream),
    datagram: Some(datagram),
};

fn datagram(payload: &[u8], found: &mut Found<'_>) {
    queries(payload, |name| found.add(keywords::QUERY, name));
}

/// Messages behind their length (RFC 1035 §4.2.2); one longer than the bytes that are kept is not put together.
fn stream(side: &mut Side<'_>, found: &mut Found<'_>) -> Progress {
    while let Some(unread) = side.unread() {
        let Some((&length, rest)) = unread.split_first_chunk::<2>() else { return Progress::More };
        let Some(message) = rest.get(..usize::from(u16::from_be_bytes(length))) else { return Progress::More };
        datagram(message, found);
        side.skip(2 + message.len());
    }
    Progress::Done
}
