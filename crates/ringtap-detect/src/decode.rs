//! Owns: what rules see of one packet at one level of encapsulation: addresses, transport, payload, and decode events.
//! Does not: find offsets (`ringtap-wire` does), reassemble or track.

mod extensions;

use std::net::{IpAddr, Ipv4Addr};

use ringtap_wire::{
    Direction, FlowKey, Header, Icmpv4, Icmpv6, Ip, IpSpan, Layers, Sctp, Stop, Tcp, TcpOption, Transport as Kind, Udp,
    checksum::{Verdict, internet},
    protocol,
};

use crate::defrag::Fragment;
use crate::event::{Event, EventSet};
use crate::rules::rule::Version;

/// The transport header, if there is one that could be read.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// None, or one that is not known.
    None,
    /// TCP.
    Tcp(Tcp<'a>),
    /// UDP.
    Udp(Udp<'a>),
    /// ICMP for IPv4.
    Icmpv4(Icmpv4<'a>),
    /// ICMP for IPv6.
    Icmpv6(Icmpv6<'a>),
    /// SCTP.
    Sctp(Sctp<'a>),
}

/// One packet at one level of encapsulation.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// What is wrong with it.
    pub events: EventSet,
    /// IP header.
    pub ip: Option<Ip<'a>>,
    /// Source address; unspecified without IP.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol behind IP and its extensions; 0 without IP.
    pub protocol: u8,
    /// IP header with options or extensions.
    pub ip_header: &'a [u8],
    /// Transport header.
    pub transport: Transport<'a>,
    /// Source and destination port, 0 where there are none.
    pub ports: (u16, u16),
    /// From the transport header to the packet's end.
    pub transport_bytes: &'a [u8],
    /// What the transport carries.
    pub payload: &'a [u8],
    /// VLAN identifiers, the outer one first; 0 for none.
    pub vlan: [u16; 2],
    /// Flow and direction; `None` for what makes no flow.
    pub flow: Option<(FlowKey, Direction)>,
    /// IP headers around it: 0 outside of tunnels.
    pub level: u8,
    /// The packet around it, of all the outermost, where it was in a tunnel.
    pub tunnel: Option<Outer>,
    /// It is a fragment.
    pub(crate) fragment: Option<Fragment<'a>>,
    /// It was put together from fragments.
    pub rebuilt: bool,
    /// The checksum of TCP or of IPv4 around it is wrong; of other transports it is not asked for, as no stream depends on it.
    pub bad_checksum: bool,
    /// The checksum of TCP was looked at.
    pub(crate) transport_is_checked: bool,
    /// Length on the wire in bytes, for the flow's counters.
    pub wire_len: u32,
}

/// The packet around a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// Ports, 0 where there are none.
    pub ports: (u16, u16),
    /// IP protocol.
    pub protocol: u8,
}

impl Outer {
    pub(crate) fn of(packet: &Decoded<'_>) -> Self {
        let &Decoded { source, destination, ports, protocol, .. } = packet;
        Self { source, destination, ports, protocol }
    }
}

/// IP protocol number.
const IGMP: u8 = 2;

/// Which of a packet's IP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Outer,
    Inner,
}

impl<'a> Decoded<'a> {
    /// Nothing.
    pub(crate) fn empty(wire_len: u32) -> Self {
        Self {
            events: EventSet::default(),
            ip: None,
            source: Ipv4Addr::UNSPECIFIED.into(),
            destination: Ipv4Addr::UNSPECIFIED.into(),
            protocol: 0,
            ip_header: &[],
            transport: Transport::None,
            ports: (0, 0),
            transport_bytes: &[],
            payload: &[],
            vlan: [0; 2],
            flow: None,
            level: 0,
            tunnel: None,
            fragment: None,
            rebuilt: false,
            bad_checksum: false,
            transport_is_checked: false,
            wire_len,
        }
    }

    /// What stands for a packet of this TCP flow, where there are only a stream's bytes.
    pub(crate) fn of_flow(key: &FlowKey, level: u8, forward: bool, wire_len: u32) -> Self {
        let (addresses, ports) = (key.addresses(), key.ports());
        let ((source, destination), ports) =
            if forward { (addresses, ports) } else { ((addresses.1, addresses.0), (ports.1, ports.0)) };
        Self { source, destination, ports, protocol: key.protocol(), vlan: key.vlan(), level, ..Self::empty(wire_len) }
    }

    /// Reads one level of a packet into what is empty yet: where it stands, as it is too large to be moved for each packet.
    pub(crate) fn read(&mut self, layers: &Layers, data: &'a [u8], which: Level, level: u8, checksums: bool) {
        self.level = level;
        self.vlan = layers.vlan_ids(data);
        let innermost = which == Level::Inner || layers.ip_count() <= 1;
        if innermost {
            self.stop_events(layers, data);
        }
        let span = if which == Level::Outer { layers.outer_ip() } else { layers.inner_ip() };
        let Some(span) = span else { return };
        let Some(ip) = span.view(data) else { return };
        self.ip = Some(ip);
        (self.source, self.destination) = (ip.source(), ip.destination());
        self.protocol = span.protocol();
        self.ip_header = data.get(span.at()..span.payload_at()).unwrap_or_default();
        match ip {
            Ip::V4(header) => {
                if header.options().any(|option| option.is_err()) {
                    self.events.add(Event::Ipv4OptionInvalid);
                }
                // A merged packet of unknown length has a sum over another length.
                let summed = checksums && !self.rebuilt && !span.is_length_unknown();
                if summed && internet(header.header()) != 0 {
                    self.events.add(Event::Ipv4BadChecksum);
                    self.bad_checksum = true;
                }
                if header.is_fragment() && span.missing() == 0 && !self.bad_checksum {
                    self.fragment = Some(Fragment {
                        source: self.source,
                        destination: self.destination,
                        protocol: header.protocol(),
                        identification: header.identification().into(),
                        vlan: self.vlan,
                        level,
                        offset: header.fragment_offset(),
                        more: header.more_fragments(),
                        payload: data.get(span.at() + header.header_len()..span.end()).unwrap_or_default(),
                    });
                }
            }
            Ip::V6(_) => self.extensions(data, span),
        }
        if span.missing() > 0 {
            // What is there of the transport is not to be trusted: no host takes such a packet.
            self.events.add(if ip.version() == ringtap_wire::IpVersion::V4 {
                Event::Ipv4Truncated
            } else {
                Event::Ipv6Truncated
            });
            return;
        }
        if self.fragment.is_some() || span.is_fragment() {
            return;
        }
        if span.protocol() == IGMP && matches!(ip, Ip::V4(_)) {
            self.igmp(data.get(span.payload_at()..span.end()).unwrap_or_default());
        }
        if innermost {
            self.innermost(layers, data, checksums);
        } else {
            self.outer(layers, data, span);
        }
    }

    /// Lengths of the messages of IGMP (RFC 1112, RFC 2236 §2, RFC 3376 §4).
    fn igmp(&mut self, message: &[u8]) {
        const LEN: usize = 8;
        const QUERY: u8 = 0x11;
        const QUERY_3_LEN: usize = 12;
        const REPORT_3: u8 = 0x22;
        let event = match (message.len(), message.first()) {
            (..LEN, _) => Event::IgmpTooSmall,
            (LEN, _) | (_, Some(&REPORT_3)) => return,
            (len, Some(&QUERY)) if len < QUERY_3_LEN => Event::Igmp3TooSmall,
            (_, Some(&QUERY)) => return,
            // The others have one length.
            (_, Some(0x12 | 0x16 | 0x17)) => Event::IgmpMalformed,
            _ => return,
        };
        self.events.add(event);
    }

    /// The transport of the innermost packet, which the parser has found.
    fn innermost(&mut self, layers: &Layers, data: &'a [u8], checksums: bool) {
        self.transport = match layers.transport().map(|(kind, _)| kind) {
            Some(Kind::Tcp) => layers.tcp(data).map_or(Transport::None, Transport::Tcp),
            Some(Kind::Udp) => layers.udp(data).map_or(Transport::None, Transport::Udp),
            Some(Kind::Icmpv4) => layers.icmpv4(data).map_or(Transport::None, Transport::Icmpv4),
            Some(Kind::Icmpv6) => layers.icmpv6(data).map_or(Transport::None, Transport::Icmpv6),
            Some(Kind::Sctp) => layers.sctp(data).map_or(Transport::None, Transport::Sctp),
            None => Transport::None,
        };
        if matches!(self.transport, Transport::None) {
            return;
        }
        self.ports = layers.ports(data).unwrap_or((0, 0));
        self.payload = layers.payload(data);
        let at = layers.transport().map_or(0, |(_, at)| at);
        self.transport_bytes = data.get(at..layers.payload_range().end).unwrap_or_default();
        self.flow = FlowKey::inner(layers, data);
        if let Transport::Tcp(tcp) = self.transport {
            self.tcp_options(&tcp);
            self.transport_is_checked = checksums;
            self.bad_checksum |= checksums && layers.verify_transport(data) == Verdict::Invalid;
        }
    }

    /// The transport around a tunnel: only UDP carries one.
    fn outer(&mut self, layers: &Layers, data: &'a [u8], span: &IpSpan) {
        if span.protocol() != protocol::UDP {
            return;
        }
        if let Ok(udp) = Udp::new(span.payload(data)) {
            self.transport = Transport::Udp(udp);
            self.ports = (udp.source_port(), udp.destination_port());
            self.payload = udp.payload();
            self.transport_bytes = span.payload(data);
            self.flow = FlowKey::outer(layers, data);
        }
    }

    /// Options whose form is given by their kind (RFC 9293, 7323, 2018).
    fn tcp_options(&mut self, tcp: &Tcp<'_>) {
        let mut seen = 0u32;
        for option in tcp.options() {
            let Ok(option) = option else {
                self.events.add(Event::TcpOptionInvalid);
                return;
            };
            let fits = match option.kind {
                2 => option.data.len() == 2,
                3 => option.data.len() == 1,
                4 => option.data.is_empty(),
                5 => option.data.is_empty() || (option.data.len() % 8 == 0 && option.data.len() <= 32),
                8 => option.data.len() == 8,
                _ => continue,
            };
            if !fits {
                self.events.add(Event::TcpOptionInvalid);
            } else if seen & 1 << option.kind != 0 {
                self.events.add(Event::TcpOptionDuplicate);
            }
            seen |= 1 << option.kind;
        }
    }

    /// Why the parser stopped, as events.
    fn stop_events(&mut self, layers: &Layers, data: &[u8]) {
        let rest = data.get(layers.stop_at()..).unwrap_or_default();
        let event = match layers.stop() {
            Stop::Truncated(header) => match header {
                Header::Ethernet => Event::EthernetTooSmall,
                Header::Vlan => Event::VlanTooSmall,
                Header::Ipv4 if rest.len() >= 20 => Event::Ipv4HeaderTooSmall,
                Header::Ipv4 => Event::Ipv4TooSmall,
                Header::Ipv6 => Event::Ipv6TooSmall,
                Header::Extension => Event::Ipv6TruncatedExtension,
                Header::Tcp if rest.len() >= 20 => Event::TcpHeaderTooSmall,
                Header::Tcp => Event::TcpTooSmall,
                Header::Udp => Event::UdpTooSmall,
                Header::Icmpv4 => Event::Icmpv4TooSmall,
                Header::Icmpv6 => Event::Icmpv6TooSmall,
                Header::Sctp => Event::SctpTooSmall,
                Header::Gre => Event::GreTooSmall,
                _ => return,
            },
            Stop::BadLength(Header::Ipv4) if rest.first().is_some_and(|byte| byte & 15 < 5) => {
                Event::Ipv4HeaderTooSmall
            }
            Stop::BadLength(Header::Ipv4) => Event::Ipv4LengthSmallerThanHeader,
            Stop::BadVersion(Header::Ipv4) => Event::Ipv4WrongVersion,
            Stop::BadVersion(Header::Ipv6) => Event::Ipv6WrongVersion,
            Stop::BadLength(Header::Tcp) => Event::TcpInvalidOptionLength,
            Stop::BadLength(Header::Udp) => Event::UdpLengthTooSmall,
            _ => return,
        };
        self.events.add(event);
    }

    /// IP version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.ip? {
            Ip::V4(_) => Some(Version::V4),
            Ip::V6(_) => Some(Version::V6),
        }
    }

    /// The TCP header.
    #[inline]
    #[must_use]
    pub fn tcp(&self) -> Option<&Tcp<'a>> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// Type and code of an ICMP message of either version.
    #[inline]
    #[must_use]
    pub fn icmp(&self) -> Option<(u8, u8)> {
        match &self.transport {
            Transport::Icmpv4(icmp) => Some((icmp.message_type(), icmp.code())),
            Transport::Icmpv6(icmp) => Some((icmp.message_type(), icmp.code())),
            _ => None,
        }
    }

    /// Identifier and sequence number of an ICMP query of either version.
    #[inline]
    #[must_use]
    pub fn icmp_query(&self) -> Option<(u16, u16)> {
        match &self.transport {
            Transport::Icmpv4(icmp) => icmp.query(),
            Transport::Icmpv6(icmp) => icmp.query(),
            _ => None,
        }
    }

    /// Maximum segment size option.
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        self.tcp()?.options().flatten().find_map(|option| match TcpOption::from(option) {
            TcpOption::MaximumSegment(size) => Some(size),
            _ => None,
        })
    }
}
