//! Opened queues as a caller without a callback takes from them: a burst is held while its packets are shown one by one or all at
//! once, and ended when the caller comes back.
//!
//! Owns the order of the queues and which burst is held. When to look, how to wait and what is done with a packet is the caller's
//! business: this crate's engine has its own loop, libringtap and libpcap wait in their clients' threads.

use crate::burst::BURST_MAX;
use crate::clock;
use crate::source::{AnySource, Source, StampClock};

/// How often the two clocks are compared, for sources that stamp by CLOCK_MONOTONIC.
const CLOCKS_NS: u64 = 1_000_000_000;

/// A packet of the burst that is held.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The captured bytes, in a frame that the source holds until [`Intake::end_burst`]; from then on it points to nothing.
    pub start: *const u8,
    /// How many they are.
    pub len: u32,
    /// Length on the wire, bytes.
    pub wire_len: u32,
    /// As [`Packet::arrival_ns`](crate::Packet::arrival_ns), by the source's clock.
    pub arrival_ns: u64,
    /// As [`Packet::checksum_pending`](crate::Packet::checksum_pending).
    pub checksum_pending: bool,
}

/// The queues that [`Receiver::into_direct`](super::Receiver::into_direct) gave, and the burst that is held.
pub struct Intake {
    sources: Vec<AnySource>,
    turn: usize,
    burst: Vec<Shown>,
    /// What to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and when that was found out.
    offset_ns: i64,
    offset_at_ns: u64,
}

impl Intake {
    /// Holds nothing yet.
    pub fn new(sources: Vec<AnySource>) -> Self {
        Self {
            sources,
            turn: 0,
            burst: Vec::with_capacity(BURST_MAX),
            offset_ns: clock::monotonic_to_realtime_ns(),
            offset_at_ns: clock::monotonic_ns(),
        }
    }

    /// The queues.
    pub fn sources(&self) -> &[AnySource] {
        &self.sources
    }

    /// The same, to have devices polled or the flow ended.
    pub fn sources_mut(&mut self) -> &mut [AnySource] {
        &mut self.sources
    }

    /// The packets held, in order of arrival; empty when none are.
    pub fn burst(&self) -> &[Shown] {
        &self.burst
    }

    /// Number of the source whose burst is held, or was last.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Holds the next burst of the sources from number `from` on; `false`: these have none. Nothing may be held before.
    pub fn take_burst(&mut self, from: usize) -> bool {
        for (turn, source) in self.sources.iter_mut().enumerate().skip(from) {
            let burst = source.receive();
            self.burst.extend(burst.iter().map(|packet| Shown {
                start: packet.data.as_ptr(),
                len: packet.data.len() as u32,
                wire_len: packet.wire_len,
                arrival_ns: packet.arrival_ns,
                checksum_pending: packet.checksum_pending,
            }));
            burst.end_after(0);
            if !self.burst.is_empty() {
                self.turn = turn;
                return true;
            }
        }
        false
    }

    /// Gives the first `handled` packets back; the others stay with their source, whose next burst is they.
    pub fn end_burst(&mut self, handled: usize) {
        if !self.burst.is_empty() {
            self.burst.clear();
            self.sources[self.turn].receive().end_after(handled);
        }
    }

    /// Arms every source's interrupt; whether packets are there.
    pub fn arm(&mut self) -> bool {
        // Each one, also after the first that is ready.
        self.sources.iter_mut().fold(false, |ready, source| source.arm() | ready)
    }

    /// Compares the two clocks again where that was long ago, `now_ns` being CLOCK_MONOTONIC.
    pub fn compare_clocks(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.offset_at_ns) > CLOCKS_NS {
            self.offset_ns = clock::monotonic_to_realtime_ns();
            self.offset_at_ns = now_ns;
        }
    }

    /// What to add to the stamps of the burst held for CLOCK_REALTIME, nanoseconds.
    pub fn offset_ns(&self) -> i64 {
        let is_monotonic = |source: &AnySource| source.stamp_clock() == StampClock::Monotonic;
        self.sources.get(self.turn).filter(|source| is_monotonic(source)).map_or(0, |_| self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Arrival, MemorySource, Script};

    fn source(packets: &[u8]) -> AnySource {
        let arrivals: Vec<_> = packets.iter().map(|&byte| Arrival::there(vec![byte; usize::from(byte)])).collect();
        Box::new(MemorySource::new("few", clock::SystemClock, Script::of(arrivals)).unwrap())
    }

    fn lengths(intake: &Intake) -> Vec<u32> {
        intake.burst().iter().map(|packet| packet.len).collect()
    }

    #[test]
    fn queues_take_turns_and_what_was_not_handled_comes_again() {
        let mut intake = Intake::new(vec![source(&[1, 2, 3]), source(&[]), source(&[4])]);
        assert!(intake.take_burst(0) && intake.turn() == 0);
        assert_eq!(lengths(&intake), [1, 2, 3]);
        intake.end_burst(1);
        assert!(intake.burst().is_empty());
        assert!(intake.take_burst(1) && intake.turn() == 2, "the second has none");
        assert_eq!(lengths(&intake), [4]);
        intake.end_burst(1);
        assert!(!intake.take_burst(1));
        assert!(intake.take_burst(0));
        assert_eq!(lengths(&intake), [2, 3]);
        intake.end_burst(2);
        intake.end_burst(9);
        assert!(!intake.take_burst(0), "nothing is held, nothing is left");
    }
}
