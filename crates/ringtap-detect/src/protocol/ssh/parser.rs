//! Owns: the banner of an SSH side (RFC 4253 §4.2): protocol version and software; and its offers of algorithms (§7.1).
//! Does not: follow what comes behind them.

/// Longest banner line; RFC 4253 allows 255 bytes.
pub(super) const MAX_LINE: usize = 255;

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

/// Lists of the algorithms that a side offers, as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers<'a> {
    /// Key exchange, host keys; ciphers, MACs and compressions from client to server and back, each pair one behind the other.
    lists: [&'a [u8]; 8],
}

impl<'a> Offers<'a> {
    /// Those that a side's digest (HASSH) is made of: key exchange, and what it uses to send.
    #[must_use]
    pub fn of_side(&self, side: usize) -> [&'a [u8]; 4] {
        let [kex, _, ..] = self.lists;
        [kex, self.lists[2 + side], self.lists[4 + side], self.lists[6 + side]]
    }
}

/// The offers in a packet; `None` where it is another one, or its lengths contradict each other.
#[must_use]
pub fn offers(packet: &[u8]) -> Option<Offers<'_>> {
    const KEXINIT: u8 = 20;
    const COOKIE: usize = 16;
    // Behind the lengths of packet and padding.
    let (&kind, rest) = packet.get(5..)?.split_first()?;
    if kind != KEXINIT {
        return None;
    }
    let (mut rest, mut lists) = (rest.get(COOKIE..)?, [&[][..]; 8]);
    for list in &mut lists {
        let (len, behind) = rest.split_first_chunk()?;
        (*list, rest) = behind.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    }
    Some(Offers { lists })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms() {
        let mut packet = b"\0\0\0\x60\x04\x14".to_vec();
        packet.extend([7; 16]);
        for list in [&b"kex"[..], b"host", b"a,b", b"c", b"d", b"e", b"none", b"zlib"] {
            packet.extend((list.len() as u32).to_be_bytes());
            packet.extend(list);
        }
        let found = offers(&packet).unwrap();
        assert_eq!(found.of_side(0), [&b"kex"[..], b"a,b", b"d", b"none"]);
        assert_eq!(found.of_side(1), [&b"kex"[..], b"c", b"e", b"zlib"]);
        for cut in 0..packet.len() {
            assert_eq!(offers(&packet[..cut]), None, "{cut}");
        }
    }

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
