//! A run, from opening to the summary.
//!
//! Owns the order: what can fail without leaving a trace comes first, privileges go last. At the end engines stop first, then rings are
//! emptied.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::interface::Interface;
use ringtap::ledger::Ledger;
use ringtap::receiver::{
    DeviceEnd, DeviceOutcome, Devices, Ended, ReceiverConfig, RelayConfig, Relayed, RunningDevices,
};
use ringtap::source::StampClock;
use ringtap::transmit::TransmitRing;
use ringtap::{Error, Result};
use ringtap_run::live::{Configured, Live};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::signals::{Hangup, Heard};
use ringtap_web::View;

use super::accounts::{LaneCounts, Tally};
use super::handler::{Forwarder, Lane, Limit};
use super::metrics::{Now, Shown};
use super::report::{Facts, Look, Reporter, Summary};
use super::{Done, Ending, Options};
use crate::health::{Health, Words};
use crate::loops;
use crate::port::{PATIENCE, Port, Way, dropped_by, packet_ring};

/// How often to look at what wakes nobody.
const LOOK: Duration = Duration::from_millis(250);

/// What is said of an interface.
const WORDS: Words = Words {
    up: "is up again",
    down: "is down: what was to leave by it is lost as link_down, and nothing arrives by it until it is up again",
    no_carrier: "has no carrier: what was to leave by it is lost as link_down, and nothing arrives by it until it has one",
    gone: "was removed",
};

/// All that is open before engines start.
struct Opened {
    devices: Devices,
    forwarders: Vec<Forwarder>,
    counts: Vec<Vec<Arc<LaneCounts>>>,
    limit: Option<Arc<Limit>>,
    health: Health,
    facts: Facts,
    indices: [u32; 2],
    warnings: Vec<String>,
}

/// A run under way.
struct Run<'o> {
    options: &'o Options,
    facts: Facts,
    running: RunningDevices<Forwarder>,
    /// Of each direction and engine.
    counts: Vec<Vec<Arc<LaneCounts>>>,
    limit: Option<Arc<Limit>>,
    health: Health,
    indices: [u32; 2],
    /// What each device had dropped before.
    dropped: [Option<u64>; 2],
    started: Instant,
    /// Where metrics are asked for.
    shown: Option<Arc<Shown>>,
}

pub(super) fn run(options: &Options) -> Result<Done> {
    options.check()?;
    let process = Process::begin(&Terms {
        opens_interfaces: true,
        heard: Heard { hangup: Hangup::MayEnd, report: true, second_ends: true },
        user: options.user.as_deref(),
        keeps_privileges: options.no_sandbox,
    })?;
    let places = options.places.bind()?;
    let Opened { devices, forwarders, counts, limit, health, facts, indices, mut warnings } = open(options)?;
    let dropped = indices.map(dropped_by);
    let needs = Needs { rings: true, removes: options.first.dpdk.socket_folders().collect(), ..Needs::default() };
    let running = process.start(devices, forwarders, needs, &mut warnings)?;
    warnings.iter().for_each(|warning| notes::warn(warning));
    notes::say(&format!("forwarding {} ({}, {})", facts.wire(), facts.backend(), facts.manner()));
    let started = Instant::now();
    let shown = (!options.places.is_empty()).then(|| Arc::new(Shown::new(facts.clone())));
    if let Some(shown) = &shown {
        places.start(Arc::clone(shown) as Arc<dyn View>)?;
    }
    let run = Run { options, facts, running, counts, limit, health, indices, dropped, started, shown };
    run.complete(&process, warnings)
}

/// Both interfaces, which have to be two ends of different wires.
fn find(options: &Options) -> Result<[Interface; 2]> {
    let second = Live { interface: options.second.clone(), ..options.first.clone() };
    let ports = [options.first.find_interface()?, second.find_interface()?];
    for port in &ports {
        if port.link_type() != Some(1) || port.is_loopback() {
            return Err(Error::usage("forward", &port.name, "it is no Ethernet interface with a wire")
                .way_out("name two Ethernet interfaces"));
        }
    }
    let [first, second] = &ports;
    loops::refuse(&second.name, second, first, "")?;
    if options.both {
        loops::refuse(&first.name, first, second, "")?;
    }
    loops::refuse_one_wire(first, second)?;
    Ok(ports)
}

