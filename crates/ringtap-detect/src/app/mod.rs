//! Application protocols, as far as rules ask: names in DNS queries, the server name in TLS, SSH banners, FTP's PORT.
//!
//! Owns recognising and reading them in bytes that are there. Does not follow streams.

pub mod dns;
pub mod ftp;
pub mod ssh;
pub mod tls;

use crate::rules::rule::App;

/// DNS's port, by which it is recognised.
const DNS_PORT: u16 = 53;

/// Whether this is DNS, by its port.
#[inline]
#[must_use]
pub fn is_dns(ports: (u16, u16)) -> bool {
    ports.0 == DNS_PORT || ports.1 == DNS_PORT
}

/// What the first bytes of one side of a stream show; `None` for nothing that is known.
#[must_use]
pub fn recognise(bytes: &[u8], ports: (u16, u16)) -> Option<App> {
    if is_dns(ports) {
        return Some(App::Dns);
    }
    if bytes.starts_with(b"SSH-") {
        return Some(App::Ssh);
    }
    if ftp::is_command(bytes, ports) {
        return Some(App::Ftp);
    }
    // A handshake record of SSL 3.0 or any TLS (RFC 8446 §5.1).
    matches!(bytes, [22, 3, 0..=4, ..]).then_some(App::Tls)
}
