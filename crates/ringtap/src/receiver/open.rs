//! Opening an interface's queues: which back end (invariant 6), how many sockets, and how the kernel's NAPI is paced.
//!
//! Owns the choice and the order in which sockets are made. When packets begin to count is the receiver's business.

use super::{Backend, Queues, ReceiverConfig, suit};
use crate::error::{Error, Result};
use crate::host_use::HostUse;
use crate::interface::Interface;
use crate::napi;
use crate::pacer::Policy;
use crate::settings::Settings;
use crate::source::Source;
use crate::source::any::AnySource;
use crate::source::packet::{Fanout, PacketRingConfig, PacketSource};
use crate::source::pcap::{PcapConfig, PcapSource};
use crate::source::socket::SocketSource;
use crate::source::vfio::{VfioConfig, VfioSource};
use crate::source::xdp::{XdpConfig, XdpSource};
use crate::steer::{Attach, Steering};
use crate::sys::{ethtool, netdev, netlink, sched};
use crate::transmit::TransmitRing;

/// What opening a back end gives.
pub(super) struct Opened {
    pub(super) queues: Vec<(AnySource, Option<TransmitRing>)>,
    pub(super) steering: Option<Steering>,
}

/// The back end to try first, and whether another may take its place.
pub(super) fn choose(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> (Backend, bool) {
    let name = &interface.name;
    match config.backend {
        Backend::Xdp => {
            if let Some(used) = &interface.host_use
                && !config.take
                && config.rules.is_empty()
            {
                warnings.push(format!(
                    "{name} {used}: with AF_XDP the host does not see what Ringtap takes (--backend packet copies instead)"
                ));
            }
            (Backend::Xdp, false)
        }
        Backend::Auto => {
            let may_take = interface.host_use.is_none() || (config.take && config.rules_are_exact);
            let fits = config.frame_size.is_some() || frame_sizes(config, interface).next().is_some();
            if let Some(used) = interface.host_use.as_ref().filter(|_| !may_take) {
                warnings.push(format!("{name} {used}: packets are copied, and the host keeps its own"));
            } else if is_aggregate(interface) {
                warnings
                    .push(format!("{name} is a {}, and AF_XDP needs its ports: packets are copied", kind(interface)));
            } else if fits && interface.ethernet {
                return (Backend::Xdp, true);
            }
            (Backend::Packet, false)
        }
        other => (other, false),
    }
}

fn kind(interface: &Interface) -> &str {
    interface.kind.as_deref().unwrap_or_default()
}

/// Whether its packets come by ports of their own: AF_XDP's sockets are bound to a receive queue, and those are the ports'.
fn is_aggregate(interface: &Interface) -> bool {
    matches!(kind(interface), "bond" | "team")
}

/// On a bond the kernel attaches a program to the ports and refuses each packet to a socket that is bound to the bond: it would be
/// lost to everybody.
fn refuse_bond(interface: &Interface) -> Result<()> {
    if kind(interface) != "bond" {
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
    matches!(&interface.host_use, Some(HostUse::Port { kind, .. }) if matches!(kind.as_str(), "bond" | "team"))
}

/// The frame sizes to try, if none was told: packed where the kernel has to copy, then whole ones that hold a packet.
fn frame_sizes(config: &ReceiverConfig, interface: &Interface) -> impl Iterator<Item = u32> {
    let copies = config.attach == Some(Attach::Generic) || netdev::has_zero_copy(interface.index).is_ok_and(|has| !has);
    let packed = (copies && !config.huge_pages).then_some(XdpSource::PACKED);
    packed.into_iter().chain(XdpSource::frame_size_for(interface.mtu, interface.driver.as_deref()))
}

/// The receive queues that were asked for.
pub(super) fn queue_ids(config: &ReceiverConfig, interface: &Interface) -> Vec<u32> {
    match &config.queues {
        Queues::All => (0..interface.queues).collect(),
        Queues::Count(count) => (0..*count).collect(),
        Queues::Only(list) => list.clone(),
    }
}

pub(super) fn open_xdp(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    refuse_bond(interface)?;
    let mut frame_sizes: Vec<u32> = match config.frame_size {
        Some(told) => vec![told],
        None => frame_sizes(config, interface).collect(),
    };
    if frame_sizes.is_empty() {
        // Refused, with what to do about it.
        frame_sizes.push(4096);
    }
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
            .way_out(format!("the interface has {} receive queues, from 0", interface.queues)));
    }
    let queue_config = |queue: u32, frame_size: u32| {
        let packed_slots =
            config.packed_slots.filter(|_| frame_size == XdpSource::PACKED && config.frame_size.is_none());
        XdpConfig {
            interface: interface.name.clone(),
            ifindex: interface.index,
            mtu: interface.mtu,
            driver: interface.driver.clone(),
            queue,
            ring_slots: shared_out(config, packed_slots.unwrap_or(config.ring_slots), queue_ids.len()),
            transmit_slots: config.transmit_slots,
            frame_size,
            huge_pages: config.huge_pages,
            across_fork: config.across_fork,
        }
    };
    for &frame_size in &frame_sizes {
        queue_config(queue_ids[0], frame_size).check()?;
    }
    let XdpConfig { ring_slots, frame_size, .. } = queue_config(queue_ids[0], frame_sizes[0]);
    suit::tell_memory(config, interface, queue_ids.len(), ring_slots, frame_size)?;
    let spares_link_control = is_watched_port(interface);
    let mut steering =
        Steering::attach(&interface.name, interface.index, &config.rules, config.attach, spares_link_control)?;
    let mut queues = Vec::new();
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
        queues.push((AnySource::Xdp(source), transmit));
    }
    if let Some(filter) = &config.sent_beside {
        let whole = packet_config(config, interface);
        let ring_slots = whole.ring_slots.min(4096);
        let ring = PacketRingConfig { filter: Some(filter.clone()), ring_slots, ..whole };
        let (source, transmit, _) = PacketSource::open(&ring, Fanout::None)?;
        queues.push((AnySource::Packet(source), transmit));
    }
    Ok(Opened { queues, steering: Some(steering) })
}

