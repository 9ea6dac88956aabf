//! Owns: one record of the log as bytes: length, checksum, what it says.
//! Does not: know files.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | length of the rest, little endian |
//! | 4–11 | XXH64 of what follows |
//! | 12 | kind: 1 event, 2 late event, 3 watermark, 4 silence, 5 end of a segment |
//! | 13… | its content; numbers little endian |

use std::sync::Arc;

use ringtap_sigma::{Clock, Identity, Mark};

use crate::event::{Event, Format};
use crate::fields::canonical;
use crate::input::lines::MAX_LINE;
use crate::input::parse::hash;

/// What stands before a record's content.
pub(super) const HEAD: usize = 12;
/// Longest record: a line, and what is said of it.
pub(super) const MAX_RECORD: usize = MAX_LINE + 1024;

/// What the log says.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// An accepted event.
    Event {
        /// It.
        event: Event,
        /// It came behind the watermark.
        late: bool,
    },
    /// The watermark at that moment, ns: every event that follows and is not late lies behind it.
    Watermark(i64),
    /// All inputs were silent, and the watermark went on by the clock.
    Silence {
        /// The greatest event time before, ns.
        since_ns: i64,
    },
    /// The segment ends here.
    End(Span),
}

/// The times of a segment's events, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Earliest.
    pub first_ns: i64,
    /// Latest.
    pub last_ns: i64,
}

impl Span {
    pub(super) const EMPTY: Self = Self { first_ns: i64::MAX, last_ns: i64::MIN };

    pub(super) fn add(&mut self, time_ns: i64) {
        (self.first_ns, self.last_ns) = (self.first_ns.min(time_ns), self.last_ns.max(time_ns));
    }
}

/// Appends a record, and says how long it is.
pub(super) fn write(record: &RecordRef<'_>, into: &mut Vec<u8>) -> usize {
    let start = into.len();
    into.extend_from_slice(&[0; HEAD]);
    match record {
        RecordRef::Event { event, late } => {
            into.push(1 + u8::from(*late));
            into.push(event.format as u8);
            let Mark { time_ns, identity, clock } = event.mark;
            into.extend_from_slice(&time_ns.to_le_bytes());
            for number in [identity.sensor, identity.epoch, identity.sequence, clock.domain] {
                into.extend_from_slice(&number.to_le_bytes());
            }
            into.extend_from_slice(&clock.error_us.unwrap_or(u32::MAX).to_le_bytes());
            into.extend_from_slice(&(event.sensor.len() as u16).to_le_bytes());
            into.extend_from_slice(event.sensor.as_bytes());
            into.extend_from_slice(event.line.as_bytes());
        }
        RecordRef::Watermark(at) => {
            into.push(3);
            into.extend_from_slice(&at.to_le_bytes());
        }
        RecordRef::Silence { since_ns } => {
            into.push(4);
            into.extend_from_slice(&since_ns.to_le_bytes());
        }
        RecordRef::End(span) => {
            into.push(5);
            into.extend_from_slice(&span.first_ns.to_le_bytes());
            into.extend_from_slice(&span.last_ns.to_le_bytes());
        }
    }
    let content = into.len() - start - HEAD;
    let sum = hash(&into[start + HEAD..]);
    into[start..start + 4].copy_from_slice(&(content as u32).to_le_bytes());
    into[start + 4..start + HEAD].copy_from_slice(&sum.to_le_bytes());
    into.len() - start
}

/// A record that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordRef<'a> {
    Event { event: &'a Event, late: bool },
    Watermark(i64),
    Silence { since_ns: i64 },
    End(Span),
}

/// Bytes of the record that ends a segment.
pub(super) const END_BYTES: usize = HEAD + 17;

/// Length and checksum of a record's content.
pub(super) fn head(bytes: &[u8; HEAD]) -> Option<(usize, u64)> {
    let [a, b, c, d, sum @ ..] = *bytes;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    (1..=MAX_RECORD).contains(&len).then_some((len, u64::from_le_bytes(sum)))
}

/// Reads a record's content; `None` if it is damaged, or of a later version.
pub(super) fn read(content: &[u8], sum: u64) -> Option<Record> {
    if hash(content) != sum {
        return None;
    }
    let (&kind, mut rest) = content.split_first()?;
    let mut number = || {
        let (bytes, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(i64::from_le_bytes(*bytes))
    };
    match kind {
        1 | 2 => event(rest).map(|event| Record::Event { event, late: kind == 2 }),
        3 => number().map(Record::Watermark),
        4 => number().map(|since_ns| Record::Silence { since_ns }),
        5 => Some(Record::End(Span { first_ns: number()?, last_ns: number()? })),
        _ => None,
    }
}

fn event(bytes: &[u8]) -> Option<Event> {
    let (&format, mut rest) = bytes.split_first()?;
    let format = Format::from_number(format)?;
    let mut number = || {
        let (bytes, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(u64::from_le_bytes(*bytes))
    };
    let time_ns = number()? as i64;
    let identity = Identity { sensor: number()?, epoch: number()?, sequence: number()? };
    let domain = number()?;
    let (error, rest) = rest.split_first_chunk::<4>()?;
    let error = u32::from_le_bytes(*error);
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (sensor, line) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    let line = std::str::from_utf8(line).ok()?;
    let sensor: Arc<str> = std::str::from_utf8(sensor).ok()?.into();
    let mut content = serde_json::from_str(line).ok()?;
    canonical(&mut content, format);
    let clock = Clock { domain, error_us: (error != u32::MAX).then_some(error) };
    Some(Event { format, mark: Mark { time_ns, identity, clock }, sensor, line: line.into(), content })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::parse::{Parser, Wanted};

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let line = r#"{"timestamp":"2026-01-31T12:00:00Z","event_type":"alert","src_ip":"::ffff:192.0.2.1"}"#;
        let event = Parser::new(Wanted::Auto, "eve.json").event(line.as_bytes()).unwrap();
        let span = Span { first_ns: 1, last_ns: 2 };
        let records = [
            (RecordRef::Event { event: &event, late: true }, Record::Event { event: event.clone(), late: true }),
            (RecordRef::Watermark(-5), Record::Watermark(-5)),
            (RecordRef::Silence { since_ns: 7 }, Record::Silence { since_ns: 7 }),
            (RecordRef::End(span), Record::End(span)),
        ];
        for (record, expected) in records {
            let mut bytes = Vec::new();
            assert_eq!(write(&record, &mut bytes), bytes.len());
            let (len, sum) = head(bytes.first_chunk().unwrap()).unwrap();
            assert_eq!(len, bytes.len() - HEAD);
            assert_eq!(read(&bytes[HEAD..], sum), Some(expected));
            for at in HEAD..bytes.len() {
                bytes[at] ^= 1;
                assert_eq!(read(&bytes[HEAD..], sum), None);
                bytes[at] ^= 1;
            }
            assert_eq!(read(&bytes[HEAD..bytes.len() - 1], sum), None);
        }
        let mut end = Vec::new();
        assert_eq!(write(&RecordRef::End(span), &mut end), END_BYTES);
    }
}
