//! Owns: what a run on an interface and a run over files have in common, in its order: process, rules, outputs, handlers, the
//! watch over the engines with reloads, the end.
//! Does not: make engines; `live` and `replay` do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use ringtap::arrival::ArrivalClock;
use ringtap::hand_over::Reach;
use ringtap::histogram::Histogram;
use ringtap::receiver::Backend;
use ringtap::record::{Recorder, Target};
use ringtap::source::StampClock;
use ringtap::{Error, Result, clock};
use ringtap_datagram::{Clock, Listener, SensorId};
use ringtap_detect::rules::BitNames;
use ringtap_detect::{Detector, FillLevel, SpareVisitor};
use ringtap_output::{Counts, Producer, Queue, Room};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::service_manager::{Notifier, Starting};
use ringtap_run::signals::{Hangup, Heard};
use ringtap_wire::LinkType;

use crate::account::{self, Account, CountsFrom, Shown, counts_way};
use crate::alarms::{Plain, Sender, Sent};
use crate::blinding::{self, Change};
use crate::config::Config;
use crate::correlating::{Correlate, Correlating};
use crate::eve::Writer;
use crate::finds::{Finds, Wanted};
use crate::heart::Heart;
use crate::identity::{self, Identity};
use crate::inspector::{Inspector, Statistics, Times};
use crate::memory;
use crate::numbers::{HostClock, Numbers};
use crate::options::{Event, Input, LineTarget, Options};
use crate::outputs::{Outputs, ToCorrelator, Wishes};
use crate::pages::Tables;
use crate::pcap_log::{self, AlertedPackets};
use crate::programs::{Exchange, exchange};
use crate::record::Record;
use crate::rules::in_use::RulesInUse;
use crate::rules::{self, Loaded};
use crate::shedding::{Shedding, Waits};
use crate::summary::Ending;
use crate::view::Latest;

/// How often to look at what wakes nobody: the interface, an engine's end, programs that came back.
const LOOK: Duration = Duration::from_millis(100);

/// A run, from its options to its end.
pub(crate) struct Session<'o> {
    pub(crate) options: &'o Options,
    pub(crate) config: Config,
    pub(crate) rules: RulesInUse,
    /// Who it is to a correlator, where there is one; taken by what tells.
    pub(crate) identity: Option<Identity>,
    /// What became of datagrams.
    pub(crate) sent: Arc<Sent>,
    /// A correlator in this process, and the way to it until the outputs take that.
    correlating: Option<Correlating>,
    teller: Option<Box<dyn Listener>>,
    // Dropped last: settings of devices are put back then.
    pub(crate) process: Process,
}

/// What the engines get their packets from.
pub(crate) struct Feed {
    /// Engines, each with a handler of its own.
    pub(crate) engines: Vec<EngineFeed>,
    /// Of interfaces; files wait for the outputs instead.
    pub(crate) live: Option<FromInterfaces>,
    /// Datagrams of alerts leave by the output thread.
    pub(crate) plain: Option<Plain>,
}

/// Packets that come now.
pub(crate) struct FromInterfaces {
    /// The interface's, where it is one.
    pub(crate) name: Option<String>,
    pub(crate) waits: Waits,
}

/// What one engine gets.
pub(crate) struct EngineFeed {
    pub(crate) link: LinkType,
    pub(crate) stamps: StampClock,
    /// Datagrams of its alerts leave by this.
    pub(crate) sender: Option<Sender>,
}

