//! From a configuration to running engines: one interface, one engine thread per queue, their common ledger.
//!
//! Owns the choice of back end (invariant 6), the order of opening and closing that keeps the accounts exact, and the
//! threads. Every program that captures live goes through here.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use crate::accounts::{DeviceAccounts, SocketAccounts};
use crate::engine::{End, Engine, Handler};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::ledger::{Cause, Ledger};
use crate::meters::{EngineMeters, EngineSnapshot};
use crate::napi::{self, NapiPacing};
use crate::pacer::{Pacer, Policy};
use crate::realtime::{ProcessGuard, RealTime};
use crate::source::any::AnySource;
use crate::source::packet::{Fanout, Filter, PacketRingConfig, PacketSource};
use crate::source::socket::SocketSource;
use crate::source::xdp::{XdpConfig, XdpSource};
use crate::source::{Description, Source, StampClock};
use crate::steer::{Attach, Rule, SteerCounters, Steering};
use crate::sys::event::{PollEnd, Stop};
use crate::sys::netlink::{self, LinkEvents};
use crate::sys::packet_ring::Promiscuous;
use crate::sys::{clock, sched};
use crate::transmit::TransmitRing;

/// How packets are taken from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// AF_XDP where that takes nothing from the host against its will, else a packet ring.
    #[default]
    Auto,
    /// AF_XDP: frames leave the host stack.
    Xdp,
    /// A packet socket with a TPACKET_V2 ring: frames are copied beside the host stack.
    Packet,
    /// A packet socket with recvmmsg(2).
    Socket,
}

/// Which receive queues are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Queues {
    /// All the device has (AF_XDP), or one thread (packet sockets).
    #[default]
    All,
    /// The first so many, or so many threads that share a packet socket's traffic.
    Count(u32),
    /// These.
    Only(Vec<u32>),
}

/// Everything a receiver can be told.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Interface name.
    pub interface: String,
    /// Back end.
    pub backend: Backend,
    /// Packets may be taken away from the host stack on an interface the host uses itself.
    pub take: bool,
    /// What to take (none: everything); only AF_XDP steers.
    pub rules: Vec<Rule>,
    /// Whether `rules` say all that the user's filter says, so that steering by them is what the user asked for.
    pub rules_are_exact: bool,
    /// How to attach XDP; `None` tries native, then generic.
    pub attach: Option<Attach>,
    /// Queues.
    pub queues: Queues,
    /// Slots of each ring.
    pub ring_slots: u32,
    /// Bytes per frame; `None` chooses by the MTU.
    pub frame_size: Option<u32>,
    /// Frames in huge pages (AF_XDP).
    pub huge_pages: bool,
    /// Transmit slots of each queue; 0 for none.
    pub transmit_slots: u32,
    /// Filter in the kernel (packet sockets).
    pub filter: Option<Filter>,
    /// Leave out what the host sends (packet sockets; AF_XDP never sees it).
    pub incoming_only: bool,
    /// Take frames that are addressed to others.
    pub promiscuous: bool,
    /// How to wait.
    pub policy: Policy,
    /// Real-time measures.
    pub realtime: RealTime,
    /// CPUs for the engine threads, in order of queues; empty: the last allowed ones.
    pub cpus: Vec<usize>,
    /// Pause between two polls of the kernel's NAPI where it stays in charge (AF_XDP in the driver without busy poll),
    /// nanoseconds; 0 leaves its settings alone.
    pub napi_pace_ns: u64,
    /// Each engine ends after this many packets.
    pub packet_limit: Option<u64>,
}

impl ReceiverConfig {
    /// Defaults for an interface: back end `auto`, all queues, everything, rings of 4096 slots.
    pub fn new(interface: impl Into<String>, policy: Policy) -> Self {
        Self {
            interface: interface.into(),
            backend: Backend::Auto,
            take: false,
            rules: Vec::new(),
            rules_are_exact: true,
            attach: None,
            queues: Queues::All,
            ring_slots: 4096,
            frame_size: None,
            huge_pages: false,
            transmit_slots: 0,
            filter: None,
            incoming_only: false,
            promiscuous: true,
            policy,
            realtime: RealTime::default(),
            cpus: Vec::new(),
            napi_pace_ns: 0,
            packet_limit: None,
        }
    }
}

