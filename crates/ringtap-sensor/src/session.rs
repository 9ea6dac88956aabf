//! Owns: what a run on an interface and a run over files have in common, in its order: process, rules, outputs, handlers, the
//! watch over the engines with reloads, the end.
//! Does not: make engines; `live` and `replay` do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringtap::arrival::ArrivalClock;
use ringtap::histogram::Histogram;
use ringtap::receiver::Backend;
use ringtap::source::StampClock;
use ringtap::{Result, clock};
use ringtap_detect::rules::BitNames;
use ringtap_detect::{Detector, FillLevel, SpareVisitor};
use ringtap_output::{Counts, Producer, Queue};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::signals::{Hangup, Heard};
use ringtap_wire::LinkType;

use crate::config::Config;
use crate::eve::Writer;
use crate::finds::{Alerts, Finds, Wanted};
use crate::inspector::{Inspector, Statistics, Times};
use crate::options::{Event, Input, Options};
use crate::outputs::{Outputs, Wishes};
use crate::pages::Tables;
use crate::programs::{Exchange, exchange};
use crate::rules::in_use::RulesInUse;
use crate::rules::{self, Loaded};
use crate::shedding::Shedding;
use crate::summary::Ending;

/// How often to look at what wakes nobody: the interface, an engine's end, programs that came back.
const LOOK: Duration = Duration::from_millis(100);

/// A run, from its options to its end.
pub(crate) struct Session<'o> {
    pub(crate) options: &'o Options,
    pub(crate) config: Config,
    pub(crate) rules: RulesInUse,
    // Dropped last: settings of devices are put back then.
    pub(crate) process: Process,
}

/// What the engines get their packets from.
pub(crate) struct Feed {
    /// Engines, each with a handler of its own.
    pub(crate) engines: Vec<EngineFeed>,
    /// Of interfaces: the name where there is one, and how long packets should wait at most. Files wait for the outputs instead.
    pub(crate) live: Option<(Option<String>, Duration)>,
}

/// What one engine gets.
#[derive(Clone)]
pub(crate) struct EngineFeed {
    pub(crate) link: LinkType,
    pub(crate) stamps: StampClock,
    /// What alerts in the transmit ring need.
    pub(crate) alerts: Alerts,
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
    wishes: Arc<Wishes>,
    exchanges: Vec<Exchange>,
}

/// Engines that run, as far as the watch over them asks.
pub(crate) trait Engines {
    /// Why they have come to their end by themselves, if they have.
    fn ended(&mut self) -> Option<Ending>;

    /// Whether they take other rules while they run: files are judged by one set from beginning to end.
    const RELOADS: bool;
}

impl<'o> Session<'o> {
    /// Begins the process and loads the rules.
    ///
    /// # Errors
    /// No such user, a configuration that makes no sense, rules that can't be used.
    pub(crate) fn begin(options: &'o Options) -> Result<Self> {
        let process = Process::begin(&Terms {
            opens_interfaces: matches!(&options.input, Input::Interfaces(devices) if devices.iter().any(|live| live.backend != Backend::Given)),
            heard: Heard { hangup: Hangup::Reopens, report: false, second_ends: true },
            user: options.user.as_deref(),
            keeps_privileges: options.no_sandbox,
        })?;
        let config = Config::of(options)?;
        let loaded = load(options, &config, BitNames::default())?;
        loaded.tell();
        Ok(Self { options, config, rules: RulesInUse::new(loaded), process })
    }

    /// Opens the outputs and makes a handler for each engine.
    ///
    /// # Errors
    /// An output can't be opened, or the output thread not be started.
    pub(crate) fn surround(&self, feed: &Feed) -> Result<(Surroundings, Vec<Inspector>)> {
        let outputs = &self.options.outputs;
        let (counts, wishes) = (Arc::new(Counts::default()), Arc::new(Wishes::default()));
        let writer = Writer {
            interface: feed.live.as_ref().and_then(|(name, _)| name.clone()),
            // In files packets have numbers that mean something, and flows get the same ones in each run.
            packet_numbers: feed.live.is_none(),
            flow_salt: if feed.live.is_some() { clock::realtime_ns() } else { 0 },
            catalogue: self.rules.catalogue.clone(),
            ..Writer::default()
        };
        let (queue, ends) = self.process.with_file_rights(|| {
            let snmp = self.config.snmp.as_ref();
            let outputs = Outputs::open(outputs, snmp, writer, Arc::clone(&counts), Arc::clone(&wishes))?;
            Queue::start(feed.engines.len(), self.options.outputs.queue, outputs)
        })?;
        let mut surroundings = Surroundings {
            queue,
            lost: ends.iter().map(Producer::lost).collect(),
            counts,
            latency: Vec::new(),
            tables: Tables::default(),
            wishes,
            exchanges: Vec::new(),
        };
        let engines = ends.into_iter().zip(&feed.engines);
        let inspectors = engines.map(|(end, engine)| self.inspector(feed, engine, end, &mut surroundings)).collect();
        Ok((surroundings, inspectors))
    }

