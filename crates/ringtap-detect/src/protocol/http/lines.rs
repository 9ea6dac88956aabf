//! Owns: where the lines of a head end, and where the head does, byte by byte.
//! Does not: know what the lines say.
//!
//! Servers and browsers are lenient here, and an attacker chooses what suits one of them: a line of a request ends at a line
//! feed; one of a response also at a carriage return alone, or at a line feed with a carriage return behind it.

const CR: u8 = b'\r';
const LF: u8 = b'\n';

/// What a byte is to the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a line.
    Within,
    /// It ends its line.
    LineEnd,
    /// The line ended before it; it begins the next.
    LineStart,
    /// It belongs to the end of the line before.
    Skipped,
    /// It ends the head.
    HeadEnd,
    /// The head ended before it.
    BehindHead,
}

/// Finds the ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanner {
    /// A carriage return alone ends a line, too.
    is_response: bool,
    /// Bytes of the line so far, without the carriage return that may be part of its end.
    content: u32,
    /// The last byte was a carriage return.
    pending_cr: bool,
    /// The line before ended with a line feed alone: a carriage return now belongs to it.
    after_feed: bool,
    /// The line so far is a single space or tab; or, at its end, was.
    blank: bool,
    ended_blank: bool,
}

impl Scanner {
    pub(super) fn new(is_response: bool) -> Self {
        Self { is_response, ..Self::default() }
    }

    fn end_line(&mut self) {
        *self = Self::new(self.is_response);
    }

    fn add(&mut self, byte: u8) {
        self.blank = self.content == 0 && matches!(byte, b' ' | b'\t');
        self.content = self.content.saturating_add(1);
    }

    /// Looks at the next byte.
    #[inline]
    pub(super) fn step(&mut self, byte: u8) -> Place {
        if std::mem::take(&mut self.ended_blank) && byte != LF {
            return Place::BehindHead;
        }
        if std::mem::take(&mut self.after_feed) && byte == CR {
            return Place::Skipped;
        }
        match byte {
            LF => {
                let (content, had_cr, blank) = (self.content, self.pending_cr, self.blank);
                self.end_line();
                if content == 0 {
                    return Place::HeadEnd;
                }
                self.after_feed = self.is_response && !had_cr;
                self.ended_blank = self.is_response && blank && !had_cr;
                Place::LineEnd
            }
            CR => {
                if std::mem::replace(&mut self.pending_cr, true) {
                    self.add(CR);
                }
                Place::Within
            }
            other => {
                if std::mem::take(&mut self.pending_cr) {
                    if self.is_response && self.content > 0 {
                        self.end_line();
                        self.add(other);
                        return Place::LineStart;
                    }
                    self.add(CR);
                }
                self.add(other);
                Place::Within
            }
        }
    }
}

/// The lines of a head that is all there, without their ends; the empty one at the end is left out.
pub(super) fn lines(head: &[u8], is_response: bool) -> impl Iterator<Item = &[u8]> {
    let (mut scanner, mut at, mut start) = (Scanner::new(is_response), 0, 0);
    std::iter::from_fn(move || {
        while let Some(&byte) = head.get(at) {
            let place = scanner.step(byte);
            at += 1;
            match place {
                Place::Within => {}
                Place::Skipped => start = at,
                Place::LineEnd => return Some(without_end(&head[std::mem::replace(&mut start, at)..at])),
                Place::LineStart => return Some(without_end(&head[std::mem::replace(&mut start, at - 1)..at - 1])),
                Place::HeadEnd | Place::BehindHead => {
                    (at, start) = (head.len(), head.len());
                    return None;
                }
            }
        }
        // A head that was cut.
        let rest = without_end(&head[std::mem::replace(&mut start, at)..]);
        (!rest.is_empty()).then_some(rest)
    })
}

/// A line without carriage returns and line feeds at its end.
pub(super) fn without_end(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., CR | LF] = line {
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many bytes the head has, and its lines.
    fn head(bytes: &[u8], is_response: bool) -> (Option<usize>, Vec<&[u8]>) {
        let mut scanner = Scanner::new(is_response);
        let end = bytes.iter().enumerate().find_map(|(at, &byte)| match scanner.step(byte) {
            Place::HeadEnd => Some(at + 1),
            Place::BehindHead => Some(at),
            _ => None,
        });
        (end, lines(bytes, is_response).collect())
    }

    #[test]
    fn ends_of_lines_and_heads() {
        let two: Vec<&[u8]> = vec![b"a: b", b"c"];
        assert_eq!(head(b"a: b\r\nc\r\n\r\nbody", false), (Some(11), two.clone()));
        assert_eq!(head(b"a: b\nc\n\nbody", false), (Some(8), two.clone()));
        assert_eq!(head(b"a: b\rc\r\n\r\nbody", true), (Some(10), two.clone()));
        assert_eq!(head(b"a: b\rc\r\n\r\n", false).1, [b"a: b\rc"]);
        assert_eq!(head(b"a: b\n\rc\n\r\nbody", true), (Some(10), two.clone()));
        assert_eq!(head(b"a: b\r\r\nc\r\n\r\n", true), (Some(12), two.clone()), "two returns are no empty line");
        assert_eq!(head(b"a: b\nc\n \nbody", true).0, Some(9), "a blank line ends a response's head");
        assert_eq!(head(b"a: b\nc\n \nbody", false).0, None);
        assert_eq!(head(b"a: b\r\nc", false), (None, two));
        assert_eq!(head(b"\n", true), (Some(1), vec![]));
    }

    proptest! {
        #[test]
        fn lines_are_of_the_bytes(bytes in prop::collection::vec(prop::sample::select(&b"a :\r\n\t\0"[..]), 0..40), is_response: bool) {
            let (end, lines) = head(&bytes, is_response);
            prop_assert!(lines.iter().map(|line| line.len()).sum::<usize>() <= end.unwrap_or(bytes.len()));
        }
    }
}
