//! The sensor on interfaces: one engine thread per queue with a detector of its own.
//!
//! Owns the receivers, the frame around datagrams of alerts, and what an interface's end means.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use ringtap::hand_over::{self, HandOver};
use ringtap::interface::Interface;
use ringtap::ledger::{Cause, Ledger};
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{DeviceOutcome, Devices, Ended as DeviceEnded, Outcome, RunningDevices};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::live::{Configured, Live};
use ringtap_run::notes;
use ringtap_run::units::shown_size;
use ringtap_wire::{LinkType, UdpFrame};

use crate::finds::Alerts;
use crate::inspector::Inspector;
use crate::options::{Datagrams, Options, mac_address};
use crate::session::{EngineFeed, Engines, Feed, Session};
use crate::summary::{Ended, Ending, InterfaceAccount, Run};

/// Transmit slots of each queue, when datagrams of alerts leave that way.
const TRANSMIT_SLOTS: u32 = 512;

/// The engines, and the last device to end where that ended all of them.
struct Watched {
    running: RunningDevices<HandOver<Inspector>>,
    last: Option<DeviceEnded>,
}

impl Engines for Watched {
    const RELOADS: bool = true;

    fn ended(&mut self) -> Option<Ending> {
        let mut ended = self.running.take_ended();
        if self.running.have_ended() {
            self.last = ended.pop();
        }
        self.running.take_news().iter().for_each(|line| notes::say(line));
        let others: Vec<&str> = self.running.states().into_iter().map(|(name, _)| name).collect();
        ended.iter().for_each(|each| notes::say(&each.line("watch", &others)));
        self.last.as_ref().map(|last| Ending::of(&last.end))
    }
}

/// Runs the sensor on interfaces.
pub(crate) fn run(options: &Options, lives: &[Live]) -> Result<Run> {
    lives.iter().try_for_each(Live::check)?;
    let mut session = Session::begin(options)?;
    let Opened { mut devices, feed, bound, mut warnings } = open(options, lives)?;
    let (mut around, inspectors) = session.surround(&feed)?;
    let pages = std::mem::take(&mut around.tables).watched()?;
    if devices.hands_over() {
        let size = shown_size(devices.hand_over_bytes() as u64);
        notes::say(&format!("packets are handed over to the engine of their flow, by queues of {size} in all"));
    }
    let handlers = devices.join_flows(inspectors, bound, &mut warnings)?;
    let handed: Vec<Arc<hand_over::Counts>> = handlers.iter().map(HandOver::counts).collect();
    let running = session.process.start(devices, handlers, session.needs(), &mut warnings)?;
    for warning in &warnings {
        notes::warn(warning);
    }
    let names = running.names().join(", ");
    let backend = running.descriptions().first().map_or("", |source| source.backend);
    notes::say(&format!("watching {names} ({backend}) with {} rules", session.rules.used.rules));

    let started = Instant::now();
    let mut watched = Watched { running, last: None };
    let ending = session.watch(&mut watched, &mut around, started);
    let elapsed_s = started.elapsed().as_secs_f64();
    let Watched { running, last } = watched;
    let outcomes = running.finish()?;
    let late_bytes = pages.finish();
    let failure = last.map(|last| last.end.error("watch", &last.device));
    let failure = failure.or_else(|| outcomes.iter().find_map(|device| device.outcome.blind.clone()));
    for outcome in &outcomes {
        let news = outcome.outcome.warnings.iter().filter(|warning| !warnings.contains(warning));
        let news: Vec<String> = news.cloned().collect();
        warnings.extend(news);
    }
    let (live, interfaces, inspectors) = accounts(outcomes, &handed, !options.rules.priority.is_empty());
    let cut = live.as_ref().map_or(0, |(ledger, _)| ledger.cut);
    let ended = Ended { object: names, ending, elapsed_s, cut, live, interfaces, late_bytes, warnings };
    Ok(Run { summary: session.end(around, inspectors, ended)?, failure })
}

