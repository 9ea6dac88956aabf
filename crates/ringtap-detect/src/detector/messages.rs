//! Owns: what messages of protocols that are read one by one go to the rules, and when.
//! Does not: put them together or read them (`protocol/dialog` and the protocols' folders do).

use ringtap_wire::Direction;

use super::evaluate::{Chunk, Context};
use super::{Detector, Track};
use crate::alert::{FlowView, Origin, Sink};
use crate::decode::Decoded;
use crate::protocol::dialog::Talk;
use crate::protocol::{App, Stage};

impl Detector {
    /// Reads what is new of one side, and looks at the rules of each message that is whole by it.
    #[expect(clippy::too_many_arguments, reason = "two callers; all of it describes one chunk")]
    pub(super) fn talk(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        chunk: Chunk,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let flow = self.track.flows.get_mut(index);
        let Some((app, talk)) = flow.app_of(from).and_then(|app| Some((app, app.talk()?))) else { return };
        if !chunk.has_new() || flow.passed {
            return;
        }
        let (next, end) = (flow.app_next[from], chunk.base + chunk.len as u64);
        let is_first = flow.app_next == [0; 2] || (flow.announced[from].is_some() && next == 0);
        flow.app_next[from] = end;
        if chunk.base > next {
            self.track.dialogs.gap(index, from, chunk.base - next);
        }
        let owner = self.track.flows.owner(index);
        let start = next.saturating_sub(chunk.base) as usize;
        let mut at = 0;
        if is_first && self.announce(index, packet, (app, talk), now_ns, sink) {
            return;
        }
        let mut context = Context::new(packet, Some((index, from)), Some(chunk), origin, now_ns);
        context.is_message = true;
        loop {
            let bytes = self.work.chunk.get(start..chunk.len).unwrap_or_default();
            let dialogs = &mut self.track.dialogs;
            let step = dialogs.step((owner, from), (app, talk), bytes, &mut at, &mut self.work.values);
            let Some((is_for_rules, exchange)) = step else { return };
            context.exchange = exchange;
            if let Some(expected) = self.work.values.expected.take() {
                let Track { flows, expected: table, .. } = &mut self.track;
                table.add(&FlowView::new(flows.get(index)), expected, now_ns);
            }
            let upgrade = self.work.values.upgrade.take();
            let mut passed = false;
            if is_for_rules {
                passed = self.inspect_values(Stage::Start, &context, origin, sink);
            }
            self.tell_transactions((index, from), now_ns, sink);
            if let Some(app) = upgrade {
                self.track.dialogs.forget(index);
                let flow = self.track.flows.get_mut(index);
                (flow.app, flow.app_done) = (Some(app), [false; 2]);
                return;
            }
            if passed {
                return;
            }
        }
    }

    /// The flow, or its session, is over: what is left of its messages is told.
    pub(super) fn end_talk(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        for side in 0..2 {
            let flow = self.track.flows.get(index);
            let Some((app, talk)) = flow.app_of(side).and_then(|app| Some((app, app.talk()?))) else { continue };
            if flow.passed || talk.end.is_none() {
                continue;
            }
            let stream = &flow.session.streams[side];
            let is_whole = stream.hole == (0, 0) && stream.end.is_some_and(|end| stream.next >= end);
            self.track.dialogs.end((index, side), is_whole, (app, talk), &mut self.work.values);
            self.tell_transactions((index, side), now_ns, sink);
        }
    }

    /// Looks at the rules of what is known of a conversation before its first message, as if either side had said it; whether one
    /// let the flow pass.
    fn announce(
        &mut self,
        index: usize,
        packet: &Decoded<'_>,
        (app, talk): (App, &Talk),
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> bool {
        let owner = self.track.flows.owner(index);
        let Some(exchange) = self.track.dialogs.announce(owner, (app, talk), &mut self.work.values) else {
            return false;
        };
        for side in 0..2 {
            let flow = self.track.flows.get(index);
            let is_forward = (flow.client == Direction::Forward) == (side == 0);
            let said = Decoded::of_flow(&flow.key, flow.level, is_forward, packet.wire_len);
            let mut context = Context::new(&said, Some((index, side)), None, Origin::Stream, now_ns);
            (context.is_message, context.exchange) = (true, exchange);
            if self.inspect_values(Stage::Start, &context, Origin::Stream, sink) {
                return true;
            }
        }
        false
    }
}
