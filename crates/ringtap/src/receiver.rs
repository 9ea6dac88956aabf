//! From a configuration to running engines: one interface, one engine thread per queue, their common ledger.
//!
//! Owns the choice of back end (invariant 6), the order of opening and closing that keeps the accounts exact, and the
//! threads. Every program that captures live goes through here.

mod direct;
mod open;
mod running;
mod suit;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::accounts::{DeviceAccounts, SocketAccounts};
use crate::calibrate::run::RunCheck;
use crate::engine::{Engine, Handler};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::meters::EngineMeters;
use crate::napi::NapiPause;
use crate::pacer::{Pacer, Policy};
use crate::realtime::{ProcessGuard, RealTime, ThreadShare};
use crate::settings::{self, Settings};
use crate::source::any::AnySource;
use crate::source::packet::Filter;
use crate::source::{Description, Source, StampClock};
use crate::steer::{self, Attach, Gates, Occupant, Rule, Steering};
use crate::sys::event::Stop;
use crate::sys::netlink;
use crate::sys::packet_ring::Promiscuous;
use crate::sys::{clock, sched};
use crate::transmit::TransmitRing;
use open::{choose, open_packet, open_pcap, open_socket, open_vfio, open_xdp, pace_napi};

pub use direct::Attachment;
pub use running::{Finished, Outcome, Running};
pub use watch::Departure;
use watch::Watch;

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
    /// A device of a libpcap, which need not be an interface of this host's.
    Pcap,
    /// A card taken from the kernel, by its PCI address.
    Vfio,
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
    /// Interface name; for [`Backend::Vfio`] a PCI address.
    pub interface: String,
    /// Back end.
    pub backend: Backend,
    /// File of the libpcap that [`Backend::Pcap`] takes; `None`: the system's.
    pub pcap_library: Option<PathBuf>,
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
    /// Slots of each ring where frames are packed and the frame size was not told, as a packet may take several there
    /// ([`XdpSource::packed_frames`](crate::source::xdp::XdpSource::packed_frames)); `None`: `ring_slots`. Given, both are planned
    /// for the peak rate of the device, and several queues share them out.
    pub packed_slots: Option<u32>,
    /// Bytes per frame; `None` chooses: packed frames where AF_XDP copies, else by the MTU.
    pub frame_size: Option<u32>,
    /// Packets longer than a frame are fetched whole, by a system call each (packet ring); else they are cut.
    pub fetch_oversize: bool,
    /// Frames in huge pages (AF_XDP).
    pub huge_pages: bool,
    /// The process is another's: it may fork and receive in its child (AF_XDP; excludes huge pages), and give up its privileges
    /// before the end.
    pub across_fork: bool,
    /// Transmit slots of each queue; 0 for none.
    pub transmit_slots: u32,
    /// The handlers need both directions of a flow in one of them.
    pub flows_together: bool,
    /// Told, line by line, what is about to be taken.
    pub tell: fn(&str),
    /// Filter in the kernel (packet sockets).
    pub filter: Option<Filter>,
    /// Leave out what the host sends (packet sockets; AF_XDP never sees it).
    pub incoming_only: bool,
    /// With AF_XDP, which never sees what the host sends: one packet ring more that takes what this filter lets through.
    pub sent_beside: Option<Filter>,
    /// Take frames that are addressed to others.
    pub promiscuous: bool,
    /// How to wait.
    pub policy: Policy,
    /// Real-time measures.
    pub realtime: RealTime,
    /// CPUs for the engine threads, in order of queues; empty: the last allowed ones.
    pub cpus: Vec<usize>,
    /// Pause between two polls of the kernel's NAPI where it stays in charge (AF_XDP in the driver without busy poll).
    pub napi_pause: NapiPause,
    /// Each engine ends after this many packets.
    pub packet_limit: Option<u64>,
}