/// What stands around the engines while they run.
pub(crate) struct Surroundings {
    pub(crate) queue: Queue<Outputs>,
    /// Records lost before the queue, of each engine.
    pub(crate) lost: Vec<Arc<AtomicU64>>,
    pub(crate) counts: Arc<Counts>,
    /// From arrival to alert, of each engine.
    pub(crate) latency: Vec<Arc<Histogram>>,
    /// Tables whose pages are still to come.
    pub(crate) tables: Tables,
    /// What the engines tell of themselves.
    pub(crate) told: Vec<CountsFrom>,
    pub(crate) shown: Arc<Shown>,
    /// Lines for a correlator.
    pub(crate) line_counts: Arc<Counts>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) clock: Arc<HostClock>,
    /// Where heartbeats go, and the thread that makes them.
    heartbeats: Option<Producer<Record>>,
    pub(crate) heart: Option<Heart>,
    /// How far each engine is.
    pub(crate) reaches: Vec<Arc<Reach>>,
    /// Writes the packets of flows with alerts.
    pub(crate) recorder: Option<Recorder>,
    wishes: Arc<Wishes>,
    exchanges: Vec<Exchange>,
}

/// A sensor's name to its own correlator, where it has no other.
const USUAL_NAME: &str = "local";
/// Bytes that may wait with each record, on average: heads of HTTP, messages of DNS, handshakes; payloads of alerts.
const SLOT_BYTES: usize = 512;
/// More bytes than any record brings: both sides of a TLS handshake, a packet and a payload. A recording waits for room for each.
const MOST_BYTES: usize = 256 << 10;
/// Heartbeats that may wait for the output thread.
const HEARTBEATS: usize = 64;

/// Engines that run, as far as the watch over them asks.
pub(crate) trait Engines {
    /// Why they have come to their end by themselves, if they have.
    fn ended(&mut self) -> Option<Ending>;

    /// Where their packets went up to now, and how long these waited; `None` of files.
    fn account(&mut self) -> Option<account::Live> {
        None
    }

    /// Whether packets come now. Only then rules are loaded again (files are judged by one set from beginning to end), and counters
    /// are watched and shown while it runs.
    const IS_LIVE: bool;
}

impl<'o> Session<'o> {
    /// Begins the process and loads the rules.
    ///
    /// # Errors
    /// No such user, a configuration that makes no sense, rules that can't be used.
    pub(crate) fn begin(options: &'o Options, correlate: Option<Correlate>) -> Result<Self> {
        let process = Process::begin(&Terms {
            opens_interfaces: matches!(&options.input, Input::Interfaces(devices) if devices.iter().any(|live| live.backend != Backend::Given)),
            heard: Heard { hangup: Hangup::Reopens, report: false, second_ends: true },
            user: options.user.as_deref(),
            keeps_privileges: options.no_sandbox,
        })?;
        let config = Config::of(options)?;
        let store = correlate.as_ref().and_then(|it| it.store.clone());
        let (correlating, teller) =
            correlate.map(|it| correlating(it, options, &config, &process)).transpose()?.unzip();
        let own = correlating.is_some().then_some(store.as_deref());
        let identity = identity(options, &config, own, &process)?;
        let mut start = Starting::begin();
        let loaded = load(options, &config, BitNames::default(), &mut || start.alive())?;
        loaded.tell();
        let rules = RulesInUse::new(loaded);
        Ok(Self { options, config, rules, identity, sent: Arc::default(), correlating, teller, process })
    }

    /// Makes tables fit the memory that there is for so many engines, and says what that many do apart.
    ///
    /// # Errors
    /// They can't fit.
    fn fit(&mut self, engines: usize) -> Result<()> {
        let (limits, fewer) = memory::fitting(&self.config.limits, self.config.flows_named, engines)?;
        self.config.limits = limits;
        if let Some(line) = fewer {
            notes::say(&line);
        }
        let by_host = self.rules.program.rules().filter(|rule| rule.counts_by_host()).count();
        if by_host > 0 && engines > 1 {
            notes::warn(&format!(
                "{by_host} rules count, or keep bits, by one host or by rule: each of {engines} engines does so for itself, of what \
                 it handles"
            ));
        }
        Ok(())
    }