/// How many sockets share an interface's packets, and each one's place in the fanout group.
fn fanout_count(config: &ReceiverConfig) -> u32 {
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

/// The slots of one of several rings.
fn shared_out(config: &ReceiverConfig, slots: u32, queues: usize) -> u32 {
    if config.packed_slots.is_some() { suit::share_of(slots, queues) } else { slots }
}

fn packet_config(config: &ReceiverConfig, interface: &Interface) -> PacketRingConfig {
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

pub(super) fn open_packet(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    let whole = packet_config(config, interface);
    let count = fanout_count(config);
    let ring = PacketRingConfig { ring_slots: shared_out(config, whole.ring_slots, count as usize), ..whole };
    suit::tell_memory(config, interface, count as usize, ring.ring_slots, ring.frame_size)?;
    let queues = open_members(count, |fanout| {
        let (source, transmit, group) = PacketSource::open(&ring, fanout)?;
        Ok(((AnySource::Packet(source), transmit), group))
    })?;
    Ok(Opened { queues, steering: None })
}

pub(super) fn open_socket(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    let ring = packet_config(config, interface);
    let queues = open_members(fanout_count(config), |fanout| {
        let (source, group) = SocketSource::open(&ring, fanout)?;
        Ok(((AnySource::Socket(source), None), group))
    })?;
    Ok(Opened { queues, steering: None })
}

pub(super) fn open_pcap(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> Result<Opened> {
    if fanout_count(config) != 1 {
        return Err(Error::usage("open through libpcap", &interface.name, "a libpcap device has one queue")
            .way_out("leave --queues out"));
    }
    let is_any = interface.is_foreign() && interface.name == "any";
    let device = PcapConfig {
        library: config.pcap_library.clone(),
        device: interface.name.clone(),
        ring_slots: config.ring_slots,
        frame_size: config.frame_size,
        // "any" is never promiscuous, and libpcap would say so each time.
        promiscuous: config.promiscuous && !is_any,
        incoming_only: config.incoming_only,
        is_interface: !interface.is_foreign(),
        leaves_out: is_any || interface.is_loopback(),
    };
    let source = PcapSource::open(&device, warnings)?;
    Ok(Opened { queues: vec![(AnySource::Pcap(Box::new(source)), None)], steering: None })
}

pub(super) fn open_vfio(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> Result<Opened> {
    let usage = |cause: &str, way_out: &str| Err(Error::usage("open by VFIO", &interface.name, cause).way_out(way_out));
    let queues = match &config.queues {
        // More than threads can run at a time gain nothing.
        Queues::All => interface.queues.min(sched::allowed_cpus().len() as u32),
        Queues::Count(count) => *count,
        Queues::Only(_) => return usage("its queues are shared out by ourselves", "give their number"),
    };
    if config.frame_size.is_some_and(|size| size != 2048) {
        return usage("its frames have 2048 bytes", "leave --frame-size out");
    }
    let card = VfioConfig {
        address: interface.name.clone(),
        queues,
        ring_slots: config.ring_slots,
        transmit_slots: config.transmit_slots,
        huge_pages: config.huge_pages,
        promiscuous: config.promiscuous,
    };
    let queues = VfioSource::open(&card, warnings)?.into_iter();
    let queues = queues.map(|(source, transmit)| (AnySource::Vfio(Box::new(source)), transmit)).collect();
    Ok(Opened { queues, steering: None })
}

/// Opens `count` sockets of one fanout group (none for a single socket).
fn open_members<T>(count: u32, open: impl Fn(Fanout) -> Result<(T, Option<u16>)>) -> Result<Vec<T>> {
    let mut fanout = if count == 1 { Fanout::None } else { Fanout::First };
    (0..count)
        .map(|_| {
            let (member, group) = open(fanout)?;
            if let Some(group) = group {
                fanout = Fanout::Join(group);
            }
            Ok(member)
        })
        .collect()
}

/// Paces the NAPI of an AF_XDP receiver's interface, `cpus` being where its engines run; whether they need no timer then.
pub(super) fn pace_napi(
    config: &ReceiverConfig,
    interface: &Interface,
    queues: &[(AnySource, Option<TransmitRing>)],
    cpus: &[usize],
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> bool {
    const DEFER_HARD_IRQS: u64 = 2;
    /// What our wake-ups are late, and more.
    const NET_BELOW_NS: u64 = 100_000;
    let busy_poll = queues.iter().any(|(source, _)| source.description().busy_poll);
    let (flush_ns, instead_of_timer) = if busy_poll {
        warnings.extend(card_ring_warning(
            &interface.name,
            config.ring_slots,
            ethtool::receive_ring(&interface.name).ok(),
        ));
        // Our thread runs the device's poll itself; the kernel's timer is only a net below, longer than our period
        // (Documentation/networking/napi.rst, busy polling). Little longer: while we wait for the interrupt at low rates it
        // still defers that after each packet, and the next one then waits for this timer, which must not break the bound.
        // When our poll comes later than the net, the kernel polls once more and the interrupt stays deferred.
        let net_ns = longest_period_ns(&config.policy).map(|period_ns| period_ns + (period_ns / 8).min(NET_BELOW_NS));
        (net_ns.unwrap_or(0), false)
    } else {
        // Generic XDP runs behind the driver's NAPI as well, on packets that GRO leaves alone.
        config.napi_pause.at(interface.index, cpus)
    };
    if flush_ns == 0 {
        return false;
    }
    let in_force = napi::pace(settings, &interface.name, DEFER_HARD_IRQS, flush_ns, warnings);
    instead_of_timer && in_force
}

/// Between two polls of our thread packets wait in the card's own ring, not in ours: it should not be the smaller one.
fn card_ring_warning(interface: &str, ring_slots: u32, card: Option<(u32, u32)>) -> Option<String> {
    let (now, most) = card.filter(|&(now, most)| now < ring_slots && now < most)?;
    let wanted = ring_slots.min(most);
    Some(format!(
        "{interface}'s own ring has {now} descriptors, and with the timer packets wait there between two polls: \
         `ethtool -G {interface} rx {wanted}` makes it {wanted}"
    ))
}

/// The longest timer period a policy may use, if it has a timer.
fn longest_period_ns(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Hybrid(hybrid) => hybrid.rungs.iter().map(|rung| rung.period_ns).max(),
        Policy::Windowed(windowed) => Some(windowed.period_ns),
        Policy::Timer { period_ns } => Some(*period_ns),
        Policy::Interrupt | Policy::Busy => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{card_ring_warning, packet_frame_size};

    #[test]
    fn frames_hold_a_wires_packet_and_no_loopbacks() {
        let sizes = [0, 1500, 1792, 1793, 9000, 16128, 16129, 65536, u32::MAX].map(packet_frame_size);
        assert_eq!(sizes, [2048, 2048, 2048, 4096, 16384, 16384, 2048, 2048, 2048]);
    }

    #[test]
    fn a_card_with_a_smaller_ring_that_can_grow_is_named() {
        let warning = |card| card_ring_warning("eth1", 2048, card);
        assert!(warning(Some((256, 4096))).unwrap().contains("rx 2048"));
        assert!(warning(Some((256, 1024))).unwrap().contains("rx 1024"));
        for enough in [Some((2048, 4096)), Some((1024, 1024)), None] {
            assert_eq!(warning(enough), None);
        }
    }
}
