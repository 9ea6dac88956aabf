//! `ringtap forward`: two interfaces become one wire.
//!
//! Owns the options and where the summary goes. Forwarding is `ringtap-forward`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::Result;
use ringtap_forward::forward::{self, Options};
use ringtap_run::units;

use crate::live::{DpdkArgs, LiveArgs, ReportArgs, TuningArgs, WITH_DPDK, tell};
use crate::outputs::PlacesArgs;
use crate::words::one_of;

/// Make one wire of two interfaces: what comes by the first leaves by the second, with --both also the other way.
///
/// By AF_XDP the two share their memory, and packets are handed over without a copy; by packet rings and DPDK they are copied
/// once. One thread serves both interfaces and sleeps within --max-latency. Every packet is accounted for. docs/forward.md tells more.
///
/// Ends on Ctrl-C or SIGTERM with the summary; a second Ctrl-C ends at once. SIGUSR1 prints the account.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("backend", |backend| backend.value_parser(one_of(WITH_DPDK))))]
pub struct Args {
    /// Interface whose packets are forwarded
    #[arg(value_name = "A")]
    first: String,
    /// Interface that they leave by
    #[arg(value_name = "B")]
    second: String,
    /// Forward the packets of B to A, too
    #[arg(long)]
    both: bool,
    /// End after so many packets, of both directions together
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// End after this time
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Slots of each transmit ring, a power of two from 128 to 65536; by AF_XDP at most a quarter of --ring
    #[arg(long, value_name = "N", default_value = "4096", value_parser = units::count, help_heading = "Sending packets")]
    out_ring: u64,
    /// Take packets away from the host, where it uses an interface itself
    #[arg(long, help_heading = "Taking packets")]
    take: bool,

    /// Take options that are not given here from [forward] of this file (see `ringtap config show`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    places: PlacesArgs,

    #[command(flatten)]
    live: LiveArgs,
    #[command(flatten)]
    dpdk: DpdkArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    report: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  ringtap forward eth1 eth2                           what comes by eth1 leaves by eth2
  ringtap forward eth1 eth2 --both                    a wire, in both directions
  ringtap forward eth1 eth2 --both --max-latency 100us
  ringtap forward eth1 eth2 --backend packet          copied beside the host's own stack
  ringtap forward eth1 eth2 --count 1M --json         end after a million packets, with the account as JSON
  ringtap forward 0000:02:00.0 0000:03:00.0 --both --backend dpdk --dpdk-args '-a 0000:02:00.0 -a 0000:03:00.0'

The account of each direction: received = forwarded + lost + beyond --count. Forwarded packets were handed to the other interface's
device. Lost ones: link_down (it is down, or has no carrier), ring_full (it sends more slowly than packets come), too_long (for its
MTU), too_short (less than an Ethernet header), cut (reception did not give all of it), not_sent (still in the ring at the end),
invalid_descriptor (the kernel refused it). What a device drops by itself afterwards it counts as device_dropped, whoever sent it.

Frames leave as they came, MAC addresses included, past the queueing discipline. The interfaces may not be one, two ends of a pair,
ports of one bridge or bond (also by their VLANs, or by a bond between), lead to one device, or stand on one another: packets would
leave twice or come back. An MTU that changes meanwhile holds at once. What this host itself sends by an interface is not forwarded.

By DPDK both ports are of one EAL, --out-ring is 8192 at most, and frames have at most 1,514 bytes, with a tag 1,518. A link is looked at
when it is opened and not watched: what can't leave waits, then it is lost as ring_full. Without --both nobody empties the second
port's receive ring. Of a port that stands on an interface of the kernel's (net_af_packet, net_pcap) nothing of the above is known.

With AF_XDP the host itself does not see forwarded packets. On interfaces that the host uses, auto copies them, unless --take says
otherwise. An interface that is removed ends the run; one that goes down is waited for.";

/// Runs the command.
///
/// # Errors
/// Wrong usage, or what could not be set up or went wrong.
pub fn run(args: Args) -> Result<ExitCode> {
    let json = args.report.json;
    let done = forward::run(&options(args))?;
    let text = if json { format!("{}\n", done.summary.object()) } else { done.summary.to_string() };
    tell(&text, false);
    done.failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// What the library is told.
fn options(args: Args) -> Options {
    let mut first = args.tuning.tuned(args.live.live(args.first));
    first.take = args.take;
    first.dpdk = args.dpdk.options();
    Options {
        both: args.both,
        slots: u32::try_from(args.out_ring).unwrap_or(u32::MAX),
        count: args.count,
        duration: args.duration,
        stats: args.report.stats,
        objects: args.report.json,
        places: args.places.into(),
        user: args.live.user,
        no_sandbox: args.live.no_sandbox,
        ..Options::new(first, args.second)
    }
}
