//! Questions to agents: what follows a name (GetBulk, RFC 3416 §4.2.3), and the walk over a column of a table made of them.
//!
//! Owns when a walk ends: an agent that answers with names that do not go on, or without end, does not keep it going. Sockets and repeated
//! questions are the caller's.

use std::fmt;

use crate::ber::{self, Writer};
use crate::encode::community_message;
use crate::message::{Pdu, PduHead, tag};
use crate::oid::{Oid, encode};
use crate::varbind::Value;

/// Rows asked for at once; an answer that would be too big for the agent is asked for again in parts.
const REPETITIONS: u16 = 32;
/// tooBig (RFC 3416 §3).
const TOO_BIG: i32 = 1;
/// noSuchName (RFC 3416 §3): how an agent that has only v1 within says that nothing follows.
const NO_SUCH_NAME: i32 = 2;

/// A GetBulk request for what follows a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    after: Vec<u8>,
    repetitions: u16,
}

impl Bulk {
    /// As a message of v2c.
    pub fn v2c(&self, community: &[u8], id: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        self.pdu(&mut writer, id);
        community_message(writer, 1, community)
    }

    /// As a scoped PDU of v3.
    pub(crate) fn scoped(&self, engine_id: &[u8], id: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        let scoped = writer.mark();
        self.pdu(&mut writer, id);
        writer.element(ber::OCTET_STRING, b"");
        writer.element(ber::OCTET_STRING, engine_id);
        writer.close(ber::SEQUENCE, scoped);
        writer.finish()
    }

    fn pdu(&self, writer: &mut Writer, id: i32) {
        let pdu = writer.mark();
        let varbind = writer.mark();
        writer.element(ber::NULL, b"");
        writer.element(ber::OBJECT_ID, &self.after);
        writer.close(ber::SEQUENCE, varbind);
        writer.close(ber::SEQUENCE, pdu);
        writer.integer(ber::INTEGER, self.repetitions.into());
        writer.integer(ber::INTEGER, 0);
        writer.integer(ber::INTEGER, id.into());
        writer.close(tag::GET_BULK, pdu);
    }
}

/// Why a walk did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// error-status of the answer.
    Refused(i32),
    /// A name that is not behind the one before it, or no name at all.
    Circle,
    /// More rows than are taken.
    TooLong,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "it answers with error-status {status} (RFC 3416 §3)"),
            Self::Circle => f.write_str("its answers do not go on from name to name"),
            Self::TooLong => f.write_str("it has more rows than are taken"),
        }
    }
}

/// A walk over a column.
#[derive(Debug, Clone)]
pub struct Walk {
    column: Vec<u8>,
    next: Bulk,
    rows_left: usize,
}

impl Walk {
    /// Of all instances of this column (or of one object, whose instance is 0), at most so many.
    pub fn new(column: &[u32], most_rows: usize) -> Self {
        let column = encode(column);
        let next = Bulk { after: column.clone(), repetitions: REPETITIONS };
        Self { column, next, rows_left: most_rows }
    }

    /// The next question.
    pub fn question(&self) -> &Bulk {
        &self.next
    }

    /// Takes its answer: `row` gets the arcs behind the column, and the value. Whether there is more to ask.
    ///
    /// # Errors
    /// The walk can't go on.
    pub fn answer(&mut self, pdu: &Pdu<'_>, row: &mut dyn FnMut(&[u32], Value<'_>)) -> Result<bool, Broken> {
        if let PduHead::Common { error_status, .. } = pdu.head
            && error_status != 0
        {
            return match error_status {
                TOO_BIG if self.next.repetitions > 1 => {
                    self.next.repetitions /= 2;
                    Ok(true)
                }
                NO_SUCH_NAME => Ok(false),
                other => Err(Broken::Refused(other)),
            };
        }
        let before = self.next.after.clone();
        let mut index = Vec::new();
        for varbind in pdu.varbinds.iter() {
            let (name, last) = (varbind.name.bytes(), Oid::new(&self.next.after).unwrap_or_default());
            if matches!(varbind.value, Value::Exception(_)) || !name.starts_with(&self.column) {
                return Ok(false);
            }
            if !last.arcs().lt(varbind.name.arcs()) {
                return Err(Broken::Circle);
            }
            self.rows_left = self.rows_left.checked_sub(1).ok_or(Broken::TooLong)?;
            index.clear();
            index.extend(varbind.name.arcs().skip(last_arcs(&self.column)));
            row(&index, varbind.value);
            self.next.after = name.to_vec();
        }
        if self.next.after == before { Err(Broken::Circle) } else { Ok(true) }
    }
}

