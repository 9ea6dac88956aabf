//! The signals that a program hears: end, reopen, report.
//!
//! Owns which are listened to and what a second one does. What a program does about them is its own: its main thread looks, and is
//! woken to do so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

use ringtap::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{iterator, low_level};

/// Stack of the thread that listens, bytes: all of the process's memory is locked, what nobody uses too.
const STACK_BYTES: usize = 128 << 10;

/// A flag that SIGINT and SIGTERM set, for a program that looks at it by itself and hears nothing else.
///
/// # Errors
/// A handler can't be installed.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Error::os("handle signal", signal.to_string(), &error))?;
    }
    Ok(stop)
}

/// What SIGHUP means to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// Files and rules are to be opened again. It never ends the program.
    Reopens,
    /// The terminal has gone, or a file was moved away: the program finds out which. Where nohup(1) had it ignored it stays so, and
    /// once the program is ending it counts as one more wish to end.
    MayEnd,
}

/// Which signals a program hears. SIGINT and SIGTERM always: they ask it to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// What SIGHUP means.
    pub hangup: Hangup,
    /// SIGUSR1 asks for a report; otherwise it keeps its default effect.
    pub report: bool,
    /// The second wish to end takes effect at once, as if nobody had listened; otherwise it changes nothing.
    pub second_ends: bool,
}

/// What was heard so far.
#[derive(Debug)]
pub struct Signals {
    main: Thread,
    heard: Heard,
    stops: AtomicU32,
    hangup: AtomicBool,
    report: AtomicBool,
}

impl Signals {
    /// Listens from now on, for the calling thread: that one is woken.
    ///
    /// # Errors
    /// A handler can't be installed, or no thread started.
    pub fn listen(heard: Heard) -> Result<Arc<Self>> {
        let mut wanted = vec![SIGINT, SIGTERM];
        if heard.report {
            wanted.push(SIGUSR1);
        }
        if heard.hangup == Hangup::Reopens || !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let signals = Arc::new(Self::of_this_thread(heard));
        let failed = |error: std::io::Error| Error::os("listen for", "signals", &error);
        let mut incoming = iterator::Signals::new(wanted).map_err(failed)?;
        let ear = Arc::clone(&signals);
        std::thread::Builder::new()
            .name("ringtap-signals".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                for signal in &mut incoming {
                    if ear.hear(signal) {
                        let _ = low_level::emulate_default_handler(signal);
                    }
                }
            })
            .map_err(failed)?;
        Ok(signals)
    }

    fn of_this_thread(heard: Heard) -> Self {
        Self {
            main: std::thread::current(),
            heard,
            stops: AtomicU32::new(0),
            hangup: AtomicBool::new(false),
            report: AtomicBool::new(false),
        }
    }

    /// Notes a signal and wakes the main thread. Whether the signal is to take its default effect now.
    fn hear(&self, signal: i32) -> bool {
        let is_hangup = signal == SIGHUP && (self.heard.hangup == Hangup::Reopens || !self.is_end_asked());
        let mut takes_effect = false;
        if signal == SIGUSR1 {
            self.report.store(true, Ordering::Relaxed);
        } else if is_hangup {
            self.hangup.store(true, Ordering::Relaxed);
        } else {
            takes_effect = self.stops.fetch_add(1, Ordering::Relaxed) > 0 && self.heard.second_ends;
        }
        self.wake();
        takes_effect
    }

    /// Whether the program was asked to end.
    pub fn is_end_asked(&self) -> bool {
        self.stops.load(Ordering::Relaxed) > 0
    }

    /// Whether SIGHUP came since this was asked last.
    pub fn take_hangup(&self) -> bool {
        self.hangup.swap(false, Ordering::Relaxed)
    }

    /// Whether SIGUSR1 came since this was asked last.
    pub fn take_report(&self) -> bool {
        self.report.swap(false, Ordering::Relaxed)
    }

    /// Wakes the main thread from [`Self::rest`]. Takes no lock: an engine's thread may call it.
    pub fn wake(&self) {
        self.main.unpark();
    }

    /// Lets the main thread sleep until a signal, a [`Self::wake`], or for so long. It may return early.
    pub fn rest(&self, most: Duration) {
        std::thread::park_timeout(most);
    }
}

/// Whether a signal is ignored since before we began (proc_pid_status(5), SigIgn).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(hangup: Hangup, second_ends: bool) -> Signals {
        Signals::of_this_thread(Heard { hangup, report: true, second_ends })
    }

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        // SIGKILL can't be ignored, and the test harness does not ignore SIGUSR1.
        assert!(!is_ignored(9) && !is_ignored(SIGUSR1));
        // Rust's runtime ignores SIGPIPE.
        assert!(is_ignored(nix::libc::SIGPIPE));
    }

    #[test]
    fn each_signal_is_noted_as_what_it_means() {
        let signals = signals(Hangup::MayEnd, true);
        assert!(!signals.hear(SIGUSR1) && signals.take_report() && !signals.take_report());
        assert!(!signals.hear(SIGHUP) && signals.take_hangup() && !signals.take_hangup());
        assert!(!signals.is_end_asked());
        assert!(!signals.hear(SIGTERM) && signals.is_end_asked());
        assert!(signals.hear(SIGINT), "the second time at once");
    }

    #[test]
    fn a_hangup_while_ending_counts_where_it_may_end() {
        for (hangup, ends) in [(Hangup::MayEnd, true), (Hangup::Reopens, false)] {
            let signals = signals(hangup, true);
            signals.hear(SIGINT);
            assert_eq!((signals.hear(SIGHUP), signals.take_hangup()), (ends, !ends), "{hangup:?}");
        }
    }

    #[test]
    fn who_waits_for_the_disk_is_not_ended_by_impatience() {
        let signals = signals(Hangup::Reopens, false);
        assert!(!signals.hear(SIGINT) && !signals.hear(SIGINT) && signals.is_end_asked());
    }

    #[test]
    fn waking_ends_a_rest() {
        let signals = signals(Hangup::Reopens, false);
        signals.wake();
        // Would outlast every test's limit.
        signals.rest(Duration::from_secs(3600));
    }
}
