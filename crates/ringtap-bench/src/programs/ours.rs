//! A command of `ringtap` at work inside the testbed: its start, what it says, and its summary.
//!
//! Owns the waiting for its first words. Which command with which options is said by callers.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_testbed::{RunningProgram, Testbed};
use serde_json::Value;

use super::text;

/// Compiling rules and calibrating take their time.
const START_LIMIT: Duration = Duration::from_secs(120);

/// `ringtap NAME` on the receiver's core.
pub(crate) fn command(testbed: &Testbed, ringtap: &Path, name: &str) -> Command {
    let mut command = testbed.receiver().command("taskset");
    command.args(["-c", &testbed.config().receiver_core.to_string()]).arg(ringtap).arg(name);
    command
}

/// One at work, whose summary is one line of JSON.
pub(crate) struct RunningCommand {
    name: &'static str,
    program: RunningProgram,
    summary: File,
    words: File,
}

impl RunningCommand {
    /// Starts a [`command`] and waits until it has said `ready`.
    pub(crate) fn start(testbed: &Testbed, name: &'static str, mut command: Command, ready: &str) -> Result<Self> {
        let failed = |error: std::io::Error| Error::os("make files of", name, &error);
        let (summary, words) = (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
        command.stdin(Stdio::null());
        command.stdout(summary.try_clone().map_err(failed)?).stderr(words.try_clone().map_err(failed)?);
        let mut this = Self { name, program: testbed.receiver().start(command)?, summary, words };
        let until = Instant::now() + START_LIMIT;
        while !text(&this.words).contains(ready) {
            let ended = this.program.child().try_wait().map_err(failed)?.is_some();
            if ended || Instant::now() > until {
                return Err(Error::failed("start", name, text(&this.words).trim().replace('\n', "; ")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(this)
    }

    /// Its process.
    pub(crate) fn id(&mut self) -> u32 {
        self.program.child().id()
    }

    /// Ends it; its summary.
    pub(crate) fn finish(self) -> Result<Value> {
        self.program.interrupt()?;
        let said = text(&self.summary);
        let bad = |cause: String| Error::failed("read the summary of", self.name, cause);
        let line = said.lines().last().ok_or_else(|| bad(text(&self.words).trim().replace('\n', "; ")))?;
        serde_json::from_str(line).map_err(|error| bad(error.to_string()))
    }
}
