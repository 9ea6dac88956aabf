//! FTP (RFC 959): the client's PORT commands, and the files that data connections bring.
//!
//! Owns the definition of the control connection, and which data connection it announces; command lines are `parser.rs`'s, what is
//! read of a data connection `data.rs`'s, the names in rules `keywords.rs`'s.

mod data;
mod keywords;
mod parser;

pub(super) use data::DEFINITION as DATA;
pub(crate) use data::State as DataState;
pub use parser::{
    TooLong, extended_port, host_port, is_command, is_final, is_reply, line, passive_port, port_address, transfer,
};

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Expected, Found, Place, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "ftp",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(is_command),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Ftp(State::default()),
        frame,
        read,
        announce: None,
        end: Some(end),
    })),
    datagram: None,
    events: None,
};

/// Data connections that one control connection announces at one time: the oldest announcement is taken back for another one.
const ANNOUNCED: usize = 16;

/// Bytes of commands that wait for their replies, of which records tell.
const WAITING: usize = 2048;

/// Commands without a reply that are told at the end.
const UNANSWERED: usize = 16;

/// What is kept of a control connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Where the next data connection is taken.
    offer: Option<Place>,
    /// The client has asked for TLS (RFC 4217), and waits.
    wants_tls: bool,
    /// The server speaks FTP, too. Whatever its client says, one of another protocol announces nothing.
    has_replied: bool,
    /// Commands behind those that are noted: there was no room for them.
    unnoted: u32,
    /// What was announced, the oldest first.
    announced: [Option<Place>; ANNOUNCED],
}

impl State {
    /// Notes an announcement; the one that is taken back for it.
    fn announce(&mut self, place: Place) -> Option<Place> {
        let at = self.announced.iter().position(|known| *known == Some(place)).unwrap_or(0);
        self.announced[at..].rotate_left(1);
        self.announced[ANNOUNCED - 1].replace(place).filter(|oldest| *oldest != place)
    }
}

/// Lines; one that is too long is nobody's.
fn frame(_state: &dialog::State, _side: usize, bytes: &[u8]) -> Frame {
    match line(bytes) {
        Ok(Some(line)) => Frame::Message(line.len()),
        Ok(None) => Frame::Incomplete,
        Err(TooLong) => Frame::Skip(memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1)),
    }
}

/// A command waits for its reply.
fn note_command(talking: &mut Talking<'_>, line: &[u8]) {
    let has_room = talking.noted_len(0) < WAITING;
    let dialog::State::Ftp(state) = talking.state else { return };
    if state.unnoted > 0 || !has_room {
        state.unnoted = state.unnoted.saturating_add(1);
    } else {
        talking.note(0, line.trim_ascii_end());
        talking.note(0, b"\n");
    }
}

/// A line of a reply; the last one of it ends the exchange with the oldest command.
fn note_reply(talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) {
    talking.note(1, line.trim_ascii_end());
    talking.note(1, b"\n");
    if is_final(line) {
        let is_noted = talking.noted_len(0) > 0;
        talking.tell_first(found);
        if let dialog::State::Ftp(state) = talking.state
            && !is_noted
        {
            state.unnoted = state.unnoted.saturating_sub(1);
        }
    }
}

/// Commands that were not answered to the end of the connection.
fn end(talking: &mut Talking<'_>, _is_whole: bool, found: &mut Found<'_>) {
    if talking.side == 1 {
        for _ in 0..UNANSWERED {
            if talking.noted_len(0) > 0 {
                talking.tell_first(found);
            }
        }
        talking.drop_noted(0);
    }
}

fn read(talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    let dialog::State::Ftp(state) = talking.state else { return false };
    if talking.side == 1 {
        state.has_replied |= is_reply(line);
        if let Some(port) = passive_port(line) {
            state.offer = Some(Place { by_server: true, port });
        }
        if is_final(line) && std::mem::take(&mut state.wants_tls) && line.starts_with(b"234") {
            found.upgrade(&super::tls::DEFINITION);
        }
        note_reply(talking, line, found);
        return false;
    }
    state.wants_tls = line.trim_ascii_end().eq_ignore_ascii_case(b"AUTH TLS");
    note_command(talking, line);
    let dialog::State::Ftp(state) = talking.state else { return false };
    if let Some(port) = extended_port(line) {
        state.offer = Some(Place { by_server: false, port });
    }
    if let Some((address, port)) = port_address(line) {
        state.offer = Some(Place { by_server: false, port });
        found.add(keywords::PORT, &address.octets());
        return true;
    }
    let Some((command, name)) = transfer(line).filter(|_| state.has_replied) else { return false };
    // Each data connection is announced by itself.
    let Some(place) = state.offer.take() else { return false };
    found.expect(Expected {
        app: super::App::of_definition(&DATA),
        place,
        instead_of: state.announce(place),
        state: dialog::State::FtpData(DataState::new(command, name)),
    });
    true
}
