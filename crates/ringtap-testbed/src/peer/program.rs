//! A peer that is a program: started on the receiver's core, heard, watched until it rests, and ended.
//!
//! Owns what all programs have in common. Their arguments and what their words mean are in files of their own.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use crate::host::RunningProgram;
use crate::testbed::Testbed;

/// A program and the Debian package it comes in.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramSpec {
    pub(super) program: &'static str,
    pub(super) package: &'static str,
    /// It is to write each line at once, by stdbuf(1).
    pub(super) line_buffered: bool,
}

impl ProgramSpec {
    fn failed(self, operation: &str, cause: impl std::fmt::Display) -> Error {
        Error::failed(operation, self.program, cause)
    }

    /// Says early and plainly that it is missing; taskset(1) would say it late.
    fn look_for(self) -> Result<()> {
        let path = env::var_os("PATH").unwrap_or_default();
        if env::split_paths(&path).any(|folder| folder.join(self.program).is_file()) {
            return Ok(());
        }
        Err(self
            .failed("run", "it is not installed (not on PATH)")
            .way_out(format!("apt-get install {}; scripts/setup test has all peers", self.package)))
    }

    /// The first line it says when run with `arguments` that has `mark` in it, from there on.
    pub(super) fn says(self, arguments: &[&str], mark: &str) -> Result<String> {
        self.look_for()?;
        let output = Command::new(self.program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Error::os("run", self.program, &error))?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        said.lines()
            .find_map(|line| Some(line[line.find(mark)?..].trim().to_owned()))
            .ok_or_else(|| self.failed("read the version of", format!("no {mark:?} in {:?}", said.trim())))
    }
}

/// A program at work on the receiver's core.
pub(super) struct Program {
    spec: ProgramSpec,
    program: RunningProgram,
    /// What it writes to stdout and stderr.
    words: File,
}

impl Program {
    /// Starts it inside the receiver, by way of the command `around` it if that is not empty.
    pub(super) fn start(
        testbed: &Testbed,
        spec: ProgramSpec,
        around: &[OsString],
        arguments: &[OsString],
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        spec.look_for()?;
        let words =
            tempfile::tempfile().map_err(|error| Error::os("make a file for the words of", spec.program, &error))?;
        let shared = || words.try_clone().map_err(|error| Error::os("share a file with", spec.program, &error));
        let receiver = testbed.receiver();
        let mut command = receiver.command("taskset");
        command.args(["-c", &testbed.config().receiver_core.to_string()]);
        if spec.line_buffered {
            command.args(["stdbuf", "-oL"]);
        }
        command.args(around).arg(spec.program).args(arguments);
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(shared()?).stderr(shared()?);
        configure(&mut command);
        Ok(Self { spec, program: receiver.start(command)?, words })
    }

