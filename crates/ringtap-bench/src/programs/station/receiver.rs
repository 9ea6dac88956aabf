//! Who receives notifications: how each is started, how far it is, and what has come out of it.
//!
//! How each is configured at its best is `command`'s.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringtap::{Error, Result};
use ringtap_station::alarm::Alarm;
use ringtap_station::store::Store;
use ringtap_testbed::{RunningProgram, Testbed};
use serde_json::Value;

use super::command::command_line;
use super::load::{Load, number_in_row, numbers_in_text};
use crate::definition::Programs;

/// Longest until a receiver is ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// `ringtap trap -i IF --backend xdp`.
    RingtapXdp,
    /// `ringtap trap --listen`.
    RingtapSocket,
    /// snmptrapd(8) to a file.
    SnmptrapdFile,
    /// snmptrapd(8) with a traphandle that appends to a file: tee(1), the least a handler can be.
    SnmptrapdHandler,
    /// Telegraf's snmp_trap to a file.
    Telegraf,
    /// rsyslogd(8) to a file.
    Rsyslog,
    /// syslog-ng(8) to a file.
    SyslogNg,
}

impl Receiver {
    /// All.
    const ALL: [Self; 7] = [
        Self::RingtapXdp,
        Self::RingtapSocket,
        Self::SnmptrapdFile,
        Self::SnmptrapdHandler,
        Self::Telegraf,
        Self::Rsyslog,
        Self::SyslogNg,
    ];

    /// By its name in the definitions, when it understands such messages.
    ///
    /// # Errors
    /// There is none, or it does not.
    pub(super) fn find(name: &str, load: Load) -> Result<Self> {
        let fitting: Vec<Self> = Self::ALL.into_iter().filter(|receiver| receiver.takes(load)).collect();
        fitting.iter().copied().find(|receiver| receiver.name() == name).ok_or_else(|| {
            let choice: Vec<&str> = fitting.iter().map(|receiver| receiver.name()).collect();
            Error::usage("measure", name, format!("no such receiver takes {} messages", load.name()))
                .way_out(format!("choose among: {}", choice.join(", ")))
        })
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RingtapXdp => "ringtap-xdp",
            Self::RingtapSocket => "ringtap-socket",
            Self::SnmptrapdFile => "snmptrapd-file",
            Self::SnmptrapdHandler => "snmptrapd-handler",
            Self::Telegraf => "telegraf",
            Self::Rsyslog => "rsyslog",
            Self::SyslogNg => "syslog-ng",
        }
    }

    /// Whether it understands such messages.
    fn takes(self, load: Load) -> bool {
        match self {
            Self::RingtapXdp | Self::RingtapSocket => true,
            Self::SnmptrapdFile | Self::SnmptrapdHandler | Self::Telegraf => load != Load::Syslog,
            Self::Rsyslog | Self::SyslogNg => load == Load::Syslog,
        }
    }

    /// Ours.
    pub(super) fn is_ringtap(self) -> bool {
        matches!(self, Self::RingtapXdp | Self::RingtapSocket)
    }
}

/// What came out of a receiver.
pub(super) struct Outcome {
    /// Numbers of messages, in order.
    pub(super) numbers: Vec<u64>,
    /// Ringtap's account at its end; null of others.
    pub(super) reported: Value,
    /// Ringtap's alarms.
    pub(super) alarms: Vec<Alarm>,
}

/// A receiver at work.
pub(super) struct Running {
    receiver: Receiver,
    load: Load,
    program: RunningProgram,
    output: PathBuf,
    /// Ringtap's latest word, and how many notifications it had stored then.
    said: Arc<(Mutex<Value>, AtomicU64)>,
}

