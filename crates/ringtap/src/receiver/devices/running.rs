//! Devices at work: which of them still run, what all of them counted, and the end of one while the others go on.

use std::fmt;
use std::time::Duration;

use super::Device;
use crate::engine::Handler;
use crate::error::{Error, Result};
use crate::interface::InterfaceState;
use crate::ledger::Ledger;
use crate::meters::{EngineMeters, EngineSnapshot};
use crate::receiver::{Departure, Outcome, Running, refuse_other_than};
use crate::source::Description;
use crate::transmit::Outbox;

/// Devices at work. Dropping them ends their engines.
pub struct RunningDevices<H> {
    names: Vec<String>,
    parts: Vec<Part<H>>,
    descriptions: Vec<Description>,
    warnings: Vec<String>,
}

/// One receiver: a device, or a port of a bond.
struct Part<H> {
    /// Number of the device.
    device: usize,
    /// Its own name.
    name: String,
    state: State<H>,
}

enum State<H> {
    Running(Box<Running<H>>),
    /// It came to its end before the others: by itself, or with the device whose engines serve it too.
    Ended(Option<DeviceEnd>, Box<Outcome<H>>),
    Failed(Error),
}

/// Why a device came to its end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceEnd {
    /// What happened to the interface.
    Departed(Departure),
    /// Its engines ended for no known reason.
    Failed,
    /// One of its engines' handlers panicked, so that nobody handles its flows.
    Panicked,
}

/// That a device came to its end.
#[derive(Debug)]
pub struct Ended {
    /// Name of the device, or of a port of it.
    pub device: String,
    /// Why.
    pub end: DeviceEnd,
}

/// What one device leaves.
pub struct DeviceOutcome<H> {
    /// Its name.
    pub name: String,
    /// Why it ended before it was asked to, if it did; a bond, if all its ports did.
    pub end: Option<DeviceEnd>,
    /// What it came to.
    pub outcome: Outcome<H>,
    /// Where it is a bond that was captured by its ports, each of them.
    pub ports: Vec<PortOutcome>,
}

/// What one port of a bond leaves.
#[derive(Debug, Clone)]
pub struct PortOutcome {
    /// Its name.
    pub name: String,
    /// What became of its packets until they were delivered to handlers, as in the bond's ledger.
    pub ledger: Ledger,
    /// How many engines it had: with those of the other ports, in their order, they are the bond's.
    pub engines: usize,
}

impl Ended {
    /// One line for the user, `others` being the devices that go on.
    pub fn line(&self, operation: &'static str, others: &[&str]) -> String {
        let error = self.end.error(operation, &self.device);
        if others.is_empty() { error.to_string() } else { format!("{error} — going on with {}", others.join(", ")) }
    }
}

impl fmt::Display for DeviceEnd {
    /// Follows the device's name and a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Departed(departure) => departure.fmt(f),
            Self::Failed => f.write_str("the device stopped answering"),
            Self::Panicked => f.write_str("an engine thread panicked"),
        }
    }
}

impl DeviceEnd {
    /// As an error of `operation` on the device.
    pub fn error(&self, operation: &'static str, device: &str) -> Error {
        match self {
            Self::Departed(end) => Error::failed(operation, device, end).way_out(end.way_out()),
            Self::Failed => Error::failed(operation, device, self).way_out("what was captured before is complete"),
            Self::Panicked => Error::failed(operation, device, self).way_out("report this as a bug"),
        }
    }
}