    /// Waits until it has said `phrase`.
    pub(super) fn wait_for(&mut self, phrase: &str, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        loop {
            if self.said().contains(phrase) {
                return Ok(());
            }
            self.check_alive("start")?;
            if Instant::now() > until {
                let cause = format!("it does not say {phrase:?} within {limit:?}: {}", self.last_words());
                return Err(self.spec.failed("start", cause));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// That it has not ended by itself.
    pub(super) fn check_alive(&mut self, operation: &str) -> Result<()> {
        match self.program.child().try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(self.spec.failed(operation, format!("it ended with {status}: {}", self.last_words())))
            }
            Err(error) => Err(Error::os(operation, self.spec.program, &error)),
        }
    }

    /// All it has said so far.
    pub(super) fn said(&self) -> String {
        said_in(&self.words)
    }

    /// The end of what it said, on one line.
    fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(8)..].join("; ")
    }

    /// Its standard input, when it was piped.
    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.program.child().stdin.take()
    }

    /// Waits `hold`, the longest that it sits on a packet, and then until none of its threads has used more than 2 ms of CPU
    /// time in 100 ms, twice in a row; 10 s at most. For programs that sleep when there is nothing to do.
    pub(super) fn rest(&mut self, hold: Duration) -> Result<()> {
        const WINDOW: Duration = Duration::from_millis(100);
        const IDLE_NS: u64 = 2_000_000;
        thread::sleep(hold);
        let mut quiet = 0;
        let mut before = self.thread_times();
        for _ in 0..100 {
            thread::sleep(WINDOW);
            self.check_alive("wait for")?;
            let now = self.thread_times();
            let busiest =
                now.iter().map(|(tid, time)| time.saturating_sub(before.get(tid).copied().unwrap_or(0))).max();
            before = now;
            quiet = if busiest.unwrap_or(0) > IDLE_NS { 0 } else { quiet + 1 };
            if quiet == 2 {
                return Ok(());
            }
        }
        Err(self.spec.failed("wait for", "it still works 10 s after the traffic ended"))
    }

    /// CPU time of each thread in nanoseconds, by thread id (Documentation/scheduler/sched-stats.rst).
    fn thread_times(&mut self) -> HashMap<OsString, u64> {
        let folder = format!("/proc/{}/task", self.program.child().id());
        let tasks = fs::read_dir(folder).into_iter().flatten().flatten();
        tasks
            .filter_map(|task| {
                let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
                Some((task.file_name(), text.split_whitespace().next()?.parse().ok()?))
            })
            .collect()
    }

    /// Bytes of the rings it has mapped from sockets.
    pub(super) fn ring_bytes(&mut self) -> Option<u64> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.program.child().id())).ok()?;
        Some(socket_mappings(&maps, "socket:")).filter(|&bytes| bytes > 0)
    }

    /// Bytes it has in RAM (VmRSS in proc_pid_status(5)).
    pub(super) fn resident_bytes(&mut self) -> Option<u64> {
        resident_bytes(self.program.child().id())
    }

    /// Waits until it has ended, after it was told to.
    pub(super) fn wait_for_end(&mut self, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        loop {
            match self.program.child().try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() > until => {
                    return Err(self
                        .spec
                        .failed("end", format!("it does not end within {limit:?}: {}", self.last_words())));
                }
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(Error::os("end", self.spec.program, &error)),
            }
        }
    }

    /// Ends it as Ctrl-C does; all it said.
    pub(super) fn interrupt(mut self) -> Result<String> {
        self.check_alive("end")?;
        self.program.interrupt()?;
        Ok(said_in(&self.words))
    }
}

/// Bytes a process has in RAM.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kibibytes: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())?;
    Some(kibibytes << 10)
}

/// All that was written. The file's offset is shared with the program, so it is left alone.
fn said_in(words: &File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    // What can't be read is not said.
    while let Ok(count @ 1..) = words.read_at(&mut chunk, bytes.len() as u64) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bytes mapped from sockets whose name in `maps` (proc_pid_maps(5)) begins with `name`.
pub(super) fn socket_mappings(maps: &str, name: &str) -> u64 {
    let sizes = maps.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        fields.nth(4).filter(|path| path.starts_with(name))?;
        u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(start, 16).ok()?)
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_are_rings() {
        let maps = "7f0000000000-7f0000200000 rw-s 00000000 00:09 41 socket:[41]\n\
                    7f0000300000-7f0000301000 rw-s 80000000 00:09 42 socket:[42]\n\
                    7f0000400000-7f0000500000 rw-p 00000000 00:00 0\n\
                    7f0000600000-7f0000700000 r--p 00000000 08:01 7 /usr/lib/libpcap.so.1\n";
        assert_eq!(socket_mappings(maps, "socket:"), 0x20_1000);
        assert_eq!(socket_mappings(maps, "socket:[42]"), 0x1000);
        assert_eq!(socket_mappings("nonsense\nx-y z\n", "socket:"), 0);
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let spec = ProgramSpec { program: "no-such-peer", package: "peer-of-ringtap", line_buffered: false };
        let error = spec.says(&[], "x").unwrap_err().to_string();
        assert!(error.contains("no-such-peer") && error.contains("apt-get install peer-of-ringtap"), "{error}");
    }
}
