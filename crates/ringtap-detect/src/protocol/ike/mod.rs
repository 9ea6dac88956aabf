//! IKE (RFC 2409, RFC 7296) over UDP: who begins with whom, what is offered, chosen and exchanged before it is encrypted.
//!
//! Owns the definition; messages are `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

use keywords as buffer;
pub use parser::{Attribute, Header, Payload, chosen, header, payloads};

use super::{Definition, Found, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "ike",
    rule_names: &["ike", "ikev2"],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::Ports(&[500], |bytes| header(bytes).is_some()),
    stream: None,
    datagram: Some(datagram),
    events: None,
};

fn datagram(payload: &[u8], from_client: bool, found: &mut Found<'_>) {
    let Some(header) = header(payload) else { return };
    // Each side's own index, as text.
    let (number, index) =
        if from_client { (buffer::INITIATOR, header.initiator) } else { (buffer::RESPONDER, header.responder) };
    put_hex(number, index, found);
    found.add(buffer::EXCHANGE, &[header.exchange]);
    for Payload { kind, body } in payloads(&header) {
        match (header.version, kind) {
            (1, parser::KEY_EXCHANGE) => {
                found.add(buffer::KEY, body);
                found.add(buffer::KEY_LENGTH, &(body.len() as u32).to_be_bytes());
            }
            (1, parser::NONCE) => {
                found.add(buffer::NONCE, body);
                found.add(buffer::NONCE_LENGTH, &(body.len() as u32).to_be_bytes());
            }
            (1, parser::VENDOR) if from_client => put_hex(buffer::VENDOR, body, found),
            // What a server answers with is what it has chosen.
            (version, kind) if kind == parser::association(version) && !from_client => {
                chosen(version, body, |Attribute { kind, value }| {
                    let [a, b, c, d] = value.to_be_bytes();
                    found.add(buffer::CHOSEN, &[kind, a, b, c, d]);
                });
            }
            _ => {}
        }
    }
}

fn put_hex(number: u8, bytes: &[u8], found: &mut Found<'_>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    found.build(number, 0, |out| {
        for byte in bytes {
            out.push(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    });
}
