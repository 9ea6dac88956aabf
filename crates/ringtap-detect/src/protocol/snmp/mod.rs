//! SNMP (RFC 3416, RFC 3414) over UDP: version, community or user, and what a message is for.
//!
//! Owns the definition; messages are `parser.rs`'s, the names in rules are `keywords.rs`'s. `ringtap-snmp` reads them whole, which rules do
//! not ask for.

mod keywords;
mod parser;

use keywords as buffer;
pub use parser::{Message, message};

use super::{Definition, Found, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "snmp",
    rule_names: &["snmp"],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::Ports(&[161, 162], |bytes| message(bytes).is_some()),
    stream: None,
    datagram: Some(datagram),
    events: None,
};

fn datagram(payload: &[u8], _from_client: bool, found: &mut Found<'_>) {
    let Some(message) = message(payload) else { return };
    found.add(buffer::VERSION, &[message.version]);
    if let Some(community) = message.community {
        found.add(buffer::COMMUNITY, community);
    }
    if let Some(user) = message.user {
        found.add(buffer::USER, user);
    }
    if let Some(pdu) = message.pdu {
        found.add(buffer::PDU, &[pdu]);
    }
}
