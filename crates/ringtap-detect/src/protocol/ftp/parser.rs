//! Owns: lines of an FTP control connection (RFC 959 §4.1, RFC 2428), as far as rules ask: where data connections are taken, and for
//! which file.
//! Does not: follow them.

use std::net::Ipv4Addr;

/// Longest command line that is waited for.
const MAX_LINE: usize = 512;

/// Whether a client's first bytes are an FTP command, or a server's its greeting. USER is POP3's too, on its port, and other
/// protocols have such greetings.
#[must_use]
pub fn is_command(bytes: &[u8], ports: (u16, u16)) -> bool {
    const FTP: u16 = 21;
    const POP3: u16 = 110;
    let begins = |word: &[u8]| bytes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let is_on = |port: u16| ports.0 == port || ports.1 == port;
    (!is_on(POP3) && [&b"USER "[..], b"PASS ", b"PORT "].into_iter().any(begins)) || (is_on(FTP) && begins(b"220"))
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

/// What stands behind a word, in any case.
fn behind<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    let (start, rest) = line.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

/// The address and port in a PORT command; `None` for other commands and for what is no address.
#[must_use]
pub fn port_address(line: &[u8]) -> Option<(Ipv4Addr, u16)> {
    host_port(behind(line, b"PORT ")?)
}

/// Six numbers with commas between: an address and a port.
#[must_use]
pub fn host_port(text: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut numbers = text.split(',').map(|number| number.trim().parse::<u8>().ok());
    let mut octets = [0; 6];
    for octet in &mut octets {
        *octet = numbers.next()??;
    }
    let [a, b, c, d, high, low] = octets;
    numbers.next().is_none().then(|| ([a, b, c, d].into(), u16::from_be_bytes([high, low])))
}

/// The port in an EPRT command: `|PROTOCOL|ADDRESS|PORT|`, with any separator.
#[must_use]
pub fn extended_port(line: &[u8]) -> Option<u16> {
    let argument = behind(line, b"EPRT ")?.trim_ascii();
    port_of(argument.split(|byte| Some(byte) == argument.first()).nth(3)?)
}

/// Whether a server's line begins like a reply: three digits, and what may follow them.
#[must_use]
pub fn is_reply(line: &[u8]) -> bool {
    matches!(line, [b'1'..=b'6', b'0'..=b'9', b'0'..=b'9', b' ' | b'-', ..])
}

/// Whether a server's line ends a reply (RFC 959 §4.2): no line that others follow, and no preliminary reply.
#[must_use]
pub fn is_final(line: &[u8]) -> bool {
    match line.trim_ascii_end() {
        [kind, rest @ ..] if (b'2'..=b'6').contains(kind) => {
            matches!(rest, [b'0'..=b'9', b'0'..=b'9'] | [b'0'..=b'9', b'0'..=b'9', b' ', ..])
        }
        _ => false,
    }
}

/// The port in a server's answer to PASV (227) or EPSV (229).
#[must_use]
pub fn passive_port(line: &[u8]) -> Option<u16> {
    let code = line.get(..4)?;
    let open = memchr::memchr(b'(', line);
    let argument = match open {
        Some(open) => line[open + 1..].split(|&byte| byte == b')').next()?,
        // Some servers leave the brackets out (RFC 1123 §4.1.2.6).
        None => &line[4 + line[4..].iter().position(u8::is_ascii_digit)?..],
    };
    match code {
        b"227 " => host_port(argument).map(|(_, port)| port),
        b"229 " => port_of(argument.split(|byte| Some(byte) == argument.first()).nth(3)?),
        _ => None,
    }
}

fn port_of(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|&port| port != 0)
}

/// The command that moves a file, and the file's name.
#[must_use]
pub fn transfer(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = behind(line, b"RETR ").or_else(|| behind(line, b"STOR "))?.trim_ascii();
    (!name.is_empty()).then(|| (&line[..4], name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_data_connections_are_taken() {
        let of = |line: &str| (passive_port(line.as_bytes()), extended_port(line.as_bytes()));
        assert_eq!(of("227 Entering Passive Mode (192,0,2,1,4,1)\r\n"), (Some(1025), None));
        assert_eq!(of("227 =192,0,2,1,4,1\r\n"), (Some(1025), None));
        assert_eq!(of("229 Entering Extended Passive Mode (|||6446|)\r\n"), (Some(6446), None));
        assert_eq!(of("EPRT |2|2001:db8::1|5282|\r\n"), (None, Some(5282)));
        for bad in [
            "227 no\r\n",
            "227 (1,2,3)\r\n",
            "229 (|||0|)\r\n",
            "229 (|)\r\n",
            "229 ()\r\n",
            "22",
            "EPRT \r\n",
            "227 (",
        ] {
            assert_eq!(of(bad), (None, None), "{bad:?}");
        }
        assert!(is_reply(b"220 here\r\n") && is_reply(b"220-here\r\n"));
        assert!(!is_reply(b"22 \r\n") && !is_reply(b"2200\r\n") && !is_reply(b"HTTP/1.1 400 Bad Request\r\n"));
        assert!(is_final(b"226 done\r\n") && is_final(b"226\r\n"));
        assert!(![&b"226-more\r\n"[..], b" 226 x", b"150 comes\r\n", b"22\r\n"].into_iter().any(is_final));
        assert_eq!(transfer(b"retr a b.txt\r\n"), Some((&b"retr"[..], &b"a b.txt"[..])));
        assert_eq!((transfer(b"RETR \r\n"), transfer(b"LIST x\r\n"), transfer(b"RE")), (None, None, None));
    }

    #[test]
    fn addresses_of_port_commands() {
        assert_eq!(port_address(b"port 192,0,2,3,1,80\r\n"), Some((Ipv4Addr::new(192, 0, 2, 3), 336)));
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
