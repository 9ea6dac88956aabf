//! One number for all packets that belong together.
//!
//! Owns what belongs together: both directions of a flow, and all fragments of a datagram. It keeps no state, so what it says of a
//! packet depends on that packet alone. Does not: choose an output (`rule`).
//!
//! A later fragment has no ports, so a fragmented datagram goes by its addresses, the first fragment too. It may so go elsewhere than
//! the unfragmented packets of its flow; only addresses alone keep both together, at the price of a coarser balance.

use std::net::IpAddr;

use ringtap_wire::{FlowKey, IpSpan, Layers};

/// How packets are told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowHash {
    /// By addresses alone.
    pub(crate) hosts: bool,
    /// Packets of tunnels by what is inside. (Of a tunnel in a tunnel, fragments between the two go apart.)
    pub(crate) inner: bool,
    /// Nobody who does not know it can aim at one output.
    pub(crate) seed: u64,
}

impl FlowHash {
    /// The number of a packet.
    pub(crate) fn of(&self, layers: &Layers, data: &[u8]) -> u64 {
        let Some(span) = self.span(layers) else { return self.of_frame(layers, data) };
        if !self.hosts && !span.is_fragment() {
            let key = if self.goes_in(layers) { FlowKey::inner(layers, data) } else { FlowKey::outer(layers, data) };
            if let Some((key, _)) = key {
                return key.stable_hash(self.seed);
            }
        }
        match span.view(data) {
            Some(ip) => self.of_addresses(ip.source(), ip.destination(), layers.vlan_ids(data)),
            None => self.of_frame(layers, data),
        }
    }

    /// The IP header that decides.
    pub(crate) fn span<'l>(&self, layers: &'l Layers) -> Option<&'l IpSpan> {
        if self.goes_in(layers) { layers.inner_ip() } else { layers.outer_ip() }
    }

    /// Not behind a header that is fragmented: later fragments don't show what is inside.
    fn goes_in(&self, layers: &Layers) -> bool {
        self.inner && layers.outer_ip().is_some_and(|outer| !outer.is_fragment())
    }

    fn of_addresses(&self, a: IpAddr, b: IpAddr, vlan: [u16; 2]) -> u64 {
        let bits = |address| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (low, high) = if bits(a) <= bits(b) { (bits(a), bits(b)) } else { (bits(b), bits(a)) };
        let words = [low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64];
        let vlan = u64::from(vlan[0]) << 16 | u64::from(vlan[1]);
        words.iter().fold(mix(self.seed ^ vlan), |hash, word| mix(hash ^ word))
    }

    /// Of what is no IP: questions and answers of ARP by the addresses they ask about, all else by the stations.
    fn of_frame(&self, layers: &Layers, data: &[u8]) -> u64 {
        let vlan = layers.vlan_ids(data);
        if let Some((asker, asked)) = layers.arp(data).and_then(|arp| arp.ipv4()) {
            return self.of_addresses(asker.into(), asked.into(), vlan);
        }
        let station = |mac: [u8; 6]| mac.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let ends = layers.ethernet(data).map(|frame| (station(frame.source()), station(frame.destination())));
        let (a, b) = ends.unwrap_or_default();
        mix(mix(mix(self.seed ^ u64::from(vlan[0])) ^ a.min(b)) ^ a.max(b))
    }
}

/// Spreads the bits of a number over all of it; one to one.
pub(crate) fn mix(mut bits: u64) -> u64 {
    // Constants of SplitMix64's finaliser.
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
