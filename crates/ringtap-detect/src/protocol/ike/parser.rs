//! Owns: messages of IKE: the header, payloads that are not encrypted (RFC 2408 §3, RFC 7296 §3), and what of a security association
//! is chosen.
//! Does not: decrypt, or follow exchanges.

/// Bytes of the header, and of each payload's.
const HEADER: usize = 28;
const PAYLOAD: usize = 4;
/// Payloads of a message, and attributes of a transform, that are read.
const MOST_PAYLOADS: usize = 64;
const MOST_ATTRIBUTES: usize = 32;

/// Kinds of payloads of version 1.
const PROPOSAL: u8 = 2;
const TRANSFORM: u8 = 3;
pub(super) const KEY_EXCHANGE: u8 = 4;
pub(super) const NONCE: u8 = 10;
pub(super) const VENDOR: u8 = 13;

/// A message's header, and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Index of who began.
    pub initiator: &'a [u8],
    /// Of who answered; 0 before.
    pub responder: &'a [u8],
    /// 1 or 2.
    pub version: u8,
    /// What the exchange is for.
    pub exchange: u8,
    /// Payloads are encrypted (version 1).
    pub is_encrypted: bool,
    next: u8,
    rest: &'a [u8],
}

/// A payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// What it is.
    pub kind: u8,
    /// What is in it, as far as it is there.
    pub body: &'a [u8],
}

/// An attribute of a security association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// As RFC 2409 appendix A has them.
    pub kind: u8,
    /// Its number.
    pub value: u32,
}

/// Reads the header; `None` where it is none.
#[must_use]
pub fn header(bytes: &[u8]) -> Option<Header<'_>> {
    let (head, rest) = bytes.split_at_checked(HEADER)?;
    let version = head[17] >> 4;
    matches!(version, 1 | 2).then_some(Header {
        initiator: &head[..8],
        responder: &head[8..16],
        version,
        exchange: head[18],
        is_encrypted: version == 1 && head[19] & 1 != 0,
        next: head[16],
        rest,
    })
}

/// The kind of payload that is a security association.
pub(super) fn association(version: u8) -> u8 {
    if version == 1 { 1 } else { 33 }
}

/// A message's payloads, one behind the other.
pub fn payloads<'a>(header: &Header<'a>) -> impl Iterator<Item = Payload<'a>> + use<'a> {
    let first = if header.is_encrypted { 0 } else { header.next };
    chain(first, header.rest)
}

/// Payloads that each name the kind of the next one; 0: there is none.
fn chain(first: u8, bytes: &[u8]) -> impl Iterator<Item = Payload<'_>> {
    let (mut kind, mut rest) = (first, bytes);
    let next = move || {
        let head = rest.first_chunk::<PAYLOAD>().filter(|_| kind != 0)?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if len < PAYLOAD {
            return None;
        }
        let (payload, behind) = rest.split_at(len.min(rest.len()));
        let found = Payload { kind, body: &payload[PAYLOAD..] };
        (kind, rest) = (head[0], behind);
        Some(found)
    };
    std::iter::from_fn(next).take(MOST_PAYLOADS)
}

/// Shows the attributes of the first proposal's first transform (version 1), or each transform of it (version 2).
pub fn chosen(version: u8, association: &[u8], mut show: impl FnMut(Attribute)) {
    // Domain of interpretation and situation (RFC 2408 §3.4).
    let proposals = if version == 1 { association.get(8..).unwrap_or_default() } else { association };
    let Some(proposal) = chain(PROPOSAL, proposals).next() else { return };
    let Some(&[_, _, index_len, _]) = proposal.body.first_chunk::<4>() else { return };
    let transforms = proposal.body.get(4 + usize::from(index_len)..).unwrap_or_default();
    if version == 1 {
        if let Some(first) = chain(TRANSFORM, transforms).next() {
            attributes(first.body.get(4..).unwrap_or_default(), show);
        }
        return;
    }
    for transform in chain(TRANSFORM, transforms) {
        let Some(&[kind, _, high, low]) = transform.body.first_chunk::<4>() else { return };
        // Of encryption, pseudo-random function, integrity, group (RFC 7296 §3.3.2), under the names of version 1.
        if let Some(kind) = [1, 13, 3, 4].get(usize::from(kind.wrapping_sub(1))) {
            show(Attribute { kind: *kind, value: u16::from_be_bytes([high, low]).into() });
        }
    }
}

