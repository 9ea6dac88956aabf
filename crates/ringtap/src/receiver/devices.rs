//! Several devices in one program: a receiver for each, all of them opened or none.
//!
//! Owns what they have in common before they run: no device is named twice, the memory of all is told before any is taken, and
//! their engines are numbered through, so that they go on to further CPUs. What one device does is its receiver's.

mod running;

use ringtap_wire::LinkType;

use super::{Backend, Flows, Receiver, ReceiverConfig, bond, choose};
use crate::engine::Handler;
use crate::error::{Error, Result};
use crate::hand_over::{Demand, HandOver, Supply};
use crate::interface::Interface;
use crate::source::share::{self, Rings};
use crate::source::{Description, StampClock};

pub use running::{DeviceEnd, DeviceOutcome, Ended, PortOutcome, RunningDevices};

/// Opened devices, in the order in which they were named.
pub struct Devices(pub(super) Vec<Device>);

/// One of them.
pub struct Device {
    interface: Interface,
    /// One, or one for each port of a bond that is captured by its ports.
    pub(super) receivers: Vec<Receiver>,
}

/// A device before it is opened.
pub(super) struct Found {
    pub(super) config: ReceiverConfig,
    pub(super) interface: Interface,
    /// To be opened in its place.
    pub(super) ports: Vec<Interface>,
}

impl Devices {
    /// Opens all of them; packets are received (and kept in the rings) from here on.
    ///
    /// # Errors
    /// None was named, or one of them twice; their rings need more memory than there is; the first thing that could not be set up
    /// on one of them. What was set up before, on others too, is undone.
    pub fn open(configs: Vec<ReceiverConfig>) -> Result<Self> {
        let find = |config: ReceiverConfig| {
            let interface = config.backend.find(&config.interface)?;
            // A forwarder needs both ends of a wire: a bond is refused, or copied as it is.
            let ports = if config.relay.is_some() { Vec::new() } else { bond::ports(&config, &interface) };
            Ok(Found { ports, config, interface })
        };
        Self::open_found(configs.into_iter().map(find).collect::<Result<Vec<_>>>()?)
    }

    pub(super) fn open_found(mut found: Vec<Found>) -> Result<Self> {
        refuse_twice(&found)?;
        tell_memory(&mut found)?;
        let mut devices = Vec::new();
        let mut first_engine = 0;
        for Found { config, interface, ports } in found {
            let config = ReceiverConfig { first_engine, ..config };
            let receivers = match open_ports(&config, ports) {
                Ok(receivers) if receivers.is_empty() => vec![Receiver::open_on(config, interface.clone())?],
                Ok(receivers) => receivers,
                Err(error) if config.backend == Backend::Auto => {
                    let mut receiver = Receiver::open_on(config, interface.clone())?;
                    receiver.warnings.push(format!("{error} — {} is copied as it is", interface.name));
                    vec![receiver]
                }
                Err(error) => return Err(error),
            };
            first_engine += receivers.iter().map(Receiver::source_count).sum::<usize>();
            devices.push(Device { interface, receivers });
        }
        for receiver in devices.iter_mut().flat_map(|device| &mut device.receivers) {
            receiver.first_ringless = Some(first_engine);
            first_engine += receiver.handler_count() - receiver.source_count();
        }
        // Now that the last one is open: what comes meanwhile is not kept waiting in the rings of the first.
        devices.iter_mut().flat_map(|device| &mut device.receivers).try_for_each(Receiver::admit)?;
        Ok(Self(devices))
    }

