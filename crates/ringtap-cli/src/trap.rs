//! `ringtap trap`: the management station, from sockets or a ring to the store.
//!
//! Owns the options and how the account is printed; all the rest is `ringtap_station`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ringtap::Result;
use ringtap::receiver::Backend;
use ringtap_run::{notes, units};
use ringtap_station::forward;
use ringtap_station::options::Options;
use ringtap_station::station::{self, Event};
use ringtap_station::store::Retention;
use ringtap_station::top;

use crate::correlate;
use crate::live::{DPDK, DpdkArgs, tell};
use crate::outputs::{OutputArgs, ServiceArgs};
use crate::words::{Words, one_of};

/// Receive SNMP traps, informs and syslog, and turn them into alarms in a store.
///
/// Takes SNMP v1, v2c and v3 and syslog over UDP and TCP, IPv4 and IPv6. Every notification is stored as it came, with what became
/// of it; an inform is acknowledged when it is on the disk. With -i packets are taken by the ring (needs root), else by plain sockets.
///
/// Ends on Ctrl-C or SIGTERM, when all that was received is stored, with the ledger.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES,
    mut_arg("dpdk_args", |option| option.requires("interface")), mut_arg("dpdk_library", |option| option.requires("interface")))]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Take packets from this interface by the ring instead of plain sockets (may be given several times); with a packet ring
    /// from these only. Only what is for this host is taken, but before its firewall: `sources` in the configuration says whose
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
    /// Address and port for syslog within TLS (6514 is its own); needs the certificate of [trap.tls] [default: none]
    #[arg(long, value_name = "ADDR:PORT", requires = "config")]
    syslog_tls: Vec<SocketAddr>,
    /// Directory of the store; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap")]
    store: PathBuf,
    /// How the ring takes packets; auto takes AF_XDP, then the packet socket
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(WAYS), requires = "interface")]
    backend: Backend,
    #[command(flatten)]
    dpdk: DpdkArgs,
    /// Configuration: communities, users, rules, outputs; readable by its owner only. SIGHUP reads communities, users, senders and rules
    /// again (with --user, that user must be its owner then)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory with MIB files (may be given several times)
    #[arg(long, value_name = "DIR")]
    mibs: Vec<PathBuf>,
    /// The network (TOML; docs/root-cause.md): what broke is found, and incidents are announced instead of alarms; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Send every notification on to this manager, as it came, from this host's address (may be given several times; [[trap.forward]] has
    /// more) [default port: 162]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = forward::address)]
    forward_to: Vec<SocketAddr>,
    /// Memory for what was received until it is on the disk; what finds no room is lost, and counted
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::size)]
    spool: u64,
    /// Receive buffer of each socket, or of each ring
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = units::size_from(64 << 10, "holds no large datagram"))]
    buffer: u64,
    /// Delete notifications and cleared alarms that are older [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    keep: Option<Duration>,
    /// Delete the oldest notifications when the store is larger [default: never]
    #[arg(long, value_name = "SIZE", value_parser = correlate::keep_size())]
    keep_size: Option<u64>,
    #[command(flatten)]
    service: ServiceArgs,
    /// Print the ledger this often
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    stats: Option<Duration>,
    /// One JSON object at the end on standard output (standard error with --output -), and with --stats one for each interval; all
    /// else goes to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  sudo ringtap trap --store /var/lib/ringtap-trap --user nobody       ports 162 and 514, plain sockets
  ringtap trap --listen 127.0.0.1:10162 --store ./store --stats 1s   without privileges
  sudo ringtap trap -i eth1 --store ./store --config ringtap.toml    by the ring
  sudo ringtap trap --store ./store --topology network.toml          says what broke, not what all say of it
  ringtap trap top --store ./store                                    rates, losses and alarms of a running station

