//! Owns: TLS in the rule language.
//! Does not: read records.

use crate::protocol::Keyword;
use crate::rules::rule::Test;

pub(super) const RULE_NAMES: &[&str] = &["tls", "ssl"];

/// The server name in the client's hello.
pub(super) const SNI: u8 = 0;
/// The version, as rules name it.
pub(super) const VERSION: u8 = 1;
/// Digests of the hellos and what they are made of.
pub(super) const JA3_HASH: u8 = 2;
pub(super) const JA3_STRING: u8 = 3;
pub(super) const JA3S_HASH: u8 = 4;
pub(super) const JA3S_STRING: u8 = 5;
/// The server's certificates, each as it is.
pub(super) const CERTS: u8 = 6;
/// Of the first of them: subject, issuer, serial number.
pub(super) const SUBJECT: u8 = 7;
pub(super) const ISSUER: u8 = 8;
pub(super) const SERIAL: u8 = 9;
/// SHA-1 of it, in hexadecimal digits with colons; its value goes to both.
pub(super) const FINGERPRINT: u8 = 10;
pub(super) const FINGERPRINT_WORD: u8 = 11;
/// The hello's random bytes: all 32, the four that were a time once, the others.
pub(super) const RANDOM: u8 = 12;
pub(super) const RANDOM_TIME: u8 = 13;
pub(super) const RANDOM_BYTES: u8 = 14;
/// An older form of the subject's keyword, with what it has behind it; the same of the issuer.
pub(super) const SUBJECT_WORD: u8 = 15;
pub(super) const ISSUER_WORD: u8 = 16;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(SNI, &["tls.sni", "tls_sni"]),
    Keyword::value(VERSION, &["tls.version", "ssl_version"], version),
    Keyword::buffer(JA3_HASH, &["ja3.hash", "ja3_hash"]),
    Keyword::buffer(JA3_STRING, &["ja3.string", "ja3_string"]),
    Keyword::buffer(JA3S_HASH, &["ja3s.hash"]),
    Keyword::buffer(JA3S_STRING, &["ja3s.string"]),
    Keyword::buffer(CERTS, &["tls.certs"]),
    Keyword::buffer(SUBJECT, &["tls.cert_subject", "tls_cert_subject"]),
    Keyword::buffer(ISSUER, &["tls.cert_issuer", "tls_cert_issuer"]),
    Keyword::buffer(SERIAL, &["tls.cert_serial", "tls_cert_serial"]),
    Keyword::buffer(FINGERPRINT, &["tls.cert_fingerprint", "tls_cert_fingerprint"]),
    Keyword::value(FINGERPRINT_WORD, &["tls.fingerprint"], fingerprint),
    Keyword::buffer(RANDOM, &["tls.random"]),
    Keyword::buffer(RANDOM_TIME, &["tls.random_time"]),
    Keyword::buffer(RANDOM_BYTES, &["tls.random_bytes"]),
    Keyword::value(SUBJECT_WORD, &["tls.subject"], part),
    Keyword::value(ISSUER_WORD, &["tls.issuerdn"], part),
];

/// Versions have several names.
fn version(value: &str) -> Result<Vec<Test>, String> {
    let word = value.trim().trim_matches('"').to_ascii_lowercase();
    let word = word.strip_prefix("tls").unwrap_or(&word);
    if word.is_empty() || word.contains([',', '!', '|']) {
        return Err(String::new());
    }
    Ok(Test::whole(word.as_bytes()))
}

/// `"aa:bb:…"`, in any case.
fn fingerprint(value: &str) -> Result<Vec<Test>, String> {
    let word = value.trim().trim_matches('"').to_ascii_lowercase();
    let is_hex = word.split(':').all(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
    if word.starts_with('!') {
        return Err(String::new());
    }
    if is_hex { Ok(Test::whole(word.as_bytes())) } else { Err(format!("'{word}' is no SHA-1 in hex with colons")) }
}

/// Text that is somewhere in the value.
fn part(value: &str) -> Result<Vec<Test>, String> {
    let word = value.trim();
    if word.starts_with('!') {
        return Err(String::new());
    }
    let word = word.trim_matches('"');
    if word.is_empty() { Err("is empty".to_owned()) } else { Ok(Test::within(word.as_bytes())) }
}
