//! Owns: bytes beside a stream: others for a range that was inspected before, those of a gap that come late, a stream without its
//! urgent byte. Which of them the receiver has is not known, so both are inspected, each with what follows it, as far as the
//! window of a stream reaches.
//! Does not: decide which segments are accepted (`track`), or read what an application says in them (`side_reader.rs`).

use crate::alert::Sink;
use crate::decode::Decoded;
use crate::track::segment::Segment;
use crate::track::stream::{Aside, SegmentEffect, SideLine, Stream};

use super::evaluate::Chunk;
use super::{Detector, Track};

impl Detector {
    /// The bytes of a segment that lie aside, if they are others than those inspected before.
    pub(super) fn other_bytes(
        &mut self,
        index: usize,
        from: usize,
        before: u64,
        segment: &Segment<'_>,
        effect: &SegmentEffect,
    ) -> Option<Aside> {
        let aside = effect.aside?;
        let stream = &self.track.flows.get(index).session.streams[from];
        let (start, end) = (aside.position, aside.position + (aside.to - aside.from) as u64);
        let in_hole = start < stream.hole.1 && end > stream.hole.0;
        if in_hole || end > before || effect.discarded {
            return Some(aside);
        }
        let bytes = &segment.payload[aside.from..aside.to];
        let held = self.track.windows.bytes(stream.window);
        let held_from = before - (held.len() as u64).min(before);
        // What is no longer there can't be compared: it is the same if the receiver has had it.
        if start < held_from && end > stream.acknowledged {
            return Some(aside);
        }
        let at = start.max(held_from);
        let same =
            at >= end || bytes[(at - start) as usize..] == held[(at - held_from) as usize..(end - held_from) as usize];
        (!same).then_some(aside)
    }

    /// Inspects what a segment brings to lines beside its stream.
    #[expect(clippy::too_many_arguments, reason = "one caller; all of it describes one segment")]
    pub(super) fn side_lines(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        segment: &Segment<'_>,
        (before, chunk): (u64, Chunk),
        effect: &SegmentEffect,
        aside: Option<Aside>,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        if chunk.has_new() {
            self.along(index, from, packet, (before, chunk), now_ns, sink);
        }
        // Up to where the window reaches that the stream has now.
        let held_to = before + (chunk.len - chunk.kept) as u64;
        if let Some(Aside { position, from: first, to }) = aside {
            self.beside(index, from, packet, (position, held_to), [&segment.payload[first..to], &[]], now_ns, sink);
        }
        if let Some(urgent) = effect.urgent {
            let parts = [&segment.payload[..urgent], &segment.payload[urgent + 1..]];
            self.beside(index, from, packet, (before, held_to), parts, now_ns, sink);
        }
    }

    /// Inspects bytes that stand for those at `position`, between what is known before and behind them.
    #[expect(clippy::too_many_arguments, reason = "two callers; all of it describes one piece")]
    fn beside(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        (position, held_to): (u64, u64),
        parts: [&[u8]; 2],
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let is_urgent = !parts[1].is_empty();
        let Self { track, work, limits, .. } = self;
        let stream = &{ track.flows.get(index).session.streams[from] };
        let mut line = stream.side_line;
        let chunk = &mut work.chunk;
        chunk.clear();
        let held_from = held_to - (track.windows.bytes(stream.window).len() as u64).min(held_to);
        // As far back as a window reaches, and no further than to what is there.
        let known_from = held_from.max(position.saturating_sub(limits.window as u64));
        let is_known = position <= held_to.max(stream.received());
        // What follows the line, or differs again behind bytes that are the stream's.
        let follows = line.next == position || (line.next >= known_from && line.next < position && is_known);
        if line.until != 0 && follows {
            chunk.extend_from_slice(track.windows.bytes(line.window));
            track.copy_stream(stream, (held_from, held_to), (line.next, position), chunk);
        } else if is_known {
            track.copy_stream(stream, (held_from, held_to), (known_from, position), chunk);
        }
        let kept = chunk.len();
        if line.until == 0 || !follows {
            line.message = self.message_before(index, from, position, position - kept as u64);
        }
        let Self { track, work, limits, .. } = self;
        let (stream, chunk) = (&mut track.flows.get_mut(index).session.streams[from], &mut work.chunk);
        parts.iter().for_each(|part| chunk.extend_from_slice(&part[..part.len().min(chunk.capacity() - chunk.len())]));
        let new_to = chunk.len();
        line.next = position + (new_to - kept) as u64 + u64::from(is_urgent);
        line.until = line.next.max(stream.next) + limits.window as u64;
        track.windows.keep(&mut line.window, chunk, true);
        if line.next >= held_from && line.next < held_to {
            // The line may have been given the stream's own window, as the one used longest ago.
            let held = track.windows.bytes(stream.window);
            let rest = held.get((line.next - held_from) as usize..).unwrap_or_default();
            chunk.extend_from_slice(&rest[..rest.len().min(chunk.capacity() - chunk.len())]);
        }
        stream.side_line = line;
        let base = position.saturating_sub(kept as u64);
        let chunk = Chunk { base, kept, new_to, len: work.chunk.len(), added: true };
        self.inspect_beside(packet, (index, from), chunk, line.message, now_ns, sink);
    }

