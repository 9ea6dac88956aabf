//! Owns: what a rule may do with a buffer's value before it is tested.
//! Does not: do it (`matching/transform.rs` does).

use std::sync::Arc;

use super::Expression;

/// A change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transform {
    /// `dotprefix`: a dot before it. `.example.org` is the end of `example.org`, too.
    DotPrefix,
    /// `url_decode`: `%41` is a byte, `+` a space.
    UrlDecode,
    /// `to_lowercase`
    Lowercase,
    /// `to_uppercase`
    Uppercase,
    /// `strip_whitespace`
    StripWhitespace,
    /// `compress_whitespace`: one of several.
    CompressWhitespace,
    /// `to_md5`, `to_sha1`, `to_sha256`: the digest's bytes.
    Digest(Digest),
    /// `xor`
    Xor(XorKey),
    /// `pcrexform`: the first group of the first match; nothing changes where there is none.
    Expression(Arc<Expression>),
    /// `from_base64`: decoded from the offset on, at most so many characters; nothing changes where there is none.
    Base64 {
        /// Characters that are left out before.
        offset: u32,
        /// Characters that are read; 0: all.
        bytes: u32,
    },
}

/// A digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// MD5
    Md5,
    /// SHA-1
    Sha1,
    /// SHA-256
    Sha256,
}

/// The key of `xor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XorKey {
    /// These bytes, over and over, from the offset on.
    Bytes {
        /// The key.
        key: Vec<u8>,
        /// Bytes before are left as they are.
        offset: u32,
    },
    /// So many bytes of the value, at `at`: the key is taken from there.
    Within {
        /// Length of the key, bytes.
        len: u32,
        /// Where it is.
        at: u32,
        /// Bytes before are left as they are.
        offset: u32,
    },
}
