//! DNS (RFC 1035): the names that queries ask for, over UDP and TCP; for records also what is answered.
//!
//! Owns the definition and the framing over TCP; the question is `parser.rs`'s, whole messages are `message.rs`'s, the names in rules
//! are `keywords.rs`'s.

mod keywords;
mod message;
mod parser;

pub use message::{Answer, Data, Message, Question, message};
pub use parser::queries;
use parser::{HEADER, MAX_NAME, MAX_QUESTIONS, is_header};

use super::{Definition, Found, Progress, Reader, Recognition, Side};

pub(super) const DEFINITION: Definition = Definition {
    name: "dns",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::Ports(&[53], is_first_message),
    stream: Some(Reader::Values(stream)),
    datagram: Some(|payload, _from_client, found| read(payload, found)),
    events: None,
};

/// Values of one message: opcode, answer, questions.
const MAX_VALUES: usize = 2 + MAX_QUESTIONS as usize;

fn read(payload: &[u8], found: &mut Found<'_>) {
    if let Some([_, _, first, second]) = payload.first_chunk::<4>().filter(|_| payload.len() >= HEADER) {
        found.tell(true, [&mut |out| out.push(payload), &mut |_| {}]);
        found.add(keywords::OPCODE, &[first >> 3 & 15]);
        if first & 0x80 != 0 {
            found.add(keywords::RCODE, &[second & 15]);
        }
    }
    queries(payload, |name| found.add(keywords::QUERY, name));
}

/// Whether a stream begins with a length and a header.
fn is_first_message(stream: &[u8]) -> bool {
    let Some((&length, message)) = stream.split_first_chunk::<2>() else { return false };
    usize::from(u16::from_be_bytes(length)) >= HEADER && is_header(message)
}

/// Messages behind their length (RFC 1035 §4.2.2). One is read as soon as its questions are there: what follows may be long.
fn stream(side: &mut Side<'_>, found: &mut Found<'_>) -> Progress {
    while let Some(unread) = side.unread() {
        let Some((&length, rest)) = unread.split_first_chunk::<2>() else { return Progress::More };
        let length = usize::from(u16::from_be_bytes(length));
        let message = &rest[..length.min(rest.len())];
        if !found.has_room(MAX_VALUES, message.len() + MAX_VALUES * MAX_NAME) {
            return Progress::More;
        }
        if message.len() < length && !queries(message, |_| {}) {
            return Progress::More;
        }
        read(message, found);
        side.skip(2 + length);
    }
    Progress::Done
}
