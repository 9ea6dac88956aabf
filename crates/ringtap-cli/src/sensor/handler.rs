//! What the engine's thread does with each packet: the detector, and where its finds go: the transmit ring and the queue.
//!
//! Owns the innermost handler. No allocation, lock, format or system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::arrival::ArrivalClock;
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::histogram::Histogram;
use ringtap::source::StampClock;
use ringtap::sys::clock;
use ringtap::transmit::Outbox;
use ringtap_alarm::datagram::{self, Datagram};
use ringtap_alarm::output::Producer;
use ringtap_alarm::{Alarm, AnomalyRecord, FlowRecord, Record, TaggedRecord};
use ringtap_detect::{Alert, Decoded, Detector, Event, FlowEnd, FlowView, Precedence, Program, Sink, Spare, Tagger};
use ringtap_wire::{LinkType, UdpFrame};

use super::output::Item;

/// No statistics.
pub(super) const NEVER: u64 = u64::MAX;

/// A program on its way into or out of an engine, with what goes first.
pub(super) type Swap = (Arc<Program>, Spare, Option<Arc<Precedence>>);

/// When packets wait longer than they should, those that matter most go first.
pub(super) struct Shedding {
    /// Which.
    pub(super) precedence: Option<Arc<Precedence>>,
    /// Packets that waited longer begin the shedding; a quarter of it ends it. Nanoseconds.
    pub(super) limit_ns: u64,
    /// Packets until the clock is read again.
    pub(super) countdown: u32,
    /// Only packets that go first are looked at.
    pub(super) active: bool,
}

/// The clock is read for every so many packets.
const LOOK_EVERY: u32 = 16;

impl Shedding {
    /// Whether this packet is left out.
    #[inline]
    fn sheds(&mut self, packet: &Packet<'_>, link: LinkType, arrivals: &mut ArrivalClock) -> bool {
        let Some(precedence) = &self.precedence else { return false };
        if self.countdown == 0 {
            self.countdown = LOOK_EVERY;
            // A packet without a stamp says nothing.
            if let Some(waited_ns) = arrivals.waited_ns(packet.arrival_ns) {
                self.active = waited_ns > if self.active { self.limit_ns / 4 } else { self.limit_ns };
            }
        }
        self.countdown -= 1;
        self.active && !precedence.has(packet.data, link)
    }

    /// The ring is empty: nobody waits.
    fn rest(&mut self) {
        (self.active, self.countdown) = (false, 0);
    }
}

/// Which records are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) alerts: bool,
    pub(super) flows: bool,
    pub(super) anomalies: bool,
    pub(super) packets: bool,
}

/// Where finds go.
pub(super) struct Finds {
    pub(super) queue: Producer<Item>,
    /// Wait for room in the queue: for files, which can wait.
    pub(super) waits: bool,
    pub(super) wanted: Wanted,
    /// Frames of alarms, if they leave by the transmit ring.
    pub(super) frame: Option<UdpFrame>,
    /// Alarms of all engines, for their sequence numbers.
    pub(super) sequence: Arc<AtomicU64>,
    /// From a packet's arrival to its alarm in the transmit ring or the queue.
    pub(super) latency: Arc<Histogram>,
    pub(super) stamp_clock: StampClock,
    pub(super) arrivals: ArrivalClock,
    /// Number of the packet at hand.
    pub(super) packet: u64,
    /// Records and statistics made for the queue.
    pub(super) made: u64,
}

/// The handler of a sensor.
pub(super) struct Sensor {
    pub(super) detector: Detector,
    pub(super) link: LinkType,
    pub(super) finds: Finds,
    pub(super) shedding: Shedding,
    /// Added to arrival stamps to get the time since 1970, nanoseconds.
    pub(super) to_realtime_ns: i64,
    pub(super) last_ns: u64,
    pub(super) stats_every_ns: u64,
    pub(super) stats_at_ns: u64,
    /// Programs that come in, and old ones that go out to be dropped elsewhere.
    pub(super) swaps: Option<(rtrb::Consumer<Swap>, rtrb::Producer<Swap>)>,
    /// A cycle has begun: its packets meet the same rules.
    pub(super) in_cycle: bool,
}

/// Finds of one packet, with the way out through the transmit ring.
struct Telling<'a, 'o> {
    finds: &'a mut Finds,
    outbox: Option<&'a mut Outbox<'o>>,
    arrival_ns: u64,
    /// The packet at hand from its link-layer header on, and that header's type.
    frame: (&'a [u8], LinkType),
}

impl Finds {
    fn push(&mut self, record: Record) {
        self.put(Item::Record(record));
    }

