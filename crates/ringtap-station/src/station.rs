//! A running station: set up in the order that privileges need, watched, and ended with nothing lost.
//!
//! Owns that order: what needs privileges first, then the store with the user's rights, then threads, then privileges go. `receive`
//! receives, `pipeline` judges and stores, `outputs` tells the outside, `status` accounts.

use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::receiver::{Backend, Departure, DeviceEnd, Devices};
use ringtap::{Error, Result};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::signals::{Hangup, Heard, Signals};
use ringtap_snmp::names::Names;

use crate::cause::CauseCounts;
use crate::config::Config;
use crate::options::Options;
use crate::outputs::{self, Outputs};
use crate::pipeline::{Parts, Pipeline};
use crate::receive::ring::{self, RingHandle};
use crate::receive::sockets::{self, Take};
use crate::receive::stream;
use crate::spool::{self, Service, SpoolConsumer};
use crate::status::{Sources, Status};
use crate::store::Store;
use crate::waker::Waker;
use crate::{metrics, mibs};

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

/// Runs a station until SIGINT, SIGTERM or its time ends it; SIGHUP opens output files again.
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
    take: Take,
    bound: Vec<sockets::Bound>,
    answers: Vec<UdpSocket>,
    listeners: Vec<TcpListener>,
    metrics: Option<metrics::Listener>,
}

impl Opened {
    fn open(options: &Options) -> Result<Self> {
        let wanted = |interface| ring::Wanted {
            interface,
            backend: options.backend,
            buffer: options.buffer,
            snmp: &options.snmp,
            syslog: &options.syslog,
        };
        let configs =
            options.interfaces.iter().map(|name| ring::configure(wanted(name))).collect::<Result<Vec<_>>>()?;
        let devices = if configs.is_empty() { None } else { Some(Devices::open(configs)?) };
        // AF_XDP takes what comes by its interface out of the host's stack, and what comes another way still reaches the sockets. A packet
        // ring copies, and the sockets would give everything a second time, except what comes in fragments and only the stack has whole.
        let is_taken = |devices: &Devices| devices.descriptions().iter().all(|it| it.backend == "xdp");
        let take = if devices.as_ref().is_none_or(is_taken) { Take::All } else { Take::InFragments };
        let mut bound = Vec::new();
        for (addresses, service) in [(&options.snmp, Service::Snmp), (&options.syslog, Service::Syslog)] {
            for &address in addresses {
                bound.push(sockets::Bound::open(address, service, options.buffer)?);
            }
        }
        let answers = bound.iter().map(sockets::Bound::share).collect::<Result<Vec<_>>>()?;
        let listeners =
            options.syslog_tcp.iter().map(|&address| stream::listen(address)).collect::<Result<Vec<_>>>()?;
        let metrics = options.metrics.map(metrics::bind).transpose()?;
        Ok(Self { devices, take, bound, answers, listeners, metrics })
    }
}

/// What was opened with the user's rights.
struct Files {
    store: Store,
    names: Arc<Names>,
    outputs: Outputs,
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
        let start = || outputs::start(&options.outputs, config.webhook(), &names, Arc::clone(reopen));
        let outputs = process.with_file_rights(start)?;
        Ok(Self { store, names, outputs })
    }
}

/// The receiving threads.
struct Receiving {
    threads: Vec<JoinHandle<()>>,
    ring: Option<RingHandle>,
    consumers: Vec<SpoolConsumer>,
    framing: Arc<CauseCounts>,
}

