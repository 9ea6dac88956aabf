//! Owns: one frame's levels: the packet, the packet inside a tunnel, and the packet put together from fragments.
//! Does not: match; each level goes the same way.

use ringtap_wire::{Direction, FlowKey, Header, Ip, Layers, LinkType, Stop, Transport as Kind, Tunnel, port};

use super::{Detector, MAX_LINK};
use crate::alert::{FlowEnd, Origin, Sink, Whole};
use crate::decode::{Decoded, Level, Outer, Transport};
use crate::track::midstream::is_by_server;
use crate::track::segment::Segment;
use crate::track::session::{State, is_opening};

/// Ports of Teredo (RFC 4380 §2.7).
const TEREDO_PORT: u16 = 3544;
/// GRE protocol of ERSPAN type II.
const ERSPAN: u16 = 0x88be;
/// Its header.
const ERSPAN_LEN: usize = 8;
/// Frames inside frames that `ringtap-wire` does not follow.
const MAX_NESTED: u8 = 2;

impl Detector {
    pub(super) fn nested(
        &mut self,
        data: &[u8],
        link: LinkType,
        wire_len: u32,
        now_ns: u64,
        sink: &mut impl Sink,
        nesting: Nesting,
    ) {
        let layers = Layers::parse(data, link);
        if layers.stop().is_fault() {
            self.counters.invalid += 1;
        }
        let checksums = self.limits.checksums && !nesting.unchecked;
        let (rebuilt, mut tunnel) = (nesting.rebuilt, nesting.tunnel);
        if layers.ip_count() > 1 {
            let mut outer = Decoded::empty(wire_len);
            outer.rebuilt = rebuilt;
            outer.read(&layers, data, Level::Outer, nesting.level, checksums);
            outer.tunnel = tunnel;
            tunnel = tunnel.or(Some(Outer::of(&outer)));
            // A rule that lets it pass says nothing of what is inside.
            self.level(&mut outer, now_ns, sink);
            self.counters.tunnelled += 1;
        }
        let mut inner = Decoded::empty(wire_len);
        let level = nesting.level + layers.ip_count().saturating_sub(1) as u8;
        inner.rebuilt = rebuilt;
        inner.tunnel = tunnel;
        inner.read(&layers, data, Level::Inner, level, checksums);
        if let Some(vlan) = nesting.vlan {
            inner.vlan = [vlan, inner.vlan[0]];
        }
        if let Some(fragment) = &inner.fragment {
            sink.part_of(Whole::Datagram(self.defrag.number(fragment)));
        }
        let whole = self.put_together(&layers, data, &mut inner, now_ns);
        self.level(&mut inner, now_ns, sink);
        if nesting.depth == MAX_NESTED {
            return;
        }
        let deeper = Nesting { depth: nesting.depth + 1, rebuilt, vlan: None, tunnel, ..nesting };
        if let Some((frame, frame_link, vlan)) = tunnelled(&layers, data, &inner) {
            self.counters.tunnelled += 1;
            let tunnel = tunnel.or(Some(Outer::of(&inner)));
            self.nested(
                frame,
                frame_link,
                wire_len,
                now_ns,
                sink,
                Nesting { vlan, level: level + 1, tunnel, ..deeper },
            );
        } else if whole {
            let packet = std::mem::take(&mut self.rebuilt);
            let len = packet.len() as u32;
            self.nested(&packet, link, len, now_ns, sink, Nesting { rebuilt: true, ..deeper });
            self.rebuilt = packet;
        }
    }

    /// One level: flow, stream, rules.
    fn level(&mut self, packet: &mut Decoded<'_>, now_ns: u64, sink: &mut impl Sink) {
        let flow = packet.flow.map(|(key, direction)| (self.flow(packet, key, direction, now_ns, sink), direction));
        let origin = if packet.rebuilt { Origin::Fragments } else { Origin::Packet };
        match flow {
            Some((index, direction)) => {
                let from = usize::from(direction != self.track.flows.get(index).client);
                let hops = packet.ip.map(|ip| match ip {
                    Ip::V4(header) => header.ttl(),
                    Ip::V6(header) => header.hop_limit(),
                });
                self.track.flows.packet(index, from, packet.wire_len, hops, now_ns);
                sink.part_of(Whole::Flow(self.track.flows.get(index).id));
                if matches!(packet.transport, Transport::Tcp(_)) {
                    self.segment(index, from, packet, origin, now_ns, sink);
                    self.track.flows.prove(index);
                } else {
                    self.track.flows.prove(index);
                    Self::tell_anomalies(packet, now_ns, sink);
                    self.datagram(index, from, packet, origin, now_ns, sink);
                }
            }
            None => {
                Self::tell_anomalies(packet, now_ns, sink);
                self.inspect(packet, None, None, origin, now_ns, sink);
            }
        }
    }

