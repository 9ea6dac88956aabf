//! Owns: the way of a connection's bytes into its transactions: which are a first line, fields, content, a chunk's length; which
//! response answers which request; when a part of a message is there, so that rules may look at it.
//! Does not: keep memory (`transaction.rs`), or say what rules see (`buffers.rs`).

use super::buffers::{self, Form};
use super::content::Framing;
use super::head;
use super::inflate::Inflaters;
use super::lines::{Place, Scanner, without_end};
use super::transaction::{HttpCounters, Message, Phase, Pools, Transaction};
use super::{Oddity, Settings};
use crate::blocks::Chain;
use crate::fixed_vec::SpareVisitor;
use crate::protocol::{Stage, Values};
use crate::use_order::Owner;

/// Bytes of a head that are kept.
pub(crate) const MAX_HEAD: usize = 32 << 10;

/// Bytes that may come out of decompressors by the bytes that a packet brings: so many, and so many more for each. All that is
/// kept of one message, and what usual content becomes.
const LEAST_INFLATABLE: usize = 128 << 10;
const INFLATABLE_EACH: usize = 16;

/// A message of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageKey {
    pub(super) transaction: u32,
    /// 0: the request.
    pub(super) side: usize,
    /// Number of the file, where a form has several that rules see one by one.
    pub(super) file: u8,
}

impl MessageKey {
    /// 0: a request, which the client sends.
    pub(crate) fn side(self) -> usize {
        self.side
    }

    /// A number that a rule's match is remembered by: of one about files, for each file.
    pub(crate) fn match_of(self, sid: u32, is_of_file: bool) -> u32 {
        if is_of_file { sid.wrapping_add(u32::from(self.file).wrapping_mul(0x9e37_79b1)) } else { sid }
    }
}

/// What the bytes have brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing more.
    More,
    /// A message has come so far; what rules may see of it is among the values.
    Stage(Stage, MessageKey),
    /// A transaction is over, or its connection.
    Ended(u32),
}

/// All connections.
pub(crate) struct Http {
    pub(super) pools: Pools,
    pub(super) settings: Settings,
    /// A head, or a line, in one piece.
    pub(super) head: Vec<u8>,
    /// What came out of the decompressors.
    pub(super) decoded: Vec<u8>,
    /// Bytes that may still come out of them of the bytes at hand, and those that have.
    pub(super) inflatable: usize,
    pub(super) inflated: usize,
    /// The form whose files rules are shown one by one.
    pub(super) form: Form,
}

impl Http {
    /// Takes all memory, for so many flows.
    pub(crate) fn new(flows: usize, settings: Settings) -> Self {
        let inflaters = Inflaters::new(settings.decompressors, settings.brotli);
        Self {
            pools: Pools::new(flows, settings.connections, settings.bytes, inflaters),
            head: Vec::with_capacity(MAX_HEAD),
            decoded: Vec::with_capacity(settings.body_limit),
            inflatable: 0,
            inflated: 0,
            form: Form::new(settings.body_limit.max(MAX_HEAD)),
            settings,
        }
    }

    pub(crate) fn show_spare(&mut self, to: &mut impl SpareVisitor) {
        self.pools.show_spare(to);
    }

    pub(crate) fn counters(&self) -> HttpCounters {
        let counters = self.pools.counters;
        HttpCounters { not_decoded: counters.not_decoded + self.pools.inflaters.taken_away, ..counters }
    }

    /// So many bytes are going to be read: what may come out of decompressors by them is bounded.
    pub(crate) fn begin_chunk(&mut self, bytes: usize) {
        self.inflatable = LEAST_INFLATABLE + bytes.saturating_mul(INFLATABLE_EACH);
    }

    /// Bytes that have come out of decompressors since the last call.
    pub(crate) fn take_inflated(&mut self) -> usize {
        std::mem::take(&mut self.inflated)
    }

    /// Whether a rule matches in a message, or in a file of it, for the first time.
    pub(crate) fn is_first_match(&mut self, key: MessageKey, sid: u32, is_of_file: bool) -> bool {
        self.pools.message(key.transaction, key.side).is_first_match(key.match_of(sid, is_of_file))
    }

    /// Puts what a message has at a stage among the values; what is left of a form's files comes next.
    fn put(&mut self, key: MessageKey, stage: Stage, values: &mut Values) -> Step {
        self.form.forget();
        buffers::put(self, key, stage, values);
        Step::Stage(stage, key)
    }

