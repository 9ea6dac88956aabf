//! SMTP (RFC 5321) and the files in messages (MIME, RFC 2045).
//!
//! Owns the definition, and where in a session each side is; messages are `mime.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod mime;

use keywords as buffer;

use super::dialog::{self, Frame, Talk, Talking};
use super::{Definition, Found, Reader, Recognition};
use mime::{Event, Mime};

pub(super) const DEFINITION: Definition = Definition {
    name: "smtp",
    rule_names: &["smtp"],
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(is_smtp),
    stream: Some(Reader::Messages(&Talk {
        begin: || dialog::State::Smtp(State::default()),
        frame,
        read,
        announce: None,
        end: None,
    })),
    datagram: None,
    events: Some(buffer::EVENT),
};

/// Longest line of a message, or of the server, that is waited for; RFC 5321 has 1,000 bytes.
const MAX_LINE: usize = 4096;
/// Longest command that is waited for: so much of one the most patient server reads (Exim).
const MAX_COMMAND: usize = 16 << 10;
/// The exchange of a file: its name, then its content.
const FILE: u32 = 1;

/// What is kept of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    mode: Mode,
    /// The server has not said yet whether it takes a message.
    is_asked: bool,
    /// The client has asked for TLS, and waits.
    wants_tls: bool,
    /// There are notes of the transaction, beside what the client has said of itself.
    has_notes: bool,
    /// The server has said something.
    has_greeted: bool,
    /// It has told the client that it takes messages in chunks.
    offers_chunking: bool,
    /// Commands without a reply, and how many of these are before the last DATA.
    waiting: u32,
    before_data: u32,
    /// A message comes in chunks; how many commands without a reply are before its last BDAT.
    is_chunked: bool,
    before_chunk: u32,
    /// So many bytes more are in the chunk to servers that read all of its size.
    beyond: u64,
    /// A chunk of it was refused: the next MAIL begins another one.
    is_refused: bool,
    /// It begins with what is in doubt: if that is none of it, it has not begun.
    begins_in_doubt: bool,
    /// The message's last line is not over: it was longer than [`MAX_LINE`].
    is_in_line: bool,
    /// The same of each side's last command or reply.
    is_cut: [bool; 2],
    /// Fields of the message itself come, none of its parts'.
    is_in_head: bool,
    /// The last of them is one that records have.
    is_noted: bool,
    /// Bytes of the file so far.
    file_size: u64,
    mime: Mime,
}

/// What a client's next bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Commands,
    /// A message, up to a line that is a dot.
    Data,
    /// So many bytes of one (RFC 3030), the last of it or not.
    Chunk(u64, bool),
    /// Behind what a server has read of a chunk that reads 32 bits of its size, the last one or not: a command, or more of it.
    Doubt(bool),
}

impl Mode {
    /// Whether a client's line is a command; what is in doubt, if it is one that there is.
    fn has_command(self, state: &State, line: &[u8]) -> bool {
        match self {
            Self::Commands => true,
            Self::Doubt(_) => !state.is_in_line && is_command(line),
            Self::Data | Self::Chunk(..) => false,
        }
    }
}

/// Where the notes of a transaction are kept: as of the other side, whose contents nobody keeps.
const NOTES: usize = 1;

/// What a note is, in its first byte; the rest is a line as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Note {
    /// A command: EHLO, HELO, MAIL FROM, RCPT TO.
    Command = b'>',
    /// A field of the message: From, To, Cc; or a line that goes on with one.
    Field = b':',
    /// The name of a file in it.
    File = b'=',
}

impl Note {
    fn put(self, line: &[u8], talking: &mut Talking<'_>) {
        talking.note(NOTES, &[self as u8]);
        talking.note(NOTES, line.trim_ascii_end());
        talking.note(NOTES, b"\n");
    }
}

/// The notes that a transaction's record has: what each is, and its line.
pub fn notes(told: &[u8]) -> impl Iterator<Item = (Note, &[u8])> {
    told.split(|&byte| byte == b'\n').filter_map(|line| {
        let (&kind, text) = line.split_first()?;
        let kind = [Note::Command, Note::Field, Note::File].into_iter().find(|note| *note as u8 == kind)?;
        Some((kind, text))
    })
}

