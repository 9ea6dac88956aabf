//! `ringtap sensor`: intrusion detection with Suricata's rules, from an interface or from capture files.
//!
//! Owns the options and where the summary goes. What they do is `ringtap_sensor`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ArgGroup;
use ringtap::{Error, Result};
use ringtap_correlator::options::{Brokers, LOG_SIZE, MEMORY};
use ringtap_correlator::run::{Asking, Beside, Event as OfCorrelator, Room, Show};
use ringtap_correlator::said;
use ringtap_detect::Policy;
use ringtap_output::{LogServer, kafka_topic, printable};
use ringtap_run::live::Live;
use ringtap_run::{notes, units};
use ringtap_sensor::{
    self as sensor, AlarmOptions, Correlate, DatagramTarget, Datagrams, Event, Input, LineTarget, OpenCorrelator,
    Options, OutputOptions, RuleOptions, SensorId, WithAlerts,
};

use crate::correlate::{self, ended};
use crate::kafka;
use crate::live::{DpdkArgs, LiveArgs, WITH_DPDK, of_interfaces_alone, put, tell};
use crate::outputs::{self, PlacesArgs};
use crate::pcap_log::PcapLogArgs;
use crate::words::{self, Words, one_of, unused_beside};

/// Find attacks: Suricata's rules against an interface or capture files.
///
/// One real-time thread per queue, or more (--handlers), takes packets, follows flows and streams, matches rules and sends
/// alerts, with bounded work for each packet. Alerts are EVE JSON with Suricata's field names. The rules' drop and reject are told, not done.
///
/// SIGHUP opens the output files again and loads the rules again, without losing a packet; rules that can't be used, or far fewer
/// than before, leave those in use where they are. Ctrl-C and SIGTERM end it.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(false).args(["interface", "replay", "check_rules"])),
    group(ArgGroup::new("correlators").multiple(true).args(["alarm_to", "alarm_lines", "kafka", "correlate"])),
    group(ArgGroup::new("eve_outputs").multiple(true).args(["eve", "eve_socket"])),
    group(ArgGroup::new("correlators_elsewhere").multiple(true).args(["alarm_to", "alarm_lines", "kafka"])),
    mut_arg("backend", |backend| backend.value_parser(one_of(WITH_DPDK))),
    mut_args(|option| if of_interfaces_alone(&option) { option.conflicts_with("replay") } else { option }),
    mut_args(|option| unused_beside(option, "check_rules", &OF_CHECK)),
    override_usage = "ringtap sensor <-i IF… | --replay FILE…> -S RULES [OPTIONS]\n       ringtap sensor --check-rules FILE… [OPTIONS]",
    after_help = EXAMPLES)]
pub struct Args {
    /// Interface to watch (may be given several times)
    ///
    /// All packets between two addresses, and so of a flow and its fragments, meet in one engine, whichever interface and queue
    /// they came by: the kernel's fanout (packet ring) or the card (AF_XDP) sees to it by addresses. Where neither can, engines
    /// hand packets over, within another --max-latency; what finds no room in between is lost as hand_over_full.
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
    /// Suppressions, event filters and rate filters (threshold.config, as Suricata has it); read again on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    thresholds: Option<PathBuf>,
    /// Variables, bounds, lists, how hosts overlap, notifications, the correlator and blinding, from a TOML file (see below, and docs/sensor.md)
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    config: Option<PathBuf>,
    /// Tell at the end what each rule cost (steps of the budget, nanoseconds) and found; takes time itself
    #[arg(long, help_heading = "Rules")]
    profile: bool,

    /// Searches and comparisons for one packet; one that needs more is counted
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Bounds")]
    budget: Option<u64>,
    /// Flows of an engine at one time: 65,536, or as many as half of the memory that is available has room for
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Bounds")]
    flows: Option<u64>,
    /// Whose bytes count where segments or fragments overlap: as the receiving hosts' system does (first, last, bsd, linux,
    /// windows, solaris, ... as in Suricata's host-os-policy) [default: bsd]; of single networks: [overlap] in --config
    #[arg(long, value_name = "SYSTEM", help_heading = "Bounds")]
    overlap: Option<Policy>,
    /// Content codings (gzip, deflate) of an HTTP message that are decoded, one inside the other, 1 to 3 [default: 2, as Suricata's
    /// packaged configuration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3), help_heading = "Bounds")]
    http_layers: Option<u8>,
    /// Follow TCP connections whose handshake was not seen, and those of which one direction alone is seen (Suricata's
    /// stream.midstream and stream.async-oneside); without it their packets are looked at one by one
    #[arg(long, help_heading = "Bounds")]
    midstream: bool,
    /// Take TCP segments with wrong checksums for part of their stream
    #[arg(long, help_heading = "Bounds")]
    no_checksums: bool,

