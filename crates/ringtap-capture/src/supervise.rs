//! The main thread of a running capture: waits for signals, limits, the clock and trouble, and has progress reported.
//!
//! Owns why a capture ends. It touches no ring and no packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{Departure, DeviceEnd, Ended};
use ringtap::record::{FinalCounts, Recorder};
use ringtap_run::devices::{note_ended, note_links};
use ringtap_run::process::Process;
use ringtap_run::service_manager::Notifier;
use ringtap_run::signals::Signals;
use serde::Serialize;

use crate::accounts::{Counters, Tally, Unwritten, final_counts};
use crate::last::Asked;
use crate::metrics::{self, Shown};
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
    /// The interface, or the last of several, was removed or moved to another network namespace.
    InterfaceGone,
    /// The host began to use the interface, whose packets AF_XDP would keep from it.
    InterfaceUsed,
    /// An engine ended that should not have.
    EngineFailed,
}

/// What runs: engines on interfaces, or one on files.
pub(crate) trait Job {
    /// Whether packets come from interfaces.
    fn is_live(&self) -> bool;
    /// Whether all engines have ended by themselves, and this is known of all interfaces.
    fn is_finished(&self) -> bool;
    /// Their counters.
    fn counters(&self) -> EngineSnapshot;
    /// The core's ledger as of now, of each device.
    fn ledgers(&mut self) -> Vec<Ledger>;
    /// CPU time of each engine's thread; `None` of one that has ended.
    fn engine_cpu(&self) -> Vec<Option<Duration>>;
    /// Devices that have come to their end since it was asked last.
    fn take_ended(&mut self) -> Vec<Ended>;
    /// What changed on the interfaces since it was asked last, one line each.
    fn take_news(&mut self) -> Vec<String>;
    /// The interfaces that have not ended, with their states.
    fn states(&self) -> Vec<(&str, InterfaceState)>;
}

/// One look at everything that counts.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) ledger: Ledger,
    /// What each device counted.
    pub(crate) devices: Vec<(Tally, Ledger)>,
    pub(crate) counters: EngineSnapshot,
    pub(crate) tally: Tally,
    pub(crate) written: Option<(u64, u64)>,
    pub(crate) file: Option<String>,
}

impl Look {
    fn take(job: &mut dyn Job, counters: &Counters, recorder: Option<&Recorder>) -> Self {
        let engine = job.counters();
        let tally = counters.tally();
        let (ledger, each) = counters.account(job.ledgers(), recorder.map(Unwritten::of).as_ref());
        Self {
            at: Instant::now(),
            ledger,
            devices: each.into_iter().enumerate().map(|(device, own)| (counters.tally_of(device), own)).collect(),
            counters: engine,
            tally,
            written: recorder.map(|recorder| (recorder.packets(), recorder.bytes())),
            file: recorder.and_then(Recorder::file),
        }
    }

    fn final_counts(&self) -> Vec<FinalCounts> {
        final_counts(&self.devices.iter().map(|(_, ledger)| ledger.clone()).collect::<Vec<_>>())
    }
}

/// What the watch over a capture goes by.
pub(crate) struct Supervision<'a> {
    pub(crate) events: &'a EngineEvents,
    pub(crate) duration: Option<Duration>,
    pub(crate) counters: &'a Counters,
    pub(crate) recorder: Option<&'a Recorder>,
    /// Where what is in memory is asked for.
    pub(crate) asked: Option<&'a Asked>,
    /// Where metrics are asked for.
    pub(crate) shown: Option<&'a Shown>,
}

impl Supervision<'_> {
    /// Watches `job` until it is to end, and says why; with the last device to end, where that is the reason.
    pub(crate) fn run(&self, job: &mut dyn Job, reporter: &mut Reporter<'_>) -> (Ending, Option<Ended>) {
        let started = Instant::now();
        let deadline = self.duration.and_then(|duration| started.checked_add(duration));
        let look_every = if job.is_live() { LOOK } else { LOOK_AT_FILE };
        let mut next_report = started.checked_add(reporter.interval());
        let mut down = Vec::new();
        let mut latest = self.look(job);
        let mut next_shown = self.shown.map(|_| started);
        let mut manager = Notifier::ready();
        loop {
            let now = Instant::now();
            manager.alive();
            // Before the end that may have come with it.
            if self.events.signals.take_report() {
                if let Some(asked) = self.asked {
                    asked.ask();
                    reporter.note("writing what is in memory");
                }
                reporter.note(&self.look(job).ledger.to_string());
            }
            if let Some(ending) = self.asked_ending(job, reporter, deadline, now) {
                return (ending, None);
            }
            if let Some(ending) = self.sudden_ending() {
                return (ending, None);
            }
            let ended = job.take_ended();
            let states = job.states();
            let mut note = |line: &str| reporter.note(line);
            if let Some(last) = note_ended("capture from", ended, job.is_finished(), &states, &mut note) {
                return (Ending::of(&last.end), Some(last));
            }
            note_links(&states, &mut down, note);
            job.take_news().iter().for_each(|line| reporter.note(line));
            if !job.is_live() && job.is_finished() {
                return (Ending::EndOfFile, None);
            }
            if next_report.is_some_and(|next| now >= next) {
                let look = self.look(job);
                if let Some(recorder) = self.recorder {
                    recorder.set_counts(look.final_counts());
                }
                if reporter.interval_passed(&look, &latest).is_err() {
                    return (Ending::ReaderGone, None);
                }
                latest = look;
                // From the clock, not from the last report: late once is not late for ever.
                while next_report.is_some_and(|next| now >= next) {
                    next_report = next_report.and_then(|next| next.checked_add(reporter.interval()));
                }
            }
            if let (Some(shown), Some(next)) = (self.shown, next_shown)
                && now >= next
            {
                self.show(job, shown);
                next_shown = now.checked_add(metrics::LOOK);
            }
            let wake = [deadline, next_report, next_shown].into_iter().flatten().min();
            self.events
                .signals
                .rest(wake.map_or(look_every, |wake| wake.saturating_duration_since(now).min(look_every)));
        }
    }

    fn look(&self, job: &mut dyn Job) -> Look {
        Look::take(job, self.counters, self.recorder)
    }

    fn show(&self, job: &mut dyn Job, shown: &Shown) {
        let look = self.look(job);
        let states = job.states();
        shown.show(look, job.engine_cpu(), &states);
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
                    recorder.set_counts(self.look(job).final_counts());
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
    fn sudden_ending(&self) -> Option<Ending> {
        if let Some(error) = self.recorder.and_then(Recorder::error) {
            let is_reader_gone = error.errno() == Some(nix::libc::EPIPE);
            return Some(if is_reader_gone { Ending::ReaderGone } else { Ending::OutputFailed });
        }
        self.events.panicked.load(Ordering::Relaxed).then_some(Ending::EngineFailed)
    }
}

impl Ending {
    /// Of a device that ended by itself.
    pub(crate) fn of(end: &DeviceEnd) -> Self {
        match end {
            DeviceEnd::Departed(Departure::Used(_)) => Self::InterfaceUsed,
            DeviceEnd::Departed(_) => Self::InterfaceGone,
            DeviceEnd::Failed | DeviceEnd::Panicked => Self::EngineFailed,
        }
    }
}
