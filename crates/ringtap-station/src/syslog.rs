//! Syslog messages: RFC 5424, RFC 3164 and what passes for it; and their framing over TCP (RFC 6587).
//!
//! Owns priority, bounds and bytes that are no text; the fields are found by `syslog_loose`. Anything is taken: a message
//! that follows no rule is text of an unknown sender.

use std::borrow::Cow;

use syslog_loose::{Protocol, Variant};

use crate::cause::Cause;

/// Longest message in bytes; RFC 5424 §6.1 asks for 2048, UDP carries no more than this.
pub const MAX_MESSAGE: usize = 65_535;
/// Facility user, severity notice: what a message without priority counts as (RFC 3164 §4.3.3).
const DEFAULT_PRIORITY: u8 = 13;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    /// 0 to 23.
    pub facility: u8,
    /// 0 (emergency) to 7 (debug).
    pub severity: u8,
    /// Whether it carried a priority.
    pub has_priority: bool,
    /// It follows RFC 5424.
    pub rfc5424: bool,
    /// Time stamp of the sender, milliseconds since 1970.
    pub time_ms: Option<i64>,
    /// HOSTNAME.
    pub host: Option<String>,
    /// APP-NAME, or the tag.
    pub app: Option<String>,
    /// PROCID.
    pub process: Option<String>,
    /// MSGID.
    pub message_id: Option<String>,
    /// Structured data: element, parameter, value.
    pub structured: Vec<(String, String, String)>,
    /// The text.
    pub text: String,
}

/// Reads a message; `None` when there is nothing in it. Bytes that are not UTF-8 become U+FFFD.
pub fn parse(bytes: &[u8]) -> Option<Syslog> {
    let bytes = bytes.get(..MAX_MESSAGE).unwrap_or(bytes);
    // Senders end messages with line feeds and zero bytes, or pad with them.
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b'\n' | b'\r' | b' '))? + 1;
    let text: Cow<'_, str> = String::from_utf8_lossy(&bytes[..end]);
    let priority = priority(&text);
    if priority.is_some_and(|(_, rest)| rest.is_empty()) {
        return None;
    }
    let number = priority.map_or(DEFAULT_PRIORITY, |(number, _)| number);
    let message = syslog_loose::parse_message(&text, Variant::Either);
    let owned = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(str::to_owned);
    // The library hands back everything when it finds no field; the priority is not part of the text.
    let body = match priority {
        Some((_, rest)) if message.msg.len() == text.len() => rest,
        _ => message.msg,
    };
    Some(Syslog {
        facility: number >> 3,
        severity: number & 7,
        has_priority: priority.is_some(),
        rfc5424: matches!(message.protocol, Protocol::RFC5424(_)),
        time_ms: message.timestamp.map(|time| time.timestamp_millis()),
        host: owned(message.hostname),
        app: owned(message.appname),
        process: message.procid.map(|id| id.to_string()),
        message_id: owned(message.msgid),
        structured: message
            .structured_data
            .iter()
            .flat_map(|element| {
                element.params().map(|(name, value)| (element.id.to_owned(), (*name).to_owned(), value.clone()))
            })
            .collect(),
        text: body.trim_start_matches('\u{feff}').to_owned(),
    })
}

/// `<0>` to `<191>` at the beginning, and what follows.
fn priority(text: &str) -> Option<(u8, &str)> {
    let (digits, rest) = text.strip_prefix('<')?.split_once('>')?;
    let number = digits.parse().ok().filter(|number| *number < 192 && digits.len() <= 3)?;
    Some((number, rest))
}

/// Cuts a TCP stream into messages: by octet counts or by line ends, told apart frame by frame as RFC 6587 §3.4 allows.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Bytes of a frame that is too long, still to be passed over; `usize::MAX`: up to the line's end.
    skip: usize,
}

impl Framer {
    /// Takes what came from the stream; hands each whole message to `message`, each loss to `lost`.
    pub fn push(&mut self, bytes: &[u8], mut message: impl FnMut(&[u8]), mut lost: impl FnMut(Cause)) {
        let mut bytes = bytes;
        if self.skip > 0 && self.skip != usize::MAX {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
        }
        self.buffer.extend_from_slice(bytes);
        let mut start = 0;
        loop {
            let rest = &self.buffer[start..];
            if self.skip == usize::MAX {
                let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                    start = self.buffer.len();
                    break;
                };
                start += end + 1;
                self.skip = 0;
                continue;
            }
            match next_frame(rest) {
                Next::Frame { skip, len, end } => {
                    message(&rest[skip..skip + len]);
                    start += end;
                }
                Next::More => break,
                Next::TooLong { announced } => {
                    lost(Cause::Oversize);
                    match announced {
                        Some(total) => {
                            let here = total.min(rest.len());
                            self.skip = total - here;
                            start += here;
                        }
                        None => self.skip = usize::MAX,
                    }
                }
                Next::Broken => {
                    lost(Cause::SyslogFraming);
                    self.skip = usize::MAX;
                }
            }
        }
        self.buffer.drain(..start);
    }

    /// Whether a message has begun that is not whole, also one that is too long and passed over.
    pub fn has_begun(&self) -> bool {
        !self.buffer.is_empty() || self.skip > 0
    }

    /// The stream has ended: what is left without its line end is a message, the beginning of a counted one is lost.
    pub fn finish(&mut self, message: impl FnOnce(&[u8]), lost: impl FnOnce(Cause)) {
        let rest = std::mem::take(&mut self.buffer);
        if rest.is_empty() || self.skip == usize::MAX {
            return;
        }
        if rest[0].is_ascii_digit() { lost(Cause::SyslogFraming) } else { message(&rest) }
    }
}

