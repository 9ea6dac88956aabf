//! Owns: IKE in the rule language.
//! Does not: read messages.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::Test;

/// Security parameter index of either side, in hexadecimal digits: the initiator's in what it sends, the responder's in answers.
pub(super) const INITIATOR: u8 = 0;
pub(super) const RESPONDER: u8 = 1;
/// Exchange type: one byte.
pub(super) const EXCHANGE: u8 = 2;
/// An attribute of what the responder has chosen: its kind, and its value in four bytes.
pub(super) const CHOSEN: u8 = 3;
/// What a client says it is, in hexadecimal digits.
pub(super) const VENDOR: u8 = 4;
/// Key exchange and nonce, and their lengths in four bytes.
pub(super) const KEY: u8 = 5;
pub(super) const KEY_LENGTH: u8 = 6;
pub(super) const NONCE: u8 = 7;
pub(super) const NONCE_LENGTH: u8 = 8;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(INITIATOR, &["ike.init_spi"]),
    Keyword::buffer(RESPONDER, &["ike.resp_spi"]),
    Keyword::value(EXCHANGE, &["ike.exchtype"], |value| Ok(vec![Test::Number(vec![compare(value, 255)?])])),
    Keyword::value(CHOSEN, &["ike.chosen_sa_attribute"], chosen),
    Keyword::buffer(VENDOR, &["ike.vendor"]),
    Keyword::buffer(KEY, &["ike.key_exchange_payload"]),
    Keyword::value(KEY_LENGTH, &["ike.key_exchange_payload_length"], length),
    Keyword::buffer(NONCE, &["ike.nonce_payload"]),
    Keyword::value(NONCE_LENGTH, &["ike.nonce_payload_length"], length),
];

/// Attributes by the names that rules use, and their kinds (RFC 2409 appendix A).
const ATTRIBUTES: &[(&str, u8)] = &[
    ("alg_enc", 1),
    ("alg_hash", 2),
    ("alg_auth", 3),
    ("alg_dh", 4),
    ("sa_group_type", 5),
    ("sa_life_type", 11),
    ("sa_life_duration", 12),
    ("alg_prf", 13),
    ("sa_key_length", 14),
    ("sa_field_size", 15),
];

fn length(value: &str) -> Result<Vec<Test>, String> {
    Ok(vec![Test::Number(vec![compare(value, u32::MAX.into())?])])
}

/// `NAME=VALUE`
fn chosen(value: &str) -> Result<Vec<Test>, String> {
    let (name, number) = value.split_once('=').ok_or("needs NAME=VALUE")?;
    let known = ATTRIBUTES.iter().find(|(known, _)| *known == name.trim());
    let &(_, kind) = known.ok_or_else(|| format!("'{}' is no attribute", name.trim()))?;
    let number: u32 = number.trim().parse().map_err(|_| format!("'{}' is no number", number.trim()))?;
    let [a, b, c, d] = number.to_be_bytes();
    Ok(Test::whole(&[kind, a, b, c, d]))
}
