//! Owns: lines of bounded length from anything that can be read.
//! Does not: know what is in them.

use std::io::{self, BufRead};

pub use ringtap_event::parse::MAX_LINE;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// It is in the buffer, without its line feed.
    Line,
    /// It is longer than [`MAX_LINE`] and was skipped.
    TooLong,
    /// There is none any more.
    End,
}

/// Reads the next line into `line`, which is emptied first.
///
/// # Errors
/// As of the reader; what was read of the line is lost.
pub fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Read> {
    line.clear();
    let (mut any, mut too_long) = (false, false);
    loop {
        let bytes = match reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        let is_end = bytes.is_empty();
        any |= !is_end;
        too_long |= line.len() + taken > MAX_LINE;
        if !too_long {
            line.extend_from_slice(&bytes[..taken]);
        }
        let consumed = taken + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() || is_end {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(match (any, too_long) {
                (false, _) => Read::End,
                (true, true) => Read::TooLong,
                (true, false) => Read::Line,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn lines_of_any_length() {
        let mut bytes = b"one\r\n\ntwo\n".to_vec();
        bytes.extend(vec![b'x'; MAX_LINE + 1]);
        bytes.push(b'\n');
        bytes.extend(vec![b'y'; MAX_LINE]);
        bytes.extend_from_slice(b"\nlast");
        let mut reader = BufReader::with_capacity(7, Cursor::new(bytes));
        let mut line = Vec::new();
        let mut read = || (next(&mut reader, &mut line).unwrap(), line.len(), line.first().copied());
        assert_eq!(read(), (Read::Line, 3, Some(b'o')));
        assert_eq!(read(), (Read::Line, 0, None));
        assert_eq!(read(), (Read::Line, 3, Some(b't')));
        assert_eq!(read().0, Read::TooLong);
        assert_eq!(read(), (Read::Line, MAX_LINE, Some(b'y')));
        assert_eq!(read(), (Read::Line, 4, Some(b'l')));
        assert_eq!(read().0, Read::End);
    }
}
