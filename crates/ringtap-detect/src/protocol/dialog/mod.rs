//! Conversations of protocols whose messages are read one at a time and as a whole.
//!
//! Owns putting messages together, what is kept of a conversation between them, and the pools of both: `pool.rs`. What a message says
//! is its protocol's to read: a [`Talk`] of its definition.

mod pool;

use crate::blocks::{Blocks, Chain};
use crate::protocol::{Found, Value, dcerpc, ftp, mqtt, rfb, smb, smtp, ssh};

pub(crate) use pool::{Dialogs, ExchangeKey};

/// Longest message that is read; of a longer one its beginning.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// Bytes of one transaction that are kept for its record.
pub(crate) const MAX_TOLD: usize = 16 << 10;
/// Requests of one conversation that are kept until they are answered.
const EXCHANGES: usize = 4;
/// Rules of which is remembered that they matched in an exchange.
const MATCHED: usize = 8;

/// How a protocol reads its messages.
pub(crate) struct Talk {
    /// What is kept of a conversation, at its beginning.
    pub(crate) begin: fn() -> State,
    /// How long the message is that begins with these bytes, of this side (0: the client).
    pub(crate) frame: fn(&State, usize, &[u8]) -> Frame,
    /// Reads one; whether rules may look at what it has found.
    pub(crate) read: fn(&mut Talking<'_>, &[u8], &mut Found<'_>) -> bool,
    /// Says what is known before the first message, of both sides.
    pub(crate) announce: Option<fn(&mut Talking<'_>, &mut Found<'_>)>,
    /// Tells, at the end, what is left of a side for records; whether all of its bytes were there.
    pub(crate) end: Option<fn(&mut Talking<'_>, bool, &mut Found<'_>)>,
}

/// What follows in a side's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// How long it is can't be told yet.
    Incomplete,
    /// A message of so many bytes, at least one.
    Message(usize),
    /// So many bytes that nobody asks for, at least one.
    Skip(usize),
    /// Nothing that could be read from here on.
    Lost,
}

/// What is kept of a conversation between its messages.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be memory taken on the engine's thread")]
pub(crate) enum State {
    Mqtt(mqtt::State),
    Dcerpc(dcerpc::State),
    Smb(smb::State),
    Rfb(rfb::State),
    Smtp(smtp::State),
    Ssh(ssh::State),
    Ftp(ftp::State),
    FtpData(ftp::DataState),
}

/// A request that was not answered yet.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    /// What tells it from others, plus one; 0: none here.
    key: u64,
    request: Chain,
    matched: [u32; MATCHED],
    matched_count: u8,
}

impl Exchange {
    fn is_first_match(&mut self, sid: u32) -> bool {
        if self.matched.iter().take(self.matched_count.into()).any(|&other| other == sid) {
            return false;
        }
        // Beyond these a rule may be told twice.
        if let Some(place) = self.matched.get_mut(usize::from(self.matched_count)) {
            *place = sid;
            self.matched_count += 1;
        }
        true
    }
}

/// A conversation in the moment of a message.
pub(crate) struct Talking<'d> {
    pub(crate) state: &'d mut State,
    /// Who says it: 0 is the client.
    pub(crate) side: usize,
    blocks: &'d mut Blocks,
    content: &'d mut [Chain; 2],
    part: &'d mut Chain,
    exchanges: &'d mut [Exchange; EXCHANGES],
    /// Where requests are put for their answers.
    request: &'d mut Vec<u8>,
    exchange: Option<u8>,
}