fn open(options: &Options) -> Result<Opened> {
    let ports = find(options)?;
    let [first, second] = &ports;
    let mut warnings = Vec::new();
    if let Some(used) = second.host_use.as_ref().filter(|_| !options.both) {
        warnings.push(format!("{} {used}: forwarded packets go out beside the host's own", second.name));
    }
    // What this host itself sends is not forwarded, and so what was forwarded is not seen again.
    let live = Live { incoming_only: Some(true), ..options.first.clone() };
    let Configured { config, plan } = live.configure(first, None)?;
    if let Some(pps) = plan.and_then(|plan| plan.shortfall_pps()) {
        warnings
            .push(format!("at the peak rate one core is not enough: losses begin at {pps:.0} packets/s, or before"));
    }
    let other = ReceiverConfig { interface: second.name.clone(), ..config.clone() };
    let relay = RelayConfig { both: options.both, transmit_slots: options.slots };
    let Relayed { devices, rings, notes } = Devices::open_relay(config, other, &relay)?;
    warnings.extend(notes);
    let stamps = devices.iter().next().and_then(|device| device.stamp_clock()).unwrap_or(StampClock::Realtime);
    let lends = rings.iter().flatten().flatten().any(TransmitRing::lends);
    let health = Health::start(&ports.each_ref().map(Some), &WORDS)?;
    let limit = options.count.map(|most| Arc::new(Limit::new(most)));
    let directions = if options.both { 2 } else { 1 };
    let mut counts = vec![Vec::new(); directions];
    let mut forwarders = Vec::new();
    for of_engine in rings {
        let mut lanes = Vec::new();
        for (direction, ring) in of_engine.into_iter().enumerate().take(directions) {
            let (output, own) = (1 - direction, Arc::new(LaneCounts::default()));
            let ring = ring.map_or_else(|| packet_ring(&ports[output], options.slots), Ok)?;
            counts[direction].push(Arc::clone(&own));
            lanes.push(Lane { port: Port::new(Way::Ring(ring), health.mtu(output)), counts: own, output });
        }
        let (up, limit) = (health.up(), limit.clone());
        forwarders.push(Forwarder { lanes, up, limit, stamps, again: None, since_flush: 0 });
    }
    let indices = ports.each_ref().map(|port| port.index);
    let facts = Facts { names: ports.map(|port| port.name), directions, lends, sources: devices.descriptions() };
    Ok(Opened { devices, forwarders, counts, limit, health, facts, indices, warnings })
}

