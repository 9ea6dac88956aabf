//! Owns: whole messages of DNS (RFC 1035 §4.1), for records: questions and answers of all sections.
//! Does not: run on the data path: it makes texts.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::parser::{HEADER, read_name};

/// Questions and records read of one message.
const MAX_RECORDS: usize = 64;
/// Texts of all of them, as JSON has them: a name may be named by a pointer of two bytes, again and again.
const MAX_TEXT: usize = 8 << 10;

/// Bytes of a text in JSON, at most.
fn weight(text: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'"' | b'\\' => 2,
        b' '..=b'~' => 1,
        _ => 6,
    };
    text.iter().map(of).sum()
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Number that its answer has, too.
    pub id: u16,
    /// Bits of the header: QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode.
    pub flags: u16,
    /// What is asked.
    pub questions: Vec<Question>,
    /// What is answered.
    pub answers: Vec<Answer>,
    /// Who knows more.
    pub authorities: Vec<Answer>,
    /// There are more records than are read, or more text.
    pub is_cut: bool,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name as text.
    pub name: Vec<u8>,
    /// Type.
    pub kind: u16,
}

/// A resource record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Name as text.
    pub name: Vec<u8>,
    /// Type.
    pub kind: u16,
    /// Seconds it may be kept.
    pub ttl: u32,
    /// What it says.
    pub data: Data,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing, or what is not read.
    Other,
    /// A.
    V4(Ipv4Addr),
    /// AAAA.
    V6(Ipv6Addr),
    /// CNAME, NS, PTR; the exchange of MX.
    Name(Vec<u8>),
    /// TXT: one of its strings. A record with several becomes several answers.
    Text(Vec<u8>),
    /// SOA.
    Soa {
        /// Primary server.
        server: Vec<u8>,
        /// Mailbox of who is responsible.
        mailbox: Vec<u8>,
        /// Serial, refresh, retry, expire, minimum.
        numbers: [u32; 5],
    },
    /// SRV: priority, weight, port and target.
    Srv([u16; 3], Vec<u8>),
    /// SSHFP: algorithm, type and digest.
    Fingerprint(u8, u8, Vec<u8>),
}

impl Message {
    /// It answers.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// What the message is for.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        (self.flags >> 11 & 15) as u8
    }

    /// What the server says of the question.
    #[must_use]
    pub fn rcode(&self) -> u8 {
        (self.flags & 15) as u8
    }
}

/// Reads on in a message.
struct Reader<'m> {
    message: &'m [u8],
    at: usize,
    /// Text that may still be made, and records that may still be read.
    room: usize,
    records: usize,
    /// One of both was not enough.
    is_cut: bool,
}

impl Reader<'_> {
    fn number<const LEN: usize>(&mut self) -> Option<u32> {
        let bytes = self.message.get(self.at..self.at + LEN)?;
        self.at += LEN;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn short(&mut self) -> Option<u16> {
        self.number::<2>().map(|number| number as u16)
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let mut text = [0; super::parser::MAX_NAME];
        let (len, end) = read_name(self.message, self.at, &mut text)?;
        self.at = end;
        self.take_room(weight(&text[..len]))?;
        Some(text[..len].to_vec())
    }

    fn take_room(&mut self, len: usize) -> Option<()> {
        let room = self.room.checked_sub(len);
        self.is_cut |= room.is_none();
        self.room = room?;
        Some(())
    }

    /// Another question or record is read.
    fn take_record(&mut self) -> Option<()> {
        let records = self.records.checked_sub(1);
        self.is_cut |= records.is_none();
        self.records = records?;
        Some(())
    }

    fn question(&mut self) -> Option<Question> {
        self.take_record()?;
        let (name, kind) = (self.name()?, self.short()?);
        let _class = self.short()?;
        Some(Question { name, kind })
    }

    /// A record's answers: none, one, or of TXT as many as it has strings.
    fn record(&mut self, list: &mut Vec<Answer>) -> Option<()> {
        self.take_record()?;
        let (name, kind) = (self.name()?, self.short()?);
        let _class = self.short()?;
        let (ttl, len) = (self.number::<4>()?, usize::from(self.short()?));
        let (from, end) = (self.at, self.at + len);
        let bytes = self.message.get(from..end)?;
        let answer = |data| Answer { name: name.clone(), kind, ttl, data };
        if kind == 16 {
            let mut rest = bytes;
            while let Some((&len, behind)) = rest.split_first() {
                let (text, behind) = behind.split_at_checked(len.into())?;
                if rest.len() < bytes.len() {
                    self.take_record()?;
                }
                rest = behind;
                self.take_room(weight(text) + weight(&name))?;
                list.push(answer(Data::Text(text.to_vec())));
            }
        } else {
            list.push(answer(self.data(kind, bytes).unwrap_or(Data::Other)));
        }
        self.at = end;
        Some(())
    }

    fn data(&mut self, kind: u16, bytes: &[u8]) -> Option<Data> {
        Some(match kind {
            1 => Data::V4(<[u8; 4]>::try_from(bytes).ok()?.into()),
            28 => Data::V6(<[u8; 16]>::try_from(bytes).ok()?.into()),
            2 | 5 | 12 => Data::Name(self.name()?),
            15 => {
                let _preference = self.short()?;
                Data::Name(self.name()?)
            }
            6 => {
                let (server, mailbox) = (self.name()?, self.name()?);
                let mut numbers = [0; 5];
                for number in &mut numbers {
                    *number = self.number::<4>()?;
                }
                Data::Soa { server, mailbox, numbers }
            }
            33 => {
                let numbers = [self.short()?, self.short()?, self.short()?];
                Data::Srv(numbers, self.name()?)
            }
            44 => {
                let [algorithm, kind, digest @ ..] = bytes else { return None };
                // In hexadecimal digits with colons.
                self.take_room(3 * digest.len())?;
                Data::Fingerprint(*algorithm, *kind, digest.to_vec())
            }
            _ => Data::Other,
        })
    }
}

