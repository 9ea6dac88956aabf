//! From a configuration to running engines: one interface, one engine thread per queue, their common ledger.
//!
//! Owns the choice of back end (invariant 6), the order of opening and closing that keeps the accounts exact, and the
//! threads. Every program that captures live goes through here; several interfaces are several receivers (`devices`).

mod bond;
mod changes;
mod choose;
mod config;
mod devices;
mod direct;
mod intake;
mod pacing;
mod relay;
mod running;
mod suit;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::accounts::InterfaceAccounts;
use crate::calibrate::run::RunCheck;
use crate::engine::{Engine, Handler};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::meters::EngineMeters;
use crate::pacer::{Pacer, Policy};
use crate::realtime::{ProcessGuard, RealTime, ThreadShare};
use crate::settings::{self, Settings};
use crate::source::backend::Opened;
use crate::source::{AnySource, Description, DeviceCounters, Source, StampClock, ringless};
use crate::steer::{self, Gates, Occupant, Steering};
use crate::sys::event::Stop;
use crate::sys::packet_ring::Promiscuous;
use crate::sys::{clock, netlink, sched};
use crate::transmit::TransmitRing;

pub use crate::source::Backend;
use changes::Changes;
pub use config::{Queues, ReceiverConfig};
pub use devices::{Device, DeviceEnd, DeviceOutcome, Devices, Ended, PortOutcome, RunningDevices};
pub use direct::Attachment;
pub use intake::{Intake, Shown};
use pacing::{Pace, Pause};
pub use relay::{Relay, RelayConfig, Relayed};
use running::Ringless;
pub use running::{Finished, Outcome, Running};
pub use watch::Departure;
use watch::Watch;

/// An opened interface: rings are there and filling, engines don't run yet.
pub struct Receiver {
    config: ReceiverConfig,
    interface: Interface,
    sources: Vec<(AnySource, Option<TransmitRing>)>,
    /// Sources that another receiver's engines serve beside their own.
    carried: Vec<Carried>,
    shared: Shared,
    flows: Flows,
    /// Number of its first engine without a ring; `None`: they follow those that have one.
    first_ringless: Option<usize>,
    warnings: Vec<String>,
}

/// Where the packets of one flow meet, for handlers that need whole ones.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Flows {
    /// Nobody asked, there is one source, or the kernel sees to it.
    Together,
    /// On one queue, as long as the card's settings stay.
    ByCard,
    /// They may come to different sources, for this reason.
    Apart(String),
    /// Engines hand packets over.
    HandedOver,
}

/// What stays of a source whose packets another receiver's engine takes.
struct Carried {
    description: Description,
    /// Counts its packets.
    meters: Arc<EngineMeters>,
}

/// What belongs to all queues together.
struct Shared {
    steering: Option<Steering>,
    /// The steering's, where its packets are taken only as long as the host has no use for them.
    yields: Option<Arc<Gates>>,
    /// What each source counts.
    counters: Arc<Mutex<Vec<Box<dyn DeviceCounters>>>>,
    device: InterfaceAccounts,
    /// The kernel decides by the user's filter before it counts.
    filtered_before_offered: bool,
    /// There are queues of which nobody can say what came by them.
    has_new_queues: Arc<AtomicBool>,
    /// Whose XDP program sees packets before our sockets do. Not where a filter may have rejected them, which nobody counts.
    taker: Option<(String, Occupant)>,
    /// `None` for what is no interface of this host's.
    settings: Option<Settings>,
    _promiscuous: Option<Promiscuous>,
    _process: ProcessGuard,
}

/// The XDP programs on an interface of the host's and on its ports or what else its packets come by, as far as they can be seen;
/// with the names of what they are on.
fn occupants(interface: &Interface) -> Vec<(String, Occupant)> {
    if interface.is_foreign() {
        return Vec::new();
    }
    let links = netlink::links().unwrap_or_default();
    let ways = netlink::reached([(interface.index, interface.name.clone())], |&(index, _)| {
        let lower = links.iter().find(|link| link.index == index).and_then(|link| link.lower);
        let beneath = links.iter().filter(move |link| link.master == Some(index) || Some(link.index) == lower);
        beneath.map(|link| (link.index, link.name.clone()))
    });
    let on = |(index, name): (u32, String)| Some((name.clone(), steer::lasting_occupant(&name, index).ok()??));
    ways.into_iter().filter_map(on).collect()
}

