//! Ordinary receivers to compare with, on the receiver's core: a plain UDP socket and libpcap as loops of this process;
//! tcpdump, dumpcap, netsniff-ng, DPDK's testpmd and Suricata as processes of their own.
//!
//! Owns what all have in common: how they are named, asked for and judged. How each one is run is in `peer/`. What was lost
//! is told by sequence numbers where the peer's packets can be seen; what a peer says itself stands beside it.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ringtap::histogram::HistogramSnapshot;
use ringtap::{Error, Result};

use crate::sequence::SequenceReport;
use crate::testbed::Testbed;

mod capture;
mod in_process;
mod program;
mod recording;
mod suricata;
mod testpmd;

pub use program::resident_bytes;
pub use testpmd::TestpmdForwarder;

/// Bytes of each packet that numbered peers write: headers and stamp.
const SNAPLEN: u32 = 96;

/// Which receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerKind {
    /// recv(2) in a loop on a UDP socket, as a plain server does; it asks nobody what was lost.
    UdpSocket,
    /// libpcap's own loop in this process.
    Libpcap,
    /// tcpdump(8).
    Tcpdump,
    /// dumpcap(1), the program that captures for Wireshark.
    Dumpcap,
    /// netsniff-ng(8).
    NetsniffNg,
    /// DPDK's testpmd, rxonly, on its AF_XDP driver; spins.
    TestpmdAfXdp,
    /// DPDK's testpmd, rxonly, on its AF_PACKET driver; spins.
    TestpmdAfPacket,
    /// Suricata on AF_PACKET (TPACKET_V3), one worker.
    SuricataAfPacket,
    /// Suricata on AF_XDP, one worker; polls busily, as is its default there.
    SuricataAfXdp,
}

impl PeerKind {
    /// Every one.
    pub fn all() -> [Self; 9] {
        [
            Self::UdpSocket,
            Self::Libpcap,
            Self::Tcpdump,
            Self::Dumpcap,
            Self::NetsniffNg,
            Self::TestpmdAfXdp,
            Self::TestpmdAfPacket,
            Self::SuricataAfPacket,
            Self::SuricataAfXdp,
        ]
    }

    /// Short name for tables and the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::UdpSocket => "udp-socket",
            Self::Libpcap => "libpcap",
            Self::Tcpdump => "tcpdump",
            Self::Dumpcap => "dumpcap",
            Self::NetsniffNg => "netsniff-ng",
            Self::TestpmdAfXdp => "testpmd-af-xdp",
            Self::TestpmdAfPacket => "testpmd-af-packet",
            Self::SuricataAfPacket => "suricata-af-packet",
            Self::SuricataAfXdp => "suricata-af-xdp",
        }
    }

    /// What is installed, in the peer's own words.
    ///
    /// # Errors
    /// It is not installed, or too old; the error says how to get it.
    pub fn version(self) -> Result<String> {
        match self {
            Self::UdpSocket => in_process::kernel_version(),
            Self::Libpcap => in_process::libpcap_version(),
            Self::Tcpdump | Self::Dumpcap | Self::NetsniffNg => capture::version(self),
            Self::TestpmdAfXdp | Self::TestpmdAfPacket => testpmd::version(),
            Self::SuricataAfPacket | Self::SuricataAfXdp => suricata::version(),
        }
    }

    /// Whether it attaches an XDP program, which gives a veth its NAPI; for the others the testbed has to
    /// ([`Testbed::place_napi`]).
    pub fn attaches_xdp(self) -> bool {
        matches!(self, Self::TestpmdAfXdp | Self::SuricataAfXdp)
    }
}

/// How a peer is to be run. What it can't follow is said in [`PeerReport::note`].
#[derive(Debug, Clone, Default)]
pub struct PeerOptions {
    /// Most packets the traffic can have; bounds the memory of sequence checks.
    pub expected: u64,
    /// Size of its ring or socket buffer in bytes; `None`: what it takes by default.
    pub buffer_bytes: Option<u64>,
    /// Take its loss from sequence numbers: programs write the first 96 bytes of each packet to a file in memory. Without it
    /// programs write to /dev/null. The loops of this process always look at the numbers.
    pub numbered: bool,
    /// Rules for Suricata; `None`: no rules.
    pub rules: Option<PathBuf>,
    /// HOME_NET for Suricata, the other variables then as its stock configuration has them; `None`: any, for all of them.
    pub home_net: Option<String>,
    /// Interface of the receiving host that Suricata listens on; `None`: the testbed's wire.
    pub interface: Option<String>,
    /// Datagram socket in the receiving host that Suricata's alerts go to by syslog(3), instead of a file of its own.
    pub syslog: Option<PathBuf>,
}