/// An opened interface: rings are there and filling, engines don't run yet.
pub struct Receiver {
    config: ReceiverConfig,
    interface: Interface,
    queues: Vec<(AnySource, Option<TransmitRing>)>,
    shared: Shared,
    warnings: Vec<String>,
}

/// What belongs to all queues together.
struct Shared {
    steering: Option<Steering>,
    accounts: Arc<Mutex<Vec<SocketAccounts>>>,
    device: DeviceAccounts,
    _napi: Option<NapiPacing>,
    _promiscuous: Option<Promiscuous>,
    _process: ProcessGuard,
}

impl Receiver {
    /// Opens everything; packets are received (and kept in the rings) from here on.
    ///
    /// # Errors
    /// The first thing that could not be set up; what was set up before is undone.
    pub fn open(config: ReceiverConfig) -> Result<Self> {
        let interface = Interface::find_up(&config.interface)?;
        config.policy.validate().map_err(|error| Error::usage("set up waiting on", &config.interface, error))?;
        let mut warnings = Vec::new();
        let process = config.realtime.apply_to_process(&mut warnings);
        napi::repair_leftovers(&interface.name, interface.index);
        let (backend, fall_back) = choose(&config, &interface, &mut warnings);
        let opened = match backend {
            Backend::Xdp => match open_xdp(&config, &interface) {
                Err(error) if fall_back => {
                    warnings.push(format!("{error} — using the packet ring instead"));
                    open_packet(&config, &interface)?
                }
                result => result?,
            },
            Backend::Socket => open_socket(&config, &interface)?,
            Backend::Auto | Backend::Packet => open_packet(&config, &interface)?,
        };
        let promiscuous = if config.promiscuous && interface.ethernet {
            Promiscuous::on(&interface.name, interface.index).map_err(|error| warnings.push(error.to_string())).ok()
        } else {
            None
        };
        let napi = opened
            .steering
            .as_ref()
            .and_then(|steering| pace_napi(&config, &interface, steering, &opened, &mut warnings));
        let accounts = opened.queues.iter().filter_map(|(source, _)| source.accounts()).collect();
        // From here on packets count, the device's losses too.
        let device = DeviceAccounts::start(&interface);
        if let Some(steering) = &opened.steering {
            steering.open()?;
        }
        for (source, _) in &opened.queues {
            source.admit()?;
        }
        let shared = Shared {
            steering: opened.steering,
            accounts: Arc::new(Mutex::new(accounts)),
            device,
            _napi: napi,
            _promiscuous: promiscuous,
            _process: process,
        };
        Ok(Self { config, interface, queues: opened.queues, shared, warnings })
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
        self.queues.iter().map(|(source, _)| source.description()).collect()
    }

    /// Which clock the arrival stamps are of; all queues have the same. `None` without queues.
    pub fn stamp_clock(&self) -> Option<StampClock> {
        self.queues.first().map(|(source, _)| source.stamp_clock())
    }

