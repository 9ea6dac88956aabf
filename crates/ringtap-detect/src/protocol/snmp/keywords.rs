//! Owns: SNMP in the rule language.
//! Does not: read messages.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::Test;

pub(super) const VERSION: u8 = 0;
pub(super) const COMMUNITY: u8 = 1;
pub(super) const USER: u8 = 2;
pub(super) const PDU: u8 = 3;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::value(VERSION, &["snmp.version"], |value| Ok(vec![Test::Number(vec![compare(value, 255)?])])),
    Keyword::buffer(COMMUNITY, &["snmp.community"]),
    Keyword::buffer(USER, &["snmp.usm"]),
    Keyword::value(PDU, &["snmp.pdu_type"], |value| Ok(vec![Test::Number(vec![compare(value, 8)?])])),
];
