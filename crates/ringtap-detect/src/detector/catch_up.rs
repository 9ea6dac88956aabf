//! Owns: what one packet's work is bounded by, and what goes on behind it: bytes that came in order at once, and the ends of flows, are
//! inspected piece by piece at the packets that follow, at a cycle's end and at the program's.
//! Does not: inspect a piece (`streams.rs` does), or count a rule's work (`matching/inspect.rs`).

use crate::alert::{FlowEnd, FlowView, Origin, Sink};
use crate::decode::Decoded;

use super::{Detector, Track, Work};

/// Bytes of streams that one packet or turn inspects of what had waited.
const AT_ONE_TIME: usize = 32 << 10;
/// And so many of them together.
const PIECE: usize = 8 << 10;
/// After so many packets that left no time to what waits it has some.
const STALLED: u32 = 8;
/// So large a part of a packet's budget is left to what waits.
const RESERVE: u32 = 4;
/// Bytes of a packet that bring one step more to its budget: one that a host has put together of many has the work of many.
const BYTES_PER_STEP: u32 = 2;

impl Work {
    /// For one more packet of so many bytes, or one more turn.
    pub(super) fn renew(&mut self, budget: u32, bytes: u32) {
        self.budget.left = budget.saturating_add(bytes / BYTES_PER_STEP);
        self.granted = self.budget.left;
        self.waiting = AT_ONE_TIME;
        self.reserve = budget / RESERVE;
    }

    /// What waited had its share of a packet's budget: half of it is the packet's own.
    pub(super) fn leave_half(&mut self, budget: u32) {
        self.raise(budget / 2);
    }

    /// At least so many steps are left.
    fn raise(&mut self, least: u32) {
        let more = least.saturating_sub(self.budget.left);
        self.budget.left += more;
        self.granted += more;
    }

    /// Steps since it was for one more packet.
    pub(super) fn used(&self) -> u32 {
        self.granted.saturating_sub(self.budget.left)
    }

    /// There is time for a piece of so many bytes of what waits.
    fn leave_for_piece(&mut self, budget: u32, bytes: usize) {
        self.leave_half(budget);
        self.raise(budget / RESERVE + 1);
        self.waiting = self.waiting.max(bytes);
    }

    /// Whether there is time for more of what waits.
    fn may_go_on(&self) -> bool {
        self.budget.left > self.reserve && self.waiting > 0
    }

    /// A look at rules begins: it may use half of what is left, so that others behind it have some. Returns what it may not use.
    pub(super) fn begin_look(&mut self) -> u32 {
        let kept = self.budget.left / 2;
        self.budget.left -= kept;
        kept
    }
}