impl Receiver {
    /// Opens everything; packets are received (and kept in the rings) from here on.
    ///
    /// # Errors
    /// The first thing that could not be set up; what was set up before is undone.
    pub fn open(config: ReceiverConfig) -> Result<Self> {
        let interface = config.backend.find(&config.interface)?;
        let mut opened = Self::open_on(config, interface)?;
        opened.admit()?;
        Ok(opened)
    }

    /// As [`Receiver::open`], on an interface that was found before, without letting packets in ([`Receiver::admit`]).
    fn open_on(config: ReceiverConfig, interface: Interface) -> Result<Self> {
        config.policy.validate().map_err(|error| Error::usage("set up waiting on", &config.interface, error))?;
        let mut warnings = Vec::new();
        let process = config.realtime.apply_to_process(&mut warnings);
        if !interface.is_foreign() {
            warnings.extend(settings::put_back_leftovers());
        }
        let settings = if interface.is_foreign() {
            None
        } else {
            let opened = Settings::of(interface.index, config.across_fork);
            Some(opened.map_err(|error| Error::os("look at the settings of", &interface.name, &error))?)
        };
        let (mut backend, fall_back) = choose::choose(&config, &interface, &mut warnings);
        let mut flows = Flows::Together;
        if let (Backend::Xdp, Some(settings)) = (backend, &settings) {
            backend = choose::prepare_for_xdp(&interface, settings, fall_back, &mut warnings);
            flows = choose::keep_flows_together(&config, &interface, backend, settings);
        }
        let had_carrier = has_carrier(&interface);
        // A packet socket would see nothing where another program feeds sockets of its own, and nobody would know.
        let may_fall_back =
            || backend == Backend::Xdp && fall_back && !occupants(&interface).iter().any(|(_, it)| it.feeds_sockets);
        let opened = match backend.open(&config, &interface, &mut warnings) {
            Err(error) if may_fall_back() => {
                warnings.push(format!("{error} — using the packet ring instead"));
                flows = Flows::Together;
                Backend::Packet.open(&config, &interface, &mut warnings)?
            }
            result => result?,
        };
        if had_carrier {
            await_carrier(&interface, &mut warnings);
        }
        let opened = Self::of_opened(config, interface, opened, settings, process, warnings);
        Ok(Self { flows, ..opened })
    }

    /// Begins to count, then lets packets in.
    fn admit(&mut self) -> Result<()> {
        self.shared.device.begin();
        if let Some(steering) = &self.shared.steering {
            steering.open()?;
        }
        self.sources.iter().try_for_each(|(source, _)| source.admit())
    }

    fn of_opened(
        config: ReceiverConfig,
        interface: Interface,
        opened: Opened,
        settings: Option<Settings>,
        process: ProcessGuard,
        mut warnings: Vec<String>,
    ) -> Self {
        let Opened { sources, steering } = opened;
        let first = sources.first().map(|(source, _)| source);
        if config.huge_pages && first.is_some_and(|source| !source.uses_huge_pages()) {
            warnings.push("huge pages are not used: only AF_XDP and cards of our own keep frames in them".to_owned());
        }
        if config.attach.is_some() && steering.is_none() {
            warnings.push(
                "how to attach XDP (--xdp) has no effect: no program is attached where packets are copied".to_owned(),
            );
        }
        let by_kernel = first.is_some_and(|source| !source.sets_promiscuous());
        let promiscuous = if config.promiscuous && interface.ethernet && !interface.is_foreign() && by_kernel {
            Promiscuous::on(&interface.name, interface.index).map_err(|error| warnings.push(error.to_string())).ok()
        } else {
            None
        };
        let filtered_before_offered = first.is_some_and(|source| source.filters_before_counting());
        let counters = sources.iter().filter_map(|(source, _)| source.counters()).collect();
        let beside = if steering.is_none() { occupants(&interface) } else { Vec::new() };
        warnings.extend(beside.iter().map(|(name, it)| format!("{name}: what {it}, takes is not seen here")));
        let device = InterfaceAccounts::new(&interface);
        let yields = steering.as_ref().filter(|_| interface.host_use.is_none() && !config.take);
        let shared = Shared {
            yields: yields.map(Steering::gates),
            steering,
            counters: Arc::new(Mutex::new(counters)),
            device,
            filtered_before_offered,
            has_new_queues: Arc::default(),
            taker: beside.into_iter().next().filter(|_| config.filter.is_none()),
            settings,
            _promiscuous: promiscuous,
            _process: process,
        };
        Self {
            config,
            interface,
            sources,
            carried: Vec::new(),
            shared,
            flows: Flows::Together,
            first_ringless: None,
            warnings,
        }
    }