Configuration (TOML), all of it optional:
  [trap]
  communities = [\"public\"]          # others are refused; without this line any is taken
  v1-v2c = true                     # take v1 and v2c [default: if there is no user of v3, or there are communities]
  sources = [\"10.0.0.0/8\"]          # take what comes from these; without this line from everywhere
  known = [\"10.0.0.0/8\", \"::1\"]     # their alarms always find room [default: sources]; strangers have half of the table
  address-rate = 1000               # so many a second from one address, ten seconds' worth at once [default: no limit]
  network-rate = 10000              # the same for an IPv4 /24 or IPv6 /64
  max-alarms = 1000000              # alarms held in memory
  expire-after = \"24h\"              # alarms that nobody tells of for so long are cleared [default: never]
  syslog-severity = 4               # this or worse (0-7) becomes an alarm
  topology = \"network.toml\"         # as --topology, which goes before it
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
  expire-after = \"1h\"               # of this condition, or \"never\"; goes before the one above
  [[trap.forward]]                  # as --forward-to, with a choice; all but `to` may be left out
  to = \"192.0.2.9:162\"
  versions = [\"v1\", \"v2c\"]
  sources = [\"10.0.0.0/8\"]
  notifications = [\"1.3.6.1.6.3.1.1.5\", \"linkDown\"]   # these, and what is beneath
  as-v2c = true                     # traps of v1 as v2c, with snmpTrapAddress.0 (RFC 3584)
  keep-source = true                # with the sender's address as the source: needs root at the start
  [trap.tls]                        # for --syslog-tls, PEM; read at the start: a renewed certificate needs a restart
  certificate = \"/etc/ringtap/station.pem\"
  key = \"/etc/ringtap/station.key\"   # readable by its owner only
  clients = \"/etc/ringtap/clients.pem\"   # senders must have a certificate signed by one of these [default: none is asked for]
  [trap.webhook]
  url = \"https://hooks.example/alarms\"
  token-file = \"/etc/ringtap/hook.token\"   # sent as a bearer token; readable by its owner only
  ca = \"/etc/ringtap/ca.pem\"         # who signed its certificate [default: whom this host trusts]
  [trap.alertmanager]               # of Prometheus; token-file and ca as above
  url = \"http://127.0.0.1:9093\"
  resend = \"1min\"                  # what is raised is told so often
  labels = { site = \"north\" }

SIGHUP reads communities, users, sources, known, rates, rules, syslog-severity, expire-after and the topology again, and opens output
files again; the rest waits for a restart. A file with a fault changes nothing. What is posted waits in the store until it is taken, at
most 100,000 announcements; each has its number in the field `announcement`.";

/// Ways in which the ring takes packets.
const WAYS: Words<Backend> = &[
    ("auto", "AF_XDP, else the packet socket", Backend::Auto),
    ("xdp", "AF_XDP: taken out of the host's stack", Backend::Xdp),
    ("packet", "Packet socket: copied beside the host's stack", Backend::Packet),
    DPDK,
];

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
    let options = args.options()?;
    // What is announced goes there, and nothing else.
    let stdout_has_lines = options.outputs.file.as_deref() == Some("-".as_ref());
    station::run(&options, |event| match event {
        Event::Interval(status) if json => tell(&format!("{}\n", status.json("interval")), stdout_has_lines),
        Event::Interval(status) => tell(&format!("{}\n", status.line()), stdout_has_lines),
        Event::Ending if json => {}
        Event::Ending => notes::say("ending: what was received is being stored"),
        Event::Summary(status) if json => tell(&format!("{}\n", status.json("summary")), stdout_has_lines),
        Event::Summary(status) => tell(&status.to_string(), stdout_has_lines),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn options(self) -> Result<Options> {
        let is_default =
            [&self.listen, &self.syslog, &self.syslog_tcp, &self.syslog_tls].into_iter().all(Vec::is_empty);
        let (snmp, syslog) = if is_default { Options::default_addresses() } else { (self.listen, self.syslog) };
        let outputs = self.outputs.lines(self.config.as_deref())?;
        Ok(Options {
            interfaces: self.interface,
            backend: self.backend,
            dpdk: self.dpdk.options(),
            snmp,
            syslog,
            syslog_tcp: self.syslog_tcp,
            syslog_tls: self.syslog_tls,
            store: self.store,
            config: self.config,
            mibs: self.mibs,
            topology: self.topology,
            outputs,
            forward_to: self.forward_to,
            spool: self.spool,
            buffer: self.buffer,
            retention: Retention { age: self.keep, bytes: self.keep_size },
            places: self.service.places.into(),
            user: self.service.user,
            keeps_privileges: self.service.no_sandbox,
            duration: self.service.duration,
            stats: self.stats,
        })
    }
}