    /// The next file of the form that rules were shown last.
    pub(crate) fn more_files(&mut self, values: &mut Values) -> Step {
        self.form.next_file(values).map_or(Step::More, |key| Step::Stage(Stage::Body, key))
    }

    /// Reads on from `*at`, up to the next thing that rules or records want to know. To be called until there is nothing more.
    pub(crate) fn step(
        &mut self,
        owner: Owner,
        side: usize,
        bytes: &[u8],
        at: &mut usize,
        values: &mut Values,
    ) -> Step {
        let Some(connection) = self.pools.open(owner) else {
            *at = bytes.len();
            return Step::More;
        };
        if let step @ Step::Stage(..) = self.more_files(values) {
            return step;
        }
        let mut reading = Reading { http: self, connection, side };
        loop {
            if let Some((stage, transaction)) = reading.raw_due() {
                return self.put(MessageKey { transaction, side, file: 0 }, stage, values);
            }
            if let Some(ended) = reading.next_ended() {
                return Step::Ended(ended);
            }
            let rest = bytes.get(*at..).unwrap_or_default();
            if rest.is_empty() {
                return Step::More;
            }
            let (used, reached) = reading.read(rest, *at == 0);
            *at += used;
            if let Some((stage, transaction)) = reached {
                return self.put(MessageKey { transaction, side, file: 0 }, stage, values);
            }
        }
    }

    /// A flow whose first messages were read goes on: where its connection was given up, a message may begin anywhere.
    pub(crate) fn resume(&mut self, owner: Owner) {
        if self.pools.find(owner.flow).is_none()
            && let Some(connection) = self.pools.open(owner)
        {
            self.pools.connection(connection).sides.iter_mut().for_each(|side| side.phase = Phase::Lost);
        }
    }

    /// Bytes of a side that nobody saw.
    pub(crate) fn gap(&mut self, flow: usize, side: usize, len: u64) {
        let Some(connection) = self.pools.find(flow) else { return };
        let state = &mut self.pools.connection(connection).sides[side];
        let (phase, transaction) = (state.phase, state.transaction);
        state.phase = match phase {
            Phase::Body(left) if len < left => Phase::Body(left - len),
            Phase::Chunk(left) if len < left => Phase::Chunk(left - len),
            Phase::UntilClose | Phase::Tunnel => phase,
            _ => Phase::Lost,
        };
        if let Some(transaction) = transaction {
            let message = self.pools.message(transaction, side);
            message.has_gap = true;
            // No decompressor goes on behind missing bytes.
            if !message.layers.is_empty() {
                message.is_full = true;
                let mut layers = std::mem::take(&mut message.layers);
                self.pools.inflaters.release(&mut layers);
            }
        }
    }

    /// What a side has sent will not be followed by more, or not for long: what is there of its content is to be looked at; if it
    /// `is_all` that ever comes, what was sent as well as what came out of decompressors for it.
    pub(crate) fn flush(&mut self, flow: usize, side: usize, is_all: bool, values: &mut Values) -> Step {
        let Some(connection) = self.pools.find(flow) else { return Step::More };
        let Some(transaction) = self.pools.connection(connection).sides[side].transaction else { return Step::More };
        if is_all {
            self.add_raw(connection, transaction, side);
        }
        let message = self.pools.message(transaction, side);
        if !message.has_begun || message.body.len() == message.inspected as usize {
            return Step::More;
        }
        (message.body_seen, message.inspected) = (message.inspected, message.body.len() as u32);
        self.put(MessageKey { transaction, side, file: 0 }, Stage::Body, values)
    }

    /// Whether a side's next byte begins a message.
    pub(crate) fn is_between(&mut self, flow: usize, side: usize) -> bool {
        let Some(connection) = self.pools.find(flow) else { return true };
        matches!(self.pools.connection(connection).sides[side].phase, Phase::Idle | Phase::Lost)
    }

    /// A message beside a stream is another form of one of the flow's: what matched in that is not told again.
    pub(crate) fn inherit_matches(&mut self, flow: usize, beside: MessageKey) {
        let Some(connection) = self.pools.find(flow) else { return };
        if let Some(own) = self.pools.connection(connection).sides[beside.side].transaction {
            let own = *self.pools.message(own, beside.side);
            self.pools.message(beside.transaction, beside.side).inherit_matches(&own);
        }
    }

