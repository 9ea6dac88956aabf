//! The real `ringtap capture` inside a testbed: started, fed with frames, ended, and what it said.
//!
//! Every capture here has its own period, threshold and ring, so that no test waits for a calibration.
#![allow(dead_code)]

pub mod frames;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap::netlink;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap::transmit::TransmitRing;
use ringtap_testbed::peer::resident_bytes;
use ringtap_testbed::{GeneratorConfig, Host, Pattern, Profile, RunningProgram, Testbed, TestbedConfig};
use serde_json::Value;

/// The binary under test.
pub const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// Numbers that would otherwise be calibrated.
pub const NUMBERS: [&str; 6] = ["--period", "500us", "--threshold", "10k", "--ring", "2048"];
/// Enough for a recording of a test's packets.
pub const SPOOL: [&str; 2] = ["--spool", "4MiB"];
/// Longest a program may take to say something or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A testbed, or the reason why the test did not run.
pub fn testbed(test: &str, config: TestbedConfig) -> Testbed {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    Testbed::new(config).unwrap_or_else(|error| panic!("{error}"))
}

/// Standard output of a program that the tests need beside ours.
pub fn tool(test: &str, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("did not run: {test}: {program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// How many packets capinfos(1) finds in a file, which it must find whole.
pub fn packets_in(test: &str, file: &Path) -> u64 {
    let text = tool(test, "capinfos", &["-M", "-c", file.to_str().unwrap()]);
    let line = text.lines().find_map(|line| line.strip_prefix("Number of packets:"));
    line.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
}

/// What a program left.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{:?}: {}", self.status, self.stderr))
    }

    /// The last JSON object.
    pub fn summary(&self) -> Value {
        let text = String::from_utf8_lossy(&self.stdout);
        let last = text.lines().last().unwrap_or_else(|| panic!("no output; {}", self.stderr));
        let value: Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{error} in {text}; {}", self.stderr));
        assert_eq!(value["kind"], "summary", "{value}");
        value
    }

    /// One line `ringtap: …` on standard error that has all of `parts`, and exit code `code`.
    pub fn assert_refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code(), code, "{}", self.stderr);
        let is_error = |line: &&str| {
            line.starts_with("ringtap: ") && !line.contains("warning:") && !line.starts_with("ringtap: capturing from")
        };
        let errors: Vec<&str> = self.stderr.lines().filter(is_error).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        for part in parts {
            assert!(errors[0].contains(part), "{part:?} in {}", errors[0]);
        }
    }
}

/// Runs `ringtap` to its end, here.
pub fn ringtap(arguments: &[&str]) -> Ended {
    let output = Command::new(RINGTAP).args(arguments).output().unwrap();
    Ended { status: output.status, stdout: output.stdout, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// A running `ringtap capture`.
pub struct Capture {
    program: RunningProgram,
    id: u32,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<String>,
    lines: Receiver<String>,
}

impl Capture {
    /// Starts it on the receiver's interface and waits until it captures. Some of [`NUMBERS`] may be given anew.
    pub fn start(testbed: &Testbed, arguments: &[&str]) -> Self {
        let this = Self::begin(testbed.receiver(), arguments);
        this.wait_for("capturing from");
        this
    }

    /// Starts it on a host's interface.
    pub fn begin(host: &Host, arguments: &[&str]) -> Self {
        let mut command = host.command(RINGTAP);
        command.args(["capture", "-i", host.interface(), "--json"]);
        let spool = SPOOL.chunks(2).filter(|_| arguments.contains(&"-w"));
        for pair in NUMBERS.chunks(2).chain(spool).filter(|pair| !arguments.contains(&pair[0])) {
            command.args(pair);
        }
        command.args(arguments);
        Self::of(host, command)
    }

    /// Starts any command on a host.
    pub fn of(host: &Host, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = host.start(command).unwrap();
        let mut stdout = program.child().stdout.take().unwrap();
        let stderr = program.child().stderr.take().unwrap();
        let (told, lines) = mpsc::channel();
        Self {
            id: program.child().id(),
            program,
            stdout: std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).unwrap();
                bytes
            }),
            stderr: std::thread::spawn(move || {
                let mut all = String::new();
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    all.push_str(&line);
                    all.push('\n');
                    let _ = told.send(line);
                }
                all
            }),
            lines,
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What it has in RAM.
    pub fn resident_bytes(&mut self) -> u64 {
        resident_bytes(self.program.child().id()).unwrap()
    }

    /// Waits for a line on standard error with this text.
    pub fn wait_for(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return;
            }
            seen.push(line);
        }
        panic!("no {text:?} but {seen:?}");
    }

    pub fn signal(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.program.child().id() as i32), signal).unwrap();
    }

    /// Sends SIGINT and waits for the end.
    pub fn interrupt(mut self) -> Ended {
        self.signal(Signal::SIGINT);
        self.end()
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.program.child().try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "still running after {PATIENCE:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ended { status, stdout: self.stdout.join().unwrap(), stderr: self.stderr.join().unwrap() }
    }
}

/// Sends `count` numbered packets and waits until all are out; returns how many were accepted by the wire.
pub fn send_numbered(testbed: &Testbed, pps: f64, count: u64) {
    let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(count as f64 / pps * 2.0 + 1.0));
    let traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(count);
    let report = testbed.generate(traffic).unwrap().join().unwrap();
    assert_eq!(report.stamped, count, "{report}");
    std::thread::sleep(Duration::from_millis(30));
}

/// Sends these frames from the testbed's sender, as they are.
pub fn send_frames(testbed: &Testbed, frames: &[Vec<u8>]) {
    send_frames_by(testbed.sender(), testbed.sender().interface(), frames);
}

/// Sends these frames from an interface of a host.
pub fn send_frames_by(host: &Host, interface: &str, frames: &[Vec<u8>]) {
    let mut wire = Wire::open(host, interface);
    wire.send(frames);
    std::thread::sleep(Duration::from_millis(50));
}

/// One end of a wire, to send from; opening and closing it takes longer than sending.
pub struct Wire {
    transmit: TransmitRing,
    _source: PacketSource,
}

impl Wire {
    pub fn open(host: &Host, interface: &str) -> Self {
        let config = PacketRingConfig {
            interface: interface.to_owned(),
            ifindex: host.run(|| netlink::link_by_name(interface)).unwrap().unwrap().index,
            ring_slots: 64,
            transmit_slots: 64,
            frame_size: 16384,
            fetch_oversize: false,
            incoming_only: true,
            filter: None,
        };
        let (source, transmit, _) = host.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
        Self { transmit: transmit.unwrap(), _source: source }
    }

    /// Sends these frames from the calling thread's CPU.
    pub fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            let mut patience = 1000;
            while self
                .transmit
                .send(|room| {
                    room[..frame.len()].copy_from_slice(frame);
                    frame.len()
                })
                .is_none()
            {
                self.transmit.kick();
                std::thread::sleep(Duration::from_millis(1));
                patience -= 1;
                assert!(patience > 0, "the device takes no more");
            }
            self.transmit.kick();
        }
    }
}

/// Nothing of a capture is left on the receiver's interface: no XDP program.
pub fn assert_clean(testbed: &Testbed) {
    let host = testbed.receiver();
    let link = host.run(|| netlink::link_by_name(host.interface())).unwrap().unwrap();
    assert_eq!(link.xdp_program, None);
    assert!(link.up);
}

/// Runs ip(8) on the receiver.
pub fn ip(host: &Host, arguments: &str) {
    let output = host.run(|| Command::new("ip").args(arguments.split(' ')).output().unwrap()).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A folder that another user may enter as well, and a path in it.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    (folder, path)
}
