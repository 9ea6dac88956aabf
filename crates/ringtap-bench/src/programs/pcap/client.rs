//! Clients of libpcap: how each is started, and what it says it got.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::{RunningProgram, Testbed};

/// As the tests of the library use it: DIR is its folder.
const SURICATA: &str = include_str!("../../../../ringtap-pcap/tests/support/suricata.yaml");

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Writes packets to /dev/null.
    Tcpdump,
    /// In pcap mode, one thread, 160 rules.
    Suricata,
}

/// What a client says it got, and what it says was lost, packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) captured: u64,
    pub(super) received: u64,
    pub(super) dropped: u64,
    pub(super) dropped_by_interface: u64,
}

/// A client at work.
pub(super) struct Running {
    client: Client,
    program: RunningProgram,
    folder: tempfile::TempDir,
}

impl Client {
    /// By its name in the definitions.
    pub(super) fn find(name: &str) -> Result<Self> {
        match name {
            "tcpdump" => Ok(Self::Tcpdump),
            "suricata" => Ok(Self::Suricata),
            _ => Err(Error::usage("measure", name, "the study `pcap` has no such client")
                .way_out("choose tcpdump or suricata")),
        }
    }

    /// Starts it on the receiver's core, after `configure`; returns when it should capture.
    pub(super) fn start(self, testbed: &Testbed, configure: impl FnOnce(&mut Command)) -> Result<Running> {
        let receiver = testbed.receiver();
        let folder = tempfile::tempdir().map_err(|error| Error::os("make", "a folder", &error))?;
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: String| {
            std::fs::write(path(name), text).map_err(|error| Error::os("write", name, &error))
        };
        let mut command = receiver.command("taskset");
        command.args(["-c", &testbed.config().receiver_core.to_string()]);
        let start = match self {
            Self::Tcpdump => {
                command.args(["tcpdump", "-n", "-Z", "root", "-w", "/dev/null", "-i", receiver.interface(), "udp"]);
                Duration::from_millis(1500)
            }
            Self::Suricata => {
                write("160.rules", rules())?;
                write("suricata.yaml", SURICATA.replace("DIR", &folder.path().display().to_string()))?;
                command.arg("suricata").arg(format!("--pcap={}", receiver.interface()));
                command.args(["-vv", "--runmode", "single", "-k", "none", "-c"]).arg(path("suricata.yaml"));
                command.arg("-S").arg(path("160.rules")).arg("-l").arg(folder.path());
                Duration::from_secs(6)
            }
        };
        let failed = |error: std::io::Error| Error::os("write", "what the client says", &error);
        let words = File::create(path("words")).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(words.try_clone().map_err(failed)?).stderr(words);
        configure(&mut command);
        let mut program = receiver.start(command)?;
        std::thread::sleep(start);
        if let Ok(Some(status)) = program.child().try_wait() {
            let said = std::fs::read_to_string(path("words")).unwrap_or_default();
            return Err(Error::failed("start", format!("{self:?}"), format!("{status}: {}", said.trim())));
        }
        Ok(Running { client: self, program, folder })
    }
}

impl Running {
    /// Ends it; what it said.
    pub(super) fn finish(self) -> Result<Said> {
        self.program.interrupt()?;
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        Ok(match self.client {
            Client::Tcpdump => tcpdump_said(&read("words")),
            Client::Suricata => suricata_said(&read("eve.json"), &read("words")),
        })
    }
}

fn tcpdump_said(words: &str) -> Said {
    let count = |what: &str| words.lines().find_map(|line| line.strip_suffix(what)?.trim().parse().ok()).unwrap_or(0);
    Said {
        captured: count("packets captured").max(count("packet captured")),
        received: count("packets received by filter"),
        dropped: count("packets dropped by kernel"),
        dropped_by_interface: count("packets dropped by interface"),
    }
}

/// What it decoded by its log; what it received by its last words, as the log's capture counters are up to a second old.
fn suricata_said(log: &str, words: &str) -> Said {
    let mut events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = events.rfind(|event| event["event_type"] == "stats").unwrap_or_default();
    let count = |group: &str, name: &str| last["stats"][group][name].as_u64().unwrap_or(0);
    // "…: pcap total:444000 recv:444000 drop:0 (0.0%)"
    let total = words.lines().rev().find_map(|line| line.split_once("pcap total:")).map_or("", |(_, counts)| counts);
    let number = |text: &str| text.split(' ').next().and_then(|digits| digits.parse().ok());
    let dropped = total.split_once("drop:").and_then(|(_, rest)| number(rest));
    Said {
        captured: count("decoder", "pkts"),
        received: number(total).unwrap_or_else(|| count("capture", "kernel_packets")),
        dropped: dropped.unwrap_or_else(|| count("capture", "kernel_drops")),
        dropped_by_interface: count("capture", "kernel_ifdrops"),
    }
}

/// 160 rules that look into every datagram and find nothing.
fn rules() -> String {
    let rule = |sid: u32| {
        let pattern = sid.wrapping_mul(0x9e37_79b1);
        format!("alert udp any any -> any any (msg:\"{sid}\"; content:\"p{pattern:08x}q\"; sid:{sid}; rev:1;)\n")
    };
    (1..=160).map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_read() {
        let words = "444000 packets captured\n444001 packets received by filter\n1 packet dropped by kernel\n0 packets dropped by kernel\n";
        let said = Said { captured: 444_000, received: 444_001, dropped: 0, dropped_by_interface: 0 };
        assert_eq!(tcpdump_said(words), said);
        let log =
            "{\"event_type\":\"stats\",\"stats\":{\"decoder\":{\"pkts\":7},\"capture\":{\"kernel_ifdrops\":2}}}\n";
        let said = suricata_said(log, "Notice: pcap total:9 recv:8 drop:1 (0.0%)\n");
        assert_eq!(said, Said { captured: 7, received: 9, dropped: 1, dropped_by_interface: 2 });
    }
}
