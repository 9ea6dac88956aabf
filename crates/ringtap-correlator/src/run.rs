//! A running correlator: set up, watched, and ended with everything on the disk.
//!
//! Owns the order of steps and the clock: when signals are looked at, when log and store are synced. What is found is
//! [`Correlator`]'s.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_output::announce::{self, Outputs};
use ringtap_output::{Announced, Severity, printable};
use ringtap_run::beside;
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::service_manager::Notifier;
use ringtap_run::signals::{Hangup, Heard, Signals};
use ringtap_sigma::Automaton;
use ringtap_web::Bound;

use crate::config::{self, Config};
use crate::correlator::{Correlator, Report, SensorCounts, Settings, Way};
use crate::engine::Bounds;
use crate::event;
use crate::explain::Explainer;
use crate::input::Came;
use crate::input::files::{Files, Next};
use crate::input::kafka::Topics;
use crate::input::keyring::Keyring;
use crate::input::listen::Listening;
use crate::input::own::{self, Teller};
use crate::input::source::Source;
use crate::options::{Inputs, Options};
use crate::render;
use crate::rules::Rules;
use crate::sensors::{Now, Timing};
use crate::status::Status;
use crate::view::{Dated, Page};

/// How long to wait for an event before signals are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// What came in is on the disk after this.
const SYNC: Duration = Duration::from_millis(100);
/// How old may be what is shown.
const SHARED: Duration = Duration::from_secs(1);
/// From one progress line to the next.
const PROGRESS: Duration = Duration::from_secs(1);
/// As long as things come, time is looked at this often: promises that are due, silence, the disk.
const TURN: Duration = Duration::from_millis(5);