    fn inspector(
        &self,
        feed: &Feed,
        engine: &EngineFeed,
        mut queue: Producer<crate::Record>,
        around: &mut Surroundings,
    ) -> Inspector {
        let outputs = &self.options.outputs;
        let wanted = Wanted::by(outputs, self.config.snmp.is_some());
        let mut detector = Detector::new(Arc::clone(&self.rules.program), self.config.limits.clone());
        if feed.live.is_some() {
            queue.show_spare(|memory, used| around.tables.spare(memory, &FillLevel::from(Arc::clone(used))));
            detector.show_spare(&mut around.tables);
        }
        let latency = Arc::<Histogram>::default();
        let (here, there) = exchange();
        around.latency.push(Arc::clone(&latency));
        around.exchanges.push(here);
        let finds = Finds {
            queue,
            waits: feed.live.is_none(),
            wanted,
            alerts: engine.alerts.clone(),
            latency,
            arrivals: ArrivalClock::new(engine.stamps),
            packet: 0,
            made: 0,
        };
        let statistics = match (wanted.stats, &feed.live) {
            (false, _) => Statistics::Off,
            (true, Some(_)) => Statistics::Every(outputs.stats.as_nanos() as u64),
            (true, None) => Statistics::AtEnd,
        };
        let max_latency = feed.live.as_ref().map(|(_, max_latency)| *max_latency);
        let shedding = Shedding::new(self.rules.precedence.clone(), max_latency);
        Inspector::new(detector, engine.link, finds, shedding, Times::new(engine.stamps), statistics, there)
    }

    /// What the process still needs once all is set up: rules are read again on SIGHUP, files of EVE begun anew.
    pub(crate) fn needs(&self) -> Needs<'o> {
        let Options { input, rules, outputs, config, .. } = self.options;
        let (rings, captures) = match input {
            Input::Interfaces(_) => (true, &[][..]),
            Input::Files(files) => (false, &files[..]),
        };
        let named = rules.files.iter().chain(&rules.priority).chain(captures).map(PathBuf::as_path);
        let is_file = |path: &&Path| *path != Path::new("-");
        let written = outputs.eve.as_deref().filter(is_file).into_iter().chain(outputs.eve_socket.as_deref());
        Needs {
            rings,
            reads: named.chain(rules.classification.as_deref()).chain(config.as_deref()).collect(),
            writes: written.collect(),
            ..Needs::default()
        }
    }

    /// Watches the engines until they end, a signal comes or the time is over, and does on SIGHUP what it asks for.
    pub(crate) fn watch<E: Engines>(&mut self, engines: &mut E, around: &mut Surroundings, started: Instant) -> Ending {
        let signals = Arc::clone(self.process.signals());
        let (mut is_reload_asked, duration) = (false, self.options.duration);
        loop {
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
            if signals.take_hangup() {
                around.wishes.reopen.store(true, Ordering::Relaxed);
                is_reload_asked = E::RELOADS;
            }
            if is_reload_asked && around.exchanges.iter().all(Exchange::is_ready) {
                is_reload_asked = false;
                match self.reload(around) {
                    Ok(()) => notes::say(&format!("{} rules loaded", self.rules.used.rules)),
                    Err(error) => notes::say(&format!("the rules in use stay: {error}")),
                }
            }
            let left = duration.map_or(LOOK, |duration| duration.saturating_sub(started.elapsed()).min(LOOK));
            signals.rest(left.max(Duration::from_millis(1)));
        }
    }

    /// Loads the rules again and sends a program to each engine.
    fn reload(&mut self, around: &mut Surroundings) -> Result<()> {
        let loaded = load(self.options, &self.config, self.rules.bits.clone())?;
        let loaded = loaded.check_against(&self.options.rules, self.rules.used.usable())?;
        loaded.tell();
        self.rules.replace(loaded);
        if let Ok(mut wish) = around.wishes.catalogue.lock() {
            *wish = Some(self.rules.catalogue.clone());
        }
        for exchange in &mut around.exchanges {
            exchange.send(&self.rules.program, self.rules.precedence.clone());
        }
        Ok(())
    }
}

fn load(options: &Options, config: &Config, bits: BitNames) -> Result<Loaded> {
    rules::load(&options.rules, options.outputs.wants(Event::Alert), &config.variables, bits)
}
