//! `ringtap alarms`: what the stores of the management station and of the correlator hold, for people and programs.
//!
//! Owns the options and what is said beside the lists, which are `ringtap_station::listing`'s; those of incidents are
//! `correlate`'s.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ringtap::{Error, Result};
use ringtap_run::units;
use ringtap_snmp::names::Names;
use ringtap_station::alarm::Severity;
use ringtap_station::listing::{self, ClearedBy, Form};
use ringtap_station::mibs;
use ringtap_station::store::Store;

use crate::correlate::{self, Question};

/// List, show, clear and export alarms of the management station, and incidents of the correlator
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ringtap alarms list --store /var/lib/ringtap-trap               what is raised
  ringtap alarms list --store DIR --all --json                    all, one JSON object a line
  ringtap alarms show 17 --store DIR --mibs /usr/share/snmp/mibs  one alarm and its notifications, with names
  ringtap alarms clear 17 --store DIR --by alice
  ringtap alarms export --store DIR > notifications.jsonl         every notification as it came
  ringtap alarms list --incidents --all --store ./incidents       what `ringtap correlate` found
  ringtap alarms show 3f2a --incidents --store ./incidents        the timeline of one incident")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Directory of the station's or correlator's store
    #[arg(long, value_name = "DIR", default_value = "ringtap-trap", global = true)]
    store: PathBuf,
    /// Incidents of `ringtap correlate --store DIR` instead of alarms
    #[arg(long, global = true)]
    incidents: bool,
    /// Directory with MIB files (may be given several times)
    #[arg(long, value_name = "DIR", global = true)]
    mibs: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long, global = true)]
    json: bool,
    /// Show the notifications' bytes too; they hold the communities
    #[arg(long, global = true)]
    raw: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Alarms that are raised
    List {
        /// Cleared ones too
        #[arg(long)]
        all: bool,
        /// Only this severity and worse: indeterminate, warning, minor, major, critical
        #[arg(long, value_name = "SEVERITY", value_parser = severity)]
        severity: Option<Severity>,
    },
    /// One alarm and its latest notifications
    Show {
        /// The alarm's number, or the beginning of an incident's id
        id: String,
        /// Notifications to show, from the first on
        #[arg(long, value_name = "N", default_value = "100", value_parser = units::count)]
        count: u64,
    },
    /// Clear an alarm by hand; a running station does it within a second or so, which is waited for
    Clear {
        /// The alarm's number
        id: u64,
        /// Who clears it [default: $USER]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Every notification, decoded, one JSON object a line
    Export {
        /// From this number on
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
    },
}

fn number(id: &str) -> Result<u64> {
    id.parse().map_err(|_| {
        Error::usage("show", format!("alarm {id}"), "that is no number")
            .way_out("--incidents shows those of the correlator")
    })
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_name(text).ok_or_else(|| "give one of indeterminate, warning, minor, major, critical".to_owned())
}

/// Runs the command.
///
/// # Errors
/// There is no store, no such alarm, or it can't be read or written.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.incidents {
        let question = match &args.command {
            Command::List { all, .. } => Question::List(*all),
            Command::Show { id, .. } => Question::Show(id),
            Command::Export { .. } => Question::Export,
            Command::Clear { .. } => {
                return Err(Error::usage("clear", "an incident", "it closes when its condition no longer holds"));
            }
        };
        return correlate::answer(question, &args.store, args.json);
    }
    let names = if args.mibs.is_empty() { Names::default() } else { mibs::load(&args.mibs, None)? };
    for warning in names.warnings() {
        eprintln!("ringtap: {warning}");
    }
    let store = Store::open_beside(&args.store)?;
    let form = Form { names: &names, json: args.json, raw: args.raw };
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match &args.command {
        Command::List { all, severity } => {
            let mut alarms = store.alarms()?;
            alarms.retain(|alarm| (*all || !alarm.cleared) && severity.is_none_or(|least| alarm.severity >= least));
            if alarms.is_empty() && !args.json {
                eprintln!("ringtap: there are none");
            }
            listing::list(&mut out, alarms.iter(), &names, args.json)
        }
        Command::Show { id, count } => listing::show(&mut out, &store, number(id)?, *count, form)?,
        Command::Clear { id, by } => {
            let operator = by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "unknown".to_owned());
            match listing::clear(&args.store, &store, *id, &operator)? {
                ClearedBy::Station => eprintln!("ringtap: alarm {id} is cleared, by the running station"),
                ClearedBy::Us => eprintln!("ringtap: alarm {id} is cleared"),
            }
            Ok(())
        }
        Command::Export { from } => listing::export(&mut out, &store, *from, form)?,
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::os("write to", "standard output", &error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
