//! Owns: what leaves the data path: records of fixed size, copied from what the detector lends, and how they describe the bytes that go
//! with them.
//! Does not: hold texts of rules; they are in the [`Catalogue`](crate::Catalogue).

use std::net::IpAddr;

use ringtap_datagram::Heartbeat;
use ringtap_detect::{
    Alert, Content, Counters, Decoded, Event, FileView, FlowEnd, FlowView, Origin, Outer, Tagger, TcpState, Transaction,
};

pub use ringtap_datagram::Rule as RuleKey;

/// Addresses and what goes with them.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// Ports, 0 where there are none.
    pub ports: (u16, u16),
    /// IP protocol; 0 without IP.
    pub protocol: u8,
    /// Type and code of an ICMP message.
    pub icmp: Option<(u8, u8)>,
    /// VLAN identifiers, 0 for none.
    pub vlan: [u16; 2],
    /// There is an IP header.
    pub has_ip: bool,
}

impl Place {
    fn of(packet: &Decoded<'_>) -> Self {
        Self {
            source: packet.source,
            destination: packet.destination,
            ports: packet.ports,
            protocol: packet.protocol,
            icmp: packet.icmp(),
            vlan: packet.vlan,
            has_ip: packet.protocol != 0 || packet.ip.is_some(),
        }
    }
}

/// A flow, as far as records tell.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// Number in this run.
    pub id: u64,
    /// Client.
    pub client: (IpAddr, u16),
    /// Server.
    pub server: (IpAddr, u16),
    /// Packets of client and server.
    pub packets: [u64; 2],
    /// Bytes of client and server.
    pub bytes: [u64; 2],
    /// First packet, nanoseconds since 1970.
    pub first_ns: u64,
    /// Last packet.
    pub last_ns: u64,
    /// Application protocol.
    pub app: Option<&'static str>,
}

impl FlowFacts {
    fn of(flow: &FlowView<'_>) -> Self {
        let (first_ns, last_ns) = flow.times_ns();
        Self {
            id: flow.id(),
            client: flow.client(),
            server: flow.server(),
            packets: flow.packets(),
            bytes: flow.bytes(),
            first_ns,
            last_ns,
            app: flow.app(),
        }
    }
}

/// An alert: a rule matched.
#[derive(Clone, Copy, Debug)]
pub struct AlertRecord {
    /// Greater at each start, and whenever the clock was set.
    pub epoch: u64,
    /// Number of the alert in the epoch, from 1: a gap is an alert that was lost on its way.
    pub sequence: u64,
    /// Number of the packet in this run, from 1.
    pub packet: u64,
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// Time of the alert, nanoseconds since 1970.
    pub built_ns: u64,
    /// Greatest error of the clock of both, nanoseconds; `None`: unknown.
    pub error_ns: Option<u64>,
    /// The rule.
    pub rule: RuleKey,
    /// Its priority, 1 the worst.
    pub severity: u8,
    /// Where.
    pub place: Place,
    /// The flow.
    pub flow: Option<FlowFacts>,
    /// From client to server.
    pub to_server: bool,
    /// Where the bytes come from.
    pub origin: Origin,
    /// The packet around it, where it was in a tunnel, and how many headers are around it.
    pub tunnel: Option<(Outer, u8)>,
    /// Name of the file that the message brings, and whether it is there to its end.
    pub file: Option<(FileName, bool)>,
    /// The command of FTP that moves it.
    pub ftp_command: Option<[u8; 4]>,
    /// The transaction that it belongs to.
    pub said: Option<Said>,
    /// What it was found in, where that is wanted: behind what was said.
    pub payload: Option<PayloadFacts>,
    /// The packet, where that is wanted: behind the payload.
    pub frame: Option<FrameFacts>,
}

/// What an alert was found in.
#[derive(Clone, Copy, Debug)]
pub struct PayloadFacts {
    /// They are a stream's bytes, and not a packet's payload.
    pub is_stream: bool,
    /// Bytes that go with the record, the last ones.
    pub len: u32,
    /// Bytes there were.
    pub of: u32,
}

/// A packet from its link-layer header on.
#[derive(Clone, Copy, Debug)]
pub struct FrameFacts {
    /// `LINKTYPE_…` number.
    pub link: u32,
    /// Bytes.
    pub len: u32,
}

