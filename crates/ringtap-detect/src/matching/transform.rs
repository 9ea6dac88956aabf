//! Owns: what a rule does with a value before it is tested: its transforms, ready to run, and the memory that they change values in.
//! Does not: test values. No allocation after the program is built; what there is no room for is left out.

use md5::{Digest as _, Md5};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Input, meta};
use sha1::Sha1;
use sha2::Sha256;

use super::base64;
use super::expression::with_groups;
use crate::rules::rule::{Digest, Transform, XorKey};

/// Bytes of a value that are changed.
pub(crate) const MAX_TRANSFORMED: usize = 128 << 10;
/// Bytes that cost a step of the budget.
pub(crate) const BYTES_PER_STEP: usize = 16;

/// One transform, ready.
pub(crate) enum Change {
    Simple(Transform),
    /// The first group of the first match.
    Group(Box<meta::Regex>),
}

impl Change {
    /// Makes a transform ready.
    ///
    /// # Errors
    /// An expression that the linear-time engine does not take.
    pub(crate) fn new(transform: &Transform) -> Result<Self, String> {
        match transform {
            Transform::Expression(expression) => Ok(Self::Group(Box::new(with_groups(expression)?))),
            other => Ok(Self::Simple(other.clone())),
        }
    }
}

/// Memory for a value before a change and behind it.
pub(crate) struct Changed {
    value: Vec<u8>,
    spare: Vec<u8>,
}

impl Changed {
    /// Takes all memory.
    pub(crate) fn new() -> Self {
        Self { value: Vec::with_capacity(MAX_TRANSFORMED), spare: Vec::with_capacity(MAX_TRANSFORMED) }
    }

    /// The value behind all changes.
    pub(crate) fn apply(&mut self, value: &[u8], changes: &[Change]) -> &[u8] {
        self.value.clear();
        self.value.extend_from_slice(&value[..value.len().min(MAX_TRANSFORMED)]);
        for change in changes {
            self.spare.clear();
            match change {
                Change::Simple(transform) => simple(transform, &self.value, &mut self.spare),
                Change::Group(regex) => {
                    let mut slots: [Option<NonMaxUsize>; 4] = [None; 4];
                    regex.search_slots(&Input::new(&self.value[..]), &mut slots);
                    let group = match slots {
                        [_, _, Some(from), Some(to)] => self.value.get(from.get()..to.get()),
                        _ => None,
                    };
                    self.spare.extend_from_slice(group.unwrap_or(&self.value));
                }
            }
            std::mem::swap(&mut self.value, &mut self.spare);
        }
        &self.value
    }
}

/// `out` is empty and has room for [`MAX_TRANSFORMED`] bytes.
fn simple(transform: &Transform, value: &[u8], out: &mut Vec<u8>) {
    match transform {
        Transform::DotPrefix => {
            out.push(b'.');
            out.extend_from_slice(&value[..value.len().min(MAX_TRANSFORMED - 1)]);
        }
        Transform::UrlDecode => url_decode(value, out),
        Transform::Lowercase => out.extend(value.iter().map(u8::to_ascii_lowercase)),
        Transform::Uppercase => out.extend(value.iter().map(u8::to_ascii_uppercase)),
        Transform::StripWhitespace => out.extend(value.iter().filter(|&&byte| !is_space(byte))),
        Transform::CompressWhitespace => {
            let mut was_space = false;
            out.extend(value.iter().filter(|&&byte| !(std::mem::replace(&mut was_space, is_space(byte)) && was_space)));
        }
        Transform::Digest(Digest::Md5) => out.extend_from_slice(&Md5::digest(value)),
        Transform::Digest(Digest::Sha1) => out.extend_from_slice(&Sha1::digest(value)),
        Transform::Digest(Digest::Sha256) => out.extend_from_slice(&Sha256::digest(value)),
        Transform::Xor(XorKey::Bytes { key, offset }) => xor(value, key, *offset, out),
        Transform::Xor(XorKey::Within { len, at, offset }) => {
            let at = *at as usize;
            match value.get(at..at.saturating_add(*len as usize)) {
                Some(key) => xor(value, key, *offset, out),
                None => out.extend_from_slice(value),
            }
        }
        Transform::Base64 { offset, bytes } => {
            let from = value.get(*offset as usize..).unwrap_or_default();
            let most = if *bytes == 0 { from.len() } else { from.len().min(*bytes as usize) };
            if base64::decode(&from[..most], out) == 0 {
                out.extend_from_slice(value);
            }
        }
        // Has a form of its own.
        Transform::Expression(_) => out.extend_from_slice(value),
    }
}

/// As isspace(3) has it.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn xor(value: &[u8], key: &[u8], offset: u32, out: &mut Vec<u8>) {
    let offset = (offset as usize).min(value.len());
    out.extend_from_slice(&value[..offset]);
    out.extend(value[offset..].iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
}

/// Percent-encoding, and `+` for a space; what is no encoding stays.
fn url_decode(value: &[u8], out: &mut Vec<u8>) {
    let digit = |at: usize| value.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut at = 0;
    while at < value.len() {
        match (value[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) => out.push(b' '),
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rule::Test;
    use crate::rules::{Classes, RuleSet, Variables};

    /// The value behind the transforms of one rule.
    fn changed(options: &str, value: &[u8]) -> Vec<u8> {
        let text = format!("alert http any any -> any any (http.uri; {options} content:\"x\"; sid:1;)");
        let mut set = RuleSet::default();
        set.add("t", text.as_bytes(), &Variables::default(), &Classes::default());
        assert_eq!(set.rejected, [], "{options}");
        let changes: Vec<Change> =
            set.rules[0].transforms.last().unwrap().iter().map(|t| Change::new(t).unwrap()).collect();
        assert!(set.rules[0].buffers.iter().any(|(_, tests)| matches!(tests[..], [Test::Content(_)])));
        Changed::new().apply(value, &changes).to_vec()
    }

    #[test]
    fn chains() {
        assert_eq!(changed("url_decode;", b"a%2fb+c%zz%4"), b"a/b c%zz%4");
        assert_eq!(changed("to_lowercase; dotprefix;", b"EXAMPLE.org"), b".example.org");
        assert_eq!(changed("to_uppercase; strip_whitespace;", b" a \tb"), b"AB");
        assert_eq!(changed("compress_whitespace;", b"a  \t b c"), b"a b c");
        assert_eq!(changed("to_md5;", b"")[..4], [0xd4, 0x1d, 0x8c, 0xd9]);
        assert_eq!(changed("to_sha1;", b"")[..4], [0xda, 0x39, 0xa3, 0xee]);
        assert_eq!(changed("to_sha256;", b"")[..4], [0xe3, 0xb0, 0xc4, 0x42]);
        assert_eq!(changed("xor:\"0102\";", b"\x01\x01\x01"), b"\0\x03\0");
        assert_eq!(changed("xor:offset 1,extract 1 0;", b"\x01ab"), b"\x01`c");
        assert_eq!(changed("xor:extract 1 200;", b"ab"), b"ab", "there is no such key");
        assert_eq!(changed("from_base64: offset 2;", b"??YWJj!"), b"abc");
        assert_eq!(changed("pcrexform:\"a=(.*)&\";", b"?a=xyz&b"), b"xyz");
        assert_eq!(changed("pcrexform:\"a=(.*)&\";", b"none"), b"none");
    }
}
