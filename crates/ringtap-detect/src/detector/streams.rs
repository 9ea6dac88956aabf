//! Owns: what goes to the rules besides the packet: its stream's bytes in order, and what applications say in them.
//! Does not: match.

use crate::alert::{FlowView, Origin, Sink};
use crate::decode::{Decoded, Transport};
use crate::event::Event;
use crate::matching::inspect::READ_BYTES;
use crate::protocol::{App, Progress, Side, Stage};
use crate::track::flows::Owed;
use crate::track::segment::Segment;
use crate::track::session::Memory;

use super::evaluate::{Chunk, Context};
use super::{Detector, Track};

/// With so many bytes of a stream every protocol has been recognised that is going to be.
const FIRST_BYTES: usize = 14;
/// So many ends of lines before them may belong to a request of HTTP, as its servers skip them.
const MAX_EMPTY: usize = 1024;

/// Whether these first bytes of a side are enough to know that they are no protocol's that we have.
fn are_enough(bytes: &[u8]) -> bool {
    let empty = bytes.iter().take(MAX_EMPTY).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    bytes.len() >= empty + FIRST_BYTES
}

impl Detector {
    /// A packet of a flow other than TCP's.
    pub(super) fn datagram(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        self.work.values.clear();
        if matches!(packet.transport, Transport::Udp(_))
            && let Some(app) = App::of_datagram(packet.ports, packet.payload)
        {
            let flow = self.track.flows.get_mut(index);
            flow.app_is_new = flow.app.replace(app).is_none();
            app.read_datagram(packet.payload, from == 0, &mut self.work.values);
        }
        self.inspect(packet, Some((index, from)), None, origin, now_ns, sink);
        self.tell_transactions((index, from), now_ns, sink);
    }

    /// A TCP segment.
    pub(super) fn segment(
        &mut self,
        index: usize,
        from: usize,
        packet: &mut Decoded<'_>,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        self.work.values.clear();
        self.track.flows.get_mut(index).app_is_new = false;
        let Some(tcp) = packet.tcp().copied() else { return };
        if packet.bad_checksum {
            self.counters.bad_checksums += 1;
            Self::tell_anomalies(packet, now_ns, sink);
            self.inspect(packet, Some((index, from)), None, origin, now_ns, sink);
            return;
        }
        let segment = Segment::new(&tcp, packet.payload);
        let now_s = (now_ns / 1_000_000_000) as u32;
        let is_tunnelled = self.track.flows.owner(index).is_tunnelled;
        let Track { flows, reassembly, windows, .. } = &mut self.track;
        let midstream = self.limits.midstream;
        reassembly.now_ms = (now_ns / 1_000_000) as u32;
        let mut memory = Memory { reassembly, windows, is_tunnelled, midstream };
        let session = &mut flows.get_mut(index).session;
        session.pass_unanswered(from, &segment, now_s, &mut memory, &mut packet.events);
        if session.takes_beginning(from, &segment, now_s, &mut memory) {
            self.catch_up(index, now_ns, sink);
        } else if self.track.flows.get(index).owes() {
            // What follows finds the room that these leave.
            self.catch_up(index, now_ns, sink);
        }
        self.charge_steps();
        self.make_room(index, from, segment.payload.len(), now_ns, sink);
        self.work.leave_half(self.limits.budget);
        self.work.values.clear();
        let kept = self.begin_chunk(index, from, !segment.payload.is_empty());
        let Self { track, work, limits, .. } = self;
        let flow = track.flows.get_mut(index);
        let old = [0, 1].map(|side| (flow.session.streams[side].next, flow.session.streams[side].begun));
        let (had_end, received) = (flow.session.streams[from].end.is_some(), flow.session.streams[from].received());
        let receiver = packet.destination;
        let newer = || limits.policies.of(receiver).of_segments();
        let (reassembly, windows) = (&mut track.reassembly, &mut track.windows);
        let mut memory = Memory { reassembly, windows, is_tunnelled, midstream };
        let effect = flow.session.take(from, &segment, now_s, &mut memory, &mut packet.events, newer, &mut work.chunk);
        self.charge_steps();
        self.counters.segments_refused += u64::from(effect.refused);
        self.counters.disordered += u64::from(effect.disordered);
        self.counters.segments_discarded += u64::from(effect.discarded);
        let (before, kept) = self.begun_again(index, from, &old, kept);
        let aside = self.other_bytes(index, from, before, &segment, &effect);
        let is_same = self.track.flows.get(index).session.streams[from].begun == old[from].1;
        if aside.is_some_and(|aside| is_same && aside.position < received) && !effect.discarded {
            packet.events.add(Event::StreamOverlapDifferent);
        }
        Self::tell_anomalies(packet, now_ns, sink);
        let chunk = self.end_chunk(index, from, kept, before, effect.added);
        let passed = self.inspect(packet, Some((index, from)), Some(chunk), origin, now_ns, sink);
        self.tell_transactions((index, from), now_ns, sink);
        self.listen_on(index, from, packet, chunk, origin, now_ns, sink);
        self.converse(index, from, packet, chunk, origin, now_ns, sink);
        self.talk(index, from, packet, chunk, origin, now_ns, sink);
        self.keep_window(index, from, chunk);
        if !passed {
            self.side_lines(index, from, packet, &segment, (before, chunk), &effect, aside, now_ns, sink);
        }
        // More that is in order now than one chunk holds, or that lies behind a gap.
        let flow = self.track.flows.get_mut(index);
        flow.owed.end |= effect.ended;
        let is_behind = flow.owes() && !self.catch_up(index, now_ns, sink);
        let flow = self.track.flows.get_mut(index);
        if !effect.ended && flow.session.streams[from].end.is_some() && !had_end {
            if is_behind {
                flow.owed.pause[from] = Some(flow.session.streams[1 - from].had());
            } else {
                self.pause(index, from, packet, origin, now_ns, sink);
            }
        }
        if is_behind {
            self.track.backlog.add(index);
        }
    }

