//! Random stacks, mutations of them and random bytes, compared with etherparse and with naive arithmetic.

#[path = "oracle/mod.rs"]
mod etherparse_oracle;

use etherparse::{
    IpAuthHeader, IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FragmentHeader,
    Ipv6Header, Ipv6RawExtHeader, Ipv6RoutingExtensions, PacketBuilder, TcpHeader, TcpOptions, VlanHeader,
};
use etherparse_oracle::{agree, check, prefix};
use proptest::collection::vec;
use proptest::prelude::*;
use ringtap_wire::{FlowKey, Layers, LinkType, Stop, Transport, UdpFrame, checksum, checksum::Verdict};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Udp,
    /// Of the version that the IP header has.
    Icmp,
}

/// A stack of headers that etherparse builds.
#[derive(Clone, Debug)]
struct Stack {
    vlan: Vec<u16>,
    version: u8,
    /// IPv4 options, in words; or which IPv6 extension headers (bits).
    extra: u8,
    authenticated: bool,
    fragment: bool,
    addresses: [u8; 32],
    ports: (u16, u16),
    kind: Kind,
    tcp_options: usize,
    payload: Vec<u8>,
    padding: usize,
}

fn stacks() -> impl Strategy<Value = Stack> {
    let link = (vec(0u16..4096, 0..3), 0usize..20);
    let ip = (prop_oneof![Just(4u8), Just(6u8)], 0u8..16, any::<bool>(), prop::bool::weighted(0.1), any::<[u8; 32]>());
    let kind = prop_oneof![Just(Kind::Tcp), Just(Kind::Udp), Just(Kind::Icmp)];
    // Below the tunnels' port numbers: etherparse does not look into them.
    let transport = (kind, (0u16..4000, 0u16..4000), 0usize..=10);
    (link, ip, transport, vec(any::<u8>(), 0..120)).prop_map(|(link, ip, transport, payload)| Stack {
        vlan: link.0,
        padding: link.1,
        version: ip.0,
        extra: ip.1,
        authenticated: ip.2,
        fragment: ip.3,
        addresses: ip.4,
        kind: transport.0,
        ports: transport.1,
        tcp_options: transport.2,
        payload,
    })
}

impl Stack {
    fn address(&self, which: usize) -> [u8; 16] {
        self.addresses[which * 16..which * 16 + 16].try_into().unwrap()
    }

    fn ip(&self) -> IpHeaders {
        let auth = self.authenticated.then(|| IpAuthHeader::new(IpNumber::TCP, 7, 9, &[0xaa; 12]).unwrap());
        if self.version == 4 {
            let short = |address: [u8; 16]| [address[0], address[1], address[2], address[3]];
            let mut header =
                Ipv4Header::new(0, 64, IpNumber::TCP, short(self.address(0)), short(self.address(1))).unwrap();
            let words = usize::from(self.extra % 11);
            header.options = vec![1u8; words * 4].as_slice().try_into().unwrap();
            header.more_fragments = self.fragment;
            return IpHeaders::Ipv4(header, Ipv4Extensions { auth });
        }
        let header = Ipv6Header {
            source: self.address(0),
            destination: self.address(1),
            hop_limit: 64,
            traffic_class: self.extra,
            ..Default::default()
        };
        let raw = |len: usize| Ipv6RawExtHeader::new_raw(IpNumber::TCP, &vec![0; len]).unwrap();
        let has = |bit: u8| self.extra & bit != 0;
        let extensions = Ipv6Extensions {
            hop_by_hop_options: has(1).then(|| raw(6)),
            destination_options: has(2).then(|| raw(14)),
            routing: has(4)
                .then(|| Ipv6RoutingExtensions { routing: raw(22), final_destination_options: has(1).then(|| raw(6)) }),
            fragment: (has(8) || self.fragment)
                .then(|| Ipv6FragmentHeader::new(IpNumber::TCP, IpFragOffset::ZERO, self.fragment, 77)),
            auth,
        };
        IpHeaders::Ipv6(header, extensions)
    }

