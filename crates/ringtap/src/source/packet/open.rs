//! Packet sockets on an interface: how many share its packets, and how large their frames are.
//!
//! Owns what the packet ring and the plain socket have in common when they are opened.

use super::{Fanout, PacketRingConfig, PacketSource, Spread};
use crate::error::Result;
use crate::interface::Interface;
use crate::receiver::{Queues, ReceiverConfig};
use crate::source::AnySource;
use crate::source::backend::Opened;
use crate::source::share::{self, Rings};

/// How many sockets share an interface's packets, and each one's place in the fanout group.
pub(in crate::source) fn fanout_count(config: &ReceiverConfig) -> u32 {
    match &config.queues {
        Queues::All => 1,
        Queues::Count(count) => (*count).max(1),
        Queues::Only(list) => list.len().max(1) as u32,
    }
}

/// A frame holds a packet of the MTU, as far as that is one of a wire. Longer packets are merged ones or of a device without
/// a wire (loopback: 65,536 bytes): few for their bytes, and fetched by a call each, so that the ring stays small.
fn packet_frame_size(mtu: u32) -> u32 {
    const LEAST: u32 = 2048;
    const LONGEST: u32 = 16384;
    let holds_mtu = mtu.saturating_add(256).checked_next_power_of_two().unwrap_or(u32::MAX);
    if holds_mtu > LONGEST { LEAST } else { holds_mtu.max(LEAST) }
}

/// The ring that `config` asks for on this interface.
pub(in crate::source) fn ring_config(config: &ReceiverConfig, interface: &Interface) -> PacketRingConfig {
    let frame_size = config.frame_size.unwrap_or_else(|| packet_frame_size(interface.mtu));
    PacketRingConfig {
        interface: interface.name.clone(),
        ifindex: interface.index,
        ring_slots: config.ring_slots,
        transmit_slots: config.transmit_slots,
        frame_size,
        incoming_only: config.incoming_only,
        fetch_oversize: config.fetch_oversize,
        filter: config.filter.clone(),
    }
}

/// The rings that `config` asks for.
pub(super) fn rings(config: &ReceiverConfig, interface: &Interface) -> Option<Rings> {
    let (queues, ring) = (fanout_count(config) as usize, ring_config(config, interface));
    Some(Rings { queues, slots: share::slots_of_each(config, ring.ring_slots, queues), frame_size: ring.frame_size })
}

/// Opens the rings that were asked for, shut until each is admitted.
///
/// # Errors
/// A number out of range, memory, privileges, the interface down.
pub(super) fn open(config: &ReceiverConfig, interface: &Interface, _warnings: &mut Vec<String>) -> Result<Opened> {
    let whole = ring_config(config, interface);
    let count = fanout_count(config);
    let ring = PacketRingConfig { ring_slots: share::slots_of_each(config, whole.ring_slots, count as usize), ..whole };
    let rings = Rings { queues: count as usize, slots: ring.ring_slots, frame_size: ring.frame_size };
    share::tell_memory(config, interface, rings)?;
    let sources = open_members(config, |fanout| {
        let (source, transmit, group) = PacketSource::open(&ring, fanout)?;
        Ok(((Box::new(source) as AnySource, transmit), group))
    })?;
    Ok(Opened::unsteered(sources))
}

/// Opens as many sockets as were asked for, in one fanout group (none for a single socket).
pub(in crate::source) fn open_members<T>(
    config: &ReceiverConfig,
    open: impl Fn(Fanout) -> Result<(T, Option<u16>)>,
) -> Result<Vec<T>> {
    let count = fanout_count(config);
    let spread = if config.flows_together { Spread::ByAddresses } else { Spread::ByFlow };
    let mut fanout = if count == 1 { Fanout::None } else { Fanout::First(spread) };
    (0..count)
        .map(|_| {
            let (member, group) = open(fanout)?;
            if let Some(group) = group {
                fanout = Fanout::Join(spread, group);
            }
            Ok(member)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::packet_frame_size;

    #[test]
    fn frames_hold_a_wires_packet_and_no_loopbacks() {
        let sizes = [0, 1500, 1792, 1793, 9000, 16128, 16129, 65536, u32::MAX].map(packet_frame_size);
        assert_eq!(sizes, [2048, 2048, 2048, 4096, 16384, 16384, 2048, 2048, 2048]);
    }
}
