//! Owns: a message's content: how its end is known, chunks, content codings, and when so much is new that rules look at it.
//! Does not: find the content's beginning (`stream.rs` does) or decompress (`inflate.rs`).

use super::Http;
use super::head::{self, ChunkLength};
use super::inflate::{Format, Layers, MAX_LAYERS, Room};
use super::lines::Scanner;
use super::stream::{Reached, Reading};
use super::transaction::{Phase, Transaction};
use crate::blocks::Chain;
use crate::protocol::Stage;

/// Bytes of a chunk's first line that are kept; its length is in the first of them.
const MAX_CHUNK_LINE: usize = 64;
/// Bytes that may come out of a message's decompressors.
const MAX_INFLATED: usize = 1 << 20;

/// How the content's end is known.
pub(super) struct Framing {
    is_chunked: bool,
    length: Option<u64>,
    /// The transfer coding is neither chunked nor nothing.
    pub(super) has_odd_coding: bool,
}

impl Framing {
    pub(super) fn of(fields: &[u8], is_response: bool) -> Self {
        let mut this = Self { is_chunked: false, length: None, has_odd_coding: false };
        for field in head::fields(fields, is_response) {
            if field.is(b"transfer-encoding") {
                // A value in several lines is none that servers know.
                this.is_chunked |= head::contains(field.value, b"chunked");
                this.has_odd_coding |= !head::is_same(field.value, b"chunked");
            } else if field.is(b"content-length") {
                this.length = this.length.or(head::content_length(field.value));
            }
        }
        this
    }
}

impl Http {
    /// Puts a content as it was sent behind what came out of decompressors for it, once rules have looked at all of that: it takes none of
    /// their time.
    pub(super) fn add_raw(&mut self, connection: u32, transaction: u32, side: usize) {
        let message = self.pools.message(transaction, side);
        if message.raw.is_empty() || message.body.len() > message.inspected as usize {
            return;
        }
        message.has_added_raw = true;
        let (mut raw, mut body) = (std::mem::take(&mut message.raw), message.body);
        self.decoded.clear();
        self.pools.blocks.copy(&raw, &mut self.decoded);
        self.pools.blocks.free(&mut raw);
        self.inflated += self.decoded.len();
        self.pools.keep(connection, &mut body, &self.decoded);
        self.pools.message(transaction, side).body = body;
    }
}