/// Attributes (RFC 2408 §3.3): a kind, and a value of two bytes or of so many as it says.
fn attributes(bytes: &[u8], mut show: impl FnMut(Attribute)) {
    let mut rest = bytes;
    for _ in 0..MOST_ATTRIBUTES {
        let Some((&[high, low, first, second], behind)) = rest.split_first_chunk::<4>() else { return };
        let (kind, word) = (u16::from_be_bytes([high & 0x7f, low]), u16::from_be_bytes([first, second]));
        let value = if high & 0x80 != 0 {
            rest = behind;
            Some(word.into())
        } else {
            let Some((value, behind)) = behind.split_at_checked(word.into()) else { return };
            rest = behind;
            (value.len() <= 4).then(|| value.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
        };
        if let (Ok(kind), Some(value)) = (u8::try_from(kind), value) {
            show(Attribute { kind, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(version: u8, flags: u8, next: u8, payloads: &[u8]) -> Vec<u8> {
        let head = [&[7; 8][..], &[9; 8], &[next, version << 4, 2, flags, 0, 0, 0, 0, 0, 0, 0, 0]];
        [head.concat(), payloads.to_vec()].concat()
    }

    fn payload(next: u8, body: &[u8]) -> Vec<u8> {
        [&[next, 0][..], &(body.len() as u16 + 4).to_be_bytes(), body].concat()
    }

    fn attributes_of(version: u8, association: &[u8]) -> Vec<(u8, u32)> {
        let mut found = Vec::new();
        chosen(version, association, |Attribute { kind, value }| found.push((kind, value)));
        found
    }

    #[test]
    fn payloads_of_messages() {
        let list = [payload(NONCE, b"key"), payload(0, b"nonce"), payload(0, b"behind")].concat();
        let bytes = message(1, 0, KEY_EXCHANGE, &list);
        let header = header(&bytes).unwrap();
        assert_eq!((header.version, header.exchange, header.responder), (1, 2, &[9; 8][..]));
        let found: Vec<(u8, &[u8])> = payloads(&header).map(|of| (of.kind, of.body)).collect();
        assert_eq!(found, [(KEY_EXCHANGE, &b"key"[..]), (NONCE, b"nonce")]);
        let encrypted = message(1, 1, KEY_EXCHANGE, &list);
        assert_eq!(payloads(&super::header(&encrypted).unwrap()).count(), 0);
        assert_eq!((super::header(&bytes[..27]), super::header(&message(3, 0, 0, b""))), (None, None));
        // A payload shorter than its own header ends the message.
        let broken = message(1, 0, NONCE, &[NONCE, 0, 0, 3, 1, 2]);
        assert_eq!(payloads(&super::header(&broken).unwrap()).count(), 0);
    }

    #[test]
    fn what_is_chosen() {
        let list = [0x80, 1, 0, 7, 0x80, 2, 0, 2, 0, 12, 0, 4, 0, 1, 0x51, 0x80, 0x80, 14, 0, 128];
        let transform = payload(0, &[&[1, 1, 0, 0][..], &list].concat());
        let proposal = payload(0, &[&[1, 1, 0, 1][..], &transform].concat());
        let association = [&[0, 0, 0, 1, 0, 0, 0, 1][..], &proposal].concat();
        assert_eq!(attributes_of(1, &association), [(1, 7), (2, 2), (12, 86400), (14, 128)]);
        let transforms = [payload(3, &[1, 0, 0, 12]), payload(3, &[2, 0, 0, 5]), payload(0, &[4, 0, 0, 14])].concat();
        let proposal = payload(0, &[&[1, 1, 4, 3, 1, 2, 3, 4][..], &transforms].concat());
        assert_eq!(attributes_of(2, &proposal), [(1, 12), (13, 5), (4, 14)]);
        for cut in 0..association.len() {
            assert!(attributes_of(1, &association[..cut]).len() <= 4);
        }
    }
}
