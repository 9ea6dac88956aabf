//! AF_XDP on an interface: which queues, how large their frames and rings, and the steering that feeds them.
//!
//! Owns the order in which steering and sockets are made. One queue's socket is [`super::XdpSource`]'s.

use super::{XdpConfig, XdpSource};
use crate::error::{Error, Result};
use crate::host_use::HostUse;
use crate::interface::Interface;
use crate::receiver::{Queues, ReceiverConfig, Relay};
use crate::source::AnySource;
use crate::source::backend::Opened;
use crate::source::packet::{self, Fanout, PacketRingConfig, PacketSource};
use crate::source::share::{self, Rings};
use crate::steer::{Attach, Steering};
use crate::sys::{netdev, netlink};

/// On a bond the kernel attaches a program to the ports and refuses each packet to a socket that is bound to the bond: it would be
/// lost to everybody.
pub(crate) fn refuse_bond(interface: &Interface) -> Result<()> {
    if interface.kind.as_deref() != Some("bond") {
        return Ok(());
    }
    let links = netlink::links().unwrap_or_default();
    let ports: Vec<String> =
        links.into_iter().filter(|link| link.master == Some(interface.index)).map(|port| port.name).collect();
    let way_out = match ports.as_slice() {
        [] => "use --backend packet".to_owned(),
        ports => format!("use --backend packet, or capture from its ports: {}", ports.join(", ")),
    };
    Err(Error::usage("open AF_XDP on", &interface.name, "the receive queues of a bond are those of its ports")
        .way_out(way_out))
}

/// Whether it is a port of a bond or team, which find out by LACP and ARP whether it works.
fn is_watched_port(interface: &Interface) -> bool {
    interface.port_of.is_some()
        || matches!(&interface.host_use, Some(HostUse::Port { kind, .. }) if matches!(kind.as_str(), "bond" | "team"))
}

/// The frame sizes to try, if none was told: packed where the kernel has to copy, then whole ones that hold a packet.
pub(crate) fn frame_sizes(config: &ReceiverConfig, interface: &Interface) -> impl Iterator<Item = u32> {
    let copies = config.attach == Some(Attach::Generic) || netdev::has_zero_copy(interface.index).is_ok_and(|has| !has);
    let packed = (copies && !config.huge_pages).then_some(XdpSource::PACKED);
    packed.into_iter().chain(XdpSource::frame_size_for(interface.mtu, interface.driver.as_deref()))
}

/// The receive queues that were asked for.
pub(crate) fn queue_ids(config: &ReceiverConfig, interface: &Interface) -> Vec<u32> {
    match &config.queues {
        Queues::All => (0..interface.queues).collect(),
        Queues::Count(count) => (0..*count).collect(),
        Queues::Only(list) => list.clone(),
    }
}

/// The frame sizes to try, at least one.
fn sizes_to_try(config: &ReceiverConfig, interface: &Interface) -> Vec<u32> {
    let sizes: Vec<u32> = match config.frame_size {
        Some(told) => vec![told],
        None => frame_sizes(config, interface).collect(),
    };
    // None fits: 4096 is refused, with what to do about it.
    if sizes.is_empty() { vec![4096] } else { sizes }
}

/// Slots of each of `queues` rings with frames of this size.
fn slots_of_each(config: &ReceiverConfig, frame_size: u32, queues: usize) -> u32 {
    let packed = config.packed_slots.filter(|_| frame_size == XdpSource::PACKED && config.frame_size.is_none());
    share::slots_of_each(config, packed.unwrap_or(config.ring_slots), queues)
}

/// The rings that `config` asks for.
pub(super) fn rings(config: &ReceiverConfig, interface: &Interface) -> Option<Rings> {
    let (queues, frame_size) = (queue_ids(config, interface).len(), *sizes_to_try(config, interface).first()?);
    let slots = slots_of_each(config, frame_size, queues);
    let times = config.relay.as_ref().map_or(1, Relay::rings_here);
    Some(Rings { queues, slots: slots.saturating_mul(times), frame_size })
}

/// Opens the queues that were asked for, with frames of the first size that the kernel takes.
///
/// # Errors
/// What was asked for is not there; memory, privileges, a queue taken by another program.
pub(super) fn open(config: &ReceiverConfig, interface: &Interface, _warnings: &mut Vec<String>) -> Result<Opened> {
    refuse_bond(interface)?;
    let mut frame_sizes = sizes_to_try(config, interface);
    let queue_ids = queue_ids(config, interface);
    if queue_ids.is_empty() {
        return Err(Error::usage("open AF_XDP queue on", &interface.name, "no queue was asked for")
            .way_out("ask for at least one"));
    }
    if let Some((_, queue)) = queue_ids.iter().enumerate().find(|&(index, queue)| queue_ids[..index].contains(queue)) {
        return Err(Error::usage("open AF_XDP queue on", &interface.name, format!("queue {queue} twice"))
            .way_out("name each queue once"));
    }
    if let Some(&queue) = queue_ids.iter().find(|&&queue| queue >= interface.queues.min(crate::steer::MOST_QUEUES)) {
        return Err(Error::usage("open AF_XDP queue on", &interface.name, format!("there is no queue {queue}"))
            .way_out(match interface.queues {
                1 => "the interface has queue 0 alone".to_owned(),
                queues => format!("the interface has queues 0 to {}", queues - 1),
            }));
    }
    let queue_config = |queue: u32, frame_size: u32| XdpConfig {
        interface: interface.name.clone(),
        ifindex: interface.index,
        mtu: interface.mtu,
        driver: interface.driver.clone(),
        queue,
        ring_slots: slots_of_each(config, frame_size, queue_ids.len()),
        transmit_slots: config.transmit_slots,
        frame_size,
        huge_pages: config.huge_pages,
        across_fork: config.across_fork,
        relay: config.relay.clone(),
    };
    for &frame_size in &frame_sizes {
        queue_config(queue_ids[0], frame_size).check()?;
    }
    if let Some(rings) = rings(config, interface) {
        share::tell_memory(config, interface, rings)?;
    }
    let spares_link_control = is_watched_port(interface);
    let mut steering =
        Steering::attach(&interface.name, interface.index, &config.rules, config.attach, spares_link_control)?;
    let mut sources: Vec<(AnySource, _)> = Vec::new();
    for &queue in &queue_ids {
        let mut opened = XdpSource::open(&queue_config(queue, frame_sizes[0]), &mut steering);
        // A kernel that has no packets in several pieces, or wants more room in a frame than a packed one has; or memory of that
        // kind is not allowed here. Not so where the queue is taken or the device is down.
        let other_frames =
            |error: &Error| !matches!(error.errno(), Some(libc::EBUSY | libc::ENETDOWN | libc::ENODEV | libc::ENXIO));
        if frame_sizes.len() > 1 && opened.as_ref().is_err_and(other_frames) {
            frame_sizes.remove(0);
            opened = XdpSource::open(&queue_config(queue, frame_sizes[0]), &mut steering);
        }
        let (source, transmit) = opened?;
        sources.push((Box::new(source), transmit));
    }
    if let Some(filter) = &config.sent_beside {
        let whole = packet::ring_config(config, interface);
        let ring_slots = whole.ring_slots.min(4096);
        let ring = PacketRingConfig { filter: Some(filter.clone()), ring_slots, ..whole };
        let (source, transmit, _) = PacketSource::open(&ring, Fanout::None)?;
        sources.push((Box::new(source), transmit));
    }
    Ok(Opened { sources, steering: Some(steering) })
}
