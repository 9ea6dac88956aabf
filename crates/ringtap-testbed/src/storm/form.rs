//! In which version of SNMP a storm's traps are, and from which addresses.
//!
//! Owns the nodes' addresses and engines. What is told is the storm's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::message::tag;
use ringtap_snmp::usm::{Sealer, User};

use super::{MAX_NODES, SEQUENCE};

/// The version of a storm's messages, and what it needs.
#[derive(Debug, Clone)]
pub enum Form {
    /// v1, mapped as RFC 3584 §3.2 says. The number is a Gauge32, as v1 has no Counter64.
    V1 {
        /// The community.
        community: String,
    },
    /// v2c.
    V2c {
        /// The community.
        community: String,
    },
    /// v3, each node an engine of its own.
    V3(Engines),
}

/// The nodes' engines and keys.
#[derive(Debug, Clone)]
pub struct Engines(Vec<Sealer>);

impl Engines {
    /// One engine for each of `nodes` nodes, with all the security that `user` has. `boots` must be higher in a later storm, else its traps
    /// are older than what the station knows of the engines.
    pub fn new(user: &User, nodes: u32, boots: u32) -> Self {
        Self((0..nodes.clamp(1, MAX_NODES)).map(|node| Sealer::new(user, &engine_id(node), boots)).collect())
    }
}

/// snmpEngineID of a node (RFC 3411 §5): the enterprise for examples (RFC 5612), format 5, the node's number.
pub fn engine_id(node: u32) -> Vec<u8> {
    [&[0x80, 0, 0x7e, 0xd9, 5][..], &node.to_be_bytes()].concat()
}

/// The address of a node: 10.64.0.1 and on, or 2001:2:0:64::1 and on (RFC 5180).
pub fn address(node: u32, ipv6: bool) -> IpAddr {
    let node = node % MAX_NODES;
    if ipv6 {
        let [_, _, high, low] = (node + 1).to_be_bytes();
        Ipv6Addr::new(0x2001, 2, 0, 0x64, 0, 0, 0, u16::from_be_bytes([high, low])).into()
    } else {
        Ipv4Addr::from(0x0a40_0001 + node).into()
    }
}

impl Form {
    /// The datagram. `time_s` is snmpEngineTime of all nodes, in seconds; v3 alone uses it.
    pub(super) fn datagram(&self, trap: Trap, node: u32, from: IpAddr, sequence: u64, time_s: u32) -> Vec<u8> {
        let request_id = sequence as i32 & 0x7fff_ffff;
        let number = match self {
            Self::V1 { .. } => Item::Gauge(sequence as u32),
            Self::V2c { .. } | Self::V3(_) => Item::Counter64(sequence),
        };
        let trap = trap.with(&SEQUENCE, number);
        match self {
            Self::V1 { community } => {
                let agent = if let IpAddr::V4(address) = from { address } else { Ipv4Addr::UNSPECIFIED };
                trap.as_v1(community.as_bytes(), agent)
            }
            Self::V2c { community } => trap.v2c(community.as_bytes(), request_id),
            Self::V3(Engines(sealers)) => {
                let sealer = &sealers[node as usize % sealers.len()];
                let scoped = trap.scoped(tag::V2_TRAP, sealer.engine_id(), b"", request_id);
                // The ciphers take any salt and any length (DES is padded), so there is always a message.
                sealer.seal(request_id, time_s, &scoped, sequence).unwrap_or_default()
            }
        }
    }
}
