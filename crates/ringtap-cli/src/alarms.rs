//! `ringtap alarms`: what the stores of the management station and of the correlator hold, for people and programs.
//!
//! Owns the options. Answers are `ringtap_station::question`'s, about incidents `ringtap_correlator::question`'s.

mod filter;
mod maintenance;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_correlator::question::{self as incidents, Packets};
use ringtap_run::units;
use ringtap_station::act::Act;
use ringtap_station::operations::{Operation, Which};
use ringtap_station::question as alarms;
use ringtap_station::question::Question::Operate;
use ringtap_station::store::Store;

use filter::FilterArgs;

use crate::correlate::ended;

/// List, show, clear, acknowledge and export alarms of the management station, maintenance, and incidents of the correlator
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap alarms list --store /var/lib/ringtap-trap               what is raised
  ringtap alarms list --store DIR --all --json                    all, one JSON object a line
  ringtap alarms show 17 --store DIR --mibs /usr/share/snmp/mibs  one alarm and its notifications, with names
  ringtap alarms clear 17 --store DIR --by alice
  ringtap alarms clear --store DIR --node 'lab-*' --quiet-for 24h --dry-run   which of the laboratory nobody told of for a day
  ringtap alarms ack 17 --store DIR --by alice --comment 'cable is on its way'
  ringtap alarms maintenance add --store DIR --node core1 --for 2h --comment 'new software'
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
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// One alarm, what operators did with it, and its latest notifications
    Show {
        /// The alarm's number, or the beginning of an incident's id
        id: String,
        /// Notifications to show, from the first on [default: 100]
        #[arg(long, value_name = "N", value_parser = units::count)]
        count: Option<u64>,
    },
    /// Clear alarms by hand; a running station does it within a second or so, which is waited for
    Clear(OperateArgs),
    /// Say that somebody takes care of alarms, until they are over, raised again or worse
    Ack {
        /// Nobody does any more
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        operation: OperateArgs,
    },
    /// Write a remark about alarms; `alarms show` has all
    Comment(OperateArgs),
    /// Windows in which alarms are stored and not announced
    Maintenance {
        #[command(subcommand)]
        command: maintenance::Command,
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

/// What an operator does with some alarms.
#[derive(Debug, clap::Args)]
struct OperateArgs {
    /// The alarms' numbers; without one, those that the options say
    id: Vec<String>,
    /// Who does it [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Say which alarms are meant, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// The number of an alarm that something is to be done with.
fn number(operation: &str, id: &str, way_out: &str) -> Result<u64> {
    id.parse().map_err(|_| Error::usage(operation, format!("alarm {id}"), "that is no number").way_out(way_out))
}

/// How incidents close.
const CLOSES: &str = "it closes when its condition no longer holds; --keep of `ringtap correlate` forgets closed ones";

/// Runs the command.
///
/// # Errors
/// There is no store, no such alarm or incident, or it can't be read or written.
pub fn run(args: Args) -> Result<ExitCode> {
    refuse_idle(&args)?;
    let mut out = BufWriter::new(io::stdout().lock());
    // Both keep incidents; which of them wrote the store is seen in it.
    let is_stations = Store::is_in(&args.store);
    let written = if args.incidents && is_stations {
        let shape = alarms::Shape { mibs: &[], json: args.json, raw: false };
        of_station(&args.command)?.answer(&args.store, shape, &mut out)?
    } else if args.incidents {
        about_incidents(&args.command)?.answer(&args.store, args.json, &mut out)?
    } else {
        about_alarms(&args, &mut out)?
    };
    ended(written.and_then(|()| out.flush()))
}

/// Refuses options that would do nothing.
fn refuse_idle(args: &Args) -> Result<()> {
    let (name, takes_json, takes_raw, takes_mibs) = match &args.command {
        Command::List { .. } => ("list", true, false, true),
        Command::Show { .. } => ("show", true, true, true),
        Command::Export { .. } => ("export", false, true, true),
        Command::Clear(operation) => ("clear", false, false, operation.id.is_empty()),
        Command::Ack { operation, .. } => ("ack", false, false, operation.id.is_empty()),
        Command::Comment(operation) => ("comment", false, false, operation.id.is_empty()),
        Command::Maintenance { command } => {
            ("maintenance", matches!(command, maintenance::Command::List { .. }), false, false)
        }
    };
    let refused = |option: &str, cause: &str, way_out: &str| {
        Err(Error::usage("use", format!("{option} with `alarms {name}`"), cause).way_out(way_out))
    };
    match name {
        "export" if args.json => refused("--json", "its lines are JSON without it", "leave it out"),
        _ if args.json && !takes_json => refused("--json", "it prints no list", "leave it out"),
        _ if args.raw && !takes_raw => refused(
            "--raw",
            "no notifications are shown",
            "`ringtap alarms show ID --raw` shows an alarm's with their bytes",
        ),
        _ if !args.mibs.is_empty() && !takes_mibs => refused("--mibs", "no names are looked up", "leave it out"),
        _ => Ok(()),
    }
}

/// Answers from a station's store.
fn about_alarms(args: &Args, out: &mut impl Write) -> Result<io::Result<()>> {
    let user = std::env::var("USER");
    let me = user.as_deref().unwrap_or("unknown");
    let shape = alarms::Shape { mibs: &args.mibs, json: args.json, raw: args.raw };
    let mut answer = |question: alarms::Question<'_>| question.answer(&args.store, shape, out);
    match &args.command {
        Command::List { all, filter } => answer(alarms::Question::List(&filter.filter(*all))),
        Command::Show { id, count } => {
            let id = number("show", id, "`ringtap alarms list` has the numbers; --incidents shows incidents")?;
            answer(alarms::Question::Show { id, count: count.unwrap_or(100) })
        }
        Command::Clear(operation) => operation.with("clear", Act::Cleared, me, |it| answer(Operate(it))),
        Command::Ack { operation, undo } => {
            let act = if *undo { Act::Unacknowledged } else { Act::Acknowledged };
            operation.with("acknowledge", act, me, |it| answer(Operate(it)))
        }
        Command::Comment(operation) => {
            if operation.comment.is_none() {
                return Err(Error::usage("comment", "alarms", "there is no text").way_out("give it with --comment"));
            }
            operation.with("comment", Act::Commented, me, |it| answer(Operate(it)))
        }
        Command::Maintenance { command } => match command {
            maintenance::Command::Add(window) => answer(alarms::Question::AddWindow(&window.window(me)?)),
            maintenance::Command::List { all } => answer(alarms::Question::Windows { all: *all }),
            maintenance::Command::End { id, by } => {
                answer(alarms::Question::EndWindow { id: *id, operator: by.as_deref().unwrap_or(me) })
            }
        },
        Command::Export { from, .. } => answer(alarms::Question::Export(from.unwrap_or(0))),
    }
}

impl OperateArgs {
    /// Hands on what they mean.
    fn with<T>(&self, name: &str, act: Act, me: &str, hand_on: impl FnOnce(Operation<'_>) -> Result<T>) -> Result<T> {
        let filter = self.filter.filter(false);
        let refused =
            |object: &str, cause: &str, way_out: &str| Err(Error::usage(name, object, cause).way_out(way_out));
        match (self.id.is_empty(), filter.is_narrow()) {
            (true, false) => {
                return refused(
                    "alarms",
                    "it is not said which",
                    "give their numbers, or options such as --node or --severity",
                );
            }
            (false, true) => {
                return refused("alarms", "both numbers and options say which", "leave one of them out");
            }
            _ => {}
        }
        let way_out = format!("`ringtap alarms list` has the numbers; if this is an incident, {CLOSES}");
        let ids = self.id.iter().map(|id| number(name, id, &way_out)).collect::<Result<Vec<u64>>>()?;
        let which = if ids.is_empty() { Which::Such(&filter) } else { Which::These(&ids) };
        let (operator, comment) = (self.by.as_deref().unwrap_or(me), self.comment.as_deref());
        hand_on(Operation { which, act, operator, comment, is_trial: self.dry_run })
    }
}

/// Incidents of root cause.
fn of_station(command: &Command) -> Result<alarms::Question<'_>> {
    let refused = |option: &str, cause: &str, way_out: &str| Err(Error::usage("use", option, cause).way_out(way_out));
    Ok(match command {
        Command::List { filter, .. } if filter.is_of_alarms() => return refused_filter(),
        Command::List { all, filter } => alarms::Question::Incidents { all: *all, least: filter.severity },
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
        Command::Clear(_) => {
            let way_out = "clear its alarms with `ringtap alarms clear`; it is over when they are";
            return refused("clear", "nobody closes an incident by hand", way_out);
        }
        Command::Ack { .. } | Command::Comment(_) | Command::Maintenance { .. } => return refused_incidents(),
    })
}

fn refused_filter<T>() -> Result<T> {
    Err(Error::usage("use", "--incidents", "only --severity chooses among incidents")
        .way_out("leave the other options out"))
}

fn refused_incidents<T>() -> Result<T> {
    let way_out =
        "leave --incidents out, and name the incident's alarms: `ringtap alarms show ID --incidents` has them";
    Err(Error::usage("use", "--incidents", "that is done with alarms").way_out(way_out))
}

fn about_incidents(command: &Command) -> Result<incidents::Question<'_>> {
    Ok(match command {
        Command::List { filter, .. } if filter.is_of_alarms() => return refused_filter(),
        Command::List { all, filter } => incidents::Question::List { all: *all, least: filter.severity },
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
        Command::Clear(operation) => {
            let id = operation.id.first().map_or("", String::as_str);
            return Err(Error::usage("clear", format!("incident {id}"), "nobody closes it by hand").way_out(CLOSES));
        }
        Command::Ack { .. } | Command::Comment(_) | Command::Maintenance { .. } => return refused_incidents(),
    })
}