    /// The frame without padding.
    fn build(&self) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let id = |index: usize| self.vlan[index].try_into().unwrap();
        let ip = match self.vlan.len() {
            0 => ethernet.ip(self.ip()),
            1 => {
                let tag = etherparse::SingleVlanHeader { vlan_id: id(0), ..Default::default() };
                ethernet.vlan(VlanHeader::Single(tag)).ip(self.ip())
            }
            _ => ethernet.double_vlan(id(0), id(1)).ip(self.ip()),
        };
        let mut out = Vec::new();
        let (source, destination) = self.ports;
        match self.kind {
            Kind::Tcp => {
                let mut header = TcpHeader::new(source, destination, 1, 1024);
                header.options = TcpOptions::try_from_slice(&vec![1; self.tcp_options * 4]).unwrap();
                ip.tcp_header(header).write(&mut out, &self.payload).unwrap();
            }
            Kind::Udp => ip.udp(source, destination).write(&mut out, &self.payload).unwrap(),
            Kind::Icmp if self.version == 4 => {
                ip.icmpv4_echo_request(source, destination).write(&mut out, &self.payload).unwrap()
            }
            Kind::Icmp => ip.icmpv6_echo_request(source, destination).write(&mut out, &self.payload).unwrap(),
        }
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    /// etherparse builds it, so we know what is in it.
    #[test]
    fn valid_stacks_come_apart_as_they_were_built(stack in stacks()) {
        let mut data = stack.build();
        let len = data.len();
        data.resize(len + stack.padding, 0xee);
        let layers = Layers::parse(&data, LinkType::Ethernet);
        prop_assert_eq!(layers.stop(), Stop::Complete);
        prop_assert!(!layers.is_cut());
        prop_assert_eq!(layers.payload_range(), len - stack.payload.len()..len);
        prop_assert_eq!(layers.payload(&data), &stack.payload[..]);
        prop_assert_eq!(layers.vlan_tags(&data).map(|tag| tag.id()).collect::<Vec<_>>(), stack.vlan.clone());
        let expected = match stack.kind {
            Kind::Tcp => Transport::Tcp,
            Kind::Udp => Transport::Udp,
            Kind::Icmp if stack.version == 4 => Transport::Icmpv4,
            Kind::Icmp => Transport::Icmpv6,
        };
        prop_assert_eq!(layers.transport().map(|(kind, _)| kind), Some(expected));
        let has_ports = matches!(stack.kind, Kind::Tcp | Kind::Udp);
        prop_assert_eq!(layers.ports(&data), has_ports.then_some(stack.ports));
        if stack.version == 4 {
            prop_assert_eq!(layers.verify_ipv4(&data), Verdict::Valid);
        }
        let verdict = if stack.fragment { Verdict::Unknown } else { Verdict::Valid };
        prop_assert_eq!(layers.verify_transport(&data), verdict);
        let compared = agree(&data, LinkType::Ethernet);
        prop_assert_eq!(compared.tags, stack.vlan.len());
        prop_assert_eq!(compared.ip, 1);
        prop_assert_eq!(compared.transport, usize::from(!stack.fragment));
    }

