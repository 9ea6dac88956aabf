//! A running `ringtap correlate --json`: what it tells, line by line, and its end.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The binary under test.
pub const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// What no test should ever wait for.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Running {
    pub child: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts it and waits until it listens.
    pub fn start(arguments: &[&str], listens: impl Fn() -> bool) -> Self {
        let mut command = Command::new(RINGTAP);
        command.args(["correlate", "--json"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let until = Instant::now() + PATIENCE;
        while !listens() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, out }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The next line that is told with this event.
    pub fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let line: Value = serde_json::from_str(&self.out.next().unwrap().unwrap()).unwrap();
            if line["event"] == event {
                return line;
            }
        }
    }

    /// The account, and what was said on standard error.
    pub fn end(mut self) -> (Value, String) {
        self.signal(Signal::SIGTERM);
        let summary = self.wait_for("summary");
        assert!(self.child.wait().unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (summary, said)
    }
}