    fn put(&mut self, item: Item) {
        self.made += 1;
        if self.waits {
            self.queue.push_waiting(item);
        } else {
            // What does not fit is counted by the queue.
            self.queue.push(item);
        }
    }
}

impl Sink for Telling<'_, '_> {
    fn alert(&mut self, alert: &Alert<'_>) {
        let finds = &mut *self.finds;
        let sequence = finds.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let alarm = Alarm::new(alert, finds.packet, sequence);
        let latency_ns = finds.arrivals.waited_ns(self.arrival_ns);
        if let (Some(frame), Some(outbox)) = (&finds.frame, &mut self.outbox) {
            let says = Datagram::of(&alarm, latency_ns);
            // No room in the ring is counted by the outbox; the gap in the sequence shows it to the receiver.
            outbox.send(|memory| {
                let at = frame.header_len();
                let Some(payload) = memory.get_mut(at..at + datagram::LEN) else { return 0 };
                says.write(payload);
                frame.finish(memory, datagram::LEN).unwrap_or(0)
            });
        }
        if let Some(latency_ns) = latency_ns {
            finds.latency.record(latency_ns);
        }
        if finds.wanted.alerts {
            finds.push(Record::Alarm(alarm));
        }
    }

    fn flow(&mut self, flow: &FlowView<'_>, end: FlowEnd) {
        if self.finds.wanted.flows {
            self.finds.push(Record::Flow(FlowRecord::new(flow, end)));
        }
    }

    fn tagged(&mut self, packet: &Decoded<'_>, flow: Option<&FlowView<'_>>, by: Tagger, now_ns: u64) {
        if self.finds.wanted.packets {
            let (frame, link) = self.frame;
            let number = self.finds.packet;
            self.finds.push(Record::Tagged(TaggedRecord::new(
                (packet, flow, by),
                (frame, link.number()),
                number,
                now_ns,
            )));
        }
    }

    fn anomaly(&mut self, event: Event, packet: &Decoded<'_>, now_ns: u64) {
        if self.finds.wanted.anomalies {
            let number = self.finds.packet;
            self.finds.push(Record::Anomaly(AnomalyRecord::new(event, packet, number, now_ns)));
        }
    }
}

impl Sensor {
    /// Uses the program that has come in, if one has.
    fn swap(&mut self) {
        if let Some((incoming, outgoing)) = &mut self.swaps
            && !outgoing.is_full()
            && let Ok((program, spare, precedence)) = incoming.pop()
        {
            let old = match self.detector.swap(program, spare) {
                Ok((program, spare)) => (program, spare, std::mem::replace(&mut self.shedding.precedence, precedence)),
                // Refused only when it names too many bits; whoever made it sees which one comes back.
                Err((program, spare)) => (program, spare, precedence),
            };
            drop(outgoing.push(old));
        }
    }

    fn stats(&mut self) {
        if self.last_ns >= self.stats_at_ns && self.stats_every_ns != NEVER {
            self.stats_at_ns = self.last_ns + self.stats_every_ns;
            let item = Item::Stats(self.detector.counters());
            self.finds.put(item);
        }
    }

    /// Ends all flows.
    pub(super) fn finish(&mut self) {
        let frame = (&[][..], self.link);
        let mut telling = Telling { finds: &mut self.finds, outbox: None, arrival_ns: 0, frame };
        self.detector.finish(self.last_ns, &mut telling);
        if self.stats_every_ns != NEVER {
            self.stats_at_ns = 0;
            self.stats();
        }
    }
}

impl Handler for Sensor {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        // An engine that slept since the last cycle has not looked for new rules meanwhile.
        if !std::mem::replace(&mut self.in_cycle, true) {
            self.swap();
        }
        self.finds.packet += 1;
        if self.shedding.sheds(packet, self.link, &mut self.finds.arrivals) {
            self.detector.shed();
            return;
        }
        let now_ns = match packet.arrival_ns {
            0 => clock::realtime_ns(),
            stamp => stamp.saturating_add_signed(self.to_realtime_ns),
        };
        self.last_ns = self.last_ns.max(now_ns);
        let (arrival_ns, frame) = (packet.arrival_ns, (packet.data, self.link));
        let mut telling = Telling { finds: &mut self.finds, outbox: Some(outbox), arrival_ns, frame };
        if packet.checksum_pending {
            self.detector.packet_unchecked(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        } else {
            self.detector.packet(packet.data, self.link, packet.wire_len, now_ns, &mut telling);
        }
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        if self.finds.stamp_clock != StampClock::Recorded {
            self.last_ns = self.last_ns.max(clock::realtime_ns());
            let frame = (&[][..], self.link);
            let mut telling = Telling { finds: &mut self.finds, outbox: Some(outbox), arrival_ns: 0, frame };
            self.detector.expire(self.last_ns, &mut telling);
        }
        self.in_cycle = false;
        self.shedding.rest();
        self.finds.arrivals.ring_is_empty();
        self.swap();
        self.stats();
    }
}
