//! Owns: a message's first line and its fields (RFC 9112 §3–5), as lenient as servers and browsers read them.
//! Does not: wait for bytes (`stream.rs` does), or say what rules see of a field (`buffers.rs` does).

use super::lines::lines;

/// The words of a request line; those that are not there are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// `GET`
    pub method: &'a [u8],
    /// The target as sent.
    pub target: &'a [u8],
    /// `HTTP/1.1`; empty in a request of HTTP/0.9.
    pub protocol: &'a [u8],
}

/// The words of a status line; those that are not there are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusLine<'a> {
    /// `HTTP/1.1`
    pub protocol: &'a [u8],
    /// `200`
    pub status: &'a [u8],
    /// `OK`
    pub reason: &'a [u8],
}

impl StatusLine<'_> {
    /// The status as a number; 0 if it is none.
    #[must_use]
    pub fn code(&self) -> u16 {
        std::str::from_utf8(self.status).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// White space as C's isspace(3) has it.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What a line begins with that goes on with the one before it.
fn is_folding(byte: u8) -> bool {
    is_blank(byte) || byte == 0
}

/// The bytes up to the first that `ends` says, and the rest.
fn until(bytes: &[u8], ends: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|&byte| ends(byte)).unwrap_or(bytes.len()))
}

fn without_leading(bytes: &[u8], drop: impl Fn(u8) -> bool) -> &[u8] {
    until(bytes, |byte| !drop(byte)).1
}

fn without_trailing(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Reads a request line, without its end.
#[must_use]
pub fn request_line(line: &[u8]) -> RequestLine<'_> {
    let line = without_leading(line, is_space);
    let (method, rest) = until(line, is_space);
    let rest = without_leading(rest, is_space);
    // Other white space is part of the target, unless there is no blank at all behind it.
    let (mut target, mut tail) = until(rest, |byte| byte == b' ');
    if tail.is_empty() {
        (target, tail) = until(rest, is_space);
    }
    RequestLine { method, target, protocol: without_trailing(without_leading(tail, is_space)) }
}

/// Reads a status line, without its end.
#[must_use]
pub fn status_line(line: &[u8]) -> StatusLine<'_> {
    let (protocol, rest) = until(without_leading(line, is_space), is_space);
    let (status, rest) = until(without_leading(rest, is_space), is_space);
    StatusLine { protocol, status, reason: without_leading(rest, is_space) }
}

/// Whether the first line of what a server sends is a status line: if not, browsers take it for the content.
pub(super) fn is_status_line(line: &[u8]) -> bool {
    let line = without_leading(line, |byte| is_space(byte) || byte == 0);
    line.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"HTTP"))
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Without white space; empty where there is no colon.
    pub name: &'a [u8],
    /// Without white space at its ends. One that goes on in further lines has their ends inside.
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Whether it has this name, in any case. Some servers and browsers drop zeros, so these count for nothing.
    #[must_use]
    pub fn is(&self, name: &[u8]) -> bool {
        is_same(self.name, name)
    }
}

/// Whether two texts are the same, in any case and without zeros.
pub(super) fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.eq_ignore_ascii_case(right) || (left.contains(&0) || right.contains(&0)) && letters(left).eq(letters(right))
}

/// A number that names which are the same share; others seldom do (FNV-1a).
pub(super) fn name_hash(name: &[u8]) -> u32 {
    letters(name).fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn letters(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().filter(|&&byte| byte != 0).map(u8::to_ascii_lowercase)
}

fn field(text: &[u8]) -> Field<'_> {
    let text = without_leading(text, is_folding);
    let (name, rest) = until(text, |byte| byte == b':');
    let (name, value) = match rest.split_first() {
        Some((_, value)) => (name, value),
        None => (&[][..], text),
    };
    Field { name: without_trailing(name), value: without_trailing(without_leading(value, is_blank)) }
}

/// The fields of a head, which begins behind its first line. Lines that begin with white space go on with the field before them,
/// but for those of a response that would be fields themselves.
pub fn fields(head: &[u8], is_response: bool) -> impl Iterator<Item = Field<'_>> {
    let start = head.as_ptr() as usize;
    // Lines are parts of the head: their places tell which of it belongs together.
    let mut spans = lines(head, is_response)
        .map(move |line| {
            let from = line.as_ptr() as usize - start;
            (from, from + line.len())
        })
        .peekable();
    std::iter::from_fn(move || {
        let (from, mut to) = spans.next()?;
        let has_colon = |from: usize, to: usize| head[from..to].contains(&b':');
        // In a response, behind a line that is a field already, one that looks like a field is one.
        let is_field = is_response && has_colon(from, to);
        let goes_on = |&(next, end): &(usize, usize)| {
            head.get(next).copied().is_some_and(is_folding) && !(is_field && has_colon(next, end))
        };
        while let Some((_, end)) = spans.next_if(goes_on) {
            to = end;
        }
        Some(field(&head[from..to]))
    })
}

