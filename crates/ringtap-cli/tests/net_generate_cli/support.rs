//! `ringtap` run inside a testbed's host, and libpcap on the other one: an oracle that shares no code with the sender.

use std::io::Read;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};
use serde_json::Value;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_ringtap");

/// A testbed for the test `name`.
pub(crate) fn testbed(name: &str) -> Testbed {
    assert!(nix::unistd::Uid::effective().is_root(), "did not run: {name}: it needs root");
    Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Starts `ringtap generate` in the sender on its interface, as an ordinary thread: several tests run at the same time.
pub(crate) fn start(testbed: &Testbed, line: &str) -> RunningProgram {
    let arguments = format!("generate -i {} --priority 0 {line}", testbed.sender().interface());
    start_as(testbed.sender(), "", &arguments)
}

/// Starts `ringtap` with `arguments` (split at spaces), with setpriv's `restrictions`.
pub(crate) fn start_as(host: &Host, restrictions: &str, arguments: &str) -> RunningProgram {
    let mut command = host.command("setpriv");
    command.args(restrictions.split_whitespace()).arg("--").arg(BINARY).args(arguments.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host.start(command).unwrap()
}

/// Waits for the end; what it prints fits into a pipe.
pub(crate) fn output(mut program: RunningProgram) -> Output {
    let child = program.child();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_end(&mut err).unwrap();
    Output { status: child.wait().unwrap(), stdout: out, stderr: err }
}

/// Runs it and gives the JSON report; the exit code must be `code`.
pub(crate) fn report(testbed: &Testbed, line: &str, code: i32) -> Value {
    let (got, report) = code_and_report(testbed, line);
    assert_eq!(got, code, "{line}: {report}");
    report
}

/// Runs it and gives exit code and JSON report.
pub(crate) fn code_and_report(testbed: &Testbed, line: &str) -> (i32, Value) {
    let output = output(start(testbed, &format!("{line} --json")));
    let (out, err) = texts(&output);
    let report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}{err}"));
    (output.status.code().unwrap(), report)
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// So long after the last packet there are no more: on a busy machine, what was sent waits for the receiver's NAPI.
const QUIET: Duration = Duration::from_millis(150);

/// libpcap on the receiver's interface.
pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    got: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Listener {
    pub(crate) fn start(testbed: &Testbed) -> Self {
        let host = testbed.receiver();
        let capture = host.run(|| {
            let inactive = pcap::Capture::from_device(host.interface()).unwrap();
            // In immediate mode a packet takes a slot of snaplen: the usual one leaves a thousand.
            inactive.buffer_size(64 << 20).snaplen(2048).immediate_mode(true).open().unwrap().setnonblock().unwrap()
        });
        let mut capture = capture.unwrap();
        capture.direction(pcap::Direction::In).unwrap();
        let (stop, got) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (stop.clone(), got.clone());
        let body = move || {
            let mut packets = Vec::new();
            let mut last = Instant::now();
            loop {
                match capture.next_packet() {
                    Ok(packet) => {
                        packets.push(packet.data.to_vec());
                        last = Instant::now();
                    }
                    Err(pcap::Error::TimeoutExpired) if stopped.load(Ordering::Relaxed) && last.elapsed() > QUIET => {
                        let lost = capture.stats().expect("libpcap counts").dropped;
                        assert_eq!(lost, 0, "the listener itself lost packets");
                        return packets;
                    }
                    Err(pcap::Error::TimeoutExpired) => std::thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("libpcap: {error}"),
                }
                count.store(packets.len(), Ordering::Relaxed);
            }
        };
        Self { stop, got, thread: host.spawn("listener", body).unwrap() }
    }

    /// Waits until so many packets came.
    pub(crate) fn wait_for(&self, packets: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.got.load(Ordering::Relaxed) < packets {
            assert!(Instant::now() < until, "{} of {packets} packets came", self.got.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All packets that came until there were no more.
    pub(crate) fn finish(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
