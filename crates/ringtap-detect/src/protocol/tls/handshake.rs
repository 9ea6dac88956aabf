//! Owns: handshakes as they come, record by record (RFC 8446 §5.1), until both sides have said who they are.
//! Does not: read messages (`parser.rs`). All memory is taken at start; a full pool lets go of a side as `UseOrder` says.

use super::certificate::certificate;
use super::keywords as buffer;
use super::parser::{self, Text};
use crate::blocks::{Blocks, Chain};
use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::protocol::{App, Found, Progress, Value, Values};
use crate::use_order::{Owner, UseOrder};

/// "None" of any list.
const NONE: u32 = u32::MAX;
/// Bytes of a side's messages that are kept.
const MAX_MESSAGES: usize = 64 << 10;
/// And of all sides.
const BYTES: usize = 16 << 20;

const ALERT: u8 = 21;
/// An alert's level; behind others the connection is over.
const WARNING: u8 = 1;
const HANDSHAKE: u8 = 22;
/// Types of messages.
pub const CLIENT_HELLO: u8 = 1;
/// The server's answer to it.
pub const SERVER_HELLO: u8 = 2;
/// The list of certificates.
pub const CERTIFICATE: u8 = 11;
const SERVER_HELLO_DONE: u8 = 14;
/// The random bytes of a server's hello that asks for another hello of the client (RFC 8446 §4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// One side's handshake.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Its messages, record headers left out.
    messages: Chain,
    /// Bytes of them that were read.
    read: u32,
    /// The record's header, as far as it is there.
    header: [u8; 5],
    header_len: u8,
    /// Bytes of the record still to come.
    left: u16,
    flow: u32,
    side: u8,
    /// The server has asked for another hello of the client, and has said its own.
    has_retried: bool,
    has_answered: bool,
    /// All is read: its messages are kept until the other side's are, too.
    is_done: bool,
    next_free: u32,
}

impl Side {
    /// Whether a server may say this hello: its own once, and once before it that it wants another one of the client (RFC 8446 §4.1.4).
    /// No client goes on behind more, and each would be told with all messages before it.
    fn takes_hello(&mut self, body: &[u8]) -> bool {
        let is_retry = body.get(2..).is_some_and(|random| random.starts_with(&RETRY));
        let is_taken = if is_retry { !self.has_answered && !self.has_retried } else { !self.has_answered };
        (self.has_retried, self.has_answered) = (self.has_retried | is_retry, self.has_answered | !is_retry);
        is_taken
    }
}

/// All handshakes.
pub(crate) struct Handshakes {
    blocks: Blocks,
    sides: FixedVec<Side>,
    capacity: usize,
    free: u32,
    order: UseOrder,
    /// Of each flow the places of its two sides.
    of_flow: Vec<[u32; 2]>,
    /// Messages in one piece, and a text.
    gathered: Vec<u8>,
    text: Vec<u8>,
    /// Sides given up for others, and sides that there was no memory for.
    pub(crate) evicted: u64,
}