/// The parts of an alert's bytes.
pub(crate) struct AlertBytes<'b> {
    pub(crate) transaction: Option<Transaction<'b>>,
    pub(crate) payload: &'b [u8],
    pub(crate) frame: &'b [u8],
}

/// The end of a file's name.
#[derive(Clone, Copy, Debug)]
pub struct FileName {
    bytes: [u8; FILE_NAME_BYTES],
    len: u8,
}

/// Bytes of a file's name that are kept.
const FILE_NAME_BYTES: usize = 128;

impl FileName {
    fn new(name: &[u8]) -> Self {
        let (mut bytes, name) = ([0; FILE_NAME_BYTES], &name[name.len().saturating_sub(FILE_NAME_BYTES)..]);
        bytes[..name.len()].copy_from_slice(name);
        Self { bytes, len: name.len() as u8 }
    }

    /// The name.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AlertRecord {
    /// Takes the bytes apart that were pushed with the record.
    pub(crate) fn parts<'b>(&self, bytes: &'b [u8]) -> AlertBytes<'b> {
        let (transaction, rest) = match &self.said {
            Some(said) => {
                let (transaction, rest) = said.transaction(bytes);
                (Some(transaction), rest)
            }
            None => (None, bytes),
        };
        let lens = [self.payload.map_or(0, |payload| payload.len), self.frame.map_or(0, |frame| frame.len)];
        let ([payload, frame], _) = cut(rest, lens);
        AlertBytes { transaction, payload, frame }
    }

    /// Copies what the detector lends; `packet` is the packet's number, the alert's are `epoch` and `sequence`, its times the packet's,
    /// its own, and their error. To be pushed with what was said in its transaction, its payload and the packet.
    #[must_use]
    pub fn new(
        alert: &Alert<'_>,
        packet: u64,
        (epoch, sequence): (u64, u64),
        (time_ns, built_ns, error_ns): (u64, u64, Option<u64>),
    ) -> Self {
        let meta = &alert.rule.meta;
        Self {
            epoch,
            sequence,
            packet,
            time_ns,
            built_ns,
            error_ns,
            rule: RuleKey { gid: meta.gid, sid: meta.sid, rev: meta.rev },
            severity: meta.priority,
            place: Place::of(alert.packet),
            flow: alert.flow.as_ref().map(FlowFacts::of),
            to_server: alert.to_server,
            origin: alert.origin,
            tunnel: alert.packet.tunnel.map(|outer| (outer, alert.packet.level)),
            file: alert.file.map(|file| (FileName::new(file.name), file.is_whole)),
            ftp_command: alert.file.and_then(|file| file.command?.try_into().ok()),
            said: alert.transaction.as_ref().map(Said::of),
            payload: None,
            frame: None,
        }
    }
}

/// A flow that ended.
#[derive(Clone, Copy, Debug)]
pub struct FlowRecord {
    /// The flow.
    pub flow: FlowFacts,
    /// IP protocol.
    pub protocol: u8,
    /// VLAN identifiers.
    pub vlan: [u16; 2],
    /// Both sides were seen.
    pub established: bool,
    /// Why it ended.
    pub end: FlowEnd,
    /// TCP flags of client and server, and how far the session was.
    pub tcp: Option<([u8; 2], TcpState)>,
    /// Of TCP: not all of its handshake was seen; one side alone was seen.
    pub unseen: (bool, bool),
    /// It had alerts.
    pub alerted: bool,
    /// Least and greatest time to live (of IPv6: hop limit) of client and server.
    pub hop_limits: [(u8, u8); 2],
}

impl FlowRecord {
    /// Copies what the detector lends.
    #[must_use]
    pub fn new(flow: &FlowView<'_>, end: FlowEnd) -> Self {
        let protocol = flow.protocol();
        Self {
            flow: FlowFacts::of(flow),
            protocol,
            vlan: flow.vlan(),
            established: flow.is_established(),
            end,
            tcp: (protocol == 6).then(|| (flow.tcp_flags(), flow.tcp_state())),
            unseen: (flow.lacks_handshake(), flow.is_one_sided()),
            alerted: flow.alerts() > 0,
            hop_limits: flow.hop_limits(),
        }
    }
}

/// Something wrong with a packet.
#[derive(Clone, Copy, Debug)]
pub struct AnomalyRecord {
    /// What.
    pub event: Event,
    /// Number of the packet in this run, from 1.
    pub packet: u64,
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// Where.
    pub place: Place,
}

