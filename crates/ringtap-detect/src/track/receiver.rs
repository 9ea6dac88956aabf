//! Owns: whether the receiver of a segment would take it, in a session that both sides agreed on: window, acknowledgement, time
//! stamp, signature, reset (RFC 9293 §3.10.7.4, RFC 5961, RFC 7323 §5, RFC 2385), as Linux decides.
//! Does not: change anything.

use ringtap_wire::tcp_flag;

use super::segment::Segment;
use super::session::Session;
use super::stream::{MOST_AHEAD, Stream};
use crate::event::Event;

/// After so many seconds without a segment a time stamp says nothing any more (RFC 7323 §5.5: 24 days).
const STAMP_LIFE_S: u32 = 24 * 24 * 3600;

impl Session {
    /// Why the receiver discards a segment of side `from` whose sequence number is at `position`; `None` if it takes it.
    pub(super) fn fault(&self, from: usize, segment: &Segment<'_>, position: i64, now_s: u32) -> Option<Event> {
        let (own, other) = (&self.streams[from], &self.streams[1 - from]);
        if self.lacks_signature(segment) {
            return Some(Event::StreamSignature);
        }
        if own.is_outdated(segment.options.stamp, now_s) {
            return Some(Event::StreamInvalidTimestamp);
        }
        if !own.is_within(position, segment.payload.len()) {
            return Some(Event::StreamOutsideWindow);
        }
        if !segment.has(tcp_flag::ACK) {
            return Some(Event::StreamNoAck);
        }
        match other.position(segment.acknowledgment) {
            Some(acknowledged) if other.could_acknowledge(acknowledged) => None,
            _ if self.is_one_sided(from) => None,
            _ => Some(Event::StreamInvalidAck),
        }
    }

    /// Whether a segment is not signed as both sides have agreed; what they did agree on is not known of one that was picked up.
    fn lacks_signature(&self, segment: &Segment<'_>) -> bool {
        !self.is_picked_up && segment.options.signed != self.signed
    }

    /// Whether a reset by side `from` is taken: it has exactly the number that is expected next; others are answered by a
    /// challenge (RFC 5961 §3). Before the sides agree, the answer to a SYN acknowledges it.
    pub(super) fn is_reset(&self, from: usize, segment: &Segment<'_>) -> bool {
        let (own, other) = (&self.streams[from], &self.streams[1 - from]);
        if self.is_agreed() && self.lacks_signature(segment) {
            return false;
        }
        match own.position(segment.sequence) {
            Some(position) => position == own.had() as i64,
            None => {
                let acknowledged = other.position(segment.acknowledgment);
                segment.has(tcp_flag::ACK) && acknowledged.is_some_and(|at| at >= 0 && at as u64 <= other.seen)
            }
        }
    }
}

impl Stream {
    /// Whether a time stamp is older than the newest one (RFC 7323 §5.3). By one is not, to Linux.
    fn is_outdated(&self, stamp: Option<u32>, now_s: u32) -> bool {
        let (Some((newest, came_s)), Some(stamp)) = (self.stamp, stamp) else { return false };
        newest.wrapping_sub(stamp) as i32 > 1 && now_s.saturating_sub(came_s) < STAMP_LIFE_S
    }

    /// Whether bytes at this position begin in the receiver's window, or lie before it.
    fn is_within(&self, position: i64, len: usize) -> bool {
        let edge = self.edge as i64;
        let inside = position < edge || (position == edge && len == 0);
        // What it acknowledged behind its own window shows that we have missed its words, not that it has no room.
        let beyond = self.beyond as i64;
        let missed = beyond > 0 && position >= beyond && position <= beyond + MOST_AHEAD as i64;
        (inside || missed) && position + len as i64 >= -(MOST_AHEAD as i64)
    }

    /// Whether the receiver may acknowledge up to `position`: what was sent, or could have been sent unseen; not much less than
    /// it has acknowledged (RFC 5961 §5).
    fn could_acknowledge(&self, position: i64) -> bool {
        // A FIN counts as one.
        let most = self.edge.max(self.seen + 1) as i64;
        let least = self.acknowledged as i64 - i64::from(self.widest);
        position <= most && position >= least
    }
}
