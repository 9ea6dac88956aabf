//! Owns: what an application says on a line beside a stream. Its reader has no state there: it begins with the message that the
//! other bytes belong to, as far as the line's window reaches, and what it finds in bytes that were there before is nobody's.
//! Does not: put such lines together (`side_line.rs`).

use super::evaluate::{Chunk, Context};
use super::{Detector, Track};
use crate::alert::{Origin, Sink};
use crate::decode::Decoded;
use crate::matching::inspect::INFLATED_BYTES;
use crate::protocol::http::Step;
use crate::protocol::{App, Progress, Side, Stage};
use crate::use_order::Owner;

impl Detector {
    /// Where the message begins that bytes at `position` belong to; `base` is the position of the chunk, which has those before.
    pub(super) fn message_before(&self, index: usize, from: usize, position: u64, base: u64) -> u64 {
        let flow = self.track.flows.get(index);
        let last = flow.app_last[from];
        if last <= position || base == 0 {
            return if last <= position { last } else { 0 };
        }
        // Others have begun behind it. The first line that begins like one; behind all there is none.
        let kept = &self.work.chunk[..(position - base) as usize];
        let begins =
            |at: &usize| App::of_stream(&kept[at + 1..], flow.key.ports()).is_some_and(|app| flow.app == Some(app));
        memchr::memchr_iter(b'\n', kept).find(begins).map_or(position, |at| base + at as u64 + 1)
    }

    /// Inspects a chunk beside a stream with what its application says there; the message begins at `start`.
    pub(super) fn inspect_with_reader(
        &mut self,
        packet: &Decoded<'_>,
        (index, from): (usize, usize),
        chunk: Chunk,
        start: u64,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let flow = self.track.flows.get_mut(index);
        // Other first bytes may be another protocol's.
        let (app, start) = match App::of_stream(&self.work.chunk[..chunk.len], flow.key.ports()) {
            Some(app) if chunk.base == 0 && flow.app != Some(app) => (Some(app), 0),
            _ => (flow.app_of(from), start),
        };
        let own = (std::mem::replace(&mut flow.app, app), flow.announced[from].take());
        let passed = flow.passed;
        let reader = app.filter(|_| start >= chunk.base && start - chunk.base <= chunk.len as u64);
        let mut next = start;
        match reader {
            Some(app) if !app.has_transactions() => self.listen_beside(app, from, chunk, &mut next),
            _ => {}
        }
        self.inspect(packet, Some((index, from)), Some(chunk), Origin::SideLine, now_ns, sink);
        if let Some(app) = reader {
            let context = Context::new(packet, Some((index, from)), Some(chunk), Origin::SideLine, now_ns);
            while self.work.values.has_more {
                self.read_beside(app, (chunk.base, chunk.len), &mut next);
                self.inspect_values(Stage::Start, &context, Origin::SideLine, sink);
            }
        }
        if reader.is_some_and(App::has_transactions) {
            self.converse_beside(packet, (index, from), chunk, start, now_ns, sink);
        }
        let flow = self.track.flows.get_mut(index);
        // What its receiver may not have lets nothing pass.
        ((flow.app, flow.announced[from]), flow.passed) = (own, passed);
    }

    /// The flow under which readers with state keep what lies beside a stream, for the time of one chunk.
    fn side_slot(&self) -> Owner {
        Owner { flow: self.track.flows.slots(), is_tunnelled: false }
    }

    /// Reads what is there up to `end`, as far as its values find room.
    fn read_beside(&mut self, app: App, (base, end): (u64, usize), next: &mut u64) -> Progress {
        let work = &mut self.work;
        work.values.clear();
        app.read_stream(&mut Side { bytes: &work.chunk[..end], base, next }, &mut work.values)
    }

    fn listen_beside(&mut self, app: App, from: usize, chunk: Chunk, next: &mut u64) {
        let slot = self.side_slot();
        let Self { track, work, .. } = self;
        let (start, first) = (*next, (*next - chunk.base) as usize);
        let kept = chunk.kept.max(first).min(chunk.len);
        if app.has_handshake() {
            let bytes = &work.chunk[..chunk.len];
            if start == 0 && track.handshakes.read(slot, from, &bytes[first..kept], &mut work.values) == Progress::More
            {
                work.values.clear();
                track.handshakes.read(slot, from, &bytes[kept..], &mut work.values);
            }
            track.handshakes.forget(slot.flow);
            return;
        }
        let mut progress = Progress::More;
        work.values.has_more = true;
        while self.work.values.has_more {
            progress = self.read_beside(app, (chunk.base, kept), next);
        }
        if progress == Progress::Done {
            self.work.values.clear();
        } else {
            self.read_beside(app, (chunk.base, chunk.len), next);
        }
    }

    fn converse_beside(
        &mut self,
        packet: &Decoded<'_>,
        (index, from): (usize, usize),
        chunk: Chunk,
        start: u64,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let slot = self.side_slot();
        let first = (start - chunk.base) as usize;
        let kept = chunk.kept.max(first).min(chunk.len);
        let mut context = Context::new(packet, Some((index, from)), Some(chunk), Origin::SideLine, now_ns);
        let mut goes_on = true;
        self.track.http.begin_chunk(chunk.len);
        for (part, is_new) in [(first..kept, false), (kept..chunk.len, true)] {
            let mut at = 0;
            while goes_on {
                let Self { track: Track { http, .. }, work, .. } = self;
                let mut step = http.step(slot, from, &work.chunk[part.clone()], &mut at, &mut work.values);
                if step == Step::More {
                    step = http.flush(slot.flow, from, is_new, &mut work.values);
                }
                work.budget.unpack(http.take_inflated(), INFLATED_BYTES);
                if step == Step::More {
                    break;
                }
                if let (Step::Stage(stage, key), true) = (step, is_new) {
                    http.inherit_matches(index, key);
                    goes_on = !self.inspect_message(stage, key, &mut context, Origin::SideLine, sink);
                }
            }
        }
        self.track.http.forget_beside(slot.flow);
    }
}