/// What a correlator has to say while it runs and at its end.
pub enum Event<'a> {
    /// Something became certain.
    Report(&'a Report, &'a Automaton, &'a std::collections::BTreeMap<u64, SensorCounts>),
    /// A near miss.
    Explained(&'a str),
    /// As of now.
    Interval(&'a Status),
    /// As of now, each second, where that is asked for; events a second since the last time.
    Progress(&'a Status, f64),
    /// All is on the disk.
    Summary(&'a Status),
}

/// A told thing as outputs have it.
#[derive(Debug)]
struct Line {
    text: String,
    severity: Option<Severity>,
}

impl announce::Announcement for Line {
    fn line(&self) -> String {
        self.text.clone()
    }

    fn severity(&self) -> Option<Severity> {
        self.severity
    }
}

/// Who asks a correlator to end, and to load rules again.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Signals(&'a Signals),
    /// Its host. The end of what that tells is the end.
    Reload(&'a AtomicBool),
}

impl Asked<'_> {
    fn take_reload(self) -> bool {
        match self {
            Self::Signals(signals) => signals.take_hangup(),
            Self::Reload(asked) => asked.swap(false, Ordering::Relaxed),
        }
    }

    /// Whether the process is the correlator's.
    fn is_ours(self) -> bool {
        matches!(self, Self::Signals(_))
    }

    fn is_end(self) -> bool {
        match self {
            Self::Signals(signals) => signals.is_end_asked(),
            Self::Reload(_) => false,
        }
    }
}

/// Runs a correlator until its files end, or SIGINT, SIGTERM or its time ends it; SIGHUP loads rules and keys again and
/// opens output files again.
///
/// # Errors
/// Options that make no sense, rules, inputs or a store that can't be opened, or a store that could not be written to the
/// end.
pub fn run(options: &Options, mut show: impl FnMut(Event<'_>)) -> Result<()> {
    let heard = Heard { hangup: Hangup::Reopens, report: false, second_ends: false };
    let process = Process::begin(&Terms {
        opens_interfaces: false,
        heard,
        user: options.user.as_deref(),
        keeps_privileges: options.keeps_privileges,
    })?;
    let Config { webhook, sensors, files } =
        options.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
    let keyring = Arc::new(Keyring::new(sensors));
    let source = |correlator: &Correlator| match &options.inputs {
        Inputs::Read(paths) => Files::open(paths, options.format).map(Source::Files),
        Inputs::Listen { lines, sensors } => {
            Listening::open(lines, options.format, sensors, &keyring).map(Source::Listening)
        }
        Inputs::Kafka { brokers, topics, security } => {
            let of = (brokers, security.clone());
            Topics::open(of, topics, options.format, &keyring, correlator).map(Source::Kafka)
        }
    };
    let settings = settings(options, &keyring)?;
    let webhook = webhook.as_deref();
    let running = Running::open(options, settings, webhook, (source, Arc::clone(&keyring)), &process)?;
    let mut needs = needs(options, webhook.is_some());
    needs.reads.extend(files.iter().map(PathBuf::as_path));
    for warning in process.confine(needs)? {
        notes::warn(&warning);
    }
    running.go(options, Asked::Signals(process.signals()), &mut show)
}

/// What a correlator beside a sensor is asked to do; the rest is as usual.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Folder of rules, or one file.
    pub rules: PathBuf,
    /// Folder of log and store; without one, nothing survives the end.
    pub store: Option<PathBuf>,
    /// Configuration: a webhook.
    pub config: Option<PathBuf>,
    /// Bytes for what is remembered of keys, and of the log.
    pub room: Room,
}

/// How much a correlator may take, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Memory for what is remembered of keys.
    pub memory: u64,
    /// The log in the store.
    pub log: u64,
}

/// Hears what a correlator has to say, on its thread.
pub type Show = Box<dyn FnMut(Event<'_>) + Send>;

/// A correlator beside a sensor in one process: it takes that one's alarms, and leaves signals and privileges to it.
pub struct Beside {
    running: Running,
    options: Options,
    has_webhook: bool,
    show: Show,
}

impl Beside {
    /// Opens rules, log and store, with the rights on files that `process` gives. What the sensor says by the [`Teller`] is all
    /// that it hears. `is_live`: packets come now, and heartbeats say how far the sensor is. `show` hears what it has to say, on
    /// its thread.
    ///
    /// # Errors
    /// Rules, configuration or store can't be opened.
    pub fn open(asked: Asking, show: Show, sensor: &str, is_live: bool, process: &Process) -> Result<(Self, Teller)> {
        let Asking { rules, store, config, room: Room { memory, log: log_size } } = asked;
        // What it hears is the sensor's.
        let options = Options { store, config, memory, log_size, ..Options::new(rules, Inputs::Read(Vec::new())) };
        let webhook = options.config.as_deref().map(config::webhook).transpose()?.flatten();
        let (teller, own) = own::way(sensor, is_live);
        let settings = Settings {
            early: is_live,
            reads_again: !is_live,
            sensors: if is_live { vec![own::registered(sensor)] } else { Vec::new() },
            ..bounds(&options)
        };
        let running = Running::open(
            &options,
            settings,
            webhook.as_deref(),
            (|_: &Correlator| Ok(Source::Own(own)), Arc::default()),
            process,
        )?;
        Ok((Self { running, options, has_webhook: webhook.is_some(), show }, teller))
    }
}

impl beside::Beside for Beside {
    fn needs(&self) -> Needs<'_> {
        needs(&self.options, self.has_webhook)
    }

    /// What the sensor promised by its end is told.
    fn run(self: Box<Self>, reload: &AtomicBool) -> Result<()> {
        let Self { running, options, mut show, .. } = *self;
        running.go(&options, Asked::Reload(reload), &mut show)
    }
}

/// What a process with these options still does once all is set up.
fn needs(options: &Options, has_webhook: bool) -> Needs<'_> {
    let mut reads = vec![options.rules.as_path()];
    reads.extend(options.config.as_deref());
    if let Inputs::Read(paths) = &options.inputs {
        reads.extend(paths.iter().map(PathBuf::as_path).filter(|path| path.exists()));
    }
    let written = [&options.store, &options.outputs.file, &options.outputs.socket];
    let mut writes: Vec<&Path> = written.into_iter().flatten().map(PathBuf::as_path).collect();
    if let Inputs::Listen { lines, sensors } = &options.inputs {
        writes.extend(lines.iter().chain(sensors).filter_map(|place| place.path()));
    }
    let kafka = options.outputs.kafka.as_ref();
    writes.extend(kafka.map(|target| target.spool.as_path()));
    let names = has_webhook || kafka.is_some() || matches!(options.inputs, Inputs::Kafka { .. });
    Needs { names, reads, writes, ..Needs::default() }
}

struct Running {
    correlator: Correlator,
    source: Source,
    keyring: Arc<Keyring>,
    outputs: Outputs<Line>,
    not_told: Arc<AtomicU64>,
    reopen: Arc<AtomicBool>,
    /// What comes is of now. Else it is of the past or does not come, and nobody is silent.
    is_current: bool,
    explainer: Option<Explainer>,
    /// The store could not be written when it was tried last: said once.
    is_failing: bool,
    /// Where it is looked at, until somebody answers.
    places: Option<Bound>,
    /// As of the last second, for whoever looks.
    shared: Option<Arc<Dated>>,
}

impl Running {
    fn open(
        options: &Options,
        settings: Settings,
        webhook: Option<&str>,
        (source, keyring): (impl FnOnce(&Correlator) -> Result<Source>, Arc<Keyring>),
        process: &Process,
    ) -> Result<Self> {
        let rules = Rules::read_for_use(&options.rules)?;
        say_rejected(&rules);
        let places = (!options.places.is_empty()).then(|| options.places.bind()).transpose()?;
        let automaton = rules.automaton;
        let explainer = options.explain.then(|| Explainer::new(&automaton, settings.bounds, settings.disorder_ns));
        let open = || Correlator::open(automaton, settings, options.store.as_deref(), now());
        let correlator = process.with_file_rights(open)?;
        let source = process.with_file_rights(|| source(&correlator))?;
        let reopen = Arc::new(AtomicBool::new(false));
        let kept_by = options.store.as_ref().map(|_| "ringtap alarms list --incidents");
        let announced = Announced { what: "incidents", kept_by };
        let start = || announce::start(&options.outputs, webhook, announced, Arc::clone(&reopen));
        let outputs = process.with_file_rights(start)?;
        let not_told = outputs.not_told();
        let (is_failing, shared) = (false, None);
        // Until it says otherwise; then what comes first is of the past.
        let is_current = !matches!(source, Source::Kafka(_));
        Ok(Self {
            is_current,
            correlator,
            source,
            keyring,
            outputs,
            not_told,
            reopen,
            explainer,
            is_failing,
            places,
            shared,
        })
    }

    fn go(mut self, options: &Options, asked: Asked<'_>, show: &mut impl FnMut(Event<'_>)) -> Result<()> {
        if let Some(places) = self.places.take() {
            let status = Arc::new(Mutex::new((Instant::now(), Arc::new(self.status(options)))));
            self.shared = Some(Arc::clone(&status));
            places.start(Arc::new(Page { status, store: options.store.clone() }))?;
        }
        let ended = self.watch(options, asked, show);
        let is_live = self.source.is_live();
        if ended && is_live {
            self.settle(show);
        }
        self.finish(options, ended && !is_live, show)
    }

    /// Until the files or the sensor end (true), a signal, or the deadline.
    fn watch(&mut self, options: &Options, asked: Asked<'_>, show: &mut impl FnMut(Event<'_>)) -> bool {
        self.correlator.begin(now());
        if !self.is_current {
            self.correlator.hold(now());
        }
        let started = Instant::now();
        let (mut synced, mut received) = (started, started);
        let mut next_stats = options.stats.map(|every| started + every);
        let mut next_shared = started;
        let mut shown = (started, 0);
        let is_live = self.source.is_live();
        // What a restart found in the log.
        self.tell(show);
        // Beside a sensor it is that one's to say.
        let mut manager = asked.is_ours().then(Notifier::ready);
        loop {
            if let Some(manager) = &mut manager {
                manager.alive();
            }
            let turn = Instant::now();
            while received < turn + TURN {
                let wait = self.wait();
                match self.source.next(wait) {
                    Next::Came(came, is_file) => {
                        received = Instant::now();
                        self.take(*came, is_file);
                    }
                    Next::Nothing => break,
                    Next::End => return true,
                }
                // What is certain is told at once, however slowly the next thing comes.
                self.tell(show);
            }
            if !self.is_current {
                self.correlator.hold(now());
                received = Instant::now();
            }
            // Nobody is silent whose words wait since before this moment.
            let at = now();
            self.correlator.tick_unless(at, || !self.source.is_empty());
            let now = Instant::now();
            let silent = now - received;
            let is_silent = || silent >= options.silence && self.source.is_empty();
            if is_live && !self.correlator.has_sensors() && is_silent() {
                self.correlator.silent_for(silent.as_nanos() as i64);
            }
            self.tell(show);
            if now - synced >= SYNC {
                synced = now;
                self.sync();
                self.tell(show);
            }
            if asked.take_reload() {
                self.reopen.store(true, Ordering::Relaxed);
                // In the names of the rules that found it.
                self.sync();
                self.tell(show);
                self.reload(options, &mut || manager.iter_mut().for_each(Notifier::alive));
            }
            if now >= next_shared && self.shared.is_some() {
                next_shared = now + SHARED;
                let status = Arc::new(self.status(options));
                if let Some(shared) = &self.shared {
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = (now, status);
                }
            }
            let since = now - shown.0;
            if options.progress && since >= PROGRESS {
                let status = self.status(options);
                let rate = (status.counts.events - shown.1) as f64 / since.as_secs_f64();
                shown = (now, status.counts.events);
                show(Event::Progress(&status, rate));
            }
            if let Some((next, every)) = next_stats.zip(options.stats)
                && now >= next
            {
                next_stats = Some(next + every);
                show(Event::Interval(&self.status(options)));
            }
            if asked.is_end() || options.duration.is_some_and(|duration| started.elapsed() >= duration) {
                return false;
            }
        }
    }

    /// A sensor has told its last: what it still lacks is waited for no longer than usual.
    fn settle(&mut self, show: &mut impl FnMut(Event<'_>)) {
        while self.correlator.due_ns().is_some() {
            std::thread::sleep(self.wait());
            self.correlator.tick(now());
        }
        self.tell(show);
    }

    /// Until signals are looked at, or an alarm that is waited for is given up.
    fn wait(&self) -> Duration {
        let due_ns = self.correlator.due_ns().map(|due| due.saturating_sub(monotonic_ns()).max(0));
        due_ns.map_or(LOOK, |due| LOOK.min(Duration::from_nanos(due.unsigned_abs())))
    }

    fn take(&mut self, came: Came, is_file: bool) {
        let explain = |explainer: &mut Option<Explainer>, event: &event::Event| {
            if let Some(explainer) = explainer {
                explainer.event(event);
            }
        };
        match came {
            Came::Event(event) => {
                explain(&mut self.explainer, &event);
                let way = if is_file { Way::File } else { Way::Stream };
                self.correlator.event(event, way, now().wall_ns);
            }
            Came::Alarm { sensor, event, built_ns } => {
                explain(&mut self.explainer, &event);
                self.correlator.alarm(sensor, event, built_ns, now());
            }
            Came::Beat { sensor, beat } => self.correlator.beat(sensor, &beat, now()),
            Came::Read { stream, next } => self.correlator.reads(stream, next),
            Came::BeginsAgain { stream, next } => self.correlator.begins_again(stream, next),
            Came::Current(is_current) => {
                self.is_current = is_current;
                if is_current { self.correlator.let_go() } else { self.correlator.hold(now()) }
            }
        }
    }

    /// A disk that is full is no end: what is found is told all the same, and written later.
    fn sync(&mut self) {
        match self.correlator.sync() {
            Ok(()) if std::mem::take(&mut self.is_failing) => notes::say("the store is written again"),
            Ok(()) => {}
            Err(error) if !std::mem::replace(&mut self.is_failing, true) => notes::say(&error.to_string()),
            Err(_) => {}
        }
    }

    /// `alive`: called at each step.
    fn reload(&mut self, options: &Options, alive: &mut dyn FnMut()) {
        let reloaded = Rules::read_for_use(&options.rules).and_then(|rules| {
            say_rejected(&rules);
            alive();
            let count = rules.automaton.rules().len();
            self.correlator.reload(rules.automaton, alive).map(|()| count)
        });
        match reloaded {
            Ok(count) if self.correlator.has_store() => {
                notes::say(&format!("{count} correlations are used now; what is new was built from the log"));
            }
            Ok(count) => notes::say(&format!(
                "{count} correlations are used now; without a store, what is new or changed begins with no past"
            )),
            Err(error) => notes::say(&format!("{error}; the rules stay what they were")),
        }
        if self.correlator.has_sensors()
            && let (Source::Listening(_) | Source::Kafka(_), Some(path)) = (&self.source, &options.config)
        {
            self.reload_keys(path);
        }
    }

    /// Registers what the configuration says now; numbers, windows and what was promised stay.
    fn reload_keys(&mut self, config: &Path) {
        let sensors = match config::read(config) {
            Ok(Config { sensors, .. }) if sensors.is_empty() => {
                let path = config.display();
                return notes::say(&format!("{path} registers no sensor any more; the keys stay what they were"));
            }
            Ok(Config { sensors, .. }) => sensors,
            Err(error) => return notes::say(&format!("{error}; the keys stay what they were")),
        };
        let count = sensors.len();
        self.keyring.replace(sensors).iter().for_each(|line| notes::say(line));
        let (registered, is): (Vec<_>, Vec<_>) = self.keyring.registered().into_iter().unzip();
        self.correlator.register(registered, |place| is[place], now());
        notes::say(&format!("{count} sensors are registered now; no number was lost"));
    }

    fn tell(&mut self, show: &mut impl FnMut(Event<'_>)) {
        for told in self.correlator.take_told() {
            let (automaton, sensors) = (self.correlator.automaton(), &self.correlator.counts().sensors);
            show(Event::Report(&told, automaton, sensors));
            let text = render::json(&told, automaton, sensors).to_string();
            self.outputs.tell(Line { text, severity: render::severity_of(&told, automaton) });
        }
    }

    fn status(&self, options: &Options) -> Status {
        let not_told = self.not_told.load(Ordering::Relaxed);
        Status::of(&self.correlator, &self.source.counts(), &self.keyring, not_told, options.disorder)
    }

    fn finish(mut self, options: &Options, ended: bool, show: &mut impl FnMut(Event<'_>)) -> Result<()> {
        let before = self.status(options);
        let written = if ended { self.correlator.end() } else { self.correlator.stop() };
        self.tell(show);
        if let Some(explainer) = self.explainer.take() {
            explainer.finish().iter().for_each(|line| show(Event::Explained(line)));
        }
        let mut status = self.status(options);
        status.now = before.now;
        let told = self.outputs.finish();
        status.not_told = self.not_told.load(Ordering::Relaxed);
        show(Event::Summary(&status));
        written.and(told)
    }
}

fn say_rejected(rules: &Rules) {
    for rejected in &rules.rejected {
        notes::say(&printable(&format!("not used: {rejected}")));
    }
}

fn settings(options: &Options, keyring: &Keyring) -> Result<Settings> {
    let registered: Vec<_> = keyring.registered().into_iter().map(|(sensor, _)| sensor).collect();
    let live = match &options.inputs {
        Inputs::Read(_) => None,
        Inputs::Listen { sensors, .. } => Some(!sensors.is_empty()),
        Inputs::Kafka { .. } => Some(!registered.is_empty()),
    };
    if live == Some(true) && registered.is_empty() {
        return Err(Error::usage("listen for", "sensors", "none is registered")
            .way_out("give each a [[correlate.sensor]] with id and key-files in the file of --config"));
    }
    Ok(Settings {
        early: live.is_some(),
        reads_again: live.is_none(),
        // Who can't be heard is not waited for.
        sensors: if live == Some(true) { registered } else { Vec::new() },
        ..bounds(options)
    })
}

/// What options bound.
fn bounds(options: &Options) -> Settings {
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    Settings {
        disorder_ns: ns(options.disorder),
        bounds: Bounds { bytes: options.memory as usize },
        timing: Timing { gap_wait_ns: ns(options.gap_wait), silence_ns: ns(options.silence) },
        log_bytes: options.log_size,
        retention: options.retention,
        ..Settings::default()
    }
}

fn now() -> Now {
    let wall_ns = i64::try_from(clock::realtime_ns()).unwrap_or(i64::MAX);
    Now { wall_ns, monotonic_ns: monotonic_ns() }
}

fn monotonic_ns() -> i64 {
    i64::try_from(clock::monotonic_ns()).unwrap_or(i64::MAX)
}
