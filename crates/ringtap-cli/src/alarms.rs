//! `ringtap alarms`: what the stores of the management station and of the correlator hold, for people and programs.
//!
//! Owns the options. Answers are `ringtap_station::question`'s, about incidents `ringtap_correlator::question`'s.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_correlator::question::{self as incidents, Packets};
use ringtap_run::units;
use ringtap_station::alarm::Severity;
use ringtap_station::question as alarms;
use ringtap_station::store::Store;

use crate::correlate::ended;

/// List, show, clear and export alarms of the management station, and incidents of the correlator
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap alarms list --store /var/lib/ringtap-trap               what is raised
  ringtap alarms list --store DIR --all --json                    all, one JSON object a line
  ringtap alarms show 17 --store DIR --mibs /usr/share/snmp/mibs  one alarm and its notifications, with names
  ringtap alarms clear 17 --store DIR --by alice
  ringtap alarms export --store DIR > notifications.jsonl         every notification as it came
  ringtap alarms list --incidents --store /var/lib/ringtap-trap   what broke, where the station has a topology
  ringtap alarms show 5 --incidents --store /var/lib/ringtap-trap the tree of what explains what, and why
  ringtap alarms list --incidents --all --store ./incidents       what `ringtap correlate` found
  ringtap alarms show 3f2a --incidents --store ./incidents        the timeline of one incident
  ringtap alarms export 3f2a --incidents --store ./incidents --packets /var/rec -w 3f2a.pcapng   its packets")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Directory of the station's or correlator's store
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap", global = true)]
    store: PathBuf,
    /// Incidents instead of alarms: of `ringtap trap --topology`, or of `ringtap correlate`, whichever wrote the store
    #[arg(long, global = true)]
    incidents: bool,
    /// Directory with MIB files (may be given several times)
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "incidents")]
    mibs: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long, global = true)]
    json: bool,
    /// Show the notifications' bytes too; they hold the communities
    #[arg(long, global = true, conflicts_with = "incidents")]
    raw: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Alarms that are raised
    List {
        /// Cleared ones too
        #[arg(long)]
        all: bool,
        /// Only this severity and worse: indeterminate, warning, minor, major, critical; of incidents an informational level
        /// counts as the first, low as the second, and so on
        #[arg(long, value_name = "SEVERITY", value_parser = severity)]
        severity: Option<Severity>,
    },
    /// One alarm and its latest notifications
    Show {
        /// The alarm's number, or the beginning of an incident's id
        id: String,
        /// Notifications to show, from the first on [default: 100]
        #[arg(long, value_name = "N", value_parser = units::count)]
        count: Option<u64>,
    },
    /// Clear an alarm by hand; a running station does it within a second or so, which is waited for
    Clear {
        /// The alarm's number
        id: String,
        /// Who clears it [default: $USER]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Every notification, decoded, one JSON object a line; of incidents all with their members, or one with what they say
    Export {
        /// The beginning of one incident's id
        #[arg(requires = "incidents")]
        id: Option<String>,
        /// From this number on
        #[arg(long, value_name = "N", conflicts_with_all = ["id", "incidents"])]
        from: Option<u64>,
        /// The packets of the incident's members instead, as one pcapng: from the recordings (pcap, pcapng, also compressed) in
        /// these folders, of all sensors
        #[arg(long, value_name = "DIR", num_args = 1.., requires = "id")]
        packets: Vec<PathBuf>,
        /// Packets of a member's flow from so long before its first event to so long after its last
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, requires = "packets")]
        around: Duration,
        /// Write the pcapng to this file [default: standard output]
        #[arg(short, long, value_name = "FILE", requires = "packets")]
        write: Option<PathBuf>,
    },
}

/// The number of an alarm that something is to be done with.
fn number(operation: &str, id: &str, way_out: &str) -> Result<u64> {
    id.parse().map_err(|_| Error::usage(operation, format!("alarm {id}"), "that is no number").way_out(way_out))
}

/// How incidents close.
const CLOSES: &str = "it closes when its condition no longer holds; --keep of `ringtap correlate` forgets closed ones";

fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_name(text).ok_or_else(|| "give one of indeterminate, warning, minor, major, critical".to_owned())
}

/// Runs the command.
///
/// # Errors
/// There is no store, no such alarm or incident, or it can't be read or written.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    // Both keep incidents; which of them wrote the store is seen in it.
    let is_stations = Store::is_in(&args.store);
    let written = if args.incidents && is_stations {
        let shape = alarms::Shape { mibs: &[], json: args.json, raw: false };
        of_station(&args.command)?.answer(&args.store, shape, &mut out)?
    } else if args.incidents {
        about_incidents(&args.command)?.answer(&args.store, args.json, &mut out)?
    } else {
        let user = std::env::var("USER");
        let question = match &args.command {
            Command::List { all, severity } => alarms::Question::List { all: *all, least: *severity },
            Command::Show { id, count } => {
                let id = number("show", id, "`ringtap alarms list` has the numbers; --incidents shows incidents")?;
                alarms::Question::Show { id, count: count.unwrap_or(100) }
            }
            Command::Clear { id, by } => {
                let way_out = format!("`ringtap alarms list` has the numbers; if this is an incident, {CLOSES}");
                let operator = by.as_deref().or(user.as_deref().ok()).unwrap_or("unknown");
                alarms::Question::Clear { id: number("clear", id, &way_out)?, operator }
            }
            Command::Export { from, .. } => alarms::Question::Export(from.unwrap_or(0)),
        };
        let shape = alarms::Shape { mibs: &args.mibs, json: args.json, raw: args.raw };
        question.answer(&args.store, shape, &mut out)?
    };
    ended(written.and_then(|()| out.flush()))
}

/// Incidents of root cause.
fn of_station(command: &Command) -> Result<alarms::Question<'_>> {
    let refused = |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
    Ok(match command {
        Command::List { all, severity } => alarms::Question::Incidents { all: *all, least: *severity },
        Command::Show { id, count: None } => alarms::Question::Incident(id),
        Command::Show { .. } => {
            return refused(
                "--count",
                "an incident is shown with all its alarms",
                "leave it out; `| head` shows the first",
            );
        }
        Command::Export { packets, .. } if !packets.is_empty() => {
            return refused("--packets", "incidents of the station are of alarms, not of flows", "leave it out");
        }
        Command::Export { id, .. } => alarms::Question::ExportIncidents(id.as_deref()),
        Command::Clear { .. } => {
            let way_out = "clear its alarms with `ringtap alarms clear`; it is over when they are";
            return refused("clear", "nobody closes an incident by hand", way_out);
        }
    })
}

fn about_incidents(command: &Command) -> Result<incidents::Question<'_>> {
    Ok(match command {
        Command::List { all, severity } => incidents::Question::List { all: *all, least: *severity },
        Command::Show { id, count: None } => incidents::Question::Show(id),
        Command::Show { .. } => {
            return Err(Error::usage("use", "--count", "an incident is shown with all its members")
                .way_out("leave it out; `| head` shows the first"));
        }
        Command::Export { id: None, .. } => incidents::Question::Export,
        Command::Export { id: Some(id), packets, .. } if packets.is_empty() => incidents::Question::ExportOne(id),
        Command::Export { id: Some(id), packets, around, write, .. } => {
            let around_ns = i64::try_from(around.as_nanos()).unwrap_or(i64::MAX);
            incidents::Question::Packets(Packets { id, places: packets, around_ns, write: write.as_deref() })
        }
        Command::Clear { id, .. } => {
            return Err(Error::usage("clear", format!("incident {id}"), "nobody closes it by hand").way_out(CLOSES));
        }
    })
}
