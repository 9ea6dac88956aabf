//! Owns: the parts of a message before what it carries (RFC 1157 §4, RFC 3412 §6, RFC 3414 §2.4), in BER.
//! Does not: read what it carries.

/// A message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// 1, 2 or 3.
    pub version: u8,
    /// Community, of versions 1 and 2.
    pub community: Option<&'a [u8]>,
    /// User, of version 3.
    pub user: Option<&'a [u8]>,
    /// What it is for: 0 (GetRequest) to 8 (Report); `None` if it is encrypted.
    pub pdu: Option<u8>,
}

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// The next element: its tag and its content, as far as it is there; the rest behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, &digit| len << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at(len.min(rest.len()));
    Some((tag, content, rest))
}

/// An element of this tag.
fn of_tag(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(tag, ..)| *tag == wanted).map(|(_, content, rest)| (content, rest))
}

fn pdu(bytes: &[u8]) -> Option<u8> {
    element(bytes).map(|(tag, ..)| tag).filter(|tag| (0xa0..=0xa8).contains(tag)).map(|tag| tag & 0x0f)
}

/// Reads a message; `None` where it is none.
#[must_use]
pub fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let (body, _) = of_tag(bytes, SEQUENCE)?;
    let (version, rest) = of_tag(body, INTEGER)?;
    match version {
        [number @ (0 | 1)] => {
            let (community, rest) = of_tag(rest, OCTETS)?;
            Some(Message { version: number + 1, community: Some(community), pdu: pdu(rest), user: None })
        }
        [3] => {
            let (_header, rest) = of_tag(rest, SEQUENCE)?;
            let (security, rest) = of_tag(rest, OCTETS)?;
            Some(Message { version: 3, user: user(security), pdu: scoped(rest), community: None })
        }
        _ => None,
    }
}

/// The user in USM's parameters: behind engine, boots and time.
fn user(security: &[u8]) -> Option<&[u8]> {
    let (parameters, _) = of_tag(security, SEQUENCE)?;
    let (_, rest) = of_tag(parameters, OCTETS)?;
    let (_, rest) = of_tag(rest, INTEGER)?;
    let (_, rest) = of_tag(rest, INTEGER)?;
    of_tag(rest, OCTETS).map(|(user, _)| user)
}

/// The PDU of one that is not encrypted: behind engine and context.
fn scoped(bytes: &[u8]) -> Option<u8> {
    let (scoped, _) = of_tag(bytes, SEQUENCE)?;
    let (_, rest) = of_tag(scoped, OCTETS)?;
    let (_, rest) = of_tag(rest, OCTETS)?;
    pdu(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let second = b"\x30\x0d\x02\x01\x01\x04\x06public\xa1\x00";
        let expected = Message { version: 2, community: Some(b"public"), pdu: Some(1), user: None };
        assert_eq!(message(second), Some(expected));
        let third = b"\x30\x24\x02\x01\x03\x30\x00\x04\x11\x30\x0f\x04\x01e\x02\x01\x01\x02\x01\x02\x04\x02me\x04\x00\x30\x06\x04\x00\x04\x00\xa0\x00";
        assert_eq!(message(third), Some(Message { version: 3, community: None, pdu: Some(0), user: Some(b"me") }));
        for cut in 0..second.len() - 2 {
            assert!(message(&second[..cut]).is_none_or(|message| message.pdu.is_none()), "{cut}");
        }
        assert_eq!((message(b"\x30\x03\x02\x01\x07"), message(b"\x30\x84\xff\xff\xff\xff")), (None, None));
    }
}