impl Detector {
    /// Whether bytes that have come wait to be inspected: [`Detector::expire`] does some of it, and each packet.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.track.backlog.is_empty()
    }

    /// Does what waits, as far as there is time for it: not at each packet, but at each few.
    pub(super) fn work_off(&mut self, now_ns: u64, sink: &mut impl Sink) {
        if self.is_behind() && !self.work.may_go_on() {
            self.work.stalled += 1;
            if self.work.stalled >= STALLED {
                self.push_backlog(now_ns, sink);
            }
            return;
        }
        self.work_off_in_time(now_ns, sink);
    }

    /// Gives what waits the time for a piece, whatever packets have left.
    pub(super) fn push_backlog(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.counters.backlog_pushes += 1;
        self.work.leave_for_piece(self.limits.budget, PIECE);
        self.work_off_in_time(now_ns, sink);
    }

    fn work_off_in_time(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.work.stalled = 0;
        while self.work.may_go_on() {
            let Some(index) = self.track.backlog.take_first() else { return };
            if !self.catch_up(index, now_ns, sink) {
                self.track.backlog.add(index);
            } else if let Some(end) = self.track.flows.get(index).owed.leaves {
                self.close(index, end, sink);
            }
        }
    }

    /// Inspects what a flow owes, as far as there is time for it; whether that is all.
    pub(super) fn catch_up(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) -> bool {
        self.follow(index, now_ns, sink)
            && (!self.track.flows.get(index).owed.passes_gaps() || self.catch_up_to_the_end(index, now_ns, sink))
    }

    /// The same for the bytes that wait and what is due behind them, in the order in which both sides said it.
    fn follow(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) -> bool {
        loop {
            let flow = self.track.flows.get(index);
            let (owed, session) = (&flow.owed, &flow.session);
            let is_due = |of: &usize| {
                owed.pause[*of].is_some_and(|after| session.passed(*of) == u64::MAX && after <= session.passed(1 - of))
            };
            let (paused, next) = ((0..2).find(is_due), session.next_side(&self.track.reassembly));
            if paused.is_none() && next.is_none() {
                return true;
            }
            if !self.work.may_go_on() {
                return false;
            }
            if let Some(of) = paused {
                let flow = self.track.flows.get_mut(index);
                flow.owed.pause[of] = None;
                let is_forward = (flow.client == ringtap_wire::Direction::Forward) == (of == 0);
                let packet = Decoded::of_flow(&flow.key, flow.level, is_forward, 0);
                self.pause(index, of, &packet, Origin::Stream, now_ns, sink);
            } else if let Some(of) = next {
                let most = PIECE.min(self.work.waiting);
                let bytes = self.next_piece(index, of, most, now_ns, sink);
                self.work.waiting -= bytes.min(self.work.waiting);
            }
        }
    }

    /// Pays for going over lists of early segments and of fragments, from the budget of the work that did.
    pub(super) fn charge_steps(&mut self) {
        let steps = self.track.reassembly.take_steps() + self.defrag.take_steps();
        self.work.budget.left = self.work.budget.left.saturating_sub(steps);
        self.counters.early_steps += u64::from(steps);
    }

    /// Who brings bytes behind others that wait, and finds no memory for them, has as many of those inspected first: what comes in
    /// order is not lost because a host was not in time with what came before.
    pub(super) fn make_room(&mut self, index: usize, from: usize, bytes: usize, now_ns: u64, sink: &mut impl Sink) {
        let Track { flows, reassembly, .. } = &self.track;
        let session = &flows.get(index).session;
        if bytes == 0 || !session.is_behind() || reassembly.takes(&session.streams[from].early, bytes) {
            return;
        }
        self.work.leave_for_piece(self.limits.budget, bytes.max(PIECE));
        self.counters.backlog_pushes += 1;
        self.follow(index, now_ns, sink);
    }

    /// What is left of both streams, gaps between or not, and of what their application said, if it is the end.
    fn catch_up_to_the_end(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) -> bool {
        let is_end = self.track.flows.get(index).owed.end;
        for from in 0..2 {
            if !std::mem::replace(&mut self.track.flows.get_mut(index).owed.settled[from], true) && is_end {
                self.settle(index, from, now_ns, sink);
            }
            loop {
                let Track { flows, reassembly, windows, .. } = &mut self.track;
                flows.get_mut(index).session.pass_gap(from, reassembly, windows);
                self.charge_steps();
                if !self.track.flows.get(index).session.streams[from].is_behind() {
                    break;
                }
                if !self.follow(index, now_ns, sink) {
                    return false;
                }
            }
        }
        if !self.work.may_go_on() {
            return false;
        }
        if is_end {
            self.end_conversation(index, now_ns, sink);
        }
        let owed = &mut self.track.flows.get_mut(index).owed;
        (owed.end, owed.gaps, owed.settled) = (false, false, [false; 2]);
        true
    }

    /// Both sides of a session were silent for its time: what is there of their words is looked at, its record told, and it stays. If
    /// there is no time for that now, it is when the flow's turn comes again.
    pub(super) fn rest(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        self.track.flows.get_mut(index).owed.gaps = true;
        if !self.catch_up(index, now_ns, sink) {
            self.track.backlog.add(index);
            return;
        }
        for from in 0..2 {
            let flow = self.track.flows.get(index);
            let is_forward = (flow.client == ringtap_wire::Direction::Forward) == (from == 0);
            let packet = Decoded::of_flow(&flow.key, flow.level, is_forward, 0);
            self.pause(index, from, &packet, Origin::FlowEnd, now_ns, sink);
        }
        self.tell_rest(index, sink);
    }

    /// Tells the record of a session that was silent for its time.
    fn tell_rest(&mut self, index: usize, sink: &mut impl Sink) {
        self.tell_flow(index, FlowEnd::Timeout, sink);
        self.track.flows.counters.timed_out += 1;
        self.track.flows.get_mut(index).rests = true;
    }

    /// A session goes on whose time is over: what it says belongs to another record. What there was no time for waits on, and what is
    /// missing is waited for as in any session.
    pub(super) fn go_on(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        if !self.track.flows.get(index).rests {
            self.rest(index, now_ns, sink);
        }
        if !self.track.flows.get(index).rests {
            self.tell_rest(index, sink);
            let owed = &mut self.track.flows.get_mut(index).owed;
            (owed.gaps, owed.settled) = (false, [false; 2]);
        }
        self.track.flows.wake(index, now_ns);
    }

    /// Tells a flow's record.
    fn tell_flow(&mut self, index: usize, end: FlowEnd, sink: &mut impl Sink) {
        let view = FlowView::new(self.track.flows.get(index));
        self.counters.flows_without_handshake += u64::from(view.lacks_handshake());
        self.counters.flows_one_sided += u64::from(view.is_one_sided());
        sink.flow(&view, end);
    }

    /// Ends a flow: at once if there is time for what is left of it, else as soon as there is.
    pub(super) fn end_flow(&mut self, index: usize, end: FlowEnd, now_ns: u64, sink: &mut impl Sink) {
        self.track.flows.get_mut(index).owed.end = true;
        if self.catch_up(index, now_ns, sink) {
            self.close(index, end, sink);
        } else if self.track.flows.leave(index, end) {
            self.track.backlog.add(index);
        } else {
            let streams = &self.track.flows.get(index).session.streams;
            self.counters.segments_refused += streams.iter().map(|stream| u64::from(stream.early.count)).sum::<u64>();
            self.end_conversation(index, now_ns, sink);
            self.close(index, end, sink);
        }
    }

    /// Ends all flows: what is left of their streams is inspected, however long it takes.
    pub fn finish(&mut self, now_ns: u64, sink: &mut impl Sink) {
        while self.is_behind() {
            self.work.renew(self.limits.budget, 0);
            self.work_off(now_ns, sink);
        }
        while let Some(index) = self.track.flows.oldest() {
            self.track.flows.get_mut(index).owed.end = true;
            loop {
                self.work.renew(self.limits.budget, 0);
                if self.catch_up(index, now_ns, sink) {
                    break;
                }
            }
            self.close(index, FlowEnd::Shutdown, sink);
        }
    }

    /// Forgets a flow of which nothing is left to inspect.
    fn close(&mut self, index: usize, end: FlowEnd, sink: &mut impl Sink) {
        if !self.track.flows.get(index).rests {
            self.tell_flow(index, end, sink);
        }
        let Track { flows, reassembly, windows, http, handshakes, dialogs, .. } = &mut self.track;
        flows.get_mut(index).session.forget(reassembly, windows);
        // Of a flow that a rule let pass nothing has ended it before.
        http.forget(index);
        handshakes.forget(index);
        dialogs.forget(index);
        flows.end(index);
    }
}