    /// Opens the outputs and makes a handler for each engine.
    ///
    /// # Errors
    /// An output can't be opened, or the output thread not be started.
    pub(crate) fn surround(&mut self, feed: Feed) -> Result<(Surroundings, Vec<Inspector>)> {
        let outputs = &self.options.outputs;
        let Feed { engines, live, plain } = feed;
        self.fit(engines.len())?;
        let log = self.pcap_log(&engines)?;
        let (recorder, packet_logs) = log.unzip();
        let mut packet_logs = packet_logs.into_iter().flatten();
        let (counts, line_counts, wishes) = (Arc::default(), Arc::<Counts>::default(), Arc::<Wishes>::default());
        let has_page = self.options.places.page.is_some();
        let shown = Arc::new(Shown { latest: Latest::wanted(has_page), ..Shown::default() });
        let who = self.identity.as_ref().map(|identity| Arc::clone(&identity.who));
        let writer = Writer {
            interface: live.as_ref().and_then(|live| live.name.clone()),
            // In files packets have numbers that mean something, and flows get the same ones in each run.
            packet_numbers: live.is_none(),
            flow_salt: if live.is_some() { clock::realtime_ns() } else { 0 },
            catalogue: self.rules.catalogue.clone(),
            who: who.clone(),
            events: outputs.events.clone(),
            with_alerts: outputs.with_alerts.clone(),
            ..Writer::default()
        };
        let own = self.teller.take();
        // Alerts are counted by rule for metrics, and kept for the page.
        let others = self.config.snmp.is_some() || plain.is_some() || own.is_some() || !self.options.places.is_empty();
        let wanted = Wanted::by(outputs, others);
        let (queue, ends, heartbeats) = self.process.with_file_rights(|| {
            let snmp = self.config.snmp.as_ref();
            let told = who.map(|who| ToCorrelator::open(who, &outputs.alarms, plain, Arc::clone(&line_counts)));
            let told = (told.transpose()?, own);
            let work = Outputs::open(
                outputs,
                snmp,
                writer,
                told,
                Arc::clone(&counts),
                Arc::clone(&wishes),
                Arc::clone(&shown),
            )?;
            // Of each engine, for alerts and for all else, where that is wanted.
            let room = Room { slots: outputs.queue, bytes: (outputs.queue * SLOT_BYTES).max(MOST_BYTES) };
            let of_logs = if wanted.logs() { room } else { Room { slots: 1, bytes: 0 } };
            let rooms = [room, of_logs].repeat(engines.len());
            if self.identity.is_some() {
                let (queue, ends, marks) = Queue::start_marked(&rooms, HEARTBEATS, work)?;
                Ok((queue, ends, Some(marks)))
            } else {
                Queue::start(&rooms, work).map(|(queue, ends)| (queue, ends, None))
            }
        })?;
        let mut surroundings = Surroundings {
            queue,
            heartbeats,
            heart: None,
            reaches: Vec::new(),
            lost: ends.iter().map(Producer::lost).collect(),
            counts,
            line_counts,
            numbers: Arc::new(Numbers::new(self.identity.as_ref().map_or(1, |identity| identity.epochs.last()))),
            clock: Arc::new(HostClock::now()),
            latency: Vec::new(),
            tables: Tables::default(),
            told: Vec::new(),
            shown,
            recorder,
            wishes,
            exchanges: Vec::new(),
        };
        let waits = live.map(|live| live.waits);
        let mut ends = ends.into_iter();
        let mut inspectors = Vec::with_capacity(engines.len());
        for engine in engines {
            if let (Some(alerts), Some(logs)) = (ends.next(), ends.next()) {
                let outputs = ([alerts, logs], packet_logs.next());
                inspectors.push(self.inspector(engine, waits, wanted, outputs, &mut surroundings));
            }
        }
        Ok((surroundings, inspectors))
    }

