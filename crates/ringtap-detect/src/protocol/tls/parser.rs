//! Owns: the server name in the hello of a TLS client (RFC 6066 §3), when the hello is there as a whole or far enough.
//! Does not: decrypt, or read what the server says.

/// What the first bytes of a client's stream hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello<'a> {
    /// This name.
    Name(&'a [u8]),
    /// A hello, or another message, without a name.
    NoName,
    /// The hello goes on behind the bytes that are there.
    Incomplete,
}

/// Whether bytes begin like a handshake record of SSL 3.0 or any TLS (RFC 8446 §5.1).
pub(super) fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, ..])
}

/// Reads fields one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// A field with its length before it.
    fn field(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let len = self.number(length_bytes)?;
        self.take(len)
    }
}

/// Looks for the server name. A hello that is spread over several records is not put together.
#[must_use]
pub fn hello(stream: &[u8]) -> Hello<'_> {
    read(stream).unwrap_or(Hello::Incomplete)
}

fn read(stream: &[u8]) -> Option<Hello<'_>> {
    let mut record = Reader(stream);
    let head = record.take(5)?;
    if head[0] != 22 || head[1] != 3 {
        return Some(Hello::NoName);
    }
    let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
    let complete = record.0.len() >= length;
    let handshake = record.0.get(..length).unwrap_or(record.0);
    match extensions(handshake, complete) {
        Some(hello) => Some(hello),
        // Contradictory lengths in a record that is all there.
        None if complete => Some(Hello::NoName),
        None => None,
    }
}

fn extensions(handshake: &[u8], complete: bool) -> Option<Hello<'_>> {
    let mut reader = Reader(handshake);
    if reader.number(1)? != 1 {
        return Some(Hello::NoName);
    }
    let _length = reader.number(3)?;
    let _version_and_random = reader.take(34)?;
    let _session = reader.field(1)?;
    let _ciphers = reader.field(2)?;
    let _compression = reader.field(1)?;
    if reader.0.is_empty() {
        return complete.then_some(Hello::NoName);
    }
    let total = reader.number(2)?;
    let mut list = Reader(reader.0.get(..total).unwrap_or(reader.0));
    while !list.0.is_empty() {
        let kind = list.number(2)?;
        let body = list.field(2)?;
        if kind == 0 {
            let mut names = Reader(body);
            let mut entries = Reader(names.field(2)?);
            let name = (entries.number(1)? == 0).then(|| entries.field(2)).flatten();
            return Some(name.map_or(Hello::NoName, Hello::Name));
        }
    }
    (reader.0.len() >= total).then_some(Hello::NoName)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_hello(name: &[u8]) -> Vec<u8> {
        let sni = [
            &[0, 0],
            &(name.len() as u16 + 5).to_be_bytes()[..],
            &(name.len() as u16 + 3).to_be_bytes(),
            &[0],
            &(name.len() as u16).to_be_bytes(),
            name,
        ]
        .concat();
        let list = [&[0, 23, 0, 0][..], &sni].concat();
        let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &(list.len() as u16).to_be_bytes(), &list]
            .concat();
        let handshake = [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
        [&[22, 3, 1][..], &(handshake.len() as u16).to_be_bytes(), &handshake].concat()
    }

    #[test]
    fn the_name_as_soon_as_it_is_there() {
        let whole = client_hello(b"example.org");
        assert_eq!(hello(&whole), Hello::Name(b"example.org"));
        for cut in 0..whole.len() {
            assert_eq!(hello(&whole[..cut]), Hello::Incomplete, "{cut}");
        }
        assert_eq!(hello(b"GET / HTTP/1.1"), Hello::NoName);
        assert_eq!(hello(&[22, 3, 1, 0, 4, 1, 0, 0, 0]), Hello::NoName, "a hello without content");
    }
}
