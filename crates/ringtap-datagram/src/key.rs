//! Owns: the key of a sensor, and the seal made with it: HMAC-SHA-256, cut to 16 bytes.
//! Does not: read files; show a secret.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of a seal, bytes.
pub const TAG_LEN: usize = 16;
/// A secret has so many bytes: fewer can be guessed, more than a block would be hashed first.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// A secret and its number, by which the receiver finds it. As text: `NUMBER:HEXDIGITS`.
#[derive(Clone)]
pub struct Key {
    id: u32,
    /// Has taken the secret already: cloned for each message.
    state: Hmac<Sha256>,
}

/// A text that is no key. It never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError(&'static str);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for KeyError {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FromStr for Key {
    type Err = KeyError;

    /// Reads `NUMBER:HEXDIGITS`, with white space around.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (id, digits) = text.trim().split_once(':').ok_or(KeyError("a key is NUMBER:HEXDIGITS"))?;
        let id = id.parse().map_err(|_| KeyError("a key's number is from 0 to 4294967295"))?;
        let secret = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        Self::new(id, &secret.map_err(|_| KeyError("a key's secret is an even number of hexadecimal digits"))?)
    }
}

impl Key {
    /// Of a secret of 16 to 64 bytes.
    ///
    /// # Errors
    /// It has another length.
    pub fn new(id: u32, secret: &[u8]) -> Result<Self, KeyError> {
        const LENGTH: KeyError = KeyError("a key's secret is 16 to 64 bytes, so 32 to 128 hexadecimal digits");
        if !SECRET_BYTES.contains(&secret.len()) {
            return Err(LENGTH);
        }
        Ok(Self { id, state: Hmac::new_from_slice(secret).map_err(|_| LENGTH)? })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether another seals alike, with the same number.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        const SAMPLE: &[u8] = b"whatever both seal";
        self.id == other.id && self.has_sealed(SAMPLE, &other.seal(SAMPLE))
    }

    pub(crate) fn seal(&self, bytes: &[u8]) -> [u8; TAG_LEN] {
        let tag = self.state.clone().chain_update(bytes).finalize().into_bytes();
        tag.first_chunk().copied().unwrap_or_default()
    }

    /// In a time that does not depend on where they differ.
    pub(crate) fn has_sealed(&self, bytes: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        self.state.clone().chain_update(bytes).verify_truncated_left(tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 1: a key of twenty bytes.
    #[test]
    fn a_known_seal() {
        let key = Key::new(1, &[0x0b; 20]).unwrap();
        let tag = key.seal(b"Hi There");
        assert_eq!(data_encoding::HEXLOWER.encode(&tag), "b0344c61d8db38535ca8afceaf0bf12b");
        assert!(key.has_sealed(b"Hi There", &tag) && !key.has_sealed(b"Hi there", &tag));
    }

    #[test]
    fn keys_as_text() {
        let digits = "00112233445566778899aabbccddeeFF";
        let key: Key = format!(" 4294967295:{digits}\n").parse().unwrap();
        assert_eq!((key.id(), format!("{key:?}")), (u32::MAX, "Key { id: 4294967295, .. }".to_owned()));
        for wrong in ["", digits, "x:00", &format!("-1:{digits}"), "1:zz", "1:0011", &format!("1:{}", "00".repeat(65))]
        {
            let error = wrong.parse::<Key>().unwrap_err().to_string();
            assert!(!error.contains("zz") && !error.contains("0011"), "{error}");
        }
    }
}
