//! `ringtap trap`: the management station, from sockets or a ring to the store.
//!
//! Owns the options and how the account is printed; all the rest is `ringtap_station`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use ringtap::Result;
use ringtap::receiver;
use ringtap_output::LogServer;
use ringtap_run::units;
use ringtap_station::options::{LineOutputs, Options};
use ringtap_station::station::{self, Event};
use ringtap_station::store::Retention;
use ringtap_station::top;

/// Receive SNMP traps, informs and syslog, and turn them into alarms in a store.
///
/// Takes SNMP v1, v2c and v3 and syslog over UDP and TCP, IPv4 and IPv6. Every notification is stored as it came, with what became
/// of it; an inform is acknowledged when it is on the disk. With -i packets are taken by the ring (needs root), else by plain sockets.
///
/// Ends on Ctrl-C or SIGTERM, when all that was received is stored, with the ledger.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Take packets from this interface by the ring instead of plain sockets (may be given several times); with a packet ring
    /// from these only
    #[arg(short, long, value_name = "IF")]
    interface: Vec<String>,
    /// Address and port for SNMP [default: 0.0.0.0:162 and [::]:162]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Address and port for syslog over UDP [default: 0.0.0.0:514 and [::]:514, none with --listen]
    #[arg(long, value_name = "ADDR:PORT")]
    syslog: Vec<SocketAddr>,
    /// Address and port for syslog over TCP [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    syslog_tcp: Vec<SocketAddr>,
    /// Directory of the store; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap")]
    store: PathBuf,
    /// How the ring takes packets; auto takes AF_XDP, then the packet socket
    #[arg(long, value_name = "HOW", default_value = "auto", requires = "interface")]
    backend: BackendName,
    /// Configuration: communities, users, rules, outputs; readable by its owner only
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory with MIB files (may be given several times)
    #[arg(long, value_name = "DIR")]
    mibs: Vec<PathBuf>,
    /// Append announced alarms to this file, one JSON object a line; SIGHUP opens it again
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    output: Option<PathBuf>,
    /// Begin a new file when this one is so large; the old ones are FILE.1 (the newest), FILE.2 …
    #[arg(long, value_name = "SIZE", value_parser = units::size, requires = "output", help_heading = "Outputs")]
    output_rotate: Option<u64>,
    /// Old files that are kept
    #[arg(long, value_name = "N", default_value_t = 5, requires = "output_rotate", help_heading = "Outputs")]
    output_keep: u32,
    /// Announced alarms to this Unix stream socket, one JSON object a line
    #[arg(long, value_name = "PATH", help_heading = "Outputs")]
    output_socket: Option<PathBuf>,
    /// Announced alarms to a syslog server (RFC 5424), udp:ADDRESS:PORT or tcp:ADDRESS:PORT
    #[arg(long, value_name = "SERVER", value_parser = LogServer::parse, help_heading = "Outputs")]
    output_syslog: Option<LogServer>,
    /// Memory for what was received until it is on the disk; what finds no room is lost, and counted
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size)]
    spool: u64,
    /// Receive buffer of each socket, or of each ring
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = units::size)]
    buffer: u64,
    /// Delete notifications and cleared alarms that are older [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    keep: Option<Duration>,
    /// Delete the oldest notifications when the store is larger [default: never]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    keep_size: Option<u64>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Once all is set up, go on as this user; the store is made with that user's rights
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Keep all privileges: no Landlock, no seccomp, all capabilities (docs/privileges.md)
    #[arg(long)]
    no_sandbox: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// Print the ledger this often
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    stats: Option<Duration>,
    /// One JSON object at the end on standard output, and with --stats one for each interval; all else goes to standard error
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sudo ringtap trap --store /var/lib/ringtap-trap --user nobody       ports 162 and 514, plain sockets
  ringtap trap --listen 127.0.0.1:10162 --store ./store --stats 1s   without privileges
  sudo ringtap trap -i eth1 --store ./store --config ringtap.toml    by the ring
  ringtap trap top --store ./store                                    rates, losses and alarms of a running station

Configuration (TOML), all of it optional:
  [trap]
  communities = [\"public\"]          # others are refused; without this line any is taken
  syslog-severity = 4               # this or worse (0-7) becomes an alarm
  [[trap.user]]
  name = \"operator\"
  auth = \"SHA-256\"                  # MD5 SHA SHA-224 SHA-256 SHA-384 SHA-512
  auth-password = \"…\"
  privacy = \"AES\"                   # DES AES AES-192 AES-256, -C for Cisco's
  privacy-password = \"…\"
  [[trap.rule]]
  notification = \"1.3.6.1.4.1.9.9.43.2.0.1\"   # or a name, with --mibs
  condition = \"configChanged\"
  effect = \"event\"                  # raise, clear or event
  severity = \"warning\"
  event-type = \"processingErrorAlarm\"   # of X.733; and its probable-cause; both may be left out
  [trap.webhook]
  url = \"http://127.0.0.1:8080/alarms\"";

/// How the ring takes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BackendName {
    /// AF_XDP, else the packet socket
    Auto,
    /// AF_XDP: taken out of the host's stack
    Xdp,
    /// Packet socket: copied beside the host's stack
    Packet,
}

#[derive(Debug, Subcommand)]
enum Command {
    Top(TopArgs),
}

/// Show rates, losses and alarms of a running station; q or Ctrl-C ends it.
#[derive(Debug, clap::Args)]
struct TopArgs {
    /// Directory of the station's store
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap")]
    store: PathBuf,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    every: Duration,
    /// End after so many looks [default: on q or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Wrong options, missing privileges, a store that can't be opened, or one that could not be written to the end.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(Command::Top(TopArgs { store, every, count })) = args.command {
        top::run(&top::Options { store, every, count })?;
        return Ok(ExitCode::SUCCESS);
    }
    let json = args.json;
    station::run(&args.options(), |event| match event {
        Event::Interval(status) if json => println!("{}", status.json("interval")),
        Event::Interval(status) => println!("{}", status.line()),
        Event::Ending if json => {}
        Event::Ending => eprintln!("ringtap: ending: what was received is being stored"),
        Event::Summary(status) if json => println!("{}", status.json("summary")),
        Event::Summary(status) => print!("{status}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn options(self) -> Options {
        let is_default = self.listen.is_empty() && self.syslog.is_empty() && self.syslog_tcp.is_empty();
        let (snmp, syslog) = if is_default { Options::default_addresses() } else { (self.listen, self.syslog) };
        Options {
            interfaces: self.interface,
            backend: match self.backend {
                BackendName::Auto => receiver::Backend::Auto,
                BackendName::Xdp => receiver::Backend::Xdp,
                BackendName::Packet => receiver::Backend::Packet,
            },
            snmp,
            syslog,
            syslog_tcp: self.syslog_tcp,
            store: self.store,
            config: self.config,
            mibs: self.mibs,
            outputs: LineOutputs {
                file: self.output,
                rotate: self.output_rotate.map(|size| (size, self.output_keep)),
                socket: self.output_socket,
                syslog: self.output_syslog,
            },
            spool: self.spool,
            buffer: self.buffer,
            retention: Retention { age: self.keep, bytes: self.keep_size },
            metrics: self.metrics,
            user: self.user,
            keeps_privileges: self.no_sandbox,
            duration: self.duration,
            stats: self.stats,
        }
    }
}
