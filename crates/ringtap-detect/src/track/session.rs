//! Owns: TCP sessions: handshake, state, and which bytes come next in each direction.
//! Does not: keep the flow, or look at the bytes.

use ringtap_wire::{Tcp, tcp_flag};

use super::windows::{Window, Windows};
use crate::event::{Event, EventSet};
use crate::overlap::Newer;
use crate::reassembly::{Pending, Reassembly};

/// A segment this far ahead of the next byte is outside any window that is usual.
const MOST_AHEAD: u64 = 4 << 20;

/// How far a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No handshake was seen: not followed.
    #[default]
    None,
    /// A SYN was seen.
    Opening,
    /// Both sides agreed.
    Established,
    /// One side has finished.
    Closing,
    /// Both have finished, or one reset.
    Closed,
}

impl State {
    /// EVE's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Opening => "syn_sent",
            Self::Established => "established",
            Self::Closing => "fin_wait1",
            Self::Closed => "closed",
        }
    }
}

/// What one side sends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// Initial sequence number.
    isn: Option<u32>,
    /// Position of the next byte; 0 is the one behind the SYN.
    pub(crate) next: u64,
    /// Position behind the furthest byte seen.
    pub(crate) seen: u64,
    /// Segments that came too early.
    pub(crate) early: Pending,
    /// What was inspected last.
    pub(crate) window: Window,
    finished: bool,
}

impl Stream {
    /// The position of a sequence number, near the next byte's.
    fn position(&self, sequence: u32) -> Option<i64> {
        let isn = self.isn?;
        let expected = isn.wrapping_add(1).wrapping_add(self.next as u32);
        Some(self.next as i64 + i64::from(sequence.wrapping_sub(expected) as i32))
    }

    /// As `stream_size` counts: sequence numbers used, the SYN's included.
    pub(crate) fn size(&self) -> u64 {
        self.isn.map_or(0, |_| self.seen + 1)
    }
}

/// A session, both ways; index 0 is the client's stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) streams: [Stream; 2],
    /// Flags seen of either side, for the flow record.
    pub(crate) flags: [u8; 2],
}

/// What a segment did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEffect {
    /// Its bytes belong to the stream (now, later, or again): the packet alone need not be inspected.
    pub(crate) added: bool,
    /// There were bytes in the stream that nobody saw.
    pub(crate) gap: bool,
    /// Bytes were refused for want of memory.
    pub(crate) refused: bool,
    /// The session has just come to its end.
    pub(crate) ended: bool,
}

impl Session {
    /// Takes a segment that side `from` (0: client) sent. Bytes of its stream that have come in order are put at the end
    /// of `out`, which has room for them. `newer` is asked for segments out of order.
    #[expect(clippy::too_many_arguments, reason = "one call; the segment, and the memory that the caller owns")]
    pub(crate) fn take(
        &mut self,
        from: usize,
        tcp: &Tcp<'_>,
        payload: &[u8],
        reassembly: &mut Reassembly,
        events: &mut EventSet,
        newer: impl FnOnce() -> Newer,
        out: &mut Vec<u8>,
    ) -> SegmentEffect {
        let flags = tcp.flags();
        self.flags[from] |= flags;
        let mut effect = SegmentEffect::default();
        if flags & tcp_flag::RST != 0 {
            if self.state != State::None && self.state != State::Closed && self.reset_is_valid(from, tcp, flags, events)
            {
                self.state = State::Closed;
                effect.ended = true;
            }
            return effect;
        }
        let syn = flags & tcp_flag::SYN != 0;
        if syn {
            self.open(from, tcp, flags);
        }
        if self.state == State::None {
            return effect;
        }
        if !syn
            && flags & tcp_flag::ACK != 0
            && self.state == State::Opening
            && self.streams.iter().all(|s| s.isn.is_some())
        {
            let acknowledged = self.streams[1 - from].position(tcp.acknowledgment());
            if acknowledged.is_some_and(|position| position >= 0) {
                self.state = State::Established;
            }
        }
        if self.state == State::Closed {
            return effect;
        }
        let sequence = if syn { tcp.sequence().wrapping_add(1) } else { tcp.sequence() };
        if !payload.is_empty() {
            self.data(from, sequence, payload, reassembly, events, newer, out, &mut effect);
        }
        if flags & tcp_flag::ACK != 0 {
            self.skip_gap(1 - from, tcp.acknowledgment(), reassembly, events, &mut effect);
        }
        if flags & tcp_flag::FIN != 0 && self.state >= State::Established {
            self.streams[from].finished = true;
            let both = self.streams.iter().all(|stream| stream.finished);
            effect.ended |= both && self.state != State::Closed;
            self.state = if both { State::Closed } else { State::Closing };
        }
        effect
    }

