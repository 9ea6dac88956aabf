//! Owns: what is kept of a request and its response while they come, of all connections, and the pools of it.
//! Does not: read bytes (`stream.rs` does). Pools are taken at start; a full one lets go of a connection as `UseOrder` says.

use super::inflate::{Inflaters, Layers};
use super::lines::Scanner;
use super::{Oddities, SHARE};
use crate::blocks::{Blocks, Chain};
use crate::fixed_vec::{FixedVec, SpareVisitor};
use crate::use_order::{Owner, UseOrder};

/// "None" of any list.
pub(super) const NONE: u32 = u32::MAX;
/// Requests of one connection that wait for their responses.
const MAX_WAITING: u16 = 64;
/// Rules of which is remembered that they matched in a message whose content is looked at several times.
const MAX_MATCHED: usize = 16;

/// A request or a response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// First line and fields as sent.
    pub(super) head: Chain,
    /// Bytes of the first line, with its end.
    pub(super) line_len: u32,
    /// The content, without its codings, as far as it is kept.
    pub(super) body: Chain,
    /// The content as sent, beside what came out of decompressors for it: nothing tells whether it was Brotli. It is looked at behind
    /// that.
    pub(super) raw: Chain,
    pub(super) keeps_raw: bool,
    pub(super) has_added_raw: bool,
    /// Bytes of the content: as sent, and without its content codings.
    pub(super) sent_len: u64,
    pub(super) decoded_len: u64,
    /// Bytes of the content that rules have seen, and what they had seen before that.
    pub(super) inspected: u32,
    pub(super) body_seen: u32,
    pub(super) layers: Layers,
    /// Bytes that its decompressors have made, those for deeper ones included.
    pub(super) inflated: u32,
    /// Nothing more of the content is kept.
    pub(super) is_full: bool,
    /// Bytes of it were not seen.
    pub(super) has_gap: bool,
    pub(super) has_begun: bool,
    /// The fields are all there.
    pub(super) has_head: bool,
    pub(super) is_complete: bool,
    pub(super) oddities: Oddities,
    matched: [u32; MAX_MATCHED],
    matched_count: u8,
}

impl Message {
    /// Whether a rule matches in this message for the first time; of many rules it is remembered only of the last.
    pub(super) fn is_first_match(&mut self, sid: u32) -> bool {
        if self.matched[..usize::from(self.matched_count).min(MAX_MATCHED)].contains(&sid) {
            return false;
        }
        self.matched[usize::from(self.matched_count) % MAX_MATCHED] = sid;
        self.matched_count = if usize::from(self.matched_count) < 2 * MAX_MATCHED - 1 {
            self.matched_count + 1
        } else {
            MAX_MATCHED as u8
        };
        true
    }

    /// Takes over which rules have matched, unless some have in this one.
    pub(super) fn inherit_matches(&mut self, other: &Self) {
        if self.matched_count == 0 {
            (self.matched, self.matched_count) = (other.matched, other.matched_count);
        }
    }
}

/// A request and its response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transaction {
    /// Number in its connection, from 0.
    pub(super) id: u32,
    /// Request and response.
    pub(super) messages: [Message; 2],
    /// The request's method is HEAD, or CONNECT.
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    /// The request has no version: the response is content alone.
    pub(super) is_simple: bool,
    /// The interim response 100 was there.
    pub(super) has_continued: bool,
    /// Response's status; 0 before.
    pub(super) status: u16,
    /// Its record was made.
    pub(super) is_told: bool,
    next: u32,
}

/// What a side's next bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// The beginning of a message.
    #[default]
    Idle,
    FirstLine,
    Fields,
    /// So many bytes of content.
    Body(u64),
    ChunkLength,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// Content to the end.
    UntilClose,
    /// Perhaps more content than was announced, perhaps another response.
    After,
    /// No HTTP, unless a message begins with a segment.
    Lost,
    /// No HTTP any more.
    Tunnel,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideState {
    pub(super) phase: Phase,
    pub(super) scanner: Scanner,
    /// The transaction whose message comes.
    pub(super) transaction: Option<u32>,
    /// A chunk's first line, as far as it is there.
    pub(super) line: Chain,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) sides: [SideState; 2],
    first: u32,
    last: u32,
    count: u16,
    next_id: u32,
    flow: u32,
    next_free: u32,
}