/// What a peer leaves.
#[derive(Debug, Clone, Default)]
pub struct PeerReport {
    /// Packets it handled, by its own count.
    pub received: u64,
    /// What the sequence numbers say; `None` where its packets can't be seen.
    pub sequence: Option<SequenceReport>,
    /// Packets it says came to it: those it handled and those it says were dropped.
    pub claims_received: Option<u64>,
    /// Packets it says were dropped.
    pub claims_dropped: Option<u64>,
    /// From transmit stamp to handler, nanoseconds; loops of this process only.
    pub delivery: Option<HistogramSnapshot>,
    /// Its packet buffers in bytes: rings, socket buffers, UMEM.
    pub memory_bytes: Option<u64>,
    /// Alarms it raised; Suricata with rules only.
    pub alarms: Option<u64>,
    /// Memory it had in RAM at its end (VmRSS), bytes; programs that were asked for it only.
    pub resident_bytes: Option<u64>,
    /// What was done otherwise than asked, and what to know when comparing.
    pub note: Vec<String>,
}

/// What every way of running a peer can do.
trait Receiving: Send {
    /// Packets handled so far; `None` where it can't be asked.
    fn received(&mut self) -> Result<Option<u64>>;
    /// Waits until it has worked off what came.
    fn settle(&mut self) -> Result<()>;
    /// Ends it, after `sent` packets numbered from 0.
    fn finish(self: Box<Self>, sent: u64) -> Result<PeerReport>;
}

/// A peer at work on the receiver's core, under the ordinary scheduler as such programs run. Dropping it ends it; one that
/// attaches an XDP program has to be [finished](Self::finish) to take it off again, else the testbed is of no more use.
pub struct RunningPeer(Box<dyn Receiving>);

impl RunningPeer {
    /// Starts it inside the receiver; returns when it listens. The NAPI is placed after that ([`Testbed::place_napi`]).
    ///
    /// # Errors
    /// It is not installed or does not come up; the error has its own words.
    pub fn start(testbed: &Testbed, kind: PeerKind, options: &PeerOptions) -> Result<Self> {
        Ok(Self(match kind {
            PeerKind::UdpSocket => Box::new(in_process::udp(testbed, options)?),
            PeerKind::Libpcap => Box::new(in_process::libpcap(testbed, options)?),
            PeerKind::Tcpdump | PeerKind::Dumpcap | PeerKind::NetsniffNg => {
                Box::new(capture::start(testbed, kind, options)?)
            }
            PeerKind::TestpmdAfXdp | PeerKind::TestpmdAfPacket => Box::new(testpmd::start(testbed, kind, options)?),
            PeerKind::SuricataAfPacket | PeerKind::SuricataAfXdp => Box::new(suricata::start(testbed, kind, options)?),
        }))
    }

    /// Packets handled so far; `None` for those that can be asked only at their end.
    ///
    /// # Errors
    /// It has ended.
    pub fn received(&mut self) -> Result<Option<u64>> {
        self.0.received()
    }

    /// Waits, after the traffic, until it has worked off what its ring holds: some hand packets over a second late.
    ///
    /// # Errors
    /// It has ended, or is never done.
    pub fn settle(&mut self) -> Result<()> {
        self.0.settle()
    }

    /// Ends it and tells what it got of `sent` packets numbered from 0. What has not [settled](Self::settle) is lost to most.
    ///
    /// # Errors
    /// It failed meanwhile, or what it says at its end can't be read.
    pub fn finish(self, sent: u64) -> Result<PeerReport> {
        self.0.finish(sent)
    }
}

/// Waits until `count` stands still for `hold`; 5 s at most.
fn stands_still(name: &str, hold: Duration, mut count: impl FnMut() -> Result<u64>) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(5);
    let mut last = count()?;
    for _ in 0..LIMIT.as_millis().div_ceil(hold.as_millis().max(1)) {
        thread::sleep(hold);
        let now = count()?;
        if now == last {
            return Ok(());
        }
        last = now;
    }
    Err(Error::failed("wait for", name, "it still receives 5 s after the traffic ended"))
}