    /// Starts one engine thread per queue with the handler that `handler_of` makes for it.
    ///
    /// # Errors
    /// A thread can't be started.
    pub fn start<H: Handler + Send + 'static>(
        self,
        mut handler_of: impl FnMut(usize, &AnySource) -> H,
    ) -> Result<Running<H>> {
        let Self { config, interface, queues, shared, mut warnings } = self;
        let stop = Arc::new(Stop::new()?);
        let descriptions = queues.iter().map(|(source, _)| source.description()).collect();
        let allowed = sched::allowed_cpus();
        let mut threads = Vec::new();
        let mut meters = Vec::new();
        let (report_warnings, thread_warnings) = mpsc::channel();
        for (index, (source, transmit)) in queues.into_iter().enumerate() {
            let cpu = engine_cpu(&config.cpus, &allowed, index);
            let counters = Arc::new(EngineMeters::default());
            meters.push(Arc::clone(&counters));
            let pacer = Pacer::new(&config.policy)
                .map_err(|error| Error::usage("set up waiting on", &interface.name, error))?;
            let mut engine = Engine {
                handler: handler_of(index, &source),
                source,
                pacer,
                transmit,
                stop: Arc::clone(&stop),
                meters: counters,
                packet_limit: config.packet_limit,
            };
            let realtime = config.realtime.clone();
            let report = report_warnings.clone();
            let thread = std::thread::Builder::new()
                .name(format!("ringtap-rx{index}"))
                .spawn(move || {
                    let mut warnings = Vec::new();
                    realtime.apply_to_thread(cpu, &mut warnings);
                    let (started_ns, cpu_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
                    // The receiver waits for this message, so the loop itself sends nothing.
                    let _ = report.send(warnings);
                    drop(report);
                    let end = engine.run();
                    let wall_ns = clock::monotonic_ns() - started_ns;
                    let thread_share = (clock::thread_cpu_ns() - cpu_ns) as f64 / wall_ns.max(1) as f64;
                    Finished {
                        handler: engine.handler,
                        end,
                        invalid: engine.source.invalid_descriptors(),
                        thread_share,
                    }
                })
                .map_err(|error| Error::os("start engine thread for", &interface.name, &error))?;
            threads.push(thread);
        }
        drop(report_warnings);
        let packet_sockets = shared.steering.is_none();
        let watch = watch_link(&interface, Arc::clone(&stop), packet_sockets.then(|| Arc::clone(&shared.accounts)));
        let watch = watch.map_err(|error| warnings.push(error.to_string())).ok();
        for reported in thread_warnings {
            warnings.extend(reported.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        }
        Ok(Running { interface, descriptions, shared, stop, threads, watch, meters, warnings })
    }
}

/// Starts the thread that tells the engines when the interface is removed: not every socket does (an AF_XDP one is never
/// readable again), and an engine on a timer does not ask. It sleeps until an interface of this network namespace changes.
///
/// The kernel counts a packet socket's packets in 32 bits since the last reading, so `accounts` are read now and then.
fn watch_link(
    interface: &Interface,
    stop: Arc<Stop>,
    accounts: Option<Arc<Mutex<Vec<SocketAccounts>>>>,
) -> Result<JoinHandle<()>> {
    /// 2^32 packets take longer than this up to 35 million packets/s.
    const READING: Duration = Duration::from_secs(120);
    let events = LinkEvents::open().map_err(|error| {
        Error::os("watch", &interface.name, &error).way_out("capture goes on, but its removal may not end it")
    })?;
    let index = interface.index;
    let watch = move || {
        while !netlink::is_gone(index) {
            match stop.wait_readable(events.as_fd(), accounts.as_ref().map(|_| READING)) {
                PollEnd::Stopped => return,
                PollEnd::TimedOut => {
                    if let Some(accounts) = &accounts {
                        for socket in lock(accounts).iter_mut() {
                            let _ = socket.read();
                        }
                    }
                }
                PollEnd::Readable | PollEnd::Failed => events.clear(),
            }
        }
        stop.device_gone();
    };
    std::thread::Builder::new()
        .name("ringtap-link".to_owned())
        .spawn(watch)
        .map_err(|error| Error::os("start a thread to watch", &interface.name, &error))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPU of engine `index`: as told, else from the last allowed CPU downwards, as the first ones serve most interrupts.
fn engine_cpu(told: &[usize], allowed: &[usize], index: usize) -> Option<usize> {
    if told.is_empty() {
        allowed.iter().rev().cycle().nth(index).copied()
    } else {
        told.get(index % told.len()).copied()
    }
}

/// Engines at work. Dropping it ends them.
pub struct Running<H> {
    interface: Interface,
    descriptions: Vec<Description>,
    shared: Shared,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<Finished<H>>>,
    watch: Option<JoinHandle<()>>,
    meters: Vec<Arc<EngineMeters>>,
    warnings: Vec<String>,
}

/// What one engine thread leaves.
pub struct Finished<H> {
    /// The handler, with what it gathered.
    pub handler: H,
    /// Why the engine ended.
    pub end: End,
    /// Descriptors that made no sense.
    invalid: u64,
    /// Share of the time the thread was on a CPU (0–1).
    pub thread_share: f64,
}

/// What a receiver leaves.
pub struct Outcome<H> {
    /// The engines, in order of queues.
    pub engines: Vec<Finished<H>>,
    /// The whole ledger.
    pub ledger: Ledger,
    /// All engines' counters together.
    pub counters: EngineSnapshot,
    /// The driver's own counters that speak of loss.
    pub driver_counters: Vec<(String, u64)>,
    /// What could not be had or went wrong, one sentence each.
    pub warnings: Vec<String>,
}

impl<H: Handler + Send + 'static> Running<H> {
    /// What could not be had, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What each queue is.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Ends the engines when pulled; give it to signal handlers.
    pub fn stop_handle(&self) -> Arc<Stop> {
        Arc::clone(&self.stop)
    }

    /// Whether every engine has come to its end by itself.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// All engines' counters together.
    pub fn counters(&self) -> EngineSnapshot {
        let snapshots: Vec<_> = self.meters.iter().map(|meters| meters.snapshot()).collect();
        EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot())
    }

    /// The ledger as of now. While packets are on their way it is off by as many as are in the rings.
    pub fn ledger(&mut self) -> Ledger {
        let delivered = self.counters().packets;
        self.shared.ledger(delivered)
    }

    /// Ends the engines, with nothing left in the rings: first the device stops feeding them, then they run empty.
    ///
    /// # Errors
    /// An engine thread panicked.
    pub fn finish(mut self) -> Result<Outcome<H>> {
        if let Some(steering) = &self.shared.steering {
            steering.shut();
        }
        self.stop.pull();
        let mut engines = Vec::new();
        for thread in self.threads.drain(..) {
            let finished = thread.join().map_err(|_| {
                Error::failed("run engine on", &self.interface.name, "the engine thread panicked")
                    .way_out("report this as a bug")
            })?;
            engines.push(finished);
        }
        let snapshots: Vec<_> = self.meters.iter().map(|meters| meters.snapshot()).collect();
        let counters = EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot());
        let mut ledger = self.shared.ledger(counters.packets);
        ledger.drop(Cause::LeftAtLimit, Some(counters.left_at_limit));
        ledger.drop(Cause::InvalidDescriptor, Some(engines.iter().map(|engine| engine.invalid).sum()));
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(engines.iter().filter_map(|engine| crate::realtime::throttling_warning(engine.thread_share)));
        Ok(Outcome { engines, ledger, counters, driver_counters: self.shared.device.driver_counters(), warnings })
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        self.stop.pull();
        for thread in self.threads.drain(..) {
            // Its panic has been reported by itself, and we may be unwinding.
            let _ = thread.join();
        }
        let _ = self.watch.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn ledger(&mut self, delivered: u64) -> Ledger {
        let mut ledger = Ledger { delivered, ..Ledger::default() };
        let sockets: Vec<_> = lock(&self.accounts).iter_mut().map(SocketAccounts::read).collect();
        let native = self.steering.as_ref().is_some_and(|steering| steering.attached() == Attach::Native);
        let refused = if native { sockets.iter().flatten().map(|drops| drops.total()).sum() } else { 0 };
        let steered = self.steering.as_ref().and_then(|steering| steering.counters().ok());
        let given_to_host = match &steered {
            Some(counters) => counters.passed + counters.no_socket,
            None => sockets.iter().flatten().filter_map(|drops| drops.offered).sum(),
        };
        let device = self.device.drops(refused, given_to_host);
        ledger.drop(Cause::Nic, device.map(|drops| drops.nic));
        ledger.drop(Cause::DriverQueue, device.map(|drops| drops.driver_queue));
        ledger.drop(Cause::Softnet, device.map(|drops| drops.softnet));
        for drops in &sockets {
            ledger.drop(Cause::RingFull, drops.map(|drops| drops.ring_full));
            ledger.drop(Cause::FillRingEmpty, drops.map(|drops| drops.fill_ring_empty));
            ledger.drop(Cause::Oversize, drops.map(|drops| drops.oversize));
        }
        let before_socket = device.map(|drops| drops.nic + drops.driver_queue + drops.softnet);
        match &self.steering {
            Some(_) => {
                let count = |of: fn(&SteerCounters) -> u64| steered.as_ref().map(of);
                ledger.offered = count(|c| c.seen).zip(before_socket).map(|(a, b)| a + b);
                ledger.filtered = count(|c| c.passed);
                ledger.drop(Cause::NoSocket, count(|c| c.no_socket));
            }
            None => {
                let offered: Option<u64> = sockets.iter().map(|drops| drops.and_then(|drops| drops.offered)).sum();
                ledger.offered = offered.zip(before_socket).map(|(a, b)| a + b);
                ledger.filtered = Some(0);
            }
        }
        ledger
    }
}

