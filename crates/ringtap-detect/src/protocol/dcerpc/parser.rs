//! Owns: protocol data units (C706 §12.6), each as a whole.
//! Does not: know what a unit has to do with those before it.

/// Bytes of the common header.
const HEADER: usize = 16;
/// An authentication verifier's own header (§13.2.6.1).
const VERIFIER: usize = 8;

/// The header that all units have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    kind: u8,
    flags: u8,
    is_little: bool,
    /// Bytes of the unit.
    pub len: usize,
    verifier: usize,
    /// The call that it belongs to.
    pub call: u32,
}

impl UnitHeader {
    /// The first, or the last part of its call.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The last part.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.flags & 2 != 0
    }

    fn number16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    /// An identifier in the order of its text.
    fn uuid(&self, bytes: &[u8], at: usize) -> Option<[u8; 16]> {
        let mut uuid: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        if self.is_little {
            uuid[..4].reverse();
            uuid[4..6].reverse();
            uuid[6..8].reverse();
        }
        Some(uuid)
    }
}

/// Whether bytes begin like a unit.
pub(super) fn begins(bytes: &[u8]) -> bool {
    matches!(bytes, [5, 0..=1, 0..=19, 0..=0x7f | 0x83, 0x00 | 0x10, 0..=3, 0, 0, ..]) && header(bytes) != Some(None)
}

/// Reads the header: `None` while it is not whole, and `Some(None)` where it is none.
#[must_use]
pub fn header(bytes: &[u8]) -> Option<Option<UnitHeader>> {
    if bytes.first().is_some_and(|&version| version != 5) {
        return Some(None);
    }
    let head = bytes.get(..HEADER)?;
    let is_little = head[4] & 0x10 != 0;
    let mut header = UnitHeader { kind: head[2], flags: head[3], is_little, len: 0, verifier: 0, call: 0 };
    header.len = header.number16(head, 8)?.into();
    header.verifier = header.number16(head, 10)?.into();
    let call = [head[12], head[13], head[14], head[15]];
    header.call = if is_little { u32::from_le_bytes(call) } else { u32::from_be_bytes(call) };
    Some((header.len >= HEADER).then_some(header))
}

/// An interface that a client wants to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The number by which calls name it.
    pub context: u16,
    /// Its identifier, in the order of its text.
    pub uuid: [u8; 16],
    /// Major version.
    pub version: u16,
}

/// What a unit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'a> {
    /// A client binds interfaces, or binds others: `interfaces`.
    Bind(&'a [u8]),
    /// Which of them the server takes: `results`.
    BindAck(&'a [u8]),
    /// A call.
    Request {
        /// The interface's number.
        context: u16,
        /// Number of the operation.
        opnum: u16,
        /// Its arguments.
        stub: &'a [u8],
    },
    /// Its results.
    Response {
        /// The interface's number.
        context: u16,
        /// Results.
        stub: &'a [u8],
    },
    /// Anything else.
    Other,
}

/// Reads a unit; `None` where its lengths contradict each other.
#[must_use]
pub fn unit<'a>(header: &UnitHeader, bytes: &'a [u8]) -> Option<Unit<'a>> {
    const OBJECT: u8 = 0x80;
    let end = header.len.min(bytes.len());
    let end = if header.verifier > 0 { end.saturating_sub(header.verifier + VERIFIER) } else { end };
    Some(match header.kind {
        0 => {
            let from = if header.flags & OBJECT != 0 { 40 } else { 24 };
            let (context, opnum) = (header.number16(bytes, 20)?, header.number16(bytes, 22)?);
            Unit::Request { context, opnum, stub: bytes.get(from..end)? }
        }
        2 => Unit::Response { context: header.number16(bytes, 20)?, stub: bytes.get(24..end)? },
        11 | 14 => Unit::Bind(bytes.get(HEADER + 8..)?),
        12 | 15 => Unit::BindAck(bytes.get(HEADER + 8..)?),
        _ => Unit::Other,
    })
}

/// The interfaces of a bind, as far as they are whole.
pub fn interfaces<'a>(header: &'a UnitHeader, list: &'a [u8]) -> impl Iterator<Item = Interface> + 'a {
    let (count, mut rest) = (list.first().copied().unwrap_or(0), list.get(4..).unwrap_or_default());
    (0..count).map_while(move |_| {
        let (context, syntaxes) = (header.number16(rest, 0)?, usize::from(*rest.get(2)?));
        let (uuid, version) = (header.uuid(rest, 4)?, header.number16(rest, 20)?);
        rest = rest.get(24 + 20 * syntaxes..).unwrap_or_default();
        Some(Interface { context, uuid, version })
    })
}

/// Whether each of the interfaces is taken, in the order of the bind.
pub fn results<'a>(header: &'a UnitHeader, list: &'a [u8]) -> impl Iterator<Item = bool> + 'a {
    let address = usize::from(header.number16(list, 0).unwrap_or(0));
    // Up to the next multiple of four from the unit's beginning, which is one itself.
    let from = (2 + address).next_multiple_of(4);
    let count = list.get(from).copied().unwrap_or(0);
    (0..usize::from(count)).map_while(move |place| Some(header.number16(list, from + 4 + 24 * place)? == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let head = b"\x05\0\x0b\x03\x10\0\0\0\x48\0\0\0\x07\0\0\0\xb8\x10\xb8\x10\0\0\0\0\x01\0\0\0\x02\0\x01\0";
        let uuid = b"\x08\x83\xaf\xe1\x1f\x5d\xc9\x11\x91\xa4\x08\0\x2b\x14\xa0\xfa\x03\0\0\0";
        let whole = [&head[..], uuid, &[0; 20]].concat();
        let unit_header = header(&whole).unwrap().unwrap();
        assert_eq!((unit_header.len, unit_header.call, unit_header.is_last()), (72, 7, true));
        let Some(Unit::Bind(list)) = unit(&unit_header, &whole) else { panic!() };
        let [interface] = interfaces(&unit_header, list).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!(
            (interface.context, interface.version, interface.uuid[..4].to_vec()),
            (2, 3, b"\xe1\xaf\x83\x08".to_vec())
        );
        assert!(
            begins(&whole) && !begins(b"\x05\0\x63") && header(b"GET") == Some(None) && header(&whole[..15]).is_none()
        );
        let ack = b"\x03\x00ab\0\0\0\0\x02\0\0\0\0\0\0\0";
        let mut acks = [&ack[..], &[0; 20], &[2, 0, 0, 0]].concat();
        acks.extend([0; 20]);
        assert_eq!(results(&unit_header, &acks).collect::<Vec<_>>(), [true, false]);
    }
}
