//! Owns: DNS in the rule language.
//! Does not: read messages.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::Test;

pub(super) const RULE_NAMES: &[&str] = &["dns"];

/// A name that a query asks for.
pub(super) const QUERY: u8 = 0;

/// What a message is for: one byte.
pub(super) const OPCODE: u8 = 1;
/// What an answer says of it: two bytes.
pub(super) const RCODE: u8 = 2;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(QUERY, &["dns.query", "dns_query"]),
    Keyword::value(OPCODE, &["dns.opcode"], |value| Ok(vec![Test::Number(vec![compare(value, 15)?])])),
    Keyword::value(RCODE, &["dns.rcode"], |value| Ok(vec![Test::Number(vec![compare(value, 15)?])])),
];
