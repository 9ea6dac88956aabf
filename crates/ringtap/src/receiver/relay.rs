//! Two interfaces as the ports of a forwarder: what comes by one leaves by the other.
//!
//! Owns what has to be alike on both, the order in which they are opened, and that one engine serves both. By AF_XDP frames are lent
//! from one to the other without a copy (`sys/xsk/relay`). With other back ends who forwards copies: by DPDK into the ports' own rings,
//! else into rings of its own. What is done with a packet is the handler's business.

use std::sync::Arc;

use super::{Backend, Carried, Devices, ReceiverConfig, choose, occupants};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::meters::EngineMeters;
use crate::source::pair::Pair;
use crate::source::xdp::{self, XdpSource};
use crate::source::{AnySource, Source};
use crate::sys::netdev;
use crate::sys::xsk::{Umems, XskConfig, XskSocket};
use crate::transmit::TransmitRing;

/// What is asked of a forwarder's ports.
#[derive(Debug, Clone, Copy)]
pub struct RelayConfig {
    /// Packets of the second port are taken too.
    pub both: bool,
    /// Slots of each transmit ring, a power of two; of AF_XDP's at most a quarter of the receive ring's.
    pub transmit_slots: u32,
}

/// What the two ports share while they are opened.
#[derive(Debug, Clone)]
pub struct Relay {
    umems: Arc<Umems>,
    /// One of them can't do without a copy by the kernel.
    copies: bool,
    both: bool,
}

impl Relay {
    pub(crate) fn umems(&self) -> &Umems {
        &self.umems
    }

    /// A port's socket. At most half of the other port's frames may be out by it (in its transmit and its completion ring), so that
    /// one that sends too slowly never leaves the other without frames to receive into.
    pub(crate) fn port(&self, config: XskConfig) -> XskConfig {
        XskConfig {
            tx_frames: config.tx_frames.min(config.rx_frames / 4),
            force_copy: config.force_copy || self.copies,
            ..config
        }
    }

    /// How many times the planned ring the memory is that a receiver is told of: a second device's, which does not receive, is in it.
    pub(crate) fn rings_here(&self) -> u32 {
        if self.both { 1 } else { 2 }
    }
}

/// The ports, opened.
pub struct Relayed {
    /// The first and, where its packets are taken too, the second. Each engine serves both.
    pub devices: Devices,
    /// Of each engine: the ring that packets of port 0 leave by, and the one for those of port 1. Where a back end has none,
    /// frames go out by rings of the caller's.
    pub rings: Vec<[Option<TransmitRing>; 2]>,
    /// What was done otherwise than wished, one sentence each.
    pub notes: Vec<String>,
}

impl Devices {
    /// Opens two interfaces for a forwarder. With `auto` both are taken by AF_XDP, or both are copied.
    ///
    /// # Errors
    /// One can't be opened; AF_XDP was asked for, and the two are not alike enough to share memory.
    pub fn open_relay(first: ReceiverConfig, second: ReceiverConfig, relay: &RelayConfig) -> Result<Relayed> {
        let ports = [first.backend.find(&first.interface)?, second.backend.find(&second.interface)?];
        let mut notes = Vec::new();
        if first.backend == Backend::Xdp {
            return open_xdp(first, second, &ports, relay);
        }
        if first.backend == Backend::Dpdk {
            return open_dpdk(first, second, relay);
        }
        if first.backend == Backend::Auto {
            let configs = [&first, &second];
            let taken = if relay.both { 2 } else { 1 };
            let mut chosen = configs.iter().zip(&ports).take(taken);
            if chosen.all(|(config, port)| choose::choose(config, port, &mut notes).0 == Backend::Xdp) {
                match open_xdp(first.clone(), second.clone(), &ports, relay) {
                    Ok(relayed) => return Ok(relayed),
                    // A packet socket would see nothing there.
                    Err(error) if ports.iter().any(|port| occupants(port).iter().any(|(_, it)| it.feeds_sockets)) => {
                        return Err(error);
                    }
                    Err(error) => notes.push(format!("{error} — packets are copied by packet rings instead")),
                }
            }
        }
        let backend = if first.backend == Backend::Auto { Backend::Packet } else { first.backend };
        let copying = |config: ReceiverConfig| ReceiverConfig { backend, attach: None, ..config };
        let mut configs = vec![copying(first)];
        configs.extend(relay.both.then(|| copying(second)));
        let mut devices = Self::open(configs)?;
        devices.pair()?;
        let rings = (0..devices.source_count()).map(|_| [None, None]).collect();
        Ok(Relayed { devices, rings, notes })
    }