impl<H: Handler + Send + 'static> RunningDevices<H> {
    pub(super) fn start(devices: Vec<Device>, handlers: Vec<H>) -> Result<Self> {
        let engines: usize = devices.iter().map(Device::handler_count).sum();
        refuse_other_than(engines, handlers.len(), "devices")?;
        let descriptions = devices.iter().flat_map(Device::descriptions).collect();
        let mut handlers = handlers.into_iter();
        let (mut parts, mut warnings): (Vec<Part<H>>, Vec<String>) = (Vec::new(), Vec::new());
        let mut names = Vec::new();
        for (device, Device { interface, receivers }) in devices.into_iter().enumerate() {
            names.push(interface.name);
            for receiver in receivers {
                let own = handlers.by_ref().take(receiver.handler_count()).collect();
                let name = receiver.interface().name.clone();
                let running = receiver.start(own)?;
                warnings.extend(news(running.warnings(), &warnings));
                parts.push(Part { device, name, state: State::Running(Box::new(running)) });
            }
        }
        Ok(Self { names, parts, descriptions, warnings })
    }

    /// Names of the devices, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// What could not be had, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What each queue is, or was.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// The interfaces that are not known to have ended, with their states.
    pub fn states(&self) -> Vec<(&str, InterfaceState)> {
        self.running().map(|(name, running)| (name, running.interface().state())).collect()
    }

    /// Indices of interfaces whose packets are copied, so that the host's stack has them as well, of those that are not known to have
    /// ended.
    pub fn copying(&self) -> Vec<u32> {
        let copies = |(_, running): &(&str, &Running<H>)| !running.is_steered() && !running.interface().is_foreign();
        self.running().filter(copies).map(|(_, running)| running.interface().index).collect()
    }

    /// Whether all of them have ended ([`RunningDevices::take_ended`]).
    pub fn have_ended(&self) -> bool {
        self.running().next().is_none()
    }

    /// All engines' counters together, those of devices that have ended included.
    pub fn counters(&self) -> EngineSnapshot {
        let snapshots: Vec<EngineSnapshot> = self.parts.iter().filter_map(|part| part.state.counters()).collect();
        EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot())
    }

    /// The counters of each device's packets, in their order; the loop's are with the device whose engines serve it.
    pub fn device_counters(&self) -> Vec<EngineSnapshot> {
        let of = |device: usize| {
            let parts = self.parts.iter().filter(|part| part.device == device);
            let snapshots: Vec<EngineSnapshot> = parts.filter_map(|part| part.state.counters()).collect();
            EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot())
        };
        (0..self.names.len()).map(of).collect()
    }

    /// CPU time of each engine's thread, of devices that are not known to have ended.
    pub fn engine_cpu(&self) -> Vec<Option<Duration>> {
        self.running().flat_map(|(_, running)| running.engine_cpu()).collect()
    }

    /// The ledger of each device as of now, in their order.
    pub fn ledgers(&mut self) -> Vec<Ledger> {
        let parts: Vec<(usize, Ledger)> =
            self.parts.iter_mut().map(|part| (part.device, part.state.ledger())).collect();
        let of = |device: usize| {
            let own = parts.iter().filter(|(number, _)| *number == device).map(|(_, ledger)| ledger.clone());
            own.reduce(Ledger::plus).unwrap_or_default()
        };
        (0..self.names.len()).map(of).collect()
    }

    /// What changed on the devices since it was asked last, one line each: new queues that nobody reads.
    pub fn take_news(&mut self) -> Vec<String> {
        let of = |part: &mut Part<H>| match &mut part.state {
            State::Running(running) => running.take_news(),
            State::Ended(..) | State::Failed(_) => Vec::new(),
        };
        self.parts.iter_mut().flat_map(of).collect()
    }

    /// Completes the accounts of devices that have come to their end by themselves since it was asked last, and tells of them. To be
    /// asked some times a second: handlers of those that have ended get their turns then. Two devices of one engine end together.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        let ends: Vec<Option<DeviceEnd>> = self.parts.iter().map(|part| part.state.end()).collect();
        // An engine that goes on would deliver packets of a device whose account is closed.
        let all_end = ends.iter().any(Option::is_some) && self.running().any(|(_, running)| running.is_carried());
        if all_end {
            self.running().for_each(|(_, running)| running.begin_end());
        }
        let mut ended = Vec::new();
        for (part, end) in self.parts.iter_mut().zip(ends).filter(|(_, end)| all_end || end.is_some()) {
            part.finish(end.clone());
            ended.extend(end.map(|end| Ended { device: part.name.clone(), end }));
        }
        for part in &mut self.parts {
            if let State::Ended(_, outcome) = &mut part.state {
                outcome.afterwards(Handler::retired);
            }
        }
        ended
    }

    /// Ends all engines, with nothing left in the rings.
    ///
    /// # Errors
    /// An engine thread panicked.
    pub fn finish(mut self) -> Result<Vec<DeviceOutcome<H>>> {
        // All at once, so that none goes on taking while another runs empty.
        self.running().for_each(|(_, running)| running.begin_end());
        let finish = |part: Part<H>| {
            let (end, outcome) = match part.state {
                State::Running(running) => (None, running.finish()?),
                State::Ended(end, outcome) => (end, *outcome),
                State::Failed(error) => return Err(error),
            };
            Ok((part.device, DeviceOutcome { name: part.name, end, outcome, ports: Vec::new() }))
        };
        // Each is ended, also behind one that failed.
        let finished: Vec<Result<_>> = self.parts.drain(..).map(finish).collect();
        let mut parts = finished.into_iter().collect::<Result<Vec<(usize, DeviceOutcome<H>)>>>()?;
        parts.iter_mut().for_each(|(_, part)| part.outcome.afterwards(Handler::all_ended));
        let mut parts = parts.into_iter().peekable();
        let mut devices = Vec::new();
        for (device, name) in self.names.drain(..).enumerate() {
            let own = std::iter::from_fn(|| parts.next_if(|(number, _)| *number == device)).map(|(_, part)| part);
            devices.extend(DeviceOutcome::of_parts(name, own.collect()));
        }
        Ok(devices)
    }

    fn running(&self) -> impl Iterator<Item = (&str, &Running<H>)> {
        self.parts.iter().filter_map(|part| match &part.state {
            State::Running(running) => Some((part.name.as_str(), &**running)),
            State::Ended(..) | State::Failed(_) => None,
        })
    }
}

