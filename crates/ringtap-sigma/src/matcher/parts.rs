//! Owns: keys, counted values and what is handed up, taken from an event or from a hit.
//! Does not: match. Values are used as the text they have; see [`Value`](super::Value).

use alloc::vec::Vec;
use core::fmt::Write as _;

use super::value::{Row, Value};
use crate::automaton::{Automaton, Feed, Hash, Input, Shape};
use crate::bytes::{Damaged, Reader, Writer};
use crate::limits::{MAX_KEY_BYTES, MAX_SLOTS};
use crate::step::{Digest, IncidentId, Mark};

/// One event for one correlation and one key: what [`State::step`](crate::State::step) takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filling {
    /// Number of the rule.
    pub rule: u16,
    /// The steps that the event fills, one bit each.
    pub places: u32,
    /// Key: the values of the rule's `group-by`. Opaque; [`key_parts`] reads it.
    pub key: Vec<u8>,
    /// The event.
    pub mark: Mark,
    /// The value that is counted.
    pub(crate) value: Option<Digest>,
    /// The incident of the rule beneath, where it is a hit.
    pub(crate) via: Option<IncidentId>,
    /// What rules above need to know of the event.
    pub(crate) carry: Vec<u8>,
}

impl Filling {
    /// As bytes, for a host that sends it to another process.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut w = Writer(into);
        w.u16(self.rule);
        w.u32(self.places);
        w.bytes(&self.key);
        self.mark.write(&mut w);
        w.option(self.value, |w, value| w.raw(&value));
        w.option(self.via, |w, via| w.raw(&via.0));
        w.bytes(&self.carry);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut r = Reader::new(bytes);
        let filling = Self {
            rule: r.u16()?,
            places: r.u32()?,
            key: r.bytes()?.into(),
            mark: Mark::read(&mut r)?,
            value: r.option(Reader::array)?,
            via: r.option(Reader::array)?.map(IncidentId),
            carry: r.bytes()?.into(),
        };
        r.end()?;
        Ok(filling)
    }
}

/// Why an event does not go to a correlation that one of its steps names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It has no value for a field of the key, or for the field that is counted.
    Missing,
    /// The value is a list: which of them would be the key?
    List,
    /// The value is longer than [`MAX_KEY_BYTES`](crate::limits::MAX_KEY_BYTES).
    TooLong,
}

/// An event that matches but cannot be correlated; to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Number of the rule.
    pub rule: u16,
    /// Step.
    pub place: u8,
    /// Why.
    pub why: Why,
}

/// What one event, or hit, is to the rules. It is made once and used again, so that events need no memory of their own.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Numbers of the detections that match.
    pub detections: Vec<u16>,
    /// What could not be correlated.
    pub skipped: Vec<Skipped>,
    fillings: Vec<Filling>,
    used: usize,
}

impl Matches {
    /// What goes to the rules, by number of the rule.
    #[must_use]
    pub fn fillings(&self) -> &[Filling] {
        &self.fillings[..self.used]
    }

    pub(super) fn clear(&mut self) {
        self.detections.clear();
        self.skipped.clear();
        self.used = 0;
    }

    /// Adds what goes to one input of one rule. An event that fills several steps under one key goes there once.
    pub(super) fn add(
        &mut self,
        automaton: &Automaton,
        feed: Feed,
        parts: &impl Parts,
        mark: Mark,
        via: Option<IncidentId>,
    ) {
        let rule = &automaton.rules[usize::from(feed.rule)];
        let input = &rule.inputs[usize::from(feed.input)];
        if self.used == self.fillings.len() {
            self.fillings.push(Filling::default());
        }
        let (before, rest) = self.fillings.split_at_mut(self.used);
        let filling = &mut rest[0];
        (filling.rule, filling.places) = (feed.rule, 1 << input.place);
        (filling.mark, filling.via, filling.value) = (mark, via, None);
        let counted = matches!(rule.shape, Shape::Values(_));
        if let Err(why) = fill(filling, input, parts, counted) {
            self.skipped.push(Skipped { rule: feed.rule, place: input.place, why });
            return;
        }
        let same = before.iter_mut().rev().take_while(|other| other.rule == feed.rule);
        match { same }.find(|other| other.key == filling.key) {
            Some(other) => other.places |= filling.places,
            None => self.used += 1,
        }
    }
}

