//! The main thread of a running capture: waits for signals, limits, the clock and trouble, and has progress reported.
//!
//! Owns why a capture ends. It touches no ring and no packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::Departure;
use ringtap::record::Recorder;
use ringtap_run::process::Process;
use ringtap_run::signals::Signals;
use serde::Serialize;

use crate::accounts::{Counters, Tally, account, final_counts};
use crate::report::Reporter;

/// How often to look at what wakes nobody: the interface, an engine's end, a failed write.
const LOOK: Duration = Duration::from_millis(250);
/// A file is short-lived work: its end is noticed sooner.
const LOOK_AT_FILE: Duration = Duration::from_millis(10);

/// What engines tell the main thread; telling wakes it.
#[derive(Debug)]
pub(crate) struct EngineEvents {
    signals: Arc<Signals>,
    limit: AtomicBool,
    panicked: AtomicBool,
}

impl EngineEvents {
    pub(crate) fn new(process: &Process) -> Arc<Self> {
        let signals = Arc::clone(process.signals());
        Arc::new(Self { signals, limit: AtomicBool::new(false), panicked: AtomicBool::new(false) })
    }

    /// The number of packets asked for is reached.
    pub(crate) fn limit_reached(&self) {
        self.limit.store(true, Ordering::Relaxed);
        self.signals.wake();
    }

    /// An engine thread panicked.
    pub(crate) fn engine_panicked(&self) {
        self.panicked.store(true, Ordering::Relaxed);
        self.signals.wake();
    }
}

/// Why a capture came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// SIGINT, SIGTERM, or SIGHUP while the file being written is where it was.
    Signal,
    /// The number of packets asked for.
    Count,
    /// The time asked for.
    Duration,
    /// The files were read.
    EndOfFile,
    /// Nobody reads our standard output any more.
    ReaderGone,
    /// Writing failed.
    OutputFailed,
    /// The interface was removed, or moved to another network namespace.
    InterfaceGone,
    /// The host began to use the interface, whose packets AF_XDP would keep from it.
    InterfaceUsed,
    /// An engine ended that should not have.
    EngineFailed,
}

/// What runs: engines on an interface, or one on files.
pub(crate) trait Job {
    /// Whether all engines have ended by themselves.
    fn is_finished(&self) -> bool;
    /// Their counters.
    fn counters(&self) -> EngineSnapshot;
    /// The core's ledger as of now.
    fn ledger(&mut self) -> Ledger;
    /// What happened to the interface that ended the engines, if anything did.
    fn departure(&self) -> Option<Departure>;
    /// State of the interface; `None` for files.
    fn interface(&self) -> Option<(&str, InterfaceState)>;
}

/// One look at everything that counts.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) ledger: Ledger,
    pub(crate) counters: EngineSnapshot,
    pub(crate) tally: Tally,
    pub(crate) written: Option<(u64, u64)>,
    pub(crate) file: Option<String>,
}

impl Look {
    fn take(job: &mut dyn Job, counters: &Counters, recorder: Option<&Recorder>) -> Self {
        let engine = job.counters();
        let tally = counters.tally();
        Self {
            at: Instant::now(),
            ledger: account(job.ledger(), tally, recorder.map(Recorder::lost)),
            counters: engine,
            tally,
            written: recorder.map(|recorder| (recorder.packets(), recorder.bytes())),
            file: recorder.and_then(Recorder::file),
        }
    }
}

/// What the watch over a capture goes by.
pub(crate) struct Supervision<'a> {
    pub(crate) events: &'a EngineEvents,
    pub(crate) duration: Option<Duration>,
    pub(crate) counters: &'a Counters,
    pub(crate) recorder: Option<&'a Recorder>,
}

