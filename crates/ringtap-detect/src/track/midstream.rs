//! Owns: sessions that are followed without their handshake, or of which one side alone is seen: what is taken for granted then.
//! Does not: decide whether they are followed (`Limits::midstream` does).

use ringtap_wire::{Tcp, tcp_flag};

use super::segment::{MAX_SHIFT, Segment};
use super::session::{Memory, Session, State};
use super::stream::Stream;
use super::windows::Windows;
use crate::event::EventSet;
use crate::reassembly::Reassembly;

/// Behind any byte: the receiver's window is not known.
const NO_EDGE: u64 = 1 << 62;
/// Where nobody acknowledges, a gap is passed so long after the first bytes behind it, milliseconds: a receiver that is there has
/// said meanwhile that something is missing (RFC 5681 §3.2).
const UNANSWERED_MS: u32 = 1000;
/// Ports below it are servers' (RFC 6335 §6).
const SYSTEM_PORTS: u16 = 1024;

/// Whether the sender of a connection's first segment is its server.
pub(crate) fn is_by_server(tcp: &Tcp<'_>) -> bool {
    let flags = tcp.flags() & (tcp_flag::SYN | tcp_flag::ACK);
    let by_port = tcp.source_port() < SYSTEM_PORTS && tcp.destination_port() >= SYSTEM_PORTS;
    flags == tcp_flag::SYN | tcp_flag::ACK || (flags == tcp_flag::ACK && by_port)
}

impl Session {
    /// Follows a connection from this segment on, of which a SYN was not seen; whether it does.
    pub(super) fn pick_up(&mut self, from: usize, segment: &Segment<'_>, memory: &mut Memory<'_>) -> bool {
        if !memory.midstream || !segment.has(tcp_flag::ACK) || self.has_greeted_both() {
            return false;
        }
        for (side, next) in [(from, segment.sequence), (1 - from, segment.acknowledgment)] {
            let stream = &mut self.streams[side];
            if stream.isn.is_none() {
                stream.begin(next.wrapping_sub(1), memory.reassembly, memory.windows);
            }
            // What came with a SYN was taken, as the client goes on.
            stream.note_due(memory.reassembly);
            (stream.edge, stream.widest, stream.shift) = (NO_EDGE, u32::MAX, MAX_SHIFT);
        }
        (self.state, self.is_picked_up) = (State::Established, true);
        true
    }

    /// The handshake comes behind the segment that the session was picked up from: its SYN with ACK, of side `from`, answers the SYN
    /// that was seen. What came between counts only if its numbers are those that the handshake tells, and the other side has
    /// acknowledged something: before it has the answer it takes nothing.
    pub(super) fn put_down(
        &mut self,
        from: usize,
        segment: &Segment<'_>,
        reassembly: &mut Reassembly,
        windows: &mut Windows,
    ) {
        let has_acknowledged = self.flags[1 - from] & tcp_flag::ACK != 0;
        let is_same = has_acknowledged && self.streams[from].isn == Some(segment.sequence);
        for stream in &mut self.streams {
            match stream.isn {
                Some(isn) if !is_same => stream.begin_again(isn, reassembly, windows),
                _ => (stream.edge, stream.widest, stream.shift) = (0, 0, 0),
            }
        }
        (self.reset_by, self.reset_of) = (None, None);
        (self.state, self.is_picked_up) = (State::Opening, false);
    }

    /// The first bytes of a side may lie anywhere: those before them were not seen.
    pub(super) fn settle_beginning(&mut self, from: usize, segment: &Segment<'_>) {
        // Where a SYN told, those that come first are early.
        let is_told = self.has_greeted(from);
        let stream = &mut self.streams[from];
        if self.is_picked_up && !is_told && stream.is_unseen() && !segment.payload.is_empty() {
            stream.isn = Some(segment.sequence.wrapping_sub(1));
        }
    }

    /// Passes a side's gap without an acknowledgement, if there may be none to see and this segment does not fill it: nothing of the
    /// other side came for a second after something behind it, or there is no room to wait for it and nothing of that side came at all.
    pub(crate) fn pass_unanswered(
        &mut self,
        from: usize,
        segment: &Segment<'_>,
        now_s: u32,
        memory: &mut Memory<'_>,
        events: &mut EventSet,
    ) {
        let (stream, len) = (&self.streams[from], segment.payload.len());
        if !self.is_picked_up || stream.early.count == 0 || len == 0 || segment.has(tcp_flag::SYN | tcp_flag::RST) {
            return;
        }
        let now_ms = memory.reassembly.now_ms;
        // Who has nothing to answer says nothing: what came before the other side's last word counts for nothing.
        let heard_ms = self.heard_ms[1 - from];
        let Some((start, came_ms)) = memory.reassembly.behind(&stream.early, stream.had(), heard_ms) else { return };
        // A clock that goes back has not passed the time.
        let age_ms = (now_ms.wrapping_sub(came_ms) as i32).max(0) as u32;
        let has_no_room = !memory.reassembly.takes(&stream.early, len) || !memory.reassembly.has_spare(len);
        if age_ms < UNANSWERED_MS && (heard_ms.is_some() || !has_no_room) {
            return;
        }
        let Some(position) = stream.position(segment.sequence) else { return };
        if position <= stream.had() as i64 || self.fault(from, segment, position, now_s).is_some() {
            return;
        }
        let after = self.streams[1 - from].had();
        self.streams[from].pass(start, after, memory.reassembly, events);
    }

    /// Whether an acknowledgement says nothing: its stream was not seen.
    pub(super) fn is_one_sided(&self, from: usize) -> bool {
        self.is_picked_up && self.streams[1 - from].is_unseen()
    }
}

impl Stream {
    /// None of its bytes was seen.
    fn is_unseen(&self) -> bool {
        self.seen == 0 && self.next == 0
    }
}