    fn open(&mut self, from: usize, tcp: &Tcp<'_>, flags: u8) {
        let stream = &mut self.streams[from];
        match self.state {
            // A SYN with ACK first: the beginning was not seen, and who is the client is not known.
            State::None if flags & tcp_flag::ACK != 0 => return,
            State::None => self.state = State::Opening,
            State::Opening => {}
            State::Established | State::Closing | State::Closed => return,
        }
        if stream.isn.is_none() || stream.seen == 0 {
            stream.isn = Some(tcp.sequence());
        }
    }

    /// A reset counts when it could be the other side's: its sequence number is expected, or it acknowledges something.
    fn reset_is_valid(&self, from: usize, tcp: &Tcp<'_>, flags: u8, events: &mut EventSet) -> bool {
        let near = |position: Option<i64>, next: u64| {
            position.is_none_or(|position| (position - next as i64).unsigned_abs() <= MOST_AHEAD && position >= -1)
        };
        let own = &self.streams[from];
        let valid = if own.isn.is_some() {
            near(own.position(tcp.sequence()), own.next)
        } else {
            flags & tcp_flag::ACK != 0 && near(self.streams[1 - from].position(tcp.acknowledgment()), 0)
        };
        if !valid {
            events.add(Event::StreamRstBadWindow);
        }
        valid
    }

    #[expect(clippy::too_many_arguments, reason = "one call; a struct for it would only be taken apart again")]
    fn data(
        &mut self,
        from: usize,
        sequence: u32,
        payload: &[u8],
        reassembly: &mut Reassembly,
        events: &mut EventSet,
        newer: impl FnOnce() -> Newer,
        out: &mut Vec<u8>,
        effect: &mut SegmentEffect,
    ) {
        let stream = &mut self.streams[from];
        let Some(position) = stream.position(sequence) else { return };
        let end = position + payload.len() as i64;
        if position > (stream.next + MOST_AHEAD) as i64 || end < -(MOST_AHEAD as i64) {
            events.add(Event::StreamOutsideWindow);
            return;
        }
        effect.added = true;
        stream.seen = stream.seen.max(end.max(0) as u64);
        let skip = (stream.next as i64 - position).max(0) as usize;
        let Some(new) = payload.get(skip..).filter(|new| !new.is_empty()) else { return };
        let start = position.max(stream.next as i64) as u64;
        if start == stream.next && stream.early.count == 0 {
            out.extend_from_slice(&new[..new.len().min(out.capacity() - out.len())]);
            stream.next += new.len() as u64;
            return;
        }
        let inserted = reassembly.insert(&mut stream.early, start, new, newer());
        if inserted.different {
            events.add(Event::StreamOverlapDifferent);
        }
        effect.refused |= inserted.refused;
        stream.next = reassembly.take(&mut stream.early, stream.next, out);
    }

    /// Bytes that the receiver has acknowledged and we never saw will not come again: go on behind them.
    fn skip_gap(
        &mut self,
        of: usize,
        acknowledgment: u32,
        reassembly: &mut Reassembly,
        events: &mut EventSet,
        effect: &mut SegmentEffect,
    ) {
        let stream = &mut self.streams[of];
        let Some(acknowledged) = stream.position(acknowledgment) else { return };
        if acknowledged <= stream.next as i64 || acknowledged > (stream.next + MOST_AHEAD) as i64 {
            return;
        }
        // The SYN's and FIN's numbers carry no byte.
        if acknowledged as u64 <= stream.seen {
            let first = reassembly.first(&stream.early).unwrap_or(acknowledged as u64);
            if first > stream.next && first <= acknowledged as u64 {
                stream.next = first;
                effect.gap = true;
                events.add(Event::StreamGap);
            }
        } else if acknowledged as u64 > stream.seen + 1 {
            stream.next = acknowledged as u64;
            stream.seen = stream.next;
            reassembly.clear(&mut stream.early);
            effect.gap = true;
            events.add(Event::StreamGap);
        }
    }

    /// Puts bytes that follow in order now (behind a gap) at the end of `out`.
    pub(crate) fn follow(&mut self, of: usize, reassembly: &mut Reassembly, out: &mut Vec<u8>) {
        let stream = &mut self.streams[of];
        stream.next = reassembly.take(&mut stream.early, stream.next, out);
    }

    /// At the end: goes on behind the next gap and puts what is there at the end of `out`; whether there was anything.
    pub(crate) fn drain(&mut self, of: usize, reassembly: &mut Reassembly, out: &mut Vec<u8>) -> bool {
        let stream = &mut self.streams[of];
        let Some(first) = reassembly.first(&stream.early) else { return false };
        stream.next = stream.next.max(first);
        stream.next = reassembly.take(&mut stream.early, stream.next, out);
        true
    }

    /// Gives all memory back.
    pub(crate) fn forget(&mut self, reassembly: &mut Reassembly, windows: &mut Windows) {
        for stream in &mut self.streams {
            reassembly.clear(&mut stream.early);
            windows.free(&mut stream.window);
        }
    }
}
