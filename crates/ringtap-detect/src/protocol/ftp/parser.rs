//! Owns: commands of an FTP client's control connection (RFC 959 §4.1), as far as rules ask: the address of PORT.
//! Does not: follow data connections.

use std::net::Ipv4Addr;

/// Longest command line that is waited for.
const MAX_LINE: usize = 512;

/// Whether a client's first bytes are an FTP command. USER is POP3's too, on its port.
#[must_use]
pub fn is_command(bytes: &[u8], ports: (u16, u16)) -> bool {
    const POP3: u16 = 110;
    let begins = |word: &[u8]| bytes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    ports.0 != POP3 && ports.1 != POP3 && [&b"USER "[..], b"PASS ", b"PORT "].into_iter().any(begins)
}

/// A command line longer than `MAX_LINE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The next line with its end, if it is there; `Err` if there is no end where it must be.
///
/// # Errors
/// A line that is too long.
pub fn line(bytes: &[u8]) -> Result<Option<&[u8]>, TooLong> {
    match bytes.iter().take(MAX_LINE).position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some(&bytes[..=end])),
        None if bytes.len() < MAX_LINE => Ok(None),
        None => Err(TooLong),
    }
}

/// The address in a PORT command; `None` for other commands and for what is no address.
#[must_use]
pub fn port_address(line: &[u8]) -> Option<Ipv4Addr> {
    let (word, rest) = line.split_at_checked(5)?;
    if !word.eq_ignore_ascii_case(b"PORT ") {
        return None;
    }
    let text = std::str::from_utf8(rest).ok()?.trim();
    let mut numbers = text.split(',').map(|number| number.trim().parse::<u8>());
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = numbers.next()?.ok()?;
    }
    // The port: two more, or it is not what a server takes.
    let port = (numbers.next()?.ok(), numbers.next()?.ok());
    (port.0.is_some() && port.1.is_some() && numbers.next().is_none()).then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_port_commands() {
        assert_eq!(port_address(b"port 192,0,2,3,0,80\r\n"), Some(Ipv4Addr::new(192, 0, 2, 3)));
        for bad in [
            &b"PORT 192,0,2,3\r\n"[..],
            b"PORT 192,0,2,300,0,80\n",
            b"PORT 1,2,3,4,5,6,7\n",
            b"PASV\r\n",
            b"PORT \xff,1",
        ] {
            assert_eq!(port_address(bad), None, "{bad:?}");
        }
        assert!(is_command(b"user x", (5, 21)) && !is_command(b"user x", (5, 110)) && !is_command(b"US", (5, 21)));
        assert_eq!(
            (line(b"a\r\nb"), line(b"a"), line(&[b'a'; 512])),
            (Ok(Some(&b"a\r\n"[..])), Ok(None), Err(TooLong))
        );
    }
}
