//! Owns: the first line of a message (RFC 3261 §7.1, §7.2).
//! Does not: read fields or bodies.

/// Longest line.
const MAX_LINE: usize = 8192;

/// What a first line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the standard's names")]
pub enum FirstLine<'a> {
    Request { method: &'a [u8], uri: &'a [u8], protocol: &'a [u8] },
    Response { protocol: &'a [u8], code: &'a [u8], message: &'a [u8] },
}

/// The first line without its end, and what it says; `None` where it is no line of SIP.
#[must_use]
pub fn first_line(message: &[u8]) -> Option<(&[u8], FirstLine<'_>)> {
    let end = message.iter().take(MAX_LINE).position(|&byte| byte == b'\n')?;
    let line = message[..end].strip_suffix(b"\r").unwrap_or(&message[..end]);
    let space = |text: &[u8]| text.iter().position(|&byte| byte == b' ');
    let first = space(line)?;
    let (head, rest) = (&line[..first], &line[first + 1..]);
    let second = space(rest)?;
    let (middle, last) = (&rest[..second], &rest[second + 1..]);
    if head.starts_with(b"SIP/") {
        let is_code = middle.len() == 3 && middle.iter().all(u8::is_ascii_digit);
        return is_code.then_some((line, FirstLine::Response { protocol: head, code: middle, message: last }));
    }
    let is_method = !head.is_empty() && head.iter().all(u8::is_ascii_alphabetic);
    (is_method && last.starts_with(b"SIP/"))
        .then_some((line, FirstLine::Request { method: head, uri: middle, protocol: last }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = b"REGISTER sip:example.org SIP/2.0";
        let request = FirstLine::Request { method: b"REGISTER", uri: b"sip:example.org", protocol: b"SIP/2.0" };
        assert_eq!(first_line(&[&line[..], b"\r\nVia: x\r\n"].concat()), Some((&line[..], request)));
        let response = FirstLine::Response { protocol: b"SIP/2.0", code: b"180", message: b"Ringing, all" };
        assert_eq!(first_line(b"SIP/2.0 180 Ringing, all\n").map(|(_, line)| line), Some(response));
        for bad in [&b"SIP/2.0 18 x\n"[..], b"GET / HTTP/1.1\r\n", b"REGISTER sip:a SIP/2.0", b"\n", b"a b\n"] {
            assert_eq!(first_line(bad), None, "{bad:?}");
        }
    }
}