    /// Where the stream was before a segment, and how many of its bytes are kept in the chunk: nothing and none if it has begun
    /// again by it. What applications said in a stream that has begun again is nobody's.
    fn begun_again(&mut self, index: usize, from: usize, old: &[(u64, u8); 2], kept: usize) -> (u64, usize) {
        let Track { flows, http, handshakes, dialogs, .. } = &mut self.track;
        let flow = flows.get_mut(index);
        let is_other = [0, 1].map(|side| flow.session.streams[side].begun != old[side].1);
        if (0..2).any(|side| is_other[side] && old[side].0 > 0) {
            (flow.app, flow.app_done, flow.app_next, flow.app_last) = (None, [false; 2], [0; 2], [0; 2]);
            flow.announced = [None; 2];
            flow.owed = Owed::default();
            http.forget(index);
            handshakes.forget(index);
            dialogs.forget(index);
        }
        if !is_other[from] {
            return (old[from].0, kept);
        }
        self.work.chunk.drain(..kept);
        (0, 0)
    }

    /// Puts the bytes kept of a stream into the chunk; returns how many.
    fn begin_chunk(&mut self, index: usize, from: usize, wanted: bool) -> usize {
        self.work.chunk.clear();
        if wanted {
            let window = self.track.flows.get(index).session.streams[from].window;
            self.work.chunk.extend_from_slice(self.track.windows.bytes(window));
        }
        self.work.chunk.len()
    }

    /// Describes the chunk, and reads what the application says in it.
    fn end_chunk(&mut self, index: usize, from: usize, kept: usize, before: u64, added: bool) -> Chunk {
        let len = self.work.chunk.len();
        let chunk = Chunk { base: before - kept as u64, kept, new_to: len, len, added };
        if chunk.has_new() {
            self.counters.chunks += 1;
            self.work.budget.search(len - kept, READ_BYTES);
            self.listen(index, from, chunk);
        }
        chunk
    }

