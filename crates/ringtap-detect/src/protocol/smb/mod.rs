//! SMB (MS-CIFS, MS-SMB2) over TCP: shares and pipes, files that are written or read, and the calls of DCE/RPC in pipes.
//!
//! Owns the definition and what is kept of a connection; messages are `first.rs`'s (SMB 1) and `second.rs`'s (SMB 2 and 3), the names
//! in rules are `keywords.rs`'s.

mod first;
mod keywords;
mod second;

use keywords as buffer;

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Found, Reader, Recognition, dcerpc};

pub(super) const DEFINITION: Definition = Definition {
    name: "smb",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(is_smb),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Smb(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: Some(buffer::EVENT),
};

/// Bytes of the length before each message (MS-SMB2 §2.1).
const LENGTH: usize = 4;
/// Trees that are pipes, and files, of which is known what they are.
const TREES: usize = 8;
const FILES: usize = 8;
/// Wishes of either kind that wait for their answers.
const WISHES: usize = 4;
/// Bytes of a file's name that are kept.
const MAX_NAME: usize = 64;

/// What is kept of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    calls: dcerpc::State,
    /// Trees that are pipes; 0: none here.
    pipes: [u32; TREES],
    next_pipe: u8,
    /// Numbers of messages that want a pipe's tree, plus one; 0: none here.
    wants_pipe: [u64; WISHES],
    next_pipe_wish: u8,
    files: [File; FILES],
    next_file: u8,
    /// Numbers of messages that want a file, plus one, and those files' names.
    wants_file: [(u64, Name); WISHES],
    next_file_wish: u8,
    /// Number of the message that wrote over what was written before, plus one.
    has_overlap: u64,
}

/// The end of a file's name, in bytes of one letter each.
#[derive(Clone, Copy, Debug)]
struct Name {
    text: [u8; MAX_NAME],
    len: u8,
}

impl Default for Name {
    fn default() -> Self {
        Self { text: [0; MAX_NAME], len: 0 }
    }
}

impl Name {
    fn new(name: &[u8], is_wide: bool) -> Self {
        let mut this = Self::default();
        let width = if is_wide { 2 } else { 1 };
        let end = name.chunks(width).position(|letter| letter.iter().all(|&byte| byte == 0));
        let name = &name[..end.map_or(name.len(), |end| end * width)];
        let name = &name[name.len().saturating_sub(MAX_NAME * width).next_multiple_of(width).min(name.len())..];
        for (place, letter) in this.text.iter_mut().zip(letters(name, width)) {
            *place = letter;
            this.len += 1;
        }
        this
    }

    fn bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

/// Letters of a name, each as one byte.
fn letters(name: &[u8], width: usize) -> impl Iterator<Item = u8> {
    name.chunks(width).map(|letter| if letter.len() == 1 || letter[1] == 0 { letter[0] } else { b'?' })
}

/// An open file.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    number: u64,
    /// Where the next bytes are expected that are written.
    next: u64,
    name: Name,
}

impl State {
    fn file(&mut self, number: u64) -> &mut File {
        let known = self.files.iter().position(|file| file.number == number && file.number != 0);
        let place = known.unwrap_or_else(|| {
            let place = usize::from(self.next_file);
            self.next_file = (self.next_file + 1) % FILES as u8;
            self.files[place] = File { number, ..File::default() };
            place
        });
        &mut self.files[place]
    }

    /// A client wants a file.
    fn opens(&mut self, message: u64, name: &[u8], is_wide: bool) {
        self.wants_file[usize::from(self.next_file_wish)] = (message.wrapping_add(1), Name::new(name, is_wide));
        self.next_file_wish = (self.next_file_wish + 1) % WISHES as u8;
    }

    /// A server has given a number to the file that was wanted.
    fn opened(&mut self, message: u64, number: u64) {
        let wish = self.wants_file.iter_mut().find(|(wish, _)| *wish != 0 && *wish == message.wrapping_add(1));
        if let Some((_, name)) = wish.map(std::mem::take) {
            *self.file(number) = File { number, next: 0, name };
        }
    }

    fn is_pipe(&self, tree: u32) -> bool {
        // A place without a pipe is 0: the tree of all ones, which related requests name, is none.
        tree.checked_add(1).is_some_and(|number| self.pipes.contains(&number))
    }

    /// A server has given a tree to the message that has asked for it.
    fn connected(&mut self, message: u64, tree: u32) {
        // A number that a pipe had is given again.
        self.disconnected(tree);
        let wish = self.wants_pipe.iter_mut().find(|wish| **wish != 0 && **wish == message.wrapping_add(1));
        if let Some(wish) = wish {
            *wish = 0;
            self.pipes[usize::from(self.next_pipe)] = tree.wrapping_add(1);
            self.next_pipe = (self.next_pipe + 1) % TREES as u8;
        }
    }

    /// A server has taken a tree away.
    fn disconnected(&mut self, tree: u32) {
        self.pipes.iter_mut().filter(|pipe| **pipe == tree.wrapping_add(1)).for_each(|pipe| *pipe = 0);
    }

    /// A client writes; whether over what it has written before.
    fn writes(&mut self, file: u64, offset: u64, len: usize) -> bool {
        let file = self.file(file);
        let is_over = offset < file.next;
        file.next = file.next.max(offset.saturating_add(len as u64));
        is_over
    }
}

