//! Owns: what rules see of a message at each stage: lines, fields, targets and contents, in the forms that keywords name.
//! Does not: decide when (`stream.rs` does).

use super::head::{self, Field};
use super::lines::without_end;
use super::stream::{Http, MessageKey};
use super::{Oddity, keywords as buffer, multipart, uri};
use crate::protocol::{App, Found, Mark, Stage, Value, Values};

/// Fields of a message that are looked at; what is behind them is among the raw ones only. They are compared with each other.
const MAX_FIELDS: usize = 256;

/// Names under which `app-layer-event` rules ask for what is odd, in requests and responses.
const ODDITIES: &[(Oddity, [&[u8]; 2])] = &[
    (
        Oddity::TransferCoding,
        [b"invalid_transfer_encoding_value_in_request", b"invalid_transfer_encoding_value_in_response"],
    ),
    (Oddity::UnexpectedBody, [b"request_body_unexpected", b"unexpected_body"]),
];

/// Fields with a buffer of their own: the name, and the buffers in requests and responses.
const FIELDS: &[(&[u8], [Option<u8>; 2])] = &[
    (b"user-agent", [Some(buffer::USER_AGENT), None]),
    (b"cookie", [Some(buffer::COOKIE), None]),
    (b"set-cookie", [None, Some(buffer::COOKIE)]),
    (b"referer", [Some(buffer::REFERER), None]),
    (b"accept", [Some(buffer::ACCEPT), None]),
    (b"accept-encoding", [Some(buffer::ACCEPT_ENC), None]),
    (b"accept-language", [Some(buffer::ACCEPT_LANG), None]),
    (b"connection", [Some(buffer::CONNECTION), Some(buffer::CONNECTION)]),
    (b"content-type", [Some(buffer::CONTENT_TYPE), Some(buffer::CONTENT_TYPE)]),
    (b"content-length", [Some(buffer::CONTENT_LEN), Some(buffer::CONTENT_LEN)]),
    (b"server", [None, Some(buffer::SERVER)]),
    (b"location", [None, Some(buffer::LOCATION)]),
];

/// Files of a form that rules see one by one; further ones come with the last of these.
const MAX_FILES: u8 = 16;

/// A form that is in one piece, and which of its files is next.
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    boundary: Vec<u8>,
    /// Where to go on, and what the files are of; `None`: no file is left.
    next: Option<(usize, MessageKey)>,
    /// Of the message's other values.
    others: Mark,
}

impl Form {
    /// Takes all memory, for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            boundary: Vec::with_capacity(multipart::MAX_BOUNDARY),
            next: None,
            others: Mark::default(),
        }
    }

    /// Nobody wants the further files.
    pub(super) fn forget(&mut self) {
        self.next = None;
    }

    /// Puts the next file among the values, in the place of the one before; `None` where there is none. The last one that is put
    /// alone has all further ones with it.
    pub(super) fn next_file(&mut self, values: &mut Values) -> Option<MessageKey> {
        let (mut at, key) = self.next.take()?;
        let first = multipart::next_file(&self.bytes, &self.boundary, &mut at)?;
        values.go_back(&self.others);
        let found = &mut Found::new(App::of_definition(&super::DEFINITION), values);
        let mut file = Some(first);
        while let Some(one) = file {
            found.add(buffer::FILE, one.content);
            found.add_filled(buffer::FILE_NAME, one.name);
            file = if key.file == MAX_FILES {
                multipart::next_file(&self.bytes, &self.boundary, &mut at)
            } else {
                self.next = Some((at, MessageKey { file: key.file + 1, ..key }));
                None
            };
        }
        Some(key)
    }
}