    /// Write EVE JSON into this file (`-`: standard output)
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    eve: Option<PathBuf>,
    /// Begin a new EVE file before one exceeds this size; FILE.1 is the newest old one
    #[arg(long, value_name = "SIZE", value_parser = outputs::rotate(), requires = "eve", help_heading = "Outputs")]
    eve_rotate: Option<u64>,
    /// Old EVE files to keep
    #[arg(long, value_name = "N", default_value_t = 5, requires = "eve_rotate", help_heading = "Outputs")]
    eve_keep: u32,
    /// Which events to write
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = one_of(EVENTS),
        default_value = "alert,stats,anomaly,packet",
        requires = "eve_outputs",
        help_heading = "Outputs"
    )]
    events: Vec<Event>,
    /// What to write with each alert
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(WITH_ALERTS), requires = "eve_outputs", help_heading = "Outputs")]
    with_alerts: Vec<WithAlerts>,
    /// Write the same lines into this Unix socket (datagram or stream)
    #[arg(long, value_name = "PATH", help_heading = "Outputs")]
    eve_socket: Option<PathBuf>,
    /// Send alerts to this syslog server (RFC 5424), as udp:ADDRESS:PORT or tcp:ADDRESS:PORT
    #[arg(long, value_name = "SERVER", value_parser = LogServer::parse, help_heading = "Outputs")]
    syslog: Option<LogServer>,
    /// Send alerts and heartbeats to a correlator from the engines' own threads, as datagrams built in transmit rings: to this MAC
    /// address, IP address and UDP port
    #[arg(
        long,
        value_name = "MAC@ADDRESS:PORT",
        requires = "interface",
        requires = "alarm_from",
        help_heading = "Correlator"
    )]
    alarm_to: Option<DatagramTarget>,
    /// Source address and port of these datagrams
    #[arg(long, value_name = "ADDRESS:PORT", requires = "alarm_to", help_heading = "Correlator")]
    alarm_from: Option<SocketAddr>,
    /// Send these datagrams by this interface [default: by the one that is watched]
    #[arg(long, value_name = "IF", requires = "alarm_to", help_heading = "Correlator")]
    alarm_via: Option<String>,
    /// Send the same as JSON lines to unix:PATH (datagram or stream) or tcp:ADDRESS:PORT; may be given several times
    #[arg(long, value_name = "TARGET", help_heading = "Correlator")]
    alarm_lines: Vec<LineTarget>,
    /// Write the same lines to Kafka, by some of its brokers; the key is the sensor's name (docs/kafka.md)
    #[arg(long, value_name = "HOST:PORT[,…]", help_heading = "Correlator")]
    kafka: Option<Brokers>,
    /// Topic for them, which has to be there
    #[arg(long, value_name = "TOPIC", default_value = kafka::ALARMS, value_parser = kafka_topic, requires = "kafka", help_heading = "Correlator")]
    kafka_topic: String,
    /// What waits for Kafka is in this directory [default: kafka/TOPIC in $STATE_DIRECTORY or /var/lib/ringtap]
    #[arg(long, value_name = "DIR", requires = "kafka", help_heading = "Correlator")]
    kafka_spool: Option<PathBuf>,
    /// So much may wait there; what comes then is lost, and counted
    #[arg(long, value_name = "SIZE", default_value = words::size(kafka::SPOOL_SIZE), value_parser = kafka::spool_size(), requires = "kafka", help_heading = "Correlator")]
    kafka_spool_size: u64,
    /// Name by which the correlator knows this sensor: up to 32 of a-z, 0-9, '.', '_', '-'
    #[arg(long, value_name = "NAME", requires = "correlators", help_heading = "Correlator")]
    sensor_id: Option<SensorId>,
    /// File with the sensor's key, NUMBER:HEXDIGITS, readable for you alone
    #[arg(long, value_name = "FILE", requires = "correlators_elsewhere", help_heading = "Correlator")]
    key: Option<PathBuf>,
    /// File of the last epoch [default: NAME.epoch in $STATE_DIRECTORY or /var/lib/ringtap]
    #[arg(long, value_name = "FILE", requires = "correlators", help_heading = "Correlator")]
    epoch_file: Option<PathBuf>,
    /// Correlate the alerts in this process, by the Sigma rules in this folder or file: incidents go to standard output, or to
    /// standard error where that has events (docs/correlate.md). SIGHUP loads these rules again, too
    #[arg(long, value_name = "RULES", help_heading = "Correlator")]
    correlate: Option<PathBuf>,
    /// Keep incidents and the alerts that they rest on in this directory [default: nothing is kept]
    #[arg(long, value_name = "DIR", requires = "correlate", help_heading = "Correlator")]
    correlate_store: Option<PathBuf>,
    /// Memory for what the correlator remembers of keys, twice that while rules are loaded; beyond it the nearest to its expiry is forgotten
    #[arg(long, value_name = "SIZE", default_value = words::size(MEMORY), value_parser = correlate::memory(), requires = "correlate", help_heading = "Correlator")]
    correlate_memory: u64,
    /// The oldest part of the correlator's log goes when it is larger
    #[arg(long, value_name = "SIZE", default_value = words::size(LOG_SIZE), value_parser = correlate::log_size(), requires = "correlate_store", help_heading = "Correlator")]
    correlate_log_size: u64,
    /// Alerts of each engine that wait for the output thread, and as many other events, with 512 bytes each; more are lost, and counted
    #[arg(long, value_name = "N", default_value = "16384", value_parser = units::count, help_heading = "Outputs")]
    queue: u64,
    #[command(flatten)]
    places: PlacesArgs,
    /// Write statistics at this interval
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = units::duration, conflicts_with = "replay", help_heading = "Outputs")]
    stats: Duration,

    #[command(flatten)]
    pcap: PcapLogArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// Threads that handle each interface's packets, 1 to 64: those beyond its queues share out by flow what these receive, on the
    /// CPUs behind those of all queues [default: one for each queue]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..=64), help_heading = "Threads")]
    handlers: u8,
    #[command(flatten)]
    dpdk: DpdkArgs,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
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
  ringtap sensor -i eth1 -S my.rules --pcap-log alerts --pcap-file alerts.pcapng --pcap-rotate-size 1GiB --pcap-rotate-keep 24