    /// Begins to tell a correlator how far these engines are, where there is one; heartbeats leave by `ring` too. One in this process
    /// begins to listen.
    ///
    /// # Errors
    /// A thread can't be started.
    pub(crate) fn begin_heart(
        &mut self,
        around: &mut Surroundings,
        reaches: Vec<Arc<Reach>>,
        ring: Option<Box<Sender>>,
    ) -> Result<()> {
        around.reaches.clone_from(&reaches);
        if let Some((identity, queue)) = self.identity.take().zip(around.heartbeats.take()) {
            around.heart = Some(Heart::start(identity, &around.numbers, &around.clock, reaches, ring, queue)?);
        }
        self.correlating.as_mut().map_or(Ok(()), Correlating::start)
    }

    /// Waits until the correlator in this process has told all, where there is one. The outputs have gone.
    ///
    /// # Errors
    /// As of the correlator.
    pub(crate) fn end_correlating(&mut self) -> Result<()> {
        self.correlating.take().map_or(Ok(()), Correlating::finish)
    }

    /// Begins the file of packets of flows with alerts, if one is asked for.
    fn pcap_log(&self, engines: &[EngineFeed]) -> Result<Option<(Recorder, Vec<AlertedPackets>)>> {
        let Some(log) = &self.options.outputs.pcap_log else { return Ok(None) };
        let (names, waits): (Vec<String>, bool) = match &self.options.input {
            Input::Interfaces(lives) => (lives.iter().map(|live| live.interface.clone()).collect(), false),
            Input::Files(files) => {
                log.record.spare(files)?;
                (files.iter().map(|file| file.display().to_string()).collect(), true)
            }
        };
        self.process.with_file_rights(|| pcap_log::start(log, engines, &names.join(", "), waits)).map(Some)
    }

    /// `waits`: of a live engine.
    fn inspector(
        &self,
        engine: EngineFeed,
        waits: Option<Waits>,
        wanted: Wanted,
        (mut queues, pcap_log): ([Producer<Record>; 2], Option<AlertedPackets>),
        around: &mut Surroundings,
    ) -> Inspector {
        let is_live = waits.is_some();
        let mut detector = Detector::new(Arc::clone(&self.rules.program), self.config.limits.clone());
        if is_live {
            for queue in &mut queues {
                queue.show_spare_slots(|memory, used| around.tables.spare(memory, &FillLevel::from(Arc::clone(used))));
                queue.show_spare_bytes(|memory, used| around.tables.spare(memory, &FillLevel::from(Arc::clone(used))));
            }
            detector.show_spare(&mut around.tables);
        }
        let latency = Arc::<Histogram>::default();
        let (here, there) = exchange();
        let (teller, told) = counts_way();
        around.told.push(told);
        around.latency.push(Arc::clone(&latency));
        around.exchanges.push(here);
        let [alerts, logs] = queues;
        let finds = Finds {
            alerts,
            logs,
            waits: !is_live,
            wanted,
            numbers: Arc::clone(&around.numbers),
            clock: Arc::clone(&around.clock),
            is_live,
            sender: engine.sender,
            latency,
            arrivals: ArrivalClock::new(engine.stamps),
            of_backlog: 0,
            bare: 0,
            packet: 0,
            pcap_log,
            made: 0,
        };
        let statistics = match (wanted.stats, is_live) {
            (false, _) => Statistics::Off,
            (true, true) => Statistics::Every(self.options.outputs.stats.as_nanos() as u64),
            (true, false) => Statistics::AtEnd,
        };
        let shedding = Shedding::new(self.rules.precedence.clone(), waits);
        Inspector::new(
            detector,
            engine.link,
            finds,
            shedding,
            Times::new(engine.stamps, Arc::clone(&around.clock)),
            statistics,
            (there, teller),
        )
    }

