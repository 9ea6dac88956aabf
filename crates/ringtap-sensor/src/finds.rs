//! Owns: the way of what a detector finds: datagrams into the transmit ring, records into the queue, on the engine's thread.
//! Does not: allocate, lock, format or call the kernel; the output thread makes text of records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap::arrival::ArrivalClock;
use ringtap::histogram::Histogram;
use ringtap::transmit::Outbox;
use ringtap_detect::{Alert, Decoded, Event, FlowEnd, FlowView, Sink, Tagger};
use ringtap_output::Producer;
use ringtap_wire::{LinkType, UdpFrame};

use crate::datagram::{self, Datagram};
use crate::options::{self, OutputOptions};
use crate::record::{AlertRecord, AnomalyRecord, FlowRecord, Record, TaggedRecord};

/// Which records the outputs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) alerts: bool,
    pub(crate) flows: bool,
    pub(crate) anomalies: bool,
    pub(crate) packets: bool,
    pub(crate) stats: bool,
}

impl Wanted {
    /// What these outputs take: alerts for syslog and SNMP (`notifies`) too, whatever events are written.
    pub(crate) fn by(outputs: &OutputOptions, notifies: bool) -> Self {
        let writes = |event| outputs.wants(event) && outputs.has_lines();
        Self {
            alerts: writes(options::Event::Alert) || outputs.syslog.is_some() || notifies,
            flows: writes(options::Event::Flow),
            anomalies: writes(options::Event::Anomaly),
            packets: writes(options::Event::Packet),
            stats: outputs.wants(options::Event::Stats),
        }
    }
}

/// What alerts of all engines share.
#[derive(Clone, Default)]
pub(crate) struct Alerts {
    /// Frame around the datagrams, if they leave by the transmit ring.
    pub(crate) frame: Option<UdpFrame>,
    /// The last number given to an alert.
    pub(crate) sequence: Arc<AtomicU64>,
}

/// Where finds go.
pub(crate) struct Finds {
    pub(crate) queue: Producer<Record>,
    /// Wait for room in the queue: for files, and at the end, when no packet waits any more.
    pub(crate) waits: bool,
    pub(crate) wanted: Wanted,
    pub(crate) alerts: Alerts,
    /// From a packet's arrival to its alert in the transmit ring or the queue.
    pub(crate) latency: Arc<Histogram>,
    pub(crate) arrivals: ArrivalClock,
    /// Number of the packet at hand.
    pub(crate) packet: u64,
    /// Records made for the queue.
    pub(crate) made: u64,
}

impl Finds {
    pub(crate) fn put(&mut self, record: Record) {
        self.made += 1;
        if self.waits {
            self.queue.push_waiting(record);
        } else {
            // What does not fit is counted by the queue.
            self.queue.push(record);
        }
    }
}

/// Finds of one packet, with the way out through the transmit ring.
pub(crate) struct Telling<'a, 'o> {
    pub(crate) finds: &'a mut Finds,
    pub(crate) outbox: Option<&'a mut Outbox<'o>>,
    pub(crate) arrival_ns: u64,
    /// The packet at hand from its link-layer header on, and that header's type.
    pub(crate) frame: (&'a [u8], LinkType),
}

impl Sink for Telling<'_, '_> {
    fn alert(&mut self, alert: &Alert<'_>) {
        let finds = &mut *self.finds;
        let sequence = finds.alerts.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let record = AlertRecord::new(alert, finds.packet, sequence);
        let latency_ns = finds.arrivals.waited_ns(self.arrival_ns);
        if let (Some(frame), Some(outbox)) = (&finds.alerts.frame, &mut self.outbox) {
            let datagram = Datagram::of(&record, latency_ns);
            // No room in the ring is counted by the outbox; the gap in the sequence shows it to the receiver.
            outbox.send(|memory| {
                let at = frame.header_len();
                let Some(payload) = memory.get_mut(at..at + datagram::LEN) else { return 0 };
                datagram.write(payload);
                frame.finish(memory, datagram::LEN).unwrap_or(0)
            });
        }
        if let Some(latency_ns) = latency_ns {
            finds.latency.record(latency_ns);
        }
        if finds.wanted.alerts {
            finds.put(Record::Alert(record));
        }
    }

    fn flow(&mut self, flow: &FlowView<'_>, end: FlowEnd) {
        if self.finds.wanted.flows {
            self.finds.put(Record::Flow(FlowRecord::new(flow, end)));
        }
    }

    fn tagged(&mut self, packet: &Decoded<'_>, flow: Option<&FlowView<'_>>, by: Tagger, now_ns: u64) {
        if self.finds.wanted.packets {
            let ((frame, link), number) = (self.frame, self.finds.packet);
            let record = TaggedRecord::new((packet, flow, by), (frame, link.number()), number, now_ns);
            self.finds.put(Record::Tagged(record));
        }
    }

    fn anomaly(&mut self, event: Event, packet: &Decoded<'_>, now_ns: u64) {
        if self.finds.wanted.anomalies {
            let number = self.finds.packet;
            self.finds.put(Record::Anomaly(AnomalyRecord::new(event, packet, number, now_ns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Event::{Alert, Flow, Stats};

    #[test]
    fn who_wants_what() {
        let server = ringtap_output::LogServer::parse("udp:192.0.2.1:514").unwrap();
        let eve = Some("eve.json".into());
        let wanted = |eve, syslog, events: &[_], notifies| {
            let outputs = OutputOptions { eve, syslog, events: events.to_vec(), ..OutputOptions::default() };
            let wanted = Wanted::by(&outputs, notifies);
            (wanted.alerts, wanted.flows, wanted.stats)
        };
        assert_eq!(wanted(None, None, &[Alert, Flow, Stats], false), (false, false, true), "no output");
        assert_eq!(wanted(eve.clone(), None, &[Flow], false), (false, true, false));
        assert_eq!(wanted(eve.clone(), Some(server), &[Flow], false), (true, true, false), "syslog gets alerts anyway");
        assert_eq!(wanted(eve, None, &[Flow], true), (true, true, false), "notifications too");
        assert_eq!(wanted(None, Some(server), &[], false), (true, false, false));
    }
}
