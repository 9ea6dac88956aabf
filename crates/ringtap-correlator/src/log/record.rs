//! Owns: one record of the log as bytes: length, checksum, what it says.
//! Does not: know files.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | length of the rest, little endian |
//! | 4–11 | XXH64 of what follows |
//! | 12 | kind: 1 event, 2 late event, 3 watermark, 4 silence, 5 end of a segment, 6 sensor, 7 sealed alarm, 8 late one, 9 read, 10 begins again |
//! | 13… | its content; numbers little endian |

use std::sync::Arc;

use ringtap_datagram::{ALERT_LEN, MAX_LEN, Message, TAG_LEN};
use ringtap_sigma::{Clock, Identity, Mark};

use crate::alarm::Alarm;
use crate::event::{Event, Format, Said};
use crate::fields::canonical;
use crate::input::lines::MAX_LINE;
use crate::input::parse::hash;
use crate::sensors::What;

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
    /// Something happened to a registered sensor.
    Sensor {
        /// Its number.
        number: u64,
        /// What.
        what: What,
    },
    /// The event that follows at once was read from a stream that can be read again; it goes on with this offset. Without such an
    /// event it says nothing: it was cut off from it.
    Read {
        /// Which stream.
        stream: u64,
        /// Offset behind the event.
        next: i64,
    },
    /// A stream goes on with this offset, whatever was read of it: what was to come is not there any more.
    BeginsAgain {
        /// Which stream.
        stream: u64,
        /// The offset.
        next: i64,
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
        RecordRef::Event { event, late } => write_event(event, *late, into),
        RecordRef::Watermark(at) => {
            into.push(3);
            into.extend_from_slice(&at.to_le_bytes());
        }
        RecordRef::Silence { since_ns } => {
            into.push(4);
            into.extend_from_slice(&since_ns.to_le_bytes());
        }
        RecordRef::Sensor { number, what } => {
            let (code, parts) = parts(what);
            into.extend_from_slice(&[6, code]);
            for part in [*number as i64, parts[0], parts[1], parts[2]] {
                into.extend_from_slice(&part.to_le_bytes());
            }
        }
        RecordRef::Read { stream, next } | RecordRef::BeginsAgain { stream, next } => {
            into.push(if matches!(record, RecordRef::Read { .. }) { 9 } else { 10 });
            into.extend_from_slice(&stream.to_le_bytes());
            into.extend_from_slice(&next.to_le_bytes());
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

fn write_event(event: &Event, late: bool, into: &mut Vec<u8>) {
    if let Said::Alarm(alarm) = &event.said
        && write_alarm(alarm, late, into).is_some()
    {
        return;
    }
    into.push(1 + u8::from(late));
    into.push(event.format as u8);
    let Mark { time_ns, identity, clock } = event.mark;
    into.extend_from_slice(&time_ns.to_le_bytes());
    for number in [identity.sensor, identity.epoch, identity.sequence, clock.domain] {
        into.extend_from_slice(&number.to_le_bytes());
    }
    into.extend_from_slice(&clock.error_us.unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(&(event.sensor.len() as u16).to_le_bytes());
    into.extend_from_slice(event.sensor.as_bytes());
    into.extend_from_slice(event.line().as_bytes());
}

/// An alarm takes less as the message it came by: that, and the texts of its rule, a length before each. `None`: it has no
/// such form, or its texts are too long.
fn write_alarm(alarm: &Alarm, late: bool, into: &mut Vec<u8>) -> Option<()> {
    let texts = alarm.texts.as_ref().map(|(signature, category)| [signature, category]);
    let lens = texts.map(|texts| texts.map(|text| u16::try_from(text.len())));
    let lens = match lens {
        None => None,
        Some([Ok(signature), Ok(category)]) => Some([signature, category]),
        Some(_) => return None,
    };
    let mut message = [0; MAX_LEN];
    let len = Message::Alert(alarm.alert).encode_unsealed(&mut message)?;
    into.extend_from_slice(&[7 + u8::from(late), u8::from(texts.is_some())]);
    into.extend_from_slice(&message[..len]);
    for (len, text) in lens.into_iter().flatten().zip(texts.into_iter().flatten()) {
        into.extend_from_slice(&len.to_le_bytes());
        into.extend_from_slice(text.as_bytes());
    }
    Some(())
}

fn alarm(bytes: &[u8]) -> Option<Event> {
    let (has_texts, rest) = bytes.split_first()?;
    let (message, mut rest) = rest.split_at_checked(ALERT_LEN - TAG_LEN)?;
    let Message::Alert(alert) = Message::decode_unsealed(message).ok()? else { return None };
    let mut text = || -> Option<Arc<str>> {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let (text, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
        rest = after;
        Some(std::str::from_utf8(text).ok()?.into())
    };
    let texts = if *has_texts == 0 { None } else { Some((text()?, text()?)) };
    let sensor = alert.origin.sensor.as_str().into();
    Some(Alarm { alert, texts }.event(sensor))
}

/// A record that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordRef<'a> {
    Event { event: &'a Event, late: bool },
    Watermark(i64),
    Silence { since_ns: i64 },
    Sensor { number: u64, what: What },
    Read { stream: u64, next: i64 },
    BeginsAgain { stream: u64, next: i64 },
    End(Span),
}

/// What happened to a sensor, as numbers. A time that is not known is the least.
fn parts(what: &What) -> (u8, [i64; 3]) {
    let time = |time: Option<i64>| time.unwrap_or(i64::MIN);
    match *what {
        What::Began { epoch } => (1, [epoch as i64, 0, 0]),
        What::SilentSince { h_ns } => (2, [time(h_ns), 0, 0]),
        What::Back { h_ns } => (3, [time(h_ns), 0, 0]),
        What::Quarantined { ahead_ns } => (4, [ahead_ns, 0, 0]),
        What::Released => (5, [0; 3]),
        What::Twice => (6, [0; 3]),
        What::Missing { count, from_ns, to_ns } => (7, [count as i64, from_ns, to_ns]),
    }
}

fn what(code: u8, [a, b, c]: [i64; 3]) -> Option<What> {
    let time = |time: i64| (time > i64::MIN).then_some(time);
    Some(match code {
        1 => What::Began { epoch: a as u64 },
        2 => What::SilentSince { h_ns: time(a) },
        3 => What::Back { h_ns: time(a) },
        4 => What::Quarantined { ahead_ns: a },
        5 => What::Released,
        6 => What::Twice,
        7 => What::Missing { count: a as u64, from_ns: b, to_ns: c },
        _ => return None,
    })
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
    let mut code = 0;
    if kind == 6 {
        (code, rest) = rest.split_first().map(|(code, rest)| (*code, rest))?;
    }
    let mut number = || {
        let (bytes, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(i64::from_le_bytes(*bytes))
    };
    match kind {
        7 | 8 => alarm(rest).map(|event| Record::Event { event, late: kind == 8 }),
        1 | 2 => event(rest).map(|event| Record::Event { event, late: kind == 2 }),
        3 => number().map(Record::Watermark),
        4 => number().map(|since_ns| Record::Silence { since_ns }),
        6 => {
            let of = number()? as u64;
            what(code, [number()?, number()?, number()?]).map(|what| Record::Sensor { number: of, what })
        }
        9 => Some(Record::Read { stream: number()? as u64, next: number()? }),
        10 => Some(Record::BeginsAgain { stream: number()? as u64, next: number()? }),
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
    Some(Event {
        format,
        mark: Mark { time_ns, identity, clock },
        sensor,
        said: Said::Line { line: line.into(), content },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::parse::{Parser, Wanted};

    fn alarm(texts: Option<(Arc<str>, Arc<str>)>) -> Alarm {
        let line = r#"{"event_type":"alert","src_ip":"::ffff:192.0.2.1","dest_ip":"::2","proto":"ICMP","alert":{"action":"allowed","gid":1,"signature_id":77,"rev":1,"severity":1},"ringtap":{"sensor":"north","boot_id":"000102030405060708090a0b0c0d0e0f","clock":"host","epoch":5,"sequence":1,"time_ns":9,"built_ns":10,"error_ns":null}}"#;
        let line = ringtap_datagram::line::Line::parse(line.as_bytes()).unwrap();
        let Message::Alert(alert) = *line.unverified() else { panic!() };
        Alarm { alert, texts }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let line = r#"{"timestamp":"2026-01-31T12:00:00Z","event_type":"alert","src_ip":"::ffff:192.0.2.1"}"#;
        let event = Parser::new(Wanted::Auto, "eve.json").event(line.as_bytes()).unwrap();
        let span = Span { first_ns: 1, last_ns: 2 };
        let alarm = |texts| alarm(texts).event("north".into());
        let alarms = [alarm(None), alarm(Some(("Bad \"thing\"".into(), "".into())))];
        // Too long for its form: its line is written.
        let long = alarm(Some(("x".repeat(1 << 16).into(), "y".into())));
        let (content, line) = (long.content().into_owned(), long.line().as_ref().into());
        let as_line = Event { said: Said::Line { line, content }, ..long.clone() };
        let alarms = alarms.iter().flat_map(|event| {
            let of = |late| (RecordRef::Event { event, late }, Record::Event { event: event.clone(), late });
            [of(false), of(true)]
        });
        let records = [
            (RecordRef::Event { event: &long, late: false }, Record::Event { event: as_line, late: false }),
            (RecordRef::Event { event: &event, late: true }, Record::Event { event: event.clone(), late: true }),
            (RecordRef::Watermark(-5), Record::Watermark(-5)),
            (RecordRef::Silence { since_ns: 7 }, Record::Silence { since_ns: 7 }),
            (RecordRef::Read { stream: u64::MAX, next: 7 }, Record::Read { stream: u64::MAX, next: 7 }),
            (RecordRef::BeginsAgain { stream: 3, next: -1 }, Record::BeginsAgain { stream: 3, next: -1 }),
            (RecordRef::End(span), Record::End(span)),
        ];
        let happened = [
            What::Began { epoch: u64::MAX },
            What::SilentSince { h_ns: None },
            What::Back { h_ns: Some(5) },
            What::Quarantined { ahead_ns: 7 },
            What::Released,
            What::Twice,
            What::Missing { count: 3, from_ns: -1, to_ns: 9 },
        ];
        let happened = happened.map(|what| (RecordRef::Sensor { number: 9, what }, Record::Sensor { number: 9, what }));
        for (record, expected) in records.into_iter().chain(happened).chain(alarms) {
            let mut bytes = Vec::new();
            assert_eq!(write(&record, &mut bytes), bytes.len());
            let (len, sum) = head(bytes.first_chunk().unwrap()).unwrap();
            assert_eq!(len, bytes.len() - HEAD);
            assert_eq!(read(&bytes[HEAD..], sum), Some(expected));
            for at in (HEAD..bytes.len()).take(1024) {
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