/// Reads a message, without TCP's length, as far as it makes sense; `None` where not even its header is there.
#[must_use]
pub fn message(bytes: &[u8]) -> Option<Message> {
    let mut reader = Reader { message: bytes, at: 0, room: MAX_TEXT, records: MAX_RECORDS, is_cut: false };
    if bytes.len() < HEADER {
        return None;
    }
    let mut message = Message { id: reader.short()?, flags: reader.short()?, ..Message::default() };
    let mut counts = [0; 4];
    for count in &mut counts {
        *count = reader.short()?;
    }
    let mut read = || {
        for _ in 0..counts[0] {
            message.questions.push(reader.question()?);
        }
        for (count, list) in [(counts[1], &mut message.answers), (counts[2], &mut message.authorities)] {
            for _ in 0..count {
                reader.record(list)?;
            }
        }
        Some(())
    };
    // What was read before it stops making sense is told.
    let _ = read();
    message.is_cut = reader.is_cut;
    Some(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_of_all_kinds() {
        let mut bytes = b"\x12\x34\x81\x80\0\x01\0\x05\0\x01\0\0\x03www\x07example\x03org\0\0\x01\0\x01".to_vec();
        for (kind, data) in [
            (5u16, &b"\x01a\xc0\x10"[..]),
            (1, &[192, 0, 2, 1]),
            (16, b"\x02ab\x01c"),
            (15, b"\0\x0a\x01m\xc0\x10"),
            (99, b"?"),
            (6, b"\x01n\xc0\x10\x01r\xc0\x10\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05"),
        ] {
            bytes.extend(b"\xc0\x0c");
            bytes.extend(kind.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60]);
            bytes.extend((data.len() as u16).to_be_bytes());
            bytes.extend(data);
        }
        let found = message(&bytes).unwrap();
        assert_eq!((found.id, found.is_answer(), found.opcode(), found.rcode()), (0x1234, true, 0, 0));
        assert_eq!(found.questions, [Question { name: b"www.example.org".to_vec(), kind: 1 }]);
        let data: Vec<&Data> = found.answers.iter().map(|answer| &answer.data).collect();
        let name = |text: &[u8]| Data::Name(text.to_vec());
        let expected = [
            name(b"a.example.org"),
            Data::V4(Ipv4Addr::new(192, 0, 2, 1)),
            Data::Text(b"ab".to_vec()),
            Data::Text(b"c".to_vec()),
            name(b"m.example.org"),
            Data::Other,
        ];
        assert_eq!(data, expected.iter().collect::<Vec<_>>());
        let Data::Soa { server, numbers, .. } = &found.authorities[0].data else { panic!("{found:?}") };
        assert_eq!((&server[..], numbers), (&b"n.example.org"[..], &[1, 2, 3, 4, 5]));
        assert!(!found.is_cut);
        let before = message(&bytes[..40]).unwrap();
        assert_eq!((before.questions.len(), before.answers.len()), (1, 0), "what is there is told");
    }

    #[test]
    fn pointers_make_no_more_text_than_there_is_room_for() {
        let mut bytes = b"\0\0\x81\x80\0\x01\xff\xff\0\0\0\0".to_vec();
        bytes.extend([b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(3));
        bytes.extend(b"\0\0\x01\0\x01");
        bytes.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\0\0\x02\xc0\x0c".repeat(4000));
        let found = message(&bytes).unwrap();
        let text: usize = found.answers.iter().map(|answer| answer.name.len()).sum();
        assert!(text <= MAX_TEXT && found.answers.len() <= MAX_RECORDS && found.is_cut, "{text}");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop::sample::select(&[0u8, 1, 5, 12, 16, 0xc0, 0x3f, 28][..]), 0..120)) {
            let _ = message(&bytes);
        }
    }
}
