//! Owns: one side of a TCP session: which of its bytes come next, what its receiver has acknowledged and permits.
//! Does not: look at the bytes, or know the other side (`session.rs`).

use super::segment::Segment;
use super::session::Memory;
use super::windows::{Window, Windows};
use crate::event::{Event, EventSet};
use crate::overlap::Newer;
use crate::reassembly::{Pending, Reassembly};

/// A segment this far ahead of the next byte, or behind it, is outside any window that is usual.
pub(super) const MOST_AHEAD: u64 = 4 << 20;

/// Bytes that came before a segment and are in order by it: so many are inspected with its own, the others for themselves.
const AT_ONCE: usize = 4 << 10;

/// A second line of bytes beside a stream's: what the receiver has if it did not take what was inspected first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideLine {
    /// Its last bytes.
    pub(crate) window: Window,
    /// Position of its next byte.
    pub(crate) next: u64,
    /// Position at which the message begins that it leads on, as a reader of its protocol has it.
    pub(crate) message: u64,
    /// Position from which on its window holds the same as the stream's; 0: there is no such line.
    pub(crate) until: u64,
}

/// What one side sends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// Initial sequence number.
    pub(super) isn: Option<u32>,
    /// Position of the next byte to be inspected; 0 is the one behind the SYN.
    pub(crate) next: u64,
    /// Position of the next byte that its receiver has not got, where those before it wait to be inspected.
    due: u64,
    /// Position up to which its receiver has all there is, gaps included that nobody saw filled and that are to be passed.
    had: u64,
    /// Position behind the furthest byte seen.
    pub(crate) seen: u64,
    /// Position up to which the receiver has acknowledged bytes that were seen.
    pub(crate) acknowledged: u64,
    /// Position behind the last byte that the receiver permits.
    pub(super) edge: u64,
    /// An acknowledgement behind that; followed by bytes from there on it shows that much was not seen.
    pub(super) beyond: u64,
    /// Widest window that the receiver had, bytes.
    pub(super) widest: u32,
    /// Shift of the windows that this side permits its peer.
    pub(super) shift: u8,
    /// Newest time stamp, and when it came, in seconds; `None` if the sides did not agree on stamps.
    pub(super) stamp: Option<(u32, u32)>,
    /// Segments that came too early.
    pub(crate) early: Pending,
    /// What was inspected last.
    pub(crate) window: Window,
    pub(crate) side_line: SideLine,
    /// Bytes that were passed over unseen: from and to.
    pub(crate) hole: (u64, u64),
    /// Position of the FIN.
    pub(crate) end: Option<u64>,
    /// Times that its bytes have begun at another number or again; goes round.
    pub(crate) begun: u8,
}

/// Bytes of a segment that are not the stream's next ones: they were passed already, or are in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) position: u64,
    /// Where they begin in the payload, and where they end.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Where a segment stands between the other side's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// So much of theirs has come in order before it.
    pub(super) after: u64,
    /// And some of that waits to be inspected.
    pub(super) waits: bool,
}

/// What a segment did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEffect {
    /// Its bytes belong to the stream (now, later, or again): the packet alone need not be inspected.
    pub(crate) added: bool,
    /// Bytes were refused for want of memory.
    pub(crate) refused: bool,
    /// For want of memory bytes are inspected before others that the other side had said before them.
    pub(crate) disordered: bool,
    /// The receiver would not take it.
    pub(crate) discarded: bool,
    /// The session has just come to its end.
    pub(crate) ended: bool,
    /// To be inspected beside the stream, if they are others than those inspected before.
    pub(crate) aside: Option<Aside>,
    /// Place of a byte in the payload that the receiver may take out of the stream; its bytes are the stream's next ones.
    pub(crate) urgent: Option<usize>,
}

impl Stream {
    /// The position of a sequence number, near the next byte's.
    pub(super) fn position(&self, sequence: u32) -> Option<i64> {
        let isn = self.isn?;
        let expected = isn.wrapping_add(1).wrapping_add(self.next as u32);
        Some(self.next as i64 + i64::from(sequence.wrapping_sub(expected) as i32))
    }

    /// As `stream_size` counts: sequence numbers used, the SYN's included.
    pub(crate) fn size(&self) -> u64 {
        self.isn.map_or(0, |_| self.seen + 1)
    }

    /// Position of the next byte that its receiver has not got.
    pub(crate) fn received(&self) -> u64 {
        self.next.max(self.due)
    }

    /// The same, and gaps that are to be passed are none.
    pub(crate) fn had(&self) -> u64 {
        self.received().max(self.had)
    }

