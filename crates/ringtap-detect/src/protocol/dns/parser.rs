//! Owns: the names in the question section of a DNS message (RFC 1035 §4.1), as text.
//! Does not: read answers.

/// Questions read of one message.
pub(super) const MAX_QUESTIONS: u16 = 16;
/// Pointers followed in one name.
const MAX_POINTERS: usize = 16;
/// Longest name as text: RFC 1035's 255 bytes hold fewer letters and dots.
pub(super) const MAX_NAME: usize = 255;
/// Header.
pub(super) const HEADER: usize = 12;

/// Whether bytes begin with a header of a query or an answer that makes sense.
pub(super) fn is_header(message: &[u8]) -> bool {
    let Some(header) = message.get(..HEADER) else { return false };
    let (is_response, operation, is_reserved) = (header[2] & 0x80 != 0, header[2] >> 3 & 15, header[3] & 0x40 != 0);
    let questions = u16::from_be_bytes([header[4], header[5]]);
    // Query, status, notify, update (IANA "DNS OpCodes").
    matches!(operation, 0 | 2 | 4 | 5) && !is_reserved && questions <= MAX_QUESTIONS && (is_response || questions > 0)
}

/// Calls `name` for each name a query asks for. `message` is without TCP's length. Returns whether it is a query that could
/// be read.
pub fn queries(message: &[u8], mut name: impl FnMut(&[u8])) -> bool {
    let Some(header) = message.get(..HEADER) else { return false };
    let is_response = header[2] & 0x80 != 0;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    if is_response || questions == 0 || questions > MAX_QUESTIONS {
        return false;
    }
    let mut at = HEADER;
    let mut text = [0u8; MAX_NAME];
    for _ in 0..questions {
        let Some((len, end)) = read_name(message, at, &mut text) else { return false };
        // Type and class.
        if message.len() < end + 4 {
            return false;
        }
        name(&text[..len]);
        at = end + 4;
    }
    true
}

/// Writes the name at `at` as text; returns its length, and where the message goes on.
pub(super) fn read_name(message: &[u8], mut at: usize, text: &mut [u8; MAX_NAME]) -> Option<(usize, usize)> {
    let (mut len, mut end, mut pointers) = (0, None, 0);
    loop {
        let head = usize::from(*message.get(at)?);
        match head {
            0 => return Some((len, end.unwrap_or(at + 1))),
            1..=63 => {
                let label = message.get(at + 1..at + 1 + head)?;
                let dot = usize::from(len > 0);
                let place = text.get_mut(len..len + dot + head)?;
                if dot == 1 {
                    place[0] = b'.';
                }
                place[dot..].copy_from_slice(label);
                len += dot + head;
                at += 1 + head;
            }
            0xc0.. => {
                let low = usize::from(*message.get(at + 1)?);
                end = end.or(Some(at + 2));
                pointers += 1;
                if pointers > MAX_POINTERS {
                    return None;
                }
                at = (head & 0x3f) << 8 | low;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(message: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        queries(message, |name| found.push(name.to_vec())).then_some(found)
    }

    #[test]
    fn names_of_a_query() {
        let mut message = b"\x12\x34\x01\x00\0\x02\0\0\0\0\0\0\x03www\x07Example\x03org\0\0\x01\0\x01".to_vec();
        message.extend_from_slice(b"\x01a\xc0\x10\0\x01\0\x01");
        assert_eq!(names(&message), Some(vec![b"www.Example.org".to_vec(), b"a.Example.org".to_vec()]));
        message[2] |= 0x80;
        assert_eq!(names(&message), None, "an answer");
    }

    #[test]
    fn headers_make_sense() {
        assert!(is_header(b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01") && is_header(b"\0\0\x84\0\0\0\0\x01\0\0\0\0"));
        assert!(!is_header(b"\x12\x34\x01\x20\0\0\0\0\0\0\0\x01"), "asks nothing");
        assert!(!is_header(b"SSH-2.0-Open") && !is_header(b"\0\0\0"));
    }

    #[test]
    fn hostile_names_end() {
        let head = b"\0\0\0\0\0\x01\0\0\0\0\0\0";
        assert_eq!(names(&[&head[..], b"\xc0\x0c\0\x01\0\x01"].concat()), None, "a pointer to itself");
        assert_eq!(names(&[&head[..], b"\x3fabc"].concat()), None, "cut");
        assert_eq!(names(&[&head[..], b"\x80a\0\0\x01\0\x01"].concat()), None, "no such label");
        assert_eq!(names(b"\0\0"), None);
    }
}