impl Reading<'_> {
    pub(super) fn request_content(&mut self, transaction: u32, framing: &Framing, fields: &[u8]) {
        let phase = match framing.length {
            _ if framing.is_chunked => Phase::ChunkLength,
            Some(length) if length > 0 => Phase::Body(length),
            _ => {
                self.complete(transaction);
                // What follows CONNECT may be anything once the response says so.
                Phase::Idle
            }
        };
        if phase != Phase::Idle {
            self.add_layers(transaction, fields);
        }
        *self.phase() = phase;
    }

    pub(super) fn response_content(&mut self, transaction: u32, framing: &Framing, fields: &[u8]) {
        let Transaction { status, is_head, is_connect, .. } = *self.http.pools.transaction(transaction);
        if (is_connect && (200..300).contains(&status)) || status == 101 {
            self.complete(transaction);
            let phase = if is_connect { Phase::Lost } else { Phase::Tunnel };
            for side in &mut self.http.pools.connection(self.connection).sides {
                side.phase = phase;
            }
            return;
        }
        if is_head || matches!(status, 100..=199 | 204 | 304) {
            self.complete(transaction);
            return;
        }
        self.add_layers(transaction, fields);
        *self.phase() = match framing.length {
            _ if framing.is_chunked => Phase::ChunkLength,
            Some(0) => {
                self.complete(transaction);
                return;
            }
            Some(length) => Phase::Body(length),
            None => Phase::UntilClose,
        };
    }

    /// Decompressors for the content's codings.
    fn add_layers(&mut self, transaction: u32, fields: &[u8]) {
        let is_response = self.is_response();
        let Http { pools, settings, .. } = &mut *self.http;
        let (mut formats, mut count) = ([Format::Bare; MAX_LAYERS], 0);
        for field in head::fields(fields, is_response).filter(|field| field.is(b"content-encoding")) {
            for coding in field.value.split(|&byte| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')) {
                let format = match () {
                    () if head::contains(coding, b"gzip") => Format::Wrapped,
                    () if head::contains(coding, b"deflate") => Format::Bare,
                    () if head::is_same(coding, b"br") => Format::Brotli,
                    () => continue,
                };
                if let Some(place) = formats.get_mut(count) {
                    *place = format;
                }
                count += 1;
            }
        }
        let formats = &mut formats[..count.min(MAX_LAYERS)];
        let keeps_raw = formats.contains(&Format::Brotli);
        // What was done last is named last (RFC 9110 §8.4). The others are read in the order in which they are named, as Suricata does, and
        // find out if it is the other one.
        if keeps_raw {
            formats.reverse();
        }
        let mut layers = Layers::default();
        let mut add = |&format: &Format| layers.count() < settings.layers && pools.inflaters.add(&mut layers, format);
        let added = formats.iter().take_while(|format| add(format)).count();
        pools.counters.not_decoded += (count - added) as u64;
        let message = self.message(transaction);
        (message.layers, message.keeps_raw) = (layers, keeps_raw);
    }

    pub(super) fn chunk_length(&mut self, transaction: u32, rest: &[u8]) -> (usize, Reached) {
        let mut line = self.http.pools.connection(self.connection).sides[self.side].line;
        let end = memchr::memchr(b'\n', rest);
        let used = end.map_or(rest.len(), |at| at + 1);
        let skipped = self.chunk_line_skip(line, &rest[..used]);
        let room = skipped + MAX_CHUNK_LINE.saturating_sub(line.len());
        self.http.pools.keep(self.connection, &mut line, &rest[skipped..used.min(room)]);
        self.gather(line);
        let length = head::chunk_length(&self.http.head);
        let junk = length == ChunkLength::Invalid && self.http.head.len() >= 8;
        if end.is_none() && !junk {
            self.http.pools.connection(self.connection).sides[self.side].line = line;
            return (used, None);
        }
        self.http.pools.blocks.free(&mut line);
        self.http.pools.connection(self.connection).sides[self.side].line = line;
        match length {
            ChunkLength::Nothing => {}
            ChunkLength::Bytes(0) => {
                let is_response = self.is_response();
                let side = &mut self.http.pools.connection(self.connection).sides[self.side];
                (side.phase, side.scanner) = (Phase::Trailer, Scanner::new(is_response));
            }
            ChunkLength::Bytes(bytes) => *self.phase() = Phase::Chunk(bytes),
            ChunkLength::Invalid => {
                // No chunk: all of it is content, to the end.
                *self.phase() = Phase::UntilClose;
                let text = std::mem::take(&mut self.http.head);
                self.content(transaction, &text);
                let kept_of_rest = used.min(room);
                self.http.head = text;
                return (kept_of_rest, self.body_due(transaction));
            }
        }
        self.message(transaction).sent_len += used as u64;
        (used, None)
    }

    /// Bytes that need not be kept of a chunk's first line, however many there are: blanks before it, zeros behind a zero.
    fn chunk_line_skip(&mut self, line: Chain, text: &[u8]) -> usize {
        let zeros = |from: usize| text[from..].iter().take_while(|&&byte| byte == b'0').count();
        if line.is_empty() {
            let blanks = text.iter().take_while(|&&byte| head::is_space(byte)).count();
            return blanks + zeros(blanks).saturating_sub(1);
        }
        self.gather(line);
        if self.http.head == b"0" { zeros(0) } else { 0 }
    }

    /// Further content.
    pub(super) fn content(&mut self, transaction: u32, bytes: &[u8]) {
        let limit = self.http.settings.body_limit;
        let message = self.http.pools.message(transaction, self.side);
        message.sent_len += bytes.len() as u64;
        if message.keeps_raw {
            let mut raw = message.raw;
            let room = limit.saturating_sub(raw.len());
            self.http.pools.keep(self.connection, &mut raw, &bytes[..bytes.len().min(room)]);
            self.http.pools.message(transaction, self.side).raw = raw;
        }
        let message = self.http.pools.message(transaction, self.side);
        if message.is_full {
            return;
        }
        let (layers, mut chain) = (message.layers, message.body);
        let most = MAX_INFLATED.saturating_sub(message.inflated as usize);
        let mut left = Room::new(most, self.http.inflatable);
        let room = limit.saturating_sub(chain.len());
        let mut decoded = std::mem::take(&mut self.http.decoded);
        let part = if layers.is_empty() {
            &bytes[..bytes.len().min(room)]
        } else {
            decoded.clear();
            self.http.pools.inflaters.decode(&layers, bytes, &mut left, &mut |part| {
                decoded.extend_from_slice(&part[..part.len().min(room - decoded.len())]);
                decoded.len() < room
            });
            let cost = std::mem::replace(&mut self.http.inflatable, left.work) - left.work;
            // A header without an end gives nothing, and is read all the same.
            let cost = if decoded.is_empty() { cost.max(bytes.len()) } else { cost };
            self.http.inflated += cost + left.tables;
            &decoded[..]
        };
        self.http.pools.keep(self.connection, &mut chain, part);
        let message = self.http.pools.message(transaction, self.side);
        message.decoded_len += part.len() as u64;
        message.body = chain;
        // What goes in is the packet's to pay for: of the message counts what has come out.
        message.inflated += (most - left.out) as u32;
        let is_cut = !layers.is_empty() && (left.out == 0 || left.work == 0 || left.is_cut);
        message.is_full = chain.len() >= limit || is_cut;
        if is_cut && chain.len() < limit {
            self.http.pools.counters.not_decoded += 1;
        }
        let message = self.http.pools.message(transaction, self.side);
        if message.is_full {
            let mut layers = std::mem::take(&mut message.layers);
            self.http.pools.inflaters.release(&mut layers);
        }
        self.http.decoded = decoded;
    }

    /// A message is all there; the side's next bytes are another's.
    pub(super) fn complete(&mut self, transaction: u32) {
        let is_response = self.is_response();
        let message = self.message(transaction);
        message.is_complete = true;
        let mut layers = std::mem::take(&mut message.layers);
        self.http.pools.inflaters.release(&mut layers);
        *self.phase() = if is_response { Phase::After } else { Phase::Idle };
    }

    /// Whether the side's message is all there, and what was sent of it is still to be looked at. What comes behind its end waits.
    pub(super) fn raw_due(&mut self) -> Reached {
        let transaction = self.http.pools.connection(self.connection).sides[self.side].transaction?;
        let message = self.message(transaction);
        let is_due = message.is_complete && !message.has_added_raw && !message.raw.is_empty();
        if is_due { self.body_due(transaction) } else { None }
    }

    /// Whether there is so much new content that rules are to look at it.
    pub(super) fn body_due(&mut self, transaction: u32) -> Reached {
        let is_all = self.message(transaction).is_complete;
        self.due(transaction, is_all)
    }

    /// The same; `is_all`: no more of it will come.
    pub(super) fn due(&mut self, transaction: u32, is_all: bool) -> Reached {
        if is_all {
            self.http.add_raw(self.connection, transaction, self.side);
        }
        let settings = &self.http.settings;
        let (first, window) = (settings.inspect_from[self.side], settings.inspect_window);
        let message = self.message(transaction);
        let (there, seen) = (message.body.len(), message.inspected as usize);
        let is_due = match seen {
            _ if there == seen => false,
            _ if is_all || message.is_full => true,
            0 => there >= first,
            _ => there - seen >= window,
        };
        if !is_due {
            return None;
        }
        (message.body_seen, message.inspected) = (message.inspected, there as u32);
        Some((Stage::Body, transaction))
    }
}
