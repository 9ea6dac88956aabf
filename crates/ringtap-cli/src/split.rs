//! `ringtap split`: each packet of one interface to the outputs that its flow, protocol or class is for.
//!
//! Owns the options and where the summary goes. Splitting is `ringtap-forward`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_forward::split::{self, By, Options};
use ringtap_run::units;

use crate::live::{LiveArgs, ReportArgs, TuningArgs, tell};
use crate::words::{Words, one_of};

/// Distribute the packets of an interface over several outputs: interfaces with a sensor behind each, files, pipes.
///
/// Both directions of a flow and all fragments of a datagram go to one output, in the order of their arrival. While an output is down
/// its flows go to others, and no other flow moves. Every packet is accounted for. docs/split.md tells more.
///
/// Ends on Ctrl-C or SIGTERM with the summary; a second Ctrl-C ends at once. SIGUSR1 prints the account.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Interface whose packets are split
    #[arg(short, long, value_name = "IF")]
    interface: String,
    /// Output (may be given several times): an interface; a pcapng file or named pipe, which has a / or ends in .pcapng, .pcap or
    /// .zst; - for standard output
    #[arg(short, long, value_name = "IF|FILE", required = true)]
    out: Vec<String>,
    /// By what packets are told apart: flow, hosts (addresses alone), protocol, or a file of classes
    #[arg(long, value_name = "flow|hosts|protocol|FILE", default_value = "flow")]
    by: String,
    /// Tell packets of tunnels apart by what is inside
    #[arg(long)]
    inner: bool,
    /// Choose which flow goes where as every run with this number does [default: random, so that no sender can aim at an output]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Take options that are not given here from [split] of this file (see `ringtap config show`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How frames are sent on interfaces: auto takes AF_XDP where an output has a queue for each engine
    /// [default: auto]
    #[arg(long, value_name = "HOW", value_parser = one_of(OUT_WAYS), help_heading = "Outputs")]
    out_backend: Option<split::OutBackend>,
    /// Slots of each output's transmit ring, a power of two from 128 to 65536 [default: 4096]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Outputs")]
    out_ring: Option<u64>,
    /// Memory between each engine thread and a file [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Outputs")]
    spool: Option<u64>,

    #[command(flatten)]
    live: LiveArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten)]
    report: ReportArgs,
}

const EXAMPLES: &str = r#"Examples:
  ringtap split -i eth1 --out eth2 --out eth3                    each flow to one of two sensors
  ringtap split -i eth1 --out eth2 --out eth3 --by hosts         also flows with fragments stay whole
  ringtap split -i eth1 --out eth2 --out eth3 --inner            by what is inside tunnels
  ringtap split -i eth1 --out tcp0 --out udp0 --out rest0 --by protocol
  ringtap split -i eth1 --out eth2 --out eth3 --out eth4 --out dns.pcapng --by classes.toml
  ringtap split -i eth1 --out eth2 --out - | tcpdump -n -r -     one half to a sensor, one to look at
  ringtap split -i eth1 --out ./sensor.pipe --out eth2           a named pipe, whose reader is waited for

A file of classes (TOML). A packet in two classes goes to the outputs of both; what is in none goes by [rest], or nowhere, and is
counted as not wanted:
  [[class]]
  name = "web"
  filter = "tcp port 80 or tcp port 443"      # as in pcap-filter(7)
  outputs = ["eth2", "eth3"]                  # one of them, by flow

  [[class]]
  name = "dns"
  filter = "port 53"
  outputs = ["eth4", "dns.pcapng"]
  copy = true                                 # each of them

  [rest]
  outputs = ["eth2"]

--by protocol has the classes tcp, udp, icmp, other-ip and not-ip, one output for each, in this order; the last output takes all that
are left.

The account: received + copies = forwarded + lost + not wanted. Forwarded packets were handed to the output's device, or to the
writer of a file. Lost ones: link_down (no output of the class is up), ring_full, too_long (for the output's MTU), too_short, cut (the
input did not give all of it), slow_output (the reader of a pipe, or the disk), output_failed, not_sent (still in the ring at the
end). What a device drops by itself afterwards it counts as device_dropped, whoever sent it.

An output that goes down (by its link, removed, its other end down, a pipe's reader gone) has its flows moved to the others of its
class, each such packet counted as moved, and gets them back when it is up. One that was removed, and a pipe, stays down.

An output may not be the input, the other end of its pair, or an interface that stands on it: packets would come back. What this host
itself sends by the input is not split. Transport checksums that the kernel left to a device are completed on the way to interfaces."#;

/// Ways to send frames.
const OUT_WAYS: Words<split::OutBackend> = &[
    ("auto", "AF_XDP where there is a queue for each engine, else a packet ring", split::OutBackend::Auto),
    ("xdp", "AF_XDP; the kernel copies", split::OutBackend::Xdp),
    ("packet", "A packet socket's ring", split::OutBackend::Packet),
];

/// Runs the command.
///
/// # Errors
/// Wrong usage, or what could not be set up or went wrong.
pub fn run(args: Args) -> Result<ExitCode> {
    let json = args.report.json;
    args.used()?;
    let options = options(args);
    let done = split::run(&options)?;
    let text = if json { format!("{}\n", done.summary.object()) } else { done.summary.to_string() };
    tell(&text, options.writes_stdout());
    done.failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

impl Args {
    /// Refuses what no output has a use for.
    fn used(&self) -> Result<()> {
        let files = self.out.iter().filter(|name| split::names_file(name)).count();
        let (no_file, no_interface) = (files == 0, files == self.out.len());
        for (option, is_given, is_unused, way_out) in [
            ("--out-backend", self.out_backend.is_some(), no_interface, "leave it out, or name an interface by --out"),
            ("--out-ring", self.out_ring.is_some(), no_interface, "leave it out, or name an interface by --out"),
            ("--spool", self.spool.is_some(), no_file, "leave it out, or name a file by --out"),
        ] {
            if is_given && is_unused {
                let cause = if no_file { "no output is a file" } else { "no output is an interface" };
                return Err(Error::usage("use", option, cause).way_out(way_out));
            }
        }
        Ok(())
    }
}

/// What the library is told.
fn options(args: Args) -> Options {
    let input = args.tuning.tuned(args.live.live(args.interface));
    let usual = Options::new(input, args.out);
    Options {
        by: match args.by.as_str() {
            "flow" => By::Flow,
            "hosts" => By::Hosts,
            "protocol" => By::Protocol,
            file => By::Classes(PathBuf::from(file)),
        },
        inner: args.inner,
        seed: args.seed,
        backend: args.out_backend.unwrap_or(usual.backend),
        slots: args.out_ring.map_or(usual.slots, |slots| u32::try_from(slots).unwrap_or(u32::MAX)),
        spool_bytes: args.spool.map_or(usual.spool_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        duration: args.duration,
        stats: args.report.stats,
        objects: args.report.json,
        user: args.live.user,
        no_sandbox: args.live.no_sandbox,
        ..usual
    }
}
