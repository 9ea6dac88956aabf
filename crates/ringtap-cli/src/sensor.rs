//! `ringtap sensor`: intrusion detection with Suricata's rules, from an interface or from capture files.
//!
//! Owns the options and where the summary goes. What they do is `ringtap_sensor`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use ringtap::Result;
use ringtap::receiver::{self, Queues};
use ringtap_detect::Policy;
use ringtap_output::LogServer;
use ringtap_run::live::Live;
use ringtap_run::{arguments, notes, units};
use ringtap_sensor::{self as sensor, DatagramTarget, Datagrams, Input, Options, OutputOptions, RuleOptions};

/// Find attacks: Suricata's rules against an interface or capture files.
///
/// One real-time thread per queue takes packets, follows flows and streams, matches rules and sends alerts, with bounded
/// work for each packet. Alerts are EVE JSON with Suricata's field names. The rules' drop and reject are told, not done.
///
/// SIGHUP opens the output files again and loads the rules again, without losing a packet; rules that can't be used, or far fewer
/// than before, leave those in use where they are. Ctrl-C and SIGTERM end it.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(false).args(["interface", "replay", "check_rules"])),
    override_usage = "ringtap sensor <-i IF… | --replay FILE…> -S RULES [OPTIONS]\n       ringtap sensor --check-rules FILE… [OPTIONS]",
    after_help = EXAMPLES)]
pub struct Args {
    /// Interface to watch (may be given several times)
    ///
    /// All packets between two addresses meet in one engine, whichever interface and queue they came by.
    #[arg(short, long, value_name = "IF")]
    interface: Vec<String>,
    /// Read these capture files (pcap or pcapng, also compressed by zstd) instead, without waiting
    #[arg(long, value_name = "FILE", num_args = 1..)]
    replay: Vec<PathBuf>,
    /// Only read these rule files: what is used, and why the rest is not
    #[arg(long, value_name = "FILE", num_args = 1..)]
    check_rules: Vec<PathBuf>,