fn fill(filling: &mut Filling, input: &Input, parts: &impl Parts, counted: bool) -> Result<(), Why> {
    if counted {
        filling.carry.clear();
        for source in &input.value {
            parts.write(*source, &mut filling.carry)?;
        }
        filling.value = Some(digest(&filling.carry));
    }
    filling.key.clear();
    for source in &input.key {
        parts.write(*source, &mut filling.key)?;
    }
    filling.carry.clear();
    for source in &input.slots {
        let at = filling.carry.len();
        filling.carry.push(PRESENT);
        if let Err(why) = parts.write(*source, &mut filling.carry) {
            filling.carry.truncate(at);
            filling.carry.push(why as u8);
        }
    }
    Ok(())
}

/// First byte of a slot that has a value; the others are those of [`Why`].
const PRESENT: u8 = 3;

/// A short value as it is, a longer one as its hash: equal where the values are.
fn digest(bytes: &[u8]) -> Digest {
    let mut digest = [0; 24];
    match digest[1..].get_mut(..bytes.len()) {
        Some(place) => {
            place.copy_from_slice(bytes);
            digest[0] = bytes.len() as u8;
        }
        None => {
            let mut hash = Hash::of("ringtap sigma value");
            hash.add(bytes);
            digest[1..].copy_from_slice(&hash.whole()[..23]);
            digest[0] = u8::MAX;
        }
    }
    digest
}

/// Something that has values by number.
pub(super) trait Parts {
    /// Appends length and text of a value.
    fn write(&self, source: u16, into: &mut Vec<u8>) -> Result<(), Why>;
}

impl Parts for Row<'_> {
    fn write(&self, source: u16, into: &mut Vec<u8>) -> Result<(), Why> {
        let value = self.value(Some(source));
        match value {
            Value::List(_) => Err(Why::List),
            Value::Missing | Value::Null => Err(Why::Missing),
            Value::Text(text) | Value::Number(text) => write_text(text, into),
            Value::Bool(value) => write_text(if value { "true" } else { "false" }, into),
            Value::Integer(value) => {
                let at = into.len();
                into.extend_from_slice(&[0; 2]);
                let _ = write!(Append(into), "{value}");
                let len = (into.len() - at - 2) as u16;
                into[at..at + 2].copy_from_slice(&len.to_le_bytes());
                Ok(())
            }
        }
    }
}

/// Writes text to the end, so that a number needs no text of its own.
struct Append<'a>(&'a mut Vec<u8>);

impl core::fmt::Write for Append<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn write_text(text: &str, into: &mut Vec<u8>) -> Result<(), Why> {
    if text.len() > MAX_KEY_BYTES {
        return Err(Why::TooLong);
    }
    into.extend_from_slice(&(text.len() as u16).to_le_bytes());
    into.extend_from_slice(text.as_bytes());
    Ok(())
}

/// The slots of a hit.
pub(super) struct Carry<'a>(Vec<Result<&'a [u8], Why>>);

impl<'a> Carry<'a> {
    /// Damaged bytes have no values from there on.
    pub(super) fn read(mut bytes: &'a [u8]) -> Self {
        let mut slots = Vec::new();
        while slots.len() < MAX_SLOTS {
            let Some((&kind, rest)) = bytes.split_first() else { break };
            bytes = rest;
            slots.push(match kind {
                PRESENT => {
                    let Some((value, rest)) = part(bytes) else { break };
                    let whole = &bytes[..2 + value.len()];
                    bytes = rest;
                    Ok(whole)
                }
                kind => {
                    Err([Why::Missing, Why::List, Why::TooLong].get(usize::from(kind)).copied().unwrap_or(Why::Missing))
                }
            });
        }
        Self(slots)
    }
}

impl Parts for Carry<'_> {
    fn write(&self, source: u16, into: &mut Vec<u8>) -> Result<(), Why> {
        let value = self.0.get(usize::from(source)).copied().unwrap_or(Err(Why::Missing))?;
        into.extend_from_slice(value);
        Ok(())
    }
}

/// The first part of a key and what follows it.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// The values of a key, in the order of the rule's `group-by`.
pub fn key_parts(key: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = key;
    core::iter::from_fn(move || {
        let (text, after) = part(rest)?;
        rest = after;
        Some(core::str::from_utf8(text).unwrap_or("\u{fffd}"))
    })
}