    /// What the process still needs once all is set up: rules are read again on SIGHUP, files of EVE begun anew.
    pub(crate) fn needs(&self) -> Needs<'_> {
        let Options { input, rules, outputs, config, .. } = self.options;
        let (lives, captures) = match input {
            Input::Interfaces(lives) => (&lives[..], &[][..]),
            Input::Files(files) => (&[][..], &files[..]),
        };
        let named = rules.files.iter().chain(&rules.priority).chain(captures).map(PathBuf::as_path);
        let configured = [&rules.classification, config, &self.config.thresholds];
        let reputations = self.config.iprep.iter().flat_map(|of| std::iter::once(&of.categories).chain(&of.files));
        let lists = self.rules.lists.iter().map(PathBuf::as_path).chain(reputations.map(Path::new));
        let is_file = |path: &&Path| *path != Path::new("-");
        let sockets = outputs.alarms.lines.iter().filter_map(|target| match target {
            LineTarget::Unix(path) => Some(path.as_path()),
            LineTarget::Tcp(_) => None,
        });
        let kafka = outputs.alarms.kafka.as_ref();
        let sockets = outputs.eve_socket.as_deref().into_iter().chain(sockets);
        let sockets = sockets.chain(kafka.map(|target| target.spool.as_path()));
        let written = outputs.eve.as_deref().filter(is_file).into_iter().chain(sockets);
        let logged = outputs.pcap_log.as_ref().and_then(|log| match &log.record.target {
            Target::File(path) => Some(path.as_path()),
            Target::Stdout | Target::Clients => None,
        });
        let own = self.correlating.as_ref().map(Correlating::needs).unwrap_or_default();
        Needs {
            rings: !lives.is_empty(),
            names: own.names || kafka.is_some(),
            reads: named
                .chain(configured.into_iter().flatten().map(PathBuf::as_path))
                .chain(lists)
                .chain(own.reads)
                .collect(),
            writes: written.chain(logged).chain(own.writes).collect(),
            removes: lives.iter().flat_map(|live| live.dpdk.socket_folders()).collect(),
            user: None,
        }
    }

    /// Watches the engines until they end, a signal comes or the time is over, and does on SIGHUP what it asks for.
    pub(crate) fn watch<E: Engines>(&mut self, engines: &mut E, around: &mut Surroundings, started: Instant) -> Ending {
        let signals = Arc::clone(self.process.signals());
        let (mut is_reload_asked, duration) = (false, self.options.duration);
        let mut looks = Looks::new(self.config.blinding.clone());
        let mut correlates = self.correlating.is_some();
        let mut records = around.recorder.is_some();
        let mut manager = Notifier::ready();
        loop {
            manager.alive();
            if signals.is_end_asked() {
                return Ending::Signal;
            }
            if duration.is_some_and(|duration| started.elapsed() >= duration) {
                return Ending::Duration;
            }
            if let Some(ending) = engines.ended() {
                return ending;
            }
            for exchange in &mut around.exchanges {
                if exchange.take_back() {
                    notes::say("the rules in use stay: the new ones name more bits than there is room for");
                }
            }
            if E::IS_LIVE {
                looks.look(engines, &self.rules, around);
            }
            if correlates && self.correlating.as_ref().is_some_and(Correlating::has_ended) {
                correlates = false;
                notes::warn(
                    "the correlator has ended by a fault of its own: alerts are told, and no longer correlated",
                );
            }
            if records && let Some(error) = around.recorder.as_ref().and_then(Recorder::error) {
                records = false;
                notes::warn(&format!("packets of flows with alerts are no longer written: {error}"));
            }
            if signals.take_hangup() {
                around.wishes.reopen();
                around.recorder.iter().for_each(Recorder::reopen);
                is_reload_asked = E::IS_LIVE;
                if let Some(correlating) = self.correlating.as_ref().filter(|_| E::IS_LIVE) {
                    correlating.reload();
                }
            }
            if is_reload_asked && around.exchanges.iter().all(Exchange::is_ready) {
                is_reload_asked = false;
                match self.reload(around, &mut || manager.alive()) {
                    Ok(()) => notes::say(&format!("{} rules loaded", self.rules.used.rules)),
                    Err(error) => notes::say(&format!("the rules in use stay: {error}")),
                }
            }
            let left = duration.map_or(LOOK, |duration| duration.saturating_sub(started.elapsed()).min(LOOK));
            signals.rest(left.max(Duration::from_millis(1)));
        }
    }

    /// Loads the rules again and sends a program to each engine; `alive` is called at each step.
    fn reload(&mut self, around: &mut Surroundings, alive: &mut dyn FnMut()) -> Result<()> {
        let loaded = load(self.options, &self.config, self.rules.bits.clone(), alive)?;
        let loaded = loaded.check_against(&self.options.rules, self.rules.used.usable())?;
        loaded.tell();
        self.rules.replace(loaded);
        around.wishes.use_catalogue(self.rules.catalogue.clone());
        for exchange in &mut around.exchanges {
            exchange.send(&self.rules.program, self.rules.precedence.clone());
        }
        Ok(())
    }
}

