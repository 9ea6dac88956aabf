//! What the engine's thread does with each packet: shed or inspect it, take new rules, count.
//!
//! Owns one queue's detector. No allocation, lock, format or system call, but to wake who writes records and to send datagrams of
//! alerts: each at the end of a cycle that had some, and in a long one after [`LONG`] packets.

use std::sync::Arc;
use std::time::Duration;

use ringtap::arrival::ArrivalClock;
use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::engine::Handler;
use ringtap::source::StampClock;
use ringtap::transmit::Outbox;
use ringtap_detect::Detector;
use ringtap_wire::LinkType;

use crate::account::CountsTo;
use crate::alarms::Sender;
use crate::finds::{Finds, Telling};
use crate::numbers::HostClock;
use crate::programs::Incoming;
use crate::record::Record;
use crate::shedding::Shedding;

/// Packets after which a cycle is long: who writes records is woken meanwhile.
const LONG: u64 = 256;
/// How long an engine without packets rests at most: rules come in, flows end and statistics are due meanwhile.
const IDLE_TURN: Duration = Duration::from_secs(1);

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
    host: Arc<HostClock>,
    last_ns: u64,
}

impl Times {
    pub(crate) fn new(stamps: StampClock, host: Arc<HostClock>) -> Self {
        Self { stamps, host, last_ns: 0 }
    }

    /// The time of a packet, nanoseconds since 1970.
    fn of(&mut self, packet: &Packet<'_>) -> u64 {
        let now_ns = match packet.arrival_ns {
            // A file's time may begin with 1970.
            0 if self.stamps != StampClock::Recorded => clock::realtime_ns(),
            stamp if self.stamps == StampClock::Monotonic => self.host.realtime_ns(stamp),
            stamp => stamp,
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
    counts: CountsTo,
    /// A cycle has begun: its packets meet the same rules.
    in_cycle: bool,
    /// The engine runs.
    has_begun: bool,
}

impl Inspector {
    pub(crate) fn new(
        detector: Detector,
        link: LinkType,
        finds: Finds,
        shedding: Shedding,
        times: Times,
        statistics: Statistics,
        (programs, counts): (Incoming, CountsTo),
    ) -> Self {
        let statistics_at_ns = match statistics {
            Statistics::Every(interval_ns) => clock::realtime_ns() + interval_ns,
            Statistics::AtEnd | Statistics::Off => u64::MAX,
        };
        Self {
            detector,
            link,
            finds,
            shedding,
            times,
            statistics,
            statistics_at_ns,
            programs,
            counts,
            in_cycle: false,
            has_begun: false,
        }
    }

    /// With the engine's first look at its ring, also at an empty one: what came before was never promised a bound.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.finds.arrivals = ArrivalClock::new(self.times.stamps);
        }
    }

    fn count(&mut self) {
        self.counts.tell(self.times.last_ns, || self.detector.counters());
        if let Statistics::Every(interval_ns) = self.statistics
            && self.times.last_ns >= self.statistics_at_ns
        {
            self.statistics_at_ns = self.times.last_ns + interval_ns;
            self.finds.put(Record::Statistics(self.detector.counters()), &[]);
        }
    }

    /// Takes new rules, if there are any.
    fn swap(&mut self) {
        self.programs.swap(&mut self.detector, &mut self.shedding);
    }

    /// Hands datagrams to the device and records to the thread that writes, if there are any.
    fn kick(&mut self) {
        self.finds.wake();
        if let Some(sender) = &mut self.finds.sender {
            sender.kick();
        }
    }

    /// Ends all flows. No packet waits any more, so the queue is waited for: nothing found here is lost.
    pub(crate) fn finish(&mut self) {
        self.finds.waits = true;
        // They end now, also those of a device that ended long ago.
        self.times.goes_on();
        let frame = (&[][..], self.link);
        let mut telling = Telling { finds: &mut self.finds, arrival_ns: 0, frame };
        self.detector.finish(self.times.last_ns, &mut telling);
        self.kick();
        if self.statistics != Statistics::Off {
            self.finds.put(Record::Statistics(self.detector.counters()), &[]);
        }
    }
}

impl Handler for Inspector {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.begin();
        // An engine that slept since the last cycle has not looked for new rules meanwhile.
        if !std::mem::replace(&mut self.in_cycle, true) {
            self.swap();
        }
        self.finds.packet += 1;
        if self.finds.packet.is_multiple_of(LONG) {
            self.finds.wake();
        }
        if let Some(sender) = &mut self.finds.sender {
            sender.packet();
        }
        if self.counts.packet(self.finds.packet) {
            self.counts.tell(self.times.last_ns, || self.detector.counters());
        }
        if self.shedding.sheds(packet, self.link, &mut self.finds.arrivals) {
            let frame = (&[][..], self.link);
            let mut telling = Telling { finds: &mut self.finds, arrival_ns: 0, frame };
            self.detector.shed(self.times.last_ns, &mut telling);
            return;
        }
        let now_ns = self.times.of(packet);
        let (arrival_ns, frame) = (packet.arrival_ns, (packet.data, self.link));
        let mut telling = Telling { finds: &mut self.finds, arrival_ns, frame };
        if packet.checksum_pending {
            self.detector.packet_unchecked(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        } else {
            self.detector.packet(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        }
        if let Some(log) = &mut self.finds.pcap_log {
            log.packet(packet.data, packet.wire_len, now_ns);
        }
    }

    /// Rules, statistics and the ends of flows go on while other engines hand packets over.
    fn retired(&mut self, outbox: &mut Outbox<'_>) {
        self.cycle_end(outbox);
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.begin();
        if self.times.goes_on() {
            let frame = (&[][..], self.link);
            let mut telling = Telling { finds: &mut self.finds, arrival_ns: 0, frame };
            self.detector.expire(self.times.last_ns, &mut telling);
        }
        self.in_cycle = false;
        self.shedding.rest();
        self.finds.arrivals.ring_is_empty();
        self.swap();
        self.count();
        if let Some(log) = &mut self.finds.pcap_log {
            log.turn(self.times.last_ns);
        }
        self.kick();
    }

    fn next_turn(&self) -> Option<Duration> {
        // A file's end finishes what waits.
        if self.detector.is_behind() && self.times.stamps != StampClock::Recorded {
            return Some(Duration::ZERO);
        }
        let retry = self.finds.sender.as_ref().and_then(Sender::retry);
        let tells = self.counts.next_turn();
        let logs = self.finds.pcap_log.as_ref().and_then(|log| log.next_turn(self.times.last_ns));
        let idle = (self.times.stamps != StampClock::Recorded).then_some(IDLE_TURN);
        [retry, tells, logs, idle].into_iter().flatten().min()
    }
}