    /// Has the engines of the first of two devices serve the second one's sources as well.
    fn pair(&mut self) -> Result<()> {
        let [first, second] = &mut self.0[..] else { return Ok(()) };
        let (Some(first), Some(second)) = (first.receivers.first_mut(), second.receivers.first_mut()) else {
            return Ok(());
        };
        if first.stamp_clock() != second.stamp_clock() || first.source_count() != second.source_count() {
            return Err(Error::failed(
                "pair with the other port",
                &second.interface.name,
                "their queues or stamps differ",
            )
            .way_out("use --backend packet"));
        }
        second.config.first_engine = first.config.first_engine;
        let sources = std::mem::take(&mut first.sources).into_iter().zip(std::mem::take(&mut second.sources));
        for ((of_first, transmit), (of_second, _)) in sources {
            let meters = Arc::new(EngineMeters::default());
            second.carried.push(Carried { description: of_second.description(), meters: Arc::clone(&meters) });
            let pair: AnySource = Box::new(Pair::of(of_first, of_second, meters)?);
            first.sources.push((pair, transmit));
        }
        Ok(())
    }

    /// The transmit rings of a device's sources.
    fn take_rings(&mut self, device: usize) -> Vec<TransmitRing> {
        let receivers = self.0.get_mut(device).into_iter().flat_map(|device| &mut device.receivers);
        receivers.flat_map(|receiver| &mut receiver.sources).filter_map(|(_, ring)| ring.take()).collect()
    }

    /// Lends the frames of a device's sources to `rings`, one for each; whether all can.
    fn lend(&mut self, device: usize, rings: &mut [TransmitRing]) -> bool {
        let receivers = self.0.get_mut(device).into_iter().flat_map(|device| &mut device.receivers);
        let sources: Vec<_> = receivers.flat_map(|receiver| &mut receiver.sources).collect();
        sources.len() == rings.len() && sources.into_iter().zip(rings).all(|((source, _), ring)| source.lend_to(ring))
    }
}