/// Looks at what was counted: each second for metrics, and after the interval of the watch for blinding.
struct Looks {
    watch: blinding::Watch,
    interval: Duration,
    looked: Instant,
    watched: Instant,
}

impl Looks {
    fn new(bounds: blinding::Bounds) -> Self {
        let interval = Duration::from_secs(bounds.interval.into());
        let now = Instant::now();
        Self { watch: blinding::Watch::new(bounds), interval, looked: now, watched: now }
    }

    fn look(&mut self, engines: &mut impl Engines, rules: &RulesInUse, around: &mut Surroundings) {
        if self.looked.elapsed() < account::INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let mut account = Account::of(around, engines.account());
        if self.watched.elapsed() >= self.interval {
            self.watched = self.looked;
            let changes: Vec<Change> = self.watch.turn(&account);
            changes.iter().for_each(|change| notes::warn(&change.message()));
            around.wishes.tell(changes);
        }
        account.conditions = self.watch.conditions();
        (account.rules, account.reloads) = (Some(rules.used), rules.reloads);
        if let Ok(mut shown) = around.shown.account.lock() {
            *shown = account;
        }
    }
}

fn correlating(
    asked: Correlate,
    options: &Options,
    config: &Config,
    process: &Process,
) -> Result<(Correlating, Box<dyn Listener>)> {
    let name = identity::name(&options.outputs.alarms, &config.alarms)?;
    let name = name.as_ref().map_or(USUAL_NAME, SensorId::as_str);
    let is_live = matches!(options.input, Input::Interfaces(_));
    let (beside, listener) = (asked.open)(asked.store, name, is_live, process)?;
    Ok((Correlating::new(beside), listener))
}

/// Who the sensor is to correlators: those elsewhere, or its `own` one, whose store lies there, in this process.
fn identity(
    options: &Options,
    config: &Config,
    own: Option<Option<&Path>>,
    process: &Process,
) -> Result<Option<Identity>> {
    let (alarms, table, now_ns) = (&options.outputs.alarms, &config.alarms, clock::realtime_ns());
    let is_live = matches!(options.input, Input::Interfaces(_));
    if alarms.are_asked() {
        let clock = if is_live { Clock::Host } else { Clock::Recorded };
        let of = || Identity::of(alarms, table, clock, now_ns);
        // A service begins as a root without rights on files; what lies in its user's folder he may open.
        return of().or_else(|error| process.with_file_rights(of).map_err(|_| error)).map(Some);
    }
    // One that goes through files promises nothing to its own correlator.
    let Some(store) = own.filter(|_| is_live) else { return Ok(None) };
    let name = identity::name(alarms, table)?.map_or_else(|| USUAL_NAME.parse(), Ok);
    let name = name.map_err(|error| Error::usage("name", "the sensor", error))?;
    process.with_file_rights(|| Identity::within(name, alarms, table, store, now_ns)).map(Some)
}

fn load(options: &Options, config: &Config, bits: BitNames, alive: &mut dyn FnMut()) -> Result<Loaded> {
    rules::load(&options.rules, options.outputs.wants(Event::Alert), config, bits, alive)
}
