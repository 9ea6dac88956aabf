//! Owns: the one straight pass over a packet that sets the offsets of [`Layers`]: the loop, and the steps up to IP.
//! Does not: read fields that no offset depends on; the views do. The steps from IP upwards are in `parse/ip.rs`.
//!
//! The work is bounded: IP headers, tags, labels and extension headers are counted against the `MAX_` constants, every
//! step moves forward, and [`MAX_STEPS`] holds even if that reasoning has a hole.

mod ip;

use crate::arp::Arp;
use crate::bytes::within;
use crate::cooked::{Cooked, CookedPayload, FAMILY_LEN, family};
use crate::error::Header;
use crate::ethernet::{Ethernet, Llc, ether_type};
use crate::ip::IpVersion;
use crate::layers::{IpSpan, Layers, MAX_MPLS_LABELS, MAX_VLAN_TAGS};
use crate::link::LinkType;
use crate::ppp::{Ppp, Pppoe, ppp_protocol};
use crate::stop::Stop;
use crate::vlan::{MplsEntry, VlanTag};

/// Four IP headers with all that can stand between two of them need fewer steps.
const MAX_STEPS: usize = 64;

/// What stands at the current offset.
#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    EtherType(u16),
    Llc,
    /// IP of the version that its first four bits say.
    AnyIp,
    Ipv4,
    Ipv6,
    /// What an IP header announced with this protocol number.
    Protocol(u8),
    Mpls,
    Ppp,
    /// Whatever follows a UDP header with this destination port.
    UdpPayload(u16),
}

impl From<IpVersion> for Next {
    fn from(version: IpVersion) -> Self {
        match version {
            IpVersion::V4 => Self::Ipv4,
            IpVersion::V6 => Self::Ipv6,
        }
    }
}

type Step = Result<Next, Stop>;

/// Invariant: `at <= end <= data.len() <= u32::MAX`.
struct Pass<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
    tags: usize,
    labels: usize,
    extensions: usize,
    layers: Layers,
}

impl Layers {
    /// Parses the packet in `data`, which begins with a header of type `link`, in one pass. Never fails: what could be
    /// read is there, and [`Layers::stop`] says why the rest is not.
    ///
    /// Tunnels are followed into the inner packet. UDP tunnels are recognised by their destination port
    /// ([`port`](crate::port)): a datagram to such a port that holds something else ends with a [`Stop`] about that
    /// tunnel's header, its UDP header and payload being in place.
    #[must_use]
    pub fn parse(data: &[u8], link: LinkType) -> Self {
        let data = within(data, 0, u32::MAX as usize); // so that every offset fits
        let mut pass = Pass {
            data,
            at: 0,
            end: data.len(),
            tags: 0,
            labels: 0,
            extensions: 0,
            layers: Self {
                outer: IpSpan::default(),
                inner: IpSpan::default(),
                stop_at: 0,
                network_at: 0,
                vlan_at: 0,
                mpls_at: 0,
                arp_at: 0,
                tunnel_at: 0,
                transport_at: 0,
                payload_at: 0,
                payload_end: 0,
                stop: Stop::TooDeep(Header::Link),
                link,
                tunnel: None,
                transport: None,
                vlan_count: 0,
                mpls_count: 0,
                ip_count: 0,
                cut: false,
            },
        };
        pass.run();
        pass.layers
    }
}

impl<'a> Pass<'a> {
    fn run(&mut self) {
        let mut step = self.link();
        for _ in 0..MAX_STEPS {
            match step {
                Ok(next) => step = self.step(next),
                Err(stop) => {
                    self.layers.stop = stop;
                    break;
                }
            }
        }
        let at = self.at as u32;
        if self.layers.ip_count == 0 {
            self.layers.network_at = if self.layers.arp_at == 0 { at } else { self.layers.arp_at };
        }
        self.layers.stop_at = at;
        self.layers.payload_at = at;
        self.layers.payload_end = self.end as u32;
    }

