//! Owns: the object `http`: a request and its response.
//! Does not: read heads (`ringtap-detect` does).

use ringtap_detect::{HttpView, Transaction};
use serde_json::{Value, json};

use super::put_text;

/// A value up to its parameters.
fn without_parameters(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(value.len());
    &value[..end]
}

/// A port behind a host's name.
fn port(authority: &[u8], host: &[u8]) -> Option<u16> {
    std::str::from_utf8(authority.get(host.len()..)?.strip_prefix(b":")?).ok()?.parse().ok()
}

pub(super) fn object(transaction: &Transaction<'_>) -> Value {
    let view = HttpView::new(transaction.said);
    let mut object = json!({});
    let (authority, host) = (view.authority(), view.host());
    put_text(&mut object, "hostname", host);
    if let Some(port) = port(authority, host) {
        object["http_port"] = json!(port);
    }
    put_text(&mut object, "url", view.target());
    put_text(&mut object, "http_user_agent", view.request_field(b"user-agent"));
    put_text(&mut object, "xff", view.request_field(b"x-forwarded-for"));
    put_text(&mut object, "http_content_type", without_parameters(view.response_field(b"content-type")));
    let range = view.response_field(b"content-range");
    if !range.is_empty() {
        object["content_range"] = content_range(range);
    }
    put_text(&mut object, "http_refer", view.request_field(b"referer"));
    put_text(&mut object, "http_method", view.method());
    put_text(&mut object, "protocol", view.protocol());
    let status = view.status();
    if status != 0 {
        object["status"] = json!(status);
    }
    if (300..400).contains(&status) {
        put_text(&mut object, "redirect", view.response_field(b"location"));
    }
    object["length"] = json!(transaction.contents[1].sent);
    object
}

/// `bytes 0-99/200` (RFC 9110 §14.4): as it is, and its numbers.
fn content_range(value: &[u8]) -> Value {
    let raw = String::from_utf8_lossy(value);
    let mut object = json!({ "raw": raw });
    let numbers = raw.trim().strip_prefix("bytes").map(str::trim_start).and_then(|rest| rest.split_once('/'));
    let Some((range, size)) = numbers else { return object };
    if let Some((start, end)) = range.split_once('-')
        && let (Ok(start), Ok(end)) = (start.trim().parse::<u64>(), end.trim().parse::<u64>())
    {
        (object["start"], object["end"]) = (json!(start), json!(end));
    }
    if let Ok(size) = size.trim().parse::<u64>() {
        object["size"] = json!(size);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_ports() {
        let expected = json!({ "raw": "bytes 0-99/200", "start": 0, "end": 99, "size": 200 });
        assert_eq!(content_range(b"bytes 0-99/200"), expected);
        assert_eq!(content_range(b"bytes */2"), json!({ "raw": "bytes */2", "size": 2 }));
        assert_eq!((port(b"a:80", b"a"), port(b"a", b"a"), port(b"a:x", b"a")), (Some(80), None, None));
    }
}
