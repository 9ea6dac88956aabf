//! DCE/RPC, connection-oriented (C706, MS-RPCE) over TCP.
//!
//! Owns the definition; how units become values is `session.rs`'s, as SMB carries the same; units are `parser.rs`'s, the names in rules are
//! `keywords.rs`'s.

mod keywords;
mod parser;
mod session;

pub(crate) use keywords::{iface, opnum};
pub use parser::{Unit, UnitHeader, header, unit};
pub(crate) use session::{Buffers, State, hear};

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Found, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "dcerpc",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| parser::begins(bytes)),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Dcerpc(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: None,
};

fn frame(_state: &dialog::State, _side: usize, bytes: &[u8]) -> Frame {
    match header(bytes) {
        Some(Some(header)) => Frame::Message(header.len),
        Some(None) => Frame::Lost,
        None => Frame::Incomplete,
    }
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let dialog::State::Dcerpc(state) = talking.state else { return false };
    let mut now = *state;
    let buffers = Buffers { iface: keywords::IFACE, opnum: keywords::OPNUM, stub: keywords::STUB };
    let is_heard = hear(&mut now, talking, bytes, &buffers, found);
    if let dialog::State::Dcerpc(state) = talking.state {
        *state = now;
    }
    is_heard
}