    /// What could not be had, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// What each queue is.
    pub fn descriptions(&self) -> Vec<Description> {
        let carried = self.carried.iter().map(|carried| carried.description.clone());
        carried.chain(self.sources.iter().map(|(source, _)| source.description())).collect()
    }

    /// How many sources there are: one engine, and so one handler, for each.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// How many handlers it takes: one for each source, and more where more were asked for ([`ReceiverConfig::handlers`]).
    pub fn handler_count(&self) -> usize {
        if self.sources.is_empty() { 0 } else { self.config.handlers.max(self.sources.len()) }
    }

    /// The engines' numbers among all of the program: those with a ring come first, so that each of these has a CPU of its own.
    fn numbers(&self) -> Vec<usize> {
        let rings = self.sources.len().max(self.carried.len());
        let with_ring = (0..rings).map(|index| self.config.first_engine + index);
        let others = self.handler_count().saturating_sub(self.sources.len());
        let first = self.first_ringless.unwrap_or(self.config.first_engine + rings);
        with_ring.chain((0..others).map(|index| first + index)).collect()
    }

    /// LINKTYPE_ value of the frames, where they are of a kind capture files know.
    pub fn link_type(&self) -> Option<u16> {
        match self.sources.first() {
            Some((source, _)) => source.link_type(&self.interface),
            None => self.interface.link_type(),
        }
    }

    /// Which clock the arrival stamps are of; all queues have the same. `None` without queues.
    pub fn stamp_clock(&self) -> Option<StampClock> {
        self.sources.first().map(|(source, _)| source.stamp_clock())
    }

    /// Paces NAPI for engines on these CPUs. Not before they start: who places NAPI's threads may do so when the queues are open.
    fn paced(mut self, cpus: &[usize]) -> (Self, Option<Pause>) {
        let busy_poll = self.descriptions().iter().any(|description| description.busy_poll);
        let Self { config, interface, shared, warnings, .. } = &mut self;
        let pace = match (&shared.steering, &shared.settings) {
            (Some(_), Some(settings)) => pacing::pace_napi(config, interface, busy_poll, cpus, settings, warnings),
            _ => Pace::Unchanged,
        };
        let pause = match pace {
            Pace::Unchanged => None,
            Pace::InsteadOfTimer => {
                config.policy = Policy::Interrupt;
                None
            }
            Pace::Paused(pause) => Some(pause),
        };
        (self, pause)
    }

    /// Starts one engine thread per source, the first handler with the first source and so on; those that are left get a thread
    /// without a ring each.
    ///
    /// # Errors
    /// There are not as many handlers as it takes ([`Receiver::handler_count`]); a thread can't be started.
    pub fn start<H: Handler + Send + 'static>(self, handlers: Vec<H>) -> Result<Running<H>> {
        refuse_other_than(self.handler_count(), handlers.len(), &self.interface.name)?;
        let numbers = self.numbers();
        let cpus = cpus_of(&self.config.cpus, &numbers);
        let receiving = self.sources.len().max(self.carried.len());
        let (this, pause) = self.paced(&cpus.iter().take(receiving).flatten().copied().collect::<Vec<_>>());
        let stamps = this.stamp_clock().unwrap_or(StampClock::Realtime);
        let descriptions = this.descriptions();
        let Self { config, interface, mut sources, carried, shared, flows, mut warnings, .. } = this;
        let relies_on_card = flows == Flows::ByCard;
        if let Flows::Apart(reason) = flows {
            warnings.push(reason);
        }
        let check = cpus.first().filter(|_| !sources.is_empty()).copied().flatten().and_then(RunCheck::start);
        let stop = Arc::new(Stop::new()?);
        let asked_back = sources.first().and_then(|(source, _)| source.asked_back());
        let rings = sources.len();
        for _ in rings..handlers.len() {
            sources.push((Box::new(ringless::Ringless::new(stamps)?), None));
        }
        let (ringless_stop, has_panicked) = (Arc::new(Stop::new()?), Arc::default());
        let mut threads = Vec::new();
        let mut meters: Vec<_> = carried.into_iter().map(|carried| carried.meters).collect();
        let (report_warnings, thread_warnings) = mpsc::channel();
        for (index, ((mut source, transmit), handler)) in sources.into_iter().zip(handlers).enumerate() {
            let (stop, policy) =
                if index < rings { (&stop, &config.policy) } else { (&ringless_stop, &Policy::Interrupt) };
            let stop = handler.bell().map_or_else(|| Arc::clone(stop), |bell| Arc::new(stop.with_bell(bell)));
            source.share_stop(&stop);
            let counters = Arc::new(EngineMeters::default());
            meters.push(Arc::clone(&counters));
            let pacer =
                Pacer::new(policy).map_err(|error| Error::usage("set up waiting on", &interface.name, error))?;
            let engine =
                Engine { source, handler, pacer, transmit, stop, meters: counters, packet_limit: config.packet_limit };
            let (realtime, panicked) = (config.realtime.clone(), Panicked(Arc::clone(&has_panicked)));
            let (cpu, report) = (cpus[index], report_warnings.clone());
            let thread = std::thread::Builder::new()
                .name(format!("ringtap-rx{}", numbers[index]))
                .spawn(move || run(engine, &realtime, cpu, report, panicked))
                .map_err(|error| Error::os("start engine thread for", &interface.name, &error))?;
            threads.push(thread);
        }
        drop(report_warnings);
        let news = Arc::new(Mutex::new(Vec::new()));
        if let Some(pause) = pause {
            let followed = pause.follow(&interface.name, &meters, &stop, &news);
            warnings.extend(followed.err().map(|error| error.to_string()));
        }
        let watches_queues = shared.steering.is_some() && config.queues == Queues::All;
        let changes = watches_queues.then(|| Changes::of(&interface, relies_on_card, &shared.has_new_queues));
        let watch = Watch::start(
            &interface,
            asked_back,
            Arc::clone(&stop),
            &shared,
            changes.map(|changes| (changes, Arc::clone(&news))),
        );
        let watch = watch.map_err(|error| warnings.push(error.to_string())).ok();
        for reported in thread_warnings {
            warnings.extend(reported.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        }
        let shares = threads.iter().map(ThreadShare::of).collect();
        let ringless = Ringless { threads: threads.split_off(rings), stop: ringless_stop };
        Ok(Running {
            interface,
            descriptions,
            shared,
            stop,
            threads,
            ringless,
            has_panicked,
            shares,
            watch,
            news,
            meters,
            check,
            warnings,
        })
    }
}