enum Next {
    Frame { skip: usize, len: usize, end: usize },
    More,
    TooLong { announced: Option<usize> },
    Broken,
}

fn next_frame(rest: &[u8]) -> Next {
    /// Digits of the longest count that is looked at.
    const MAX_DIGITS: usize = 9;
    match rest.first() {
        None => Next::More,
        Some(b'1'..=b'9') => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            match rest.get(digits) {
                _ if digits > MAX_DIGITS => Next::Broken,
                None => Next::More,
                Some(b' ') => {
                    let count = rest[..digits].iter().fold(0, |count, digit| count * 10 + usize::from(digit - b'0'));
                    let (skip, end) = (digits + 1, digits + 1 + count);
                    if count > MAX_MESSAGE {
                        Next::TooLong { announced: Some(end) }
                    } else if rest.len() < end {
                        Next::More
                    } else {
                        Next::Frame { skip, len: count, end }
                    }
                }
                Some(_) => Next::Broken,
            }
        }
        Some(_) => match rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
            Some(len) if len <= MAX_MESSAGE => Next::Frame { skip: 0, len, end: len + 1 },
            None if rest.len() <= MAX_MESSAGE => Next::More,
            _ => Next::TooLong { announced: None },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_rfcs_are_read() {
        let new = parse(b"<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\"] \xef\xbb\xbfAn event").unwrap();
        assert_eq!((new.facility, new.severity, new.rfc5424), (20, 5, true));
        assert_eq!(new.host.as_deref(), Some("mymachine.example.com"));
        assert_eq!((new.app.as_deref(), new.message_id.as_deref()), (Some("evntslog"), Some("ID47")));
        assert_eq!(new.structured, [("exampleSDID@32473".to_owned(), "iut".to_owned(), "3".to_owned())]);
        assert_eq!(new.text, "An event");
        assert_eq!(new.time_ms, Some(1_065_910_455_003));
        let old =
            parse(b"<34>Oct 11 22:14:15 mymachine su[42]: 'su root' failed for lonvick on /dev/pts/8\n\0").unwrap();
        assert_eq!((old.facility, old.severity, old.rfc5424), (4, 2, false));
        assert_eq!((old.host.as_deref(), old.app.as_deref()), (Some("mymachine"), Some("su")));
        assert_eq!(old.process.as_deref(), Some("42"));
        assert_eq!(old.text, "'su root' failed for lonvick on /dev/pts/8");
    }

    #[test]
    fn what_follows_no_rule_is_text() {
        let bare = parse(b"just words").unwrap();
        assert_eq!((bare.facility, bare.severity, bare.has_priority, bare.text.as_str()), (1, 5, false, "just words"));
        let binary = parse(b"<11>\xff\xfe\x00\x01binary").unwrap();
        assert_eq!(binary.severity, 3);
        assert!(binary.text.contains("binary") && !binary.text.starts_with('<'), "{binary:?}");
        for empty in [&b""[..], b"\n\0 ", b"<13>", b"<13>\n"] {
            assert_eq!(parse(empty), None, "{empty:?}");
        }
        assert!(!parse(b"<999>x").unwrap().has_priority);
    }

    fn frames(chunks: &[&[u8]]) -> (Vec<String>, Vec<Cause>) {
        let (mut messages, mut losses) = (Vec::new(), Vec::new());
        let mut framer = Framer::default();
        for chunk in chunks {
            framer.push(chunk, |m| messages.push(String::from_utf8_lossy(m).into_owned()), |cause| losses.push(cause));
        }
        framer.finish(|m| messages.push(String::from_utf8_lossy(m).into_owned()), |cause| losses.push(cause));
        (messages, losses)
    }

    #[test]
    fn both_framings_are_cut_also_in_one_stream_and_across_reads() {
        let (messages, losses) = frames(&[b"<13>one\n7 <1", b"4>two<15>th", b"ree\n5 <1", b"6>4<17>last"]);
        assert_eq!(messages, ["<13>one", "<14>two", "<15>three", "<16>4", "<17>last"]);
        assert!(losses.is_empty());
    }

    #[test]
    fn broken_and_long_frames_are_counted_and_passed_over() {
        let long = [b"70000 ".to_vec(), vec![b'x'; 70_000], b"<13>after\n".to_vec()].concat();
        let parts: Vec<&[u8]> = long.chunks(999).collect();
        assert_eq!(frames(&parts), (vec!["<13>after".to_owned()], vec![Cause::Oversize]));
        let line = [vec![b'x'; 70_000], b"\n<13>after\n".to_vec()].concat();
        let parts: Vec<&[u8]> = line.chunks(999).collect();
        assert_eq!(frames(&parts), (vec!["<13>after".to_owned()], vec![Cause::Oversize]));
        assert_eq!(frames(&[b"12x <13>lost\n<13>kept\n"]), (vec!["<13>kept".to_owned()], vec![Cause::SyslogFraming]));
        assert_eq!(frames(&[b"12 <13>cut"]), (vec![], vec![Cause::SyslogFraming]));
        assert_eq!(frames(&[b"1234567890 x"]).1, [Cause::SyslogFraming]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..20) {
            let _ = parse(&bytes);
            let mut framer = Framer::default();
            for chunk in bytes.chunks(cut) {
                framer.push(chunk, |_| {}, |_| {});
            }
            framer.finish(|_| {}, |_| {});
        }
    }
}
