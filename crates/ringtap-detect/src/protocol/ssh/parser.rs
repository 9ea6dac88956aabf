//! Owns: the banner of an SSH side (RFC 4253 §4.2): protocol version and software.
//! Does not: follow what comes behind it.

/// Longest banner line; RFC 4253 allows 255 bytes.
const MAX_LINE: usize = 255;

/// How a banner begins.
pub(super) const PREFIX: &[u8] = b"SSH-";

/// What the first bytes of a side hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banner<'a> {
    /// Protocol version and software version.
    Line {
        /// `2.0`
        protocol: &'a [u8],
        /// `OpenSSH_9.2`
        software: &'a [u8],
    },
    /// No banner.
    None,
    /// The line's end is not there yet.
    Incomplete,
}

/// Reads the banner.
#[must_use]
pub fn banner(stream: &[u8]) -> Banner<'_> {
    let Some(rest) = stream.strip_prefix(PREFIX) else {
        return if PREFIX.starts_with(stream) { Banner::Incomplete } else { Banner::None };
    };
    let line_end = rest.iter().take(MAX_LINE).position(|&byte| byte == b'\n');
    let Some(end) = line_end else {
        return if rest.len() < MAX_LINE { Banner::Incomplete } else { Banner::None };
    };
    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    let Some(dash) = line.iter().position(|&byte| byte == b'-') else { return Banner::None };
    let software = &line[dash + 1..];
    let software = &software[..software.iter().position(|&byte| byte == b' ').unwrap_or(software.len())];
    Banner::Line { protocol: &line[..dash], software }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let expected = Banner::Line { protocol: b"2.0", software: b"OpenSSH_9.2p1" };
        assert_eq!(banner(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\nrest"), expected);
        assert_eq!(banner(b"SSH-2.0-Open"), Banner::Incomplete);
        assert_eq!(banner(b"SS"), Banner::Incomplete);
        assert_eq!(banner(b"GET"), Banner::None);
        assert_eq!(banner(&[b"SSH-".as_slice(), &[b'x'; 300]].concat()), Banner::None);
    }
}
