//! Owns: the way of what a detector finds: numbers, datagrams into the transmit ring, records into the queue, on the engine's thread.
//! Does not: allocate, lock or format; the output thread makes text of records. Calls the kernel in [`Finds::wake`] alone.

use std::sync::Arc;

use ringtap::arrival::ArrivalClock;
use ringtap::clock;
use ringtap::histogram::Histogram;
use ringtap_detect::{Alert, Decoded, Event, FileView, FlowEnd, FlowView, Sink, Tagger, Transaction, Whole};
use ringtap_output::Producer;
use ringtap_wire::LinkType;

use crate::alarms::Sender;
use crate::numbers::{HostClock, Numbers};
use crate::options::{self, OutputOptions, WithAlerts};
use crate::pcap_log::AlertedPackets;
use crate::record::{
    AlertRecord, AnomalyRecord, FlowRecord, FrameFacts, PayloadFacts, Record, TaggedRecord, TransactionRecord,
};

/// Which records the outputs take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) alerts: bool,
    pub(crate) flows: bool,
    pub(crate) anomalies: bool,
    pub(crate) packets: bool,
    pub(crate) stats: bool,
    /// Transactions of protocols, and files in them.
    pub(crate) transactions: Transactions,
    /// Alerts' payloads, and their packets.
    pub(crate) payloads: bool,
    pub(crate) frames: bool,
}

/// Of which protocols transactions are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transactions {
    pub(crate) http: bool,
    pub(crate) dns: bool,
    pub(crate) tls: bool,
    pub(crate) ssh: bool,
    pub(crate) smtp: bool,
    pub(crate) ftp: bool,
    pub(crate) ftp_data: bool,
    pub(crate) files: bool,
}

impl Transactions {
    fn has(self, app: &str) -> bool {
        match app {
            // Its files are told with its transactions.
            "http" => self.http || self.files,
            "dns" => self.dns,
            "tls" => self.tls,
            "ssh" => self.ssh,
            "smtp" => self.smtp,
            "ftp" => self.ftp,
            "ftp-data" => self.ftp_data,
            _ => false,
        }
    }
}

/// Bytes of an alert's payload that are kept: the last ones, as a match ends in what is new. Suricata keeps as many.
const PAYLOAD_BYTES: usize = 4096;
/// Bytes of a tagged packet that are kept: headers and the beginning of what they carry.
const TAGGED_BYTES: usize = 256;

impl Wanted {
    /// Anything but alerts and statistics.
    pub(crate) fn logs(self) -> bool {
        self.flows || self.anomalies || self.packets || self.transactions != Transactions::default()
    }

    /// What these outputs take: alerts for syslog, SNMP and a correlator too, whatever events are written; `others`: alerts are wanted
    /// for what is no line (SNMP, datagrams by the plain socket, a correlator in this process).
    pub(crate) fn by(outputs: &OutputOptions, others: bool) -> Self {
        let takes_alarms = others || outputs.alarms.has_lines();
        let writes = |event| outputs.wants(event) && outputs.has_lines();
        Self {
            alerts: writes(options::Event::Alert) || outputs.syslog.is_some() || takes_alarms,
            flows: writes(options::Event::Flow) || writes(options::Event::Netflow),
            anomalies: writes(options::Event::Anomaly),
            packets: writes(options::Event::Packet),
            stats: outputs.wants(options::Event::Stats),
            transactions: Transactions {
                http: writes(options::Event::Http),
                dns: writes(options::Event::Dns),
                tls: writes(options::Event::Tls),
                ssh: writes(options::Event::Ssh),
                smtp: writes(options::Event::Smtp),
                ftp: writes(options::Event::Ftp),
                ftp_data: writes(options::Event::FtpData),
                files: writes(options::Event::Fileinfo),
            },
            payloads: outputs.has_with_alerts(WithAlerts::Payload)
                || outputs.has_with_alerts(WithAlerts::PayloadPrintable),
            frames: outputs.has_with_alerts(WithAlerts::Packet),
        }
    }
}

/// Where finds go.
pub(crate) struct Finds {
    /// For alerts and statistics.
    pub(crate) alerts: Producer<Record>,
    /// For all else: it may be full, and keeps nothing of the others out.
    pub(crate) logs: Producer<Record>,
    /// Wait for room in the queue: for files, and at the end, when no packet waits any more.
    pub(crate) waits: bool,
    pub(crate) wanted: Wanted,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) clock: Arc<HostClock>,
    /// Packets come now, and were not recorded.
    pub(crate) is_live: bool,
    /// Datagrams of alerts leave by this.
    pub(crate) sender: Option<Sender>,
    /// From a packet's arrival to its alert in the transmit ring or the queue.
    pub(crate) latency: Arc<Histogram>,
    pub(crate) arrivals: ArrivalClock,
    /// Alerts of packets that had come before the engine looked; not among the latencies.
    pub(crate) of_backlog: u64,
    /// Number of the packet at hand.
    pub(crate) packet: u64,
    /// Its flow's packets go into a capture file, if there are alerts of it.
    pub(crate) pcap_log: Option<AlertedPackets>,
    /// Records made for the queue.
    pub(crate) made: u64,
    /// Alerts whose transaction, payload and packet found no room, and that are told without.
    pub(crate) bare: u64,
}