    /// Forgets what was read beside a stream: none of it is counted as a transaction.
    pub(crate) fn forget_beside(&mut self, slot: usize) {
        self.forget_files();
        if let Some(connection) = self.pools.find(slot) {
            let begun = self.pools.connection(connection).begun();
            self.pools.counters.transactions -= u64::from(begun);
        }
        self.pools.close(slot);
    }

    /// Nobody wants the form's further files.
    pub(crate) fn forget_files(&mut self) {
        self.form.forget();
    }

    /// Forgets a flow's connection, told or not.
    pub(crate) fn forget(&mut self, flow: usize) {
        self.pools.close(flow);
    }

    /// The connection is over. To be called until there is nothing more.
    pub(crate) fn end(&mut self, flow: usize, values: &mut Values) -> Step {
        if let step @ Step::Stage(..) = self.more_files(values) {
            return step;
        }
        let Some(connection) = self.pools.find(flow) else { return Step::More };
        for side in 0..2 {
            let mut reading = Reading { http: self, connection, side };
            if let Some((stage, transaction)) = reading.end() {
                return self.put(MessageKey { transaction, side, file: 0 }, stage, values);
            }
        }
        while let Some(first) = self.pools.first(connection) {
            if !std::mem::replace(&mut self.pools.transaction(first).is_told, true) {
                return Step::Ended(first);
            }
            self.pools.drop_first(connection);
        }
        self.pools.close(flow);
        Step::More
    }
}

/// How far a message has come: this stage, of this transaction.
pub(super) type Reached = Option<(Stage, u32)>;

/// One side of one connection, being read.
pub(super) struct Reading<'h> {
    pub(super) http: &'h mut Http,
    pub(super) connection: u32,
    pub(super) side: usize,
}