impl Connection {
    /// Transactions begun.
    pub(super) fn begun(&self) -> u32 {
        self.next_id
    }
}

// What the documents say of the pools' memory.
const _: () = assert!(size_of::<Transaction>() <= 352 && size_of::<Connection>() <= 160);

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpCounters {
    /// Transactions begun.
    pub transactions: u64,
    /// Connections given up for others.
    pub evicted: u64,
    /// Bytes of heads and contents that were not kept: a limit, or the memory.
    pub refused_bytes: u64,
    /// Content codings that were too many, and decompressors taken from one message for another.
    pub not_decoded: u64,
}

/// The pools.
pub(super) struct Pools {
    pub(super) blocks: Blocks,
    pub(super) inflaters: Inflaters,
    connections: FixedVec<Connection>,
    connection_capacity: usize,
    free_connection: u32,
    transactions: FixedVec<Transaction>,
    transaction_capacity: usize,
    free_transaction: u32,
    /// Of each flow its connection.
    of_flow: Vec<u32>,
    order: UseOrder,
    pub(super) counters: HttpCounters,
}

impl Pools {
    pub(super) fn new(flows: usize, connections: usize, bytes: usize, inflaters: Inflaters) -> Self {
        let connections = connections.clamp(1, flows.max(1));
        let transactions = 2 * connections;
        Self {
            blocks: Blocks::new(bytes),
            inflaters,
            connections: FixedVec::with_capacity(connections),
            connection_capacity: connections,
            free_connection: NONE,
            transactions: FixedVec::with_capacity(transactions),
            transaction_capacity: transactions,
            free_transaction: NONE,
            of_flow: vec![NONE; flows],
            order: UseOrder::new(connections),
            counters: HttpCounters::default(),
        }
    }

