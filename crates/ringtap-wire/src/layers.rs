//! Owns: the result of a parse: where each layer starts and ends, and where and why parsing stopped.
//! Does not: parse (see `parse.rs`), or keep the packet: accessors that need bytes are given them again.

use crate::arp::Arp;
use crate::bytes::within;
use crate::ethernet::Ethernet;
use crate::icmp::{Icmpv4, Icmpv6};
use crate::ip::{Ip, IpVersion};
use crate::link::LinkType;
use crate::sctp::Sctp;
use crate::stop::Stop;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::vlan::{MplsEntry, VlanTag};

/// More VLAN tags than this in one packet, tunnels included, are not walked.
pub const MAX_VLAN_TAGS: usize = 4;
/// More MPLS labels than this in one packet, tunnels included, are not walked.
pub const MAX_MPLS_LABELS: usize = 16;
/// More IP headers than this, one inside the other, are not walked.
pub const MAX_IP_HEADERS: usize = 4;

/// A transport header this crate parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMPv6.
    Icmpv6,
    /// SCTP.
    Sctp,
}

/// What carries an inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// IP directly in IP: 4in4, 6in4, 4in6, 6in6.
    Ip,
    /// GRE, version 0 or 1.
    Gre,
    /// VXLAN.
    Vxlan,
    /// GENEVE.
    Geneve,
    /// An Ethernet frame directly in IP (RFC 8986 §10.1).
    Ethernet,
    /// MPLS directly in IP (RFC 4023).
    Mpls,
}

pub(crate) mod ip_flag {
    /// "More fragments" is set, or the offset is not 0.
    pub(crate) const FRAGMENT: u8 = 1;
    /// The fragment offset is not 0.
    pub(crate) const LATER: u8 = 2;
    /// Source routing with stops to go.
    pub(crate) const ROUTED: u8 = 4;
    /// The length field says nothing (0).
    pub(crate) const NO_LENGTH: u8 = 8;
    pub(crate) const V6: u8 = 16;
}

/// Where one IP header and its payload are; offsets in bytes from the start of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpSpan {
    pub(crate) at: u32,
    pub(crate) payload_at: u32,
    pub(crate) end: u32,
    pub(crate) missing: u32,
    pub(crate) protocol: u8,
    pub(crate) flags: u8,
}

impl IpSpan {
    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Offset of the header.
    #[inline]
    #[must_use]
    pub fn at(&self) -> usize {
        self.at as usize
    }

    /// Offset of what follows the header with its options, or with the extension headers that could be read.
    #[inline]
    #[must_use]
    pub fn payload_at(&self) -> usize {
        self.payload_at as usize
    }

    /// Offset of the first byte behind the payload: limited by the header's length field, so that link padding is
    /// outside, and by what was captured.
    #[inline]
    #[must_use]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// Bytes that the length field promises and that are not there. 0 unless the capture is shorter than the packet,
    /// or an inner packet claims more than the outer one holds.
    #[inline]
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing as usize
    }

    /// Version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> IpVersion {
        if self.has(ip_flag::V6) { IpVersion::V6 } else { IpVersion::V4 }
    }

    /// Number of the protocol at [`payload_at`](Self::payload_at) ([`protocol`](crate::protocol)).
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether the packet is a fragment, the first or a later one. An IPv6 fragment header with offset 0 and nothing
    /// more to come ("atomic fragment", RFC 6946) is none.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.has(ip_flag::FRAGMENT)
    }

    /// Whether the packet is a fragment other than the first.
    #[inline]
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.has(ip_flag::LATER)
    }

    /// Whether source routing is under way: the header's destination is not the last one, and the transport
    /// checksum, which covers the last one, can't be verified from the header's addresses.
    #[inline]
    #[must_use]
    pub fn is_source_routed(&self) -> bool {
        self.has(ip_flag::ROUTED)
    }

    /// Whether the header's length field is 0 and everything captured was taken (segmentation offload).
    #[inline]
    #[must_use]
    pub fn is_length_unknown(&self) -> bool {
        self.has(ip_flag::NO_LENGTH)
    }

    /// The header, read from the packet this span came from. `None` if `data` is another packet and has no such header.
    #[inline]
    #[must_use]
    pub fn view<'a>(&self, data: &'a [u8]) -> Option<Ip<'a>> {
        Ip::new(within(data, self.at(), self.end())).ok()
    }

    /// The payload, read from the packet this span came from.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        within(data, self.payload_at(), self.end())
    }
}

