//! TLS (RFC 8446, RFC 5246), as far as it is not encrypted: hellos, versions and certificates.
//!
//! Owns the definition; records are `handshake.rs`'s, messages `parser.rs`'s, certificates `certificate.rs`'s, and the names in rules
//! are `keywords.rs`'s.

mod certificate;
mod handshake;
mod keywords;
mod parser;

pub use certificate::{Certificate, certificate};
pub use handshake::{CERTIFICATE, CLIENT_HELLO, SERVER_HELLO};
pub use parser::{Hello, Text, certificates, client_hello, fingerprint, md5_hex, messages, server_hello};

pub(crate) use handshake::Handshakes;

use super::{Definition, Reader, Recognition};

pub(super) const DEFINITION: Definition = Definition {
    name: "tls",
    rule_names: keywords::RULE_NAMES,
    keywords: keywords::KEYWORDS,
    recognition: Recognition::FirstBytes(|bytes, _ports| parser::is_handshake(bytes)),
    stream: Some(Reader::Handshake),
    datagram: None,
    events: None,
};
