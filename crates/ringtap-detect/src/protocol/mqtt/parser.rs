//! Owns: control packets (MQTT 5.0 §2, §3; MQTT 3.1.1 §2, §3), each as a whole.
//! Does not: follow connections.

/// Bytes of the longest fixed header.
pub const MAX_HEADER: usize = 5;

pub(super) const CONNECT: u8 = 1;

/// Bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What every packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    /// Type; 0 is none.
    pub kind: u8,
    /// Flags: of PUBLISH, retain (1), quality of service (6) and duplicate (8).
    pub flags: u8,
    /// Bytes of this header, and behind it.
    pub len: usize,
    /// Bytes behind it.
    pub rest: usize,
}

impl FixedHeader {
    /// Quality of service; 3 is none.
    #[must_use]
    pub fn qos(&self) -> u8 {
        self.flags >> 1 & 3
    }
}

/// Reads a fixed header; `None` while it is not whole.
#[must_use]
pub fn fixed_header(bytes: &[u8]) -> Option<Result<FixedHeader, Malformed>> {
    let (&first, rest) = bytes.split_first()?;
    match variable_number(rest) {
        Some((number, len)) => {
            Some(Ok(FixedHeader { kind: first >> 4, flags: first & 15, len: 1 + len, rest: number as usize }))
        }
        None if rest.len() < 4 => None,
        None => Some(Err(Malformed)),
    }
}

/// A variable byte integer (§1.5.5) and its length.
fn variable_number(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut number = 0;
    for (place, &byte) in bytes.iter().enumerate().take(4) {
        number |= u32::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, place + 1));
        }
    }
    None
}

/// CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// Name of the protocol: `MQTT`.
    pub protocol: &'a [u8],
    /// 3, 4 (3.1.1) or 5.
    pub version: u8,
    /// Connect flags (§3.1.2.3).
    pub flags: u8,
    /// Client identifier.
    pub client_id: &'a [u8],
    /// Where the will goes.
    pub will_topic: Option<&'a [u8]>,
    /// The will.
    pub will_message: Option<&'a [u8]>,
    /// User.
    pub username: Option<&'a [u8]>,
    /// Password.
    pub password: Option<&'a [u8]>,
}

/// A packet behind its fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the standard's names")]
pub enum Packet<'a> {
    Connect(Connect<'a>),
    ConnectAck {
        session_present: bool,
        code: u8,
    },
    /// The identifier is there where the message is to be acknowledged.
    Publish {
        topic: &'a [u8],
        id: Option<u16>,
        message: &'a [u8],
    },
    /// PUBACK, PUBREC, PUBREL, PUBCOMP: the first and the last of them end an exchange.
    PublishAck {
        id: u16,
        code: u8,
        is_last: bool,
    },
    Subscribe {
        id: u16,
        topics: &'a [u8],
    },
    SubscribeAck {
        id: u16,
        codes: &'a [u8],
    },
    Unsubscribe {
        id: u16,
        topics: &'a [u8],
    },
    UnsubscribeAck {
        id: u16,
        codes: &'a [u8],
    },
    Disconnect {
        code: u8,
    },
    /// PINGREQ, PINGRESP, AUTH.
    Other,
}

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(len.into())
    }

    /// Properties, which version 5 has.
    fn properties(&mut self, version: u8) -> Option<&'a [u8]> {
        if version < 5 {
            return Some(&[]);
        }
        let (len, used) = variable_number(self.0)?;
        self.take(used)?;
        self.take(len as usize)
    }
}

/// Reads a packet behind its fixed header; `None` where its lengths contradict each other. `version` is what CONNECT has named.
#[must_use]
pub fn packet<'a>(header: &FixedHeader, body: &'a [u8], version: u8) -> Option<Packet<'a>> {
    let mut fields = Fields(body);
    Some(match header.kind {
        CONNECT => Packet::Connect(connect(&mut fields)?),
        2 => {
            let (flags, code) = (fields.byte()?, fields.byte()?);
            fields.properties(version)?;
            Packet::ConnectAck { session_present: flags & 1 != 0, code }
        }
        3 => {
            let topic = fields.text()?;
            let id = if header.qos() > 0 { Some(fields.number()?) } else { None };
            fields.properties(version)?;
            Packet::Publish { topic, id, message: fields.0 }
        }
        4..=7 => {
            let id = fields.number()?;
            // Left out where it is 0.
            let code = fields.byte().unwrap_or(0);
            Packet::PublishAck { id, code, is_last: matches!(header.kind, 4 | 7) }
        }
        8 | 10 => {
            let id = fields.number()?;
            fields.properties(version)?;
            let topics = fields.0;
            if header.kind == 8 { Packet::Subscribe { id, topics } } else { Packet::Unsubscribe { id, topics } }
        }
        9 | 11 => {
            let id = fields.number()?;
            fields.properties(version)?;
            let codes = fields.0;
            if header.kind == 9 { Packet::SubscribeAck { id, codes } } else { Packet::UnsubscribeAck { id, codes } }
        }
        14 => Packet::Disconnect { code: fields.byte().unwrap_or(0) },
        _ => Packet::Other,
    })
}

fn connect<'a>(fields: &mut Fields<'a>) -> Option<Connect<'a>> {
    let protocol = fields.text()?;
    let (version, flags) = (fields.byte()?, fields.byte()?);
    let _keep_alive = fields.number()?;
    fields.properties(version)?;
    let client_id = fields.text()?;
    let has = |bit: u8| flags & bit != 0;
    let (mut will_topic, mut will_message) = (None, None);
    if has(4) {
        fields.properties(version)?;
        (will_topic, will_message) = (Some(fields.text()?), Some(fields.text()?));
    }
    let username = if has(0x80) { Some(fields.text()?) } else { None };
    let password = if has(0x40) { Some(fields.text()?) } else { None };
    Some(Connect { protocol, version, flags, client_id, will_topic, will_message, username, password })
}

/// Topics of SUBSCRIBE, each with a byte of options behind it, or of UNSUBSCRIBE, as far as they are whole.
pub fn topics(list: &[u8], have_options: bool) -> impl Iterator<Item = &[u8]> {
    let mut fields = Fields(list);
    std::iter::from_fn(move || {
        let topic = fields.text()?;
        if have_options {
            fields.byte()?;
        }
        Some(topic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets() {
        let whole = b"\x10\x1c\0\x04MQTT\x05\xc2\0\x3c\x03\x21\0\x14\0\x01c\0\x02us\0\x04pass";
        let header = fixed_header(whole).unwrap().unwrap();
        assert_eq!((header.kind, header.len, header.rest), (1, 2, 28));
        let Some(Packet::Connect(connect)) = packet(&header, &whole[2..], 0) else { panic!() };
        assert_eq!((connect.protocol, connect.version, connect.client_id), (&b"MQTT"[..], 5, &b"c"[..]));
        assert_eq!(
            (connect.username, connect.password, connect.will_topic),
            (Some(&b"us"[..]), Some(&b"pass"[..]), None)
        );
        for cut in 2..whole.len() {
            assert_eq!(packet(&header, &whole[2..cut], 0), None, "{cut}");
        }
        assert_eq!(fixed_header(&[0x30, 0x80, 0x80, 0x80]), None);
        assert_eq!(fixed_header(&[0x30, 0x80, 0x80, 0x80, 0x80]), Some(Err(Malformed)));
        assert_eq!(topics(b"\0\x01a\x01\0\x02b", true).collect::<Vec<_>>(), [b"a"]);
    }
}