    /// The flow of a packet, new if need be.
    fn flow(
        &mut self,
        packet: &Decoded<'_>,
        key: FlowKey,
        direction: Direction,
        now_ns: u64,
        sink: &mut impl Sink,
    ) -> usize {
        // What the receiver discards begins nothing.
        let segment = packet.tcp().filter(|_| !packet.bad_checksum).map(|tcp| Segment::new(tcp, packet.payload));
        let opens = segment.as_ref().is_some_and(is_opening);
        let (mut client, mut answered) = (direction, None);
        if let Some(index) = self.track.flows.find(&key, packet.level) {
            let flow = self.track.flows.get(index);
            let from = usize::from(direction != flow.client);
            answered = segment.and_then(|segment| flow.session.answers_anew(from, &segment));
            let begins = answered.is_some() || (opens && flow.session.has_finished());
            let unopened = flow.session.state == State::None;
            // Its time may be over without the sweep having come by.
            let is_over = self.track.flows.is_over(index, now_ns);
            if !begins && (!is_over || flow.has_agreed()) {
                if is_over {
                    self.go_on(index, now_ns, sink);
                }
                if opens && unopened && from == 1 {
                    self.track.flows.turn(index, direction);
                }
                return index;
            }
            if answered.is_some() {
                client = if direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
            }
            self.end_flow(index, FlowEnd::Timeout, now_ns, sink);
        } else if self.limits.midstream && packet.tcp().is_some_and(is_by_server) {
            client = if direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
        }
        if let Some(oldest) = self.track.flows.in_the_way() {
            self.end_flow(oldest, FlowEnd::Evicted, now_ns, sink);
        }
        let index = self.track.flows.begin(key, packet.level, client, now_ns);
        if let Some(greeting) = answered {
            self.track.flows.get_mut(index).session.open(greeting);
        }
        index
    }

    /// Adds a fragment; whether a whole packet now is in `self.rebuilt`.
    fn put_together(&mut self, layers: &Layers, data: &[u8], packet: &mut Decoded<'_>, now_ns: u64) -> bool {
        let Some(fragment) = packet.fragment else { return false };
        let (Some(span), Some(ip)) = (layers.inner_ip(), packet.ip) else { return false };
        let mut payload = std::mem::take(&mut self.rebuilt_payload);
        let protocol = self.defrag.take(&fragment, now_ns, &mut packet.events, &mut payload);
        self.charge_steps();
        let whole = protocol.is_some_and(|protocol| {
            // The headers before, without the fragment's own.
            let fixed = match ip {
                Ip::V4(header) => header.header_len(),
                Ip::V6(_) => ringtap_wire::Ipv6::LEN,
            };
            let (Some(link), Some(header)) = (data.get(..span.at()), data.get(span.at()..span.at() + fixed)) else {
                return false;
            };
            if link.len() > MAX_LINK || fixed + payload.len() > super::MAX_PACKET {
                return false;
            }
            let out = &mut self.rebuilt;
            out.clear();
            out.extend_from_slice(link);
            out.extend_from_slice(header);
            let at = link.len();
            match ip {
                Ip::V4(_) => {
                    out[at + 2..at + 4].copy_from_slice(&((fixed + payload.len()) as u16).to_be_bytes());
                    out[at + 6..at + 8].copy_from_slice(&[0, 0]);
                    out[at + 10..at + 12].copy_from_slice(&[0, 0]);
                    let checksum = ringtap_wire::checksum::ipv4_header(&out[at..]);
                    out[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
                }
                Ip::V6(_) => {
                    out[at + 4..at + 6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
                    // Extension headers before the fragment header are left out: routing and hop-by-hop are over.
                    out[at + 6] = protocol;
                }
            }
            out.extend_from_slice(&payload);
            true
        });
        self.rebuilt_payload = payload;
        whole
    }
}

/// Where in a frame's levels we are.
#[derive(Clone, Copy, Default)]
pub(super) struct Nesting {
    depth: u8,
    rebuilt: bool,
    vlan: Option<u16>,
    /// IP headers around it.
    level: u8,
    /// The outermost packet, inside a tunnel.
    tunnel: Option<Outer>,
    /// Its checksum is still to be computed.
    unchecked: bool,
}

impl Nesting {
    pub(super) fn unchecked() -> Self {
        Self { unchecked: true, ..Self::default() }
    }
}

/// A frame inside a tunnel that the parser does not follow: its bytes, its link type, and the VLAN the tunnel names.
fn tunnelled<'a>(layers: &Layers, data: &'a [u8], packet: &Decoded<'a>) -> Option<(&'a [u8], LinkType, Option<u16>)> {
    if layers.stop() == Stop::OtherEtherType(ERSPAN) && matches!(layers.tunnel(), Some((Tunnel::Gre, _))) {
        let rest = data.get(layers.stop_at()..)?;
        let frame = rest.get(ERSPAN_LEN..)?;
        // Version 1 is type II.
        let vlan = u16::from_be_bytes([rest[0] & 0x0f, rest[1]]);
        return (rest[0] >> 4 == 1).then_some((frame, LinkType::Ethernet, (vlan != 0).then_some(vlan)));
    }
    let (source, destination) = packet.ports;
    if layers.transport().map(|(kind, _)| kind) == Some(Kind::Udp)
        && (source == TEREDO_PORT || destination == TEREDO_PORT)
        && !matches!(destination, port::VXLAN | port::GENEVE)
    {
        return teredo(packet.payload).map(|packet| (packet, LinkType::Ipv6, None));
    }
    None
}

/// The IPv6 packet in a Teredo datagram (RFC 4380 §5.1.1), behind authentication and origin.
fn teredo(mut payload: &[u8]) -> Option<&[u8]> {
    if let [0, 1, client, value, ..] = *payload {
        payload = payload.get(4 + usize::from(client) + usize::from(value) + 9..)?;
    }
    if payload.starts_with(&[0, 0]) {
        payload = payload.get(8..)?;
    }
    let layers = Layers::parse(payload, LinkType::Ipv6);
    let is_packet = layers.ip_count() > 0 && !matches!(layers.stop(), Stop::BadVersion(Header::Ipv6));
    is_packet.then_some(payload)
}