impl Finds {
    /// Puts a record and the bytes that go with it into its queue; whether there was room. (Where that is waited for there is.)
    pub(crate) fn put(&mut self, record: Record, parts: &[&[u8]]) -> bool {
        self.made += 1;
        let queue = match record {
            Record::Alert(_) | Record::Statistics(_) => &mut self.alerts,
            _ => &mut self.logs,
        };
        if self.waits {
            queue.push_waiting(record, parts);
            true
        } else {
            // What does not fit is counted by the queue.
            queue.push(record, parts)
        }
    }

    /// Puts an alert and what goes with it into the queue; the alert alone where the rest finds no room.
    fn put_alert(&mut self, mut record: AlertRecord, parts: &[&[u8]]) {
        if self.waits || self.alerts.has_room_for(parts.iter().map(|part| part.len()).sum()) {
            self.put(Record::Alert(record), parts);
        } else {
            (record.said, record.payload, record.frame) = (None, None, None);
            self.bare += u64::from(self.put(Record::Alert(record), &[]));
        }
    }

    /// Wakes the threads that write, if there is something for them.
    pub(crate) fn wake(&mut self) {
        self.alerts.wake();
        self.logs.wake();
        if let Some(log) = &mut self.pcap_log {
            log.wake();
        }
    }
}

/// Finds of one packet.
pub(crate) struct Telling<'a> {
    pub(crate) finds: &'a mut Finds,
    pub(crate) arrival_ns: u64,
    /// The packet at hand from its link-layer header on, and that header's type.
    pub(crate) frame: (&'a [u8], LinkType),
}

impl Sink for Telling<'_> {
    fn part_of(&mut self, whole: Whole) {
        if let Some(log) = &mut self.finds.pcap_log {
            log.part_of(whole);
        }
    }

    fn alert(&mut self, alert: &Alert<'_>) {
        let finds = &mut *self.finds;
        if let Some(log) = &mut finds.pcap_log {
            log.alert(alert);
        }
        let latency_ns = finds.arrivals.waited_ns(self.arrival_ns);
        let built_ns = clock::realtime_ns();
        // A stamp of before the clock was set back would be in the future.
        let time_ns = if finds.is_live { alert.now_ns.min(built_ns) } else { alert.now_ns };
        let error_ns = finds.clock.error_ns().filter(|_| finds.is_live);
        let numbers = finds.numbers.next(time_ns);
        let mut record = AlertRecord::new(alert, finds.packet, numbers, (time_ns, built_ns, error_ns));
        if let Some(sender) = &mut finds.sender {
            sender.alert(&record);
        }
        if let Some(latency_ns) = latency_ns {
            // The engine was not there when these came: how long they waited says nothing of it.
            if finds.arrivals.is_backlog(self.arrival_ns) {
                finds.of_backlog += 1;
            } else {
                finds.latency.record(latency_ns);
            }
        }
        if finds.wanted.alerts {
            let said = alert.transaction.map_or([&[][..]; 2], |transaction| transaction.said);
            let is_stream = alert.in_stream && !alert.stream.is_empty();
            let found_in = if is_stream { alert.stream } else { alert.packet.payload };
            let payload = &found_in[found_in.len().saturating_sub(PAYLOAD_BYTES)..];
            let payload = if finds.wanted.payloads { payload } else { &[] };
            record.payload = finds.wanted.payloads.then_some(PayloadFacts {
                is_stream,
                len: payload.len() as u32,
                of: found_in.len() as u32,
            });
            // Of what a flow's end brings there is none.
            let frame = if finds.wanted.frames { self.frame.0 } else { &[] };
            let link = self.frame.1.number();
            record.frame = (!frame.is_empty()).then_some(FrameFacts { link, len: frame.len() as u32 });
            finds.put_alert(record, &[said[0], said[1], payload, frame]);
        }
    }

    fn flow(&mut self, flow: &FlowView<'_>, end: FlowEnd) {
        if self.finds.wanted.flows {
            self.finds.put(Record::Flow(FlowRecord::new(flow, end)), &[]);
        }
    }

    fn tagged(&mut self, packet: &Decoded<'_>, flow: Option<&FlowView<'_>>, by: Tagger, now_ns: u64) {
        if self.finds.wanted.packets {
            let ((frame, link), number) = (self.frame, self.finds.packet);
            let record = TaggedRecord::new((packet, flow, by), link.number(), number, now_ns);
            self.finds.put(Record::Tagged(record), &[&frame[..frame.len().min(TAGGED_BYTES)]]);
        }
    }

    fn transaction(&mut self, transaction: &Transaction<'_>, flow: &FlowView<'_>, now_ns: u64) {
        if self.finds.wanted.transactions.has(transaction.app) {
            let record = TransactionRecord::new(transaction, None, flow, now_ns);
            self.finds.put(Record::Transaction(record), &transaction.said);
        }
    }

    fn file(&mut self, file: &FileView<'_>, of: &Transaction<'_>, flow: &FlowView<'_>, now_ns: u64) {
        if self.finds.wanted.transactions.files {
            let record = TransactionRecord::new(of, Some(file), flow, now_ns);
            self.finds.put(Record::Transaction(record), &[of.said[0], of.said[1], file.name]);
        }
    }

    fn anomaly(&mut self, event: Event, packet: &Decoded<'_>, now_ns: u64) {
        if self.finds.wanted.anomalies {
            let number = self.finds.packet;
            self.finds.put(Record::Anomaly(AnomalyRecord::new(event, packet, number, now_ns)), &[]);
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
