//! Owns: FTP's data connections: the file that one brings, and what the control connection said of it.
//! Does not: know which connection that is (the control connection's reader does).

use super::keywords;
use crate::protocol::dialog::{self, Frame, MAX_MESSAGE, Talk, Talking};
use crate::protocol::{Definition, Found, Reader, Recognition, Value};

pub(in crate::protocol) const DEFINITION: Definition = Definition {
    name: "ftp-data",
    rule_names: &["ftp-data"],
    keywords: keywords::DATA_KEYWORDS,
    // Only the control connection tells.
    recognition: Recognition::FirstBytes(|_, _| false),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::FtpData(State::new(b"", b"")),
        frame,
        read,
        announce: Some(announce),
        end: Some(end),
    })),
    datagram: None,
    events: None,
};

/// Bytes that are looked at again with what follows.
const WINDOW: usize = 2560;
/// Bytes of a name that are kept.
const MAX_NAME: usize = 96;
/// The exchange of the file.
const FILE: u32 = 1;

/// What is kept of a data connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    command: [u8; 4],
    name: [u8; MAX_NAME],
    len: u8,
    /// Bytes of the file before the window, of each side, and all.
    before: [u64; 2],
    size: [u64; 2],
}

impl State {
    /// A file that this command moves; of its name the end is kept.
    pub(crate) fn new(command: &[u8], name: &[u8]) -> Self {
        let mut this = Self { command: [0; 4], name: [0; MAX_NAME], len: 0, before: [0; 2], size: [0; 2] };
        this.command.iter_mut().zip(command).for_each(|(place, byte)| *place = byte.to_ascii_uppercase());
        let name = &name[name.len().saturating_sub(MAX_NAME)..];
        this.name[..name.len()].copy_from_slice(name);
        this.len = name.len() as u8;
        this
    }

    fn put(&self, found: &mut Found<'_>) {
        found.add(keywords::COMMAND, &self.command);
        found.add_filled(keywords::FILE_NAME, &self.name[..usize::from(self.len)]);
    }
}

/// What is known before the first byte: command and name.
fn announce(talking: &mut Talking<'_>, found: &mut Found<'_>) {
    talking.ask(FILE, b"");
    if let dialog::State::FtpData(state) = talking.state {
        state.put(found);
    }
}

/// Whatever has come is looked at at once.
fn frame(_state: &dialog::State, _side: usize, bytes: &[u8]) -> Frame {
    Frame::Message(bytes.len().clamp(1, MAX_MESSAGE - WINDOW))
}

/// The file is over, if this side has sent one: on its place are its command and name.
fn end(talking: &mut Talking<'_>, is_whole: bool, found: &mut Found<'_>) {
    let side = talking.side;
    let dialog::State::FtpData(state) = talking.state else { return };
    // Once.
    let size = std::mem::take(&mut state.size[side]);
    if size == 0 {
        return;
    }
    state.put(found);
    found.file_size(size);
    found.file_is_over(is_whole);
    let say = |at: usize, out: &mut Value<'_>| {
        if at == side {
            [&state.command[..], b" ", &state.name[..usize::from(state.len)]].iter().for_each(|part| out.push(part));
        }
    };
    found.tell(true, [&mut |out| say(0, out), &mut |out| say(1, out)]);
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let mut window = talking.take_scratch();
    talking.copy_kept(&mut window);
    window.extend_from_slice(bytes);
    let side = talking.side;
    if let dialog::State::FtpData(state) = talking.state {
        state.put(found);
        state.size[side] += bytes.len() as u64;
        found.file_size(state.size[side]);
        found.build(keywords::FILE, state.before[side], |out| out.push(&window));
        state.before[side] += window.len().saturating_sub(WINDOW) as u64;
    }
    talking.drop_kept();
    talking.keep(&window[window.len().saturating_sub(WINDOW)..]);
    talking.give_scratch(window);
    // What matched in the file is not told again.
    talking.goes_on(FILE);
    true
}
