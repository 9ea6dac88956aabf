//! BER as SNMP uses it (RFC 3417 §8): definite lengths, tags of one byte.
//!
//! Owns the walk over elements and the values of the primitive types, all borrowed from the datagram, and the writing of
//! elements. Heads are read by `asn1-rs`, but for those of the short form. It knows no message.

use asn1_rs::{FromBer, Header, Length};

/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// NULL.
pub const NULL: u8 = 0x05;
/// OBJECT IDENTIFIER.
pub const OBJECT_ID: u8 = 0x06;
/// SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// IpAddress (RFC 2578 §7.1.5).
pub const IP_ADDRESS: u8 = 0x40;
/// Counter32.
pub const COUNTER32: u8 = 0x41;
/// Gauge32, Unsigned32.
pub const GAUGE32: u8 = 0x42;
/// TimeTicks.
pub const TIME_TICKS: u8 = 0x43;
/// Opaque.
pub const OPAQUE: u8 = 0x44;
/// Counter64.
pub const COUNTER64: u8 = 0x46;

/// What was expected where the bytes said something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// One element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Class, form and number as in the first byte.
    pub tag: u8,
    /// What the length covers.
    pub content: &'a [u8],
    /// Head and content.
    pub whole: &'a [u8],
}

/// Takes the first element off `input`.
pub fn next<'a>(input: &mut &'a [u8], expected: &'static str) -> Result<Element<'a>, Malformed> {
    let bytes = *input;
    let Some((tag, head, end)) = extent(bytes) else { return Err(Malformed(expected)) };
    let (whole, after) = bytes.split_at(end);
    *input = after;
    Ok(Element { tag, content: &whole[head..], whole })
}

/// Tag of the first element, and where its content begins and ends; `None` unless all of it is there.
fn extent(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let &[tag, first, ..] = bytes else { return None };
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (head, length) = if first < 0x80 {
        // X.690 §8.1.3.4, the short form: nearly all heads of a notification. By the crate a fifth of a core went into heads at
        // 100,000 traps/s.
        (2, usize::from(first))
    } else {
        let (rest, header) = Header::from_ber(bytes).ok()?;
        let Length::Definite(length) = header.length() else { return None };
        (bytes.len() - rest.len(), length)
    };
    let end = head.checked_add(length).filter(|&end| end <= bytes.len())?;
    Some((tag, head, end))
}

/// Takes the first element off `input`, which must have this tag.
pub fn expect<'a>(input: &mut &'a [u8], tag: u8, expected: &'static str) -> Result<&'a [u8], Malformed> {
    let element = next(input, expected)?;
    if element.tag == tag { Ok(element.content) } else { Err(Malformed(expected)) }
}

/// Takes an INTEGER that fits 32 bits off `input`.
pub fn expect_i32(input: &mut &[u8], expected: &'static str) -> Result<i32, Malformed> {
    let value = signed(expect(input, INTEGER, expected)?).ok_or(Malformed(expected))?;
    i32::try_from(value).map_err(|_| Malformed(expected))
}

/// Two's complement of at most eight bytes; leading bytes that add nothing are let pass, as agents send them.
pub fn signed(content: &[u8]) -> Option<i64> {
    let (&first, _) = content.split_first().filter(|_| content.len() <= 8)?;
    let start = if first & 0x80 == 0 { 0 } else { -1 };
    Some(content.iter().fold(start, |value, &byte| value << 8 | i64::from(byte)))
}