SNMP notifications of alerts, traps or informs, are asked for in the file of --config, which then must be readable for you alone:
  [snmp]
  to = "192.0.2.9:162"
  inform = true                    # default: traps
  community = "public"             # v2c; or for v3:
  user = { name = "sensor", auth = "SHA-256", auth-password = "…", privacy = "AES", privacy-password = "…" }
  engine-id = "0x80000000…"        # of v3 traps [default: of this host and interface, always the same]
  oid = "1.3.6.1.4.1.32473.2"      # the default, below the enterprise for examples
The notification is OID.0.1; its objects are OID.1.N.0: 1 message, 2 sid, 3 gid, 4 rev, 5 severity, 6 source, 7 its port,
8 destination, 9 its port, 10 IP protocol, 11 microseconds since 1970, 12 number of the alert. OID.0.2 says that the sensor is being
blinded ([blinding] in the file has the bounds); its objects are OID.2.N.0: 1 message, 2 condition, 3 raised or not, 4 count, 5 of.

With --pcap-log alerts the packets of all flows stay in memory for the time of --pcap-keep. Those of flows that have had an alert by then
go to the file, and so do all that follow of these: each once, in the order of their coming, whole. Packets that were shed are not among
them. Of each engine 65,536 flows with alerts are remembered. The summary counts packets that were to be in the file and are not (the
disk is too slow or full), and packets that left the memory early, as it was too small for the time. SIGHUP begins a new file where the
one being written was moved away.