    /// What is left, from the current offset to the end that the enclosing lengths set.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        &self.data[self.at..self.end]
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.end);
    }

    /// Ends the current header's payload `length` bytes from here; notes if there are not so many.
    #[inline]
    fn limit(&mut self, length: usize) -> usize {
        let have = self.end - self.at;
        if length > have {
            self.layers.cut = true;
            return length - have;
        }
        self.end = self.at + length;
        0
    }

    fn link(&mut self) -> Step {
        match self.layers.link {
            LinkType::Ethernet => Ok(Next::Ethernet),
            LinkType::RawIp => Ok(Next::AnyIp),
            LinkType::Ipv4 => Ok(Next::Ipv4),
            LinkType::Ipv6 => Ok(Next::Ipv6),
            LinkType::Ppp => Ok(Next::Ppp),
            LinkType::Cooked => self.cooked(Cooked::new(self.rest())?),
            LinkType::Cooked2 => self.cooked(Cooked::new_2(self.rest())?),
            LinkType::Null => {
                let version = family(self.rest())?;
                self.advance(FAMILY_LEN);
                version.map(Next::from).ok_or(Stop::OtherPayload(Header::Null))
            }
        }
    }

    fn cooked(&mut self, header: Cooked<'a>) -> Step {
        self.advance(header.header_len());
        match header.follows() {
            CookedPayload::EtherType(ether_type) => Ok(Next::EtherType(ether_type)),
            CookedPayload::Llc => Ok(Next::Llc),
            CookedPayload::Other(_) => Err(Stop::OtherPayload(Header::Cooked)),
        }
    }

    fn step(&mut self, next: Next) -> Step {
        match next {
            Next::Ethernet => {
                let ether_type = Ethernet::new(self.rest())?.ether_type();
                self.advance(Ethernet::LEN);
                self.ether_type(ether_type)
            }
            Next::EtherType(value) => self.ether_type(value),
            Next::Llc => self.llc(),
            Next::AnyIp => match self.rest().first().map(|byte| byte >> 4) {
                Some(6) => Ok(Next::Ipv6),
                _ => Ok(Next::Ipv4), // which names the fault, if it is not IPv4
            },
            Next::Ipv4 => self.ipv4(),
            Next::Ipv6 => self.ipv6(),
            Next::Protocol(number) => self.protocol(number),
            Next::Mpls => self.mpls(),
            Next::Ppp => {
                let header = Ppp::new(self.rest())?;
                self.advance(header.header_len());
                match header.protocol() {
                    ppp_protocol::IPV4 => Ok(Next::Ipv4),
                    ppp_protocol::IPV6 => Ok(Next::Ipv6),
                    ppp_protocol::MPLS => Ok(Next::Mpls),
                    other => Err(Stop::OtherPpp(other)),
                }
            }
            Next::UdpPayload(destination) => self.udp_payload(destination),
        }
    }

    /// The offset of the network layer is where the first IP header, ARP message or unknown thing stands.
    fn ether_type(&mut self, value: u16) -> Step {
        match value {
            ether_type::IPV4 => Ok(Next::Ipv4),
            ether_type::IPV6 => Ok(Next::Ipv6),
            ether_type::VLAN | ether_type::QINQ | ether_type::QINQ_OLD => self.vlan(),
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => Ok(Next::Mpls),
            ether_type::ARP => {
                let length = Arp::new(self.rest())?.message_len();
                self.layers.arp_at = self.at as u32;
                self.advance(length);
                self.end = self.at;
                Err(Stop::Complete)
            }
            ether_type::PPPOE_SESSION => {
                let header = Pppoe::new(self.rest())?;
                self.advance(Pppoe::LEN);
                self.limit(usize::from(header.length()));
                Ok(Next::Ppp)
            }
            0..=ether_type::MAX_LENGTH => {
                self.limit(usize::from(value));
                Ok(Next::Llc)
            }
            other => Err(Stop::OtherEtherType(other)),
        }
    }

    fn llc(&mut self) -> Step {
        let header = Llc::new(self.rest())?;
        let Some(ether_type) = header.ether_type() else {
            return Err(Stop::OtherLlc(header.dsap(), header.ssap()));
        };
        if ether_type <= ether_type::MAX_LENGTH {
            return Err(Stop::OtherEtherType(ether_type)); // a length inside a length
        }
        self.advance(Llc::SNAP_LEN);
        Ok(Next::EtherType(ether_type))
    }

    fn vlan(&mut self) -> Step {
        if self.tags == MAX_VLAN_TAGS {
            return Err(Stop::TooDeep(Header::Vlan));
        }
        let ether_type = VlanTag::new(self.rest())?.ether_type();
        self.tags += 1;
        let layers = &mut self.layers;
        if layers.ip_count == 0 {
            if layers.vlan_count == 0 {
                layers.vlan_at = self.at as u32;
            }
            // Tags that SNAP separates from the first ones are walked, but not recorded.
            if layers.vlan_at as usize + VlanTag::LEN * usize::from(layers.vlan_count) == self.at {
                layers.vlan_count += 1;
            }
        }
        self.advance(VlanTag::LEN);
        Ok(Next::EtherType(ether_type))
    }

    fn mpls(&mut self) -> Step {
        let recorded = self.layers.ip_count == 0;
        if recorded {
            self.layers.mpls_at = self.at as u32;
        }
        let bottom = loop {
            if self.labels == MAX_MPLS_LABELS {
                return Err(Stop::TooDeep(Header::Mpls));
            }
            let entry = MplsEntry::new(self.rest())?;
            self.labels += 1;
            if recorded {
                self.layers.mpls_count += 1;
            }
            self.advance(MplsEntry::LEN);
            if entry.is_bottom() {
                break entry.label();
            }
        };
        // Labels don't say what they carry (RFC 3032 §2.2); the first four bits tell IP from a pseudowire's control
        // word (RFC 4385 §2).
        match (bottom, self.rest().first().map(|byte| byte >> 4)) {
            (MplsEntry::IPV4_NULL, _) | (_, Some(4)) => Ok(Next::Ipv4),
            (MplsEntry::IPV6_NULL, _) | (_, Some(6)) => Ok(Next::Ipv6),
            _ => Err(Stop::OtherPayload(Header::Mpls)),
        }
    }
}