/// What opening a back end gives.
struct Opened {
    queues: Vec<(AnySource, Option<TransmitRing>)>,
    steering: Option<Steering>,
}

/// The back end to try first, and whether another may take its place.
fn choose(config: &ReceiverConfig, interface: &Interface, warnings: &mut Vec<String>) -> (Backend, bool) {
    match config.backend {
        Backend::Xdp => {
            if interface.used_by_host && !config.take && config.rules.is_empty() {
                warnings.push(format!(
                    "{} has addresses of this host: with AF_XDP the host does not see what Ringtap takes (--backend packet copies instead)",
                    interface.name
                ));
            }
            (Backend::Xdp, false)
        }
        Backend::Auto => {
            let may_take = !interface.used_by_host || (config.take && config.rules_are_exact);
            let fits = config.frame_size.is_some() || XdpSource::frame_size_for(interface.mtu).is_some();
            if may_take && fits && interface.ethernet { (Backend::Xdp, true) } else { (Backend::Packet, false) }
        }
        other => (other, false),
    }
}

fn open_xdp(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    let frame_size = config.frame_size.unwrap_or_else(|| XdpSource::frame_size_for(interface.mtu).unwrap_or(4096));
    let queue_ids = match &config.queues {
        Queues::All => (0..interface.queues).collect(),
        Queues::Count(count) => (0..*count).collect(),
        Queues::Only(list) => list.clone(),
    };
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
    let mut configs: Vec<XdpConfig> = queue_ids
        .iter()
        .map(|&queue| XdpConfig {
            interface: interface.name.clone(),
            ifindex: interface.index,
            mtu: interface.mtu,
            queue,
            ring_slots: config.ring_slots,
            transmit_slots: config.transmit_slots,
            frame_size,
            huge_pages: config.huge_pages,
        })
        .collect();
    for config in &configs {
        config.check()?;
    }
    let mut steering = Steering::attach(&interface.name, interface.index, &config.rules, config.attach)?;
    let mut queues = Vec::new();
    for config in configs.drain(..) {
        let (source, transmit) = XdpSource::open(&config, &mut steering)?;
        queues.push((AnySource::Xdp(source), transmit));
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

fn packet_config(config: &ReceiverConfig, interface: &Interface) -> PacketRingConfig {
    let frame_size =
        config.frame_size.unwrap_or_else(|| (interface.mtu.saturating_add(256)).next_power_of_two().clamp(2048, 65536));
    PacketRingConfig {
        interface: interface.name.clone(),
        ifindex: interface.index,
        ring_slots: config.ring_slots,
        transmit_slots: config.transmit_slots,
        frame_size,
        incoming_only: config.incoming_only,
        filter: config.filter.clone(),
    }
}

fn open_packet(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    let ring = packet_config(config, interface);
    let queues = open_members(fanout_count(config), |fanout| {
        let (source, transmit, group) = PacketSource::open(&ring, fanout)?;
        Ok(((AnySource::Packet(source), transmit), group))
    })?;
    Ok(Opened { queues, steering: None })
}

fn open_socket(config: &ReceiverConfig, interface: &Interface) -> Result<Opened> {
    let ring = packet_config(config, interface);
    let queues = open_members(fanout_count(config), |fanout| {
        let (source, group) = SocketSource::open(&ring, fanout)?;
        Ok(((AnySource::Socket(source), None), group))
    })?;
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

fn pace_napi(
    config: &ReceiverConfig,
    interface: &Interface,
    steering: &Steering,
    opened: &Opened,
    warnings: &mut Vec<String>,
) -> Option<NapiPacing> {
    const DEFER_HARD_IRQS: u64 = 2;
    let busy_poll = opened.queues.iter().any(|(source, _)| source.description().busy_poll);
    let flush_ns = if busy_poll {
        // Our thread runs the device's poll itself; the kernel's timer is only a net below, longer than our period
        // (Documentation/networking/napi.rst, busy polling).
        shortest_period_ns(&config.policy)? * 2
    } else if steering.attached() == Attach::Native && config.napi_pace_ns > 0 {
        config.napi_pace_ns
    } else {
        return None;
    };
    NapiPacing::set(&interface.name, interface.index, DEFER_HARD_IRQS, flush_ns, warnings)
}

/// The shortest timer period a policy may use, if it has a timer.
fn shortest_period_ns(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Hybrid(hybrid) => hybrid.rungs.iter().map(|rung| rung.period_ns).min(),
        Policy::Windowed(windowed) => Some(windowed.period_ns),
        Policy::Timer { period_ns } => Some(*period_ns),
        Policy::Interrupt | Policy::Busy => None,
    }
}