impl<H: Handler> Outcome<H> {
    /// Has each handler do something after the engines' end. The rings are gone: what it still wants to send is refused, and counted.
    fn afterwards(&mut self, turn: impl Fn(&mut H, &mut Outbox<'_>)) {
        let meters = EngineMeters::default();
        self.engines.iter_mut().for_each(|engine| turn(&mut engine.handler, &mut Outbox::nowhere(&meters)));
        self.counters.transmit_refused += meters.snapshot().transmit_refused;
    }
}

impl<H> DeviceOutcome<H> {
    /// One device from its parts, if it has any.
    fn of_parts(name: String, parts: Vec<Self>) -> Option<Self> {
        let is_bond = parts.iter().any(|part| part.name != name);
        let each = parts.iter().map(|part| PortOutcome {
            name: part.name.clone(),
            ledger: part.outcome.ledger.clone(),
            engines: part.outcome.engines.len(),
        });
        let ports = if is_bond { each.collect() } else { Vec::new() };
        let whole = parts.into_iter().reduce(|all, part| {
            let (a, b) = (all.outcome, part.outcome);
            let counters = EngineSnapshot::sum([&a.counters, &b.counters]).unwrap_or_else(|| a.counters.clone());
            let outcome = Outcome {
                engines: a.engines.into_iter().chain(b.engines).collect(),
                ledger: a.ledger.plus(b.ledger),
                counters,
                driver_counters: a.driver_counters.into_iter().chain(b.driver_counters).collect(),
                warnings: a.warnings.into_iter().chain(b.warnings).collect(),
                blind: a.blind.or(b.blind),
            };
            Self { end: all.end.and(part.end), outcome, ..all }
        })?;
        Some(Self { name, ports, ..whole })
    }
}

impl<H: Handler + Send + 'static> Part<H> {
    /// Completes its account.
    fn finish(&mut self, end: Option<DeviceEnd>) {
        let empty = Error::failed("end", &self.name, "it is being ended");
        self.state = match std::mem::replace(&mut self.state, State::Failed(empty)) {
            State::Running(running) => match running.finish() {
                Ok(outcome) => State::Ended(end, Box::new(outcome)),
                Err(error) => State::Failed(error),
            },
            ended => ended,
        };
    }
}

impl<H: Handler + Send + 'static> State<H> {
    /// Why a device that is running has come to its end by itself, if it has.
    fn end(&self) -> Option<DeviceEnd> {
        match self {
            Self::Running(running) => end_of(running),
            Self::Ended(..) | Self::Failed(_) => None,
        }
    }

    fn counters(&self) -> Option<EngineSnapshot> {
        match self {
            Self::Running(running) => Some(running.counters()),
            Self::Ended(_, outcome) => Some(outcome.counters.clone()),
            Self::Failed(_) => None,
        }
    }

    fn ledger(&mut self) -> Ledger {
        match self {
            Self::Running(running) => running.ledger(),
            Self::Ended(_, outcome) => outcome.ledger.clone(),
            Self::Failed(_) => Ledger::default(),
        }
    }
}

/// Why a device has come to its end by itself, if it has.
fn end_of<H: Handler + Send + 'static>(running: &Running<H>) -> Option<DeviceEnd> {
    if running.has_panicked() {
        return Some(DeviceEnd::Panicked);
    }
    if let Some(departure) = running.departure() {
        return Some(DeviceEnd::Departed(departure));
    }
    let is_gone = || running.interface().state() == InterfaceState::Gone;
    match running.is_finished() {
        false if running.is_watched() || !is_gone() => None,
        true if !is_gone() => Some(DeviceEnd::Failed),
        _ => Some(DeviceEnd::Departed(running.awaited_departure())),
    }
}

/// What of `said` is not known yet: several devices lack the same privilege.
fn news(said: &[String], known: &[String]) -> Vec<String> {
    said.iter().filter(|warning| !known.contains(warning)).cloned().collect()
}