/// A transaction is over, or begins anew: what the client has said of itself stays.
fn forget_notes(state: &mut State, talking: &mut Talking<'_>) {
    // Going over them takes more than the command that asks for it.
    if !std::mem::take(&mut state.has_notes) {
        return;
    }
    let mut all = talking.take_scratch();
    talking.noted(NOTES, &mut all);
    talking.drop_noted(NOTES);
    for (kind, line) in notes(&all) {
        if kind == Note::Command && (begins(line, b"EHLO ") || begins(line, b"HELO ")) {
            kind.put(line, talking);
        }
    }
    talking.give_scratch(all);
}

/// Whether these are a client's first words; or a server's, where the port says which of the protocols with such a greeting it is.
fn is_smtp(bytes: &[u8], ports: (u16, u16)) -> bool {
    const SERVERS: [u16; 3] = [25, 587, 2525];
    begins(bytes, b"EHLO ")
        || begins(bytes, b"HELO ")
        || (begins(bytes, b"220") && (SERVERS.contains(&ports.0) || SERVERS.contains(&ports.1)))
}

fn begins(line: &[u8], word: &[u8]) -> bool {
    line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn frame(state: &dialog::State, side: usize, bytes: &[u8]) -> Frame {
    let dialog::State::Smtp(state) = state else { return Frame::Lost };
    let is_command = side == 0 && state.mode.has_command(state, bytes);
    let most = if is_command { MAX_COMMAND } else { MAX_LINE };
    let line = match memchr::memchr(b'\n', &bytes[..bytes.len().min(most)]) {
        Some(end) => end + 1,
        None if bytes.len() < most => 0,
        None => most,
    };
    match state.mode {
        Mode::Chunk(left, _) if side == 0 => {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            match line {
                0 if bytes.len() >= left => Frame::Message(left),
                0 => Frame::Incomplete,
                line => Frame::Message(line.min(left)),
            }
        }
        _ if line == 0 => Frame::Incomplete,
        _ => Frame::Message(line),
    }
}

fn read(talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    let dialog::State::Smtp(state) = talking.state else { return false };
    let mut now = *state;
    let is_content = talking.side == 0 && !now.mode.has_command(&now, line);
    // What goes on with a line that was too long is no line of its own: one reply is to all of it, wherever it is read.
    let goes_on = now.is_cut[talking.side] || (!is_content && !line.ends_with(b"\n"));
    let was_cut = goes_on && std::mem::replace(&mut now.is_cut[talking.side], !line.ends_with(b"\n"));
    let has_found = match (talking.side, now.mode) {
        _ if was_cut => false,
        (1, _) => reply(&mut now, talking, line, found),
        (_, Mode::Commands) => command(&mut now, talking, line, found),
        (_, Mode::Data) => {
            let goes_on = std::mem::replace(&mut now.is_in_line, !line.ends_with(b"\n"));
            if !goes_on && matches!(line, b".\r\n" | b".\n") {
                now.mode = Mode::Commands;
                now.waiting = now.waiting.saturating_add(1);
                put(&mut now, talking, Event::End, found)
            } else {
                // A dot before is not the message's (RFC 5321 §4.5.2).
                let line = line.strip_prefix(b".").filter(|_| !goes_on).unwrap_or(line);
                message_line(&mut now, talking, line, found)
            }
        }
        (_, Mode::Chunk(left, is_last)) => chunk_line(&mut now, talking, line, (left, is_last), found),
        (_, Mode::Doubt(is_last)) if !is_content => {
            let any = end_chunk(&mut now, talking, is_last, found);
            command(&mut now, talking, line, found) || any
        }
        (_, Mode::Doubt(is_last)) if now.before_chunk == u32::MAX => {
            // It was answered before its end: all of it comes.
            let left = std::mem::take(&mut now.beyond);
            chunk_line(&mut now, talking, line, (left, is_last), found)
        }
        (_, Mode::Doubt(_)) => line_in_doubt(&mut now, talking, line, found),
    };
    if let dialog::State::Smtp(state) = talking.state {
        *state = now;
    }
    has_found
}

/// A line of a chunk, or the part of one that is in it: what the next chunk goes on with is put off until then.
fn chunk_line(
    state: &mut State,
    talking: &mut Talking<'_>,
    line: &[u8],
    (left, is_last): (u64, bool),
    found: &mut Found<'_>,
) -> bool {
    let left = left.saturating_sub(line.len() as u64);
    let is_cut = left == 0 && !line.ends_with(b"\n");
    // Where a line goes beyond its chunk the client and its server may not mean the same.
    if is_cut {
        found.add(buffer::EVENT, b"bdat_chunk_len_exceeded");
    }
    let is_last_for_all = is_last && state.beyond == 0;
    state.mode = match left {
        0 if state.beyond > 0 => Mode::Doubt(is_last),
        0 => Mode::Commands,
        left => Mode::Chunk(left, is_last),
    };
    let mut any = is_cut;
    if talking.put_off_len() + line.len() > MAX_LINE {
        any |= message_part(state, talking, b"", found);
    }
    if is_cut && !is_last {
        talking.put_off(line);
    } else {
        any |= message_part(state, talking, line, found);
    }
    if left == 0 && is_last_for_all {
        any |= put(state, talking, Event::End, found);
    } else if left == 0 && is_last && state.mime.is_in_file() {
        // Nothing may follow.
        talking.goes_on(FILE);
        any |= file(state, talking, found);
    }
    any
}

/// A line that is more of a chunk, or a command that nobody knows and the server answers. Where the message had begun before it is left
/// out: it would hide what the message goes on with.
fn line_in_doubt(state: &mut State, talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    let goes_on = std::mem::replace(&mut state.is_in_line, !line.ends_with(b"\n"));
    state.waiting = state.waiting.saturating_add(u32::from(!goes_on));
    state.begins_in_doubt && message_line(state, talking, line, found)
}

/// A chunk has ended without another line of it.
fn end_chunk(state: &mut State, talking: &mut Talking<'_>, is_last: bool, found: &mut Found<'_>) -> bool {
    (state.mode, state.beyond, state.is_in_line) = (Mode::Commands, 0, false);
    let began_in_doubt = std::mem::take(&mut state.begins_in_doubt);
    if !is_last {
        let any = began_in_doubt && state.mime.is_in_file() && put(state, talking, Event::FileEnds, found);
        if began_in_doubt {
            (state.mime, state.is_in_head, state.is_noted) = (Mime::default(), true, false);
        }
        return any;
    }
    let any = message_part(state, talking, b"", found);
    put(state, talking, Event::End, found) || any
}

/// Whether a line is one of the commands that there are (RFC 5321 §4.1, its extensions).
fn is_command(line: &[u8]) -> bool {
    const COMMANDS: [&[u8]; 15] = [
        b"BDAT",
        b"MAIL",
        b"RCPT",
        b"DATA",
        b"RSET",
        b"QUIT",
        b"NOOP",
        b"EHLO",
        b"HELO",
        b"VRFY",
        b"EXPN",
        b"HELP",
        b"AUTH",
        b"ETRN",
        b"STARTTLS",
    ];
    COMMANDS.iter().any(|command| begins(line, command))
}

/// A line behind what was put off of it, [`MAX_LINE`] bytes together at most.
fn message_part(state: &mut State, talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    if talking.put_off_len() == 0 {
        return !line.is_empty() && message_line(state, talking, line, found);
    }
    let mut whole = [0; MAX_LINE];
    let before = talking.take_put_off(&mut whole);
    let len = before + line.len().min(MAX_LINE - before);
    whole[before..len].copy_from_slice(&line[..len - before]);
    message_line(state, talking, &whole[..len], found)
}

/// A server's line: one that refuses a message ends it, and one that says yes to STARTTLS the session.
fn reply(state: &mut State, talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    let has_greeted = std::mem::replace(&mut state.has_greeted, true);
    let [Some(kind), last] = [line.first(), line.get(3)] else { return false };
    // The greeting answers nobody; lines that others follow are no reply yet (RFC 5321 §4.2.1).
    let is_whole = has_greeted && last != Some(&b'-');
    let words = line.get(4..).unwrap_or(&[]).trim_ascii();
    state.offers_chunking |= line.starts_with(b"250") && words.eq_ignore_ascii_case(b"CHUNKING");
    let answers_data = is_whole && state.is_asked && state.before_data == 0;
    let mut any = false;
    if let Mode::Doubt(is_last) = state.mode
        && is_whole
        && state.before_chunk == 0
    {
        // Who answers has all of it, of what the client said.
        let side = std::mem::replace(&mut talking.side, 0);
        any = end_chunk(state, talking, is_last, found);
        talking.side = side;
    }
    if is_whole {
        state.waiting = state.waiting.saturating_sub(1);
        // Who does not know the command, or its parameters, has no chunk come, nor who never offered it; others wait for its end
        // (RFC 3030 §2).
        let is_unknown = [b"500", b"501", b"502"].iter().any(|code| line.starts_with(*code))
            || (line.starts_with(b"503") && !state.offers_chunking);
        if state.before_chunk == 0 && is_unknown && matches!(state.mode, Mode::Chunk(..)) {
            state.mode = Mode::Commands;
        }
        state.is_refused |= state.before_chunk == 0 && state.is_chunked && matches!(kind, b'4' | b'5');
        // Once.
        for before in [&mut state.before_data, &mut state.before_chunk] {
            *before = before.checked_sub(1).unwrap_or(u32::MAX);
        }
    }
    if state.wants_tls && is_whole {
        if line.starts_with(b"220") {
            found.upgrade(&super::tls::DEFINITION);
            return false;
        }
        if matches!(kind, b'4' | b'5') {
            state.wants_tls = false;
            found.add(buffer::EVENT, b"tls_rejected");
            any = true;
        }
    }
    if answers_data && *kind != b'3' {
        found.add(buffer::EVENT, b"data_command_rejected");
        any = true;
    }
    if state.is_asked {
        match line.first() {
            // Other intermediate replies are to other commands, such as AUTH.
            Some(b'3') if line.starts_with(b"354") => (state.mode, state.is_asked) = (Mode::Data, false),
            // Of several commands sent together another one may be meant: the next line says.
            Some(b'4' | b'5') if state.mode == Mode::Data => state.mode = Mode::Commands,
            _ => {}
        }
    }
    any
}

fn command(state: &mut State, talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    let text = line.trim_ascii_end();
    state.waiting = state.waiting.saturating_add(1);
    // Those of the session, not of the message.
    let State { waiting, has_greeted, offers_chunking, wants_tls, has_notes, is_cut, .. } = *state;
    let session = State { waiting, has_greeted, offers_chunking, wants_tls, has_notes, is_cut, ..State::default() };
    if begins(text, b"DATA") {
        let before_data = state.waiting - 1;
        // Within a message in chunks it is refused (RFC 3030 §2).
        if state.is_chunked {
            (state.is_asked, state.before_data) = (true, before_data);
            return false;
        }
        *state = State { mode: Mode::Data, is_asked: true, before_data, is_in_head: true, ..session };
        return false;
    }
    if begins(text, b"STARTTLS") {
        state.wants_tls = true;
        return false;
    }
    if begins(text, b"RSET") {
        *state = session;
        talking.take_put_off(&mut []);
        forget_notes(state, talking);
        return false;
    }
    if begins(text, b"BDAT") {
        return chunk(state, talking, &text[4..], session, found);
    }
    let parameters: [(u8, &[u8]); 4] = [
        (buffer::HELO, b"EHLO "),
        (buffer::HELO, b"HELO "),
        (buffer::MAIL_FROM, b"MAIL FROM:"),
        (buffer::RCPT_TO, b"RCPT TO:"),
    ];
    let Some((number, word)) = parameters.into_iter().find(|(_, word)| begins(text, word)) else { return false };
    if number == buffer::HELO {
        // A message that has begun is given up (RFC 5321 §4.1.4); what is offered is said anew.
        *state = State { offers_chunking: false, has_notes: false, ..session };
        talking.take_put_off(&mut []);
        talking.drop_noted(NOTES);
    }
    if number == buffer::MAIL_FROM && state.is_refused {
        *state = session;
        talking.take_put_off(&mut []);
        forget_notes(state, talking);
    }
    state.has_notes |= number != buffer::HELO;
    Note::Command.put(text, talking);
    talking.tell_noted(false, [NOTES; 2], found);
    found.add(number, text[word.len()..].trim_ascii());
    true
}

/// BDAT with these parameters: so many bytes of the message follow (RFC 3030 §2).
fn chunk(
    state: &mut State,
    talking: &mut Talking<'_>,
    parameters: &[u8],
    session: State,
    found: &mut Found<'_>,
) -> bool {
    let Some((size, is_last)) = size(parameters) else { return false };
    let len = size & u64::from(u32::MAX);
    let is_first = !state.is_chunked;
    if is_first {
        *state = State { is_chunked: true, is_in_head: true, ..session };
    }
    state.before_chunk = state.waiting - 1;
    state.beyond = size - len;
    state.is_in_line = false;
    match len {
        0 if state.beyond > 0 => {
            (state.mode, state.begins_in_doubt) = (Mode::Doubt(is_last), is_first);
            false
        }
        0 => end_chunk(state, talking, is_last, found),
        len => {
            state.mode = Mode::Chunk(len, is_last);
            false
        }
    }
}

/// The size of a chunk, and whether it is the last one, as lenient servers read them: a sign, or LAST without a blank, is no obstacle. It is
/// strtoul(3)'s, of which Exim takes the lowest 32 bits; who refuses so much says so.
fn size(parameters: &[u8]) -> Option<(u64, bool)> {
    let text = parameters.trim_ascii();
    let unsigned = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let end = unsigned.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    let number = std::str::from_utf8(digits).ok().filter(|digits| !digits.is_empty())?.parse();
    let number = number.unwrap_or(u64::MAX);
    let is_negated = text.starts_with(b"-") && number < u64::MAX;
    let len = if is_negated { number.wrapping_neg() } else { number };
    Some((len, rest.trim_ascii().eq_ignore_ascii_case(b"LAST")))
}

/// Notes the fields of a message that records have.
fn note_field(state: &mut State, talking: &mut Talking<'_>, line: &[u8]) {
    let text = line.trim_ascii_end();
    if text.is_empty() {
        state.is_in_head = false;
        return;
    }
    let goes_on = matches!(text.first(), Some(b' ' | b'\t'));
    state.is_noted =
        if goes_on { state.is_noted } else { [&b"from:"[..], b"to:", b"cc:"].iter().any(|name| begins(text, name)) };
    if state.is_noted {
        state.has_notes = true;
        Note::Field.put(text, talking);
    }
}

fn message_line(state: &mut State, talking: &mut Talking<'_>, line: &[u8], found: &mut Found<'_>) -> bool {
    if state.is_in_head {
        note_field(state, talking, line);
    }
    let mut decoded = talking.take_scratch();
    let event = state.mime.line(line, &mut decoded);
    let any = put(state, talking, event, found);
    talking.give_scratch(decoded);
    any
}

/// What a message's line has brought: a file's name, its bytes, its end.
fn put(state: &mut State, talking: &mut Talking<'_>, event: Event<'_>, found: &mut Found<'_>) -> bool {
    match event {
        Event::Nothing => false,
        Event::FileBegins => {
            // Of a message that was given up.
            talking.drop_kept();
            talking.ask(FILE, b"");
            (state.file_size, state.has_notes) = (0, true);
            Note::File.put(state.mime.name(), talking);
            talking.tell_noted(false, [NOTES; 2], found);
            found.add(buffer::FILE_NAME, state.mime.name());
            true
        }
        Event::Bytes(bytes) => {
            let kept = talking.keep(bytes);
            state.file_size += bytes.len() as u64;
            if kept == bytes.len() {
                return false;
            }
            // A long one is looked at piece by piece.
            let any = file(state, talking, found);
            talking.keep(&bytes[kept..]);
            any
        }
        Event::FileEnds | Event::End => {
            let is_file = state.mime.is_in_file();
            let any = is_file && file(state, talking, found);
            if is_file {
                found.file_is_whole();
                talking.answer(FILE);
            }
            state.mime.ends(matches!(event, Event::End));
            if matches!(event, Event::End) {
                // Of nothing there is no record.
                if state.has_notes {
                    talking.tell_noted(true, [NOTES; 2], found);
                }
                forget_notes(state, talking);
                talking.take_put_off(&mut []);
                (state.is_in_head, state.is_chunked, state.is_refused) = (true, false, false);
            }
            any
        }
    }
}

fn file(state: &State, talking: &mut Talking<'_>, found: &mut Found<'_>) -> bool {
    talking.tell_noted(false, [NOTES; 2], found);
    found.add(buffer::FILE_NAME, state.mime.name());
    found.file_size(state.file_size);
    talking.put_kept(buffer::FILE, found);
    talking.drop_kept();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        assert!(is_smtp(b"ehlo a", (9, 9)) && is_smtp(b"220 x", (9, 25)));
        assert!(!is_smtp(b"220 x", (9, 21)) && !is_smtp(b"EHLO", (9, 25)));
    }
}
