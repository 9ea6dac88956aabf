//! Owns: what requests and responses go to the rules, and when; and the records of transactions.
//! Does not: read them (the protocol's folder does), or test rules.

use super::evaluate::{Chunk, Context};
use super::{Detector, Track};
use crate::alert::{FlowView, Origin, Sink};
use crate::decode::Decoded;
use crate::matching::inspect::INFLATED_BYTES;
use crate::protocol::http::{MessageKey, Step};
use crate::protocol::{App, Stage};

impl Detector {
    /// Reads what is new of one side, and looks at the rules of each stage that a message comes to by it.
    #[expect(clippy::too_many_arguments, reason = "two callers; all of it describes one chunk")]
    pub(super) fn converse(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        chunk: Chunk,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let owner = self.track.flows.owner(index);
        let flow = self.track.flows.get_mut(index);
        if !chunk.has_new() || flow.passed || !flow.app_of(from).is_some_and(App::has_transactions) {
            return;
        }
        let (next, end) = (flow.app_next[from], chunk.base + chunk.len as u64);
        let has_begun = (0..2).any(|side| flow.announced[side].is_none() && flow.app_next[side] > 0);
        flow.app_next[from] = end;
        if !has_begun && from == 1 && flow.announced[0].is_none() {
            self.look_back(index, now_ns, sink);
        }
        if has_begun {
            self.track.http.resume(owner);
        }
        if chunk.base > next {
            self.track.http.gap(index, from, chunk.base - next);
        }
        let start = next.saturating_sub(chunk.base) as usize;
        let mut at = 0;
        self.track.http.begin_chunk(chunk.len);
        let mut context = Context::new(packet, Some((index, from)), Some(chunk), origin, now_ns);
        loop {
            let bytes = self.work.chunk.get(start..chunk.len).unwrap_or_default();
            if at < bytes.len() && self.track.http.is_between(index, from) {
                self.track.flows.get_mut(index).app_last[from] = chunk.base + (start + at) as u64;
            }
            let step = self.track.http.step(owner, from, bytes, &mut at, &mut self.work.values);
            self.work.budget.unpack(self.track.http.take_inflated(), INFLATED_BYTES);
            context.read_to = start + at;
            if !self.take_step(step, &mut context, origin, sink) {
                return;
            }
        }
    }

    /// The server's first words told what both speak: the client's so far are read before them, if the window has all of them.
    fn look_back(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        let owner = self.track.flows.owner(index);
        let flow = self.track.flows.get_mut(index);
        let stream = &flow.session.streams[0];
        let (window, next) = (stream.window, stream.next);
        if next == 0 || self.track.windows.bytes(window).len() as u64 != next {
            return;
        }
        flow.app_next[0] = next;
        let packet = Decoded::of_flow(&flow.key, flow.level, flow.client == ringtap_wire::Direction::Forward, 0);
        let mut at = 0;
        self.track.http.begin_chunk(next as usize);
        let mut context = Context::new(&packet, Some((index, 0)), None, Origin::Stream, now_ns);
        loop {
            let Track { windows, http, .. } = &mut self.track;
            let step = http.step(owner, 0, windows.bytes(window), &mut at, &mut self.work.values);
            self.work.budget.unpack(http.take_inflated(), INFLATED_BYTES);
            if !self.take_step(step, &mut context, Origin::Stream, sink) {
                return;
            }
        }
    }

    /// One side is likely to send no more: what is there of its message is looked at.
    pub(super) fn pause(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let mut step = self.track.http.flush(index, from, false, &mut self.work.values);
        let mut context = Context::new(packet, Some((index, from)), None, origin, now_ns);
        while self.take_step(step, &mut context, origin, sink) {
            step = self.track.http.more_files(&mut self.work.values);
        }
    }

    /// The flow, or its session, is over: so are its transactions.
    pub(super) fn end_conversation(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        self.end_talk(index, now_ns, sink);
        loop {
            let step = self.track.http.end(index, &mut self.work.values);
            let from = match step {
                Step::Stage(_, key) => key.side(),
                _ => 0,
            };
            let flow = self.track.flows.get(index);
            let is_forward = (flow.client == ringtap_wire::Direction::Forward) == (from == 0);
            let packet = Decoded::of_flow(&flow.key, flow.level, is_forward, 0);
            let mut context = Context::new(&packet, Some((index, from)), None, Origin::FlowEnd, now_ns);
            if !self.take_step(step, &mut context, Origin::FlowEnd, sink) {
                return;
            }
        }
    }

    /// What a step has brought goes to the rules or the records; whether there may be another one.
    fn take_step(&mut self, step: Step, context: &mut Context<'_>, origin: Origin, sink: &mut impl Sink) -> bool {
        let Some((index, _)) = context.flow else { return false };
        match step {
            Step::More => false,
            Step::Stage(stage, key) => {
                let passed = self.inspect_message(stage, key, context, origin, sink);
                if passed {
                    self.track.http.forget_files();
                }
                !passed
            }
            Step::Ended(transaction) => {
                let transaction = self.track.http.transaction(transaction, &mut self.work.heads);
                sink.transaction(&transaction, &FlowView::new(self.track.flows.get(index)), context.now_ns);
                true
            }
        }
    }

    /// The rules of a stage; whether one let the flow pass.
    pub(super) fn inspect_message(
        &mut self,
        stage: Stage,
        key: MessageKey,
        context: &mut Context<'_>,
        origin: Origin,
        sink: &mut impl Sink,
    ) -> bool {
        if context.flow.is_some_and(|(index, _)| self.track.flows.get(index).passed) {
            return true;
        }
        (context.message, context.is_message) = (Some(key), true);
        self.inspect_values(stage, context, origin, sink)
    }
}