A correlator is told of each alert, with the packet's time, and ten times a second up to which time no alert will follow any more:
  (umask 077; echo "1:$(openssl rand -hex 32)" > north.key)
  ringtap sensor -i eth1 -S my.rules --sensor-id north --key north.key --alarm-lines tcp:192.0.2.9:5171
  ringtap sensor -i eth1 -S my.rules --sensor-id north --key north.key \
    --alarm-via eth2 --alarm-to 02:00:00:00:00:01@192.0.2.9:5171 --alarm-from 192.0.2.1:5514
Name, key and file of the epoch may stand in the file of --config, which then must be readable for you alone:
  [alarms]
  sensor-id = "north"
  key = "1:…"                      # its number, and 32 to 128 hexadecimal digits
  epoch-file = "/var/lib/ringtap/north.epoch"
Each start begins a new epoch, greater than the last one in that file, and so does a clock that is set.

Alerts are correlated in this process, and incidents told as they are found, without a key, a name or a second program:
  ringtap sensor -i eth1 -S my.rules --correlate rules/correlation --correlate-store /var/lib/ringtap-correlate
  ringtap sensor --replay old.pcap -S my.rules --correlate rules/correlation
  ringtap alarms list --incidents --all --store /var/lib/ringtap-correlate
Only alerts get there: rules about flows or log-ins need `ringtap correlate`, which takes those events. [correlate.webhook] in the file
of --config gets the incidents, too.

Of hosts whose system is known, the same file says whose bytes count (the smallest network that a receiver is in decides):
  [overlap]
  windows = ["192.0.2.0/24"]       # first, last, or a system of Suricata's host-os-policy: bsd, bsd-right, old-linux, linux,
  linux = ["192.0.2.7"]            # old-solaris, solaris, hpux10, hpux11, irix, macos, windows, vista, windows2k3

A rule with an option that is not supported is not used. The first ten are named with file, line and option at start, all of
them by --check-rules; --strict makes that an error. Where not one rule of the files can be used the sensor does not start; without -S it gives what needs no rules
(--events flow,anomaly,stats). --priority-rules should name addresses or ports that a flood can't all have: what a flood sends to them goes
first too. An alert that the output thread could not take in time is counted, as is one that could not be written."#;

/// What is asked for beside --check-rules.
const OF_CHECK: [&str; 7] = ["rules", "strict", "variables", "classification", "thresholds", "config", "json"];

/// Events of EVE.
const EVENTS: Words<Event> = &[
    ("alert", "Rules that matched", Event::Alert),
    ("flow", "Flows that ended", Event::Flow),
    ("stats", "Counters", Event::Stats),
    ("anomaly", "Packets with something wrong", Event::Anomaly),
    ("packet", "Packets after an alert whose rule has `tag`, their first 256 bytes", Event::Packet),
    ("http", "Requests of HTTP, with their responses", Event::Http),
    ("dns", "Queries and answers of DNS", Event::Dns),
    ("tls", "Handshakes of TLS", Event::Tls),
    ("ssh", "Banners of SSH", Event::Ssh),
    ("smtp", "Messages of SMTP", Event::Smtp),
    ("ftp", "Commands of FTP, with their replies", Event::Ftp),
    ("ftp_data", "Data connections of FTP that brought a file", Event::FtpData),
    ("fileinfo", "Files in HTTP, SMTP and FTP", Event::Fileinfo),
    ("netflow", "Flows that ended, each direction", Event::Netflow),
];

/// What EVE may have of an alert besides.
const WITH_ALERTS: Words<WithAlerts> = &[
    ("payload", "What it was found in, its last 4 KiB, in Base64", WithAlerts::Payload),
    ("payload_printable", "The same as text", WithAlerts::PayloadPrintable),
    ("packet", "The packet, in Base64", WithAlerts::Packet),
];

