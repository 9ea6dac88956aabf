//! The sensor on an interface: one engine thread per queue with a detector of its own.
//!
//! Owns the receiver, the frame around datagrams of alerts, and what an interface's end means.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ringtap::interface::{Interface, InterfaceState};
use ringtap::ledger::Cause;
use ringtap::receiver::{Departure, Receiver, Running};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::live::{Configured, Live};
use ringtap_run::notes;
use ringtap_wire::{LinkType, UdpFrame};

use crate::finds::Alerts;
use crate::inspector::Inspector;
use crate::options::{Datagrams, Options, mac_address};
use crate::session::{Engines, Feed, Session};
use crate::summary::{Ended, Ending, Run};

/// Transmit slots of each queue, when datagrams of alerts leave that way.
const TRANSMIT_SLOTS: u32 = 512;

impl Engines for Running<Inspector> {
    const RELOADS: bool = true;

    fn ended(&self) -> Option<Ending> {
        self.is_finished().then(|| match self.departure() {
            Some(Departure::Used(_)) => Ending::InterfaceUsed,
            Some(_) => Ending::InterfaceGone,
            None if self.interface().state() == InterfaceState::Gone => Ending::InterfaceGone,
            None => Ending::EngineFailed,
        })
    }
}

/// Runs the sensor on an interface.
pub(crate) fn run(options: &Options, live: &Live) -> Result<Run> {
    live.check()?;
    let mut session = Session::begin(options)?;
    let interface = live.find_interface()?;
    let link = link_type(&interface)?;
    let frame = options.outputs.datagrams.map(|datagrams| datagram_frame(&datagrams, &interface)).transpose()?;
    let transmit_slots = if frame.is_some() { TRANSMIT_SLOTS } else { 0 };
    let live = Live { flows_together: true, transmit_slots, ..live.clone() };
    let Configured { config, plan } = live.configure(&interface, None)?;
    let mut warnings = Vec::new();
    if let Some(pps) = plan.and_then(|plan| plan.shortfall_pps()) {
        warnings.push(format!("at the peak rate one core is not enough even without rules: {pps:.0} packets/s"));
    }
    let receiver = Receiver::open(config)?;
    let feed = Feed {
        engines: receiver.descriptions().len(),
        link,
        stamps: receiver.stamp_clock().unwrap_or(StampClock::Realtime),
        live: Some((interface.name.clone(), live.max_latency)),
        alerts: Alerts { frame, sequence: Arc::new(AtomicU64::new(0)) },
    };
    let (mut around, inspectors) = session.surround(&feed)?;
    let pages = std::mem::take(&mut around.tables).watched()?;
    let running = session.process.start(receiver, inspectors, session.needs(), &mut warnings)?;
    for warning in &warnings {
        notes::warn(warning);
    }
    let backend = running.descriptions().first().map_or("", |source| source.backend);
    notes::say(&format!("watching {} ({backend}) with {} rules", interface.name, session.rules.used.rules));

    let started = Instant::now();
    let ending = session.watch(&running, &mut around, started);
    let elapsed_s = started.elapsed().as_secs_f64();
    let departure =
        matches!(ending, Ending::InterfaceGone | Ending::InterfaceUsed).then(|| running.awaited_departure());
    let mut outcome = running.finish()?;
    let late_bytes = pages.finish();
    let inspectors: Vec<Inspector> = outcome.engines.drain(..).map(|engine| engine.handler).collect();
    if !options.rules.priority.is_empty() {
        // The engine gave these to the sensor, which had no time for them.
        let shed = inspectors.iter().map(|inspector| inspector.detector.counters().shed).sum();
        outcome.ledger.undeliver(Cause::Shed, shed);
    }
    let new = outcome.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect::<Vec<_>>();
    warnings.extend(new);
    let failure = match (departure, ending) {
        (Some(end), _) => Some(Error::failed("watch", &interface.name, &end).way_out(end.way_out())),
        (None, Ending::EngineFailed) => {
            Some(Error::failed("watch", &interface.name, "an engine ended").way_out("report this as a bug"))
        }
        (None, _) => outcome.blind.take(),
    };
    let cut = outcome.ledger.cut;
    let ended = Ended {
        object: interface.name.clone(),
        ending,
        elapsed_s,
        cut,
        live: Some((outcome.ledger, outcome.counters)),
        late_bytes,
        warnings,
    };
    Ok(Run { summary: session.end(around, inspectors, ended)?, failure })
}

fn link_type(interface: &Interface) -> Result<LinkType> {
    let number = interface.link_type().unwrap_or(u16::MAX);
    LinkType::from_number(number.into()).ok_or_else(|| {
        let cause = format!("frames of hardware type {} are not supported", interface.hardware_type);
        Error::failed("watch", &interface.name, cause).way_out("watch where these packets are Ethernet or IP")
    })
}

/// The frame around datagrams of alerts.
fn datagram_frame(datagrams: &Datagrams, interface: &Interface) -> Result<UdpFrame> {
    let Datagrams { to, from } = *datagrams;
    if to.address.is_ipv4() != from.is_ipv4() {
        return Err(Error::usage("send alarms to", to.address.to_string(), "--alarm-from is of another IP version"));
    }
    let object = format!("/sys/class/net/{}/address", interface.name);
    let text = std::fs::read_to_string(&object).map_err(|error| Error::os("read", &object, &error))?;
    let source_mac = mac_address(text.trim()).ok_or_else(|| {
        Error::failed("send alarms from", &interface.name, "it has no Ethernet address").way_out("use --syslog instead")
    })?;
    Ok(UdpFrame {
        source_mac,
        destination_mac: to.mac,
        vlan: None,
        source: from,
        destination: to.address,
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    })
}