impl Running {
    /// Starts it on the receiver's core; returns when it listens.
    pub(super) fn start(
        testbed: &Testbed,
        programs: &Programs,
        receiver: Receiver,
        load: Load,
        folder: &Path,
    ) -> Result<Self> {
        let output = folder.join("out");
        File::create(&output).map_err(|error| Error::os("make", output.display().to_string(), &error))?;
        let words = command_line(testbed, programs, receiver, load, folder, &output)?;
        let mut command = testbed.receiver().command("taskset");
        command.args(["-c", &testbed.config().receiver_core.to_string()]).args(words);
        command.env("SNMP_PERSISTENT_DIR", folder).env("SNMPCONFPATH", folder).env("MIBS", "");
        if let (Receiver::SyslogNg, Some(unpacked)) = (receiver, &programs.syslog_ng) {
            let libraries = ["usr/lib/syslog-ng", "usr/lib/x86_64-linux-gnu"].map(|part| unpacked.join(part));
            let paths: Vec<_> = libraries.iter().map(|path| path.display().to_string()).collect();
            command.env("LD_LIBRARY_PATH", paths.join(":"));
        }
        let log = File::create(folder.join("log")).map_err(|error| Error::os("make", "the log", &error))?;
        command.stdin(Stdio::null()).stderr(log);
        command.stdout(if receiver.is_ringtap() { Stdio::piped() } else { Stdio::null() });
        let mut program = testbed.receiver().start(command)?;
        let said = Arc::new((Mutex::new(Value::Null), AtomicU64::new(0)));
        if let Some(stdout) = program.child().stdout.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                    let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
                    said.1.store(value["stored"].as_u64().unwrap_or(0), Ordering::Relaxed);
                    *said.0.lock().expect("nothing panics with it") = value;
                }
            });
        }
        let mut this = Self { receiver, load, program, output, said };
        this.wait_until_ready(testbed, folder)?;
        Ok(this)
    }

    fn wait_until_ready(&mut self, testbed: &Testbed, folder: &Path) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = self.program.child().try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(Error::failed("start", self.receiver.name(), format!("{ended:?}: {log}")));
            }
            let port = format!(":{:04X} ", self.load.port());
            let bound = testbed.receiver().run(|| {
                ["udp", "udp6"].iter().any(|name| {
                    fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default().contains(&port)
                })
            })?;
            if bound && (!self.receiver.is_ringtap() || has_thread(self.program.child().id(), "ringtap-station")) {
                // What a program does between binding and reading.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// As [`RunningProgram::cpu_time`].
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.program.cpu_time()
    }

    /// How far it is: notifications in the store, or bytes of the file.
    pub(super) fn progress(&self) -> u64 {
        if self.receiver.is_ringtap() {
            self.said.1.load(Ordering::Relaxed)
        } else {
            self.output.metadata().map_or(0, |data| data.len())
        }
    }

    /// SIGTERM, as rsyslogd does not hear Ctrl-C.
    fn end(&mut self) -> Result<()> {
        let name = self.receiver.name();
        let child = self.program.child();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)
            .map_err(|errno| Error::os("end", name, &errno.into()))?;
        let until = Instant::now() + PATIENCE;
        while child.try_wait().map_err(|error| Error::os("wait for", name, &error))?.is_none() {
            if Instant::now() > until {
                return Err(Error::failed("end", name, "it goes on"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends it, and reads what came out.
    pub(super) fn finish(mut self, folder: &Path) -> Result<Outcome> {
        let (receiver, load) = (self.receiver, self.load);
        self.end()?;
        if !receiver.is_ringtap() {
            let text = fs::read(&self.output).map_err(|error| Error::os("read", "what came out", &error))?;
            return Ok(Outcome { numbers: numbers_in_text(&text, load), reported: Value::Null, alarms: Vec::new() });
        }
        // The reader of the pipe is at its end when the program is.
        std::thread::sleep(Duration::from_millis(50));
        let store = Store::open(&folder.join("store"))?;
        let mut numbers = Vec::new();
        let mut from = 0;
        loop {
            let rows = store.notifications(from, 10_000)?;
            let Some(last) = rows.last() else { break };
            from = last.id + 1;
            numbers.extend(rows.iter().filter_map(|row| number_in_row(&row.raw, row.decrypted.as_deref(), load)));
        }
        let said = self.said.0.lock().expect("nothing panics with it").clone();
        Ok(Outcome { numbers, reported: said, alarms: store.alarms()? })
    }
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default())
        .any(|comm| comm.trim() == name)
}