    /// Bytes that have come in order, or behind gaps that are to be passed, wait to be inspected.
    pub(crate) fn is_behind(&self) -> bool {
        self.due.max(self.had) > self.next
    }

    /// Takes note of those that are in order now.
    pub(super) fn note_due(&mut self, reassembly: &mut Reassembly) {
        self.due = reassembly.reach(&self.early, self.next);
        self.early.drains(self.is_behind());
    }

    /// All bytes up to the FIN have come.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.had() >= end)
    }

    /// The sender's bytes begin at another number.
    pub(super) fn begin(&mut self, isn: u32, reassembly: &mut Reassembly, windows: &mut Windows) {
        if self.isn != Some(isn) {
            self.begin_again(isn, reassembly, windows);
        }
    }

    /// What was taken so far is none of the sender's bytes.
    pub(super) fn begin_again(&mut self, isn: u32, reassembly: &mut Reassembly, windows: &mut Windows) {
        self.forget(reassembly, windows);
        *self = Self { isn: Some(isn), begun: self.begun.wrapping_add(1), ..Self::default() };
    }

    /// Takes an accepted segment's bytes, which lie at `position`. Those that have come in order are put at the end of `out`,
    /// which has room for them.
    #[expect(clippy::too_many_arguments, reason = "one call; a struct for it would only be taken apart again")]
    pub(super) fn add(
        &mut self,
        position: i64,
        segment: &Segment<'_>,
        turn: Turn,
        memory: &mut Memory<'_>,
        events: &mut EventSet,
        newer: impl FnOnce() -> Newer,
        out: &mut Vec<u8>,
        effect: &mut SegmentEffect,
    ) {
        let reassembly = &mut *memory.reassembly;
        let payload = segment.payload;
        let end = position + payload.len() as i64;
        // What lies before the stream's first byte is inspected as a packet at least.
        effect.added = end > 0;
        self.seen = self.seen.max(end.max(0) as u64);
        effect.aside = self.aside(position, payload, reassembly);
        let received = self.received();
        let skip = (received as i64 - position).max(0) as usize;
        let Some(new) = payload.get(skip..).filter(|new| !new.is_empty()) else { return };
        let start = position.max(received as i64) as u64;
        // What is next takes no memory, so it never lacks any; while others wait before it, it takes what they have left.
        let is_next = start == received;
        let is_first = is_next && !self.is_behind();
        // What the other side said before and nobody inspected goes first, unless there is no memory to wait in.
        let waits = is_first && turn.waits && reassembly.takes(&self.early, new.len());
        effect.disordered = is_first && turn.waits && !waits;
        if is_first && !waits && reassembly.first(&self.early).is_none_or(|first| first >= start + new.len() as u64) {
            out.extend_from_slice(&new[..new.len().min(out.capacity() - out.len())]);
            effect.urgent = segment.urgent.filter(|_| skip == 0);
            self.next = reassembly.take(&mut self.early, start + new.len() as u64, AT_ONCE, u64::MAX, out);
            self.note_due(reassembly);
            return;
        }
        // Sessions inside tunnels may all be one sender's.
        if !is_next && memory.is_tunnelled && !reassembly.has_spare(new.len()) {
            (effect.refused, effect.added) = (true, false);
            return;
        }
        let inserted = reassembly.insert(&mut self.early, start, new, newer(), turn.after);
        if inserted.different {
            events.add(Event::StreamOverlapDifferent);
        }
        effect.refused |= inserted.refused;
        effect.disordered |= inserted.disordered;
        // What there was no memory for is inspected as a packet at least.
        effect.added &= !inserted.refused;
        if is_first && !waits {
            self.next = reassembly.take(&mut self.early, self.next, AT_ONCE.max(payload.len()), u64::MAX, out);
        }
        self.note_due(reassembly);
    }

    /// Keeps bytes that came with a SYN until its answer acknowledges them: a server that does not know the cookie takes none of
    /// them (RFC 7413 §4.2.2).
    pub(super) fn hold(
        &mut self,
        payload: &[u8],
        reassembly: &mut Reassembly,
        events: &mut EventSet,
        newer: impl FnOnce() -> Newer,
        effect: &mut SegmentEffect,
    ) {
        // Anybody can send a SYN: what it brings must not take the place of sessions.
        if !reassembly.has_spare(payload.len()) {
            effect.refused = true;
            return;
        }
        let inserted = reassembly.insert(&mut self.early, 0, payload, newer(), 0);
        if inserted.different {
            events.add(Event::StreamOverlapDifferent);
        }
        self.seen = self.seen.max(payload.len() as u64);
        effect.refused = inserted.refused;
        effect.added = !inserted.refused;
    }

    /// Bytes of the stream's beginning are held, and none was inspected.
    pub(super) fn holds_beginning(&self, reassembly: &Reassembly) -> bool {
        self.next == 0 && reassembly.first(&self.early) == Some(0)
    }

    /// The bytes at `position` that lie before the next one; of those that wait to be inspected, if they are others than these.
    fn aside(&self, position: i64, payload: &[u8], reassembly: &Reassembly) -> Option<Aside> {
        let (len, end) = (payload.len(), position + payload.len() as i64);
        let start = position.max(0);
        let waiting = (start.max(self.next as i64), end.min(self.due as i64));
        let is_other = waiting.0 < waiting.1
            && !reassembly.has(
                &self.early,
                waiting.0 as u64,
                &payload[(waiting.0 - position) as usize..(waiting.1 - position) as usize],
            );
        let end = end.min(if is_other { self.due } else { self.next } as i64);
        // The last byte again, which the receiver has: probes of idle connections send one (RFC 9293 §3.8.4).
        let is_probe = len == 1 && end as u64 == self.next.min(self.acknowledged) && self.hole.1 < self.next;
        (start < end && !is_probe).then(|| Aside {
            position: start as u64,
            from: (start - position) as usize,
            to: (end - position) as usize,
        })
    }

    /// The bytes of a segment that was not accepted, where they would be among the next ones.
    pub(super) fn doubtful(&self, position: i64, len: usize) -> Option<Aside> {
        let follows = position >= 0 && (position as u64 <= self.received() || position as u64 == self.side_line.next);
        (follows && len > 0).then_some(Aside { position: position as u64, from: 0, to: len })
    }

    /// Bytes that the receiver says it has and we never saw will not come again: once there are some behind them, these are next.
    /// So much of the other side's has come `after` which they are.
    pub(super) fn pass_acknowledged(&mut self, after: u64, reassembly: &mut Reassembly, events: &mut EventSet) {
        self.pass(self.acknowledged, after, reassembly, events);
    }

    /// Gaps before this position are to be passed.
    pub(super) fn pass(&mut self, to: u64, after: u64, reassembly: &mut Reassembly, events: &mut EventSet) {
        let had = self.had();
        if to <= had || self.early.count == 0 {
            return;
        }
        let (reached, has_passed) = reassembly.pass(&self.early, had, to, after);
        if reached > had {
            self.had = reached;
            self.early.drains(true);
        }
        if has_passed {
            events.add(Event::StreamGap);
        }
    }

    /// Goes on behind a gap that is to be passed, once all before it was inspected; where the gap begins.
    pub(super) fn cross(&mut self, reassembly: &mut Reassembly) -> Option<u64> {
        if self.due > self.next || self.had <= self.next {
            return None;
        }
        let first = reassembly.first(&self.early).filter(|&first| first > self.next && first < self.had);
        let from = self.next;
        match first {
            Some(first) => (self.next, self.hole) = (first, (from, first)),
            // What was there gave way to other bytes.
            None => self.had = self.next,
        }
        self.note_due(reassembly);
        first.map(|_| from)
    }

    /// Puts bytes that wait to be inspected at the end of `out`, up to `most`, and not those that came behind more of the other
    /// side's than `passed`.
    pub(super) fn follow(&mut self, reassembly: &mut Reassembly, most: usize, passed: u64, out: &mut Vec<u8>) {
        self.next = reassembly.take(&mut self.early, self.next, most, passed, out);
        self.early.drains(self.is_behind());
    }

    /// At the end: goes on behind the next gap, if there is anything.
    pub(super) fn pass_gap(&mut self, reassembly: &mut Reassembly, windows: &mut Windows) {
        if let Some(first) = reassembly.first(&self.early) {
            if first > self.next {
                self.next = first;
                windows.free(&mut self.window);
            }
            self.note_due(reassembly);
        }
    }

    /// Gives all memory back.
    pub(super) fn forget(&mut self, reassembly: &mut Reassembly, windows: &mut Windows) {
        reassembly.clear(&mut self.early);
        // What waited is gone: who comes to its turn finds that it owes nothing.
        (self.due, self.had) = (self.next, self.next);
        self.early.drains(false);
        windows.free(&mut self.window);
        windows.free(&mut self.side_line.window);
        self.side_line = SideLine::default();
    }
}
