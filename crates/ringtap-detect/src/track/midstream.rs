//! Owns: sessions that are followed without their handshake, or of which one side alone is seen: what is taken for granted then.
//! Does not: decide whether they are followed (`Limits::midstream` does).

use ringtap_wire::{Tcp, tcp_flag};

use super::segment::{MAX_SHIFT, Segment};
use super::session::{Memory, Session, State};
use super::stream::Stream;

/// Behind any byte: the receiver's window is not known.
const NO_EDGE: u64 = 1 << 62;
/// Where nobody acknowledges, a gap is passed once so many pieces lie behind it.
const UNANSWERED: u16 = 32;
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
        self.signed = segment.options.signed;
        (self.state, self.is_picked_up) = (State::Established, true);
        true
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

    /// Whether a side's gap is passed without an acknowledgement, as there may be none to see.
    pub(super) fn is_unanswered(&self, of: usize) -> bool {
        let stream = &self.streams[of];
        self.is_picked_up && stream.acknowledged == 0 && stream.early.count >= UNANSWERED
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
