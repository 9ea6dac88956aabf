//! RFB, the protocol of VNC (RFC 6143): the handshake, and the name of the desktop.
//!
//! Owns the definition and how far each side is; the names in rules are `keywords.rs`'s.

mod keywords;

use keywords as buffer;

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Found, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "rfb",
    rule_names: &["rfb"],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| version(bytes).is_some()),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Rfb(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: None,
};

/// A version's message: `RFB 003.008` and a line feed.
const VERSION: usize = 12;
/// Security types (§7.1.2, §7.2).
const NO_AUTHENTICATION: u32 = 1;
const VNC_AUTHENTICATION: u32 = 2;
/// The desktop's size, form of pixels and the length of its name (§7.3.2).
const INIT: usize = 24;
/// Longest name or reason that is read.
const MAX_TEXT: usize = 4096;

/// What a side's next message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Version,
    /// Of the server: the types it offers, or the one it has chosen. Of the client: its choice.
    Security,
    /// Challenge and response.
    Challenge,
    /// Whether the client is let in.
    Result,
    /// What both want.
    Init,
    /// Pictures and keys.
    Over,
}

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    phases: [Phase; 2],
    /// Minor version that the client takes; 0 before.
    minor: u8,
    /// Security type; 0 before.
    kind: u32,
}

/// The minor version of a version's message.
fn version(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"RFB 003.00")?;
    matches!(digits, [b'0'..=b'9', b'\n', ..]).then(|| digits[0] - b'0')
}

impl State {
    /// The server's phase: behind its security types it depends on what the client has chosen.
    fn server_phase(&self) -> Phase {
        match (self.phases[1], self.kind) {
            (Phase::Challenge, NO_AUTHENTICATION) if self.minor < 8 => Phase::Init,
            (Phase::Challenge, NO_AUTHENTICATION) => Phase::Result,
            (phase, _) => phase,
        }
    }
}

fn frame(state: &dialog::State, side: usize, bytes: &[u8]) -> Frame {
    let dialog::State::Rfb(state) = state else { return Frame::Lost };
    let phase = if side == 1 { state.server_phase() } else { state.phases[0] };
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    match (phase, side) {
        (Phase::Version, _) => Frame::Message(VERSION),
        (Phase::Security, 1) if state.minor < 7 => Frame::Message(4),
        (Phase::Security, 1) => match bytes.first() {
            Some(0) | None => Frame::Lost,
            Some(&count) => Frame::Message(1 + usize::from(count)),
        },
        (Phase::Security, _) => Frame::Message(1),
        (Phase::Challenge, _) if state.kind == VNC_AUTHENTICATION => Frame::Message(16),
        (Phase::Result, 1) => Frame::Message(4),
        (Phase::Init, 1) => match number(INIT - 4) {
            Some(len) if len <= MAX_TEXT => Frame::Message(INIT + len),
            Some(_) => Frame::Lost,
            None => Frame::Incomplete,
        },
        _ => Frame::Lost,
    }
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let side = talking.side;
    let dialog::State::Rfb(state) = talking.state else { return false };
    let phase = if side == 1 { state.server_phase() } else { state.phases[0] };
    let is_vnc = |kind: u32| kind == VNC_AUTHENTICATION;
    let (next, has_found) = match (phase, side) {
        (Phase::Version, 0) => {
            state.minor = version(bytes).unwrap_or(3);
            let kind_is_known = state.minor < 7 && state.kind > 0;
            (if kind_is_known { Phase::Challenge } else { Phase::Security }, false)
        }
        (Phase::Version, _) => (Phase::Security, false),
        // The old way: the server has chosen.
        (Phase::Security, 1) if state.minor < 7 => {
            state.kind = bytes.iter().fold(0, |kind, &byte| kind << 8 | u32::from(byte));
            state.phases[0] = Phase::Challenge;
            found.add(buffer::SECURITY, &state.kind.to_be_bytes());
            (Phase::Challenge, true)
        }
        (Phase::Security, 1) => (Phase::Challenge, false),
        (Phase::Security, _) => {
            state.kind = bytes.first().copied().unwrap_or(0).into();
            found.add(buffer::SECURITY, &state.kind.to_be_bytes());
            (if is_vnc(state.kind) { Phase::Challenge } else { Phase::Over }, true)
        }
        (Phase::Challenge, 1) => (Phase::Result, false),
        (Phase::Challenge, _) => (Phase::Over, false),
        (Phase::Result, _) => {
            found.add(buffer::RESULT, bytes);
            let is_in = bytes.iter().all(|&byte| byte == 0);
            (if is_in { Phase::Init } else { Phase::Over }, true)
        }
        (Phase::Init, _) => {
            found.add(buffer::NAME, bytes.get(INIT..).unwrap_or_default());
            (Phase::Over, true)
        }
        (Phase::Over, _) => (Phase::Over, false),
    };
    state.phases[side] = next;
    has_found
}