    pub(super) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.blocks.show_spare(to);
        self.connections.show_spare(to);
        self.transactions.show_spare(to);
        self.order.show_spare(to);
    }

    /// The connection of a flow, if it has one.
    pub(super) fn find(&self, flow: usize) -> Option<u32> {
        self.of_flow.get(flow).copied().filter(|&connection| connection != NONE)
    }

    /// The connection of a flow, new if need be; it is the one used last now.
    pub(super) fn open(&mut self, owner: Owner) -> Option<u32> {
        let number = match self.find(owner.flow) {
            Some(number) => number,
            None => self.new_connection(owner.flow)?,
        };
        let has_much = self.has_much(number);
        self.order.add(number, owner.is_tunnelled || has_much);
        Some(number)
    }

    fn new_connection(&mut self, flow: usize) -> Option<u32> {
        if self.free_connection == NONE && self.connections.len() == self.connection_capacity {
            self.evict_for(None);
        }
        let new = Connection {
            sides: [
                SideState { scanner: Scanner::new(false), ..SideState::default() },
                SideState { scanner: Scanner::new(true), ..SideState::default() },
            ],
            first: NONE,
            last: NONE,
            count: 0,
            next_id: 0,
            flow: flow as u32,
            next_free: NONE,
        };
        let place = self.of_flow.get_mut(flow)?;
        let number = match self.free_connection {
            NONE if self.connections.len() < self.connection_capacity => {
                self.connections.push(new);
                self.connections.len() as u32 - 1
            }
            NONE => return None,
            number => {
                self.free_connection = self.connections[number as usize].next_free;
                self.connections[number as usize] = new;
                number
            }
        };
        *place = number;
        Some(number)
    }

    /// Lets go of a connection, for this or a new one; whether there was one.
    fn evict_for(&mut self, kept: Option<u32>) -> bool {
        self.evict(self.order.to_give_up(kept))
    }

    fn evict(&mut self, number: Option<u32>) -> bool {
        let Some(number) = number else { return false };
        self.counters.evicted += 1;
        self.close(self.connections[number as usize].flow as usize);
        true
    }

    /// Whether a connection keeps more than its share.
    fn has_much(&self, number: u32) -> bool {
        let (mut at, mut bytes) = (self.connections[number as usize].first, 0);
        while at != NONE && bytes <= SHARE {
            let Transaction { messages, next, .. } = &self.transactions[at as usize];
            bytes += messages
                .iter()
                .map(|message| message.head.len() + message.body.len() + message.raw.len())
                .sum::<usize>();
            at = *next;
        }
        bytes > SHARE
    }

    /// Forgets a flow's connection.
    pub(super) fn close(&mut self, flow: usize) {
        let Some(number) = self.find(flow) else { return };
        while self.connections[number as usize].first != NONE {
            self.drop_first(number);
        }
        for side in 0..2 {
            let mut line = self.connections[number as usize].sides[side].line;
            self.blocks.free(&mut line);
        }
        self.order.remove(number);
        self.connections[number as usize].next_free = self.free_connection;
        self.free_connection = number;
        self.of_flow[flow] = NONE;
    }

    pub(super) fn connection(&mut self, number: u32) -> &mut Connection {
        &mut self.connections[number as usize]
    }

    pub(super) fn transaction(&mut self, number: u32) -> &mut Transaction {
        &mut self.transactions[number as usize]
    }

    /// The same, to be read.
    pub(super) fn connection_view(&self, number: u32) -> &Connection {
        &self.connections[number as usize]
    }

    /// A transaction, to be read.
    pub(super) fn view(&self, number: u32) -> &Transaction {
        &self.transactions[number as usize]
    }

    /// The message of a side's transaction.
    pub(super) fn message(&mut self, transaction: u32, side: usize) -> &mut Message {
        &mut self.transactions[transaction as usize].messages[side]
    }

    /// The first transaction of a connection.
    pub(super) fn first(&self, connection: u32) -> Option<u32> {
        Some(self.connections[connection as usize].first).filter(|&first| first != NONE)
    }

    /// The first transaction whose response has not begun.
    pub(super) fn waiting(&self, connection: u32) -> Option<u32> {
        let mut at = self.connections[connection as usize].first;
        while at != NONE && self.transactions[at as usize].messages[1].has_begun {
            at = self.transactions[at as usize].next;
        }
        (at != NONE).then_some(at)
    }

    /// A new transaction at the end of a connection's; the first one is given up where there are too many.
    pub(super) fn begin(&mut self, connection: u32) -> Option<u32> {
        if self.connections[connection as usize].count == MAX_WAITING {
            self.drop_first(connection);
        }
        while self.free_transaction == NONE && self.transactions.len() == self.transaction_capacity {
            if !self.evict_for(Some(connection)) {
                return None;
            }
        }
        let of = &mut self.connections[connection as usize];
        let new = Transaction { id: of.next_id, next: NONE, ..Transaction::default() };
        of.next_id += 1;
        of.count += 1;
        let number = match self.free_transaction {
            NONE => {
                self.transactions.push(new);
                self.transactions.len() as u32 - 1
            }
            number => {
                self.free_transaction = self.transactions[number as usize].next;
                self.transactions[number as usize] = new;
                number
            }
        };
        let of = &mut self.connections[connection as usize];
        match of.last {
            NONE => of.first = number,
            last => self.transactions[last as usize].next = number,
        }
        self.connections[connection as usize].last = number;
        self.counters.transactions += 1;
        Some(number)
    }

    /// Forgets a connection's first transaction.
    pub(super) fn drop_first(&mut self, connection: u32) {
        let number = self.connections[connection as usize].first;
        if number == NONE {
            return;
        }
        let Transaction { mut messages, next, .. } = self.transactions[number as usize];
        for message in &mut messages {
            self.blocks.free(&mut message.head);
            self.blocks.free(&mut message.body);
            self.blocks.free(&mut message.raw);
            self.inflaters.release(&mut message.layers);
        }
        self.transactions[number as usize].next = self.free_transaction;
        self.free_transaction = number;
        let of = &mut self.connections[connection as usize];
        of.first = next;
        of.count -= 1;
        if next == NONE {
            of.last = NONE;
        }
        for side in &mut of.sides {
            if side.transaction == Some(number) {
                side.transaction = None;
                // What is left of its message has no place.
                side.phase = Phase::Lost;
            }
        }
    }

    /// Keeps bytes; where the memory is full, other connections give theirs up: those that keep more than their share before others.
    pub(super) fn keep(&mut self, connection: u32, chain: &mut Chain, mut data: &[u8]) {
        loop {
            let taken = self.blocks.append(chain, data);
            data = &data[taken..];
            if data.is_empty() {
                return;
            }
            if !self.evict(self.order.to_shrink(connection)) {
                self.counters.refused_bytes += data.len() as u64;
                return;
            }
        }
    }
}
