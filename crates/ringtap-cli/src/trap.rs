//! `ringtap trap`: the management station, from sockets or a ring to the store.
//!
//! Owns the options and the order of things: what needs privileges first, then the store with the user's rights, then
//! threads, then privileges go. `sockets`, `stream` and `ring` receive, `pipeline` decodes and stores, `outputs` tells the
//! outside, `status` accounts, `metrics` and `top` show.

mod config;
mod metrics;
mod outputs;
mod pipeline;
mod ring;
mod sockets;
mod status;
mod stream;
mod top;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Subcommand, ValueEnum};
use ringtap::receiver::{Departure, Receiver};
use ringtap::sys::keeper::Keeper;
use ringtap::{Error, Result};
use ringtap_trap::names::Names;
use ringtap_trap::spool::{self, Bell, Service};
use ringtap_trap::store::{Retention, Store};
use ringtap_trap::usm::User;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::capture::user::Successor;
use crate::log_server::LogServer;
use crate::sandbox::{self, Needs};
use crate::units;
use config::Config;
use pipeline::Pipeline;
use ring::RingHandle;
use sockets::Take;
use status::Sources;

/// How often signals and the end are looked for.
const LOOK: Duration = Duration::from_millis(50);

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
    /// Take packets from this interface by the ring instead of plain sockets; with a packet ring from this one only
    #[arg(short, long, value_name = "IF")]
    interface: Option<String>,
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
    backend: Backend,
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
    /// Memory between receiving and decoding
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

/// The spool of sockets beside a ring is so much smaller than the ring's, and not below this.
const BESIDE_RING: usize = 8;
const LEAST_SPOOL: usize = 1 << 20;

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
enum Backend {
    /// AF_XDP, else the packet socket
    Auto,
    /// AF_XDP: taken out of the host's stack
    Xdp,
    /// Packet socket: copied beside the host's stack
    Packet,
}

#[derive(Debug, Subcommand)]
enum Command {
    Top(top::Args),
}

/// Runs the command.
///
/// # Errors
/// Wrong options, missing privileges, a store that can't be opened, or one that could not be written to the end.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(Command::Top(top)) = &args.command {
        return top::run(top);
    }
    // The first thing there is and the last that goes: it puts back what others no longer may.
    let keeper = args.interface.as_ref().map(|_| Keeper::start()).transpose();
    let _keeper = keeper.map_err(|error| Error::os("start", "the keeper of settings", &error))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Error::os("handle signal", signal.to_string(), &error))?;
    }
    let successor = args.user.as_deref().map(Successor::find).transpose()?;
    let config = args.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let bell = Arc::new(Bell::default());
    let mut sources = Sources::default();
    let mut consumers = Vec::new();

    // What needs privileges.
    let (snmp, syslog) = args.addresses();
    let receiver = args.interface.as_deref().map(|name| ring::open(name, &args, &snmp, &syslog)).transpose()?;
    // AF_XDP takes what comes by its interface out of the host's stack, and what comes another way still reaches the sockets. A packet
    // ring copies, and the sockets would give everything a second time, except what comes in fragments and only the stack has whole.
    let is_taken = |receiver: &Receiver| receiver.descriptions().iter().all(|it| it.backend == "xdp");
    let take = if receiver.as_ref().is_none_or(is_taken) { Take::All } else { Take::InFragments };
    let mut bound = Vec::new();
    for (addresses, service) in [(&snmp, Service::Snmp), (&syslog, Service::Syslog)] {
        for &address in addresses {
            bound.push(sockets::Bound::open(address, service, args.buffer)?);
        }
    }
    let answers = bound.iter().map(sockets::Bound::share).collect::<Result<Vec<_>>>()?;
    let listeners = args.syslog_tcp.iter().map(|&address| stream::listen(address)).collect::<Result<Vec<_>>>()?;
    let metrics = args.metrics.map(metrics::bind).transpose()?;

    // What the user must be able to write.
    let open = || -> Result<(Store, Names)> {
        let store = Store::open(&args.store)?;
        let mibs = [&args.mibs[..], config.mibs()].concat();
        let names =
            if mibs.is_empty() { Names::default() } else { Names::load(&mibs, Some(&names_cache(&args.store)))? };
        Ok((store, names))
    };
    let (store, names) = match &successor {
        Some(successor) => successor.with_file_rights(open)?,
        None => open()?,
    };
    for warning in names.warnings() {
        eprintln!("ringtap: {warning}");
    }
    let reopen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reopen))
        .map_err(|error| Error::os("handle signal", SIGHUP.to_string(), &error))?;
    let names = Arc::new(names);
    let start = || outputs::start(&args, config.webhook(), &names, reopen);
    let outputs = match &successor {
        Some(successor) => successor.with_file_rights(start)?,
        None => start()?,
    };

    // Threads.
    let mut receivers = Vec::new();
    let mut running = None;
    let mut spool_bytes = args.spool as usize;
    if let Some(receiver) = receiver {
        let (ring, spools) = ring::start(receiver, &bound, spool_bytes, &bell, &mut sources)?;
        consumers.extend(spools);
        running = Some(ring);
        spool_bytes = (spool_bytes / BESIDE_RING).max(LEAST_SPOOL);
    }
    if !bound.is_empty() {
        let (producer, consumer) = spool::spool(spool_bytes, Arc::clone(&bell))?;
        consumers.push(consumer);
        receivers.push(sockets::start(bound, take, producer, &mut sources, Arc::clone(&stop))?);
    }
    let framing = Arc::default();
    if !listeners.is_empty() {
        let (producer, consumer) = spool::spool(args.spool as usize, Arc::clone(&bell))?;
        consumers.push(consumer);
        receivers.push(stream::start(listeners, producer, &mut sources, Arc::clone(&framing), Arc::clone(&stop))?);
    }
    let retention = Retention { age: args.keep, bytes: args.keep_size };
    let station = config.station(&store, &names)?;
    let pipeline = Pipeline::start(station, store, consumers, answers, outputs, bell, retention)?;
    sources.attach(&pipeline, framing);
    let sources = Arc::new(sources);
    if let Some(listener) = metrics {
        metrics::start(listener, Arc::clone(&sources))?;
    }
    let needs = Needs {
        rings: running.is_some(),
        names: config.webhook().is_some(),
        reads: Vec::new(),
        writes: [Some(&args.store), args.output.as_ref(), args.output_socket.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect(),
        user: successor.as_ref(),
    };
    for warning in sandbox::enter(args.no_sandbox, &needs)? {
        eprintln!("ringtap: warning: {warning}");
    }

    watch(&args, &sources, &pipeline, &stop, &mut running)?;
    if !args.json {
        eprintln!("ringtap: ending: what was received is being stored");
    }
    stop.store(true, Ordering::Relaxed);
    for receiver in receivers {
        receiver.join().map_err(|_| Error::failed("receive", "notifications", "the receiving thread panicked"))?;
    }
    if let Some(ring) = running {
        sources.finish_ring(ring.finish()?);
    }
    let outcome = pipeline.finish();
    let status = sources.status();
    if args.json {
        println!("{}", status.json("summary"));
    } else {
        print!("{status}");
    }
    outcome?;
    // All threads have ended: what is still on its way never arrives.
    match status.waiting + status.not_stored_yet {
        0 => Ok(ExitCode::SUCCESS),
        lost => Err(Error::failed("store", "what was received", format!("{lost} messages never came to the store"))
            .way_out("report this as a bug")),
    }
}