/// Whether bytes begin like a message of any version, behind its length; or like the session that NetBIOS asks for before
/// (RFC 1002 §4.3), on its port.
fn is_smb(bytes: &[u8], ports: (u16, u16)) -> bool {
    const NETBIOS: u16 = 139;
    match bytes {
        [0, _, _, _, 0xfd..=0xff, b'S', b'M', b'B', ..] => true,
        [0x81, 0, 0, 68, ..] | [0x82, 0, 0, 0, ..] => ports.0 == NETBIOS || ports.1 == NETBIOS,
        _ => false,
    }
}

fn frame(_state: &dialog::State, _side: usize, bytes: &[u8]) -> Frame {
    let Some(&[kind, high, middle, low]) = bytes.first_chunk::<LENGTH>() else { return Frame::Incomplete };
    let len = LENGTH + u32::from_be_bytes([0, high, middle, low]) as usize;
    if kind == 0 { Frame::Message(len) } else { Frame::Skip(len) }
}

fn read(talking: &mut Talking<'_>, bytes: &[u8], found: &mut Found<'_>) -> bool {
    let dialog::State::Smb(state) = talking.state else { return false };
    let mut now = *state;
    let message = bytes.get(LENGTH..).unwrap_or_default();
    let found = match message.first() {
        Some(0xff) => first::read(&mut now, talking, message, found),
        Some(0xfe) => second::read(&mut now, talking, message, found),
        // Encrypted or compressed.
        _ => false,
    };
    if let dialog::State::Smb(state) = talking.state {
        *state = now;
    }
    found
}

/// What a message does with a tree's file.
struct Data<'m> {
    tree: u32,
    file: u64,
    /// Where it is written; `None` where it is read.
    offset: Option<u64>,
    message: u64,
    bytes: &'m [u8],
}

/// Bytes that are written or read: calls in a pipe, else a file's content. Whether rules may look.
fn transfer(state: &mut State, talking: &mut Talking<'_>, data: &Data<'_>, found: &mut Found<'_>) -> bool {
    if state.is_pipe(data.tree) {
        let buffers = dcerpc::Buffers { iface: buffer::IFACE, opnum: buffer::OPNUM, stub: buffer::STUB };
        return dcerpc::hear(&mut state.calls, talking, data.bytes, &buffers, found);
    }
    found.add_filled(buffer::FILE, data.bytes);
    if data.file != 0 {
        found.add_filled(buffer::FILE_NAME, state.file(data.file).name.bytes());
    }
    if let Some(offset) = data.offset
        && state.writes(data.file, offset, data.bytes.len())
    {
        state.has_overlap = data.message.wrapping_add(1);
        found.add(buffer::EVENT, b"file_overlap");
    }
    true
}

/// A client wants a tree.
fn connect(state: &mut State, message: u64, name: &[u8], is_wide: bool, found: &mut Found<'_>) {
    let width = if is_wide { 2 } else { 1 };
    // The share of pipes has this name, whatever its host.
    let last: [u8; 4] = std::array::from_fn(|at| {
        let from = name.len().checked_sub((4 - at) * width);
        from.and_then(|from| name.get(from)).copied().unwrap_or(0)
    });
    let is_pipe = last.eq_ignore_ascii_case(b"IPC$");
    if is_pipe {
        state.wants_pipe[usize::from(state.next_pipe_wish)] = message.wrapping_add(1);
        state.next_pipe_wish = (state.next_pipe_wish + 1) % WISHES as u8;
    }
    found.build(if is_pipe { buffer::NAMED_PIPE } else { buffer::SHARE }, 0, |out| {
        letters(name, width).for_each(|letter| out.push(&[letter]));
    });
}

/// The number of `N` bytes at `at`, the least significant first.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk::<N>()?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        assert!(is_smb(b"\0\0\x01\x02\xfeSMB@", (9, 445)) && is_smb(b"\0\0\x01\x02\xffSMBr", (9, 9)));
        assert!(!is_smb(b"\0\0\x01\x02SMB\xff", (9, 445)) && !is_smb(b"\0\0\x01\x02\xffSM", (9, 445)));
        // Related requests name the tree of all ones (MS-SMB2 §2.2.1.2).
        assert!(!State::default().is_pipe(u32::MAX));
        // A session of NetBIOS first.
        assert!(is_smb(b"\x81\0\0\x44 CK", (9, 139)) && is_smb(b"\x82\0\0\0", (139, 9)));
        assert!(!is_smb(b"\x81\0\0\x44 CK", (9, 445)));
    }

    #[test]
    fn wishes_wait_beside_each_other_and_trees_go() {
        let (mut state, mut values) = (State::default(), crate::protocol::Values::new());
        let mut found = Found::new(crate::protocol::App::of_definition(&DEFINITION), &mut values);
        for message in [1, 2] {
            connect(&mut state, message, br"\\h\IPC$", false, &mut found);
            state.opens(message, b"file", false);
        }
        state.connected(1, 7);
        state.connected(2, 8);
        state.opened(1, 70);
        state.opened(2, 80);
        assert!(state.is_pipe(7) && state.is_pipe(8));
        assert!([70, 80].into_iter().all(|number| state.file(number).name.bytes() == b"file"));
        state.disconnected(7);
        assert!(!state.is_pipe(7) && state.is_pipe(8));
        // The number of a pipe's tree is a share's now.
        state.connected(3, 8);
        assert!(!state.is_pipe(8));
    }

    #[test]
    fn overlaps() {
        let mut state = State::default();
        assert!(!state.writes(7, 0, 10) && !state.writes(8, 0, 10) && !state.writes(7, 10, 5));
        assert!(state.writes(7, 14, 5) && !state.writes(7, 19, 1));
    }
}