    fn keep_window(&mut self, index: usize, from: usize, chunk: Chunk) {
        if chunk.has_new() {
            let is_tunnelled = self.track.flows.owner(index).is_tunnelled;
            let window = &mut self.track.flows.get_mut(index).session.streams[from].window;
            self.track.windows.keep(window, &self.work.chunk, is_tunnelled);
        }
    }

    /// Inspects the next of a side's bytes that wait, up to `most`; returns how many. They are told with the flow's addresses.
    pub(super) fn next_piece(
        &mut self,
        index: usize,
        from: usize,
        most: usize,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> usize {
        if let Some(gap) = self.track.flows.get_mut(index).session.cross(from, &mut self.track.reassembly) {
            self.counters.gaps += 1;
            self.leave_gap(index, from, gap);
        }
        self.charge_steps();
        let kept = self.begin_chunk(index, from, true);
        let flow = self.track.flows.get_mut(index);
        let before = flow.session.streams[from].next;
        flow.session.follow(from, &mut self.track.reassembly, most, &mut self.work.chunk);
        self.work.values.clear();
        let chunk = self.end_chunk(index, from, kept, before, true);
        let flow = self.track.flows.get(index);
        let origin = if flow.owed.settled[from] { Origin::FlowEnd } else { Origin::Stream };
        let is_forward = (flow.client == ringtap_wire::Direction::Forward) == (from == 0);
        let packet = Decoded::of_flow(&flow.key, flow.level, is_forward, 0);
        let passed = self.inspect(&packet, Some((index, from)), Some(chunk), origin, now_ns, sink);
        self.tell_transactions((index, from), now_ns, sink);
        self.listen_on(index, from, &packet, chunk, origin, now_ns, sink);
        self.converse(index, from, &packet, chunk, origin, now_ns, sink);
        self.talk(index, from, &packet, chunk, origin, now_ns, sink);
        self.keep_window(index, from, chunk);
        if !passed && chunk.has_new() {
            self.along(index, from, &packet, (before, chunk), now_ns, sink);
        }
        self.counters.waited_bytes += (chunk.len - chunk.kept) as u64;
        chunk.len - chunk.kept
    }

    /// A side whose first bytes told nothing when it ended: they are what was announced, if anything was.
    pub(super) fn settle(&mut self, index: usize, from: usize, now_ns: u64, sink: &mut impl Sink) {
        let flow = self.track.flows.get(index);
        let may_be_announced = flow.app.is_none() || (self.track.expected.has_any() && flow.announced[from].is_none());
        let is_open = may_be_announced && !flow.app_done[from] && !flow.passed;
        let (next, is_forward) =
            (flow.session.streams[from].next, (flow.client == ringtap_wire::Direction::Forward) == (from == 0));
        if !is_open || next == 0 || self.begin_chunk(index, from, true) as u64 != next {
            return;
        }
        let flow = self.track.flows.get(index);
        let is_known = are_enough(&self.work.chunk) || App::of_stream(&self.work.chunk, flow.key.ports()).is_some();
        if flow.app.is_some() && is_known {
            return;
        }
        self.take_announced(index, from);
        let flow = self.track.flows.get(index);
        if !flow.app_of(from).is_some_and(App::is_announced) {
            return;
        }
        let len = self.work.chunk.len();
        let packet = Decoded::of_flow(&flow.key, flow.level, is_forward, 0);
        // The rules have looked at the bytes themselves before.
        let chunk = Chunk { base: 0, kept: len, new_to: len, len, added: false };
        self.work.values.clear();
        self.inspect(&packet, Some((index, from)), Some(chunk), Origin::FlowEnd, now_ns, sink);
        let chunk = Chunk { kept: 0, ..chunk };
        self.talk(index, from, &packet, chunk, Origin::FlowEnd, now_ns, sink);
    }

    /// What the application says in a chunk.
    fn listen(&mut self, index: usize, from: usize, chunk: Chunk) {
        let owner = self.track.flows.owner(index);
        let flow = self.track.flows.get_mut(index);
        if flow.app_done[from] {
            return;
        }
        if chunk.base == 0 && !are_enough(&self.work.chunk[..chunk.kept]) {
            self.recognise(index, from);
        }
        let flow = self.track.flows.get_mut(index);
        let bytes = &self.work.chunk[..];
        flow.app_done[from] = match flow.app_of(from) {
            // Once the first bytes are gone, or are no protocol's that we have, there is nothing to wait for.
            None => chunk.base != 0 || are_enough(bytes),
            Some(app) if app.has_transactions() || app.talk().is_some() => false,
            Some(app) if app.has_handshake() => {
                let (next, end) = (flow.app_next[from], chunk.base + chunk.len as u64);
                flow.app_next[from] = end;
                match next.checked_sub(chunk.base).and_then(|start| bytes.get(start as usize..)) {
                    Some(new) => {
                        let handshakes = &mut self.track.handshakes;
                        handshakes.read(owner, from, new, &mut self.work.values) == Progress::Done
                    }
                    // Nothing can be told behind missing bytes.
                    None => true,
                }
            }
            Some(app) => {
                let next = &mut flow.app_next[from];
                let was = *next;
                let mut side = Side { bytes, base: chunk.base, next };
                let progress = app.read_stream(&mut side, &mut self.work.values);
                if flow.app_next[from] > was {
                    flow.app_last[from] = was;
                }
                progress == Progress::Done
            }
        };
    }

    /// Messages of the chunk whose values found no room among those before them, and the rules of these.
    #[expect(clippy::too_many_arguments, reason = "two callers; all of it describes one chunk")]
    fn listen_on(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        chunk: Chunk,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let last = self.track.flows.get(index).app_last[from];
        let context = Context::new(packet, Some((index, from)), Some(chunk), origin, now_ns);
        while self.work.values.has_more && !self.track.flows.get(index).passed {
            self.work.values.clear();
            self.listen(index, from, chunk);
            self.inspect_values(Stage::Start, &context, origin, sink);
            self.tell_transactions((index, from), now_ns, sink);
        }
        // What lies beside the chunk is read from its first message on.
        self.track.flows.get_mut(index).app_last[from] = last;
    }

    /// What the first bytes of a side say of both, as long as nothing else has. Where the other side's were taken for what was announced
    /// they are that still: who takes a file can't end it by what is said meanwhile.
    fn recognise(&mut self, index: usize, from: usize) {
        let flow = self.track.flows.get_mut(index);
        let known = flow.app.filter(|app| !app.is_announced());
        let has_more = known.is_none() || (self.track.expected.has_any() && flow.announced[from].is_none());
        if !has_more {
            return;
        }
        match App::of_stream(&self.work.chunk, flow.key.ports()) {
            Some(_) if known.is_some() => {}
            // A flow has one conversation: that of the file.
            Some(app) if flow.app.is_some() && app.talk().is_some() => {}
            Some(app) => {
                let file = flow.app.replace(app);
                if file.is_some() {
                    (flow.app_next[from], flow.app_last[from]) = (0, 0);
                    flow.announced[1 - from] = file;
                }
                flow.app_is_new = true;
            }
            None if flow.app.is_none_or(|app| !app.is_announced()) && are_enough(&self.work.chunk) => {
                self.take_announced(index, from);
            }
            None => {}
        }
    }

    /// First bytes that are no protocol's are of the one that another connection has announced, if it has. What they say themselves
    /// goes before: whoever announces may want that nobody looks. What the other side has said decides nothing: it may be who takes the file
    /// that wants this.
    fn take_announced(&mut self, index: usize, from: usize) {
        let owner = self.track.flows.owner(index);
        let Track { flows, expected, dialogs, .. } = &mut self.track;
        let flow = flows.get_mut(index);
        flow.app_done[from] |= flow.app.is_none();
        let Some((app, state)) = expected.take(&FlowView::new(flow)) else { return };
        flow.announced[from] = Some(app);
        if flow.app.is_none_or(|other| other.talk().is_some()) {
            dialogs.forget(index);
            flow.app = Some(app);
        }
        dialogs.begin(owner, state);
        (flow.app_next[from], flow.app_last[from]) = (0, 0);
        (flow.app_is_new, flow.app_done[from]) = (true, false);
    }
}
