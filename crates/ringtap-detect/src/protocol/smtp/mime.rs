//! Owns: messages with files (RFC 2045 to 2047, RFC 2183), line by line: fields of each part, boundaries, encodings.
//! Does not: keep bytes; what a file has is told as it comes.

use crate::protocol::http::parameter;

/// Longest boundary (RFC 2046 §5.1.1), and parts within parts that have one.
const MAX_BOUNDARY: usize = 70;
const BOUNDARIES: usize = 4;
/// Bytes of a name that are kept.
const MAX_NAME: usize = 96;

/// What a line brings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'m> {
    Nothing,
    /// Fields of a part with a file's name are over.
    FileBegins,
    /// Bytes of that file.
    Bytes(&'m [u8]),
    /// A boundary is behind it.
    FileEnds,
    /// The message is over.
    End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    None,
    Base64,
    Quoted,
}

/// A message, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mime {
    boundaries: [([u8; MAX_BOUNDARY], u8); BOUNDARIES],
    count: u8,
    is_in_fields: bool,
    encoding: Encoding,
    name: ([u8; MAX_NAME], u8),
    has_name: bool,
    /// Characters of Base64 that do not fill three bytes yet.
    carry: [u8; 4],
    carried: u8,
    /// The part is a message of its own.
    is_message: bool,
}

impl Default for Mime {
    fn default() -> Self {
        Self {
            boundaries: [([0; MAX_BOUNDARY], 0); BOUNDARIES],
            count: 0,
            is_in_fields: true,
            encoding: Encoding::None,
            name: ([0; MAX_NAME], 0),
            has_name: false,
            carry: [0; 4],
            carried: 0,
            is_message: false,
        }
    }
}

impl Mime {
    /// Name of the part's file.
    pub(super) fn name(&self) -> &[u8] {
        &self.name.0[..usize::from(self.name.1)]
    }

    /// The part is a file, and its fields are over.
    pub(super) fn is_in_file(&self) -> bool {
        self.has_name && !self.is_in_fields
    }

    /// A part is over, or the message.
    pub(super) fn ends(&mut self, is_message: bool) {
        let Self { boundaries, count, .. } = *self;
        *self = if is_message { Self::default() } else { Self { boundaries, count, ..Self::default() } };
    }

    /// Reads a line with its end, or the part of one that is too long; what is decoded goes into `out`, which is empty.
    pub(super) fn line<'m>(&mut self, line: &'m [u8], out: &'m mut Vec<u8>) -> Event<'m> {
        let text = line.trim_ascii_end();
        if text.strip_prefix(b"--").is_some_and(|rest| self.is_boundary(rest)) {
            if self.is_in_file() {
                return Event::FileEnds;
            }
            self.ends(false);
            return Event::Nothing;
        }
        if self.is_in_fields {
            if !text.is_empty() {
                self.field(text);
                return Event::Nothing;
            }
            if std::mem::take(&mut self.is_message) && !self.has_name {
                // Its own fields follow.
                return Event::Nothing;
            }
            self.is_in_fields = false;
            return if self.has_name { Event::FileBegins } else { Event::Nothing };
        }
        match self.encoding {
            _ if !self.has_name => return Event::Nothing,
            Encoding::None => return Event::Bytes(line),
            Encoding::Base64 => self.base64(text, out),
            Encoding::Quoted => quoted(line, out),
        }
        Event::Bytes(out)
    }

    fn is_boundary(&self, rest: &[u8]) -> bool {
        let known = &self.boundaries[..usize::from(self.count)];
        known.iter().any(|(boundary, len)| rest.starts_with(&boundary[..usize::from(*len)]))
    }