impl Talking<'_> {
    /// Keeps bytes of a content that comes by several messages of this side, at most [`MAX_MESSAGE`]; how many found room.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> usize {
        let chain = &mut self.content[self.side];
        let room = MAX_MESSAGE.saturating_sub(chain.len());
        self.blocks.append(chain, &bytes[..bytes.len().min(room)])
    }

    /// Keeps bytes that a later message goes on with, behind those kept so before; without memory for all of them they are lost.
    pub(crate) fn put_off(&mut self, bytes: &[u8]) {
        self.blocks.append(self.part, bytes);
    }

    /// How many are kept so.
    pub(crate) fn put_off_len(&self) -> usize {
        self.part.len()
    }

    /// Copies them to the beginning of `out`, which has room for them, and forgets them; how many there were.
    pub(crate) fn take_put_off(&mut self, out: &mut [u8]) -> usize {
        let mut at = 0;
        self.blocks.visit(self.part, 0, |bytes| {
            let len = bytes.len().min(out.len() - at);
            out[at..at + len].copy_from_slice(&bytes[..len]);
            at += len;
        });
        self.blocks.free(self.part);
        at
    }

    /// Memory for [`MAX_MESSAGE`] bytes, empty; to be given back.
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        self.request.clear();
        std::mem::take(self.request)
    }

    /// Gives it back.
    pub(crate) fn give_scratch(&mut self, scratch: Vec<u8>) {
        *self.request = scratch;
    }

    /// Puts them into a buffer.
    pub(crate) fn put_kept(&self, number: u8, found: &mut Found<'_>) {
        found.build(number, 0, |out| self.blocks.visit(&self.content[self.side], 0, |part| out.push(part)));
    }

    /// Copies them to the end of `out`, as far as it has room.
    pub(crate) fn copy_kept(&self, out: &mut Vec<u8>) {
        self.noted(self.side, out);
    }

    /// Keeps bytes for the record of the transaction at hand, of this side, at most [`MAX_TOLD`]. Not beside a content of this side.
    pub(crate) fn note(&mut self, side: usize, bytes: &[u8]) {
        let chain = &mut self.content[side];
        let room = MAX_TOLD.saturating_sub(chain.len());
        self.blocks.append(chain, &bytes[..bytes.len().min(room)]);
    }

    /// What was noted, at the end of `out`.
    pub(crate) fn noted(&self, side: usize, out: &mut Vec<u8>) {
        self.blocks.copy(&self.content[side], out);
    }

    /// Tells the first line that was noted of the client, with all that was noted of the server, and forgets both.
    pub(crate) fn tell_first(&mut self, found: &mut Found<'_>) {
        let mut asked = self.take_scratch();
        self.noted(0, &mut asked);
        let end = memchr::memchr(b'\n', &asked).map_or(asked.len(), |at| at + 1);
        let (first, rest) = asked.split_at(end);
        found.tell(
            true,
            [&mut |out| out.push(first), &mut |out| {
                self.blocks.visit(&self.content[1], 0, |part| out.push(part));
            }],
        );
        (0..2).for_each(|side| self.drop_noted(side));
        self.note(0, rest);
        self.give_scratch(asked);
    }

    /// Bytes that were noted of a side.
    pub(crate) fn noted_len(&self, side: usize) -> usize {
        self.content[side].len()
    }

    /// Forgets what was noted of a side.
    pub(crate) fn drop_noted(&mut self, side: usize) {
        self.blocks.free(&mut self.content[side]);
    }

    /// Tells what was noted of these sides.
    pub(crate) fn tell_noted(&self, is_over: bool, sides: [usize; 2], found: &mut Found<'_>) {
        let show = |side: usize, out: &mut Value<'_>| {
            self.blocks.visit(&self.content[side], 0, |part| out.push(part));
        };
        // A single side's is the client's.
        let has_second = sides[0] != sides[1];
        found.tell(
            is_over,
            [&mut |out| show(sides[0], out), &mut |out| {
                if has_second {
                    show(sides[1], out)
                }
            }],
        );
    }

    /// Forgets them.
    pub(crate) fn drop_kept(&mut self) {
        self.drop_noted(self.side);
    }

    /// A request with a number that its answer has, too; the oldest one is forgotten where there are too many.
    pub(crate) fn ask(&mut self, key: u32, request: &[u8]) {
        let place = self.exchanges.iter().position(|exchange| exchange.key == 0).unwrap_or_else(|| {
            self.blocks.free(&mut self.exchanges[0].request);
            self.exchanges.rotate_left(1);
            EXCHANGES - 1
        });
        let exchange = &mut self.exchanges[place];
        *exchange = Exchange { key: u64::from(key) + 1, ..Exchange::default() };
        self.blocks.append(&mut exchange.request, request);
        self.exchange = Some(place as u8);
    }

    /// More of an exchange that is not over.
    pub(crate) fn goes_on(&mut self, key: u32) {
        let place = self.exchanges.iter().position(|exchange| exchange.key == u64::from(key) + 1);
        self.exchange = place.map(|place| place as u8);
    }

    /// The answer to a request: a rule that matched in that is not told again. Returns the request, if it is known.
    pub(crate) fn answer(&mut self, key: u32) -> Option<&[u8]> {
        let place = self.exchanges.iter().position(|exchange| exchange.key == u64::from(key) + 1)?;
        self.request.clear();
        self.blocks.copy(&self.exchanges[place].request, self.request);
        self.blocks.free(&mut self.exchanges[place].request);
        self.exchanges[place].key = 0;
        self.exchange = Some(place as u8);
        Some(self.request)
    }
}