impl Supervision<'_> {
    /// Watches `job` until it is to end, and says why.
    pub(crate) fn run(&self, job: &mut dyn Job, reporter: &mut Reporter<'_>) -> Ending {
        let started = Instant::now();
        let deadline = self.duration.and_then(|duration| started.checked_add(duration));
        let look_every = if job.interface().is_some() { LOOK } else { LOOK_AT_FILE };
        let mut next_report = started.checked_add(reporter.interval());
        let mut was_up = true;
        let mut latest = self.look(job);
        loop {
            let now = Instant::now();
            if let Some(ending) = self.asked_ending(job, reporter, deadline, now) {
                return ending;
            }
            if let Some(ending) = self.sudden_ending(job) {
                return ending;
            }
            note_link(job, &mut was_up, reporter);
            if job.is_finished() {
                return if job.interface().is_some() { Ending::EngineFailed } else { Ending::EndOfFile };
            }
            if self.events.signals.take_report() {
                reporter.note(&self.look(job).ledger.to_string());
            }
            if next_report.is_some_and(|next| now >= next) {
                let look = self.look(job);
                if let Some(recorder) = self.recorder {
                    recorder.set_counts(vec![final_counts(&look.ledger)]);
                }
                if reporter.interval_passed(&look, &latest).is_err() {
                    return Ending::ReaderGone;
                }
                latest = look;
                // From the clock, not from the last report: late once is not late for ever.
                while next_report.is_some_and(|next| now >= next) {
                    next_report = next_report.and_then(|next| next.checked_add(reporter.interval()));
                }
            }
            let wake = [deadline, next_report].into_iter().flatten().min();
            self.events
                .signals
                .rest(wake.map_or(look_every, |wake| wake.saturating_duration_since(now).min(look_every)));
        }
    }

    fn look(&self, job: &mut dyn Job) -> Look {
        Look::take(job, self.counters, self.recorder)
    }

    /// What the user asked for: by a signal, a number of packets, or a time.
    fn asked_ending(
        &self,
        job: &mut dyn Job,
        reporter: &mut Reporter<'_>,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Option<Ending> {
        let signals = &self.events.signals;
        if signals.is_end_asked() {
            return Some(Ending::Signal);
        }
        if signals.take_hangup() {
            match self.recorder.filter(|recorder| recorder.has_moved()) {
                Some(recorder) => {
                    recorder.set_counts(vec![final_counts(&self.look(job).ledger)]);
                    recorder.reopen();
                    reporter.note("the file being written was moved away: a new one is begun");
                }
                // The terminal is gone.
                None => return Some(Ending::Signal),
            }
        }
        if self.events.limit.load(Ordering::Relaxed) {
            return Some(Ending::Count);
        }
        deadline.is_some_and(|deadline| now >= deadline).then_some(Ending::Duration)
    }

    /// What makes going on impossible.
    fn sudden_ending(&self, job: &dyn Job) -> Option<Ending> {
        if let Some(error) = self.recorder.and_then(Recorder::error) {
            let is_reader_gone = error.errno() == Some(nix::libc::EPIPE);
            return Some(if is_reader_gone { Ending::ReaderGone } else { Ending::OutputFailed });
        }
        if self.events.panicked.load(Ordering::Relaxed) {
            return Some(Ending::EngineFailed);
        }
        if matches!(job.departure(), Some(Departure::Used(_))) {
            return Some(Ending::InterfaceUsed);
        }
        matches!(job.interface(), Some((_, InterfaceState::Gone))).then_some(Ending::InterfaceGone)
    }
}

/// Says when the interface went down or came up again.
fn note_link(job: &dyn Job, was_up: &mut bool, reporter: &mut Reporter<'_>) {
    let Some((name, state @ (InterfaceState::Up | InterfaceState::Down))) = job.interface() else { return };
    let is_up = state == InterfaceState::Up;
    if *was_up != is_up {
        *was_up = is_up;
        let text = if is_up { "is up again" } else { "is down: nothing arrives until it is up again" };
        reporter.note(&format!("{name} {text}"));
    }
}
