//! Owns: TLS in the rule language.
//! Does not: read records.

use crate::protocol::Keyword;

pub(super) const RULE_NAMES: &[&str] = &["tls", "ssl"];

/// The server name in the client's hello.
pub(super) const SNI: u8 = 0;

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::buffer(SNI, &["tls.sni", "tls_sni"])];
