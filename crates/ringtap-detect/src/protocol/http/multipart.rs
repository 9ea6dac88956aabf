//! Owns: files in forms (multipart/form-data, RFC 7578).
//! Does not: wait for bytes: a file whose end is not there yet goes as far as it is.

use super::head;

/// Longest boundary (RFC 2046 §5.1.1). A longer one would make the search for it long.
pub(super) const MAX_BOUNDARY: usize = 70;

/// A file in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File<'a> {
    pub(super) name: &'a [u8],
    pub(super) content: &'a [u8],
}

/// The boundary that a content type names; `None` if it is no form.
pub(super) fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    if !head::contains(content_type, b"multipart/") {
        return None;
    }
    parameter(content_type, b"boundary=").filter(|boundary| (1..=MAX_BOUNDARY).contains(&boundary.len()))
}

/// The value behind `name` in a field's parameters, without quotes.
pub(crate) fn parameter<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))?;
    let rest = &text[at + name.len()..];
    let (rest, ends): (_, &[u8]) = match rest.strip_prefix(b"\"") {
        Some(rest) => (rest, b"\""),
        None => (rest, b"; \t\r\n,"),
    };
    let end = rest.iter().position(|byte| ends.contains(byte)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The next file of a form from `*at` on, which is put behind it.
pub(super) fn next_file<'a>(body: &'a [u8], boundary: &[u8], at: &mut usize) -> Option<File<'a>> {
    loop {
        let begin = *at + delimiter(body.get(*at..)?, boundary)? + 2 + boundary.len();
        let part = &body[begin..];
        if part.starts_with(b"--") {
            *at = body.len();
            return None;
        }
        let end = delimiter(part, boundary).unwrap_or(part.len());
        *at = begin + end;
        if let Some(file) = file(&part[..end]) {
            return Some(file);
        }
    }
}

/// Where `--boundary` is.
fn delimiter(bytes: &[u8], boundary: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(bytes, b"--").find(|at| bytes[at + 2..].starts_with(boundary))
}

/// The file in a part, if it has one's name.
fn file(part: &[u8]) -> Option<File<'_>> {
    let (end, gap) = match (memchr::memmem::find(part, b"\r\n\r\n"), memchr::memmem::find(part, b"\n\n")) {
        (Some(long), Some(short)) if short < long => (short, 2),
        (Some(long), _) => (long, 4),
        (None, Some(short)) => (short, 2),
        (None, None) => return None,
    };
    let name = parameter(&part[..end], b"filename=")?;
    let content = &part[end + gap..];
    let content = content.strip_suffix(b"\r\n").or(content.strip_suffix(b"\n")).unwrap_or(content);
    Some(File { name, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_form() {
        let kind = b"multipart/form-data; boundary=\"-xy\"";
        assert_eq!(boundary(kind), Some(&b"-xy"[..]));
        assert_eq!(boundary(b"multipart/form-data; boundary=abc; a"), Some(&b"abc"[..]));
        let long = format!("multipart/form-data; boundary={}", "-".repeat(71));
        assert_eq!(boundary(long.as_bytes()), None);
        assert_eq!((boundary(b"text/html; boundary=a"), boundary(b"multipart/x")), (None, None));
        let form = b"---xy\r\nContent-Disposition: form-data; name=a\r\n\r\nvalue\r\n---xy\r\n\
            Content-Disposition: form-data; name=b; filename=\"f.txt\"\r\n\r\none\r\ntwo\r\n---xy\r\n\
            Content-Disposition: x; filename=g\r\n\r\ncut";
        let mut at = 0;
        let files = std::iter::from_fn(|| next_file(form, b"-xy", &mut at));
        let found: Vec<_> = files.map(|file| (file.name, file.content)).collect();
        assert_eq!(found, [(&b"f.txt"[..], &b"one\r\ntwo"[..]), (b"g", b"cut")]);
        assert_eq!(next_file(b"---xy--\r\n---xy\r\nfilename=a\n\nb", b"-xy", &mut 0), None, "behind the end");
    }
}
