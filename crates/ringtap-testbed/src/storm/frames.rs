//! A storm's datagrams in frames, each from its node's address.

use std::net::SocketAddr;
use std::time::Instant;

use ringtap_wire::UdpFrame;

use super::Storm;
use crate::generate::{FrameSpec, MakeFrame};

/// The hops that most systems give a datagram.
const HOP_LIMIT: u8 = 64;

impl Storm {
    /// Makes frame after frame: Ethernet, VLAN, source port and destination as in `spec`, whose family is the storm's too; to
    /// `port`. Time of engines (v3) counts from now on.
    pub fn frames(self, spec: FrameSpec, port: u16) -> MakeFrame {
        let storm = Self { ipv6: spec.destination.is_ipv6(), ..self };
        let destination = SocketAddr::new(spec.destination, port);
        let started = Instant::now();
        Box::new(move |number, room| {
            let (node, datagram) = storm.datagram(number, started.elapsed().as_secs() as u32);
            let frame = UdpFrame {
                source_mac: spec.source_mac,
                destination_mac: spec.destination_mac,
                vlan: spec.vlan,
                source: SocketAddr::new(node, spec.source_port),
                destination,
                hop_limit: HOP_LIMIT,
                traffic_class: 0,
                identification: number as u16,
            };
            frame.write(room, &datagram).unwrap_or(0)
        })
    }
}