impl ReceiverConfig {
    /// Defaults for an interface: back end `auto`, all queues, everything, rings of 4096 slots.
    pub fn new(interface: impl Into<String>, policy: Policy) -> Self {
        Self {
            interface: interface.into(),
            backend: Backend::Auto,
            pcap_library: None,
            take: false,
            rules: Vec::new(),
            rules_are_exact: true,
            attach: None,
            queues: Queues::All,
            ring_slots: 4096,
            packed_slots: None,
            frame_size: None,
            fetch_oversize: true,
            huge_pages: false,
            across_fork: false,
            transmit_slots: 0,
            flows_together: false,
            tell: |_| {},
            filter: None,
            incoming_only: false,
            sent_beside: None,
            promiscuous: true,
            policy,
            realtime: RealTime::default(),
            cpus: Vec::new(),
            napi_pause: NapiPause::default(),
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
    /// The steering's, where its packets are taken only as long as the host has no use for them.
    yields: Option<Arc<Gates>>,
    accounts: Arc<Mutex<Vec<SocketAccounts>>>,
    device: DeviceAccounts,
    /// The kernel decides by the user's filter before it counts.
    filtered_before_offered: bool,
    /// Whose XDP program sees packets before our sockets do. Not where a filter may have rejected them, which nobody counts.
    taker: Option<Occupant>,
    /// `None` for what is no interface of this host's.
    settings: Option<Settings>,
    _promiscuous: Option<Promiscuous>,
    _process: ProcessGuard,
}

/// The XDP program on an interface of the host's, as far as it can be seen.
fn occupant(interface: &Interface) -> Option<Occupant> {
    if interface.is_foreign() { None } else { steer::occupant(&interface.name, interface.index).ok().flatten() }
}

impl Receiver {
    /// Opens everything; packets are received (and kept in the rings) from here on.
    ///
    /// # Errors
    /// The first thing that could not be set up; what was set up before is undone.
    pub fn open(config: ReceiverConfig) -> Result<Self> {
        let interface = match config.backend {
            // Their names are the library's business, which may know more than the kernel.
            Backend::Pcap => {
                Interface::find(&config.interface).unwrap_or_else(|_| Interface::foreign(&config.interface))
            }
            Backend::Vfio => Interface::card(&config.interface)?,
            _ => Interface::find_up(&config.interface)?,
        };
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
        let (mut backend, fall_back) = choose(&config, &interface, &mut warnings);
        if let (Backend::Xdp, Some(settings)) = (backend, &settings) {
            backend = suit_us(&config, &interface, settings, fall_back, &mut warnings);
        }
        let had_carrier = has_carrier(&interface);
        let opened = match backend {
            Backend::Xdp => match open_xdp(&config, &interface) {
                // A packet socket would see nothing, and nobody would know.
                Err(error) if fall_back && occupant(&interface).is_none_or(|it| !it.feeds_sockets) => {
                    warnings.push(format!("{error} — using the packet ring instead"));
                    open_packet(&config, &interface)?
                }
                result => result?,
            },
            Backend::Socket => open_socket(&config, &interface)?,
            Backend::Pcap => open_pcap(&config, &interface, &mut warnings)?,
            Backend::Vfio => open_vfio(&config, &interface, &mut warnings)?,
            Backend::Auto | Backend::Packet => open_packet(&config, &interface)?,
        };
        if config.huge_pages && opened.steering.is_none() && backend != Backend::Vfio {
            warnings.push("huge pages are not used: only AF_XDP and cards of our own keep frames in them".to_owned());
        }
        if had_carrier {
            await_carrier(&interface, &mut warnings);
        }
        // A libpcap sees to that itself, and so does our own driver.
        let by_kernel = !matches!(backend, Backend::Pcap | Backend::Vfio);
        let promiscuous = if config.promiscuous && interface.ethernet && by_kernel {
            Promiscuous::on(&interface.name, interface.index).map_err(|error| warnings.push(error.to_string())).ok()
        } else {
            None
        };
        let by_packet_socket = matches!(opened.queues.first(), Some((AnySource::Packet(_) | AnySource::Socket(_), _)));
        let accounts = opened.queues.iter().filter_map(|(source, _)| source.accounts()).collect();
        let beside = if opened.steering.is_none() { occupant(&interface) } else { None };
        warnings.extend(beside.as_ref().map(|it| format!("{}: what {it}, takes is not seen here", interface.name)));
        // From here on packets count, the device's losses too.
        let device = DeviceAccounts::start(&interface);
        if let Some(steering) = &opened.steering {
            steering.open()?;
        }
        for (source, _) in &opened.queues {
            source.admit()?;
        }
        let yields = opened.steering.as_ref().filter(|_| interface.host_use.is_none() && !config.take);
        let shared = Shared {
            yields: yields.map(Steering::gates),
            steering: opened.steering,
            accounts: Arc::new(Mutex::new(accounts)),
            device,
            filtered_before_offered: config.filter.is_some() && by_packet_socket,
            taker: beside.filter(|_| config.filter.is_none()),
            settings,
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

    /// LINKTYPE_ value of the frames, where they are of a kind capture files know.
    pub fn link_type(&self) -> Option<u16> {
        match self.queues.first() {
            Some((AnySource::Pcap(source), _)) => source.link_type(),
            _ => self.interface.link_type(),
        }
    }

    /// Which clock the arrival stamps are of; all queues have the same. `None` without queues.
    pub fn stamp_clock(&self) -> Option<StampClock> {
        self.queues.first().map(|(source, _)| source.stamp_clock())
    }

    /// Paces NAPI for engines on these CPUs. Not before they start: who places NAPI's threads may do so when the queues are open.
    fn paced(mut self, cpus: &[usize]) -> Self {
        let Self { config, interface, queues, shared, warnings } = &mut self;
        if let (Some(_), Some(settings)) = (&shared.steering, &shared.settings)
            && pace_napi(config, interface, queues, cpus, settings, warnings)
        {
            config.policy = Policy::Interrupt;
        }
        self
    }

    /// Starts one engine thread per queue with the handler that `handler_of` makes for it.
    ///
    /// # Errors
    /// A thread can't be started.
    pub fn start<H: Handler + Send + 'static>(
        self,
        mut handler_of: impl FnMut(usize, &AnySource) -> H,
    ) -> Result<Running<H>> {
        let allowed = sched::allowed_cpus();
        let cpus: Vec<_> = (0..self.queues.len()).map(|index| engine_cpu(&self.config.cpus, &allowed, index)).collect();
        let Self { config, interface, queues, shared, mut warnings } =
            self.paced(&cpus.iter().flatten().copied().collect::<Vec<_>>());
        let check = cpus.first().copied().flatten().and_then(RunCheck::start);
        let stop = Arc::new(Stop::new()?);
        let descriptions = queues.iter().map(|(source, _)| source.description()).collect();
        let asked_back = queues.first().and_then(|(source, _)| source.asked_back());
        let mut threads = Vec::new();
        let mut meters = Vec::new();
        let (report_warnings, thread_warnings) = mpsc::channel();
        for (index, (mut source, transmit)) in queues.into_iter().enumerate() {
            source.pulls(&stop);
            let cpu = cpus[index];
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
                    realtime.leave_thread();
                    Finished {
                        handler: engine.handler,
                        wall_ns,
                        end,
                        invalid: engine.source.invalid_descriptors(),
                        failure: engine.source.failure().map(str::to_owned),
                        thread_share,
                    }
                })
                .map_err(|error| Error::os("start engine thread for", &interface.name, &error))?;
            threads.push(thread);
        }
        drop(report_warnings);
        let watch = Watch::start(&interface, asked_back, Arc::clone(&stop), &shared);
        let watch = watch.map_err(|error| warnings.push(error.to_string())).ok();
        for reported in thread_warnings {
            warnings.extend(reported.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        }
        let shares = threads.iter().map(ThreadShare::of).collect();
        Ok(Running { interface, descriptions, shared, stop, threads, shares, watch, meters, check, warnings })
    }
}

/// Prepares the device for AF_XDP; the back end to open.
fn suit_us(
    config: &ReceiverConfig,
    interface: &Interface,
    settings: &Settings,
    fall_back: bool,
    warnings: &mut Vec<String>,
) -> Backend {
    let name = &interface.name;
    let kept = suit::keep_tags(settings);
    if interface.driver.as_deref() == Some("veth") {
        // It takes no tag out of a packet. Its other end may not put one in (tx-vlan-hw-insert), and is not ours to change.
        warnings.push(format!(
            "VLAN tags that the other end of {name} leaves beside packets are not seen by AF_XDP (use --backend packet for these)"
        ));
    } else if let Err(cause) = kept {
        let what = format!("{name} takes VLAN tags out of packets, where AF_XDP does not see them ({cause})");
        if fall_back {
            warnings.push(format!("{what} — using the packet ring instead"));
            return Backend::Packet;
        }
        warnings.push(format!("{what}; use --backend packet, or ethtool -K {name} rxvlan off"));
    }
    let queues = open::queue_ids(config, interface).len();
    if config.flows_together
        && queues > 1
        && let Err(error) = suit::keep_flows_together(settings)
    {
        warnings.push(suit::flows_apart(interface, queues, &error));
    }
    Backend::Xdp
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

/// The CPU of engine `index`: as told, else from the last allowed CPU downwards, as the first ones serve most interrupts.
fn engine_cpu(told: &[usize], allowed: &[usize], index: usize) -> Option<usize> {
    if told.is_empty() {
        allowed.iter().rev().cycle().nth(index).copied()
    } else {
        told.get(index % told.len()).copied()
    }
}