/// An unsigned number of at most 64 bits. Some agents leave out the leading zero byte, so the sign is not looked at.
pub fn unsigned(content: &[u8]) -> Option<u64> {
    let digits = match content {
        [0, rest @ ..] if content.len() == 9 => rest,
        _ => content,
    };
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    Some(digits.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Writes elements from the end to the beginning, so that each length is known when it is written.
#[derive(Debug, Default)]
pub struct Writer {
    /// In reverse order.
    bytes: Vec<u8>,
}

impl Writer {
    /// Bytes written so far; hand it to [`Writer::close`] around what was written since.
    pub fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes as they are, before what was written.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes.iter().rev());
    }

    /// Puts a head before all that was written since `mark`.
    pub fn close(&mut self, tag: u8, mark: usize) {
        let length = self.bytes.len() - mark;
        if length < 0x80 {
            self.bytes.push(length as u8);
        } else {
            let bytes = (usize::BITS as usize - length.leading_zeros() as usize).div_ceil(8);
            self.bytes.extend(length.to_le_bytes().iter().take(bytes));
            self.bytes.push(0x80 | bytes as u8);
        }
        self.bytes.push(tag);
    }

    /// An element with this content.
    pub fn element(&mut self, tag: u8, content: &[u8]) {
        let mark = self.mark();
        self.raw(content);
        self.close(tag, mark);
    }

    /// An INTEGER, or another type with the same coding.
    pub fn integer(&mut self, tag: u8, value: i64) {
        let bytes = value.to_be_bytes();
        let spare = (0..7)
            .take_while(|&at| {
                let sign = if bytes[at + 1] & 0x80 == 0 { 0 } else { 0xff };
                bytes[at] == sign
            })
            .count();
        self.element(tag, &bytes[spare..]);
    }

    /// An object identifier of these arcs (at least two).
    pub fn object_id(&mut self, arcs: &[u32]) {
        self.element(OBJECT_ID, &crate::oid::encode(arcs));
    }

    /// All that was written, first byte first.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.reverse();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_are_read_as_asn1_rs_reads_them(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            head in prop::sample::select(vec![&[][..], &[0x30], &[0x30, 0x81], &[0x04, 0x82, 0], &[0x30, 0x82, 1]]),
        ) {
            bytes.splice(0..0, head.iter().copied());
            let theirs = Header::from_ber(&bytes).ok().and_then(|(rest, header)| match header.length() {
                Length::Definite(length) if length <= rest.len() => Some(&rest[..length]),
                _ => None,
            });
            let ours = next(&mut &bytes[..], "an element").ok();
            let has_long_tag = bytes.first().is_some_and(|tag| tag & 0x1f == 0x1f);
            prop_assert_eq!(ours.map(|element| element.content), theirs.filter(|_| !has_long_tag));
        }
    }

    #[test]
    fn numbers_of_every_length_come_back() {
        for value in [0, 1, -1, 127, 128, -128, -129, 65_535, i64::from(i32::MIN), i64::MAX, i64::MIN] {
            let mut writer = Writer::default();
            writer.integer(INTEGER, value);
            let bytes = writer.finish();
            let mut input = &bytes[..];
            assert_eq!(signed(expect(&mut input, INTEGER, "a number").unwrap()), Some(value));
            assert!(input.is_empty());
        }
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Some(u64::MAX));
        assert_eq!((unsigned(&[1; 9]), unsigned(&[]), signed(&[]), signed(&[0; 9])), (None, None, None, None));
    }

    #[test]
    fn lengths_of_every_form_come_back_and_cut_ones_are_refused() {
        for length in [0, 1, 127, 128, 255, 256, 65_536] {
            let mut writer = Writer::default();
            writer.element(OCTET_STRING, &vec![7; length]);
            let bytes = writer.finish();
            let mut input = &bytes[..];
            assert_eq!(expect(&mut input, OCTET_STRING, "a string").unwrap().len(), length);
            let mut cut = &bytes[..bytes.len() - 1];
            assert_eq!(next(&mut cut, "a string"), Err(Malformed("a string")));
        }
    }

    #[test]
    fn indefinite_lengths_and_long_tags_are_refused() {
        for bytes in
            [&[0x30, 0x80, 0, 0][..], &[0x3f, 0x81, 1, 0], &[0x30, 0xff], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]]
        {
            assert!(next(&mut &bytes[..], "x").is_err(), "{bytes:?}");
        }
    }
}