impl AnomalyRecord {
    /// Copies what the detector lends.
    #[must_use]
    pub fn new(event: Event, packet: &Decoded<'_>, number: u64, time_ns: u64) -> Self {
        Self { event, packet: number, time_ns, place: Place::of(packet) }
    }
}

/// A packet of a session or host that a rule has tagged before.
#[derive(Clone, Copy, Debug)]
pub struct TaggedRecord {
    /// The rule that set the tag.
    pub rule: RuleKey,
    /// Number of the packet in this run, from 1.
    pub packet: u64,
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// Where.
    pub place: Place,
    /// Number of the flow in this run.
    pub flow: Option<u64>,
    /// `LINKTYPE_…` number of its bytes.
    pub link: u32,
    /// Length on the wire.
    pub wire_len: u32,
}

impl TaggedRecord {
    /// Copies what the detector lends; to be pushed with the packet, from its link-layer header on.
    #[must_use]
    pub fn new(
        (packet, flow, by): (&Decoded<'_>, Option<&FlowView<'_>>, Tagger),
        link: u32,
        number: u64,
        time_ns: u64,
    ) -> Self {
        Self {
            rule: RuleKey { gid: by.gid, sid: by.sid, rev: by.rev },
            packet: number,
            time_ns,
            place: Place::of(packet),
            flow: flow.map(FlowView::id),
            link,
            wire_len: packet.wire_len,
        }
    }
}

/// What two sides said in a transaction: the bytes are behind the record.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Name of the protocol.
    pub app: &'static str,
    /// Number in its flow, from 0.
    pub id: u32,
    /// Bytes of client and server.
    pub lens: [u32; 2],
    /// HTTP: the contents of request and response.
    pub contents: [Content; 2],
}

impl Said {
    fn of(transaction: &Transaction<'_>) -> Self {
        let &Transaction { app, id, said, contents } = transaction;
        Self { app, id, lens: said.map(|bytes| bytes.len() as u32), contents }
    }

    /// The transaction again, and the bytes behind it.
    #[must_use]
    pub fn transaction<'b>(&self, bytes: &'b [u8]) -> (Transaction<'b>, &'b [u8]) {
        let ([client, server], rest) = cut(bytes, self.lens);
        (Transaction { app: self.app, id: self.id, said: [client, server], contents: self.contents }, rest)
    }
}

/// Parts of these lengths, one behind the other, and the rest.
fn cut<const COUNT: usize>(mut bytes: &[u8], lens: [u32; COUNT]) -> ([&[u8]; COUNT], &[u8]) {
    let parts = lens.map(|len| {
        let (part, rest) = bytes.split_at(bytes.len().min(len as usize));
        bytes = rest;
        part
    });
    (parts, bytes)
}

/// A transaction that is over, or a file in one.
#[derive(Clone, Copy, Debug)]
pub struct TransactionRecord {
    /// What was said.
    pub said: Said,
    /// Time, nanoseconds since 1970.
    pub time_ns: u64,
    /// The flow.
    pub flow: FlowFacts,
    /// IP protocol.
    pub protocol: u8,
    /// VLAN identifiers.
    pub vlan: [u16; 2],
    /// It is this file that the record is about: whether it was there to its end, and its bytes. Its name is behind what was said.
    pub file: Option<(bool, u64)>,
}

impl TransactionRecord {
    /// Copies what the detector lends; to be pushed with what was said, and the file's name.
    #[must_use]
    pub fn new(transaction: &Transaction<'_>, file: Option<&FileView<'_>>, flow: &FlowView<'_>, time_ns: u64) -> Self {
        Self {
            said: Said::of(transaction),
            time_ns,
            flow: FlowFacts::of(flow),
            protocol: flow.protocol(),
            vlan: flow.vlan(),
            file: file.map(|file| (file.is_whole, file.size)),
        }
    }
}

/// What goes through the queue.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// An alert.
    Alert(AlertRecord),
    /// A flow.
    Flow(FlowRecord),
    /// An anomaly.
    Anomaly(AnomalyRecord),
    /// A tagged packet.
    Tagged(TaggedRecord),
    /// A transaction, or a file in one.
    Transaction(TransactionRecord),
    /// An engine's counters.
    Statistics(Counters),
    /// How far all engines are.
    Heartbeat(Heartbeat),
}
