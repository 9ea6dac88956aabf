//! Owns: SIP in the rule language.
//! Does not: read messages.

use crate::protocol::Keyword;

pub(super) const METHOD: u8 = 0;
pub(super) const URI: u8 = 1;
pub(super) const PROTOCOL: u8 = 2;
pub(super) const STATUS: u8 = 3;
pub(super) const STATUS_MESSAGE: u8 = 4;
pub(super) const REQUEST_LINE: u8 = 5;
pub(super) const RESPONSE_LINE: u8 = 6;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::buffer(METHOD, &["sip.method"]),
    Keyword::buffer(URI, &["sip.uri"]),
    Keyword::buffer(PROTOCOL, &["sip.protocol"]),
    Keyword::buffer(STATUS, &["sip.stat_code"]),
    Keyword::buffer(STATUS_MESSAGE, &["sip.stat_msg"]),
    Keyword::buffer(REQUEST_LINE, &["sip.request_line"]),
    Keyword::buffer(RESPONSE_LINE, &["sip.response_line"]),
];
