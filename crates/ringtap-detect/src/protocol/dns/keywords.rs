//! Owns: DNS in the rule language.
//! Does not: read messages.

use crate::protocol::Keyword;

pub(super) const RULE_NAMES: &[&str] = &["dns"];

/// A name that a query asks for.
pub(super) const QUERY: u8 = 0;

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::buffer(QUERY, &["dns.query", "dns_query"])];