impl Handshakes {
    /// Takes all memory, for so many flows.
    pub(crate) fn new(flows: usize) -> Self {
        let capacity = 2 * flows;
        Self {
            blocks: Blocks::new(BYTES.min(capacity.saturating_mul(MAX_MESSAGES))),
            sides: FixedVec::with_capacity(capacity),
            capacity,
            free: NONE,
            order: UseOrder::new(capacity),
            of_flow: vec![[NONE; 2]; flows],
            gathered: Vec::with_capacity(MAX_MESSAGES),
            text: Vec::with_capacity(4096),
            evicted: 0,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.blocks.show_spare(to);
        self.sides.show_spare(to);
        self.order.show_spare(to);
    }

    /// Forgets a flow.
    pub(crate) fn forget(&mut self, flow: usize) {
        (0..2).for_each(|side| self.close(flow, side));
    }

    fn close(&mut self, flow: usize, side: usize) {
        let Some(place) = self.of_flow.get_mut(flow) else { return };
        let number = std::mem::replace(&mut place[side], NONE);
        if number != NONE {
            self.order.remove(number);
            self.blocks.free(&mut self.sides[number as usize].messages);
            (self.sides[number as usize].next_free, self.sides[number as usize].flow) = (self.free, NONE);
            self.free = number;
        }
    }

    /// Gives a side up, for this or a new one; whether there was one.
    fn evict_for(&mut self, kept: Option<u32>) -> bool {
        let Some(number) = self.order.to_give_up(kept) else { return false };
        let Side { flow, side, .. } = self.sides[number as usize];
        self.evicted += 1;
        self.close(flow as usize, side.into());
        true
    }

    fn open(&mut self, owner: Owner, side: usize) -> Option<usize> {
        let flow = owner.flow;
        let found = self.of_flow.get(flow)?[side];
        if found != NONE {
            self.order.touch(found);
            return Some(found as usize);
        }
        if self.free == NONE && self.sides.len() == self.capacity {
            self.evict_for(None);
        }
        let new = Side {
            messages: Chain::default(),
            read: 0,
            header: [0; 5],
            header_len: 0,
            left: 0,
            flow: flow as u32,
            side: side as u8,
            has_retried: false,
            has_answered: false,
            is_done: false,
            next_free: NONE,
        };
        let number = match self.free {
            NONE => {
                self.sides.push(new);
                self.sides.len() as u32 - 1
            }
            number => {
                self.free = self.sides[number as usize].next_free;
                self.sides[number as usize] = new;
                number
            }
        };
        self.of_flow[flow][side] = number;
        self.order.add(number, owner.is_tunnelled);
        Some(number as usize)
    }

    /// Reads new bytes of a side, from its stream's beginning on without a gap.
    pub(crate) fn read(&mut self, owner: Owner, side: usize, bytes: &[u8], values: &mut Values) -> Progress {
        let Some(number) = self.open(owner, side) else { return Progress::Done };
        let (mut rest, mut goes_on) = (bytes, true);
        while let (true, Some((&first, behind))) = (goes_on, rest.split_first()) {
            let state = &mut self.sides[number];
            if state.left > 0 {
                let (part, behind) = rest.split_at(rest.len().min(state.left.into()));
                let is_first = state.left == 2;
                state.left -= part.len() as u16;
                rest = behind;
                if state.header[0] == ALERT {
                    goes_on = !is_first || first == WARNING;
                    continue;
                }
                let room = MAX_MESSAGES - state.messages.len().min(MAX_MESSAGES);
                let wanted = &part[..part.len().min(room)];
                let is_kept = self.keep(number, wanted);
                goes_on = is_kept && wanted.len() == part.len() && self.messages(number, side, values);
                continue;
            }
            state.header[usize::from(state.header_len)] = first;
            state.header_len += 1;
            rest = behind;
            if state.header_len == 5 {
                state.header_len = 0;
                state.left = u16::from_be_bytes([state.header[3], state.header[4]]);
                // Behind anything else but a warning in the clear all is encrypted.
                let is_warning = state.header[0] == ALERT && state.left == 2;
                goes_on = (state.header[0] == HANDSHAKE || is_warning) && state.header[1] == 3;
            }
        }
        self.sides[number].is_done = !goes_on;
        self.tell(owner.flow, values);
        if goes_on { Progress::More } else { Progress::Done }
    }

    /// Tells what both sides have said so far; once both are done, that is all.
    fn tell(&mut self, flow: usize, values: &mut Values) {
        let numbers = self.of_flow[flow];
        let is_over = numbers.iter().all(|&number| number != NONE && self.sides[number as usize].is_done);
        if !is_over && values.iter().next().is_none() {
            return;
        }
        let Self { blocks, sides, .. } = self;
        let show = |side: usize, out: &mut Value<'_>| {
            if numbers[side] != NONE {
                blocks.visit(&sides[numbers[side] as usize].messages, 0, |part| out.push(part));
            }
        };
        let app = App::of_definition(&super::DEFINITION);
        Found::new(app, values).tell(is_over, [&mut |out| show(0, out), &mut |out| show(1, out)]);
        if is_over {
            self.forget(flow);
        }
    }

    /// Keeps bytes of a side's messages; where the memory is full, others give theirs up.
    fn keep(&mut self, number: usize, mut bytes: &[u8]) -> bool {
        let mut chain = self.sides[number].messages;
        loop {
            let kept = self.blocks.append(&mut chain, bytes);
            bytes = &bytes[kept..];
            if bytes.is_empty() || !self.evict_for(Some(number as u32)) {
                break;
            }
        }
        self.sides[number].messages = chain;
        self.evicted += u64::from(!bytes.is_empty());
        bytes.is_empty()
    }

    /// Reads the messages that are whole; whether more are wanted.
    fn messages(&mut self, number: usize, side: usize, values: &mut Values) -> bool {
        loop {
            let Side { messages, read, .. } = self.sides[number];
            let (mut header, mut filled) = ([0; 4], 0);
            self.blocks.visit(&messages, read as usize, |part| {
                let len = part.len().min(4 - filled);
                header[filled..filled + len].copy_from_slice(&part[..len]);
                filled += len;
            });
            let len = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
            if filled < 4 || messages.len() < read as usize + 4 + len {
                return 4 + len <= MAX_MESSAGES;
            }
            self.gathered.clear();
            let gathered = &mut self.gathered;
            self.blocks.visit(&messages, read as usize + 4, |part| {
                let room = (len - gathered.len()).min(part.len());
                gathered.extend_from_slice(&part[..room]);
            });
            self.sides[number].read += 4 + len as u32;
            let is_hello = side == 1 && header[0] == SERVER_HELLO;
            if is_hello && !self.sides[number].takes_hello(&self.gathered) {
                return false;
            }
            let found = &mut Found::new(App::of_definition(&super::DEFINITION), values);
            if !message(header[0], side == 0, &self.gathered, &mut self.text, found) {
                return false;
            }
        }
    }
}

