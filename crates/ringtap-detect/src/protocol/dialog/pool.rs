//! Owns: all conversations and the bytes that they keep: memory is taken at start, and a full pool lets go of a conversation as
//! `UseOrder` says.
//! Does not: know any protocol.

use super::{EXCHANGES, Exchange, Frame, MAX_MESSAGE, State, Talk, Talking};
use crate::blocks::{Blocks, Chain};
use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::protocol::{App, Found, Values};
use crate::use_order::{Owner, UseOrder};

/// "None" of any list.
const NONE: u32 = u32::MAX;
/// A flow's conversation that was given up for others: what follows is in the middle, and not read.
const GONE: u32 = NONE - 1;
/// Bytes of all conversations.
const BYTES: usize = 16 << 20;
/// Most messages that are read of the bytes that one packet brings: 4 bytes each where it has 64 KiB. Further ones are not read, which
/// ends the side.
const MESSAGES: usize = 16_384;

/// One side's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// The message that is not whole yet.
    pending: Chain,
    /// How long it is; 0 while that is not known.
    wanted: u32,
    /// Bytes still to come that nobody asks for.
    skip: u64,
    is_lost: bool,
}

impl Side {
    /// Keeps the beginning of a message. Without room for all of it the side is lost.
    fn keep(&mut self, bytes: &[u8], blocks: &mut Blocks, lost: &mut u64) {
        if blocks.append(&mut self.pending, bytes) < bytes.len() {
            self.is_lost = true;
            *lost += 1;
            blocks.free(&mut self.pending);
        }
    }
}

struct Conversation {
    state: State,
    sides: [Side; 2],
    content: [Chain; 2],
    /// Part of a message that a later one goes on with.
    part: Chain,
    exchanges: [Exchange; EXCHANGES],
    flow: u32,
    next_free: u32,
}

/// An exchange of a conversation: where it is told which rules have matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeKey {
    conversation: u32,
    place: u8,
}

/// All conversations.
pub(crate) struct Dialogs {
    blocks: Blocks,
    conversations: FixedVec<Conversation>,
    capacity: usize,
    free: u32,
    order: UseOrder,
    of_flow: Vec<u32>,
    /// A message in one piece, and a request for its answer.
    gathered: Vec<u8>,
    request: Vec<u8>,
    /// Messages read of this packet's bytes.
    read: usize,
    /// Conversations given up for others, and sides that lost bytes for want of room or had too many messages.
    pub(crate) evicted: u64,
}

