//! Owns: options that change a buffer's values before they are tested.
//! Does not: change any (`matching/transform.rs` does).

use std::sync::Arc;

use super::{Builder, Fault, bytes};
use crate::rules::numbers::number;
use crate::rules::rule::{Buffer, Digest, Transform, XorKey};

/// Transforms of one buffer, and chains of them in one rule.
const MAX_TRANSFORMS: usize = 16;
/// Longest key of `xor` that is taken from the value, bytes.
const MAX_KEY: u32 = 255;

impl Builder<'_, '_> {
    /// Whether this was such an option.
    pub(super) fn transform(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        let transform = match name {
            "dotprefix" => Transform::DotPrefix,
            "url_decode" => Transform::UrlDecode,
            "to_lowercase" => Transform::Lowercase,
            "to_uppercase" => Transform::Uppercase,
            "strip_whitespace" => Transform::StripWhitespace,
            "compress_whitespace" => Transform::CompressWhitespace,
            "to_md5" => Transform::Digest(Digest::Md5),
            "to_sha1" => Transform::Digest(Digest::Sha1),
            "to_sha256" => Transform::Digest(Digest::Sha256),
            "xor" => Transform::Xor(xor(value)?),
            "from_base64" => from_base64(value)?,
            "pcrexform" => {
                // As `pcre` has it, without slashes.
                let inner = value.trim().trim_matches('"');
                let (expression, _) = bytes::expression(&format!("/{inner}/"))?;
                Transform::Expression(Arc::new(expression))
            }
            _ => return Ok(false),
        };
        let (buffer, mut chain) = match self.buffer {
            Buffer::App(buffer) => (buffer, Vec::new()),
            Buffer::Transformed(buffer, chain) => (buffer, self.rule.transforms[usize::from(chain)].clone()),
            _ => return Err("there is no buffer of an application before it".into()),
        };
        if chain.len() == MAX_TRANSFORMS {
            return Err("there are too many transforms".into());
        }
        chain.push(transform);
        let known = self.rule.transforms.iter().position(|other| *other == chain);
        let place = known.unwrap_or_else(|| {
            self.rule.transforms.push(chain);
            self.rule.transforms.len() - 1
        });
        let place = u8::try_from(place).map_err(|_| "there are too many transforms".to_owned())?;
        self.buffer = Buffer::Transformed(buffer, place);
        Ok(true)
    }
}

fn number32(text: &str) -> Result<u32, Fault> {
    let wrong = || Fault::Bad(format!("'{text}' is no number below 2^32"));
    number(text).and_then(|number| u32::try_from(number).ok()).ok_or_else(wrong)
}

/// `"HEX"` with `offset N` before it, or `extract LENGTH PLACE`.
fn xor(value: &str) -> Result<XorKey, Fault> {
    let (mut offset, mut key) = (0, None);
    for word in value.split(',').map(|word| word.trim().trim_matches('"')) {
        let words: Vec<&str> = word.split_whitespace().collect();
        match words[..] {
            ["offset", number] => offset = number32(number)?,
            ["extract", len, at] => {
                let len = number32(len)?;
                if len == 0 || len > MAX_KEY {
                    return Err(Fault::Bad(format!("a key has 1 to {MAX_KEY} bytes")));
                }
                key = Some(XorKey::Within { len, at: number32(at)?, offset: 0 });
            }
            [hex] if hex.len() % 2 == 0 && hex.len() <= 2 * MAX_KEY as usize => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let pairs = hex.as_bytes().chunks_exact(2);
                let bytes = pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8));
                let bytes = bytes.collect::<Option<Vec<u8>>>().ok_or("the key is not in hex")?;
                key = Some(XorKey::Bytes { key: bytes, offset: 0 });
            }
            _ => return Err(Fault::Bad(format!("'{word}' is not known"))),
        }
    }
    Ok(match key.ok_or("there is no key")? {
        XorKey::Bytes { key, .. } => XorKey::Bytes { key, offset },
        XorKey::Within { len, at, .. } => XorKey::Within { len, at, offset },
    })
}

/// `[bytes N][, offset N][, mode rfc4648|rfc2045]`
fn from_base64(value: &str) -> Result<Transform, Fault> {
    let (mut offset, mut count) = (0, 0);
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let words: Vec<&str> = word.split_whitespace().collect();
        match words[..] {
            ["offset", number] => offset = number32(number)?,
            ["bytes", number] => count = number32(number)?,
            ["mode", "rfc4648" | "rfc2045"] => {}
            ["mode", _] => return Err(Fault::Form(word.to_owned())),
            _ => return Err(Fault::Bad(format!("'{word}' is not known"))),
        }
    }
    Ok(Transform::Base64 { offset, bytes: count })
}