/// The parts of a value that goes on in further lines, without the lines' ends.
pub fn unfolded(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b'\r' | b'\n')).filter(|part| !part.is_empty())
}

/// The number in a Content-Length; `None` without any digit, or beyond 2^63.
#[must_use]
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits {
        let next = number.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        number = Some(next).filter(|&number| number <= i64::MAX as u64);
        number?;
    }
    number
}

/// The length in a chunk's first line (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkLength {
    /// So many bytes follow.
    Bytes(u64),
    /// The line is empty.
    Nothing,
    /// It is no length.
    Invalid,
}

/// Reads a chunk's length; what follows the digits is an extension, or ignored.
#[must_use]
pub fn chunk_length(line: &[u8]) -> ChunkLength {
    let line = without_leading(line, is_space);
    if line.is_empty() {
        return ChunkLength::Nothing;
    }
    let (mut number, mut digits) = (0u64, 0);
    for digit in line.iter().map_while(|&byte| char::from(byte).to_digit(16)) {
        number = number.saturating_mul(16).saturating_add(digit.into());
        digits += 1;
    }
    if digits == 0 || number > i32::MAX as u64 { ChunkLength::Invalid } else { ChunkLength::Bytes(number) }
}

/// Whether `part` is in `text`, in any case and without zeros.
pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    let begins = |at: usize| letters(&text[at..]).take(part.len()).eq(letters(part));
    let Some(&first) = part.first() else { return true };
    let mut places = memchr::memchr2_iter(first, first.to_ascii_uppercase(), text);
    places.any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(head: &[u8], is_response: bool) -> Vec<(&[u8], &[u8])> {
        fields(head, is_response).map(|field| (field.name, field.value)).collect()
    }

    #[test]
    fn first_lines() {
        let line = |method, target, protocol| RequestLine { method, target, protocol };
        assert_eq!(request_line(b"GET /a b HTTP/1.1").target, b"/a", "as it ends at the first blank");
        assert_eq!(request_line(b"GET  /a\tb HTTP/1.1 "), line(b"GET", b"/a\tb", b"HTTP/1.1"));
        assert_eq!(request_line(b"GET\t/a\tHTTP/1.1"), line(b"GET", b"/a", b"HTTP/1.1"));
        assert_eq!(request_line(b"GET /"), line(b"GET", b"/", b""));
        assert_eq!(request_line(b""), RequestLine::default());
        let status = status_line(b"HTTP/1.1  404 Not here");
        assert_eq!((status.code(), status.reason), (404, &b"Not here"[..]));
        assert_eq!(status_line(b"HTTP/1.1 2x").code(), 0);
        assert!(is_status_line(b" \0http") && !is_status_line(b"HTT") && !is_status_line(b"<html>"));
    }

    #[test]
    fn fields_and_lines_that_go_on() {
        let head = b"A: 1 \r\n B\r\nc :\t2\r\nnothing\r\n: 3\r\n\r\nX: 1";
        let expected: &[(&[u8], &[u8])] = &[(b"A", b"1 \r\n B"), (b"c", b"2"), (b"", b"nothing"), (b"", b"3")];
        assert_eq!(pairs(head, false), expected);
        assert_eq!(unfolded(b"1 \r\n B").collect::<Vec<_>>().concat(), b"1  B");
        assert_eq!(pairs(b"A: 1\r\n B: 2\r\n\r\n", false), [(&b"A"[..], &b"1\r\n B: 2"[..])]);
        assert_eq!(pairs(b" A: 1\r\n B: 2\r\n\r\n", true), [(&b"A"[..], &b"1"[..]), (b"B", b"2")]);
    }

    #[test]
    fn lengths() {
        assert_eq!((content_length(b" x12y"), content_length(b"-")), (Some(12), None));
        assert_eq!(content_length(b"99999999999999999999"), None);
        assert_eq!(chunk_length(b" 1aF;x"), ChunkLength::Bytes(0x1af));
        assert_eq!((chunk_length(b"\r"), chunk_length(b"xyz")), (ChunkLength::Nothing, ChunkLength::Invalid));
        assert_eq!(chunk_length(b"fffffffff"), ChunkLength::Invalid);
        assert!(contains(b"gzip, CHU\0NKED", b"chunked") && !contains(b"chunk", b"chunked"));
    }
}
