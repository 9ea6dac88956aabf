//! `ringtap capture`: packets from an interface or a file, through the engine, into a file or just counted.
//!
//! Owns the options, which of them contradict each other, and where the summary goes. Capturing is `ringtap-capture`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use ringtap::receiver::Backend;
use ringtap::record::{DEFAULT_LEVEL, Format, LEVELS, RecordConfig, Rotation};
use ringtap::source::file::Pace;
use ringtap::steer::Attach;
use ringtap::{Error, Result};
use ringtap_capture::{Capture, KeepLast, Origin, Streams};
use ringtap_run::arguments;
use ringtap_run::live::Live;
use ringtap_run::process::{Process, Terms};
use ringtap_run::signals::{Hangup, Heard};
use ringtap_run::units;
use ringtap_run::waiting::{How, Waiting};

use crate::live::{DPDK, DpdkArgs, LiveArgs, ReportArgs, TuningArgs, of_interfaces_alone, tell};
use crate::outputs::{self, PlacesArgs};
use crate::words::{Words, one_of};

/// Capture packets, to a file or just to measure, and account for every one.
///
/// Takes packets from an interface (or replays capture files) through one real-time thread per queue. Without -w nothing is
/// kept: the summary tells what came, how late it was seen, what was lost and why, and what the capture cost.
///
/// Ends on Ctrl-C or SIGTERM with a complete file and the summary; a second Ctrl-C ends at once. SIGUSR1 prints the ledger, and
/// writes what --keep holds.
/// SIGHUP begins a new file where the one being written was moved away (logrotate), else it ends the capture, too.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("recorded").multiple(true).args(["write", "pcap_over_ip"])),
    group(ArgGroup::new("source").required(true).multiple(false).args(["interface", "read"])),
    override_usage = "ringtap capture <-i IF… | -r FILE…> [OPTIONS] [FILTER…]", after_help = EXAMPLES,
    mut_arg("backend", |backend| backend.value_parser(one_of(WAYS))),
    mut_args(|option| if of_interfaces_alone(&option) { option.conflicts_with("read") } else { option }))]
pub struct Args {
    /// Interface to capture from (may be given several times)
    #[arg(short, long, value_name = "IF")]
    interface: Vec<String>,
    /// Replay this capture file (pcap or pcapng, also compressed by zstd; may be given several times)
    #[arg(short, long, value_name = "FILE")]
    read: Vec<PathBuf>,
    /// Record into this file (`-`: standard output); a name that ends in .pcap gives that format, others pcapng; .zst behind it compresses
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// What to keep, as in pcap-filter(7); may also be given as the last words
    #[arg(short, long, value_name = "FILTER", conflicts_with = "words")]
    filter: Option<String>,
    /// The filter's words
    #[arg(value_name = "FILTER")]
    words: Vec<String>,
    /// End after so many packets (after the filter)
    #[arg(short, long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Take options that are not given here from [capture] of this file (see `ringtap config show`)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Pace of a replay: fast, recorded, or a multiple such as 2x
    #[arg(long, value_name = "PACE", default_value = "fast", value_parser = arguments::pace)]
    pace: Pace,

    #[command(flatten)]
    live: LiveArgs,
    #[command(flatten)]
    dpdk: DpdkArgs,

    /// How to wait for packets
    #[arg(long, value_name = "HOW", default_value = "hybrid", value_parser = one_of(WAITS), help_heading = "Waiting")]
    wait: How,
    #[command(flatten)]
    tuning: TuningArgs,
    /// Weight of the newest forecast after few packets, 0 to 1, below --alpha2 [default: 0.03125]
    #[arg(long, value_name = "A", help_heading = "Waiting")]
    alpha1: Option<f64>,
    /// Weight after a middling number of packets, 0 to 1 [default: 0.75]
    #[arg(long, value_name = "A", help_heading = "Waiting")]
    alpha2: Option<f64>,
    /// Packets per cycle that count as few [default: 32]
    #[arg(long, value_name = "N", help_heading = "Waiting")]
    n1: Option<u64>,
    /// Packets per cycle above which the newest forecast alone counts [default: 128]
    #[arg(long, value_name = "N", help_heading = "Waiting")]
    n2: Option<u64>,