impl Reading<'_> {
    pub(super) fn is_response(&self) -> bool {
        self.side == 1
    }

    pub(super) fn phase(&mut self) -> &mut Phase {
        &mut self.http.pools.connection(self.connection).sides[self.side].phase
    }

    pub(super) fn message(&mut self, transaction: u32) -> &mut Message {
        self.http.pools.message(transaction, self.side)
    }

    /// A transaction that is over and was not told yet.
    fn next_ended(&mut self) -> Option<u32> {
        let first = self.http.pools.first(self.connection)?;
        let Transaction { messages, is_told, .. } = self.http.pools.transaction(first);
        if *is_told || !messages.iter().all(|message| message.is_complete) {
            return None;
        }
        *is_told = true;
        Some(first)
    }

    /// Reads some of `rest`: how many bytes, and how far a message has come by it.
    fn read(&mut self, rest: &[u8], is_segment_start: bool) -> (usize, Reached) {
        let phase = *self.phase();
        let transaction = self.http.pools.connection(self.connection).sides[self.side].transaction;
        let Some(transaction) = transaction.filter(|_| phase != Phase::Idle) else {
            return match phase {
                Phase::Tunnel => (rest.len(), None),
                Phase::Lost if !(is_segment_start && super::begins_message(rest)) => (rest.len(), None),
                _ => (self.begin(rest), None),
            };
        };
        match phase {
            Phase::FirstLine => self.first_line(transaction, rest),
            Phase::Fields | Phase::Trailer => self.fields(transaction, rest, phase == Phase::Trailer),
            Phase::Body(left) | Phase::Chunk(left) => {
                let used = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - used as u64;
                self.content(transaction, &rest[..used]);
                *self.phase() = match phase {
                    Phase::Chunk(_) if left == 0 => Phase::ChunkEnd,
                    Phase::Chunk(_) => Phase::Chunk(left),
                    _ => Phase::Body(left),
                };
                if left == 0 && matches!(phase, Phase::Body(_)) {
                    self.complete(transaction);
                }
                (used, self.body_due(transaction))
            }
            Phase::ChunkLength => self.chunk_length(transaction, rest),
            Phase::ChunkEnd => {
                let end = memchr::memchr(b'\n', rest);
                if end.is_some() {
                    *self.phase() = Phase::ChunkLength;
                }
                let used = end.map_or(rest.len(), |at| at + 1);
                self.message(transaction).sent_len += used as u64;
                (used, None)
            }
            Phase::UntilClose => {
                self.content(transaction, rest);
                (rest.len(), self.body_due(transaction))
            }
            Phase::After => {
                let used = before_message(rest);
                if used == 0 {
                    *self.phase() = Phase::Idle;
                    return (0, self.body_due(transaction));
                }
                // More content than was announced: browsers may take it.
                self.content(transaction, &rest[..used]);
                let message = self.message(transaction);
                message.oddities.add(Oddity::UnexpectedBody);
                (used, self.due(transaction, false))
            }
            Phase::Idle | Phase::Lost | Phase::Tunnel => {
                if phase == Phase::Lost && is_segment_start && super::begins_message(rest) {
                    return (self.begin(rest), None);
                }
                (rest.len(), None)
            }
        }
    }

    /// Begins a message; returns how many bytes before it are nobody's.
    fn begin(&mut self, rest: &[u8]) -> usize {
        let empty = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if empty == rest.len() {
            return empty;
        }
        let is_response = self.is_response();
        let pools = &mut self.http.pools;
        let transaction = if self.side == 0 {
            pools.begin(self.connection)
        } else {
            // Those before have had their responses.
            let waiting = pools.waiting(self.connection);
            while let Some(first) = pools.first(self.connection)
                && Some(first) != waiting
                && pools.transaction(first).is_told
            {
                pools.drop_first(self.connection);
            }
            waiting.or_else(|| pools.begin(self.connection))
        };
        let Some(number) = transaction else {
            *self.phase() = Phase::Lost;
            return rest.len();
        };
        let state = pools.transaction(number);
        let is_simple = state.is_simple;
        state.messages[self.side].has_begun = true;
        if self.side == 1 && !state.messages[0].has_begun {
            // A response to a request that was not seen.
            (state.messages[0].has_begun, state.messages[0].is_complete) = (true, true);
        }
        let side = &mut pools.connection(self.connection).sides[self.side];
        side.transaction = Some(number);
        side.scanner = Scanner::new(is_response);
        side.phase = if is_response && is_simple { Phase::UntilClose } else { Phase::FirstLine };
        empty
    }

    /// Keeps bytes of a head.
    fn keep_head(&mut self, transaction: u32, bytes: &[u8]) {
        let mut chain = self.message(transaction).head;
        let room = MAX_HEAD.saturating_sub(chain.len());
        let (kept, lost) = bytes.split_at(bytes.len().min(room));
        self.http.pools.counters.refused_bytes += lost.len() as u64;
        self.http.pools.keep(self.connection, &mut chain, kept);
        self.message(transaction).head = chain;
    }

    /// Puts a chain's bytes into `self.http.head`.
    pub(super) fn gather(&mut self, chain: Chain) {
        self.http.head.clear();
        self.http.pools.blocks.copy(&chain, &mut self.http.head);
    }

    fn first_line(&mut self, transaction: u32, rest: &[u8]) -> (usize, Reached) {
        let mut scanner = self.http.pools.connection(self.connection).sides[self.side].scanner;
        let mut end = None;
        for (at, &byte) in rest.iter().enumerate() {
            match scanner.step(byte) {
                Place::LineEnd | Place::HeadEnd => end = Some(at + 1),
                Place::LineStart | Place::BehindHead => end = Some(at),
                Place::Within | Place::Skipped => continue,
            }
            break;
        }
        let used = end.unwrap_or(rest.len());
        self.keep_head(transaction, &rest[..used]);
        let is_response = self.is_response();
        let side = &mut self.http.pools.connection(self.connection).sides[self.side];
        side.scanner = if end.is_some() { Scanner::new(is_response) } else { scanner };
        if end.is_none() {
            return (used, None);
        }
        let chain = self.message(transaction).head;
        self.gather(chain);
        let line = without_end(&self.http.head);
        // What precedes a response may be anything.
        let is_followed = rest.get(used).is_some_and(|&byte| byte == b'H');
        let is_ignored = is_response && !head::is_status_line(line) && (is_followed || line.len() < 2);
        if is_ignored || line.iter().all(|&byte| head::is_space(byte)) {
            let mut chain = self.message_head(transaction);
            self.http.pools.blocks.free(&mut chain);
            return (used, None);
        }
        let reached = self.first_line_done(transaction, rest.get(used).copied());
        (used, reached)
    }

    /// The head's chain, taken out of its message.
    fn message_head(&mut self, transaction: u32) -> Chain {
        std::mem::take(&mut self.message(transaction).head)
    }

    /// The first line is in `self.http.head`; `next` is the byte behind it, if it is there.
    fn first_line_done(&mut self, transaction: u32, next: Option<u8>) -> Reached {
        let text = std::mem::take(&mut self.http.head);
        let line = without_end(&text);
        let reached = if self.is_response() && !head::is_status_line(line) {
            let mut chain = self.message_head(transaction);
            self.http.pools.blocks.free(&mut chain);
            *self.phase() = Phase::UntilClose;
            self.content(transaction, &text);
            self.body_due(transaction)
        } else {
            self.message(transaction).line_len = text.len() as u32;
            *self.phase() = Phase::Fields;
            if self.is_response() {
                self.http.pools.transaction(transaction).status = head::status_line(line).code();
            } else {
                self.request_line(transaction, &head::request_line(line), next);
            }
            Some((Stage::Start, transaction))
        };
        self.http.head = text;
        reached
    }

    fn request_line(&mut self, transaction: u32, line: &head::RequestLine<'_>, next: Option<u8>) {
        let state = self.http.pools.transaction(transaction);
        state.is_head = line.method == b"HEAD";
        state.is_connect = line.method == b"CONNECT";
        // Fields behind a line without a version: it was left out by mistake.
        let has_fields = next.is_some_and(|byte| !head::is_space(byte));
        if line.protocol.is_empty() && !has_fields {
            state.is_simple = true;
            state.messages[0].is_complete = true;
            *self.phase() = Phase::Lost;
        }
    }

    /// Fields, or those behind the last chunk.
    fn fields(&mut self, transaction: u32, rest: &[u8], is_trailer: bool) -> (usize, Reached) {
        let mut scanner = self.http.pools.connection(self.connection).sides[self.side].scanner;
        let mut end = None;
        for (at, &byte) in rest.iter().enumerate() {
            match scanner.step(byte) {
                Place::HeadEnd => end = Some(at + 1),
                Place::BehindHead => end = Some(at),
                _ => continue,
            }
            break;
        }
        let used = end.unwrap_or(rest.len());
        self.http.pools.connection(self.connection).sides[self.side].scanner = scanner;
        if is_trailer {
            self.message(transaction).sent_len += used as u64;
            if end.is_some() {
                self.complete(transaction);
            }
            return (used, end.and_then(|_| self.body_due(transaction)));
        }
        self.keep_head(transaction, &rest[..used]);
        if end.is_none() {
            return (used, None);
        }
        (used, self.head_done(transaction))
    }

    /// All fields are there: what follows?
    fn head_done(&mut self, transaction: u32) -> Reached {
        let message = *self.message(transaction);
        self.gather(message.head);
        let text = std::mem::take(&mut self.http.head);
        let fields = text.get(message.line_len as usize..).unwrap_or_default();
        let framing = Framing::of(fields, self.is_response());
        let is_response = self.is_response();
        let state = self.http.pools.transaction(transaction);
        let reached = if is_response && state.status == 100 && !state.has_continued {
            // Interim: the response itself follows.
            state.has_continued = true;
            let mut chain = self.message_head(transaction);
            self.http.pools.blocks.free(&mut chain);
            *self.phase() = Phase::FirstLine;
            None
        } else {
            self.message(transaction).has_head = true;
            if framing.has_odd_coding {
                self.message(transaction).oddities.add(Oddity::TransferCoding);
            }
            if is_response {
                self.response_content(transaction, &framing, fields);
            } else {
                self.request_content(transaction, &framing, fields);
            }
            Some((Stage::Head, transaction))
        };
        self.http.head = text;
        reached
    }

    /// The side ends here: what is there of its message is all there is.
    fn end(&mut self) -> Reached {
        let transaction = self.http.pools.connection(self.connection).sides[self.side].transaction?;
        if self.message(transaction).is_complete {
            return self.body_due(transaction);
        }
        loop {
            let phase = *self.phase();
            let reached = match phase {
                Phase::FirstLine if !self.message(transaction).head.is_empty() => {
                    let chain = self.message(transaction).head;
                    self.gather(chain);
                    self.first_line_done(transaction, None)
                }
                Phase::Fields => self.head_done(transaction),
                _ => {
                    self.complete(transaction);
                    return self.body_due(transaction);
                }
            };
            if reached.is_some() || self.message(transaction).is_complete {
                return reached;
            }
        }
    }
}

/// Bytes before a line that is empty or begins another response.
fn before_message(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let line = &rest[..memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)];
        let word = &line[..line.len().min(4)];
        if without_end(line).is_empty() || word.eq_ignore_ascii_case(&b"HTTP"[..word.len()]) {
            break;
        }
        at += line.len();
    }
    at
}