/// What all interfaces came to, each of them, and the handlers.
type Accounts = (Option<(Ledger, EngineSnapshot)>, Vec<InterfaceAccount>, Vec<Inspector>);

/// `handed`: of each engine; `sheds`: some packets go first.
fn accounts(
    outcomes: Vec<DeviceOutcome<HandOver<Inspector>>>,
    handed: &[Arc<hand_over::Counts>],
    sheds: bool,
) -> Accounts {
    let mut handed = handed.iter();
    let (mut interfaces, mut inspectors, mut snapshots): (Vec<InterfaceAccount>, _, Vec<_>) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut whole: Option<Ledger> = None;
    for DeviceOutcome { name, end, outcome, ports } in outcomes {
        let Outcome { engines, mut ledger, counters, .. } = outcome;
        let counts: Vec<_> = handed.by_ref().take(engines.len()).collect();
        let handed_over = counts.iter().map(|counts| counts.handed_over()).sum();
        let full: u64 = counts.iter().map(|counts| counts.full()).sum();
        if full + handed_over > 0 {
            ledger.undeliver(Cause::HandOverFull, full);
        }
        let own: Vec<Inspector> = engines.into_iter().map(|engine| engine.handler.into_inner()).collect();
        if sheds {
            // The engine gave these to the sensor, which had no time for them.
            let shed = own.iter().map(|inspector| inspector.detector.counters().shed).sum();
            ledger.undeliver(Cause::Shed, shed);
        }
        whole = Some(match whole {
            Some(all) => all.plus(ledger.clone()),
            None => ledger.clone(),
        });
        snapshots.push(counters);
        inspectors.extend(own);
        interfaces.push(InterfaceAccount { name, ending: end.as_ref().map(Ending::of), ledger, ports, handed_over });
    }
    (whole.zip(EngineSnapshot::sum(&snapshots)), interfaces, inspectors)
}

/// Interfaces from which packets are kept in the rings.
struct Opened {
    devices: Devices,
    feed: Feed,
    /// How long a packet waits at most until its engine looks at it.
    bound: Duration,
    warnings: Vec<String>,
}

fn open(options: &Options, lives: &[Live]) -> Result<Opened> {
    let (mut configs, mut alerts, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let sequence = Arc::new(AtomicU64::new(0));
    for live in lives {
        let interface = live.find_interface()?;
        link_type(&interface)?;
        let frame = options.outputs.datagrams.map(|datagrams| datagram_frame(&datagrams, &interface)).transpose()?;
        let transmit_slots = if frame.is_some() { TRANSMIT_SLOTS } else { 0 };
        let live = Live { flows_together: true, transmit_slots, ..live.clone() };
        let Configured { config, plan } = live.configure(&interface, None)?;
        if let Some(pps) = plan.and_then(|plan| plan.shortfall_pps()) {
            let warning = format!("at the peak rate one core is not enough even without rules: {pps:.0} packets/s");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        configs.push(config);
        alerts.push(Alerts { frame, sequence: Arc::clone(&sequence) });
    }
    let devices = Devices::open(configs)?;
    let mut engines = Vec::new();
    for (device, alerts) in devices.iter().zip(alerts) {
        let stamps = device.stamp_clock().unwrap_or(StampClock::Realtime);
        let engine = EngineFeed { link: link_type(device.interface())?, stamps, alerts };
        engines.extend(std::iter::repeat_n(engine, device.source_count()));
    }
    let bound = lives.iter().map(|live| live.max_latency).max().unwrap_or_default();
    // One that is handed over is handled within twice the bound.
    let wait = if devices.hands_over() { 2 * bound } else { bound };
    let mut names = devices.iter().map(|device| device.interface().name.clone());
    let name = names.next().filter(|_| names.next().is_none());
    drop(names);
    Ok(Opened { devices, feed: Feed { engines, live: Some((name, wait)) }, bound, warnings })
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
