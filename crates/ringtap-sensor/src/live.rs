//! The sensor on interfaces: one engine thread per queue, or more where asked for, with a detector of its own.
//!
//! Owns the receivers, and what an interface's end means.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::hand_over::{self, Demand, HandOver};
use ringtap::interface::Interface;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{Device, DeviceOutcome, Devices, Ended as DeviceEnded, Outcome, PortOutcome, RunningDevices};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::live::{Configured, Live};
use ringtap_run::notes;
use ringtap_wire::LinkType;

use crate::account::{self, NotInspected};
use crate::alarms::{self, Plain, Sender, Way};
use crate::correlating::Correlate;
use crate::inspector::Inspector;
use crate::options::Options;
use crate::session::{EngineFeed, Engines, Feed, FromInterfaces, Session};
use crate::shedding::Waits;
use crate::summary::{Ended, Ending, InterfaceAccount, Run};
use crate::view::Page;
use ringtap_web::interface_faults;

/// The engines, and the last device to end where that ended all of them.
struct Watched {
    running: RunningDevices<HandOver<Inspector>>,
    handed: Vec<Arc<hand_over::Counts>>,
    /// Some packets go first.
    sheds: bool,
    last: Option<DeviceEnded>,
    /// The interfaces at the start.
    interfaces: Vec<String>,
}

impl Engines for Watched {
    const IS_LIVE: bool = true;

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

    fn account(&mut self) -> Option<account::Live> {
        let ledger = self.running.ledgers().into_iter().reduce(Ledger::plus)?;
        Some(account::Live {
            ledger,
            latency: self.running.counters().latency,
            not_inspected: not_inspected(&self.handed, self.sheds.then_some(0)),
            faults: interface_faults(&self.interfaces, &self.running.states()),
        })
    }
}

/// Runs the sensor on interfaces.
pub(crate) fn run(options: &Options, lives: &[Live], correlate: Option<Correlate>) -> Result<Run> {
    lives.iter().try_for_each(Live::check)?;
    let mut session = Session::begin(options, correlate)?;
    let places = options.places.bind()?;
    let Opened { mut devices, feed, demand, beats, mut warnings } = open(&session, lives)?;
    let stamps: Vec<StampClock> = feed.engines.iter().map(|engine| engine.stamps).collect();
    let (mut around, inspectors) = session.surround(feed)?;
    let pages = std::mem::take(&mut around.tables).watched()?;
    let mut handlers = devices.join_flows(inspectors, demand, &mut warnings)?;
    let asked = if session.identity.is_some() { &mut handlers[..] } else { &mut [] };
    let reaches = asked.iter_mut().zip(stamps).map(|(handler, stamps)| handler.reach(stamps)).collect::<Result<_>>()?;
    let handed: Vec<Arc<hand_over::Counts>> = handlers.iter().map(HandOver::counts).collect();
    let running = session.process.start(devices, handlers, session.needs(), &mut warnings)?;
    let page = Page { shown: Arc::clone(&around.shown), interfaces: running.names().join(", ") };
    places.start(Arc::new(page))?;
    session.begin_heart(&mut around, reaches, beats)?;
    for warning in &warnings {
        notes::warn(warning);
    }
    let interfaces: Vec<String> = running.names().into_iter().map(str::to_owned).collect();
    let names = interfaces.join(", ");
    let backend = running.descriptions().first().map_or("", |source| source.backend);
    notes::say(&format!("watching {names} ({backend}) with {} rules", session.rules.used.rules));

    let started = Instant::now();
    let sheds = !options.rules.priority.is_empty();
    let mut watched = Watched { running, handed, sheds, last: None, interfaces };
    let ending = session.watch(&mut watched, &mut around, started);
    let elapsed_s = started.elapsed().as_secs_f64();
    let Watched { running, handed, last, .. } = watched;
    let outcomes = match running.finish() {
        Ok(outcomes) => outcomes,
        Err(fault) => return Err(session.give_up(around, fault)),
    };
    let late_bytes = pages.finish();
    let failure = last.map(|last| last.end.error("watch", &last.device));
    let failure = failure.or_else(|| outcomes.iter().find_map(|device| device.outcome.blind.clone()));
    for outcome in &outcomes {
        let news = outcome.outcome.warnings.iter().filter(|warning| !warnings.contains(warning));
        let news: Vec<String> = news.cloned().collect();
        warnings.extend(news);
    }
    let (live, interfaces, inspectors) = accounts(outcomes, &handed, sheds);
    let cut = live.as_ref().map_or(0, |(ledger, _)| ledger.cut);
    let ended = Ended { object: names, ending, elapsed_s, cut, live, interfaces, late_bytes, warnings };
    session.end(around, inspectors, ended, failure)
}

/// What these engines did not hand on, where they hand over, and what was `shed`.
fn not_inspected(handed: &[Arc<hand_over::Counts>], shed: Option<u64>) -> NotInspected {
    let sum = |of: fn(&hand_over::Counts) -> u64| handed.iter().map(|counts| of(counts)).sum::<u64>();
    let full = sum(hand_over::Counts::full);
    NotInspected { hand_over_full: (full + sum(hand_over::Counts::handed_over) > 0).then_some(full), shed }
}

