//! Both ends of a wire: DPDK's testpmd at its prompt, our commands, and files of numbered packets.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};
use serde_json::Value;

use crate::capture_support::{Capture, Ended, RINGTAP, testbed, tool};

pub const COUNT: u32 = 20_000;
/// Longest testpmd may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number's place in a packet: behind an Ethernet header.
const NUMBER: usize = 14;
const PACKET_BYTES: usize = 64;

/// The library, built once for all tests.
fn library(test: &str) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        tool(test, concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/dpdk"), &[folder.to_str().unwrap()]);
        folder.join("libringtap-dpdk.so")
    })
}

/// Two ends of one wire, and where it is.
pub struct Place {
    testbed: Testbed,
    pub folder: tempfile::TempDir,
    library: &'static Path,
}

impl Place {
    pub fn new(test: &str) -> Self {
        let library = library(test);
        Self {
            testbed: testbed(test, TestbedConfig::default()),
            folder: tempfile::Builder::new().prefix("ringtap-dpdk").tempdir().unwrap(),
            library,
        }
    }

    pub fn host(&self) -> &Host {
        self.testbed.receiver()
    }

    pub fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The driver's side, and the device's, of the wire `name`.
    pub fn virtio_user(&self, name: &str) -> String {
        format!("--vdev=virtio_user0,path={}", self.at(name))
    }

    pub fn vhost(&self, name: &str) -> String {
        format!("--vdev=net_vhost0,iface={}", self.at(name))
    }

    /// A capture of a port, by this way of waiting.
    pub fn capture(&self, port: &str, device: &str, arguments: &[&str]) -> Capture {
        let mut command = self.command(port, device);
        command.args(["--ring", "1024", "--json"]).args(arguments);
        let capture = Capture::of(self.host(), command);
        capture.wait_for("capturing from");
        capture
    }

    pub fn command(&self, port: &str, device: &str) -> Command {
        self.taking("capture", port, device)
    }

    /// A command that takes packets from a port.
    pub fn taking(&self, command: &str, port: &str, device: &str) -> Command {
        let mut command = self.with_library(&[command, "--dpdk-args", device]);
        command.args(["--backend", "dpdk", "-i", port]);
        command
    }

    pub fn with_library(&self, arguments: &[&str]) -> Command {
        let mut command = self.host().command(RINGTAP);
        // What EAL keeps beside its memory.
        command.args(arguments).arg("--dpdk-library").arg(self.library).env("RUNTIME_DIRECTORY", self.folder.path());
        command
    }

    /// A capture file of numbered packets from `first` on.
    pub fn numbered(&self, name: &str, first: u32, count: u32) -> String {
        let numbered = |number: u32| {
            let mut packet = [0u8; PACKET_BYTES];
            packet[..6].fill(0xff);
            packet[12..14].copy_from_slice(&[0x88, 0xb5]);
            packet[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
            packet.to_vec()
        };
        self.file_of(name, (first..first + count).map(numbered))
    }

    /// A capture file of these packets.
    pub fn file_of(&self, name: &str, packets: impl Iterator<Item = Vec<u8>>) -> String {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
        for packet in packets {
            bytes.extend(words(&[0, 0, packet.len() as u32, packet.len() as u32]));
            bytes.extend(packet);
        }
        let path = self.at(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Testpmd with `device` as its port 0, which will send these packets.
    pub fn testpmd(&self, device: &str, packets: &str) -> Testpmd {
        Testpmd::start(self, device, packets)
    }
}

/// testpmd at its prompt.
pub struct Testpmd {
    pub program: RunningProgram,
    prompt: ChildStdin,
    said: Arc<Mutex<String>>,
}

impl Testpmd {
    fn start(place: &Place, device: &str, packets: &str) -> Self {
        // Into a pipe it would keep its answers to itself until its end.
        let mut command = place.host().command("stdbuf");
        command.args(["-oL", "dpdk-testpmd"]);
        let memory = ["--no-huge", "--no-shconf", "-m", "128", "--no-pci", "--no-telemetry", "--lcores=0@0,1@0"];
        command.args(memory).args([device, &format!("--vdev=net_pcap0,rx_pcap={packets}"), "--"]);
        // Without flushing, which would eat what the file has.
        command.args(["-i", "--rxq=1", "--txq=1", "--total-num-mbufs=4096", "--no-flush-rx"]);
        command.env("RUNTIME_DIRECTORY", place.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut program = place.host().start(command).unwrap_or_else(|error| panic!("did not run: {error}"));
        let mut stdout = program.child().stdout.take().unwrap();
        let prompt = program.child().stdin.take().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut some) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..count]));
            }
        });
        let this = Self { program, prompt, said };
        this.wait_for(0, "testpmd> ");
        this
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits for a text behind what was said before; returns what was said since then.
    pub fn wait_for(&self, from: usize, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if said.get(from..).is_some_and(|since| since.contains(text)) {
                return said[from..].to_owned();
            }
            assert!(Instant::now() < until, "no {text:?} in {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn say(&mut self, line: &str) -> usize {
        let from = self.said().len();
        writeln!(self.prompt, "{line}").unwrap();
        self.prompt.flush().unwrap();
        from
    }

    /// Sends all `count` packets of its file, in bursts of 32 at a time, waiting where there is no room.
    pub fn send_all(&mut self, count: u32) {
        self.begin();
        self.wait_until_sent(count);
        let from = self.say("stop");
        self.wait_for(from, "Done.");
    }

    /// Begins to send its file, and to take what comes.
    pub fn begin(&mut self) {
        self.say("set fwd io retry");
        self.say("set burst tx delay 10 retry 100000");
        let from = self.say("start");
        self.wait_for(from, "packets/burst");
    }

    pub fn wait_until_sent(&mut self, count: u32) {
        let until = Instant::now() + PATIENCE;
        while self.sent() < u64::from(count) {
            assert!(Instant::now() < until, "{} of {count} were sent", self.sent());
        }
    }

    /// Packets that its port 0 has sent.
    pub fn sent(&mut self) -> u64 {
        let from = self.say("show port stats 0");
        let block = self.wait_for(from, "Tx-bps:");
        let sent = block.split_once("TX-packets:").unwrap().1;
        sent.split_whitespace().next().unwrap().parse().unwrap()
    }

    pub fn quit(mut self) {
        self.say("quit");
        let until = Instant::now() + PATIENCE;
        while self.program.child().try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Numbers of the packets in a file.
pub fn numbers(test: &str, file: &str) -> BTreeSet<u32> {
    let text = tool(test, "tshark", &["-r", file, "-T", "fields", "-e", "data.data"]);
    text.lines().map(|line| u32::from_str_radix(&line[..8], 16).unwrap()).collect()
}

pub fn assert_whole(test: &str, ended: &Ended, file: &str, wanted: std::ops::Range<u32>) -> Value {
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    let count: u64 = wanted.len() as u64;
    let ledger = &summary["ledger"];
    for (name, packets) in [("offered", count), ("delivered", count), ("lost", 0), ("unaccounted", 0)] {
        assert_eq!(ledger[name], packets, "{name}: {summary}");
    }
    assert_eq!(summary["backend"], "dpdk");
    assert!(numbers(test, file).into_iter().eq(wanted), "each number once");
    summary
}

pub const WAITS: [(&str, &[&str]); 3] = [
    ("interrupt", &["--wait", "interrupt"]),
    ("timer", &["--wait", "timer", "--period", "500us"]),
    ("hybrid", &["--wait", "hybrid", "--period", "500us", "--threshold", "10k"]),
];