    #[test]
    fn damaged_stacks(
        stack in stacks(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut data = stack.build();
        for (at, value) in changes {
            // Most of the interesting bytes are at the front.
            let at = at.index(data.len().min(100));
            data[at] = value;
        }
        if shorten {
            data.truncate(cut.index(data.len() + 1));
        }
        agree(&data, LinkType::Ethernet);
        let whole = check(&data, LinkType::Ethernet);
        for len in 0..data.len() {
            prefix(&data[..len], LinkType::Ethernet, &whole);
        }
        agree(data.get(14 + 4 * stack.vlan.len()..).unwrap_or_default(), LinkType::RawIp);
    }

    #[test]
    fn random_bytes(data in vec(any::<u8>(), 0..300), ether_type in prop_oneof![
        Just(0x0800u16), Just(0x86dd), Just(0x8100), Just(0x88a8), Just(0x8847), Just(0x8864), Just(0x0806), 0u16..1536
    ]) {
        for link in [LinkType::RawIp, LinkType::Ipv4, LinkType::Ipv6, LinkType::Cooked, LinkType::Cooked2,
            LinkType::Null, LinkType::Ppp, LinkType::Ethernet] {
            agree(&data, link);
        }
        let mut frame = vec![0; 12];
        frame.extend(ether_type.to_be_bytes());
        frame.extend(&data);
        agree(&frame, LinkType::Ethernet);
        if let Some(byte) = frame.get_mut(14) {
            *byte = if ether_type == 0x0800 { 0x45 } else { 0x60 | *byte & 0x0f };
            agree(&frame, LinkType::Ethernet);
        }
    }

    #[test]
    fn sums_are_what_rfc_1071_says(data in vec(any::<u8>(), 0..600), cut in any::<prop::sample::Index>()) {
        let mut naive = 0u32;
        for (index, byte) in data.iter().enumerate() {
            naive += u32::from(*byte) << if index % 2 == 0 { 8 } else { 0 };
            naive = (naive & 0xffff) + (naive >> 16);
        }
        prop_assert_eq!(checksum::internet(&data), !(naive as u16));
        let (first, second) = data.split_at(cut.index(data.len() + 1));
        prop_assert_eq!(checksum::Sum::new().with(first).with(second).finish(), !(naive as u16));
    }

    /// Both directions of a conversation share a key, and a changed port does not.
    #[test]
    fn flow_keys_have_no_direction(stack in stacks()) {
        let key = |stack: &Stack| {
            let data = stack.build();
            let layers = Layers::parse(&data, LinkType::Ethernet);
            FlowKey::inner(&layers, &data).unwrap()
        };
        let mut back = stack.clone();
        back.addresses.rotate_left(16);
        back.ports = (stack.ports.1, stack.ports.0);
        if matches!(stack.kind, Kind::Icmp) {
            back.ports = stack.ports; // identifier and sequence number
        }
        let ((there, forward), (again, reverse)) = (key(&stack), key(&back));
        prop_assert_eq!(there, again);
        prop_assert_eq!(there.stable_hash(5), again.stable_hash(5));
        let mirrored = stack.address(0)[..4] == stack.address(1)[..4];
        prop_assert!(forward != reverse || mirrored);
        let mut other = stack.clone();
        other.ports.0 ^= 1;
        prop_assert_ne!(there, key(&other).0);
        prop_assert_eq!(there.hosts(), key(&other).0.hosts());
    }

    /// What we build, etherparse reads back, checksums included.
    #[test]
    fn built_frames_read_back(
        v4 in any::<bool>(), addresses in any::<[u8; 32]>(), ports in any::<(u16, u16)>(),
        vlan in prop::option::of(any::<u16>()), payload in vec(any::<u8>(), 0..200),
        hop_limit in any::<u8>(), traffic_class in any::<u8>(),
    ) {
        let end = |at: usize, port: u16| {
            let bytes: [u8; 16] = addresses[at..at + 16].try_into().unwrap();
            let ip = if v4 { <[u8; 4]>::try_from(&bytes[..4]).unwrap().into() } else { bytes.into() };
            core::net::SocketAddr::new(ip, port)
        };
        let udp = UdpFrame {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan, source: end(0, ports.0), destination: end(16, ports.1), hop_limit, traffic_class, identification: 1,
        };
        let mut memory = vec![0xee; 400];
        let len = udp.write(&mut memory, &payload).unwrap();
        let packet = etherparse::SlicedPacket::from_ethernet(&memory[..len]).unwrap();
        let Some(etherparse::TransportSlice::Udp(header)) = &packet.transport else { panic!("not UDP") };
        prop_assert_eq!(header.payload(), &payload[..]);
        prop_assert_eq!((header.source_port(), header.destination_port()), ports);
        let expected = match &packet.net {
            Some(etherparse::NetSlice::Ipv4(ip)) => {
                prop_assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                let header = header.to_header();
                header.calc_checksum_ipv4_raw(ip.header().source(), ip.header().destination(), &payload).unwrap()
            }
            Some(etherparse::NetSlice::Ipv6(ip)) => {
                let header = header.to_header();
                header.calc_checksum_ipv6_raw(ip.header().source(), ip.header().destination(), &payload).unwrap()
            }
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(header.checksum(), expected);
        check(&memory[..len], LinkType::Ethernet);
    }
}