/// Where each layer of one packet is. Made by [`Layers::parse`]; holds offsets only, no bytes.
///
/// When a header can't be read, all layers before it stand, and [`payload`](Self::payload) starts at that header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    pub(crate) outer: IpSpan,
    pub(crate) inner: IpSpan,
    pub(crate) stop_at: u32,
    pub(crate) network_at: u32,
    pub(crate) vlan_at: u32,
    pub(crate) mpls_at: u32,
    pub(crate) arp_at: u32,
    pub(crate) tunnel_at: u32,
    pub(crate) transport_at: u32,
    pub(crate) payload_at: u32,
    pub(crate) payload_end: u32,
    pub(crate) stop: Stop,
    pub(crate) link: LinkType,
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) transport: Option<Transport>,
    pub(crate) vlan_count: u8,
    pub(crate) mpls_count: u8,
    pub(crate) ip_count: u8,
    pub(crate) cut: bool,
}

impl Layers {
    /// Why parsing stopped.
    #[inline]
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Where parsing stopped: the offset of the header that could not be read, or of the payload.
    #[inline]
    #[must_use]
    pub fn stop_at(&self) -> usize {
        self.stop_at as usize
    }

    /// Whether a length field (IP, UDP, PPPoE, IEEE 802.3) promises more bytes than are there: normally the capture's
    /// snap length cut the packet.
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The link type that the packet was parsed as.
    #[inline]
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The outermost Ethernet header, on Ethernet links.
    #[inline]
    #[must_use]
    pub fn ethernet<'a>(&self, data: &'a [u8]) -> Option<Ethernet<'a>> {
        if self.link == LinkType::Ethernet { Ethernet::new(data).ok() } else { None }
    }

    /// Offset of what follows the outermost link header with its tags and labels (and PPPoE and PPP headers).
    #[inline]
    #[must_use]
    pub fn network_at(&self) -> usize {
        self.network_at as usize
    }

    /// The tags of the outermost frame, outer first, at most [`MAX_VLAN_TAGS`]. Frames inside tunnels have their tags
    /// walked, but not recorded.
    #[inline]
    pub fn vlan_tags<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = VlanTag<'a>> + use<'a> {
        let tags =
            within(data, self.vlan_at as usize, self.vlan_at as usize + VlanTag::LEN * usize::from(self.vlan_count));
        tags.chunks_exact(VlanTag::LEN).filter_map(|tag| VlanTag::new(tag).ok())
    }

    /// Identifiers of the two outermost tags, outer first; 0 for none (and for priority tags, which name no VLAN).
    #[inline]
    #[must_use]
    pub fn vlan_ids(&self, data: &[u8]) -> [u16; 2] {
        let mut ids = [0; 2];
        if self.vlan_count > 0 {
            for (id, tag) in ids.iter_mut().zip(self.vlan_tags(data)) {
                *id = tag.id();
            }
        }
        ids
    }

    /// The labels of the outermost frame, top first, at most [`MAX_MPLS_LABELS`].
    #[inline]
    pub fn mpls_labels<'a>(&self, data: &'a [u8]) -> impl Iterator<Item = MplsEntry<'a>> + use<'a> {
        let stack =
            within(data, self.mpls_at as usize, self.mpls_at as usize + MplsEntry::LEN * usize::from(self.mpls_count));
        stack.chunks_exact(MplsEntry::LEN).filter_map(|entry| MplsEntry::new(entry).ok())
    }

    /// The ARP message, outermost or inside a tunnel.
    #[inline]
    #[must_use]
    pub fn arp<'a>(&self, data: &'a [u8]) -> Option<Arp<'a>> {
        if self.arp_at == 0 { None } else { Arp::new(within(data, self.arp_at as usize, data.len())).ok() }
    }

    /// The outermost IP header.
    #[inline]
    #[must_use]
    pub fn outer_ip(&self) -> Option<&IpSpan> {
        (self.ip_count > 0).then_some(&self.outer)
    }

    /// The innermost IP header that could be read; the outermost one where there is no tunnel.
    #[inline]
    #[must_use]
    pub fn inner_ip(&self) -> Option<&IpSpan> {
        (self.ip_count > 0).then_some(&self.inner)
    }

    /// How many IP headers are one inside the other, 0 to [`MAX_IP_HEADERS`].
    #[inline]
    #[must_use]
    pub fn ip_count(&self) -> usize {
        usize::from(self.ip_count)
    }

    /// What carries the innermost packet, and the offset of its header (of the inner IP header for [`Tunnel::Ip`], of
    /// the frame for [`Tunnel::Ethernet`], of the label stack for [`Tunnel::Mpls`]).
    #[inline]
    #[must_use]
    pub fn tunnel(&self) -> Option<(Tunnel, usize)> {
        self.tunnel.map(|tunnel| (tunnel, self.tunnel_at as usize))
    }

    /// The transport header of the innermost IP packet, and its offset. With a UDP tunnel whose inside has no IP
    /// header that could be read, it is that UDP header.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> Option<(Transport, usize)> {
        self.transport.map(|transport| (transport, self.transport_at as usize))
    }

    /// The bytes from the transport header to the end of the innermost IP packet, if it is of the kind asked for.
    #[inline]
    fn transport_bytes<'a>(&self, kind: Transport, data: &'a [u8]) -> Option<&'a [u8]> {
        (self.transport == Some(kind)).then(|| within(data, self.transport_at as usize, self.inner.end()))
    }

    /// The TCP header.
    #[inline]
    #[must_use]
    pub fn tcp<'a>(&self, data: &'a [u8]) -> Option<Tcp<'a>> {
        self.transport_bytes(Transport::Tcp, data).and_then(|bytes| Tcp::new(bytes).ok())
    }

    /// The UDP header.
    #[inline]
    #[must_use]
    pub fn udp<'a>(&self, data: &'a [u8]) -> Option<Udp<'a>> {
        self.transport_bytes(Transport::Udp, data).and_then(|bytes| Udp::new(bytes).ok())
    }

    /// The ICMP message.
    #[inline]
    #[must_use]
    pub fn icmpv4<'a>(&self, data: &'a [u8]) -> Option<Icmpv4<'a>> {
        self.transport_bytes(Transport::Icmpv4, data).and_then(|bytes| Icmpv4::new(bytes).ok())
    }

    /// The ICMPv6 message.
    #[inline]
    #[must_use]
    pub fn icmpv6<'a>(&self, data: &'a [u8]) -> Option<Icmpv6<'a>> {
        self.transport_bytes(Transport::Icmpv6, data).and_then(|bytes| Icmpv6::new(bytes).ok())
    }

    /// The SCTP header.
    #[inline]
    #[must_use]
    pub fn sctp<'a>(&self, data: &'a [u8]) -> Option<Sctp<'a>> {
        self.transport_bytes(Transport::Sctp, data).and_then(|bytes| Sctp::new(bytes).ok())
    }

    /// Source and destination port of the transport header, where it has ports.
    #[inline]
    #[must_use]
    pub fn ports(&self, data: &[u8]) -> Option<(u16, u16)> {
        match self.transport? {
            Transport::Tcp | Transport::Udp | Transport::Sctp => ports_at(data, self.transport_at as usize),
            Transport::Icmpv4 | Transport::Icmpv6 => None,
        }
    }

    /// Where the payload is: what follows the last header that could be read, up to the end that the enclosing
    /// lengths set. Empty behind ARP.
    #[inline]
    #[must_use]
    pub fn payload_range(&self) -> core::ops::Range<usize> {
        self.payload_at as usize..self.payload_end as usize
    }

    /// The payload, read from the packet this came from.
    #[inline]
    #[must_use]
    pub fn payload<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        within(data, self.payload_at as usize, self.payload_end as usize)
    }
}

/// Source and destination port in the first four bytes from `at`, as TCP, UDP and SCTP have them.
#[inline]
pub(crate) fn ports_at(data: &[u8], at: usize) -> Option<(u16, u16)> {
    match *data.get(at..)? {
        [a, b, c, d, ..] => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => None,
    }
}
