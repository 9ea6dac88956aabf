//! Owns: the steps of the pass from an IP header to the transport header, and through tunnels to the next packet.
//! Does not: know link layers; it hands what a tunnel carries back to the loop.

use super::{Next, Pass, Step};
use crate::error::Header;
use crate::ethernet::ether_type;
use crate::extension::{Extension, MAX_EXTENSIONS, is_extension};
use crate::gre::Gre;
use crate::icmp::{Icmpv4, Icmpv6};
use crate::ip::{IpVersion, protocol};
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::layers::{IpSpan, MAX_IP_HEADERS, Transport, Tunnel, ip_flag};
use crate::overlay::{Geneve, Vxlan};
use crate::sctp::Sctp;
use crate::stop::Stop;
use crate::tcp::Tcp;
use crate::udp::{Udp, port};

impl Pass<'_> {
    pub(super) fn ipv4(&mut self) -> Step {
        let header = Ipv4::new(self.rest())?;
        let total = usize::from(header.total_length());
        let mut flags = 0;
        if total == 0 {
            flags |= ip_flag::NO_LENGTH;
        }
        if header.is_fragment() {
            flags |= ip_flag::FRAGMENT;
        }
        if header.fragment_offset() != 0 {
            flags |= ip_flag::LATER;
        }
        if header.is_source_routed() {
            flags |= ip_flag::ROUTED;
        }
        let number = header.protocol();
        let declared = (total != 0).then_some(total);
        self.enter_ip(Header::Ipv4, header.header_len(), declared, number, flags)
    }

    pub(super) fn ipv6(&mut self) -> Step {
        let header = Ipv6::new(self.rest())?;
        let number = header.next_header();
        // A jumbo payload option that can't be true: the addresses stand, what follows does not.
        let declared = header.declared_length();
        let length = declared.unwrap_or(None).map(|length| Ipv6::LEN.saturating_add(length as usize));
        let flags = if length.is_none() { ip_flag::V6 | ip_flag::NO_LENGTH } else { ip_flag::V6 };
        let next = self.enter_ip(Header::Ipv6, Ipv6::LEN, length, number, flags)?;
        declared.map(|_| next).map_err(Stop::from)
    }

    /// Records an IP header of `header_len` bytes in a packet of `total` bytes, and steps behind it.
    fn enter_ip(&mut self, kind: Header, header_len: usize, total: Option<usize>, number: u8, flags: u8) -> Step {
        if self.layers.ip_count() == MAX_IP_HEADERS {
            return Err(Stop::TooDeep(kind));
        }
        let at = self.at as u32;
        let missing = total.map_or(0, |total| self.limit(total));
        self.advance(header_len);
        let layers = &mut self.layers;
        layers.inner = IpSpan {
            at,
            payload_at: self.at as u32,
            end: self.end as u32,
            missing: u32::try_from(missing).unwrap_or(u32::MAX),
            protocol: number,
            flags,
        };
        layers.transport = None;
        if layers.ip_count == 0 {
            layers.outer = layers.inner;
            layers.network_at = at;
        }
        layers.ip_count += 1;
        Ok(Next::Protocol(number))
    }

    /// Changes the innermost IP header's record, which may be the outermost one as well.
    #[inline]
    fn amend(&mut self, change: impl FnOnce(&mut IpSpan)) {
        change(&mut self.layers.inner);
        if self.layers.ip_count == 1 {
            self.layers.outer = self.layers.inner;
        }
    }

    pub(super) fn protocol(&mut self, number: u8) -> Step {
        let inner = self.layers.inner;
        if inner.is_later_fragment() {
            return Err(Stop::LaterFragment);
        }
        let bytes = self.rest();
        match number {
            protocol::TCP => {
                let header_len = Tcp::new(bytes)?.header_len();
                self.transport(Transport::Tcp, header_len)
            }
            protocol::UDP => {
                let header = Udp::new(bytes)?;
                // A first fragment's length field covers the later ones too: nothing is missing then.
                if header.length() != 0 && !(inner.is_fragment() && usize::from(header.length()) > bytes.len()) {
                    self.limit(usize::from(header.length()));
                }
                let destination = header.destination_port();
                let done = self.transport(Transport::Udp, Udp::LEN);
                match destination {
                    port::VXLAN | port::VXLAN_LINUX | port::GENEVE => Ok(Next::UdpPayload(destination)),
                    _ => done,
                }
            }
            protocol::ICMP => {
                Icmpv4::new(bytes)?;
                self.transport(Transport::Icmpv4, Icmpv4::LEN)
            }
            protocol::ICMPV6 => {
                Icmpv6::new(bytes)?;
                self.transport(Transport::Icmpv6, Icmpv6::LEN)
            }
            protocol::SCTP => {
                Sctp::new(bytes)?;
                self.transport(Transport::Sctp, Sctp::LEN)
            }
            protocol::IPV4 => {
                self.tunnel(Tunnel::Ip, 0);
                Ok(Next::Ipv4)
            }
            protocol::IPV6 => {
                self.tunnel(Tunnel::Ip, 0);
                Ok(Next::Ipv6)
            }
            protocol::ETHERNET => {
                self.tunnel(Tunnel::Ethernet, 0);
                Ok(Next::Ethernet)
            }
            protocol::MPLS => {
                self.tunnel(Tunnel::Mpls, 0);
                Ok(Next::Mpls)
            }
            protocol::GRE => self.gre(),
            protocol::AH => self.extension(number),
            _ if inner.version() == IpVersion::V6 && is_extension(number) => self.extension(number),
            protocol::NO_NEXT if inner.version() == IpVersion::V6 => Err(Stop::NoNextHeader),
            other => Err(Stop::OtherProtocol(other)),
        }
    }

    /// Records a transport header here and ends the pass behind it.
    #[inline]
    fn transport(&mut self, kind: Transport, header_len: usize) -> Step {
        self.layers.transport = Some(kind);
        self.layers.transport_at = self.at as u32;
        self.advance(header_len);
        Err(Stop::Complete)
    }

    /// Records a tunnel header of `header_len` bytes here, and steps behind it.
    #[inline]
    fn tunnel(&mut self, kind: Tunnel, header_len: usize) {
        self.layers.tunnel = Some(kind);
        self.layers.tunnel_at = self.at as u32;
        self.advance(header_len);
    }

    fn extension(&mut self, kind: u8) -> Step {
        if self.extensions == MAX_EXTENSIONS {
            return Err(Stop::TooDeep(Header::Extension));
        }
        let header = Extension::new(kind, self.rest())?;
        self.extensions += 1;
        self.advance(header.header_len());
        let number = header.next_header();
        let mut flags = 0;
        if let Some(fragment) = header.fragment() {
            if fragment.offset != 0 {
                flags |= ip_flag::FRAGMENT | ip_flag::LATER;
            } else if fragment.more {
                flags |= ip_flag::FRAGMENT;
            }
        }
        if header.routing().is_some_and(|(_, segments_left)| segments_left > 0) {
            flags |= ip_flag::ROUTED;
        }
        let payload_at = self.at as u32;
        self.amend(|span| {
            span.payload_at = payload_at;
            span.protocol = number;
            span.flags |= flags;
        });
        Ok(Next::Protocol(number))
    }

    fn gre(&mut self) -> Step {
        let header = Gre::new(self.rest())?;
        self.tunnel(Tunnel::Gre, header.header_len());
        if let Some((length, _)) = header.call() {
            self.limit(usize::from(length));
            // No payload: an acknowledgment alone.
            return if length == 0 { Err(Stop::Complete) } else { Ok(Next::Ppp) };
        }
        Self::tunnelled(header.protocol())
    }

    pub(super) fn udp_payload(&mut self, destination: u16) -> Step {
        if destination == port::GENEVE {
            let header = Geneve::new(self.rest())?;
            self.tunnel(Tunnel::Geneve, header.header_len());
            return Self::tunnelled(header.protocol());
        }
        Vxlan::new(self.rest())?;
        self.tunnel(Tunnel::Vxlan, Vxlan::LEN);
        Ok(Next::Ethernet)
    }

    /// What a tunnel header's protocol field announces: of the EtherTypes, those that need no frame around them.
    fn tunnelled(value: u16) -> Step {
        match value {
            ether_type::ETHERNET => Ok(Next::Ethernet),
            ether_type::IPV4 | ether_type::IPV6 | ether_type::MPLS | ether_type::MPLS_UPSTREAM => {
                Ok(Next::EtherType(value))
            }
            ether_type::PPP => Ok(Next::Ppp),
            other => Err(Stop::OtherEtherType(other)),
        }
    }
}
