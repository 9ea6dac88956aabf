//! SSH (RFC 4253), as far as it is not encrypted: banners and the algorithms that each side offers.
//!
//! Owns the definition; banner and offers are `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

use keywords as buffer;
pub use parser::{Banner, Offers, banner, offers};

use super::dialog::{self, Frame, Talk, Talking};
use super::tls::md5_hex;
use super::{Definition, Found, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "ssh",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| bytes.starts_with(parser::PREFIX)),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Ssh(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: None,
};

/// How far each side is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State([Phase; 2]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Banner,
    Packets,
    /// Nothing more is asked for.
    Over,
}

/// Longest packet (§6.1).
const MAX_PACKET: usize = 35_000;

fn frame(state: &dialog::State, side: usize, bytes: &[u8]) -> Frame {
    let dialog::State::Ssh(State(phases)) = state else { return Frame::Lost };
    match phases[side] {
        Phase::Banner => match bytes.iter().take(parser::MAX_LINE + 1).position(|&byte| byte == b'\n') {
            Some(end) => Frame::Message(end + 1),
            None if bytes.len() <= parser::MAX_LINE => Frame::Incomplete,
            None => Frame::Lost,
        },
        Phase::Packets => match bytes.first_chunk().map(|&len| u32::from_be_bytes(len) as usize) {
            Some(len @ 1..=MAX_PACKET) => Frame::Message(4 + len),
            Some(_) => Frame::Lost,
            None => Frame::Incomplete,
        },
        Phase::Over => Frame::Lost,
    }
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let side = talking.side;
    let dialog::State::Ssh(State(phases)) = talking.state else { return false };
    if phases[side] == Phase::Banner {
        // Servers may say other lines before.
        let Banner::Line { protocol, software } = banner(bytes) else { return false };
        phases[side] = Phase::Packets;
        let is_known = !phases.contains(&Phase::Banner);
        found.add(buffer::PROTOCOL, protocol);
        found.add(buffer::SOFTWARE, software);
        talking.note(side, bytes);
        talking.tell_noted(is_known, [0, 1], found);
        return true;
    }
    let Some(offers) = offers(bytes) else { return false };
    phases[side] = Phase::Over;
    let is_over = *phases == [Phase::Over; 2];
    talking.tell_noted(false, [0, 1], found);
    if is_over {
        (0..2).for_each(|side| talking.drop_noted(side));
    }
    let (string, hash) =
        [(buffer::HASSH_STRING, buffer::HASSH), (buffer::HASSH_SERVER_STRING, buffer::HASSH_SERVER)][side];
    let mut digest = [0; 32];
    found.build(string, 0, |out| {
        for (place, list) in offers.of_side(side).into_iter().enumerate() {
            if place > 0 {
                out.push(b";");
            }
            out.push(list);
        }
        digest = md5_hex(out.bytes());
    });
    found.add(hash, &digest);
    true
}
