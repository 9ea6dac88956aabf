//! DPDK's testpmd as a peer, on its AF_XDP and its AF_PACKET driver: in rxonly mode as a receiver, in others as a forwarder.
//!
//! Owns its arguments, the conversation with its prompt and the meaning of its port statistics. Its one forwarding core and
//! its main core are both the receiver's: the main one sleeps at the prompt, the forwarding one spins.

use std::ffi::OsString;
use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringtap::{Error, Result};

use super::program::{Program, ProgramSpec};
use super::{PeerKind, PeerOptions, PeerReport, Receiving, stands_still};
use crate::folder::Folder;
use crate::testbed::Testbed;

// Into a file it would keep its answers to itself until its end.
const KNOWN: ProgramSpec = ProgramSpec { program: "dpdk-testpmd", package: "dpdk-dev", line_buffered: true };
/// Buffers of its pool: both rings of the AF_XDP driver and what is on the way, with room to spare.
const MBUFS: u64 = 16_384;
/// Data room of a buffer, its default (RTE_MBUF_DEFAULT_BUF_SIZE).
const MBUF_BYTES: u64 = 2176;
/// The AF_PACKET driver's default.
const FRAME_BYTES: u64 = 2048;
/// DPDK takes seconds to set itself up on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);

pub(super) struct Testpmd {
    program: Program,
    prompt: ChildStdin,
    /// Counted before the traffic.
    before: PortStatistics,
    note: Vec<String>,
    /// Its runtime folder.
    _folder: Folder,
}

/// Of `show port stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PortStatistics {
    packets: u64,
    missed: u64,
    errors: u64,
    without_buffer: u64,
}

impl PortStatistics {
    /// The first whole block in `said`.
    fn read(said: &str) -> Option<Self> {
        // The block goes on behind what is looked for here, so none of the numbers is cut short.
        let block = said.split_once("NIC statistics for port 0")?.1;
        let block = block.split_once("TX-packets:")?.0;
        let value = |name: &str| block.split_once(name)?.1.split_whitespace().next()?.parse().ok();
        Some(Self {
            packets: value("RX-packets:")?,
            missed: value("RX-missed:")?,
            errors: value("RX-errors:")?,
            without_buffer: value("RX-nombuf:")?,
        })
    }

    fn dropped(self) -> u64 {
        self.missed + self.errors + self.without_buffer
    }
}

pub(super) fn version() -> Result<String> {
    // It tells its version before it does anything; whether it gets any further is no matter.
    let line = KNOWN.says(&["-v", "--in-memory", "--no-pci", "--no-telemetry", "-m", "1", "--", "--help"], "'DPDK ")?;
    Ok(line.trim_matches('\'').to_owned())
}

pub(super) fn start(testbed: &Testbed, kind: PeerKind, options: &PeerOptions) -> Result<Testpmd> {
    let folder = Folder::new(testbed)?;
    let mut note = vec![format!("its pool of {MBUFS} buffers of {MBUF_BYTES} bytes is counted as memory")];
    if options.numbered {
        note.push("rxonly keeps no packet, so there are no sequence numbers".to_owned());
    }
    let interface = testbed.receiver().interface();
    let device = match kind {
        PeerKind::TestpmdAfXdp => {
            if options.buffer_bytes.is_some() {
                note.push("the size of its AF_XDP rings can't be set".to_owned());
            }
            format!("net_af_xdp0,iface={interface}")
        }
        _ => {
            let ring = options.buffer_bytes.map(|bytes| {
                // Whole blocks of two frames.
                let frames = (bytes / FRAME_BYTES).next_multiple_of(2).max(2);
                format!(",framesz={FRAME_BYTES},framecnt={frames}")
            });
            note.push("its AF_PACKET driver maps a transmit ring as large as the receive ring".to_owned());
            format!("net_af_packet0,iface={interface}{}", ring.unwrap_or_default())
        }
    };
    let mut program = launch(testbed, &folder, &[device], "rxonly")?;
    let prompt = program.stdin().ok_or_else(|| Error::failed("start", KNOWN.program, "it has no standard input"))?;
    let mut this = Testpmd { program, prompt, before: PortStatistics::default(), note, _folder: folder };
    this.before = this.statistics()?;
    Ok(this)
}

