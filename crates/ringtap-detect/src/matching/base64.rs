//! Owns: Base64 (RFC 4648 §4) as far as it goes.
//! Does not: allocate: what there is no room for is left out.

/// Decodes up to the first byte that is no character of Base64, or to the room in `out`; returns how many characters were read.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> usize {
    let (mut bits, mut held, mut read) = (0u32, 0, 0);
    for &byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        read += 1;
        if held >= 8 {
            held -= 8;
            if out.len() == out.capacity() {
                break;
            }
            out.push((bits >> held) as u8);
        }
    }
    read
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_far_as_it_goes() {
        let decoded = |text: &[u8]| {
            let mut out = Vec::with_capacity(100);
            (super::decode(text, &mut out), out)
        };
        assert_eq!(decoded(b"YWJj"), (4, b"abc".to_vec()));
        assert_eq!(decoded(b"YWI=YW"), (3, b"ab".to_vec()));
        assert_eq!(decoded(b"YW"), (2, b"a".to_vec()));
        assert_eq!(decoded(b"!"), (0, vec![]));
    }
}