impl Run<'_> {
    fn complete(mut self, process: &Process, mut warnings: Vec<String>) -> Result<Done> {
        let reporter = Reporter::new(self.options.stats, self.options.objects);
        let (ending, mut failure) = self.watch(process, &reporter);
        let elapsed = self.started.elapsed();
        notes::clear_progress();
        let up = self.up();
        let Self { facts, running, counts, indices, dropped, .. } = self;
        let (mut ledgers, mut counters, mut engine_percent) = (Vec::new(), Vec::new(), Vec::new());
        let outcomes = running.finish()?;
        let mut tallies = tallies(&counts);
        // One deadline for all that did not leave.
        let settled_by = Instant::now() + PATIENCE;
        for DeviceOutcome { outcome, .. } in outcomes {
            ledgers.push(outcome.ledger);
            counters.push(outcome.counters);
            for engine in outcome.engines {
                engine_percent.push(engine.thread_share * 100.0);
                let mut forwarder = engine.handler;
                for (tally, left) in tallies.iter_mut().zip(forwarder.settle(settled_by)) {
                    left.into_iter().for_each(|(cause, count)| tally.output.lose(cause, count));
                }
            }
            warnings
                .extend(outcome.warnings.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
            failure = failure.or(outcome.blind);
        }
        // What the devices dropped of the last frames, too.
        let device_dropped = dropped_since(indices, dropped);
        let look = Look { elapsed, tallies, ledgers, counters, device_dropped, up };
        Ok(Done { summary: Summary { facts, ending, look, engine_percent, warnings }, failure })
    }

    /// Until the end; with what went wrong, where that is it.
    fn watch(&mut self, process: &Process, reporter: &Reporter) -> (Ending, Option<Error>) {
        let signals = process.signals();
        let deadline = self.options.duration.and_then(|duration| self.started.checked_add(duration));
        let mut next_report = self.started.checked_add(reporter.interval);
        let mut before = self.look();
        loop {
            let now = Instant::now();
            if signals.is_end_asked() || signals.take_hangup() {
                return (Ending::Signal, None);
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return (Ending::Duration, None);
            }
            if self.limit.as_ref().is_some_and(|limit| limit.is_reached()) {
                return (Ending::Count, None);
            }
            self.running.take_news().iter().for_each(|line| notes::say(line));
            self.health.take_news().iter().for_each(|line| notes::say(line));
            if let Some(error) = self.gone() {
                return (Ending::PortGone, Some(error));
            }
            if let Some(shown) = self.shown.clone() {
                shown.show(Now { at: Instant::now(), look: self.look(), engine_cpu: self.running.engine_cpu() });
            }
            if signals.take_report() {
                let look = self.look();
                for (tally, ledger) in look.tallies.iter().zip(&look.ledgers) {
                    notes::say(&tally.object(ledger, false).to_string());
                }
            }
            if next_report.is_some_and(|next| now >= next) {
                let look = self.look();
                reporter.interval_passed(&self.facts, &look, &before);
                before = look;
                while next_report.is_some_and(|next| now >= next) {
                    next_report = next_report.and_then(|next| next.checked_add(reporter.interval));
                }
            }
            let look = if self.limit.is_some() { LOOK / 10 } else { LOOK };
            let wake = [deadline, next_report].into_iter().flatten().min();
            signals.rest(wake.map_or(look, |wake| wake.saturating_duration_since(now).min(look)));
        }
    }

    /// That an interface is gone: a wire with one end is none.
    fn gone(&mut self) -> Option<Error> {
        let ended = self.running.take_ended();
        let told = ended.iter().find(|ended| matches!(ended.end, DeviceEnd::Departed(_)));
        if let Some(Ended { device, end }) = told {
            return Some(end.error("forward", device));
        }
        if let Some(lost) = (0..2).find(|&port| self.health.is_lost(port)) {
            let error = Error::failed("forward", &self.facts.names[lost], "the interface was removed");
            return Some(error.way_out("what was forwarded before is complete"));
        }
        ended.first().map(|Ended { device, end }| end.error("forward", device))
    }

    fn look(&mut self) -> Look {
        let mut ledgers = self.running.ledgers();
        ledgers.resize_with(self.facts.directions, Ledger::default);
        Look {
            elapsed: self.started.elapsed(),
            tallies: tallies(&self.counts),
            ledgers,
            counters: self.running.device_counters(),
            device_dropped: dropped_since(self.indices, self.dropped),
            up: self.up(),
        }
    }

    fn up(&self) -> [Option<bool>; 2] {
        // No interface has the index 0.
        [0, 1].map(|port| (self.indices[port] != 0).then(|| self.health.is_up(port)))
    }
}

/// What was counted of each direction.
fn tallies(counts: &[Vec<Arc<LaneCounts>>]) -> Vec<Tally> {
    counts.iter().map(|engines| Tally::of(engines.iter().map(|it| &**it))).collect()
}

/// What each device has dropped on the way out since it had dropped so many.
fn dropped_since(indices: [u32; 2], before: [Option<u64>; 2]) -> [Option<u64>; 2] {
    [0, 1].map(|port: usize| Some(dropped_by(indices[port])?.saturating_sub(before[port]?)))
}
