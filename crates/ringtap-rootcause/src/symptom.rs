//! Which alarm is which symptom: the link between what the station was told and what the codebook predicts.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::topology::{Protocol, Topology};

/// What a cause makes a node say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symptom {
    /// linkDown (RFC 2863) of an interface.
    Interface {
        /// Who says it.
        node: u32,
        /// ifIndex.
        index: u32,
    },
    /// A routing protocol lost a neighbour.
    Adjacency {
        /// Who says it.
        node: u32,
        /// Which protocol.
        protocol: Protocol,
        /// Whom it lost.
        peer: u32,
    },
    /// entStateOperDisabled (RFC 4268) of a card.
    Card {
        /// Who says it.
        node: u32,
        /// entPhysicalIndex.
        entity: u32,
    },
    /// What watches power tells of it (UPS-MIB, RFC 1628).
    Power {
        /// Who says it.
        node: u32,
    },
    /// coldStart or warmStart (RFC 3418): comes after a node was dead, and is never missed.
    Restart {
        /// Who says it.
        node: u32,
    },
}

impl Symptom {
    /// Who says it.
    pub fn node(self) -> u32 {
        match self {
            Self::Interface { node, .. }
            | Self::Adjacency { node, .. }
            | Self::Card { node, .. }
            | Self::Power { node }
            | Self::Restart { node } => node,
        }
    }
}

/// What an alarm is about, in the words of the station's table: who said it, the condition, and the object within.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The node: its address or host name.
    pub resource: String,
    /// The condition, such as `linkDown`.
    pub condition: String,
    /// The object, such as an ifIndex; empty: the node itself.
    pub object: String,
}

/// Where an alarm belongs in the topology: its node, and the symptom, if something in the topology can cause it.
pub fn place(topology: &Topology, subject: &Subject) -> (Option<u32>, Option<u32>) {
    let Some(node) = topology.find(&subject.resource) else { return (None, None) };
    let object = subject.object.as_str();
    let adjacency = |protocol| {
        let peer = topology.at(peer(subject)?)?;
        Some(Symptom::Adjacency { node, protocol, peer })
    };
    let symptom = match subject.condition.as_str() {
        "linkDown" => {
            let index = first_number(object).or_else(|| topology.interface(node, object));
            index.map(|index| Symptom::Interface { node, index })
        }
        "bgpBackwardTransition" => adjacency(Protocol::Bgp),
        "ospfNbrStateChange" => adjacency(Protocol::Ospf),
        "entStateOperDisabled" => first_number(object).map(|entity| Symptom::Card { node, entity }),
        "upsAlarm" | "upsOnBattery" => Some(Symptom::Power { node }),
        "coldStart" | "warmStart" => Some(Symptom::Restart { node }),
        _ => None,
    };
    (Some(node), symptom.and_then(|symptom| topology.number(symptom)))
}

pub(crate) fn first_number(object: &str) -> Option<u32> {
    object.split('.').next()?.parse().ok()
}

/// Whom an alarm of a routing protocol names: an address, of OSPF with ospfNbrAddressLessIndex behind it (RFC 4750).
pub(crate) fn peer(subject: &Subject) -> Option<IpAddr> {
    let object = subject.object.as_str();
    match subject.condition.as_str() {
        "bgpBackwardTransition" => object.parse().ok(),
        "ospfNbrStateChange" => object.parse().ok().or_else(|| object.rsplit_once('.')?.0.parse().ok()),
        _ => None,
    }
}