/// Puts what a message has at a stage among the values, what it had at earlier ones included; of a form's files the first one.
pub(super) fn put(http: &mut Http, key: MessageKey, stage: Stage, values: &mut Values) {
    values.clear();
    let transaction = *http.pools.transaction(key.transaction);
    let message = transaction.messages[key.side];
    http.head.clear();
    http.pools.blocks.copy(&message.head, &mut http.head);
    let (line, fields) = http.head.split_at((message.line_len as usize).min(http.head.len()));
    let found = &mut Found::new(App::of_definition(&super::DEFINITION), values);
    let mut list = [Field { name: b"", value: b"" }; MAX_FIELDS];
    let mut count = 0;
    if stage >= Stage::Head && message.has_head {
        for (slot, field) in list.iter_mut().zip(head::fields(fields, key.side == 1)) {
            *slot = field;
            count += 1;
        }
    }
    let is_connect = transaction.is_connect;
    let (list, firsts) = (&list[..count], firsts(&list[..count]));
    let side = Side {
        line: without_end(line),
        raw: fields,
        list,
        firsts: &firsts[..count],
        is_response: key.side == 1,
        is_connect,
    };
    side.first_line(found);
    if stage >= Stage::Head && message.has_head {
        side.fields(found);
        side.odd_fields(found);
        for (oddity, names) in ODDITIES {
            if message.oddities.has(*oddity) {
                found.add(buffer::EVENT, names[key.side]);
            }
        }
    }
    if stage == Stage::Body {
        if message.is_complete {
            found.file_is_whole();
        }
        // From the start until it has been looked at once; then with a window of what was seen before.
        let seen = message.body_seen as usize;
        let from =
            if seen > http.settings.inspect_from[key.side] { seen - http.settings.inspect_window.min(seen) } else { 0 };
        let number = [buffer::REQUEST_BODY, buffer::RESPONSE_BODY][key.side];
        let body = |out: &mut Value<'_>| http.pools.blocks.visit(&message.body, from, |part| out.push(part));
        let boundary = if key.side == 0 && from == 0 { side.boundary() } else { None };
        match boundary {
            Some(boundary) => {
                found.build(number, from as u64, body);
                let form = &mut http.form;
                form.bytes.clear();
                http.pools.blocks.copy(&message.body, &mut form.bytes);
                form.boundary.clear();
                form.boundary.extend_from_slice(boundary);
                (form.next, form.others) = (Some((0, key)), values.mark());
                form.next_file(values);
            }
            None => {
                found.build_for(&[number, buffer::FILE], from as u64, body);
                // The name that a message gives it, else the target's.
                let text = &mut http.form.bytes;
                text.clear();
                http.pools.blocks.copy(&transaction.messages[0].head, text);
                let request = text.get(..transaction.messages[0].line_len as usize).unwrap_or_default();
                let path = uri::target(head::request_line(without_end(request)).target, is_connect).path;
                let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                found.add_filled(buffer::FILE_NAME, side.file_name().unwrap_or(last));
            }
        }
    }
}

/// Of each field the place of the first one with its name.
fn firsts(list: &[Field<'_>]) -> [u16; MAX_FIELDS] {
    let (mut firsts, mut hashes) = ([0; MAX_FIELDS], [0; MAX_FIELDS]);
    for (number, field) in list.iter().enumerate().take(MAX_FIELDS) {
        let hash = head::name_hash(field.name);
        let same = |&old: &usize| hashes[old] == hash && list[old].is(field.name);
        firsts[number] = (0..number).find(same).unwrap_or(number) as u16;
        hashes[number] = hash;
    }
    firsts
}

/// One message's head.
struct Side<'s, 'h> {
    line: &'h [u8],
    /// Its fields as sent, and one by one.
    raw: &'h [u8],
    list: &'s [Field<'h>],
    /// Of each the place of the first one with its name.
    firsts: &'s [u16],
    is_response: bool,
    is_connect: bool,
}