/// How many arcs an encoded name has.
fn last_arcs(encoded: &[u8]) -> usize {
    Oid::new(encoded).map_or(0, |oid| oid.arcs().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Item, Trap};
    use crate::message::{Message, parse};

    /// A column of IF-MIB; 128 and more take two bytes.
    const COLUMN: [u32; 11] = [1, 3, 6, 1, 2, 1, 2, 2, 1, 2, 1];

    /// An answer of an agent with these names below [`COLUMN`]'s parent, cut to what was asked for.
    fn answer(rows: &[(&[u32], &str)], status: i32) -> Vec<u8> {
        let mut trap = Trap::bare();
        for (name, text) in rows {
            trap = trap.with(name, Item::Text(text.as_bytes().to_vec()));
        }
        let scoped = trap.scoped(tag::RESPONSE, b"", b"", 5);
        let mut rest = &scoped[..];
        let mut body = ber::expect(&mut rest, ber::SEQUENCE, "a scoped PDU").unwrap();
        ber::next(&mut body, "contextEngineID").unwrap();
        ber::next(&mut body, "contextName").unwrap();
        let mut writer = Writer::default();
        let mut pdu = body.to_vec();
        // error-status stands behind request-id; all are one byte.
        let at = pdu.windows(6).position(|window| window[..3] == [2, 1, 5] && window[3..5] == [2, 1]).unwrap();
        pdu[at + 5] = status as u8;
        writer.raw(&pdu);
        community_message(writer, 1, b"x")
    }

    fn take(walk: &mut Walk, bytes: &[u8], into: &mut Vec<(Vec<u32>, String)>) -> Result<bool, Broken> {
        let Ok(Message::Community { pdu, .. }) = parse(bytes) else { panic!("{bytes:x?}") };
        walk.answer(&pdu, &mut |index, value| {
            let Value::OctetString(text) = value else { panic!("{value:?}") };
            into.push((index.to_vec(), String::from_utf8_lossy(text).into_owned()));
        })
    }

    fn name(last: &[u32]) -> Vec<u32> {
        [&COLUMN[..10], last].concat()
    }

    #[test]
    fn a_column_is_walked_to_its_end_and_asked_for_in_parts_when_it_is_too_big() {
        let mut walk = Walk::new(&COLUMN, 10);
        let mut rows = Vec::new();
        // What was written is read: max-repetitions stands where error-index does.
        let question = walk.question().v2c(b"x", 5);
        let Ok(Message::Community { pdu, .. }) = parse(&question) else { panic!("{question:x?}") };
        assert_eq!(pdu.tag, tag::GET_BULK);
        assert_eq!(pdu.head, PduHead::Common { request_id: 5, error_status: 0, error_index: 32 });
        assert_eq!(take(&mut walk, &answer(&[], TOO_BIG), &mut rows), Ok(true));
        assert_eq!(walk.question().repetitions, 16);
        let (a, b, c) = (name(&[1, 7]), name(&[1, 200]), name(&[1, 16_384, 3]));
        assert_eq!(take(&mut walk, &answer(&[(&a, "a"), (&b, "b")], 0), &mut rows), Ok(true));
        assert_eq!(walk.question().after, encode(&b));
        let other = name(&[2, 1]);
        assert_eq!(take(&mut walk, &answer(&[(&c, "c"), (&other, "x")], 0), &mut rows), Ok(false));
        let expected = [(vec![7], "a"), (vec![200], "b"), (vec![16_384, 3], "c")];
        assert_eq!(rows, expected.map(|(index, text)| (index, text.to_owned())));
    }

    #[test]
    fn an_agent_that_goes_in_circles_or_on_for_ever_is_left() {
        let (a, b) = (name(&[1, 7]), name(&[1, 8]));
        let mut rows = Vec::new();
        for (bytes, most, expected) in [
            (answer(&[(&b, "b"), (&a, "a")], 0), 10, Err(Broken::Circle)),
            (answer(&[(&a, "a"), (&a, "a")], 0), 10, Err(Broken::Circle)),
            (answer(&[], 0), 10, Err(Broken::Circle)),
            (answer(&[(&a, "a"), (&b, "b")], 0), 1, Err(Broken::TooLong)),
            (answer(&[], NO_SUCH_NAME), 1, Ok(false)),
            (answer(&[], 16), 1, Err(Broken::Refused(16))),
        ] {
            assert_eq!(take(&mut Walk::new(&COLUMN, most), &bytes, &mut rows), expected);
        }
        let mut walk = Walk::new(&COLUMN, 1);
        walk.next.repetitions = 1;
        assert_eq!(take(&mut walk, &answer(&[], TOO_BIG), &mut rows), Err(Broken::Refused(TOO_BIG)));
    }
}
