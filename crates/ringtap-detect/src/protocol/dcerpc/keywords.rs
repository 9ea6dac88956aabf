//! Owns: DCE/RPC in the rule language.
//! Does not: read units.

use crate::protocol::Keyword;
use crate::rules::compare;
use crate::rules::rule::{Content, Number, Operator, Test, Value};

pub(super) const RULE_NAMES: &[&str] = &["dcerpc"];

/// The interface of a call: its identifier, in the order of its text, and two bytes of its version.
pub(super) const IFACE: u8 = 0;
/// Number of its operation: two bytes.
pub(super) const OPNUM: u8 = 1;
/// Its arguments or results.
pub(super) const STUB: u8 = 2;

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::value(IFACE, &["dcerpc.iface", "dce_iface"], iface),
    Keyword::value(OPNUM, &["dcerpc.opnum", "dce_opnum"], opnum),
    Keyword::buffer(STUB, &["dcerpc.stub_data", "dce_stub_data"]),
];

/// `UUID[,<|>|=|!VERSION][,any_frag]`
pub(crate) fn iface(value: &str) -> Result<Vec<Test>, String> {
    let mut words = value.split(',').map(str::trim);
    let text = words.next().unwrap_or_default();
    let digits: Vec<u32> =
        text.chars().filter(|&letter| letter != '-').map_while(|letter| letter.to_digit(16)).collect();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    if digits.len() != 32 || groups != [8, 4, 4, 4, 12] {
        return Err(format!("'{text}' is no UUID"));
    }
    let uuid = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    let start = Some(Value::Number(0));
    let mut tests = vec![Test::Content(Content { offset: start, depth: Some(Value::Number(16)), ..Content::of(uuid) })];
    for word in words {
        // All parts of a call are looked at together.
        if word == "any_frag" {
            continue;
        }
        let (operator, negated) = match word.chars().next() {
            Some('<') => (Operator::Less, false),
            Some('>') => (Operator::Greater, false),
            Some('=') => (Operator::Equal, false),
            Some('!') => (Operator::Equal, true),
            _ => return Err(format!("'{word}' is not known")),
        };
        let version: u16 = word[1..].trim().parse().map_err(|_| format!("'{word}' names no version"))?;
        let number = Number {
            bytes: Value::Number(2),
            offset: Value::Number(16),
            relative: false,
            little: false,
            text_base: None,
            mask: None,
        };
        tests.push(Test::ByteTest { number, operator, negated, value: Value::Number(version.into()) });
    }
    Ok(tests)
}

/// Numbers and ranges of them, apart by commas.
pub(crate) fn opnum(value: &str) -> Result<Vec<Test>, String> {
    let list = value.split(',').map(|part| compare(part, u16::MAX.into())).collect::<Result<_, _>>()?;
    Ok(vec![Test::Number(list)])
}