/// Starts it with these devices, forwarding in this mode.
fn launch(testbed: &Testbed, folder: &Folder, devices: &[String], mode: &str) -> Result<Program> {
    let core = testbed.config().receiver_core;
    let environment = ["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"].map(str::to_owned);
    let mut arguments = vec!["--lcores".to_owned(), format!("0@{core},1@{core}")];
    arguments.extend(environment);
    arguments.extend(devices.iter().map(|device| format!("--vdev={device}")));
    arguments.extend(["--", "-i", "--auto-start", "--rxq=1", "--txq=1"].map(str::to_owned));
    arguments.extend([format!("--forward-mode={mode}"), format!("--total-num-mbufs={MBUFS}")]);
    let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    let mut program = Program::start(testbed, KNOWN, &[], &arguments, |command| {
        command.env("RUNTIME_DIRECTORY", folder.inside()).stdin(Stdio::piped());
    })?;
    program.wait_for(&format!("{mode} packet forwarding packets/burst"), START_LIMIT)?;
    Ok(program)
}

/// testpmd between two interfaces of the receiving host, both ways. Its forwarding core spins.
pub struct TestpmdForwarder {
    program: Program,
    prompt: ChildStdin,
    /// Its runtime folder.
    _folder: Folder,
}

impl TestpmdForwarder {
    /// Starts it on `driver` (`af_packet` or `af_xdp`) in forwarding mode `mode` (`io`, `macswap`).
    ///
    /// # Errors
    /// testpmd is missing, or a device of its can't be had.
    pub fn start(testbed: &Testbed, driver: &str, mode: &str, interfaces: [&str; 2]) -> Result<Self> {
        let folder = Folder::new(testbed)?;
        let devices = [0, 1].map(|port: usize| format!("net_{driver}{port},iface={}", interfaces[port]));
        let mut program = launch(testbed, &folder, &devices, mode)?;
        let prompt =
            program.stdin().ok_or_else(|| Error::failed("start", KNOWN.program, "it has no standard input"))?;
        Ok(Self { program, prompt, _folder: folder })
    }

    /// Ends it.
    ///
    /// # Errors
    /// It has ended before, or does not.
    pub fn finish(mut self) -> Result<()> {
        for line in ["stop", "quit"] {
            self.program.check_alive("end")?;
            writeln!(self.prompt, "{line}")
                .and_then(|()| self.prompt.flush())
                .map_err(|error| Error::os(format!("say {line:?} to"), KNOWN.program, &error))?;
        }
        self.program.wait_for_end(START_LIMIT)
    }
}

impl Testpmd {
    fn say(&mut self, line: &str) -> Result<()> {
        self.program.check_alive("ask")?;
        writeln!(self.prompt, "{line}")
            .and_then(|()| self.prompt.flush())
            .map_err(|error| Error::os(format!("say {line:?} to"), KNOWN.program, &error))
    }

    /// Asks for its port statistics.
    fn statistics(&mut self) -> Result<PortStatistics> {
        let from = self.program.said().len();
        self.say("show port stats 0")?;
        let until = Instant::now() + START_LIMIT;
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
            if let Some(statistics) = self.program.said().get(from..).and_then(PortStatistics::read) {
                return Ok(statistics);
            }
            self.program.check_alive("ask")?;
        }
        Err(Error::failed("ask", KNOWN.program, format!("no port statistics within {START_LIMIT:?}")))
    }
}

impl Receiving for Testpmd {
    fn received(&mut self) -> Result<Option<u64>> {
        Ok(Some(self.statistics()?.packets - self.before.packets))
    }

    fn settle(&mut self) -> Result<()> {
        stands_still(KNOWN.program, Duration::from_millis(20), || Ok(self.statistics()?.packets))
    }

    fn finish(mut self: Box<Self>, _sent: u64) -> Result<PeerReport> {
        let memory_bytes = self.program.ring_bytes().map(|rings| rings + MBUFS * MBUF_BYTES);
        let now = self.statistics()?;
        self.say("stop")?;
        self.say("quit")?;
        self.program.wait_for_end(START_LIMIT)?;
        let received = now.packets - self.before.packets;
        let dropped = now.dropped() - self.before.dropped();
        Ok(PeerReport {
            received,
            claims_received: Some(received + dropped),
            claims_dropped: Some(dropped),
            memory_bytes,
            note: self.note,
            ..PeerReport::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_statistics_are_read_when_whole() {
        let said = "testpmd> show port stats 0\n\n  ######## NIC statistics for port 0  ########\n  \
                    RX-packets: 4010       RX-missed: 2          RX-bytes:  240852\n  RX-errors: 1\n  \
                    RX-nombuf:  3         \n  TX-packets: 0          TX-errors: 0\n";
        let whole = PortStatistics { packets: 4010, missed: 2, errors: 1, without_buffer: 3 };
        assert_eq!((PortStatistics::read(said), whole.dropped()), (Some(whole), 6));
        assert_eq!(PortStatistics::read(said.split_once("TX-packets").unwrap().0), None);
    }
}
