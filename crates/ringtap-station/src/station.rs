//! A running station: set up in the order that privileges need, watched, and ended with nothing lost.
//!
//! Owns that order: what needs privileges first, then the store with the user's rights, then threads, then privileges go. `receive`
//! receives, `pipeline` judges and stores, `outputs` tells the outside, `status` accounts.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::receiver::{Backend, Departure, DeviceEnd, Devices};
use ringtap::{Error, Result};
use ringtap_rootcause::Topology;
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::service_manager::Notifier;
use ringtap_run::signals::{Hangup, Heard, Signals};
use ringtap_snmp::names::Names;
use ringtap_web::Bound;

use crate::admission::Senders;
use crate::cause::CauseCounts;
use crate::config::{Config, Receivers};
use crate::forward::{self, Manager};
use crate::options::Options;
use crate::outputs::{self, Outputs};
use crate::pipeline::{Parts, Pipeline};
use crate::receive::copied::{self, Copied};
use crate::receive::own::OwnAddresses;
use crate::receive::ring::{self, RingHandle};
use crate::receive::sockets;
use crate::receive::stream;
use crate::spool::{self, Service, SpoolConsumer};
use crate::status::{Sources, Status};
use crate::store::Store;
use crate::terms::TermsFile;
use crate::view::Page;
use crate::waker::Waker;
use crate::{mibs, topology};

/// How often signals and the end are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// The spool of sockets beside a ring is so much smaller than the ring's, and not below this.
const BESIDE_RING: usize = 8;
const LEAST_SPOOL: usize = 1 << 20;

