//! Owns: a request's target as rules see it: its parts (RFC 3986), and the normalised form of path, query and fragment.
//! Does not: decode twice; what is encoded twice stays so once.

/// The parts of a target that rules see; the user's name is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// Host, without the port; empty where there is none.
    pub host: &'a [u8],
    /// Path.
    pub path: &'a [u8],
    /// Query, with its `?`.
    pub query: &'a [u8],
    /// Fragment, with its `#`.
    pub fragment: &'a [u8],
}

/// The host in `host:port`, or in `[address]:port`.
#[must_use]
pub fn without_port(authority: &[u8]) -> &[u8] {
    let end = match authority.first() {
        Some(b'[') => authority.iter().position(|&byte| byte == b']').map(|at| at + 1),
        _ => authority.iter().position(|&byte| byte == b':'),
    };
    &authority[..end.unwrap_or(authority.len())]
}

/// Whether this is a host's name, or an address: labels of 1 to 63 letters, digits, dashes and underscores, 255 bytes in all.
#[must_use]
pub fn is_host(name: &[u8]) -> bool {
    if let Some(address) = name.strip_prefix(b"[") {
        let text = address.strip_suffix(b"]").and_then(|text| std::str::from_utf8(text).ok());
        return text.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let is_label = |label: &[u8]| {
        matches!(label.len(), 1..=63)
            && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // One dot may end it.
    let name = name.strip_suffix(b".").unwrap_or(name);
    name.len() <= 255 && name.split(|&byte| byte == b'.').all(is_label)
}

/// Takes a target apart; that of CONNECT is a host alone.
#[must_use]
pub fn target(text: &[u8], is_connect: bool) -> Target<'_> {
    if is_connect {
        return Target { host: without_port(text), ..Target::default() };
    }
    let (mut rest, mut host) = (text, &[][..]);
    if text.first() != Some(&b'/')
        && let Some(colon) =
            text.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))
        && text[colon] == b':'
        && text[colon + 1..].starts_with(b"//")
    {
        let behind = &text[colon + 3..];
        let end = behind.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(behind.len());
        let authority = &behind[..end];
        let user = authority.iter().position(|&byte| byte == b'@').map_or(0, |at| at + 1);
        host = without_port(&authority[user..]);
        rest = &behind[end..];
    }
    let fragment = rest.iter().position(|&byte| byte == b'#').unwrap_or(rest.len());
    let query = rest[..fragment].iter().position(|&byte| byte == b'?').unwrap_or(fragment);
    Target { host, path: &rest[..query], query: &rest[query..fragment], fragment: &rest[fragment..] }
}

/// The letter that a code point looks most like, of those of one byte.
fn best_fit(code: u32) -> u8 {
    match code {
        0..=0xff => code as u8,
        0x0100..=0x017f => LATIN_EXTENDED[code as usize - 0x100],
        // Full width forms of ASCII.
        0xff01..=0xff5e => (code - 0xfee0) as u8,
        0x2010..=0x2015 => b'-',
        0x2018..=0x201b => b'\'',
        0x201c..=0x201f => b'"',
        0x2044 | 0x2215 | 0x29f8 => b'/',
        0x2216 | 0x29f5 => b'\\',
        0x2024 => b'.',
        _ => b'?',
    }
}

/// Letters of the block Latin Extended-A without their marks.
const LATIN_EXTENDED: &[u8; 128] = b"AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiJjJjKkkLlLlLlLlLlNnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs";

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    Some(digit(high)? << 4 | digit(low)?)
}

/// The byte that an escape at the beginning of `bytes` stands for, and how long it is; `None` where there is none.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    match *bytes {
        [b'%', b'u' | b'U', a, b, c, d, ..] if hex(a, b).is_some() && hex(c, d).is_some() => {
            let code = u32::from(hex(a, b)?) << 8 | u32::from(hex(c, d)?);
            Some((best_fit(code), 6))
        }
        [b'%', high, low, ..] => Some((hex(high, low)?, 3)),
        _ => None,
    }
}

/// Percent-decodes a query or a fragment once; what is no escape stays.
pub fn decode(text: &[u8], mut put: impl FnMut(u8)) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let (byte, len) = escape(&text[at..]).unwrap_or((byte, 1));
        put(byte);
        at += len;
    }
}

