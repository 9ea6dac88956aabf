//! A running correlator: set up, watched, and ended with everything on the disk.
//!
//! Owns the order of steps and the clock: when signals are looked at, when log and store are synced. What is found is
//! [`Correlator`]'s.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringtap::Result;
use ringtap::clock;
use ringtap_output::Severity;
use ringtap_output::announce::{self, Announced, Outputs};
use ringtap_run::notes;
use ringtap_run::process::{Process, Terms};
use ringtap_run::sandbox::Needs;
use ringtap_run::signals::{Hangup, Heard, Signals};
use ringtap_sigma::Automaton;

use crate::config;
use crate::correlator::{Correlator, SensorCounts, Settings, Told, Way};
use crate::engine::Bounds;
use crate::explain::Explainer;
use crate::input::counts::InputCounts;
use crate::input::files::{Files, Next};
use crate::input::listen::Listening;
use crate::options::{Inputs, Options};
use crate::render;
use crate::rules::Rules;
use crate::status::Status;

/// How long to wait for an event before signals are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// What came in is on the disk after this.
const SYNC: Duration = Duration::from_millis(100);
/// Events between two looks at the clock.
const TURN: u32 = 256;

/// What a correlator has to say while it runs and at its end.
pub enum Event<'a> {
    /// Something became certain.
    Told(&'a Told, &'a Automaton, &'a std::collections::BTreeMap<u64, SensorCounts>),
    /// A near miss.
    Explained(&'a str),
    /// As of now.
    Interval(&'a Status),
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

enum Source {
    Files(Files),
    Listening(Listening),
}

impl Source {
    fn open(options: &Options) -> Result<Self> {
        Ok(match &options.inputs {
            Inputs::Read(paths) => Self::Files(Files::open(paths, options.format)?),
            Inputs::Listen(places) => Self::Listening(Listening::open(places, options.format)?),
        })
    }

    fn next(&mut self) -> Next {
        match self {
            Self::Files(files) => files.next(LOOK),
            Self::Listening(listening) => listening.next(LOOK),
        }
    }

    fn counts(&self) -> Vec<Arc<InputCounts>> {
        match self {
            Self::Files(files) => files.counts().to_vec(),
            Self::Listening(listening) => listening.counts(),
        }
    }
}

/// Runs a correlator until its files end, or SIGINT, SIGTERM or its time ends it; SIGHUP loads rules again and opens
/// output files again.
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
    let mut running = Running::start(options, &process)?;
    let ended = running.watch(options, process.signals(), &mut show)?;
    running.finish(options, ended, &mut show)
}

struct Running {
    correlator: Correlator,
    source: Source,
    outputs: Outputs<Line>,
    not_told: Arc<AtomicU64>,
    reopen: Arc<AtomicBool>,
    explainer: Option<Explainer>,
    /// The store could not be written when it was tried last: said once.
    is_failing: bool,
}

impl Running {
    fn start(options: &Options, process: &Process) -> Result<Self> {
        let rules = Rules::read(&options.rules)?;
        for rejected in &rules.rejected {
            notes::say(&format!("not used: {rejected}"));
        }
        let webhook = options.config.as_deref().map(config::webhook).transpose()?.flatten();
        let settings = Settings {
            disorder_ns: options.disorder.as_nanos() as i64,
            bounds: Bounds { bytes: options.memory as usize },
            early: matches!(options.inputs, Inputs::Listen(_)),
            ..Settings::default()
        };
        let automaton = rules.automaton;
        let explainer = options.explain.then(|| Explainer::new(&automaton, settings));
        let open = || Correlator::open(automaton, settings, options.store.as_deref(), now_ns());
        let correlator = process.with_file_rights(open)?;
        let source = process.with_file_rights(|| Source::open(options))?;
        let reopen = Arc::new(AtomicBool::new(false));
        let announced = Announced { what: "incidents", kept_by: "ringtap alarms list --incidents" };
        let start = || announce::start(&options.outputs, webhook.as_deref(), announced, Arc::clone(&reopen));
        let outputs = process.with_file_rights(start)?;
        let mut reads = vec![options.rules.as_path()];
        if let Inputs::Read(paths) = &options.inputs {
            reads.extend(paths.iter().map(PathBuf::as_path).filter(|path| path.exists()));
        }
        let written = [&options.store, &options.outputs.file, &options.outputs.socket];
        let mut writes: Vec<_> = written.into_iter().flatten().map(PathBuf::as_path).collect();
        if let Inputs::Listen(places) = &options.inputs {
            writes.extend(places.iter().filter_map(|place| place.path()));
        }
        let needs = Needs { rings: false, names: webhook.is_some(), reads, writes, user: None };
        for warning in process.confine(needs)? {
            notes::warn(&warning);
        }
        let not_told = outputs.not_told();
        Ok(Self { correlator, source, outputs, not_told, reopen, explainer, is_failing: false })
    }

    /// Until the files end (true), a signal, or the deadline.
    fn watch(&mut self, options: &Options, signals: &Signals, show: &mut impl FnMut(Event<'_>)) -> Result<bool> {
        let started = Instant::now();
        let (mut synced, mut received) = (started, started);
        let mut next_stats = options.stats.map(|every| started + every);
        let is_live = matches!(self.source, Source::Listening(_));
        // What a restart found in the log.
        self.tell(show);
        loop {
            for _ in 0..TURN {
                match self.source.next() {
                    Next::Event(event, is_file) => {
                        let way = if is_file { Way::File } else { Way::Stream };
                        if let Some(explainer) = &mut self.explainer {
                            explainer.event(&event);
                        }
                        self.correlator.event(*event, way, now_ns());
                        received = Instant::now();
                    }
                    Next::Nothing => break,
                    Next::End => return Ok(true),
                }
            }
            let now = Instant::now();
            let silent = now - received;
            if is_live && silent >= options.silence {
                self.correlator.silent_for(silent.as_nanos() as i64);
            }
            self.tell(show);
            if now - synced >= SYNC {
                synced = now;
                self.sync();
                self.tell(show);
            }
            if signals.take_hangup() {
                self.reopen.store(true, Ordering::Relaxed);
                // In the names of the rules that found it.
                self.sync();
                self.tell(show);
                self.reload(options);
            }
            if let Some((next, every)) = next_stats.zip(options.stats)
                && now >= next
            {
                next_stats = Some(next + every);
                show(Event::Interval(&self.status(options)));
            }
            if signals.is_end_asked() || options.duration.is_some_and(|duration| started.elapsed() >= duration) {
                return Ok(false);
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

    fn reload(&mut self, options: &Options) {
        let reloaded = Rules::read(&options.rules).and_then(|rules| {
            for rejected in &rules.rejected {
                notes::say(&format!("not used: {rejected}"));
            }
            let count = rules.automaton.rules().len();
            self.correlator.reload(rules.automaton).map(|()| count)
        });
        match reloaded {
            Ok(count) => notes::say(&format!("{count} correlations are used now; no window was lost")),
            Err(error) => notes::say(&format!("{error}; the rules stay what they were")),
        }
    }

    fn tell(&mut self, show: &mut impl FnMut(Event<'_>)) {
        for told in self.correlator.take_told() {
            let (automaton, sensors) = (self.correlator.automaton(), &self.correlator.counts().sensors);
            show(Event::Told(&told, automaton, sensors));
            let text = render::json(&told, automaton, sensors).to_string();
            self.outputs.tell(Line { text, severity: render::severity_of(&told, automaton) });
        }
    }

    fn status(&self, options: &Options) -> Status {
        let not_told = self.not_told.load(Ordering::Relaxed);
        Status::of(&self.correlator, &self.source.counts(), not_told, options.disorder)
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
        self.outputs.finish();
        status.not_told = self.not_told.load(Ordering::Relaxed);
        show(Event::Summary(&status));
        written
    }
}

/// Since 1970.
fn now_ns() -> i64 {
    i64::try_from(clock::realtime_ns()).unwrap_or(i64::MAX)
}