/// What a station has to say while it runs and at its end.
#[derive(Debug)]
pub enum Event<'a> {
    /// As of now; as often as was asked for.
    Interval(&'a Status),
    /// It ends: what was received is being stored.
    Ending,
    /// All that was received is stored, or counted as not stored.
    Summary(&'a Status),
}

/// Runs a station until SIGINT, SIGTERM or its time ends it; SIGHUP opens output files again, and reads the
/// configuration and the topology.
///
/// # Errors
/// Options that make no sense, missing privileges, a store that can't be opened, or one that could not be written to the end.
pub fn run(options: &Options, mut show: impl FnMut(Event<'_>)) -> Result<()> {
    let heard = Heard { hangup: Hangup::Reopens, report: false, second_ends: false };
    let process = Process::begin(&Terms {
        opens_interfaces: !options.interfaces.is_empty() && options.backend != Backend::Given,
        heard,
        user: options.user.as_deref(),
        keeps_privileges: options.keeps_privileges,
    })?;
    let mut station = Station::start(options, &process)?;
    station.watch(options, process.signals(), &mut show)?;
    show(Event::Ending);
    station.finish(&mut show)
}

/// What was opened with privileges.
struct Opened {
    devices: Option<Devices>,
    bound: Vec<sockets::Bound>,
    answers: Vec<UdpSocket>,
    listeners: Vec<stream::Listener>,
    shown: Bound,
}

impl Opened {
    fn open(options: &Options, config: &Config) -> Result<Self> {
        let wanted = |interface| ring::Wanted {
            interface,
            backend: options.backend,
            dpdk: &options.dpdk,
            buffer: options.buffer,
            snmp: &options.snmp,
            syslog: &options.syslog,
        };
        let configs =
            options.interfaces.iter().map(|name| ring::configure(wanted(name))).collect::<Result<Vec<_>>>()?;
        let devices = if configs.is_empty() { None } else { Some(Devices::open(configs)?) };
        let mut bound = Vec::new();
        for (addresses, service) in [(&options.snmp, Service::Snmp), (&options.syslog, Service::Syslog)] {
            for &address in addresses {
                bound.push(sockets::Bound::open(address, service, options.buffer)?);
            }
        }
        let answers = bound.iter().map(sockets::Bound::share).collect::<Result<Vec<_>>>()?;
        let plain = options.syslog_tcp.iter().map(|&address| stream::listen(address, None));
        let mut listeners = plain.collect::<Result<Vec<_>>>()?;
        if !options.syslog_tls.is_empty() {
            let tls = config.tls()?;
            for &address in &options.syslog_tls {
                listeners.push(stream::listen(address, Some(Arc::clone(&tls)))?);
            }
        }
        let shown = options.places.bind()?;
        Ok(Self { devices, bound, answers, listeners, shown })
    }
}

/// What was opened with the user's rights.
struct Files {
    store: Store,
    names: Arc<Names>,
    outputs: Outputs,
    receivers: Receivers,
    /// The topology and its file.
    topology: Option<(Topology, PathBuf)>,
}

impl Files {
    fn open(options: &Options, config: &Config, process: &Process, reopen: &Arc<AtomicBool>) -> Result<Self> {
        let open = || -> Result<(Store, Names)> {
            let store = Store::open(&options.store)?;
            let directories = [&options.mibs[..], config.mibs()].concat();
            let names = match &directories[..] {
                [] => Names::default(),
                directories => mibs::load(directories, Some(&mibs::cache_of(&options.store)))?,
            };
            Ok((store, names))
        };
        let (store, names) = process.with_file_rights(open)?;
        for warning in names.warnings() {
            notes::say(warning);
        }
        let names = Arc::new(names);
        let start = || outputs::start(&options.outputs, config.posts(), &names, Arc::clone(reopen));
        let outputs = process.with_file_rights(start)?;
        // Secrets are root's, as the configuration is.
        let receivers = config.receivers()?;
        let path = options.topology.as_deref().or(config.topology());
        let read = |path: &Path| topology::read(path).map(|topology| (topology, path.to_owned()));
        let topology = process.with_file_rights(|| path.map(read).transpose())?;
        Ok(Self { store, names, outputs, receivers, topology })
    }
}

/// The receiving threads.
struct Receiving {
    threads: Vec<JoinHandle<()>>,
    ring: Option<RingHandle>,
    copied: Arc<Copied>,
    own: Option<Arc<OwnAddresses>>,
    consumers: Vec<SpoolConsumer>,
    framing: Arc<CauseCounts>,
}

impl Receiving {
    /// Starts them; gives what is left of `opened`: sockets for answers, and where it is looked at.
    fn start(
        opened: Opened,
        senders: &Arc<RwLock<Senders>>,
        spool_bytes: usize,
        waker: &Arc<Waker>,
        sources: &mut Sources,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Vec<UdpSocket>, Bound)> {
        let Opened { devices, bound, answers, listeners, shown } = opened;
        let (copied, framing) = (Arc::<Copied>::default(), Arc::default());
        let mut this = Self { threads: Vec::new(), ring: None, copied, own: None, consumers: Vec::new(), framing };
        let mut beside = spool_bytes;
        if let Some(devices) = devices {
            let own = OwnAddresses::read().map_err(|error| Error::os("look at", "the host's addresses", &error))?;
            let own = this.own.insert(Arc::new(own));
            let (ring, spools) = ring::start(devices, &bound, own, spool_bytes, waker, sources)?;
            // AF_XDP takes what comes by its interface out of the host's stack. Others copy, and the sockets would give it all a second time.
            let copying = ring.copying();
            copied::refuse_some_of_several_ports(&copying)?;
            this.copied.set(&copying).map_err(|error| Error::os("look at", "the interfaces", &error))?;
            this.consumers.extend(spools);
            this.ring = Some(ring);
            beside = (spool_bytes / BESIDE_RING).max(LEAST_SPOOL);
        }
        if !bound.is_empty() {
            let (producer, consumer) = spool::spool(beside, Arc::clone(waker))?;
            this.consumers.push(consumer);
            this.threads.push(sockets::start(bound, &this.copied, producer, sources, Arc::clone(stop))?);
        }
        if !listeners.is_empty() {
            let (producer, consumer) = spool::spool(spool_bytes, Arc::clone(waker))?;
            this.consumers.push(consumer);
            let (framing, stop) = (Arc::clone(&this.framing), Arc::clone(stop));
            let parts = stream::Parts { listeners, senders: Arc::clone(senders), producer, framing, stop };
            this.threads.push(stream::start(parts, sources)?);
        }
        Ok((this, answers, shown))
    }
}

/// What of the configuration may surprise who starts it.
fn said_of(config: &Config, options: &Options, has_ring: bool) -> Vec<&'static str> {
    let mut said = Vec::new();
    if !config.takes_v1_v2c() && !options.snmp.is_empty() {
        said.push("v1 and v2c are not taken, as there are users of v3: v1-v2c = true in the configuration takes them");
    }
    if has_ring {
        said.push("packets are taken before the host's firewall: `sources` in the configuration says whose");
    }
    if !config.knows_anyone() {
        said.push(
            "no sender is known: anybody's notifications share half of the table of alarms and clear each other's; \
             `known` in the configuration says whose alarms always find room",
        );
    }
    said
}

/// Where notifications are taken, for people.
fn places(options: &Options) -> String {
    let at = |what: &str, addresses: &[SocketAddr]| {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        (!addresses.is_empty()).then(|| format!("{what} at {}", addresses.join(" and ")))
    };
    let from = (!options.interfaces.is_empty()).then(|| format!("from {}", options.interfaces.join(" and ")));
    let sockets = [
        at("SNMP", &options.snmp),
        at("syslog", &options.syslog),
        at("syslog by TCP", &options.syslog_tcp),
        at("syslog by TLS", &options.syslog_tls),
    ];
    from.into_iter().chain(sockets.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

/// A station that runs.
struct Station {
    receivers: Vec<JoinHandle<()>>,
    /// Ends the receiving threads.
    stop: Arc<AtomicBool>,
    /// Has output files opened again.
    reopen: Arc<AtomicBool>,
    ring: Option<RingHandle>,
    copied: Arc<Copied>,
    /// The host's addresses, where a ring asks for them.
    own: Option<Arc<OwnAddresses>>,
    pipeline: Pipeline,
    sources: Arc<Sources>,
    /// Read again on SIGHUP.
    topology_file: Option<PathBuf>,
    terms: TermsFile,
}

impl Station {
    fn start(options: &Options, process: &Process) -> Result<Self> {
        let (stop, reopen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let config = options.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
        let waker = Arc::new(Waker::default());
        let mut sources = Sources::default();
        let opened = Opened::open(options, &config)?;
        let Files { store, names, outputs, receivers, topology } = Files::open(options, &config, process, &reopen)?;
        let of_options = options.forward_to.iter().map(|&to| Manager::of_all(to));
        let managers = config.managers(&names)?.into_iter().chain(of_options).collect();
        let forward = forward::Opened::open(managers, &options.snmp)?;
        let senders = Arc::new(RwLock::new(config.senders()));
        let (receiving, sockets, shown) =
            Receiving::start(opened, &senders, options.spool as usize, &waker, &mut sources, &stop)?;
        let Receiving { threads, ring, copied, own, consumers, framing } = receiving;
        let judge = config.judge(&store, &names)?;
        let retention = options.retention;
        let (topology, topology_file) = topology.unzip();
        let names_of_alarms = Arc::clone(&names);
        let parts = Parts {
            judge,
            store,
            consumers,
            sockets,
            outputs,
            receivers,
            names: names_of_alarms,
            topology,
            waker,
            retention,
            forward,
        };
        let pipeline = Pipeline::start(parts)?;
        sources.attach(&pipeline, framing);
        let sources = Arc::new(sources);
        let page = Page {
            sources: Arc::clone(&sources),
            places: places(options),
            names: Arc::clone(&names),
            folder: options.store.clone(),
            store: Default::default(),
        };
        shown.start(Arc::new(page))?;
        let spool = options.outputs.kafka.as_ref().map(|target| &target.spool);
        let needs = Needs {
            rings: ring.is_some(),
            names: config.posts() || options.outputs.kafka.is_some(),
            reads: topology_file.iter().chain(&options.config).map(PathBuf::as_path).collect(),
            writes: [Some(&options.store), options.outputs.file.as_ref(), options.outputs.socket.as_ref(), spool]
                .into_iter()
                .flatten()
                .map(PathBuf::as_path)
                .collect(),
            removes: options.dpdk.socket_folders().collect(),
            user: None,
        };
        for warning in process.confine(needs)? {
            notes::warn(&warning);
        }
        said_of(&config, options, ring.is_some()).into_iter().for_each(notes::say);
        notes::say(&format!("receiving {}; what comes is stored in {}", places(options), options.store.display()));
        let terms = TermsFile { path: options.config.clone(), config, names, senders };
        Ok(Self { receivers: threads, stop, reopen, ring, copied, own, pipeline, sources, topology_file, terms })
    }

    /// Until a signal, the deadline, or the end of a thread that should not end.
    fn watch(&mut self, options: &Options, signals: &Signals, show: &mut impl FnMut(Event<'_>)) -> Result<()> {
        let started = Instant::now();
        let mut last_status = Instant::now();
        let mut next_stats = options.stats.map(|every| started + every);
        let mut manager = Notifier::ready();
        while !signals.is_end_asked()
            && options.duration.is_none_or(|duration| started.elapsed() < duration)
            && !self.pipeline.has_ended()
        {
            signals.rest(LOOK);
            manager.alive();
            if signals.take_hangup() {
                self.reopen.store(true, Ordering::Relaxed);
                self.terms.read(&self.pipeline);
                self.read_topology();
            }
            self.note_ended()?;
            if last_status.elapsed() >= Duration::from_secs(1) {
                last_status = Instant::now();
                self.look_at_copies();
                self.own.iter().for_each(|own| own.renew());
                self.pipeline.publish(self.sources.status().json("interval").to_string());
            }
            if let Some((next, every)) = next_stats.zip(options.stats)
                && Instant::now() >= next
            {
                next_stats = Some(next + every);
                show(Event::Interval(&self.sources.status()));
            }
        }
        Ok(())
    }

    /// Reads the topology again; with a fault the one there was stays.
    fn read_topology(&self) {
        let Some(path) = &self.topology_file else { return };
        match topology::read(path) {
            Ok(topology) => {
                notes::say(&format!("{}: {}", path.display(), topology::size(&topology)));
                self.pipeline.replace_topology(topology);
            }
            Err(error) => notes::say(&format!("{error}; the topology there was stays in use")),
        }
    }

    /// Says which interfaces have come to their end.
    fn note_ended(&mut self) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let (ended, others) = ring.take_ended();
        for each in &ended {
            let what_follows = match each.end {
                DeviceEnd::Departed(Departure::Used(_)) => "; the plain sockets take what comes",
                DeviceEnd::Departed(_) | DeviceEnd::Failed | DeviceEnd::Panicked => "",
            };
            let on =
                if others.is_empty() { String::new() } else { format!(" — going on with {}", others.join(", ")) };
            notes::say(&format!("{}: {}{what_follows}{on}", each.device, each.end));
        }
        if !ended.is_empty() {
            self.look_at_copies();
        }
        if !ended.is_empty()
            && others.is_empty()
            && let Some(ring) = self.ring.take()
        {
            self.sources.finish_ring(ring.finish()?);
        }
        Ok(())
    }

    /// A device that has ended copies nothing any more, and one may have been set on another.
    fn look_at_copies(&self) {
        if self.copied.were_any() {
            // What can't be asked now is asked a second later.
            let said = self.copied.set(&self.ring.as_ref().map_or_else(Vec::new, RingHandle::copying));
            said.ok().flatten().iter().for_each(|line| notes::say(line));
        }
    }

    /// Stops receiving, and waits until all that was received is stored.
    fn finish(self, show: &mut impl FnMut(Event<'_>)) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for receiver in self.receivers {
            receiver.join().map_err(|_| Error::failed("receive", "notifications", "the receiving thread panicked"))?;
        }
        if let Some(ring) = self.ring {
            self.sources.finish_ring(ring.finish()?);
        }
        let outcome = self.pipeline.finish();
        let status = self.sources.status();
        show(Event::Summary(&status));
        outcome?;
        // All threads have ended: what is still on its way never arrives.
        match status.waiting + status.not_stored_yet {
            0 => Ok(()),
            lost => {
                Err(Error::failed("store", "what was received", format!("{lost} messages never came to the store"))
                    .way_out("report this as a bug"))
            }
        }
    }
}
