//! Owns: messages of the handshake (RFC 8446 §4, RFC 5246 §7.4): the hellos of both sides and the list of certificates, each when
//! it is there as a whole; the digests JA3 and JA3S of hellos.
//! Does not: decrypt, put records together (`handshake.rs`) or read certificates (`certificate.rs`).

use md5::{Digest, Md5};

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

    fn array<const LEN: usize>(&mut self) -> Option<&'a [u8; LEN]> {
        self.take(LEN)?.try_into().ok()
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

/// A hello, of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Version of the handshake: 0x0303 for TLS 1.2, and for what TLS 1.3 says it is.
    pub legacy_version: u16,
    /// Random bytes.
    pub random: &'a [u8; 32],
    is_client: bool,
    /// Suites: of a server, the one it has chosen.
    ciphers: &'a [u8],
    extensions: &'a [u8],
}

/// Reads a client's hello, without the message's header; `None` where its lengths contradict each other.
#[must_use]
pub fn client_hello(body: &[u8]) -> Option<Hello<'_>> {
    let mut reader = Reader(body);
    let legacy_version = reader.number(2)? as u16;
    let random = reader.array()?;
    let _session = reader.field(1)?;
    let ciphers = reader.field(2)?;
    let _compression = reader.field(1)?;
    let extensions = if reader.0.is_empty() { &[][..] } else { reader.field(2)? };
    Some(Hello { legacy_version, random, is_client: true, ciphers, extensions })
}

/// Reads a server's hello, without the message's header; `None` where its lengths contradict each other.
#[must_use]
pub fn server_hello(body: &[u8]) -> Option<Hello<'_>> {
    let mut reader = Reader(body);
    let legacy_version = reader.number(2)? as u16;
    let random = reader.array()?;
    let _session = reader.field(1)?;
    let ciphers = reader.take(2)?;
    let _compression = reader.take(1)?;
    let extensions = if reader.0.is_empty() { &[][..] } else { reader.field(2)? };
    Some(Hello { legacy_version, random, is_client: false, ciphers, extensions })
}

impl<'a> Hello<'a> {
    /// The extensions, as far as they are whole.
    fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut reader = Reader(self.extensions);
        std::iter::from_fn(move || Some((reader.number(2)? as u16, reader.field(2)?)))
    }

    fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        self.extensions().find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
    }

    /// The server's name that a client asks for (RFC 6066 §3).
    #[must_use]
    pub fn server_name(&self) -> Option<&'a [u8]> {
        let mut entries = Reader(Reader(self.extension(0)?).field(2)?);
        (entries.number(1)? == 0).then(|| entries.field(2)).flatten()
    }

    /// The version: of a server, the one that counts; of a client, the one it says before its extensions.
    #[must_use]
    pub fn version(&self) -> u16 {
        const SUPPORTED_VERSIONS: u16 = 43;
        let chosen = self.extension(SUPPORTED_VERSIONS).filter(|_| !self.is_client);
        chosen.and_then(|body| Some(u16::from_be_bytes(body.try_into().ok()?))).unwrap_or(self.legacy_version)
    }

    /// The string of JA3, or of JA3S: version, suites, extensions, and of a client also groups and point formats.
    pub fn ja3(&self, out: &mut Text<'_>) {
        out.number(self.legacy_version);
        out.byte(b',');
        out.list(pairs(self.ciphers));
        out.byte(b',');
        out.list(self.extensions().map(|(kind, _)| kind));
        if self.is_client {
            const GROUPS: u16 = 10;
            const POINT_FORMATS: u16 = 11;
            out.byte(b',');
            let groups = self.extension(GROUPS).and_then(|body| Reader(body).field(2)).unwrap_or_default();
            out.list(pairs(groups));
            out.byte(b',');
            let formats = self.extension(POINT_FORMATS).and_then(|body| Reader(body).field(1)).unwrap_or_default();
            out.list(formats.iter().map(|&format| format.into()));
        }
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The messages of a side's handshake, record headers left out: the type of each and its body, as far as they are whole.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(move || Some((reader.number(1)? as u8, reader.field(3)?)))
}

/// A text put together in memory that is there already; what there is no room for is left out.
pub struct Text<'t>(pub &'t mut Vec<u8>);

impl Text<'_> {
    fn byte(&mut self, byte: u8) {
        if self.0.len() < self.0.capacity() {
            self.0.push(byte);
        }
    }

    fn number(&mut self, number: u16) {
        let mut divisor = 10_000;
        while divisor > 1 && number < divisor {
            divisor /= 10;
        }
        while divisor > 0 {
            self.byte(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
    }

    /// Numbers apart by dashes, without those that only keep others tolerant (RFC 8701).
    fn list(&mut self, numbers: impl Iterator<Item = u16>) {
        let is_grease = |number: &u16| number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff;
        for (place, number) in numbers.filter(|number| !is_grease(number)).enumerate() {
            if place > 0 {
                self.byte(b'-');
            }
            self.number(number);
        }
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The SHA-1 digest of a certificate, in hexadecimal digits with colons.
#[must_use]
pub fn fingerprint(der: &[u8]) -> [u8; 59] {
    let mut text = [b':'; 59];
    for (place, byte) in text.chunks_mut(3).zip(sha1::Sha1::digest(der)) {
        place[..2].copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text
}

/// The MD5 digest of a text, in hexadecimal digits.
#[must_use]
pub fn md5_hex(text: &[u8]) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(Md5::digest(text)) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    digits
}

/// The certificates in a message of TLS 1.2 and older, without the message's header, as far as they are whole.
pub fn certificates(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut list = Reader(Reader(body).field(3).unwrap_or_default());
    std::iter::from_fn(move || list.field(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
    }

    fn hello() -> Vec<u8> {
        let list = [
            extension(0x1a1a, b""),
            extension(0, b"\0\x0e\0\0\x0bexample.org"),
            extension(10, &[0, 4, 0, 29, 0x2a, 0x2a]),
            extension(11, &[1, 0]),
        ]
        .concat();
        let head = [&[3, 3][..], &[7; 32], &[0], &[0, 4, 0x13, 1, 0x0a, 0x0a], &[1, 0]].concat();
        [&head[..], &(list.len() as u16).to_be_bytes(), &list].concat()
    }

    #[test]
    fn hellos() {
        let whole = hello();
        let hello = client_hello(&whole).unwrap();
        assert_eq!((hello.server_name(), hello.version()), (Some(&b"example.org"[..]), 0x0303));
        let mut text = Vec::with_capacity(100);
        hello.ja3(&mut Text(&mut text));
        assert_eq!(text, b"771,4865,0-10-11,29,0");
        for cut in 0..whole.len() {
            assert!(client_hello(&whole[..cut]).is_none_or(|hello| hello.server_name().is_none()), "{cut}");
        }
        let server = [&[3, 3][..], &[7; 32], &[0, 0x13, 1, 0], &[0, 6], &extension(43, &[3, 4])].concat();
        let server = server_hello(&server).unwrap();
        text.clear();
        server.ja3(&mut Text(&mut text));
        assert_eq!((server.version(), &text[..]), (0x0304, &b"771,4865,43"[..]));
        assert_eq!(&md5_hex(b"")[..], b"d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(certificates(&[0, 0, 9, 0, 0, 2, 7, 8, 0, 0, 9, 1]).collect::<Vec<_>>(), [[7, 8]]);
    }
}
