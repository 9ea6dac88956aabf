//! Owns: the one form of what goes into the module and comes out of it: parts, and parts with a kind.
//! Does not: know what is in them.
//!
//! A part is its length (u32, little-endian) and its bytes; a frame is its kind (one byte) and a part.

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Text: why the call could not be carried out. Nothing follows.
    Failed = 0,
    /// Text for whoever looks at the log.
    Note = 1,
    /// What is to be kept of the key at hand from now on, opaque; empty: nothing. Without this frame the host's bytes stay what they are.
    State = 2,
    /// An event on its way to a rule: level (one byte), length of the key (u32), key, the rest.
    Filling = 3,
    /// A line for the incidents' output.
    Line = 4,
    /// A line about an event that was not judged: it came late, twice, or is none.
    Aside = 5,
    /// The watermark (i64) of this instance: no event up to it follows.
    Watermark = 6,
    /// Empty: this instance waits for nobody.
    Idle = 7,
    /// Text: the name of a registered sensor.
    Sensor = 8,
    /// Empty: an event matched and could not be correlated, as a field of the key is missing, a list or too long.
    Skipped = 9,
    /// From when on a configuration holds (i64): one that is kept.
    Version = 10,
    /// Empty: the event is for rules that are not here yet. It is to be given again when they are.
    Early = 11,
    /// A time of which a sensor could not tell all: for all that run rules, before the watermark that follows.
    Missing = 12,
    /// Empty: nothing was done, as what is kept of this key is needed. The call is to be made again with it.
    Wanted = 13,
    /// The watermarks (i64 each) at which the key had to be called again until now, and from now on; the greatest: not at all.
    Timer = 14,
    /// What is to be kept of another key: its length (u32), the key, when it has to be called again (i64), opaque bytes.
    Stored = 15,
}

/// Frames, one behind the other.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Appends one.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) {
        self.push_of(kind, &[bytes]);
    }

    /// Appends one of several pieces.
    pub fn push_of(&mut self, kind: Kind, pieces: &[&[u8]]) {
        self.0.push(kind as u8);
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.0.extend_from_slice(&(len as u32).to_le_bytes());
        pieces.iter().for_each(|piece| self.0.extend_from_slice(piece));
    }

    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Takes one part off the front; `None` where it is not whole.
pub fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(part)
}

/// Takes a number off the front.
pub fn number(bytes: &mut &[u8]) -> Option<i64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i64::from_le_bytes(*number))
}

/// Reads frames back: for hosts that are written in Rust.
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, rest) = bytes.split_first()?;
        bytes = rest;
        Some((*kind, part(&mut bytes)?))
    })
}