    /// Inspects the stream's new bytes behind what lies beside it.
    pub(super) fn along(
        &mut self,
        index: usize,
        from: usize,
        packet: &Decoded<'_>,
        (before, new): (u64, Chunk),
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        let Self { track, work, .. } = self;
        let stream = &mut track.flows.get_mut(index).session.streams[from];
        let mut line = stream.side_line;
        if line.until == 0 {
            return;
        }
        let held_from = before - new.kept as u64;
        if before > line.until || line.next < held_from {
            track.windows.free(&mut line.window);
            stream.side_line = SideLine::default();
            return;
        }
        // It stands for bytes that waited until now, or wait still.
        if line.next >= before + (new.len - new.kept) as u64 && line.next > before {
            return;
        }
        let own = track.windows.bytes(line.window);
        let (skip, len) = ((line.next - held_from) as usize, work.chunk.len());
        let all = own.len() + len - skip;
        if all.max(len) > work.chunk.capacity() {
            return;
        }
        // In the place of what the stream had before.
        work.chunk.resize(all.max(len), 0);
        work.chunk.copy_within(skip..len, own.len());
        work.chunk[..own.len()].copy_from_slice(own);
        work.chunk.truncate(all);
        let (kept, behind) = (own.len() + new.kept.saturating_sub(skip), before.max(line.next));
        let chunk = Chunk { base: behind - (kept as u64).min(behind), kept, new_to: all, len: all, added: true };
        if line.next >= before {
            line.next = before + (len - new.kept) as u64;
            track.windows.keep(&mut line.window, &work.chunk, true);
        }
        stream.side_line = line;
        self.inspect_beside(packet, (index, from), chunk, line.message, now_ns, sink);
    }

    /// Rules that the packet's own bytes matched are not told again.
    fn inspect_beside(
        &mut self,
        packet: &Decoded<'_>,
        flow: (usize, usize),
        chunk: Chunk,
        message: u64,
        now_ns: u64,
        sink: &mut impl Sink,
    ) {
        self.counters.side_chunks += 1;
        let work = &mut self.work;
        work.values.clear();
        work.told.extend(work.matched.iter().map(|&(rule, _)| rule).take(work.told.capacity() - work.told.len()));
        self.inspect_with_reader(packet, flow, chunk, message, now_ns, sink);
        self.work.told.clear();
    }

    /// A stream goes on behind a gap; what comes late lies beside it.
    pub(super) fn leave_gap(&mut self, index: usize, of: usize, gap: u64) {
        let Self { track, limits, .. } = self;
        let flow = track.flows.get_mut(index);
        let (stream, message) = (&mut flow.session.streams[of], flow.app_last[of].min(gap));
        track.windows.free(&mut stream.side_line.window);
        let window = std::mem::take(&mut stream.window);
        stream.side_line = SideLine { window, next: gap, message, until: stream.next + limits.window as u64 };
    }
}

impl Track {
    /// Puts a stream's bytes from one position to another at the end of a chunk: of its window, which holds what `held` says, and
    /// behind that of those that wait to be inspected.
    fn copy_stream(&mut self, stream: &Stream, held: (u64, u64), (from, to): (u64, u64), chunk: &mut Vec<u8>) {
        let window = self.windows.bytes(stream.window);
        if from < held.1.min(to) {
            chunk.extend_from_slice(&window[(from - held.0) as usize..(held.1.min(to) - held.0) as usize]);
        }
        if to > held.1 {
            self.reassembly.copy(&stream.early, from.max(held.1), to, chunk);
        }
    }
}