/// What rules see of one message; whether more are wanted.
fn message(kind: u8, from_client: bool, body: &[u8], text: &mut Vec<u8>, found: &mut Found<'_>) -> bool {
    let hello = match (kind, from_client) {
        (CLIENT_HELLO, true) => parser::client_hello(body),
        (SERVER_HELLO, false) => parser::server_hello(body),
        (CERTIFICATE, false) => {
            certificates(body, found);
            return false;
        }
        (SERVER_HELLO_DONE, _) => return false,
        _ => return true,
    };
    let Some(hello) = hello else { return false };
    if let Some(name) = hello.server_name().filter(|_| from_client) {
        found.add(buffer::SNI, name);
    }
    found.add(buffer::VERSION, version_name(hello.version()));
    found.add(buffer::RANDOM, hello.random);
    found.add(buffer::RANDOM_TIME, &hello.random[..4]);
    found.add(buffer::RANDOM_BYTES, &hello.random[4..]);
    text.clear();
    hello.ja3(&mut Text(text));
    let (hash, string) =
        if from_client { (buffer::JA3_HASH, buffer::JA3_STRING) } else { (buffer::JA3S_HASH, buffer::JA3S_STRING) };
    found.add(string, text);
    found.add(hash, &parser::md5_hex(text));
    !from_client
}

/// A version as rules name it.
fn version_name(version: u16) -> &'static [u8] {
    match version {
        0x0300 => b"sslv3",
        0x0301 => b"1.0",
        0x0302 => b"1.1",
        0x0303 => b"1.2",
        0x0304 => b"1.3",
        _ => b"unknown",
    }
}

fn certificates(body: &[u8], found: &mut Found<'_>) {
    for (place, der) in parser::certificates(body).enumerate() {
        found.add(buffer::CERTS, der);
        // Of the list's other ones only the bytes are asked for.
        let Some(first) = certificate(der).filter(|_| place == 0) else { continue };
        let fingerprint = parser::fingerprint(der);
        found.add(buffer::FINGERPRINT, &fingerprint);
        found.add(buffer::FINGERPRINT_WORD, &fingerprint);
        for number in [buffer::SUBJECT, buffer::SUBJECT_WORD] {
            found.build(number, 0, |out| first.subject(&mut |part| out.push(part)));
        }
        for number in [buffer::ISSUER, buffer::ISSUER_WORD] {
            found.build(number, 0, |out| first.issuer(&mut |part| out.push(part)));
        }
        found.build(buffer::SERIAL, 0, |out| first.serial_text(&mut |part| out.push(part)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(random: [u8; 32]) -> Vec<u8> {
        let message = [&[SERVER_HELLO, 0, 0, 38, 3, 3][..], &random, &[0, 0x13, 1, 0]].concat();
        [&[HANDSHAKE, 3, 3, 0, message.len() as u8][..], &message].concat()
    }

    /// How many of these hellos of a server rules see, each in a segment of its own, and how many bytes are told with them.
    fn seen_and_told(hellos: &[Vec<u8>]) -> (usize, usize) {
        let (mut handshakes, mut values) = (Handshakes::new(2), Values::new());
        let (owner, mut counts) = (Owner { flow: 0, is_tunnelled: false }, (0, 0));
        for hello in hellos {
            values.clear();
            let progress = handshakes.read(owner, 1, hello, &mut values);
            counts.0 += usize::from(values.iter().next().is_some());
            counts.1 += values.told().map(|(said, _)| said[0].len() + said[1].len()).sum::<usize>();
            if progress == Progress::Done {
                break;
            }
        }
        counts
    }

    #[test]
    fn a_server_says_hello_once_and_asks_for_another_once() {
        let (retry, own) = (hello(RETRY), hello([7; 32]));
        let len = own.len() - 5;
        assert_eq!(seen_and_told(&vec![own.clone(); 1000]), (1, len));
        assert_eq!(seen_and_told(&vec![retry.clone(); 1000]), (1, len));
        assert_eq!(seen_and_told(&[retry.clone(), own.clone(), own.clone(), retry.clone()]), (2, 3 * len));
        assert_eq!(seen_and_told(&[own, retry]), (1, len));
    }
}
