//! Owns: RFB in the rule language.
//! Does not: read the handshake.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::{Compare, Test};

/// The desktop's name.
pub(super) const NAME: u8 = 0;
/// Security type: four bytes.
pub(super) const SECURITY: u8 = 1;
/// What became of it: four bytes.
pub(super) const RESULT: u8 = 2;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(NAME, &["rfb.name"]),
    Keyword::value(SECURITY, &["rfb.sectype"], |value| Ok(vec![Test::Number(vec![compare(value, u32::MAX.into())?])])),
    Keyword::value(RESULT, &["rfb.secresult"], result),
];

fn result(value: &str) -> Result<Vec<Test>, String> {
    let (low, high) = match value.trim() {
        "ok" => (0, 0),
        "fail" => (1, 1),
        "toomany" => (2, 2),
        "unknown" => (3, u32::MAX.into()),
        other => return Err(format!("'{other}' is not ok, fail, toomany or unknown")),
    };
    Ok(vec![Test::Number(vec![Compare { low, high, negated: false }])])
}
