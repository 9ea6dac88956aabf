//! Owns: when packets wait longer than they should, and which of them go first then.
//! Does not: count the others; the detector does.

use std::sync::Arc;
use std::time::Duration;

use ringtap::arrival::ArrivalClock;
use ringtap::burst::Packet;
use ringtap_detect::Precedence;
use ringtap_wire::LinkType;

/// The clock is read for every so many packets.
const LOOK_EVERY: u32 = 16;

/// How long packets wait where all is well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// At most, until an engine looks at one.
    pub(crate) bound: Duration,
    /// And, where they are handed over, for those that belong before it: at least.
    pub(crate) held: Duration,
}

/// When packets wait longer than they should, those that matter most go first.
pub(crate) struct Shedding {
    /// Which; without it nothing is shed.
    precedence: Option<Arc<Precedence>>,
    /// Packets that waited longer begin the shedding, nanoseconds.
    begin_ns: u64,
    /// Those that waited less end it.
    end_ns: u64,
    /// Packets until the clock is read again.
    countdown: u32,
    /// Only packets that go first are looked at.
    active: bool,
}

impl Shedding {
    /// For packets that should wait no longer than `waits` says; `None`: they may wait, as in a file.
    pub(crate) fn new(precedence: Option<Arc<Precedence>>, waits: Option<Waits>) -> Self {
        // A packet waits up to one period in any case, and the ring holds several at the peak rate. What is handed over comes from a
        // queue that never runs empty of what has to be held, so the end is told by how much longer than that packets waited.
        let limits = waits.map(|Waits { bound, held }| (2 * (held + bound), held + bound / 2));
        let (begin_ns, end_ns) =
            limits.map_or((u64::MAX, u64::MAX), |(begin, end)| (nanoseconds(begin), nanoseconds(end)));
        Self { precedence, begin_ns, end_ns, countdown: 0, active: false }
    }

    /// Whether this packet is left out.
    #[inline]
    pub(crate) fn sheds(&mut self, packet: &Packet<'_>, link: LinkType, arrivals: &mut ArrivalClock) -> bool {
        let Some(precedence) = &self.precedence else { return false };
        if self.countdown == 0 {
            self.countdown = LOOK_EVERY;
            // A packet without a stamp says nothing.
            if let Some(waited_ns) = arrivals.waited_ns(packet.arrival_ns) {
                self.active = waited_ns > if self.active { self.end_ns } else { self.begin_ns };
            }
        }
        self.countdown -= 1;
        self.active && !precedence.has(packet.data, link)
    }

    /// The ring is empty: nobody waits.
    pub(crate) fn rest(&mut self) {
        (self.active, self.countdown) = (false, 0);
    }

    /// Takes what goes first by other rules; returns what did before.
    pub(crate) fn replace(&mut self, precedence: Option<Arc<Precedence>>) -> Option<Arc<Precedence>> {
        std::mem::replace(&mut self.precedence, precedence)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use ringtap::clock;
    use ringtap::source::StampClock;
    use ringtap_detect::Program;
    use ringtap_detect::rules::{BitNames, Classes, RuleSet, Variables};
    use ringtap_samples::frames::Ends;

    use super::*;

    const MS: u64 = 1_000_000;

    fn shedding(held_ms: u64) -> Shedding {
        let mut set = RuleSet::with_bits(BitNames::default());
        set.add("a", b"alert udp any any -> any 7 (sid:1;)\n", &Variables::default(), &Classes::default());
        let (program, _) = Program::new(set, &mut Vec::new()).unwrap();
        let precedence = Precedence::of(program.rules()).unwrap();
        let [bound, held] = [100, held_ms].map(Duration::from_millis);
        Shedding::new(Some(Arc::new(precedence)), Some(Waits { bound, held }))
    }

    /// Whether some of a batch of packets that have waited so long, one after the other without a rest, are left out at its end.
    fn sheds(shedding: &mut Shedding, port: u16, waited_ms: u64) -> bool {
        let frame = Ends::new("198.51.100.7", "203.0.113.9").udp_frame([5000, port], b"");
        let mut arrivals = ArrivalClock::new(StampClock::Monotonic);
        let mut last = false;
        for _ in 0..2 * LOOK_EVERY {
            let arrival_ns = clock::monotonic_ns() - waited_ms * MS;
            let packet =
                Packet { data: &frame, wire_len: frame.len() as u32, arrival_ns, checksum_pending: false, port: 0 };
            last = shedding.sheds(&packet, LinkType::Ethernet, &mut arrivals);
        }
        last
    }

    #[test]
    fn it_begins_when_packets_wait_too_long_and_ends_within_a_batch() {
        // (held, in time, too long, still long, caught up). Handed packets have always waited for as long as they are held.
        for (held_ms, fine, late, still, caught_up) in [(0, 150, 250, 80, 30), (100, 350, 450, 180, 130)] {
            let mut it = shedding(held_ms);
            assert!(!sheds(&mut it, 9, fine), "held {held_ms} ms");
            assert!(sheds(&mut it, 9, late) && !sheds(&mut it, 7, late), "held {held_ms} ms");
            assert!(sheds(&mut it, 9, still), "held {held_ms} ms");
            assert!(!sheds(&mut it, 9, caught_up), "held {held_ms} ms");
        }
    }
}
