//! Options about receiving on interfaces, for every command that does, and where their summary goes.
//!
//! Owns their spelling and the one conversion to what a receiver is asked for (`ringtap_run::live`). What one command alone has
//! is in its module.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;
use ringtap::receiver::{Backend, Queues};
use ringtap_run::arguments::{self, Napi};
use ringtap_run::dpdk::DpdkOptions;
use ringtap_run::live::Live;
use ringtap_run::units::{self, List};
use ringtap_run::waiting::{Threshold, Waiting};

use crate::words::{Words, one_of};

/// Ways to take packets beside the kernel's stack or instead of it.
const WAYS: Words<Backend> = &[AUTO, XDP, PACKET];

/// The same, and DPDK's ports, for commands that have [`DpdkArgs`].
pub const WITH_DPDK: Words<Backend> = &[AUTO, XDP, PACKET, DPDK];

type Way = (&'static str, &'static str, Backend);
const AUTO: Way = ("auto", "AF_XDP where the host itself does not miss the packets, else a packet ring", Backend::Auto);
const XDP: Way = ("xdp", "AF_XDP: the host does not see these packets", Backend::Xdp);
const PACKET: Way = ("packet", "A packet socket's ring, beside the host", Backend::Packet);

/// What a command's own list of ways says of DPDK.
pub const DPDK: Way = ("dpdk", "A port of DPDK's, by its name there; sleeps by its receive interrupt", Backend::Dpdk);

/// Options of every receiver.
#[derive(Debug, clap::Args)]
pub struct LiveArgs {
    /// Longest time from a packet's arrival to its handling, 10us to 1s; period, threshold and ring follow from it
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration, help_heading = "Waiting")]
    max_latency: Duration,
    /// Greatest packet rate to be ready for: it sizes the ring, and a lower one lets the kernel pause longer
    #[arg(long, value_name = "RATE", default_value = "1.5M", value_parser = units::rate, help_heading = "Waiting")]
    peak_rate: f64,
    /// How packets are taken: auto takes AF_XDP only where the host itself does not miss them
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(WAYS), help_heading = "Taking packets")]
    pub backend: Backend,
    /// Receive queues: all, a number of them, or a list such as 0-3,5
    #[arg(long, value_name = "all|N|LIST", default_value = "all", value_parser = arguments::queues, help_heading = "Taking packets")]
    queues: Queues,
    /// CPUs of the engine threads, in order of queues [default: the last allowed ones]
    #[arg(long, value_name = "LIST", value_parser = units::list, help_heading = "Threads")]
    cpu: Option<List>,
    /// SCHED_FIFO priority of the engine threads, 1 to 99; 0: ordinary threads
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=99), help_heading = "Threads")]
    priority: u8,
    /// Once all is set up, go on as this user; files are created with that user's rights
    #[arg(long, value_name = "NAME", help_heading = "Threads")]
    pub user: Option<String>,
    /// Keep all privileges: no Landlock, no seccomp, all capabilities (docs/privileges.md)
    #[arg(long, help_heading = "Threads")]
    pub no_sandbox: bool,
}

impl LiveArgs {
    /// What is asked of the receiver of an interface.
    pub fn live(&self, interface: impl Into<String>) -> Live {
        Live {
            backend: self.backend,
            queues: self.queues.clone(),
            cpus: self.cpu.as_ref().map(|list| list.to_vec()).unwrap_or_default(),
            priority: self.priority,
            max_latency: self.max_latency,
            peak_pps: self.peak_rate,
            ..Live::new(interface)
        }
    }
}

/// What belongs to [`DPDK`], for the commands that have it.
#[derive(Debug, clap::Args)]
pub struct DpdkArgs {
    /// Arguments of DPDK's EAL for --backend dpdk, such as "--vdev=net_vhost0,iface=/run/ringtap/port" (docs/dpdk.md)
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, help_heading = "Taking packets")]
    dpdk_args: Option<String>,
    /// libringtap-dpdk.so for --backend dpdk [default: the one installed or built with this program]
    #[arg(long, value_name = "FILE", help_heading = "Taking packets")]
    dpdk_library: Option<PathBuf>,
}

impl DpdkArgs {
    /// What was said.
    pub fn options(&self) -> DpdkOptions {
        DpdkOptions { library: self.dpdk_library.clone(), arguments: self.dpdk_args.clone() }
    }
}

/// Options that say how an interface's packets are waited for and taken, by which threads, and where it may be looked at: a file has no use for them.
pub fn of_interfaces_alone(option: &Arg) -> bool {
    let id = option.get_id().as_str();
    option.get_help_heading().is_some_and(|heading| ["Waiting", "Taking packets", "Being looked at"].contains(&heading))
        || ["cpu", "handlers", "priority"].contains(&id)
}

/// What is told instead of planned.
#[derive(Debug, clap::Args)]
pub struct TuningArgs {
    /// Poll period of the timer [default: from --max-latency and this host's calibration, see `ringtap plan`]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Waiting")]
    period: Option<Duration>,
    /// Rate above which the timer takes over; several as RATE:PERIOD make a ladder [default: calibrated]
    #[arg(long, value_name = "RATE[:PERIOD]", value_parser = arguments::threshold, help_heading = "Waiting")]
    threshold: Vec<Threshold>,
    /// Pace the kernel's NAPI: auto, off, or its pause
    #[arg(long, value_name = "auto|off|TIME", default_value = "auto", value_parser = arguments::napi, help_heading = "Waiting")]
    napi_pacing: Napi,
    /// Slots of each receive ring, 64 to 1048576, a power of two for AF_XDP [default: calibrated]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Taking packets")]
    ring: Option<u64>,
    /// Leave the interface's promiscuous mode alone
    #[arg(long, help_heading = "Taking packets")]
    no_promiscuous: bool,
}

impl TuningArgs {
    /// `live` with what was told.
    pub fn tuned(&self, live: Live) -> Live {
        Live {
            ring_slots: self.ring,
            promiscuous: !self.no_promiscuous,
            waiting: Waiting { period: self.period, thresholds: self.threshold.clone(), ..live.waiting },
            napi_pause_ns: self.napi_pacing.0,
            ..live
        }
    }
}

/// How a run is told of.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Report at this interval: a progress line, with --json one object a line
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Reports")]
    pub stats: Option<Duration>,
    /// One JSON object at the end on standard output, and with --stats one for each interval; all else goes to standard error
    #[arg(long, help_heading = "Reports")]
    pub json: bool,
}

/// Tells the end. Nobody may be left to read it, which is no failure of the run.
pub fn tell(text: &str, stdout_has_data: bool) {
    let _ = put(text, stdout_has_data);
}

/// Writes to standard output, to standard error where that has data.
pub fn put(text: &str, stdout_has_data: bool) -> io::Result<()> {
    if stdout_has_data {
        write!(io::stderr(), "{text}")
    } else {
        write!(io::stdout(), "{text}").and_then(|()| io::stdout().flush())
    }
}
