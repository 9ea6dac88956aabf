//! A running generator watched until its end, or ended before it.
//!
//! Owns how often is looked. Signals and the terminal are the caller's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::Result;

use super::report::GeneratorReport;
use super::{Generator, Progress};

/// How often the end, and what may bring it about, are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What ended a run before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The caller: a signal, say.
    ByCaller,
    /// Its time was over.
    ByTime,
}

impl Generator {
    /// Waits for the end, and brings it about when `stop` becomes true or the run lasts longer than `longest`. `each_second`
    /// gets how far it is and the packets per second since the last time.
    ///
    /// # Errors
    /// The kernel refuses to read or write the generator's map.
    pub fn watch(
        &self,
        longest: Option<Duration>,
        stop: &AtomicBool,
        mut each_second: Option<&mut dyn FnMut(Progress, f64)>,
    ) -> Result<Option<Stopped>> {
        let started = Instant::now();
        let mut last = (started, 0);
        while !self.is_finished() {
            let stopped = if stop.load(Ordering::Relaxed) {
                Some(Stopped::ByCaller)
            } else if longest.is_some_and(|longest| started.elapsed() > longest) {
                Some(Stopped::ByTime)
            } else {
                None
            };
            if stopped.is_some() {
                self.stop()?;
                return Ok(stopped);
            }
            thread::sleep(LOOK);
            let since = last.0.elapsed();
            if since >= Duration::from_secs(1)
                && let Some(show) = &mut each_second
            {
                let progress = self.progress()?;
                show(progress, (progress.stamped - last.1) as f64 / since.as_secs_f64());
                last = (Instant::now(), progress.stamped);
            }
        }
        Ok(None)
    }

    /// As [`Generator::join`], but stops when `stop` becomes true (looked at every 20 ms).
    ///
    /// # Errors
    /// The kernel refused to go on.
    pub fn join_or_stop(self, stop: &AtomicBool) -> Result<GeneratorReport> {
        self.watch(None, stop, None)?;
        self.join()
    }
}