impl<'h> Side<'_, 'h> {
    fn first_line(&self, found: &mut Found<'_>) {
        if self.is_response {
            let line = head::status_line(self.line);
            found.add_filled(buffer::RESPONSE_LINE, self.line);
            found.add_filled(buffer::PROTOCOL, line.protocol);
            found.add_filled(buffer::STATUS, line.status);
            found.add_filled(buffer::REASON, line.reason);
            return;
        }
        let line = head::request_line(self.line);
        found.add_filled(buffer::REQUEST_LINE, self.line);
        found.add_filled(buffer::METHOD, line.method);
        found.add_filled(buffer::URI_RAW, line.target);
        found.add_filled(buffer::PROTOCOL, line.protocol);
        let target = uri::target(line.target, self.is_connect);
        found.build(buffer::URI, 0, |out| {
            out.push(target.path);
            let len = uri::normalise_path(out.bytes());
            out.truncate(len);
            uri::decode(target.query, |byte| out.push(&[byte]));
            uri::decode(target.fragment, |byte| out.push(&[byte]));
        });
    }

    fn fields(&self, found: &mut Found<'_>) {
        let side = usize::from(self.is_response);
        // What the blank line ends; it is part of the raw form.
        found.add_filled(buffer::HEADER_RAW, self.raw);
        found.build(buffer::HEADER, 0, |out| {
            let hidden: &[u8] = if self.is_response { b"set-cookie" } else { b"cookie" };
            self.put_fields(out, |field| !field.is(hidden));
        });
        found.build(buffer::START, 0, |out| {
            out.push(self.line);
            out.push(b"\r\n");
            self.put_fields(out, |_| true);
            out.push(b"\r\n");
        });
        found.build(buffer::HEADER_NAMES, 0, |out| {
            out.push(b"\r\n");
            self.firsts().for_each(|(_, field)| {
                out.push(field.name);
                out.push(b"\r\n");
            });
            out.push(b"\r\n");
        });
        for (name, buffers) in FIELDS {
            if let Some(number) = buffers[side]
                && self.list.iter().any(|field| field.is(name))
            {
                found.build(number, 0, |out| self.put_value(out, name));
            }
        }
        let one = [buffer::REQUEST_FIELD, buffer::RESPONSE_FIELD][side];
        for field in self.list {
            found.build(one, 0, |out| {
                out.push(field.name);
                out.push(b": ");
                head::unfolded(field.value).for_each(|part| out.push(part));
            });
        }
        if !self.is_response {
            self.host(found);
        }
    }

    /// Fields that no client or server of good will sends.
    fn odd_fields(&self, found: &mut Found<'_>) {
        let lengths = || self.list.iter().filter(|field| field.is(b"content-length"));
        let first = lengths().next().map(|field| head::content_length(field.value));
        if lengths().skip(1).any(|field| first != Some(head::content_length(field.value)) || first == Some(None)) {
            let names: [&[u8]; 2] =
                [b"duplicate_content_length_field_in_request", b"duplicate_content_length_field_in_response"];
            found.add(buffer::EVENT, names[usize::from(self.is_response)]);
        }
        if self.is_response {
            return;
        }
        let values =
            |name: &'static [u8]| self.list.iter().filter(move |field| field.is(name)).map(|field| field.value);
        if values(b"host").any(|host| !uri::is_host(uri::without_port(host))) {
            found.add(buffer::EVENT, b"request_header_host_invalid");
        }
        let is_known = |value: &[u8]| {
            let schemes: [&[u8]; 3] = [b"basic", b"digest", b"bearer"];
            schemes
                .iter()
                .any(|&scheme| value.get(..scheme.len()).is_some_and(|word| word.eq_ignore_ascii_case(scheme)))
        };
        if values(b"authorization").any(|value| !is_known(value)) {
            found.add(buffer::EVENT, b"request_auth_unrecognized");
        }
    }

    /// The first field of each name.
    fn firsts(&self) -> impl Iterator<Item = (usize, &Field<'h>)> {
        self.list.iter().enumerate().filter(|&(number, _)| usize::from(self.firsts[number]) == number)
    }

    /// The values of all fields of a name, as one.
    fn put_value(&self, out: &mut Value<'_>, name: &[u8]) {
        Self::put_joined(out, name, self.list.iter().filter(|field| field.is(name)));
    }

    fn put_joined<'f>(out: &mut Value<'_>, name: &[u8], fields: impl Iterator<Item = &'f Field<'h>>)
    where
        'h: 'f,
    {
        for (number, field) in fields.enumerate() {
            if number > 0 {
                // A second length is no other one.
                if name.eq_ignore_ascii_case(b"content-length") {
                    return;
                }
                out.push(b", ");
            }
            head::unfolded(field.value).for_each(|part| out.push(part));
        }
    }

    fn put_fields(&self, out: &mut Value<'_>, wanted: impl Fn(&Field<'_>) -> bool) {
        for (first, field) in self.firsts().filter(|(_, field)| wanted(field)) {
            out.push(field.name);
            out.push(b": ");
            let same = self.list.iter().zip(self.firsts).filter(|&(_, &of)| usize::from(of) == first);
            Self::put_joined(out, field.name, same.map(|(field, _)| field));
            out.push(b"\r\n");
        }
    }

    /// The target's host before the field's.
    fn host(&self, found: &mut Found<'_>) {
        let in_target = uri::target(head::request_line(self.line).target, self.is_connect).host;
        let in_field = self.list.iter().find(|field| field.is(b"host")).map(|field| field.value).unwrap_or_default();
        let raw = if in_target.is_empty() { in_field } else { in_target };
        found.add_filled(buffer::HOST_RAW, raw);
        found.build(buffer::HOST, 0, |out| {
            out.push(uri::without_port(raw));
            out.bytes().make_ascii_lowercase();
        });
    }

    /// The name that the message gives its content (RFC 6266).
    fn file_name(&self) -> Option<&'h [u8]> {
        let kind = self.list.iter().find(|field| field.is(b"content-disposition"))?.value;
        multipart::parameter(kind, b"filename=")
    }

    /// What separates the parts of a form with files.
    fn boundary(&self) -> Option<&'h [u8]> {
        let kind = self.list.iter().find(|field| field.is(b"content-type"))?.value;
        multipart::boundary(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_name_are_found() {
        let list = [&b"A"[..], b"b", b"a", b"\0B", b"c"].map(|name| Field { name, value: b"" });
        assert_eq!(firsts(&list)[..5], [0, 1, 0, 1, 4]);
    }
}