/// Where the names found in MIB files are kept.
fn names_cache(store: &Path) -> PathBuf {
    store.join("names.json")
}

/// Until a signal, the deadline, or the end of a thread that should not end.
fn watch(
    args: &Args,
    sources: &Sources,
    pipeline: &Pipeline,
    stop: &AtomicBool,
    running: &mut Option<RingHandle>,
) -> Result<()> {
    let started = Instant::now();
    let mut last_status = Instant::now();
    let mut next_stats = args.stats.map(|every| started + every);
    while !stop.load(Ordering::Relaxed)
        && args.duration.is_none_or(|duration| started.elapsed() < duration)
        && !pipeline.has_ended()
    {
        std::thread::sleep(LOOK);
        if let Some(departure) = running.as_ref().and_then(RingHandle::departure)
            && let Some(ring) = running.take()
        {
            let name = args.interface.as_deref().unwrap_or_default();
            let what_follows = match departure {
                Departure::Used(_) => "; the plain sockets take what comes",
                Departure::Removed | Departure::Moved => "",
            };
            eprintln!("ringtap: {name}: {departure}{what_follows}");
            sources.finish_ring(ring.finish()?);
        }
        if last_status.elapsed() >= Duration::from_secs(1) {
            last_status = Instant::now();
            pipeline.publish(sources.status().json("interval").to_string());
        }
        if let Some((next, every)) = next_stats.zip(args.stats)
            && Instant::now() >= next
        {
            next_stats = Some(next + every);
            let status = sources.status();
            if args.json {
                println!("{}", status.json("interval"));
            } else {
                println!("{}", status.line());
            }
        }
    }
    Ok(())
}

/// The first user of a configuration, for whom a storm is sent.
///
/// # Errors
/// As when a station reads it; there is no user in it.
pub(crate) fn first_user(path: &Path) -> Result<User> {
    Config::read(path)?.users()?.into_iter().next().ok_or_else(|| {
        Error::usage("read the configuration", path.display().to_string(), "there is no user in it")
            .way_out("add a [[trap.user]]: see `ringtap trap --help`")
    })
}

impl Args {
    /// Addresses for SNMP and for syslog over UDP.
    fn addresses(&self) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let any = |port: u16| vec![SocketAddr::from(([0, 0, 0, 0], port)), SocketAddr::from(([0u16; 8], port))];
        let is_default = self.listen.is_empty() && self.syslog.is_empty() && self.syslog_tcp.is_empty();
        if is_default { (any(162), any(514)) } else { (self.listen.clone(), self.syslog.clone()) }
    }
}
