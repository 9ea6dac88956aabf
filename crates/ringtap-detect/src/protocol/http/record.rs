//! Owns: what records tell of a transaction, read from its heads.
//! Does not: write them.

use super::head::{self, Field};
use super::lines::{Place, Scanner, without_end};
use super::uri;

/// Request and response of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct HttpView<'a> {
    /// First line and fields of each.
    request: (&'a [u8], &'a [u8]),
    response: (&'a [u8], &'a [u8]),
}

/// A head's first line, without its end, and its fields; what is behind it is left out.
fn parts(bytes: &[u8], is_response: bool) -> (&[u8], &[u8]) {
    let (mut scanner, mut line_end, mut end) = (Scanner::new(is_response), None, bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let place = scanner.step(byte);
        let behind = at + usize::from(matches!(place, Place::LineEnd | Place::HeadEnd));
        match place {
            Place::Within | Place::Skipped => {}
            Place::LineEnd | Place::LineStart => line_end = line_end.or(Some(behind)),
            Place::HeadEnd | Place::BehindHead => {
                end = behind;
                break;
            }
        }
    }
    let line_end = line_end.unwrap_or(end).min(end);
    (without_end(&bytes[..line_end]), &bytes[line_end..end])
}

impl<'a> HttpView<'a> {
    /// Of the heads of a request and its response, either of them perhaps empty, or with bytes behind it.
    #[must_use]
    pub fn new([request, response]: [&'a [u8]; 2]) -> Self {
        Self { request: parts(request, false), response: parts(response, true) }
    }

    /// Method.
    #[must_use]
    pub fn method(&self) -> &'a [u8] {
        head::request_line(self.request.0).method
    }

    /// The target as sent.
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        head::request_line(self.request.0).target
    }

    /// Host that the request names, in its target or its field, without the port.
    #[must_use]
    pub fn host(&self) -> &'a [u8] {
        uri::without_port(self.authority())
    }

    /// The same, with the port.
    #[must_use]
    pub fn authority(&self) -> &'a [u8] {
        let in_target = uri::target(self.target(), self.method() == b"CONNECT").host;
        if in_target.is_empty() { self.request_field(b"host") } else { in_target }
    }

    /// Version that the request names.
    #[must_use]
    pub fn protocol(&self) -> &'a [u8] {
        head::request_line(self.request.0).protocol
    }

    /// The response's status; 0 without one.
    #[must_use]
    pub fn status(&self) -> u16 {
        head::status_line(self.response.0).code()
    }

    /// The first field of this name in the request; empty without one.
    #[must_use]
    pub fn request_field(&self, name: &[u8]) -> &'a [u8] {
        value(head::fields(self.request.1, false), name)
    }

    /// The first field of this name in the response; empty without one.
    #[must_use]
    pub fn response_field(&self, name: &[u8]) -> &'a [u8] {
        value(head::fields(self.response.1, true), name)
    }
}

fn value<'a>(mut fields: impl Iterator<Item = Field<'a>>, name: &[u8]) -> &'a [u8] {
    fields.find(|field| field.is(name)).map(|field| field.value).unwrap_or_default()
}