impl Receiving {
    /// Starts them; gives what is left of `opened`: sockets for answers and the metrics' listener.
    fn start(
        opened: Opened,
        spool_bytes: usize,
        waker: &Arc<Waker>,
        sources: &mut Sources,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Vec<UdpSocket>, Option<metrics::Listener>)> {
        let Opened { devices, take, bound, answers, listeners, metrics } = opened;
        let mut this = Self { threads: Vec::new(), ring: None, consumers: Vec::new(), framing: Arc::default() };
        let mut beside = spool_bytes;
        if let Some(devices) = devices {
            let (ring, spools) = ring::start(devices, &bound, spool_bytes, waker, sources)?;
            this.consumers.extend(spools);
            this.ring = Some(ring);
            beside = (spool_bytes / BESIDE_RING).max(LEAST_SPOOL);
        }
        if !bound.is_empty() {
            let (producer, consumer) = spool::spool(beside, Arc::clone(waker))?;
            this.consumers.push(consumer);
            this.threads.push(sockets::start(bound, take, producer, sources, Arc::clone(stop))?);
        }
        if !listeners.is_empty() {
            let (producer, consumer) = spool::spool(spool_bytes, Arc::clone(waker))?;
            this.consumers.push(consumer);
            let framing = Arc::clone(&this.framing);
            this.threads.push(stream::start(listeners, producer, sources, framing, Arc::clone(stop))?);
        }
        Ok((this, answers, metrics))
    }
}

/// A station that runs.
struct Station {
    receivers: Vec<JoinHandle<()>>,
    /// Ends the receiving threads.
    stop: Arc<AtomicBool>,
    /// Has output files opened again.
    reopen: Arc<AtomicBool>,
    ring: Option<RingHandle>,
    pipeline: Pipeline,
    sources: Arc<Sources>,
}

impl Station {
    fn start(options: &Options, process: &Process) -> Result<Self> {
        let (stop, reopen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let config = options.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
        let waker = Arc::new(Waker::default());
        let mut sources = Sources::default();
        let opened = Opened::open(options)?;
        let Files { store, names, outputs } = Files::open(options, &config, process, &reopen)?;
        let (receiving, sockets, listener) =
            Receiving::start(opened, options.spool as usize, &waker, &mut sources, &stop)?;
        let Receiving { threads, ring, consumers, framing } = receiving;
        let judge = config.judge(&store, &names)?;
        let retention = options.retention;
        let pipeline = Pipeline::start(Parts { judge, store, consumers, sockets, outputs, waker, retention })?;
        sources.attach(&pipeline, framing);
        let sources = Arc::new(sources);
        if let Some(listener) = listener {
            metrics::start(listener, Arc::clone(&sources))?;
        }
        let needs = Needs {
            rings: ring.is_some(),
            names: config.webhook().is_some(),
            reads: Vec::new(),
            writes: [Some(&options.store), options.outputs.file.as_ref(), options.outputs.socket.as_ref()]
                .into_iter()
                .flatten()
                .map(PathBuf::as_path)
                .collect(),
            user: None,
        };
        for warning in process.confine(needs)? {
            notes::warn(&warning);
        }
        Ok(Self { receivers: threads, stop, reopen, ring, pipeline, sources })
    }

    /// Until a signal, the deadline, or the end of a thread that should not end.
    fn watch(&mut self, options: &Options, signals: &Signals, show: &mut impl FnMut(Event<'_>)) -> Result<()> {
        let started = Instant::now();
        let mut last_status = Instant::now();
        let mut next_stats = options.stats.map(|every| started + every);
        while !signals.is_end_asked()
            && options.duration.is_none_or(|duration| started.elapsed() < duration)
            && !self.pipeline.has_ended()
        {
            signals.rest(LOOK);
            if signals.take_hangup() {
                self.reopen.store(true, Ordering::Relaxed);
            }
            self.note_ended()?;
            if last_status.elapsed() >= Duration::from_secs(1) {
                last_status = Instant::now();
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

    /// Says which interfaces have come to their end.
    fn note_ended(&mut self) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let (ended, others) = ring.take_ended();
        for each in &ended {
            let what_follows = match each.end {
                DeviceEnd::Departed(Departure::Used(_)) => "; the plain sockets take what comes",
                DeviceEnd::Departed(_) | DeviceEnd::Failed => "",
            };
            let on =
                if others.is_empty() { String::new() } else { format!(" — going on with {}", others.join(", ")) };
            notes::say(&format!("{}: {}{what_follows}{on}", each.device, each.end));
        }
        if !ended.is_empty()
            && others.is_empty()
            && let Some(ring) = self.ring.take()
        {
            self.sources.finish_ring(ring.finish()?);
        }
        Ok(())
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
