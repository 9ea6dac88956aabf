//! Owns: what goes to the rules besides the packet: its stream's bytes in order, and what applications say in them.
//! Does not: match.

use crate::alert::{Origin, Sink};
use crate::decode::{Decoded, Transport};
use crate::protocol::{App, Progress, Side};

use super::Detector;
use super::evaluate::Chunk;

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
    ) -> bool {
        self.work.values.clear();
        if matches!(packet.transport, Transport::Udp(_))
            && let Some(app) = App::of_datagram(packet.ports)
        {
            self.track.flows.get_mut(index).app = Some(app);
            app.read_datagram(packet.payload, &mut self.work.values);
        }
        self.inspect(packet, Some((index, from)), None, origin, now_ns, sink)
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
    ) -> bool {
        self.work.values.clear();
        let Some(tcp) = packet.tcp().copied() else { return false };
        if packet.bad_checksum {
            self.counters.bad_checksums += 1;
            Self::tell_anomalies(packet, now_ns, sink);
            return self.inspect(packet, Some((index, from)), None, origin, now_ns, sink);
        }
        let payload = packet.payload;
        let kept = self.begin_chunk(index, from, !payload.is_empty());
        let flow = self.track.flows.get_mut(index);
        let before = flow.session.streams[from].next;
        let (policies, receiver, out) = (&self.limits.policies, packet.destination, &mut self.work.chunk);
        let newer = || policies.of(receiver).of_segments();
        let effect = flow.session.take(from, &tcp, payload, &mut self.track.reassembly, &mut packet.events, newer, out);
        self.counters.segments_refused += u64::from(effect.refused);
        self.counters.gaps += u64::from(effect.gap);
        Self::tell_anomalies(packet, now_ns, sink);
        let chunk = self.end_chunk(index, from, kept, before, effect.added);
        let passed = self.inspect(packet, Some((index, from)), Some(chunk), origin, now_ns, sink);
        self.keep_window(index, from, chunk);
        // More that is in order now than one chunk holds.
        if chunk.has_new() {
            self.follow(index, from, packet, now_ns, sink);
        }
        if effect.gap {
            // The other side's bytes behind the gap.
            let window = &mut self.track.flows.get_mut(index).session.streams[1 - from].window;
            self.track.windows.free(window);
            self.follow(index, 1 - from, packet, now_ns, sink);
        }
        if effect.ended {
            self.drain(index, now_ns, sink);
        }
        passed
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
        let chunk = Chunk { base: before - kept as u64, kept, len: self.work.chunk.len(), added };
        if chunk.has_new() {
            self.counters.chunks += 1;
            self.listen(index, from, chunk);
        }
        chunk
    }

    fn keep_window(&mut self, index: usize, from: usize, chunk: Chunk) {
        if chunk.has_new() {
            let window = &mut self.track.flows.get_mut(index).session.streams[from].window;
            self.track.windows.keep(window, &self.work.chunk);
        }
    }

    /// Inspects what follows in order, chunk by chunk.
    fn follow(&mut self, index: usize, from: usize, packet: &Decoded<'_>, now_ns: u64, sink: &mut impl Sink) {
        loop {
            let kept = self.begin_chunk(index, from, true);
            let session = &mut self.track.flows.get_mut(index).session;
            let before = session.streams[from].next;
            session.follow(from, &mut self.track.reassembly, &mut self.work.chunk);
            if self.work.chunk.len() == kept {
                return;
            }
            self.rest(index, from, kept, before, packet.wire_len, Origin::Stream, now_ns, sink);
        }
    }

    /// Inspects what is left of both streams, gaps between or not.
    pub(super) fn drain(&mut self, index: usize, now_ns: u64, sink: &mut impl Sink) {
        for from in 0..2 {
            loop {
                self.work.chunk.clear();
                let session = &mut self.track.flows.get_mut(index).session;
                if !session.drain(from, &mut self.track.reassembly, &mut self.work.chunk) {
                    break;
                }
                let len = self.work.chunk.len() as u64;
                let before = self.track.flows.get(index).session.streams[from].next - len;
                let window = &mut self.track.flows.get_mut(index).session.streams[from].window;
                self.track.windows.free(window);
                self.rest(index, from, 0, before, 0, Origin::FlowEnd, now_ns, sink);
            }
        }
    }

    /// Inspects a chunk that is not a packet's: told with the flow's addresses.
    #[expect(clippy::too_many_arguments, reason = "two callers; all of it describes one chunk")]
    fn rest(
        &mut self,
        index: usize,
        from: usize,
        kept: usize,
        before: u64,
        wire_len: u32,
        origin: Origin,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        self.work.values.clear();
        let chunk = self.end_chunk(index, from, kept, before, true);
        let flow = self.track.flows.get(index);
        let packet =
            Decoded::of_flow(&flow.key, (flow.client == ringtap_wire::Direction::Forward) == (from == 0), wire_len);
        self.inspect(&packet, Some((index, from)), Some(chunk), origin, now_ns, sink);
        self.keep_window(index, from, chunk);
    }

    /// What the application says in a chunk.
    fn listen(&mut self, index: usize, from: usize, chunk: Chunk) {
        let flow = self.track.flows.get_mut(index);
        if flow.app_done[from] {
            return;
        }
        let bytes = &self.work.chunk[..];
        if flow.app.is_none() && chunk.base == 0 {
            flow.app = App::of_stream(bytes, flow.key.ports());
        }
        flow.app_done[from] = match flow.app {
            // Once the first bytes are gone, or are no protocol's that we have, there is nothing to wait for.
            None => chunk.base != 0 || bytes.len() >= 4,
            Some(app) => {
                let next = &mut flow.app_next[from];
                let mut side = Side { bytes, base: chunk.base, from_client: from == 0, next };
                app.read_stream(&mut side, &mut self.work.values) == Progress::Done
            }
        };
    }
}
