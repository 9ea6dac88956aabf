//! What the engine's thread does with each packet: shed or inspect it, take new rules, count.
//!
//! Owns one queue's detector. No allocation, lock, format or system call.

use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::engine::Handler;
use ringtap::source::StampClock;
use ringtap::transmit::Outbox;
use ringtap_detect::Detector;
use ringtap_wire::LinkType;

use crate::finds::{Finds, Telling};
use crate::programs::Incoming;
use crate::record::Record;
use crate::shedding::Shedding;

/// When statistics are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistics {
    /// Never.
    Off,
    /// Once, at the end: of files, whose time is not ours.
    AtEnd,
    /// After so many nanoseconds each, and at the end.
    Every(u64),
}

/// The clock of the packets' stamps, and when the latest was.
pub(crate) struct Times {
    stamps: StampClock,
    /// Added to arrival stamps to get the time since 1970, nanoseconds.
    to_realtime_ns: i64,
    last_ns: u64,
}

impl Times {
    pub(crate) fn new(stamps: StampClock) -> Self {
        let to_realtime_ns = if stamps == StampClock::Monotonic { clock::monotonic_to_realtime_ns() } else { 0 };
        Self { stamps, to_realtime_ns, last_ns: 0 }
    }

    /// The time of a packet, nanoseconds since 1970.
    fn of(&mut self, packet: &Packet<'_>) -> u64 {
        let now_ns = match packet.arrival_ns {
            0 => clock::realtime_ns(),
            stamp => stamp.saturating_add_signed(self.to_realtime_ns),
        };
        self.last_ns = self.last_ns.max(now_ns);
        now_ns
    }

    /// Whether time goes on without packets: not in a file. If so it is now.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.stamps != StampClock::Recorded;
        if goes_on {
            self.last_ns = self.last_ns.max(clock::realtime_ns());
        }
        goes_on
    }
}

/// The handler of one queue or of files.
pub(crate) struct Inspector {
    pub(crate) detector: Detector,
    pub(crate) link: LinkType,
    pub(crate) finds: Finds,
    shedding: Shedding,
    times: Times,
    statistics: Statistics,
    /// When the next are due, nanoseconds since 1970.
    statistics_at_ns: u64,
    programs: Incoming,
    /// A cycle has begun: its packets meet the same rules.
    in_cycle: bool,
}

impl Inspector {
    pub(crate) fn new(
        detector: Detector,
        link: LinkType,
        finds: Finds,
        shedding: Shedding,
        times: Times,
        statistics: Statistics,
        programs: Incoming,
    ) -> Self {
        let statistics_at_ns = match statistics {
            Statistics::Every(interval_ns) => clock::realtime_ns() + interval_ns,
            Statistics::AtEnd | Statistics::Off => u64::MAX,
        };
        Self { detector, link, finds, shedding, times, statistics, statistics_at_ns, programs, in_cycle: false }
    }

    fn count(&mut self) {
        if let Statistics::Every(interval_ns) = self.statistics
            && self.times.last_ns >= self.statistics_at_ns
        {
            self.statistics_at_ns = self.times.last_ns + interval_ns;
            self.finds.put(Record::Statistics(self.detector.counters()));
        }
    }

    /// Ends all flows. No packet waits any more, so the queue is waited for: nothing found here is lost.
    pub(crate) fn finish(&mut self) {
        self.finds.waits = true;
        let frame = (&[][..], self.link);
        let mut telling = Telling { finds: &mut self.finds, outbox: None, arrival_ns: 0, frame };
        self.detector.finish(self.times.last_ns, &mut telling);
        if self.statistics != Statistics::Off {
            self.finds.put(Record::Statistics(self.detector.counters()));
        }
    }
}

impl Handler for Inspector {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        // An engine that slept since the last cycle has not looked for new rules meanwhile.
        if !std::mem::replace(&mut self.in_cycle, true) {
            self.programs.swap(&mut self.detector, &mut self.shedding);
        }
        self.finds.packet += 1;
        if self.shedding.sheds(packet, self.link, &mut self.finds.arrivals) {
            self.detector.shed();
            return;
        }
        let now_ns = self.times.of(packet);
        let (arrival_ns, frame) = (packet.arrival_ns, (packet.data, self.link));
        let mut telling = Telling { finds: &mut self.finds, outbox: Some(outbox), arrival_ns, frame };
        if packet.checksum_pending {
            self.detector.packet_unchecked(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        } else {
            self.detector.packet(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        }
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        if self.times.goes_on() {
            let frame = (&[][..], self.link);
            let mut telling = Telling { finds: &mut self.finds, outbox: Some(outbox), arrival_ns: 0, frame };
            self.detector.expire(self.times.last_ns, &mut telling);
        }
        self.in_cycle = false;
        self.shedding.rest();
        self.finds.arrivals.ring_is_empty();
        self.programs.swap(&mut self.detector, &mut self.shedding);
        self.count();
    }
}