    /// Rule file (may be given several times)
    #[arg(short = 'S', long, value_name = "FILE", help_heading = "Rules")]
    rules: Vec<PathBuf>,
    /// Rule file whose packets go first when there are more than can be looked at (may be given several times)
    ///
    /// Once packets wait twice as long as --max-latency, only those are looked at whose addresses and ports fit a rule of
    /// such a file; the others are counted as shed, until the ring is worked off.
    #[arg(long, value_name = "FILE", requires = "interface", help_heading = "Rules")]
    priority_rules: Vec<PathBuf>,
    /// Refuse to start when any rule is not used
    #[arg(long, help_heading = "Rules")]
    strict: bool,
    /// On SIGHUP also take rules of which less than half as many are usable as before [default: those in use stay]
    #[arg(long, requires = "interface", help_heading = "Rules")]
    reload_fewer: bool,
    /// Give a variable of the rules its value [default: as Suricata's packaged configuration has them]
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = sensor::variable, help_heading = "Rules")]
    variables: Vec<(String, String)>,
    /// Names and priorities of classes [default: classification.config beside the first rule file, if there is one]
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    classification: Option<PathBuf>,
    /// Variables, bounds and where SNMP notifications go, from a TOML file (see below)
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    config: Option<PathBuf>,
    /// Tell at the end what each rule cost (steps of the budget, nanoseconds) and found; takes time itself
    #[arg(long, help_heading = "Rules")]
    profile: bool,

    /// Searches and comparisons for one packet; one that needs more is counted
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Bounds")]
    budget: Option<u64>,
    /// Flows at one time
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Bounds")]
    flows: Option<u64>,
    /// Whose bytes count where segments or fragments overlap: as the receiving hosts' system does (first, last, bsd, linux,
    /// windows, solaris, ... as in Suricata's host-os-policy) [default: bsd]; of single networks: [overlap] in --config
    #[arg(long, value_name = "SYSTEM", help_heading = "Bounds")]
    overlap: Option<Policy>,
    /// Take TCP segments with wrong checksums for part of their stream
    #[arg(long, help_heading = "Bounds")]
    no_checksums: bool,

    /// Write EVE JSON into this file (`-`: standard output)
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    eve: Option<PathBuf>,
    /// Begin a new EVE file before one exceeds this size; FILE.1 is the newest old one
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "eve", help_heading = "Outputs")]
    eve_rotate: Option<u64>,
    /// Old EVE files to keep
    #[arg(long, value_name = "N", default_value_t = 5, requires = "eve_rotate", help_heading = "Outputs")]
    eve_keep: u32,
    /// Which events to write
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "alert,stats,anomaly,packet",
        help_heading = "Outputs"
    )]
    events: Vec<Event>,
    /// Write the same lines into this Unix socket (datagram or stream)
    #[arg(long, value_name = "PATH", help_heading = "Outputs")]
    eve_socket: Option<PathBuf>,
    /// Send alerts to this syslog server (RFC 5424), as udp:ADDRESS:PORT or tcp:ADDRESS:PORT
    #[arg(long, value_name = "SERVER", value_parser = LogServer::parse, help_heading = "Outputs")]
    syslog: Option<LogServer>,
    /// Send alerts from the engine's own thread, built in the transmit ring: to this MAC address, IP address and UDP port
    #[arg(
        long,
        value_name = "MAC@ADDRESS:PORT",
        requires = "interface",
        requires = "alarm_from",
        help_heading = "Outputs"
    )]
    alarm_to: Option<DatagramTarget>,
    /// Source address and port of these datagrams
    #[arg(long, value_name = "ADDRESS:PORT", requires = "alarm_to", help_heading = "Outputs")]
    alarm_from: Option<SocketAddr>,
    /// Records that wait for the output thread; more are lost, and counted
    #[arg(long, value_name = "N", default_value = "16384", value_parser = units::count, help_heading = "Outputs")]
    queue: u64,
    /// Write statistics at this interval
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = units::duration, help_heading = "Outputs")]
    stats: Duration,

    /// Longest time from a packet's arrival to its handling, 10us to 1s
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration, help_heading = "Live")]
    max_latency: Duration,
    /// Greatest packet rate to be ready for: it sizes the ring, and a lower one lets the kernel pause longer
    #[arg(long, value_name = "RATE", default_value = "1.5M", value_parser = units::rate, help_heading = "Live")]
    peak_rate: f64,
    /// How packets are taken
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Live")]
    backend: BackendName,
    /// Receive queues, each with an engine thread of its own: all, a number of them, or a list such as 0-3,5
    ///
    /// All packets of a flow, and its fragments, meet in one engine: the kernel's fanout (packet ring) or the card (AF_XDP) sees to it
    /// by addresses. Where neither can, engines hand packets over, within another --max-latency; what finds no room in
    /// between is lost as hand_over_full.
    #[arg(long, value_name = "all|N|LIST", default_value = "all", value_parser = arguments::queues, help_heading = "Live")]
    queues: Queues,
    /// CPUs of the engine threads [default: the last allowed ones]
    #[arg(long, value_name = "LIST", value_parser = units::list, help_heading = "Live")]
    cpu: Option<units::List>,
    /// SCHED_FIFO priority of the engine threads, 1 to 99; 0: ordinary threads
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=99), help_heading = "Live")]
    priority: u8,
    /// Once all is set up, go on as this user
    #[arg(long, value_name = "NAME", help_heading = "Live")]
    user: Option<String>,
    /// Keep all privileges: no Landlock, no seccomp, all capabilities (docs/privileges.md)
    #[arg(long)]
    no_sandbox: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Live")]
    duration: Option<Duration>,

    /// The summary as one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = r#"Examples:
  ringtap sensor --check-rules /etc/suricata/rules/*.rules           what is supported
  ringtap sensor --replay old.pcap -S my.rules --eve -               alerts on standard output
  ringtap sensor -i eth1 -S my.rules --eve /var/log/eve.json         until Ctrl-C
  ringtap sensor -i eth1 -S my.rules --set HOME_NET=[192.0.2.0/24]
  ringtap sensor -i eth1 -S all.rules --priority-rules scada.rules    these first under a flood
  ringtap sensor -i eth1 -S my.rules --syslog udp:192.0.2.9:514 --user nobody

SNMP notifications of alerts, traps or informs, are asked for in the file of --config, which then must be readable for you alone:
  [snmp]
  to = "192.0.2.9:162"
  inform = true                    # default: traps
  community = "public"             # v2c; or for v3:
  user = { name = "sensor", auth = "SHA-256", auth-password = "…", privacy = "AES", privacy-password = "…" }
  engine-id = "0x80000000…"        # of v3 traps [default: made of the host's name]
  oid = "1.3.6.1.4.1.32473.2"      # the default, below the enterprise for examples
The notification is OID.0.1; its objects are OID.1.N.0: 1 message, 2 sid, 3 gid, 4 rev, 5 severity, 6 source, 7 its port,
8 destination, 9 its port, 10 IP protocol, 11 microseconds since 1970, 12 number of the alert.

Of hosts whose system is known, the same file says whose bytes count (the smallest network that a receiver is in decides):
  [overlap]
  windows = ["192.0.2.0/24"]       # first, last, or a system of Suricata's host-os-policy: bsd, bsd-right, old-linux, linux,
  linux = ["192.0.2.7"]            # old-solaris, solaris, hpux10, hpux11, irix, macos, windows, vista, windows2k3

A rule with an option that is not supported is not used, and is named with file, line and option at start; --strict makes
that an error. Where not one rule of the files can be used the sensor does not start; without -S it gives what needs no rules
(--events flow,anomaly,stats). --priority-rules should name addresses or ports that a flood can't all have: what a flood sends to them goes
first too. An alert that the output thread could not take in time is counted, as is one that could not be written."#;

/// How packets are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BackendName {
    /// AF_XDP where the host itself does not miss the packets, else a packet ring
    Auto,
    /// AF_XDP: the host does not see these packets
    Xdp,
    /// A packet socket's ring, beside the host
    Packet,
}

/// Events of EVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Event {
    /// Rules that matched
    Alert,
    /// Flows that ended
    Flow,
    /// Counters
    Stats,
    /// Packets with something wrong
    Anomaly,
    /// Packets after an alert whose rule has `tag`, their first 256 bytes
    Packet,
}

impl From<BackendName> for receiver::Backend {
    fn from(backend: BackendName) -> Self {
        match backend {
            BackendName::Auto => Self::Auto,
            BackendName::Xdp => Self::Xdp,
            BackendName::Packet => Self::Packet,
        }
    }
}

impl From<Event> for sensor::Event {
    fn from(event: Event) -> Self {
        match event {
            Event::Alert => Self::Alert,
            Event::Flow => Self::Flow,
            Event::Stats => Self::Stats,
            Event::Anomaly => Self::Anomaly,
            Event::Packet => Self::Packet,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, rules that can't be read, or what could not be set up or went wrong.
pub fn run(args: Args) -> Result<ExitCode> {
    if !args.check_rules.is_empty() {
        return check(args);
    }
    let (json, eve) = (args.json, args.eve.clone());
    let done = sensor::run(&options(args))?;
    let text = if json { format!("{}\n", done.summary.object()) } else { done.summary.text() };
    let stdout_has_events = eve.as_deref() == Some("-".as_ref());
    show(&text, stdout_has_events);
    done.failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// `--check-rules`
fn check(args: Args) -> Result<ExitCode> {
    let json = args.json;
    let mut rules = RuleOptions { files: args.check_rules, variables: args.variables, ..RuleOptions::default() };
    (rules.strict, rules.classification) = (args.strict, args.classification);
    rules.files.extend(args.rules);
    let check = sensor::check_rules(&rules, args.config.as_deref())?;
    for warning in check.warnings() {
        notes::warn(warning);
    }
    show(&if json { format!("{}\n", check.object()) } else { check.text() }, false);
    Ok(if rules.strict && check.left_out() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Nobody may be left to read it, which is no failure of the run.
fn show(text: &str, on_stderr: bool) {
    use std::io::Write;
    let _ = if on_stderr { write!(std::io::stderr(), "{text}") } else { write!(std::io::stdout(), "{text}") };
}

/// What the library is told.
fn options(args: Args) -> Options {
    let cpus = args.cpu.map(|list| list.0).unwrap_or_default();
    let live = |interface| Live {
        max_latency: args.max_latency,
        peak_pps: args.peak_rate,
        backend: args.backend.into(),
        queues: args.queues.clone(),
        cpus: cpus.clone(),
        priority: args.priority,
        ..Live::new(interface)
    };
    let input = if args.interface.is_empty() {
        Input::Files(args.replay)
    } else {
        Input::Interfaces(args.interface.into_iter().map(live).collect())
    };
    Options {
        rules: RuleOptions {
            files: args.rules,
            priority: args.priority_rules,
            strict: args.strict,
            reload_fewer: args.reload_fewer,
            variables: args.variables,
            classification: args.classification,
        },
        bounds: sensor::Bounds {
            budget: args.budget,
            flows: args.flows,
            overlap: args.overlap,
            no_checksums: args.no_checksums,
        },
        outputs: OutputOptions {
            eve: args.eve,
            eve_rotate: args.eve_rotate.map(|size| (size, args.eve_keep)),
            eve_socket: args.eve_socket,
            events: args.events.into_iter().map(Into::into).collect(),
            syslog: args.syslog,
            datagrams: args.alarm_to.zip(args.alarm_from).map(|(to, from)| Datagrams { to, from }),
            queue: args.queue as usize,
            stats: args.stats,
        },
        config: args.config,
        profile: args.profile,
        user: args.user,
        no_sandbox: args.no_sandbox,
        duration: args.duration,
        ..Options::new(input)
    }
}