    /// The libpcap of --backend pcap [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "Taking packets")]
    pcap_library: Option<PathBuf>,
    /// Let auto take packets away from the host's own stack, when the filter can be decided in the driver
    #[arg(long, help_heading = "Taking packets")]
    take: bool,
    /// How to attach XDP [default: native, else generic]
    #[arg(long, value_name = "MODE", value_parser = one_of(ATTACHES), help_heading = "Taking packets")]
    xdp: Option<Attach>,
    /// Bytes per frame: 448 (packed, where it copies), 2KiB or 4KiB for AF_XDP, 256 to 64KiB of a packet ring [default: 448
    /// where it can be had, else by the MTU]
    ///
    /// A slot of --ring is a frame. Of packed ones a packet of more than 432 bytes takes several.
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Taking packets")]
    frame_size: Option<u64>,
    /// Keep AF_XDP frames in huge pages
    #[arg(long, help_heading = "Taking packets")]
    huge_pages: bool,
    /// Directions a packet socket sees; AF_XDP sees incoming ones only [default: inout, on loopback in]
    #[arg(long, value_name = "WHICH", value_parser = one_of(DIRECTIONS), help_heading = "Taking packets")]
    direction: Option<bool>,

    /// Keep at most so many bytes of each packet
    #[arg(short, long, value_name = "SIZE", value_parser = units::size, help_heading = "Recording")]
    snaplen: Option<u64>,
    /// Compress by zstd, level 1 to 19; a name that ends in .zst says the same [default level: 3]
    #[arg(long, value_name = "zstd[:LEVEL]", value_parser = compression, requires = "write", help_heading = "Recording")]
    compress: Option<i32>,
    /// Begin a new file before one exceeds this size (compressed, where it is); names get a number and the time
    #[arg(long, value_name = "SIZE", value_parser = outputs::rotate_packets(), requires = "write", help_heading = "Recording")]
    rotate_size: Option<u64>,
    /// Begin a new file after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "write", help_heading = "Recording")]
    rotate_time: Option<Duration>,
    /// Keep so many files, the newest
    #[arg(long, value_name = "N", value_parser = units::count, requires = "write", help_heading = "Recording")]
    rotate_keep: Option<u64>,
    /// Leave so much of the file system free: with --rotate-keep the oldest files go first, else recording ends
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "write", help_heading = "Recording")]
    min_free: Option<u64>,
    /// Comment on the whole file (pcapng)
    #[arg(long, value_name = "TEXT", requires = "write", help_heading = "Recording")]
    comment: Option<String>,
    /// Write pcap (with nanoseconds) instead of pcapng
    #[arg(long, requires = "write", help_heading = "Recording")]
    pcap: bool,
    /// Memory between each engine thread and the disk
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size, requires = "recorded", help_heading = "Recording")]
    spool: u64,
    /// Serve packets to TCP clients at this address, as pcap streams; without an address on the loopback interface
    ///
    /// Wireshark (-i TCP@HOST:PORT) and Arkime read that. Clients come and go; each gets what is captured from then on, with stamps in
    /// nanoseconds.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = arguments::serve_at, conflicts_with_all = ["read", "keep"],
        help_heading = "Recording")]
    pcap_over_ip: Option<SocketAddr>,
    #[command(flatten)]
    places: PlacesArgs,

    /// Keep the packets of this time in memory, and write them only on SIGUSR1
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "write", conflicts_with = "read",
        help_heading = "Recording")]
    keep: Option<Duration>,
    /// Memory for --keep, of each engine thread
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size_from(64 << 10, "holds no packet of full length"), requires = "keep", help_heading = "Recording")]
    keep_size: u64,
    /// With --keep: also write at the end what is in memory then
    #[arg(long, requires = "keep", help_heading = "Recording")]
    keep_at_end: bool,

    /// Exit with 1 when a packet that was wanted is lost or unaccounted for
    #[arg(long, help_heading = "Reports")]
    fail_on_loss: bool,
    #[command(flatten)]
    report: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  ringtap capture -i eth1 -w storm.pcapng                         until Ctrl-C
  ringtap capture -i eth1 --max-latency 250us --duration 10s      measure only
  ringtap capture -i eth1 -w dns.pcapng --count 1M udp port 53
  ringtap capture -i eth1 -w - --backend packet | tshark -r -
  ringtap capture -i eth1 -i eth2 -w both.pcapng                  both sides of a tap, one file
  ringtap capture -i eth1 -w day.pcapng --rotate-size 1GiB --rotate-keep 24 --user nobody
  ringtap capture -i eth1 -w day.pcapng.zst --rotate-size 1GiB
  ringtap capture -i eth1 -w last.pcapng --keep 60s --keep-size 1GiB    then: kill -USR1 PID
  ringtap capture -i eth1 --pcap-over-ip 57012                    then: wireshark -k -i TCP@127.0.0.1:57012
  ringtap capture -i eth0 --take -w traps.pcapng udp port 162     AF_XDP on the host's own interface
  ringtap capture -i any --backend pcap icmp                      all interfaces at once
  ringtap capture -i zc:eth1 --backend pcap --pcap-library /opt/pfring/lib/libpcap.so.1
  ringtap capture -i 0000:02:00.0 --backend vfio -w card.pcapng   a card without the kernel
  ringtap capture -i 0000:02:00.0 --backend dpdk                  the same through DPDK's driver
  ringtap capture -i net_vhost0 --backend dpdk --dpdk-args \"--vdev=net_vhost0,iface=/run/ringtap/port\"
  ringtap capture -i eth1 --threshold 8k:1ms --threshold 100k:250us
  ringtap capture -r old.pcap -w tcp.pcapng tcp
  ringtap capture --config ringtap.toml --duration 1h             options of its [capture], which those given here override

