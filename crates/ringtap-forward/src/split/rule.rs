//! Where a packet goes: the classes it is in, and of each class the outputs that get it.
//!
//! Owns the decision, which is a function of the packet and of which outputs are up. Classes come from `classes`.
//!
//! Among the outputs of a class the one with the greatest weight for the flow gets it (rendezvous hashing). Take one away, and only
//! flows for which it had the greatest weight go elsewhere.

use ringtap::burst::Packet;
use ringtap_run::filter::Program;
use ringtap_wire::{Layers, LinkType, protocol};

use super::flow::{FlowHash, mix};

/// Most outputs and most classes: one bit each.
pub(crate) const MOST: usize = 64;

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) classes: Vec<Class>,
    pub(crate) hash: FlowHash,
    /// What each output brings into its weights.
    pub(crate) keys: Vec<u64>,
    pub(crate) link: LinkType,
}

/// Packets of one kind, and where they go.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) takes: Takes,
    /// Numbers of outputs, each once.
    pub(crate) outputs: Vec<u8>,
    /// To each of them, not to one of them by flow.
    pub(crate) copies: bool,
}

/// Which packets are in a class.
#[derive(Debug, Clone)]
pub(crate) enum Takes {
    All,
    Protocol(Protocol),
    Expression(Program),
    /// What no other class takes.
    Rest,
}

/// The fixed classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Icmp,
    OtherIp,
    NotIp,
}

impl Protocol {
    pub(crate) const ALL: [(Self, &str); 5] = [
        (Self::Tcp, "tcp"),
        (Self::Udp, "udp"),
        (Self::Icmp, "icmp"),
        (Self::OtherIp, "other-ip"),
        (Self::NotIp, "not-ip"),
    ];

    fn of(layers: &Layers, hash: &FlowHash) -> Self {
        match hash.span(layers).map(|span| span.protocol()) {
            None => Self::NotIp,
            Some(protocol::TCP) => Self::Tcp,
            Some(protocol::UDP) => Self::Udp,
            Some(protocol::ICMP | protocol::ICMPV6) => Self::Icmp,
            Some(_) => Self::OtherIp,
        }
    }
}

/// What becomes of a packet; each a set of outputs, or of classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Outputs that get it.
    pub(crate) to: u64,
    /// Outputs that are down and would have got it; another one does.
    pub(crate) moved: u64,
    /// Outputs that are down, and no other of their class is up.
    pub(crate) down: u64,
    /// Classes it is in.
    pub(crate) classes: u64,
}

impl Rule {
    /// Decides about a packet while the outputs in `up` are up.
    pub(crate) fn decide(&self, packet: &Packet<'_>, up: u64) -> Decision {
        let mut decision = Decision::default();
        let (mut layers, mut number) = (None, None);
        let mut parsed = || *layers.get_or_insert_with(|| Layers::parse(packet.data, self.link));
        for (index, class) in self.classes.iter().enumerate() {
            let is_in = match &class.takes {
                Takes::All => true,
                Takes::Protocol(protocol) => *protocol == Protocol::of(&parsed(), &self.hash),
                Takes::Expression(program) => program.takes(packet.data, packet.wire_len),
                Takes::Rest => decision.classes == 0,
            };
            if !is_in {
                continue;
            }
            decision.classes |= 1 << index;
            if class.copies || class.outputs.len() == 1 {
                let all = class.outputs.iter().fold(0, |set, output| set | 1 << output);
                decision.to |= all & up;
                decision.down |= all & !up;
            } else {
                let number = *number.get_or_insert_with(|| self.hash.of(&parsed(), packet.data));
                self.choose(class, number, up, &mut decision);
            }
        }
        // What one class sends to an output, another did not lose there.
        decision.down &= !decision.to;
        decision
    }

    /// One output of a class.
    fn choose(&self, class: &Class, number: u64, up: u64, decision: &mut Decision) {
        let weight = |output: &u8| mix(number ^ self.keys[usize::from(*output)]);
        let best = |outputs: &mut dyn Iterator<Item = &u8>| outputs.max_by_key(|output| weight(output)).copied();
        let Some(first) = best(&mut class.outputs.iter()) else { return };
        if up >> first & 1 == 1 {
            decision.to |= 1 << first;
            return;
        }
        match best(&mut class.outputs.iter().filter(|output| up >> **output & 1 == 1)) {
            Some(second) => {
                decision.to |= 1 << second;
                decision.moved |= 1 << first;
            }
            None => decision.down |= 1 << first,
        }
    }
}

/// What an output of this name brings into its weights: the same wherever it stands in the list.
pub(crate) fn key(name: &str, seed: u64) -> u64 {
    name.bytes().fold(mix(seed), |key, byte| mix(key ^ u64::from(byte)))
}
