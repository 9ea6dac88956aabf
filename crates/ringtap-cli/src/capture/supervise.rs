//! The main thread of a running capture: waits for signals, limits, the clock and trouble, and has progress reported.
//!
//! Owns why a capture ends. It touches no ring and no packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ringtap::interface::InterfaceState;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::Departure;
use ringtap::record::Recorder;
use ringtap::{Error, Result};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::accounts::{Counters, Tally, account, final_counts};
use super::report::Reporter;

/// How often to look at what rings no bell: the interface, an engine's end, a failed write.
const LOOK: Duration = Duration::from_millis(250);
/// A file is short-lived work: its end is noticed sooner.
const LOOK_AT_FILE: Duration = Duration::from_millis(10);

/// What other threads tell the main thread; ringing wakes it.
#[derive(Debug)]
pub(super) struct Bell {
    main: Thread,
    stops: AtomicU32,
    hangup: AtomicBool,
    report: AtomicBool,
    limit: AtomicBool,
    panicked: AtomicBool,
}

impl Bell {
    /// For the calling thread, which will [`supervise`]. From now on signals ring it.
    pub(super) fn install() -> Result<Arc<Self>> {
        let bell = Arc::new(Self {
            main: std::thread::current(),
            stops: AtomicU32::new(0),
            hangup: AtomicBool::new(false),
            report: AtomicBool::new(false),
            limit: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        });
        let mut wanted = vec![SIGINT, SIGTERM, SIGUSR1];
        // nohup(1) has it ignored, and so it stays.
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let failed = |error: std::io::Error| Error::os("listen for", "signals", &error);
        let mut signals = Signals::new(wanted).map_err(failed)?;
        let rung = Arc::clone(&bell);
        std::thread::Builder::new()
            .name("ringtap-signals".to_owned())
            .spawn(move || {
                for signal in &mut signals {
                    if signal == SIGUSR1 {
                        rung.report.store(true, Ordering::Relaxed);
                    } else if signal == SIGHUP && !rung.is_stopped() {
                        rung.hangup.store(true, Ordering::Relaxed);
                    } else if rung.stops.fetch_add(1, Ordering::Relaxed) > 0 {
                        // The second time: at once, as if we had never listened. The file is whole up to its last block.
                        let _ = low_level::emulate_default_handler(signal);
                    }
                    rung.main.unpark();
                }
            })
            .map_err(failed)?;
        Ok(bell)
    }

    /// `--count` is reached.
    pub(super) fn limit_reached(&self) {
        self.limit.store(true, Ordering::Relaxed);
        self.main.unpark();
    }

    /// An engine thread panicked.
    pub(super) fn engine_panicked(&self) {
        self.panicked.store(true, Ordering::Relaxed);
        self.main.unpark();
    }

    fn is_stopped(&self) -> bool {
        self.stops.load(Ordering::Relaxed) > 0
    }
}

/// Whether a signal is ignored since before we began (proc_pid_status(5), SigIgn).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Why a capture came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// SIGINT, SIGTERM, or SIGHUP while the file being written is where it was.
    Signal,
    /// `--count`.
    Count,
    /// `--duration`.
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
pub(super) trait Job {
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
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) ledger: Ledger,
    pub(super) counters: EngineSnapshot,
    pub(super) tally: Tally,
    pub(super) written: Option<(u64, u64)>,
    pub(super) file: Option<String>,
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

/// Watches `job` until it is to end, and says why.
pub(super) fn supervise(
    job: &mut dyn Job,
    bell: &Bell,
    duration: Option<Duration>,
    counters: &Counters,
    recorder: Option<&Recorder>,
    reporter: &mut Reporter<'_>,
) -> Ending {
    let started = Instant::now();
    let deadline = duration.and_then(|duration| started.checked_add(duration));
    let look_every = if job.interface().is_some() { LOOK } else { LOOK_AT_FILE };
    let mut next_report = started.checked_add(reporter.interval());
    let mut was_up = true;
    let mut latest = Look::take(job, counters, recorder);
    loop {
        if bell.is_stopped() {
            return Ending::Signal;
        }
        if bell.hangup.swap(false, Ordering::Relaxed) {
            match recorder.filter(|recorder| recorder.has_moved()) {
                Some(recorder) => {
                    recorder.set_counts(vec![final_counts(&Look::take(job, counters, Some(recorder)).ledger)]);
                    recorder.reopen();
                    reporter.note("the file being written was moved away: a new one is begun");
                }
                // The terminal is gone.
                None => return Ending::Signal,
            }
        }
        if bell.limit.load(Ordering::Relaxed) {
            return Ending::Count;
        }
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Ending::Duration;
        }
        if let Some(error) = recorder.and_then(Recorder::error) {
            let is_reader_gone = error.errno() == Some(nix::libc::EPIPE);
            return if is_reader_gone { Ending::ReaderGone } else { Ending::OutputFailed };
        }
        if bell.panicked.load(Ordering::Relaxed) {
            return Ending::EngineFailed;
        }
        if matches!(job.departure(), Some(Departure::Used(_))) {
            return Ending::InterfaceUsed;
        }
        match job.interface() {
            Some((_, InterfaceState::Gone)) => return Ending::InterfaceGone,
            Some((name, state @ (InterfaceState::Up | InterfaceState::Down)))
                if was_up != (state == InterfaceState::Up) =>
            {
                was_up = state == InterfaceState::Up;
                let text = if was_up { "is up again" } else { "is down: nothing arrives until it is up again" };
                reporter.note(&format!("{name} {text}"));
            }
            _ => {}
        }
        if job.is_finished() {
            return if job.interface().is_some() { Ending::EngineFailed } else { Ending::EndOfFile };
        }
        if bell.report.swap(false, Ordering::Relaxed) {
            reporter.note(&Look::take(job, counters, recorder).ledger.to_string());
        }
        if next_report.is_some_and(|next| now >= next) {
            let look = Look::take(job, counters, recorder);
            if let Some(recorder) = recorder {
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
        let pause = wake.map_or(look_every, |wake| wake.saturating_duration_since(now).min(look_every));
        std::thread::park_timeout(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        // SIGKILL can't be ignored, and the test harness does not ignore SIGUSR1.
        assert!(!is_ignored(9) && !is_ignored(SIGUSR1));
        // Rust's runtime ignores SIGPIPE.
        assert!(is_ignored(nix::libc::SIGPIPE));
    }
}