impl Dialogs {
    /// Takes all memory, for so many flows.
    pub(crate) fn new(flows: usize) -> Self {
        let capacity = flows.max(1);
        Self {
            blocks: Blocks::new(BYTES.min(capacity.saturating_mul(2 * MAX_MESSAGE))),
            conversations: FixedVec::with_capacity(capacity),
            capacity,
            free: NONE,
            order: UseOrder::new(capacity),
            of_flow: vec![NONE; flows],
            gathered: Vec::with_capacity(MAX_MESSAGE),
            request: Vec::with_capacity(MAX_MESSAGE),
            read: 0,
            evicted: 0,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.blocks.show_spare(to);
        self.conversations.show_spare(to);
        self.order.show_spare(to);
    }

    /// Forgets a flow's conversation.
    pub(crate) fn forget(&mut self, flow: usize) {
        let Some(place) = self.of_flow.get_mut(flow) else { return };
        let number = std::mem::replace(place, NONE);
        if number >= GONE {
            return;
        }
        self.order.remove(number);
        let Self { conversations, blocks, .. } = self;
        let of = &mut conversations[number as usize];
        let pending = of.sides.iter_mut().map(|side| &mut side.pending);
        let requests = of.exchanges.iter_mut().map(|exchange| &mut exchange.request);
        pending.chain(&mut of.content).chain([&mut of.part]).chain(requests).for_each(|chain| blocks.free(chain));
        of.next_free = self.free;
        self.free = number;
    }

    /// Gives a conversation up for others.
    fn give_up(&mut self, number: u32) {
        let flow = self.conversations[number as usize].flow as usize;
        self.evicted += 1;
        self.forget(flow);
        self.of_flow[flow] = GONE;
    }

    /// The conversation of a flow, new if need be; it is the one used last now.
    fn open(&mut self, owner: Owner, talk: &Talk) -> Option<u32> {
        self.open_with(owner, talk.begin)
    }

    /// Begins a flow's conversation of which something is known already.
    pub(crate) fn begin(&mut self, owner: Owner, state: State) {
        self.open_with(owner, || state);
    }

    fn open_with(&mut self, owner: Owner, begin: impl FnOnce() -> State) -> Option<u32> {
        let flow = owner.flow;
        let known = *self.of_flow.get(flow)?;
        if known == GONE {
            return None;
        }
        if known != NONE {
            self.order.touch(known);
            return Some(known);
        }
        if self.free == NONE && self.conversations.len() == self.capacity {
            self.give_up(self.order.to_give_up(None)?);
        }
        let new = Conversation {
            state: begin(),
            sides: [Side::default(); 2],
            content: [Chain::default(); 2],
            part: Chain::default(),
            exchanges: [Exchange::default(); EXCHANGES],
            flow: flow as u32,
            next_free: NONE,
        };
        let number = match self.free {
            NONE => {
                self.conversations.push(new);
                self.conversations.len() as u32 - 1
            }
            number => {
                self.free = self.conversations[number as usize].next_free;
                self.conversations[number as usize] = new;
                number
            }
        };
        self.order.add(number, owner.is_tunnelled);
        self.of_flow[flow] = number;
        Some(number)
    }

    /// Whether a rule matches in an exchange for the first time.
    pub(crate) fn is_first_match(&mut self, key: ExchangeKey, sid: u32) -> bool {
        let of = &mut self.conversations[key.conversation as usize];
        of.exchanges[usize::from(key.place)].is_first_match(sid)
    }

    /// Bytes of a side were not seen.
    pub(crate) fn gap(&mut self, flow: usize, side: usize, len: u64) {
        let Some(number) = self.of_flow.get(flow).copied().filter(|&number| number < GONE) else { return };
        let of = &mut self.conversations[number as usize].sides[side];
        if len <= of.skip {
            of.skip -= len;
        } else {
            of.is_lost = true;
            self.blocks.free(&mut of.pending);
        }
    }

    /// What is known of a flow's conversation before its first message: its values, and their exchange; `None` where there is no such
    /// thing.
    pub(crate) fn announce(
        &mut self,
        owner: Owner,
        (app, talk): (App, &Talk),
        values: &mut Values,
    ) -> Option<Option<ExchangeKey>> {
        let (announce, number) = (talk.announce?, self.open(owner, talk)?);
        values.clear();
        let mut talking =
            Self::talking(&mut self.conversations[number as usize], 0, &mut self.blocks, &mut self.request);
        announce(&mut talking, &mut Found::new(app, values));
        Some(talking.exchange.map(|place| ExchangeKey { conversation: number, place }))
    }

    /// Has told what is left of a side at the end of its flow, of which all was there or not.
    pub(crate) fn end(
        &mut self,
        (flow, side): (usize, usize),
        is_whole: bool,
        (app, talk): (App, &Talk),
        values: &mut Values,
    ) {
        values.clear();
        let number = self.of_flow.get(flow).copied().filter(|&number| number < GONE);
        let Some((end, number)) = talk.end.zip(number) else { return };
        let of = &mut self.conversations[number as usize];
        let is_whole = is_whole && !of.sides[side].is_lost;
        let mut talking = Self::talking(of, side, &mut self.blocks, &mut self.request);
        end(&mut talking, is_whole, &mut Found::new(app, values));
    }

    fn talking<'d>(
        of: &'d mut Conversation,
        side: usize,
        blocks: &'d mut Blocks,
        request: &'d mut Vec<u8>,
    ) -> Talking<'d> {
        Talking {
            state: &mut of.state,
            side,
            blocks,
            content: &mut of.content,
            part: &mut of.part,
            exchanges: &mut of.exchanges,
            request,
            exchange: None,
        }
    }

    /// Reads new bytes of a side from `at` on, up to the end of the next message that rules may look at or that ends a transaction: its
    /// values, whether rules may look at them, and its exchange if it belongs to one. `None` where there is none yet.
    pub(crate) fn step(
        &mut self,
        (owner, side): (Owner, usize),
        (app, talk): (App, &Talk),
        bytes: &[u8],
        at: &mut usize,
        values: &mut Values,
    ) -> Option<(bool, Option<ExchangeKey>)> {
        let number = self.open(owner, talk)?;
        if *at == 0 {
            self.read = 0;
            // Those that keep much and say no more make room.
            while !self.blocks.has_room(2 * MAX_MESSAGE)
                && let Some(other) = self.order.to_give_up(Some(number))
            {
                self.give_up(other);
            }
        }
        while *at < bytes.len() {
            let rest = &bytes[*at..];
            let of = &mut self.conversations[number as usize].sides[side];
            if of.is_lost {
                *at = bytes.len();
                break;
            }
            if self.read == MESSAGES {
                of.is_lost = true;
                self.blocks.free(&mut of.pending);
                self.evicted += 1;
                continue;
            }
            self.read += 1;
            if of.skip > 0 {
                let part = of.skip.min(rest.len() as u64);
                of.skip -= part;
                *at += part as usize;
                continue;
            }
            let was_pending = !of.pending.is_empty();
            let Some((used, len)) = self.gather(number, side, talk, rest) else {
                *at = bytes.len();
                break;
            };
            *at += used;
            if len == 0 {
                continue;
            }
            let gathered = std::mem::take(&mut self.gathered);
            let message = if was_pending { &gathered[..len] } else { &rest[..len] };
            values.clear();
            let of = &mut self.conversations[number as usize];
            let mut talking = Self::talking(of, side, &mut self.blocks, &mut self.request);
            let found = (talk.read)(&mut talking, message, &mut Found::new(app, values));
            let exchange = talking.exchange.map(|place| ExchangeKey { conversation: number, place });
            self.gathered = gathered;
            if found || values.told().next().is_some() || values.upgrade.is_some() {
                return Some((found, exchange));
            }
        }
        None
    }

    /// Finds the next message; how many of the new bytes are of it, and how long it is. It stands in `self.gathered` if a part of it
    /// was kept, else at the beginning of the new bytes, where many short ones cost no copy each. `None` where it is not whole, or
    /// there will be none.
    fn gather(&mut self, number: u32, side: usize, talk: &Talk, rest: &[u8]) -> Option<(usize, usize)> {
        let Self { blocks, conversations, gathered, evicted, .. } = self;
        let Conversation { state, sides, .. } = &mut conversations[number as usize];
        let of = &mut sides[side];
        let before = of.pending.len();
        if before + rest.len() < of.wanted as usize {
            of.keep(rest, blocks, evicted);
            return None;
        }
        let new = &rest[..rest.len().min(MAX_MESSAGE - before)];
        let known: &[u8] = if before == 0 {
            new
        } else {
            gathered.clear();
            blocks.copy(&of.pending, gathered);
            gathered.extend_from_slice(new);
            gathered
        };
        let have = known.len();
        match (talk.frame)(state, side, known) {
            Frame::Message(len) if len.clamp(1, MAX_MESSAGE) <= have => {
                let read = len.clamp(1, MAX_MESSAGE);
                of.skip = (len.max(read) - read) as u64;
                of.wanted = 0;
                blocks.free(&mut of.pending);
                // What was kept may be more than the message, if another one was waited for.
                if let Some(behind) = gathered.get(read..before) {
                    of.keep(behind, blocks, evicted);
                }
                Some((read.saturating_sub(before), read))
            }
            // Nothing can be so long before it says how long it is.
            frame @ (Frame::Incomplete | Frame::Message(_)) if have < MAX_MESSAGE => {
                of.wanted = if let Frame::Message(len) = frame { len.min(MAX_MESSAGE) as u32 } else { 0 };
                of.keep(rest, blocks, evicted);
                None
            }
            Frame::Skip(len) => {
                of.wanted = 0;
                blocks.free(&mut of.pending);
                of.skip = (len - len.min(before)) as u64;
                Some((0, 0))
            }
            _ => {
                of.is_lost = true;
                blocks.free(&mut of.pending);
                None
            }
        }
    }
}