Rates take k and M, times us, ms, s, min and h, sizes KiB, MiB and GiB.

The ledger: offered = delivered + filtered + lost by cause + unaccounted. Delivered packets are in the file, or were handled
where there is none. A packet that reached us and not the file is lost by slow_output (the spool was full: the disk is too
slow) or output_failed (disk full, I/O error). Loss is told with its share and what helps, and is no failure of the command
unless --fail-on-loss makes it one. What a packet socket's filter rejects in the kernel is not counted anywhere.

A file is synced to the disk, with its directory, when it is finished: by rotation (beside the capture), by SIGHUP, and at the end,
before the summary; in between the kernel writes back as it likes. A full disk ends the capture; the file is whole up to there. At a
limit of file size (ulimit -f) a rotated recording begins its next file, any other ends.

Compression is the writer thread's work, and its CPU time: what it can't keep up with is lost by slow_output. Each file is one zstd
frame, written block by block as packets come, at most some 0.1 s late; on disk it is complete after each write, so that a killed
capture leaves a whole file, too (a pipe's frame ends with the capture). --rotate-size goes by compressed bytes. After a failed
write the closing statistics are a frame of their own, where there is room. -r knows compressed files by their first bytes.

With --pcap-over-ip at most 16 clients are served beside the file, or without one. Packets leave some 0.1 s late at most. A client for
which 16 MiB wait is too slow: it loses the connection, no other loses anything, and the summary counts it. No packet is lost to the
ledger by a client. The streams' own packets are in no stream. They are not encrypted, and nobody is asked who he is: every user of
this host reads them at a loopback address, and whoever reaches another one.

With --keep what was captured stays in memory until SIGUSR1 asks for it: then what came in the last TIME goes to the file, and leaves
the memory; a second SIGUSR1 adds what came since. What gets older is let go. Where --keep-size is too small for TIME the newest
push out the oldest; the summary counts both, and calls all of them delivered.

Of several interfaces each has its own rings, sized for --peak-rate, and its own ledger beside that of all together; in pcapng its
own interface block and statistics. One that is removed, moved to another namespace or used by the host ends its part with a
line, and the others go on.

Merged packets (GRO, TSO) come whole. Delivered packets that are shorter than on the wire count as cut: by --snaplen, by a ring
without room for the whole, beyond the 262,144 bytes that readers of recordings accept, or in the file that is read.

With --backend pcap packets are taken through libpcap, whose version and file the summary names; the filter runs behind it. What
is lost in its buffer is ring_full. While a capture runs, losses show up to a tenth of a second late. On \"any\" and on the loopback
interface libpcap leaves packets out that it has counted, and what is unaccounted for stays unknown.

With --backend vfio the card at a PCI address, bound to vfio-pci (driverctl set-override ADDRESS vfio-pci), is driven by
Ringtap itself; it is no interface meanwhile. The filter runs behind it, packets of more than 1,518 bytes (1,522 with a VLAN
tag) are lost as oversize, and their stamps are of the time when they were taken: no latency is reported. It has as many
queues as there are CPUs to serve them, or --queues; --huge-pages holds descriptors and frames.

With --backend dpdk packets are looked at where DPDK's driver laid them. -i is the port's name: a PCI address, or the name of a --vdev
in --dpdk-args. Without --huge-pages none is needed. What the device had no descriptor for is ring_full, what came damaged is nic;
packets of more than 2,048 bytes come cut or not at all, by driver; no latency is reported. A port without receive interrupts is
looked at as often as the timer would. More: docs/dpdk.md.";

/// Ways to wait.
const WAITS: Words<How> = &[
    ("hybrid", "Interrupt at low rates, timer at high ones, by forecast", How::Hybrid),
    ("windowed", "The same by the rate measured in windows of 8 ms", How::Windowed),
    ("interrupt", "Always the device's interrupt", How::Interrupt),
    ("timer", "Always the timer", How::Timer),
    ("busy", "Spin, for comparison", How::Busy),
];

/// Ways to take packets.
const WAYS: Words<Backend> = &[
    ("auto", "AF_XDP where the host does not use the interface itself, else a packet ring", Backend::Auto),
    ("xdp", "AF_XDP: the host does not see these packets", Backend::Xdp),
    ("packet", "A packet socket's ring, beside the host", Backend::Packet),
    ("socket", "A plain packet socket, for comparison", Backend::Socket),
    ("pcap", "Any device of a libpcap: \"any\", and what patched libpcaps bring", Backend::Pcap),
    (
        "vfio",
        "A card taken from the kernel, by its PCI address (Intel 82576 and 82574, bound to vfio-pci)",
        Backend::Vfio,
    ),
    DPDK,
];

/// Ways to attach XDP.
const ATTACHES: Words<Attach> =
    &[("native", "In the driver", Attach::Native), ("generic", "In the generic receive path", Attach::Generic)];

/// Directions seen; true: incoming only.
const DIRECTIONS: Words<bool> =
    &[("in", "What the interface receives", true), ("inout", "Also what the host sends", false)];

/// Our options for those of tcpdump that have other names here.
pub fn tip(tcpdump: &str) -> Option<&'static str> {
    Some(match tcpdump {
        "-B" | "--buffer-size" => "--ring SLOTS",
        "-C" => "--rotate-size SIZE",
        "-D" | "--list-interfaces" => "ringtap doctor",
        "-G" => "--rotate-time TIME",
        "-p" | "--no-promiscuous-mode" => "--no-promiscuous",
        "-Q" => "--direction in|inout",
        "-U" | "--packet-buffered" => "nothing: the file is never far behind",
        "-W" => "--rotate-keep N",
        "-Z" | "--relinquish-privileges" => "--user NAME",
        "-n" | "-nn" | "-e" | "-v" | "-vv" | "-x" | "-X" | "-A" | "-q" | "-t" | "-l" => {
            "-w - --backend packet | tcpdump -r - …, as packets are not printed here"
        }
        _ => return None,
    })
}