/// What all interfaces came to, each of them, and the handlers.
type Accounts = (Option<(Ledger, EngineSnapshot)>, Vec<InterfaceAccount>, Vec<Inspector>);

/// `handed`: of each engine; `sheds`: some packets go first.
fn accounts(
    outcomes: Vec<DeviceOutcome<HandOver<Inspector>>>,
    handed: &[Arc<hand_over::Counts>],
    sheds: bool,
) -> Accounts {
    let mut handed = handed;
    let (mut interfaces, mut inspectors, mut snapshots): (Vec<InterfaceAccount>, _, Vec<_>) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut whole: Option<Ledger> = None;
    for DeviceOutcome { name, end, outcome, ports } in outcomes {
        let Outcome { engines, mut ledger, counters, .. } = outcome;
        let (counts, others) = handed.split_at(engines.len());
        handed = others;
        let handed_over = counts.iter().map(|counts| counts.handed_over()).sum();
        let own: Vec<Inspector> = engines.into_iter().map(|engine| engine.handler.into_inner()).collect();
        let of_engines = |ledger: &mut Ledger, engines: Range<usize>| {
            let shed = || own[engines.clone()].iter().map(|inspector| inspector.detector.counters().shed).sum();
            not_inspected(&counts[engines.clone()], sheds.then(shed)).take_from(ledger);
        };
        of_engines(&mut ledger, 0..own.len());
        let mut first = 0;
        let of_port = |PortOutcome { name, mut ledger, engines }: PortOutcome| {
            of_engines(&mut ledger, first..first + engines);
            first += engines;
            (name, ledger)
        };
        let ports = ports.into_iter().map(of_port).collect();
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
    /// Of what is handed over.
    demand: Demand,
    /// Heartbeats leave by this.
    beats: Option<Box<Sender>>,
    warnings: Vec<String>,
}

fn open(session: &Session<'_>, lives: &[Live]) -> Result<Opened> {
    let (mut configs, mut warnings) = (Vec::new(), Vec::new());
    for live in lives {
        let interface = live.find_interface()?;
        link_type(&interface)?;
        let live = Live { flows_together: true, ..live.clone() };
        let Configured { config, plan } = live.configure(&interface, None)?;
        if let Some(pps) = plan.and_then(|plan| plan.shortfall_pps()) {
            let warning = format!("at the peak rate one core is not enough even without rules: {pps:.0} packets/s");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        configs.push(config);
    }
    let devices = Devices::open(configs)?;
    let each: Vec<&Device> =
        devices.iter().flat_map(|device| std::iter::repeat_n(device, device.handler_count())).collect();
    let interfaces: Vec<Interface> = each.iter().map(|device| device.interface().clone()).collect();
    let (senders, beats, plain) = ways(session, &interfaces, &mut warnings)?;
    let mut senders = senders.into_iter();
    let engine = |device: &Device| {
        let stamps = device.stamp_clock().unwrap_or(StampClock::Realtime);
        Ok(EngineFeed { link: link_type(device.interface())?, stamps, sender: senders.next() })
    };
    let engines = each.into_iter().map(engine).collect::<Result<_>>()?;
    let bound = lives.iter().map(|live| live.max_latency).max().unwrap_or_default();
    let demand = Demand { bound, peak_pps: lives.iter().map(|live| live.peak_pps).sum() };
    let held = if devices.holds_packets() { bound } else { Duration::ZERO };
    let mut names = devices.iter().map(|device| device.interface().name.clone());
    let name = names.next().filter(|_| names.next().is_none());
    drop(names);
    let live = FromInterfaces { name, waits: Waits { bound, held } };
    Ok(Opened { devices, feed: Feed { engines, live: Some(live), plain }, demand, beats, warnings })
}

/// How datagrams leave: by rings of the engines and one for heartbeats, or by the plain socket, or not at all.
type Ways = (Vec<Sender>, Option<Box<Sender>>, Option<Plain>);

fn ways(session: &Session<'_>, engines: &[Interface], warnings: &mut Vec<String>) -> Result<Ways> {
    let datagrams = session.options.outputs.alarms.datagrams.as_ref();
    let Some((datagrams, identity)) = datagrams.zip(session.identity.as_ref()) else {
        return Ok((Vec::new(), None, None));
    };
    Ok(match alarms::open(datagrams, engines, &identity.who, &session.sent, warnings)? {
        Way::Rings(rings, beats) => (rings, Some(beats), None),
        Way::Plain(plain) => (Vec::new(), None, Some(plain)),
    })
}

fn link_type(interface: &Interface) -> Result<LinkType> {
    let number = interface.link_type().unwrap_or(u16::MAX);
    LinkType::from_number(number.into()).ok_or_else(|| {
        let cause = format!("frames of hardware type {} are not supported", interface.hardware_type);
        Error::failed("watch", &interface.name, cause).way_out("watch where these packets are Ethernet or IP")
    })
}