/// Runs the command.
///
/// # Errors
/// Wrong usage, rules that can't be read, or what could not be set up or went wrong.
pub fn run(args: Args) -> Result<ExitCode> {
    if !args.check_rules.is_empty() {
        return check(args);
    }
    if args.epoch_file.is_some() && !args.replay.is_empty() && args.alarm_lines.is_empty() && args.kafka.is_none() {
        let cause = "files promise nothing to the correlator in this process";
        return Err(Error::usage("use", "--epoch-file", cause).way_out("leave it out, or add --alarm-lines or --kafka"));
    }
    let json = args.json;
    let stdout_has_events = args.eve.as_deref() == Some("-".as_ref());
    let (rules, store, config) = (args.correlate.clone(), args.correlate_store.clone(), args.config.clone());
    let room = Room { memory: args.correlate_memory, log: args.correlate_log_size };
    let written = Arc::new(Mutex::new(Ok(())));
    let kept = Arc::clone(&written);
    let correlate = rules.map(|rules| {
        let heard: Show = Box::new(move |event: OfCorrelator<'_>| {
            let mut written = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = said::line(&event, json, false)
                && written.is_ok()
            {
                *written = put(&format!("{line}\n"), stdout_has_events);
            }
        });
        let open: OpenCorrelator = Box::new(move |store, name, is_live, process| {
            let asking = Asking { rules, store, config, room };
            let (beside, teller) = Beside::open(asking, heard, name, is_live, process)?;
            Ok((Box::new(beside), Box::new(teller)))
        });
        Correlate { store, open }
    });
    let done = sensor::run(&options(args)?, correlate)?;
    let text = if json { format!("{}\n", done.summary.object()) } else { harmless(&done.summary.text()) };
    tell(&text, stdout_has_events);
    let written = std::mem::replace(&mut *written.lock().unwrap_or_else(PoisonError::into_inner), Ok(()));
    done.failure.map_or_else(|| ended(written), Err)
}

/// `--check-rules`
fn check(args: Args) -> Result<ExitCode> {
    let json = args.json;
    let mut rules = RuleOptions { files: args.check_rules, variables: args.variables, ..RuleOptions::default() };
    (rules.strict, rules.classification, rules.thresholds) = (args.strict, args.classification, args.thresholds);
    rules.files.extend(args.rules);
    let check = sensor::check_rules(&rules, args.config.as_deref())?;
    for warning in check.warnings() {
        notes::warn(warning);
    }
    tell(&if json { format!("{}\n", check.object()) } else { harmless(&check.text()) }, false);
    Ok(if rules.strict && check.left_out() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// For a terminal: the words of rules are others'.
fn harmless(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

/// What the library is told.
///
/// # Errors
/// The configuration can't be read, or `[kafka]` in it makes no sense.
fn options(args: Args) -> Result<Options> {
    let target = |brokers| {
        let (topic, size) = (args.kafka_topic, args.kafka_spool_size);
        // The sensor puts its name there.
        kafka::target((brokers, topic), args.kafka_spool, size, String::new(), args.config.as_deref())
    };
    let to_kafka = args.kafka.map(target).transpose()?;
    let pcap_log = args.pcap.log()?;
    let input = if args.interface.is_empty() {
        Input::Files(args.replay)
    } else {
        let dpdk = args.dpdk.options();
        let live = |interface| Live { dpdk: dpdk.clone(), handlers: args.handlers.into(), ..args.live.live(interface) };
        Input::Interfaces(args.interface.into_iter().map(live).collect())
    };
    Ok(Options {
        rules: RuleOptions {
            files: args.rules,
            priority: args.priority_rules,
            strict: args.strict,
            reload_fewer: args.reload_fewer,
            variables: args.variables,
            classification: args.classification,
            thresholds: args.thresholds,
        },
        bounds: sensor::Bounds {
            budget: args.budget,
            flows: args.flows,
            overlap: args.overlap,
            http_layers: args.http_layers,
            midstream: args.midstream,
            no_checksums: args.no_checksums,
        },
        outputs: OutputOptions {
            eve: args.eve,
            eve_rotate: args.eve_rotate.map(|size| (size, args.eve_keep)),
            eve_socket: args.eve_socket,
            events: args.events,
            with_alerts: args.with_alerts,
            pcap_log,
            syslog: args.syslog,
            alarms: AlarmOptions {
                datagrams: args.alarm_to.zip(args.alarm_from).map(|(to, from)| Datagrams {
                    to,
                    from,
                    via: args.alarm_via,
                }),
                lines: args.alarm_lines,
                kafka: to_kafka,
                sensor_id: args.sensor_id,
                key: args.key,
                epoch_file: args.epoch_file,
            },
            queue: args.queue as usize,
            stats: args.stats,
        },
        config: args.config,
        places: args.places.into(),
        profile: args.profile,
        user: args.live.user,
        no_sandbox: args.live.no_sandbox,
        duration: args.duration,
        ..Options::new(input)
    })
}
