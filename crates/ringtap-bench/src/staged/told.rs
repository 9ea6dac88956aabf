//! What the correlator tells, each line with the time at which it could be read.
//!
//! Owns the thread that reads them, and what of them is of planted pairs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap::{Error, Result, clock};
use serde_json::Value;

use super::plant::{pair_of, window_of};

type Lines = Arc<Mutex<Vec<(u64, String)>>>;

/// Being read.
pub(crate) struct ToldLines {
    lines: Lines,
    thread: JoinHandle<()>,
}

/// All that was told.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// When each was told, by pair and window.
    pub provisional_ns: BTreeMap<(u32, usize), u64>,
    pub final_ns: BTreeMap<(u32, usize), u64>,
    /// Incidents that were found behind the watermark, and those whose windows may lack something.
    pub late: u64,
    pub incomplete: u64,
    pub summary: Value,
}

impl ToldLines {
    /// Reads lines of JSON until their end.
    pub(crate) fn read(stdout: ChildStdout) -> Result<Self> {
        let lines = Lines::default();
        let shared = Arc::clone(&lines);
        let read = move || {
            for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                let now_ns = clock::realtime_ns();
                shared.lock().unwrap_or_else(PoisonError::into_inner).push((now_ns, line));
            }
        };
        let builder = std::thread::Builder::new().name("staged-told".into());
        let thread = builder.spawn(read).map_err(|error| Error::os("start thread", "staged-told", &error))?;
        Ok(Self { lines, thread })
    }

    /// Waits until so many sensors have been heard.
    pub(crate) fn wait_for_sensors(&self, count: usize, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let heard = || {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().filter(|(_, line)| line.contains("\"state\":\"began\"")).count()
        };
        while heard() < count {
            if Instant::now() > until {
                let cause = format!("{} of {count} sensors were heard within {limit:?}", heard());
                return Err(Error::failed("start", "ringtap correlate", cause));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until nothing more is told for a while.
    pub(crate) fn wait_for_silence(&self, limit: Duration) {
        const SILENCE: Duration = Duration::from_millis(300);
        let count = || self.lines.lock().unwrap_or_else(PoisonError::into_inner).len();
        let (until, mut last) = (Instant::now() + limit, usize::MAX);
        while std::mem::replace(&mut last, count()) != last && Instant::now() < until {
            std::thread::sleep(SILENCE);
        }
    }

    /// What was told, once its writer has ended.
    pub(crate) fn finish(self) -> Result<Announced> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all = Announced::default();
        for (told_ns, line) in lines {
            let bad = |error| Error::failed("read", "a line of ringtap correlate", error);
            all.take(told_ns, serde_json::from_str(&line).map_err(bad)?);
        }
        if all.summary.is_null() {
            return Err(Error::failed("read", "the summary of ringtap correlate", "there is none"));
        }
        Ok(all)
    }
}

impl Announced {
    fn take(&mut self, told_ns: u64, line: Value) {
        let of = || {
            let address = line["key"]["src_ip"].as_str()?.parse().ok()?;
            Some((pair_of(address)?, window_of(line["rule"].as_str()?)?))
        };
        match line["event"].as_str() {
            Some("provisional") => {
                of().map(|which| self.provisional_ns.entry(which).or_insert(told_ns));
            }
            Some("opened") => {
                of().map(|which| self.final_ns.entry(which).or_insert(told_ns));
                self.late += u64::from(line["late"] == true);
                self.incomplete += u64::from(line["incomplete"] == true);
            }
            Some("summary") => self.summary = line,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_announcement_of_a_pair_counts() {
        let mut all = Announced::default();
        let line =
            |event: &str| json!({"event": event, "rule": "window_2", "key": {"src_ip": "10.0.0.5"}, "late": true});
        all.take(7, line("provisional"));
        all.take(8, line("opened"));
        all.take(9, line("opened"));
        all.take(9, json!({"event": "opened", "rule": "other", "key": {"src_ip": "10.0.0.5"}}));
        assert_eq!((all.provisional_ns[&(5, 2)], all.final_ns[&(5, 2)], all.final_ns.len()), (7, 8, 1));
        assert_eq!((all.late, all.incomplete), (2, 0));
    }
}