/// `zstd` or `zstd:LEVEL`: the level.
fn compression(text: &str) -> Result<i32, String> {
    let level = match text.strip_prefix("zstd") {
        Some("") => Some(DEFAULT_LEVEL),
        Some(level) => level.strip_prefix(':').and_then(|level| level.parse().ok()),
        None => None,
    };
    level
        .filter(|level| LEVELS.contains(level))
        .ok_or_else(|| format!("{text:?} is no compression; give zstd, or zstd:1 to zstd:19"))
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, or what could not be set up or went wrong.
pub fn run(args: Args) -> Result<ExitCode> {
    args.check()?;
    // Ends after the summary: it has settings put back, which may take a while.
    let process = Process::begin(&Terms {
        opens_interfaces: args.read.is_empty(),
        heard: Heard { hangup: Hangup::MayEnd, report: true, second_ends: true },
        user: args.live.user.as_deref(),
        keeps_privileges: args.live.no_sandbox,
    })?;
    let capture = args.capture();
    let ended = capture.run(&process, &mut Streams::standard())?;
    let summary = &ended.summary;
    if args.report.json {
        tell(&format!("{}\n", summary.object()), false);
    } else {
        tell(&summary.to_string(), capture.records_to_stdout());
    }
    ended.error.map_or(Ok(ExitCode::SUCCESS), Err)
}

impl Args {
    /// Refuses options that make no sense together, before anything is opened.
    fn check(&self) -> Result<()> {
        let refuse =
            |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
        let to_stdout = self.write.as_ref().is_some_and(|path| path.as_os_str() == "-");
        if to_stdout && self.report.json {
            return refuse("--json with -w -", "both write to standard output", "record into a file");
        }
        if self.comment.is_some() && self.record().is_some_and(|record| record.format == Format::Pcap) {
            return refuse("--comment", "pcap files hold no comment", "write pcapng");
        }
        let is_replay = !self.read.is_empty();
        if !is_replay && self.pace != Pace::AsFast {
            return refuse("--pace", "an interface has its own pace", "leave it out, or replay a file with --read");
        }
        if self.snaplen.is_some_and(|snaplen| snaplen > u32::MAX.into()) {
            return refuse("--snaplen", "no packet is that long", "leave it out to keep whole packets");
        }
        self.live("").check()
    }

    /// The capture asked for.
    fn capture(&self) -> Capture {
        let origin = if self.read.is_empty() {
            Origin::Interfaces(self.interface.iter().map(|name| self.live(name)).collect())
        } else {
            Origin::Files { files: self.read.clone(), pace: self.pace }
        };
        let filter = self.filter.clone().unwrap_or_else(|| self.words.join(" "));
        Capture {
            filter: (!filter.trim().is_empty()).then_some(filter),
            count: self.count,
            duration: self.duration,
            snaplen: self.snaplen.map(|snaplen| snaplen as u32),
            record: self.record(),
            keep_last: self.keep.map(|age| KeepLast {
                age,
                bytes: usize::try_from(self.keep_size).unwrap_or(usize::MAX),
                at_end: self.keep_at_end,
            }),
            fail_on_loss: self.fail_on_loss,
            stats: self.report.stats,
            objects: self.report.json,
            places: self.places.clone().into(),
            ..Capture::new(origin)
        }
    }

    /// What is asked of the receiver of an interface.
    fn live(&self, interface: &str) -> Live {
        let live = self.tuning.tuned(self.live.live(interface));
        Live {
            pcap_library: self.pcap_library.clone(),
            dpdk: self.dpdk.options(),
            take: self.take,
            attach: self.xdp,
            frame_bytes: self.frame_size,
            huge_pages: self.huge_pages,
            incoming_only: self.direction,
            waiting: Waiting {
                how: self.wait,
                alpha1: self.alpha1,
                alpha2: self.alpha2,
                n1: self.n1,
                n2: self.n2,
                ..live.waiting
            },
            ..live
        }
    }

    /// What to record into, if anything.
    fn record(&self) -> Option<RecordConfig> {
        let config = match (&self.write, self.pcap_over_ip) {
            (Some(path), serve) => RecordConfig { serve, ..RecordConfig::new(path) },
            (None, Some(address)) => RecordConfig::to_clients(address),
            (None, None) => return None,
        };
        Some(RecordConfig {
            format: if self.pcap { Format::Pcap } else { config.format },
            rotation: Rotation {
                size: self.rotate_size,
                time: self.rotate_time,
                keep: self.rotate_keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)),
            },
            compress: self.compress.or(config.compress),
            min_free: self.min_free,
            spool_bytes: usize::try_from(self.spool).unwrap_or(usize::MAX),
            comment: self.comment.clone(),
            ..config
        })
    }
}
