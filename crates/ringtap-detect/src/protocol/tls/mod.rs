//! TLS (RFC 8446), as far as the client's hello: the server's name.
//!
//! Owns the definition; the hello is `parser.rs`'s, the names in rules are `keywords.rs`'s.

mod keywords;
mod parser;

pub use parser::{Hello, hello};

use super::{Definition, Found, Progress, Recognition, Side};

pub(super) const DEFINITION: Definition = Definition {
    name: "tls",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| parser::is_handshake(bytes)),
    stream: Some(stream),
    datagram: None,
};

fn stream(side: &mut Side<'_>, found: &mut Found<'_>) -> Progress {
    if !side.from_client || !side.is_from_start() {
        return Progress::Done;
    }
    match hello(side.bytes) {
        Hello::Name(name) => {
            found.add(keywords::SNI, name);
            Progress::Done
        }
        Hello::NoName => Progress::Done,
        Hello::Incomplete => Progress::More,
    }
}