/// A character of UTF-8 at the beginning of `bytes`, overlong forms included, and its length; `None` where there is none.
fn utf8(bytes: &[u8]) -> Option<(u32, usize)> {
    let (first, len) = match *bytes.first()? {
        byte @ 0xc0..=0xdf => (byte & 0x1f, 2),
        byte @ 0xe0..=0xef => (byte & 0x0f, 3),
        byte @ 0xf0..=0xf7 => (byte & 0x07, 4),
        _ => return None,
    };
    let mut code = u32::from(first);
    for byte in bytes.get(1..len)? {
        code = (byte & 0xc0 == 0x80).then_some(code << 6 | u32::from(byte & 0x3f))?;
    }
    Some((code, len))
}

/// Normalises a path in place: escapes, back slashes and doubled slashes, UTF-8, dot segments. Leaves the normalised one at the
/// beginning and returns its length; it never is longer.
#[must_use]
pub fn normalise_path(path: &mut [u8]) -> usize {
    let (mut read, mut write) = (0, 0);
    while read < path.len() {
        let (byte, len) = escape(&path[read..]).unwrap_or((path[read], 1));
        read += len;
        let byte = if byte == b'\\' { b'/' } else { byte };
        if byte == b'/' && write > 0 && path[write - 1] == b'/' {
            continue;
        }
        path[write] = byte;
        write += 1;
    }
    let (len, mut read) = (write, 0);
    write = 0;
    while read < len {
        let (byte, used) = utf8(&path[read..len]).map_or((path[read], 1), |(code, used)| (best_fit(code), used));
        path[write] = byte;
        (read, write) = (read + used, write + 1);
    }
    without_dots(path, write)
}

/// Removes dot segments (RFC 3986 §5.2.4) from the first `len` bytes.
fn without_dots(path: &mut [u8], len: usize) -> usize {
    let (mut read, mut write) = (0, 0);
    while read < len {
        let rest = &path[read..len];
        let segment_begins = write == 0 || path[write - 1] == b'/';
        if segment_begins && (rest == b"." || rest.starts_with(b"./")) {
            read += rest.len().min(2);
        } else if segment_begins && (rest == b".." || rest.starts_with(b"../")) {
            read += rest.len().min(3);
            // Back to behind the slash before the segment before.
            let end = write.saturating_sub(1);
            write = path[..end]
                .iter()
                .rposition(|&byte| byte == b'/')
                .map_or(usize::from(path[0] == b'/' && write > 0), |at| at + 1);
        } else {
            path[write] = path[read];
            (read, write) = (read + 1, write + 1);
        }
    }
    write
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        let len = normalise_path(&mut path);
        path.truncate(len);
        path
    }

    #[test]
    fn parts_of_targets() {
        let whole = target(b"http://me@Host:80/a/b?c#d", false);
        assert_eq!((whole.host, whole.path), (&b"Host"[..], &b"/a/b"[..]));
        assert_eq!((whole.query, whole.fragment), (&b"?c"[..], &b"#d"[..]));
        assert_eq!(target(b"/a:b//c?x?y", false).path, b"/a:b//c");
        assert_eq!(target(b"host:443", true), Target { host: b"host", ..Target::default() });
        assert_eq!(target(b"http://[::1]:80", false).host, b"[::1]");
        assert_eq!((target(b"*", false).path, target(b"", false)), (&b"*"[..], Target::default()));
    }

    #[test]
    fn paths() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"/a/./b/../c", b"/a/c"),
            (b"/../../etc", b"/etc"),
            (b"/a/..", b"/"),
            (b"/a%2fb%5Cc", b"/a/b/c"),
            (b"//a\\\\b", b"/a/b"),
            (b"/%u0041%uff0e%zz%4", b"/A.%zz%4"),
            (b"/%252e", b"/%2e"),
            (b"/\xc3\xa4\xc0\xafb", b"/\xe4/b"),
            (b"/..a/.b", b"/..a/.b"),
            (b"a/../b", b"b"),
            (b"", b""),
        ];
        for (path, expected) in cases {
            assert_eq!(normal(path), *expected, "{path:?}");
        }
        let mut query = Vec::new();
        decode(b"?a%20b+%3", |byte| query.push(byte));
        assert_eq!(query, b"?a b+%3");
    }

    proptest! {
        #[test]
        fn no_path_keeps_a_dot_segment(path in prop::collection::vec(prop::sample::select(&b"/\\.%25eEua\xc0\xae"[..]), 0..30)) {
            let once = normal(&path);
            prop_assert!(once.len() <= path.len());
            let segments = once.split(|&byte| byte == b'/');
            prop_assert!(!segments.clone().any(|segment| segment == b"." ), "{once:?}");
        }
    }
}