fn open_xdp(
    first: ReceiverConfig,
    second: ReceiverConfig,
    ports: &[Interface; 2],
    relay: &RelayConfig,
) -> Result<Relayed> {
    let refuse = |cause: String, way_out: String| {
        Err(Error::failed("share frames with", &ports[1].name, cause).way_out(way_out))
    };
    xdp::refuse_bond(&ports[1])?;
    let queues = xdp::queue_ids(&first, &ports[0]);
    let there = if relay.both { ports[1].queues } else { ports[1].queues.min(ports[1].transmit_queues()) };
    let most = queues.iter().max().map_or(0, |queue| queue + 1);
    if there < most || (relay.both && xdp::queue_ids(&second, &ports[1]) != queues) {
        let cause = format!("{} has {} queues, {} has {there}", ports[0].name, ports[0].queues, ports[1].name);
        return refuse(cause, "make them alike (ethtool -L IF combined N), or use --backend packet".to_owned());
    }
    let sizes = ports.iter().take(if relay.both { 2 } else { 1 });
    let sizes: Option<Vec<u32>> =
        sizes.map(|port| XdpSource::frame_size_for(port.mtu, port.driver.as_deref())).collect();
    let frame_size = first.frame_size.or_else(|| sizes?.into_iter().max());
    let zero_copy = ports.iter().all(|port| netdev::has_zero_copy(port.index).unwrap_or(false));
    // One way, the second device has no program of ours, and drivers refuse to be woken without one where they don't copy.
    let copies = !zero_copy || !relay.both;
    let shared = Relay { umems: Arc::default(), copies, both: relay.both };
    let port = |config: ReceiverConfig| ReceiverConfig {
        relay: Some(shared.clone()),
        transmit_slots: relay.transmit_slots,
        // None fits: 4096 is refused, with what to do about it.
        frame_size: Some(frame_size.unwrap_or(4096)),
        packed_slots: None,
        ..config
    };
    let mut configs = vec![port(first)];
    configs.extend(relay.both.then(|| port(second)));
    let mut devices = Devices::open(configs)?;
    let receivers = || devices.0.iter().flat_map(|device| &device.receivers);
    if let Some(copying) = receivers().find(|receiver| receiver.shared.steering.is_none()) {
        let cause = copying.warnings.last().map_or("AF_XDP can't be had", String::as_str).to_owned();
        return Err(Error::failed("open AF_XDP on", &copying.interface.name, cause));
    }
    let onto_first = devices.take_rings(0);
    let mut onto_second = if relay.both {
        devices.take_rings(1)
    } else {
        queues.iter().map(|&queue| open_transmit(&ports[1], queue, &devices, &shared)).collect::<Result<_>>()?
    };
    let mut onto_first = if relay.both { onto_first } else { Vec::new() };
    if !devices.lend(0, &mut onto_second) || (relay.both && !devices.lend(1, &mut onto_first)) {
        return refuse("its rings take no frames of the other port".to_owned(), "use --backend packet".to_owned());
    }
    devices.pair()?;
    let mut onto_first = onto_first.into_iter();
    let rings = onto_second.into_iter().map(|ring| [Some(ring), onto_first.next()]).collect();
    Ok(Relayed { devices, rings, notes: Vec::new() })
}

/// Both ports are opened whole, as their rings to send belong to them; one that nobody receives from is kept open by its rings.
fn open_dpdk(first: ReceiverConfig, second: ReceiverConfig, relay: &RelayConfig) -> Result<Relayed> {
    let port = |config: ReceiverConfig| ReceiverConfig { transmit_slots: relay.transmit_slots, ..config };
    let [first_name, second_name] = [&first, &second].map(|config| config.interface.clone());
    let mut devices = Devices::open(vec![port(first), port(second)])?;
    let [onto_first, onto_second] = [0, 1].map(|device| devices.take_rings(device));
    if onto_first.len() != onto_second.len() {
        let cause = format!(
            "{first_name} was opened with {} queues, {second_name} with {}",
            onto_first.len(),
            onto_second.len()
        );
        return Err(Error::failed("pair with the other port", second_name, cause).way_out("use --queues 1"));
    }
    let mut notes = Vec::new();
    if relay.both {
        devices.pair()?;
    } else {
        let left = devices.0.drain(1..).flat_map(|device| device.receivers);
        notes.extend(left.flat_map(|receiver| std::mem::take(&mut { receiver }.warnings)));
    }
    let onto_first = onto_first.into_iter().map(|ring| relay.both.then_some(ring));
    let rings = onto_second.into_iter().zip(onto_first).map(|(ring, back)| [Some(ring), back]).collect();
    Ok(Relayed { devices, rings, notes })
}

/// A ring onto a port whose packets nobody takes. Its own fill ring has frames too: a queue without a copy needs some to go on giving
/// packets to the host.
fn open_transmit(interface: &Interface, queue: u32, devices: &Devices, shared: &Relay) -> Result<TransmitRing> {
    let receiver = devices.0.first().and_then(|device| device.receivers.first());
    let none = || Error::failed("share frames with", &interface.name, "there is no other port");
    let config = &receiver.ok_or_else(none)?.config;
    let port = shared.port(XskConfig {
        interface: interface.name.clone(),
        ifindex: interface.index,
        queue,
        rx_frames: config.ring_slots,
        tx_frames: config.transmit_slots,
        frame_size: config.frame_size.unwrap_or(4096),
        huge_pages: config.huge_pages,
        across_fork: false,
        force_copy: false,
        cookie: 0,
    });
    let (_, ring) = XskSocket::open_port(&port, &shared.umems)?;
    Ok(TransmitRing::of_lend(ring))
}
