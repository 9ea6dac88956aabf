//! SIP (RFC 3261) over UDP: the first line of each message.
//!
//! Owns the definition; lines are `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

use keywords as buffer;
pub use parser::{FirstLine, first_line};

use super::{Definition, Found, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "sip",
    rule_names: &["sip"],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::Ports(&[5060, 5061], |bytes| first_line(bytes).is_some()),
    stream: None,
    datagram: Some(datagram),
    events: None,
};

fn datagram(payload: &[u8], _from_client: bool, found: &mut Found<'_>) {
    match first_line(payload) {
        Some((line, FirstLine::Request { method, uri, protocol })) => {
            found.add(buffer::REQUEST_LINE, line);
            found.add(buffer::METHOD, method);
            found.add(buffer::URI, uri);
            found.add(buffer::PROTOCOL, protocol);
        }
        Some((line, FirstLine::Response { protocol, code, message })) => {
            found.add(buffer::RESPONSE_LINE, line);
            found.add(buffer::PROTOCOL, protocol);
            found.add(buffer::STATUS, code);
            found.add(buffer::STATUS_MESSAGE, message);
        }
        None => {}
    }
}
