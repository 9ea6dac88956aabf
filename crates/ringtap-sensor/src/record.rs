//! Owns: what leaves the data path: records of fixed size, copied from what the detector lends.
//! Does not: hold texts; they are in the [`Catalogue`](crate::Catalogue), by rule.

use std::net::IpAddr;

use ringtap_detect::{Alert, Counters, Decoded, Event, FlowEnd, FlowView, Origin, Tagger, TcpState};

/// A rule, as records name it: generator, signature, revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleKey {
    /// Generator identifier.
    pub gid: u32,
    /// Signature identifier.
    pub sid: u32,
    /// Revision.
    pub rev: u32,
}

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
    /// Number of the alert in this run, from 1: a gap is an alert that was lost on its way.
    pub sequence: u64,
    /// Number of the packet in this run, from 1.
    pub packet: u64,
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
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
}

impl AlertRecord {
    /// Copies what the detector lends; `packet` is the packet's number, `sequence` the alert's.
    #[must_use]
    pub fn new(alert: &Alert<'_>, packet: u64, sequence: u64) -> Self {
        let meta = &alert.rule.meta;
        Self {
            sequence,
            packet,
            time_ns: alert.now_ns,
            rule: RuleKey { gid: meta.gid, sid: meta.sid, rev: meta.rev },
            severity: meta.priority,
            place: Place::of(alert.packet),
            flow: alert.flow.as_ref().map(FlowFacts::of),
            to_server: alert.to_server,
            origin: alert.origin,
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
    /// It had alerts.
    pub alerted: bool,
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
            alerted: flow.alerts() > 0,
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

/// Bytes that are kept of a tagged packet: headers and the beginning of what they carry.
pub const TAGGED_BYTES: usize = 256;

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
    /// As many of `bytes` are of the packet.
    pub len: u16,
    /// From the link-layer header on.
    pub bytes: [u8; TAGGED_BYTES],
}

impl TaggedRecord {
    /// Copies what the detector lends, and of the frame what there is room for.
    #[must_use]
    pub fn new(
        (packet, flow, by): (&Decoded<'_>, Option<&FlowView<'_>>, Tagger),
        (frame, link): (&[u8], u32),
        number: u64,
        time_ns: u64,
    ) -> Self {
        let len = frame.len().min(TAGGED_BYTES);
        let mut bytes = [0; TAGGED_BYTES];
        bytes[..len].copy_from_slice(&frame[..len]);
        Self {
            rule: RuleKey { gid: by.gid, sid: by.sid, rev: by.rev },
            packet: number,
            time_ns,
            place: Place::of(packet),
            flow: flow.map(FlowView::id),
            link,
            wire_len: packet.wire_len,
            len: len as u16,
            bytes,
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
    /// An engine's counters.
    Statistics(Counters),
}