    /// A field, or a line that goes on with one.
    fn field(&mut self, text: &[u8]) {
        let is = |name: &[u8]| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if is(b"content-transfer-encoding:") {
            let value = text[b"content-transfer-encoding:".len()..].trim_ascii();
            self.encoding = match value.first().map(u8::to_ascii_lowercase) {
                Some(b'b') if value.eq_ignore_ascii_case(b"base64") => Encoding::Base64,
                Some(b'q') => Encoding::Quoted,
                _ => Encoding::None,
            };
            return;
        }
        let goes_on = matches!(text.first(), Some(b' ' | b'\t'));
        if !goes_on && !is(b"content-type:") && !is(b"content-disposition:") {
            return;
        }
        self.is_message |= text.windows(14).any(|window| window.eq_ignore_ascii_case(b"message/rfc822"));
        if let Some(boundary) = parameter(text, b"boundary=")
            && (1..=MAX_BOUNDARY).contains(&boundary.len())
        {
            // Of too many the oldest is forgotten.
            if usize::from(self.count) == BOUNDARIES {
                self.boundaries.rotate_left(1);
                self.count -= 1;
            }
            let place = &mut self.boundaries[usize::from(self.count)];
            place.0[..boundary.len()].copy_from_slice(boundary);
            place.1 = boundary.len() as u8;
            self.count += 1;
        }
        if let Some(name) = parameter(text, b"name=") {
            let name = &name[..name.len().min(MAX_NAME)];
            self.name.0[..name.len()].copy_from_slice(name);
            (self.name.1, self.has_name) = (name.len() as u8, true);
        }
    }

    /// What is no character of Base64 is left out (RFC 2045 §6.8).
    fn base64(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for &byte in text {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')) {
                continue;
            }
            self.carry[usize::from(self.carried)] = byte;
            self.carried += 1;
            if self.carried == 4 {
                crate::matching::base64::decode(&self.carry, out);
                self.carried = 0;
            }
        }
    }
}

/// RFC 2045 §6.7.
fn quoted(line: &[u8], out: &mut Vec<u8>) {
    let digit = |at: usize| line.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let end = line.trim_ascii_end().len();
    let mut at = 0;
    while at < line.len() {
        match (line[at], digit(at + 1), digit(at + 2)) {
            (b'=', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
                continue;
            }
            // The line goes on behind its end.
            (b'=', ..) if at + 1 >= end => return,
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and contents of the files in a message.
    fn files(message: &[u8]) -> Vec<(String, Vec<u8>)> {
        let (mut mime, mut found) = (Mime::default(), Vec::<(String, Vec<u8>)>::new());
        for line in message.split_inclusive(|&byte| byte == b'\n') {
            let mut out = Vec::with_capacity(4096);
            match mime.line(line, &mut out) {
                Event::FileBegins => {}
                Event::Bytes(bytes) => found.last_mut().unwrap().1.extend_from_slice(bytes),
                Event::FileEnds => mime.ends(false),
                Event::Nothing | Event::End => {}
            }
            if mime.is_in_file() && found.last().is_none_or(|(name, _)| name.as_bytes() != mime.name()) {
                found.push((String::from_utf8_lossy(mime.name()).into_owned(), Vec::new()));
            }
        }
        found
    }

    #[test]
    fn parts() {
        let message = b"Subject: x\r\nContent-Type: multipart/mixed;\r\n boundary=\"b1\"\r\n\r\ntext\r\n--b1\r\n\
            Content-Type: application/x; name=\"a.bin\"\r\nContent-Transfer-Encoding: base64\r\n\r\nYWJ\r\njZA==\r\n--b1\r\n\
            Content-Disposition: attachment; filename=q.txt\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=3Db=\r\nc\r\n--b1--\r\n";
        assert_eq!(
            files(message),
            [("a.bin".to_owned(), b"abcd".to_vec()), ("q.txt".to_owned(), b"a=bc\r\n".to_vec())]
        );
    }

    #[test]
    fn messages_in_messages() {
        let message = b"Content-Type: message/rfc822\n\nSubject: y\nContent-Disposition: attachment; filename=z\n\nz\n";
        assert_eq!(files(message), [("z".to_owned(), b"z\n".to_vec())]);
    }
}
