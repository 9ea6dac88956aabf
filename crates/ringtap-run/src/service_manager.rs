//! What a service manager is told (sd_notify(3)): that the program is ready, that it is alive, that it ends; and the folder that it gives.
//!
//! Owns when each is said. Where no manager listens (no `NOTIFY_SOCKET`), nothing is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::notes;

/// Where a program keeps what it needs again after a restart, unless told otherwise: the service's own folder (`STATE_DIRECTORY` of
/// systemd.exec(5), the first one), else /var/lib/ringtap.
pub fn state_folder() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").unwrap_or_default();
    let first = std::env::split_paths(&given).next().filter(|path| path.is_absolute());
    first.unwrap_or_else(|| Path::new("/var/lib/ringtap").to_owned())
}

/// How long a start may go on after each sign of life before the manager gives it up (`EXTEND_TIMEOUT_USEC`).
const EXTENDED: Duration = Duration::from_secs(120);

/// A start that takes as long as there is to read: rules, a log. `TimeoutStartSec=` is then from one sign of life to the next.
#[derive(Debug)]
pub struct Starting {
    said: Option<Instant>,
}

impl Starting {
    /// One that has said nothing yet.
    #[must_use]
    pub fn begin() -> Self {
        Self { said: None }
    }

    /// Asks the manager for more time when it is time to ask. To be called at each step of the work.
    pub fn alive(&mut self) {
        if self.said.is_none_or(|said| said.elapsed() >= EXTENDED / 8) {
            self.said = Some(Instant::now());
            // A manager that does not hear it ends a start that takes too long, as if it had not been said.
            let _ = sd_notify::notify(&[NotifyState::ExtendTimeoutUsec(EXTENDED.as_micros() as u32)]);
        }
    }
}

/// A program that is set up and runs. The main thread's loop holds it; its end, in whatever way, is that of the program.
#[derive(Debug)]
pub struct Notifier {
    /// From one sign of life to the next: half of what the watchdog grants, as sd_watchdog_enabled(3) recommends.
    every: Option<Duration>,
    said: Instant,
}

impl Notifier {
    /// Says that all is set up: sockets are open, engines run, privileges are given up.
    pub fn ready() -> Self {
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            notes::warn(&format!("tell the service manager (NOTIFY_SOCKET) that all is ready: {error}"));
        }
        Self { every: sd_notify::watchdog_enabled().map(|limit| limit / 2), said: Instant::now() }
    }

    /// Gives the watchdog its sign of life when it is time. To be called at each turn of the main thread's loop, and at each step of what
    /// takes longer than a turn: a thread that hangs gives none, and the manager starts the program anew.
    pub fn alive(&mut self) {
        if self.every.is_some_and(|every| self.said.elapsed() >= every) {
            self.said = Instant::now();
            // Who does not hear it ends the program, and needs no further word.
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // Nothing follows from its not being heard.
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
}