    /// The devices.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.0.iter()
    }

    /// How many sources there are.
    pub fn source_count(&self) -> usize {
        self.iter().map(Device::source_count).sum()
    }

    /// How many engines there are, and so handlers: one for each source, and what more was asked for.
    pub fn handler_count(&self) -> usize {
        self.iter().map(Device::handler_count).sum()
    }

    /// What each queue is.
    pub fn descriptions(&self) -> Vec<Description> {
        self.iter().flat_map(Device::descriptions).collect()
    }

    /// Whether packets are handed over, as whole flows or more handlers than sources take that ([`Devices::join_flows`]).
    pub fn hands_over(&self) -> bool {
        let mut receivers = self.0.iter().flat_map(|device| &device.receivers);
        self.0.iter().map(|device| device.receivers.len()).sum::<usize>() > 1
            || receivers.any(|receiver| {
                matches!(receiver.flows, Flows::Apart(_)) || receiver.handler_count() > receiver.source_count()
            })
    }

    /// Whether packets that are handed over are also held, for one latency bound, so that what several sources receive is handled in
    /// the order of its arrival.
    pub fn holds_packets(&self) -> bool {
        let receivers = || self.0.iter().flat_map(|device| &device.receivers);
        let alike = |kind: Kind| receivers().filter(move |it| it.kind() == kind).map(Receiver::source_count);
        self.hands_over() && receivers().any(|receiver| alike(receiver.kind()).sum::<usize>() > 1)
    }

    /// Has each of `handlers` (one for each engine, in their order) get whole flows, also where these come by several queues or
    /// devices: packets are handed over then, and what the queues for that take is told before it is taken.
    /// What flows are split all the same is added to `warnings`.
    ///
    /// # Errors
    /// The queues need more memory than there is; no file descriptor is left.
    pub fn join_flows<H>(
        &mut self,
        handlers: Vec<H>,
        demand: Demand,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<HandOver<H>>> {
        if !self.hands_over() {
            return Ok(handlers.into_iter().map(HandOver::alone).collect());
        }
        let (engines, names) = (self.handler_count(), self.names());
        let bytes = demand.memory_bytes(self.source_count(), engines);
        share::refuse_more_than_there_is(
            &names,
            &format!("queues between {engines} engines"),
            bytes,
            "use fewer --handlers or --queues, or a lower --peak-rate",
        )?;
        let tell = self.0.iter().flat_map(|device| &device.receivers).next().map(|receiver| receiver.config.tell);
        if let Some(tell) = tell {
            let mib = bytes.div_ceil(1 << 20);
            tell(&format!(
                "{names}: packets are handed over to the engine of their flow, by queues of {mib} MiB in all"
            ));
        }
        let mut kinds: Vec<Kind> = Vec::new();
        let mut supplies = Vec::new();
        for receiver in self.0.iter_mut().flat_map(|device| &mut device.receivers) {
            receiver.flows = Flows::HandedOver;
            let kind = receiver.kind();
            let (rings, all) = (receiver.source_count(), receiver.handler_count());
            kinds.extend((0..all).map(|_| kind));
            supplies.extend((0..all).map(|index| if index < rings { Supply::Ring } else { Supply::Queues }));
        }
        let (joined, sets) = join_alike(handlers.into_iter().zip(supplies), &kinds, demand)?;
        if sets > 1 {
            warnings.push(format!(
                "flows whose packets come by several of {names} may be split: not all have the same form and clock (--backend)"
            ));
        }
        Ok(joined)
    }

    fn names(&self) -> String {
        self.iter().map(|device| device.interface.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Starts one engine thread for each handler, in the order of devices: the first handler with the first source of the first
    /// device.
    ///
    /// # Errors
    /// There are not as many handlers as engines ([`Devices::handler_count`]); a thread can't be started.
    pub fn start<H: Handler + Send + 'static>(self, handlers: Vec<H>) -> Result<RunningDevices<H>> {
        RunningDevices::start(self.0, handlers)
    }
}

impl Receiver {
    fn kind(&self) -> Kind {
        let number = self.link_type().unwrap_or(u16::MAX);
        let link = LinkType::from_number(number.into()).unwrap_or(LinkType::Ethernet);
        (link, self.stamp_clock().unwrap_or(StampClock::Realtime))
    }
}

impl Device {
    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// How many sources it has.
    pub fn source_count(&self) -> usize {
        self.receivers.iter().map(Receiver::source_count).sum()
    }

    /// How many engines it has, and so handlers.
    pub fn handler_count(&self) -> usize {
        self.receivers.iter().map(Receiver::handler_count).sum()
    }

    /// What each queue is.
    pub fn descriptions(&self) -> Vec<Description> {
        self.receivers.iter().flat_map(Receiver::descriptions).collect()
    }

    /// LINKTYPE_ value of the frames, where they are of a kind capture files know.
    pub fn link_type(&self) -> Option<u16> {
        self.receivers.first()?.link_type()
    }

    /// Which clock the arrival stamps are of.
    pub fn stamp_clock(&self) -> Option<StampClock> {
        self.receivers.first()?.stamp_clock()
    }
}

/// What packets have to have in common to be put in one order.
type Kind = (LinkType, StampClock);

/// Joins the handlers of each kind; with the number of kinds.
fn join_alike<H>(
    handlers: impl Iterator<Item = (H, Supply)>,
    kinds: &[Kind],
    demand: Demand,
) -> Result<(Vec<HandOver<H>>, usize)> {
    let mut left: Vec<Option<(H, Supply)>> = handlers.map(Some).collect();
    let mut joined: Vec<Option<HandOver<H>>> = left.iter().map(|_| None).collect();
    let mut sets = 0;
    for &kind in kinds {
        let alike: Vec<usize> = (0..left.len()).filter(|&index| kinds.get(index) == Some(&kind)).collect();
        let own: Vec<(H, Supply)> = alike.iter().filter_map(|&index| left[index].take()).collect();
        if own.is_empty() {
            continue;
        }
        sets += 1;
        for (index, handler) in alike.into_iter().zip(HandOver::among(own, kind.0, kind.1, demand)?) {
            joined[index] = Some(handler);
        }
    }
    Ok((joined.into_iter().flatten().collect(), sets))
}

/// Names may differ: a device can have several.
fn is_same(a: &Interface, b: &Interface) -> bool {
    if a.is_foreign() || b.is_foreign() { a.name == b.name } else { a.index == b.index }
}

/// The ports of a bond, if there are any: all by AF_XDP or, where `auto` finds one that can't be (it takes tags out of packets), none.
fn open_ports(config: &ReceiverConfig, ports: Vec<Interface>) -> Result<Vec<Receiver>> {
    let mut first_engine = config.first_engine;
    let mut receivers: Vec<Receiver> = Vec::new();
    // Of the bond, not of each port.
    let handlers = config.handlers.div_ceil(ports.len().max(1));
    for port in ports {
        let config = ReceiverConfig { interface: port.name.clone(), first_engine, handlers, ..config.clone() };
        let receiver = Receiver::open_on(config, port)?;
        if receiver.shared.steering.is_none() {
            let cause = receiver.warnings.last().map_or("AF_XDP can't be had", String::as_str);
            return Err(Error::failed("open AF_XDP on", &receiver.interface.name, cause));
        }
        first_engine += receiver.source_count();
        receivers.push(receiver);
    }
    Ok(receivers)
}

/// # Errors
/// No device is named, or one of them twice, be it as a port of a bond.
fn refuse_twice(found: &[Found]) -> Result<()> {
    if found.is_empty() {
        return Err(Error::usage("open", "devices", "none is named").way_out("name at least one"));
    }
    let parts = |found: &Found| [&found.ports[..], std::slice::from_ref(&found.interface)].concat();
    for (number, later) in found.iter().enumerate() {
        for earlier in &found[..number] {
            let same = parts(earlier).into_iter().find(|a| parts(later).iter().any(|b| is_same(a, b)));
            if let Some(same) = same {
                let (first, again) = (&earlier.config.interface, &later.config.interface);
                let cause = match first == again {
                    true => "it is named twice".to_owned(),
                    false => format!("{} is named twice, the first time by {first}", same.name),
                };
                return Err(Error::usage("open", &later.config.interface, cause).way_out("name each interface once"));
            }
        }
    }
    Ok(())
}

/// Says what the rings of several devices take, before any takes it; a single one says so itself.
fn tell_memory(found: &mut [Found]) -> Result<()> {
    let parts = found.iter().flat_map(|found| match &found.ports[..] {
        [] => vec![rings_of(&found.config, &found.interface)],
        ports => ports.iter().map(|port| Backend::Xdp.rings(&found.config, port)).collect(),
    });
    let parts: Vec<Option<Rings>> = parts.collect();
    if parts.len() < 2 {
        return Ok(());
    }
    let rings: Vec<Rings> = parts.into_iter().flatten().collect();
    let bytes = rings.iter().map(|rings| rings.bytes()).sum();
    let queues: usize = rings.iter().map(|rings| rings.queues).sum();
    let names: Vec<&str> = found.iter().map(|found| found.interface.name.as_str()).collect();
    let (names, what) = (names.join(", "), format!("{queues} rings"));
    share::refuse_more_than_there_is(&names, &what, bytes, share::SMALLER_RINGS)?;
    if let Some(first) = found.first().filter(|_| bytes > 0) {
        (first.config.tell)(&format!("{names}: {what}, {} MiB in all", bytes.div_ceil(1 << 20)));
    }
    for Found { config, .. } in found {
        config.tell = |_| {};
    }
    Ok(())
}

/// By the back end that is tried first.
fn rings_of(config: &ReceiverConfig, interface: &Interface) -> Option<Rings> {
    let (backend, _): (Backend, bool) = choose::choose(config, interface, &mut Vec::new());
    backend.rings(config, interface)
}