/// # Errors
/// There are not as many handlers as engines.
fn refuse_other_than(engines: usize, handlers: usize, object: &str) -> Result<()> {
    if handlers == engines {
        return Ok(());
    }
    let cause = format!("{handlers} handlers for {engines} engines");
    Err(Error::usage("start engines for", object, cause)
        .way_out("give one handler for each source, in their order, and then those without one"))
}

/// Tells that its thread panicked.
struct Panicked(Arc<AtomicBool>);

impl Drop for Panicked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// An engine thread's life.
fn run<H: Handler>(
    mut engine: Engine<AnySource, H>,
    realtime: &RealTime,
    cpu: Option<usize>,
    report: mpsc::Sender<Vec<String>>,
    _panicked: Panicked,
) -> Finished<H> {
    let mut warnings = Vec::new();
    realtime.apply_to_thread(cpu, &mut warnings);
    let (started_ns, cpu_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    // The receiver waits for this message, so the loop itself sends nothing.
    let _ = report.send(warnings);
    drop(report);
    let end = engine.run();
    let wall_ns = clock::monotonic_ns() - started_ns;
    let thread_share = (clock::thread_cpu_ns() - cpu_ns) as f64 / wall_ns.max(1) as f64;
    realtime.leave_thread();
    Finished {
        handler: engine.handler,
        wall_ns,
        end,
        failure: engine.source.failure().map(str::to_owned),
        thread_share,
    }
}

fn has_carrier(interface: &Interface) -> bool {
    netlink::link_by_index(interface.index).is_ok_and(|link| link.carrier)
}

/// Waits for a link that was there before: some drivers (igb, ixgbe) restart the device when an XDP program is attached, and
/// its link takes seconds to come back. What the other side sends meanwhile is lost on the wire, where nobody counts it.
fn await_carrier(interface: &Interface, warnings: &mut Vec<String>) {
    const LIMIT: Duration = Duration::from_secs(10);
    let since = Instant::now();
    while !has_carrier(interface) {
        if since.elapsed() > LIMIT {
            warnings.push(format!("{} lost its link when it was opened, and has none yet", interface.name));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPU of each engine by its number: as told, else from the last allowed CPU downwards, as the first ones serve most interrupts.
fn cpus_of(told: &[usize], numbers: &[usize]) -> Vec<Option<usize>> {
    let allowed: Vec<usize> = sched::allowed_cpus().into_iter().rev().collect();
    let from = if told.is_empty() { &allowed[..] } else { told };
    numbers.iter().map(|number| from.get(number % from.len().max(1)).copied()).collect()
}
