//! HTTP/1 (RFC 9112): requests and responses with their content.
//!
//! Owns the definition, the bounds, and what of a message is odd. The way of bytes into messages is `stream.rs`'s, their content's `content.rs`'s, their memory
//! `transaction.rs`'s, ends of lines `lines.rs`'s, lines and fields `head.rs`'s, targets `uri.rs`'s, content codings
//! `inflate.rs`'s, files in forms `multipart.rs`'s, what rules see `buffers.rs`'s, what records see `record.rs`'s, and the names in
//! rules are `keywords.rs`'s.

mod brotli;
mod buffers;
mod content;
mod head;
mod inflate;
mod keywords;
mod lines;
mod multipart;
mod record;
mod said;
mod stream;
mod transaction;
mod uri;

pub use head::{ChunkLength, Field, RequestLine, StatusLine, chunk_length, content_length, fields, request_line};
pub use head::{status_line, unfolded};
pub use record::HttpView;
pub use transaction::HttpCounters;
pub use uri::{Target, decode, is_host, normalise_path, target, without_port};

pub(crate) use multipart::parameter;
pub(crate) use stream::{Http, MAX_HEAD, MessageKey, Step};

use super::{Definition, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "http",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| begins_message(bytes)),
    stream: Some(Reader::Transactions),
    datagram: None,
    events: Some(keywords::EVENT),
};

/// Bounds of what is kept and looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections at one time; transactions are twice as many.
    pub connections: usize,
    /// Bytes of heads and contents of all of them.
    pub bytes: usize,
    /// Decompressors of gzip and deflate, of 43 KiB each.
    pub decompressors: usize,
    /// Those of Brotli, of about 650 KiB each.
    pub brotli: usize,
    /// Content codings of one message.
    pub layers: usize,
    /// Bytes of a content that are looked at.
    pub body_limit: usize,
    /// So much of a request's and of a response's content must be there before it is looked at, unless it ends before.
    pub inspect_from: [usize; 2],
    /// And so much more each time behind that.
    pub inspect_window: usize,
}

/// Bytes that each connection may keep without being one of the first to give them up for others.
pub(super) const SHARE: usize = 2 << 10;

impl Default for Settings {
    fn default() -> Self {
        Self::for_connections(65536)
    }
}

impl Settings {
    /// As Suricata's packaged configuration, where it has such a bound.
    #[must_use]
    pub fn for_connections(connections: usize) -> Self {
        Self {
            connections,
            bytes: connections.saturating_mul(SHARE).max(64 << 20),
            decompressors: 128,
            brotli: 32,
            layers: 2,
            body_limit: 100 << 10,
            inspect_from: [32 << 10, 40 << 10],
            inspect_window: 16 << 10,
        }
    }
}

/// What is odd about a message, under the names that `app-layer-event` rules use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    /// A transfer coding that is neither chunked nor nothing.
    TransferCoding,
    /// More content than was announced.
    UnexpectedBody,
}

/// A set of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oddities(u8);

impl Oddities {
    fn add(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u8;
    }

    fn has(self, oddity: Oddity) -> bool {
        self.0 & 1 << oddity as u8 != 0
    }
}

/// Whether bytes begin like a request or a response: of longer words the first four letters are enough, as more may not be there;
/// with a method that nobody has heard of the whole line has to be there.
fn begins_message(bytes: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[
        b"GET ",
        b"POST ",
        b"HEAD ",
        b"PUT ",
        b"OPTIONS ",
        b"DELETE ",
        b"TRACE ",
        b"CONNECT ",
        b"PATCH ",
        b"PROPFIND ",
        b"PROPPATCH ",
        b"MKCOL ",
        b"COPY ",
        b"MOVE ",
        b"LOCK ",
        b"UNLOCK ",
        b"SEARCH ",
        b"REPORT ",
        b"VERSION-CONTROL ",
        b"CHECKOUT ",
        b"CHECKIN ",
        b"UNCHECKOUT ",
        b"MKWORKSPACE ",
        b"UPDATE ",
        b"LABEL ",
        b"MERGE ",
        b"BASELINE-CONTROL ",
        b"MKACTIVITY ",
        b"SUBSCRIBE ",
        b"UNSUBSCRIBE ",
        b"NOTIFY ",
        b"M-SEARCH ",
        b"HTTP/",
    ];
    let bytes = &bytes[bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()..];
    let is_known = bytes.len() >= 4
        && WORDS.iter().any(|word| {
            let len = word.len().min(bytes.len());
            let same = |(a, b): (&u8, &u8)| a == b || (*a == b' ' && *b == b'\t');
            word[..len].iter().zip(&bytes[..len]).all(same)
        });
    is_known || begins_with_request_line(bytes)
}

/// Whether there is a whole request line: a word of printable letters, a target, and the protocol with a version.
fn begins_with_request_line(bytes: &[u8]) -> bool {
    /// Longest line that is looked at.
    const MAX_LINE: usize = 2048;
    /// Longest method.
    const MAX_METHOD: usize = 64;
    let method = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| byte.is_ascii_graphic()).count();
    if !(1..=MAX_METHOD).contains(&method) || !bytes.get(method).is_some_and(|&byte| head::is_space(byte)) {
        return false;
    }
    let rest = &bytes[method..bytes.len().min(MAX_LINE)];
    let Some(end) = memchr::memchr(b'\n', rest) else { return false };
    let line = lines::without_end(&rest[..end]);
    let Some(version) = line.rsplit(|&byte| head::is_space(byte)).find(|word| !word.is_empty()) else { return false };
    version.starts_with(b"HTTP/") && version.get(5).is_some_and(u8::is_ascii_digit)
}
